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

from ctd_jax.dating.corpus import Axis, Labels
from ctd_jax.dating.experts import ngrams

LENGTHS = (1, 2, 3, 4)
WIDTHS = (2.0, 5.0, 14.0)  # years, standard deviation of each kernel
_RARITY = (2, 4, 8, 20, 60, 200)  # texts with the string, lower edges
_FEWEST = 100  # strings that make a group of their own
_SATURATION = 0.5  # a string told n times in a year counts n ** this
_PRIOR = 2.0  # pseudo-counts of the density of all strings
_BLOCK = 32_768  # strings whose densities are held at once


@dataclasses.dataclass(frozen=True)
class Words:
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
  strings: ngrams.Strings
  groups: tuple[np.ndarray, ...]
  sample: np.ndarray
  matrix: scipy.sparse.csr_array

  @property
  def experts(self) -> int:
    """Number of scores that `evidence` gives a record and year, G * widths."""
    return len(self.groups) * len(WIDTHS)

  def evidence(
    self,
    axis: Axis,
    labels: Labels,
    used: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray | None = None,
  ) -> np.ndarray:
    """Returns log ratios of years: [experts, n, Y], or weighted [n, Y].

    Args:
      axis: the years.
      labels: known months.
      used: which known records are read, bool [N].
      rows: records asked about, [n].
      weights: of the experts; None for their separate scores.
    """
    counts = self._counts(axis, labels, used)
    seen = np.diff(counts.indptr) > 0
    total = np.asarray(counts.sum(axis=0)).ravel()
    asked = self.strings.encode([self.texts[row] for row in rows]).tocsc()
    asked_for = np.diff(asked.indptr) > 0
    smooth = [_Smooth.of(kernel, total) for kernel in kernels(axis.years)]
    separate = (self.experts,) if weights is None else ()
    result = np.zeros((*separate, len(rows), axis.years), np.float32)
    for group, columns in enumerate(self.groups):
      experts = np.arange(len(WIDTHS)) * len(self.groups) + group
      # A string that no known record holds says nothing of any year.
      columns = columns[seen[columns] & asked_for[columns]]
      for start in range(0, len(columns), _BLOCK):
        block = columns[start : start + _BLOCK]
        held, told = asked[:, block].tocsr(), counts[block]
        if weights is None:
          for expert, each in zip(experts, smooth, strict=True):
            result[expert] += held @ each.ratios(told)
        else:
          result += held @ sum(
            np.float32(weights[expert]) * each.ratios(told)
            for expert, each in zip(experts, smooth, strict=True)
          )
    return result

  def _counts(self, axis: Axis, labels: Labels, used: np.ndarray):
    """Returns how often each year tells each string, saturated, [V, Y]."""
    known = np.flatnonzero((labels.known & used)[self.sample])
    years = axis.year_of[labels.month[self.sample[known]]]
    told = scipy.sparse.coo_array(
      (np.ones(len(known), np.float32), (years, known)),
      shape=(axis.years, len(self.sample)),
    ).tocsr()
    counts = (told @ self.matrix).T.tocsr()
    counts.data **= _SATURATION
    return counts


def read(texts: Sequence[str], sample: np.ndarray) -> Words:
  """Returns the strings that several records of a sample share.

  Args:
    texts: of all records [N].
    sample: records that densities are learned from, ascending, [S].
  """
  strings, matrix = ngrams.count(
    [texts[row] for row in sample], LENGTHS, at_least=_RARITY[0]
  )
  edges = np.searchsorted(_RARITY, strings.frequency, side="right")
  groups = []
  for length in LENGTHS:
    for edge in range(1, len(_RARITY) + 1):
      columns = np.flatnonzero((strings.lengths == length) & (edges == edge))
      if len(columns) >= _FEWEST:
        groups.append(columns)
  return Words(texts, strings, tuple(groups), sample, matrix)


def kernels(years: int) -> list[np.ndarray]:
  """Returns the smoothing matrices, each float32 [Y, Y], rows sum to 1."""
  places = np.arange(years, dtype=np.float32)
  distance = np.abs(places[:, None] - places)
  shapes = [np.exp(-0.5 * (distance / width) ** 2) for width in WIDTHS]
  return [shape / shape.sum(axis=1, keepdims=True) for shape in shapes]


@dataclasses.dataclass(frozen=True)
class _Smooth:
  """A kernel [Y, Y] and the density of all strings that it makes, [Y]."""

  kernel: np.ndarray
  density: np.ndarray

  @classmethod
  def of(cls, kernel: np.ndarray, total: np.ndarray):
    density = total @ kernel
    density = density / max(density.sum(), 1e-9) + 1e-9
    return cls(kernel, density.astype(np.float32))

  def ratios(self, counts: scipy.sparse.csr_array) -> np.ndarray:
    """Returns log of the density of strings to that of all, [v, Y]."""
    counts = counts @ self.kernel
    total = counts.sum(axis=1, keepdims=True)
    smooth = counts + _PRIOR * self.density
    smooth /= (total + _PRIOR) * self.density
    return np.log(smooth).astype(np.float32)
