"""Repair of an index: what is damaged is made again, the rest is kept.

Manifest and calendar have a copy in the database, corrections in their journal,
and the manifest names the source and flags of every work. Dating gives the same
bytes again, so a work that is made again from an unchanged source takes the
place of the damaged one, rows and all. If its bytes differ, or it cannot be
made, the index gets a new generation, and the result says so. A source that has
changed since is not used.

A repair that is stopped is finished by the same command.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ctd_jax.index import (
  calendars,
  corrections,
  database,
  index_check,
  manifest,
  posteriors,
  redating,
  vectors,
)
from ctd_jax.index.building import (
  index_builder,
  index_commit,
  staged_works,
  vector_building,
)
from ctd_jax.index.building.index_builder import BuildOptions
from ctd_jax.index.building.sources import DatedWith, SourceRequest, SourceWork
from ctd_jax.index.building.staged_works import (
  DATE_COLUMNS,
  TEXT_COLUMNS,
  StagedWork,
)
from ctd_jax.index.corrections import Correction, CorrectionStore
from ctd_jax.index.manifest import Manifest, ManifestFile
from ctd_jax.utils import files

_UNFINISHED = -1  # generation of a database that is being made again
_RECORD_COLUMNS = (*TEXT_COLUMNS, *DATE_COLUMNS)


@dataclasses.dataclass(frozen=True)
class RepairResult:
  """What a repair did, as lines for the user."""

  done: tuple[str, ...]  # found and made again; nothing if all was intact
  problems: tuple[str, ...]  # what could not be made again, and why
  removed: tuple[str, ...] = ()  # works that were taken out


@dataclasses.dataclass(frozen=True)
class _Work:
  """A work as the manifest has it."""

  columns: dict[str, Any]

  @property
  def name(self) -> str:
    return self.columns["name"]

  @property
  def folder(self) -> str:
    return self.columns["folder"]

  @property
  def rows(self) -> tuple[int, int]:
    """First row, and the one after the last."""
    first = self.columns["first_row"]
    return first, first + self.columns["num_records"]

  @property
  def dated_with(self) -> DatedWith:
    return msgspec.convert(self.columns["dated_with"], DatedWith, strict=False)


def repair_index(folder: pathlib.Path) -> RepairResult:
  """Makes again what is damaged in an index.

  Raises:
    FileNotFoundError: if there is no index.
    ValueError: if too little is left of it, or another build is working on it.
  """
  if not any(
    (folder / name).exists()
    for name in (manifest.MANIFEST_FILE, database.DATABASE_FILE)
  ):
    manifest.read_manifest(folder)  # says what is missing
  with index_builder.lock(folder):
    for name in (database.DATABASE_FILE, corrections.CORRECTIONS_FILE):
      journal = folder / f"{name}{database.JOURNAL_END}"
      journal.unlink(missing_ok=True)  # see `database.make_uri`
    repair = _Repair(folder)
    repair.run()
  remaining = index_check.check_index(folder)
  return RepairResult(
    done=tuple(repair.done),
    problems=(*repair.problems, *remaining),
    removed=tuple(repair.removed),
  )


class _Repair:
  """One repair; the lock is held."""

  def __init__(self, folder: pathlib.Path):
    self._folder = folder
    self.done: list[str] = []
    self.problems: list[str] = []
    self._manifest = self._mend_manifest()  # refuses another version
    mended = corrections.mend_file(folder)
    is_lost = corrections.MAY_BE_LOST in mended
    (self.problems if is_lost else self.done).extend(mended)
    self._works = [_Work(columns) for columns in self._manifest.works]
    self._calendar = None
    self._read: dict[SourceRequest, list[SourceWork] | Exception] = {}
    self._changed: list[StagedWork] = []
    self._placed: set[str] = set()  # names of works dated as before
    self.removed: list[str] = []

  def run(self) -> None:
    """Mends the parts in the order in which they need each other."""
    # What a stopped repair has dated may have been beside other works.
    used = index_commit.list_folders(self._manifest)
    staged_works.remove_leftovers(self._folder, used)
    damaged = self._find_damaged_files()
    self._mend_calendar(damaged)
    self._mend_postings(damaged)
    intact = self._mend_database()
    failing = [
      work
      for work in self._works
      if work.name not in intact
      or any(name.startswith(f"{work.folder}/") for name in damaged)
    ]
    for names in self._list_batches(failing):
      self._date_again(names, intact)
    dense = self._mend_vectors(damaged)
    if self.done or self.problems:
      self._commit(damaged, dense)

  # Manifest and calendar, which have a copy in the database.

  def _mend_manifest(self) -> Manifest:
    path = self._folder / manifest.MANIFEST_FILE
    content = path.read_bytes() if path.is_file() else b""
    copy = (self._get_copy("manifest") or "").encode()
    sha256 = self._get_copy("manifest_sha256")
    found = []
    for text in (copy, content):
      with contextlib.suppress(ValueError, FileNotFoundError):
        decoded = manifest.decode_manifest(self._folder, text)
        is_sure = hashlib.sha256(text).hexdigest() == sha256
        found.append((decoded.generation, is_sure, text, decoded))
    if not found:
      if content:
        # The index of another version is refused by name.
        with contextlib.suppress(manifest.DamagedIndexError):
          manifest.decode_manifest(self._folder, content)
      raise ValueError(
        f"{self._folder}: neither {path.name} nor {database.DATABASE_FILE} can "
        "be read; restore a backup with --restore=FILE and a new --index, or "
        f"{manifest.REBUILD}"
      )
    *_, text, best = max(found, key=lambda item: item[:2])
    if text != content:
      manifest.write_manifest(self._folder, text.decode())
      self.done.append(f"{path}: written again from {database.DATABASE_FILE}")
    _check_manifest(path, best)
    return best

  def _get_copy(self, name: str) -> Any:
    """Returns a property of the database, None if it cannot be read."""
    with (
      contextlib.suppress(sqlite3.DatabaseError, ValueError, OSError),
      contextlib.closing(database.open_database(self._folder)) as connection,
    ):
      return database.get_property(connection, name)
    return None

  def _find_damaged_files(self) -> set[str]:
    """Returns the names of damaged files; removes those of no build."""
    entries = self._manifest.files
    damaged = {
      error.path.relative_to(self._folder).as_posix()
      for error in manifest.find_damage(self._folder, entries)
    }
    damaged |= index_check.find_outdated(self._folder, self._manifest)
    for parent in {os.path.dirname(name) for name in entries}:
      for path in (self._folder / parent).glob("*"):
        name = f"{parent}/{path.name}"
        if name not in entries:
          shutil.rmtree(path) if path.is_dir() else path.unlink()
          self.done.append(f"{path}: removed, no build wrote it")
    self.done += [
      f"{self._folder / name}: damaged, missing or outdated"
      for name in sorted(damaged)
    ]
    return damaged

  def _mend_calendar(self, damaged: set[str]) -> None:
    days = f"{calendars.CALENDAR_FOLDER}/{calendars.DAYS_FILE}"
    for name in sorted(damaged):
      if os.path.dirname(name) != calendars.CALENDAR_FOLDER or name == days:
        continue
      copy = b""
      with contextlib.suppress(TypeError, zlib.error):
        copy = zlib.decompress(self._get_copy(name))
      if manifest.hash_content(copy) != self._manifest.files[name]:
        raise ValueError(
          f"{self._folder / name}: damaged, and so is its copy in "
          f"{database.DATABASE_FILE}; restore a backup with --restore=FILE and "
          f"a new --index, or {manifest.REBUILD}"
        )
      with files.atomic_path(self._folder / name) as path:
        path.write_bytes(copy)
      damaged.remove(name)
    self._calendar = calendars.load_index_calendar(self._folder)
    if days in damaged:
      calendars.write_day_chances(self._folder, self._calendar)
      self._record_files(damaged, days)

  def _record_files(self, damaged: set[str], *names: str) -> None:
    """Takes files that were made again into the manifest."""
    damaged.difference_update(names)
    index_commit.sync_files(self._folder, names)
    entries = {name: manifest.hash_file(self._folder / name) for name in names}
    self._manifest = msgspec.structs.replace(
      self._manifest, files={**self._manifest.files, **entries}
    )

  def _mend_postings(self, damaged: set[str]) -> None:
    """Makes postings again, for which the posteriors are enough."""
    for work in self._works:
      of_work = {
        name for name in damaged if os.path.dirname(name) == work.folder
      }
      if not of_work or any(
        os.path.basename(name) not in posteriors.POSTING_FILES
        for name in of_work
      ):
        continue
      folder = self._folder / work.folder
      arrays = posteriors.PosteriorArrays.open(folder, len(self._calendar))
      posteriors.make_month_postings(arrays).save(folder)
      self._record_files(damaged, *of_work)

  # Database: what verifies is copied into a new one.

  def _mend_database(self) -> set[str]:
    """Makes the database again if it is damaged; returns works with rows."""
    path = self._folder / database.DATABASE_FILE
    names = {work.name for work in self._works}
    problems = self._check_database()
    if not problems:
      return names
    self.done += problems
    target = self._folder / index_builder.REPAIR_FOLDER
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    database.create_database(target)
    intact = set()
    with (
      contextlib.closing(
        database.open_database(target, readonly=False)
      ) as connection,
      database.write(connection),
    ):
      for work in self._works:
        if self._has_rows(work):
          intact.add(work.name)
          index_commit.insert_work(
            connection, work.columns, self._iterate_rows(work)
          )
      next_row = max((work.rows[1] for work in self._works), default=1)
      with contextlib.suppress(TypeError, ValueError):
        next_row = max(next_row, int(self._get_copy("next_row")))
      database.set_property(connection, "next_row", next_row)
      database.set_property(connection, "generation", _UNFINISHED)
    with contextlib.closing(sqlite3.connect(target / path.name)) as connection:
      connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for end in ("-wal", "-shm"):
      path.with_name(path.name + end).unlink(missing_ok=True)
    with (target / path.name).open("rb") as file:
      os.fsync(file.fileno())
    os.replace(target / path.name, path)
    shutil.rmtree(target)
    self.done.append(
      f"{path}: made again with the rows of works {len(intact):,} of "
      f"{len(names):,}"
    )
    return intact

  def _check_database(self) -> list[str]:
    path = self._folder / database.DATABASE_FILE
    try:
      with contextlib.closing(
        database.open_database(self._folder)
      ) as connection:
        return [
          *index_check.check_database(self._folder, connection, self._manifest)
        ]
    except (ValueError, OSError, sqlite3.DatabaseError) as error:
      return [f"{path}: {getattr(error, 'problem', error)}"]

  def _iterate_rows(self, work: _Work) -> Iterator[Sequence[Any]]:
    with contextlib.closing(database.open_database(self._folder)) as connection:
      yield from connection.execute(
        f"SELECT {', '.join(_RECORD_COLUMNS)} FROM records "
        "WHERE row >= ? AND row < ? ORDER BY row",
        work.rows,
      )

  def _has_rows(self, work: _Work) -> bool:
    """Whether the rows of a work are what was written."""
    try:
      digest = staged_works.hash_rows(self._iterate_rows(work))
    except (sqlite3.DatabaseError, ValueError, OSError):
      return False
    return digest == work.columns["dates_sha256"]

  # Works are dated again, in the order and company of their first dating.

  def _list_batches(self, failing: Sequence[_Work]) -> list[list[str]]:
    """Returns names of works to date at once, those with own dates first."""
    batches = [[work.name] for work in failing if not work.dated_with.beside]
    together: dict[str, list[str]] = {}
    for work in failing:
      if work.dated_with.beside:
        together.setdefault(work.dated_with.beside, []).append(work.name)
    return [*batches, *together.values()]

  def _date_again(self, names: Sequence[str], intact: Collection[str]) -> None:
    works = {work.name: work for work in self._works}
    read: dict[str, list[SourceWork]] = {}
    for name in self._list_company(names):
      try:
        read[name] = self._read_group(works[name])
      except (ValueError, FileNotFoundError) as error:
        if name in names:
          self._give_up(works[name], error, name in intact)
    names = [name for name in names if name in read]
    if not names:
      return
    try:
      staged = self._stage(read)
    except (ValueError, FileNotFoundError) as error:
      for name in names:
        self._give_up(works[name], error, name in intact)
      return
    for work in staged:
      entry = works[work.name]
      if entry.name not in names:
        # Only the company in which the others were dated.
        if entry.name not in self._placed:
          shutil.rmtree(work.folder)
        continue
      if self._is_same(work, entry):
        self._place(work, entry, entry.name not in intact)
        self._placed.add(entry.name)
        self.done.append(f"{entry.name}: dated again, the same as before")
      else:
        self._changed.append(work)
        self.done.append(
          f"{entry.name}: dated again, with another result: its corrections, "
          "ctd_jax or works that helped to date it have changed"
        )

  def _list_company(self, names: Sequence[str]) -> list[str]:
    """Returns the works that were dated together with works of a batch."""
    keys = {
      work.dated_with.beside for work in self._works if work.name in names
    }
    return [
      work.name
      for work in self._works
      if work.name in names or work.dated_with.beside in keys - {""}
    ]

  def _read_group(self, work: _Work) -> list[SourceWork]:
    """Returns a work and those of its data set that the index has.

    Raises:
      ValueError: if they have changed. In an index of a stranger, the source
        may be any file of yours.
    """
    sha256_of = {it.name: it.columns["sha256"] for it in self._works}
    request, fixed = work.dated_with.source, work.dated_with.fixed
    read = self._read_source(request)
    groups = [it.group for it in read if it.name == work.name]
    if not groups:
      raise ValueError(f"{work.name}: no longer in its source")
    read = [it for it in read if it.group == groups[0] and it.name in sha256_of]
    if any(it.hash_contents() != sha256_of[it.name] for it in read):
      source = request.format_argument(self._folder)
      raise ValueError(f"{source} has changed since it was added")
    if fixed is not None:
      path = self._folder / fixed
      sha256 = path.is_file() and manifest.hash_file(path).sha256
      if sha256 != work.dated_with.fixed_sha256:
        raise ValueError(f"{path} has changed since it was used, or is gone")
    return read

  def _stage(self, read: Mapping[str, list[SourceWork]]) -> list[StagedWork]:
    works = {work.name: work for work in self._works}
    sources = {it.name: it for group in read.values() for it in group}
    store = CorrectionStore(self._folder)
    last = max(works[name].columns["work_id"] for name in read)
    return index_builder.stage_works(
      self._folder,
      [*sources.values()],
      BuildOptions(
        choices=redating.choose_again(
          self._folder, {name: works[name].dated_with for name in read}
        )
      ),
      [*read],
      {name: _list_applied(store, works[name].dated_with) for name in sources},
      # Works that came later were no help then.
      [work.name for work in self._works if work.columns["work_id"] > last],
    )

  def _read_source(self, request: SourceRequest) -> list[SourceWork]:
    if request not in self._read:
      path = request.find_path(self._folder)
      if path is not None and not path.exists():
        self._read[request] = FileNotFoundError(f"{path}: missing")
      else:
        try:
          self._read[request] = request.read(self._folder)
        except (ValueError, FileNotFoundError) as error:
          self._read[request] = error
    result = self._read[request]
    if isinstance(result, Exception):
      raise result
    return result

  def _is_same(self, staged: StagedWork, entry: _Work) -> bool:
    return staged.columns["dates_sha256"] == entry.columns[
      "dates_sha256"
    ] and _drop_rows(staged.files) == {
      os.path.basename(name): value
      for name, value in self._manifest.files.items()
      if os.path.dirname(name) == entry.folder
    }

  def _place(self, staged: StagedWork, entry: _Work, needs_rows: bool) -> None:
    """Puts a work in the place of the damaged one."""
    target = self._folder / entry.folder
    if staged.folder != target:
      shutil.rmtree(target, ignore_errors=True)
      os.rename(staged.folder, target)
      staged = dataclasses.replace(staged, folder=target)
    index_commit.sync_files(
      self._folder, [f"{entry.folder}/{name}" for name in staged.files]
    )
    if needs_rows:
      with (
        contextlib.closing(
          database.open_database(self._folder, readonly=False)
        ) as connection,
        database.write(connection),
      ):
        index_commit.insert_work(
          connection, entry.columns, staged.iterate_rows()
        )

  def _give_up(self, work: _Work, error: Exception, has_rows: bool) -> None:
    text = f"{work.name}: taken out, since it cannot be dated again: {error}"
    if has_rows:
      path = name_lost_file(self._folder, work.name)
      lines = [
        json.dumps(
          dict(zip(_RECORD_COLUMNS, row, strict=True)), ensure_ascii=False
        )
        for row in self._iterate_rows(work)
      ]
      files.write_text(path, "".join(f"{line}\n" for line in lines))
      text += f"; its records are in {path}"
    self.removed.append(work.name)
    argument = work.dated_with.source.format_argument(self._folder)
    self.problems.append(
      f"{text}; its corrections stay; --add={argument} adds it"
    )

  # Vectors, passages, and the end.

  def _mend_vectors(self, damaged: set[str]) -> manifest.EncoderEntry | None:
    dense = self._manifest.dense
    of_vectors = {
      name for name in damaged if name.startswith(f"{vectors.VECTORS_FOLDER}/")
    }
    if dense is None or not (of_vectors or self._changed):
      return dense
    for name in of_vectors:
      (self._folder / name).unlink(missing_ok=True)
    with contextlib.closing(database.open_database(self._folder)) as connection:
      kept = [
        work
        for work in database.list_works(connection)
        if work.name not in self.removed
        and work.name not in {staged.name for staged in self._changed}
      ]
    plan = vector_building.plan_vectors(dense, None, None)
    try:
      dense = plan.make_vectors(self._folder, self._changed, kept)
    except (ValueError, FileNotFoundError) as error:
      self.problems.append(
        f"vectors: taken out, since they cannot be made again: {error}; "
        "--encoder=FOLDER makes them"
      )
      return None
    self._record_files(
      damaged, *(name for name in of_vectors if (self._folder / name).exists())
    )
    return dense

  def _commit(
    self, damaged: set[str], dense: manifest.EncoderEntry | None
  ) -> None:
    """Writes the new state in one transaction, then the manifest."""
    is_changed = bool(
      self._changed or self.removed or dense != self._manifest.dense
    )
    of_passages = [
      name
      for name in self._manifest.files
      if os.path.dirname(name) == self._manifest.passages
    ]
    with contextlib.closing(
      database.open_database(self._folder, readonly=False)
    ) as connection:
      # With other works they are fitted below.
      has_same_works = not (self._changed or self.removed)
      if has_same_works and damaged.intersection(of_passages):
        number = int(os.path.basename(self._manifest.passages))
        index_commit.fit_passages(
          *(self._folder, connection, self._calendar, number),
          self._manifest.learned,
        )
        self._record_files(damaged, *of_passages)
      replaced = [work.name for work in self._changed]
      with database.write(connection):
        database.set_property(
          connection, "generation", self._manifest.generation
        )
        index_commit.write_works(
          connection, self._changed, [*self.removed, *replaced]
        )
        new_manifest = index_commit.make_manifest(
          self._folder,
          self._calendar,
          connection,
          self._manifest,
          self._changed,
          self._manifest.is_for_passages,
          dense,
        )
        new_manifest = msgspec.structs.replace(
          new_manifest, generation=self._manifest.generation + is_changed
        )
        text = index_commit.store_manifest(
          self._folder, connection, new_manifest
        )
      manifest.write_manifest(self._folder, text)
      staged_works.remove_leftovers(
        self._folder, index_commit.list_folders(new_manifest)
      )
      connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def name_lost_file(folder: pathlib.Path, work: str) -> pathlib.Path:
  """Returns the file for the records of a work that is taken out."""
  return (
    folder
    / index_builder.LOST_FOLDER
    / f"{staged_works.name_folder(work, work)}.jsonl"
  )


def _check_manifest(path: pathlib.Path, index_manifest: Manifest) -> None:
  """Raises ValueError if a manifest of a stranger would mislead a repair."""
  try:
    works = [_Work(columns) for columns in index_manifest.works]
    parents = {work.folder: staged_works.WORKS_FOLDER for work in works}
    for work in works:
      if work.dated_with.source is None or work.rows[0] < 1:
        raise ValueError(f"{work.name} has no source or no rows")
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(f"{path}: damaged, entry of a work ({error})") from error
  if index_manifest.passages:
    parents[index_manifest.passages] = staged_works.PASSAGES_FOLDER
  for name, parent in parents.items():
    files.inside(path.parent, name)
    if os.path.dirname(name) != parent:
      raise ValueError(f"{path}: {name!r}: expected a folder in {parent}/")
  folders = *parents, calendars.CALENDAR_FOLDER
  for name in index_manifest.files:
    files.inside(path.parent, name)
    # What else is in their folders is removed.
    folder = os.path.dirname(name)
    is_vectors = os.path.dirname(folder) == vectors.VECTORS_FOLDER
    if folder not in folders and not is_vectors:
      raise ValueError(f"{path}: {name!r}: not the name of one of our files")


def _drop_rows(entries: dict[str, ManifestFile]) -> dict[str, ManifestFile]:
  return {
    name: entry
    for name, entry in entries.items()
    if name != staged_works.ROWS_FILE
  }


def _list_applied(
  store: CorrectionStore, dated_with: DatedWith
) -> list[Correction]:
  """Returns the corrections that a work was dated with, as they were then."""
  numbers = sorted({*dated_with.corrections, *dated_with.left_out})
  found = [store.get(number) for number in numbers]
  return [
    dataclasses.replace(correction, undone=None, undone_by="")
    for correction in found
    if correction is not None
  ]
