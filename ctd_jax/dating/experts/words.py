"""Names and words of their years: which years use the strings of a text.

Axes: N records, n some of them, V strings, v a block of them, G groups of
strings, f = G x kernels scores, Y years.

Source: naive Bayes with kernel densities and log-linear pooling.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Float32, Int, Int8, UInt64

from ctd_jax.dating.corpus import Labels, cut_blocks
from ctd_jax.dating.experts import base, wording
from ctd_jax.dating.experts.base import CorpusFeatures
from ctd_jax.dating.experts.wording import (
  KERNEL_WIDTHS,
  YearVocabulary,
  make_year_kernels,
)
from ctd_jax.utils import deadlines

_PSEUDO_COUNT = 2.0  # pseudo-counts of the density of all strings
_BLOCK = 32_768  # strings whose densities are held at once
_STRINGS_PER_BLOCK = 256  # strings whose scores are held at once
# Odd; they spread years and counts over all bits.
_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_MAX_NOTED_STRINGS = 5  # that an explanation names


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedWords:
  """Densities of strings over the years."""

  vocabulary: YearVocabulary  # strings of all records
  # How often each year has each string, saturated, sparse [V, Y].
  counts: scipy.sparse.csr_array
  # Of the groups of strings; None before they are learned.
  weights: Float[np.ndarray, " f"] | None = None
  name = "words"

  @property
  def num_years(self) -> int:
    """Number of years Y."""
    return self.counts.shape[1]

  @functools.cached_property
  def densities(self) -> tuple[SmoothedDensity, ...]:
    """Density of all strings by each kernel."""
    return smooth_total_counts(np.asarray(self.counts.sum(axis=0)).ravel())

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "f n Y"]:
    """Returns log ratios of years, one score for each group and kernel."""
    shape = (self.vocabulary.num_scores, len(rows), self.num_years)
    result = np.zeros(shape, np.float32)
    for scores, block_matrix, block_counts in self._iter_blocks(rows):
      for score, density in zip(scores, self.densities, strict=True):
        result[score] += block_matrix @ density.log_ratios(block_counts)
    return result

  def year_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n Y"]:
    """Returns the weighted sum of `log_scores`."""
    result = np.zeros((len(rows), self.num_years), np.float32)
    for scores, block_matrix, block_counts in self._iter_blocks(rows):
      # Weighted before the product: one product a block instead of one a score.
      result += block_matrix @ sum(
        np.float32(self.weights[score]) * density.log_ratios(block_counts)
        for score, density in zip(scores, self.densities, strict=True)
      )
    return result

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the strings that speak most for a year."""
    string_of = wording.find_strings(
      self.vocabulary.strings.hashes,
      self.vocabulary.texts[row],
      np.unique(self.vocabulary.strings.lengths).tolist(),
    )
    columns = sorted(string_of, key=string_of.get)
    columns = [column for column in columns if self.group_of[column] >= 0]
    if not columns:
      return base.Evidence()
    scores = weigh_strings(
      self.counts[columns],
      self.group_of[columns],
      self.densities,
      self.weights,
    )
    values = scores[:, year] - scores.mean(axis=1)
    best = np.argsort(-values, kind="stable")[:_MAX_NOTED_STRINGS]
    return base.Evidence(
      note="、".join(
        f"{string_of[columns[index]]} {values[index]:+.2f}"
        for index in best.tolist()
        if values[index] > 0
      )
    )

  @functools.cached_property
  def group_of(self) -> Int8[np.ndarray, " V"]:
    """Group of each string, -1 for one that does not count."""
    result = np.full(len(self.vocabulary.strings), -1, np.int8)
    for group, columns in enumerate(self.vocabulary.groups):
      result[columns] = group
    # A string that no known record holds says nothing of any year.
    result[np.diff(self.counts.indptr) == 0] = -1
    return result

  def _iter_blocks(
    self, rows: np.ndarray
  ) -> Iterator[
    tuple[np.ndarray, scipy.sparse.csr_array, scipy.sparse.csr_array]
  ]:
    """Yields scores [kernels], texts by strings [n, v] and counts [v, Y]."""
    # Strings with the same counts say the same and are one column, in which a
    # text has as many as it holds: most strings occur in one year or two.
    has_count = np.diff(self.counts.indptr) > 0
    query_matrix = self.vocabulary.strings.encode(
      [self.vocabulary.texts[row] for row in rows]
    ).tocsc()
    is_in_query = np.diff(query_matrix.indptr) > 0
    groups = self.vocabulary.groups
    for group, columns in enumerate(groups):
      scores = np.arange(len(KERNEL_WIDTHS)) * len(groups) + group
      # A string that no known record holds says nothing of any year.
      columns = columns[has_count[columns] & is_in_query[columns]]
      _, first, new_column = np.unique(
        self._count_keys[columns], return_index=True, return_inverse=True
      )
      matrix = _merge_columns(query_matrix[:, columns], new_column, len(first))
      for block in cut_blocks(len(first), _BLOCK):
        counts = self.counts[columns[first[block]]]
        yield scores, matrix[:, block].tocsr(), counts

  @functools.cached_property
  def _count_keys(self) -> UInt64[np.ndarray, " V"]:
    """A hash of the counts of each string, whatever their order."""
    years = self.counts.indices.astype(np.uint64) + np.uint64(1)
    counts = self.counts.data.astype(np.float32).view(np.uint32)
    hashes = (years * _MULTIPLIERS[0]) ^ (
      counts.astype(np.uint64) * _MULTIPLIERS[1]
    )
    for shift in (32, 29):
      hashes = (hashes ^ (hashes >> np.uint64(shift))) * _MULTIPLIERS[0]
    sums = np.concatenate([[np.uint64(0)], np.cumsum(hashes, dtype=np.uint64)])
    return sums[self.counts.indptr[1:]] - sums[self.counts.indptr[:-1]]


