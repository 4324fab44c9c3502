"""One curve of several annotators': from their curves, or their parameters.

Why: the published targets are means of location, scale and skewness. The mean
of parameters is no mean of curves: two annotators with skewness +3 and -3
become a symmetric curve that neither drew. Here the densities are averaged and
a skew-normal is fitted to the mixture; `overlaps` tells how much of the mixture
each way keeps. Called by `agreement`.

Axes: K curves of annotators, P points of log time, T = 3 parameters.

Source: Chronocept, arXiv 2505.07637v1, section on resolving disagreement (mean
of parameters).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.stats

from ctd_jax.tasks.chronocept import curve_families, curve_fitting

Curve = tuple[float, float, float]  # location, scale, skewness
_NUM_POINTS = 81
_MAX_SCALES = 4.0  # scales beyond the locations in which curves are looked at
_MAX_STARTS = 3


def average_parameters(curves: Sequence[Curve]) -> Curve:
  """Returns the mean of each parameter, as published."""
  return tuple(float(x) for x in np.mean(curves, axis=0))


def average_curves(curves: Sequence[Curve]) -> Curve:
  """Returns the skew-normal nearest to the mean of the densities.

  Nearest in least squares over log time, with a free amplitude.

  Args:
    curves: at least one.
  """
  log_time, mixture = mix_densities(curves)
  # Validities, as the fit expects them: 1 at the peak.
  curve_fit = curve_fitting.fit_curve(
    curve_families.SKEW_NORMAL,
    log_time,
    mixture / mixture.max(),
    max_starts=_MAX_STARTS,
  )
  return tuple(float(x) for x in curve_fit.parameters)


def mix_densities(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
  """Returns log times and the mean density there, [P] each."""
  low = min(location - _MAX_SCALES * scale for location, scale, _ in curves)
  high = max(location + _MAX_SCALES * scale for location, scale, _ in curves)
  log_time = np.linspace(low, high, _NUM_POINTS)
  return log_time, np.mean([_density(c, log_time) for c in curves], axis=0)


def compute_overlaps(curves: Sequence[Curve]) -> tuple[float, float]:
  """Returns what the mixture shares with the mean of parameters, of curves.

  Integrals of the smaller density; 1 = all of it.

  Args:
    curves: of the annotators.
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
