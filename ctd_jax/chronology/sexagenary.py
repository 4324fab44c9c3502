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

from __future__ import annotations

import re

from ctd_jax.chronology import civil_dates

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

  Args:
    text: stem and branch; 已 or 巳 for 己 and the like are read by position.

  Raises:
    ValueError: if `text` is not one of the sixty pairs.
  """
  if _PAIR_REGEX.fullmatch(text) is None:
    raise ValueError(f"not a sexagenary pair: {text!r}; expected such as 癸未")
  stem = STEMS.index(_STEM_GLYPHS.get(text[0], text[0]))
  branch = BRANCHES.index(_BRANCH_GLYPHS.get(text[1], text[1]))
  # Chinese remainder theorem for 10 and 12.
  return (6 * stem - 5 * branch) % CYCLE_LENGTH


def find_day_mark(text: str, end: int) -> int:
  """Returns the mark, one of `DAY_MARKS`, of the day that ends at `end`.

  「壬辰朔」 and 「壬辰，日有食之」 are of a first day, 「壬辰晦」 of a last.

  Args:
    text: with the pair, in the spelling that `parse_cyclic_index` reads.
    end: position after the pair.
  """
  match = _DAY_MARK_REGEX.match(text, end)
  if not match:
    return ANY_DAY
  return FIRST_DAY if match[1] else LAST_DAY


def format_cyclic_index(cyclic_index: int) -> str:
  """Returns the sexagenary pair at `cyclic_index`, 0 = 甲子.

  Raises:
    ValueError: if `cyclic_index` lies outside 0-59.
  """
  if not 0 <= cyclic_index < CYCLE_LENGTH:
    raise ValueError(f"a sexagenary index is 0-59, got {cyclic_index}")
  return STEMS[cyclic_index % 10] + BRANCHES[cyclic_index % 12]


def cyclic_index_of_day(julian_day_number: int) -> int:
  """Returns the sexagenary index of a day given by its Julian day number."""
  return (julian_day_number - _JULIAN_DAY_OF_JIAZI) % CYCLE_LENGTH


def cyclic_index_of_year(year: int) -> int:
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
    ValueError: if `cyclic_index` lies outside 0-59.
  """
  format_cyclic_index(cyclic_index)
  start = first + (cyclic_index - cyclic_index_of_year(first)) % CYCLE_LENGTH
  return tuple(range(start, last + 1, CYCLE_LENGTH))


def is_new_moon(julian_day: int) -> bool:
  """Whether a lunar month begins on this day (朔)."""
  import sxtwl

  return (
    sxtwl.fromSolar(*civil_dates.to_civil_date(julian_day)).getLunarDay() == 1
  )


def find_new_moons(first: int, last: int) -> tuple[int, ...]:
  """Returns the Julian day numbers of the new moons in `first`..`last`."""
  moons, day = [], first
  while day <= last:
    is_found = is_new_moon(day)
    if is_found:
      moons.append(day)
    day += _SHORTEST_MONTH if is_found else 1
  return tuple(moons)
