"""Dates that need their context: 「是年冬」, 「十五日」, 「丙申萬曆二十四年」.

Relative dates count from the date before them, numbered days from the month
before them, and one year may have several names.
"""

import dataclasses
import itertools
import re
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.chronology.dates import DAYS_BY_NAME, MONTHS_BY_DAY, SEASONS
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import (
  COMMON_YEAR_STATEMENT,
  DAY,
  DAY_STATEMENTS,
  MONTH,
  MONTH_DAY_STATEMENT,
  NAMED,
  NO_DATE,
  RELATIVE_YEAR_STATEMENT,
  RULED_YEAR_STATEMENT,
  SEASON,
  YEAR,
  DatePart,
  DateStatement,
  PrintedDate,
  Section,
  SectionDraft,
  find_statement,
  is_blank,
  is_punctuated,
  list_positions,
)

_YEAR_SIGN = "[年歲嵗歳]"
# A season after them is the first character of no name: 夏侯, 秋官.
_RELATIVE = re.compile(
  rf"(?:(?P<same_year>[是同其此本]{_YEAR_SIGN})"
  rf"|(?P<next_year>(?:[越又其]?[明次翌]|踰|逾){_YEAR_SIGN})"
  "|(?P<same_month>[是同其此本]月)|(?P<next_month>[翌次踰逾]月)"
  # 「是冬十月」 is a month.
  rf"|(?P<same_season>是[{SEASONS}](?![{SEASONS}侯國國人官姬月正閏十"
  rf"{numerals.UNIT_DIGITS}])))"
  rf"(?P<season>，?[{SEASONS}](?![{SEASONS}侯國國人官姬]))?"
)
_SAME_MONTH = re.compile("[是其同]月")
# What follows, in the same sentence, what somebody plans: 「明年，當大舉」.
_PLAN = re.compile(
  r"[^。；！？]{0,10}?(?:當|将|將(?!軍)|必|宜|可(?!汗)|請|欲|應|須|矣|乎|若|復可)"
)


