"""Reading of sections: cuts the records of a chronicle at the dates they print.

A record may run over months and days (「夏，四月，…五月，…甲子，…」). Each date
that opens a clause begins a section; the sections cover the record. Texts
without punctuation are cut by the words before and after a date.
"""

import bisect
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from ctd_jax.chronology import annals, numerals
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating.chronicle import diaries, eras
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.date_reading import find_printed_dates
from ctd_jax.dating.chronicle.diaries import DiaryDay
from ctd_jax.dating.chronicle.implied_dates import (
  NUMBER_OF_DAY,
  find_extent,
  lead_days,
  name_fitting_years,
  resolve_relative_years,
)
from ctd_jax.dating.chronicle.sections import (
  BLANKS,
  DAY,
  MONTH,
  NAMED,
  NO_DATE,
  PUNCTUATION,
  RELATIVE_YEAR_STATEMENT,
  SEASON,
  STREAM,
  YEAR,
  DatePart,
  PrintedDate,
  Section,
  SectionDraft,
  doubt_month,
  find_new_eras,
  fold_date_glyphs,
  index_reign_names,
  is_blank,
  is_punctuated,
)
from ctd_jax.utils import deadlines

_HEADING_BRACKETS = "【】《》〈〉〔〕[]「」『』（）()#＃*＊"
_ORNAMENT = PUNCTUATION + _HEADING_BRACKETS
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
_TRAILING_STREAM = re.compile(
  # Not from within a run of blanks, which would be read from each.
  r"(?<![：:，、。\s])[：:，、。\s]*([經经傳传]文?)\s*\Z"
)
# What may follow the mark of a stream: 「傳元年春」.
_DATE_OPENING = re.compile(
  rf"(?:元|{numerals.NUMERAL_PATTERN})年|[春夏秋冬](?=[，、王])"
  rf"|[春夏秋冬]?王?閏?(?:正|{numerals.NUMERAL_PATTERN})?月"
)
_RANGE = re.compile("[起至盡訖]")
# 「僖公上」, 「隱公第一」: the part of a reign that a volume has.
_VOLUME_OF_REIGN = re.compile(
  rf"(?:[上中下]|之?[上中下]|[第之]{numerals.NUMERAL_PATTERN})+\Z"
)
# 「太祖神聖王」: what follows the name of the temple.
_POSTHUMOUS_NAME = re.compile(r"(?<=\A.[祖宗]).+[王帝]\Z")


def match_stream_mark(text: str) -> re.Match[str] | None:
  """Returns the mark of a stream that opens a record, 經 (group 1)."""
  bracketed = _BRACKETED_STREAM.match(text)
  if bracketed:
    return bracketed
  match = _BARE_STREAM.match(text)
  if match and (
    match.end() == len(text) or _DATE_OPENING.match(text, match.end())
  ):
    return match
  return None


def read_heading(
  text: str,
  dates: Sequence[PrintedDate],
  timeline: Timeline,
  is_heading: bool,
  states: Sequence[str] = (),
) -> SectionDraft | None:
  """Returns the section of a heading; None if the record is not a heading.

  A heading is nothing but one date, a reign or the mark of a stream, or known.
  `states` are those whose annals it is in, if a heading says so.
  """
  stream = match_stream_mark(text)
  trailing = None if stream else _TRAILING_STREAM.search(text)
  start = stream.end() if stream else 0
  stop = trailing.start() if trailing else len(text)
  draft = SectionDraft(0, start)
  reign = _find_reign(text[start:stop].strip(_ORNAMENT), timeline, states)
  if reign is not None:
    draft.kind, draft.statements = NAMED, [("year", reign, 0)]
    start = stop
  else:
    for date in dates:
      if (
        text[start : date.start].strip(_ORNAMENT)
        or date.first_part <= draft.last_part
      ):
        break
      draft.add_date(date)
      start = date.end
  is_all_read = not text[start:stop].strip(_ORNAMENT)
  if (stream or trailing) and is_all_read:
    draft.kind = STREAM
  if draft.kind != NO_DATE and is_all_read:
    draft.date_end = len(text) if draft.statements else 0
    return draft
  if not is_heading:
    return None
  # 「太祖文皇帝上之中元嘉六年」; a range is that of a volume.
  years = [date for date in dates if date.first_part == DatePart.YEAR]
  # 「…齊開梵字經」 is a line of verse.
  is_stream = bool(stream or (trailing and years))
  draft = SectionDraft(0, 0, kind=STREAM * is_stream)
  if len(years) == 1 and not _RANGE.search(text):
    draft.add_date(years[0])
    if text[: years[0].start].strip(_ORNAMENT):
      draft.date_end = 0
  return draft


