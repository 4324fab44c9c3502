"""Reading of dates: every stretch of a record that may be a date.

Starts from the dates that the grammar in `chronology.dates` finds, adds years,
months and days without their larger parts, and joins parts that stand apart.
"""

import dataclasses
import functools
import re
from collections.abc import Sequence

from ctd_jax.chronology import calendar_tables, numerals, sexagenary
from ctd_jax.chronology import dates as dates_lib
from ctd_jax.chronology.dates import DateCue
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating.chronicle import eras, implied_dates
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import (
  COMMON_YEAR_STATEMENT,
  DAY,
  DAY_STATEMENTS,
  MONTH,
  NAMED,
  SEASON,
  UNKNOWN_ERA_STATEMENT,
  YEAR,
  DatePart,
  DateStatement,
  PrintedDate,
  is_punctuated,
  list_positions,
)

_SEASON_DELIMITERS = "，、。；："
_NAME_WITH_SEASON = re.compile("夏[國国州人主王竦侯守貴]")
_MISPRINTED_DAY = re.compile(
  "(?<![雖而之惟人])己未(?![能嘗甞有必知可得之聞見曾敢及為爲])"
  "|[已巳](?:[丑卯酉亥]|[巳已己])|[乙丁辛癸][已己]|戌[子寅辰午申]"
  "|[甲丙庚壬][戍戊]|戊[戍戊]"
)
# In a text without punctuation 「之」 ends a clause before a year with season
# and month, 「討之二年春正月」, and so does a title that is given,
# 「立爲皇太子」; they name a ruler in 「簡之元年」 and 「晉文公三年」.
_END_BEFORE_YEAR = re.compile(
  rf"(?:[之其]|[為爲封稱號立]\w{{0,4}}[王公侯伯子帝])"
  rf"(?=(?:元|{numerals.NUMERAL_PATTERN})年[春夏秋冬]"
  rf"(?:正|{numerals.NUMERAL_PATTERN})月)"
)
_BARE_YEAR = re.compile(
  rf"(?P<number>元|{numerals.NUMERAL_PATTERN})年"
  "(?![之而不後后矣間中乃卒崩死喪無有以餘])"
)
_ANY_MONTH = re.compile(rf"閏?(?P<number>{numerals.NUMERAL_PATTERN})月(?!餘)")
# 「十三月」 heads a record only before a pause or a day; else it is a length.
_OPENING_MONTH = re.compile(
  rf"[○\s]*{_ANY_MONTH.pattern}(?=[，、\s]|{sexagenary.PAIR_PATTERN})"
)
# At the start of a sentence, or after a bracket that names the year.
_NAMED_MONTH = re.compile(
  r"(?:(?<=[。！？；○\s）)〕\]])|^)"
  f"(?P<name>[孟仲季][{dates_lib.SEASONS}]|[臘腊](?=月))月?(?!之)"
)
# 「中二年」, 「後元年」: a part of a reign, at the start of a sentence.
_PARTS_OF_REIGNS = {"中": "中元", "後": "後元", "后": "後元"}
_PART_OF_REIGN = re.compile("(?:^|[。！？；○\\s])([中後后])\\Z")
# 「同三年」 in Japanese books: a year of the era above.
_SAME_ERA = re.compile("(?:^|[。，、；：！？○\\s])同\\Z")
_WINTER_MONTH = 11
_DAY_OF_MONTH = re.compile(
  f"初[{numerals.UNIT_DIGITS}十]|{numerals.NUMERAL_PATTERN}日"
)


def find_printed_dates(text: str, calendar: Calendar) -> list[PrintedDate]:
  """Returns possible dates in a record of folded glyphs, in order."""
  clauses = text
  if not is_punctuated(text):
    clauses = _END_BEFORE_YEAR.sub(lambda end: f"{end[0][:-1]}\u3000", text)
  dates = [
    date
    for cue in dates_lib.name_printed_reigns(
      dates_lib.find_date_cues(
        clauses, calendar.timeline, with_common_years=True
      ),
      text,
      calendar.timeline,
    )
    if (date := _read_cue(cue, text)) is not None
  ]
  dates = _name_unknown_eras(dates, text, calendar)
  dates += _find_bare_years(text, dates)
  dates += _find_named_months(text, dates)
  dates += _find_wrong_months(text, dates)
  dates += _find_part_of_era(text, dates, calendar)
  dates = [_include_same(date, text) for date in dates]
  dates = _name_parts_of_reigns(dates, text, calendar)
  dates += implied_dates.find_numbered_days(text, dates)
  if not is_punctuated(text):
    dates += _find_misprinted_days(text, dates)
  dates = implied_dates.join_relative_dates(text, dates)
  dates.sort(key=lambda date: date.start)
  return implied_dates.join_year_names(text, dates)


