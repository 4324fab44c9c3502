"""Names and words of their years: which years speak like this text.

Why: persons, places and wars come and go. For every string of characters the
known records give a density over the years, smoothed by kernels of several
widths so that it reaches over a held-out block of two or three years; its ratio
to the density of all strings is evidence. How far to believe strings of a given
length and rarity is learned out of fold (`pool_weights`), because neighbouring
strings of one phrase say the same thing again. Called by `dater`.

Axes: N records, n some of them, V strings, G groups of strings, Y years.

Source: naive Bayes with kernel densities and log-linear pooling.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse

from ctd_jax.dating import ngrams
from ctd_jax.dating.gallery import Axis, Labels

LENGTHS = (1, 2, 3, 4)
WIDTHS = (2.0, 5.0, 14.0)  # years, standard deviation of each kernel
_RARITY = (2, 4, 8, 20, 60, 200)  # texts with the string, lower edges
_FEWEST = 100  # strings that make a group of their own
_SATURATION = 0.5  # a string told n times in a year counts n ** this
_PRIOR = 2.0  # pseudo-counts of the density of all strings


@dataclasses.dataclass(frozen=True)
class Words:
  """Strings of all records, and the group of each.

  Attributes:
    matrix: which record holds which string, [N, V].
    groups: strings of each group, columns of `matrix`.
  """

  matrix: scipy.sparse.csr_array
  groups: tuple[np.ndarray, ...]

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
    known = np.flatnonzero(labels.known & used)
    seen = scipy.sparse.coo_array(
      (
        np.ones(len(known), np.float32),
        (np.arange(len(known)), axis.year_of[labels.month[known]]),
      ),
      shape=(len(known), axis.years),
    ).tocsr()
    counts = (self.matrix[known].T @ seen).tocsr()
    counts.data **= _SATURATION
    total = np.asarray(counts.sum(axis=0)).ravel()
    asked = self.matrix[rows]
    shape = (len(rows), axis.years)
    result = np.zeros(shape, np.float32)
    if weights is None:
      result = np.zeros((self.experts, *shape), np.float32)
    for width, kernel in enumerate(kernels(axis.years)):
      density = total @ kernel
      density = (density / max(density.sum(), 1e-9) + 1e-9).astype(np.float32)
      for group, columns in enumerate(self.groups):
        expert = width * len(self.groups) + group
        part = asked[:, columns]
        held = np.bincount(part.indices, minlength=len(columns)) > 0
        ratios = _ratios(counts[columns[held]] @ kernel, density)
        scores = part[:, held] @ ratios
        if weights is None:
          result[expert] = scores
        else:
          result += np.float32(weights[expert]) * scores
    return result


def read(texts: list[str]) -> Words:
  """Returns the strings of `texts` [N] that several of them share."""
  strings, matrix = ngrams.count(texts, LENGTHS, at_least=_RARITY[0])
  edges = np.searchsorted(_RARITY, strings.frequency, side="right")
  groups = []
  for length in LENGTHS:
    for edge in range(1, len(_RARITY) + 1):
      columns = np.flatnonzero((strings.lengths == length) & (edges == edge))
      if len(columns) >= _FEWEST:
        groups.append(columns)
  return Words(matrix, tuple(groups))


def kernels(years: int) -> list[np.ndarray]:
  """Returns the smoothing matrices, each float32 [Y, Y], rows sum to 1."""
  places = np.arange(years, dtype=np.float32)
  distance = np.abs(places[:, None] - places)
  shapes = [np.exp(-0.5 * (distance / width) ** 2) for width in WIDTHS]
  return [shape / shape.sum(axis=1, keepdims=True) for shape in shapes]


def _ratios(counts: np.ndarray, density: np.ndarray) -> np.ndarray:
  """Returns log of the density of strings to that of all, [v, Y]."""
  total = counts.sum(axis=1, keepdims=True)
  smooth = counts + _PRIOR * density
  return np.log(smooth / ((total + _PRIOR) * density)).astype(np.float32)
