"""Months of one calendar in another: of a data set's timeline, of a part.

Axes: K lunations of the calendar, T months of a timeline.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.dating.chronicle.month_calendar import Calendar

# (month, leap) -> lunation, by the names of a year.
_MonthTable = dict[tuple, dict[tuple[int, bool], int]]


def map_time_keys(
  timeline: Timeline, calendar: Calendar
) -> Int[np.ndarray, " T"]:
  """Returns the lunation of every month of a timeline.

  A month is looked for under its reign, else under its year of the common era.
  A leap month that the calendar has not is the month before it, and so is a
  month that a reform left out. What lies outside of the calendar is K.

  Args:
    timeline: of a data set.
    calendar: of the index.
  """
  by_name, by_year = _number_months(calendar)
  lunations = np.full(len(timeline), len(calendar))
  for ordinal, key in enumerate(timeline.months):
    reign = timeline.reigns[key.reign - 1]
    named_year = (reign.state, reign.name, key.year)
    civil_year = reign_tables.astronomical_year_of(timeline, key)
    candidates = by_name.get(named_year) or by_year.get((civil_year,), {})
    lunations[ordinal] = _find_month(candidates, key, len(calendar))
  return lunations


def _number_months(calendar: Calendar) -> tuple[_MonthTable, _MonthTable]:
  """Returns (month, leap) -> lunation by regnal year, and by civil year."""
  readings, members = calendar.readings, calendar.memberships
  by_name: _MonthTable = {}
  by_year: _MonthTable = {}
  rows = zip(
    members.lunations.tolist(),
    members.readings.tolist(),
    members.reigns.tolist(),
    members.regnal_years.tolist(),
    strict=True,
  )
  for lunation, reading, reign_row, year in rows:
    reign = calendar.timeline.reigns[reign_row]
    month = int(readings.months[reading]), bool(readings.is_leap[reading])
    by_name.setdefault((reign.state, reign.name, year), {}).setdefault(
      month, lunation
    )
  for lunation, (year, month, is_leap) in enumerate(
    zip(
      calendar.years.tolist(),
      calendar.months.tolist(),
      calendar.is_leap.tolist(),
      strict=True,
    )
  ):
    by_year.setdefault((year,), {}).setdefault((month, is_leap), lunation)
  return by_name, by_year


def _find_month(
  months: dict[tuple[int, bool], int], key: TimeKey, outside: int
) -> int:
  """Returns the lunation of a month of a year, or of the last before it."""
  exact = months.get((key.month, key.leap))
  if exact is not None:
    return exact
  earlier = [month for month in months if month < (key.month, key.leap)]
  if earlier:
    return months[max(earlier)]
  return months[min(months)] if months else outside


def match_months(
  narrowed: Calendar, calendar: Calendar
) -> Int[np.ndarray, " ordinals"]:
  """Returns the ordinals in a calendar of the months of a part of it.

  Dating leaves months out that a chronicle cannot be of, and puts its own
  readings first.

  Args:
    narrowed: of `Calendar.take` and `Calendar.weigh_readings`.
    calendar: the whole.

  Returns:
    Of every month of the part, and of what lies outside of it, [n + 1].
  """
  ordinals = np.searchsorted(_sort_key(calendar), _sort_key(narrowed))
  return np.append(ordinals, len(calendar))


def _sort_key(calendar: Calendar) -> Int[np.ndarray, " K"]:
  """Returns an ascending number for every month that tells it from others."""
  readings = calendar.readings
  if readings.day_spans is not None:
    return np.minimum.reduceat(readings.day_spans[:, 0], readings.starts)
  return 2 * (12 * calendar.years + calendar.months) + calendar.is_leap