def _include_same(date: PrintedDate, text: str) -> PrintedDate:
  """Returns a year with the 「同」 before it, which opens a clause."""
  is_same = date.kind == YEAR and _SAME_ERA.search(text[: date.start][-2:])
  return dataclasses.replace(date, start=date.start - 1) if is_same else date


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
  if cue.season and not (
    cue.year
    or cue.common_year is not None
    or cue.year_cycle
    or cue.month
    or cue.leap
  ):
    # A season is set off or goes before a month; else it is a name.
    is_delimited = text[cue.end : cue.end + 1] in ("", *_SEASON_DELIMITERS)
    if not (is_delimited or cue.day) and (is_name or is_punctuated(text)):
      return None
  cue = _read_winter_month(cue, text)
  parts = [
    part
    for part, value in (
      (DatePart.YEAR, cue.year or cue.common_year is not None),
      (DatePart.CYCLE, cue.year_cycle or (cue.day and _is_name_of_year(cue))),
      (DatePart.SEASON, cue.season),
      (DatePart.MONTH, cue.month or cue.leap),
      (DatePart.DAY, cue.day and not _is_name_of_year(cue)),
    )
    if value
  ]
  kinds = {
    DatePart.YEAR: NAMED if cue.reign else YEAR,
    DatePart.CYCLE: YEAR,
    DatePart.SEASON: SEASON,
    DatePart.MONTH: MONTH,
    DatePart.DAY: DAY,
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


def _read_winter_month(cue: DateCue, text: str) -> DateCue:
  """Returns a cue with 「冬月」 read as winter or, before a day, month 11."""
  if cue.season is None or cue.month or not text.startswith("月", cue.end):
    return cue
  cue = dataclasses.replace(cue, end=cue.end + 1)
  if cue.season == "冬" and _DAY_OF_MONTH.match(text, cue.end):
    return dataclasses.replace(cue, season=None, month=_WINTER_MONTH)
  return cue


def _is_name_of_year(cue: DateCue) -> bool:
  """Returns whether a pair is not a day: 「元年甲寅」, 「元年甲寅春正月」."""
  # The grammar knows the pairs of the years of reigns; in 「改元延興元年丁未」
  # it left a day.
  return (
    cue.year is not None
    and cue.reign is None
    and not (cue.season or cue.month or cue.leap)
  )


def _read_cue_statements(cue: DateCue, text: str) -> tuple[DateStatement, ...]:
  statements: list[DateStatement] = []
  if cue.year is not None:
    statements.append(("year", cue.reign, cue.year))
  elif cue.lunar:
    statements.append(("year", dates_lib.LUNAR_ERA, 0))
  if cue.common_year is not None:
    statements.append((COMMON_YEAR_STATEMENT, cue.common_year))
  if cue.year_cycle:
    statements.append(("cycle", sexagenary.parse_cyclic_index(cue.year_cycle)))
  if cue.leap:
    statements.append(("leap", cue.month))
  elif cue.month:
    statements.append(("month", cue.month))
    if cue.month == 1 and dates_lib.FIRST_BY_NUMBER.search(
      text, cue.start, cue.end
    ):
      # Not 正月, which was two months before in 690-700.
      statements.append(("months", (1,)))
  elif cue.season:
    statements.append(("season", dates_lib.SEASONS.index(cue.season)))
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
  # Both come in the order of the text.
  index = 0
  for era in eras.find_unknown_eras(text, calendar):
    statement = (UNKNOWN_ERA_STATEMENT, era.name, era.regnal_year)
    era_year = PrintedDate(
      era.start,
      era.stop,
      DatePart.YEAR,
      DatePart.YEAR,
      NAMED,
      (statement,),
    )
    while index < len(dates) and dates[index].end <= era.start:
      index += 1
    if index < len(dates) and dates[index].start < era.stop:
      # What the date says below its year stays.
      date = dates[index]
      smaller_units = [s for s in date.statements if s[0] != "year"]
      dates[index] = dataclasses.replace(
        era_year,
        end=max(date.end, era.stop),
        last_part=date.last_part,
        statements=(statement, *smaller_units),
      )
    else:
      dates.insert(index, era_year)
  return dates


def _find_bare_years(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the years outside `dates`, 「四年」."""
  if "年" not in text:
    return []
  date_positions = list_positions(dates)
  return [
    PrintedDate(
      match.start(),
      match.end(),
      DatePart.YEAR,
      DatePart.YEAR,
      YEAR,
      (("year", None, numerals.parse_numeral(match["number"])),),
      may_be_length=True,
    )
    for match in _BARE_YEAR.finditer(text)
    if match.start() not in date_positions
  ]


@functools.lru_cache(maxsize=8)
def _compile_parts_of_eras(timeline: Timeline) -> re.Pattern[str]:
  names = calendar_tables.build_names_pattern(
    name for name in dates_lib.build_grammar(timeline).reigns if len(name) > 1
  )
  return re.compile(rf"(?P<name>{names})(?:之?[初中末]|年間)(?=，)")


def _find_part_of_era(
  text: str, dates: Sequence[PrintedDate], calendar: Calendar
) -> list[PrintedDate]:
  """Returns 「開元初，」 at the head of a text as any year of the era."""
  if dates and not dates[0].start:
    return []
  match = _compile_parts_of_eras(calendar.timeline).match(
    numerals.fold_script(text)
  )
  if match is None:
    return []
  part, statement = DatePart.YEAR, ("year", match["name"], 0)
  return [PrintedDate(0, match.end(), part, part, NAMED, (statement,))]


def _find_wrong_months(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the months that no year has, 「十三月」.

  They are right after a year, or at the head of a record.
  """
  # They say nothing, but the reader is told.
  part = DatePart.MONTH
  matches = [
    _ANY_MONTH.match(text, date.end)
    for date in dates
    if date.last_part < part and not date.may_be_length
  ]
  if all(date.start > 0 for date in dates):
    matches.append(_OPENING_MONTH.match(text))
  return [
    PrintedDate(
      *match.span(),
      part,
      part,
      MONTH,
      (("month", numerals.parse_numeral(match["number"])),),
    )
    for match in filter(None, matches)
  ]


def _find_named_months(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns the months that no date of `dates` holds: 「孟秋」, 「臘月」."""
  date_positions = list_positions(dates)
  return [
    PrintedDate(
      match.start(),
      match.end(),
      DatePart.MONTH,
      DatePart.MONTH,
      MONTH,
      (
        (
          "month",
          dates_lib.MONTH_NAMES[numerals.fold_script(match["name"])],
        ),
      ),
    )
    for match in _NAMED_MONTH.finditer(text)
    if match.start() not in date_positions
    and match.start("name") + 1 not in date_positions
  ]


def _name_parts_of_reigns(
  dates: Sequence[PrintedDate], text: str, calendar: Calendar
) -> list[PrintedDate]:
  """Returns the dates, 「中二年」 as a year of the part of a reign."""
  names = {reign.name for reign in calendar.timeline.reigns}
  named = []
  for date in dates:
    part = _PART_OF_REIGN.search(text, max(date.start - 2, 0), date.start)
    reign = part and _PARTS_OF_REIGNS[part[1]]
    if reign in names and date.statements[0][:2] == ("year", None):
      year = date.statements[0][-1]
      # 「後二年」 is two years later too.
      if part[1] == "中" or year == 1 or date.last_part > DatePart.CYCLE:
        date = dataclasses.replace(
          date,
          start=part.start(1),
          kind=NAMED,
          statements=(("year", reign, year), *date.statements[1:]),
          may_be_length=False,
        )
    named.append(date)
  return named


def _find_misprinted_days(
  text: str, dates: Sequence[PrintedDate]
) -> list[PrintedDate]:
  """Returns days that are also words (「己未」) or misprinted (「已酉」)."""
  # A day is the two characters that a date begins or ends with.
  known_starts = {date.start for date in dates}
  known_starts |= {date.end - 2 for date in dates}
  days = []
  for match in _MISPRINTED_DAY.finditer(text):
    if match.start() not in known_starts:
      day = sexagenary.parse_cyclic_index(match[0])
      days.append(
        PrintedDate(
          *match.span(),
          DatePart.DAY,
          DatePart.DAY,
          DAY,
          ((DAY_STATEMENTS[sexagenary.find_day_mark(text, match.end())], day),),
        )
      )
  return days