def _find_reign(
  name: str, timeline: Timeline, states: Sequence[str]
) -> str | None:
  """Returns the reign that a heading names, alone or with the part of it."""
  by_heading = index_reign_names(timeline).by_heading
  name = numerals.fold_script(name)
  names = (name, _VOLUME_OF_REIGN.sub("", name))
  if states:
    # Other rulers have posthumous names like these.
    names += (_POSTHUMOUS_NAME.sub("", name),)
  return next(
    (
      by_heading[state + name]
      for state in (*states, "")
      for name in names
      if state + name in by_heading
    ),
    None,
  )


# A date opens a section where it opens a clause of the narrative: not in
# speech, not in a flashback (「初，」), and not as a length of time. In texts
# without punctuation the characters before and after a date decide.

_CLAUSE_ENDS = annals.SENTENCE_ENDS + "，："
_SENTENCE_END = re.compile(f"[{annals.SENTENCE_ENDS}]")
_AFTER_BLANKS = re.compile(f"[{BLANKS}]*")
_LENGTH_OF_A_SEASON = 3  # months

# What opens a flashback, a sentence about what came before.
_FLASHBACK = re.compile("初[，、：]|先是|始[，、]|昔[，、者在]")
# The same in a text without punctuation.
_BARE_FLASHBACK = re.compile(f"初(?![{numerals.UNIT_DIGITS}十])|先是|昔[者在]")
# In a text without punctuation a date is part of the clause that one of these
# is in.
_LEADS_INTO_DATE = re.compile(
  "[自至以於于及在用迄訖期限待須俟去昨前今來来每毎逐隔比盡由到因"
  "如若曰云謂]$|[每毎逐去昨前今來来明翌次][年歲嵗]$|[是即同翌次]日$|[孟仲季擬欲]$"
  "|[今去本此其是當]月$"
)
# The same before a season with its month, which is nearly always a date.
_LEADS_INTO_SEASON = re.compile(
  "[自至以迄訖期限待須俟昨今来來明每毎由到如若曰謂擬]$|[自從]去$|[每毎逐去昨前今明來来][年歲嵗]$"
)
# Of lives alone: 「自…至太和四年春」 is a range.
_LEADS_INTO_YEAR = re.compile(
  "[自以於于及在用迄訖期限待須俟昨今來来每毎比由到因如若曰云謂]$"
  "|[自從].{0,10}至$"
)
# After these words a whole date, from the era to the day, dates the sentence:
# 「以淳熙四年五月二十九日卒」.
_LEADS_INTO_FULL_DATE = re.compile("[以於于在]$")
# 「淳熙五年八月二十日，某頓首。」 ends a letter.
_SIGNATURE = re.compile(
  "[^。]{0,16}(?:[書白啟啓拜記序識題上狀跋具撰]|頓首|謹[書記序識題])[。\\s]*"
)
# 「中平四年冬生於譙」: a birth is told where a life begins.
_BIRTH = re.compile("，?[帝上后公王]?生(?=[於于，。]|$)")
# What a petition or an order says: its dates belong to what it is about.
_DOCUMENT = re.compile(
  "(?<![近大羣群公功侍宗諸朝老良賢忠姦奸權])臣|[乞㫖旨敕勅勑]|陛下|指揮"
  "|檢[會㑹準准詳]|[言準准]$"
)
# The same of a petition that is copied out.
_PETITION = re.compile("[乞㫖旨]|陛下|指揮|檢[會㑹準准詳]|[言準准]$")
# 「引去」, 「復來」, 「不至」: they lead into no date.
_ENDS_MOVEMENT = re.compile("[^自從][去來来至]$")
# Words that end a speech: the date after them dates the record.
_ENDS_SPEECH = re.compile("[矣也焉哉耳乎歟邪已己]$")
_ORDER = re.compile("[詔言奏準准條限役聞合毎每凡今來来才纔]|[給留借逾踰]$")
# Of a record that opens with a day: longer ones tell of other months too.
_MAX_DAY_LENGTH = 300
_WIDTH_BEFORE = 24
_WIDTH_OF_ORDER = 6  # before a month
_WIDTH_OF_ORDER_OF_YEAR = 2  # before a year in a life, or 「二年春正月」
_WIDTH_AFTER = 4
_NAMES_YEAR = re.compile("[稱為改號復是謂]$")
# 「是歲元朔二年也」
_NAMES_SAME_YEAR = re.compile("是[年歲嵗]")
_ORDERS_NEXT_YEAR = re.compile("[改減免賜徵輸請罷命詔運給貸為爲復見朝言]$")
_DUE_NEXT_YEAR = re.compile("[田租税稅賦糧包鹽漕者也當為爲改用夏]|故事")
_REFERENCE_AFTER_DAY = re.compile(
  "[日之]?(?:詔書|赦[書令]|[敕勅制]書|指揮|詔旨|以[後后來来]"
  # 「庚子以前桂管觀察使」 is the former commissioner.
  "|以[前上](?:[，、。；：者所言事犯罪逋欠斷應未]|$)"
  "|[歲嵗年科榜])|之[夜日變变]"
)
_LENGTH_AFTER_MONTH = re.compile(
  "[不之而以]|[上中下]旬|[上中下][辛丁戊]|[末間後后終止内內吉]|[已以]?前"
  f"|初[{numerals.UNIT_DIGITS}十旬]|閏?[{numerals.UNIT_DIGITS}十]+月"
)

