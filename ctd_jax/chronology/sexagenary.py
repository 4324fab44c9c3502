"""Sexagenary days and years, and the lunar calendar behind them.

The Annals date events by the sexagenary day (「癸未」), which together with a
month narrows or checks a date; later works also name years in this way
(「歲在己未」).

Indices count from 0 = 甲子. Days are Julian day numbers (the integer of the
day's noon); years are astronomical (0 = 1 BCE).

The new moons come from `sxtwl`, which computes them back to the period. Its
month *numbers* follow a later convention and its leap months a later rule, so
only days and new moons are taken from it: which lunation Lu called 正月 is an
open question. Functions import the library when they need it, because every
reader of dates imports this module.
"""

import re

import numpy as np
from jaxtyping import Int

# Julian day numbers and dates of the Julian and Gregorian calendars.
#
# Both calendars are proleptic here: they are carried beyond the day on which
# 1582-10-15 followed 1582-10-04. Only a civil date changes from one to the
# other on that day, as historians write. Years are astronomical, 0 = 1 BCE.


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
  return np.stack(split_julian(julian_days), axis=-1)


def to_gregorian_dates(
  julian_days: Days,
) -> Int[np.ndarray, "*shape 3"]:
  """Returns year, month and day of Julian day numbers, proleptic Gregorian."""
  return np.stack(split_gregorian(julian_days), axis=-1)


