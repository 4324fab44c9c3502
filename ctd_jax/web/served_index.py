"""The served index: permanent addresses, caches and reloading.

A record's address is its work and id; its row changes with every build.

Axes: n records of a work, K months.
"""

from __future__ import annotations

import functools
import pathlib
import threading
import time
from collections.abc import Callable, Collection, Hashable
from typing import TypeVar
from urllib.parse import quote

import numpy as np
from absl import logging
from jaxtyping import Float, Int

from ctd_jax.index import database, manifest, matches
from ctd_jax.index.asking import Index
from ctd_jax.index.index_folder import IndexFolder

RECORD_PATH = "/record"
_MAX_WORKS = 1_000  # quoted names in the cache
_MAX_RESULTS = 128  # answers in the cache
# While a build ends, an old state may read rows of the new one.
_SECONDS_TO_REPLACE, _SECONDS_PER_LOOK = 5.0, 0.05
_NO_MARK = (0, 0)  # without a manifest
_MAX_DENSITIES = 64  # choices of works and kinds in the cache

Argument = TypeVar("Argument", bound=Hashable)
Result = TypeVar("Result")


def make_record_path(work: str, record_id: str) -> str:
  """Returns the address of a record."""
  return f"{RECORD_PATH}/{_quote_work(work)}/{quote(record_id, safe='')}"


@functools.lru_cache(_MAX_WORKS)
def _quote_work(name: str) -> str:
  return quote(name, safe="/")


def name_records(
  index: IndexFolder, rows: Collection[int]
) -> dict[int, tuple[str, str]]:
  """Returns row -> work and id of records."""
  found = database.fetch_columns(index.connection, rows, "record_id")
  return {row: (index.work_of(row).name, record_id) for row, record_id in found}


def find_row(index: IndexFolder, work: str, record_id: str) -> int | None:
  """Returns the row of a record, or None."""
  return index.connection.execute(
    "SELECT min(row) FROM records JOIN works USING (work_id) "
    "WHERE works.name = ? AND record_id = ?",
    (work, record_id),
  ).fetchone()[0]


def find_row_of_path(index: IndexFolder, path: str) -> int | None:
  """Returns the row of WORK/RECORD_ID, or None."""
  names = [
    work.name for work in index.works if path.startswith(f"{work.name}/")
  ]
  # Names and ids may both have slashes: try the longest name first.
  for name in sorted(names, key=len, reverse=True):
    row = find_row(index, name, path.removeprefix(f"{name}/"))
    if row is not None:
      return row
  return None


class NoIndexError(Exception):
  """There is no index yet."""


class ServedIndex:
  """One state of an index, with values that its pages share."""

  def __init__(self, index: Index):
    self.index = index
    self.find_density = functools.lru_cache(_MAX_DENSITIES)(self._find_density)
    self._remembered: dict[Callable, Callable] = {}

  def remember(
    self,
    function: Callable[[ServedIndex, Argument], Result],
    argument: Argument,
    size: int = _MAX_RESULTS,
  ) -> Result:
    """Returns `function(self, argument)`, cached.

    Args:
      function: a module-level function; each has its own cache.
      size: number of results to keep.
    """
    if function not in self._remembered:
      call = functools.lru_cache(size)(functools.partial(function, self))
      # setdefault: threads arriving at once share the first cache.
      self._remembered.setdefault(function, call)
    return self._remembered[function](argument)

  def pin_path(self, path: str) -> str:
    """Returns an address with the hash of the index."""
    return f"{path}?index={self.index.versions.index_sha256}"

  def is_current(self) -> bool:
    """Whether database and manifest belong to the same build."""
    generation = database.get_property(self.index.connection, "generation")
    return generation == str(self.index.manifest.generation)

  @functools.cached_property
  def years(self) -> Int[np.ndarray, " K"]:
    """Astronomical year of each month, never decreasing."""
    return np.maximum.accumulate(self.index.calendar.years)

  @functools.cached_property
  def coverage(self) -> dict[int, tuple[int, int]]:
    """Work id -> first and last of its records' most probable months."""
    rows = self.index.connection.execute(
      "SELECT work_id, min(best_month), max(best_month) FROM records "
      "WHERE best_month < ? GROUP BY work_id",
      (len(self.index.calendar),),
    )
    return {work_id: (first, last) for work_id, first, last in rows}

  @functools.cached_property
  def titles(self) -> dict[str, str]:
    """Name of a work -> its title."""
    return {work.name: work.title or work.name for work in self.index.works}

  def select_works(
    self, names: tuple[str, ...]
  ) -> tuple[database.IndexedWork, ...]:
    """Returns works by name or title; all of them if no name is given."""
    return tuple(
      work
      for work in self.index.works
      if not names or work.name in names or work.title in names
    )

  def _find_density(
    self, names: tuple[str, ...], kinds: tuple[str, ...]
  ) -> Float[np.ndarray, " K"]:
    """Returns the expected number of records per month."""
    works = self.select_works(names)
    masks = matches.mask_kinds(self.index, works, kinds or None)
    num_months = len(self.index.calendar)
    density = np.zeros(num_months)
    for work in works:
      arrays = self.index.posteriors_of(work).arrays
      weights = np.ones(len(arrays))
      if masks is not None:
        weights = masks[work.work_id].astype(float)
      chances = arrays.probabilities * np.repeat(
        weights, np.diff(arrays.starts)
      )
      density += np.bincount(arrays.months, chances, num_months)
      density += float(arrays.rest @ weights) / num_months
    return density