_PART_OF_MONTH = re.compile("[中半餘許候俸]")


def _read_month(draft: SectionDraft, month_before: int) -> int:
  """Returns the month of a section, that of its year before it, else 0."""
  for name, *values in draft.statements:
    if name == "month":
      return values[0]
  return 0 if draft.kind >= YEAR else month_before


class Clauses:
  """Clauses of a record, and the dates that open them."""

  def __init__(self, text: str):
    self._text = text
    self._is_punctuated = is_punctuated(text)
    # A flashback lasts until the record comes back to its own time.
    pattern = _FLASHBACK if self._is_punctuated else _BARE_FLASHBACK
    self._opens_with_flashback = pattern.match(text) is not None
    # After each section but the last, which may still get a date.
    self._last_months = [0]

  @functools.cached_property
  def _opens_sentence(self) -> Callable[[int], bool]:
    return annals.make_sentence_start_test(self._text)

  @functools.cached_property
  def _sentence_starts(self) -> list[int]:
    return [0, *(match.end() for match in _SENTENCE_END.finditer(self._text))]

  @functools.cached_property
  def _flashbacks(self) -> set[int]:
    """Starts of the sentences that are flashbacks."""
    return {
      start
      for start in self._sentence_starts
      if _FLASHBACK.match(
        self._text, _AFTER_BLANKS.match(self._text, start).end()
      )
    }

  @functools.cached_property
  def _opens_clause(self) -> Callable[[int], bool]:
    return annals.make_sentence_start_test(self._text, _CLAUSE_ENDS)

  @functools.cached_property
  def _is_outside_speech(self) -> Callable[[int], bool]:
    # Any character ends what is looked for.
    return annals.make_sentence_start_test(self._text, self._text)

  def can_open_record(self, date: PrintedDate) -> bool:
    """Returns whether a date that opens the record dates it."""
    return (
      not date.is_tail
      and self._has_form_of_date(date)
      and not self._is_birth(date)
    )

  def opens_section(
    self, date: PrintedDate, drafts: Sequence[SectionDraft]
  ) -> bool:
    """Returns whether a date inside the record opens another section."""
    if date.is_tail or self._is_flashback(date) or self._is_birth(date):
      return False
    if self._dates_event_of_life(date, drafts):
      return True
    if not self._is_punctuated:
      return self._opens_bare_clause(date, drafts)
    # Before blanks and circles.
    start = date.start
    while start and self._text[start - 1] in BLANKS:
      start -= 1
    if self._opens_sentence(start):
      # 「元年，革車三十乘」 looks ahead unless a year comes before it.
      is_first_year = (
        date.first_part == DatePart.YEAR
        and date.may_be_length
        and date.statements[0][-1] == 1
      )
      return self._has_form_of_date(date) and (
        not is_first_year or any(draft.kind >= YEAR for draft in drafts)
      )
    return self._opens_clause(start) and self._is_set_off(date)

  def may_open_section(
    self, date: PrintedDate, drafts: Sequence[SectionDraft]
  ) -> bool:
    """Returns whether a month that opens no section may still date the record.

    Without punctuation it may also be a month somebody mentions, or a length of
    time; the order of the text decides.
    """
    before = self._text[max(0, date.start - _WIDTH_BEFORE) : date.start]
    after = self._text[date.end : date.end + _WIDTH_AFTER]
    if (
      self._is_punctuated
      or self._opens_with_flashback
      or date.is_tail
      or date.first_part not in (DatePart.SEASON, DatePart.MONTH)
      or date.last_part == DatePart.SEASON
      or _PETITION.search(before)
      or after.startswith("也")
    ):
      return False
    leads_into_date = _LEADS_INTO_DATE.search(before)
    if date.has_season or date.last_part == DatePart.DAY:
      return not leads_into_date or _ENDS_MOVEMENT.search(before) is not None
    return not (
      # Documents are copied out in records of a day.
      drafts[0].kind == DAY
      or leads_into_date
      or _LENGTH_AFTER_MONTH.match(after)
      or _PART_OF_MONTH.match(after)
      or NUMBER_OF_DAY.match(after)
      or self._text[date.start] in "兩两"
    )

  def is_narrated(self, date: PrintedDate) -> bool:
    """Returns whether a date inside a clause dates what the record tells."""
    if self._is_flashback(date) or _REFERENCE_AFTER_DAY.match(
      self._text, date.end
    ):
      return False
    return not self._is_punctuated or self._is_outside_speech(date.start)

  def _has_form_of_date(self, date: PrintedDate) -> bool:
    """Returns whether a date at the start of a sentence is one."""
    if date.first_part == DatePart.DAY:
      return not _REFERENCE_AFTER_DAY.match(self._text, date.end)
    if date.first_part == DatePart.MONTH_DAY:
      return not date.may_be_length
    return True

  def _is_set_off(self, date: PrintedDate) -> bool:
    """Returns whether a date after a comma is one by its form alone."""
    if date.first_part == DatePart.DAY:
      return self._has_form_of_date(date)
    if date.first_part not in (DatePart.SEASON, DatePart.MONTH):
      return False
    if date.last_part > DatePart.MONTH:
      return True
    if not self._text.startswith("，", date.end):
      return False
    return not (
      date.may_be_length and date.statements[0][1] == _LENGTH_OF_A_SEASON
    )

  def _opens_bare_clause(
    self, date: PrintedDate, drafts: Sequence[SectionDraft]
  ) -> bool:
    """Returns what `opens_section` does, in a text without punctuation."""
    before = self._text[max(0, date.start - _WIDTH_BEFORE) : date.start]
    after = self._text[date.end : date.end + _WIDTH_AFTER]
    # No entry of annals: it opens with a name.
    is_of_life = drafts[0].kind == NO_DATE
    leads_into_date = (
      _LEADS_INTO_SEASON
      if date.first_part == DatePart.SEASON and date.last_part > DatePart.SEASON
      else _LEADS_INTO_YEAR
      if is_of_life and date.kind == NAMED
      else _LEADS_INTO_DATE
    )
    if _NAMES_SAME_YEAR.match(self._text, date.start) and date.kind == NAMED:
      return True
    if (
      date.first_part in (DatePart.CYCLE, DatePart.MONTH_DAY)
      or leads_into_date.search(before)
      or after.startswith("也")
    ):
      return False
    if date.first_part in (DatePart.SEASON, DatePart.DAY):
      return self._has_form_of_date(date)
    # Of days histories have the pairs, documents the numbers.
    in_document = _DOCUMENT.search(before) and not _ENDS_SPEECH.search(before)
    is_of_document = bool(in_document or NUMBER_OF_DAY.match(after))
    if is_of_life and (RELATIVE_YEAR_STATEMENT, 1) in date.statements:
      # In annals 「明年」 is mostly what somebody orders.
      return not (
        is_of_document
        # 「踰年改元」 is a rule.
        or self._text[date.start] in "踰逾"
        or _ORDERS_NEXT_YEAR.search(before)
        or _DUE_NEXT_YEAR.match(after)
      )
    if date.first_part == DatePart.YEAR:
      # More years are mentioned (「建武二年立為后」) than date an entry.
      is_head = date.has_season and date.last_part > DatePart.SEASON
      width = (
        _WIDTH_OF_ORDER_OF_YEAR if is_of_life or is_head else _WIDTH_BEFORE
      )
      return (
        (
          date.has_season
          or date.last_part == DatePart.DAY
          or (date.last_part == DatePart.MONTH and is_of_life)
        )
        and not (is_of_document or _ORDER.search(before[-width:]))
        and not after.startswith(("季", "臣"))
        and not _NAMES_YEAR.search(before)
      )
    if date.last_part == DatePart.DAY or not date.may_be_length:
      return date.last_part == DatePart.DAY or not is_of_document
    if is_of_document or _LENGTH_AFTER_MONTH.match(after):
      return False
    last_month = self._find_last_month(drafts)
    if last_month:
      return date.statements[0][1] > last_month
    # A month is entered where a record begins, unless records are long.
    return (
      drafts[0].kind != DAY or len(self._text) < _MAX_DAY_LENGTH
    ) and not (
      _ORDER.search(before[-_WIDTH_OF_ORDER:])
      or self._text[date.start] in "兩两"
    )

  def _dates_event_of_life(
    self, date: PrintedDate, drafts: Sequence[SectionDraft]
  ) -> bool:
    """Returns whether a date is when somebody was born, died or built.

    Lives and gazetteers tell of one event after another, and each may have its
    date inside a clause.
    """
    if (
      drafts[0].kind != NO_DATE
      or date.first_part != DatePart.YEAR
      or not date.statements[0][-1]
      or (self._is_punctuated and not self._is_outside_speech(date.start))
    ):
      return False
    before = self._text[max(0, date.start - _WIDTH_BEFORE) : date.start]
    if self._is_punctuated and self._opens_clause(date.start):
      return date.kind == NAMED
    return (
      (date.kind == NAMED or any(draft.kind >= YEAR for draft in drafts))
      and (
        date.last_part == DatePart.DAY
        or (
          date.last_part == DatePart.MONTH
          and NUMBER_OF_DAY.match(self._text, date.end) is not None
        )
      )
      and _LEADS_INTO_FULL_DATE.search(before) is not None
      and not _DOCUMENT.search(before)
    )

  def _find_last_month(self, drafts: Sequence[SectionDraft]) -> int:
    """Returns the month of the last date of the year, else 0."""
    months = self._last_months
    for draft in drafts[len(months) - 1 : -1]:
      months.append(_read_month(draft, months[-1]))
    return _read_month(drafts[-1], months[-1])

  def _is_birth(self, date: PrintedDate) -> bool:
    """Returns whether a year is a year of birth, long before the events."""
    return (
      date.first_part <= DatePart.CYCLE
      and _BIRTH.match(self._text, date.end) is not None
    )

  def _is_flashback(self, date: PrintedDate) -> bool:
    """Returns whether a date is in a flashback."""
    if self._opens_with_flashback and date.first_part == DatePart.YEAR:
      return True
    if not self._is_punctuated:
      return False
    sentence = bisect.bisect(self._sentence_starts, date.start) - 1
    return self._sentence_starts[sentence] in self._flashbacks


