"""Curves through the few points that an annotator places.

Why: three to five points and up to four parameters: a fit may end in a local
optimum, be no better than chance out of sample, or not be determined at all,
and none of that shows in its root mean square error. Here a fit starts from
many shapes, and says whether it converged, how many starts agree, its
covariance, criteria that charge for parameters and the error on points left
out. Called by `ctd_jax.tasks.chronocept.fit_validity` and by the annotation tools.

The model is amplitude times density. The amplitude is free, as published, and
then a nuisance: after the published normalisation it is 1 / max density
whatever it was. Or the height of the peak is given, and with it the amplitude.

Axes: N points, P shape parameters, G shapes of a grid.

Source: Chronocept, arXiv 2505.07637v1, appendix D; Branch, Coleman and Li
(1999) for the trust-region method.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.ndimage
import scipy.optimize

from ctd_jax.tasks.chronocept import curve_families
from ctd_jax.tasks.chronocept.curve_families import Family

# Optima are the same where their errors are, up to this share.
_SAME = 1e-6
STARTS = 5
# Standard deviation 10 of alpha against residuals of .03: enough to decide
# between curves that the points do not tell apart.
WEAK_RIDGE = 1e-5
_TOLERANCE = 1e-12
_EVALUATIONS = 2000


@dataclasses.dataclass(frozen=True)
class Fit:
  """A curve fitted to points.

  Attributes:
    family: of the curve.
    amplitude: factor of the density.
    parameters: of the density, [P].
    x: log times of the points, [N].
    y: their validities, [N].
    height: that was given to the peak, None where the amplitude is free.
    ridge: weight of alpha squared among the squared residuals.
    covariance: of amplitude and parameters in this order, or of the parameters
      where the height was given; NaN where no residual degree of freedom is
      left.
    converged: whether the trust-region method says so.
    at_bound: names of parameters that end at a bound.
    starts: how many starts were tried.
    agreeing: how many of them end in this optimum.
    errors: root mean square error at the end of each start, ascending.
  """

  family: Family
  amplitude: float
  parameters: np.ndarray
  x: np.ndarray
  y: np.ndarray
  height: float | None
  ridge: float
  covariance: np.ndarray
  converged: bool
  at_bound: tuple[str, ...]
  starts: int
  agreeing: int
  errors: tuple[float, ...]

  def curve(self, x: np.ndarray) -> np.ndarray:
    """Returns the fitted values at log times [N]."""
    return self.amplitude * self.family.density(x, self.parameters)

  @property
  def peak(self) -> float:
    """Greatest value of the fitted curve."""
    return self.amplitude * self.family.peak(self.parameters)

  @property
  def mode(self) -> float:
    """Log time of the peak."""
    return float(self.family.mode(self.parameters))

  @property
  def free(self) -> int:
    """Number of fitted values."""
    return len(self.parameters) + (self.height is None)

  @property
  def residuals(self) -> np.ndarray:
    """Points less curve, [N]."""
    return self.y - self.curve(self.x)

  @property
  def rmse(self) -> float:
    """Root mean square residual: the figure of Table 11."""
    return _rms(self.residuals)

  @property
  def rmse_normalised(self) -> float:
    """The same after the curve is scaled to a peak of 1, as it is used."""
    return _rms(self.y - self.curve(self.x) / self.peak)

  @property
  def aicc(self) -> float:
    """Akaike's criterion corrected for few points; infinite if too few."""
    room = len(self.x) - self.free - 1
    if room <= 0:
      return math.inf
    penalty = 2 * self.free + 2 * self.free * (self.free + 1) / room
    return self._deviance() + penalty

  @property
  def bic(self) -> float:
    """Bayesian information criterion of normal residuals."""
    return self._deviance() + self.free * math.log(len(self.x))

  def _deviance(self) -> float:
    n = len(self.x)
    tiny = np.finfo(float).tiny
    return n * math.log(max(self.rmse**2, tiny))


