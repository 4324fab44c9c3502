"""Vectors in a build: which encoder makes them, for which works.

Vectors are made before the index changes. Existing vectors are kept, whether
their work stays or an interrupted build left them.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence

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
    """The encoder, opened on first use; the index's own must be unchanged."""
    if not self.is_asked:
      return _keep_open(
        encoders.open_encoder_of(self.previous, None, self.data_dir)
      )
    encoder = encoders.open_encoder(self.source, self.data_dir)
    if self.previous and self.previous.sha256 != encoder.entry.sha256:
      logging.info(
        "vectors of %s replace those of %s",
        encoder.entry.name,
        self.previous.name,
      )
    return _keep_open(encoder)

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
    works = [*staged, *kept]
    entry = self.previous
    if self.is_asked or any(
      _count_missing(folder, work, entry) for work in works
    ):
      entry = self.encoder.entry
      write = functools.partial(
        _write_part,
        encoder=entry.path,
        sha256=entry.sha256,
        data_dir=self.data_dir,
      )
      for _ in map_items(write, _list_missing(folder, works, entry)):
        pass
    return msgspec.structs.replace(
      entry, vectors=sum(work.num_records for work in works)
    )


def _read_texts(
  folder: pathlib.Path, work: StagedWork | IndexedWork
) -> Iterator[str]:
  if isinstance(work, StagedWork):
    for row in work.iterate_rows():
      yield row[_TEXT]
    return
  with contextlib.closing(database.open_database(folder)) as connection:
    rows = connection.execute(
      "SELECT text FROM records WHERE row >= ? AND row < ? ORDER BY row",
      (work.rows.start, work.rows.stop),
    )
    for (text,) in rows:
      yield text


def _count_missing(
  folder: pathlib.Path, work: StagedWork | IndexedWork, entry: EncoderEntry
) -> int:
  target = folder / vectors.name_folder(entry.sha256, work.records_sha256)
  return vectors.count_missing(target, work.num_records, entry.dimensions)


def _list_missing(
  folder: pathlib.Path,
  works: Sequence[StagedWork | IndexedWork],
  entry: EncoderEntry,
) -> Iterator[MissingPart]:
  for work in works:
    if missing := _count_missing(folder, work, entry):
      logging.info("%s: vectors of %s records", work.name, f"{missing:,}")
      target = folder / vectors.name_folder(entry.sha256, work.records_sha256)
      texts = _read_texts(folder, work)
      yield from vectors.list_missing(
        target, texts, work.num_records, entry.dimensions
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
    if found.entry.sha256 != sha256:
      raise ValueError(
        f"--encoder={encoder}: not the one that the build began with; all "
        "workers have to see the same folder, and nothing may change in it"
      )
    _keep_open(found)
  vectors.write_part(part, _opened[sha256].encode_records)


def _keep_open(encoder: VectorEncoder) -> VectorEncoder:
  _opened.clear()
  _opened[encoder.entry.sha256] = encoder
  return encoder


def plan_vectors(
  previous: EncoderEntry | None,
  encoder: str | None,
  data_dir: str | os.PathLike | None,
) -> VectorPlan | None:
  """Returns the plan for vectors; None for an index without vectors.

  Args:
    previous: encoder of the index.
    encoder: encoder from the flag; `encoders.NO_ENCODER` for none, None for
      `previous`.
  """
  if encoder == encoders.NO_ENCODER or (encoder is None and previous is None):
    return None
  # An empty path, as of a shell variable that is not set, is refused.
  path = (
    previous.path if encoder is None else encoders.find_encoder_path(encoder)
  )
  return VectorPlan(path, previous, encoder is not None, data_dir)
