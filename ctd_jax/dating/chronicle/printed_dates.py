"""Printed dates: what may be a date in a record, and what it states.

Whether a date is of what the record tells, of a length of time or of another
year, its clause decides (`clauses`).
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Hashable, Sequence

from ctd_jax.chronology import date_expressions, numerals, sexagenary
from ctd_jax.chronology.date_expressions import DateCue
from ctd_jax.dating.chronicle import unknown_eras
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.punctuation import is_blank, is_punctuated
from ctd_jax.dating.sequence import section_kinds

# A name of `emissions.LOG_ERROR_ODDS` and its values.
DateStatement = tuple[Hashable, ...]
# Names of statements that are days, in the order of `sexagenary.DAY_MARKS`.
DAY_STATEMENTS = ("day", "first day", "last day")
# Number of a day in its month, 「十五日」.
MONTH_DAY_STATEMENT = "month day"
# Name and regnal year of an era that the calendar lacks.
UNKNOWN_ERA_STATEMENT = "unknown era"

# Number of a day, 「十五日」, or 「朔」 for the first.
NUMBER_OF_DAY = re.compile(
  rf"(?P<number>初[{numerals.UNIT_DIGITS}十]|{numerals.NUMERAL_PATTERN})日"
  "(?![食蝕之而不後后內内中乃間])|(?P<new_moon>朔)(?![方州漠平望])"
)
_SEASON_DELIMITERS = "，、。；："
_MAX_DAY = 30
_MAX_GAP = 2  # characters between month and day, 「三月，十五日」
_TEN_DAYS = 10
_NAME_WITH_SEASON = re.compile("夏[國国州人主王竦侯守貴]")
_MISPRINTED_DAY = re.compile(
  "(?<![雖而之惟人])己未(?![能嘗甞有必知可得之聞見曾敢及為爲])"
  "|[已巳](?:[丑卯酉亥]|[巳已己])|[乙丁辛癸][已己]|戌[子寅辰午申]"
  "|[甲丙庚壬][戍戊]|戊[戍戊]"
)
_BARE_YEAR = re.compile(
  rf"(?P<number>元|{numerals.NUMERAL_PATTERN})年"
  "(?![之而不後后矣間中乃卒崩死喪無有以餘])"
)


class DatePart(enum.IntEnum):
  """Parts of a date, the largest first; a smaller one goes on with it."""

  YEAR = 0
  CYCLE = 1
  SEASON = 2
  MONTH = 3
  MONTH_DAY = 4
  DAY = 5


@dataclasses.dataclass(frozen=True)
class PrintedDate:
  """A date as it stands in the text.

  Attributes:
    start: position of its first character.
    end: position after its last.
    first_part: the largest part that it prints.
    last_part: the smallest.
    kind: of the section that it opens.
    statements: as of `Section`.
    is_tail: whether it only goes on with a date, 「朔」.
    may_be_length: whether it could be a length of time, 「三月」.
    has_season: whether it prints one.
  """

  start: int
  end: int
  first_part: DatePart
  last_part: DatePart
  kind: int
  statements: tuple[DateStatement, ...]
  is_tail: bool = False
  may_be_length: bool = False
  has_season: bool = False


def find_printed_dates(text: str, calendar: Calendar) -> list[PrintedDate]:
  """Returns what may be dates, in order; their clauses decide.

  Args:
    text: of a record, its glyphs folded by `fold_date_glyphs`.
    calendar: whose reign names to look for.
  """
  dates = [
    date
    for cue in date_expressions.find_date_cues(text, calendar.timeline)
    if (date := _read_cue(cue, text)) is not None
  ]
  dates = _name_unknown_eras(dates, text, calendar)
  dates += [*_find_numbered_days(text, dates), *_find_bare_years(text, dates)]
  if not is_punctuated(text):
    dates += _find_misprinted_days(text, dates)
  return sorted(dates, key=lambda date: date.start)


def _read_cue(cue: DateCue, text: str) -> PrintedDate | None:
  """Returns the date of a cue; None for a season that is only a name."""
  is_name = (
    cue.season is not None
    and text.startswith(cue.season, cue.end - 1)
    and _NAME_WITH_SEASON.match(text, cue.end - 1) is not None
  )
  if is_name and cue.year:
    # 「慶曆七年夏竦建議」
    cue = dataclasses.replace(cue, season=None, end=cue.end - 1)
  if cue.season and not (cue.year or cue.year_cycle or cue.month or cue.leap):
    # A season is set off or goes before a month; else it is a name.
    is_delimited = text[cue.end : cue.end + 1] in ("", *_SEASON_DELIMITERS)
    if not (is_delimited or cue.day) and (is_name or is_punctuated(text)):
      return None
  parts = [
    part
    for part, value in (
      (DatePart.YEAR, cue.year),
      (DatePart.CYCLE, cue.year_cycle or (cue.day and _is_name_of_year(cue))),
      (DatePart.SEASON, cue.season),
      (DatePart.MONTH, cue.month or cue.leap),
      (DatePart.DAY, cue.day and not _is_name_of_year(cue)),
    )
    if value
  ]
  kinds = {
    DatePart.YEAR: section_kinds.NAMED if cue.reign else section_kinds.YEAR,
    DatePart.CYCLE: section_kinds.YEAR,
    DatePart.SEASON: section_kinds.SEASON,
    DatePart.MONTH: section_kinds.MONTH,
    DatePart.DAY: section_kinds.DAY,
  }
  # 「封為王五月」: only with a season is it the king's month.
  is_title = text.startswith("王", cue.start) and not (
    cue.start == 0 or is_punctuated(text)
  )
  return PrintedDate(
    cue.start + is_title,
    cue.end,
    parts[0],
    parts[-1],
    kinds[parts[0]],
    _read_cue_statements(cue, text),
    may_be_length=parts == [DatePart.MONTH] and not cue.leap,
    has_season=cue.season is not None,
  )


def _is_name_of_year(cue: DateCue) -> bool:
  """Returns whether a pair is no day: 「元年甲寅」, 「元年甲寅春正月」."""
  return cue.year is not None and not (cue.season or cue.month or cue.leap)


def _read_cue_statements(cue: DateCue, text: str) -> tuple[DateStatement, ...]:
  statements: list[DateStatement] = []
  if cue.year is not None:
    statements.append(("year", cue.reign, cue.year))
  if cue.year_cycle:
    statements.append(("cycle", sexagenary.parse_cyclic_index(cue.year_cycle)))
  if cue.leap:
    statements.append(("leap", cue.month))
  elif cue.month:
    statements.append(("month", cue.month))
  elif cue.season:
    statements.append(("season", date_expressions.SEASONS.index(cue.season)))
  if cue.day and _is_name_of_year(cue):
    statements.append(("cycle", sexagenary.parse_cyclic_index(cue.day)))
  elif cue.day:
    # 「壬辰朔」 or 「辛未，朔」.
    mark = sexagenary.find_day_mark(text, cue.end)
    day = sexagenary.parse_cyclic_index(cue.day)
    statements.append((DAY_STATEMENTS[mark], day))
  return tuple(statements)


def _name_unknown_eras(
  dates: Sequence[PrintedDate], text: str, calendar: Calendar
) -> list[PrintedDate]:
  """Returns the dates, years of eras that the calendar lacks by their names."""
  dates = list(dates)
  for era in unknown_eras.find_unknown_eras(text, calendar):
    statement = (UNKNOWN_ERA_STATEMENT, era.name, era.regnal_year)
    era_year = PrintedDate(
      era.start,
      era.stop,
      DatePart.YEAR,
      DatePart.YEAR,
      section_kinds.NAMED,
      (statement,),
    )
    for index, date in enumerate(dates):
      if date.start < era.stop and era.start < date.end:
        # What the date says below its year stays.
        smaller_units = [s for s in date.statements if s[0] != "year"]
        era_year = dataclasses.replace(
          era_year,
          end=max(date.end, era.stop),
          last_part=date.last_part,
          statements=(statement, *smaller_units),
        )
        del dates[index]
        break
    dates.append(era_year)
  return dates


def _find_numbered_days(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the days that no date of `dates` holds: 「十五日」, 「朔」.

  They are lengths of time more often than dates: a day counts after a month, or
  at the start of a sentence.
  """
  # Most texts have none.
  if "日" not in text and "朔" not in text:
    return []
  date_positions = _list_positions(dates)
  month_ends = {date.end for date in dates if date.last_part == DatePart.MONTH}
  days = []
  for match in NUMBER_OF_DAY.finditer(text):
    if match.start() in date_positions:
      continue
    is_after_month = any(
      match.start() - gap in month_ends
      and is_blank(text[match.start() - gap : match.start()])
      for gap in range(_MAX_GAP + 1)
    )
    number = match["number"]
    day = 1 if number is None else numerals.parse_numeral(number.lstrip("初"))
    if day > _MAX_DAY or (number is None and not is_after_month):
      continue
    # 「三日」 alone is a length of time, 「十三日」 less often.
    is_written_as_date = number is not None and (
      number.startswith(("初", "廿")) or day > _TEN_DAYS
    )
    days.append(
      PrintedDate(
        match.start(),
        match.end(),
        DatePart.MONTH_DAY,
        DatePart.MONTH_DAY,
        section_kinds.DAY,
        ((MONTH_DAY_STATEMENT, day),),
        is_tail=is_after_month,
        may_be_length=not is_written_as_date,
      )
    )
  return days


