"""Which events a text shares its wording with, rare strings weighing most.

Why: a citation, a comment and the parallel work tell an event in words that few
other events have. `Wording` weighs the strings of all events by their rarity;
`overlap` is the weight of the strings that two texts share. Strings that
hundreds of events hold (「公會」) say little and are left out. That limit is a
number and no share of the events: a string of a text then costs at most so many
matches in a gallery of any size, and the cost is linear in the characters of
all texts; of a large gallery the rarer strings remain, the longer ones and the
names. Matches are made for a stretch of texts at a time (`stretches`). Called
by `citations` and `links`.

Axes: T texts, E events, V strings.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse

from ctd_jax.dating.experts import ngrams

_LENGTHS = (2, 3, 4, 5)
_MOST_EVENTS = 300  # that may hold a string
_LEAST_IDF = 1.5  # taken off, so that the commonest strings weigh little
_TEXTS = 8192  # encoded at once
_MATCHES = 10_000_000  # of texts with events, held at once


@dataclasses.dataclass(frozen=True)
class Wording:
  """The strings of the events.

  Attributes:
    strings: those that count, [V].
    idf: weight of each string, float32 [V].
    events: which event holds which string, [E, V].
  """

  strings: ngrams.Strings
  idf: np.ndarray
  events: scipy.sparse.csr_array

  @property
  def own_weight(self) -> np.ndarray:
    """Weight of all strings of each event, [E]."""
    return self.events @ self.idf

  @functools.cached_property
  def _holders(self) -> scipy.sparse.csr_array:
    """Which string is held by which event, [V, E]."""
    return self.events.T.tocsr()

  def encode(self, texts: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns which of the strings `texts` hold, [T, V]."""
    return self.strings.encode(texts)

  def overlap(self, held: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Returns the weight of the shared strings, sparse [T, E].

    Args:
      held: from `encode`.
    """
    scaled = held.copy()
    scaled.data = self.idf[held.indices]
    return scaled @ self._holders

  def stretches(
    self, *texts: Sequence[str], most: int = _MATCHES
  ) -> Iterator[tuple[slice, list[scipy.sparse.csr_array]]]:
    """Yields which texts, and which of the strings they hold, [t, V] each.

    Args:
      *texts: lists of equal length T, read side by side.
      most: matches that the overlaps of a stretch may have, roughly.
    """
    frequency = self.strings.frequency
    for start in range(0, len(texts[0]), _TEXTS):
      held = [self.encode(each[start : start + _TEXTS]) for each in texts]
      matches = np.cumsum(sum(each @ frequency for each in held))
      edges = np.flatnonzero(np.diff(matches // most, prepend=-1))
      for first, end in itertools.pairwise([*edges, len(matches)]):
        part = slice(start + int(first), start + int(end))
        yield part, [each[first:end] for each in held]


def read(events: Sequence[str]) -> Wording:
  """Returns the wording of the texts of events [E]."""
  strings = ngrams.read(events, _LENGTHS)
  idf = np.log(max(len(events), 1) / strings.frequency) - _LEAST_IDF
  kept = np.flatnonzero((idf > 0) & (strings.frequency <= _MOST_EVENTS))
  strings = strings.restrict(kept)
  return Wording(strings, idf[kept].astype(np.float32), strings.encode(events))


def best(
  overlap: scipy.sparse.csr_array, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns rows, columns and values of about `most` greatest of each row.

  Equal entries are taken or left together, so that the order of the events
  plays no part: taken if fewer than `most` are greater, left if that makes more
  than twice `most`. Entries that are not stored do not count.
  """
  rows, columns = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
  values = [np.zeros(0, np.float32)]
  for row in range(overlap.shape[0]):
    part = slice(overlap.indptr[row], overlap.indptr[row + 1])
    line, places = overlap.data[part], overlap.indices[part]
    wanted = 2 * most + 1
    if len(line) > wanted:
      least = np.partition(line, len(line) - wanted)[len(line) - wanted]
      great = np.flatnonzero(line >= least)
      line, places = line[great], places[great]
    order = np.lexsort((places, -line))[:wanted]
    falling = -line[order]
    greater = np.searchsorted(falling, falling, side="left")
    until = np.searchsorted(falling, falling, side="right")
    kept = order[(greater < most) & (until <= 2 * most)]
    rows.append(np.full(len(kept), row, np.int32))
    columns.append(places[kept])
    values.append(line[kept])
  return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def entries(
  overlap: scipy.sparse.csr_array, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
  """Returns the entries at pairs of places, float32; 0 where none is stored.

  Args:
    overlap: sparse [T, E].
    rows: ascending, [P].
    columns: [P].
  """
  result = np.zeros(len(rows), np.float32)
  line = np.zeros(overlap.shape[1], np.float32)
  ends = np.searchsorted(rows, np.arange(overlap.shape[0] + 1))
  for row, (start, end) in enumerate(itertools.pairwise(ends)):
    part = slice(overlap.indptr[row], overlap.indptr[row + 1])
    line[overlap.indices[part]] = overlap.data[part]
    result[start:end] = line[columns[start:end]]
    line[overlap.indices[part]] = 0
  return result


def row_max(overlap: scipy.sparse.csr_array) -> np.ndarray:
  """Returns the greatest entry of each row, 0 for an empty one."""
  result = np.zeros(overlap.shape[0], np.float32)
  held = np.flatnonzero(np.diff(overlap.indptr))
  if len(held):
    result[held] = np.maximum.reduceat(overlap.data, overlap.indptr[held])
  return result
