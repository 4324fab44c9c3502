"""Vectors in a build of an index: which encoder, and of which works.

Vectors are made before the index is changed. Those that are there, of works
that stay or of a build that was broken off, are not made again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence

from absl import logging

from ctd_jax.index.building.staged_works import TEXT_COLUMNS, StagedWork
from ctd_jax.index.dense import encoders, vector_files
from ctd_jax.index.dense.encoders import VectorEncoder
from ctd_jax.index.dense.vector_files import MissingPart
from ctd_jax.index.storage import database
from ctd_jax.index.storage.database import IndexedWork
from ctd_jax.index.storage.manifest import EncoderEntry
from ctd_jax.utils.beam import MapItems

_TEXT = TEXT_COLUMNS.index("text")


@dataclasses.dataclass(frozen=True)
class VectorPlan:
  """With what the vectors of an index are to be made.

  Attributes:
    source: of the encoder, as `encoders.open_encoder` takes it.
    previous: encoder of the index; None if it has none.
    is_asked: whether the source is asked for; else it is the previous one.
    data_dir: of the data set of a run.
  """

  source: str | os.PathLike
  previous: EncoderEntry | None
  is_asked: bool
  data_dir: str | os.PathLike | None = None

  @functools.cached_property
  def encoder(self) -> VectorEncoder:
    """The encoder, which is opened now.

    Raises:
      FileNotFoundError: if it is not where it was.
      ValueError: if it is not asked for, and another one than it was.
    """
    if self.is_asked:
      encoder = encoders.open_encoder(self.source, self.data_dir)
      if self.previous and self.previous.sha256 != encoder.sha256:
        logging.info(
          "vectors of %s take the place of those of %s",
          encoder.name,
          self.previous.name,
        )
      return _keep_open(encoder)
    return _keep_open(
      encoders.open_encoder_of(self.previous, None, self.data_dir)
    )

  def make_vectors(
    self,
    folder: pathlib.Path,
    staged: Sequence[StagedWork],
    kept: Sequence[IndexedWork],
    map_items: MapItems[MissingPart, None] = map,
  ) -> EncoderEntry:
    """Makes the vectors that are missing and returns what the manifest says.

    Args:
      folder: of the index, whose lock is held.
      staged: works that are about to be taken in.
      kept: works that stay.
      map_items: calls a function with all parts that have no vectors.
    """
    if self.is_asked or self._is_missing(folder, staged, kept):
      encoder = self.encoder
      entry = EncoderEntry(
        path=encoder.path,
        name=encoder.name,
        kind=encoder.kind,
        sha256=encoder.sha256,
        dimensions=encoder.dimensions,
        vectors=0,
      )
      write = functools.partial(
        _write_part,
        encoder=encoder.path,
        sha256=encoder.sha256,
        data_dir=self.data_dir,
      )
      for _ in map_items(write, self._list_missing(folder, staged, kept)):
        pass
    else:
      entry = self.previous
    count = sum(map(len, staged)) + sum(work.num_records for work in kept)
    return EncoderEntry(
      **{name: getattr(entry, name) for name in entry.__struct_fields__}
      | {"vectors": count}
    )

  def _is_missing(
    self,
    folder: pathlib.Path,
    staged: Sequence[StagedWork],
    kept: Sequence[IndexedWork],
  ) -> bool:
    """Returns whether a record has no vector of the encoder of the index."""
    hashes = [(work.columns["records_sha256"], len(work)) for work in staged]
    hashes += [(work.records_sha256, work.num_records) for work in kept]
    return any(
      vector_files.count_missing(
        folder / vector_files.name_folder(self.previous.sha256, sha256),
        number,
        self.previous.dimensions,
      )
      for sha256, number in hashes
    )

  def _list_missing(
    self,
    folder: pathlib.Path,
    staged: Sequence[StagedWork],
    kept: Sequence[IndexedWork],
  ) -> Iterator[MissingPart]:
    """Yields the records of an index that have no vectors."""
    works = [
      (work.columns, (row[_TEXT] for row in work.iterate_rows()))
      for work in staged
    ]
    works += [
      (dataclasses.asdict(work), _read_texts(folder, work)) for work in kept
    ]
    width = self.encoder.dimensions
    for columns, texts in works:
      target = folder / vector_files.name_folder(
        self.encoder.sha256, columns["records_sha256"]
      )
      number = columns["num_records"]
      missing = vector_files.count_missing(target, number, width)
      if missing:
        logging.info(
          "%s: vectors of %s records", columns["name"], f"{missing:,}"
        )
        yield from vector_files.list_missing(target, texts, number, width)


# The encoder of this process, by its hash: opening one takes seconds.
_opened: dict[str, VectorEncoder] = {}


def _write_part(
  part: MissingPart,
  *,
  encoder: str,
  sha256: str,
  data_dir: str | os.PathLike | None,
) -> None:
  """Writes the vectors of some records, by an encoder that may be yet to open.

  Raises:
    ValueError: if another encoder lies there.
  """
  if sha256 not in _opened:
    found = encoders.open_encoder(encoder, data_dir)
    if found.sha256 != sha256:
      raise ValueError(
        f"--encoder={encoder}: not the one that the build began with; all "
        "workers have to see the same folder, and nothing may change in it"
      )
    _keep_open(found)
  vector_files.write_part(part, _opened[sha256].encode_records)


def _keep_open(encoder: VectorEncoder) -> VectorEncoder:
  _opened.clear()
  _opened[encoder.sha256] = encoder
  return encoder


def plan_vectors(
  previous: EncoderEntry | None,
  encoder: str | None,
  data_dir: str | os.PathLike | None,
) -> VectorPlan | None:
  """Returns with what vectors are made; None if the index is to have none.

  Args:
    previous: encoder of the index; None if it has none.
    encoder: that is asked for, `encoders.NO_ENCODER` for none; that of the
      index if None.
    data_dir: of the data set of a run.

  Raises:
    FileNotFoundError: if it is not there.
  """
  if encoder is not None and encoder != encoders.NO_ENCODER:
    path = encoders.find_encoder_path(encoder)
    return VectorPlan(path, previous, is_asked=True, data_dir=data_dir)
  if encoder is None and previous is not None:
    return VectorPlan(
      previous.path, previous, is_asked=False, data_dir=data_dir
    )
  return None


def _read_texts(folder: pathlib.Path, work: IndexedWork) -> Iterator[str]:
  """Yields the texts of the records of a work that is in the index."""
  with contextlib.closing(database.open_database(folder)) as connection:
    rows = connection.execute(
      "SELECT text FROM records WHERE row >= ? AND row < ? ORDER BY row",
      (work.rows.start, work.rows.stop),
    )
    for (text,) in rows:
      yield text
