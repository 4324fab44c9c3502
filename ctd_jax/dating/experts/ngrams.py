"""Character n-grams of many texts as one sparse matrix.

Why: style, vocabulary and shared wording all ask which short strings a text
holds. A string is known by a 64-bit hash of its characters, so counting twenty
thousand texts is a sort of integers and no dictionary of strings is kept. Texts
are read in stretches, so that memory grows with what is kept of them alone.
Called by the experts of this package.

Axes: N texts, V strings.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_AT_ONCE = 2**20  # characters whose strings are held at once


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
    parts = [self._encode(stretch) for stretch in _stretches(texts)]
    if not parts:
      return scipy.sparse.csr_array((0, len(self)), dtype=np.float32)
    return scipy.sparse.vstack(parts, format="csr")

  def _encode(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    rows, hashes, _ = _occurrences(texts, np.unique(self.lengths).tolist())
    # Looked up in ascending order, each once: the table is large.
    unique, inverse = np.unique(hashes, return_inverse=True)
    places = np.searchsorted(self.hashes, unique)
    places[places == len(self)] = 0
    if len(self):
      places[self.hashes[places] != unique] = -1
    columns = places[inverse]
    known = columns >= 0 if len(self) else rows < 0
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
  table = read(texts, lengths)
  kept = table.restrict(np.flatnonzero(table.frequency >= at_least))
  return kept, kept.encode(texts)


def read(texts: Sequence[str], lengths: Sequence[int]) -> Strings:
  """Returns the strings of `texts`, of some `lengths` in characters."""
  table, fresh = _strings([], lengths), []
  for stretch in _stretches(texts):
    fresh.append(_strings(stretch, lengths))
    # Rarely enough that all merges together cost what the last one does.
    if sum(map(len, fresh)) > max(len(table), 8 * _AT_ONCE):
      table, fresh = _merged([table, *fresh]), []
  return _merged([table, *fresh])


def _stretches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
  """Yields consecutive texts, of about `_AT_ONCE` characters together."""
  ends = np.cumsum([len(text) for text in texts]) // _AT_ONCE
  starts = np.flatnonzero(np.diff(ends, prepend=-1))
  for start, end in itertools.pairwise([*starts, len(texts)]):
    yield texts[start:end]


def _strings(texts: Sequence[str], lengths: Sequence[int]) -> Strings:
  """Returns the strings of some texts."""
  rows, hashes, sizes = _occurrences(texts, lengths)
  unique, first, columns = np.unique(
    hashes, return_index=True, return_inverse=True
  )
  held = _binary(rows, columns, (len(texts), len(unique)))
  frequency = np.bincount(held.indices, minlength=len(unique))
  return Strings(unique, sizes[first], frequency)


def _merged(parts: Sequence[Strings]) -> Strings:
  """Returns the strings of several sets of texts."""
  hashes = np.concatenate([part.hashes for part in parts])
  order = np.argsort(hashes, kind="stable")
  hashes = hashes[order]
  fresh = np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]
  starts = np.flatnonzero(fresh)
  lengths = np.concatenate([part.lengths for part in parts])
  frequency = np.concatenate([part.frequency for part in parts])[order]
  return Strings(
    hashes[starts], lengths[order[starts]], np.add.reduceat(frequency, starts)
  )


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
