"""Records of corrections: where they stand in their work, what they share."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Protocol

from ctd_jax.index.storage import database
from ctd_jax.utils.notes import Note

_ROWS_PER_QUERY = 500  # variables that a statement may have


class CorrectedRecords(Protocol):
  """What a correction says of its records.

  Attributes:
    first_record: id of the first, within its work.
    last_record: id of the last.
  """

  first_record: str
  last_record: str


def list_ends(corrections: Iterable[CorrectedRecords]) -> list[str]:
  """Returns the ids of the first and last records of corrections."""
  return [
    record_id
    for correction in corrections
    for record_id in (correction.first_record, correction.last_record)
  ]


def find_span(
  folder: pathlib.Path, work: str, first: str, last: str
) -> tuple[tuple[str, str], tuple[int, int]]:
  """Returns ids and rows of the first and last record of a correction.

  Raises:
    ValueError: naming the record that is not there; if they stand the other
      way round.
  """
  rows = find_rows(folder, work, (first, last))
  for record_id in (first, last):
    if record_id not in rows:
      raise ValueError(
        Note("problem.correction.record", work=work, record=record_id)
      )
  if rows[last] < rows[first]:
    raise ValueError(
      Note("problem.correction.order", work=work, other=last, first=first)
    )
  return (first, last), (rows[first], rows[last])


def find_rows(
  folder: pathlib.Path, work: str, record_ids: Iterable[str]
) -> dict[str, int]:
  """Returns the rows of those records that a work of the index has."""
  wanted = [*dict.fromkeys(record_ids)]
  rows: dict[str, int] = {}
  connection = database.open_database(folder)
  try:
    for start in range(0, len(wanted), _ROWS_PER_QUERY):
      batch = wanted[start : start + _ROWS_PER_QUERY]
      rows |= connection.execute(
        "SELECT record_id, row FROM records WHERE work_id = (SELECT work_id "
        "FROM works WHERE name = ?) AND record_id IN "
        f"({', '.join('?' * len(batch))})",
        [work, *batch],
      ).fetchall()
  finally:
    connection.close()
  return rows


def touches(
  correction: CorrectedRecords,
  rows: dict[str, int],
  ids: tuple[str, str],
  span: tuple[int | None, int | None],
) -> bool:
  """Whether a correction has a record in common with a span of records.

  Args:
    correction: whose records may be gone.
    rows: of the records that there are.
    ids: of the first and last record of the span.
    span: their rows, None if they are gone.
  """
  if {correction.first_record, correction.last_record} & {*ids}:
    return True
  first = rows.get(correction.first_record)
  last = rows.get(correction.last_record)
  if None in (first, last, *span):
    return False
  return first <= span[1] and span[0] <= last
