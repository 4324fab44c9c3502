"""Least-squares fits of curves to annotated points.

An annotator places three to five points, and a curve has up to four
parameters. A fit may end in a local optimum, overfit, or not be determined at
all, and its root mean square error shows none of that. Fits here start from
many shapes and report convergence, the number of starts that agree, the
covariance, information criteria and the leave-one-out error.

The model is amplitude times density. As published, the amplitude is free; it
is a nuisance parameter, since the published normalisation replaces it by
1 / max density. Alternatively the height of the peak is given, which
determines the amplitude.

Axes: N points, P parameters of a family, Q free values of a fit.

Source: Chronocept, arXiv 2505.07637v1, appendix D; Branch, Coleman and Li
(1999) for the trust-region method.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import scipy.ndimage
import scipy.optimize
from jaxtyping import Float

from ctd_jax.tasks.chronocept.curves import curve_families
from ctd_jax.tasks.chronocept.curves.curve_families import CurveFamily

_COST_TOLERANCE = 1e-6  # optima with costs this close, relatively, are one
MAX_STARTS = 5  # from the grid
# A normal prior on alpha with standard deviation 10 for residuals of .03: it
# decides between curves that the points do not distinguish.
WEAK_RIDGE = 1e-5
_TOLERANCE = 1e-12  # of cost, step and gradient; four decimals are compared
_MAX_EVALUATIONS = 2000


@dataclasses.dataclass(frozen=True)
class CurveFit:
  """A curve fitted to points.

  Attributes:
    family: of the curve.
    amplitude: factor of the density.
    parameters: of the density.
    x: log times of the points.
    y: validities of the points.
    peak_height: prescribed height of the peak; None if the amplitude is free.
    ridge: weight of alpha squared among the squared residuals.
    covariance: of amplitude and parameters in this order, or of the parameters
      alone if the height is prescribed; NaN if no residual degree of freedom
      is left.
    converged: whether the trust-region method reports convergence.
    parameters_at_bound: names of parameters that end at a bound.
    num_starts: number of starts.
    num_agreeing_starts: number of starts that end in this optimum.
    errors: root mean square error at the end of each start, ascending.
  """

  family: CurveFamily
  amplitude: float
  parameters: Float[np.ndarray, " P"]
  x: Float[np.ndarray, " N"]
  y: Float[np.ndarray, " N"]
  peak_height: float | None
  ridge: float
  covariance: Float[np.ndarray, "Q Q"]
  converged: bool
  parameters_at_bound: tuple[str, ...]
  num_starts: int
  num_agreeing_starts: int
  errors: tuple[float, ...]

  def evaluate(self, x: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
    """Returns the fitted values at any log times."""
    return self.amplitude * self.family.density(x, self.parameters)

  @property
  def peak(self) -> float:
    """Height of the peak."""
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
  def residuals(self) -> Float[np.ndarray, " N"]:
    """Validities of the points minus those of the curve."""
    return self.y - self.evaluate(self.x)

  @property
  def rmse(self) -> float:
    """Root mean square residual, as in Table 11."""
    return _rms(self.residuals)

  @property
  def rmse_normalised(self) -> float:
    """Root mean square residual of the curve scaled to a peak of 1."""
    return _rms(self.y - self.evaluate(self.x) / self.peak)

  @property
  def aicc(self) -> float:
    """Akaike's corrected criterion; infinite if there are too few points."""
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
    """Returns -2 log likelihood of normal residuals up to a constant."""
    n = len(self.x)
    # A curve through all points would have -inf.
    tiny = np.finfo(float).tiny
    return n * math.log(max(self.rmse**2, tiny))