# The counts of years of rulers of Han who began to count again.
_COUNTS_OF_YEARS = ("前", "中", "後")
_COUNTING_KINDS = (
  MONTH,
  SEASON,
  YEAR,
)


def read_all_sections(
  texts: Sequence[str], is_heading: Sequence[bool], calendar: Calendar
) -> list[Section]:
  """Returns the sections of all records, in order."""
  texts = [fold_date_glyphs(text) for text in texts]
  dates = [find_printed_dates(text, calendar) for text in texts]
  diary_days = diaries.find_diary_days(texts, dates)
  sections = []
  states: tuple[str, ...] = ()
  for record, text in enumerate(texts):
    if is_heading[record]:
      # 「高麗紀」 holds up to the annals of another state.
      named = eras.find_states(text, calendar.timeline)
      states = states if named is None else named
    if record in diary_days:
      read = functools.partial(_read_diary_record, diary_days[record])
    else:
      read = functools.partial(_read_record, states=states)
    sections += read(record, text, dates[record], calendar, is_heading[record])
  return sections


def _read_diary_record(
  days: Sequence[DiaryDay],
  record: int,
  text: str,
  dates: Sequence[PrintedDate],
  calendar: Calendar,
  is_heading: bool,
) -> list[Section]:
  """Returns the sections of a record of a diary, one for each day."""
  first = days[0].dates[0].start if days else len(text)
  sections = []
  if not is_blank(text[:first]):
    if days and days[0].opens_run:
      before = [date for date in dates if date.end <= first]
      sections = _read_record(record, text[:first], before, calendar, False)
    else:
      empty = SectionDraft(0, 0)
      sections = [
        _make_section(record, text[:first], empty, first, continues=True)
      ]
  drafts = [_draft_diary_day(day, text, dates) for day in days]
  if drafts and not sections:
    drafts[0].start = 0
  if days and days[-1].closes_run:
    # What follows may be no diary.
    later = [date for date in dates if date.start >= drafts[-1].date_end]
    drafts += _cut_record(text, later, drafts[-1:])[1:]
  resolve_relative_years(drafts)
  for index, draft in enumerate(drafts):
    stop = drafts[index + 1].start if index + 1 < len(drafts) else len(text)
    continues = index < len(days) and days[index].continues
    sections.append(
      _make_section(record, text, draft, stop, continues=continues)
    )
  if is_heading:
    sections = [dataclasses.replace(s, is_heading=True) for s in sections]
  return sections


