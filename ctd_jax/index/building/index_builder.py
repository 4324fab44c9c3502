"""Builds an index: works go in, a folder that answers questions comes out.

A build can be stopped anywhere because of its order:

1. All sources are read; a bad one ends the build here.
2. Each work is dated into its own folder in `works/`; a restart reuses it.
3. Missing vectors are made, if the index has an encoder.
4. One database transaction adds and replaces works: before it the index is the
   old one, after it the new one.
5. The manifest is written and unused folders are removed.

Workers may do the sources, texts and batches of vectors
(`BuildOptions.map_items`). `.lock` keeps a second builder out.
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from absl import logging

import ctd_jax
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.passages import fitting
from ctd_jax.dating.passages.passages import PassageDater
from ctd_jax.index import calendars, corrections, database, manifest, vectors
from ctd_jax.index.building import (
  index_commit,
  source_calendars,
  sources,
  staged_works,
  vector_building,
)
from ctd_jax.index.building.group_dating import DatingChoices, WorkDater
from ctd_jax.index.building.model_dating import LabelPool
from ctd_jax.index.building.sources import DatedWith, SourceWork
from ctd_jax.index.building.staged_works import (
  StagedWork,
  StagingJob,
)
from ctd_jax.index.building.vector_building import VectorPlan
from ctd_jax.index.corrections import Correction, CorrectionStore
from ctd_jax.index.database import MODEL
from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.utils.beam import MapItems
from ctd_jax.utils.notes import Note

LOCK_FILE = ".lock"
# Of `ctd-jax serve`, which may run before the first build.
LOST_FOLDER = "lost"  # records of works that could not be dated again
REPAIR_FOLDER = ".repair"  # a database that is being made again
REPAIR_NAMES = (LOST_FOLDER, REPAIR_FOLDER)
SERVER_NAMES = ("jobs", "uploads", ".secret")
_MAX_NAMED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildOptions:
  """Options for building an index."""

  # Calendar as for `choose_calendar`; None: the index's or data set's.
  reigns: str | None = None
  unit: str | None = None  # of plain text: line or paragraph
  columns: str | None = None  # of a table, see `texts.table`
  hidden_splits: tuple[str, ...] = ()  # splits whose months must not be used
  data_dir: str | None = None  # folder of the built data sets
  # How works are dated.
  choices: DatingChoices = dataclasses.field(default_factory=DatingChoices)
  use_passages: bool = True  # learn to date passages too
  encoder: str | None = None  # None: the index's own; "none": no vectors
  # Maps a function over sources, texts or batches, here or by workers.
  map_items: MapItems[Any, Any] = map


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildResult:
  """Names of the works that a build changed."""

  added: tuple[str, ...]
  unchanged: tuple[str, ...]  # already in the index, same contents
  removed: tuple[str, ...]  # removed or replaced


def build_index(
  folder: pathlib.Path,
  names: Sequence[str],
  options: BuildOptions | None = None,
  removed: Sequence[str] = (),
) -> BuildResult:
  """Adds works to an index, creating it first if necessary.

  Args:
    names: sources, see `sources.make_request`.
    removed: works to remove, by name or by the source they were added from.

  Raises:
    FileNotFoundError: if a source is missing.
    ValueError: if a flag, file or line is wrong; the index stays as it was.
  """
  options = options or BuildOptions()
  requests = [
    sources.make_request(
      folder,
      name,
      options.unit,
      options.hidden_splits,
      options.data_dir,
      options.columns,
    )
    for name in names
  ]
  # Errors before any reading.
  _plan_vectors(folder, options)
  is_new_folder(folder)
  with _lock(folder) as gone:
    works = sources.read_requests(requests, folder, options.map_items)
    for work in works:
      order = "" if work.has_order else ", in no order"
      logging.info("read %s: %s%s", work.name, work.reading, order)
    return _Build(folder, works, options).run(removed, gone=gone)


def build_works(
  folder: pathlib.Path,
  works: Sequence[SourceWork],
  options: BuildOptions,
  targets: Collection[str],
) -> BuildResult:
  """Dates works of an index again, from sources that were just read.

  Args:
    targets: names of the works to date; the others help to date them.
  """
  with _lock(folder):
    return _Build(folder, works, options).run((), targets)


def stage_works(
  folder: pathlib.Path,
  works: Sequence[SourceWork],
  options: BuildOptions,
  targets: Collection[str],
  corrections_of: Mapping[str, Sequence[Correction]],
  later: Collection[str],
) -> list[StagedWork]:
  """Dates works into folders of their own, for a repair that holds the lock.

  Args:
    works: the targets, and other works of their data sets.
    targets: names of the works to date.
    corrections_of: name of a work -> its corrections.
    later: names of works of the index whose dates must not help.
  """
  return _Build(folder, works, options, corrections_of, later).stage(targets)


def finish_build(folder: pathlib.Path) -> None:
  """Writes the manifest of a build that was stopped after its commit."""
  with _lock(folder):  # finishes it
    pass


def _plan_vectors(
  folder: pathlib.Path, options: BuildOptions
) -> tuple[manifest.Manifest | None, VectorPlan | None]:
  previous = None
  if (folder / manifest.MANIFEST_FILE).exists():
    previous = manifest.read_manifest(folder)  # one of another version is left
  plan = vector_building.plan_vectors(
    previous and previous.dense, options.encoder, options.data_dir
  )
  return previous, plan


def is_new_folder(folder: pathlib.Path) -> bool:
  """Returns whether no build has ended in a folder, which may not exist yet.

  Raises:
    ValueError: if it holds something other than an index.
  """
  if folder.exists() and not folder.is_dir():
    raise ValueError(f"--index={folder}: a file; expected a folder")
  if (folder / database.DATABASE_FILE).exists():
    with contextlib.closing(database.open_database(folder)) as connection:
      return database.get_property(connection, "generation") == "0"
  if (folder / manifest.MANIFEST_FILE).exists():
    raise DamagedIndexError(folder / database.DATABASE_FILE, "missing")
  known = {
    LOCK_FILE,
    calendars.CALENDAR_FOLDER,
    staged_works.WORKS_FOLDER,
    staged_works.PASSAGES_FOLDER,
    vectors.VECTORS_FOLDER,
    *REPAIR_NAMES,
    *SERVER_NAMES,
    *corrections.FILE_NAMES,
  }
  names = {path.name for path in folder.iterdir()} if folder.exists() else set()
  others = sorted(
    name
    for name in names - known
    if not name.startswith(corrections.DAMAGED_PREFIX)
  )
  if others:
    raise ValueError(
      f"--index={folder}: holds {', '.join(others[:_MAX_NAMED])} and no index; "
      "name an empty or a new folder"
    )
  return True


@contextlib.contextmanager
def _lock(folder: pathlib.Path) -> Iterator[set[str]]:
  """Holds the lock, after finishing a stopped build; yields what it removed."""
  with lock(folder):
    yield _finish_build(folder)


@contextlib.contextmanager
def lock(folder: pathlib.Path) -> Iterator[None]:
  """Keeps other builds out of an index; the folder is created."""
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / LOCK_FILE
  with path.open("w") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
      raise ValueError(
        Note("problem.build.busy", flag=f"--index={folder}")
      ) from None
    file.write(f"{os.getpid()}\n")
    file.flush()
    yield


def _finish_build(folder: pathlib.Path) -> set[str]:
  """Finishes a build that was stopped after its commit, and checks files.

  Returns:
    names of the works that it removed.
  """
  if not (folder / database.DATABASE_FILE).exists():
    return set()
  before = set()
  if (folder / manifest.MANIFEST_FILE).exists():
    # Another version is left as it is.
    before = {work["name"] for work in manifest.read_manifest(folder).works}
  with contextlib.closing(
    database.open_database(folder, readonly=False)
  ) as connection:
    committed = index_commit.finish_commit(folder, connection)
  if committed:
    index_commit.check_kept_files(folder, committed)
    return before - {work["name"] for work in committed.works}
  return set()


class _Build:
  """One build, from the works that were read to the manifest."""

  def __init__(
    self,
    folder: pathlib.Path,
    works: Sequence[SourceWork],
    options: BuildOptions,
    corrections_of: Mapping[str, Sequence[Correction]] | None = None,
    later: Collection[str] = (),
  ):
    self._folder = folder
    self._later = later  # works whose dates do not help
    self._works = works
    self._options = options
    self._previous, self._plan = _plan_vectors(folder, options)
    _check_names(works)
    options.choices.check_names(works)
    chosen = source_calendars.open_calendar(
      folder, works, options.reigns, is_new_folder(folder)
    )
    self._calendar: Calendar = chosen.calendar
    remembered = options.choices.reigns_of
    self._reigns_of = {
      work.name: remembered[work.name]
      if work.name in remembered
      else chosen.find_own(work, options.reigns)
      for work in works
    }
    self._calendar_sha256 = calendars.hash_calendar(self._calendar)
    database.create_database(folder)
    # Corrections made from now on are left to the next build.
    store = CorrectionStore(folder)
    self._corrections = corrections_of or {
      work.name: store.active(work.name) for work in works
    }
    self._dater = WorkDater(
      self._calendar,
      options.choices,
      works,
      self._corrections,
      self._reigns_of,
      self._find_dater,
    )
    self._manners: dict[str, str] = {}
    self._jobs: dict[str, StagingJob] = {}
    self._staged: list[StagedWork] = []

  def run(
    self,
    removed: Sequence[str],
    targets: Collection[str] | None = None,
    gone: Collection[str] = (),
  ) -> BuildResult:
    with contextlib.closing(
      database.open_database(self._folder, readonly=False)
    ) as connection:
      present = database.list_works(connection)
    removed_names = _find_removed(present, removed, gone)
    folders = {work.name: work.folder for work in present}
    new, unchanged = [], []
    for work in self._works:
      if targets is not None and work.name not in targets:
        continue
      job = self._prepare(work)
      name = f"{staged_works.WORKS_FOLDER}/{job.folder.name}"
      # "~2" ends the name of a folder that was taken twice.
      is_there = folders.get(work.name, "").split("~")[0] == name
      is_there &= work.name not in removed_names
      (unchanged if is_there else new).append(work)
    # Texts that are only dated again have their vectors.
    if self._plan and (self._plan.is_asked or (new and targets is None)):
      _ = self._plan.encoder  # opened now: errors before any dating
    self._date(new)
    replaced = [work.name for work in self._staged if work.name in folders]
    result = BuildResult(
      added=tuple(work.name for work in self._staged),
      unchanged=tuple(sorted(work.name for work in unchanged)),
      removed=(*removed_names, *replaced),
    )
    kept = [work for work in present if work.name not in result.removed]
    dense = self._plan and self._plan.make_vectors(
      self._folder, self._staged, kept, self._options.map_items
    )
    # An index whose works do not change dates passages as before.
    use_passages = self._options.use_passages
    if self._previous and not (self._works or removed):
      use_passages = self._previous.is_for_passages
    index_commit.commit_works(
      self._folder,
      self._calendar,
      self._staged,
      result.removed,
      use_passages,
      dense,
    )
    return result

  def stage(self, targets: Collection[str]) -> list[StagedWork]:
    works = [work for work in self._works if work.name in targets]
    for work in works:
      self._prepare(work)
    self._date(works)
    return self._staged

  def _prepare(self, work: SourceWork) -> StagingJob:
    if not work.is_text:
      self._dater.read_known_months(work)  # errors before any dating
    self._manners[work.name] = self._dater.choose_manner(work)
    self._jobs[work.name] = job = self._make_job(work)
    return job

  def _make_job(self, work: SourceWork) -> StagingJob:
    """Returns the inputs that decide a work's dates; they name its folder."""
    choices = self._options.choices
    fixed, fixed_sha256 = choices.find_fixed(work), None
    if fixed is not None:
      if not fixed.is_file():
        raise FileNotFoundError(f"--fixed={fixed}: no such file")
      fixed_sha256 = manifest.hash_file(fixed).sha256
    sha256 = work.hash_contents()
    key = [
      manifest.FORMAT,
      ctd_jax.__version__,
      sha256,
      self._calendar_sha256,
      self._manners[work.name],
      fixed_sha256,
    ]
    corrections = self._corrections[work.name]
    if corrections:
      key.append([dataclasses.astuple(row) for row in corrections])
    reigns = self._reigns_of[work.name]
    if reigns:
      key.append(reigns)
    name = staged_works.name_folder(work.name, json.dumps(key))
    return StagingJob(
      work=work,
      folder=self._folder / staged_works.WORKS_FOLDER / name,
      sha256=sha256,
      dated_with=DatedWith(
        source=work.request,
        manner=choices.find_manner(work),
        fixed=fixed and sources.shorten_path(self._folder, fixed),
        fixed_sha256=fixed_sha256,
        reigns=reigns,
      ),
      fixed=fixed,
      corrections=corrections,
    )

  def _date(self, works: Sequence[SourceWork]) -> None:
    """Dates and stages works, those with dates of their own first."""
    # The order of the works, and so every byte, is the same whether or not an
    # earlier build has dated some of them.
    found = {}
    for work in works:
      if staged := staged_works.find_staged_work(self._jobs[work.name].folder):
        logging.info("%s: dated by an earlier build", work.name)
        found[work.name] = staged
    by_model = [work for work in works if self._manners[work.name] == MODEL]
    own = [work for work in works if self._manners[work.name] != MODEL]
    texts = [work for work in own if work.is_text and work.name not in found]
    stage = functools.partial(staged_works.stage_text, calendar=self._calendar)
    staged_texts = self._options.map_items(
      stage, [self._jobs[work.name] for work in texts]
    )
    found |= {staged.name: staged for staged in staged_texts}
    for work in own:
      staged = found.get(work.name) or self._date_records(work)
      if staged is None or staged.columns["dated_by"] == MODEL:
        by_model.append(work)
      else:
        self._staged.append(staged)
    names = {work.name for work in by_model}
    if names <= found.keys():
      # As `date_by_model` has them: data sets first.
      by_model.sort(key=lambda work: work.timeline is None)
      self._staged += [found[work.name] for work in by_model]
      return
    # All of them again, if one is missing: each is dated beside the others.
    for dated in self._dater.date_by_model(
      by_model,
      [work for work in self._works if work.name not in names],
      functools.partial(self._list_labels, names),
    ):
      job = self._jobs[dated.source.name]
      dated_with = msgspec.structs.replace(
        job.dated_with, beside=staged_works.hash_names(names)
      )
      job = dataclasses.replace(job, dated_with=dated_with)
      self._staged.append(staged_works.stage_work(job, dated, self._calendar))

  def _date_records(self, work: SourceWork) -> StagedWork | None:
    try:
      dated = self._dater.date_with_own_dates(work, self._manners[work.name])
    except ValueError as error:
      # A commentary among works in order may print no date at all.
      if "prints a month" not in str(error):
        raise
      logging.warning("%s; it is dated by the model", error)
      return None
    job = self._jobs[work.name]
    return staged_works.stage_work(job, dated, self._calendar)

  def _find_dater(
    self, names: Collection[str], num_records: int
  ) -> PassageDater | None:
    """Returns the index's dater of passages, for a few records new to it."""
    previous = self._previous
    if previous is None or any(
      work["name"] in names and work["first_row"] in previous.learned
      for work in previous.works
    ):
      return None
    kept = [work for work in previous.works if work["name"] not in names]
    new = {"first_row": None, "num_records": num_records}
    if not previous.can_learn_later([*kept, new]):
      return None
    entries = {
      name: entry
      for name, entry in previous.files.items()
      if name.startswith(f"{previous.passages}/")
    }
    folder = self._folder / previous.passages
    if any(manifest.find_damage(self._folder, entries)) or not (
      fitting.is_current(folder)
    ):
      return None
    logging.info("dating %s records as passages", f"{num_records:,}")
    return PassageDater.open(folder, self._calendar)

  def _list_labels(self, without: Collection[str]) -> LabelPool:
    """Returns records with certain dates in the index and this build."""
    num_months = len(self._calendar)
    labels = [
      label
      for work in self._staged
      for label in staged_works.iterate_labels(work, num_months)
    ]
    replaced = {work.name for work in self._staged} | {*without, *self._later}
    with contextlib.closing(database.open_database(self._folder)) as connection:
      labels += index_commit.iterate_labels(connection, num_months, replaced)
    return LabelPool(
      texts=[text for text, _ in labels],
      months=np.array([month for _, month in labels], int),
    )


def _check_names(works: Sequence[SourceWork]) -> None:
  by_name: dict[str, SourceWork] = {}
  for work in works:
    first = by_name.setdefault(work.name, work)
    if first is not work:
      raise ValueError(
        Note(
          "problem.build.twice",
          name=work.name,
          first=first.source,
          second=work.source,
        )
      )


def _find_removed(
  present: Sequence[database.IndexedWork],
  removed: Sequence[str],
  gone: Collection[str],
) -> tuple[str, ...]:
  """Returns the names of works to remove; a stopped build removed others."""
  names = []
  for name in removed:
    all_of_name = [
      work
      for work in (*(it.name for it in present), *gone)
      if work == name or work.startswith(f"{name}/")
    ]
    of_name = [work for work in all_of_name if work not in gone]
    if not all_of_name:
      raise ValueError(
        f"--remove={name}: no such work; the index has "
        f"{', '.join(work.name for work in present) or 'none'}"
      )
    names += of_name
  return tuple(dict.fromkeys(names))
