"""Averages of several annotators' curves: of parameters, or of densities.

The published targets are means of location, scale and skewness. The mean of
parameters is not a mean of curves: two annotators with skewness +3 and -3
become a symmetric curve that neither drew. `average_curves` fits a skew-normal
to the mixture of the densities instead; `compute_overlaps` measures how much
of the mixture each average retains.

Axes: P points of log time.

Source: Chronocept, arXiv 2505.07637v1, section on resolving disagreement (mean
of parameters).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.stats
from jaxtyping import Float

from ctd_jax.tasks.chronocept.curves import curve_families, curve_fitting

Curve = tuple[float, float, float]  # location, scale, skewness
_NUM_POINTS = 81  # of log time, at which densities are averaged
_MAX_SCALES = 4.0  # reach of the log times on either side of a location
_MAX_STARTS = 3  # from the grid of the fit


def average_parameters(curves: Sequence[Curve]) -> Curve:
  """Returns the mean of each parameter, as published.

  Args:
    curves: at least one.
  """
  return tuple(float(x) for x in np.mean(curves, axis=0))


def average_curves(curves: Sequence[Curve]) -> Curve:
  """Returns the skew-normal fitted to the mean of the densities.

  Least squares over log time, with a free amplitude.

  Args:
    curves: at least one.
  """
  log_time, mixture = mix_densities(curves)
  # The fit expects validities, which are 1 at the peak.
  curve_fit = curve_fitting.fit_curve(
    curve_families.SKEW_NORMAL,
    log_time,
    mixture / mixture.max(),
    max_starts=_MAX_STARTS,
  )
  return tuple(float(x) for x in curve_fit.parameters)


def mix_densities(
  curves: Sequence[Curve],
) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]:
  """Returns log times and the mean of the densities there.

  Args:
    curves: at least one.
  """
  low = min(location - _MAX_SCALES * scale for location, scale, _ in curves)
  high = max(location + _MAX_SCALES * scale for location, scale, _ in curves)
  log_time = np.linspace(low, high, _NUM_POINTS)
  return log_time, np.mean([_density(c, log_time) for c in curves], axis=0)


def compute_overlaps(curves: Sequence[Curve]) -> tuple[float, float]:
  """Returns the overlap coefficients of the mixture with both averages.

  An overlap coefficient is the integral of the smaller density, 0 to 1.

  Args:
    curves: at least one.

  Returns:
    (overlap with the mean of parameters, overlap with the mean of curves).
  """
  log_time, mixture = mix_densities(curves)
  step = log_time[1] - log_time[0]
  overlaps = [
    float(np.minimum(mixture, _density(curve, log_time)).sum() * step)
    for curve in (average_parameters(curves), average_curves(curves))
  ]
  return overlaps[0], overlaps[1]


def _density(curve: Curve, log_time: np.ndarray) -> np.ndarray:
  location, scale, skewness = curve
  return scipy.stats.skewnorm.pdf(log_time, skewness, location, scale)