def join_relative_dates(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the dates, relative ones (「明年春」) joined to what follows."""
  by_start = {date.start: date for date in dates}
  joined = []
  for match in _RELATIVE.finditer(text):
    date = _read_relative_date(match, text, by_start)
    if date is not None:
      joined.append(date)
  taken = list_positions(joined)
  return [*(date for date in dates if date.start not in taken), *joined]


def _read_relative_date(
  match: re.Match[str], text: str, by_start: dict[int, PrintedDate]
) -> PrintedDate | None:
  """Returns a date by relation; None if it adds nothing, or is a plan."""
  prefix_end = match.start("season") if match["season"] else match.end()
  head = next(
    name
    for name in (
      "same_year",
      "next_year",
      "same_month",
      "next_month",
      "same_season",
    )
    if match[name]
  )
  rest = next(
    (
      by_start[position]
      for position in range(prefix_end, prefix_end + 2)
      if position in by_start and not text[prefix_end:position].strip("，")
    ),
    None,
  )
  if head == "same_year" and rest is not None and rest.kind == NAMED:
    return dataclasses.replace(rest, start=match.start())
  if rest is not None and rest.first_part < DatePart.SEASON:
    rest = None
  if rest is None and match["season"] and head.endswith("year"):
    rest = PrintedDate(
      prefix_end,
      match.end(),
      DatePart.SEASON,
      DatePart.SEASON,
      SEASON,
      (("season", SEASONS.index(match["season"][-1])),),
      has_season=True,
    )
  if head.startswith("same"):
    smallest = DatePart.SEASON if head == "same_year" else DatePart.MONTH_DAY
    if rest is None or rest.first_part < smallest:
      return _read_same_time(match, text)
    if head == "same_month" and not is_punctuated(text):
      return _read_same_time(match, text)  # the day goes on from it
    relation = ((RELATIVE_YEAR_STATEMENT, 0),) * (head == "same_year")
    return dataclasses.replace(
      rest,
      start=match.start(),
      statements=(*rest.statements, *relation),
      may_be_length=False,
      is_tail=False,
    )
  if _PLAN.match(text, rest.end if rest else match.end()):
    return None
  if head == "next_month" and rest is None and not is_punctuated(text):
    return None  # 「踰月無所得」 is a length of time
  part, kind, relation = (
    (DatePart.YEAR, YEAR, ((RELATIVE_YEAR_STATEMENT, 1),))
    if head == "next_year"
    else (DatePart.MONTH, MONTH, ())
  )
  if rest is None or rest.first_part <= part:
    return PrintedDate(match.start(), prefix_end, part, part, kind, relation)
  return dataclasses.replace(
    rest,
    start=match.start(),
    first_part=part,
    kind=kind,
    statements=(*relation, *rest.statements),
    may_be_length=False,
    is_tail=False,
  )


def _read_same_time(match: re.Match[str], text: str) -> PrintedDate | None:
  """Returns 「是歲」 as a date that leaves its day; None for other words."""
  if match[0][0] not in ("是" if not is_punctuated(text) else "是其同"):
    return None
  # It opens a clause as a month does, and adds nothing to what the order says.
  part = DatePart.MONTH
  return PrintedDate(*match.span(), part, part, NO_DATE, ())


def find_extent(head: str) -> DatePart | None:
  """Returns the year or season that a section tells of as a whole, 「是歲」."""
  match = _RELATIVE.fullmatch(head)
  if match is None or not (match["same_year"] or match["same_season"]):
    return None
  is_year = match["same_year"] and not match["season"]
  return DatePart.YEAR if is_year else DatePart.SEASON


def resolve_relative_years(drafts: Sequence[SectionDraft]) -> None:
  """Changes relative years of a record to years, after a printed one."""
  reign, year = None, 0  # the last that is printed; 0: not known
  for draft in drafts:
    steps = [
      values[0]
      for name, *values in draft.statements
      if name == RELATIVE_YEAR_STATEMENT
    ]
    draft.statements = [
      statement
      for statement in draft.statements
      if statement[0] != RELATIVE_YEAR_STATEMENT
    ]
    printed = next(
      (values for name, *values in draft.statements if name == "year"), None
    )
    if printed is not None:
      reign, year = printed
    elif steps and year:
      year += steps[0]
      draft.statements.insert(0, ("year", reign, year))
    elif draft.kind >= YEAR:
      year = 0


def name_fitting_years(
  drafts: Sequence[SectionDraft],
  dates: Sequence[PrintedDate],
  calendar: Calendar,
) -> None:
  """Names bare years of a record that fit the era printed before them.

  A life tells 「太和七年閏四月生，二十一年正月丙申立」: where the month of that
  year has the day, it is a year of that era, and the order says less.
  """
  named = {
    date.start: date.statements[0]
    for date in dates
    if date.kind == NAMED and date.last_part >= DatePart.MONTH
  }
  if not named or calendar.readings.day_spans is None:
    return
  starts = iter([*named, np.inf])
  start, last = next(starts), None
  for draft in drafts:
    while start < draft.start:
      last, start = named[start], next(starts)
    if draft.kind != YEAR or last is None or not draft.statements:
      continue
    year = draft.statements[0]
    if (
      last[0] == year[0] == "year"
      and last[2] < year[2]
      and _has_day(calendar, last[1], year[2], draft.statements)
    ):
      last = draft.statements[0] = ("year", last[1], year[2])
      draft.kind = NAMED


# Days and characters from a date to a day that it still leads.
_MAX_DAYS_LED, _MAX_TEXT_LED = 10, 30


def lead_days(drafts: Sequence[SectionDraft], calendar: Calendar) -> None:
  """Gives days their month from the whole date right before them.

  After 「正平元年六月戊辰薨」 inside a record 「庚午冊曰」 is two days later,
  wherever the annals are.
  """
  if calendar.readings.day_spans is None:
    return
  for before, draft in itertools.pairwise(drafts[1:]):
    if (
      (before.kind, draft.kind) != (NAMED, DAY)
      or draft.start - before.date_end > _MAX_TEXT_LED
      or before.statements[0][0] != "year"
    ):
      continue
    first, (name, *values) = _find_day(before.statements), draft.statements[0]
    led = [*before.statements[:2], draft.statements[0]]
    if (
      first is not None
      and name in DAY_STATEMENTS
      and (values[0] - first) % sexagenary.CYCLE_LENGTH <= _MAX_DAYS_LED
      and _has_day(calendar, *before.statements[0][1:], led)
    ):
      draft.kind, draft.statements[:1] = NAMED, led


def _find_day(statements: Sequence[DateStatement]) -> int | None:
  """Returns the first day of the cycle among statements, or None."""
  return next(
    (values[0] for name, *values in statements if name in DAY_STATEMENTS), None
  )


def _has_day(
  calendar: Calendar,
  reign: str,
  year: int,
  statements: Sequence[DateStatement],
) -> bool:
  """Returns whether the month of a year that is printed has its day."""
  months = [s for s in statements if s[0] in ("month", "leap")]
  day = _find_day(statements)
  if not months or day is None:
    return False
  (name, month), members = months[0], calendar.memberships
  readings = calendar.readings.take(
    members.readings[
      (members.regnal_years == year)
      & np.isin(members.reigns, calendar.find_reigns(reign))
    ]
  )
  first, length = readings.day_spans.T
  past = (day - sexagenary.cyclic_index_of_day(first)) % (
    sexagenary.CYCLE_LENGTH
  )
  is_month = (readings.is_leap == (name == "leap")) & (
    readings.have_number(month) if month else True
  )
  return bool((is_month & (past < length)).any())


# Numbers are lengths of time more often than dates: they count after a month,
# or at the start of a sentence.

_EARLY_DAY = f"初[{numerals.UNIT_DIGITS}十]"  # 初一 to 初十
_CLAUSE_END = r"(?=[，。、；：！？\s）)]|$)"
# Number of a day, 「十五日」, or 「朔」 for the first.
NUMBER_OF_DAY = re.compile(
  rf"(?P<number>{_EARLY_DAY}|{numerals.NUMERAL_PATTERN})日"
  "(?![食蝕之而不後后內内中乃間])|(?P<new_moon>朔)(?![方州漠平望])"
)
# What a day after its month can be: 「三月三日不雨」.
_ANY_NUMBER_OF_DAY = re.compile(
  rf"(?P<number>{_EARLY_DAY}|{numerals.NUMERAL_PATTERN})日(?![食蝕])"
  "|(?P<new_moon>朔)(?![方州漠平望])"
)
# The same at the end of a clause: 「八月十九，」, 「初五，」.
_NUMBER_ALONE = re.compile(
  rf"(?P<number>{_EARLY_DAY}|{numerals.NUMERAL_PATTERN}){_CLAUSE_END}"
)
# 「望」 is also a sacrifice, and a hope; 「晦冥」 is the dark.
_NAMED_DAY = re.compile(
  f"(?P<name>既望|望(?=[日夜]|{sexagenary.PAIR_PATTERN}|{_CLAUSE_END})"
  f"|晦(?![冥暝昧盲])|{'|'.join(MONTHS_BY_DAY)})(?:(?<![日除夕旦])日(?!有?[食蝕]))?"
)
# Without a month before them these are days for certain; 上元 is a place too.
_OPENING_DAY = re.compile(
  "元[日旦]|歲除|除夕|[晦望]日|既望"
  f"|(?:{'|'.join(MONTHS_BY_DAY)})(?:[日節夜夕]|{_CLAUSE_END})"
)
_SENTENCE_ENDS = "。！？；○ \u3000\n"
_MAX_DAY = 30  # more are days only right after a month, which lacks them
_MAX_GAP = 2  # characters between month and day, 「三月，十五日」
_TEN_DAYS = 10


def find_numbered_days(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the numbered days outside the `dates` found so far."""
  date_positions = list_positions(dates)
  month_ends = {date.end for date in dates if date.last_part == DatePart.MONTH}
  month_ends |= {match.end() for match in _SAME_MONTH.finditer(text)}
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
    DAY,
    ((MONTH_DAY_STATEMENT, number),),
    is_tail=is_tail,
    may_be_length=is_length,
  )


