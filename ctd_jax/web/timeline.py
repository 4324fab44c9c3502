"""Timeline: how many records are of each stretch of time, and how many match.

Months are summed to as many bars as can be told apart: by month, year, decade
or century. The numbers are expected ones: a record that is of one of two months
counts a half for each.

Axes: K months, B bars.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ctd_jax.chronology import reign_tables
from ctd_jax.index import asking, calendars
from ctd_jax.index.questions.question_types import WORDS
from ctd_jax.index.ranking import RankedRecord
from ctd_jax.web.queries import ResolvedQuery
from ctd_jax.web.served_index import ServedIndex

MONTH, YEAR, DECADE, CENTURY = UNITS = ("month", "year", "decade", "century")
_YEARS = {YEAR: 1, DECADE: 10, CENTURY: 100}
_MAX_BARS = 140
_MIN_MARGIN = 12  # months around what is asked for
_ALL = 10_000  # more than are ever found for words
_SHARE = 5e-3  # of the records that may lie beyond the ends of what is shown


@dataclasses.dataclass(frozen=True)
class Bar:
  """A stretch of time.

  Attributes:
    first: ordinal of its first month.
    last: of its last.
    name: as a reader would call it.
    common_era: its years.
    records: expected number of records of the corpus.
    matches: of those that match the question.
    is_asked: whether it has a month that is asked for.
  """

  first: int
  last: int
  name: str
  common_era: str
  records: float
  matches: float
  is_asked: bool


@dataclasses.dataclass(frozen=True)
class TimelineBars:
  """The bars of a stretch of time.

  Attributes:
    unit: one of `UNITS`.
    first: ordinal of the first month that is shown.
    last: of the last.
    bars: in order of time.
  """

  unit: str
  first: int
  last: int
  bars: tuple[Bar, ...]

  def to_dict(self) -> dict[str, Any]:
    """Returns the timeline as JSON has it."""
    return dataclasses.asdict(self)


def make_timeline(
  served: ServedIndex,
  resolved: ResolvedQuery | None,
  matches: list[RankedRecord] | None = None,
  window: tuple[int, int] | None = None,
  unit: str | None = None,
) -> TimelineBars:
  """Returns the timeline of a query.

  Args:
    served: the index.
    resolved: the query; None for the corpus alone.
    matches: the records that match, of a query of words.
    window: first and last month that are shown; around those that are asked
      for if None.
    unit: of the bars; what can be told apart if None.
  """
  works = resolved.query.works or resolved.question.works if resolved else ()
  density = served.find_density(
    tuple(works), resolved.query.kinds if resolved else ()
  )
  is_asked = _mark_asked(served, resolved)
  first, last = window or _find_window(density, is_asked)
  unit = unit or _choose_unit(served, first, last)
  bounds = _find_bounds(served, first, last, unit)
  mass = np.zeros(len(density))
  if resolved:
    mass = _sum_matches(served, resolved, density, is_asked, matches)
  return TimelineBars(
    unit,
    first,
    last,
    tuple(
      _make_bar(served, unit, start, end - 1, density, mass, is_asked)
      for start, end in itertools.pairwise(bounds)
    ),
  )


def _mark_asked(
  served: ServedIndex, resolved: ResolvedQuery | None
) -> np.ndarray:
  is_asked = np.zeros(len(served.index.calendar), bool)
  for span in resolved.question.intervals if resolved else ():
    is_asked[span.first : span.last + 1] = True
  return is_asked


def _find_window(
  density: Float[np.ndarray, " K"], is_asked: np.ndarray
) -> tuple[int, int]:
  """Returns the months around those asked for; of the corpus if none are."""
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
  for unit, years in _YEARS.items():
    if num_years <= _MAX_BARS * years:
      return unit
  return CENTURY


def _find_bounds(
  served: ServedIndex, first: int, last: int, unit: str
) -> list[int]:
  """Returns where the bars begin, and the end of the last."""
  if unit == MONTH:
    return list(range(first, last + 2))
  stretches = served.years[first : last + 1] // _YEARS[unit]
  starts = np.flatnonzero(np.diff(stretches, prepend=stretches[0] - 1))
  return [*(first + starts).tolist(), last + 1]


def _sum_matches(
  served: ServedIndex,
  resolved: ResolvedQuery,
  density: Float[np.ndarray, " K"],
  is_asked: np.ndarray,
  matches: list[RankedRecord] | None,
) -> Float[np.ndarray, " K"]:
  """Returns the expected number of matching records of each month."""
  if resolved.question.intent != WORDS or matches is None:
    return np.where(is_asked, density, 0)
  mass = np.zeros(len(density))
  rows = np.array([match.row for match in matches], np.int64)
  for work in served.index.works:
    indices = rows[(rows >= work.rows.start) & (rows < work.rows.stop)]
    if len(indices):
      arrays = served.index.posteriors_of(work).arrays.take(
        indices - work.first_row
      )
      mass += np.bincount(arrays.months, arrays.probabilities, len(density))
  return np.where(is_asked, mass, 0) if is_asked.any() else mass


def _make_bar(
  served: ServedIndex,
  unit: str,
  first: int,
  last: int,
  density: Float[np.ndarray, " K"],
  mass: Float[np.ndarray, " K"],
  is_asked: np.ndarray,
) -> Bar:
  calendar, months = served.index.calendar, slice(first, last + 1)
  years = _format_years(served.years, first, last)
  reigns = served.index.printed_reigns
  if unit == MONTH:
    name = calendars.name_month(calendar, first, reigns)
  elif unit == YEAR:
    name = calendars.name_year(calendar, first, reigns)
  else:
    name = years
  return Bar(
    first,
    last,
    name,
    years,
    round(float(density[months].sum()), 3),
    round(float(mass[months].sum()), 3),
    bool(is_asked[months].any()),
  )


def _format_years(years: Int[np.ndarray, " K"], first: int, last: int) -> str:
  names = (
    reign_tables.format_common_era_year(int(years[month]))
    for month in (first, last)
  )
  return " – ".join(dict.fromkeys(names))


def rank_matches(
  served: ServedIndex, resolved: ResolvedQuery, page_size: int
) -> list[RankedRecord] | None:
  """Returns all records that words find; None of a query without any.

  Args:
    served: the index.
    resolved: the query.
    page_size: number of records of a page, which decides how loosely words are
      looked for.
  """
  question = resolved.question
  if not asking.list_words(question):
    return None
  works = served.select_works(resolved.query.works or tuple(question.works))
  masks = asking.mask_kinds(served.index, works, resolved.query.kinds or None)
  depth = asking.find_depth(question, page_size)
  return asking.rank_records(
    served.index, question, depth, works, masks, skip=_ALL
  )


def select_matches(
  served: ServedIndex,
  resolved: ResolvedQuery,
  ranked: list[RankedRecord] | None,
) -> list[RankedRecord] | None:
  """Returns those of the records that are of the time that is asked for.

  Args:
    served: the index.
    resolved: the query.
    ranked: from `rank_matches`.
  """
  if (
    ranked is None
    or asking.make_time_query(served.index, resolved.question) is None
  ):
    return ranked
  confidence = resolved.query.confidence
  return [item for item in ranked if (item.mass or 0) >= confidence]
