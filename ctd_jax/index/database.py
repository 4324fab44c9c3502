"""Database of an index: works, records and full text.

`index.sqlite`, SQLite in WAL mode. A record has a global `row`, from 1, that is
never reused; a work has the rows `first_row` ... `first_row + num_records - 1`.
Its posteriors are in the folder `works.folder`, in the order of the rows.

  >>> connection = open_database("annals.index")            # doctest: +SKIP
  >>> search_text(connection, ["葬衛桓公"], k=10)              # doctest: +SKIP
  [TextMatch(row=120, score=9.31)]
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ctd_jax.chronology.glyphs import fold_text
from ctd_jax.index.manifest import (
  DATABASE_FILE,
  MANIFEST_FILE,
  DamagedIndexError,
  Manifest,
  decode_manifest,
)
from ctd_jax.utils import deadlines, files, notes
from ctd_jax.utils.notes import Note
from ctd_jax.utils.unicode_text import normalize

# Full text. SQLite's FTS5 splits at spaces and would take a Chinese sentence
# for one word, so every ideograph, kana and unencoded character is put between
# spaces. Alphabetic words stay words, without diacritics. Variants and scripts
# are folded one for one: 「卫」, 「衞」, 「衛」 are one token, and positions in
# the folded text are those in the text.


TOKENIZER = "unicode61 remove_diacritics 2"
# Ideographs of all planes, kana, and what texts have for a character without a
# code: private use, □, 〓.
_SINGLE = re.compile(
  "[\u3005-\u3007\u303b\u3041-\u30ff\u3400-\u9fff\ue000-\uf8ff\uf900-\ufaff"
  "\U00020000-\U000323af\U000f0000-\U0010fffd□〓]"
)
# FTS5 knows no symbols, nor all of the private use: they are named by number.
_BY_NUMBER = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd□〓]")
_MISSING = str.maketrans({"〓": "□"})
_WORD = re.compile(r"\w+")
_KOREAN = re.compile("[\uac00-\ud7a3]")


# Of the commonest spelling of a character, for another to count as one.
_MIN_SPELLING = 0.05


class CorpusSpelling(dict):
  """Code point -> the character that a corpus writes for it.

  A character of the other script becomes the one that the corpus has, unless
  the corpus uses both.
  """

  def __init__(self, characters: Mapping[str, int]):
    self._counts = characters
    ascending = sorted(characters, key=characters.get)
    # The commonest of each spelling comes last, and stays.
    self._usual = {fold_text(it): it for it in ascending}

  def __missing__(self, code: int) -> str:
    character = chr(code)
    usual = self._usual.get(fold_text(character), character)
    is_rare = self._counts.get(character, 0) < (
      _MIN_SPELLING * self._counts.get(usual, 0)
    )
    self[code] = usual if is_rare else character
    return self[code]


def split_tokens(text: str) -> str:
  """Returns the tokens of a text between spaces, as FTS5 needs them."""
  return _BY_NUMBER.sub(
    lambda match: f"u{ord(match[0]):x}",
    _SINGLE.sub(
      r" \g<0> ", fold_text(normalize(text).text).translate(_MISSING)
    ),
  )


def make_match(words: Sequence[str], match_any: bool = False) -> str | None:
  """Returns the FTS5 query for phrases; None if they have nothing to find.

  Args:
    match_any: whether one of the words is enough.
  """
  all_tokens = [_WORD.findall(split_tokens(word)) for word in words]
  phrases = [quote_phrase(*tokens) for tokens in all_tokens if tokens]
  return (" OR " if match_any else " AND ").join(dict.fromkeys(phrases)) or None


def quote_phrase(*tokens: str) -> str:
  """Returns the FTS5 query for a phrase; a Korean word may have an ending."""
  is_korean = _KOREAN.match(tokens[-1]) is not None
  return f'"{" ".join(tokens)}"' + " *" * is_korean


class _PlainLetters(dict):
  """Code point -> Latin letter without its marks, as FTS5 finds them."""

  def __missing__(self, code: int) -> int:
    base = ord(unicodedata.normalize("NFD", chr(code))[0])
    self[code] = base if base < 128 else code
    return self[code]


_TO_PLAIN_LETTERS = _PlainLetters()


def _fold_letters(text: str) -> str:
  """Folds letters as the full text does; the length stays the same."""
  usual = fold_text(text).translate(_TO_PLAIN_LETTERS)
  folded = usual.casefold()
  return folded if len(folded) == len(usual) else usual  # as of ß


def find_spans(words: Sequence[str], text: str) -> list[tuple[int, int]]:
  """Returns the positions of phrases in a text, in order, for highlights."""
  normalized = normalize(text)
  folded = _fold_letters(normalized.text)
  spans: set[tuple[int, int]] = set()
  for word in words:
    tokens = _WORD.findall(
      _SINGLE.sub(r" \g<0> ", _fold_letters(normalize(word).text))
    )
    if tokens:
      pattern = r"[\W_]*".join(map(re.escape, tokens))
      spans.update(
        (
          normalized.original(match.start()),
          normalized.original(match.end()),
        )
        for match in re.finditer(pattern, folded)
      )
  return sorted(spans)


_STEPS_PER_LOOK = 100_000  # of SQLite, a few milliseconds
JOURNAL_END = "-journal"  # of the name of a rollback journal
KEYS, ORDER, MODEL = MANNERS = ("keys", "order", "model")
TEXT, HEADING = "text", "heading"  # kinds of records outside benchmarks
# Condition for a list of any length; its value comes from `json.dumps`.
IN_LIST = "IN (SELECT value FROM json_each(?))"
_MAX_PROBLEM = 200  # characters of an error
_LIST_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_SCHEMA = f"""
CREATE TABLE works(
  work_id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, title TEXT,
  source TEXT, text_format TEXT, sha256 TEXT, first_row INTEGER,
  num_records INTEGER, dated_by TEXT, folder TEXT, printed_reigns TEXT,
  warnings TEXT, added TEXT, records_sha256 TEXT, dates_sha256 TEXT,
  dated_with TEXT);
