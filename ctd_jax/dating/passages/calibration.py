"""Calibration: how far all experts together are believed.

Axes: n passages, K months.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

CREDIBLE = 0.9  # share of the truth that the sets of passages should hold
_LOG_SCALES = np.linspace(-1, 0.5, 31)  # log inverse temperatures to try
# Mean log p that may be lost against the likeliest temperature, in nats.
_MAX_LOSS = 0.03


def fit_inverse_temperature(
  log_prior: Float[np.ndarray, " K"],
  scores: Float[np.ndarray, "n K"],
  months: Int[np.ndarray, " n"],
) -> float:
  """Returns the factor of scores with which credible sets hold what they say.

  Of the factors about as likely as the likeliest, the greatest whose smallest
  sets of 90 % hold the true month in 90 % of the passages; if there is none,
  the one whose sets hold most.

  Args:
    log_prior: of the months, normalised.
    scores: what the experts say of each passage together.
    months: the true ones.
  """
  losses, coverages = [], []
  for scale in np.exp(_LOG_SCALES):
    log_p = log_prior + scale * scores
    log_p -= logsumexp(log_p, axis=1, keepdims=True)
    losses.append(-log_p[np.arange(len(months)), months].mean())
    coverages.append(measure_coverage(log_p, months))
  is_likely = np.array(losses) <= min(losses) + _MAX_LOSS
  is_wide = is_likely & (np.array(coverages) >= CREDIBLE)
  if is_wide.any():
    return float(np.exp(_LOG_SCALES[is_wide].max()))
  return float(np.exp(_LOG_SCALES[np.where(is_likely, coverages, -1).argmax()]))


def measure_coverage(
  log_p: Float[np.ndarray, "n K"], months: Int[np.ndarray, " n"]
) -> float:
  """Returns the share of passages whose sets of 90 % hold the true month.

  Args:
    log_p: of the months of each passage.
    months: the true ones.
  """
  true_p = log_p[np.arange(len(months)), months][:, None]
  # The month is in the set unless those before it make it up.
  mass_before = np.where(log_p > true_p, np.exp(log_p), 0).sum(axis=1)
  return float((mass_before < CREDIBLE).mean())
