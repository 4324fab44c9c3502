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
from ctd_jax.tasks.chronocept.curve_families import CurveFamily

# Optima are the same where their errors are, up to this share.
_COST_TOLERANCE = 1e-6
MAX_STARTS = 5
# Standard deviation 10 of alpha against residuals of .03: enough to decide
# between curves that the points do not tell apart.
WEAK_RIDGE = 1e-5
_TOLERANCE = 1e-12
_MAX_EVALUATIONS = 2000


@dataclasses.dataclass(frozen=True)
class CurveFit:
  """A curve fitted to points.

  Attributes:
    family: of the curve.
    amplitude: factor of the density.
    parameters: of the density, [P].
    x: log times of the points, [N].
    y: their validities, [N].
    peak_height: that was given to the peak, None where the amplitude is free.
    ridge: weight of alpha squared among the squared residuals.
    covariance: of amplitude and parameters in this order, or of the parameters
      where the height was given; NaN where no residual degree of freedom is
      left.
    converged: whether the trust-region method says so.
    parameters_at_bound: names of parameters that end at a bound.
    num_starts: how many starts were tried.
    num_agreeing_starts: how many of them end in this optimum.
    errors: root mean square error at the end of each start, ascending.
  """

  family: CurveFamily
  amplitude: float
  parameters: np.ndarray
  x: np.ndarray
  y: np.ndarray
  peak_height: float | None
  ridge: float
  covariance: np.ndarray
  converged: bool
  parameters_at_bound: tuple[str, ...]
  num_starts: int
  num_agreeing_starts: int
  errors: tuple[float, ...]

  def evaluate(self, x: np.ndarray) -> np.ndarray:
    """Returns the fitted values at log times [N]."""
    return self.amplitude * self.family.density(x, self.parameters)

  @property
  def peak(self) -> float:
    """Greatest value of the fitted curve."""
    return self.amplitude * self.family.peak_density(self.parameters)

  @property
  def mode(self) -> float:
    """Log time of the peak."""
    return float(self.family.mode(self.parameters))

  @property
  def num_free_values(self) -> int:
    """Number of fitted values."""
    return len(self.parameters) + (self.peak_height is None)

  @property
  def residuals(self) -> np.ndarray:
    """Points less curve, [N]."""
    return self.y - self.evaluate(self.x)

  @property
  def rmse(self) -> float:
    """Root mean square residual: the figure of Table 11."""
    return _rms(self.residuals)

  @property
  def rmse_normalised(self) -> float:
    """The same after the curve is scaled to a peak of 1, as it is used."""
    return _rms(self.y - self.evaluate(self.x) / self.peak)

  @property
  def aicc(self) -> float:
    """Akaike's criterion corrected for few points; infinite if too few."""
    degrees_of_freedom = len(self.x) - self.num_free_values - 1
    if degrees_of_freedom <= 0:
      return math.inf
    penalty = (
      2 * self.num_free_values
      + 2
      * self.num_free_values
      * (self.num_free_values + 1)
      / degrees_of_freedom
    )
    return self._deviance() + penalty

  @property
  def bic(self) -> float:
    """Bayesian information criterion of normal residuals."""
    return self._deviance() + self.num_free_values * math.log(len(self.x))

  def _deviance(self) -> float:
    n = len(self.x)
    tiny = np.finfo(float).tiny
    return n * math.log(max(self.rmse**2, tiny))


def fit_curve(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  peak_height: float | None = None,
  ridge: float = 0.0,
  max_starts: int = MAX_STARTS,
) -> CurveFit:
  """Returns the best of the fits from several starts.

  The starts are the local optima of a grid of shapes, the best ones, each with
  its best amplitude, and the highest point.

  Args:
    family: of the curve.
    x: log times of the points, [N].
    y: their validities, [N].
    peak_height: of the peak; None leaves the amplitude free.
    ridge: adds ridge x alpha^2 to the squared residuals: a normal prior on the
      skewness. Only the skew-normal has one.
    max_starts: most starts from the grid.

  Raises:
    ValueError: if the points do not determine the curve, or the family cannot
      be at these log times.
  """
  x, y = np.asarray(x, float), np.asarray(y, float)
  _check_points(family, x, y, peak_height, ridge)
  shapes = [
    *_grid_starts(family, x, y, peak_height, max_starts),
    _start_at_peak(family, x, y),
  ]
  solutions = [
    _fit_from_shape(family, x, y, peak_height, ridge, shape) for shape in shapes
  ]
  return _select_best(family, x, y, peak_height, ridge, solutions)