CREATE TABLE records(
  row INTEGER PRIMARY KEY, work_id INTEGER NOT NULL, record_id TEXT NOT NULL,
  position INTEGER, text TEXT NOT NULL, kind TEXT, place TEXT, headings TEXT,
  section_start INTEGER, section_end INTEGER, date_end INTEGER,
  start_month INTEGER, end_month INTEGER, best_month INTEGER,
  best_probability REAL, first_credible INTEGER, last_credible INTEGER,
  dated_by TEXT, fixed INTEGER);
CREATE INDEX records_by_month ON records(best_month);
CREATE INDEX records_by_id ON records(work_id, record_id);
CREATE INDEX records_by_kind ON records(kind, work_id);
CREATE TABLE properties(name TEXT PRIMARY KEY, value TEXT);
CREATE VIRTUAL TABLE full_text USING fts5(
  words, content='', tokenize='{TOKENIZER}');
"""


@dataclasses.dataclass(frozen=True, slots=True)
class IndexRecord:
  """A record of an index; the columns of `records`."""

  row: int  # in the index
  work_id: int
  record_id: str  # within its work
  position: int  # order in the work, -1 if unknown
  text: str
  kind: str  # event, no_event, neg_comment, text or heading
  place: str  # where it is printed, `file:line (p. page)`
  headings: tuple[str, ...]  # outermost first
  section_start: int  # span in the printed entry
  section_end: int
  date_end: int  # end of the date that opens the text, else 0
  start_month: int | None  # first month it is known to be in
  end_month: int | None
  best_month: int  # most probable; K is outside the calendar
  best_probability: float
  first_credible: int  # first month of those that hold 90 %
  last_credible: int
  dated_by: str  # one of `MANNERS`
  fixed: bool  # whether a reader set the date


@dataclasses.dataclass(frozen=True, slots=True)
class IndexedWork:
  """A work of an index; the columns of `works`."""

  work_id: int
  name: str  # for flags
  title: str  # as the edition gives it
  source: str  # path or data set
  text_format: str  # mandoku, tei, markdown, plain, beir or dataset
  sha256: str  # of what was read
  first_row: int
  num_records: int
  dated_by: str  # of most records, one of `MANNERS`
  folder: str  # of its posteriors, relative to the index
  printed_reigns: tuple[int, ...]  # rows of reigns that it names
  warnings: tuple[Note | str, ...]  # what readers of its dates should know
  added: str  # ISO 8601
  records_sha256: str  # of the texts of its rows in `records`
  dates_sha256: str  # of all columns of these, besides row and work
  dated_with: str  # JSON of `sources.DatedWith`

  @property
  def rows(self) -> range:
    """Rows of its records."""
    return range(self.first_row, self.first_row + self.num_records)


class TextMatch(NamedTuple):
  """A record that has the words."""

  row: int
  score: float  # BM25, higher is better


RECORD_COLUMNS = tuple(field.name for field in dataclasses.fields(IndexRecord))
_WORK_COLUMNS = tuple(field.name for field in dataclasses.fields(IndexedWork))
_LIST_COLUMNS = ("headings", "printed_reigns", "warnings")  # JSON


def open_database(
  folder: str | os.PathLike, readonly: bool = True
) -> sqlite3.Connection:
  """Returns a connection to the database of an index.

  Args:
    readonly: opens without writing, so a folder without write permission works;
      several threads may share the connection, one at a time.
  """
  path = pathlib.Path(folder) / DATABASE_FILE
  if not path.is_file():
    if (path.parent / MANIFEST_FILE).is_file():
      raise DamagedIndexError(path, "missing")
    raise FileNotFoundError(
      f"{path}: missing; expected the folder of an index, as "
      "python -m ctd_jax.index --index=DIR --add=... builds it"
    )
  connection = sqlite3.connect(
    make_uri(path, readonly),
    uri=True,
    isolation_level=None,
    check_same_thread=False,
    timeout=30,
    factory=_Connection,
  )
  connection.path = path
  try:
    check_schema(connection, path, _SCHEMA)
    if readonly:
      connection.set_progress_handler(deadlines.is_overdue, _STEPS_PER_LOOK)
      # A builder reads all of it once, and would hold it.
      connection.execute("PRAGMA mmap_size=1073741824")
    else:
      # A commit is on disk before the manifest, whatever SQLite was built with.
      connection.execute("PRAGMA synchronous=FULL")
  except sqlite3.DatabaseError as error:
    connection.close()
    if "unable to open" in str(error) and has_pending_changes(path):
      raise DamagedIndexError(
        path,
        f"a stopped build has left changes in {path.name}-wal, which cannot be "
        "read without writing in the folder",
      ) from error
    if type(error) is not sqlite3.DatabaseError:  # of the system
      raise ValueError(f"{path}: cannot be read ({error})") from error
    raise DamagedIndexError(path, f"damaged ({error})") from error
  except DamagedIndexError:
    connection.close()
    raise
  return connection


# How SQLite words damage in an OperationalError. With other words it reports
# trouble of the system, such as a full disk or a lock.
_DAMAGE = re.compile("Could not decode|no such")


def _name_damage(call: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a method of cursors that raises DamagedIndexError for damage."""

  @functools.wraps(call)
  def method(cursor: sqlite3.Cursor, *arguments: Any) -> Any:
    try:
      return call(cursor, *arguments)
    except sqlite3.DatabaseError as error:
      if type(error) is sqlite3.DatabaseError or _DAMAGE.match(str(error)):
        path = cursor.connection.path
        raise DamagedIndexError(path, f"damaged ({error})") from error
      raise

  return method


