"""Errors of predicted curves for each sample.

Users ask when a statement peaks, in which period it holds and how valid it is
tomorrow; errors of xi, omega and alpha do not answer that. Result rows and
paired tests are computed from these values of single samples.

Units: `curve_kl` and `curve_cross_entropy` in nats; `expected_crps`, `cramer`,
`wasserstein` and `validity_l1` in log time; `*_log_minutes` in natural
logarithms of minutes (0.69 is a factor of 2); the others from 0 to 1.

Axes: N samples, T = 3 targets, H horizons.

Source: proper scores as in Gneiting and Raftery (2007); the published protocol
has none of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ctd_jax.tasks.chronocept.curves import scores, skew_normal, time_axis
from ctd_jax.tasks.chronocept.curves.skew_normal import SkewNormal
from ctd_jax_datasets.chronocept.samples import LOG_BASE

# Name -> minutes after publication at which validities are compared.
HORIZONS = {
  name: time_axis.ANCHORS[name] for name in ("1 hour", "1 day", "1 week")
}
MEASURES = (
  "curve_kl",
  "curve_cross_entropy",
  "expected_crps",
  "cramer",
  "wasserstein",
  "overlap",
  "validity_l1",
  "validity_sup",
  "mode_log_minutes",
  "start_log_minutes",
  "end_log_minutes",
  *(
    f"{kind}@{name.replace(' ', '_')}"
    for name in HORIZONS
    for kind in ("validity_mae", "validity_brier")
  ),
)
# Predicted scales are raised to this: a regression may predict 0 or less.
MIN_SCALE = 0.1


def clip_scale(
  predicted_NxT: Float[np.ndarray, "N T"],
) -> tuple[Float[np.ndarray, "N T"], int]:
  """Returns predictions with scales of at least `MIN_SCALE`.

  Args:
    predicted_NxT: predictions in raw units.

  Returns:
    (clipped copy, number of predictions that were changed).
  """
  predicted = np.array(predicted_NxT, float)
  is_low = predicted[:, 1] < MIN_SCALE
  predicted[is_low, 1] = MIN_SCALE
  return predicted, int(is_low.sum())


def compute_curve_measures(
  truth_NxT: Float[np.ndarray, "N T"],
  predicted_NxT: Float[np.ndarray, "N T"],
  base: float = LOG_BASE,
) -> dict[str, Float[np.ndarray, " N"]]:
  """Returns measure -> value of each sample, in the order of `MEASURES`.

  Args:
    truth_NxT: annotated location, scale, skewness in raw units.
    predicted_NxT: predictions in raw units; see `clip_scale`.
    base: base of the log time of both.

  Raises:
    ValueError: if a scale is not above 0.
  """
  for name, targets in (("true", truth_NxT), ("predicted", predicted_NxT)):
    # Negated, so that NaN is bad as well.
    bad_rows = np.flatnonzero(~(targets[:, 1] > 0))
    if len(bad_rows):
      raise ValueError(
        f"{name} scale of sample {bad_rows[0]} is {targets[bad_rows[0]][1]}; "
        "a curve needs one above 0"
      )
  # Differences of nearly equal curves cancel in single precision.
  with jax.enable_x64(True):
    horizons = time_axis.to_log_time(jnp.array(list(HORIZONS.values())), base)
    values = _compute_measures(
      jnp.asarray(truth_NxT, jnp.float64),
      jnp.asarray(predicted_NxT, jnp.float64),
      horizons,
      math.log(base),
    )
  return {name: np.asarray(values[name]) for name in MEASURES}


@jax.jit
def _compute_measures(
  truth_NxT: Float[Array, "N T"],
  predicted_NxT: Float[Array, "N T"],
  horizons_H: Float[Array, " H"],
  log_base: ArrayLike,
) -> Mapping[str, Float[Array, " N"]]:
  """Returns measure -> value of each sample."""
  truth = SkewNormal.from_targets(truth_NxT)
  predicted = SkewNormal.from_targets(predicted_NxT)
  rise, fall = skew_normal.find_crossings(truth)
  predicted_rise, predicted_fall = skew_normal.find_crossings(predicted)
  cramer = scores.cramer_distance(truth, predicted)
  kl = scores.kl_divergence(truth, predicted)

  def log_minutes_apart(
    first_log_time: jax.Array, second_log_time: jax.Array
  ) -> jax.Array:
    # log time to `base` times ln base is the natural log of minutes.
    return jnp.abs(first_log_time - second_log_time) * log_base

  values = {
    "curve_kl": kl,
    # H(f, g) = KL(f, g) + H(f); CRPS decomposes in the same way.
    "curve_cross_entropy": kl + scores.entropy(truth),
    "expected_crps": cramer + scores.self_crps(truth),
    "cramer": cramer,
    "wasserstein": scores.wasserstein(truth, predicted),
    "overlap": scores.overlap(truth, predicted),
    "validity_l1": scores.validity_l1(truth, predicted),
    "validity_sup": scores.validity_sup(truth, predicted),
    "mode_log_minutes": log_minutes_apart(
      skew_normal.mode(truth), skew_normal.mode(predicted)
    ),
    "start_log_minutes": log_minutes_apart(rise, predicted_rise),
    "end_log_minutes": log_minutes_apart(fall, predicted_fall),
  }
  for index, name in enumerate(HORIZONS):
    gap = skew_normal.validity(truth, horizons_H[index]) - skew_normal.validity(
      predicted, horizons_H[index]
    )
    key = name.replace(" ", "_")
    values[f"validity_mae@{key}"] = jnp.abs(gap)
    values[f"validity_brier@{key}"] = gap**2
  return values
