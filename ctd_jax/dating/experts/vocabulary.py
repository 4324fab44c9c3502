"""Vocabulary of a corpus: the strings that records share, and their years.

Axes: N records, S a sample of them, V strings, G groups of strings, Y years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float32, Int

from ctd_jax.dating.corpus import Labels, MonthAxis
from ctd_jax.dating.experts import ngrams

NGRAM_LENGTHS = (1, 2, 3, 4)
KERNEL_WIDTHS = (2.0, 5.0, 14.0)  # years, standard deviation of each kernel
_RARITY_EDGES = (2, 4, 8, 20, 60, 200)  # texts with the string, lower edges
_MIN_GROUP_STRINGS = 100  # strings that make a group of their own
SATURATION_POWER = 0.5  # a string in n texts of a year counts n ** this


@dataclasses.dataclass(frozen=True)
class YearVocabulary:
  """Strings of a sample of the records, and the group of each.

  The strings of the other records are looked up when these are scored, so that
  memory is bounded by the sample.

  Attributes:
    texts: of all records, [N].
    strings: those that count, [V].
    groups: strings of each group, columns of `matrix`, G arrays.
    sample: records that densities are learned from, ascending.
    matrix: which of them holds which string, [S, V].
  """

  texts: Sequence[str]
  strings: ngrams.NgramVocabulary
  groups: tuple[np.ndarray, ...]
  sample: Int[np.ndarray, " S"]
  matrix: scipy.sparse.csr_array

  @property
  def num_scores(self) -> int:
    """Number of scores of a record and year: groups times kernels."""
    return len(self.groups) * self.num_kernels

  @property
  def num_kernels(self) -> int:
    """Number of kernels that smooth the years of a string."""
    return len(KERNEL_WIDTHS)

  def count_by_year(
    self, axis: MonthAxis, labels: Labels, is_training: Bool[np.ndarray, " N"]
  ) -> scipy.sparse.csr_array:
    """Returns how often each year has each string, saturated, sparse [V, Y].

    Args:
      axis: the years.
      labels: known months.
      is_training: which known records are counted.
    """
    training_rows = np.flatnonzero((labels.is_known & is_training)[self.sample])
    years = axis.year_of[labels.month[self.sample[training_rows]]]
    year_matrix = scipy.sparse.coo_array(
      (np.ones(len(training_rows), np.float32), (years, training_rows)),
      shape=(axis.num_years, len(self.sample)),
    ).tocsr()
    counts = (year_matrix @ self.matrix).T.tocsr()
    counts.data **= SATURATION_POWER
    return counts


def build_year_vocabulary(
  texts: Sequence[str], sample: Int[np.ndarray, " S"]
) -> YearVocabulary:
  """Returns the strings that several records of a sample share.

  Args:
    texts: of all records [N].
    sample: records that densities are learned from, ascending.
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


def make_year_kernels(num_years: int) -> list[Float32[np.ndarray, "Y Y"]]:
  """Returns a Gaussian smoothing matrix for each width; rows sum to 1."""
  positions = np.arange(num_years, dtype=np.float32)
  distance = np.abs(positions[:, None] - positions)
  weights = [np.exp(-0.5 * (distance / width) ** 2) for width in KERNEL_WIDTHS]
  return [weight / weight.sum(axis=1, keepdims=True) for weight in weights]
