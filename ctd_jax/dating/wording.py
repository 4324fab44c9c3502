"""Which events a text shares its wording with, rare strings weighing most.

Why: a citation, a comment and the parallel work tell an event in words that few
other events have. `Wording` weighs the strings of all events by their rarity;
`overlap` is the weight of the strings that two texts share. Strings that
hundreds of events hold (「公會」) say nothing and are left out, which keeps the
cost linear in the number of records. Called by `citations` and `links`.

Axes: T texts, E events, V strings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.sparse

from ctd_jax.dating import ngrams

_LENGTHS = (2, 3, 4, 5)
_MOST_EVENTS = 300  # that may hold a string
_LEAST_IDF = 1.5  # taken off, so that the commonest strings weigh little


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
    return (scaled @ self.events.T).tocsr()


def read(events: Sequence[str]) -> Wording:
  """Returns the wording of the texts of events [E]."""
  strings, matrix = ngrams.count(events, _LENGTHS)
  idf = np.log(max(len(events), 1) / strings.frequency) - _LEAST_IDF
  kept = np.flatnonzero((idf > 0) & (strings.frequency <= _MOST_EVENTS))
  return Wording(
    strings.restrict(kept), idf[kept].astype(np.float32), matrix[:, kept]
  )


def best(
  overlap: scipy.sparse.csr_array, most: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns rows and columns of about `most` greatest entries of each row.

  Equal entries are taken or left together, so that the order of the events
  plays no part: taken if fewer than `most` are greater, left if that makes more
  than twice `most`. Entries that are not stored do not count.
  """
  rows, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
  for row in range(overlap.shape[0]):
    part = slice(overlap.indptr[row], overlap.indptr[row + 1])
    values, places = overlap.data[part], overlap.indices[part]
    order = np.lexsort((places, -values))[: 2 * most + 1]
    falling = -values[order]
    greater = np.searchsorted(falling, falling, side="left")
    until = np.searchsorted(falling, falling, side="right")
    kept = order[(greater < most) & (until <= 2 * most)]
    rows.append(np.full(len(kept), row))
    columns.append(places[kept])
  return np.concatenate(rows), np.concatenate(columns)


def entries(
  overlap: scipy.sparse.csr_array, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
  """Returns the entries at pairs of places, float32; 0 where none is stored."""
  if not len(rows):
    return np.zeros(0, np.float32)
  return np.asarray(overlap[rows, columns]).ravel().astype(np.float32)


def row_max(overlap: scipy.sparse.csr_array) -> np.ndarray:
  """Returns the greatest entry of each row, 0 for an empty one."""
  result = np.zeros(overlap.shape[0], np.float32)
  held = np.flatnonzero(np.diff(overlap.indptr))
  if len(held):
    result[held] = np.maximum.reduceat(overlap.data, overlap.indptr[held])
  return result
