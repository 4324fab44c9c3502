"""The index that is served, in its newest state.

Axes: n records of a work, K months.
"""

from __future__ import annotations

import functools
import pathlib
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np
from absl import logging
from jaxtyping import Bool, Float, Int, Int32

from ctd_jax.index import asking
from ctd_jax.index.search import Index
from ctd_jax.index.storage import database, manifest
from ctd_jax.web import month_records
from ctd_jax.web.errors import NoIndexError
from ctd_jax.web.event_alignment import UsualWording

Argument = TypeVar("Argument", bound=Hashable)
Result = TypeVar("Result")

_COMMENTARY = "neg_comment"
_MAX_RESULTS = 128  # of questions that are remembered
_MAX_MONTHS = 96  # that are remembered, up to 200 kB each
_MAX_USUAL = 16  # stretches whose usual wording is remembered, 2 MB each
# While a build ends, the state before reads rows of the state after.
_SECONDS_TO_REPLACE, _SECONDS_PER_LOOK = 5.0, 0.05
_NO_MARK = (0, 0)  # of a manifest that is not there
_MAX_DENSITIES = 64  # choices of works and kinds that are remembered


class ServedIndex:
  """One state of an index, with what its pages compute once.

  Attributes:
    index: that is asked.
    passage_lock: held while a passage is dated; one at a time is as fast.
  """

  def __init__(self, index: Index):
    """Keeps the index."""
    self.index = index
    self.passage_lock = threading.Lock()
    self.find_density = functools.lru_cache(_MAX_DENSITIES)(self._find_density)
    self.remember = functools.lru_cache(_MAX_RESULTS)(self._call)
    self.read_month = functools.lru_cache(_MAX_MONTHS)(self._read_month)
    self.read_usual = functools.lru_cache(_MAX_USUAL)(self._read_usual)

  def _call(
    self,
    function: Callable[[ServedIndex, Argument], Result],
    argument: Argument,
  ) -> Result:
    """Returns what a function makes of this state and an argument."""
    return function(self, argument)

  def is_current(self) -> bool:
    """Whether the database is in the state that the manifest is of."""
    generation = database.get_property(self.index.connection, "generation")
    return generation == str(self.index.manifest.generation)

  @functools.cached_property
  def years(self) -> Int[np.ndarray, " K"]:
    """Astronomical year of each month, never falling.

    Where calendars change, a month may be counted to a year already past.
    """
    return np.maximum.accumulate(self.index.calendar.years)

  @functools.cached_property
  def best_months(self) -> Int32[np.ndarray, " rows"]:
    """The most probable month of each row; far below 0 where there is none."""
    pairs = self.index.connection.execute(
      "SELECT row, best_month FROM records"
    ).fetchall()
    rows, months = np.array(pairs, np.int32).reshape(-1, 2).T
    best_months = np.full(
      rows.max(initial=0) + 1, np.iinfo(np.int32).min, np.int32
    )
    best_months[rows] = months
    return best_months

  @functools.cached_property
  def coverage(self) -> dict[int, tuple[int, int]]:
    """Work id -> first and last of the most probable months of its records."""
    rows = self.index.connection.execute(
      "SELECT work_id, min(best_month), max(best_month) FROM records "
      "WHERE best_month < ? GROUP BY work_id",
      (len(self.index.calendar),),
    )
    return {work_id: (first, last) for work_id, first, last in rows}

  @functools.cached_property
  def titles(self) -> dict[str, str]:
    """Name of a work -> what readers know it by."""
    return {work.name: work.title or work.name for work in self.index.works}

  @functools.cached_property
  def commentaries(self) -> frozenset[int]:
    """Ids of the works that explain more than they tell."""
    counts = self.index.connection.execute(
      "SELECT work_id, avg(kind = ?) FROM records GROUP BY work_id",
      (_COMMENTARY,),
    )
    return frozenset(work_id for work_id, share in counts if share > 0.5)

  def select_works(
    self, names: tuple[str, ...]
  ) -> tuple[database.IndexedWork, ...]:
    """Returns works by their names or titles; all for none."""
    return tuple(
      work
      for work in self.index.works
      if not names or work.name in names or work.title in names
    )

  def mask_kinds(
    self, works: tuple[str, ...] = (), kinds: tuple[str, ...] = ()
  ) -> Mapping[int, Bool[np.ndarray, " n"]] | None:
    """Returns work id -> which records are of the kinds; see `asking`."""
    return asking.mask_kinds(
      self.index, self.select_works(works), kinds or None
    )

  def _read_month(self, ordinal: int) -> month_records.Month:
    return month_records.read_month(self, ordinal)

  def _read_usual(self, stretch: int) -> UsualWording:
    return month_records.read_usual(self, stretch)

  def _find_density(
    self, works: tuple[str, ...], kinds: tuple[str, ...]
  ) -> Float[np.ndarray, " K"]:
    """Returns the expected number of records of each month.

    Args:
      works: names; all for none.
      kinds: of the records; all but headings for none.
    """
    masks = self.mask_kinds(works, kinds)
    num_months = len(self.index.calendar)
    density = np.zeros(num_months)
    for work in self.select_works(works):
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
  """Opens an index, and opens it again when its manifest has changed."""

  def __init__(
    self,
    folder: pathlib.Path,
    encoder: str | None = None,
    may_be_new: bool = False,
  ):
    """Opens the index, and the encoder of its vectors if it has any.

    Args:
      folder: of the index.
      encoder: as of `Index.open`.
      may_be_new: whether the index may be yet to be built.

    Raises:
      FileNotFoundError: if there is no index, or no encoder.
      ValueError: naming the file that is damaged; if it is another encoder, or
        the folder can be none of an index.
    """
    self._folder, self._encoder = folder, encoder
    self._lock = threading.Lock()
    self._mark = self._read_mark()
    self._served = None
    if not (may_be_new and self._mark == _NO_MARK and _is_new(folder)):
      self._served = self._open()

  @property
  def opened(self) -> ServedIndex | None:
    """The state that was opened last; None if there is none yet."""
    return self._served

  @property
  def has_index(self) -> bool:
    """Whether there is an index by now."""
    return self.newest is not None

  def get(self) -> ServedIndex:
    """Returns the newest state that can be opened.

    Raises:
      NoIndexError: if the index is yet to be built.
    """
    served = self.newest
    if served is None:
      raise NoIndexError
    return served

  @property
  def newest(self) -> ServedIndex | None:
    """The newest state that can be opened; None if there is none yet."""
    mark = self._read_mark()
    if mark != self._mark and self._lock.acquire(blocking=False):
      try:
        self._reopen(mark)
      finally:
        self._lock.release()
    return self._served

  def wait_for_newer(self, served: ServedIndex | None) -> ServedIndex | None:
    """Returns the state after one that is being replaced; None if it is not.

    Between the end of a build in the database and in the manifest, and until
    files are opened again, an old state reads rows of a new one.

    Args:
      served: the state that something was looked for in.
    """
    deadline = time.monotonic() + _SECONDS_TO_REPLACE
    while time.monotonic() < deadline:
      newest = self.newest
      if newest is not served:
        return newest
      if served is None or served.is_current():
        return None
      time.sleep(_SECONDS_PER_LOOK)
    return None

  def _open(self) -> ServedIndex:
    index = Index.open(self._folder, encoder=self._encoder)
    if index.dense is not None:
      _ = index.dense.encoder  # so that the first question does not wait
    return ServedIndex(index)

  def _reopen(self, mark: tuple[int, int]) -> None:
    try:
      served = self._open()
    except (OSError, ValueError) as error:
      # As while files are being replaced; the state before still answers.
      logging.warning("the index has changed and cannot be opened: %s", error)
      return
    self._served, self._mark = served, mark
    logging.info(
      "generation %d of the index is served", served.index.manifest.generation
    )

  def _read_mark(self) -> tuple[int, int]:
    try:
      status = (self._folder / manifest.MANIFEST_FILE).stat()
    except OSError:
      return _NO_MARK
    return status.st_mtime_ns, status.st_ino


def _is_new(folder: pathlib.Path) -> bool:
  """Whether an index is yet to be built in a folder, and can be."""
  from ctd_jax.index.building import index_builder  # takes seconds to import

  return index_builder.is_new_folder(folder)