def _find_numbers(text, month_ends, date_positions):
  """Yields 「十五日」 and, after a month, 「朔」."""
  # Most texts have none.
  if "日" not in text and "朔" not in text:
    return
  for match in _ANY_NUMBER_OF_DAY.finditer(text):
    is_after_month = _follows(match.start(), month_ends, text)
    number = match["number"]
    if not is_after_month and not NUMBER_OF_DAY.match(text, match.start()):
      continue
    day = 1 if number is None else numerals.parse_numeral(number.lstrip("初"))
    if not is_after_month and (day > _MAX_DAY or number is None):
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
    day = DAYS_BY_NAME[name]
    month = MONTHS_BY_DAY.get(name)
    # 「十月，上元縣」 is a place.
    is_day = month is None or text[start - 1 : start] == "月"
    if _follows(start, month_ends, text) and (
      is_day or _OPENING_DAY.match(text, start)
    ):
      yield _make_day(*match.span(), day, True, False)
      continue
    is_opening = start == 0 or text[start - 1] in _SENTENCE_ENDS
    is_after_year = month is not None and _follows(start, year_ends, text)
    if not (is_after_year or is_opening) or not _OPENING_DAY.match(text, start):
      continue
    if month is None:
      yield _make_day(*match.span(), day, False, False)
    else:
      yield PrintedDate(
        *match.span(),
        DatePart.MONTH,
        DatePart.MONTH_DAY,
        MONTH,
        (("month", month), (MONTH_DAY_STATEMENT, day)),
        is_tail=False,
      )


# One year may have several names: 「丙申萬曆二十四年」,
# 「歲在丁酉，萬曆二十五年」, 「光緒二十六年（1900年）」.

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
_OPENING, _CLOSING = "（(〔[【〈", "）)〕]】〉"
# 「（1597年）」, 「（丁酉，公元一五九七年）」, 「（前722年，己未）」.
_NOTE = re.compile(
  rf"[ \u3000]?[{re.escape(_OPENING)}](?:(?P<pair>{_PAIR})[，、,/ ]?)?"
  rf"(?:{_COMMON_YEAR}(?:[，、,/ ]?(?P<last_pair>{_PAIR}))?)?"
  rf"[{re.escape(_CLOSING)}]"
)
_YEAR_PARTS = (DatePart.YEAR, DatePart.CYCLE)