def _find_bare_years(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the years that no date of `dates` holds: 「四年」.

  They count at the start of a sentence; else they are lengths of time.
  """
  if "年" not in text:
    return []
  date_positions = _list_positions(dates)
  return [
    PrintedDate(
      match.start(),
      match.end(),
      DatePart.YEAR,
      DatePart.YEAR,
      section_kinds.YEAR,
      (("year", None, numerals.parse_numeral(match["number"])),),
      may_be_length=True,
    )
    for match in _BARE_YEAR.finditer(text)
    if match.start() not in date_positions
  ]


def _list_positions(dates: Sequence[PrintedDate]) -> set[int]:
  """Returns the positions of the characters of dates."""
  return {
    position for date in dates for position in range(date.start, date.end)
  }


def _find_misprinted_days(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns days that are words as well: 「己未」, or 「已酉」 for 己酉.

  Where clauses are not marked, readers of dates leave them out.
  """
  # A day is the two characters that a date begins or ends with.
  known_starts = {date.start for date in dates}
  known_starts |= {date.end - 2 for date in dates}
  days = []
  for match in _MISPRINTED_DAY.finditer(text):
    if match.start() not in known_starts:
      mark = sexagenary.find_day_mark(text, match.end())
      day = sexagenary.parse_cyclic_index(match[0])
      days.append(
        PrintedDate(
          *match.span(),
          DatePart.DAY,
          DatePart.DAY,
          section_kinds.DAY,
          ((DAY_STATEMENTS[mark], day),),
        )
      )
  return days
