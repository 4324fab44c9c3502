"""Vectors in a build: which encoder makes them, for which works.

Vectors are made before the index changes. Existing vectors are kept, whether
their work stays or an interrupted build left them.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence

import msgspec
from absl import logging

from ctd_jax.index import database, encoders, vectors
from ctd_jax.index.building.staged_works import TEXT_COLUMNS, StagedWork
from ctd_jax.index.database import IndexedWork
from ctd_jax.index.encoders import VectorEncoder
from ctd_jax.index.manifest import EncoderEntry
from ctd_jax.index.vectors import MissingPart
from ctd_jax.utils.beam import MapItems

_TEXT = TEXT_COLUMNS.index("text")


@dataclasses.dataclass(frozen=True)
class VectorPlan:
  """The encoder that makes the missing vectors of an index."""

  source: str | os.PathLike  # as for `encoders.open_encoder`
  previous: EncoderEntry | None  # encoder of the index so far
  is_asked: bool  # False: the source is the previous one
  data_dir: str | os.PathLike | None = None  # of the data set of a run

  @functools.cached_property
  def encoder(self) -> VectorEncoder:
    """The encoder, opened on first use.

    Raises:
      FileNotFoundError: if it is missing.
      ValueError: if the index's own encoder has changed.
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
    """Makes missing vectors; returns the manifest's entry.

    Args:
      staged: works about to be added.
      kept: works that stay.
      map_items: maps a function over the parts without vectors.
    """
    works = [
      _Records(
        work.name,
        work.columns["records_sha256"],
        len(work),
        functools.partial(_read_staged_texts, work),
      )
      for work in staged
    ]
    works += [
      _Records(
        work.name,
        work.records_sha256,
        work.num_records,
        functools.partial(_read_indexed_texts, folder, work),
      )
      for work in kept
    ]
    entry = self.previous
    if self.is_asked or any(
      _count_missing(folder, work, entry.sha256, entry.dimensions)
      for work in works
    ):
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
      for _ in map_items(write, _list_missing(folder, works, encoder)):
        pass
    return msgspec.structs.replace(
      entry, vectors=sum(work.number for work in works)
    )


@dataclasses.dataclass(frozen=True)
class _Records:
  """Records of a work, staged or in the database."""

  name: str
  sha256: str
  number: int
  read_texts: Callable[[], Iterator[str]]


def _read_staged_texts(work: StagedWork) -> Iterator[str]:
  return (row[_TEXT] for row in work.iterate_rows())


def _read_indexed_texts(
  folder: pathlib.Path, work: IndexedWork
) -> Iterator[str]:
  with contextlib.closing(database.open_database(folder)) as connection:
    rows = connection.execute(
      "SELECT text FROM records WHERE row >= ? AND row < ? ORDER BY row",
      (work.rows.start, work.rows.stop),
    )
    for (text,) in rows:
      yield text


def _count_missing(
  folder: pathlib.Path, work: _Records, encoder_sha256: str, width: int
) -> int:
  target = folder / vectors.name_folder(encoder_sha256, work.sha256)
  return vectors.count_missing(target, work.number, width)


def _list_missing(
  folder: pathlib.Path, works: Sequence[_Records], encoder: VectorEncoder
) -> Iterator[MissingPart]:
  width = encoder.dimensions
  for work in works:
    missing = _count_missing(folder, work, encoder.sha256, width)
    if missing:
      logging.info("%s: vectors of %s records", work.name, f"{missing:,}")
      target = folder / vectors.name_folder(encoder.sha256, work.sha256)
      yield from vectors.list_missing(
        target, work.read_texts(), work.number, width
      )


# The encoder of this process, by its hash: opening one takes seconds.
_opened: dict[str, VectorEncoder] = {}


def _write_part(
  part: MissingPart,
  *,
  encoder: str,
  sha256: str,
  data_dir: str | os.PathLike | None,
) -> None:
  if sha256 not in _opened:
    found = encoders.open_encoder(encoder, data_dir)
    if found.sha256 != sha256:
      raise ValueError(
        f"--encoder={encoder}: not the one that the build began with; all "
        "workers have to see the same folder, and nothing may change in it"
      )
    _keep_open(found)
  vectors.write_part(part, _opened[sha256].encode_records)


def _keep_open(encoder: VectorEncoder) -> VectorEncoder:
  _opened.clear()
  _opened[encoder.sha256] = encoder
  return encoder


def plan_vectors(
  previous: EncoderEntry | None,
  encoder: str | None,
  data_dir: str | os.PathLike | None,
) -> VectorPlan | None:
  """Returns the plan for vectors; None if the index is to have none.

  Args:
    previous: encoder of the index.
    encoder: from the flag; `encoders.NO_ENCODER` for none, None for `previous`.

  Raises:
    FileNotFoundError: if it is missing.
  """
  if encoder is not None and encoder != encoders.NO_ENCODER:
    path = encoders.find_encoder_path(encoder)
    return VectorPlan(path, previous, is_asked=True, data_dir=data_dir)
  if encoder is None and previous is not None:
    return VectorPlan(
      previous.path, previous, is_asked=False, data_dir=data_dir
    )
  return None