def _merge_columns(
  matrix: scipy.sparse.csc_array, new_column: np.ndarray, num_columns: int
) -> scipy.sparse.csc_array:
  """Returns a matrix with some of its columns added up to one."""
  columns = np.repeat(new_column, np.diff(matrix.indptr))
  return scipy.sparse.coo_array(
    (matrix.data, (matrix.indices, columns)),
    shape=(matrix.shape[0], num_columns),
  ).tocsc()


@dataclasses.dataclass(frozen=True)
class Words:
  """The expert of names and words."""

  name = "words"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedWords:
    """Returns the densities; their weights come later. See `base.Expert`."""
    vocabulary = features.year_vocabulary
    return FittedWords(
      vocabulary=vocabulary,
      counts=vocabulary.count_by_year(
        features.axis, labels, ~features.corpus.is_placeholder
      ),
    )


def smooth_total_counts(
  total_counts: Float32[np.ndarray, " Y"],
) -> tuple[SmoothedDensity, ...]:
  """Returns the density of all strings by each of KERNEL_WIDTHS."""
  return tuple(
    SmoothedDensity.from_counts(kernel, total_counts)
    for kernel in make_year_kernels(len(total_counts))
  )


def weigh_strings(
  counts: scipy.sparse.csr_array,
  groups: Int[np.ndarray, " v"],
  densities: Sequence[SmoothedDensity],
  weights: Float[np.ndarray, " f"],
) -> Float32[np.ndarray, "v Y"]:
  """Returns the term that each string adds to the score of every year."""
  by_kernel = weights.astype(np.float32).reshape(len(densities), -1)
  result = np.zeros(counts.shape, np.float32)
  # In blocks: a long passage has gigabytes of numbers on the way.
  for start in range(0, len(result), _STRINGS_PER_BLOCK):
    deadlines.check()
    block = slice(start, start + _STRINGS_PER_BLOCK)
    for kernel, density in enumerate(densities):
      weight = by_kernel[kernel, groups[block], None]
      result[block] += weight * density.log_ratios(counts[block])
  return result


@dataclasses.dataclass(frozen=True)
class SmoothedDensity:
  """A kernel [Y, Y] and the density of all strings that it makes, [Y]."""

  kernel: np.ndarray
  density: np.ndarray

  @classmethod
  def from_counts(
    cls, kernel: np.ndarray, total_counts: np.ndarray
  ) -> SmoothedDensity:
    """Returns the density of all strings, positive everywhere."""
    density = total_counts @ kernel
    density = density / max(density.sum(), 1e-9) + 1e-9
    return cls(kernel, density.astype(np.float32))

  def log_ratios(self, counts: scipy.sparse.csr_array) -> np.ndarray:
    """Returns the log density of strings over that of all strings, [v, Y]."""
    counts = counts @ self.kernel
    total = counts.sum(axis=1, keepdims=True)
    densities = counts + _PSEUDO_COUNT * self.density
    densities /= (total + _PSEUDO_COUNT) * self.density
    return np.log(densities).astype(np.float32)


# Prior over regnal years: where the labelled records lie.

# Records that a year without a labelled one counts as; so no year is ruled out.
_MIN_YEAR_COUNT = 0.1
# Of `wording.KERNEL_WIDTHS` the one of 5 years, which reaches over a hidden
# block of two or three.
_KERNEL = 1


@dataclasses.dataclass(frozen=True)
class FittedYearPrior:
  """The chance of each year, whatever the text."""

  chances: Float[np.ndarray, " Y"]  # sum to 1
  name = "prior"

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the evidence of one record; see `base.FittedExpert`."""
    return base.Evidence(note=f"share of the year {self.chances[year]:.4f}")


@dataclasses.dataclass(frozen=True)
class YearPrior:
  """Density of the labelled records over the years."""

  name = "prior"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedYearPrior:
    """Returns the prior, smoothed over hidden years."""
    axis = features.axis
    rows = labels.is_known & ~features.corpus.is_placeholder
    counts = np.bincount(
      axis.year_of[labels.month[rows]], minlength=axis.num_years
    ).astype(np.float32)
    kernel = wording.make_year_kernels(axis.num_years)[_KERNEL]
    density = (counts + _MIN_YEAR_COUNT) @ kernel
    return FittedYearPrior(density / density.sum())