def _draft_diary_day(
  day: DiaryDay, text: str, dates: Sequence[PrintedDate]
) -> SectionDraft:
  """Returns the section of a day of a diary."""
  draft = SectionDraft(day.dates[0].start, day.dates[0].start)
  for date in day.dates:
    draft.add_date(date)
  name = next((date for date in dates if date.start >= draft.date_end), None)
  if (
    # 「六日戊申」
    draft.last_part == DatePart.MONTH_DAY
    and name is not None
    and name.first_part == DatePart.DAY
    and is_blank(text[draft.date_end : name.start])
  ):
    draft.add_date(name)
  if day.month is not None and day.month not in draft.statements:
    draft.statements.insert(0, day.month)
  # The next month, whether it prints its year or not.
  if not day.opens_run:
    draft.kind = MONTH if day.opens_month else DAY
  return draft


def _make_section(
  record: int, text: str, draft: SectionDraft, stop: int, **more: Any
) -> Section:
  """Returns the section of a draft, with more fields of `Section`."""
  return Section(
    record,
    draft.start,
    stop,
    draft.date_end if draft.last_part >= 0 else draft.start,
    draft.kind,
    tuple(draft.statements),
    draft.kind != NO_DATE and is_blank(text[draft.date_end : stop]),
    **more,
  )


