"""Elapsed time in minutes and its logarithm to any base.

Curves are functions of log time, and their parameters mean nothing without the
base of the logarithm. Time is counted in minutes since publication and is at
least 1: the annotation cannot express a negative logarithm, and neither the
moment of publication nor "for ever" is a point on the axis.

Axes: any shape, so arrays are annotated without axes.

Source: Chronocept, arXiv 2505.07637v1, Table 9 (base and ticks). Three of its
anchors (month, year, decade) are slightly off; here they are computed.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ctd_jax_datasets.chronocept.samples import LOG_BASE

# Ticks of the annotation, in minutes; a month has 30 days, a year 365.
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


def to_log_time(minutes: ArrayLike, base: float = LOG_BASE) -> jax.Array:
  """Returns log time, ln(minutes) / ln(base).

  Args:
    minutes: since publication, above 0; below 1 the logarithm is negative.
    base: above 1.
  """
  return jnp.log(minutes) / math.log(base)


def to_minutes(log_time: ArrayLike, base: float = LOG_BASE) -> jax.Array:
  """Returns the minutes of a log time.

  Args:
    log_time: logarithm to `base`.
    base: above 1.
  """
  return jnp.exp(log_time * math.log(base))


def base_ratio(old_base: float, new_base: float) -> float:
  """Returns the factor that converts log times from one base to another.

  Location and scale of a curve are multiplied by it; the skewness does not
  change. A conversion by way of minutes would overflow for distant times.

  Raises:
    ValueError: if a base is not above 1.
  """
  for base in (old_base, new_base):
    # Negated, so that NaN is refused as well.
    if not base > 1:
      raise ValueError(f"base {base} of log time should be above 1")
  return math.log(old_base) / math.log(new_base)


def density_per_minute(
  density: ArrayLike, minutes: ArrayLike, base: float = LOG_BASE
) -> jax.Array:
  """Returns the density over minutes of a density over log time.

  Args:
    density: over log time, at `to_log_time(minutes, base)`.
    minutes: above 0.
    base: base of the log time.
  """
  # d log_time / d minutes = 1 / (minutes ln base)
  return density / (minutes * math.log(base))
