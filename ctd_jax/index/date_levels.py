"""How sure a date is, and the narrowest time that is sure enough to be named.

The levels of such a time are month, season, year and interval.

Axes: K months.
"""

import dataclasses
from collections.abc import Collection

import numpy as np
from jaxtyping import Float

from ctd_jax.chronology import reigns
from ctd_jax.chronology.dates import SEASONS
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.index import calendars

CERTAIN, ALMOST, PROBABLE, EVEN, POSSIBLE = 0.98, 0.9, 0.7, 0.5, 0.1
# Least probability and name of each degree; pages have the words.
_DEGREES = (
  (CERTAIN, "certain"),
  (ALMOST, "almost"),
  (PROBABLE, "probable"),
  (EVEN, "even"),
  (POSSIBLE, "possible"),
  (0.0, "hardly"),
)
# Below it no month, season or year is named. Of .5, .6, .7, .8 and .9 the
# lowest at which nine in ten months named are right, on both indexes of
# docs/results/asking.md, of other sentences (--seed=2) whose records were taken
# out.
NAMED = 0.8
_MAX_YEARS = 20  # of an interval that says something
MONTH, SEASON, YEAR = "month", "season", "year"
INTERVAL, OUTSIDE, NONE = "interval", "outside", "none"
LEVELS = (MONTH, SEASON, YEAR, INTERVAL, OUTSIDE, NONE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SureDate:
  """The narrowest time of a date that is sure enough to be named."""

  level: str  # one of `LEVELS`
  first: int  # ordinal of the first month, -1 if nothing is sure
  last: int  # ordinal of the last month
  name: str  # such as 魯僖公二十六年秋
  common_era: str  # its years
  probability: float


def find_degree(chance: float) -> str:
  """Returns the name of how sure a time with a probability is."""
  return next(name for least, name in _DEGREES if chance >= least)


def find_year_starts(calendar: Calendar) -> np.ndarray:
  """Returns the first month of each year of the common era."""
  # Where calendars change, a month may be counted to a year already past.
  years = np.maximum.accumulate(calendar.years)
  return np.flatnonzero(np.diff(years, prepend=years[0] - 1))


def find_sure_date(
  calendar: Calendar,
  chances: Float[np.ndarray, " months"],
  printed_reigns: Collection[int] = (),
) -> SureDate:
  """Returns the narrowest time that is sure enough to be named.

  Args:
    chances: of the months, and last of none of them.
  """
  chances, num_months = chances.astype(float), len(calendar)
  if chances[-1] >= NAMED:
    span = num_months, num_months
    return _make(calendar, OUTSIDE, *span, float(chances[-1]), printed_reigns)
  best = int(chances[:-1].argmax())
  if chances[best] >= NAMED:
    chance = float(chances[best])
    return _make(calendar, MONTH, best, best, chance, printed_reigns)
  starts = np.append(find_year_starts(calendar), num_months)
  sums = np.add.reduceat(chances[:-1], starts[:-1])
  year = int(sums.argmax())
  first, last = int(starts[year]), int(starts[year + 1]) - 1
  seasons = (calendar.months[first : last + 1] - 1) // 3
  by_season = np.bincount(seasons, chances[first : last + 1])
  season = int(by_season.argmax())
  of_season = first + np.flatnonzero(seasons == season)
  # Leap months and changes of the calendar can break a season in two.
  is_whole = len(of_season) == of_season[-1] - of_season[0] + 1
  if by_season[season] >= NAMED and is_whole:
    span = int(of_season[0]), int(of_season[-1])
    chance = float(by_season[season])
    return _make(calendar, SEASON, *span, chance, printed_reigns)
  if sums[year] >= NAMED:
    chance = float(sums[year])
    return _make(calendar, YEAR, first, last, chance, printed_reigns)
  order = np.argsort(-sums, kind="stable")
  number = int((np.cumsum(sums[order]) < ALMOST).sum()) + 1
  low, high = int(order[:number].min()), int(order[:number].max())
  if high - low < min(_MAX_YEARS, len(sums) // 2):
    chance = float(sums[low : high + 1].sum())
    if chance >= ALMOST:
      first, last = int(starts[low]), int(starts[high + 1]) - 1
      return _make(calendar, INTERVAL, first, last, chance, printed_reigns)
  return SureDate(
    level=NONE, first=-1, last=-1, name="", common_era="", probability=0.0
  )


def _make(
  calendar: Calendar,
  level: str,
  first: int,
  last: int,
  chance: float,
  printed_reigns: Collection[int],
) -> SureDate:
  if level in (MONTH, OUTSIDE):
    name = calendars.name_month(calendar, first, printed_reigns)
  else:
    names = [
      calendars.name_year(calendar, month, printed_reigns)
      for month in (first, last)
    ]
    name = " – ".join(dict.fromkeys(names))
    if level == SEASON:
      name = names[0] + SEASONS[(int(calendar.months[first]) - 1) // 3]
  years = () if level == OUTSIDE else calendar.years[[first, last]].tolist()
  return SureDate(
    level=level,
    first=first,
    last=last,
    name=name,
    common_era=" – ".join(
      dict.fromkeys(map(reigns.format_common_era_year, years))
    ),
    probability=chance,
  )
