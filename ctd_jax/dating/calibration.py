"""How right a posterior is, and whether it is as sure as it is right.

Called by `evaluation.page` and the benchmark of this package.

Axes: n records, K months.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ctd_jax.dating.posterior import Posterior


def compute_posterior_metrics(
  posterior: Posterior, rows: np.ndarray, months: np.ndarray
) -> Mapping[str, float]:
  """Returns how right and how calibrated a posterior is.

  Args:
    posterior: to judge.
    rows: records, [n].
    months: their true ordinal months, [n].

  Returns:
    `month`, `within_1`, `year`: share of records whose likeliest month is
    right, right to one month, whose likeliest year is right; `nll`: mean of
    -log p of the true month; `ece`: expected calibration error of the
    likeliest month, ten bins.
  """
  log_p = posterior.log_p(rows)
  predicted_months = log_p.argmax(axis=1)
  predicted_years = posterior.axis.to_years(log_p).argmax(axis=1)
  confidences = np.exp(log_p.max(axis=1))
  is_correct = predicted_months == months
  return {
    "month": float(is_correct.mean()),
    "within_1": float((np.abs(predicted_months - months) <= 1).mean()),
    "year": float((predicted_years == posterior.axis.year_of[months]).mean()),
    "nll": float(-log_p[np.arange(len(rows)), months].mean()),
    "ece": expected_calibration_error(confidences, is_correct),
  }


def compute_reliability_bins(
  confidences: np.ndarray, is_correct: np.ndarray, num_bins: int = 10
) -> list[tuple[float, float, int]]:
  """Returns (mean confidence, share right, records) of each bin in use.

  Args:
    confidences: chance given to the likeliest month, [n].
    is_correct: whether it is the true one, bool [n].
    num_bins: of equal width.
  """
  bin_indices = np.minimum((confidences * num_bins).astype(int), num_bins - 1)
  return [
    (
      float(confidences[bin_indices == bin_index].mean()),
      float(is_correct[bin_indices == bin_index].mean()),
      int((bin_indices == bin_index).sum()),
    )
    for bin_index in np.unique(bin_indices)
  ]


def expected_calibration_error(
  confidences: np.ndarray, is_correct: np.ndarray
) -> float:
  """Returns the expected calibration error over ten bins.

  Args:
    confidences: see `reliability`, as `is_correct`.
    is_correct: whether the likeliest month is the true one.
  """
  return sum(
    abs(accuracy - confidence) * count / len(confidences)
    for confidence, accuracy, count in compute_reliability_bins(
      confidences, is_correct
    )
  )
