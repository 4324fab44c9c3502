"""Dates of questions without a regnal year.

Months and days of the common era ("June 311 CE"), centuries, years by their
sexagenary name alone (「辛未年」), reigns and dynasties (「僖公年間」,
「晉懷帝時」, 「西晉時期」).
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from ctd_jax.chronology import (
  calendar_tables,
  dates,
  mentions,
  numerals,
  reigns,
  sexagenary,
  western_dates,
)
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.query_calendar import Months
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.chronology.western_dates import COMMON_ERA_PATTERN, WesternDate
from ctd_jax.dating.chronicle import western, written_dates
from ctd_jax.index import question_calendar
from ctd_jax.index.question_calendar import CalendarMonths, format_years
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note

# Nothing but a reign comes before 「年間」.
ERA_SUFFIX = re.compile("年間(?!的?年)")
_OF_DYNASTY = re.compile("[朝代]|時期|[初末中晚]期|[初末]年|中葉")
# 「永嘉初」 is a part of the reign; which, is not said.
_VAGUE_SUFFIX = re.compile("[末初中晚]")
_CENTURY = re.compile(
  rf"(?:{COMMON_ERA_PATTERN})?(?P<before>前)?\s*第?(?P<number>\d{{1,2}}|{numerals.NUMERAL_PATTERN})"
  r"世[紀纪]|(?P<latin>\d{1,2})(?:st|nd|rd|th)[\s-]century"
  r"(?:\s*(?P<era>B\.?C\.?(?:E\.?)?|C\.?E\.?|A\.?D\.?)(?![A-Za-z]))?",
  re.IGNORECASE,
)
_YEARS_PER_CENTURY = 100
_ISO_DATE = re.compile(
  rf"(?<![\w.:/-]){western_dates.ISO_DATE.pattern}(?![\w:/-])"
)
_DECADE = re.compile(
  rf"(?:{COMMON_ERA_PATTERN})?\s*(?P<before>前)?\s*(?<![\d-])(?P<number>\d{{1,3}}0)"
  r"\s?(?:年代|'?s(?![A-Za-z])(?:\s(?P<era>B\.?C\.?(?:E\.?)?|C\.?E\.?|A\.?D\.?))?)"
)
_BARE_YEAR = re.compile(r"\s*(\d{3,4})\s*")
_WESTERN_MONTH = re.compile(
  r"\b(?:January|February|March|April|May|June|July|August|September|October"
  r"|November|December),?\s+\d{3,4}(?:\s?(?:BCE?|CE|AD)\b)?"
)
_LONE_NUMBER = re.compile(
  r"(?:(?<!\S)|(?<=[\u3400-\u9fff，、]))([1-9]\d{2,3})(?=[\s,?？，、]|\Z)"
)
_DAY_WORD = re.compile("[日號号]$")
_WINTER = 0


class Meaning(NamedTuple):
  """One meaning of a date, with its full name."""

  name: str
  months: Months


class DateSpan(NamedTuple):
  """A date of a question that names no regnal year."""

  start: int
  end: int
  meanings: tuple[Meaning, ...]  # one at least
  year: int | None = None  # astronomical, of a date of the common era
  has_month: bool = False  # whether it is less than a year
  note: Note | str = ""  # how it was understood, if that needs saying


def find_date_spans(text: str, months: CalendarMonths) -> list[DateSpan]:
  """Returns the dates without a regnal year, in order and disjoint."""
  spans: list[DateSpan] = []
  for find in (
    _find_iso_dates,
    _find_western_dates,
    _find_centuries,
    _find_cyclic_years,
    _find_reigns,
    _find_bare_years,
  ):
    for span in find(text, months):
      if not any(
        span.start < other.end and other.start < span.end for other in spans
      ):
        spans.append(span)
  return sorted(spans)


def _find_western_dates(
  text: str, months: CalendarMonths
) -> Iterator[DateSpan]:
  """Yields dates of the common era, except years with 年 or an era."""
  bare_year = _BARE_YEAR.fullmatch(text)
  if bare_year:
    yield from _read_bare_year(bare_year, text, months)
    return
  years = western_dates.find_common_era_years(text)
  for date in (*western_dates.find_western_dates(text), *_find_months(text)):
    if date.year is None:
      continue
    is_chinese = text[date.start] in "公西紀纪"
    if date.month is not None or date.season not in (None, _WINTER):
      # 「公元311年6月」 is a month of the calendar, as all questions ask it.
      if not is_chinese or _DAY_WORD.search(text[: date.end]):
        yield _read_month(date, text, months)
    elif (
      date.season is None
      and not is_chinese
      and not any(
        date.start < year.end and year.start < date.end for year in years
      )
    ):
      yield _make_year(date.start, date.end, date.year, text, months)


def _read_bare_year(
  match: re.Match[str], text: str, months: CalendarMonths
) -> Iterator[DateSpan]:
  """Yields a number as a year CE, BCE or both, if the calendar has them."""
  number = int(match[1])
  spans = [
    _make_year(*match.span(1), year, text, months)
    for year in (number, 1 - number)
    if year in months.years
  ]
  if len(spans) > 1:
    meanings = tuple(span.meanings[0] for span in spans)
    yield spans[0]._replace(meanings=meanings, year=None)
  else:
    yield from spans


def _find_iso_dates(text: str, months: CalendarMonths) -> Iterator[DateSpan]:
  """Yields ISO dates: "1831-01", "1830-12-25" and "-0476" (477 BCE)."""
  for match in _ISO_DATE.finditer(text):
    start, end = match.span()
    name, year = match[0], int(match["year"])
    if match["month"] is None:
      if year < 0:  # of "0476" the era is not said
        yield _make_year(start, end, year, text, months)
      continue
    if not 1 <= int(match["month"]) <= MONTHS_PER_YEAR:  # "1580-90"
      continue
    try:
      is_named = written_dates.find_months(name, months.calendar)
    except ValueError as error:
      raise DateError(notes.of_error(error), text, start) from None
    lunations = np.flatnonzero(is_named)
    yield _make_month(start, end, name, year, lunations, text, months)


def _find_months(text: str) -> Iterator[WesternDate]:
  """Yields months with a year wherever they are, "before June 311 CE"."""
  # The reader of running text wants a word before a month; a question may
  # open with one.
  for match in _WESTERN_MONTH.finditer(text):
    for date in western_dates.find_western_dates(match[0]):
      if date.month is not None and date.year is not None:
        start, end = date.start + match.start(), date.end + match.start()
        yield dataclasses.replace(date, start=start, end=end)


def _make_year(
  start: int, end: int, year: int, text: str, months: CalendarMonths
) -> DateSpan:
  try:
    found, _ = months.find_common_year(year)
  except KeyError as error:
    raise DateError(error.args[0], text, start) from None
  name = reigns.format_common_era_year(year)
  return DateSpan(start, end, (Meaning(name, found),), year)


def _read_month(
  date: WesternDate, text: str, months: CalendarMonths
) -> DateSpan:
  if date.month is None:
    first_month, _, last_month = western_dates.months_of_season(date.season)
  else:
    first_month = last_month = date.month
  next_month = (date.year, last_month + 1, 1)
  if last_month == 12:
    next_month = (date.year + 1, 1, 1)
  try:
    first = sexagenary.to_julian_day(date.year, first_month, date.day or 1)
  except ValueError as error:
    raise DateError(str(error), text, date.start) from None
  last = first if date.day else sexagenary.to_julian_day(*next_month) - 1
  readings = months.calendar.readings
  starts, stops = readings.bound_days()
  lunations = readings.lunations[(starts <= last) & (stops > first)]
  name = text[date.start : date.end].strip()
  return _make_month(
    date.start, date.end, name, date.year, lunations, text, months
  )


def _make_month(
  start: int,
  end: int,
  name: str,
  year: int,
  lunations: Int[np.ndarray, " m"],
  text: str,
  months: CalendarMonths,
) -> DateSpan:
  """Returns a date of the common era as the months that may share its days."""
  found = _span_months(lunations, name, text, start, months)
  readings, note = months.calendar.readings, ""
  if (
    not western.is_western(months.calendar)
    and not readings.has_days[np.isin(readings.lunations, lunations)].all()
  ):
    # Which one, depends on where the year began.
    note = Note(
      "note.question.western_month",
      date=name,
      months=question_calendar.name_months(found, months),
    )
  return DateSpan(
    start, end, (Meaning(name, found),), year, has_month=True, note=note
  )


def _span_months(
  lunations: Int[np.ndarray, " m"],
  name: str,
  text: str,
  start: int,
  months: CalendarMonths,
) -> Months:
  """Returns the first and last of lunations; raises DateError without any."""
  if not len(lunations):
    raise DateError(
      Note(
        "problem.question.outside",
        text=name,
        calendar=months.timeline.name,
        years=format_years(months.years),
      ),
      text,
      start,
    )
  return Months(int(lunations[0]), int(lunations[-1]))


def _find_centuries(text: str, months: CalendarMonths) -> Iterator[DateSpan]:
  for match in _CENTURY.finditer(text):
    number = match["latin"] or match["number"]
    number = (
      int(number) if number.isdecimal() else numerals.parse_numeral(number)
    )
    is_before = match["before"] or (match["era"] or "")[:1] in ("B", "b")
    if number == 0:
      raise DateError(Note("problem.question.century"), text, match.start())
    first = (
      1 - _YEARS_PER_CENTURY * number
      if is_before
      else _YEARS_PER_CENTURY * (number - 1) + 1
    )
    years = months.calendar.years
    lunations = np.flatnonzero(
      (years >= first) & (years < first + _YEARS_PER_CENTURY)
    )
    found = _span_months(lunations, match[0], text, match.start(), months)
    yield DateSpan(*match.span(), (Meaning(match[0], found),))

  for match in _DECADE.finditer(text):
    first = int(match["number"])
    is_before = match["before"] or (match["era"] or "").startswith("B")
    years = months.calendar.years
    years = 1 - years if is_before else years
    lunations = np.flatnonzero((years >= first) & (years < first + 10))
    found = _span_months(lunations, match[0], text, match.start(), months)
    yield DateSpan(*match.span(), (Meaning(match[0], found),))


def _find_cyclic_years(text: str, months: CalendarMonths) -> Iterator[DateSpan]:
  folded = fold_script(text)
  first, last = (int(months.years[row]) for row in (0, -1))
  for match, cue in dates.iterate_matches(folded, months.timeline):
    if not cue.year_cycle or cue.year or match["common_year"]:
      continue
    index = sexagenary.parse_cyclic_index(cue.year_cycle)
    meanings = []
    for year in sexagenary.years_with_cyclic_index(index, first, last):
      name = reigns.format_common_era_year(year)
      try:
        found, regnal_year = months.find_common_year(year, cue.month)
        if cue.season and not cue.month and regnal_year:
          first_month = dates.FIRST_MONTH_OF_SEASON[cue.season]
          found = months.find_season(*regnal_year, first_month)
      except KeyError:
        continue
      tail = folded[match.end("cycle") : cue.end] if cue.month else ""
      meanings.append(Meaning(f"{cue.year_cycle}年{tail} ({name})", found))
    if not meanings:
      raise DateError(
        Note(
          "problem.question.cycle",
          cycle=cue.year_cycle,
          calendar=months.timeline.name,
          years=format_years(months.years),
        ),
        text,
        cue.start,
      )
    has_month = bool(cue.month or cue.season)
    yield DateSpan(cue.start, cue.end, tuple(meanings), has_month=has_month)


def _find_bare_years(text: str, months: CalendarMonths) -> Iterator[DateSpan]:
  """Yields a number that stands alone and is a year of the calendar."""
  if western_dates.find_common_era_years(text):
    return
  for match in _LONE_NUMBER.finditer(text):
    year = int(match[1])
    if year in months.years:
      span = _make_year(*match.span(1), year, text, months)
      yield span._replace(note=Note("note.question.common_era", year=year))
      return


def _find_reigns(text: str, months: CalendarMonths) -> Iterator[DateSpan]:
  folded = fold_script(text)
  for suffix in mentions.REIGN_SUFFIX.finditer(folded):
    start, meanings = _read_reign(folded, suffix.start(), months)
    if not meanings:
      continue
    note = ""
    name = text[start : suffix.start()]
    dynasty = meanings[0].name.split(" (")[0]
    if "(" in meanings[0].name and not fold_script(name).startswith(dynasty):
      note = Note("note.question.named", date=name, other=meanings[0].name)
    if _VAGUE_SUFFIX.match(suffix[0]):
      note = Note(
        "note.question.whole_reign", date=name + suffix[0], reign=name
      )
    yield DateSpan(start, suffix.end(), tuple(meanings), note=note)


def _read_reign(
  folded: str, end: int, months: CalendarMonths
) -> tuple[int, list[Meaning]]:
  """Returns where the name of a reign or ruler begins, and its meanings."""
  start, numbers = mentions.find_named_reigns(folded, end, months.timeline)
  names = {months.timeline.full_reign_name(n): [n] for n in numbers}
  # 「唐朝」, 「宋代」, but 「周時」 may be anything.
  shortest = 1 if _OF_DYNASTY.match(folded, end) else 2
  # 「太祖」 is the name of some reigns and a ruler of others.
  starts = (
    (start,)
    if names
    else range(max(end - mentions.MAX_NAME, 0), end + 1 - shortest)
  )
  for start in starts:
    for ruler, found in _find_rulers(folded[start:end], months).items():
      names.setdefault(ruler, []).extend(found)
    if names:
      return start, [
        Meaning(name, span)
        for name, numbers in names.items()
        if (span := _span_reigns(numbers, months))
      ]
  return end, []


def _find_rulers(name: str, months: CalendarMonths) -> dict[str, list[int]]:
  """Returns ruler or polity -> numbers of the reigns that a name covers."""
  timeline = months.timeline
  grammar = dates.build_grammar(timeline)
  groups: dict[str, list[int]] = {}
  for number, reign in enumerate(timeline.reigns, start=1):
    if not grammar.match_ruler(number, name):
      continue
    dynasties = calendar_tables.ruler_names(reign.state).dynasties
    is_dynasty = name.rstrip("朝國") in dynasties
    # Years that the ruler's own name counts: of their state any ruler is.
    if not is_dynasty and fold_script(reign.state) in dynasties:
      continue
    polity = months.calendar.polities[number - 1]
    groups.setdefault(
      f"{name}{polity}" if is_dynasty else reign.state, []
    ).append(number)
  return {
    _name_group(name, key, numbers, months): numbers
    for key, numbers in groups.items()
  }


def _name_group(
  name: str, key: str, numbers: list[int], months: CalendarMonths
) -> str:
  """Returns the ruler of reigns, or the dynasty and its years."""
  # 「南宋」 is named 宋 where the calendar does not separate it from what came
  # before.
  if not key.startswith(name) or not key.removeprefix(name).isdecimal():
    return key
  span = _span_reigns(numbers, months)
  if span is None:
    return name
  reigns = months.timeline.reigns
  states = [reigns[number - 1].state for number in numbers]
  characters = itertools.takewhile(
    lambda same: len({*same}) == 1, zip(*states, strict=False)
  )
  dynasty = "".join(same[0] for same in characters)
  first, last = months.calendar.years[[*span]]
  return f"{dynasty or name} ({format_years(np.arange(first, last + 1))})"


def _span_reigns(numbers: list[int], months: CalendarMonths) -> Months | None:
  members = months.calendar.memberships
  is_member = np.isin(members.reigns, np.array(numbers) - 1)
  in_use = is_member & members.in_use
  lunations = members.lunations[in_use if in_use.any() else is_member]
  if not len(lunations):
    return None
  return Months(int(lunations.min()), int(lunations.max()))
