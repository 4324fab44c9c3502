"""Dense search: the records nearest to words by their vectors.

Every record is compared, nothing is approximate. A record's score is its cosine
scaled from 0, the mean of all records, to 1, the nearest, because encoders
differ in how far apart their cosines lie.

Axes: n records of a work, N records of all works.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from ctd_jax.index import encoders, manifest
from ctd_jax.index.database import IndexedWork
from ctd_jax.index.encoders import VectorEncoder
from ctd_jax.index.manifest import DamagedIndexError, EncoderEntry
from ctd_jax.utils import files

# Vectors of a work, float32 in mapped files. `vectors/<encoder>-<records>/` is
# named after the hashes of encoder and records, so that a text is encoded once
# however its dates change. Each part of `PART_SIZE` records is written whole,
# so that an interrupted build does not make it again. Its hash is beside it
# until a manifest has that.
#
# Axes: n records of a work, b of a part, D width of a vector.


VECTORS_FOLDER = "vectors"
# Records per file: at most this many are lost when a build is stopped.
PART_SIZE = 4096
_KEY_DIGITS = 16


def name_folder(encoder_sha256: str, records_sha256: str) -> str:
  """Returns the folder of a work's vectors, relative to that of the index."""
  return (
    f"{VECTORS_FOLDER}/{encoder_sha256[:_KEY_DIGITS]}-"
    f"{records_sha256[:_KEY_DIGITS]}"
  )


def count_missing(folder: pathlib.Path, num_records: int, width: int) -> int:
  """Returns the number of records without a vector so far."""
  return sum(
    stop - start
    for start, stop in _list_parts(num_records)
    if not _is_whole(_part_path(folder, start, stop), stop - start, width)
  )


@dataclasses.dataclass(frozen=True)
class MissingPart:
  """Records whose vectors are missing, and the file for these."""

  path: pathlib.Path
  texts: list[str]


def list_missing(
  folder: pathlib.Path, texts: Iterable[str], num_records: int, width: int
) -> Iterator[MissingPart]:
  """Yields the parts of a work that have no vectors yet."""
  remaining = iter(texts)
  for start, stop in _list_parts(num_records):
    batch = list(itertools.islice(remaining, stop - start))
    path = _part_path(folder, start, stop)
    if not _is_whole(path, len(batch), width):
      yield MissingPart(path, batch)


def write_part(
  part: MissingPart,
  encode: Callable[[Sequence[str]], Float[np.ndarray, "b D"]],
) -> None:
  """Encodes and writes the vectors of a part."""
  with files.atomic_path(part.path) as temporary:
    np.save(temporary, np.asarray(encode(part.texts), np.float32))
    # For the build that goes on with the parts of one that was stopped.
    _hash_path(part.path).write_text(manifest.hash_file(temporary).sha256)


class WorkVectors:
  """The vectors of a work."""

  def __init__(self, parts: Sequence[Float32[np.ndarray, "b D"]]):
    self.parts = parts  # of consecutive records

  @classmethod
  def open(
    cls, folder: pathlib.Path, num_records: int, width: int
  ) -> WorkVectors:
    """Returns the vectors of a work, mapped from files."""
    parts = []
    for start, stop in _list_parts(num_records):
      path = _part_path(folder, start, stop)
      if not _is_whole(path, stop - start, width):
        raise DamagedIndexError(
          path,
          f"missing or damaged, expected {stop - start} vectors of width "
          f"{width}",
        )
      parts.append(files.map_array(path))
    return cls(parts)

  def __len__(self) -> int:
    return sum(map(len, self.parts))

  def find_cosines(
    self, vector: Float32[np.ndarray, " D"]
  ) -> Float32[np.ndarray, " n"]:
    """Returns the cosine of every record with a vector of length 1."""
    cosines = [part @ vector for part in self.parts]
    return np.concatenate([np.empty(0, np.float32), *cosines])


def _list_parts(num_records: int) -> list[tuple[int, int]]:
  return [
    (start, min(start + PART_SIZE, num_records))
    for start in range(0, num_records, PART_SIZE)
  ]


def _part_path(folder: pathlib.Path, start: int, stop: int) -> pathlib.Path:
  return folder / f"{start:09}-{stop:09}.npy"


def _hash_path(path: pathlib.Path) -> pathlib.Path:
  """Returns the file of a part's sha256, until the manifest has it."""
  return path.with_name(f".{path.name}.sha256")


def _is_whole(path: pathlib.Path, num_records: int, width: int) -> bool:
  try:
    vectors = files.map_array(path)
  except (OSError, ValueError):
    return False
  hash_path = _hash_path(path)
  if hash_path.exists() and (
    hash_path.read_text("utf-8") != manifest.hash_file(path).sha256
  ):
    return False
  return vectors.shape == (num_records, width) and vectors.dtype == np.float32


