"""Validity curves: a skew-normal over log time, scaled to 1 at its peak.

A curve is a function of log time, ln(minutes) / ln(base), counted from
publication. Its parameters mean nothing without the base. Time starts at one
minute: neither the moment of publication nor "for ever" is on the axis.

The location is the peak only where the skewness is 0; `mode` gives the peak.
The validity is not a survival probability and does not integrate to 1, so an
integral over [a, b] is not the probability of staying valid throughout, as
equation 4 of the paper has it.

Axes: parameters and times broadcast to any shape.

Source: Chronocept, arXiv 2505.07637v1, Table 9 (base and ticks); Azzalini and
Capitanio, "The Skew-Normal and Related Families" (2014), chapter 2 (mode).
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import log_ndtr
from jax.typing import ArrayLike

from ctd_jax_datasets.chronocept.sample_records import LOG_BASE

# Ticks of the annotation, in minutes; a month has 30 days, a year 365. The
# paper prints month, year and decade slightly off; here they are computed.
ANCHORS = {
  "1 minute": 1.0,
  "15 minutes": 15.0,
  "30 minutes": 30.0,
  "1 hour": 60.0,
  "12 hours": 720.0,
  "1 day": 1440.0,
  "1 week": 10080.0,
  "1 month": 43200.0,
  "1 year": 525600.0,
  "1 decade": 5256000.0,
}
SPAN_SHARE = 0.8  # of the area below a curve that its span holds
MIN_SCALE = 0.1  # a regression may predict scales that no curve has
_MAX_LOG_TIME = 300.0  # five million years; later times would overflow
_REACH, _NUM_STEPS = 6, 4001  # scales beside the location, points of the grid
# Units of a time in words; the longest that gives a number of about two.
_UNITS = {
  "year": 525600,
  "month": 43200,
  "week": 10080,
  "day": 1440,
  "hour": 60,
  "minute": 1,
}
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_NUM_NEWTON_STEPS = 12  # fixed, so that the loop can be jitted and vectorised


class SkewNormal(NamedTuple):
  """Parameters of curves, numbers or arrays that broadcast to one shape."""

  location: ArrayLike  # xi, a log time
  scale: ArrayLike  # omega > 0, in units of log time
  skewness: ArrayLike  # alpha, the shape; not the third standardised moment


def to_log_time(minutes: ArrayLike, base: float = LOG_BASE) -> jax.Array:
  """Returns log time; below one minute it is negative."""
  return jnp.log(minutes) / math.log(base)


def to_minutes(log_time: ArrayLike, base: float = LOG_BASE) -> jax.Array:
  """Returns the minutes of a log time."""
  return jnp.exp(log_time * math.log(base))


def base_ratio(old_base: float, new_base: float) -> float:
  """Returns the factor that converts log times from one base to another.

  Location and scale of a curve are multiplied by it; the skewness stays.

  Raises:
    ValueError: if a base is not above 1.
  """
  for base in (old_base, new_base):
    # Negated, so that NaN is refused too.
    if not base > 1:
      raise ValueError(f"base {base} of log time should be above 1")
  # A conversion by way of minutes would overflow for distant times.
  return math.log(old_base) / math.log(new_base)


def mode(curve: SkewNormal) -> jax.Array:
  """Returns the log time of the peak."""
  return curve.location + curve.scale * mode_offset(curve.skewness)


@jax.jit
def mode_offset(skewness: ArrayLike) -> jax.Array:
  """Returns (mode - location) / scale for a shape alpha.

  It is the root z of alpha r(alpha z) = z, where r is the ratio of the normal
  density to the normal distribution function.
  """
  alpha = jnp.asarray(skewness)
  abs_alpha = jnp.abs(alpha)
  z = jax.lax.fori_loop(
    0,
    _NUM_NEWTON_STEPS,
    lambda _, z: _mode_step(z, abs_alpha),
    _approximate_mode(abs_alpha),
  )
  return jnp.sign(alpha) * z


@jax.jit
def validity(curve: SkewNormal, log_time: ArrayLike) -> jax.Array:
  """Returns the validity at a log time, density / max density, in (0, 1]."""
  z = (log_time - curve.location) / curve.scale
  peak = _log_density(mode_offset(curve.skewness), curve.skewness)
  return jnp.exp(_log_density(z, curve.skewness) - peak)


def _approximate_mode(alpha: jax.Array) -> jax.Array:
  """Returns the approximate mode of a standard curve with alpha >= 0."""
  mean = _SQRT_2_OVER_PI * alpha / jnp.sqrt(1 + alpha**2)
  sd = jnp.sqrt(1 - mean**2)
  moment_skewness = (4 - math.pi) / 2 * (mean / sd) ** 3
  # exp(-2 pi / alpha) vanishes at 0; the floor avoids dividing by it.
  tail = jnp.exp(-2 * math.pi / jnp.maximum(alpha, 1e-2))
  return mean - moment_skewness * sd / 2 - tail / 2


def _mode_step(z: jax.Array, alpha: jax.Array) -> jax.Array:
  """Returns z after a Newton step towards the root of the score."""
  ratio = jnp.exp(stats.norm.logpdf(alpha * z) - log_ndtr(alpha * z))
  slope = -(alpha**2) * ratio * (alpha * z + ratio) - 1
  return z - (alpha * ratio - z) / slope


def _log_density(z: ArrayLike, alpha: ArrayLike) -> jax.Array:
  """Returns the log density of a standard curve, log(2 phi(z) Phi(az))."""
  # log_ndtr stays finite far in the tail, where log(ndtr) would be -inf.
  return math.log(2) + stats.norm.logpdf(z) + log_ndtr(alpha * z)


@dataclasses.dataclass(frozen=True)
class ValidityCurve:
  """The curve of a statement and what it says, in minutes."""

  text: str
  location: float  # log time to `LOG_BASE`
  scale: float  # above 0
  skewness: float
  mode: float  # minutes from publication to the peak
  low: float  # start of the shortest span that holds `SPAN_SHARE` of the area
  high: float  # end of the span

  @classmethod
  def make(
    cls, text: str, location: float, scale: float, skewness: float
  ) -> ValidityCurve:
    """Returns the curve of predicted parameters."""
    scale = max(scale, MIN_SCALE)
    curve = SkewNormal(location, scale, skewness)
    # Time starts at one minute, so a curve may lie before it as a whole.
    x = np.linspace(
      max(0.0, location - _REACH * scale),
      max(0.0, location + _REACH * scale),
      _NUM_STEPS,
    )
    density = np.asarray(validity(curve, x), np.float64)
    order = np.argsort(-density, kind="stable")
    held = np.cumsum(density[order])
    inside = x[order[: np.searchsorted(held, SPAN_SHARE * held[-1]) + 1]]
    times = np.clip(
      [float(mode(curve)), inside.min(), inside.max()], 0, _MAX_LOG_TIME
    )
    return cls(text, location, scale, skewness, *(LOG_BASE**times).tolist())

  def describe(self) -> str:
    """Returns the curve in words."""
    return (
      f"about {describe_time(self.mode)}; most likely between "
      f"{describe_time(self.low)} and {describe_time(self.high)}"
    )


def describe_time(minutes: float) -> str:
  """Returns a time in words, such as "3 weeks"."""
  unit, size = next(
    (each for each in _UNITS.items() if minutes >= 1.75 * each[1]),
    ("minute", 1),
  )
  number = round(minutes / size)
  # Two digits are more than a prediction is worth.
  number = round(number, min(0, 2 - len(str(number))))
  return f"{number:,} {unit}s" if number > 1 else f"1 {unit}"
