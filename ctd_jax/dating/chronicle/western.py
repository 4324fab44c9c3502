"""Western calendar: months of the common era, and sections of Western annals.

Months are Julian to 4 October 1582 and Gregorian after; years begin on
1 January. Its reigns are CE and BCE, so the decoder needs nothing new.
"""

import bisect
import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ctd_jax.chronology import reigns as reigns_lib
from ctd_jax.chronology import sexagenary, western_dates
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR, Reign, Timeline
from ctd_jax.chronology.western_dates import WesternDate
from ctd_jax.dating.chronicle.calendar import (
  MAX_YEAR,
  Calendar,
  Memberships,
  Readings,
)
from ctd_jax.dating.chronicle.sections import (
  COMMON_DAYS_STATEMENT,
  COMMON_YEAR_STATEMENT,
  MONTH,
  NAMED,
  NO_DATE,
  YEAR,
  DateStatement,
  Section,
  find_statement,
)
from ctd_jax.texts import Entry, YearHeading, match_year_heading
from ctd_jax.utils.notes import Note
from ctd_jax.utils.unicode_text import normalize

ERAS = COMMON_ERA, BEFORE_COMMON_ERA = ("CE", "BCE")
# Years before the first that a text prints and after the last: headings may be
# missing at both ends.
MARGIN_YEARS = 10
_MIN_BARE_YEAR = 100
_PAIR = re.compile(sexagenary.PAIR_PATTERN)
_NAME = re.compile(r"CE(?::(?P<first>.+?)\s*[-–/]\s*(?P<last>[^-–/]+))?")


def is_western_name(name: str) -> bool:
  """Whether a value of --reigns means the common era."""
  return _NAME.fullmatch(name.strip()) is not None


def is_western(calendar: Calendar) -> bool:
  """Whether a calendar counts years of the common era."""
  return all(reign.name in ERAS for reign in calendar.timeline.reigns)


def load_western_calendar(name: str, records: Sequence[Entry]) -> Calendar:
  """Returns the months of the years that a text may cover.

  Args:
    name: `CE` for the years that records print, with `MARGIN_YEARS` on both
      sides; or `CE:700-1160`, `CE:60 BCE-100 CE`.

  Raises:
    ValueError: if the name has another form, or no record prints a year.
  """
  match = _NAME.fullmatch(name.strip())
  if match is None:
    raise ValueError(Note("problem.calendar.form", flag=f"--reigns={name}"))
  if match["first"]:
    try:
      first, last = (
        western_dates.parse_year(match[group]) for group in ("first", "last")
      )
    except ValueError as error:
      raise ValueError(
        Note("problem.at", place=f"--reigns={name}", problem=error)
      ) from None
    if first > last:
      raise ValueError(Note("problem.calendar.order", flag=f"--reigns={name}"))
    return make_western_calendar(first, last)
  years = [
    year
    for record in records
    if (year := _find_opening_year(normalize(record.text).text)) is not None
  ]
  if not years:
    raise ValueError(Note("problem.calendar.no_years", flag=f"--reigns={name}"))
  return make_western_calendar(
    max(min(years) - MARGIN_YEARS, -MAX_YEAR),
    min(max(years) + MARGIN_YEARS, MAX_YEAR),
  )


def make_western_calendar(first_year: int, last_year: int) -> Calendar:
  """Returns the months of astronomical years; ValueError beyond `MAX_YEAR`."""
  for year in (first_year, last_year):
    if abs(year) > MAX_YEAR:
      raise ValueError(
        Note(
          "problem.calendar.limit",
          year=reigns_lib.format_common_era_year(year),
          limit=MAX_YEAR,
        )
      )
  num_months = MONTHS_PER_YEAR * (last_year - first_year + 1)
  lunations = np.arange(num_months)
  years, months = np.divmod(np.arange(num_months + 1), MONTHS_PER_YEAR)
  starts = np.array(
    [
      sexagenary.to_julian_day(first_year + year, month + 1, 1)
      for year, month in zip(years.tolist(), months.tolist(), strict=True)
    ]
  )
  years, months = first_year + years[:-1], months[:-1] + 1
  reigns = []
  if first_year < 1:
    num_years = min(last_year, 0) - first_year + 1
    reigns.append(Reign(BEFORE_COMMON_ERA, "", first_year, num_years))
  if last_year > 0:
    start = max(first_year, 1)
    reigns.append(Reign(COMMON_ERA, "", start, last_year - start + 1))
  return Calendar(
    Timeline(f"CE:{first_year}-{last_year}", tuple(reigns)),
    Readings(
      lunations,
      years,
      months,
      np.zeros(len(years), bool),
      np.stack([starts[:-1], np.diff(starts)], axis=-1),
      np.zeros(len(years)),
    ),
    Memberships(
      lunations,
      lunations,
      np.where(years < 1, 0, len(reigns) - 1),
      np.where(years < 1, 1 - years, years),
      np.ones(len(years), bool),
    ),
    np.zeros(len(reigns), int),
  )


