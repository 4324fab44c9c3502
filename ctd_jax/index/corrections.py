"""Store of corrections: dates that readers gave records of an index.

They are in `corrections.sqlite` and survive builds: a work that is built again,
removed or replaced keeps its corrections, and `work_corrections` finds their
records again. `add` and `undo` return when the change is on disk.
"""

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from ctd_jax.index import correction_journal, database
from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.utils import files
from ctd_jax.utils.notes import Note

# The file: SQLite in WAL mode, so that an ended transaction is on disk.


CORRECTIONS_FILE = "corrections.sqlite"
_NEW_FILE = CORRECTIONS_FILE + ".new"
_ENDS = ("", "-wal", "-shm", "-journal")  # of files that SQLite keeps
_DATABASE_FILES = tuple(
  name + end for name in (CORRECTIONS_FILE, _NEW_FILE) for end in _ENDS
)
FILE_NAMES = (*_DATABASE_FILES, correction_journal.JOURNAL_FILE)
MAY_BE_LOST = "corrections may be lost, since their journal is damaged too"
DAMAGED_PREFIX = "corrections.damaged-"  # of copies that a repair leaves
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
_TIMEOUT = 60  # seconds to wait for other writers


def create_file(path: pathlib.Path) -> None:
  """Creates the file, atomically, unless another process has."""
  folder = os.open(path.parent, os.O_RDONLY)
  try:
    fcntl.flock(folder, fcntl.LOCK_EX)
    if path.is_file():
      return
    _write_file(path, ())
    os.fsync(folder)
  finally:
    os.close(folder)


def _write_file(
  path: pathlib.Path, rows: Iterable[correction_journal.Row]
) -> None:
  new = path.with_name(_NEW_FILE)
  # Of a process that was killed here, and of a file that was taken away:
  # SQLite would read their changes into this one.
  for name in _DATABASE_FILES:
    if name != CORRECTIONS_FILE:
      path.with_name(name).unlink(missing_ok=True)
  with contextlib.closing(
    sqlite3.connect(new, isolation_level=None)
  ) as connection:
    connection.executescript(_SCHEMA)
    for row in rows:
      connection.execute(
        f"INSERT INTO corrections({', '.join(row)}) "
        f"VALUES ({', '.join('?' * len(row))})",
        [*row.values()],
      )
  files.make_private(new)
  os.rename(new, path)


def mend_file(folder: pathlib.Path) -> list[str]:
  """Makes database and journal from what is readable in both.

  Damaged files stay, under another name.

  Returns:
    what was done, for the user; nothing if nothing was damaged.
  """
  path = folder / CORRECTIONS_FILE
  if not (errors := [*CorrectionStore(folder).check()]):
    return []
  stored: dict[int, correction_journal.Row] = {}
  with (
    contextlib.suppress(sqlite3.DatabaseError, ValueError),
    contextlib.closing(connect(path)) as connection,
  ):
    stored = correction_journal.read_rows(connection)
  journal, num_lines, num_damaged = correction_journal.read_journal(folder)
  is_damaged = any(error.path == path for error in errors)
  if is_damaged and num_lines and not num_damaged:
    stored = {}  # what is read from damaged pages may be anything
  rows = correction_journal.merge_rows(journal, stored)
  lines = [f"{error.path}: {error.problem}" for error in errors]
  if path.is_file():
    number = 1
    while (aside := folder / f"{DAMAGED_PREFIX}{number}.sqlite").exists():
      number += 1
    for end in _ENDS:
      if (old := path.with_name(path.name + end)).is_file():
        shutil.copy2(old, aside.with_name(aside.name + end))
    lines.append(f"{aside}: a copy of the damaged file")
  _write_file(path, rows.values())
  correction_journal.write_journal(folder, rows)
  if is_damaged and (num_damaged or not num_lines):
    lines.append(MAY_BE_LOST)
  return [*lines, f"{path}: made again with corrections {len(rows):,}"]


def connect(path: pathlib.Path) -> sqlite3.Connection:
  """Returns a connection to the file, read-only if it cannot be written."""
  if not os.access(path, os.R_OK):
    raise ValueError(f"{path}: only its owner can read the corrections")
  is_writable = os.access(path.parent, os.W_OK)
  if is_writable:  # names and notes, in indices of earlier versions too
    files.make_private(*map(path.with_name, FILE_NAMES))
  connection = sqlite3.connect(
    database.make_uri(path, readonly=not is_writable),
    uri=True,
    isolation_level=None,
    check_same_thread=False,
    timeout=_TIMEOUT,
  )
  try:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _SCHEMA_VERSION:
      database.check_schema(connection, path, _SCHEMA)
      # In WAL, "normal" would leave the last commits to the system's cache.
      connection.execute("PRAGMA synchronous=FULL")
      return connection
  except sqlite3.DatabaseError as error:
    connection.close()
    raise DamagedIndexError(path, f"damaged ({error})") from error
  except DamagedIndexError:
    connection.close()
    raise
  connection.close()
  if version == 0:
    raise DamagedIndexError(path, "damaged, it has no table")
  raise ValueError(
    f"{path}: corrections of version {version}, this ctd_jax reads "
    f"{_SCHEMA_VERSION}"
  )


