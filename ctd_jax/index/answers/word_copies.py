"""Copies of the words of a passage: records that hold a clause of it.

A chronicle tells an event once, and so teaches no model that a text of the same
words is of the same date. Whoever asks sees the records and can tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctd_jax.chronology import date_expressions
from ctd_jax.index import calendars
from ctd_jax.index.storage import database

if TYPE_CHECKING:
  from ctd_jax.index.index_folder import IndexFolder

_CLAUSE = re.compile(r"[^\s，。、；：！？,.;:!?「」『』“”\"《》（）()]+")
_MIN_CLAUSE, _MAX_CLAUSE = 5, 40  # characters
_MAX_CLAUSES = 12  # that are looked up
_MAX_COMMON = 3  # records; a clause that more have is a phrase of the annals


def note_copies(index: IndexFolder, passage: str) -> list[str]:
  """Returns notes on the records that hold clauses of a passage.

  Args:
    index: whose records.
    passage: as asked; in either script and any glyphs.
  """
  notes = []
  for clause in list_clauses(passage, index)[:_MAX_CLAUSES]:
    matches = database.search_text(index.connection, [clause], _MAX_COMMON + 1)
    if not 0 < len(matches) <= _MAX_COMMON:
      continue
    records = database.fetch_records(
      index.connection, [match.row for match in matches]
    )
    places = ", ".join(
      f"{record.record_id} ({_name_month(index, record)})" for record in records
    )
    notes.append(f"the index holds 「{clause}」: record {places}")
  return notes


def list_clauses(passage: str, index: IndexFolder) -> list[str]:
  """Returns the clauses of a passage without a date at their head."""
  clauses = []
  for match in _CLAUSE.finditer(passage):
    clause = match[0]
    cues = date_expressions.find_date_cues(clause, index.calendar.timeline)
    while cues and cues[0].start == 0:
      clause = clause[cues[0].end :]
      cues = date_expressions.find_date_cues(clause, index.calendar.timeline)
    if _MIN_CLAUSE <= len(clause) <= _MAX_CLAUSE:
      clauses.append(clause)
  return list(dict.fromkeys(clauses))


def _name_month(index: IndexFolder, record: database.IndexRecord) -> str:
  return calendars.name_month(
    index.calendar,
    record.best_month,
    index.work_of(record.row).printed_reigns,
  )