class _Cursor(sqlite3.Cursor):
  execute = _name_damage(sqlite3.Cursor.execute)
  fetchone = _name_damage(sqlite3.Cursor.fetchone)
  fetchmany = _name_damage(sqlite3.Cursor.fetchmany)
  fetchall = _name_damage(sqlite3.Cursor.fetchall)
  __next__ = _name_damage(sqlite3.Cursor.__next__)


class _Connection(sqlite3.Connection):
  path: pathlib.Path

  def execute(self, *arguments: Any) -> sqlite3.Cursor:
    return self.cursor(_Cursor).execute(*arguments)


def check_schema(
  connection: sqlite3.Connection, path: pathlib.Path, schema: str
) -> None:
  """Raises DamagedIndexError unless a file has the tables of a schema alone.

  Views, triggers and expressions in the file of a stranger would run when we
  read or write what we take for our tables.
  """
  connection.execute("PRAGMA trusted_schema=OFF")
  found = frozenset(connection.execute(_LIST_SCHEMA))
  expected = _list_schema(schema)
  for kind, name, *_ in sorted(found - expected, key=repr):
    raise DamagedIndexError(path, f"its {kind} {name[:80]} is not one of ours")
  for kind, name, *_ in sorted(expected - found, key=repr):
    raise DamagedIndexError(path, f"it lacks the {kind} {name}")


@functools.cache
def _list_schema(schema: str) -> frozenset[tuple[str | None, ...]]:
  with contextlib.closing(sqlite3.connect(":memory:")) as connection:
    connection.executescript(schema)
    return frozenset(connection.execute(_LIST_SCHEMA))