def split_julian(julian_days: Days) -> tuple[Days, Days, Days]:
  """Returns what `to_julian_dates` does, apart; one day takes no array."""
  days = julian_days - _MARCH_1_JULIAN
  year = (4 * days + 3) // _DAYS_PER_FOUR_YEARS
  return _join_dates(year, days - (_DAYS_PER_FOUR_YEARS * year) // 4)


def split_gregorian(julian_days: Days) -> tuple[Days, Days, Days]:
  """Returns what `to_gregorian_dates` does, apart; one day takes no array."""
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
    ValueError: if the calendar lacks a date; the message names the first.
  """
  year, day_of_year = _split_dates(dates)
  julian_days = _DAYS_PER_FOUR_YEARS * year // 4 + day_of_year + _MARCH_1_JULIAN
  return _check_dates(dates, julian_days, to_julian_dates(julian_days))


def from_gregorian_dates(
  dates: Int[np.ndarray, "*shape 3"],
) -> Days:
  """Returns Julian day numbers; the inverse of `to_gregorian_dates`.

  Raises:
    ValueError: if the calendar lacks a date; the message names the first.
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
  """Returns the Julian day number of a date; ValueError for a bad date.

  The year is astronomical, the calendar Julian before 1582-10-15.
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


def _join_dates(year: Days, day_of_year: Days) -> tuple[Days, Days, Days]:
  """Returns dates from years that begin on 1 March, day 0."""
  month = (5 * day_of_year + 2) // _DAYS_PER_FIVE_MONTHS
  day = day_of_year - (_DAYS_PER_FIVE_MONTHS * month + 2) // 5 + 1
  is_next_year = month >= 10
  return year + is_next_year, month + 3 - 12 * is_next_year, day


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


STEMS = "甲乙丙丁戊己庚辛壬癸"
BRANCHES = "子丑寅卯辰巳午未申酉戌亥"
CYCLE_LENGTH = 60
_SHORTEST_MONTH = 28  # days, of all lunar months that were
# Prints of the texts mix 己/已/巳 and 戊/戌/戍; the place in the pair decides.
_STEM_GLYPHS = {"已": "己", "巳": "己", "戌": "戊", "戍": "戊"}
_BRANCH_GLYPHS = {"已": "巳", "己": "巳", "戍": "戌", "戊": "戌"}
# Stem and branch of a pair have the same parity: 60 pairs of 120.
PAIR_PATTERN = (
  "(?:[甲丙戊戌戍庚壬][子寅辰午申戌戍戊]|[乙丁己已巳辛癸][丑卯巳已己未酉亥])"
)
# The name of a year in folded text: 己未年, 歲在己未. 「己未年老」 is a day.
YEAR_PATTERN = (
  rf"(?:太?歲[在次]於?{PAIR_PATTERN}年?|{PAIR_PATTERN}[年歲](?![老幼少長高]))"
)
_PAIR_REGEX = re.compile(PAIR_PATTERN)
# Position of a day in its month as a text marks it: none, first, last.
DAY_MARKS = ANY_DAY, FIRST_DAY, LAST_DAY = range(3)
# An eclipse of the sun is at new moon. 「，朔方」 is a region, 「，晦之」 a
# person.
_DAY_MARK_REGEX = re.compile(
  r"[\s，、：。；．]*(?:(朔(?![方州])|日有?[食蝕])"
  r"|((?<![\s，、：。；．])晦|晦(?=[\s，、：。；．日]|$)))"
)
_JULIAN_DAY_OF_JIAZI = 11  # Julian day 11 is 甲子; 2451545 (2000-01-01) 戊午


def parse_cyclic_index(text: str) -> int:
  """Returns the index of a sexagenary pair, 0 = 甲子 ... 59 = 癸亥.

  已 or 巳 for 己 and the like are read by position. ValueError if `text` is not
  one of the sixty pairs.
  """
  if _PAIR_REGEX.fullmatch(text) is None:
    raise ValueError(f"not a sexagenary pair: {text!r}; expected one like 癸未")
  stem = STEMS.index(_STEM_GLYPHS.get(text[0], text[0]))
  branch = BRANCHES.index(_BRANCH_GLYPHS.get(text[1], text[1]))
  # Chinese remainder theorem for 10 and 12.
  return (6 * stem - 5 * branch) % CYCLE_LENGTH


def find_day_mark(text: str, end: int) -> int:
  """Returns the mark, one of `DAY_MARKS`, of the day whose pair ends at `end`.

  「壬辰朔」 and 「壬辰，日有食之」 mark a first day, 「壬辰晦」 a last one.
  """
  match = _DAY_MARK_REGEX.match(text, end)
  if not match:
    return ANY_DAY
  return FIRST_DAY if match[1] else LAST_DAY


def format_cyclic_index(cyclic_index: int) -> str:
  """Returns the sexagenary pair at `cyclic_index`, 0 = 甲子.

  Raises:
    ValueError: if `cyclic_index` is outside 0-59.
  """
  if not 0 <= cyclic_index < CYCLE_LENGTH:
    raise ValueError(f"a sexagenary index is 0-59, got {cyclic_index}")
  return STEMS[cyclic_index % 10] + BRANCHES[cyclic_index % 12]


def cyclic_index_of_day(
  julian_day_number: int | Int[np.ndarray, " *days"],
) -> int | Int[np.ndarray, " *days"]:
  """Returns the sexagenary index of a day given by its Julian day number."""
  return (julian_day_number - _JULIAN_DAY_OF_JIAZI) % CYCLE_LENGTH


def cyclic_index_of_year(year: int | np.ndarray) -> int | np.ndarray:
  """Returns the sexagenary index of an astronomical year; 4 CE is 甲子."""
  return (year - 4) % CYCLE_LENGTH


def format_cyclic_year(year: int) -> str:
  """Returns the name of an astronomical year, e.g. -721 -> 己未年."""
  return f"{format_cyclic_index(cyclic_index_of_year(year))}年"


def years_with_cyclic_index(
  cyclic_index: int, first: int, last: int
) -> tuple[int, ...]:
  """Returns the astronomical years of `first`..`last` at `cyclic_index`.

  Raises:
    ValueError: if `cyclic_index` is outside 0-59.
  """
  format_cyclic_index(cyclic_index)
  start = first + (cyclic_index - cyclic_index_of_year(first)) % CYCLE_LENGTH
  return tuple(range(start, last + 1, CYCLE_LENGTH))


def is_new_moon(julian_day: int) -> bool:
  """Whether a lunar month begins on this day (朔)."""
  import sxtwl

  return sxtwl.fromSolar(*to_civil_date(julian_day)).getLunarDay() == 1


def find_new_moons(first: int, last: int) -> tuple[int, ...]:
  """Returns the Julian day numbers of the new moons in `first`..`last`."""
  moons, day = [], first
  while day <= last:
    is_found = is_new_moon(day)
    if is_found:
      moons.append(day)
    day += _SHORTEST_MONTH if is_found else 1
  return tuple(moons)
