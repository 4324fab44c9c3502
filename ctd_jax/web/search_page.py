"""The search page: results, how the question was understood, and a timeline."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from fastapi import APIRouter
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ctd_jax.index import asking, calendars
from ctd_jax.index.answers import Answer, AnswerRecord, Span
from ctd_jax.index.question_calendar import PASSAGE, Question
from ctd_jax.web import corrections, queries, rendering
from ctd_jax.web.queries import (
  PAGE_SIZE,
  PageQuery,
  ResolvedQuery,
  TimelineBars,
)
from ctd_jax.web.requests import endpoint, settings_of
from ctd_jax.web.served_index import ServedIndex

router = APIRouter(include_in_schema=False)
CONFIDENCES = (asking.MIN_PROBABILITY, 0.1, 0.5, 0.9)


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
  num_matches: int  # records on all pages
  timeline: TimelineBars

  @property
  def num_pages(self) -> int:
    """Number of pages that can be opened."""
    return min(-(-self.num_matches // PAGE_SIZE), queries.MAX_PAGE)

  @property
  def num_left(self) -> int:
    """Number of records beyond the last page."""
    return max(self.num_matches - queries.MAX_PAGE * PAGE_SIZE, 0)


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
    rows = [record.row for record in result.answer.results]
  pinned = dataclasses.replace(
    query, index=served.index.versions.index_sha256, language=""
  )
  times = result.timeline if result else queries.make_timeline(served, None)
  addresses = link_bars(times, query, rendering.PageLinks(request))
  return rendering.render_page(
    request,
    served,
    "search.html",
    permalink=f"/?{pinned.encode()}",
    rows=rows,
    query=query,
    result=result,
    marks=corrections.find_marks(served, rows),
    timeline=times,
    chart=draw_timeline(times, addresses),
    addresses=addresses,
    works=served.index.works,
    kinds=served.index.kinds,
    confidences=CONFIDENCES,
    fields=_fill_fields(served, result.resolved) if result else {},
    zoom=_make_zoom(served, query, result),
    num_records=served.index.num_records,
    num_months=len(served.index.calendar),
  )


def search(served: ServedIndex, resolved: ResolvedQuery) -> SearchResult:
  """Returns one page of results with their timeline."""
  query = resolved.query
  ranked = queries.rank_matches(served, resolved, PAGE_SIZE)
  matches = queries.select_matches(served, resolved, ranked)
  answer = asking.find_records(
    served.index,
    resolved.question,
    asking.SearchScope(
      k=PAGE_SIZE,
      skip=(query.page - 1) * PAGE_SIZE,
      works=query.works or None,
      kinds=query.kinds or None,
      min_probability=query.confidence,
    ),
    ranked,
  )
  return SearchResult(
    resolved,
    rename_months(served, answer, resolved.question),
    _count_in_time(served, resolved) if matches is None else len(matches),
    queries.make_timeline(served, resolved, matches),
  )


def _count_in_time(served: ServedIndex, resolved: ResolvedQuery) -> int:
  """Returns the number of records that are probable enough in the time."""
  query = asking.make_time_query(served.index, resolved.question)
  if query is None:
    return 0
  asked = resolved.query
  works = served.select_works(asked.works or resolved.question.works)
  masks = asking.mask_kinds(served.index, works, asked.kinds or None)
  total = 0
  for work in works:
    mass = served.index.posteriors_of(work).find_mass(query)
    is_kind = True if masks is None else masks[work.work_id]
    total += int(((mass >= asked.confidence) & is_kind).sum())
  return total


def link_bars(
  times: TimelineBars, query: PageQuery, links: rendering.PageLinks
) -> list[str]:
  """Returns the address of each bar: the query, narrowed to its time."""
  # Encoded once: only the ends differ, and there are hundreds of bars.
  start = links("/", query.replace(first="", last="").encode())
  mark = "&" if "?" in start else "?"
  return [
    f"{start}{mark}from=%40{bar.first}&to=%40{bar.last}" for bar in times.bars
  ]


def draw_timeline(times: TimelineBars, addresses: list[str]) -> Markup:
  """Returns a timeline as SVG; `addresses` are the links of its bars."""
  has_matches = any(bar.matches for bar in times.bars)
  bars = [
    rendering.ChartBar(
      title=f"{bar.name} ({bar.common_era}): {bar.matches:.3g} / "
      f"{bar.records:.3g}",
      label=bar.common_era.partition(" – ")[0]
      if times.unit != queries.MONTH
      else bar.name,
      above=bar.matches if has_matches else bar.records,
      below=bar.records if has_matches else 0.0,
      href=address,
      css_class="asked" if bar.is_asked else "",
    )
    for bar, address in zip(times.bars, addresses, strict=True)
  ]
  return rendering.draw_bars(
    bars, times.unit, height=96, depth=56 if has_matches else 0
  )


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
    "words": " ".join(asking.list_words(question)),
  }