def make_uri(path: pathlib.Path, readonly: bool) -> str:
  """Returns the URI that opens an existing SQLite database.

  Raises:
    DamagedIndexError: if there is a rollback journal. Ours have a WAL instead,
      and SQLite deletes any file that a stranger's journal names.
  """
  journal = path.with_name(f"{path.name}{JOURNAL_END}")
  if os.path.lexists(journal):
    raise DamagedIndexError(journal, "is not one of our files")
  mode = "rw"
  if readonly:
    mode = "ro"
    # Readers of WAL write next to the file. Where they cannot, the file is read
    # alone, unless its last changes are beside it.
    if not os.access(path.parent, os.W_OK) and not has_pending_changes(path):
      mode = "ro&immutable=1"
  return f"{path.resolve().as_uri()}?mode={mode}"


def has_pending_changes(path: pathlib.Path) -> bool:
  """Whether changes of an SQLite database are not in its file yet."""
  log = path.with_name(f"{path.name}-wal")
  return log.exists() and log.stat().st_size > 0


@contextlib.contextmanager
def write(connection: sqlite3.Connection) -> Iterator[None]:
  """Makes changes whole or not at all, and keeps out all other writers."""
  with connection:
    connection.execute("BEGIN IMMEDIATE")
    yield


def create_database(folder: str | os.PathLike) -> None:
  """Creates an empty database, unless there is one."""
  path = pathlib.Path(folder) / DATABASE_FILE
  if path.exists():
    return
  # Whole or not at all: a file without tables would be a damaged index.
  with (
    files.atomic_path(path) as temporary,
    contextlib.closing(
      sqlite3.connect(temporary, isolation_level=None)
    ) as connection,
  ):
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(_SCHEMA)
    connection.executemany(
      "INSERT INTO properties VALUES (?, ?)",
      [("generation", "0"), ("next_row", "1")],
    )


def get_property(connection: sqlite3.Connection, name: str) -> str | None:
  """Returns a property of the index; None if it is not set."""
  row = connection.execute(
    "SELECT value FROM properties WHERE name = ?", (name,)
  ).fetchone()
  return row and row[0]


def set_property(
  connection: sqlite3.Connection, name: str, value: str | int | bytes
) -> None:
  """Sets a property of the index."""
  connection.execute(
    "INSERT OR REPLACE INTO properties VALUES (?, ?)",
    (name, value if isinstance(value, bytes) else str(value)),
  )


def describe_works(connection: sqlite3.Connection) -> list[dict[str, Any]]:
  """Returns the works as the manifest has them: all but when they were added.

  The same build at another time makes the same manifest.
  """
  columns = [name for name in _WORK_COLUMNS if name != "added"]
  json_columns = {*_LIST_COLUMNS, "dated_with"}
  rows = connection.execute(
    f"SELECT {', '.join(columns)} FROM works ORDER BY first_row"
  )
  with _reading(connection):
    return [
      {
        name: json.loads(value or "[]") if name in json_columns else value
        for name, value in zip(columns, row, strict=True)
      }
      for row in rows
    ]


def read_committed(
  folder: pathlib.Path, connection: sqlite3.Connection
) -> tuple[Manifest, bytes]:
  """Returns the manifest of the last commit, and its text.

  The database has a copy of manifest.json, which is written just after the
  commit: while a build ends, or if it was stopped there, the file is older.

  Raises:
    FileNotFoundError: if no build has ended.
    DamagedIndexError: if manifest.json is missing or another one.
  """
  path = folder / MANIFEST_FILE
  content = path.read_bytes() if path.is_file() else b""
  text = get_property(connection, "manifest") or b""
  text = text.encode() if isinstance(text, str) else text
  if not content and text:
    raise DamagedIndexError(path, "missing")
  if content == text:
    return decode_manifest(folder, content), content
  found = decode_manifest(folder, content)
  if not text:
    raise DamagedIndexError(folder / DATABASE_FILE, "holds no finished build")
  committed = decode_manifest(folder, text)
  if found.generation >= committed.generation:
    raise DamagedIndexError(
      path,
      f"generation {found.generation}, is not that of generation "
      f"{committed.generation} in {DATABASE_FILE}",
    )
  return committed, text


