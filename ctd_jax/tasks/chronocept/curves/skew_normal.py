"""Skew-normal curves over log time: density, mode, validity, crossings.

Location, scale and shape do not say when a curve peaks, how valid a statement
is at a given time or when its validity falls to half; the functions here do.
All of them are vectorised and differentiable, and broadcast parameters with
times. Those that iterate are jitted.

The validity of a statement is the density divided by its maximum, so it is 1
at the mode. It is not a survival probability and does not integrate to 1. The
integral of the density over [a, b] is therefore not the probability that the
statement stays valid throughout, as equation 4 of the paper has it;
`mean_validity` and `find_crossings` describe an interval instead.

Axes: any shape, so arrays are annotated without axes; "curve" is a
`SkewNormal` whose parameters broadcast to one shape.

Source: Azzalini, "A class of distributions which includes the normal ones"
(1985); Azzalini and Capitanio, "The Skew-Normal and Related Families" (2014),
chapters 2 and 3; Owen, "Tables for computing bivariate normal probabilities"
(1956).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import log_ndtr, ndtr
from jax.typing import ArrayLike

from ctd_jax.tasks.chronocept.curves import time_axis

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
# Gauss-Legendre on [0, 1]: the integrand of Owen's T is smooth there, and 24
# nodes reach double precision.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_NUM_NEWTON_STEPS = 12  # fixed, so that the loop can be jitted and vectorised
_NUM_BISECTIONS = 50  # each halves the bracket: 2^-50 of its length remains
# Supremum of the third standardised moment, the limit of alpha -> infinity.
MAX_MOMENT_SKEWNESS = (
  (4 - math.pi) / 2 * (_SQRT_2_OVER_PI / math.sqrt(1 - 2 / math.pi)) ** 3
)


class SkewNormal(NamedTuple):
  """Parameters of curves, numbers or arrays that broadcast to one shape.

  Attributes:
    location: xi, a log time; the peak only where `skewness` is 0.
    scale: omega > 0, in units of log time.
    skewness: alpha, the shape; not the third standardised moment.
  """

  location: ArrayLike
  scale: ArrayLike
  skewness: ArrayLike

  @classmethod
  def from_targets(cls, targets: ArrayLike) -> SkewNormal:
    """Returns the curves of targets [..., 3], each parameter [...]."""
    return cls(*jnp.moveaxis(jnp.asarray(targets), -1, 0))

  @property
  def targets(self) -> jax.Array:
    """The parameters stacked along a last axis, [..., 3]."""
    return jnp.stack(jnp.broadcast_arrays(*self), axis=-1)

  def to_base(self, old_base: float, new_base: float) -> SkewNormal:
    """Returns the same curves over log time to another base."""
    ratio = time_axis.base_ratio(old_base, new_base)
    return SkewNormal(self.location * ratio, self.scale * ratio, self.skewness)


def log_density(curve: SkewNormal, log_time: ArrayLike) -> jax.Array:
  """Returns the log density over log time."""
  z = (log_time - curve.location) / curve.scale
  return _log_density_z(z, curve.skewness) - jnp.log(curve.scale)


def density(curve: SkewNormal, log_time: ArrayLike) -> jax.Array:
  """Returns the density over log time, 2/omega phi(z) Phi(alpha z)."""
  return jnp.exp(log_density(curve, log_time))


@jax.jit
def cumulative_distribution(
  curve: SkewNormal, log_time: ArrayLike
) -> jax.Array:
  """Returns the distribution function, Phi(z) - 2 T(z, alpha)."""
  z = (log_time - curve.location) / curve.scale
  return jnp.clip(ndtr(z) - 2 * owens_t(z, curve.skewness), 0.0, 1.0)


@jax.custom_jvp
def owens_t(h: ArrayLike, a: ArrayLike) -> jax.Array:
  """Returns Owen's T(h, a), with exact derivatives.

  T(h, a) is the probability that X > h and 0 < Y < aX for independent standard
  normal X and Y.
  """
  h, a = jnp.abs(h), jnp.asarray(a)
  abs_a = jnp.abs(a)
  is_steep = abs_a > 1
  # T(h, a) = 1/4 - (Phi(h) - 1/2)(Phi(ah) - 1/2) - T(ah, 1/a): quadrature is
  # needed for slopes up to 1 only. The inner `where` keeps 1 / 0 out of the
  # gradient.
  slope = jnp.where(is_steep, 1 / jnp.where(is_steep, abs_a, 1), abs_a)
  wedge_h = jnp.where(is_steep, abs_a * h, h)
  wedge = _wedge(wedge_h, slope)
  complement = 0.25 - (ndtr(h) - 0.5) * (ndtr(abs_a * h) - 0.5) - wedge
  return jnp.sign(a) * jnp.where(is_steep, complement, wedge)


def _wedge(h: jax.Array, a: jax.Array) -> jax.Array:
  """Returns T(h, a) for h >= 0 and 0 <= a <= 1 by quadrature."""
  # Constants of another dtype would promote the result, and a trace in single
  # precision after one in double precision would fail.
  dtype = jnp.result_type(h, a)
  # [..., nodes]
  x = a[..., None] * _NODES.astype(dtype)
  values = jnp.exp(-0.5 * h[..., None] ** 2 * (1 + x**2)) / (1 + x**2)
  return a / (2 * math.pi) * (values * _WEIGHTS.astype(dtype)).sum(-1)


@owens_t.defjvp
def _owens_t_jvp(primals, tangents):
  h, a = primals
  h_dot, a_dot = tangents
  by_h = -stats.norm.pdf(h) * (ndtr(a * h) - 0.5)
  by_a = jnp.exp(-0.5 * h**2 * (1 + a**2)) / (2 * math.pi * (1 + a**2))
  return owens_t(h, a), by_h * h_dot + by_a * a_dot


def mode(curve: SkewNormal) -> jax.Array:
  """Returns the log time of the peak."""
  return curve.location + curve.scale * mode_offset(curve.skewness)


@jax.jit
def mode_offset(skewness: ArrayLike) -> jax.Array:
  """Returns (mode - location) / scale for a shape alpha.

  It is the root z of alpha r(alpha z) = z, where r is the ratio of the normal
  density to the normal distribution function, found by Newton's method from
  the approximation of Azzalini and Capitanio.
  """
  alpha = jnp.asarray(skewness)
  abs_alpha = jax.lax.stop_gradient(jnp.abs(alpha))
  z = jax.lax.fori_loop(
    0,
    _NUM_NEWTON_STEPS,
    lambda _, z: _mode_step(z, abs_alpha),
    _approximate_mode(abs_alpha),
  )
  # Implicit differentiation: at the root one more Newton step changes nothing
  # but carries the derivative with respect to alpha.
  return _mode_step(jnp.sign(alpha) * z, alpha)


def _approximate_mode(alpha: jax.Array) -> jax.Array:
  """Returns the approximate mode of a standard curve with alpha >= 0."""
  mean = _SQRT_2_OVER_PI * _delta(alpha)
  sd = jnp.sqrt(1 - mean**2)
  # exp(-2 pi / alpha) vanishes at 0; the floor avoids dividing by it.
  tail = jnp.exp(-2 * math.pi / jnp.maximum(alpha, 1e-2))
  return mean - _moment_skewness_of_mean(mean) * sd / 2 - tail / 2


def _mode_step(z: jax.Array, alpha: jax.Array) -> jax.Array:
  """Returns z after a Newton step towards the root of the score."""
  ratio = jnp.exp(stats.norm.logpdf(alpha * z) - log_ndtr(alpha * z))
  score = alpha * ratio - z
  slope = -(alpha**2) * ratio * (alpha * z + ratio) - 1
  return z - score / jax.lax.stop_gradient(slope)


def mean(curve: SkewNormal) -> jax.Array:
  """Returns the mean log time under the density."""
  return curve.location + curve.scale * _SQRT_2_OVER_PI * _delta(curve.skewness)


def variance(curve: SkewNormal) -> jax.Array:
  """Returns the variance of log time under the density."""
  return curve.scale**2 * (1 - 2 / math.pi * _delta(curve.skewness) ** 2)


def moment_skewness(curve: SkewNormal) -> jax.Array:
  """Returns the third standardised moment, gamma_1."""
  return _moment_skewness_of_mean(_SQRT_2_OVER_PI * _delta(curve.skewness))


def to_centred(curve: SkewNormal) -> jax.Array:
  """Returns the centred parameters mean, sd and gamma_1, [..., 3].

  Near symmetry, where most samples lie, the Fisher information of location,
  scale and alpha is singular, but that of the centred parameters is not.
  """
  moments = mean(curve), jnp.sqrt(variance(curve)), moment_skewness(curve)
  return jnp.stack(jnp.broadcast_arrays(*moments), axis=-1)


def from_centred(centred: ArrayLike) -> SkewNormal:
  """Returns the curves with the given centred parameters.

  The derivative is infinite where gamma_1 is 0.

  Args:
    centred: mean, standard deviation and gamma_1, [..., 3]. A gamma_1 beyond
      `MAX_MOMENT_SKEWNESS` belongs to no skew-normal and gives NaN.
  """
  centre, sd, gamma = jnp.moveaxis(jnp.asarray(centred), -1, 0)
  root = jnp.cbrt(2 * gamma / (4 - math.pi))
  standard_mean = root / jnp.sqrt(1 + root**2)
  delta = standard_mean / _SQRT_2_OVER_PI
  scale = sd / jnp.sqrt(1 - standard_mean**2)
  alpha = delta / jnp.sqrt(1 - delta**2)
  return SkewNormal(centre - scale * standard_mean, scale, alpha)


@jax.jit
def validity(curve: SkewNormal, log_time: ArrayLike) -> jax.Array:
  """Returns the validity at a log time, density / max density, in (0, 1]."""
  z = (log_time - curve.location) / curve.scale
  peak = _log_density_z(mode_offset(curve.skewness), curve.skewness)
  return jnp.exp(_log_density_z(z, curve.skewness) - peak)


@functools.partial(jax.jit, static_argnames="level")
def find_crossings(
  curve: SkewNormal, level: float = 0.5
) -> tuple[jax.Array, jax.Array]:
  """Returns the log times at which the validity crosses a level.

  Args:
    curve: any shape.
    level: validity between 0 and 1; 0.5 gives the width at half height.

  Returns:
    (rise, fall): the crossings before and after the mode.
  """
  alpha = jnp.asarray(curve.skewness)
  peak = mode_offset(alpha)
  # -log density is at least as curved as z^2 / 2, so the crossing is no farther
  # from the mode than that of a normal curve.
  reach = math.sqrt(-2 * math.log(level))
  start, end = (
    curve.location
    + curve.scale * _find_crossing(alpha, peak, side * reach, level)
    for side in (-1, 1)
  )
  return start, end


def _find_crossing(
  alpha: jax.Array, peak: jax.Array, reach: float, level: float
) -> jax.Array:
  """Returns z between `peak` and `peak + reach` with validity `level`."""

  def excess(z, alpha, peak):
    log_peak_density = _log_density_z(peak, alpha)
    return _log_density_z(z, alpha) - log_peak_density - math.log(level)

  constant_alpha, constant_peak = jax.lax.stop_gradient((alpha, peak))

  def halve(_, bracket):
    near, far = bracket
    middle = (near + far) / 2
    is_inside = excess(middle, constant_alpha, constant_peak) > 0
    return jnp.where(is_inside, middle, near), jnp.where(is_inside, far, middle)

  bracket = jax.lax.fori_loop(
    0, _NUM_BISECTIONS, halve, (constant_peak, constant_peak + reach)
  )
  z = sum(bracket) / 2
  ratio = jnp.exp(
    stats.norm.logpdf(constant_alpha * z) - log_ndtr(constant_alpha * z)
  )
  # Implicit differentiation by a Newton step, as in `mode_offset`.
  return z - excess(z, alpha, peak) / (constant_alpha * ratio - z)


def minutes_above(
  curve: SkewNormal,
  level: float = 0.5,
  base: float = time_axis.LOG_BASE,
) -> jax.Array:
  """Returns the number of minutes with a validity above a level.

  Log time begins at one minute; earlier time does not count.

  Args:
    curve: over log time to `base`.
    level: validity between 0 and 1.
    base: base of the log time.
  """
  start, end = (
    time_axis.to_minutes(jnp.maximum(crossing, 0.0), base)
    for crossing in find_crossings(curve, level)
  )
  return end - start


def mean_validity(
  curve: SkewNormal, start: ArrayLike, end: ArrayLike
) -> jax.Array:
  """Returns the mean validity over an interval of log time.

  Args:
    curve: broadcasts with the ends.
    start: log time.
    end: later log time.
  """
  mass = cumulative_distribution(curve, end) - cumulative_distribution(
    curve, start
  )
  peak = density(curve, mode(curve))
  return mass / (peak * (end - start))


def _log_density_z(z: ArrayLike, alpha: ArrayLike) -> jax.Array:
  """Returns the log density of a standard curve, log(2 phi(z) Phi(az))."""
  # log_ndtr stays finite far in the tail, where log(ndtr) would be -inf.
  return math.log(2) + stats.norm.logpdf(z) + log_ndtr(alpha * z)


def _delta(alpha: ArrayLike) -> jax.Array:
  """Returns delta = alpha / sqrt(1 + alpha^2)."""
  return alpha / jnp.sqrt(1 + jnp.square(alpha))


def _moment_skewness_of_mean(standard_mean: jax.Array) -> jax.Array:
  """Returns gamma_1 of the standard curve with the given mean."""
  ratio = standard_mean / jnp.sqrt(1 - standard_mean**2)
  return (4 - math.pi) / 2 * ratio**3
