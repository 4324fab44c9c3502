"""Julian day numbers and dates of the Julian and Gregorian calendars.

Both calendars are proleptic here: they are carried beyond the day on which
1582-10-15 followed 1582-10-04. Only a civil date changes from one to the other
on that day, as historians write. Years are astronomical, 0 = 1 BCE.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

# Days, or one day.
Days = Int[np.ndarray, "*shape"] | int | np.integer

_MARCH_1_JULIAN = 1721118  # of year 0, Julian calendar
_MARCH_1_GREGORIAN = 1721120
_DAYS_PER_FOUR_YEARS = 1461
_DAYS_PER_FOUR_CENTURIES = 146097
_DAYS_PER_FIVE_MONTHS = 153  # March to July, August to December
_FIRST_GREGORIAN_DAY = 2299161
_FIRST_GREGORIAN_DATE = (1582, 10, 15)


def to_julian_dates(
  julian_days: Days,
) -> Int[np.ndarray, "*shape 3"]:
  """Returns year, month and day of the Julian calendar.

  Args:
    julian_days: Julian day numbers.
  """
  days = julian_days - _MARCH_1_JULIAN
  year = (4 * days + 3) // _DAYS_PER_FOUR_YEARS
  return _join_dates(year, days - (_DAYS_PER_FOUR_YEARS * year) // 4)


def to_gregorian_dates(
  julian_days: Days,
) -> Int[np.ndarray, "*shape 3"]:
  """Returns year, month and day of the proleptic Gregorian calendar.

  This is the calendar of ISO 8601.

  Args:
    julian_days: Julian day numbers.
  """
  days = julian_days - _MARCH_1_GREGORIAN
  century = (4 * days + 3) // _DAYS_PER_FOUR_CENTURIES
  days = days - (_DAYS_PER_FOUR_CENTURIES * century) // 4
  year = (4 * days + 3) // _DAYS_PER_FOUR_YEARS
  day_of_year = days - (_DAYS_PER_FOUR_YEARS * year) // 4
  return _join_dates(100 * century + year, day_of_year)


def from_julian_dates(
  dates: Int[np.ndarray, "*shape 3"],
) -> Days:
  """Returns Julian day numbers; the inverse of `to_julian_dates`.

  Raises:
    ValueError: naming the first date that the calendar lacks.
  """
  year, day_of_year = _split_dates(dates)
  julian_days = _DAYS_PER_FOUR_YEARS * year // 4 + day_of_year + _MARCH_1_JULIAN
  return _check_dates(dates, julian_days, to_julian_dates(julian_days))


def from_gregorian_dates(
  dates: Int[np.ndarray, "*shape 3"],
) -> Days:
  """Returns Julian day numbers; the inverse of `to_gregorian_dates`.

  Raises:
    ValueError: naming the first date that the calendar lacks.
  """
  year, day_of_year = _split_dates(dates)
  century = year // 100
  julian_days = (
    _DAYS_PER_FOUR_CENTURIES * century // 4
    + _DAYS_PER_FOUR_YEARS * (year - 100 * century) // 4
    + day_of_year
    + _MARCH_1_GREGORIAN
  )
  return _check_dates(dates, julian_days, to_gregorian_dates(julian_days))


def to_civil_date(julian_day: int) -> tuple[int, int, int]:
  """Returns (astronomical year, month, day); inverse of `to_julian_day`."""
  is_gregorian = julian_day >= _FIRST_GREGORIAN_DAY
  convert = to_gregorian_dates if is_gregorian else to_julian_dates
  year, month, day = convert(julian_day).tolist()
  return year, month, day


def to_julian_day(year: int, month: int, day: int) -> int:
  """Returns the Julian day number of a date.

  Args:
    year: astronomical year.
    month: 1-12.
    day: day of the month, from 1; Julian calendar before 1582-10-15.

  Raises:
    ValueError: if there is no such date.
  """
  date = (year, month, day)
  is_gregorian = date >= _FIRST_GREGORIAN_DATE
  convert = from_gregorian_dates if is_gregorian else from_julian_dates
  julian_day = int(convert(np.array(date)))
  # 1582-10-05 to 14 are in neither.
  if to_civil_date(julian_day) != date:
    raise ValueError(f"there is no day {format_date(np.array(date))}")
  return julian_day


def format_date(date: Int[np.ndarray, " 3"]) -> str:
  """Returns a date as ISO 8601 writes it: 0307-01-20, -0103-12-25."""
  year, month, day = map(int, date)
  return f"{'-' * (year < 0)}{abs(year):04d}-{month:02d}-{day:02d}"


def _join_dates(year: Days, day_of_year: Days) -> Int[np.ndarray, "*shape 3"]:
  """Returns dates from years that begin on 1 March, day 0."""
  month = (5 * day_of_year + 2) // _DAYS_PER_FIVE_MONTHS
  day = day_of_year - (_DAYS_PER_FIVE_MONTHS * month + 2) // 5 + 1
  is_next_year = month >= 10
  return np.stack(
    [year + is_next_year, month + 3 - 12 * is_next_year, day], axis=-1
  )


def _split_dates(
  dates: Int[np.ndarray, "*shape 3"],
) -> tuple[Days, Days]:
  """Returns years that begin on 1 March, and days of them from 0."""
  year, month, day = np.moveaxis(dates, -1, 0)
  is_before_march = month < 3
  month = month - 3 + 12 * is_before_march
  return year - is_before_march, (
    (_DAYS_PER_FIVE_MONTHS * month + 2) // 5 + day - 1
  )


def _check_dates(
  dates: Int[np.ndarray, "*shape 3"],
  julian_days: Days,
  dates_again: Int[np.ndarray, "*shape 3"],
) -> Days:
  is_wrong = np.atleast_1d((dates != dates_again).any(-1)).ravel()
  if is_wrong.any():
    date = dates.reshape(-1, 3)[np.flatnonzero(is_wrong)[0]]
    raise ValueError(f"there is no day {format_date(date)}")
  return julian_days
