"""JSON API: the same objects as `ctd-jax ask --json`, described by OpenAPI."""

import contextlib
import functools
import importlib.resources
import json
from typing import Annotated, Any

import msgspec
import pydantic
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from ctd_jax.index import asking
from ctd_jax.index.answers import SCHEMA_VERSION, Answer, to_json
from ctd_jax.index.question_calendar import PASSAGE
from ctd_jax.web import month_page, queries, record_page, rendering
from ctd_jax.web.queries import PageQuery
from ctd_jax.web.requests import answer_in_time, index_of, settings_of
from ctd_jax.web.served_index import ServedIndex

DESCRIPTION_PATH = "/api/openapi.json"
_MAX_K = 200
_MAX_BARS = 5000
router = APIRouter(tags=["index"])


class AskRequest(pydantic.BaseModel):
  """A question."""

  model_config = pydantic.ConfigDict(extra="forbid")

  q: str = pydantic.Field(
    description="A time, words, both, or a passage to be dated."
  )
  intent: str = pydantic.Field(
    "", description="time, words or passage; read from the question if empty"
  )
  work: list[str] = pydantic.Field([], description="Works to look in; all")
  kind: list[str] = pydantic.Field(
    [], description="Kinds of records; all but headings"
  )
  k: int = pydantic.Field(10, ge=1, le=_MAX_K, description="Records")
  skip: int = pydantic.Field(
    0, ge=0, le=1000, description="Of the best records, how many are left out"
  )
  p: float = pydantic.Field(
    asking.MIN_PROBABILITY, ge=0, le=1, description="Least probability"
  )
  why: bool = pydantic.Field(
    False, description="Whether reasons are worked out that take 30 ms each"
  )


def _describe_answer(title: str) -> dict[int | str, dict[str, Any]]:
  return {
    200: {
      "description": title,
      "content": {"application/json": {"schema": load_answer_schema()}},
    },
    422: {"description": "It cannot be read; `error.detail` says why"},
    429: {"description": "Too many requests"},
    503: {"description": "It took too long"},
  }


@functools.cache
def load_answer_schema() -> dict[str, Any]:
  """Returns the JSON Schema of an answer, with references resolved."""
  text = (
    importlib.resources.files("ctd_jax")
    .joinpath("index/answer.schema.json")
    .read_text(encoding="utf-8")
  )
  schema = json.loads(text)
  definitions = schema.pop("$defs", {})
  for name in ("$schema", "$id"):
    schema.pop(name, None)

  def resolve(node: Any) -> Any:
    if isinstance(node, dict):
      reference = node.get("$ref", "")
      if reference.startswith("#/$defs/"):
        return resolve(definitions[reference.removeprefix("#/$defs/")])
      return {name: resolve(value) for name, value in node.items()}
    return [resolve(item) for item in node] if isinstance(node, list) else node

  return resolve(schema)


_ANSWER = _describe_answer("The answer, as `ctd-jax ask --json` prints it")


@router.get("/api/ask", summary="Ask", responses=_ANSWER)
async def ask_by_address(
  request: Request, ask: Annotated[AskRequest, Query()]
) -> Response:
  """Returns records for a time or words, or the date of a passage."""
  return await _ask(request, ask)


@router.post(
  "/api/ask", summary="Ask, also of a long passage", responses=_ANSWER
)
async def ask_by_body(request: Request, ask: AskRequest) -> Response:
  """Returns the same, for questions too long for an address."""
  return await _ask(request, ask)


async def _ask(request: Request, ask: AskRequest) -> Response:
  values = ask.model_dump()
  query = queries.parse_query(
    {"q": values["q"], "intent": values["intent"]},
    settings_of(request).max_question,
  )
  answer = await answer_in_time(
    request, _make_answer, index_of(request), query, ask
  )
  return _respond(answer.to_dict())


def _make_answer(
  served: ServedIndex, query: PageQuery, ask: AskRequest
) -> Answer:
  question = asking.read_question(served.index, ask.q, query.intent or None)
  queries.check_names(served, ask.work, ask.kind)
  if question.intent == PASSAGE:
    return record_page.date_passage(served, question.passage)
  scope = asking.SearchScope(
    k=ask.k,
    skip=ask.skip,
    works=ask.work or None,
    kinds=ask.kind or None,
    min_probability=ask.p,
    why=ask.why,
  )
  # Explaining reads records as passages, which one thread at a time can do.
  lock = served.passage_lock if ask.why else contextlib.nullcontext()
  with lock:
    return asking.find_records(served.index, question, scope)