# Records that are answers without having the words; as many as words may match.
NUM_NEAR = 500
# Of vectors against words, 0..1. Chosen on validation questions, see
# docs/results/appendix.md.
DENSE_WEIGHT = 0.1
Masks = Mapping[int, Bool[np.ndarray, " n"]]  # by the id of a work


@dataclasses.dataclass(frozen=True, eq=False)
class NearRecords:
  """Similarity of records to words."""

  rows: frozenset[int]  # the nearest, and the nearest in the time asked for
  # Work id -> of all its records.
  cosines: Mapping[int, Float32[np.ndarray, " n"]]
  lowest: float  # cosine of score 0, the mean
  highest: float  # cosine of score 1, the nearest

  def score(
    self, work_id: int, indices: Int[np.ndarray, " r"]
  ) -> Float[np.ndarray, " r"]:
    """Returns scores in 0..1 of records by their indices in a work."""
    cosines = self.cosines[work_id][indices]
    span = max(self.highest - self.lowest, 1e-6)
    return np.clip((cosines - self.lowest) / span, 0, 1)


class DenseSearch:
  """The vectors of an index, and the encoder of questions."""

  def __init__(
    self,
    folder: pathlib.Path,
    entry: EncoderEntry,
    source: str | os.PathLike | None,
    weight: float,
    verify: Callable[[str], None],
  ):
    """Opens files and encoder on first use; see `open_dense_search`."""
    self._verify = verify
    self._folder, self.entry, self._source = folder, entry, source
    self.weight = weight
    self._vectors: dict[int, WorkVectors] = {}

  @functools.cached_property
  def encoder(self) -> VectorEncoder:
    """The encoder that made the vectors."""
    return encoders.open_encoder_of(self.entry, self._source)

  def vectors_of(self, work: IndexedWork) -> WorkVectors:
    """Returns the vectors of a work."""
    if work.work_id not in self._vectors:
      name = name_folder(self.entry.sha256, work.records_sha256)
      self._verify(name)
      self._vectors[work.work_id] = WorkVectors.open(
        self._folder / name, work.num_records, self.entry.dimensions
      )
    return self._vectors[work.work_id]

  def find_near(
    self,
    text: str,
    works: Sequence[IndexedWork],
    masks: Masks | None = None,
    in_time: Masks | None = None,
  ) -> NearRecords:
    """Returns the similarity of records to a text.

    Args:
      text: text of the question, without its time.
      works: one at least.
      masks: records that may be found; None for all.
      in_time: records of the time asked for.
    """
    (vector,) = self.encoder.encode_questions([text])
    cosines = {
      work.work_id: self.vectors_of(work).find_cosines(vector) for work in works
    }
    joined = _join(works, cosines)
    members = np.ones(len(joined), bool)
    if masks is not None:
      members &= _join(works, masks)
    nearest = _select_nearest(joined, members)
    if in_time is not None:
      within = _select_nearest(joined, members & _join(works, in_time))
      nearest = np.union1d(nearest, within)
    all_rows = np.concatenate([work.rows for work in works])
    values = joined[members] if members.any() else np.zeros(1, np.float32)
    return NearRecords(
      rows=frozenset(all_rows[nearest].tolist()),
      cosines=cosines,
      lowest=float(values.mean()),
      highest=float(values.max()),
    )


def open_dense_search(
  folder: pathlib.Path,
  entry: EncoderEntry | None,
  encoder: str | os.PathLike | None,
  weight: float | None,
  verify: Callable[[str], None],
) -> DenseSearch | None:
  """Returns the dense search of an index; None if it has or needs none.

  Args:
    encoder: its current location; `encoders.NO_ENCODER` not to ask it.
    weight: weight of vectors against words; `DENSE_WEIGHT` if None.
    verify: raises an error if a folder of the index is damaged.
  """
  if entry is None and encoder not in (None, encoders.NO_ENCODER):
    raise ValueError(
      f"--encoder={encoder}: the index has no vectors; python -m ctd_jax.index "
      f"--index={folder} --encoder={encoder} makes them"
    )
  if entry is None or encoder == encoders.NO_ENCODER:
    if weight is not None:
      raise ValueError(
        f"dense_weight={weight}: there are no vectors to weigh; leave it out"
      )
    return None
  weight = DENSE_WEIGHT if weight is None else weight
  if not 0 <= weight <= 1:
    raise ValueError(f"dense_weight={weight}: expected 0 to 1")
  if encoder is not None:
    encoder = encoders.find_encoder_path(encoder)
  return DenseSearch(folder, entry, encoder, weight, verify)


def _join(works: Sequence[IndexedWork], values: Mapping) -> np.ndarray:
  return np.concatenate([np.asarray(values[work.work_id]) for work in works])


def _select_nearest(
  cosines: Float32[np.ndarray, " N"], members: Bool[np.ndarray, " N"]
) -> Int[np.ndarray, " m"]:
  indices = np.flatnonzero(members)
  if len(indices) <= NUM_NEAR:
    return indices
  best = np.argpartition(-cosines[indices], NUM_NEAR - 1)[:NUM_NEAR]
  return indices[best]