# Where the records of corrections are, and which ones overlap.


class CorrectedRecords(Protocol):
  """The records of a correction, by their ids."""

  first_record: str  # id within the work
  last_record: str  # id within the work


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
  """Returns ids and rows of the first and last record of a correction."""
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
  """Returns id -> row of the records that the work has."""
  with contextlib.closing(database.open_database(folder)) as connection:
    return dict(
      connection.execute(
        "SELECT record_id, row FROM records WHERE work_id = (SELECT work_id "
        f"FROM works WHERE name = ?) AND record_id {database.IN_LIST}",
        (work, json.dumps([*record_ids])),
      )
    )


def find_range(
  correction: CorrectedRecords, row_of: Mapping[str, int]
) -> range | None:
  """Returns the rows of a correction, headings among them; None if gone."""
  first = row_of.get(correction.first_record)
  last = row_of.get(correction.last_record)
  return None if None in (first, last) else range(first, last + 1)


def touches(
  correction: CorrectedRecords,
  rows: dict[str, int],
  ids: tuple[str, str],
  span: tuple[int | None, int | None],
) -> bool:
  """Whether a correction shares a record with a span of records.

  Args:
    correction: correction, whose records may be gone.
    rows: rows of the records that exist.
    ids: ids of the first and last record in the span.
    span: rows of the span, None if they are gone.
  """
  if {correction.first_record, correction.last_record} & {*ids}:
    return True
  own = find_range(correction, rows)
  if own is None or None in span:
    return False
  return own.start <= span[1] and span[0] < own.stop


_MAX_LENGTHS = {"date": 200, "name": 200, "note": 10_000}  # characters