def join_year_names(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the dates, with several names of one year as one date."""
  opening = _read_opening_note(text)
  joined = [opening] if opening else []
  head = len(text) - len(text.lstrip(_OPENING + " \u3000○◎"))
  for date in dates:
    if joined and date.start < joined[-1].end:
      continue  # a bracket that was read
    if joined and _name_one_year(joined[-1], date, text, head):
      joined[-1] = _join(joined[-1], date, text)
    else:
      joined.append(date)
    joined[-1] = _read_note(joined[-1], text)
  return joined


def _read_opening_note(text: str) -> PrintedDate | None:
  """Returns the year that an editor set before a record, 「【己巳】」."""
  # A number alone may be an item's.
  note = _NOTE.match(text)
  if not note or not (note["pair"] or note["era_year"] or "年" in note[0]):
    return None
  empty = PrintedDate(0, 0, DatePart.YEAR, DatePart.YEAR, YEAR, ())
  return _read_note(empty, text)


def _read_note(date: PrintedDate, text: str) -> PrintedDate:
  """Returns a year with what a bracket right after it names it by."""
  note = _NOTE.match(text, date.end)
  digits = note and (note["era_year"] or note["year"])
  if date.last_part not in _YEAR_PARTS or not (
    note and (digits or note["pair"])
  ):
    return date
  statements = list(date.statements)
  year = numerals.parse_year_number(digits) if digits else 0
  if year:
    is_before = note["before"] or note["before_era"]
    statements.append((COMMON_YEAR_STATEMENT, 1 - year if is_before else year))
  pair = note["pair"] or note["last_pair"]
  if pair:
    name = re.search(sexagenary.PAIR_PATTERN, pair)[0]
    statements.append(("cycle", sexagenary.parse_cyclic_index(name), True))
  return dataclasses.replace(
    date,
    end=note.end(),
    last_part=DatePart.CYCLE,
    statements=tuple(dict.fromkeys(statements)),
  )


def _is_pair(date: PrintedDate) -> bool:
  """Returns whether a date is a pair alone, 「丁酉」."""
  return date.first_part == date.last_part == DatePart.DAY and (
    date.end - date.start == 2
  )


def _name_one_year(
  first: PrintedDate, second: PrintedDate, text: str, head: int
) -> bool:
  """Returns whether two dates that follow one another name one year.

  Args:
    head: where the text begins after brackets and blanks.
  """
  gap = text[first.end : second.start]
  if not is_blank(gap.strip(_CLOSING)) or len(gap) > 2:
    return False
  if _is_pair(first):
    # 「丙申萬曆二十四年」; a month continues with a pair only where nothing
    # comes before it, else it is a day that the sentence ends with.
    opens_record = first.start <= head
    if second.first_part == DatePart.YEAR:
      return not gap.strip(_CLOSING + " \u3000") and (
        second.kind == NAMED or opens_record
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
  if {name for name, *_ in first.statements} & {
    name for name, *_ in second.statements
  }:
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
  return PrintedDate(
    first.start,
    second.end + (second.last_part in _YEAR_PARTS and _closes(second, text)),
    min(
      DatePart.CYCLE if _is_pair(first) else first.first_part,
      second.first_part,
    ),
    second.last_part,
    max(YEAR if _is_pair(first) else first.kind, second.kind),
    tuple(dict.fromkeys((*statements, *second.statements))),
    has_season=first.has_season or second.has_season,
  )


# A heading that names a ruler has the years of that ruler below it.


def rule_years(
  sections: Sequence[Section], calendar: Calendar
) -> list[Section]:
  """Returns sections whose bare years are those of the ruler over them."""
  ruled, ruler = [], None
  for section in sections:
    _, reign, number = find_statement(section, "year") or (None, None, 0)
    if section.is_heading and section.kind in (NO_DATE, NAMED) and not number:
      ruler = reign
    elif ruler and reign and _share_state(ruler, reign, calendar):
      # 「後元年」: the next years are of this era.
      ruler = None
    elif ruler and number and reign is None and not section.may_be_told:
      statement = (RULED_YEAR_STATEMENT, ruler, number)
      section = dataclasses.replace(
        section, statements=(*section.statements, statement)
      )
    ruled.append(section)
  return ruled


def _share_state(reign: str, other: str, calendar: Calendar) -> bool:
  """Returns whether two reigns may be of one state, and are not the same."""
  rows, others = map(calendar.find_reigns, (reign, other))
  states = [{*calendar.polities[[*each]].tolist()} for each in (rows, others)]
  return rows != others and bool(states[0] & states[1])
