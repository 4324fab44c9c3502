"""Linked records: what a passage or record shares its wording with, and when.

Axes: K months.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ctd_jax.index import calendars
from ctd_jax.index.answers import answer_phrases
from ctd_jax.index.storage import database

if TYPE_CHECKING:
  from ctd_jax.index.index_folder import IndexFolder

# Evidence whose linked records are of the date that they speak for.
WORDING = ("parallels", "known")
_MAX_RECORDS = 3  # that a note names
_MAX_CHARACTERS = 24  # of each
_SURE, _LIKELY = 0.9, 0.5  # of a month named alone, and with its chance
_MIN_MASS = 0.1  # in the year of the month that is spoken for


def name_linked(
  index: IndexFolder, reasons: Iterable[dict[str, Any]], month: int
) -> list[dict[str, Any]]:
  """Returns reasons whose notes name the records that share wording.

  Args:
    index: that the records are of.
    reasons: of a passage or a record, as JSON has them.
    month: ordinal, that the reasons are for.
  """
  return [
    reason | {"note": _note_records(index, reason["linked"], month)}
    if reason["expert"] in WORDING and reason["linked"]
    else reason
    for reason in reasons
  ]


def _note_records(index: IndexFolder, rows: Sequence[int], month: int) -> str:
  """Returns a note on records, those that may be of the year first."""
  masses = {row: find_year_mass(index, row, month) for row in rows}
  order = sorted(rows, key=lambda row: masses[row] < _MIN_MASS)
  records = database.fetch_records(index.connection, order[:_MAX_RECORDS])
  notes = []
  for record in records:
    text = record.text[:_MAX_CHARACTERS]
    text += "…" * (len(record.text) > len(text))
    date = _describe_date(index, record, masses[record.row])
    notes.append(f"「{text}」 ({date})")
  rest = len(rows) - len(records)
  return f"shares wording with {', '.join(notes)}" + (
    f" and {rest:,} more" if rest else ""
  )


def _describe_date(
  index: IndexFolder, record: database.IndexRecord, year_mass: float
) -> str:
  """Returns the month of a record if that is likely, or what is."""
  if record.best_probability >= _LIKELY:
    month = calendars.name_month(
      index.calendar,
      record.best_month,
      index.work_of(record.row).printed_reigns,
    )
    chance = answer_phrases.format_chance(record.best_probability)
    return month if record.best_probability >= _SURE else f"{month}, p {chance}"
  if year_mass >= _MIN_MASS:
    return f"of the year with p {answer_phrases.format_chance(year_mass)}"
  return "of no sure date"


def is_near(index: IndexFolder, row: int, month: int) -> bool:
  """Whether a record may well be of the year of a month.

  Args:
    index: that it is of.
    row: of the record.
    month: ordinal; outside of the calendar nothing is near.
  """
  return find_year_mass(index, row, month) >= _MIN_MASS


def find_year_mass(index: IndexFolder, row: int, month: int) -> float:
  """Returns the probability that a record is of the year of a month."""
  if month >= len(index.calendar):
    return 0.0
  work = index.work_of(row)
  arrays = index.posteriors_of(work).arrays
  position = row - work.first_row
  span = slice(int(arrays.starts[position]), int(arrays.starts[position + 1]))
  years = index.calendar.years
  is_of_year = years[np.asarray(arrays.months[span])] == years[month]
  return float(np.asarray(arrays.probabilities[span])[is_of_year].sum())
