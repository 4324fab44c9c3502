"""Summary and check of an index.

The summary lists works, how they are dated and what is doubtful. The check
verifies files, hashes, rows, full text and vectors.
"""

import contextlib
import pathlib
import re
import sqlite3
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import CERTAIN, DOUBTFUL
from ctd_jax.dating.passages import fitting
from ctd_jax.index import (
  calendars,
  correction_checks,
  database,
  encoders,
  manifest,
  ranking,
)
from ctd_jax.index import vectors as vectors_lib
from ctd_jax.index.building import index_commit, staged_works
from ctd_jax.index.building.index_builder import BuildResult
from ctd_jax.index.building.staged_works import DATE_COLUMNS, TEXT_COLUMNS
from ctd_jax.index.corrections import CorrectionStore
from ctd_jax.index.database import IndexedWork
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.manifest import DamagedIndexError, EncoderEntry, Manifest
from ctd_jax.index.passage_answers import note_unseen
from ctd_jax.index.vectors import WorkVectors
from ctd_jax.utils import notes
from ctd_jax.utils.unicode_text import normalize

# Records of each work that are looked up in the full text.
_NUM_SAMPLED = 20
_EXCERPT = re.compile(r".{0,6}\w{0,40}", re.DOTALL)  # looked up
_WIDTH = 13  # of the names of lines
_MAX_WARNINGS = 3  # of each work


def check_index(folder: pathlib.Path) -> list[str]:
  """Returns the damage in an index and how to repair it."""
  try:
    names = (manifest.MANIFEST_FILE, database.DATABASE_FILE)
    if [(folder / name).is_file() for name in names] == [False, True]:
      with contextlib.closing(database.open_database(folder)) as connection:
        database.read_committed(folder, connection)
    index_manifest = manifest.read_manifest(folder)
  except DamagedIndexError as error:
    return [_describe(error)]
  damage = [*manifest.find_damage(folder, index_manifest.files)]
  damaged_names = {
    error.path.relative_to(folder).as_posix() for error in damage
  }
  problems = [_describe(error) for error in damage]
  problems += [
    f"{folder / name}: of an older version"
    for name in find_outdated(folder, index_manifest) - damaged_names
  ]
  problems += map(_describe, CorrectionStore(folder).check())
  try:
    calendar = calendars.load_index_calendar(folder)
  except DamagedIndexError as error:
    return [*problems, _describe(error)]
  if calendars.hash_calendar(calendar) != index_manifest.calendar["sha256"]:
    problems.append(f"{folder / calendars.CALENDAR_FOLDER}: another calendar")
  works: Sequence[IndexedWork] = ()
  try:
    with contextlib.closing(database.open_database(folder)) as connection:
      problems += check_database(folder, connection, index_manifest)
      works = database.list_works(connection)
  except DamagedIndexError as error:
    problems.append(_describe(error))
  except (ValueError, sqlite3.DatabaseError) as error:
    problems.append(f"{folder / database.DATABASE_FILE}: damaged ({error})")
  for work in works:
    problems += _check_posteriors(folder, work, len(calendar))
  if index_manifest.dense:
    problems += _check_vectors(folder, works, index_manifest.dense)
  return problems


def find_outdated(folder: pathlib.Path, index_manifest: Manifest) -> set[str]:
  """Returns the names of files that only an older version reads."""
  passages = index_manifest.passages
  if not passages or fitting.is_current(folder / passages):
    return set()
  return {f"{passages}/{fitting.STATE_FILE}"}


def _describe(error: DamagedIndexError) -> str:
  # How to mend it is said once, of all problems.
  return f"{error.path}: {error.problem}"


