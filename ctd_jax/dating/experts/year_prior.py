"""Prior over regnal years: where the labelled records lie.

Axes: Y regnal years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from ctd_jax.dating.corpus import Labels
from ctd_jax.dating.experts import base, vocabulary
from ctd_jax.dating.features import CorpusFeatures

_PSEUDO_COUNT = 0.1  # records of a year without a labelled one
# Of `vocabulary.KERNEL_WIDTHS` the one of 5 years, which reaches over a hidden
# block of two or three.
_KERNEL = 1


@dataclasses.dataclass(frozen=True)
class FittedYearPrior:
  """The chance of each year, whatever the text.

  Attributes:
    chances: sum to 1.
  """

  chances: Float[np.ndarray, " Y"]
  name = "prior"

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the evidence of one record; see `base.FittedExpert`."""
    del row
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
    del peers
    axis = features.axis
    rows = labels.is_known & ~features.corpus.is_placeholder
    counts = np.bincount(
      axis.year_of[labels.month[rows]], minlength=axis.num_years
    ).astype(np.float32)
    kernel = vocabulary.make_year_kernels(axis.num_years)[_KERNEL]
    density = (counts + _PSEUDO_COUNT) @ kernel
    return FittedYearPrior(density / density.sum())
