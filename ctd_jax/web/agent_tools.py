"""Tools of an index for agents, by the Model Context Protocol (MCP).

Answers are short: a record has its text, place, date, certainty and reasons in
words, and an id that stays the same. They are for a model to read and to cite.
"""

from __future__ import annotations

import functools
import http
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pydantic
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from starlette.applications import Starlette

from ctd_jax.chronology import date_readings
from ctd_jax.chronology.era_calendars import ALL_POLITIES
from ctd_jax.chronology.numerals import DateError
from ctd_jax.index import answers, asking, database, matches, record_answers
from ctd_jax.index.answers import AnswerRecord, PassageDate, RecordDate, Span
from ctd_jax.index.question_calendar import PASSAGE, WORDS, QuestionError
from ctd_jax.utils import notes
from ctd_jax.web import (
  certainty,
  month_page,
  queries,
  record_page,
  rendering,
  requests,
  security,
  served_index,
)
from ctd_jax.web.requests import AnswerThreads, BusyError, PageError
from ctd_jax.web.served_index import IndexHolder, NoIndexError, ServedIndex
from ctd_jax.web.settings import WebSettings

PATH = "/mcp"
_MAX_WAITING = 256  # calls
_MAX_RECORDS = 50  # in one answer
_MAX_SHOWN = 300  # characters of a record in a list
_MAX_REASONS = 3
# Note on a place in a question, which the agent knows.
_AT_PLACE = "problem.date.at"
_MAX_TIMES = 6  # named of those a question means
_MAX_WORKS = 20  # named in the instructions
_Limit = Annotated[int, pydantic.Field(ge=1, le=_MAX_RECORDS)]
_Offset = Annotated[int, pydantic.Field(ge=0, le=100_000)]


class Part(pydantic.BaseModel):
  """A part of an answer; empty fields are left out."""

  model_config = pydantic.ConfigDict(extra="forbid")


class Record(Part):
  """A record of a work."""

  id: str = pydantic.Field(description="For `read_record`; stays the same")
  work: str
  text: str
  place: str = pydantic.Field("", description="Where it is printed")
  date: str = pydantic.Field(
    "", description="Month, year or years: no finer than it is sure"
  )
  common_era: str = ""
  certainty: str = pydantic.Field("", description="Of the date, in words")
  probability: float | None = pydantic.Field(
    None, description="Of the most probable month"
  )
  cut: int = pydantic.Field(
    0, description="Characters that are left out here; `read_record` has all"
  )
  reasons: list[str] = []


class Found(Part):
  """Records for a question."""

  understood: str = pydantic.Field(description="What was looked for")
  records: list[Record]
  total: int = pydantic.Field(0, description="Records found")
  near: int = pydantic.Field(
    0, description="Records with parts of the words; `near` shows them"
  )
  next_offset: int | None = pydantic.Field(
    None, description="Of the next records; missing if these are the last"
  )
  meanings: list[str] = pydantic.Field(
    [], description="The question may mean any of these: ask with one of them"
  )
  notes: list[str] = []


class Time(Part):
  """A year or month with its probability."""

  date: str
  common_era: str
  probability: float


class DatedPassage(Part):
  """The date of a passage."""

  date: str
  common_era: str = ""
  certainty: str
  probability: float = pydantic.Field(description="Of the first month")
  years: list[Time] = pydantic.Field(description="Most probable first")
  months: list[Time] = []
  reasons: list[str] = []
  parallels: list[Record] = pydantic.Field([], description="Dated alike")
  notes: list[str] = []


class Month(Part):
  """The records of a month, each event with every work that tells it."""

  month: str
  common_era: str
  events: list[list[Record]] = []
  total: int = pydantic.Field(description="Events of the month")
  next_offset: int | None = None
  doubtful: int = pydantic.Field(0, description="Less likely records, not here")
  silent: list[str] = pydantic.Field(
    [], description="Works that cover the time and have no record of it"
  )
  notes: list[str] = []


class Conversion(Part):
  """A meaning of a date."""

  name: str
  gregorian: str = pydantic.Field(description="Year 0000 is 1 BCE")
  julian: str
  cyclic_day: str = ""
  other_names: list[str] = []
  assumed: list[str] = []
  contradictions: list[str] = []


class Conversions(Part):
  """The meanings of a date."""

  meanings: list[Conversion]
  left_out: int = 0


