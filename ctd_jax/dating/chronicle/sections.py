"""Sections of a chronicle: what its records print of their dates.

The dates are read from the text alone: opening dates, days of the sexagenary
cycle, names of eras, marks of streams. A record goes on over months and days
(「夏，四月，…五月，…甲子，…」), so it is read as sections, each under the date
that opens a clause; the sections of a record cover its text.

Texts without punctuation are cut by what stands before and after a date.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Hashable, Iterator, Sequence

from ctd_jax.chronology import annals, date_expressions, numerals, sexagenary
from ctd_jax.chronology.date_expressions import DateCue
from ctd_jax.chronology.name_patterns import build_names_pattern
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle import unknown_eras
from ctd_jax.dating.chronicle.date_glyphs import fold_date_glyphs
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.sequence import section_kinds

# Names of statements that are days, in the order of `sexagenary.DAY_MARKS`.
DAY_STATEMENTS = ("day", "first day", "last day")
# Number of a day in its month, 「十五日」.
MONTH_DAY_STATEMENT = "month day"
# Name and regnal year of an era that the calendar lacks.
UNKNOWN_ERA_STATEMENT = "unknown era"

_NEW_ERA_VERBS = ("改元", "改年", "建元", "年號")
_BLANKS = " \t\u3000○〇◎●△▲"
_PUNCTUATION = "，、：。；．！？・" + _BLANKS
_SEASON_DELIMITERS = "，、。；："
_HEADING_BRACKETS = "【】《》〈〉〔〕[]「」『』（）()#＃*＊"
_CLAUSE_ENDS = annals.SENTENCE_ENDS + "，："
_LENGTH_OF_A_SEASON = 3  # months

_STREAM_NAMES = (
  "(?:(?:左氏?|公羊|[穀谷]梁|春秋)?[經经經傳传]文?|[綱纲目注註疏])"
)
_BRACKETED_STREAM = re.compile(
  rf"[\sA-Z0-9]*[【〔\[《〈（(「]({_STREAM_NAMES})[】〕\]》〉）)」][：:\sA-Z0-9]*"
  "(?![曰云稱称言有])"
)
# Before a date, or alone.
_BARE_STREAM = re.compile(rf"\s*({_STREAM_NAMES})[：:，、。\s]*")
# 「隱公元年經」 as a heading.
_TRAILING_STREAM = re.compile(r"[：:，、。\s]*([經经傳传]文?)\s*\Z")
# What may follow the mark of a stream: 「傳元年春」.
_DATE_OPENING = re.compile(
  rf"(?:元|{numerals.NUMERAL_PATTERN})年|[春夏秋冬](?=[，、王])"
  rf"|[春夏秋冬]?王?閏?(?:正|{numerals.NUMERAL_PATTERN})?月"
)
_RANGE = re.compile("[起至盡訖]")

_NUMBER_OF_DAY = re.compile(
  rf"(?P<number>初[{numerals.UNIT_DIGITS}十]|{numerals.NUMERAL_PATTERN})日"
  "(?![食蝕之而不後后內内中乃間])|(?P<new_moon>朔)(?![方州漠平望])"
)
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

# What opens a sentence that tells what came before.
_FLASHBACK = re.compile("初[，、：]|先是|始[，、]|昔[，、者在]")
# The same in a text without punctuation.
_BARE_FLASHBACK = re.compile(f"初(?![{numerals.UNIT_DIGITS}十])|先是|昔[者在]")
# In a text without punctuation a date is part of the clause that one of these
# stands in.
_LEADS_INTO_DATE = re.compile(
  "[自至以於于及在用迄訖期限待須俟去昨前今來来每毎逐隔比盡由到因"
  "如若曰云謂]$|[每毎逐去昨前今來来明翌次][年歲嵗]$|[是即同翌次]日$|[孟仲季擬欲]$"
  "|[今去本此其是當]月$"
)
# What a petition or an order says: its dates are of what it is about.
_DOCUMENT = re.compile("[臣乞㫖旨敕勅勑]|陛下|指揮|檢[會㑹準准詳]|[言準准]$")
_ORDER = re.compile("[詔言奏準准條限役聞合毎每凡今來来才纔]|[給留借逾踰]$")
_WIDTH_BEFORE = 24
_WIDTH_AFTER = 4
_NAMES_YEAR = re.compile("[稱為改號復是謂]$")
_REFERENCE_AFTER_DAY = re.compile(
  "[日之]?(?:詔書|赦[書令]|[敕勅制]書|指揮|詔旨|以[前後后來来上]"
  "|[歲嵗年科榜])|之[夜日變变]"
)
_LENGTH_AFTER_MONTH = re.compile(
  "[不之而以]|[上中下]旬|[上中下][辛丁戊]|[末間後后終止内內吉]|初(?!置)|[已以]?前"
  f"|閏?[{numerals.UNIT_DIGITS}十]+月"
)

# A name of `emissions.LOG_ERROR_ODDS` and its values.
DateStatement = tuple[Hashable, ...]
# Parts of a date, the largest first; a smaller one goes on with it.
_YEAR, _CYCLE, _SEASON, _MONTH, _MONTH_DAY, _DAY = range(6)


@dataclasses.dataclass(frozen=True)
class Section:
  """A stretch of a record under one date.

  Attributes:
    record: number of the record, from 0.
    start: position of its first character in the text of the record.
    stop: position after its last.
    date_end: position in the record after the date at its head, the mark of a
      stream before it included; its start if no date heads it.
    kind: what its head prints of a date, a number of `section_kinds`.
    statements: of its date, each a name of `emissions.LOG_ERROR_ODDS` and
      values.
    is_heading: whether it holds nothing but a date or a heading.
  """

  record: int
  start: int
  stop: int
  date_end: int
  kind: int
  statements: tuple[DateStatement, ...] = ()
  is_heading: bool = False


@dataclasses.dataclass(frozen=True)
class _PrintedDate:
  """A date as it stands in the text.

  Attributes:
    start: position of its first character.
    end: position after its last.
    first_part: the largest part that it prints, _YEAR to _DAY.
    last_part: the smallest.
    kind: of the section that it opens.
    statements: as of `Section`.
    is_tail: whether it only goes on with a date, 「朔」.
    may_be_length: whether it could be a length of time, 「三月」.
    has_season: whether it prints one.
  """

  start: int
  end: int
  first_part: int
  last_part: int
  kind: int
  statements: tuple[DateStatement, ...]
  is_tail: bool = False
  may_be_length: bool = False
  has_season: bool = False


@dataclasses.dataclass
class _Draft:
  """A section that is being read.

  Attributes:
    start: position of its first character.
    date_end: position after the date that heads it, or the mark of a stream.
    last_part: smallest part of that date; -1 if there is none yet.
    kind: as of `Section`.
    statements: as of `Section`.
  """

  start: int
  date_end: int
  last_part: int = -1
  kind: int = section_kinds.NO_DATE
  statements: list[DateStatement] = dataclasses.field(default_factory=list)

  def add_date(self, date: _PrintedDate) -> None:
    """Goes on with a smaller part of the date."""
    self.kind = max(self.kind, date.kind)
    if self.last_part == _YEAR and date.first_part == _DAY:
      # 「元年（甲寅）」 is the name of the year.
      self.statements.append(("cycle", date.statements[0][1]))
      self.last_part = _CYCLE
    else:
      self.statements += date.statements
      self.last_part = date.last_part
    self.date_end = date.end


def read_sections(
  record: int, text: str, calendar: Calendar, is_heading: bool = False
) -> list[Section]:
  """Returns the sections of a record, at least one.

  They cover the text: each begins at its date, the first at 0. Dates in speech,
  and of what is told to have come before (「初，」), open none.

  Args:
    record: its number.
    text: one record, punctuated or not.
    calendar: whose reign names to look for.
    is_heading: whether the text heads others, which makes it one section.
  """
  text = fold_date_glyphs(text)
  dates = _find_dates(text, calendar)
  heading = _read_heading(text, dates, calendar.timeline, is_heading)
  if heading is not None:
    return [
      Section(
        record,
        0,
        len(text),
        heading.date_end,
        heading.kind,
        tuple(heading.statements),
        True,
      )
    ]
  drafts = _cut_record(text, dates)
  for position, statement in _find_new_eras(text, calendar.timeline):
    owner = [draft for draft in drafts if draft.start <= position][-1]
    if statement not in owner.statements:
      owner.statements.append(statement)
  stops = [draft.start for draft in drafts[1:]] + [len(text)]
  return [
    Section(
      record,
      draft.start,
      stop,
      draft.date_end if draft.last_part >= 0 else draft.start,
      draft.kind,
      tuple(draft.statements),
      draft.kind != section_kinds.NO_DATE
      and _is_blank(text[draft.date_end : stop]),
    )
    for draft, stop in zip(drafts, stops, strict=True)
  ]


def find_stream_mark(text: str) -> str | None:
  """Returns the mark of a stream that opens a record, 經 or 公羊傳.

  In brackets, alone, or before a date; None if there is none.
  """
  match = _match_stream(text)
  return match[1] if match else None


def _match_stream(text: str) -> re.Match[str] | None:
  bracketed = _BRACKETED_STREAM.match(text)
  if bracketed:
    return bracketed
  match = _BARE_STREAM.match(text)
  if match and (
    match.end() == len(text) or _DATE_OPENING.match(text, match.end())
  ):
    return match
  return None


def _is_blank(text: str) -> bool:
  return not text.strip(_PUNCTUATION)


def _is_punctuated(text: str) -> bool:
  return any(mark in text for mark in "，。")


def _find_dates(text: str, calendar: Calendar) -> list[_PrintedDate]:
  """Returns what may be dates, in order; the clauses decide."""
  dates = [
    date
    for cue in date_expressions.find_date_cues(text, calendar.timeline)
    if (date := _read_cue(cue, text)) is not None
  ]
  dates = _name_unknown_eras(dates, text, calendar)
  dates += _find_bare_numbers(text, dates)
  if not _is_punctuated(text):
    dates += _find_misprinted_days(text, dates)
  return sorted(dates, key=lambda date: date.start)


def _read_cue(cue: DateCue, text: str) -> _PrintedDate | None:
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
    if not (is_delimited or cue.day) and (is_name or _is_punctuated(text)):
      return None
  parts = [
    part
    for part, value in (
      (_YEAR, cue.year),
      (_CYCLE, cue.year_cycle or (cue.day and _is_name_of_year(cue))),
      (_SEASON, cue.season),
      (_MONTH, cue.month or cue.leap),
      (_DAY, cue.day and not _is_name_of_year(cue)),
    )
    if value
  ]
  kinds = {
    _YEAR: section_kinds.NAMED if cue.reign else section_kinds.YEAR,
    _CYCLE: section_kinds.YEAR,
    _SEASON: section_kinds.SEASON,
    _MONTH: section_kinds.MONTH,
    _DAY: section_kinds.DAY,
  }
  # 「封為王五月」: only with a season is it the king's month.
  is_title = text.startswith("王", cue.start) and not (
    cue.start == 0 or _is_punctuated(text)
  )
  return _PrintedDate(
    cue.start + is_title,
    cue.end,
    parts[0],
    parts[-1],
    kinds[parts[0]],
    _read_cue_statements(cue, text),
    may_be_length=parts == [_MONTH] and not cue.leap,
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
  dates: Sequence[_PrintedDate], text: str, calendar: Calendar
) -> list[_PrintedDate]:
  """Returns the dates, years of eras that the calendar lacks by their names."""
  dates = list(dates)
  for era in unknown_eras.find_unknown_eras(text, calendar):
    statement = (UNKNOWN_ERA_STATEMENT, era.name, era.regnal_year)
    named = _PrintedDate(
      era.start, era.stop, _YEAR, _YEAR, section_kinds.NAMED, (statement,)
    )
    for index, date in enumerate(dates):
      if date.start < era.stop and era.start < date.end:
        rest = [s for s in date.statements if s[0] != "year"]
        named = dataclasses.replace(
          named,
          end=max(date.end, era.stop),
          last_part=date.last_part,
          statements=(statement, *rest),
        )
        del dates[index]
        break
    dates.append(named)
  return dates


def _find_bare_numbers(
  text: str, dates: Sequence[_PrintedDate]
) -> list[_PrintedDate]:
  """Returns the years and days of a number only: 「四年」, 「十五日」.

  They are lengths of time more often than dates: a day counts after a month,
  both at the start of a sentence.
  """
  # Most texts have none.
  if "日" not in text and "年" not in text and "朔" not in text:
    return []
  taken = {place for date in dates for place in range(date.start, date.end)}
  month_ends = {date.end for date in dates if date.last_part == _MONTH}
  found = []
  for match in _NUMBER_OF_DAY.finditer(text):
    if match.start() in taken:
      continue
    is_after_month = any(
      match.start() - gap in month_ends
      and _is_blank(text[match.start() - gap : match.start()])
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
    found.append(
      _PrintedDate(
        match.start(),
        match.end(),
        _MONTH_DAY,
        _MONTH_DAY,
        section_kinds.DAY,
        ((MONTH_DAY_STATEMENT, day),),
        is_tail=is_after_month,
        may_be_length=not is_written_as_date,
      )
    )
  found += [
    _PrintedDate(
      match.start(),
      match.end(),
      _YEAR,
      _YEAR,
      section_kinds.YEAR,
      (("year", None, numerals.parse_numeral(match["number"])),),
      may_be_length=True,
    )
    for match in _BARE_YEAR.finditer(text)
    if match.start() not in taken
  ]
  return found


def _find_misprinted_days(
  text: str, dates: Sequence[_PrintedDate]
) -> list[_PrintedDate]:
  """Returns days that are words as well: 「己未」, or 「已酉」 for 己酉.

  Where clauses are not marked, readers of dates leave them out.
  """
  taken = {date.start for date in dates} | {date.end - 2 for date in dates}
  found = []
  for match in _MISPRINTED_DAY.finditer(text):
    if match.start() not in taken:
      mark = sexagenary.find_day_mark(text, match.end())
      day = sexagenary.parse_cyclic_index(match[0])
      found.append(
        _PrintedDate(
          *match.span(),
          _DAY,
          _DAY,
          section_kinds.DAY,
          ((DAY_STATEMENTS[mark], day),),
        )
      )
  return found


def _read_heading(
  text: str,
  dates: Sequence[_PrintedDate],
  timeline: Timeline,
  is_heading: bool,
) -> _Draft | None:
  """Returns a record that is nothing but one date, a reign or a mark.

  None for any other, unless it is known to head others.
  """
  stream = _match_stream(text)
  trailing = None if stream else _TRAILING_STREAM.search(text)
  start = stream.end() if stream else 0
  stop = trailing.start() if trailing else len(text)
  draft = _Draft(0, start)
  ornament = _PUNCTUATION + _HEADING_BRACKETS
  reign = _index_reign_names(timeline).by_heading.get(
    text[start:stop].strip(ornament)
  )
  if reign is not None:
    draft.kind, draft.statements = section_kinds.NAMED, [("year", reign, 0)]
    start = stop
  else:
    for date in dates:
      if (
        text[start : date.start].strip(ornament)
        or date.first_part <= draft.last_part
      ):
        break
      draft.add_date(date)
      start = date.end
  is_all_read = not text[start:stop].strip(ornament)
  if (stream or trailing) and is_all_read:
    draft.kind = section_kinds.STREAM
  if draft.kind != section_kinds.NO_DATE and is_all_read:
    draft.date_end = len(text) if draft.statements else 0
    return draft
  if not is_heading:
    return None
  # 「太祖文皇帝上之中元嘉六年」; a range is that of a volume.
  years = [date for date in dates if date.first_part == _YEAR]
  draft = _Draft(0, 0, kind=section_kinds.STREAM * bool(stream or trailing))
  if len(years) == 1 and not _RANGE.search(text):
    draft.add_date(years[0])
    if text[: years[0].start].strip(ornament):
      draft.date_end = 0
  return draft


def _cut_record(text: str, dates: Sequence[_PrintedDate]) -> list[_Draft]:
  """Returns the sections of a record that is more than a date."""
  stream = _match_stream(text)
  drafts = [
    _Draft(0, stream.end(), kind=section_kinds.STREAM)
    if stream
    else _Draft(0, 0)
  ]
  clauses = _Clauses(text)
  for date in dates:
    draft = drafts[-1]
    if (
      _is_blank(text[draft.date_end : date.start])
      and date.first_part > draft.last_part
      and (draft.last_part >= 0 or clauses.can_open_record(date))
    ):
      draft.add_date(date)
    elif clauses.opens_section(date, drafts):
      drafts.append(_Draft(date.start, date.start))
      drafts[-1].add_date(date)
    elif date.first_part == _DAY and clauses.is_narrated(date):
      # A day inside a sentence belongs to the section that it is in.
      draft.statements += date.statements
  return drafts


def _find_last_month(drafts: Sequence[_Draft]) -> int:
  """Returns the number of the month of the last date of the year, else 0."""
  for draft in reversed(drafts):
    for name, *values in draft.statements:
      if name == "month":
        return values[0]
    if draft.kind >= section_kinds.YEAR:
      break
  return 0


class _Clauses:
  """Clauses of a record: which dates open one that is told in its place."""

  def __init__(self, text: str):
    self._text = text
    self._is_punctuated = _is_punctuated(text)
    # 「初…」 is told until the record comes back to its own time.
    pattern = _FLASHBACK if self._is_punctuated else _BARE_FLASHBACK
    self._opens_with_flashback = pattern.match(text) is not None

  @functools.cached_property
  def _opens_sentence(self) -> Callable[[int], bool]:
    return annals.make_sentence_start_test(self._text)

  @functools.cached_property
  def _opens_clause(self) -> Callable[[int], bool]:
    return annals.make_sentence_start_test(self._text, _CLAUSE_ENDS)

  @functools.cached_property
  def _is_outside_speech(self) -> Callable[[int], bool]:
    # Any character ends what is looked for.
    return annals.make_sentence_start_test(self._text, self._text)

  def can_open_record(self, date: _PrintedDate) -> bool:
    """Returns whether a date that opens the record dates it."""
    return not date.is_tail and self._has_form_of_date(date)

  def opens_section(self, date: _PrintedDate, drafts: Sequence[_Draft]) -> bool:
    """Returns whether a date inside the record opens a section.

    Args:
      date: after the first of the record.
      drafts: the sections before it.
    """
    if date.is_tail or self._is_flashback(date):
      return False
    if not self._is_punctuated:
      return self._opens_bare_clause(date, drafts)
    start = self._skip_blanks(date.start)
    if self._opens_sentence(start):
      # 「元年，革車三十乘」 looks ahead unless years were told before.
      is_first_year = (
        date.first_part == _YEAR
        and date.may_be_length
        and date.statements[0][-1] == 1
      )
      return self._has_form_of_date(date) and (
        not is_first_year
        or any(draft.kind >= section_kinds.YEAR for draft in drafts)
      )
    return self._opens_clause(start) and self._is_set_off(date)

  def is_narrated(self, date: _PrintedDate) -> bool:
    """Returns whether a date inside a clause is of what the record tells."""
    if self._is_flashback(date) or _REFERENCE_AFTER_DAY.match(
      self._text, date.end
    ):
      return False
    return not self._is_punctuated or self._is_outside_speech(date.start)

  def _has_form_of_date(self, date: _PrintedDate) -> bool:
    """Returns whether a date at the start of a sentence is one."""
    if date.first_part == _DAY:
      return not _REFERENCE_AFTER_DAY.match(self._text, date.end)
    if date.first_part == _MONTH_DAY:
      return not date.may_be_length
    return True

  def _is_set_off(self, date: _PrintedDate) -> bool:
    """Returns whether a date after a comma is one by its form alone.

    「，三月甲寅」 and 「，冬，」 are, 「，三月，」 is a length of time. A year
    there is told of, not entered.
    """
    if date.first_part == _DAY:
      return self._has_form_of_date(date)
    if date.first_part not in (_SEASON, _MONTH):
      return False
    if date.last_part > _MONTH:
      return True
    if not self._text.startswith("，", date.end):
      return False
    return not (
      date.may_be_length and date.statements[0][1] == _LENGTH_OF_A_SEASON
    )

  def _opens_bare_clause(
    self, date: _PrintedDate, drafts: Sequence[_Draft]
  ) -> bool:
    """The same in a text without punctuation."""
    before = self._text[max(0, date.start - _WIDTH_BEFORE) : date.start]
    after = self._text[date.end : date.end + _WIDTH_AFTER]
    if (
      date.first_part in (_CYCLE, _MONTH_DAY)
      or _LEADS_INTO_DATE.search(before)
      or after.startswith("也")
    ):
      return False
    if date.first_part in (_SEASON, _DAY):
      return self._has_form_of_date(date)
    # Of days histories have the pairs, documents the numbers.
    is_of_document = (
      _NUMBER_OF_DAY.match(after) or _DOCUMENT.search(before)
    ) is not None
    if date.first_part == _YEAR:
      # A year is told of (「建武二年立為后」) more often than entered.
      return (
        (date.has_season or date.last_part == _DAY)
        and not (is_of_document or _ORDER.search(before))
        and not after.startswith(("季", "臣"))
        and not _NAMES_YEAR.search(before)
      )
    if date.last_part == _DAY or not date.may_be_length:
      return date.last_part == _DAY or not is_of_document
    if is_of_document or _LENGTH_AFTER_MONTH.match(after):
      return False
    last_month = _find_last_month(drafts)
    if last_month:
      return date.statements[0][1] > last_month
    # A month is entered where a record begins, unless records are long.
    return drafts[0].kind != section_kinds.DAY and not (
      _ORDER.search(before) or self._text[date.start] in "兩两"
    )

  def _skip_blanks(self, position: int) -> int:
    """Returns the position of blanks and circles before a date."""
    while position and self._text[position - 1] in _BLANKS:
      position -= 1
    return position

  def _is_flashback(self, date: _PrintedDate) -> bool:
    """Returns whether a date is of what is told to have come before."""
    if self._opens_with_flashback and date.first_part == _YEAR:
      return True
    if not self._is_punctuated:
      return False
    sentence_start = 1 + max(
      self._text.rfind(mark, 0, date.start) for mark in annals.SENTENCE_ENDS
    )
    sentence_start += len(self._text[sentence_start:]) - len(
      self._text[sentence_start:].lstrip(_BLANKS)
    )
    return _FLASHBACK.match(self._text, sentence_start) is not None


@dataclasses.dataclass(frozen=True)
class _ReignNames:
  """Names of the reigns of a timeline, for look-ups.

  Attributes:
    by_heading: what a heading may be, with and without the state -> reign.
    by_name: names and aliases -> reigns.
    new_era: a verb of a new era and a name.
  """

  by_heading: dict[str, str]
  by_name: dict[str, tuple[str, ...]]
  new_era: re.Pattern[str]


@functools.lru_cache(maxsize=8)
def _index_reign_names(timeline: Timeline) -> _ReignNames:
  by_heading: dict[str, str] = {}
  by_name: dict[str, tuple[str, ...]] = {}
  # 「太祖」 is a ruler of several eras, and others count years by that name.
  rulers_of_eras = {
    reign.state[start:]
    for reign in timeline.reigns
    for start in range(1, len(reign.state) - 1)
    if not reign.state.endswith(reign.name)
  }
  for reign in timeline.reigns:
    for name in (reign.name, *reign.aliases):
      if name not in rulers_of_eras:
        by_heading.setdefault(name, reign.name)
      by_heading.setdefault(reign.state + name, reign.name)
      reigns = by_name.get(name, ())
      by_name[name] = tuple(dict.fromkeys((*reigns, reign.name)))
  verbs = build_names_pattern(_NEW_ERA_VERBS)
  return _ReignNames(
    by_heading,
    by_name,
    re.compile(f"{verbs}({build_names_pattern(by_name)})"),
  )


def _find_new_eras(
  text: str, timeline: Timeline
) -> Iterator[tuple[int, DateStatement]]:
  """Yields where a record says that an era begins, 「改元太康」, and which."""
  names = _index_reign_names(timeline)
  for match in names.new_era.finditer(text):
    for reign in names.by_name[match[1]]:
      yield match.start(), ("era", reign)
