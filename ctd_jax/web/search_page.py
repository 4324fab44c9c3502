"""The search page: results, how the question was understood, and a timeline."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ctd_jax.index import asking, calendars, charts, matches
from ctd_jax.index.answers import Answer, AnswerRecord, RecordDate, Span
from ctd_jax.index.date_levels import ALMOST, EVEN, POSSIBLE
from ctd_jax.index.question_calendar import PASSAGE, Question
from ctd_jax.web import (
  corrections,
  facets,
  month_page,
  queries,
  rendering,
  timeline,
)
from ctd_jax.web.facets import FacetValue
from ctd_jax.web.month_page import MonthRecord
from ctd_jax.web.queries import (
  PAGE_SIZE,
  PageQuery,
  ResolvedQuery,
  TimelineBars,
)
from ctd_jax.web.requests import endpoint, settings_of
from ctd_jax.web.served_index import ServedIndex

router = APIRouter(include_in_schema=False)
_MAX_READINGS = 6  # spans of a question that are offered to be read
CONFIDENCES = (matches.MIN_PROBABILITY, POSSIBLE, EVEN, ALMOST)


def rename_months(
  served: ServedIndex, answer: Answer, question: Question
) -> Answer:
  """Returns an answer whose months are named in the reigns of the question."""
  reigns = _find_reigns(served, question)
  if not reigns:
    return answer
  calendar = served.index.calendar

  @functools.cache
  def find_name(ordinal: int) -> str | None:
    if ordinal < len(calendar) and not reigns.isdisjoint(
      _list_reigns(served, ordinal)
    ):
      return served.index.name_month(ordinal, reigns)
    return None

  return dataclasses.replace(
    answer,
    results=tuple(
      _rename_record(record, find_name) for record in answer.results
    ),
  )


def _find_reigns(served: ServedIndex, question: Question) -> frozenset[int]:
  """Returns the rows of the reigns that a question names."""
  calendar = served.index.calendar
  return frozenset(
    reign
    for span in question.intervals
    if span.name
    for reign in _list_reigns(served, span.first)
    if calendars.name_month(calendar, span.first, (reign,)).startswith(
      span.name
    )
  )


def _list_reigns(served: ServedIndex, ordinal: int) -> list[int]:
  members = served.index.calendar.memberships
  start, end = np.searchsorted(members.lunations, (ordinal, ordinal + 1))
  return members.reigns[start:end].tolist()


def _rename_record(
  record: AnswerRecord, find_name: Callable[[int], str | None]
) -> AnswerRecord:
  def rename(span: Span) -> Span:
    names = [find_name(month) for month in (span.first, span.last)]
    if None in names:
      return span
    return dataclasses.replace(span, name=" – ".join(dict.fromkeys(names)))

  date = record.date
  name = find_name(date.month["ordinal"])
  return dataclasses.replace(
    record,
    date=dataclasses.replace(
      date,
      month=date.month | {"name": name or date.month["name"]},
      credible_50=tuple(map(rename, date.credible_50)),
      credible_90=tuple(map(rename, date.credible_90)),
    ),
  )


@dataclasses.dataclass(frozen=True)
class SearchResult:
  """The answer to a question."""

  resolved: ResolvedQuery
  answer: Answer  # with the records of this page
  num_units: int  # records on all pages, or events if grouped
  timeline: TimelineBars
  # Facet -> its values, each with its number of records.
  facets: dict[str, list[FacetValue]] = dataclasses.field(default_factory=dict)
  # Events of this page, if the records are grouped.
  table: month_page.EventTable | None = None

  @property
  def dates(self) -> list[RecordDate]:
    """Date of each event, that of its first record."""
    dates = {}
    for record in self.answer.results:
      dates.setdefault(record.event, record.date)
    return [*dates.values()]

  @property
  def num_pages(self) -> int:
    """Number of pages that can be opened."""
    return min(-(-self.num_units // PAGE_SIZE), queries.MAX_PAGE)

  @property
  def num_left(self) -> int:
    """Number of records, or events, beyond the last page."""
    return max(self.num_units - queries.MAX_PAGE * PAGE_SIZE, 0)


@router.get("/")
@router.get(rendering.SAVE_PREFIX + "/")
@endpoint
def show_search(request: Request, served: ServedIndex) -> Response:
  """Returns the page of a question, or of the whole index."""
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  result, rows = None, []
  if not query.is_empty:
    resolved = queries.resolve_query(served, query)
    if resolved.question.intent == PASSAGE:
      return RedirectResponse(f"/date?{query.encode()}", 303)
    result = served.remember(search, resolved)
    if query.page > max(result.num_pages, 1):
      last = query.replace(page=result.num_pages)
      return RedirectResponse(f"/?{last.encode()}", 303)
    rows = [record.row for record in result.answer.results]
  pinned = dataclasses.replace(
    query, index=served.index.versions.index_sha256, language=""
  )
  times = result.timeline if result else queries.make_timeline(served, None)
  links = rendering.PageLinks(request)
  return rendering.render_page(
    request,
    served,
    "search.html",
    permalink=f"/?{pinned.encode()}",
    can_export=result is not None,
    rows=rows,
    query=query,
    result=result,
    marks=corrections.find_marks(served, rows),
    timeline=times,
    chart=timeline.draw_timeline(
      served,
      times,
      query,
      links,
      rendering.find_language(request),
      charts.NARROW if result else charts.WIDE,
    ),
    addresses=timeline.link_bars(times, query, links),
    works=served.index.works,
    kinds=served.index.kinds,
    confidences=CONFIDENCES,
    fields=_fill_fields(served, result.resolved) if result else {},
    zoom=_make_zoom(served, query, result),
    to_read=link_readings(served, result.resolved.question) if result else [],
    num_records=served.index.num_records,
    num_months=len(served.index.calendar),
  )


def search(served: ServedIndex, resolved: ResolvedQuery) -> SearchResult:
  """Returns one page of results with their timeline."""
  question, scope = resolved.question, resolved.query.scope
  found = matches.find_matches(served.index, question, scope)
  answer = asking.find_records(served.index, question, scope, found)
  answer = rename_months(served, answer, question)
  table = None
  if found.starts is not None:
    groups = itertools.groupby(answer.results, lambda record: record.event)
    table = month_page.make_table(
      served, [[*map(_make_cell, group)] for _, group in groups]
    )
  return SearchResult(
    resolved,
    answer,
    found.num_units,
    queries.make_timeline(served, resolved, found),
    facets.count_facets(served, resolved.query, found.ranking),
    table,
  )


def _make_cell(record: AnswerRecord) -> MonthRecord:
  date = record.date
  return MonthRecord(
    record.row, record.work, record.text, record.kind, date.probability, 0
  )


def link_readings(
  served: ServedIndex, question: Question
) -> list[tuple[str, int, str]]:
  """Returns the months and years of a question that can be read whole.

  Returns:
    "month" or "year", the ordinal of its page, and its name.
  """
  index, links = served.index, {}
  for span in question.intervals[:_MAX_READINGS]:
    if span.first == span.last:
      name = index.name_month(span.first, index.printed_reigns)
      links["month", span.first] = name
    if served.years[span.first] == served.years[span.last]:
      first = int(np.searchsorted(served.years, served.years[span.first]))
      links["year", first] = calendars.name_year(
        index.calendar, span.first, index.printed_reigns
      )
  return [(unit, ordinal, name) for (unit, ordinal), name in links.items()]


def narrow(query: PageQuery, first: int, last: int) -> PageQuery:
  """Returns a query limited to a range of months."""
  return query.replace(first=f"@{first}", last=f"@{last}", index="")


def _make_zoom(
  served: ServedIndex, query: PageQuery, result: SearchResult | None
) -> dict[str, PageQuery]:
  """Returns the queries for earlier, later and wider times, where possible."""
  if result is None or not result.resolved.question.intervals:
    return {}
  end = len(served.index.calendar) - 1
  first, last = _find_ends(result.resolved.question)
  size = last - first + 1
  steps = {}
  if first > 0:
    steps["earlier"] = narrow(query, max(first - size, 0), first - 1)
  if last < end:
    steps["later"] = narrow(query, last + 1, min(last + size, end))
  if (first, last) != (0, end):
    wider = result.timeline
    steps["wider"] = narrow(query, wider.first, wider.last)
  return steps


def _find_ends(question: Question) -> tuple[int, int]:
  """Returns the first and last month asked for."""
  spans = question.intervals
  return min(span.first for span in spans), max(span.last for span in spans)


def _fill_fields(
  served: ServedIndex, resolved: ResolvedQuery
) -> dict[str, str]:
  """Returns the values of the form that refines a query."""
  question = resolved.question
  first = last = ""
  if question.intervals and not question.readings:
    first, last = (
      queries.format_month(served, month) for month in _find_ends(question)
    )
  return {
    "from": first,
    "to": last,
    "words": " ".join(matches.list_words(question)),
  }
