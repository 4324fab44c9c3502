"""JSON API: the same objects as `ctd-jax ask --json`, described by OpenAPI."""

import dataclasses
import importlib.resources
import json
from typing import Annotated, Any, Literal

import msgspec
import pydantic
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from ctd_jax.index import asking, charts, matches
from ctd_jax.index.answers import SCHEMA_VERSION, to_json
from ctd_jax.index.question_calendar import PASSAGE
from ctd_jax.web import (
  month_page,
  queries,
  record_page,
  rendering,
  timeline,
)
from ctd_jax.web.requests import endpoint, settings_of
from ctd_jax.web.served_index import ServedIndex

DESCRIPTION_PATH = "/api/openapi.json"
_MAX_K = 200
_MAX_OFFSET = 1_000_000
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
  offset: int = pydantic.Field(
    0, ge=0, le=_MAX_OFFSET, description="Records on the pages before"
  )
  sort: Literal["", *matches.SORTS] = pydantic.Field(
    "", description="time or relevance; as the question needs if empty"
  )
  near: bool = pydantic.Field(
    False, description="Whether records with parts of the words are added"
  )
  group: Literal["", *matches.GROUPS] = pydantic.Field(
    "", description="event, to put records of one event beside each other"
  )
  p: float = pydantic.Field(
    matches.MIN_PROBABILITY, ge=0, le=1, description="Least probability"
  )
  why: bool = pydantic.Field(
    False, description="Whether reasons are worked out that take 30 ms each"
  )


class TimelineRequest(pydantic.BaseModel):
  """Parameters of a timeline; those of the search page work too."""

  # The first four are for the description of the API: `parse_query` reads them.
  q: str = ""
  intent: str = ""
  work: list[str] | None = None
  kind: list[str] | None = None
  first: int | None = pydantic.Field(None, ge=0)
  last: int | None = pydantic.Field(None, ge=0)
  unit: str = ""


def load_answer_schema() -> dict[str, Any]:
  """Returns the JSON Schema of an answer, with references resolved."""
  path = importlib.resources.files("ctd_jax") / "index/answer.schema.json"
  schema = json.loads(path.read_text(encoding="utf-8"))
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


_ANSWER = {
  200: {
    "description": "The answer, as `ctd-jax ask --json` prints it",
    "content": {"application/json": {"schema": load_answer_schema()}},
  },
  422: {"description": "It cannot be read; `error.detail` says why"},
  429: {"description": "Too many requests"},
  503: {"description": "It took too long"},
}


@router.get("/api/ask", summary="Ask", responses=_ANSWER)
@endpoint
def ask_by_address(
  request: Request, served: ServedIndex, ask: Annotated[AskRequest, Query()]
) -> Response:
  """Returns records for a time or words, or the date of a passage."""
  return _answer(request, served, ask)


@router.post(
  "/api/ask", summary="Ask, also of a long passage", responses=_ANSWER
)
@endpoint
def ask_by_body(
  request: Request, served: ServedIndex, ask: AskRequest
) -> Response:
  """Returns the same, for questions too long for an address."""
  return _answer(request, served, ask)


def _answer(request: Request, served: ServedIndex, ask: AskRequest) -> Response:
  query = queries.parse_query(
    {"q": ask.q, "intent": ask.intent}, settings_of(request).max_question
  )
  question = served.index.question_reader.read(ask.q, query.intent or None)
  queries.check_names(served, ask.work, ask.kind)
  if question.intent == PASSAGE:
    answer = record_page.date_passage(served, question.passage)
    return JSONResponse(answer.to_dict())
  scope = matches.SearchScope(
    k=ask.k,
    offset=ask.offset,
    sort=ask.sort or None,
    near=ask.near,
    group=ask.group or None,
    works=ask.work or None,
    kinds=ask.kind or None,
    min_probability=ask.p,
    why=ask.why,
  )
  answer = asking.find_records(served.index, question, scope)
  return JSONResponse(answer.to_dict())


@router.get("/api/records/{row:int}", summary="A record of a row")
@endpoint
def read_row(request: Request, served: ServedIndex, row: int) -> Response:
  """Returns the record in a row, with its date and reasons.

  Rows change with every build of the index; see `/api/records/{path}`.
  """
  return _respond(served, to_json(record_page.read_record(served, row)))