class IndexHolder:
  """Opens an index, and reopens it when its manifest changes."""

  def __init__(
    self,
    folder: pathlib.Path,
    encoder: str | None = None,
    may_be_new: bool = False,
  ):
    """Opens the index and the encoder of its vectors.

    Args:
      may_be_new: whether the index may not exist yet.

    Raises:
      FileNotFoundError: if index or encoder is missing.
      ValueError: if a file is damaged or the encoder is another one.
    """
    self._folder, self._encoder = folder, encoder
    self._lock = threading.Lock()
    self._mark = self._read_mark()
    self._problem = ""  # that was logged
    self.opened: ServedIndex | None = None  # the state opened last
    if may_be_new and self._mark == _NO_MARK:
      # Takes seconds to import.
      from ctd_jax.index.building import index_builder

      if index_builder.is_new_folder(folder):
        return
    self.opened = self._open()

  def get(self) -> ServedIndex:
    """Returns the newest state that can be opened."""
    served = self.newest
    if served is None:
      raise NoIndexError
    return served

  @property
  def newest(self) -> ServedIndex | None:
    """The newest state that can be opened, or None."""
    mark = self._read_mark()
    if mark != self._mark and self._lock.acquire(blocking=False):
      try:
        self._reopen(mark)
      finally:
        self._lock.release()
    return self.opened

  def wait_for_newer(self, served: ServedIndex | None) -> ServedIndex | None:
    """Returns the state that replaces `served`, or None if it is still current.

    While a build ends, an old state may read rows of the new one.
    """
    deadline = time.monotonic() + _SECONDS_TO_REPLACE
    is_tried = False
    while time.monotonic() < deadline:
      newest = self.newest
      if newest is not served:
        return newest
      if served is None or served.is_current():
        return None
      # The database is ahead of the manifest, for a moment or, if the build was
      # stopped there, until the next one.
      with self._lock:
        if self.opened is served and not is_tried:
          self._reopen(self._read_mark())
          is_tried = True
          continue
      time.sleep(_SECONDS_PER_LOOK)
    return None

  def _open(self) -> ServedIndex:
    index = Index.open(self._folder, encoder=self._encoder)
    if index.dense is not None:
      _ = index.dense.encoder  # loaded now, so that the first question is fast
    return ServedIndex(index)

  def _reopen(self, mark: tuple[int, int]) -> None:
    try:
      served = self._open()
    except (OSError, ValueError) as error:
      # Files may be half replaced; the old state still answers. Each request
      # tries again.
      if str(error) != self._problem:
        self._problem = str(error)
        logging.warning("the index has changed and cannot be opened: %s", error)
      return
    self._problem = ""
    self.opened, self._mark = served, mark
    logging.info(
      "generation %d of the index is served", served.index.manifest.generation
    )

  def _read_mark(self) -> tuple[int, int]:
    try:
      status = (self._folder / manifest.MANIFEST_FILE).stat()
    except OSError:
      return _NO_MARK
    return status.st_mtime_ns, status.st_ino
