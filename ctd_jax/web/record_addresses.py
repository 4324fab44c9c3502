"""Addresses of records: by work and id, which last when an index is built anew.

A row is a record of one state of an index. A work and an id within it are what
an edition of a text has, whatever dates it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from urllib.parse import quote

from ctd_jax.index.index_folder import IndexFolder

RECORD_PATH = "/record"
_MAX_WORKS = 1_000  # whose names are remembered as addresses have them
_ROWS_PER_QUERY = 500  # variables that a statement may have


def make_record_path(work: str, record_id: str) -> str:
  """Returns the address of a record.

  Args:
    work: name of its work, which may have slashes.
    record_id: within the work.
  """
  return f"{RECORD_PATH}/{_quote_work(work)}/{quote(record_id, safe='')}"


@functools.lru_cache(_MAX_WORKS)
def _quote_work(name: str) -> str:
  return quote(name, safe="/")


def name_record(index: IndexFolder, row: int) -> tuple[str, str]:
  """Returns the work of a record and its id.

  Args:
    index: that has it.
    row: of the record.

  Raises:
    IndexError: if there is none.
  """
  work = index.work_of(row)
  (record_id,) = index.connection.execute(
    "SELECT record_id FROM records WHERE row = ?", (row,)
  ).fetchone()
  return work.name, record_id


def name_records(
  index: IndexFolder, rows: Collection[int]
) -> dict[int, tuple[str, str]]:
  """Returns row -> work and id of many records, as `name_record` does.

  Asked for one by one they cost a page of hundreds most of its time, for
  threads wait for one another at each.

  Args:
    index: that has them.
    rows: of the records.
  """
  wanted, names = list(rows), {}
  for start in range(0, len(wanted), _ROWS_PER_QUERY):
    batch = wanted[start : start + _ROWS_PER_QUERY]
    found = index.connection.execute(
      "SELECT row, record_id FROM records WHERE row IN "
      f"({', '.join('?' * len(batch))})",
      batch,
    )
    names |= {
      row: (index.work_of(row).name, record_id)
      for row, record_id in found.fetchall()
    }
  return names


def find_row(index: IndexFolder, work: str, record_id: str) -> int | None:
  """Returns the row of a record; None if there is none.

  Args:
    index: that is looked in.
    work: name of its work.
    record_id: within the work.
  """
  match = index.connection.execute(
    "SELECT min(row) FROM records JOIN works USING (work_id) "
    "WHERE works.name = ? AND record_id = ?",
    (work, record_id),
  ).fetchone()
  return match[0]


def find_row_of_path(index: IndexFolder, path: str) -> int | None:
  """Returns the row of the record of an address; None if there is none.

  Args:
    index: that is looked in.
    path: work and id as `make_record_path` joins them, without RECORD_PATH.
  """
  names = [
    work.name for work in index.works if path.startswith(f"{work.name}/")
  ]
  # Both may have slashes: the longest name first.
  for name in sorted(names, key=len, reverse=True):
    row = find_row(index, name, path.removeprefix(f"{name}/"))
    if row is not None:
      return row
  return None