def search(
  served: ServedIndex,
  question: str,
  works: Sequence[str],
  limit: int,
  offset: int,
  near: bool,
) -> Found:
  """Returns the records of a time, with words, or both."""
  reader = served.index.question_reader
  parsed = reader.read(question)
  if parsed.intent == PASSAGE:  # a sentence is looked for by its words
    parsed = reader.read(question, WORDS)
  scope = matches.SearchScope(
    k=limit, offset=offset, works=_find_works(served, works), near=near
  )
  answer = asking.find_records(served.index, parsed, scope)
  understood = answer.understood
  times = [*map(_name_span, understood.intervals, understood.common_era)]
  if len(times) > _MAX_TIMES:
    times[_MAX_TIMES:] = [f"{len(times) - _MAX_TIMES} other times"]
  return Found(
    understood=", ".join((*times, *map(answers.clean, understood.words))),
    records=[_describe(served, record) for record in answer.results],
    total=answer.counts.get("matches", 0),
    near=answer.counts.get("near", 0),
    next_offset=answer.next_offset,
    meanings=[f"{it.name} ({it.common_era})" for it in understood.readings],
    notes=[
      *map(answers.clean, answer.notes),
      *_note_end(offset, answer.counts.get("matches", 0)),
    ],
  )


def _note_end(offset: int, total: int) -> list[str]:
  """Returns a note if a page begins behind the last record."""
  return ["`offset` is beyond the last"] if offset >= max(total, 1) else []


def _find_works(served: ServedIndex, names: Sequence[str]) -> list[str] | None:
  """Returns the names of works given by name or title; None for all."""
  by_title = {title: name for name, title in served.titles.items()}
  found = [by_title.get(name, name) for name in names]
  queries.check_names(served, found, ())
  return found or None


def _name_span(span: Span, common_era: str) -> str:
  return span.name if span.name == common_era else f"{span.name} ({common_era})"


def _describe(
  served: ServedIndex, record: AnswerRecord, length: int = _MAX_SHOWN
) -> Record:
  """Returns a record with its date and reasons in words."""
  return Record(
    id=f"{record.work}/{record.record_id}",
    work=record.title,
    place=record.place,
    reasons=_list_reasons(record.reasons),
    **_cut(record.text, length),
    **_describe_date(served, record.date),
  )


def _cut(text: str, length: int) -> dict[str, Any]:
  return {"text": text[:length], "cut": max(len(text) - length, 0)}


def _describe_date(
  served: ServedIndex, date: RecordDate | PassageDate
) -> dict[str, Any]:
  """Returns a date no finer than it is sure, and how sure."""
  told = certainty.tell_date(served, date)
  return {
    "date": told.name,
    "common_era": told.common_era,
    "certainty": rendering.write_certainty(notes.ENGLISH, told),
    "probability": round(date.probability, 3),
  }


def _list_reasons(reasons: Sequence[dict[str, Any]]) -> list[str]:
  """Returns the weightiest reasons in words."""
  return [
    "against it: " * (it["force"] == "against")
    + certainty.drop_weights(answers.clean(it["note"]))
    for it in certainty.list_reasons(tuple(reasons))[:_MAX_REASONS]
  ]


def date_passage(served: ServedIndex, passage: str, limit: int) -> DatedPassage:
  """Returns the date of a passage, which need not be in the index."""
  answer = record_page.date_passage(served, passage)
  dates = answer.dates
  return DatedPassage(
    **_describe_date(served, dates),
    years=[_name_time(it) for it in dates.years[:limit]],
    months=[_name_time(it) for it in dates.months[:limit]],
    reasons=_list_reasons(dates.reasons),
    parallels=[
      Record(
        id=f"{it.work}/{it.record_id}",
        work=served.titles[it.work],
        place=it.place,
        **_cut(it.text, _MAX_SHOWN),
        **_describe_date(served, it.date),
      )
      for it in dates.parallels[:limit]
    ],
    notes=[answers.clean(note) for note in answer.notes],
  )


def _name_time(time: Any) -> Time:
  return Time(
    date=time.name,
    common_era=time.common_era,
    probability=round(time.probability, 3),
  )


