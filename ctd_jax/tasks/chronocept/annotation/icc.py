"""Intraclass correlations of annotated numbers, with bootstrap intervals.

Why: "the ICC is .84" says nothing before the form is named. Where each sample
has two annotators out of a larger group, the one-way forms apply: ICC(1,1) for
one annotator's value, ICC(1,2) for the mean of two, which is what becomes the
target. The two-way forms need the same annotators throughout. Called by
`agreement`.

Axes: N samples, K annotators of each, R resamples (in front, if any).

Source: Shrout and Fleiss (Psychological Bulletin 1979), McGraw and Wong
(Psychological Methods 1996), whose names ICC(A,1) and ICC(C,1) are Shrout and
Fleiss' ICC(2,1) and ICC(3,1).
"""

from __future__ import annotations

import dataclasses

import numpy as np

NUM_RESAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class IntraclassCorrelation:
  """An intraclass correlation and its interval.

  Attributes:
    form: as McGraw and Wong write it, e.g. ICC(1,2).
    value: at most 1; below 0 if annotators differ more on one sample than
      samples differ from each other.
    low: lower end of the interval.
    high: upper end.
  """

  form: str
  value: float
  low: float
  high: float


def icc_one_way(ratings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns ICC(1,1) and ICC(1,K): annotators differ from sample to sample.

  Args:
    ratings: [..., N, K], N and K at least 2.

  Source: Shrout and Fleiss, Table 2 and case 1; McGraw and Wong, case 1.
  """
  between, within, *_ = _mean_squares(ratings)
  raters = ratings.shape[-1]
  single_rater = (between - within) / (between + (raters - 1) * within)
  return single_rater, (between - within) / between


def icc_agreement(ratings: np.ndarray) -> np.ndarray:
  """Returns ICC(A,1): the same annotators throughout, levels must agree.

  Args:
    ratings: [..., N, K], column k always by the same annotator.

  Source: McGraw and Wong, case 2A; ICC(2,1) of Shrout and Fleiss.
  """
  between, _, columns, error = _mean_squares(ratings)
  samples, raters = ratings.shape[-2:]
  level = raters * (columns - error) / samples
  return (between - error) / (between + (raters - 1) * error + level)


def icc_consistency(ratings: np.ndarray) -> np.ndarray:
  """Returns ICC(C,1): the same annotators throughout, only order matters.

  Args:
    ratings: [..., N, K], column k always by the same annotator.

  Source: McGraw and Wong, case 3; ICC(3,1) of Shrout and Fleiss.
  """
  between, _, _, error = _mean_squares(ratings)
  return (between - error) / (between + (ratings.shape[-1] - 1) * error)


def compute_coefficients(
  ratings: np.ndarray,
  is_crossed: bool,
  num_resamples: int = NUM_RESAMPLES,
  seed: int = 0,
) -> list[IntraclassCorrelation]:
  """Returns every form that applies, with 95 % percentile intervals.

  Args:
    ratings: [N, K], finite.
    is_crossed: whether column k is always the same annotator.
    num_resamples: resamples of whole samples; those without an ICC do not count.
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

  def statistic(values: np.ndarray) -> np.ndarray:
    coefficients = [*icc_one_way(values)]
    if is_crossed:
      coefficients += [icc_agreement(values), icc_consistency(values)]
    return np.stack(coefficients)

  resample_indices = np.random.default_rng(seed).integers(
    len(ratings), size=(num_resamples, len(ratings))
  )
  # A resample of one sample over and over has no ICC.
  with np.errstate(divide="ignore", invalid="ignore"):
    resampled = statistic(ratings[resample_indices])
  bounds = np.nanquantile(resampled, [0.025, 0.975], axis=1, method="nearest")
  return [
    IntraclassCorrelation(form, *map(float, numbers))
    for form, *numbers in zip(forms, statistic(ratings), *bounds, strict=True)
  ]


def _mean_squares(ratings: np.ndarray) -> tuple[np.ndarray, ...]:
  """Returns mean squares between and within samples, of columns, of error."""
  samples, raters = ratings.shape[-2:]
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
