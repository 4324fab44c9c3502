"""Readings of single dates: what a printed date means in days.

`parse_date` reads one date, such as a cell of a table: 「萬曆十五年三月
廿六日」, 「永熙元年正月六日戊申」, 公元1587年, 1587-05-03 or "3 May 1587".
Chinese dates are found by the grammar of `dates` and looked up in an
`EraCalendar`; a name that several eras share gives a reading for each.

Days are Julian day numbers, years of the common era astronomical.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ctd_jax.chronology import (
  calendar_names,
  dates,
  mentions,
  numerals,
  sexagenary,
  western_dates,
)
from ctd_jax.chronology.calendar_names import CalendarNames
from ctd_jax.chronology.dates import DateCue
from ctd_jax.chronology.era_calendars import ALL_POLITIES
from ctd_jax.chronology.numerals import DateError
from ctd_jax.chronology.reigns import (
  MONTHS_PER_SEASON,
  Timeline,
  format_common_era_year,
)
from ctd_jax.utils import unicode_text
from ctd_jax.utils.notes import Note

_DAYS_BY_NAME = {"朔": 1, **dates.DAYS_BY_NAME}
_JSON_NAMES = (
  *("text", "name", "polity", "ruler", "era", "year", "month", "is_leap"),
  *("day", "cyclic_day", "gregorian", "julian", "edtf", "parallel_names"),
)
_PART_OF_YEAR = "reading.part_of_year"
_DAY_OF_CHANGE = "reading.day_of_change"
# They counted by the eras of the dynasties in the north, most of the time.
_FOLLOWERS = ("楊吳", "吳越", "馬楚", "南平", "閩", "南唐")
_LONGEST_ERA = 6  # characters, 天授禮法延祚
_TEN_DAYS = {"上": (1, 10), "中": (11, 20), "下": (21, 30)}
_GAP = r"[，、．.,\s]*"
# 上元 is an era too.
_NAMES_OF_DAYS = (
  f"(?:{'|'.join(sorted(_DAYS_BY_NAME, key=len, reverse=True))})(?!元年)"
)
# What follows a month: 「廿六日」, 「六日戊申」, 「丁酉朔六日壬寅」.
# The group is atomic: 「三月十五年」 has no tenth day.
_NUMBER = rf"初?(?P<number>(?>{numerals.NUMERAL_PATTERN}))"
_DAY = re.compile(
  rf"{_GAP}(?:(?P<new_moon>{sexagenary.PAIR_PATTERN})朔{_GAP}"
  rf"(?=初?{numerals.NUMERAL_PATTERN}日|{sexagenary.PAIR_PATTERN}))?"
  rf"(?P<first>{sexagenary.PAIR_PATTERN})?日?{_GAP}"
  rf"(?:{_NUMBER}(?![年月旬歲])日?"
  rf"|(?P<name>{_NAMES_OF_DAYS})日?"
  rf"|(?P<ten_days>[上中下])旬)?"
  rf"(?:{_GAP}[（(]?(?P<second>{sexagenary.PAIR_PATTERN})[)）]?日?)?"
  "(?P<mark>[朔晦])?"
)
# Behind a date without one: the number is wrong.
_MONTH = re.compile(rf"{_GAP}閏?(?P<number>{numerals.NUMERAL_PATTERN})月")
# Day and month in either order: 3.5.1587.
_SHORT_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{3,4})")
# Between Chinese words and digits; 「萬曆 十五 年」.
_SPACE = re.compile(r"(?<![!-\u02ff])[ \u3000]+|[ \u3000]+(?![!-\u02ff])")
# 甲申三月十九日: a year, for a day would stand behind its month.
_BARE_YEAR = re.compile(
  rf"\A{sexagenary.PAIR_PATTERN}"
  rf"(?=[春夏秋冬]|[閏闰]?(?:[正臘腊]|{numerals.NUMERAL_PATTERN})月)"
)
_BLANK = re.compile(r"[\s，。、；：．.,;:()（）〔〕\[\]【】「」『』]*")
_REFORM = sexagenary.to_julian_day(1582, 10, 15)


class PrintedDay(NamedTuple):
  """A day as a date prints it."""

  end: int  # position after it
  number: int | None = None  # in the month; -1 is the last
  month: int | None = None  # of 元旦 and the like
  pair: str | None = None  # sexagenary
  new_moon: str | None = None  # pair of the month's first day
  ten_days: tuple[int, int] | None = None  # first and last number
  mark: int | None = None  # day of 朔 or 晦 beside another; -1 is the last


@dataclasses.dataclass(frozen=True)
class DateReading:
  """One meaning of a printed date."""

  text: str  # what was read
  polity: str  # e.g. 明
  ruler: str  # e.g. 明神宗; "" if no table says
  era: str  # e.g. 萬曆; "" for years of a ruler
  year: int  # regnal, 1 = 元年
  month: int | None  # 1-12; None for longer and Western stretches of time
  is_leap: bool  # whether the month is intercalary
  day: int | None  # number in the month
  first_day: int  # Julian day numbers, both included
  last_day: int
  assumptions: tuple[Note, ...]  # what the text does not say
  contradictions: tuple[Note, ...]  # what cannot be true
  _reader: DateReader = dataclasses.field(repr=False, compare=False)
  _era: int = dataclasses.field(repr=False, compare=False)  # in the calendar
  _months: tuple[int, ...] = dataclasses.field(repr=False, compare=False)

  @property
  def cyclic_day(self) -> str:
    """Sexagenary day, 丁卯; "" for longer stretches."""
    if self.first_day != self.last_day:
      return ""
    return sexagenary.format_cyclic_index(
      sexagenary.cyclic_index_of_day(self.first_day)
    )

  @property
  def name(self) -> str:
    """The date with all its parts, 明神宗萬曆十五年三月廿六日."""
    return self._reader.name_reading(self)

  @functools.cached_property
  def parallel_names(self) -> tuple[str, ...]:
    """Other names in use then, those of other calendars with them."""
    own = self.name
    names = self._reader.list_names(self)
    return tuple(name for name in names if name != own)

  @property
  def gregorian(self) -> tuple[str, str]:
    """First and last day in the Gregorian calendar, also before 1582."""
    return _format_day(self.first_day), _format_day(self.last_day)

  @property
  def julian(self) -> tuple[str, str]:
    """First and last day in the Julian calendar."""
    return (
      _format_day(self.first_day, is_julian=True),
      _format_day(self.last_day, is_julian=True),
    )

  @property
  def edtf(self) -> str:
    """The days in EDTF, whose calendar is Gregorian."""
    return "/".join(dict.fromkeys(self.gregorian))

  def to_dict(self) -> dict[str, Any]:
    """Returns the reading as JSON can hold it, notes as codes and words."""
    values = {name: getattr(self, name) for name in _JSON_NAMES}
    return values | {
      "first_julian_day": self.first_day,
      "last_julian_day": self.last_day,
      "assumptions": [note.to_json() for note in self.assumptions],
      "contradictions": [note.to_json() for note in self.contradictions],
    }


def parse_date(
  text: str, calendars: str | Sequence[str] = ALL_POLITIES
) -> list[DateReading]:
  """Returns the readings of a date, the most probable first.

  Readings without contradictions come first, then those with fewer assumptions,
  then those of the first calendar given (China, Japan, Korea, Vietnam).

  >>> [reading] = parse_date("萬曆十五年三月廿六日", "明")
  >>> reading.edtf, reading.cyclic_day
  ('1587-05-03', '乙卯')

  Args:
    text: one date; what stands around it becomes an assumption.
    calendars: polities or countries, as in `era_calendars.load_calendar`.

  Raises:
    DateError: if no date can be read; the message says why.
    ValueError: if there is no such calendar.
  """
  return load_reader(calendars).read(text)


def load_reader(calendars: str | Sequence[str] = ALL_POLITIES) -> DateReader:
  """Returns the reader of dates in some calendars, made once for each."""
  if isinstance(calendars, str):
    calendars = map(str.strip, calendars.replace("，", ",").split(","))
  calendars = tuple(calendars)
  if not calendars:
    raise ValueError("calendars: expected one at least, such as 明 or zh")
  return _make_reader(calendars)


@functools.lru_cache(maxsize=8)
def _make_reader(calendars: tuple[str, ...]) -> DateReader:
  return DateReader(calendars)


class DateReader(CalendarNames):
  """Reads dates in some calendars, and names their days."""

  def __init__(self, calendars: Sequence[str]):
    """Loads the calendars.

    Args:
      calendars: polities or countries; readings of the first are preferred.
    """
    super().__init__(calendars)
    self.timeline = Timeline(",".join(calendars), self.calendar.make_reigns())
    self._reign_of_era = [0] * len(self.calendar.eras)
    for reign, eras in enumerate(self.calendar.reign_eras):
      for era in eras:
        self._reign_of_era[era] = reign

  def read(self, text: str) -> list[DateReading]:
    """Returns the readings of a date, as `parse_date` does."""
    text = _SPACE.sub("", unicode_text.normalize(text).text)
    western = western_dates.NUMERIC_DATE.fullmatch(text)
    if western:
      date = western_dates.read_numeric_date(western)
      return self._read_western(text, date)
    bare = _BARE_YEAR.match(text)
    if bare:
      readings = self.read(f"{bare[0]}年{text[bare.end() :]}")
      return [
        dataclasses.replace(it, text=it.text.replace("年", "", 1))
        for it in readings
      ]
    folded = dates.TWENTY.sub("廿", numerals.fold_script(text))
    found = first = None
    for match, cue in dates.iterate_matches(folded, self.timeline):
      if cue.reign:
        return self._read_reign(text, folded, match, cue)
      # A pair after other parts of a date, 「十年正月辛未朔壬申」, is a day.
      first = first or cue
      is_year = cue.year_cycle or (
        cue.day
        and cue is first
        and not cue.month
        and not folded.startswith("日", match.end())
      )
      if match["common_year"] and folded.startswith("代", match.end()):
        continue  # 1580年代 is ten years
      if found is None and (match["common_year"] or is_year):
        found = match, cue
    western = western_dates.NUMERIC_DATE.search(text)
    if western:
      date = western_dates.read_numeric_date(western)
      return self._read_western(text, date)
    if found and found[0]["common_year"]:
      return self._read_western(text, _read_common_date(*found, folded))
    if found:
      return self._read_reign(text, folded, *found)
    for date in western_dates.find_western_dates(text):
      if date.year is not None:
        return self._read_western(text, date)
      first = date
    is_date = first is not None
    problem = Note("reading.unread.era") if is_date else Note("reading.unread")
    raise DateError(self._find_hint(text, folded) or problem, text)

  def _find_hint(self, text: str, folded: str) -> Note | None:
    """Returns what is known of a date that cannot be read."""
    if short := _SHORT_DATE.search(text):
      first, second, year = map(int, short.group(1, 3, 4))
      forms = [
        Note(
          "reading.short_date",
          date=f"{year:04d}-{month:02d}-{day:02d}",
          day=day,
          month_number=month,
        )
        for day, month in dict.fromkeys(((first, second), (second, first)))
        if 1 <= month <= 12 and 1 <= day <= 31
      ]
      return forms and Note("reading.unread.short_date", forms=forms)
    ends = [it.start() for it in mentions.REIGN_SUFFIX.finditer(folded)]
    for end in (*ends, len(folded)):  # 「開元初」, 「開元」
      _, numbers = mentions.find_named_reigns(folded, end, self.timeline)
      if numbers:
        reigns = [self.timeline.reigns[number - 1] for number in numbers]
        eras = []
        for reign in reigns:
          ends = reign.accession, reign.accession + reign.years - 1
          years = " – ".join(dict.fromkeys(map(format_common_era_year, ends)))
          name = reign.state + reign.name
          eras.append(Note("reading.era", name=name, years=years))
        return Note("reading.unread.no_year", eras=eras)
    return None

  # Chinese dates.

  def _read_reign(
    self, text: str, folded: str, match: re.Match[str], cue: DateCue
  ) -> list[DateReading]:
    """Returns the readings of a date with an era, a ruler or a cyclic year."""
    # The grammar takes the pair of a day; `_DAY` reads it with its number.
    is_year_pair = cue.reign is None and cue.year_cycle is None
    start = match.end()
    if cue.day and not is_year_pair:
      start = match.start("day")
    day = _read_day(folded, start)
    notes = _list_rest(text, cue.start, day.end)
    if cue.reign is None:
      self._check_name_before(text, folded[: cue.start], cue)
      return self._read_cyclic_year(
        text[cue.start : day.end], cue, match, day, notes
      )
    reigns = dates.candidate_reigns(match, cue, self.timeline)
    dates.check_ruler(reigns, match, cue, text, self.timeline)
    readings = []
    for reign in reigns:
      months = self._years_of_reign(reign).get(cue.year)
      if months:
        row = self.timeline.reigns[reign - 1]
        printed = match["reign"] or match["initial"]
        is_spelling = printed in map(numerals.fold_script, row.aliases) and (
          printed != numerals.fold_script(row.name)
        )
        readings += self._read_months(
          text[cue.start : day.end],
          match,
          cue,
          day,
          months,
          [Note("reading.spelling", name=row.name)] * is_spelling + notes,
        )
    if not readings:
      rows = [self.timeline.reigns[reign - 1] for reign in reigns]
      row = max(rows, key=lambda it: it.years)
      raise DateError(
        Note("reading.unread.years", name=row.state + row.name, last=row.years),
        text,
        cue.start,
      )
    readings.sort(key=self._find_rank)
    # States that counted alike are parallel names of one reading.
    kept: dict[tuple[str, int, int], DateReading] = {}
    for reading in readings:
      kept.setdefault(
        (reading.era, reading.first_day, reading.last_day), reading
      )
    return list(kept.values())

  def _check_name_before(self, text: str, before: str, cue: DateCue) -> None:
    """Raises DateError for 永樂甲子, a year that the era did not have."""
    names = dates.build_grammar(self.timeline).reigns
    for length in range(min(len(before), _LONGEST_ERA), 1, -1):
      if before[-length:] in names:
        name, cycle = before[-length:], cue.year_cycle or cue.day
        note = Note("reading.unread.cycle", name=name, cycle=cycle)
        raise DateError(note, text, cue.start)

  def _read_cyclic_year(
    self,
    text: str,
    cue: DateCue,
    match: re.Match[str],
    day: PrintedDay,
    notes: list[Note],
  ) -> list[DateReading]:
    """Returns a reading for every year of a name, 「丁亥年三月」."""
    index = sexagenary.parse_cyclic_index(cue.year_cycle or cue.day)
    readings = []
    for year in sexagenary.years_with_cyclic_index(
      index, self._years[0], self._years[-1]
    ):
      months = {}
      for month in range(
        bisect.bisect_left(self._years, year - 1),
        bisect.bisect_right(self._years, year + 1),
      ):
        members = self._members(month) if self._years[month] == year else ()
        for member in members:
          first, last = self._member_days[member]
          if first <= last and (
            month not in months
            or self._rank_name((month, member))
            < self._rank_name((month, months[month]))
          ):
            months[month] = member
      if months:
        readings += self._read_months(text, match, cue, day, months, notes)[:1]
    return readings

  @functools.cached_property
  def _members_by_reign(self) -> list[np.ndarray]:
    reigns = np.array(self._reign_of_era)[self.calendar.member_eras]
    order = np.argsort(reigns, kind="stable")
    ends = np.searchsorted(
      reigns[order], np.arange(len(self.timeline.reigns)), side="right"
    )
    return np.split(order, ends[:-1])

  @functools.cache  # noqa: B019 (readers are few and kept)
  def _years_of_reign(self, reign: int) -> dict[int, dict[int, int]]:
    """Returns regnal year -> month -> its name, the one in use if any is."""
    years: dict[int, dict[int, int]] = {}
    members = self._members_by_reign[reign - 1]
    of = self.calendar.member_months[members].tolist()
    for month, member in zip(of, members.tolist(), strict=True):
      months = years.setdefault(self._member_years[member], {})
      first, last = self._member_days[member]
      if month not in months or first <= last:
        months[month] = member
    return years

  def _read_months(
    self,
    text: str,
    match: re.Match[str],
    cue: DateCue,
    day: PrintedDay,
    year: dict[int, int],
    notes: list[Note],
  ) -> list[DateReading]:
    """Returns the readings of a date in a year: month -> its name."""
    faults = []
    months = self._find_months(match, cue, day, year)
    has_month = bool(cue.month or cue.leap or day.month)
    cyclic_year = sexagenary.format_cyclic_year(
      self._years[next(reversed(year))]
    )
    if cue.year_cycle not in (None, cyclic_year[:2]):
      faults.append(
        Note("problem.date.cycle", cycle=cue.year_cycle, year=cyclic_year)
      )
    if day.pair and not has_month and cue.season is None:
      if day.pair == cyclic_year[:2]:  # 天保八年丁酉
        day = PrintedDay(day.end)
      else:
        notes = [*notes, Note("reading.pair_as_day", day=day.pair)]
    if day.month not in (None, cue.month or day.month):
      faults.append(Note("reading.feast", number=day.month))
    wrong = not has_month and _MONTH.match(match.string, match.end())
    if wrong:
      number = numerals.parse_numeral(wrong["number"])
      faults.append(Note("reading.no_month", number=number))
    if not months and has_month:
      leaps = [month for month in year if self._is_leap[month]]
      faults.append(
        Note("reading.no_leap", month=self._name_month(leaps[0]))
        if cue.leap and leaps
        else Note("problem.date.leap_none")
        if cue.leap
        else Note("problem.date.of_year")
      )
      day = PrintedDay(day.end)
    if months and cue.month and cue.season is not None:
      start = dates.FIRST_MONTH_OF_SEASON[cue.season]
      numbers = {self._months[months[0]], self._written[months[0]], cue.month}
      if not any(0 <= it - start < MONTHS_PER_SEASON for it in numbers):
        faults.append(Note("reading.season", month=self._name_month(months[0])))
    if months and has_month:
      return [
        self._make_reading(
          text, [month], year, *self._find_days(month, day, faults), notes
        )
        for month in months
      ]
    if day.pair:  # each month of the year that has it
      found = [
        self._make_reading(text, [month], year, *days, notes)
        for month in months or year
        for days in [self._find_days(month, day, faults)]
        if len(days[-1]) == len(faults)
      ]
      if found:
        return found
      faults.append(
        Note(
          "reading.no_day",
          day=day.pair,
          month=self._name_year(year[next(iter(year))]),
        )
      )
    months = months or list(year)
    in_use = [
      month
      for month in months
      if self._member_days[year[month]][0] <= self._member_days[year[month]][1]
    ]
    months = in_use or months
    first, last = self._span_months(months)
    if in_use and cue.season is None:  # a year ends where its era does
      first = max(first, self._member_days[year[months[0]]][0])
      last = min(last, self._member_days[year[months[-1]]][1])
      whole = self._span_months(list(year))
      if whole != (first, last):
        days = "/".join(map(_format_day, whole))
        notes = [*notes, Note(_PART_OF_YEAR, days=days)]
    return [
      self._make_reading(text, months, year, first, last, None, faults, notes)
    ]

  def _span_months(self, months: Sequence[int]) -> tuple[int, int]:
    last = months[-1]
    first_day = self._first_days[months[0]]
    return first_day, self._first_days[last] + self._lengths[last] - 1

  def _find_months(
    self,
    match: re.Match[str],
    cue: DateCue,
    day: PrintedDay,
    year: dict[int, int],
  ) -> list[int]:
    """Returns the months of a year that a date names, the likelier first."""
    number = cue.month or day.month
    if number is None and not cue.leap:
      if cue.season is None:
        return []
      first = dates.FIRST_MONTH_OF_SEASON[cue.season]
      return [
        month
        for month in year
        if 0 <= self._months[month] - first < MONTHS_PER_SEASON
      ]
    # 正月 is what texts call the first month, 一月 what comes before 二月.
    numbers = [self._months, self._written]
    if match["month"] == "正":
      numbers.reverse()
    found = [
      month
      for column in numbers
      for month in year
      if self._is_leap[month] == cue.leap and number in (None, column[month])
    ]
    return list(dict.fromkeys(found))

  def _find_days(
    self, month: int, day: PrintedDay, faults: Sequence[Note]
  ) -> tuple[int, int, int | None, list[Note]]:
    """Returns the first and last day, the day's number, and what is wrong."""
    first, length = self._first_days[month], self._lengths[month]
    faults = list(faults)
    actual = sexagenary.format_cyclic_index(
      sexagenary.cyclic_index_of_day(first)
    )
    if day.new_moon not in (None, actual):
      faults.append(Note("reading.new_moon", day=day.new_moon, actual=actual))
    number = length if day.number == -1 else day.number
    marked = length if day.mark == -1 else day.mark
    if marked and number not in (None, marked):
      faults.append(
        Note(
          "reading.mark",
          mark="晦" if day.mark == -1 else "朔",
          number=marked,
          printed=number,
        )
      )
    if number is not None and not 1 <= number <= length:
      faults.append(Note("reading.no_number", number=number, last=length))
      number = None
    if day.pair:
      julian_day = self.calendar.find_day(
        month, sexagenary.parse_cyclic_index(day.pair)
      )
      if julian_day is None:
        faults.append(
          Note("reading.no_day", day=day.pair, month=self._name_month(month))
        )
      elif number not in (None, julian_day - first + 1):
        printed = sexagenary.cyclic_index_of_day(first + number - 1)
        faults.append(
          Note(
            "reading.day_differs",
            day=day.pair,
            number=julian_day - first + 1,
            printed=number,
            other=sexagenary.format_cyclic_index(printed),
          )
        )
      # A pair is copied with more care than a number.
      number = number if julian_day is None else julian_day - first + 1
    if number is not None:
      return first + number - 1, first + number - 1, number, faults
    if day.ten_days:
      start, end = day.ten_days
      return first + start - 1, first + min(end, length) - 1, None, faults
    return first, first + length - 1, None, faults

  def _make_reading(
    self,
    text: str,
    months: Sequence[int],
    year: dict[int, int],
    first: int,
    last: int,
    number: int | None,
    faults: Sequence[Note],
    notes: Sequence[Note],
  ) -> DateReading:
    number_of_era = self._find_era(months[0], year[months[0]], first)
    era = self.calendar.eras[number_of_era]
    is_month = len(months) == 1
    faults = [*faults, *self._check_use(number_of_era, first, last)]
    if faults and faults[-1].code == _DAY_OF_CHANGE:
      notes = [*notes, faults.pop()]
    return DateReading(
      text=text,
      polity=era.polity.name,
      ruler=era.state if era.ruler else "",
      era=era.name,
      year=self._member_years[year[months[0]]],
      month=self._months[months[0]] if is_month else None,
      is_leap=is_month and self._is_leap[months[0]],
      day=number,
      first_day=first,
      last_day=last,
      assumptions=tuple(notes),
      contradictions=tuple(faults),
      _reader=self,
      _era=number_of_era,
      _months=tuple(months),
    )

  def _find_era(self, month: int, member: int, day: int) -> int:
    """Returns the era of a name, under who ruled on a day."""
    era = self._member_eras[member]
    for other in self._members(month):
      first, last = self._member_days[other]
      number = self._member_eras[other]
      if (
        first <= day <= last
        and self._reign_of_era[number] == self._reign_of_era[era]
      ):
        return number
    return era

  def _check_use(self, era: int, first: int, last: int) -> list[Note]:
    """Returns what is wrong or odd if an era was not counted on some days."""
    eras = self.calendar.eras
    parts = self.calendar.reign_eras[self._reign_of_era[era]]
    start = min(eras[part].first_day for part in parts)
    end = max(eras[part].last_day for part in parts)
    name = self._era_names[era]
    if last < start:
      return [Note("reading.before_era", name=name, day=_format_day(start))]
    if first == last == end + 1:  # 大正十五年十二月二十五日
      return [Note(_DAY_OF_CHANGE, name=name, day=_format_day(end))]
    if first > end:
      return [Note("reading.after_era", name=name, day=_format_day(end))]
    return []

  def _find_rank(self, reading: DateReading) -> tuple:
    era = self.calendar.eras[reading._era]
    place, *length = self._ranks[era.polity.number]
    return (
      len(reading.contradictions),
      sum(note.code != _PART_OF_YEAR for note in reading.assumptions),
      place,
      era.polity.name in _FOLLOWERS,
      length,
      -era.years,
    )

  # Western dates.

  def _read_western(
    self, text: str, date: western_dates.WesternDate
  ) -> list[DateReading]:
    """Returns the reading of a Western date, named in the first calendar."""
    first, last = _find_western_days(text, date)
    members = self._names_of_day(first)
    if not members:
      raise DateError(
        Note("reading.outside", date=text[date.start : date.end]),
        text,
        date.start,
      )
    month, member = min(members, key=self._rank_name)
    is_day = first == last
    notes = [
      Note("reading.gregorian" if first >= _REFORM else "reading.julian")
    ]
    notes += _list_rest(text, date.start, date.end)
    reading = self._make_reading(
      text[date.start : date.end],
      [month],
      {month: member},
      first,
      last,
      first - self._first_days[month] + 1 if is_day else None,
      (),
      notes,
    )
    if not is_day:  # months of two calendars do not begin on one day
      reading = dataclasses.replace(
        reading, month=None, is_leap=False, _months=()
      )
    return [reading]

  # Names.

  def name_reading(self, reading: DateReading) -> str:
    """Returns a reading's date with all its parts."""
    state = reading.ruler or reading.polity
    text = f"{state}{reading.era}{calendar_names.name_number(reading.year)}年"
    if len(reading._months) == 1:
      text += self._name_month(reading._months[0])
    if reading.day:
      text += f"{self._name_day(reading.day, reading._months[0])}日"
    elif not reading._months:  # a Western month or year
      names = self._names_of_day(reading.first_day)
      first = min(names, key=self._rank_name)
      text = self.name_day(reading.first_day, first)
      names = self._names_of_day(reading.last_day)
      if names:
        last = min(names, key=self._rank_name)
        text += f" – {self.name_day(reading.last_day, last)}"
    return text

  def list_names(self, reading: DateReading) -> list[str]:
    """Returns the names in use in a reading's days, without repeats."""
    day = reading.first_day
    if day == reading.last_day:
      return self.list_names_of_day(day)
    is_year = len(reading._months) != 1
    names = []
    for month in range(
      bisect.bisect_left(self._first_days, day - self._longest),
      bisect.bisect_right(self._first_days, reading.last_day),
    ):
      first, length = self._first_days[month], self._lengths[month]
      common = min(reading.last_day, first + length - 1) - max(day, first) + 1
      if common <= 0 or (not is_year and 2 * common < length):
        continue
      for member in self._members(month):
        start, end = self._member_days[member]
        if max(start, day) <= min(end, reading.last_day):
          name = self._name_year(member)
          names.append(name if is_year else name + self._name_month(month))
    return list(dict.fromkeys(names))

  def list_months(self, text: str) -> list[tuple[DateReading, tuple[str, ...]]]:
    """Returns the months of a year with their names, in order.

    Calendars that count a month alike have it together.

    Args:
      text: a date in it. A year of the common era is the lunar year that
        begins in it.
    """
    reading = self.read(text)[0]
    if reading._months:
      year = self._years[reading._months[0]]
    else:
      year = sexagenary.to_civil_date(reading.first_day)[0]
    months = []
    for month in np.flatnonzero(self.calendar.years == year).tolist():
      first = self._first_days[month]
      last = first + self._lengths[month] - 1
      members = [
        member
        for member in self._members(month)
        if self._member_days[member][0] <= self._member_days[member][1]
      ]
      members.sort(key=lambda it: self._rank_name((month, it)))
      if members:
        named = self._make_reading(
          text, [month], {month: members[0]}, first, last, None, (), ()
        )
        number = self._name_month(month)
        names = (self._name_year(member) + number for member in members)
        months.append((named, tuple(names)))
    return months