def match_opening_year(text: str) -> YearHeading | None:
  """Returns the year that heads a text, or None; item numbers do not count."""
  heading = match_year_heading(text)
  if heading is None or not (heading.has_era or heading.year >= _MIN_BARE_YEAR):
    return None
  return heading


def _find_opening_year(text: str) -> int | None:
  """Returns the year that opens a text, astronomical."""
  heading = match_opening_year(text)
  if heading is not None:
    return heading.year
  for date in western_dates.find_western_dates(text):
    if date.year is not None:
      # 「【己巳，公元969年】」: the name of the year may come first.
      before = _PAIR.sub("", text[: date.start])
      return None if _WORD.search(before) else date.year
  return None


_MAX_ABBREVIATION = 8
# What may come before the date that opens a sentence: "And on".
_WORD = re.compile(r"\w+")
_MAX_OPENING_WORDS = 2
_MAX_OPENING_LENGTH = 24
# A sentence ends; abbreviations ("St.", "A.D.", "Kal.") are inside of dates or
# a capital follows.
_SENTENCE_END = re.compile(
  r"[.!?;。！？；]+[\"”’')\]」』]*(?:\s+|(?<=[。！？；」』])|$)"
)
_ABBREVIATION = re.compile(
  r"(?:\b[A-Z]|\b(?:St|Dr|Mr|Abp|Bp|Kal|Cal|Non|Id|An|[Vv]iz|etc|i\.e))\.\s*$"
)


class _SentenceHead(NamedTuple):
  """Ends of a sentence and its opening date, and the statements of the date."""

  start: int
  date_end: int
  kind: int
  statements: list[DateStatement]


def read_all_western_sections(records: Sequence[Entry]) -> list[Section]:
  """Returns the sections of Western annals.

  A heading's year counts for the record just below it, not further down, since
  the heading between may be lost.
  """
  sections: list[Section] = []
  year_above: DateStatement | None = None
  for number, record in enumerate(records):
    sections += read_western_sections(
      number, record.text, record.is_heading, year_above
    )
    year_above = (
      find_statement(sections[-1], "year") if record.is_heading else None
    )
    if (
      year_above
      and number + 1 < len(records)
      and records[number + 1].place != record.place
    ):
      # A heading on a line of its own: the year can be an empty one, and the
      # heading of what follows lost.
      year_above = ("year", None, year_above[2])
  return sections


def read_western_sections(
  record: int,
  text: str,
  is_heading: bool = False,
  year_above: DateStatement | None = None,
) -> list[Section]:
  """Returns the sections of a record of Western annals, at least one.

  Each begins with a sentence that holds a date. A year counts where it opens
  its sentence; a month or day anywhere, unless it has a year of its own.
  Without one `year_above` counts, the statement of the heading.
  """
  heading = match_opening_year(text)
  head = _SentenceHead(0, 0, NO_DATE, [])
  if heading:
    year_above = _state_year(heading.year, True)
    head = _SentenceHead(0, heading.end, NAMED, [year_above])
  heads, heading_end = [head], head.date_end
  is_heading |= heading is not None and not text[heading_end:].strip()
  # Headings can be in capitals, "JUNE".
  is_capital = is_heading and not heading and text.isupper()
  dates = [
    date
    for date in western_dates.find_western_dates(
      text.title() if is_capital else text
    )
    if date.start >= heading_end
  ]
  sentences = (
    [(heading_end, len(text))]
    if is_heading
    else _split_sentences(text, heading_end, dates)
  )
  date_starts = [date.start for date in dates]
  for start, stop in sentences:
    first, last = (
      bisect.bisect_left(date_starts, position) for position in (start, stop)
    )
    head = _date_sentence(text, start, dates[first:last])
    if not head.statements:
      continue
    if text[heading_end : head.start].strip():
      heads.append(head)
    else:
      heads[0] = _SentenceHead(
        0,
        head.date_end if head.date_end > head.start else heading_end,
        max(heads[0].kind, head.kind),
        heads[0].statements + head.statements,
      )
  stops = [head.start for head in heads[1:]] + [len(text)]
  return [
    Section(
      record,
      head.start,
      stop,
      head.date_end,
      head.kind,
      # The year above counts unless a sentence has its own.
      tuple(head.statements)
      if year_above is None
      or any(name == "year" for name, *_ in head.statements)
      else (year_above, *head.statements),
      is_heading,
    )
    for head, stop in zip(heads, stops, strict=True)
  ]