def check_database(
  folder: pathlib.Path,
  connection: sqlite3.Connection,
  index_manifest: Manifest,
) -> Iterator[str]:
  """Yields the damage in the database."""
  path = folder / database.DATABASE_FILE
  committed, text = database.read_committed(folder, connection)
  digest = database.get_property(connection, "manifest_sha256")
  if manifest.hash_content(text).sha256 != digest:
    yield f"{path}: its manifest_sha256 is not that of the manifest"
  if committed != index_manifest:
    yield (
      f"{folder / manifest.MANIFEST_FILE}: has generation "
      f"{index_manifest.generation}, but the database has "
      f"{committed.generation}: a build was stopped at its end"
    )
  generation = database.get_property(connection, "generation")
  if generation != str(committed.generation):
    yield (
      f"{path}: has generation {generation}, expected {committed.generation}"
    )
  (page_size,) = connection.execute("PRAGMA page_size").fetchone()
  if path.stat().st_size % page_size:
    yield f"{path}: cut short in its last page"
  for (message,) in connection.execute("PRAGMA integrity_check(5)"):
    if message != "ok":
      yield f"{path}: {message}"
  if index_commit.hash_full_text(connection) != committed.full_text_sha256:
    yield f"{path}: the full text is not what was written"
  described = database.describe_works(connection)
  for work in described:
    if work not in committed.works:
      yield f"{path}: the work {work['name']} is not that of the manifest"
  for work in committed.works:
    if work["name"] not in {row["name"] for row in described}:
      yield f"{path}: {work['name']} of the manifest is missing"
  works = database.list_works(connection)
  next_row = database.get_property(connection, "next_row")
  if int(next_row) < max((work.rows.stop for work in works), default=1):
    yield f"{path}: next_row {next_row} has records already"
  for work in works:
    yield from _check_rows(path, connection, work)
    yield from _check_full_text(path, connection, work)
  for name in calendars.COPIED_FILES:
    copy = b""
    with contextlib.suppress(TypeError, zlib.error):
      copy = zlib.decompress(database.get_property(connection, name))
    if manifest.hash_content(copy) != index_manifest.files[name]:
      yield f"{path}: the copy of {name} is not what was written"


def _check_rows(
  path: pathlib.Path, connection: sqlite3.Connection, work: IndexedWork
) -> Iterator[str]:
  span = (work.rows.start, work.rows.stop)
  (count,) = connection.execute(
    "SELECT count(*) FROM records WHERE row >= ? AND row < ? AND work_id = ?",
    (*span, work.work_id),
  ).fetchone()
  if count != work.num_records:
    yield (
      f"{path}: {work.name} has {count:,} records, expected "
      f"{work.num_records:,}"
    )
  rows = connection.execute(
    f"SELECT {', '.join((*TEXT_COLUMNS, *DATE_COLUMNS))} FROM records "
    "WHERE row >= ? AND row < ? ORDER BY row",
    span,
  )
  if staged_works.hash_rows(rows) != work.dates_sha256:
    yield f"{path}: records of {work.name} are not what was written"


def _check_posteriors(
  folder: pathlib.Path, work: IndexedWork, num_months: int
) -> Iterator[str]:
  opened = ranking.WorkPosteriors(folder, work, num_months)
  try:
    _ = opened.arrays, opened.postings
  except DamagedIndexError as error:
    yield _describe(error)


def _check_vectors(
  folder: pathlib.Path, works: Sequence[IndexedWork], entry: EncoderEntry
) -> Iterator[str]:
  """Checks that every record has a vector of length 1 or 0."""
  count = sum(work.num_records for work in works)
  if entry.vectors != count:
    yield (
      f"{folder / manifest.MANIFEST_FILE}: {entry.vectors:,} vectors, expected "
      f"{count:,}"
    )
  for work in works:
    name = vectors_lib.name_folder(entry.sha256, work.records_sha256)
    try:
      vectors = WorkVectors.open(
        folder / name, work.num_records, entry.dimensions
      )
    except DamagedIndexError as error:
      yield _describe(error)
      continue
    for part in vectors.parts:
      lengths = np.linalg.norm(part, axis=1)
      if not (np.isclose(lengths, 1, atol=1e-3) | (lengths == 0)).all():
        yield f"{folder / name}: vectors whose length is not 1"
        break