def read_sections(
  record: int, text: str, calendar: Calendar, is_heading: bool = False
) -> list[Section]:
  """Returns the sections of a record, at least one; they cover the text.

  A record that heads others (`is_heading`) is one section.
  """
  text = fold_date_glyphs(text)
  dates = find_printed_dates(text, calendar)
  return _read_record(record, text, dates, calendar, is_heading)


def _read_record(
  record: int,
  text: str,
  dates: Sequence[PrintedDate],
  calendar: Calendar,
  is_heading: bool,
  states: Sequence[str] = (),
) -> list[Section]:
  """Returns the sections of a record whose dates are found."""
  heading = read_heading(text, dates, calendar.timeline, is_heading, states)
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
  resolve_relative_years(drafts)
  name_fitting_years(drafts, dates, calendar)
  lead_days(drafts, calendar)
  starts = [draft.start for draft in drafts]
  for position, statement in find_new_eras(text, calendar.timeline):
    draft = drafts[bisect.bisect(starts, position) - 1]
    if statement not in draft.statements:
      draft.statements.append(statement)
  stops = [*starts[1:], len(text)]
  is_signed = _is_signed(text, drafts)
  if is_signed:
    drafts[0].kind = drafts[1].kind
  told = _find_told(drafts, is_punctuated(text))
  return [
    _make_section(
      record,
      text,
      draft,
      stop,
      may_be_told=draft.start in told,
      extent=find_extent(text[draft.start : draft.date_end]),
      continues=is_signed and draft is drafts[1],
    )
    for draft, stop in zip(drafts, stops, strict=True)
  ]


