"""Scores of a predicted curve, against a time or against another curve.

The mean squared error of parameters weighs a unit of location like a unit of
shape and ignores the curve they describe together. The scores here compare the
curves themselves; they are differentiable and can serve as losses.

`crps` has a closed form. The integrals use Gauss-Legendre nodes on the pieces
between the landmarks of both curves, so that a narrow curve far from a wide
one is resolved. 100 nodes on each piece leave errors below 1e-6 where the
integrand is smooth, and relative errors below 2e-4 where it has a kink
(`overlap`, `wasserstein`, `validity_l1`).

Axes: any shape [...], so arrays are annotated without axes; P nodes of all
pieces.

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
from jax.typing import ArrayLike

from ctd_jax.tasks.chronocept.curves import skew_normal
from ctd_jax.tasks.chronocept.curves.skew_normal import SkewNormal

# The density is below 1e-17 of its maximum farther from the location than this.
_MAX_SCALES = 9.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(100)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# Positions between the two nodes beside the largest gap, see `validity_sup`.
_REFINED_GRID = np.linspace(0, 1, 129)


@jax.jit
def crps(curve: SkewNormal, log_time: ArrayLike) -> jax.Array:
  """Returns the continuous ranked probability score of a log time, >= 0.

  It is the integral of (F(x) - [x >= y])^2 in units of log time. For a curve
  concentrated in one point it is the absolute error.

  Args:
    curve: broadcasts with `log_time`.
    log_time: the observed y.
  """
  alpha = jnp.asarray(curve.skewness)
  z = (log_time - curve.location) / curve.scale
  delta = alpha / jnp.sqrt(1 + alpha**2)
  c = math.sqrt(2 / math.pi)
  cdf = ndtr(z) - 2 * skew_normal.owens_t(z, alpha)
  # E|Z - z| for a standard skew-normal Z.
  distance = (
    z * (2 * cdf - 1)
    + c * delta
    + 4 * stats.norm.pdf(z) * ndtr(alpha * z)
    - 2 * c * delta * ndtr(z * jnp.sqrt(1 + alpha**2))
  )
  return curve.scale * (distance - _half_gini(alpha))


def _half_gini(alpha: jax.Array) -> jax.Array:
  """Returns E|Z - Z'| / 2 for independent draws of a standard curve."""
  delta = alpha / jnp.sqrt(1 + alpha**2)
  spread = 1 / math.sqrt(math.pi)
  turn = 2 * math.pi**-1.5
  return (
    spread
    + turn * jnp.arcsin(alpha**2 / (2 + alpha**2))
    - math.sqrt(2) * turn * delta * jnp.arctan(alpha / math.sqrt(2))
  )


def self_crps(curve: SkewNormal) -> jax.Array:
  """Returns the mean CRPS of a curve over its own draws, the minimum."""
  return curve.scale * _half_gini(jnp.asarray(curve.skewness))


@jax.jit
def entropy(curve: SkewNormal) -> jax.Array:
  """Returns the differential entropy over log time, in nats."""
  return cross_entropy(curve, curve)


@jax.jit
def cross_entropy(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns the cross-entropy -int f log g, in nats.

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
  """Returns the Kullback-Leibler divergence of g from f, >= 0, in nats.

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

  It equals the mean CRPS of `predicted` over draws from `truth`, minus the mean
  CRPS of `truth` itself.

  Args:
    truth: with distribution function F.
    predicted: with distribution function G.
  """
  return _integrate(lambda x, f, g: _cdf_gap(x, f, g) ** 2, truth, predicted)


@jax.jit
def wasserstein(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns the 1-Wasserstein distance, in units of log time.

  Args:
    truth: with distribution function F.
    predicted: with distribution function G; the result is the integral of
      |F - G|.
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
    truth: the curve with validity v.
    predicted: the curve with validity w.
  """
  return _integrate(_validity_gap, truth, predicted)


@jax.jit
def validity_sup(truth: SkewNormal, predicted: SkewNormal) -> jax.Array:
  """Returns the greatest |v - w|, 0 to 1, v and w the validities.

  Args:
    truth: the curve with validity v.
    predicted: the curve with validity w.
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
  # Nodes of two pieces may coincide; their neighbours still bracket the
  # maximum, which is then searched on a finer grid.
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
  """Returns the integral over the log times where either curve has mass.

  Args:
    integrand: function of x [..., P] and of both curves [..., 1].
    truth: curves [...].
    predicted: curves that broadcast with `truth`.
  """
  curves = _with_nodes_axis(truth, predicted)
  x, weights = _nodes(*curves)
  return (integrand(x, *curves) * weights).sum(axis=-1)


def _with_nodes_axis(*curves: SkewNormal) -> list[SkewNormal]:
  """Returns the curves broadcast to one shape [..., 1]."""
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
  # The value of the integral does not depend on the cuts, so no gradient flows
  # through them.
  cuts = jax.lax.stop_gradient(jnp.sort(landmarks, axis=-1))
  starts, lengths = cuts[..., :-1, None], jnp.diff(cuts)[..., None]
  shape = (*cuts.shape[:-1], -1)
  # [..., pieces, nodes of a piece] -> [..., P]. Constants take the dtype of the
  # curves; see `skew_normal._wedge`.
  x = (starts + lengths * _NODES.astype(cuts.dtype)).reshape(shape)
  return x, (lengths * _WEIGHTS.astype(cuts.dtype)).reshape(shape)