def _list_rest(text: str, start: int, end: int) -> list[Note]:
  """Returns a note on what stands around a date, if anything does."""
  rest = [text[:start], text[end:]]
  rest = [part.strip() for part in rest if not _BLANK.fullmatch(part)]
  return [Note("reading.rest", text=" … ".join(rest))] if rest else []


def _read_day(folded: str, start: int) -> PrintedDay:
  """Returns the day that follows a month."""
  match = _DAY.match(folded, start)
  number = match["number"] and numerals.parse_numeral(match["number"])
  if match["name"]:
    number = _DAYS_BY_NAME[match["name"]]
  pair = match["second"] or match["first"]
  new_moon = match["new_moon"]
  if not (number or pair or match["ten_days"]):
    return PrintedDay(start)
  return PrintedDay(
    match.end(),
    number,
    dates.MONTHS_BY_DAY.get(match["name"]),
    pair and _mend_pair(pair),
    new_moon and _mend_pair(new_moon),
    _TEN_DAYS.get(match["ten_days"]),
    _DAYS_BY_NAME.get(match["mark"]),
  )


def _mend_pair(pair: str) -> str:
  return sexagenary.format_cyclic_index(sexagenary.parse_cyclic_index(pair))


def _read_common_date(
  match: re.Match[str], cue: DateCue, folded: str
) -> western_dates.WesternDate:
  """Returns the date of 公元1587年5月3日, whose months are Western."""
  day = _read_day(folded, match.end()) if cue.month else PrintedDay(match.end())
  return western_dates.WesternDate(
    cue.start,
    day.end,
    dates.read_common_year(match),
    cue.month,
    day.number,
  )


def _find_western_days(
  text: str, date: western_dates.WesternDate
) -> tuple[int, int]:
  """Returns the first and last day of a Western date."""
  try:
    return western_dates.find_days(date)
  except ValueError:
    raise DateError(
      Note("reading.no_western", date=text[date.start : date.end]),
      text,
      date.start,
    ) from None


@functools.lru_cache(maxsize=1 << 16)
def _format_day(julian_day: int, is_julian: bool = False) -> str:
  convert = sexagenary.split_julian if is_julian else sexagenary.split_gregorian
  year, month, day = convert(julian_day)
  return f"{'-' * (year < 0)}{abs(year):04d}-{month:02d}-{day:02d}"