def read_month(
  served: ServedIndex, month: str, limit: int, offset: int
) -> Month:
  """Returns the records of one month by event."""
  span = queries.resolve_time(served, "month", month)
  if span.first != span.last:
    names = (queries.format_month(served, it) for it in span[:2])
    queries.refuse("month", month, " … ".join(names))
  read_as = (
    () if month[:1] == "@" else served.index.question_reader.read(month).notes
  )
  page = month_page.recall_month(served, span.first)
  shown = page.events[offset : offset + limit]
  rows = [record.row for event in shown for record in event]
  ids = served_index.name_records(served.index, rows)
  places = dict(database.fetch_columns(served.index.connection, rows, "place"))
  return Month(
    month=page.month["name"],
    common_era=page.common_era,
    events=[
      [
        Record(
          id="/".join(ids[it.row]),
          work=served.titles[it.work],
          place=places[it.row] or "",
          certainty=rendering.translate(
            notes.ENGLISH, certainty.find_degree(it.probability)
          ),
          probability=round(it.probability, 3),
          **_cut(it.text, _MAX_SHOWN),
        )
        for it in event
      ]
      for event in shown
    ],
    total=len(page.events),
    next_offset=offset + limit if offset + limit < len(page.events) else None,
    doubtful=len(page.doubtful) + page.num_left,
    silent=[work.title for work in page.missing if work.is_silent],
    notes=[*map(answers.clean, read_as), *_note_end(offset, len(page.events))],
  )


def read_record(served: ServedIndex, record_id: str) -> Record:
  """Returns a whole record with the reasons for its date."""
  row = record_page.find_row(served, record_id)
  record = record_page.read_record(served, row)
  return _describe(served, record, len(record.text))


def convert_date(
  served: ServedIndex, date: str, calendars: str, limit: int
) -> Conversions:
  """Returns the meanings of a date in other calendars."""
  del served
  try:
    reader = date_readings.load_reader(calendars or ALL_POLITIES)
  except ValueError as error:  # no such polity
    raise QuestionError(notes.of_error(error)) from error
  readings = reader.read(date)
  return Conversions(
    meanings=[
      Conversion(
        name=it.name,
        gregorian="/".join(dict.fromkeys(it.gregorian)),
        julian="/".join(dict.fromkeys(it.julian)),
        cyclic_day=it.cyclic_day,
        other_names=list(it.parallel_names),
        assumed=[*map(str, it.assumptions)],
        contradictions=[*map(str, it.contradictions)],
      )
      for it in readings[:limit]
    ],
    left_out=max(len(readings) - limit, 0),
  )


class IndexTools:
  """The tools of an index, within the limits of its settings."""

  def __init__(self, settings: WebSettings):
    """Opens the index.

    Raises:
      FileNotFoundError: if there is no index.
      ValueError: if the settings are unsafe or the index is damaged.
    """
    settings.validate()
    self._settings = settings
    self._holder = IndexHolder(settings.index, settings.encoder)
    self._short = AnswerThreads("call", 4, _MAX_WAITING)
    # One: passages compute in Python, where two are no faster.
    self._long = AnswerThreads("passage", 1, _MAX_WAITING, (self._short,))

  def describe(self) -> str:
    """Returns what an agent should know of the index."""
    served = self._holder.get()
    works = []
    for work in served.index.works[:_MAX_WORKS]:
      first, last = served.coverage.get(work.work_id, (0, 0))
      years = record_answers.format_years(served.index, first, last)
      works.append(f"{work.title or work.name} ({years})")
    if (rest := len(served.index.works) - len(works)) > 0:
      works.append(f"{rest} more")
    return (
      f"Records of {', '.join(works)}, each with its date, how certain that "
      "is, and why. Ask for a time (魯隱公元年五月, 722 BCE), words, or both. "
      "Cite a record by work, place and id. Say how certain a date is; where "
      "no month is named, do not name one. Nothing can be changed."
    )

  async def answer(
    self, function: Callable[..., Part], text: str, *arguments: object
  ) -> CallToolResult:
    """Returns the result of a function of this module.

    Args:
      text: the first argument after the index.
    """
    seconds = self._settings.seconds
    threads = self._long if function is date_passage else self._short
    try:
      # Refuses what is too long or not text.
      queries.parse_query({"q": text}, self._settings.max_question)
      served = self._holder.get()
      call = functools.partial(
        requests.retry_newer, self._holder, served, function
      )
      part = await threads.run(call, served, text, *arguments, seconds=seconds)
    except BusyError as error:
      raise ToolError("too many calls wait; try again later") from error
    except TimeoutError as error:
      raise ToolError(f"it took longer than {seconds:g} s; ask less") from error
    except PageError as error:
      problem = http.HTTPStatus(error.status).phrase
      if error.message:
        problem = rendering.translate(
          notes.ENGLISH, error.message, **error.values
        )
      raise ToolError(problem) from error
    except (QuestionError, DateError, NoIndexError) as error:
      problem = notes.of_error(error)
      if isinstance(problem, notes.Note) and problem.code == _AT_PLACE:
        problem = f"{answers.clean(text)}: {problem.values['problem']}"
      raise ToolError(answers.clean(problem)) from error
    values = part.model_dump(exclude_defaults=True)
    text = part.model_dump_json(exclude_defaults=True)
    return CallToolResult(
      content=[TextContent(type="text", text=text)], structured_content=values
    )