def list_works(connection: sqlite3.Connection) -> list[IndexedWork]:
  """Returns the works of an index in order of their rows.

  Raises:
    DamagedIndexError: if their values are none that we write.
  """
  rows = connection.execute(
    f"SELECT {', '.join(_WORK_COLUMNS)} FROM works ORDER BY first_row"
  )
  (last,) = connection.execute("SELECT max(row) FROM records").fetchone()
  with _reading(connection):
    works = [IndexedWork(**_decode(_WORK_COLUMNS, row)) for row in rows]
    for work in works:
      if not 0 < work.first_row <= work.rows.stop <= (last or 0) + 1:
        raise ValueError(f"records of {work.name} that it does not have")
  return works


@contextlib.contextmanager
def _reading(connection: sqlite3.Connection) -> Iterator[None]:
  """Names the database whose values are none that we write."""
  try:
    yield
  except (ValueError, TypeError, AttributeError, RecursionError) as error:
    (_, _, path), *_ = connection.execute("PRAGMA database_list")
    raise DamagedIndexError(
      pathlib.Path(path), f"damaged ({str(error)[:_MAX_PROBLEM]})"
    ) from error


def _decode(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
  values = dict(zip(columns, row, strict=True))
  for name in _LIST_COLUMNS:
    if name in values:
      items = json.loads(values[name] or "[]")
      if name == "warnings":
        items = map(notes.from_json, items)
      values[name] = tuple(items)
  if "fixed" in values:
    values["fixed"] = bool(values["fixed"])
  return values


def fetch_records(
  connection: sqlite3.Connection, rows: Iterable[int]
) -> list[IndexRecord]:
  """Returns records in the order of `rows`, without missing ones."""
  wanted = [int(row) for row in rows]
  rows_found = fetch_columns(connection, wanted, *RECORD_COLUMNS[1:])
  with _reading(connection):
    records = {
      values[0]: IndexRecord(**_decode(RECORD_COLUMNS, values))
      for values in rows_found
    }
  return [records[row] for row in wanted if row in records]


def fetch_columns(
  connection: sqlite3.Connection, rows: Iterable[int], *columns: str
) -> list[tuple[Any, ...]]:
  """Returns row and some columns of existing records, in row order.

  Args:
    *columns: of `IndexRecord`; lists come as JSON.
  """
  return connection.execute(
    f"SELECT {', '.join(('row', *columns))} FROM records "
    f"WHERE row {IN_LIST} ORDER BY row",
    (json.dumps([*rows]),),
  ).fetchall()


def search_text(
  connection: sqlite3.Connection,
  words: Sequence[str],
  k: int,
  works: Sequence[IndexedWork] | None = None,
  months: tuple[int, int] | None = None,
  match_any: bool = False,
) -> list[TextMatch]:
  """Returns the records that have words, best first by BM25.

  Args:
    words: phrases of one character or more, in either script.
    works: works to search; None for all.
    months: first and last month that the record's best month must be in.
    match_any: whether one of the words is enough.
  """
  if k < 1:
    raise ValueError(f"k={k}: expected 1 or more")
  match = make_match(words, match_any)
  if match is None:
    return []
  found = search_match(connection, match, k, works, months)
  return list(map(TextMatch._make, found))


def search_match(
  connection: sqlite3.Connection,
  match: str,
  k: int,
  works: Sequence[IndexedWork] | None = None,
  months: tuple[int, int] | None = None,
) -> list[tuple[int, float]]:
  """Returns row and score of the records that an FTS5 query of folded text
  matches, the fields of `TextMatch`.

  Args:
    k: number of records, best first; -1 for all, in no order.
  """
  if works is not None and not works:
    return []
  conditions, values = ["full_text MATCH ?"], [match]
  tables = "full_text"
  if works is not None:
    ranges = []
    for work in works:
      ranges.append("full_text.rowid BETWEEN ? AND ?")
      values += [work.rows[0], work.rows[-1]]
    conditions.append(f"({' OR '.join(ranges)})")
  if months is not None:
    tables += " JOIN records ON records.row = full_text.rowid"
    conditions.append("records.best_month BETWEEN ? AND ?")
    values += months
  query = (
    f"SELECT full_text.rowid, -bm25(full_text) AS score FROM {tables} "
    f"WHERE {' AND '.join(conditions)}"
  )
  if k >= 0:  # all of them in order would be kept twice
    query += " ORDER BY score DESC, full_text.rowid LIMIT ?"
    values.append(k)
  return connection.execute(query, values).fetchall()


def match_rows(connection: sqlite3.Connection, match: str) -> list[int]:
  """Returns the rows of all records that an FTS5 query matches."""
  found = connection.execute(
    "SELECT rowid FROM full_text WHERE full_text MATCH ?", (match,)
  ).fetchall()
  return [row for (row,) in found]
