"""Warnings about a dated chronicle: what its reader should know first."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from ctd_jax.chronology import dates, sexagenary
from ctd_jax.dating.chronicle import emissions, eras, western
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import (
  DOUBTFUL,
  ChronicleDates,
  find_day_statement,
)
from ctd_jax.dating.chronicle.eras import UnknownEra
from ctd_jax.dating.chronicle.sections import (
  COMMON_DAYS_STATEMENT,
  COMMON_YEAR_STATEMENT,
  DAY_STATEMENTS,
  NUMBERED_DAY_STATEMENT,
  DateStatement,
  Section,
)
from ctd_jax.texts.works import Entry, Place
from ctd_jax.utils.notes import Note
from ctd_jax.utils.unicode_text import normalize

# A misprint, a lost heading or a table that lacks an era shows as a
# contradiction, and so does a dating that went wrong.


def find_contradictions(
  dates: ChronicleDates,
) -> list[tuple[int, DateStatement]]:
  """Returns the sections and their statements that contradict the best months.

  Only the first day of a section counts.
  """
  fits: dict[DateStatement, np.ndarray] = {}
  contradictions = []
  for row, (section, month) in enumerate(
    zip(dates.sections, dates.months[:, 0].tolist(), strict=True)
  ):
    if dates.is_outside(month):
      continue
    for statement in section.statements:
      if statement[0] in DAY_STATEMENTS:
        continue
      if statement not in fits:
        fits[statement] = _find_fitting_months(statement, dates.calendar)
      if not fits[statement][month]:
        contradictions.append((row, statement))
    day = find_day_statement(section)
    if dates.days[row].lacks_day or (
      day and not _find_fitting_months(day, dates.calendar)[month]
    ):
      contradictions.append((row, day))
  return contradictions


def _find_fitting_months(
  statement: DateStatement, calendar: Calendar
) -> Bool[np.ndarray, " K"]:
  """Returns which months have a reading with what a statement says."""
  name, *values = statement
  readings = calendar.readings
  if name == "unknown era":
    return np.zeros(len(calendar), bool)
  if name in ("year", "era"):
    year = values[1] if name == "year" else 1
    return emissions.find_reign_years(values[0], year, calendar)
  if name == "month":
    # A leap month may be printed without its mark.
    return readings.find_lunations(readings.have_number(values[0]))
  if name in DAY_STATEMENTS[1:] and readings.day_spans is not None:
    return readings.find_lunations(
      emissions.match_readings(name, values[0], readings)
    )
  if name in (
    *("months", "season", "leap", "cycle", NUMBERED_DAY_STATEMENT),
    *(COMMON_YEAR_STATEMENT, COMMON_DAYS_STATEMENT),
  ):
    return readings.find_lunations(
      emissions.match_readings(name, values[0], readings)
    )
  # Days are checked by `SectionDays`, and a doubtful month may be any.
  return np.ones(len(calendar), bool)


def format_statement(statement: DateStatement) -> str:
  """Returns a statement as a reader would say it: month 3, day 癸未."""
  name, *values = statement
  if name == "months":
    return f"month {' or '.join(map(str, values[0]))}"
  if name == "season":
    return dates.SEASONS[values[0]]
  if name in DAY_STATEMENTS:
    return f"{name} {sexagenary.format_cyclic_index(values[0])}"
  if name == NUMBERED_DAY_STATEMENT:
    number, pair = values[0]
    return f"day {number} {sexagenary.format_cyclic_index(pair)}"
  if name == COMMON_DAYS_STATEMENT:
    days = map(sexagenary.to_gregorian_dates, values[0][:2])
    return "/".join(dict.fromkeys(map(sexagenary.format_date, days)))
  if name == "cycle":
    return f"year {sexagenary.format_cyclic_index(values[0])}"
  if name == "leap":
    return f"month {values[0]}L" if values[0] else "a leap month"
  if name == "year":
    reign, year = values[:2]
    if reign in western.ERAS:
      return f"year {year} {reign}"
    return f"year {reign or ''}{year}年" if year else f"reign {reign}"
  return " ".join(map(str, (name, *values)))


# A share of contradicted dates above which the text as a whole is doubtful.
MAX_CONTRADICTED = 0.05
# A share of doubtful sections above which a reader should help.
MAX_DOUBTFUL = 0.5
_MAX_NAMED = 5  # eras, headings or dates that warnings name


def list_warnings(dates: ChronicleDates, calendar: Calendar) -> list[Note]:
  """Returns all warnings about dates; `calendar` is the whole one."""
  warnings = list_lacking(dates.records, dates.sections, calendar)
  num_printed = sum(len(section.statements) for section in dates.sections)
  share = len(find_contradictions(dates)) / max(num_printed, 1)
  if share > MAX_CONTRADICTED:
    warnings.append(Note("problem.warning.contradicted", share=share))
  share = np.mean(dates.probabilities[:, 0] < DOUBTFUL)
  if share > MAX_DOUBTFUL:
    warnings.append(
      Note("problem.warning.doubtful", share=share, chance=DOUBTFUL)
    )
  return warnings


def list_lacking(
  records: Sequence[Entry], sections: Sequence[Section], calendar: Calendar
) -> list[Note]:
  """Returns warnings of eras, headings and dates that the calendar lacks."""
  return [
    *list_unknown_eras(records, sections, calendar),
    *list_missing_dates(sections, records, calendar),
    *list_unread_dates(sections, records),
  ]


def list_unread_dates(
  sections: Sequence[Section], records: Sequence[Entry]
) -> list[Note]:
  """Returns a warning of dates in columns and markup that say nothing."""
  dated = {section.record for section in sections if section.statements}
  unread = [
    note
    for number, record in enumerate(records)
    for note in record.notes
    if note.kind == "date" and number not in dated
  ]
  if not unread:
    return []
  count = _count_mentions(len(unread), unread[0].place)
  return [Note("problem.warning.unread", date=unread[0].text, count=count)]


def list_unknown_eras(
  records: Sequence[Entry], sections: Sequence[Section], calendar: Calendar
) -> list[Note]:
  """Returns warnings of eras, rulers and headings that the calendar lacks."""
  mentions: dict[str, list[tuple[Entry, UnknownEra]]] = {}
  for record in records:
    text = normalize(record.text).text
    for era in eras.find_unknown_eras(text, calendar):
      mentions.setdefault(era.name, []).append((record, era))
  warnings = _shorten(
    [
      _describe_era(
        found[0][1],
        calendar.timeline.name,
        _count_mentions(len(found), found[0][0].place),
      )
      for found in mentions.values()
    ],
    "eras",
  )
  if western.is_western(calendar):
    return warnings
  names = {"calendar": calendar.timeline.name}
  return warnings + _shorten(
    [
      Note("problem.warning.heading.one", name=heading, **names)
      if count == 1
      else Note("problem.warning.heading", name=heading, number=count, **names)
      for heading, count in eras.list_other_headings(
        records, sections, calendar
      ).items()
    ],
    "headings",
  )


def list_missing_dates(
  sections: Sequence[Section], records: Sequence[Entry], calendar: Calendar
) -> list[Note]:
  """Returns warnings of dates that a known reign lacks, 「明治六十年」."""
  if western.is_western(calendar):
    return []
  dated: dict[tuple[str, int, int | None], list[Section]] = {}
  for section in sections:
    values = {statement[0]: statement[1:] for statement in section.statements}
    reign, year, *_ = values.get("year", (None, None))
    if reign and year:
      (month,) = values.get("month", (None,))
      dated.setdefault((reign, year, month), []).append(section)
  mentions: dict[tuple[str, ...], list[Section]] = {}
  for date, sections_of_date in dated.items():
    missing = _find_missing_date(*date, calendar)
    if missing:
      mentions.setdefault(missing, []).extend(sections_of_date)
  warnings = []
  for missing, sections_of_date in mentions.items():
    first = sections_of_date[0]
    first_place = records[first.record].place_at(first.start)
    date, *there = missing
    names = ("first", "end") if len(there) == 2 else ("months",)
    warnings.append(
      Note(
        "problem.warning.year" if len(there) == 2 else "problem.warning.month",
        date=date,
        calendar=calendar.timeline.name,
        count=_count_mentions(len(sections_of_date), first_place),
        **dict(zip(names, there, strict=True)),
      )
    )
  return _shorten(warnings, "dates")


def _count_mentions(number: int, first_place: Place) -> Note:
  """Returns how often and where first, as in "(2 times, first a.txt:3)"."""
  if number == 1:
    return Note("problem.count.one", place=first_place)
  return Note("problem.count", number=number, place=first_place)


def _shorten(warnings: list[Note], noun: str) -> list[Note]:
  """Returns the first warnings, and how many more there are."""
  num_more = len(warnings) - _MAX_NAMED
  if num_more <= 0:
    return warnings
  more = Note(f"problem.warning.more.{noun}", number=num_more)
  return [*warnings[:_MAX_NAMED], more]


def suggest_common_era(records: Sequence[Entry]) -> list[Note]:
  """Returns advice for a text that could not be dated and prints years CE."""
  try:
    western.load_western_calendar(western.COMMON_ERA, records)
  except ValueError:
    return []
  return [Note("problem.warning.common_era")]


def _find_missing_date(
  reign: str, year: int, month: int | None, calendar: Calendar
) -> tuple[str, ...]:
  """Returns a date that the calendar lacks and what it has instead; else ()."""
  members = calendar.memberships
  is_member = np.isin(members.reigns, calendar.find_reigns(reign))
  years = members.regnal_years[is_member]
  if not len(years):
    return ()
  if year not in years:
    return f"{reign}{year}年", f"{reign}1年", f"{years.max()}年"
  months = calendar.readings.months[
    members.readings[is_member & (members.regnal_years == year)]
  ]
  if month is None or month in months:
    return ()
  labels = ", ".join(map(str, sorted(set(months.tolist()))))
  return f"{reign}{year}年{month}月", labels


def _describe_era(era: UnknownEra, calendar: str, count: Note) -> Note:
  """Returns that a calendar lacks an era, and what era it may be."""
  values = {"name": era.name, "calendar": calendar, "count": count}
  if era.known:
    kind = "ruler" if era.is_ruler else "era"
    states = era.list_owners("note.owner.plain")
    owner = Note(f"problem.owner.{kind}", states=states)
    return Note("problem.warning.era.other", **values, owner=owner)
  if era.nearest:
    names = ", ".join(era.nearest)
    return Note("problem.warning.era.near", **values, names=names)
  return Note("problem.warning.era.none", **values)
