"""Calibration of predictive distributions: coverage, PIT, reliability.

A model that predicts a distribution (an ensemble, dropout at test time, a head
with a deviation, validation residuals) can be wrong about its uncertainty,
which the published "NLL" does not measure.

A predictive distribution is represented by draws; its quantiles are those of
the draws. `compute_reliability` bins predicted validities and compares their
means with those of annotated validities; scikit-learn's `calibration_curve`
takes binary outcomes only.

Axes: D draws, N samples, T = 3 targets, B bins.

Source: Gneiting, Balabdaoui and Raftery, "Probabilistic forecasts, calibration
and sharpness" (2007); Gneiting and Raftery (2007), section 6.2 (interval
score).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.stats
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ctd_jax_datasets.chronocept.samples import TARGETS

LEVELS = (0.5, 0.8, 0.9, 0.95)  # of the rows `coverage@...`


@dataclasses.dataclass(frozen=True)
class IntervalQuality:
  """Quality of the central intervals of a level.

  Attributes:
    level: share of the draws inside.
    coverage: share of the truths inside.
    width: mean length in units of the targets.
    score: mean interval score in units of the targets; lower is better.
  """

  level: float
  coverage: Float[np.ndarray, " T"]
  width: Float[np.ndarray, " T"]
  score: Float[np.ndarray, " T"]


def central_interval(
  draws_DxNxT: Float[np.ndarray, "D N T"], level: float
) -> tuple[Float[np.ndarray, "N T"], Float[np.ndarray, "N T"]]:
  """Returns the lower and upper ends of the central intervals.

  Args:
    draws_DxNxT: predictive draws.
    level: share of the draws inside, between 0 and 1.
  """
  tail = (1 - level) / 2  # on either side
  low, high = np.quantile(draws_DxNxT, [tail, 1 - tail], axis=0)
  return low, high


def compute_interval_score(
  truth: Float[np.ndarray, "*B"],
  low: Float[np.ndarray, "*B"],
  high: Float[np.ndarray, "*B"],
  level: float,
) -> Float[np.ndarray, "*B"]:
  """Returns the interval score of each truth, in its units; lower is better.

  It is the length of the interval plus, for a truth outside, its distance from
  the interval times 2 / (1 - level).

  Args:
    truth: observed values.
    low: lower ends.
    high: upper ends.
    level: of the intervals.

  Source: Gneiting and Raftery (2007), section 6.2.
  """
  distance_outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
  return (high - low) + 2 / (1 - level) * distance_outside


def compute_interval_quality(
  truth_NxT: Float[np.ndarray, "N T"],
  draws_DxNxT: Float[np.ndarray, "D N T"],
  levels: Sequence[float] | np.ndarray = LEVELS,
) -> list[IntervalQuality]:
  """Returns coverage, width and score of the intervals of each level.

  Args:
    truth_NxT: annotated targets.
    draws_DxNxT: predictive draws in the same units.
    levels: shares of the draws.

  Raises:
    ValueError: if the shapes do not fit.
  """
  truth, draws = _validate_draws(truth_NxT, draws_DxNxT)
  qualities = []
  for level in levels:
    low, high = central_interval(draws, level)
    qualities.append(
      IntervalQuality(
        level,
        ((low <= truth) & (truth <= high)).mean(axis=0),
        (high - low).mean(axis=0),
        compute_interval_score(truth, low, high, level).mean(axis=0),
      )
    )
  return qualities


def probability_integral_transform(
  truth_NxT: Float[np.ndarray, "N T"],
  draws_DxNxT: Float[np.ndarray, ...],
  seed: int = 0,
) -> Float[np.ndarray, "N T"]:
  """Returns the randomised probability integral transform of each truth.

  It is the rank of the truth among the draws, divided by D + 1 after ties and
  the position within a rank are broken at random. If truth and draws have one
  distribution, it is uniform on (0, 1).

  Args:
    truth_NxT: annotated targets.
    draws_DxNxT: predictive draws in the same units, [D, N, T].
    seed: of the tie breaks.

  Raises:
    ValueError: if the shapes do not fit.
  """
  truth, draws = _validate_draws(truth_NxT, draws_DxNxT)
  num_below = (draws < truth).sum(axis=0)
  # [D, N, T] -> [N, T]
  num_equal = (draws == truth).sum(axis=0)
  tie_breaks = np.random.default_rng(seed).random(truth.shape)
  return (num_below + tie_breaks * (num_equal + 1)) / (len(draws) + 1)


def compute_pit_p_values(
  pit_NxT: Float[np.ndarray, "N T"],
) -> Float[np.ndarray, " T"]:
  """Returns the Kolmogorov-Smirnov p-value of uniformity of each target."""
  return np.array(
    [scipy.stats.kstest(column, "uniform").pvalue for column in pit_NxT.T]
  )


@dataclasses.dataclass(frozen=True)
class Reliability:
  """Predicted and annotated validities, averaged in bins of the predicted.

  Attributes:
    predicted: mean predicted validity of each bin that is not empty.
    observed: mean annotated validity of the same samples.
    count: number of samples.
    error: mean distance of the two, weighted by count.
  """

  predicted: Float[np.ndarray, " B"]
  observed: Float[np.ndarray, " B"]
  count: Int[np.ndarray, " B"]
  error: float


def compute_reliability(
  observed: ArrayLike,
  predicted: ArrayLike,
  num_bins: int = 10,
) -> Reliability:
  """Returns the reliability of predicted validities.

  Args:
    observed: annotated validities, from 0 to 1.
    predicted: predicted validities, from 0 to 1.
    num_bins: number of bins of equal length between 0 and 1.
  """
  observed, predicted = np.ravel(observed), np.ravel(predicted)
  # A validity of exactly 1 belongs to the last bin.
  bin_index = np.minimum((predicted * num_bins).astype(int), num_bins - 1)
  count = np.bincount(bin_index, minlength=num_bins)
  is_filled = count > 0  # an empty bin has no mean
  means = [
    np.bincount(bin_index, values, minlength=num_bins)[is_filled]
    / count[is_filled]
    for values in (predicted, observed)
  ]
  gap = np.abs(means[0] - means[1])
  error = float((gap * count[is_filled]).sum() / len(bin_index))
  return Reliability(*means, count[is_filled], error)


def _validate_draws(
  truth_NxT: np.ndarray, draws_DxNxT: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  truth, draws = np.asarray(truth_NxT, float), np.asarray(draws_DxNxT, float)
  if draws.ndim != 3 or draws.shape[1:] != truth.shape or not len(draws):
    raise ValueError(
      f"targets {truth.shape} and draws {draws.shape} should be "
      f"[N, {len(TARGETS)}] and [D, N, {len(TARGETS)}]"
    )
  return truth, draws
