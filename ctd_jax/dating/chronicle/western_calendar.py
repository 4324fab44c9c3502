"""Western calendar: the months of the common era, for Western annals.

The months are those of the Julian calendar to 4 October 1582 and of the
Gregorian from 15 October on; a year begins on 1 January. It is one calendar
more for the decoder: its reigns are CE and BCE, its regnal years the years of
the era.

Axes: K months.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import civil_dates, reign_tables, western_dates
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR, Reign, Timeline
from ctd_jax.dating.chronicle.month_calendar import (
  MAX_YEAR,
  Calendar,
  Memberships,
  Readings,
)
from ctd_jax.texts import Entry, YearHeading, match_year_heading
from ctd_jax.utils.notes import Note

COMMON_ERA, BEFORE_COMMON_ERA = "CE", "BCE"
# Years before the first that a text prints and after the last: headings may be
# missing at both ends.
MARGIN_YEARS = 10
_MIN_BARE_YEAR = 100
_NAME = re.compile(r"CE(?::(?P<first>.+?)\s*[-–/]\s*(?P<last>[^-–/]+))?")


def is_western_name(name: str) -> bool:
  """Whether a value of --reigns means the common era."""
  return _NAME.fullmatch(name.strip()) is not None


def is_western(calendar: Calendar) -> bool:
  """Whether a calendar is of the common era."""
  return all(
    reign.name in (COMMON_ERA, BEFORE_COMMON_ERA)
    for reign in calendar.timeline.reigns
  )


def load_western_calendar(name: str, records: Sequence[Entry]) -> Calendar:
  """Returns the months of the years that a text may be of.

  Args:
    name: `CE`, the years that the records print at their heads, and
      `MARGIN_YEARS` more on both sides; or `CE:700-1160`, `CE:60 BCE-100 CE`.
    records: of the text.

  Raises:
    ValueError: if the name has another form, or no record prints a year.
  """
  match = _NAME.fullmatch(name.strip())
  if match is None:
    raise ValueError(Note("problem.calendar.form", flag=f"--reigns={name}"))
  if match["first"]:
    try:
      first, last = (
        reign_tables.parse_common_era_year(match[group])
        for group in ("first", "last")
      )
    except ValueError as error:
      raise ValueError(
        Note("problem.at", place=f"--reigns={name}", problem=error)
      ) from None
    if first > last:
      raise ValueError(Note("problem.calendar.order", flag=f"--reigns={name}"))
    return make_western_calendar(first, last)
  years = [
    year
    for record in records
    if (year := _find_opening_year(record.text)) is not None
  ]
  if not years:
    raise ValueError(Note("problem.calendar.no_years", flag=f"--reigns={name}"))
  return make_western_calendar(
    max(min(years) - MARGIN_YEARS, -MAX_YEAR),
    min(max(years) + MARGIN_YEARS, MAX_YEAR),
  )


def make_western_calendar(first_year: int, last_year: int) -> Calendar:
  """Returns the months of the years of the common era.

  Args:
    first_year: astronomical.
    last_year: not before it.

  Raises:
    ValueError: if a year is beyond `MAX_YEAR`.
  """
  for year in (first_year, last_year):
    if abs(year) > MAX_YEAR:
      raise ValueError(
        Note(
          "problem.calendar.limit",
          year=reign_tables.format_common_era_year(year),
          limit=MAX_YEAR,
        )
      )
  years, months = (
    axis.ravel()
    for axis in np.meshgrid(
      np.arange(first_year, last_year + 1),
      np.arange(1, MONTHS_PER_YEAR + 1),
      indexing="ij",
    )
  )
  starts = np.array(
    [
      civil_dates.to_julian_day(int(year), int(month), 1)
      for year, month in zip([*years, last_year + 1], [*months, 1], strict=True)
    ]
  )
  lunations = np.arange(len(years))
  reigns = []
  if first_year < 1:
    num_years = min(last_year, 0) - first_year + 1
    reigns.append(Reign(BEFORE_COMMON_ERA, "", first_year, num_years))
  if last_year > 0:
    start = max(first_year, 1)
    reigns.append(Reign(COMMON_ERA, "", start, last_year - start + 1))
  return Calendar(
    Timeline(f"CE:{first_year}-{last_year}", tuple(reigns)),
    Readings(
      lunations,
      years,
      months,
      np.zeros(len(years), bool),
      np.stack([starts[:-1], np.diff(starts)], axis=-1),
      np.zeros(len(years)),
    ),
    Memberships(
      lunations,
      lunations,
      np.where(years < 1, 0, len(reigns) - 1),
      np.where(years < 1, 1 - years, years),
      np.ones(len(years), bool),
    ),
    np.zeros(len(reigns), int),
  )


def match_opening_year(text: str) -> YearHeading | None:
  """Returns the year that heads a text; None if it is the number of an item."""
  heading = match_year_heading(text)
  if heading is None or not (heading.has_era or heading.year >= _MIN_BARE_YEAR):
    return None
  return heading


def _find_opening_year(text: str) -> int | None:
  """Returns the year that opens a text, astronomical."""
  heading = match_opening_year(text)
  if heading is not None:
    return heading.year
  for date in western_dates.find_western_dates(text):
    if date.year is not None:
      return date.year if not text[: date.start].strip() else None
  return None