def _check_full_text(
  path: pathlib.Path, connection: sqlite3.Connection, work: IndexedWork
) -> Iterator[str]:
  """Checks that the full text finds words of some records."""
  step = max(work.num_records // _NUM_SAMPLED, 1)
  for record in database.fetch_records(connection, work.rows[::step]):
    match = database.make_match([_EXCERPT.match(record.text)[0]])
    # Where normalisation changes a text, older indexes hold it as it was.
    if match is None or normalize(record.text).text != record.text:
      continue
    (is_found,) = connection.execute(
      "SELECT count(*) FROM full_text WHERE full_text MATCH ? AND rowid = ?",
      (match, record.row),
    ).fetchone()
    if not is_found:
      yield (
        f"{path}: record {record.record_id} of {work.name} is not in the full "
        "text"
      )
      return


def format_summary(
  folder: pathlib.Path, result: BuildResult | None = None
) -> str:
  """Returns the contents of an index and the changes of a build, as lines."""
  index_manifest = manifest.read_manifest(folder)
  calendar = calendars.load_index_calendar(folder)
  first, last = (
    calendars.name_month(calendar, month) for month in (0, len(calendar) - 1)
  )
  lines = [
    ("index", f"{folder}, generation {index_manifest.generation}"),
    (
      "calendar",
      f"{index_manifest.calendar['spec']}: {first} to {last}, "
      f"{len(calendar):,} months",
    ),
  ]
  if (dense := index_manifest.dense) is not None:
    name = encoders.describe_encoder(dense)
    lines.append(
      (
        "vectors",
        f"{dense.vectors:,} of {dense.dimensions} dimensions, by {name} in "
        f"{dense.path}",
      )
    )
  lines += [("passages", str(it)) for it in note_unseen(index_manifest)]
  lines += _describe_corrections(folder)
  with contextlib.closing(database.open_database(folder)) as connection:
    works = sorted(
      database.list_works(connection), key=lambda work: work.work_id
    )
    total = sum(work.num_records for work in works)
    lines.append(("works", f"{len(works):,}, with {total:,} records"))
    for work in works:
      lines += _describe_work(connection, work, calendar, result)
  if result is not None:
    replaced = [name for name in result.added if name in result.removed]
    changes = {
      "added": [name for name in result.added if name not in replaced],
      "replaced": replaced,
      "unchanged": result.unchanged,
      "removed": [name for name in result.removed if name not in replaced],
    }
    lines += [
      (name, ", ".join(names)) for name, names in changes.items() if names
    ]
  summary = "\n".join(
    f"{name:<{_WIDTH}}{text}".rstrip() for name, text in lines
  )
  return notes.show_controls(summary)


def _describe_corrections(folder: pathlib.Path) -> list[tuple[str, str]]:
  index = IndexFolder.open(folder)
  works = [row.work for row in index.corrections.active()]
  pending = correction_checks.count_pending(index)
  if not works and not pending:
    return []
  text = f"{len(works):,} by readers"
  if pending:
    text += (
      f"; changes that --redate is to date {sum(pending.values()):,}, of "
      f"{', '.join(pending)}"
    )
  lines = [("corrections", text)]
  lost = sorted({*works} - {work.name for work in index.works})
  if lost:
    count = sum(work in lost for work in works)
    lines.append(
      ("", f"  {count:,} of works that were removed: {', '.join(lost)}")
    )
  return lines


def _describe_work(
  connection: sqlite3.Connection,
  work: IndexedWork,
  calendar: Calendar,
  result: BuildResult | None,
) -> list[tuple[str, str]]:
  condition = "row >= :start AND row < :stop AND kind != 'heading'"
  values = {
    "certain": CERTAIN,
    "doubtful": DOUBTFUL,
    "end": len(calendar),
    "start": work.rows.start,
    "stop": work.rows.stop,
  }
  sure = "CASE WHEN best_probability >= :certain AND best_month < :end THEN"
  num_records, certain, doubtful, outside, first, last = connection.execute(
    f"SELECT count(*), count({sure} 1 END), "
    "coalesce(sum(best_probability < :doubtful), 0), "
    "coalesce(sum(best_month >= :end), 0), "
    f"min({sure} best_month END), max({sure} best_month END) FROM records "
    f"WHERE {condition}",
    values,
  ).fetchone()
  by_manner = connection.execute(
    f"SELECT dated_by, count(*) FROM records WHERE {condition} "
    "GROUP BY dated_by ORDER BY 2 DESC",
    values,
  )
  manners = ", ".join(f"{number:,} by {manner}" for manner, number in by_manner)
  title = f" ({work.title})" if work.title not in work.name else ""
  lines = [("", f"{work.name}{title}: {num_records:,} records, {manners}")]
  if first is not None:
    names = [
      calendars.name_month(calendar, month, work.printed_reigns)
      for month in (first, last)
    ]
    lines.append(
      (
        "",
        f"  {names[0]} to {names[1]}; certain {certain:,}, doubtful "
        f"{doubtful:,}, outside of the calendar {outside:,}",
      )
    )
  if result is None or work.name in result.added:
    warnings = [*work.warnings[:_MAX_WARNINGS]]
    if len(work.warnings) > _MAX_WARNINGS:
      warnings.append(f"and {len(work.warnings) - _MAX_WARNINGS} more warnings")
    lines += [("", f"  warning: {warning}") for warning in warnings]
  return lines
