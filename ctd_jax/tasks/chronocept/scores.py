"""Scores of a predicted curve: against a time, and against another curve.

Why: mean squared error of parameters treats an hour of the location and a unit
of the shape alike, and knows nothing of the curve they make together. These
compare curves, are proper where they are scores, and are differentiable, so
that they serve as losses as well. Called by `curve_measures` and losses.

`crps` is closed form. What is an integral is summed on nodes laid piecewise
between the two curves' own landmarks, so that a narrow curve far from a wide
one is still seen; 100 nodes a piece leave errors below 1e-6 where the integrand
is smooth, and below 2e-4 of the value where it has a kink (`overlap`,
`wasserstein`, `validity_l1`).

Axes: curves of one shape [...], nodes P = pieces x `_NODES`.

Source: Gneiting and Raftery, "Strictly proper scoring rules, prediction, and
estimation" (2007), section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import ndtr

from ctd_jax.tasks.chronocept import skew_normal
from ctd_jax.tasks.chronocept.skew_normal import SkewNormal

# Beyond so many scales from the location a curve is nothing.
_MAX_SCALES = 9.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(100)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_REFINED_GRID = np.linspace(0, 1, 129)


@jax.jit
def crps(curve: SkewNormal, log_time: jax.Array) -> jax.Array:
  """Returns the continuous ranked probability score of a log time, >= 0.

  The integral of (F(x) - [x >= y])^2: in units of log time, 0 for a curve that
  is all at y, absolute error for a curve that is all at another point.

  Args:
    curve: broadcasts with `log_time`.
    log_time: y.
  """
  alpha = jnp.asarray(curve.skewness)
  z = (log_time - curve.location) / curve.scale
  delta = alpha / jnp.sqrt(1 + alpha**2)
  c = math.sqrt(2 / math.pi)
  cdf = ndtr(z) - 2 * skew_normal.owens_t(z, alpha)
  distance = (
    z * (2 * cdf - 1)
    + c * delta
    + 4 * stats.norm.pdf(z) * ndtr(alpha * z)
    - 2 * c * delta * ndtr(z * jnp.sqrt(1 + alpha**2))
  )
  return curve.scale * (distance - _half_gini(alpha))


def _half_gini(alpha: jax.Array) -> jax.Array:
  """Returns half the mean distance of two draws of a standard curve."""
  delta = alpha / jnp.sqrt(1 + alpha**2)
  spread = 1 / math.sqrt(math.pi)
  turn = 2 * math.pi**-1.5
  return (
    spread
    + turn * jnp.arcsin(alpha**2 / (2 + alpha**2))
    - math.sqrt(2) * turn * delta * jnp.arctan(alpha / math.sqrt(2))
  )


def self_crps(curve: SkewNormal) -> jax.Array:
  """Returns the mean CRPS of a curve over its own draws, its least possible."""
  return curve.scale * _half_gini(jnp.asarray(curve.skewness))


@jax.jit
def entropy(curve: SkewNormal) -> jax.Array:
  """Returns the differential entropy over log time, in nats."""
  return cross_entropy(curve, curve)


@jax.jit
def cross_entropy(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns - integral of f log g, in nats: the proper NLL of a curve.

  Args:
    truth: f, the annotated curve.
    predicted: g.
  """
  return _integrate(
    lambda x, f, g: -skew_normal.density(f, x) * skew_normal.log_density(g, x),
    truth,
    predicted,
  )