@router.get("/api/records/{row:int}", summary="A record of a row")
async def read_row(request: Request, row: int) -> Response:
  """Returns the record in a row, with its date and reasons.

  Rows change with every build of the index; see `/api/records/{path}`.
  """
  return _respond(await answer_in_time(request, _make_record, request, row))


@router.get("/api/records/{path:path}", summary="A record of a work")
async def read_record(request: Request, path: str) -> Response:
  """Returns the record at WORK/RECORD_ID, a permanent address."""

  def make() -> dict[str, Any]:
    row = record_page.find_row(index_of(request), path)
    return _make_record(request, row)

  return _respond(await answer_in_time(request, make))


def _make_record(request: Request, row: int) -> dict[str, Any]:
  served = index_of(request)
  record = record_page.read_record(served, row)
  return to_json(record) | _describe_versions(served)


@router.get("/api/months/{ordinal}", summary="A month")
async def read_month(request: Request, ordinal: int) -> Response:
  """Returns a month's records by event, its days, and works without any."""

  def make() -> dict[str, Any]:
    served = index_of(request)
    month_page.check_month(served, ordinal)
    month = month_page.recall_month(served, ordinal)
    return msgspec.to_builtins(month) | _describe_versions(served)

  return _respond(await answer_in_time(request, make))


@router.get("/api/timeline", summary="Records by time")
async def read_timeline(
  request: Request,
  q: str = "",
  intent: str = "",
  work: Annotated[list[str] | None, Query()] = None,
  kind: Annotated[list[str] | None, Query()] = None,
  first: Annotated[int | None, Query(ge=0)] = None,
  last: Annotated[int | None, Query(ge=0)] = None,
  unit: str = "",
) -> Response:
  """Returns the expected number of records, and of matches, over time.

  `first` and `last` are month ordinals; `unit` is month, year, decade or
  century. The page's parameters `from`, `to` and `words` work as well.
  """
  del q, intent, work, kind  # read with the rest of the address
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  if unit and unit not in queries.UNITS:
    queries.refuse("unit", unit, ", ".join(queries.UNITS))

  def make() -> dict[str, Any]:
    served = index_of(request)
    end = len(served.index.calendar) - 1
    window = None
    if first is not None or last is not None:
      window = min(first or 0, end), min(end if last is None else last, end)
      if window[0] > window[1]:
        queries.refuse("first", str(first), f"≤ last={last}")
    resolved = matches = None
    if not query.is_empty:
      resolved = queries.resolve_query(served, query)
      ranked = queries.rank_matches(served, resolved, queries.PAGE_SIZE)
      matches = queries.select_matches(served, resolved, ranked)
    times = queries.make_timeline(
      served, resolved, matches, window, unit or None
    )
    return times.to_dict() | _describe_versions(served)

  return _respond(await answer_in_time(request, make))


@router.get("/api/index", summary="Works and versions")
async def read_index(request: Request) -> Response:
  """Returns the works of the index and the versions of everything."""

  def make() -> dict[str, Any]:
    served = index_of(request)
    return {
      "works": [
        {
          "name": work.name,
          "title": work.title,
          "records": work.num_records,
          "first_row": work.first_row,
          "dated_by": work.dated_by,
          "months": served.coverage.get(work.work_id),
        }
        for work in served.index.works
      ],
      "kinds": list(served.index.kinds),
      "months": len(served.index.calendar),
    } | _describe_versions(served)

  return _respond(await answer_in_time(request, make))


def _describe_versions(served: ServedIndex) -> dict[str, Any]:
  return {
    "schema_version": SCHEMA_VERSION,
    "versions": msgspec.to_builtins(served.index.versions),
  }


def _respond(content: Any) -> Response:
  return JSONResponse(content)


@router.get("/api/docs", include_in_schema=False)
async def show_description(request: Request) -> Response:
  """Returns the page that documents the API."""
  return HTMLResponse(rendering.render_plain(request, "api.html"))