def fit(
  family: Family,
  x: np.ndarray,
  y: np.ndarray,
  height: float | None = None,
  ridge: float = 0.0,
  starts: int = STARTS,
) -> Fit:
  """Returns the best of the fits from several starts.

  The starts are the local optima of a grid of shapes, the best ones, each with
  its best amplitude, and the highest point.

  Args:
    family: of the curve.
    x: log times of the points, [N].
    y: their validities, [N].
    height: of the peak; None leaves the amplitude free.
    ridge: adds ridge x alpha^2 to the squared residuals: a normal prior on the
      skewness. Only the skew-normal has one.
    starts: most starts from the grid.

  Raises:
    ValueError: if the points do not determine the curve, or the family cannot
      be at these log times.
  """
  x, y = np.asarray(x, float), np.asarray(y, float)
  _check(family, x, y, height, ridge)
  shapes = [*_grid_starts(family, x, y, height, starts), _peak(family, x, y)]
  ends = [_descend(family, x, y, height, ridge, shape) for shape in shapes]
  return _best(family, x, y, height, ridge, ends)


def fit_from_peak(
  family: Family,
  x: np.ndarray,
  y: np.ndarray,
  height: float | None = None,
  ridge: float = 0.0,
) -> Fit:
  """Returns the fit from one start: the highest point, ten units wide.

  It may be a local optimum; `fit` tells. Arguments and errors as of `fit`.
  """
  x, y = np.asarray(x, float), np.asarray(y, float)
  _check(family, x, y, height, ridge)
  end = _descend(family, x, y, height, ridge, _peak(family, x, y))
  return _best(family, x, y, height, ridge, [end])


def leave_one_out(fitted: Fit, starts: int = STARTS) -> float | None:
  """Returns the RMSE of each point under the fit of the others.

  Args:
    fitted: says points, family and settings.
    starts: of each fit.

  Returns:
    The error, or None where the points without one do not determine the curve.
  """
  misses = []
  for left_out in range(len(fitted.x)):
    kept = np.arange(len(fitted.x)) != left_out
    x, y = fitted.x[kept], fitted.y[kept]
    if _rows(x, fitted.ridge) < fitted.free:
      return None
    fold = fit(fitted.family, x, y, fitted.height, fitted.ridge, starts)
    misses.append(fitted.y[left_out] - fold.curve(fitted.x[[left_out]])[0])
  return _rms(np.array(misses))


def _rms(values: np.ndarray) -> float:
  return float(np.sqrt(np.mean(values**2)))


def _rows(x: np.ndarray, ridge: float) -> int:
  return len(x) + (ridge > 0)


def _check(
  family: Family,
  x: np.ndarray,
  y: np.ndarray,
  height: float | None,
  ridge: float,
) -> None:
  free = len(family.parameters) + (height is None)
  if len(set(x)) < len(x):
    raise ValueError("two points at one time; a curve has one validity there")
  if ridge and family is not curve_families.SKEW_NORMAL:
    raise ValueError(f"a ridge is on skewness, which {family.name} has none of")
  if _rows(x, ridge) < free:
    raise ValueError(
      f"{len(x)} points do not determine the {free} values of "
      f"{family.name}; give more points, the height of the peak or a ridge"
    )
  if not y.max() > 0:
    raise ValueError("no point has a validity above 0")
  positive = family in (curve_families.LOGNORMAL, curve_families.GAMMA)
  if positive and not (x > 0).all():
    raise ValueError(
      f"{family.name} has no value at log time {x.min():g}; it needs times "
      "above one minute"
    )


def _peak(family: Family, x: np.ndarray, y: np.ndarray) -> np.ndarray:
  return np.array(family.peak_start(x[np.argmax(y)]))


def _amplitudes(density: np.ndarray, y: np.ndarray) -> np.ndarray:
  """Returns the best amplitude of each density [..., N], above 0."""
  power = np.maximum((density**2).sum(-1), np.finfo(float).tiny)
  return np.maximum((density * y).sum(-1) / power, np.finfo(float).tiny)


