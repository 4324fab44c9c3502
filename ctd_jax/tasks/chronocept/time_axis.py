"""Elapsed time and its logarithm, to any base.

Why: the curves live on log time, people ask in minutes and days, and a record
is of no use without the base of its logarithm. Called by whoever moves a curve
from one base to another or asks for a time.

Time is in minutes since publication and at least 1: a logarithm below 0 is a
time that the annotation cannot express, "at publication" has no image, and
"for ever" is no point on the axis.

Source: Chronocept, arXiv 2505.07637v1, Table 9 (base and ticks). Three of its
anchors are a little off (month, year, decade); here they are computed.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

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


def to_log_time(minutes: jax.Array, base: float = LOG_BASE) -> jax.Array:
  """Returns log time, ln(minutes) / ln(base).

  Args:
    minutes: since publication, above 0; below 1 the logarithm is negative.
    base: above 1.
  """
  return jnp.log(minutes) / math.log(base)


def to_minutes(log_time: jax.Array, base: float = LOG_BASE) -> jax.Array:
  """Returns the minutes of a log time.

  Args:
    log_time: to `base`.
    base: above 1.
  """
  return jnp.exp(log_time * math.log(base))


def base_ratio(old_base: float, new_base: float) -> float:
  """Returns the factor from log times to base `old_base` to those to base `new_base`.

  Location and scale of a curve are multiplied by it, the skewness stays. The
  detour over minutes would overflow where this does not.

  Raises:
    ValueError: if a base is not above 1.
  """
  for base in (old_base, new_base):
    if not base > 1:
      raise ValueError(f"base {base} of log time should be above 1")
  return math.log(old_base) / math.log(new_base)


def density_per_minute(
  density: jax.Array, minutes: jax.Array, base: float = LOG_BASE
) -> jax.Array:
  """Returns the density over minutes of a density over log time.

  Args:
    density: at `to_log(minutes, base)`.
    minutes: above 0.
    base: of the log time.
  """
  return density / (minutes * math.log(base))
