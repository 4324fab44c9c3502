"""Commits a build: dated works into the database, then the manifest.

Slow work happens inside the transaction, so readers see the old index until
the end. The database has a copy of the manifest, so that the next command can
repeat what follows (manifest, cleaning up) if this one is stopped.

Files that a build did not write are verified against the last manifest; they
enter the next one with the hashes that they had.

`passages/<generation>/` holds a `PassageDater` fitted on all records: those
with certain dates are its labels, the others count with their posteriors. The
manifest names the folder in use, so that a half-written one is never opened.

Axes: N records other than headings, K months.
"""

import contextlib
import datetime
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from absl import logging
from jaxtyping import Bool, Int

import ctd_jax
from ctd_jax.benchmark.benchmark import NEG_COMMENT
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.posterior import CredibleBlock
from ctd_jax.index import calendars, database, manifest, vectors
from ctd_jax.index.building import staged_works
from ctd_jax.index.building.staged_works import (
  DATE_COLUMNS,
  PASSAGES_FOLDER,
  TEXT_COLUMNS,
  WORKS_FOLDER,
  StagedWork,
)
from ctd_jax.index.database import HEADING, MODEL, IndexedWork
from ctd_jax.index.manifest import DamagedIndexError, EncoderEntry, Manifest
from ctd_jax.index.posteriors import MIN_PROBABILITY, PosteriorArrays
from ctd_jax.utils import files, output

_BATCH = 10_000  # records inserted at once
_CACHE_KIBIBYTES = 200_000
# Share of new records above which the whole full text is optimized.
_MIN_OPTIMIZED = 0.2
_WORK_COLUMNS = (
  "name",
  "title",
  "source",
  "text_format",
  "sha256",
  "num_records",
  "dated_by",
  "printed_reigns",
  "warnings",
  "records_sha256",
  "dates_sha256",
  "dated_with",
  "work_id",
  "first_row",
  "folder",
)


def commit_works(
  folder: pathlib.Path,
  calendar: Calendar,
  staged: Sequence[StagedWork],
  removed: Collection[str],
  use_passages: bool = True,
  dense: EncoderEntry | None = None,
) -> None:
  """Removes and adds works, then writes the manifest.

  Args:
    folder: folder of the index, whose lock is held.
    removed: names of works to remove.
    dense: encoder of the vectors, which exist already.
  """
  with contextlib.closing(
    database.open_database(folder, readonly=False)
  ) as connection:
    connection.execute(f"PRAGMA cache_size=-{_CACHE_KIBIBYTES}")
    if previous := finish_commit(folder, connection):
      dropped = {
        f"{work.folder}/"
        for work in database.list_works(connection)
        if work.name in removed
      }
      kept = {
        name: entry
        for name, entry in previous.files.items()
        if not name.startswith((*dropped,))
      }
      manifest.check_files(folder, kept)
    with database.write(connection):
      if staged or removed:
        write_works(connection, staged, removed)
      new_manifest = make_manifest(
        folder, calendar, connection, previous, staged, use_passages, dense
      )
      is_changed = bool(staged or removed) or new_manifest != previous
      if is_changed:
        new_manifest = msgspec.structs.replace(
          new_manifest, generation=new_manifest.generation + 1
        )
        store_manifest(folder, connection, new_manifest)
    finish_commit(folder, connection)
    staged_works.remove_leftovers(folder, list_folders(new_manifest))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def store_manifest(
  folder: pathlib.Path, connection: sqlite3.Connection, new_manifest: Manifest
) -> str:
  """Writes copies of manifest and calendar; returns manifest.json's content."""
  text = manifest.encode_manifest(new_manifest)
  values = {
    "generation": new_manifest.generation,
    "manifest": text,
    "manifest_sha256": hashlib.sha256(text.encode()).hexdigest(),
  }
  for name in calendars.COPIED_FILES:
    if database.get_property(connection, name) is None:
      values[name] = zlib.compress((folder / name).read_bytes())
  for name, value in values.items():
    database.set_property(connection, name, value)
  return text