def fit_curve(
  family: CurveFamily,
  x: Float[np.ndarray, " N"],
  y: Float[np.ndarray, " N"],
  peak_height: float | None = None,
  ridge: float = 0.0,
  max_starts: int = MAX_STARTS,
) -> CurveFit:
  """Returns the best of the fits from several starts.

  Starts are the best local optima of a grid of parameters, each with its best
  amplitude, and a curve centred on the highest point.

  Args:
    family: of the curve.
    x: log times of the points.
    y: validities of the points.
    peak_height: height of the peak; None leaves the amplitude free.
    ridge: adds ridge x alpha^2 to the squared residuals, a normal prior on the
      skewness; for the skew-normal only.
    max_starts: maximum number of starts from the grid.

  Raises:
    ValueError: if the points do not determine the curve, or the family cannot
      be at these log times.
  """
  x, y = np.asarray(x, float), np.asarray(y, float)
  _check_points(family, x, y, peak_height, ridge)
  # The start of `fit_curve_from_peak` is among them, so the result is never
  # worse than that.
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
  x: Float[np.ndarray, " N"],
  y: Float[np.ndarray, " N"],
  peak_height: float | None = None,
  ridge: float = 0.0,
) -> CurveFit:
  """Returns the fit from a single start, centred on the highest point.

  It may be a local optimum, as in one cell of Table 11. Arguments and errors
  are those of `fit_curve`.
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
  """Returns the RMSE of points, each under a fit to the others.

  Args:
    curve_fit: its points, family and settings are used.
    max_starts: of each fit.

  Returns:
    The error, or None if N - 1 points do not determine the curve.
  """
  residuals = []
  for held_out in range(len(curve_fit.x)):
    is_train = np.arange(len(curve_fit.x)) != held_out
    x, y = curve_fit.x[is_train], curve_fit.y[is_train]
    # One point fewer may leave the curve undetermined.
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
  """Returns the number of residuals; a ridge counts as one more."""
  return len(x) + (ridge > 0)


def _check_points(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  peak_height: float | None,
  ridge: float,
) -> None:
  """Raises ValueError if the points cannot determine a curve of the family."""
  # The amplitude is a free value unless the height of the peak is given.
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


def _best_amplitudes(
  density: Float[np.ndarray, "*G N"], y: Float[np.ndarray, " N"]
) -> Float[Any, "*G"]:
  """Returns the least-squares amplitude of densities [..., N], above 0."""
  # Densities far from all points are 0 everywhere.
  power = np.maximum((density**2).sum(-1), np.finfo(float).tiny)
  return np.maximum((density * y).sum(-1) / power, np.finfo(float).tiny)


def _grid_starts(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  peak_height: float | None,
  max_starts: int,
) -> list[np.ndarray]:
  """Returns the local optima of the parameter grid, best first."""
  shapes = curve_families.make_shape_grid(family, x)
  density = family.density(x, shapes)
  if peak_height is None:
    values = density * _best_amplitudes(density, y)[..., None]
  else:
    flat = shapes.reshape(-1, shapes.shape[-1])
    peaks = np.array([family.peak_density(shape) for shape in flat])
    values = peak_height * density / peaks.reshape(*shapes.shape[:-1], 1)
  # [*G, N] -> [*G]
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
  """Returns the result of the trust-region method started at a shape [P]."""
  lower, upper = list(family.lower), list(family.upper)
  # The method needs a start strictly inside the bounds.
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
    if ridge:  # one more residual, sqrt(ridge) x alpha
      residual_values = np.append(
        residual_values, math.sqrt(ridge) * parameters[-1]
      )
    return residual_values

  return scipy.optimize.least_squares(
    residuals,
    start,
    bounds=(lower, upper),
    method="trf",
    x_scale="jac",  # amplitude, location and shape differ by magnitudes
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
  """Returns the fit of the solution with the lowest cost."""
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
  """Returns the names of the parameters that end at or very near a bound."""
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
  """Returns s^2 (J'J)^-1, where s^2 is the residual variance of the points."""
  num_parameters = len(solution.x)
  num_residuals = len(solution.fun)
  if num_residuals <= num_parameters:
    return np.full((num_parameters, num_parameters), np.nan)
  variance = (solution.fun[:num_points] ** 2).sum() / (
    num_residuals - num_parameters
  )
  return variance * np.linalg.pinv(solution.jac.T @ solution.jac)