def _is_signed(text: str, drafts: Sequence[SectionDraft]) -> bool:
  """Returns whether a letter or preface has its date at its end."""
  return (
    len(drafts) == 2
    and drafts[0].kind == NO_DATE
    and drafts[1].kind == NAMED
    and drafts[1].last_part >= DatePart.MONTH
    and _SIGNATURE.fullmatch(text, drafts[1].date_end) is not None
  )


def _find_told(drafts: Sequence[SectionDraft], punctuated: bool) -> set[int]:
  """Returns the starts of sections whose date may only be mentioned."""
  if punctuated:
    # An entry with a day of its own refers to another year.
    is_entry = drafts[0].last_part >= DatePart.MONTH_DAY
    return {d.start for d in drafts[1:] if is_entry and d.kind == NAMED}
  last_year = max(
    (
      before.start
      for before, draft in itertools.pairwise(drafts)
      if draft.kind in _COUNTING_KINDS
    ),
    default=0,
  )
  return {
    draft.start
    for draft in drafts[1:]
    if draft.kind < YEAR or draft.start > last_year
  }


def _cut_record(
  text: str,
  dates: Sequence[PrintedDate],
  drafts: Sequence[SectionDraft] = (),
) -> list[SectionDraft]:
  """Returns the sections of a record that is more than a date.

  Args:
    drafts: sections before the `dates`, if not the head of the record.
  """
  drafts = list(drafts)
  if not drafts:
    stream = match_stream_mark(text)
    drafts.append(SectionDraft(0, stream.end() if stream else 0))
    drafts[0].kind = STREAM if stream else NO_DATE
  clauses = Clauses(text)
  for date in dates:
    deadlines.check()
    draft = drafts[-1]
    between = text[draft.date_end : date.start]
    if (
      (is_blank(between) or _heads_count_of_years(between, date, draft))
      and date.first_part > draft.last_part
      and (draft.last_part >= 0 or clauses.can_open_record(date))
    ):
      draft.add_date(date)
    elif clauses.opens_section(date, drafts):
      drafts.append(SectionDraft(date.start, date.start))
      drafts[-1].add_date(date)
    elif clauses.may_open_section(date, drafts):
      drafts.append(SectionDraft(date.start, date.start))
      drafts[-1].add_date(doubt_month(date))
    elif date.first_part == DatePart.DAY and clauses.is_narrated(date):
      # A day inside a sentence belongs to the section that it is in.
      draft.statements += date.statements
  return drafts


def _heads_count_of_years(
  text: str, date: PrintedDate, draft: SectionDraft
) -> bool:
  """Returns whether the text before a year names a count, 「前三年」."""
  return (
    text in _COUNTS_OF_YEARS
    and draft.start == draft.date_end == 0
    and date.first_part == DatePart.YEAR
    and date.has_season
  )