def finish_commit(
  folder: pathlib.Path, connection: sqlite3.Connection
) -> Manifest | None:
  """Writes manifest.json after a commit, and returns it.

  The commit may be that of a build that was stopped then. Without one it
  returns None.
  """
  text = database.get_property(connection, "manifest")
  if text is None:
    return None
  path = folder / manifest.MANIFEST_FILE
  if path.exists():
    database.read_committed(folder, connection)  # refuses another one
  if not path.exists() or path.read_text("utf-8") != text:
    manifest.write_manifest(folder, text)
  return manifest.decode_manifest(folder, text.encode())


def check_kept_files(folder: pathlib.Path, index_manifest: Manifest) -> None:
  """Raises DamagedIndexError for files that a build would keep and cannot.

  Their hashes are verified before the commit.
  """
  manifest.check_files(folder, index_manifest.files, max_hashed=-1)
  known = index_manifest.files
  for parent in {*map(os.path.dirname, known)}:
    for path in (folder / parent).iterdir():
      is_leftover = path.name in staged_works.LEFTOVERS or (
        path.name.startswith(".")
      )
      if not is_leftover and f"{parent}/{path.name}" not in known:
        raise DamagedIndexError(path, "not written by a build")


def list_folders(index_manifest: Manifest) -> set[str]:
  """Returns the folders of an index that its files are in, but the calendar."""
  folders = {work["folder"] for work in index_manifest.works}
  if index_manifest.passages:
    folders.add(index_manifest.passages)
  if dense := index_manifest.dense:
    folders |= {
      vectors.name_folder(dense.sha256, work["records_sha256"])
      for work in index_manifest.works
    }
  return folders


def write_works(
  connection: sqlite3.Connection,
  staged: Sequence[StagedWork],
  removed: Collection[str],
) -> None:
  """Removes and adds works; a replacement keeps the number of its work."""
  work_ids = {}
  for work in database.list_works(connection):
    if work.name in removed:
      work_ids[work.name] = work.work_id
      _remove_work(connection, work)
  # A replacement keeps the number and place of its work; new works follow and
  # take the next free numbers.
  staged = sorted(staged, key=lambda work: work.name not in work_ids)
  row = int(database.get_property(connection, "next_row"))
  num_new = sum(work.num_records for work in staged)
  with output.Progress(
    total=num_new, desc="full text", unit="record"
  ) as progress_bar:
    for work in staged:
      insert_work(
        connection,
        work.columns
        | {
          "work_id": work_ids.get(work.name),
          "first_row": row,
          "folder": f"{WORKS_FOLDER}/{work.folder.name}",
        },
        work.iterate_rows(),
        progress_bar,
      )
      row += work.num_records
  database.set_property(connection, "next_row", row)
  (num_records,) = connection.execute("SELECT count(*) FROM records").fetchone()
  if num_new > _MIN_OPTIMIZED * num_records:
    connection.execute("INSERT INTO full_text(full_text) VALUES ('optimize')")
  # The full text is hashed before the commit; this has it written until then.
  connection.execute("SAVEPOINT full_text")
  connection.execute("RELEASE full_text")


def _remove_work(connection: sqlite3.Connection, work: IndexedWork) -> None:
  span = (work.rows.start, work.rows.stop)
  texts = connection.execute(
    "SELECT row, text FROM records WHERE row >= ? AND row < ?", span
  )
  # A table without contents is told what it holds.
  while batch := texts.fetchmany(_BATCH):
    connection.executemany(
      "INSERT INTO full_text(full_text, rowid, words) VALUES ('delete', ?, ?)",
      [(row, database.split_tokens(text)) for row, text in batch],
    )
  connection.execute("DELETE FROM records WHERE row >= ? AND row < ?", span)
  connection.execute("DELETE FROM works WHERE work_id = ?", (work.work_id,))


