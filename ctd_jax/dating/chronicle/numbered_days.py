"""Days by their number in the month: 「十五日」, 「初一」, 「望」, 「元旦」.

Numbers are lengths of time more often than dates: they count after a month, or
at the start of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.dating.chronicle.printed_dates import (
  MONTH_DAY_STATEMENT,
  DatePart,
  PrintedDate,
  list_positions,
)
from ctd_jax.dating.chronicle.punctuation import is_blank
from ctd_jax.dating.sequence import section_kinds

_EARLY_DAY = f"初[{numerals.UNIT_DIGITS}十]"  # 初一 to 初十
_CLAUSE_END = r"(?=[，。、；：！？\s）)]|$)"
# Number of a day, 「十五日」, or 「朔」 for the first.
NUMBER_OF_DAY = re.compile(
  rf"(?P<number>{_EARLY_DAY}|{numerals.NUMERAL_PATTERN})日"
  "(?![食蝕之而不後后內内中乃間])|(?P<new_moon>朔)(?![方州漠平望])"
)
# The same at the end of a clause: 「八月十九，」, 「初五，」.
_NUMBER_ALONE = re.compile(
  rf"(?P<number>{_EARLY_DAY}|{numerals.NUMERAL_PATTERN}){_CLAUSE_END}"
)
# 「望」 is also a sacrifice, and a hope; 「晦冥」 is the dark.
_NAMED_DAY = re.compile(
  f"(?P<name>既望|望(?=[日夜]|{sexagenary.PAIR_PATTERN}|{_CLAUSE_END})"
  "|晦(?![冥暝昧盲])|元[日旦]|歲除|除夕)(?:(?<![日除夕旦])日(?!有?[食蝕]))?"
)
_DAYS_BY_NAME = {"既望": 16, "望": 15, "晦": -1, "元日": 1, "元旦": 1}
_DAYS_BY_NAME |= {"歲除": -1, "除夕": -1}
# Days that are of one month, whether it is printed or not.
_MONTHS_BY_DAY = {"元日": 1, "元旦": 1, "歲除": 12, "除夕": 12}
# Without a month before them these are days for certain.
_OPENING_DAY = re.compile("元[日旦]|歲除|除夕|[晦望]日|既望")
_SENTENCE_ENDS = "。！？；○ \u3000\n"
_MAX_DAY = 30
_MAX_GAP = 2  # characters between month and day, 「三月，十五日」
_TEN_DAYS = 10


def find_numbered_days(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the days that no date of `dates` holds.

  Args:
    text: of a record.
    dates: in it, months among them.
  """
  date_positions = list_positions(dates)
  month_ends = {date.end for date in dates if date.last_part == DatePart.MONTH}
  year_ends = {date.end for date in dates if date.last_part <= DatePart.CYCLE}
  days = [
    *_find_numbers(text, month_ends, date_positions),
    *_find_numbers_alone(text, month_ends),
    *_find_named_days(text, month_ends, year_ends),
  ]
  return [day for day in days if day.start not in date_positions]


def _follows(position: int, ends: set[int], text: str) -> bool:
  """Returns whether nothing but a comma stands between a date and a day."""
  return any(
    position - gap in ends and is_blank(text[position - gap : position])
    for gap in range(_MAX_GAP + 1)
  )


def _make_day(
  start: int, end: int, number: int, is_tail: bool, is_length: bool
) -> PrintedDate:
  return PrintedDate(
    start,
    end,
    DatePart.MONTH_DAY,
    DatePart.MONTH_DAY,
    section_kinds.DAY,
    ((MONTH_DAY_STATEMENT, number),),
    is_tail=is_tail,
    may_be_length=is_length,
  )


def _find_numbers(text, month_ends, date_positions):
  """Yields 「十五日」 and, after a month, 「朔」."""
  # Most texts have none.
  if "日" not in text and "朔" not in text:
    return
  for match in NUMBER_OF_DAY.finditer(text):
    is_after_month = _follows(match.start(), month_ends, text)
    number = match["number"]
    day = 1 if number is None else numerals.parse_numeral(number.lstrip("初"))
    if day > _MAX_DAY or (number is None and not is_after_month):
      continue
    # 「三日」 alone is a length of time, 「十三日」 less often.
    is_written_as_date = number is not None and (
      number.startswith(("初", "廿")) or day > _TEN_DAYS
    )
    yield _make_day(*match.span(), day, is_after_month, not is_written_as_date)


def _find_numbers_alone(text, month_ends):
  """Yields 「十九」 right after a month, and 「初五」 that opens a sentence."""
  for end in sorted(month_ends):
    match = _NUMBER_ALONE.match(text, end)
    if match is not None:
      day = numerals.parse_numeral(match["number"].lstrip("初"))
      if day <= _MAX_DAY:
        yield _make_day(*match.span(), day, True, False)
  if "初" not in text:
    return
  for match in _NUMBER_ALONE.finditer(text):
    is_opening = match.start() == 0 or text[match.start() - 1] in _SENTENCE_ENDS
    if match["number"].startswith("初") and is_opening:
      day = numerals.parse_numeral(match["number"].lstrip("初"))
      yield _make_day(*match.span(), day, False, False)


def _find_named_days(text, month_ends, year_ends):
  """Yields 「望」 and 「晦」 after a month, 「元旦」 after a year or alone."""
  for match in _NAMED_DAY.finditer(text):
    name, start = match["name"], match.start()
    day = _DAYS_BY_NAME[name]
    month = _MONTHS_BY_DAY.get(name)
    if _follows(start, month_ends, text):
      yield _make_day(*match.span(), day, True, False)
      continue
    is_opening = start == 0 or text[start - 1] in _SENTENCE_ENDS
    is_after_year = month is not None and _follows(start, year_ends, text)
    if not (is_after_year or (is_opening and _OPENING_DAY.match(match[0]))):
      continue
    if month is None:
      yield _make_day(*match.span(), day, False, False)
    else:
      yield PrintedDate(
        *match.span(),
        DatePart.MONTH,
        DatePart.MONTH_DAY,
        section_kinds.MONTH,
        (("month", month), (MONTH_DAY_STATEMENT, day)),
        is_tail=False,
      )
