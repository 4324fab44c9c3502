"""An index's folder: opening reads the manifest, the rest comes on demand."""

from __future__ import annotations

import bisect
import collections
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import sqlite3
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

import ctd_jax
from ctd_jax.index import (
  calendars,
  database,
  encoders,
  question_reading,
  ranking,
  titles,
)
from ctd_jax.index import manifest as manifest_lib
from ctd_jax.index.answers import Versions
from ctd_jax.index.corrections import CorrectionStore
from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.index.vectors import DenseSearch, open_dense_search
from ctd_jax.utils import files

if TYPE_CHECKING:
  from ctd_jax.dating.chronicle.calendar import Calendar
  from ctd_jax.dating.passages.passages import PassageDater

Folder = TypeVar("Folder", bound="IndexFolder")
# Of a file that is read at opening; --check and its first use read all.
_MAX_HASHED = 1 << 20
_MAX_NAMES = 1 << 15  # of months that are remembered
_MAX_REMEMBERED = 16  # results of `remember`; one of wording is 2 MB
_COMMENTARY = "neg_comment"


class IndexFolder:
  """The folder of an index; `open` makes it.

  Attributes:
    folder: of the index.
    manifest: contents of manifest.json.
    works: of the index, in the order they were added.
    editions: work id -> edition, for citations.
    dense: search by vectors; None without.
    verify: raises DamagedIndexError if the bytes of a folder's files, named
      relative to the index, have changed; once for each.
    name_month: cached `calendars.name_month` by ordinal and printed reigns.
    remember: cached call of a function with this index and its arguments.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    manifest: manifest_lib.Manifest,
    sha256: str,
    works: Sequence[database.IndexedWork],
  ):
    self.folder = folder
    self.manifest = manifest
    self._sha256 = sha256
    # In the order they were added; a replacement keeps its place.
    self.works = tuple(sorted(works, key=lambda work: work.work_id))
    self.editions: dict[int, str] = {}
    self._thread = threading.local()
    self._kind_masks: dict[tuple[int, tuple[str, ...]], np.ndarray] = {}
    self.dense: DenseSearch | None = None
    self._files_by_folder = collections.defaultdict(dict)
    for name, entry in manifest.files.items():
      self._files_by_folder[os.path.dirname(name)][name] = entry
    # Hashing takes a second for some hundred megabytes: once per folder.
    self.verify = functools.cache(self._verify)
    self.remember = functools.lru_cache(_MAX_REMEMBERED)(
      lambda function, *arguments: function(self, *arguments)
    )
    # The same months are named in answer after answer.
    self.name_month = functools.lru_cache(_MAX_NAMES)(self._name_month)

  @classmethod
  def open(
    cls: type[Folder],
    path: str | os.PathLike,
    encoder: str | os.PathLike | None = None,
    dense_weight: float | None = None,
  ) -> Folder:
    """Returns the index of a folder.

    Args:
      encoder: path of the encoder that made the index's vectors; None if it has
        not moved, "none" to search words without vectors.
      dense_weight: weight of vectors against words, 0..1; default
        `vectors.DENSE_WEIGHT`.

    Raises:
      FileNotFoundError: if there is no index, or no such encoder.
      DamagedIndexError: if a file is damaged.
      ValueError: if it is of another version; if you give an encoder and the
        index has no vectors.
    """
    folder = pathlib.Path(path).expanduser()
    if folder.is_dir():
      files.check_tree(folder)
    manifest_lib.read_manifest(folder)  # another version is refused here
    with contextlib.closing(database.open_database(folder)) as connection:
      manifest, sha256, works = _read_verified(folder, connection)
    works, editions = titles.read_titles(folder, works)
    index = cls(folder, manifest, sha256, works)
    index.editions = editions
    index.dense = open_dense_search(
      folder, manifest.dense, encoder, dense_weight, index.verify
    )
    return index

  def __repr__(self) -> str:
    return (
      f"<{type(self).__name__} {self.folder}: {self.num_records} records of "
      f"{len(self.works)} works>"
    )

  @property
  def connection(self) -> sqlite3.Connection:
    """Read-only connection to the database, one per thread."""
    if not hasattr(self._thread, "connection"):
      self._thread.connection = database.open_database(self.folder)
    return self._thread.connection

  @functools.cached_property
  def _works_by_row(self) -> list[database.IndexedWork]:
    return sorted(self.works, key=lambda work: work.first_row)

  @functools.cached_property
  def kinds(self) -> tuple[str, ...]:
    """Kinds of the records."""
    rows = self.connection.execute(
      "SELECT DISTINCT kind FROM records ORDER BY kind"
    )
    return tuple(kind for (kind,) in rows if kind)

  @functools.cached_property
  def work_order(self) -> dict[int, int]:
    """Work id -> its place beside the others; commentaries come last."""
    shares = dict(
      self.connection.execute(
        "SELECT work_id, avg(kind = ?) FROM records GROUP BY work_id",
        (_COMMENTARY,),
      )
    )
    ordered = sorted(self.works, key=lambda it: shares.get(it.work_id, 0) > 0.5)
    return {work.work_id: place for place, work in enumerate(ordered)}

  @functools.cached_property
  def calendar(self) -> Calendar:
    """The months of the index."""
    self.verify(calendars.CALENDAR_FOLDER)
    return calendars.load_index_calendar(self.folder)

  @functools.cached_property
  def corrections(self) -> CorrectionStore:
    """Corrections by readers."""
    return CorrectionStore(self.folder)

  @functools.cached_property
  def printed_reigns(self) -> frozenset[int]:
    """Rows of the reigns that any work names."""
    return frozenset(row for work in self.works for row in work.printed_reigns)

  @functools.cached_property
  def day_chances(self) -> Float[np.ndarray, "K 60"]:
    """Chance that a month has each sexagenary day."""
    return calendars.load_day_chances(self.folder, self.calendar)

  @functools.cached_property
  def question_reader(self) -> question_reading.QuestionReader:
    """Reader of questions."""
    names = dict.fromkeys(
      name for work in self.works for name in (work.name, work.title) if name
    )
    return question_reading.QuestionReader(
      self.calendar, self.printed_reigns, [*names], self._count_records
    )

  def _count_records(self) -> Int[np.ndarray, " K"]:
    counts = np.zeros(len(self.calendar) + 1, int)  # last: outside of it
    rows = self.connection.execute(
      "SELECT best_month, COUNT(*) FROM records WHERE kind != ? "
      "GROUP BY best_month",
      (database.HEADING,),
    )
    for month, count in rows:
      if month not in range(len(counts)):
        raise DamagedIndexError(
          self.folder / database.DATABASE_FILE, f"damaged, best_month {month}"
        )
      counts[month] = count
    return counts[:-1]

  @functools.cached_property
  def passage_dater(self) -> PassageDater:
    """Dater of passages.

    Raises:
      FileNotFoundError: if the index has none; says why.
    """
    from ctd_jax.dating.passages.passages import PassageDater

    if self.manifest.passages is None:
      reason = (
        "no record has a certain date; add a work that prints dates, or "
        "correct records and --redate"
        if self.manifest.is_for_passages
        else "it was built with --nopassages; --add a work again without that"
      )
      raise FileNotFoundError(
        f"{self.folder}: this index does not date passages: {reason}"
      )
    self.verify(self.manifest.passages)
    folder = self.folder / self.manifest.passages
    try:
      return PassageDater.open(folder, self.calendar)
    except (FileNotFoundError, ValueError) as error:
      problem = str(error).removeprefix(f"{folder}/")
      raise DamagedIndexError(folder, problem) from error

  @functools.cached_property
  def corpus_spelling(self) -> database.CorpusSpelling:
    """Characters as the texts write them, to read passages in either script."""
    return database.CorpusSpelling(self.passage_dater.characters)

  @property
  def num_records(self) -> int:
    """Number of records."""
    return sum(work.num_records for work in self.works)

  @functools.cached_property
  def versions(self) -> Versions:
    """Versions and hashes for answers."""
    return Versions(
      ctd_jax=ctd_jax.__version__,
      index_format=self.manifest.format,
      generation=self.manifest.generation,
      index_sha256=self._sha256,
      calendar_sha256=self.manifest.calendar["sha256"],
      encoder=self.dense and encoders.describe_encoder(self.dense.entry),
    )

  @functools.cached_property
  def _posteriors(self) -> dict[int, ranking.WorkPosteriors]:
    return {
      work.work_id: ranking.WorkPosteriors(
        self.folder, work, len(self.calendar)
      )
      for work in self.works
    }

  def _name_month(self, ordinal: int, printed_reigns: frozenset[int]) -> str:
    return calendars.name_month(self.calendar, ordinal, printed_reigns)

  def _verify(self, name: str) -> None:
    # Those below were hashed at opening.
    large = {
      name: entry
      for name, entry in self._files_by_folder[name].items()
      if entry.bytes > _MAX_HASHED
    }
    manifest_lib.check_files(self.folder, large)

  def posteriors_of(self, work: database.IndexedWork) -> ranking.WorkPosteriors:
    """Returns the posteriors of a work."""
    self.verify(work.folder)
    return self._posteriors[work.work_id]

  def mask_kinds(
    self, work: database.IndexedWork, kinds: tuple[str, ...]
  ) -> Bool[np.ndarray, " n"]:
    """Returns which of a work's records have some kinds, read-only."""
    key = work.work_id, kinds
    if key not in self._kind_masks:
      rows = self.connection.execute(
        "SELECT row FROM records WHERE work_id = ? AND kind IN "
        f"({', '.join('?' * len(kinds))})",
        [work.work_id, *kinds],
      ).fetchall()
      mask = np.zeros(work.num_records, bool)
      mask[np.array(rows, np.int64).reshape(-1) - work.first_row] = True
      mask.setflags(write=False)
      self._kind_masks[key] = mask
    return self._kind_masks[key]

  def work_of(self, row: int) -> database.IndexedWork:
    """Returns the work of a record.

    Raises:
      IndexError: if there is no such record.
    """
    works = self._works_by_row
    place = bisect.bisect_right(works, row, key=lambda work: work.first_row)
    if place and row in works[place - 1].rows:
      return works[place - 1]
    raise IndexError(
      f"row {row}: no such record; the index has {self.num_records:,}"
    )


def _read_verified(
  folder: pathlib.Path, connection: sqlite3.Connection
) -> tuple[manifest_lib.Manifest, str, list[database.IndexedWork]]:
  """Returns manifest, its sha256 and works, after what is verified fast."""
  while True:
    # As of one moment, whatever build ends now.
    connection.execute("BEGIN")
    manifest, content = database.read_committed(folder, connection)
    try:
      is_same = database.describe_works(connection) == manifest.works
    except json.JSONDecodeError:
      is_same = False
    works = database.list_works(connection) if is_same else []
    connection.execute("COMMIT")
    if not is_same:
      raise DamagedIndexError(
        folder / database.DATABASE_FILE,
        "damaged, its works are not those of the manifest",
      )
    try:
      manifest_lib.check_files(folder, manifest.files, _MAX_HASHED)
    except DamagedIndexError:
      # A build that ended just now may have removed files.
      generation = database.get_property(connection, "generation")
      if generation == str(manifest.generation):
        raise
    else:
      return manifest, hashlib.sha256(content).hexdigest(), works