class ConflictError(ValueError):
  """A change that an earlier change rules out."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
  """A date that a reader gave consecutive records."""

  correction_id: int = 0  # never reused; 0 until it is stored
  work: str
  first_record: str  # id within the work
  last_record: str  # id; the same for one record
  date: str  # as written, see `correction_dates.find_months`
  note: str = ""
  name: str = ""  # of the reader
  made: str = ""  # ISO 8601 in UTC
  undone: str | None = None  # time; None while it holds
  undone_by: str = ""
  texts_sha256: str  # of its texts, see `hash_texts`

  @property
  def record_span(self) -> str:
    """The records, `12` or `12..15`."""
    if self.first_record == self.last_record:
      return self.first_record
    return f"{self.first_record}..{self.last_record}"


@dataclasses.dataclass(kw_only=True)
class LocatedCorrection:
  """A correction with its records."""

  correction: Correction
  work: database.IndexedWork | None  # None if the index has none of this name
  # Without headings; none if they are gone.
  records: Sequence[database.IndexRecord] = ()
  months: Sequence[int] = ()  # allowed; none if the records are gone
  problem: Note | str = ""  # why records and months are missing, else ""

  @property
  def title(self) -> str:
    """Title of the work."""
    return self.work.title or self.work.name


_COLUMNS = tuple(field.name for field in dataclasses.fields(Correction))
_GIVEN = (
  "work",
  "first_record",
  "last_record",
  "date",
  "note",
  "name",
  "texts_sha256",
)


def hash_texts(texts: Iterable[str], num_before: int) -> str:
  """Returns the hash that identifies the records of a correction.

  Args:
    num_before: earlier records of the work with the first text; a chronicle
      prints 「冬，十月。」 many times.
  """
  digest = hashlib.sha256(f"{num_before}\n".encode())
  for text in texts:
    digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))
  return digest.hexdigest()


class CorrectionStore:
  """Corrections of an index, for any number of threads."""

  def __init__(self, folder: str | os.PathLike):
    self._folder = pathlib.Path(folder)
    self._thread = threading.local()

  @property
  def path(self) -> pathlib.Path:
    """The file; missing before the first correction."""
    return self._folder / CORRECTIONS_FILE

  def add(self, correction: Correction, key: str) -> Correction:
    """Adds a correction and returns it when it is on disk.

    Args:
      key: key of the form; the same form sent twice is one correction.

    Raises:
      ConflictError: if it overlaps another, or the key is another's.
      FileNotFoundError: if the folder holds no index.
      PermissionError: if it cannot be written.
      ValueError: if the work lacks the record, or a field is empty or too long.
    """
    given = {name: getattr(correction, name) for name in _GIVEN}
    given |= {name: given[name].strip() for name in ("date", "note", "name")}
    _check_fields(given, key)
    connection = self._open_for_writing()
    with database.write(connection):
      previous = _find_one(connection, "add_key", key)
      if previous is not None:
        _check_same(previous, given)
        return previous
      span = find_span(
        self._folder,
        correction.work,
        correction.first_record,
        correction.last_record,
      )
      self._check_overlap(connection, correction.work, span)
      values = given | {"made": _now(), "undone_by": "", "add_key": key}
      cursor = connection.execute(
        f"INSERT INTO corrections({', '.join(values)}) "
        f"VALUES ({', '.join('?' * len(values))})",
        [*values.values()],
      )
      correction_journal.record_change(
        self._folder, connection, cursor.lastrowid
      )
      return _find_one(connection, "correction_id", cursor.lastrowid)

  def undo(self, correction_id: int, name: str, key: str) -> Correction:
    """Undoes a correction and returns it when that is on disk.

    Args:
      key: key of the form; the same form sent twice undoes once.

    Raises:
      ConflictError: if it is undone, or the key is another's.
      PermissionError: if the folder cannot be written.
      ValueError: if there is no such correction or the name is too long.
    """
    _check_fields({"name": name.strip()}, key)
    if not self.path.is_file():
      raise ValueError(Note("problem.correction.none", number=correction_id))
    connection = self._open_for_writing()
    with database.write(connection):
      previous = _find_one(connection, "undo_key", key)
      if previous is not None and previous.correction_id == correction_id:
        return previous
      if previous is not None:
        raise ConflictError(
          Note("problem.correction.form_undone", number=previous.correction_id)
        )
      found = _find_one(connection, "correction_id", correction_id)
      if found is None:
        raise ValueError(
          Note("problem.correction.lacking", number=correction_id)
        )
      if found.undone is not None:
        raise ConflictError(
          Note(
            "problem.correction.undone",
            number=correction_id,
            name=found.undone_by or Note("problem.somebody"),
            time=found.undone,
          )
        )
      connection.execute(
        "UPDATE corrections SET undone = ?, undone_by = ?, undo_key = ? "
        "WHERE correction_id = ?",
        (_now(), name.strip(), key, correction_id),
      )
      correction_journal.record_change(self._folder, connection, correction_id)
      return _find_one(connection, "correction_id", correction_id)

  def get(self, correction_id: int) -> Correction | None:
    """Returns a correction; None if the number is unknown."""
    connection = self._open()
    return connection and _find_one(connection, "correction_id", correction_id)

  def active(self, work: str | None = None) -> list[Correction]:
    """Returns the corrections that hold, oldest first."""
    connection = self._open()
    if connection is None:
      return []
    condition, values = _select(work, only_active=True)
    return _fetch(connection, condition, values)

  def history(
    self,
    work: str | None = None,
    record_id: str | None = None,
    limit: int | None = None,
    offset: int = 0,
  ) -> list[Correction]:
    """Returns corrections, also those undone, newest first."""
    connection = self._open()
    if connection is None:
      return []
    condition, values = _select(work, record_id=record_id)
    if record_id is None:
      return _fetch(
        connection,
        condition,
        values,
        "DESC",
        -1 if limit is None else limit,
        offset,
      )
    matches = self._filter_by_record(
      work, record_id, _fetch(connection, condition, values)
    )
    stop = None if limit is None else offset + limit
    return matches[::-1][offset:stop]

  def count(
    self,
    work: str | None = None,
    record_id: str | None = None,
    only_active: bool = False,
  ) -> int:
    """Returns the number of corrections."""
    connection = self._open()
    if connection is None:
      return 0
    condition, values = _select(work, only_active, record_id)
    if record_id is not None:
      matches = _fetch(connection, condition, values)
      return len(self._filter_by_record(work, record_id, matches))
    return connection.execute(
      f"SELECT count(*) FROM corrections WHERE {condition}", values
    ).fetchone()[0]

  def version(self) -> int:
    """Returns a number that rises with every change, 0 at first."""
    connection = self._open()
    if connection is None:
      return 0
    return connection.execute(
      "SELECT count(*) + count(undone) FROM corrections"
    ).fetchone()[0]

  def check(self) -> Iterator[DamagedIndexError]:
    """Yields what is damaged."""
    try:
      connection = self._open()
      if connection is None:
        return
      for (message,) in connection.execute("PRAGMA integrity_check(5)"):
        if message != "ok":
          yield DamagedIndexError(self.path, message)
      problem = correction_journal.find_problem(self._folder, connection)
      if problem:
        journal = self._folder / correction_journal.JOURNAL_FILE
        yield DamagedIndexError(journal, problem)
    except DamagedIndexError as error:
      yield error
    except (ValueError, sqlite3.DatabaseError) as error:
      problem = str(error).removeprefix(f"{self.path}: ")
      yield DamagedIndexError(self.path, problem)

  def _filter_by_record(
    self, work: str | None, record_id: str, corrections: list[Correction]
  ) -> list[Correction]:
    if work is None:
      raise ValueError(f"record {record_id}: name its work")
    rows = find_rows(self._folder, work, [record_id, *list_ends(corrections)])
    row = rows.get(record_id)
    return [
      correction
      for correction in corrections
      if touches(correction, rows, (record_id, record_id), (row, row))
    ]

  def _check_overlap(
    self,
    connection: sqlite3.Connection,
    work: str,
    span: tuple[tuple[str, str], tuple[int, int]],
  ) -> None:
    """Raises ConflictError if another correction covers one of the records."""
    (first, last), _ = span
    single = first if first == last else None
    condition, values = _select(work, only_active=True, record_id=single)
    others = _fetch(connection, condition, values)
    rows = find_rows(self._folder, work, list_ends(others))
    for other in others:
      if touches(other, rows, *span):
        raise ConflictError(
          Note(
            "problem.correction.overlap",
            record=f"{work} {other.record_span}",
            date=other.date,
            name=other.name or Note("problem.somebody"),
            number=other.correction_id,
          )
        )

  def _open(self) -> sqlite3.Connection | None:
    """Returns this thread's connection; None if there is no file."""
    identity = None
    with contextlib.suppress(FileNotFoundError):
      status = self.path.stat()
      identity = status.st_dev, status.st_ino
    previous = getattr(self._thread, "identity", None)
    if previous not in (None, identity):
      # Moved away, or another in its place: what is written to a connection
      # would be in neither.
      self._thread.connection.close()
      previous = self._thread.identity = None
    if identity is None:
      if (self._folder / correction_journal.JOURNAL_FILE).is_file():
        raise DamagedIndexError(self.path, "missing")
      return None
    if previous is None:
      self._thread.connection = connect(self.path)
      self._thread.identity = identity
    return self._thread.connection

  def _open_for_writing(self) -> sqlite3.Connection:
    """Returns this thread's connection; creates the file if necessary."""
    if not (self._folder / database.DATABASE_FILE).is_file():
      raise FileNotFoundError(f"{self._folder}: no index, nothing to correct")
    if not os.access(self._folder, os.W_OK):
      raise PermissionError(f"{self._folder}: cannot be written")
    if not self.path.is_file() and self._open() is None:
      create_file(self.path)
    return self._open()


