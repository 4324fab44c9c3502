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

# A share of contradicted dates above which the text as a whole is doubtful.
MAX_CONTRADICTED = 0.05
# A share of doubtful sections above which a reader should help.
MAX_DOUBTFUL = 0.5
_MAX_NAMED_ERAS = 5
_MAX_NAMED_DATES = 5


def list_unknown_eras(
  records: Sequence[Entry], calendar: Calendar
) -> list[str]:
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
  for name, records_and_eras in mentions.items():
    record, era = records_and_eras[0]
    count = _count_mentions(len(records_and_eras), record.place)
    warnings.append(
      f"{name} is not in the calendar {calendar.timeline.name} {count}: "
      f"{_describe_era(era)}"
    )
  warnings = _shorten(warnings, _MAX_NAMED_ERAS, "eras")
  if western_calendar.is_western(calendar):
    return warnings
  headings = outside_stretches.list_other_headings(records, calendar)
  return warnings + _shorten(
    [
      f"{heading} is of another time than the calendar "
      f"{calendar.timeline.name}: {count} record{'s' * (count != 1)} outside"
      for heading, count in headings.items()
    ],
    _MAX_NAMED_ERAS,
    "headings",
  )


def warn_of_contradictions(
  contradictions: Sequence[Contradiction], sections: Sequence[Section]
) -> list[str]:
  """Returns a warning if much of what is printed is not in the result.

  Args:
    contradictions: of the dated sections.
    sections: of the text.
  """
  num_printed = sum(len(section.statements) for section in sections)
  share = len(contradictions) / max(num_printed, 1)
  if share <= MAX_CONTRADICTED:
    return []
  return [
    f"{share:.1%} of what is printed of dates is not in the result; is it a "
    "text of several works, or under another calendar?"
  ]


def list_missing_dates(
  sections: Sequence[Section], records: Sequence[Entry], calendar: Calendar
) -> list[str]:
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
  mentions: dict[str, list[Section]] = {}
  for date, sections_of_date in dated.items():
    missing = _describe_missing_date(*date, calendar)
    if missing:
      mentions.setdefault(missing, []).extend(sections_of_date)
  warnings = []
  for missing, sections_of_date in mentions.items():
    first = sections_of_date[0]
    first_place = records[first.record].place_at(first.start)
    count = _count_mentions(len(sections_of_date), first_place)
    warnings.append(f"{missing} {count}")
  return _shorten(warnings, _MAX_NAMED_DATES, "dates")


def _count_mentions(number: int, first_place: Place) -> str:
  """Returns how often and where first, as in "(2 times, first a.txt:3)"."""
  return f"({number} time{'s' * (number != 1)}, first {first_place})"


def _shorten(warnings: list[str], max_number: int, noun: str) -> list[str]:
  """Returns the first warnings, and how many more there are."""
  num_more = len(warnings) - max_number
  if num_more <= 0:
    return warnings
  return [*warnings[:max_number], f"and {num_more} more {noun} that it lacks"]


def warn_of_doubt(dates: ChronicleDates) -> list[str]:
  """Returns a warning if most sections are doubtful.

  Args:
    dates: of the sections.
  """
  share = np.mean(dates.probabilities[:, 0] < DOUBTFUL)
  if share <= MAX_DOUBTFUL:
    return []
  return [
    f"{share:.1%} of sections have no month with a probability of {DOUBTFUL}; "
    "name its polities in --reigns, no others, or say what you know by "
    "--first_year or --fixed"
  ]


def suggest_common_era(records: Sequence[Entry]) -> list[str]:
  """Returns an advice if records open with years of the common era.

  Args:
    records: of a text that could not be dated.
  """
  try:
    western_calendar.load_western_calendar(western_calendar.COMMON_ERA, records)
  except ValueError:
    return []
  return ["records open with years of the common era; try --reigns=CE"]


def _describe_missing_date(
  reign: str, year: int, month: int | None, calendar: Calendar
) -> str:
  """Returns what the calendar has instead of a date; "" if it has it."""
  members = calendar.memberships
  is_member = np.isin(members.reigns, calendar.find_reigns(reign))
  years = members.regnal_years[is_member]
  if not len(years):
    return ""
  if year not in years:
    return (
      f"{reign}{year}年 is not in the calendar {calendar.timeline.name}, which "
      f"has {reign}1年 to {years.max()}年"
    )
  months = calendar.readings.months[
    members.readings[is_member & (members.regnal_years == year)]
  ]
  if month is None or month in months:
    return ""
  labels = ", ".join(map(str, sorted(set(months.tolist()))))
  return (
    f"{reign}{year}年{month}月 is not in the calendar "
    f"{calendar.timeline.name}, which has the months {labels} of that year"
  )


def _describe_era(era: UnknownEra) -> str:
  """Returns whose an era is, or what it is like."""
  if era.known:
    polities = ", ".join(
      f"{polity} {reign_tables.format_common_era_year(first)} to "
      f"{reign_tables.format_common_era_year(last)}"
      for polity, first, last in era.known
    )
    noun = "years of a ruler" if era.is_ruler else "an era"
    return f"{noun} of {polities}; name its polity in --reigns"
  if era.nearest:
    return f"no table has it; the nearest are {', '.join(era.nearest)}"
  return "no table has it, nor one like it"
