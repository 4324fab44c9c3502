"""Accuracy and calibration of a posterior over months.

Axes: n records, K months.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.dating.posterior import Posterior
from ctd_jax.evaluation import calibration

_MASS = 0.9  # of a credible set


def compute_posterior_metrics(
  posterior: Posterior,
  rows: Int[np.ndarray, " n"],
  months: Int[np.ndarray, " n"],
) -> Mapping[str, float]:
  """Returns the accuracy and the calibration of a posterior.

  Args:
    posterior: of the records.
    rows: of the records to score.
    months: their true ordinal months.

  Returns:
    `month`, `within_1`, `year`: share of records whose likeliest month is
    right, right to one month, whose likeliest year is right; `nll`: mean of
    -log p of the true month; `ece`: expected calibration error of the
    likeliest month, ten bins; `coverage@90`: how often the smallest sets of
    90 % hold the right month; `size@90`: their median size in months.
  """
  log_p = posterior.log_p(rows)
  years = posterior.axis.to_years(log_p).argmax(axis=1)
  return measure_dates(log_p, years, months, posterior.axis.year_of)


def measure_dates(
  log_p: Float[np.ndarray, "n K"],
  years: Int[np.ndarray, " n"],
  months: Int[np.ndarray, " n"],
  year_of: Int[np.ndarray, " K"],
) -> dict[str, float]:
  """Returns those figures of log p.

  Args:
    log_p: of the months, perhaps of none of them last.
    years: that are likeliest.
    months: true ordinal months.
    year_of: year of every month.
  """
  best = log_p.argmax(axis=1)
  holds, sizes = find_credible_sets(log_p, months)
  return {
    "month": float((best == months).mean()),
    "within_1": float((np.abs(best - months) <= 1).mean()),
    "year": float((years == year_of[months]).mean()),
    "nll": float(-log_p[np.arange(len(months)), months].mean()),
    "ece": calibration.expected_calibration_error(
      np.exp(log_p.max(axis=1)), best == months
    ),
    "coverage@90": float(holds.mean()),
    "size@90": float(np.median(sizes)),
  }


def find_credible_sets(
  log_p: Float[np.ndarray, "n K"],
  months: Int[np.ndarray, " n"],
) -> tuple[Bool[np.ndarray, " n"], Int[np.ndarray, " n"]]:
  """Returns whether the smallest sets hold the right month, and their sizes."""
  order = np.argsort(-log_p, axis=1, kind="stable")
  masses = np.cumsum(np.exp(np.take_along_axis(log_p, order, 1)), axis=1)
  sizes = (masses < _MASS).sum(axis=1) + 1
  ranks = (order == months[:, None]).argmax(axis=1)
  return ranks < sizes, sizes
