"""Warnings about a dated chronicle: what its reader should know first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle import (
  outside_stretches,
  unknown_eras,
  western_calendar,
)
from ctd_jax.dating.chronicle.chronicle_dates import DOUBTFUL, ChronicleDates
from ctd_jax.dating.chronicle.contradictions import Contradiction
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.chronicle.unknown_eras import UnknownEra
from ctd_jax.texts.works import Entry, Place
from ctd_jax.utils.notes import Note

# A share of contradicted dates above which the text as a whole is doubtful.
MAX_CONTRADICTED = 0.05
# A share of doubtful sections above which a reader should help.
MAX_DOUBTFUL = 0.5
_MAX_NAMED_ERAS = 5
_MAX_NAMED_DATES = 5


def list_unknown_eras(
  records: Sequence[Entry], calendar: Calendar
) -> list[Note]:
  """Returns a warning for each era or ruler that the calendar lacks.

  The first few, and the headings of states of another time.

  Args:
    records: of the text.
    calendar: that they are dated by.
  """
  mentions: dict[str, list[tuple[Entry, UnknownEra]]] = {}
  for record in records:
    for era in unknown_eras.find_unknown_eras(record.text, calendar):
      mentions.setdefault(era.name, []).append((record, era))
  warnings = []
  for records_and_eras in mentions.values():
    record, era = records_and_eras[0]
    count = _count_mentions(len(records_and_eras), record.place)
    warnings.append(_describe_era(era, calendar.timeline.name, count))
  warnings = _shorten(warnings, _MAX_NAMED_ERAS, "eras")
  if western_calendar.is_western(calendar):
    return warnings
  headings = outside_stretches.list_other_headings(records, calendar)
  names = {"calendar": calendar.timeline.name}
  return warnings + _shorten(
    [
      Note("problem.warning.heading.one", name=heading, **names)
      if count == 1
      else Note("problem.warning.heading", name=heading, number=count, **names)
      for heading, count in headings.items()
    ],
    _MAX_NAMED_ERAS,
    "headings",
  )


def warn_of_contradictions(
  contradictions: Sequence[Contradiction], sections: Sequence[Section]
) -> list[Note]:
  """Returns a warning if much of what is printed is not in the result.

  Args:
    contradictions: of the dated sections.
    sections: of the text.
  """
  num_printed = sum(len(section.statements) for section in sections)
  share = len(contradictions) / max(num_printed, 1)
  if share <= MAX_CONTRADICTED:
    return []
  return [Note("problem.warning.contradicted", share=share)]


def list_missing_dates(
  sections: Sequence[Section], records: Sequence[Entry], calendar: Calendar
) -> list[Note]:
  """Returns a warning for each date of a known reign that it has not.

  A year after its last, 「明治六年」, and a month of a year of which the tables
  have other months alone.

  Args:
    sections: of the text.
    records: of the text.
    calendar: that they are dated by.
  """
  if western_calendar.is_western(calendar):
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
  return _shorten(warnings, _MAX_NAMED_DATES, "dates")


def _count_mentions(number: int, first_place: Place) -> Note:
  """Returns how often and where first, as in "(2 times, first a.txt:3)"."""
  if number == 1:
    return Note("problem.count.one", place=first_place)
  return Note("problem.count", number=number, place=first_place)


def _shorten(warnings: list[Note], max_number: int, noun: str) -> list[Note]:
  """Returns the first warnings, and how many more there are."""
  num_more = len(warnings) - max_number
  if num_more <= 0:
    return warnings
  more = Note(f"problem.warning.more.{noun}", number=num_more)
  return [*warnings[:max_number], more]


def warn_of_doubt(dates: ChronicleDates) -> list[Note]:
  """Returns a warning if most sections are doubtful.

  Args:
    dates: of the sections.
  """
  share = np.mean(dates.probabilities[:, 0] < DOUBTFUL)
  if share <= MAX_DOUBTFUL:
    return []
  return [Note("problem.warning.doubtful", share=share, chance=DOUBTFUL)]


def suggest_common_era(records: Sequence[Entry]) -> list[Note]:
  """Returns an advice if records open with years of the common era.

  Args:
    records: of a text that could not be dated.
  """
  try:
    western_calendar.load_western_calendar(western_calendar.COMMON_ERA, records)
  except ValueError:
    return []
  return [Note("problem.warning.common_era")]


def _find_missing_date(
  reign: str, year: int, month: int | None, calendar: Calendar
) -> tuple[str, ...]:
  """Returns a date that the calendar lacks, and what it has instead.

  The first and last year of the reign, or the months of the year. Nothing if
  the calendar has the date.
  """
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
    states = [
      Note(
        "note.owner.plain",
        polity=polity,
        first=reign_tables.format_common_era_year(first),
        last=reign_tables.format_common_era_year(last),
      )
      for polity, first, last in era.known
    ]
    kind = "ruler" if era.is_ruler else "era"
    owner = Note(f"problem.owner.{kind}", states=states)
    return Note("problem.warning.era.other", **values, owner=owner)
  if era.nearest:
    names = ", ".join(era.nearest)
    return Note("problem.warning.era.near", **values, names=names)
  return Note("problem.warning.era.none", **values)