def _grid_starts(
  family: Family,
  x: np.ndarray,
  y: np.ndarray,
  height: float | None,
  starts: int,
) -> list[np.ndarray]:
  """Returns the shapes that are best among their neighbours, best first."""
  shapes = curve_families.shapes_of(family, x)
  density = family.density(x, shapes)
  if height is None:
    values = density * _amplitudes(density, y)[..., None]
  else:
    flat = shapes.reshape(-1, shapes.shape[-1])
    peaks = np.array([family.peak(shape) for shape in flat])
    values = height * density / peaks.reshape(*shapes.shape[:-1], 1)
  errors = ((values - y) ** 2).sum(-1)
  least = errors == scipy.ndimage.minimum_filter(errors, size=3)
  order = np.argsort(errors[least], kind="stable")[:starts]
  return list(shapes[least][order])


def _descend(
  family: Family,
  x: np.ndarray,
  y: np.ndarray,
  height: float | None,
  ridge: float,
  shape: np.ndarray,
) -> scipy.optimize.OptimizeResult:
  """Returns where the trust-region method ends from a shape."""
  lower, upper = list(family.lower), list(family.upper)
  start = np.clip(shape, np.array(lower) * 1.001, upper)
  if height is None:
    amplitude = _amplitudes(family.density(x, start), y)
    start = np.array([amplitude, *start])
    lower, upper = [0.0, *lower], [np.inf, *upper]

  def residuals(values: np.ndarray) -> np.ndarray:
    parameters = values[-len(shape) :]
    factor = values[0] if height is None else height / family.peak(parameters)
    found = factor * family.density(x, parameters) - y
    if ridge:
      found = np.append(found, math.sqrt(ridge) * parameters[-1])
    return found

  return scipy.optimize.least_squares(
    residuals,
    start,
    bounds=(lower, upper),
    method="trf",
    x_scale="jac",
    ftol=_TOLERANCE,
    xtol=_TOLERANCE,
    gtol=_TOLERANCE,
    max_nfev=_EVALUATIONS,
  )


def _best(
  family: Family,
  x: np.ndarray,
  y: np.ndarray,
  height: float | None,
  ridge: float,
  ends: list[scipy.optimize.OptimizeResult],
) -> Fit:
  """Returns the fit with the least cost."""
  best = min(ends, key=lambda end: end.cost)
  parameters = best.x[-len(family.parameters) :]
  same = best.cost * (1 + _SAME) + np.finfo(float).eps
  return Fit(
    family=family,
    amplitude=float(
      best.x[0] if height is None else height / family.peak(parameters)
    ),
    parameters=parameters,
    x=x,
    y=y,
    height=height,
    ridge=ridge,
    covariance=_covariance(best, len(x)),
    converged=bool(best.success),
    at_bound=_at_bound(family, parameters),
    starts=len(ends),
    agreeing=sum(bool(end.cost <= same) for end in ends),
    errors=tuple(sorted(float(np.sqrt(2 * end.cost / len(x))) for end in ends)),
  )


def _at_bound(family: Family, parameters: np.ndarray) -> tuple[str, ...]:
  """Returns the names of the parameters that end at a bound, or as good as."""
  bounds = np.array([family.lower, family.upper])
  at = np.isclose(parameters, bounds, rtol=1e-3, atol=1e-6).any(axis=0)
  return tuple(
    name for name, found in zip(family.parameters, at, strict=True) if found
  )


def _covariance(end: scipy.optimize.OptimizeResult, points: int) -> np.ndarray:
  """Returns s^2 (J'J)^-1, s^2 the residual variance of the points."""
  width = len(end.x)
  rows = len(end.fun)
  if rows <= width:
    return np.full((width, width), np.nan)
  variance = (end.fun[:points] ** 2).sum() / (rows - width)
  return variance * np.linalg.pinv(end.jac.T @ end.jac)
