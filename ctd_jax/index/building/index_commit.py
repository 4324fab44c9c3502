"""Commits a build: dated works into the database, then the manifest.

Slow work happens inside the transaction, so readers see the old index until
the end. The next build repeats what follows it (manifest, cleaning up) if this
one is stopped.

`passages/<generation>/` holds a `PassageDater` fitted on all records: those
with certain dates are its labels, the others count with their posteriors. The
manifest names the folder in use, so that a half-written one is never opened.

Axes: N records other than headings, K months.
"""

import contextlib
import datetime
import itertools
import json
import pathlib
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from absl import logging
from jaxtyping import Int

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
from ctd_jax.index.database import HEADING, IndexedWork
from ctd_jax.index.manifest import EncoderEntry, Manifest, ManifestFile
from ctd_jax.index.posteriors import PosteriorArrays
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
    with database.write(connection):
      if staged or removed:
        _write_works(connection, staged, removed)
      new_manifest, used = _make_manifest(
        folder, calendar, connection, use_passages, dense
      )
    manifest.write_manifest(folder, new_manifest)
    staged_works.remove_leftovers(folder, used)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _write_works(
  connection: sqlite3.Connection,
  staged: Sequence[StagedWork],
  removed: Collection[str],
) -> None:
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
      work_id = work_ids.get(work.name)
      _insert_work(connection, work, work_id, row, progress_bar)
      row += work.num_records
  database.set_property(connection, "next_row", row)
  generation = int(database.get_property(connection, "generation")) + 1
  database.set_property(connection, "generation", generation)
  (num_records,) = connection.execute("SELECT count(*) FROM records").fetchone()
  if num_new > _MIN_OPTIMIZED * num_records:
    connection.execute("INSERT INTO full_text(full_text) VALUES ('optimize')")


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


def _insert_work(
  connection: sqlite3.Connection,
  work: StagedWork,
  work_id: int | None,
  first_row: int,
  progress_bar: output.Progress,
) -> None:
  values = {name: work.columns[name] for name in _WORK_COLUMNS}
  values |= {
    "printed_reigns": json.dumps(values["printed_reigns"]),
    "warnings": json.dumps(values["warnings"], ensure_ascii=False),
    "work_id": work_id,
    "first_row": first_row,
    "folder": f"{WORKS_FOLDER}/{work.folder.name}",
    "added": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
  }
  marks = ", ".join("?" * len(values))
  work_id = connection.execute(
    f"INSERT INTO works({', '.join(values)}) VALUES ({marks})",
    [*values.values()],
  ).lastrowid
  columns = ("row", "work_id", *TEXT_COLUMNS, *DATE_COLUMNS)
  statement = (
    f"INSERT INTO records({', '.join(columns)}) VALUES "
    f"({', '.join('?' * len(columns))})"
  )
  text = TEXT_COLUMNS.index("text")
  rows = enumerate(work.iterate_rows(), start=first_row)
  while batch := list(itertools.islice(rows, _BATCH)):
    connection.executemany(
      statement, [(row, work_id, *values) for row, values in batch]
    )
    connection.executemany(
      "INSERT INTO full_text(rowid, words) VALUES (?, ?)",
      [(row, database.split_tokens(values[text])) for row, values in batch],
    )
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


def _make_manifest(
  folder: pathlib.Path,
  calendar: Calendar,
  connection: sqlite3.Connection,
  use_passages: bool,
  dense: EncoderEntry | None,
) -> tuple[Manifest, set[str]]:
  """Returns the manifest of the database's contents, and the folders in use."""
  previous = None
  with contextlib.suppress(FileNotFoundError, ValueError):
    previous = manifest.read_manifest(folder)
  generation = int(database.get_property(connection, "generation"))
  works = database.list_works(connection)
  if not use_passages:
    passages = None
  elif (
    previous and previous.generation == generation and previous.is_for_passages
  ):
    passages = previous.passages
  else:
    passages = _fit_passages(folder, connection, calendar)
  used = {work.folder for work in works} | ({passages} if passages else set())
  if dense:
    used |= {
      vectors.name_folder(dense.sha256, work.records_sha256) for work in works
    }
  timeline = folder / calendars.CALENDAR_FOLDER / calendars.TIMELINE_FILE
  spec = json.loads(files.read_text(timeline))["spec"]
  new_manifest = Manifest(
    format=manifest.FORMAT,
    generation=generation,
    made_with=ctd_jax.__version__,
    calendar={
      "spec": spec,
      "sha256": calendars.hash_calendar(calendar),
      "months": len(calendar),
    },
    works=[
      {
        "name": work.name,
        "title": work.title,
        "records": work.num_records,
        "dated_by": work.dated_by,
        "folder": work.folder,
        "sha256": work.sha256,
        "records_sha256": work.records_sha256,
      }
      for work in works
    ],
    files=_hash_files(folder, used, previous.files if previous else {}),
    dense=dense,
    passages=passages,
    use_passages=use_passages,
  )
  return new_manifest, used


def _fit_passages(
  folder: pathlib.Path, connection: sqlite3.Connection, calendar: Calendar
) -> str | None:
  """Fits the dater of passages; returns its folder, None without sure dates."""
  # Here and not above: it is not needed to look an index up.
  from ctd_jax.dating.passages.passages import PassageDater

  generation = database.get_property(connection, "generation")
  name = f"{PASSAGES_FOLDER}/{generation}"
  target = folder / name
  shutil.rmtree(target, ignore_errors=True)  # of a stopped build
  texts, labels, row_ids = _read_records(connection, len(calendar))
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
    row_ids=row_ids,
  )
  dater.save(target)
  return name


def _read_records(
  connection: sqlite3.Connection, num_months: int
) -> tuple[list[str], Labels, Int[np.ndarray, " N"]]:
  cursor = connection.execute(
    "SELECT row, text, kind, best_month, best_probability, dated_by "
    "FROM records WHERE kind != ? ORDER BY row",
    (HEADING,),
  )
  rows, texts, months, events = [], [], [], []
  for row, text, kind, month, chance, manner in cursor:
    is_sure = staged_works.is_sure(month, chance, manner, num_months)
    rows.append(row)
    texts.append(text)
    months.append(month if is_sure else UNKNOWN)
    events.append(int(kind != NEG_COMMENT) if is_sure else UNKNOWN)
  labels = Labels(np.array(months, int), np.array(events, int))
  return texts, labels, np.array(rows, int)


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
  return CredibleBlock(
    rows=np.concatenate(rows),
    starts=joined.starts,
    months=joined.months,
    probabilities=joined.probabilities.astype(float),
    num_months=num_months,
  )


def _hash_files(
  folder: pathlib.Path,
  used: Collection[str],
  previous: dict[str, ManifestFile],
) -> dict[str, ManifestFile]:
  """Returns sizes and hashes; files in folders of `used` never change."""
  hashes = {}
  for parent in (calendars.CALENDAR_FOLDER, *sorted(used)):
    for path in sorted((folder / parent).rglob("*")):
      if not path.is_file() or path.name == staged_works.ROWS_FILE:
        continue
      name = path.relative_to(folder).as_posix()
      is_known = parent in used and name in previous
      hashes[name] = previous[name] if is_known else manifest.hash_file(path)
  return hashes
