"""Years that are named twice: by reign, by pair, by year of the common era.

「丙申萬曆二十四年」, 「歲在丁酉，萬曆二十五年」, 「光緒二十六年（1900年）」 and
「1900年（光緒二十六年）」 are one date each.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.dating.chronicle.printed_dates import (
  COMMON_YEAR_STATEMENT,
  DatePart,
  PrintedDate,
)
from ctd_jax.dating.chronicle.punctuation import is_blank
from ctd_jax.dating.sequence import section_kinds

_PAIR = (
  rf"(?:{sexagenary.PAIR_PATTERN}[年歲]?"
  rf"|[歲嵗歳][在次]{sexagenary.PAIR_PATTERN})"
)
_COMMON_YEAR = (
  r"(?:(?:公元|西元|西[曆历])(?P<before>前)?(?P<era_year>[0-9０-９]{1,4}"
  rf"|[〇零○{numerals.UNIT_DIGITS}]{{2,4}})年?"
  # Without a word three digits: 「（3）」 is a note.
  "|(?P<before_era>前)?(?P<year>[0-9０-９]{3,4})年?)"
)
# 「（1597年）」, 「（丁酉，公元一五九七年）」, 「（前722年，己未）」.
_NOTE = re.compile(
  rf"[ \u3000]?[（(〔\[](?:(?P<pair>{_PAIR})[，、,/ ]?)?"
  rf"(?:{_COMMON_YEAR}(?:[，、,/ ]?(?P<last_pair>{_PAIR}))?)?[）)〕\]]"
)
_CLOSING = "）)〕]"
_OPENING = "（(〔["
_YEAR_PARTS = (DatePart.YEAR, DatePart.CYCLE)


def join_year_names(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the dates, the names of one year as one date.

  Args:
    text: of a record.
    dates: in it, in order.
  """
  joined: list[PrintedDate] = []
  for date in dates:
    if joined and date.start < joined[-1].end:
      continue  # a bracket that was read
    if joined and _name_one_year(joined[-1], date, text):
      joined[-1] = _join(joined[-1], date, text)
    else:
      joined.append(date)
    joined[-1] = _read_note(joined[-1], text)
  return joined


def _read_note(date: PrintedDate, text: str) -> PrintedDate:
  """Returns a year with what a bracket right after it names it by."""
  note = _NOTE.match(text, date.end)
  digits = note and (note["era_year"] or note["year"])
  if date.last_part not in _YEAR_PARTS or not (
    note and (digits or note["pair"])
  ):
    return date
  statements = list(date.statements)
  year = _read_digits(digits) if digits else 0
  if year:
    is_before = note["before"] or note["before_era"]
    statements.append((COMMON_YEAR_STATEMENT, 1 - year if is_before else year))
  pair = note["pair"] or note["last_pair"]
  if pair:
    statements.append(("cycle", _read_pair(pair)))
  return dataclasses.replace(
    date,
    end=note.end(),
    last_part=DatePart.CYCLE,
    statements=tuple(dict.fromkeys(statements)),
  )


def _read_digits(digits: str) -> int:
  """Returns the number of 「1597」 or 「一五九七」."""
  values = {d: n for n, d in enumerate(numerals.UNIT_DIGITS, start=1)}
  return int(
    "".join(d if d.isdecimal() else str(values.get(d, 0)) for d in digits)
  )


def _read_pair(name: str) -> int:
  pair = re.search(sexagenary.PAIR_PATTERN, name)
  return sexagenary.parse_cyclic_index(pair[0])


def _is_pair(date: PrintedDate) -> bool:
  """Returns whether a date is a pair alone, 「丁酉」."""
  return date.first_part == date.last_part == DatePart.DAY and (
    date.end - date.start == 2
  )


def _name_one_year(first: PrintedDate, second: PrintedDate, text: str) -> bool:
  """Returns whether two dates that follow one another name one year."""
  gap = text[first.end : second.start]
  if not is_blank(gap.strip(_CLOSING)) or len(gap) > 2:
    return False
  if _is_pair(first):
    # 「丙申萬曆二十四年」; a month goes on with a pair only where nothing
    # stands before it, else it is a day that the sentence ends with.
    opens_record = not text[: first.start].strip(_OPENING + " \u3000○◎")
    if second.first_part == DatePart.YEAR:
      return not gap.strip(_CLOSING + " \u3000") and (
        second.kind == section_kinds.NAMED or opens_record
      )
    return (
      opens_record
      and second.first_part in (DatePart.SEASON, DatePart.MONTH)
      and not gap.strip(_CLOSING)
    )
  if not (
    first.last_part in _YEAR_PARTS
    and first.first_part in _YEAR_PARTS
    and second.first_part in _YEAR_PARTS
  ):
    return False
  names = [{name for name, *_ in date.statements} for date in (first, second)]
  if names[0] & names[1]:
    # 「萬曆二十五年（慶長二年）」 is one year, 「元年，二年」 is two.
    return gap[:1] in _OPENING and bool(gap) and _closes(second, text)
  return True


def _closes(date: PrintedDate, text: str) -> bool:
  """Returns whether a bracket closes after a date."""
  return text[date.end : date.end + 1] in tuple(_CLOSING)


def _join(first: PrintedDate, second: PrintedDate, text: str) -> PrintedDate:
  """Returns two names of a year as one date."""
  statements = first.statements
  if _is_pair(first):
    statements = (("cycle", first.statements[0][1]),)
  is_within_brackets = second.last_part in _YEAR_PARTS and _closes(second, text)
  return PrintedDate(
    first.start,
    second.end + is_within_brackets,
    min(
      DatePart.CYCLE if _is_pair(first) else first.first_part,
      second.first_part,
    ),
    second.last_part,
    max(section_kinds.YEAR if _is_pair(first) else first.kind, second.kind),
    tuple(dict.fromkeys((*statements, *second.statements))),
    has_season=first.has_season or second.has_season,
  )
