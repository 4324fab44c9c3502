"""Vectors of the records of a work: float32 in files that are mapped.

`vectors/<encoder>-<records>/` is named after the hashes of the encoder and of
the records, so that vectors are made once for each text, whatever becomes of
its dates. It holds parts of `PART_SIZE` records, each written whole: a build
that is broken off does not make them again.

Axes: n records of a work, b of a part, D width of a vector.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Float, Float32

from ctd_jax.utils import files

VECTORS_FOLDER = "vectors"
# Records of a file: what is lost where a build is broken off.
PART_SIZE = 4096
_KEY_DIGITS = 16


def name_folder(encoder_sha256: str, records_sha256: str) -> str:
  """Returns the folder of a work's vectors, relative to that of the index."""
  return (
    f"{VECTORS_FOLDER}/{encoder_sha256[:_KEY_DIGITS]}-"
    f"{records_sha256[:_KEY_DIGITS]}"
  )


def count_missing(folder: pathlib.Path, num_records: int, width: int) -> int:
  """Returns of how many records there are no vectors yet.

  Args:
    folder: of the work's vectors.
    num_records: of the work.
    width: of a vector.
  """
  return sum(
    stop - start
    for start, stop in _list_parts(num_records)
    if not _is_whole(_part_path(folder, start, stop), stop - start, width)
  )


@dataclasses.dataclass(frozen=True)
class MissingPart:
  """Records whose vectors are yet to be made, and where these go.

  Attributes:
    path: of the file of vectors.
    texts: of the records, in order.
  """

  path: pathlib.Path
  texts: list[str]


def list_missing(
  folder: pathlib.Path, texts: Iterable[str], num_records: int, width: int
) -> Iterator[MissingPart]:
  """Yields the parts of a work that have no vectors yet.

  Args:
    folder: of the work's vectors.
    texts: of its records, in order.
    num_records: of the work.
    width: of a vector.
  """
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
  """Writes the vectors of a part.

  Args:
    part: of a work.
    encode: texts -> vectors of length 1.
  """
  with files.atomic_path(part.path) as temporary, temporary.open("wb") as file:
    np.save(file, np.asarray(encode(part.texts), np.float32))


class WorkVectors:
  """The vectors of a work."""

  def __init__(self, parts: Sequence[Float32[np.ndarray, "b D"]]):
    """Keeps parts, in order of the records."""
    self._parts = parts

  @classmethod
  def open(
    cls, folder: pathlib.Path, num_records: int, width: int
  ) -> WorkVectors:
    """Returns the vectors of a work, mapped from files.

    Args:
      folder: of the work's vectors.
      num_records: of the work.
      width: of a vector.

    Raises:
      ValueError: naming the file that is missing or damaged.
    """
    parts = []
    for start, stop in _list_parts(num_records):
      path = _part_path(folder, start, stop)
      if not _is_whole(path, stop - start, width):
        raise ValueError(
          f"{path}: missing, or no vectors of {stop - start} records and width "
          f"{width}; make them anew by python -m ctd_jax.index --encoder=..."
        )
      parts.append(np.load(path, mmap_mode="r"))
    return cls(parts)

  def __len__(self) -> int:
    """Number of records."""
    return sum(map(len, self._parts))

  def iterate_parts(self) -> Iterator[Float32[np.ndarray, "b D"]]:
    """Yields the vectors of consecutive records."""
    yield from self._parts

  def find_cosines(
    self, vector: Float32[np.ndarray, " D"]
  ) -> Float32[np.ndarray, " n"]:
    """Returns the cosine of every record with a vector of length 1."""
    cosines = [part @ vector for part in self._parts]
    return np.concatenate([np.empty(0, np.float32), *cosines])


def _list_parts(num_records: int) -> list[tuple[int, int]]:
  return [
    (start, min(start + PART_SIZE, num_records))
    for start in range(0, num_records, PART_SIZE)
  ]


def _part_path(folder: pathlib.Path, start: int, stop: int) -> pathlib.Path:
  return folder / f"{start:09}-{stop:09}.npy"


def _is_whole(path: pathlib.Path, num_records: int, width: int) -> bool:
  """Returns whether a file has the vectors of as many records."""
  try:
    vectors = np.load(path, mmap_mode="r")
  except (OSError, ValueError, EOFError):
    return False
  return vectors.shape == (num_records, width) and vectors.dtype == np.float32
