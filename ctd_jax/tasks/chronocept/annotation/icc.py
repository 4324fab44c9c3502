"""Intraclass correlations of annotated numbers, with bootstrap intervals.

An ICC means little without its form. Where the annotators of a sample are
drawn from a larger group, the one-way forms apply: ICC(1,1) for the value of
one annotator, ICC(1,2) for the mean of two, which becomes the target. The
two-way forms need the same annotators throughout.

Axes: N samples, K annotators of a sample, *R any leading axes (resamples).

Source: Shrout and Fleiss (Psychological Bulletin 1979); McGraw and Wong
(Psychological Methods 1996), whose ICC(A,1) and ICC(C,1) are ICC(2,1) and
ICC(3,1) of Shrout and Fleiss.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

NUM_RESAMPLES = 2000  # enough for two digits of a 95 % interval
Ratings = Float[np.ndarray, "*R N K"]
Coefficients = Float[Any, "*R"]  # an array, or a NumPy scalar without *R


@dataclasses.dataclass(frozen=True)
class IntraclassCorrelation:
  """An intraclass correlation and its 95 % interval.

  Attributes:
    form: in the notation of McGraw and Wong, e.g. ICC(1,2).
    value: at most 1; below 0 if annotators of a sample differ more than
      samples differ from each other.
    low: lower end of the interval.
    high: upper end of the interval.
  """

  form: str
  value: float
  low: float
  high: float


def icc_one_way(ratings: Ratings) -> tuple[Coefficients, Coefficients]:
  """Returns ICC(1,1) and ICC(1,K): annotators differ from sample to sample.

  Args:
    ratings: N and K at least 2.

  Source: Shrout and Fleiss, Table 2 and case 1; McGraw and Wong, case 1.
  """
  between, within, *_ = _mean_squares(ratings)
  raters = ratings.shape[-1]
  single_rater = (between - within) / (between + (raters - 1) * within)
  return single_rater, (between - within) / between


def icc_agreement(ratings: Ratings) -> Coefficients:
  """Returns ICC(A,1): the same annotators throughout, levels must agree.

  Args:
    ratings: each column by one annotator.

  Source: McGraw and Wong, case 2A; ICC(2,1) of Shrout and Fleiss.
  """
  between, _, columns, error = _mean_squares(ratings)
  samples, raters = ratings.shape[-2:]
  level = raters * (columns - error) / samples
  return (between - error) / (between + (raters - 1) * error + level)


def icc_consistency(ratings: Ratings) -> Coefficients:
  """Returns ICC(C,1): the same annotators throughout, only order matters.

  Args:
    ratings: each column by one annotator.

  Source: McGraw and Wong, case 3; ICC(3,1) of Shrout and Fleiss.
  """
  between, _, _, error = _mean_squares(ratings)
  return (between - error) / (between + (ratings.shape[-1] - 1) * error)


def compute_coefficients(
  ratings: Float[np.ndarray, "N K"],
  is_crossed: bool,
  num_resamples: int = NUM_RESAMPLES,
  seed: int = 0,
) -> list[IntraclassCorrelation]:
  """Returns every form that applies, with 95 % percentile intervals.

  Args:
    ratings: finite.
    is_crossed: whether each column is by one annotator.
    num_resamples: number of resamples of samples; resamples without an ICC do
      not count.
    seed: of the resamples.

  Raises:
    ValueError: if there are fewer than two samples or annotators, or all
      samples have the same ratings.
  """
  ratings = np.asarray(ratings, np.float64)
  if ratings.ndim != 2 or min(ratings.shape) < 2:
    raise ValueError(
      f"an ICC needs two samples and two annotators, got {ratings.shape}"
    )
  if not np.ptp(ratings.mean(axis=1)):
    raise ValueError("an ICC needs samples whose mean ratings differ")
  raters = ratings.shape[1]
  forms = ["ICC(1,1)", f"ICC(1,{raters})"]
  forms += ["ICC(A,1)", "ICC(C,1)"] if is_crossed else []

  # [forms, *R]
  def statistic(values: Ratings) -> np.ndarray:
    coefficients = [*icc_one_way(values)]
    if is_crossed:
      coefficients += [icc_agreement(values), icc_consistency(values)]
    return np.stack(coefficients)

  resample_indices = np.random.default_rng(seed).integers(
    len(ratings), size=(num_resamples, len(ratings))
  )
  # A resample that repeats a single sample has no ICC: 0 / 0.
  with np.errstate(divide="ignore", invalid="ignore"):
    resampled = statistic(ratings[resample_indices])
  bounds = np.nanquantile(resampled, [0.025, 0.975], axis=1, method="nearest")
  return [
    IntraclassCorrelation(form, *map(float, numbers))
    for form, *numbers in zip(forms, statistic(ratings), *bounds, strict=True)
  ]


def _mean_squares(ratings: Ratings) -> tuple[Coefficients, ...]:
  """Returns mean squares between samples, within samples, of columns, of error.

  Source: Shrout and Fleiss, Table 1 (BMS, WMS, JMS, EMS).
  """
  samples, raters = ratings.shape[-2:]
  # Means keep their axes: [*R, 1, 1], [*R, N, 1] and [*R, 1, K].
  grand_mean = ratings.mean(axis=(-2, -1), keepdims=True)
  row_means = ratings.mean(axis=-1, keepdims=True)
  column_means = ratings.mean(axis=-2, keepdims=True)
  between = (
    raters * ((row_means - grand_mean) ** 2).sum((-2, -1)) / (samples - 1)
  )
  within = ((ratings - row_means) ** 2).sum((-2, -1)) / (samples * (raters - 1))
  between_columns = (
    samples * ((column_means - grand_mean) ** 2).sum((-2, -1)) / (raters - 1)
  )
  error = ((ratings - row_means - column_means + grand_mean) ** 2).sum((-2, -1))
  error = error / ((samples - 1) * (raters - 1))
  return between, within, between_columns, error
