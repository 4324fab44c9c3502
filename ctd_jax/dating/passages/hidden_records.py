"""Hidden records: those without a label, as parallels of a passage.

A record whose month is not known still says something of a passage in the same
words: what it believes of its year. The beliefs of records that the dater dates
itself are of their own evidence alone, so that nothing of a passage that is
left out of the corpus comes back to it.

Axes: N records, n hidden ones, Y years.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse
from jaxtyping import Float32, Int

_MIN_PROBABILITY = 1e-4  # of a year that is kept
_MASS = 0.999  # that the years kept of a record have


@dataclasses.dataclass(frozen=True, eq=False)
class HiddenRecords:
  """What records without a label are thought to be of.

  Attributes:
    rows: of the records, ascending.
    starts: where the years of each begin; the last entry is their number.
    years: that are likely.
    probabilities: of these.
    month_chances: of the months of a year, by the printed date.
    best_citations: `citations.BEST` of each, sparse [n, Y].
    high_citations: `citations.BEST_ABOVE_FIRST_STEP`, likewise.
  """

  rows: Int[np.ndarray, " n"]
  starts: Int[np.ndarray, " starts"]
  years: Int[np.ndarray, " q"]
  probabilities: Float32[np.ndarray, " q"]
  month_chances: Float32[np.ndarray, "n 12"]
  best_citations: scipy.sparse.csr_array
  high_citations: scipy.sparse.csr_array

  def find(self, rows: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """Returns the index of records, -1 for those that are not hidden."""
    if not len(self.rows):
      return np.full(len(rows), -1)
    index = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
    return np.where(self.rows[index] == rows, index, -1)

  def log_beliefs(
    self, indices: Int[np.ndarray, " m"], year_prior: np.ndarray
  ) -> np.ndarray:
    """Returns log p of the years of hidden records, [m, Y].

    Args:
      indices: of the hidden records.
      year_prior: of the years, over which the rest is spread.
    """
    result = np.zeros((len(indices), len(year_prior)))
    for chances, index in zip(result, indices.tolist(), strict=True):
      span = slice(self.starts[index], self.starts[index + 1])
      rest = max(1 - float(self.probabilities[span].sum()), 1e-9)
      chances[:] = rest * year_prior
      chances[self.years[span]] += self.probabilities[span]
    return np.log(result)


def compress_beliefs(
  chances: Float32[np.ndarray, "b Y"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns numbers of years, the likely years, and their probabilities.

  Args:
    chances: of the years of some records.
  """
  order = np.argsort(-chances, axis=1, kind="stable")
  ranked = np.take_along_axis(chances, order, 1)
  is_kept = (np.cumsum(ranked, axis=1) - ranked < _MASS) & (
    ranked >= _MIN_PROBABILITY
  )
  return is_kept.sum(axis=1), order[is_kept], ranked[is_kept]
