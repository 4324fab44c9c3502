"""File of the corrections of an index: made whole, opened, checked.

SQLite in WAL mode. A transaction that has ended is on the disk.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import sqlite3

from ctd_jax.index.storage import database

CORRECTIONS_FILE = "corrections.sqlite"
_NEW_FILE = CORRECTIONS_FILE + ".new"
_ENDS = ("", "-wal", "-shm", "-journal")  # of files that SQLite keeps
FILE_NAMES = tuple(
  name + end for name in (CORRECTIONS_FILE, _NEW_FILE) for end in _ENDS
)
_SCHEMA_VERSION = 1
_SCHEMA = f"""
PRAGMA journal_mode=WAL;
CREATE TABLE corrections(
  correction_id INTEGER PRIMARY KEY AUTOINCREMENT, work TEXT NOT NULL,
  first_record TEXT NOT NULL, last_record TEXT NOT NULL, date TEXT NOT NULL,
  note TEXT NOT NULL, name TEXT NOT NULL, made TEXT NOT NULL, undone TEXT,
  undone_by TEXT NOT NULL, texts_sha256 TEXT NOT NULL,
  add_key TEXT UNIQUE NOT NULL, undo_key TEXT UNIQUE);
CREATE INDEX corrections_by_work ON corrections(work, undone);
PRAGMA user_version={_SCHEMA_VERSION};
"""
_TIMEOUT = 60  # seconds that one waits for what others write


class Transaction:
  """A transaction that no other writer is inside of."""

  def __init__(self, connection: sqlite3.Connection):
    self._connection = connection

  def __enter__(self) -> None:
    self._connection.execute("BEGIN IMMEDIATE")

  def __exit__(self, error_type: type | None, *_: object) -> None:
    try:
      if error_type is None:
        self._connection.execute("COMMIT")
    finally:
      if self._connection.in_transaction:
        self._connection.execute("ROLLBACK")


def create_file(path: pathlib.Path) -> None:
  """Makes the file, whole or not at all, if no other process has.

  Args:
    path: of the file, in the folder of an index.
  """
  folder = os.open(path.parent, os.O_RDONLY)
  try:
    fcntl.flock(folder, fcntl.LOCK_EX)
    if path.is_file():
      return
    new = path.with_name(_NEW_FILE)
    # Of a process that was killed here, and of a file that was taken away:
    # SQLite would read their changes into this one.
    for name in FILE_NAMES:
      path.with_name(name).unlink(missing_ok=True)
    connection = sqlite3.connect(new, isolation_level=None)
    try:
      connection.executescript(_SCHEMA)
    finally:
      connection.close()
    os.rename(new, path)
    os.fsync(folder)
  finally:
    os.close(folder)


def connect(path: pathlib.Path) -> sqlite3.Connection:
  """Returns a connection to the file, for reading only if need be.

  Args:
    path: of the file, which is there.

  Raises:
    ValueError: naming it, if it is damaged or of another version.
  """
  connection = sqlite3.connect(
    database.make_uri(path, readonly=not os.access(path.parent, os.W_OK)),
    uri=True,
    isolation_level=None,
    check_same_thread=False,
    timeout=_TIMEOUT,
  )
  try:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _SCHEMA_VERSION:
      connection.execute("SELECT 1 FROM corrections LIMIT 1").fetchone()
      # In WAL, "normal" would leave the last commits to the system's cache.
      connection.execute("PRAGMA synchronous=FULL")
      return connection
  except sqlite3.DatabaseError as error:
    connection.close()
    raise ValueError(
      f"{path}: damaged ({error}); stop the server first, if one runs, then "
      "move it away, with -wal and -shm, and put a copy in its place, or none, "
      "which leaves the index without corrections"
    ) from error
  connection.close()
  raise ValueError(
    f"{path}: corrections of version {version}, this ctd_jax reads "
    f"{_SCHEMA_VERSION}"
  )
