"""Queries in the address of a page, and the timelines of their answers.

Axes: K months.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlencode

import numpy as np
from jaxtyping import Float, Int
from starlette.datastructures import QueryParams

from ctd_jax.chronology import reigns
from ctd_jax.index import calendars, matches, record_answers
from ctd_jax.index.matches import Matches, SearchScope
from ctd_jax.index.question_calendar import (
  INTENTS,
  TIME,
  WORDS,
  MonthSpan,
  Question,
)
from ctd_jax.utils.notes import LANGUAGES
from ctd_jax.web.requests import PageError
from ctd_jax.web.served_index import ServedIndex

PAGE_SIZE = 20
MAX_PAGE = 500
_ORDINAL = re.compile(r"@(\d{1,7})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_FIELD = 200  # characters of any parameter but the question
_MAX_VALUES = 200  # of a repeated parameter

MONTH, YEAR, DECADE, CENTURY = UNITS = ("month", "year", "decade", "century")
_YEARS = {YEAR: 1, DECADE: 10, CENTURY: 100}
_MAX_BARS = 140
_MIN_MARGIN = 12  # months shown on either side
_SHARE = 5e-3  # of the records may be beyond either end


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageQuery:
  """The parameters of a page."""

  text: str = ""  # the question
  intent: str = ""  # kind of question; "" to detect it
  works: tuple[str, ...] = ()  # works to search; all if empty
  kinds: tuple[str, ...] = ()  # kinds of records; all but headings if empty
  first: str = ""  # earliest time, replacing the question's
  last: str = ""  # latest time, likewise
  # Replaces the question's words, separated by blanks; None keeps them.
  words: str | None = None
  # Least probability of a record within the time.
  confidence: float = matches.MIN_PROBABILITY
  sort: str = ""  # one of `matches.SORTS`; "" as the question needs
  near: bool = False  # also records that have only parts of the words
  group: str = ""  # one of `matches.GROUPS`; "" for record by record
  page: int = 1  # of results, from 1
  language: str = ""  # "" for the browser's choice
  # Hash of the index in a permalink, or its first digits.
  index: str = ""

  @property
  def is_empty(self) -> bool:
    """Whether nothing is asked."""
    return not (self.text.strip() or self.first or self.last or self.words)

  def replace(self, **changes: Any) -> PageQuery:
    """Returns the query with changes, on its first page."""
    return dataclasses.replace(self, **({"page": 1} | changes))

  @property
  def scope(self) -> SearchScope:
    """What the page shows of the answer."""
    return SearchScope(
      k=PAGE_SIZE,
      offset=(self.page - 1) * PAGE_SIZE,
      works=self.works or None,
      kinds=self.kinds or None,
      min_probability=self.confidence,
      sort=self.sort or None,
      near=self.near,
      group=self.group or None,
    )

  def encode(self) -> str:
    """Returns the query string of an address."""
    values: list[tuple[str, str]] = [
      (name, value)
      for name, value in (
        ("q", self.text),
        ("intent", self.intent),
        ("from", self.first),
        ("to", self.last),
        ("sort", self.sort),
        ("near", "1" if self.near else ""),
        ("group", self.group),
        ("lang", self.language),
        ("index", self.index),
      )
      if value
    ]
    if self.words is not None:
      values.append(("words", self.words))
    values += [("work", name) for name in self.works]
    values += [("kind", name) for name in self.kinds]
    if self.confidence != matches.MIN_PROBABILITY:
      values.append(("p", f"{self.confidence:g}"))
    if self.page > 1:
      values.append(("page", str(self.page)))
    return urlencode(values)


@dataclasses.dataclass(frozen=True)
class ResolvedQuery:
  """A query as the index understands it."""

  query: PageQuery  # the page's parameters
  question: Question  # what is asked, after overrides by the parameters


def parse_query(
  parameters: QueryParams | Mapping[str, str], max_question: int
) -> PageQuery:
  """Returns the parameters of a page.

  Args:
    parameters: parameters of the address, or fields of a form.
    max_question: limit in characters.
  """
  for name, value in parameters.items():
    check_encoding(name + str(value))
  text = parameters.get("q", "")
  if len(text) > max_question:
    raise PageError(
      422, "error.question", {"length": len(text), "limit": max_question}
    )
  words = parameters.get("words")
  return PageQuery(
    text=text,
    intent=parse_choice(parameters, "intent", INTENTS),
    works=_parse_list(parameters, "work"),
    kinds=_parse_list(parameters, "kind"),
    first=parse_field(parameters, "from"),
    last=parse_field(parameters, "to"),
    words=None if words is None else parse_field(parameters, "words"),
    confidence=_parse_probability(parameters),
    sort=parse_choice(parameters, "sort", matches.SORTS),
    near=parse_choice(parameters, "near", ("1",)) == "1",
    group=parse_choice(parameters, "group", matches.GROUPS),
    page=_parse_page(parameters),
    language=parse_choice(parameters, "lang", LANGUAGES),
    index=_parse_hash(parameters),
  )


def parse_field(
  parameters: Mapping[str, Any], name: str, limit: int = _MAX_FIELD
) -> str:
  """Returns a parameter, stripped; "" if it is missing or a file."""
  value = parameters.get(name, "")
  value = value.strip() if isinstance(value, str) else ""
  check_length(name, value, limit)
  return value


def check_encoding(text: str) -> None:
  """Raises a 422 PageError if a text is not valid Unicode."""
  if _SURROGATE.search(text):
    raise PageError(422, "error.encoding", {})


def check_length(name: str, value: str, limit: int) -> None:
  """Raises a 422 PageError if a value has more than `limit` characters."""
  if len(value) > limit:
    raise PageError(
      422,
      "error.field",
      {"name": name, "length": len(value), "limit": limit},
    )


def parse_choice(
  parameters: Mapping[str, Any], name: str, choices: Sequence[str]
) -> str:
  """Returns a parameter that must be one of `choices` or empty."""
  value = parse_field(parameters, name)
  if value and value not in choices:
    refuse(name, value, ", ".join(choices))
  return value


def _parse_list(
  parameters: QueryParams | Mapping[str, str], name: str
) -> tuple[str, ...]:
  values = QueryParams(parameters).getlist(name)
  if len(values) > _MAX_VALUES:
    refuse(name, f"{len(values)} ×", f"≤ {_MAX_VALUES}")
  return tuple(dict.fromkeys(value for value in values if value))


def _parse_probability(parameters: Mapping[str, str]) -> float:
  value = parse_field(parameters, "p")
  if not value:
    return matches.MIN_PROBABILITY
  with contextlib.suppress(ValueError):
    if 0 <= (probability := float(value)) <= 1:
      return probability
  refuse("p", value, "0 … 1")


def _parse_page(parameters: Mapping[str, str]) -> int:
  value = parse_field(parameters, "page") or "1"
  if not (value.isascii() and value.isdigit() and 1 <= int(value) <= MAX_PAGE):
    refuse("page", value, f"1 … {MAX_PAGE}")
  return int(value)


def _parse_hash(parameters: Mapping[str, str]) -> str:
  value = parse_field(parameters, "index")
  if value and not re.fullmatch("[0-9a-f]{8,64}", value):
    refuse("index", value, "sha256")
  return value


def refuse(name: str, value: str, expected: str) -> NoReturn:
  """Raises a 422 PageError for an invalid parameter."""
  raise PageError(
    422,
    "error.parameter",
    {"name": name, "value": value[:40], "expected": expected},
  )


def check_names(
  served: ServedIndex, works: Sequence[str], kinds: Sequence[str]
) -> None:
  """Raises a 422 PageError for a work or kind that is not in the index."""
  for parameter, names, known in (
    ("work", works, [work.name for work in served.index.works]),
    ("kind", kinds, served.index.kinds),
  ):
    for name in names:
      if name not in known:
        nearest = difflib.get_close_matches(name[:100], known, 3, 0.3)
        refuse(parameter, name, ", ".join(nearest or known[:8]))


def resolve_query(served: ServedIndex, query: PageQuery) -> ResolvedQuery:
  """Returns a query as the index understands it."""
  check_names(served, query.works, query.kinds)
  if query.text.strip():
    question = served.index.question_reader.read(
      query.text, query.intent or None
    )
  else:
    question = Question("", TIME)
  if query.words is not None:
    words = tuple(query.words.split())
    question = dataclasses.replace(
      question, words=words, intent=WORDS if words else TIME, day=None
    )
  if query.first or query.last:
    span = _resolve_span(served, query)
    # The notes were about the time that is replaced here.
    question = dataclasses.replace(
      question, intervals=(span,), readings=(), notes=()
    )
  return ResolvedQuery(query, question)


def _resolve_span(served: ServedIndex, query: PageQuery) -> MonthSpan:
  first, last = 0, len(served.index.calendar) - 1
  if query.first:
    first = resolve_time(served, "from", query.first).first
  if query.last:
    last = resolve_time(served, "to", query.last).last
  first, last = sorted((first, last))
  name = record_answers.make_span(
    served.index, first, last, served.index.printed_reigns
  ).name
  return MonthSpan(first, last, name)


def resolve_time(served: ServedIndex, name: str, text: str) -> MonthSpan:
  """Returns the months of a time given as `@12` or in words."""
  ordinal = _ORDINAL.fullmatch(text)
  if ordinal:
    month = int(ordinal[1])
    if month >= len(served.index.calendar):
      refuse(name, text, f"@0 … @{len(served.index.calendar) - 1}")
    return MonthSpan(month, month, text)
  question = served.index.question_reader.read(text, TIME)
  if question.readings:
    refuse(
      name, text, "、".join(reading.name for reading in question.readings[:6])
    )
  spans = question.intervals
  return MonthSpan(
    min(span.first for span in spans), max(span.last for span in spans), text
  )


def format_month(served: ServedIndex, ordinal: int) -> str:
  """Returns a month for a form: its name, or @ORDINAL if that is ambiguous."""
  name = calendars.name_month(
    served.index.calendar, ordinal, served.index.printed_reigns
  )
  try:
    span = resolve_time(served, "from", name)
  except (PageError, ValueError):
    return f"@{ordinal}"
  return name if span[:2] == (ordinal, ordinal) else f"@{ordinal}"


@dataclasses.dataclass(frozen=True)
class Bar:
  """A bar of the timeline."""

  first: int  # ordinal of the first month
  last: int  # ordinal of the last month
  name: str  # shown to readers
  common_era: str  # years
  records: float  # expected number of all records
  matches: float  # expected number of matching records
  is_asked: bool  # whether it includes a month asked for


@dataclasses.dataclass(frozen=True)
class TimelineBars:
  """A timeline as bars."""

  unit: str  # one of `UNITS`
  first: int  # ordinal of the first month shown
  last: int  # ordinal of the last month shown
  bars: tuple[Bar, ...]  # in order of time


def make_timeline(
  served: ServedIndex,
  resolved: ResolvedQuery | None,
  found: Matches | None = None,
  window: tuple[int, int] | None = None,
  unit: str | None = None,
) -> TimelineBars:
  """Returns the timeline of a query, or of the whole index.

  Args:
    found: the records that answer the query.
    window: first and last month to show; by default, around those asked for.
    unit: unit of the bars; by default the finest that stays legible.
  """
  works = resolved.query.works or resolved.question.works if resolved else ()
  density = served.find_density(
    tuple(works), resolved.query.kinds if resolved else ()
  )
  is_asked = np.zeros(len(density), bool)
  for span in resolved.question.intervals if resolved else ():
    is_asked[span.first : span.last + 1] = True
  first, last = window or _find_window(density, is_asked)
  unit = unit or _choose_unit(served, first, last)
  bounds = _find_bounds(served, first, last, unit)
  mass = np.zeros(len(density))
  if found is not None:
    mass = _sum_matches(served, found, is_asked)
  index, bars = served.index, []
  find_name = {MONTH: calendars.name_month, YEAR: calendars.name_year}.get(unit)
  for start, end in itertools.pairwise(bounds):
    years = format_years(served.years, start, end - 1)
    months = slice(start, end)
    bars.append(
      Bar(
        first=start,
        last=end - 1,
        name=find_name(index.calendar, start, index.printed_reigns)
        if find_name
        else years,
        common_era=years,
        records=round(float(density[months].sum()), 3),
        matches=round(float(mass[months].sum()), 3),
        is_asked=bool(is_asked[months].any()),
      )
    )
  return TimelineBars(unit, first, last, tuple(bars))


def _find_window(
  density: Float[np.ndarray, " K"], is_asked: np.ndarray
) -> tuple[int, int]:
  """Returns the months around those asked for, or those of the index."""
  asked = np.flatnonzero(is_asked)
  if len(asked):
    first, last = int(asked[0]), int(asked[-1])
    margin = max(last - first + 1, _MIN_MARGIN)
    return max(first - margin, 0), min(last + margin, len(density) - 1)
  sums = np.cumsum(density)
  if not len(sums) or sums[-1] <= 0:
    return 0, len(density) - 1
  first, last = np.searchsorted(sums, sums[-1] * np.array([_SHARE, 1 - _SHARE]))
  return int(first), int(min(last, len(density) - 1))


def _choose_unit(served: ServedIndex, first: int, last: int) -> str:
  if last - first < _MAX_BARS:
    return MONTH
  num_years = int(served.years[last] - served.years[first]) + 1
  units = (
    unit for unit, years in _YEARS.items() if num_years <= _MAX_BARS * years
  )
  return next(units, CENTURY)


def _find_bounds(
  served: ServedIndex, first: int, last: int, unit: str
) -> list[int]:
  """Returns the first month of each bar, then the end of the last."""
  if unit == MONTH:
    return list(range(first, last + 2))
  stretches = served.years[first : last + 1] // _YEARS[unit]
  starts = np.flatnonzero(np.diff(stretches, prepend=stretches[0] - 1))
  return [*(first + starts).tolist(), last + 1]


def _sum_matches(
  served: ServedIndex, found: Matches, is_asked: np.ndarray
) -> Float[np.ndarray, " K"]:
  """Returns the expected number of matching records per month."""
  mass = np.zeros(len(is_asked))
  rows = found.ranking.rows
  for work in served.index.works:
    of_work = rows[(rows >= work.rows.start) & (rows < work.rows.stop)]
    if len(of_work):
      arrays = served.index.posteriors_of(work).arrays.take(
        of_work - work.first_row
      )
      mass += np.bincount(arrays.months, arrays.probabilities, len(mass))
      mass += float(arrays.rest.sum()) / len(mass)
  return np.where(is_asked, mass, 0) if is_asked.any() else mass


def format_years(years: Int[np.ndarray, " K"], first: int, last: int) -> str:
  """Returns the years of the first and last of some months."""
  names = (
    reigns.format_common_era_year(int(years[month])) for month in (first, last)
  )
  return " – ".join(dict.fromkeys(names))
