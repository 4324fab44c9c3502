"""Warnings about a dated chronicle: what its reader should know first."""

from __future__ import annotations

from collections.abc import Sequence

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle import unknown_eras
from ctd_jax.dating.chronicle.contradictions import Contradiction
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.chronicle.unknown_eras import UnknownEra
from ctd_jax.texts.works import Entry

# A share of contradicted dates above which the text as a whole is doubtful.
MAX_CONTRADICTED = 0.05
_MAX_NAMED_ERAS = 5


def list_unknown_eras(
  records: Sequence[Entry], calendar: Calendar
) -> list[str]:
  """Returns a warning for each era that the calendar lacks, the first few.

  Args:
    records: of the text.
    calendar: that they are dated by.
  """
  places: dict[str, list[tuple[Entry, UnknownEra]]] = {}
  for record in records:
    for era in unknown_eras.find_unknown_eras(record.text, calendar):
      places.setdefault(era.name, []).append((record, era))
  warnings = [
    f"{name} is not in the calendar {calendar.timeline.name} ({len(found)} "
    f"{'time' if len(found) == 1 else 'times'}, first {found[0][0].place}): "
    f"{_describe_era(found[0][1])}"
    for name, found in places.items()
  ]
  if len(warnings) > _MAX_NAMED_ERAS:
    num_more = len(warnings) - _MAX_NAMED_ERAS
    warnings[_MAX_NAMED_ERAS:] = [f"and {num_more} more eras that it lacks"]
  return warnings


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


def _describe_era(era: UnknownEra) -> str:
  """Returns whose an era is, or what it is like."""
  if era.known:
    polities = ", ".join(
      f"{polity} {reign_tables.format_common_era_year(first)} to "
      f"{reign_tables.format_common_era_year(last)}"
      for polity, first, last in era.known
    )
    return f"an era of {polities}; name its polity in --reigns"
  if era.nearest:
    return f"no table has it; the nearest are {', '.join(era.nearest)}"
  return "no table has it, nor one like it"
