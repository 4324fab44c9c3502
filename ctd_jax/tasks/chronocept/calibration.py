"""Whether a model knows how sure it is.

Why: a point is scored by its error; a model that gives a distribution (an
ensemble, dropout at test time, a head with a deviation, a curve) can also be
wrong about its own uncertainty, and the published "NLL" does not see that.
Called by `validity.experiment` and `calibration_plot`.

A predictive distribution is a set of draws, whatever made them; quantiles are
those of the draws. A curve is one too: its distribution function at an
observed time is `skew_normal.cumulative_distribution`.

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

from ctd_jax_datasets.chronocept.samples import TARGETS

LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclasses.dataclass(frozen=True)
class IntervalQuality:
  """Central intervals of a level.

  Attributes:
    level: share of the draws inside.
    coverage: share of the truths inside, [T].
    width: mean length, [T].
    score: mean interval score, [T]; less is better.
  """

  level: float
  coverage: np.ndarray
  width: np.ndarray
  score: np.ndarray


def central_interval(
  draws_DxNxT: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
  """Returns lower and upper end of the central interval, [N, T] each.

  Args:
    draws_DxNxT: [D, N, T].
    level: share of the draws inside, between 0 and 1.
  """
  tail = (1 - level) / 2
  low, high = np.quantile(draws_DxNxT, [tail, 1 - tail], axis=0)
  return low, high


def compute_interval_score(
  truth: np.ndarray, low: np.ndarray, high: np.ndarray, level: float
) -> np.ndarray:
  """Returns the interval score of each truth, in its units; less is better.

  The length, and for a truth outside 2 / (1 - level) times how far outside.

  Args:
    truth: any shape.
    low: lower ends, same shape.
    high: upper ends, same shape.
    level: of the intervals.
  """
  distance_outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
  return (high - low) + 2 / (1 - level) * distance_outside


def compute_interval_quality(
  truth_NxT: np.ndarray,
  draws_DxNxT: np.ndarray,
  levels: Sequence[float] = LEVELS,
) -> list[IntervalQuality]:
  """Returns coverage, width and score of the intervals of each level.

  Args:
    truth_NxT: annotated targets, [N, T].
    draws_DxNxT: predictive draws, [D, N, T], in the same units.
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
  truth_NxT: np.ndarray, draws_DxNxT: np.ndarray, seed: int = 0
) -> np.ndarray:
  """Returns the probability integral transform of each truth, [N, T].

  The rank of the truth among the draws, ties and the width of a rank broken at
  random: uniform on (0, 1) if the truth might have been one of the draws.

  Args:
    truth_NxT: annotated targets, [N, T].
    draws_DxNxT: predictive draws, [D, N, T], in the same units.
    seed: of what is random.
  """
  truth, draws = _validate_draws(truth_NxT, draws_DxNxT)
  num_below = (draws < truth).sum(axis=0)
  num_equal = (draws == truth).sum(axis=0)
  tie_breaks = np.random.default_rng(seed).random(truth.shape)
  return (num_below + tie_breaks * (num_equal + 1)) / (len(draws) + 1)


def compute_pit_p_values(pit_NxT: np.ndarray) -> np.ndarray:
  """Returns the Kolmogorov-Smirnov p-value of uniformity, [T]."""
  return np.array(
    [scipy.stats.kstest(column, "uniform").pvalue for column in pit_NxT.T]
  )


@dataclasses.dataclass(frozen=True)
class Reliability:
  """Predicted validities in bins, and what they should have been.

  Attributes:
    predicted: mean in each bin that holds any, [B].
    observed: mean of the annotated validities there, [B].
    count: how many, [B].
    error: mean distance of the two over all, weighted by count.
  """

  predicted: np.ndarray
  observed: np.ndarray
  count: np.ndarray
  error: float


def compute_reliability(
  observed: np.ndarray, predicted: np.ndarray, num_bins: int = 10
) -> Reliability:
  """Returns how predicted validities compare with annotated ones.

  Args:
    observed: annotated validities, from 0 to 1, any shape.
    predicted: the same shape.
    num_bins: of equal length between 0 and 1.
  """
  observed, predicted = np.ravel(observed), np.ravel(predicted)
  bin_index = np.minimum((predicted * num_bins).astype(int), num_bins - 1)
  count = np.bincount(bin_index, minlength=num_bins)
  is_filled = count > 0
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
