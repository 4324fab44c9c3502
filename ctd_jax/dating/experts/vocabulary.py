"""Names and words of their years: which years speak like this text.

Why: persons, places and wars come and go. For every string of characters the
known records give a density over the years, smoothed by kernels of several
widths so that it reaches over a held-out block of two or three years; its ratio
to the density of all strings is evidence. How far to believe strings of a given
length and rarity is learned out of fold (`pool_weights`), because neighbouring
strings of one phrase say the same thing again. Called by `dater`.

Axes: N records, n some of them, S a sample, V strings, G groups of strings,
Y years.

Source: naive Bayes with kernel densities and log-linear pooling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.sparse

from ctd_jax.dating.corpus import Labels, MonthAxis
from ctd_jax.dating.experts import ngrams

NGRAM_LENGTHS = (1, 2, 3, 4)
KERNEL_WIDTHS = (2.0, 5.0, 14.0)  # years, standard deviation of each kernel
_RARITY_EDGES = (2, 4, 8, 20, 60, 200)  # texts with the string, lower edges
_MIN_GROUP_STRINGS = 100  # strings that make a group of their own
_SATURATION_POWER = 0.5  # a string told n times in a year counts n ** this
_DENSITY_PSEUDO_COUNT = 2.0  # pseudo-counts of the density of all strings
_BLOCK = 32_768  # strings whose densities are held at once


@dataclasses.dataclass(frozen=True)
class YearVocabulary:
  """Strings of a sample of the records, and the group of each.

  The strings of the other records are looked up when they are asked about, so
  that memory is bounded by the sample.

  Attributes:
    texts: of all records, [N].
    strings: those that count, [V].
    groups: strings of each group, columns of `matrix`.
    sample: records that densities are learned from, ascending, [S].
    matrix: which of them holds which string, [S, V].
  """

  texts: Sequence[str]
  strings: ngrams.NgramVocabulary
  groups: tuple[np.ndarray, ...]
  sample: np.ndarray
  matrix: scipy.sparse.csr_array

  @property
  def num_experts(self) -> int:
    """Number of scores that `year_log_ratios` gives a record and year, G * widths."""
    return len(self.groups) * len(KERNEL_WIDTHS)

  def year_log_ratios(
    self,
    axis: MonthAxis,
    labels: Labels,
    is_training: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray | None = None,
  ) -> np.ndarray:
    """Returns log ratios of years: [experts, n, Y], or weighted [n, Y].

    Args:
      axis: the years.
      labels: known months.
      is_training: which known records are read, bool [N].
      rows: records asked about, [n].
      weights: of the experts; None for their separate scores.
    """
    counts = self._count_by_year(axis, labels, is_training)
    has_count = np.diff(counts.indptr) > 0
    total_counts = np.asarray(counts.sum(axis=0)).ravel()
    query_matrix = self.strings.encode(
      [self.texts[row] for row in rows]
    ).tocsc()
    is_in_query = np.diff(query_matrix.indptr) > 0
    densities = [
      _SmoothedDensity.from_counts(kernel, total_counts)
      for kernel in make_year_kernels(axis.num_years)
    ]
    expert_shape = (self.num_experts,) if weights is None else ()
    result = np.zeros((*expert_shape, len(rows), axis.num_years), np.float32)
    for group, columns in enumerate(self.groups):
      experts = np.arange(len(KERNEL_WIDTHS)) * len(self.groups) + group
      # A string that no known record holds says nothing of any year.
      columns = columns[has_count[columns] & is_in_query[columns]]
      for start in range(0, len(columns), _BLOCK):
        block = columns[start : start + _BLOCK]
        block_matrix, block_counts = (
          query_matrix[:, block].tocsr(),
          counts[block],
        )
        if weights is None:
          for expert, density in zip(experts, densities, strict=True):
            result[expert] += block_matrix @ density.log_ratios(block_counts)
        else:
          result += block_matrix @ sum(
            np.float32(weights[expert]) * density.log_ratios(block_counts)
            for expert, density in zip(experts, densities, strict=True)
          )
    return result

  def _count_by_year(
    self, axis: MonthAxis, labels: Labels, is_training: np.ndarray
  ):
    """Returns how often each year tells each string, saturated, [V, Y]."""
    training_rows = np.flatnonzero((labels.is_known & is_training)[self.sample])
    years = axis.year_of[labels.month[self.sample[training_rows]]]
    year_matrix = scipy.sparse.coo_array(
      (np.ones(len(training_rows), np.float32), (years, training_rows)),
      shape=(axis.num_years, len(self.sample)),
    ).tocsr()
    counts = (year_matrix @ self.matrix).T.tocsr()
    counts.data **= _SATURATION_POWER
    return counts


def build_year_vocabulary(
  texts: Sequence[str], sample: np.ndarray
) -> YearVocabulary:
  """Returns the strings that several records of a sample share.

  Args:
    texts: of all records [N].
    sample: records that densities are learned from, ascending, [S].
  """
  strings, matrix = ngrams.count_ngrams(
    [texts[row] for row in sample], NGRAM_LENGTHS, min_texts=_RARITY_EDGES[0]
  )
  edges = np.searchsorted(_RARITY_EDGES, strings.text_counts, side="right")
  groups = []
  for length in NGRAM_LENGTHS:
    for edge in range(1, len(_RARITY_EDGES) + 1):
      columns = np.flatnonzero((strings.lengths == length) & (edges == edge))
      if len(columns) >= _MIN_GROUP_STRINGS:
        groups.append(columns)
  return YearVocabulary(texts, strings, tuple(groups), sample, matrix)


def make_year_kernels(num_years: int) -> list[np.ndarray]:
  """Returns the smoothing matrices, each float32 [Y, Y], rows sum to 1."""
  positions = np.arange(num_years, dtype=np.float32)
  distance = np.abs(positions[:, None] - positions)
  weights = [np.exp(-0.5 * (distance / width) ** 2) for width in KERNEL_WIDTHS]
  return [weight / weight.sum(axis=1, keepdims=True) for weight in weights]


@dataclasses.dataclass(frozen=True)
class _SmoothedDensity:
  """A kernel [Y, Y] and the density of all strings that it makes, [Y]."""

  kernel: np.ndarray
  density: np.ndarray

  @classmethod
  def from_counts(cls, kernel: np.ndarray, total_counts: np.ndarray):
    density = total_counts @ kernel
    density = density / max(density.sum(), 1e-9) + 1e-9
    return cls(kernel, density.astype(np.float32))

  def log_ratios(self, counts: scipy.sparse.csr_array) -> np.ndarray:
    """Returns log of the density of strings to that of all, [v, Y]."""
    counts = counts @ self.kernel
    total = counts.sum(axis=1, keepdims=True)
    densities = counts + _DENSITY_PSEUDO_COUNT * self.density
    densities /= (total + _DENSITY_PSEUDO_COUNT) * self.density
    return np.log(densities).astype(np.float32)