def add_editors_dates(
  records: Sequence[Entry], sections: Sequence[Section], is_western_text: bool
) -> list[Section]:
  """Returns sections with the dates of markup and margins as statements.

  A date counts for the section that it stands in, unless that prints a year
  and the date is not at its head.
  """
  result = []
  for section in sections:
    for note in records[section.record].notes:
      if note.kind == "date" and (
        section.start <= note.position < section.stop
        and (
          note.position == section.start
          or not find_statement(section, "year", COMMON_YEAR_STATEMENT)
        )
      ):
        section = _add_editors_date(section, note.text, is_western_text)
    result.append(section)
  return result


def _add_editors_date(
  section: Section, text: str, is_western_text: bool
) -> Section:
  text = normalize(text).text.strip()
  date = western_dates.parse_civil_date(text) or match_year_heading(text)
  if date is None:
    return section
  month, day = getattr(date, "month", None), getattr(date, "day", None)
  if is_western_text:
    printed = {name for name, *_ in section.statements}
    year = find_statement(section, "year")
    statements = [] if year else [_state_year(date.year, True)]
    if year and year[2] != _state_year(date.year, True)[2]:
      return section
    if month and not printed & {"month", "months"}:
      statements.append(("month", month))
      if day and "month day" not in printed:
        statements.append(("month day", day))
  elif not month:
    statements = [(COMMON_YEAR_STATEMENT, date.year)]
  else:
    try:
      first, last = western_dates.find_days(date)
    except ValueError:  # 1587-02-30
      return section
    days_later = 0
    if western_dates.NUMERIC_DATE.fullmatch(text):
      # ISO counts by the Gregorian calendar before 1582 too.
      start = np.array([date.year, month, 1])
      days_later = sexagenary.to_julian_day(*start.tolist())
      days_later -= int(sexagenary.from_gregorian_dates(start))
    days = first - days_later, last - days_later, days_later
    statements = [(COMMON_DAYS_STATEMENT, days)]
  return dataclasses.replace(
    section,
    kind=max(section.kind, NAMED),
    statements=(*statements, *section.statements),
  )


def _split_sentences(
  text: str, start: int, dates: Sequence[WesternDate]
) -> list[tuple[int, int]]:
  """Returns the spans of the sentences from `start` on, dates kept whole."""
  sentences = []
  date_starts = [date.start for date in dates]
  for match in _SENTENCE_END.finditer(text, start):
    before = bisect.bisect_left(date_starts, match.end()) - 1
    is_in_date = before >= 0 and match.start() < dates[before].end - 1
    word_start = max(start, match.start() - _MAX_ABBREVIATION)
    if is_in_date or (
      match.end() < len(text)
      and (
        text[match.end()].islower()
        or _ABBREVIATION.search(text[word_start : match.end()])
      )
    ):
      continue
    sentences.append((start, match.end()))
    start = match.end()
  if start < len(text):
    sentences.append((start, len(text)))
  return sentences


def _date_sentence(
  text: str, start: int, dates: Sequence[WesternDate]
) -> _SentenceHead:
  """Returns the head of a sentence."""
  kind, statements = NO_DATE, []
  has_month = False
  # Of the date that opens the sentence, and of what is stated of it.
  opening_end = date_end = start
  for date in dates:
    # "On the 8th of June, in the year 787" is one date.
    between = text[opening_end : date.start]
    opens = (
      len(between) <= _MAX_OPENING_LENGTH
      and len(_WORD.findall(between)) <= _MAX_OPENING_WORDS
    )
    if not opens and (date.year is not None or has_month):
      continue
    if opens:
      opening_end = date.end
    if has_month and date.month is not None:
      continue
    date_end = opening_end
    has_month |= date.month is not None or date.season is not None
    date_kind, date_statements = _read_statements(date)
    kind = max(kind, date_kind)
    statements += date_statements
  return _SentenceHead(start, date_end, kind, statements)


def _read_statements(date: WesternDate) -> tuple[int, list[DateStatement]]:
  """Returns the kind of a date and what it states."""
  kind, statements = NO_DATE, []
  if date.month is not None:
    kind, statements = MONTH, [("month", date.month)]
  elif date.season is not None:
    # Winter holds the new year: it is not a quarter of it.
    kind = MONTH
    statements = [("months", western_dates.months_of_season(date.season))]
  if date.day is not None:
    statements.append(("month day", date.day))
  if date.year is not None:
    kind = NAMED if date.has_era else YEAR
    statements.insert(0, _state_year(date.year, date.has_era))
  return kind, statements


def _state_year(year: int, has_era: bool) -> DateStatement:
  if year < 1:
    return "year", BEFORE_COMMON_ERA, 1 - year
  return "year", COMMON_ERA if has_era else None, year
