"""Builder of an index: works in, a folder that answers out.

A build goes in this order, so that it can be broken off anywhere:

1. All that is added is read; what cannot be read ends the build here.
2. Each work is dated and put into a folder of its own below `works/`. A build
   that is started again takes those that are there.
3. Vectors are made, if the index has an encoder. Those that are there are kept.
4. One transaction of the database takes all works in and replaces what they
   replace. Before it the index is the old one, after it the new one.
5. The manifest is written, and folders that nothing uses are removed.

One builder works on a folder at a time (`.lock`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from absl import logging

import ctd_jax
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.index import calendars
from ctd_jax.index.building import (
  calendar_choice,
  corpus_reading,
  group_dating,
  index_commit,
  source_requests,
  staged_works,
  text_staging,
  vector_building,
)
from ctd_jax.index.building.group_dating import DatingChoices, WorkDater
from ctd_jax.index.building.model_dating import LabelPool
from ctd_jax.index.building.source_requests import SourceRequest
from ctd_jax.index.building.source_works import SourceWork
from ctd_jax.index.building.staged_works import DatedWith, StagedWork
from ctd_jax.index.building.text_staging import TextJob
from ctd_jax.index.building.vector_building import VectorPlan
from ctd_jax.index.building.work_dating import DatedWork
from ctd_jax.index.dense import vector_files
from ctd_jax.index.storage import correction_file, database, manifest
from ctd_jax.index.storage.corrections import CorrectionStore
from ctd_jax.utils.beam import MapItems

LOCK_FILE = ".lock"
# What `ctd-jax serve` has in the folder, also of an index that is yet to be
# built.
SERVER_NAMES = ("jobs", "uploads", ".secret")
_MAX_NAMED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildOptions:
  """How an index is built.

  Attributes:
    reigns: calendar, as of `chronicle_input.load_reigns`; that of the index or
      of the data set if None.
    unit: of plain text, "line" or "paragraph"; found from the text if None.
    hidden_splits: splits of data sets whose months are not to be used.
    data_dir: folder of the built data sets.
    choices: how works are dated.
    use_passages: whether the index is to date passages that it has not.
    encoder: of vectors, as of `encoders.open_encoder`, or "none"; that of the
      index if None.
    map_items: calls a function with every source, work or batch of records,
      here or by workers; see `beam`.
  """

  reigns: str | None = None
  unit: str | None = None
  hidden_splits: tuple[str, ...] = ()
  data_dir: str | None = None
  choices: DatingChoices = dataclasses.field(default_factory=DatingChoices)
  use_passages: bool = True
  encoder: str | None = None
  map_items: MapItems[Any, Any] = map


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildResult:
  """What a build did.

  Attributes:
    added: names of the works that were taken in.
    unchanged: names of works that the index had as they are.
    removed: names of works that were removed or replaced.
  """

  added: tuple[str, ...]
  unchanged: tuple[str, ...]
  removed: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Addition:
  """A work that is added.

  Attributes:
    work: as read.
    request: of what it was read from.
  """

  work: SourceWork
  request: SourceRequest


def build_index(
  folder: pathlib.Path,
  sources: Sequence[str],
  options: BuildOptions | None = None,
  removed: Sequence[str] = (),
) -> BuildResult:
  """Adds works to an index, which is made if there is none.

  Args:
    folder: of the index.
    sources: data sets, BEIR folders, files and folders, as
      `corpus_reading.read_source` reads them.
    options: how.
    removed: names of works, or of what they were added as, to be removed.

  Raises:
    FileNotFoundError: if a source is missing.
    ValueError: naming the flag, file and line of what is wrong; the index is
      what it was.
  """
  options = options or BuildOptions()
  requests = [
    source_requests.make_request(
      folder, source, options.unit, options.hidden_splits, options.data_dir
    )
    for source in sources
  ]
  # Errors before any reading.
  _plan_vectors(folder, options)
  is_new_folder(folder)
  with _lock(folder):
    works_of = source_requests.read_requests(
      requests, folder, options.map_items
    )
    additions = [
      Addition(work, request)
      for request, works in zip(requests, works_of, strict=True)
      for work in works
    ]
    corpus_reading.log_reading([addition.work for addition in additions])
    return _build_works(folder, additions, options, removed)


def build_works(
  folder: pathlib.Path,
  additions: Sequence[Addition],
  options: BuildOptions,
  removed: Sequence[str] = (),
  targets: Collection[str] | None = None,
) -> BuildResult:
  """Takes works that were read into an index.

  Args:
    folder: of the index.
    additions: the works.
    options: how.
    removed: as of `build_index`.
    targets: names of the works that are dated, by the others too; None of
      all.

  Raises:
    FileNotFoundError: if an encoder is missing.
    ValueError: as of `build_index`.
  """
  with _lock(folder):
    return _build_works(folder, additions, options, removed, targets)


def _build_works(
  folder: pathlib.Path,
  additions: Sequence[Addition],
  options: BuildOptions,
  removed: Sequence[str],
  targets: Collection[str] | None = None,
) -> BuildResult:
  """As `build_works`, in a folder that is locked."""
  previous, plan = _plan_vectors(folder, options)
  works = [addition.work for addition in additions]
  _check_names(works)
  options.choices.check_names(works)
  calendar = calendar_choice.open_calendar(
    folder, works, options.reigns, is_new_folder(folder)
  )
  database.create_database(folder)
  build = _Build(folder, calendar, additions, options, previous, plan)
  return build.run(removed, targets)


def _plan_vectors(
  folder: pathlib.Path, options: BuildOptions
) -> tuple[manifest.Manifest | None, VectorPlan | None]:
  """Returns the manifest of the last build, and what is to make vectors."""
  previous = None
  if (folder / manifest.MANIFEST_FILE).exists():
    previous = manifest.read_manifest(folder)  # one of another version is left
  plan = vector_building.plan_vectors(
    previous and previous.dense, options.encoder, options.data_dir
  )
  return previous, plan


def is_new_folder(folder: pathlib.Path) -> bool:
  """Whether no build has ended in a folder, which may be yet to be made.

  Args:
    folder: of an index.

  Raises:
    ValueError: if it holds what is no index.
  """
  if folder.exists() and not folder.is_dir():
    raise ValueError(f"--index={folder}: a file; expected a folder")
  if (folder / database.DATABASE_FILE).exists():
    with contextlib.closing(database.open_database(folder)) as connection:
      return database.get_property(connection, "generation") == "0"
  known = {
    LOCK_FILE,
    calendars.CALENDAR_FOLDER,
    staged_works.WORKS_FOLDER,
    staged_works.PASSAGES_FOLDER,
    vector_files.VECTORS_FOLDER,
    *SERVER_NAMES,
    *correction_file.FILE_NAMES,
  }
  names = {path.name for path in folder.iterdir()} if folder.exists() else set()
  others = sorted(names - known)
  if others:
    raise ValueError(
      f"--index={folder}: holds {', '.join(others[:_MAX_NAMED])} and no index; "
      "name an empty folder or one that is yet to be made"
    )
  return True


def _check_names(works: Sequence[SourceWork]) -> None:
  source_of: dict[str, str] = {}
  for work in works:
    if work.name in source_of:
      raise ValueError(
        f"two works are called {work.name}: {source_of[work.name]} and "
        f"{work.source}; rename one file or folder"
      )
    source_of[work.name] = work.source


@contextlib.contextmanager
def _lock(folder: pathlib.Path) -> Iterator[None]:
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / LOCK_FILE
  with path.open("w") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
      raise ValueError(
        f"--index={folder}: another build works on it; wait until it has ended"
      ) from None
    file.write(f"{os.getpid()}\n")
    yield


class _Build:
  """One build, from the works that were read to the manifest."""

  def __init__(
    self,
    folder: pathlib.Path,
    calendar: Calendar,
    additions: Sequence[Addition],
    options: BuildOptions,
    previous: manifest.Manifest | None,
    plan: VectorPlan | None,
  ):
    self._folder = folder
    self._calendar = calendar
    works = [addition.work for addition in additions]
    self._works = works
    self._request_of = {row.work.name: row.request for row in additions}
    self._options = options
    self._previous = previous
    self._plan = plan
    # What is corrected from now on is left to the next build.
    store = CorrectionStore(folder)
    self._corrections = {work.name: store.active(work.name) for work in works}
    self._dater = WorkDater(calendar, options.choices, works, self._corrections)
    self._staged: list[StagedWork] = []
    self._manners: dict[str, str] = {}
    self._sha256 = {work.name: work.hash_contents() for work in works}

  def run(
    self, removed: Sequence[str], targets: Collection[str] | None
  ) -> BuildResult:
    with contextlib.closing(
      database.open_database(self._folder, readonly=False)
    ) as connection:
      present = database.list_works(connection)
    removed_names = _find_removed(present, removed)
    folders = {work.name: work.folder for work in present}
    works = [
      work for work in self._works if targets is None or work.name in targets
    ]
    for work in works:
      if not work.is_text:
        self._dater.read_known_months(work)  # errors before any dating
      self._manners[work.name] = self._dater.choose_manner(work)
    unchanged = [
      work
      for work in works
      if folders.get(work.name, "").split("~")[0] == self._folder_of(work)
      and work.name not in removed_names
    ]
    names = {work.name for work in unchanged}
    new = [work for work in works if work.name not in names]
    # Texts that are but dated again have their vectors.
    if self._plan and (self._plan.is_asked or (new and targets is None)):
      _ = self._plan.encoder  # opened now: errors before any dating
    self._date(new)
    replaced = [work.name for work in self._staged if work.name in folders]
    result = BuildResult(
      added=tuple(work.name for work in self._staged),
      unchanged=tuple(sorted(names)),
      removed=(*removed_names, *replaced),
    )
    kept = [work for work in present if work.name not in result.removed]
    index_commit.commit_works(
      self._folder,
      self._calendar,
      self._staged,
      result.removed,
      self._uses_passages(removed),
      self._plan
      and self._plan.make_vectors(
        self._folder, self._staged, kept, self._options.map_items
      ),
    )
    return result

  def _uses_passages(self, removed: Sequence[str]) -> bool:
    """Returns whether the index is to date passages.

    Where its works stay what they are, so does this.
    """
    if self._works or removed or self._previous is None:
      return self._options.use_passages
    return self._previous.is_for_passages

  def _folder_of(self, work: SourceWork) -> str:
    """Returns the folder of a work, named after all its dates depend on."""
    key = [
      manifest.FORMAT,
      ctd_jax.__version__,
      self._sha256[work.name],
      calendars.hash_calendar(self._calendar),
      self._manners[work.name],
      self._hash_fixed(work),
    ]
    if self._corrections[work.name]:
      key.append(
        [dataclasses.astuple(row) for row in self._corrections[work.name]]
      )
    name = staged_works.name_folder(work.name, json.dumps(key))
    return f"{staged_works.WORKS_FOLDER}/{name}"

  def _hash_fixed(self, work: SourceWork) -> str | None:
    """Returns the sha256 of the file of --fixed of a work; None without.

    Raises:
      FileNotFoundError: if there is no such file.
    """
    path = self._options.choices.find_fixed(work)
    if path is None:
      return None
    if not path.is_file():
      raise FileNotFoundError(f"--fixed={path}: no such file")
    return manifest.hash_file(path).sha256

  def _date(self, works: Sequence[SourceWork]) -> None:
    """Dates works, those with dates of their own first."""
    missing = []
    for work in works:
      staged = staged_works.find_staged_work(
        self._folder / self._folder_of(work)
      )
      if staged is None:
        missing.append(work)
      else:
        logging.info("%s: dated by an earlier build", work.name)
        self._staged.append(staged)
    own, others = group_dating.split_by_manner(
      missing, lambda work: self._manners[work.name]
    )
    staged_texts = self._stage_texts([work for work, _ in own if work.is_text])
    for work, manner in own:
      if work.is_text:
        self._staged.append(staged_texts[work.name])
        continue
      try:
        dated = self._dater.date_with_own_dates(work, manner)
      except ValueError as error:
        # A commentary among works in order may print no date at all.
        if "prints a month" not in str(error):
          raise
        logging.warning("%s; it is dated by the model", error)
        others.append(work)
        continue
      self._stage(dated)
    for dated in self._dater.date_by_model(
      others,
      [work for work in self._works if work not in others],
      functools.partial(self._list_labels, {work.name for work in others}),
    ):
      self._stage(dated)

  def _stage_texts(self, works: Sequence[SourceWork]) -> dict[str, StagedWork]:
    """Returns texts dated by their order, each by itself, by name."""
    jobs = [
      TextJob(
        work=work,
        fixed=self._options.choices.find_fixed(work),
        corrections=self._corrections[work.name],
        folder=self._folder / self._folder_of(work),
        sha256=self._sha256[work.name],
        dated_with=self._describe_dating(work),
      )
      for work in works
    ]
    stage = functools.partial(text_staging.stage_text, calendar=self._calendar)
    staged = self._options.map_items(stage, jobs) if jobs else ()
    return {work.name: work for work in staged}

  def _describe_dating(self, work: SourceWork) -> DatedWith:
    """Returns with what a work is dated beside its text, but corrections."""
    choices = self._options.choices
    fixed = choices.find_fixed(work)
    return DatedWith(
      source=self._request_of[work.name],
      manner=choices.find_manner(work),
      fixed=fixed and source_requests.shorten_path(self._folder, fixed),
      fixed_sha256=self._hash_fixed(work),
    )

  def _stage(self, dated: DatedWork) -> None:
    work = dated.source
    # A text that the model dates has lost its entries.
    source = next(row for row in self._works if row.name == work.name)
    dated_with = msgspec.structs.replace(
      self._describe_dating(source),
      corrections=dated.corrections.applied,
      left_out=dict(dated.corrections.left_out),
    )
    folder = self._folder / self._folder_of(source)
    self._staged.append(
      staged_works.stage_work(
        folder, dated, self._calendar, self._sha256[work.name], dated_with
      )
    )

  def _list_labels(self, without: Collection[str]) -> LabelPool:
    """Returns what is dated for sure, in the index and in this build.

    Args:
      without: names of the works that are about to be dated by it.
    """
    num_months = len(self._calendar)
    texts: list[str] = []
    months: list[np.ndarray] = [np.empty(0, int)]
    for work in self._staged:
      of_work = staged_works.list_labels(work, num_months)
      texts += of_work[0]
      months.append(of_work[1])
    replaced = {work.name for work in self._staged} | {*without}
    with contextlib.closing(database.open_database(self._folder)) as connection:
      for text, month in index_commit.iterate_labels(
        connection, num_months, replaced
      ):
        texts.append(text)
        months.append(np.array([month]))
    return LabelPool(texts=texts, months=np.concatenate(months))


def _find_removed(
  present: Sequence[database.IndexedWork], removed: Sequence[str]
) -> tuple[str, ...]:
  """Returns the names of the works that flags name.

  Raises:
    ValueError: if there is no such work.
  """
  names = []
  for name in removed:
    of_name = [
      work.name
      for work in present
      if work.name == name or work.name.startswith(f"{name}/")
    ]
    if not of_name:
      raise ValueError(
        f"--remove={name}: no such work; the index has "
        f"{', '.join(work.name for work in present) or 'none'}"
      )
    names += of_name
  return tuple(dict.fromkeys(names))
