"""Calibration of probabilities: reliability bins and their expected error.

A system that gives 0.8 to its likeliest month should be right in 80 % of such
cases. Bins of equal width over the confidence compare the two.

Axes: N records.

Source: Naeini, Cooper and Hauskrecht, Obtaining well calibrated probabilities
using Bayesian binning (AAAI 2015), expected calibration error.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

NUM_BINS = 10  # of width 0.1, as in the paper


def compute_reliability_bins(
  confidences: Float[np.ndarray, " N"],
  is_correct: Bool[np.ndarray, " N"],
  num_bins: int = NUM_BINS,
) -> list[tuple[float, float, int]]:
  """Returns (mean confidence, share right, records) of each non-empty bin.

  Args:
    confidences: probability given to the likeliest month.
    is_correct: whether that month is the true one.
    num_bins: bins of equal width over 0-1.
  """
  # A confidence of exactly 1 belongs to the last bin, not to one past it.
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
  confidences: Float[np.ndarray, " N"], is_correct: Bool[np.ndarray, " N"]
) -> float:
  """Returns the mean over records of |share right - mean confidence|.

  Args:
    confidences: probability given to the likeliest month.
    is_correct: whether that month is the true one.
  """
  return sum(
    abs(accuracy - confidence) * count / len(confidences)
    for confidence, accuracy, count in compute_reliability_bins(
      confidences, is_correct
    )
  )