class _Server(MCPServer):
  """A server whose errors are one sentence."""

  async def call_tool(self, name: str, *arguments: Any) -> CallToolResult:
    try:
      return await super().call_tool(name, *arguments)
    except UnexpectedToolError:
      raise
    except ToolError as error:
      cause = error.__cause__
      if isinstance(cause, pydantic.ValidationError):
        problems = (
          f"{'.'.join(map(str, it['loc']))}: {it['msg']}"
          for it in cause.errors()[:_MAX_REASONS]
        )
        raise ToolError(f"{name}: {'; '.join(problems)}") from cause
      raise ToolError(str(cause or error)) from error


def make_server(settings: WebSettings) -> MCPServer:
  """Returns a server with the tools of an index, for any transport."""
  tools = IndexTools(settings)
  server = _Server(
    "ctd_jax",
    instructions=tools.describe(),
    log_level="WARNING",
    subscriptions=False,
  )
  tool = functools.partial(
    server.tool,
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
  )

  @tool(name="search")
  async def search_records(
    question: str,
    works: list[str] = [],  # noqa: B006
    limit: _Limit = 5,
    offset: _Offset = 0,
    near: bool = False,
  ) -> Annotated[CallToolResult, Found]:
    """Finds records of a time (魯隱公元年五月, 僖公二十八年, 632 BCE, 620-610
    BCE), in its order; with words (城濮); or both (僖公二十八年 城濮). `works`
    limits it to works by name or title; `near` adds records that have only
    parts of the words.
    """
    return await tools.answer(search, question, works, limit, offset, near)

  @tool(name="date_passage")
  async def date_text(
    passage: str, limit: _Limit = 5
  ) -> Annotated[CallToolResult, DatedPassage]:
    """Says when a passage was written of, with reasons and parallels; it need
    not be in the index.
    """
    return await tools.answer(date_passage, passage, limit)

  @tool(name="read_month")
  async def read_one_month(
    month: str, limit: _Limit = 20, offset: _Offset = 0
  ) -> Annotated[CallToolResult, Month]:
    """Returns what happened in one month, such as 僖公二十八年夏四月: each
    event with every work that tells it.
    """
    return await tools.answer(read_month, month, limit, offset)

  @tool(name="read_record")
  async def read_one_record(id: str) -> Annotated[CallToolResult, Record]:
    """Returns a whole record by the `id` of an answer, with the reasons for
    its date.
    """
    return await tools.answer(read_record, id)

  @tool(name="convert_date")
  async def convert_one_date(
    date: str, calendars: str = "", limit: _Limit = 5
  ) -> Annotated[CallToolResult, Conversions]:
    """Converts a date (萬曆十五年三月廿六日, 1587-05-03, 722 BCE) between East
    Asian, Julian and Gregorian calendars. `calendars` limits it to polities or
    countries: 明, zh, ja, ko, vi.
    """
    return await tools.answer(convert_date, date, calendars, limit)

  return server


def make_http_app(settings: WebSettings) -> Starlette:
  """Returns the tools as a web application at `PATH`."""
  application = make_server(settings).streamable_http_app(
    streamable_http_path=PATH,
    stateless_http=True,
    json_response=True,
    # `RequestGuard` checks hosts and origins.
    transport_security=TransportSecuritySettings(
      enable_dns_rebinding_protection=False
    ),
  )
  application.add_middleware(
    security.RequestGuard,
    settings=settings,
    token_check=security.TokenCheck(settings),
  )
  application.add_middleware(security.HeaderWriter)
  return application