def fit_curve_from_peak(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  peak_height: float | None = None,
  ridge: float = 0.0,
) -> CurveFit:
  """Returns the fit from one start: the highest point, ten units wide.

  It may be a local optimum; `fit` tells. Arguments and errors as of `fit`.
  """
  x, y = np.asarray(x, float), np.asarray(y, float)
  _check_points(family, x, y, peak_height, ridge)
  solution = _fit_from_shape(
    family, x, y, peak_height, ridge, _start_at_peak(family, x, y)
  )
  return _select_best(family, x, y, peak_height, ridge, [solution])


def leave_one_out_rmse(
  curve_fit: CurveFit, max_starts: int = MAX_STARTS
) -> float | None:
  """Returns the RMSE of each point under the fit of the others.

  Args:
    curve_fit: says points, family and settings.
    max_starts: of each fit.

  Returns:
    The error, or None where the points without one do not determine the curve.
  """
  residuals = []
  for held_out in range(len(curve_fit.x)):
    is_train = np.arange(len(curve_fit.x)) != held_out
    x, y = curve_fit.x[is_train], curve_fit.y[is_train]
    if _num_residuals(x, curve_fit.ridge) < curve_fit.num_free_values:
      return None
    fold_fit = fit_curve(
      curve_fit.family, x, y, curve_fit.peak_height, curve_fit.ridge, max_starts
    )
    residuals.append(
      curve_fit.y[held_out] - fold_fit.evaluate(curve_fit.x[[held_out]])[0]
    )
  return _rms(np.array(residuals))


def _rms(values: np.ndarray) -> float:
  return float(np.sqrt(np.mean(values**2)))


def _num_residuals(x: np.ndarray, ridge: float) -> int:
  return len(x) + (ridge > 0)


def _check_points(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  peak_height: float | None,
  ridge: float,
) -> None:
  num_free_values = len(family.parameters) + (peak_height is None)
  if len(set(x)) < len(x):
    raise ValueError("two points at one time; a curve has one validity there")
  if ridge and family is not curve_families.SKEW_NORMAL:
    raise ValueError(f"a ridge is on skewness, which {family.name} has none of")
  if _num_residuals(x, ridge) < num_free_values:
    raise ValueError(
      f"{len(x)} points do not determine the {num_free_values} values of "
      f"{family.name}; give more points, the height of the peak or a ridge"
    )
  if not y.max() > 0:
    raise ValueError("no point has a validity above 0")
  needs_positive_times = family in (
    curve_families.LOGNORMAL,
    curve_families.GAMMA,
  )
  if needs_positive_times and not (x > 0).all():
    raise ValueError(
      f"{family.name} has no value at log time {x.min():g}; it needs times "
      "above one minute"
    )


