"""Character n-grams of many texts as one sparse matrix.

Why: style, vocabulary and shared wording all ask which short strings a text
holds. A string is known by a 64-bit hash of its characters, so counting twenty
thousand texts is a sort of integers and no dictionary of strings is kept.
Called by the experts of this package.

Axes: N texts, V strings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.sparse

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclasses.dataclass(frozen=True)
class Strings:
  """The strings that count, in the order of the columns.

  Attributes:
    hashes: uint64 [V], ascending.
    lengths: characters of each, int8 [V].
    frequency: number of texts with it, among those it was made of, [V].
  """

  hashes: np.ndarray
  lengths: np.ndarray
  frequency: np.ndarray

  def __len__(self) -> int:
    return len(self.hashes)

  def restrict(self, columns: np.ndarray) -> Strings:
    """Returns the strings of the given columns, which must ascend."""
    return Strings(
      self.hashes[columns], self.lengths[columns], self.frequency[columns]
    )

  def encode(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns float32 [N, V]: 1 where a text holds a string, else 0."""
    rows, hashes, _ = _occurrences(texts, np.unique(self.lengths).tolist())
    columns = np.searchsorted(self.hashes, hashes)
    columns[columns == len(self)] = 0
    known = self.hashes[columns] == hashes if len(self) else rows < 0
    return _binary(rows[known], columns[known], (len(texts), len(self)))


def count(
  texts: Sequence[str], lengths: Sequence[int], at_least: int = 1
) -> tuple[Strings, scipy.sparse.csr_array]:
  """Returns the strings of `texts` and which text holds which.

  Args:
    texts: [N].
    lengths: of the strings, in characters.
    at_least: texts that must hold a string for it to count.

  Returns:
    The strings [V] and float32 [N, V] of ones.
  """
  rows, hashes, sizes = _occurrences(texts, lengths)
  unique, first, columns = np.unique(
    hashes, return_index=True, return_inverse=True
  )
  matrix = _binary(rows, columns, (len(texts), len(unique)))
  frequency = np.bincount(matrix.indices, minlength=len(unique))
  strings = Strings(unique, sizes[first], frequency)
  kept = np.flatnonzero(frequency >= at_least)
  return strings.restrict(kept), matrix[:, kept]


def _occurrences(
  texts: Sequence[str], lengths: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns text, hash and length of every string of the given lengths."""
  codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
  codes = codes.astype(np.uint64)
  owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
  rows, hashes, sizes = [owner[:0]], [codes[:0]], [np.zeros(0, np.int8)]
  for length in lengths:
    places = max(len(codes) - length + 1, 0)
    value = np.full(places, length, np.uint64)
    for shift in range(length):
      value = (value + codes[shift : shift + places]) * _MULTIPLIER
      value ^= value >> np.uint64(29)
    inside = owner[:places] == owner[length - 1 : length - 1 + places]
    rows.append(owner[:places][inside])
    hashes.append(value[inside])
    sizes.append(np.full(int(inside.sum()), length, np.int8))
  return np.concatenate(rows), np.concatenate(hashes), np.concatenate(sizes)


def _binary(
  rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]
) -> scipy.sparse.csr_array:
  ones = np.ones(len(rows), np.float32)
  matrix = scipy.sparse.coo_array((ones, (rows, columns)), shape=shape).tocsr()
  matrix.data[:] = 1
  return matrix
