"""What a prediction gets wrong about the curve, sample by sample.

Why: users ask when a statement peaks, from when to when it holds and how valid
it is tomorrow; errors of xi, omega and alpha do not say. Called by
`validity.experiment`; rows and paired tests are made of the per-sample values.

Measures end in what they are measured in: nats, log time, minutes as their
natural logarithm (0.69 is a factor of 2), or validity.

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

from ctd_jax.tasks.chronocept import scores, skew_normal, time_axis
from ctd_jax.tasks.chronocept.skew_normal import SkewNormal
from ctd_jax_datasets.chronocept.samples import LOG_BASE

# At which the validity is asked for, in minutes.
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
# A predicted scale below this is taken for it: a regression may give 0 or less.
MIN_SCALE = 0.1


def clip_scale(predicted_NxT: np.ndarray) -> tuple[np.ndarray, int]:
  """Returns predictions that are curves, and how many were none.

  Args:
    predicted_NxT: [N, T] in raw units; scales below `LEAST_SCALE` are raised.
  """
  predicted = np.array(predicted_NxT, float)
  is_low = predicted[:, 1] < MIN_SCALE
  predicted[is_low, 1] = MIN_SCALE
  return predicted, int(is_low.sum())


def compute_curve_measures(
  truth_NxT: np.ndarray,
  predicted_NxT: np.ndarray,
  base: float = LOG_BASE,
) -> dict[str, np.ndarray]:
  """Returns measure -> value of each sample, [N]; `MEASURES` in order.

  Args:
    truth_NxT: annotated location, scale, skewness in raw units, [N, T].
    predicted_NxT: the same, predicted; see `clip_scale`.
    base: of the log time of both.

  Raises:
    ValueError: if a scale is not above 0.
  """
  for name, targets in (("true", truth_NxT), ("predicted", predicted_NxT)):
    bad_rows = np.flatnonzero(~(np.asarray(targets)[:, 1] > 0))
    if len(bad_rows):
      raise ValueError(
        f"{name} scale of sample {bad_rows[0]} is {targets[bad_rows[0]][1]}; a curve "
        "needs one above 0"
      )
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
  truth_NxT: jax.Array,
  predicted_NxT: jax.Array,
  horizons_H: jax.Array,
  log_base: float,
) -> Mapping[str, jax.Array]:
  """Returns measure -> [N]."""
  truth, predicted = (
    SkewNormal.from_targets(truth_NxT),
    SkewNormal.from_targets(predicted_NxT),
  )
  rise, fall = skew_normal.find_crossings(truth)
  predicted_rise, predicted_fall = skew_normal.find_crossings(predicted)
  cramer = scores.cramer_distance(truth, predicted)
  kl = scores.kl_divergence(truth, predicted)

  def log_minutes_apart(
    first_log_time: jax.Array, second_log_time: jax.Array
  ) -> jax.Array:
    return jnp.abs(first_log_time - second_log_time) * log_base

  values = {
    "curve_kl": kl,
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