@jax.jit
def kl_divergence(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns cross-entropy less entropy, >= 0, in nats.

  Args:
    truth: f, the annotated curve.
    predicted: g.
  """

  def integrand(x, f, g):
    log_f = skew_normal.log_density(f, x)
    return jnp.exp(log_f) * (log_f - skew_normal.log_density(g, x))

  return _integrate(integrand, truth, predicted)


@jax.jit
def cramer_distance(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns the integral of (F - G)^2, in units of log time.

  It is the mean CRPS of `predicted` over draws of `truth`, less that of `truth`
  itself.

  Args:
    truth: with distribution F.
    predicted: with distribution G.
  """
  return _integrate(lambda x, f, g: _cdf_gap(x, f, g) ** 2, truth, predicted)


@jax.jit
def wasserstein(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns the 1-Wasserstein distance, in units of log time.

  Args:
    truth: with distribution F.
    predicted: with distribution G; the integral of |F - G|.
  """
  return _integrate(
    lambda x, f, g: jnp.abs(_cdf_gap(x, f, g)), truth, predicted
  )


@jax.jit
def overlap(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns the overlap coefficient, integral of min(f, g), 0 to 1.

  Args:
    truth: f.
    predicted: g.
  """
  return _integrate(
    lambda x, f, g: jnp.minimum(
      skew_normal.density(f, x), skew_normal.density(g, x)
    ),
    truth,
    predicted,
  )


@jax.jit
def validity_l1(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns the integral of |v - w| over log time, v and w the validities.

  Args:
    truth: of v.
    predicted: of w.
  """
  return _integrate(_validity_gap, truth, predicted)


@jax.jit
def validity_sup(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns the greatest |v - w|, 0 to 1, v and w the validities.

  Args:
    truth: of v.
    predicted: of w.
  """
  curves = _with_nodes_axis(truth, predicted)
  x, _ = _nodes(*curves)
  best_index = jnp.argmax(_validity_gap(x, *curves), axis=-1, keepdims=True)
  low, high = (
    jnp.take_along_axis(
      x, jnp.clip(best_index + step, 0, x.shape[-1] - 1), axis=-1
    )
    for step in (-1, 1)
  )
  # Nodes of two pieces may coincide, but those beside the best are near it.
  refined_x = low + (high - low) * _REFINED_GRID.astype(x.dtype)
  return _validity_gap(refined_x, *curves).max(axis=-1)


def _cdf_gap(x: jax.Array, f: SkewNormal, g: SkewNormal) -> jax.Array:
  return skew_normal.cumulative_distribution(
    f, x
  ) - skew_normal.cumulative_distribution(g, x)


def _validity_gap(x: jax.Array, f: SkewNormal, g: SkewNormal) -> jax.Array:
  return jnp.abs(skew_normal.validity(f, x) - skew_normal.validity(g, x))


def _integrate(
  integrand: Callable[..., jax.Array],
  truth: SkewNormal,
  predicted: SkewNormal,
) -> jax.Array:
  """Returns the integral over log time, where either curve is, [...].

  Args:
    integrand: of x [..., P] and both curves [..., 1].
    truth: [...].
    predicted: [...].
  """
  curves = _with_nodes_axis(truth, predicted)
  x, weights = _nodes(*curves)
  return (integrand(x, *curves) * weights).sum(axis=-1)


def _with_nodes_axis(*curves: SkewNormal) -> list[SkewNormal]:
  """Returns the curves with one shape and a last axis of 1."""
  parameters = jnp.broadcast_arrays(
    *(parameter for curve in curves for parameter in curve)
  )
  parameters = [parameter[..., None] for parameter in parameters]
  return [
    SkewNormal(*parameters[i : i + 3]) for i in range(0, len(parameters), 3)
  ]


def _nodes(*curves: SkewNormal) -> tuple[jax.Array, jax.Array]:
  """Returns log times and their weights, each [..., P], of curves [..., 1]."""
  landmarks = jnp.concatenate(
    [
      curve.location + curve.scale * reach
      for curve in curves
      for reach in (-_MAX_SCALES, 0.0, _MAX_SCALES)
    ],
    axis=-1,
  )
  # The integral does not depend on where it is cut.
  cuts = jax.lax.stop_gradient(jnp.sort(landmarks, axis=-1))
  starts, lengths = cuts[..., :-1, None], jnp.diff(cuts)[..., None]
  shape = (*cuts.shape[:-1], -1)
  # Constants in the precision at hand, or a second trace in another breaks.
  x = (starts + lengths * _NODES.astype(cuts.dtype)).reshape(shape)
  return x, (lengths * _WEIGHTS.astype(cuts.dtype)).reshape(shape)