def insert_work(
  connection: sqlite3.Connection,
  columns: Mapping[str, Any],
  rows: Iterable[Sequence[Any]],
  progress_bar: output.Progress | None = None,
) -> None:
  """Adds a work with its rows and their full text.

  Args:
    columns: of `works`, lists as such; a number is given without `work_id`.
    rows: `TEXT_COLUMNS` and `DATE_COLUMNS` of every record.
  """
  values = {name: columns[name] for name in _WORK_COLUMNS}
  values |= {
    "printed_reigns": json.dumps(values["printed_reigns"]),
    "warnings": json.dumps(values["warnings"], ensure_ascii=False),
    "dated_with": json.dumps(values["dated_with"], ensure_ascii=False),
    "added": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
  }
  marks = ", ".join("?" * len(values))
  work_id = connection.execute(
    f"INSERT INTO works({', '.join(values)}) VALUES ({marks})",
    [*values.values()],
  ).lastrowid
  names = ("row", "work_id", *TEXT_COLUMNS, *DATE_COLUMNS)
  statement = (
    f"INSERT INTO records({', '.join(names)}) VALUES "
    f"({', '.join('?' * len(names))})"
  )
  text = TEXT_COLUMNS.index("text")
  numbered = enumerate(rows, start=columns["first_row"])
  while batch := list(itertools.islice(numbered, _BATCH)):
    connection.executemany(
      statement, [(row, work_id, *values) for row, values in batch]
    )
    connection.executemany(
      "INSERT INTO full_text(rowid, words) VALUES (?, ?)",
      [(row, database.split_tokens(values[text])) for row, values in batch],
    )
    if progress_bar is not None:
      progress_bar.update(len(batch))


def iterate_labels(
  connection: sqlite3.Connection, num_months: int, without: Collection[str]
) -> Iterator[tuple[str, int]]:
  """Yields text and month of the sure records of an index.

  Args:
    without: names of works about to be replaced.
  """
  cursor = connection.execute(
    "SELECT records.text, records.kind, best_month, best_probability, "
    "records.dated_by, works.name FROM records JOIN works USING (work_id) "
    "ORDER BY row"
  )
  for text, kind, month, chance, manner, name in cursor:
    if name not in without and staged_works.is_label(
      kind, month, chance, manner, num_months
    ):
      yield text, month


def make_manifest(
  folder: pathlib.Path,
  calendar: Calendar,
  connection: sqlite3.Connection,
  previous: Manifest | None,
  staged: Sequence[StagedWork],
  use_passages: bool,
  dense: EncoderEntry | None,
) -> Manifest:
  """Returns the manifest of the database's contents, of the last generation."""
  generation = int(database.get_property(connection, "generation"))
  works = database.describe_works(connection)
  # Here and not above: it is not needed to look an index up.
  from ctd_jax.dating.passages import fitting

  learned_rows = [work["first_row"] for work in works]
  if not use_passages:
    passages = None
  elif previous and (
    (previous.works == works and previous.is_for_passages)
    or (
      previous.can_learn_later(works)
      and fitting.is_current(folder / previous.passages)
    )
  ):
    passages = previous.passages
    learned_rows = sorted(previous.learned)
  else:
    passages = fit_passages(folder, connection, calendar, generation + 1)
  spec, _ = calendars.load_spec(folder)
  result = Manifest(
    format=manifest.FORMAT,
    generation=generation,
    made_with=ctd_jax.__version__,
    calendar={
      "spec": spec,
      "sha256": calendars.hash_calendar(calendar),
      "months": len(calendar),
    },
    works=works,
    files={},
    full_text_sha256=hash_full_text(connection),
    dense=dense,
    passages=passages,
    use_passages=use_passages,
    learned_rows=learned_rows if passages else None,
  )
  entries = dict(previous.files) if previous else {}
  entries |= {
    f"{WORKS_FOLDER}/{work.folder.name}/{name}": entry
    for work in staged
    for name, entry in work.files.items()
    if name != staged_works.ROWS_FILE
  }
  used = list_folders(result) | {calendars.CALENDAR_FOLDER}
  known = {*map(os.path.dirname, entries)}
  entries = {
    name: entry
    for name, entry in entries.items()
    if os.path.dirname(name) in used
  }
  # The rest was written by this build.
  for parent in used - known:
    for path in (folder / parent).iterdir():
      if path.is_file() and not path.name.startswith("."):
        entries[f"{parent}/{path.name}"] = manifest.hash_file(path)
  sync_files(folder, entries.keys() - (previous.files if previous else {}))
  return msgspec.structs.replace(result, files=dict(sorted(entries.items())))


def sync_files(folder: pathlib.Path, names: Collection[str]) -> None:
  """Waits until new files of an index, and all names of them, are on disk."""
  paths = [pathlib.PurePosixPath(name) for name in names]
  parents = {parent for path in paths for parent in path.parents}
  for path in (*paths, *parents, ".."):
    files.sync(folder / path)


