"""How right a posterior is, and whether it is as sure as it is right.

Called by `evaluation.page` and the benchmark of this package.

Axes: n records, K months.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ctd_jax.dating.posterior import Posterior


def quality(
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
  guess = log_p.argmax(axis=1)
  years = posterior.axis.to_years(log_p).argmax(axis=1)
  sure = np.exp(log_p.max(axis=1))
  right = guess == months
  return {
    "month": float(right.mean()),
    "within_1": float((np.abs(guess - months) <= 1).mean()),
    "year": float((years == posterior.axis.year_of[months]).mean()),
    "nll": float(-log_p[np.arange(len(rows)), months].mean()),
    "ece": expected_error(sure, right),
  }


def reliability(
  sure: np.ndarray, right: np.ndarray, bins: int = 10
) -> list[tuple[float, float, int]]:
  """Returns (mean confidence, share right, records) of each bin in use.

  Args:
    sure: chance given to the likeliest month, [n].
    right: whether it is the true one, bool [n].
    bins: of equal width.
  """
  place = np.minimum((sure * bins).astype(int), bins - 1)
  return [
    (
      float(sure[place == each].mean()),
      float(right[place == each].mean()),
      int((place == each).sum()),
    )
    for each in np.unique(place)
  ]


def expected_error(sure: np.ndarray, right: np.ndarray) -> float:
  """Returns the expected calibration error over ten bins.

  Args:
    sure: see `reliability`, as `right`.
    right: whether the likeliest month is the true one.
  """
  return sum(
    abs(share - confidence) * count / len(sure)
    for confidence, share, count in reliability(sure, right)
  )
