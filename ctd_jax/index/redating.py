"""Dates works again whose corrections have changed.

A work is read again from where it was added, with the same flags, and only if
its text has not changed. The other works of its data set are read too, because
they help to date it, and stay as they are.
"""

import contextlib
import dataclasses
import pathlib
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Mapping

from absl import logging

from ctd_jax.index import (
  correction_checks,
  corrections,
  database,
  manifest,
)
from ctd_jax.index.building import index_builder, sources
from ctd_jax.index.building.group_dating import UNDATED, DatingChoices
from ctd_jax.index.building.index_builder import BuildOptions, BuildResult
from ctd_jax.index.building.sources import DatedWith, SourceRequest, SourceWork
from ctd_jax.index.corrections import Correction
from ctd_jax.index.database import ORDER, IndexedWork
from ctd_jax.index.date_changes import RecordDates, RedateReport
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.utils.notes import Note

# What a copy of an index does not need: jobs and locks; databases are copied by
# SQLite, which knows what is not in their files yet.
_NOT_COPIED = ("jobs", ".lock", "*.sqlite", "*.sqlite-*")
_DATABASES = (database.DATABASE_FILE, corrections.CORRECTIONS_FILE)


@dataclasses.dataclass(frozen=True)
class RedateResult:
  """Results of dating works again."""

  build: BuildResult | None  # of the works dated again
  problems: tuple[Note | str, ...]  # why others were not, and what to do
  report: RedateReport = dataclasses.field(default_factory=RedateReport)


def redate_index(folder: pathlib.Path) -> RedateResult:
  """Dates the works again whose corrections have changed."""
  index = IndexFolder.open(folder)
  works = {work.name: work for work in index.works}
  dated_with, problems = {}, []
  by_request: dict[SourceRequest, list[str]] = {}
  for name in correction_checks.count_pending(index):
    row = sources.read_dated_with(works[name])
    dated_with[name] = row
    by_request.setdefault(row.source, []).append(name)
  read: list[SourceWork] = []
  targets: list[str] = []
  for request, names in by_request.items():
    try:
      for name in names:
        _check_fixed(index, works[name], dated_with[name])
      read += _read_again(folder, request, names, works)
    except (FileNotFoundError, ValueError) as error:
      problems.append(Note("problem.at", place=", ".join(names), problem=error))
    else:
      targets += names
  if not targets:
    # A dating that was stopped after its commit has nothing left to date.
    if manifest.read_manifest(folder) != index.manifest:
      index_builder.finish_build(folder)
    return RedateResult(None, tuple(problems))

  options = BuildOptions(
    choices=choose_again(folder, {name: dated_with[name] for name in targets}),
    use_passages=index.manifest.is_for_passages,
  )
  before = RecordDates(index, targets)
  build = index_builder.build_works(folder, read, options, targets)
  after = RecordDates(IndexFolder.open(folder), targets)
  return RedateResult(build, tuple(problems), after.compare(before))


@contextlib.contextmanager
def copy_index(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a copy of an index to try changes on, which is removed again."""
  manifest.read_manifest(folder)  # an index is there
  with tempfile.TemporaryDirectory(prefix="ctd_jax.") as temporary:
    copy = pathlib.Path(temporary) / (folder.resolve().name or "index")
    with index_builder.lock(folder):
      shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
      for name in _DATABASES:
        if (folder / name).is_file():
          with (
            contextlib.closing(sqlite3.connect(folder / name)) as source,
            contextlib.closing(sqlite3.connect(copy / name)) as target,
          ):
            source.backup(target)
    yield copy


def choose_again(
  folder: pathlib.Path, dated_with: Mapping[str, DatedWith]
) -> DatingChoices:
  """Returns the flags that works were dated with, by name."""

  def list_names(manner: str) -> tuple[str, ...]:
    return tuple(name for name, it in dated_with.items() if it.manner == manner)

  return DatingChoices(
    in_order=list_names(ORDER),
    undated=list_names(UNDATED),
    fixed_of={
      name: folder / it.fixed
      for name, it in dated_with.items()
      if it.fixed is not None
    },
    reigns_of={name: it.reigns for name, it in dated_with.items()},
  )


def _read_again(
  folder: pathlib.Path,
  request: SourceRequest,
  names: Collection[str],
  works: Mapping[str, IndexedWork],
) -> list[SourceWork]:
  """Returns the works of a source that the index has."""
  argument = request.format_argument(folder)
  path = request.find_path(folder)
  if path is not None and not path.exists():
    raise FileNotFoundError(Note("problem.build.gone", file=path))
  read = {work.name: work for work in request.read(folder)}
  groups = {read[name].group for name in names if name in read}
  for name in names:
    if name not in read:
      raise ValueError(Note("problem.build.not_there", file=argument))
  same = []
  for name, work in read.items():
    if name not in works:
      logging.info(
        "%s of %s is not in the index and is left out", name, argument
      )
    elif work.group in groups and (work.hash_contents() != works[name].sha256):
      raise ValueError(
        Note(
          "problem.build.changed",
          file=argument,
          name=name,
          flag=f"--add={argument}",
        )
      )
    elif work.group in groups:
      same.append(work)
  return same


def _check_fixed(
  index: IndexFolder, work: IndexedWork, dated_with: DatedWith
) -> None:
  """Raises an error if a --fixed file is gone, changed or contradicted."""
  if dated_with.fixed is None:
    return
  path = index.folder / dated_with.fixed
  if not path.is_file():
    raise FileNotFoundError(
      Note("problem.build.gone_fixed", file=path, work=work.name)
    )
  if manifest.hash_file(path).sha256 != dated_with.fixed_sha256:
    raise ValueError(
      Note("problem.build.changed_fixed", file=path, work=work.name)
    )
  for correction in index.corrections.active(work.name):
    if correction.correction_id not in dated_with.corrections:
      _check_correction(index, work, correction)


def _check_correction(
  index: IndexFolder, work: IndexedWork, correction: Correction
) -> None:
  """Raises ValueError if --fixed dates a record of the correction."""
  row_of = corrections.find_rows(
    index.folder, work.name, corrections.list_ends([correction])
  )
  rows = corrections.find_range(correction, row_of)
  if not rows:
    return  # left out by the build
  try:
    correction_checks.check_fixed_rows(index, work, rows)
  except ValueError as error:
    raise ValueError(
      Note(
        "problem.build.correction",
        number=correction.correction_id,
        record=correction.record_span,
        problem=error,
      )
    ) from None