@router.get("/api/records/{path:path}", summary="A record of a work")
@endpoint
def read_record(request: Request, served: ServedIndex, path: str) -> Response:
  """Returns the record at WORK/RECORD_ID, a permanent address."""
  row = record_page.find_row(served, path)
  return _respond(served, to_json(record_page.read_record(served, row)))


@router.get("/api/months/{ordinal}", summary="A month")
@endpoint
def read_month(request: Request, served: ServedIndex, ordinal: int) -> Response:
  """Returns a month's records by event, its days, and works without any."""
  month_page.check_month(served, ordinal)
  month = month_page.recall_month(served, ordinal)
  return _respond(served, msgspec.to_builtins(month))


@router.get("/api/timeline", summary="Records by time")
@endpoint
def read_timeline(
  request: Request,
  served: ServedIndex,
  asked: Annotated[TimelineRequest, Query()],
) -> Response:
  """Returns the expected number of records, and of matches, over time.

  `first` and `last` are month ordinals; `unit` is month, year, decade or
  century. The page's parameters `from`, `to` and `words` work too.
  """
  return _respond(
    served, dataclasses.asdict(_find_times(request, served, asked))
  )


@router.get("/timeline", include_in_schema=False)
@endpoint
def draw_timeline(
  request: Request,
  served: ServedIndex,
  asked: Annotated[TimelineRequest, Query()],
) -> Response:
  """Returns a stretch of the timeline of a page, drawn."""
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  chart = timeline.draw_timeline(
    served,
    _find_times(request, served, asked),
    query,
    rendering.PageLinks(request),
    rendering.find_language(request),
    charts.WIDE if query.is_empty else charts.NARROW,
  )
  return HTMLResponse(chart)


def _find_times(
  request: Request, served: ServedIndex, asked: TimelineRequest
) -> queries.TimelineBars:
  """Returns the bars of a timeline request."""
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  if asked.unit and asked.unit not in queries.UNITS:
    queries.refuse("unit", asked.unit, ", ".join(queries.UNITS))
  end = len(served.index.calendar) - 1
  window = None
  if (asked.first, asked.last) != (None, None):
    last = end if asked.last is None else asked.last
    window = min(asked.first or 0, end), min(last, end)
    if window[0] > window[1]:
      queries.refuse("first", str(asked.first), f"≤ last={asked.last}")
  resolved = found = None
  if not query.is_empty:
    resolved = queries.resolve_query(served, query)
    found = matches.find_matches(served.index, resolved.question, query.scope)
  return queries.make_timeline(
    served, resolved, found, window, asked.unit or None
  )


@router.get("/api/index", summary="Works and versions")
@endpoint
def read_index(request: Request, served: ServedIndex) -> Response:
  """Returns the works of the index and the versions of everything."""
  works = [
    {
      "name": work.name,
      "title": work.title,
      "records": work.num_records,
      "first_row": work.first_row,
      "dated_by": work.dated_by,
      "months": served.coverage.get(work.work_id),
    }
    for work in served.index.works
  ]
  content = {
    "works": works,
    "kinds": list(served.index.kinds),
    "months": len(served.index.calendar),
  }
  return _respond(served, content)


def _respond(served: ServedIndex, content: dict[str, Any]) -> Response:
  versions = {
    "schema_version": SCHEMA_VERSION,
    "versions": msgspec.to_builtins(served.index.versions),
  }
  return JSONResponse(content | versions)


@router.get("/api/docs", include_in_schema=False)
async def show_description(request: Request) -> Response:
  """Returns the page that documents the API."""
  description = request.app.openapi()
  return HTMLResponse(
    rendering.render_plain(
      request,
      "api.html",
      description=description,
      find_body=_find_body,
    )
  )


def _find_body(
  description: dict[str, Any], operation: dict[str, Any]
) -> dict[str, Any]:
  """Returns the fields of the body that an operation of the API takes."""
  content = operation.get("requestBody", {}).get("content", {})
  schema = content.get("application/json", {}).get("schema", {})
  name = schema.get("$ref", "").rpartition("/")[2]
  schemas = description.get("components", {}).get("schemas", {})
  return schemas.get(name, schema).get("properties", {})