def _start_at_peak(
  family: CurveFamily, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
  return np.array(family.peak_start(x[np.argmax(y)]))


def _best_amplitudes(density: np.ndarray, y: np.ndarray) -> np.ndarray:
  """Returns the best amplitude of each density [..., N], above 0."""
  power = np.maximum((density**2).sum(-1), np.finfo(float).tiny)
  return np.maximum((density * y).sum(-1) / power, np.finfo(float).tiny)


def _grid_starts(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  peak_height: float | None,
  max_starts: int,
) -> list[np.ndarray]:
  """Returns the shapes that are best among their neighbours, best first."""
  shapes = curve_families.make_shape_grid(family, x)
  density = family.density(x, shapes)
  if peak_height is None:
    values = density * _best_amplitudes(density, y)[..., None]
  else:
    flat = shapes.reshape(-1, shapes.shape[-1])
    peaks = np.array([family.peak_density(shape) for shape in flat])
    values = peak_height * density / peaks.reshape(*shapes.shape[:-1], 1)
  errors = ((values - y) ** 2).sum(-1)
  is_local_minimum = errors == scipy.ndimage.minimum_filter(errors, size=3)
  order = np.argsort(errors[is_local_minimum], kind="stable")[:max_starts]
  return list(shapes[is_local_minimum][order])


def _fit_from_shape(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  peak_height: float | None,
  ridge: float,
  shape: np.ndarray,
) -> scipy.optimize.OptimizeResult:
  """Returns where the trust-region method ends from a shape."""
  lower, upper = list(family.lower), list(family.upper)
  start = np.clip(shape, np.array(lower) * 1.001, upper)
  if peak_height is None:
    amplitude = _best_amplitudes(family.density(x, start), y)
    start = np.array([amplitude, *start])
    lower, upper = [0.0, *lower], [np.inf, *upper]

  def residuals(values: np.ndarray) -> np.ndarray:
    parameters = values[-len(shape) :]
    factor = (
      values[0]
      if peak_height is None
      else peak_height / family.peak_density(parameters)
    )
    residual_values = factor * family.density(x, parameters) - y
    if ridge:
      residual_values = np.append(
        residual_values, math.sqrt(ridge) * parameters[-1]
      )
    return residual_values

  return scipy.optimize.least_squares(
    residuals,
    start,
    bounds=(lower, upper),
    method="trf",
    x_scale="jac",
    ftol=_TOLERANCE,
    xtol=_TOLERANCE,
    gtol=_TOLERANCE,
    max_nfev=_MAX_EVALUATIONS,
  )


def _select_best(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  peak_height: float | None,
  ridge: float,
  solutions: list[scipy.optimize.OptimizeResult],
) -> CurveFit:
  """Returns the fit with the least cost."""
  best = min(solutions, key=lambda solution: solution.cost)
  parameters = best.x[-len(family.parameters) :]
  max_agreeing_cost = best.cost * (1 + _COST_TOLERANCE) + np.finfo(float).eps
  return CurveFit(
    family=family,
    amplitude=float(
      best.x[0]
      if peak_height is None
      else peak_height / family.peak_density(parameters)
    ),
    parameters=parameters,
    x=x,
    y=y,
    peak_height=peak_height,
    ridge=ridge,
    covariance=_covariance(best, len(x)),
    converged=bool(best.success),
    parameters_at_bound=_parameters_at_bound(family, parameters),
    num_starts=len(solutions),
    num_agreeing_starts=sum(
      bool(solution.cost <= max_agreeing_cost) for solution in solutions
    ),
    errors=tuple(
      sorted(
        float(np.sqrt(2 * solution.cost / len(x))) for solution in solutions
      )
    ),
  )


def _parameters_at_bound(
  family: CurveFamily, parameters: np.ndarray
) -> tuple[str, ...]:
  """Returns the names of the parameters that end at a bound, or as good as."""
  bounds = np.array([family.lower, family.upper])
  is_at_bound = np.isclose(parameters, bounds, rtol=1e-3, atol=1e-6).any(axis=0)
  return tuple(
    name
    for name, is_bounded in zip(family.parameters, is_at_bound, strict=True)
    if is_bounded
  )


def _covariance(
  solution: scipy.optimize.OptimizeResult, num_points: int
) -> np.ndarray:
  """Returns s^2 (J'J)^-1, s^2 the residual variance of the points."""
  num_parameters = len(solution.x)
  num_residuals = len(solution.fun)
  if num_residuals <= num_parameters:
    return np.full((num_parameters, num_parameters), np.nan)
  variance = (solution.fun[:num_points] ** 2).sum() / (
    num_residuals - num_parameters
  )
  return variance * np.linalg.pinv(solution.jac.T @ solution.jac)
