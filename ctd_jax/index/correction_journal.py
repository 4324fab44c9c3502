"""Journal of corrections: `corrections.jsonl`, a second copy of them.

Each change adds a line with the whole row and its hash before it is committed
to `corrections.sqlite`. Either file alone has every correction, and
`ctd-jax index --repair` makes one from the other.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from ctd_jax.utils import files

JOURNAL_FILE = "corrections.jsonl"
COLUMNS = (
  *("correction_id", "work", "first_record", "last_record", "date", "note"),
  *("name", "made", "undone", "undone_by", "texts_sha256", "add_key"),
  "undo_key",
)
_DIGITS = 16  # of the hash of a row
Row = dict[str, Any]  # column -> value


def record_change(
  folder: pathlib.Path, connection: sqlite3.Connection, correction_id: int
) -> None:
  """Writes a change to the journal; its transaction is not committed yet."""
  path = folder / JOURNAL_FILE
  content = path.read_bytes() if path.is_file() else b""
  num_changes = _count_changes(connection)
  is_torn = content[-1:] not in (b"", b"\n")
  # A change that was not committed has left a line; an index of an earlier
  # version has no journal.
  if is_torn or content.count(b"\n") != num_changes - 1:
    write_journal(folder, read_rows(connection))
    return
  (row,) = read_rows(connection, correction_id).values()
  descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
  with open(descriptor, "ab") as file:
    file.write(_format_line(row))
    file.flush()
    os.fsync(descriptor)


def write_journal(folder: pathlib.Path, rows: Mapping[int, Row]) -> None:
  """Writes the journal anew, with a line per change."""
  with files.atomic_path(folder / JOURNAL_FILE, is_private=True) as path:
    path.write_bytes(b"".join(format_lines(rows)))


def format_lines(rows: Mapping[int, Row]) -> Iterator[bytes]:
  """Yields the lines of a journal, with one more for those undone."""
  for row in rows.values():
    yield _format_line(row) * (1 + (row["undone"] is not None))


def read_journal(folder: pathlib.Path) -> tuple[dict[int, Row], int, int]:
  """Returns the rows by id, the number of lines, and of damaged ones."""
  rows: dict[int, Row] = {}
  num_damaged = 0
  try:
    lines = (folder / JOURNAL_FILE).read_bytes().splitlines()
  except FileNotFoundError:
    return rows, 0, 0
  for line in lines:
    try:
      content = json.loads(line)
      row = content["row"]
      if content["sha256"] != _hash_row(row):
        raise ValueError("another hash")
      # They become SQL, and the journal may be a stranger's.
      if not _is_row(row):
        raise ValueError("another row")
      rows[row["correction_id"]] = row
    except (ValueError, KeyError, TypeError, RecursionError):
      num_damaged += 1
  return dict(sorted(rows.items())), len(lines), num_damaged


def read_rows(
  connection: sqlite3.Connection, correction_id: int | None = None
) -> dict[int, Row]:
  """Returns the rows of a database by id, as far as it can be read."""
  rows: dict[int, Row] = {}
  condition = "" if correction_id is None else "WHERE correction_id = ? "
  with contextlib.suppress(sqlite3.DatabaseError, UnicodeDecodeError):
    cursor = connection.execute(
      f"SELECT * FROM corrections {condition}ORDER BY correction_id",
      () if correction_id is None else (correction_id,),
    )
    names = [column[0] for column in cursor.description]
    for values in cursor:
      row = dict(zip(names, values, strict=True))
      if _is_row(row):  # zeros in the file are empty cells
        rows[row["correction_id"]] = row
  return rows


def merge_rows(
  journal: Mapping[int, Row], stored: Mapping[int, Row]
) -> dict[int, Row]:
  """Returns the rows of both copies; the journal's have hashes."""
  rows = {**stored, **journal}
  for number in journal.keys() & stored.keys():
    row = stored[number]
    # The last lines of the journal may be lost.
    if row["undone"] is not None and journal[number]["undone"] is None:
      undo = {key: row[key] for key in ("undone", "undone_by", "undo_key")}
      rows[number] = journal[number] | undo
  return dict(sorted(rows.items()))


def find_problem(
  folder: pathlib.Path, connection: sqlite3.Connection
) -> str | None:
  """Returns how the journal differs from the database; None if it does not."""
  rows, num_lines, num_damaged = read_journal(folder)
  num_changes = _count_changes(connection)
  stored = read_rows(connection)
  if num_damaged:
    return f"{num_damaged:,} of {num_lines:,} lines are damaged"
  # A change that was being made when the program was killed is in the last
  # line alone.
  if num_lines not in (num_changes, num_changes + 1):
    return f"has {num_lines:,} changes, expected {num_changes:,}"
  differing = [key for key in stored if rows.get(key) != stored[key]]
  if len(differing) > num_lines - num_changes:
    return f"correction {differing[0]} differs from that in the database"
  return None


def _is_row(row: Any) -> bool:
  if not isinstance(row, dict) or row.keys() != {*COLUMNS}:
    return False
  may_lack = ("undone", "undo_key")
  return isinstance(row["correction_id"], int) and all(
    isinstance(row[name], str) or (row[name] is None and name in may_lack)
    for name in COLUMNS[1:]
  )


def _count_changes(connection: sqlite3.Connection) -> int:
  return connection.execute(
    "SELECT count(*) + count(undone) FROM corrections"
  ).fetchone()[0]


def _format_line(row: Row) -> bytes:
  line = {"row": row, "sha256": _hash_row(row)}
  return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _hash_row(row: Row) -> str:
  content = json.dumps(row, sort_keys=True).encode()
  return hashlib.sha256(content).hexdigest()[:_DIGITS]