def hash_full_text(connection: sqlite3.Connection) -> str:
  """Returns the sha256 of the tables of the full text."""
  digest = hashlib.sha256()
  for table, columns in (
    ("data", "id, block"),
    ("idx", "segid, term, pgno"),
    ("docsize", "id, sz"),
  ):
    for row in connection.execute(
      f"SELECT {columns} FROM full_text_{table} ORDER BY 1, 2"
    ):
      for value in row:
        content = value if isinstance(value, bytes) else str(value).encode()
        digest.update(b"%d " % len(content) + content)
  return digest.hexdigest()


def fit_passages(
  folder: pathlib.Path,
  connection: sqlite3.Connection,
  calendar: Calendar,
  generation: int,
  learned: Collection[int] | None = None,
) -> str | None:
  """Fits the dater of passages; returns its folder, None without sure dates.

  Args:
    learned: first rows of the works that it may learn from; None for all.
  """
  # Here and not above: it is not needed to look an index up.
  from ctd_jax.dating.passages.passages import PassageDater

  name = f"{PASSAGES_FOLDER}/{generation}"
  target = folder / name
  shutil.rmtree(target, ignore_errors=True)  # of a stopped build
  unseen = [
    work.work_id
    for work in database.list_works(connection)
    if learned is not None and work.first_row not in learned
  ]
  texts, labels, is_placed, row_ids = _read_records(
    connection, len(calendar), unseen
  )
  if not labels.is_known.any():
    logging.warning("no record has a certain date: passages cannot be dated")
    return None
  logging.info(
    "learning to date passages from %s records, %s of them sure",
    f"{len(texts):,}",
    f"{int(labels.is_known.sum()):,}",
  )
  dater = PassageDater.fit(
    texts,
    labels,
    calendar,
    posteriors=_read_posteriors(
      folder, connection, calendar, row_ids, ~labels.is_known
    ),
    is_placed=is_placed,
    row_ids=row_ids,
  )
  dater.save(target)
  return name


def _read_records(
  connection: sqlite3.Connection, num_months: int, left_out: Sequence[int]
) -> tuple[list[str], Labels, Bool[np.ndarray, " N"], Int[np.ndarray, " N"]]:
  cursor = connection.execute(
    "SELECT row, text, kind, best_month, best_probability, dated_by "
    "FROM records WHERE kind != ? "
    f"AND work_id NOT IN ({','.join('?' * len(left_out))}) ORDER BY row",
    (HEADING, *left_out),
  )
  rows, texts, months, events, placed = [], [], [], [], []
  for row, text, kind, month, chance, manner in cursor:
    is_sure = staged_works.is_sure(month, chance, manner, num_months)
    rows.append(row)
    texts.append(text)
    placed.append(manner != MODEL)
    months.append(month if is_sure else UNKNOWN)
    events.append(int(kind != NEG_COMMENT) if is_sure else UNKNOWN)
  labels = Labels(np.array(months, int), np.array(events, int))
  return texts, labels, np.array(placed, bool), np.array(rows, int)


def _read_posteriors(
  folder: pathlib.Path,
  connection: sqlite3.Connection,
  calendar: Calendar,
  row_ids: Int[np.ndarray, " N"],
  is_wanted: np.ndarray,
) -> CredibleBlock:
  num_months = len(calendar)
  rows, parts = [], []
  for work in database.list_works(connection):
    first, stop = np.searchsorted(row_ids, (work.rows.start, work.rows.stop))
    of_work = np.arange(first, stop)[is_wanted[first:stop]]
    arrays = PosteriorArrays.open(folder / work.folder, num_months)
    rows.append(of_work)
    parts.append(arrays.take(row_ids[of_work] - work.first_row))
  joined = PosteriorArrays.concatenate(parts)
  # None of the months is the last of each record's.
  is_outside = joined.outside >= MIN_PROBABILITY
  places = joined.starts[1:][is_outside]
  return CredibleBlock(
    rows=np.concatenate(rows),
    starts=joined.starts + np.append(0, np.cumsum(is_outside)),
    months=np.insert(joined.months, places, num_months),
    probabilities=np.insert(
      joined.probabilities, places, joined.outside[is_outside]
    ),
    num_months=num_months,
  )