def _check_fields(given: dict[str, str], key: str) -> None:
  """Raises ValueError for a field that is empty, too long or not text."""
  if not key:
    raise ValueError(Note("problem.correction.no_key"))
  for name, text in given.items():
    if not text and name not in ("note", "name"):
      raise ValueError(Note("problem.field.empty", name=name))
    if len(text) > (limit := _MAX_LENGTHS.get(name, len(text))):
      raise ValueError(
        Note("problem.field.long", name=name, number=len(text), limit=limit)
      )
    if not text.isprintable() and name in ("date", "name"):
      raise ValueError(Note("problem.field.control", name=name, text=text))
    try:
      text.encode()
    except UnicodeEncodeError:
      raise ValueError(
        Note("problem.field.unicode", name=name, text=text)
      ) from None


def _check_same(previous: Correction, given: dict[str, str]) -> None:
  if any(getattr(previous, name) != given[name] for name in _GIVEN):
    raise ConflictError(
      Note(
        "problem.correction.form",
        number=previous.correction_id,
        record=f"{previous.work} {previous.record_span}",
        date=previous.date,
      )
    )


def _find_one(
  connection: sqlite3.Connection, column: str, value: str | int
) -> Correction | None:
  return next(iter(_fetch(connection, f"{column} = ?", [value])), None)


def _fetch(
  connection: sqlite3.Connection,
  condition: str,
  values: Sequence[object],
  order: str = "ASC",
  limit: int = -1,
  offset: int = 0,
) -> list[Correction]:
  cursor = connection.execute(
    f"SELECT {', '.join(_COLUMNS)} FROM corrections WHERE {condition} "
    f"ORDER BY correction_id {order} LIMIT ? OFFSET ?",
    [*values, limit, offset],
  )
  return [Correction(**dict(zip(_COLUMNS, row, strict=True))) for row in cursor]


def _select(
  work: str | None, only_active: bool = False, record_id: str | None = None
) -> tuple[str, list[str]]:
  """Returns condition and values of a query; callers check the rows."""
  conditions, values = ["1"], []
  if work is not None:
    conditions.append("work = ?")
    values.append(work)
  if only_active:
    conditions.append("undone IS NULL")
  if record_id is not None:
    conditions.append("(first_record != last_record OR first_record = ?)")
    values.append(record_id)
  return " AND ".join(conditions), values


def _now() -> str:
  return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
