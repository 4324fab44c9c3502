"""Precision of a date: the smallest unit of time that holds all of it.

Axes: K months.
"""

from __future__ import annotations

from collections.abc import Sequence

from ctd_jax.chronology.timelines import MONTHS_PER_YEAR
from ctd_jax.dating.chronicle import western_calendar
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.section_days import DaySpan

PRECISIONS = DAY, MONTH, SEASON, YEAR, INTERVAL = (
  "day",
  "month",
  "season",
  "year",
  "interval",
)
_MONTHS_PER_SEASON = 3


def find_precision(
  calendar: Calendar, spans: Sequence[DaySpan], months: Sequence[int]
) -> str | None:
  """Returns the smallest of `PRECISIONS` that holds a date.

  Args:
    calendar: of the months. Seasons of the East begin with the months 1, 4, 7
      and 10, those of the West with March, June, September and December.
    spans: days that the date can be, from `section_days.locate_sections`; None
      is returned if there are none.
    months: ordinals of the months that they are of, ascending.
  """
  if not spans:
    return None
  if spans[0][0] == spans[-1][1]:
    return DAY
  rows = list(months)
  if len(rows) == 1:
    return MONTH
  first_month = 3 if western_calendar.is_western(calendar) else 1
  # Months from the first of a season on: December stands with January.
  past_season = (
    calendar.years[rows] * MONTHS_PER_YEAR + calendar.months[rows] - first_month
  )
  if len(set((past_season // _MONTHS_PER_SEASON).tolist())) == 1:
    return SEASON
  return YEAR if len(set(calendar.years[rows].tolist())) == 1 else INTERVAL
