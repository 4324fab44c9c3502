"""Curves of Table 11 fitted to annotated points by least squares.

A fit is a free amplitude times a density over log time. The published
normalisation by the area and by the maximum cancels: the amplitude of a curve
with peak 1 is 1 / max(density). The problem has local optima, and the
published fit of Gaussian/S5 is one, so the best of several starts is taken.

Axes: N points, P parameters, *G a grid of parameters.

Source: Chronocept, arXiv 2505.07637v1, appendix D and Table 11.
"""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import jax
import matplotlib.axes
import matplotlib.figure
import msgspec
import numpy as np
import scipy.ndimage
import scipy.optimize
import scipy.stats
from jaxtyping import Float

from ctd_jax.tasks.chronocept import curves
from ctd_jax.utils import files, output

_NUM_LOCATIONS, _NUM_WIDTHS = 41, 21  # steps of the grids
_MAX_ALPHA = 20.0  # beyond it the curve is as good as half a normal curve
_ALPHAS = (-20.0, -8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0, 20.0)
_PEAK_SCALE = 10.0  # width in log time of a start at the highest point
_COST_TOLERANCE = 1e-6  # optima with costs this close, relatively, are one
_MAX_STARTS = 5  # from the grid
# A normal prior on alpha with standard deviation 10 for residuals of .03: it
# decides between curves that three points do not distinguish.
WEAK_RIDGE = 1e-5
_TOLERANCE = 1e-12  # of cost, step and gradient; four decimals are compared
_MAX_EVALUATIONS = 2000
_MAX_COLUMNS = 3  # of panels
# Ticks nearer than this share of the axis would overlap.
_MIN_TICK_DISTANCE = 1 / 9
# Curve -> (log times [N], validities [N]).
CurvePoints = dict[str, tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class CurveFamily:
  """A family of densities over log time."""

  name: str
  parameters: tuple[str, ...]
  lower: tuple[float, ...]
  upper: tuple[float, ...]
  # (log times [N], each parameter [..., 1]) -> densities [..., N]
  pdf: Callable[..., np.ndarray]
  mode: Callable[[np.ndarray], float]  # log time of the peak
  # Log times of the points -> values of each parameter to start from.
  parameter_grid: Callable[[np.ndarray], tuple[np.ndarray, ...]]
  # Log time of the highest point -> parameters to start from.
  peak_start: Callable[[float], tuple[float, ...]]

  def density(self, x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Returns the densities [..., N] at log times, for parameters [..., P]."""
    return self.pdf(x, *np.moveaxis(np.asarray(parameters)[..., None], -2, 0))

  def peak_density(self, parameters: np.ndarray) -> float:
    """Returns the maximum of the density at parameters [P]."""
    return float(self.density(np.array([self.mode(parameters)]), parameters)[0])


def _location_grid(x: np.ndarray) -> np.ndarray:
  reach = np.ptp(x)
  return np.linspace(x.min() - reach, x.max() + reach, _NUM_LOCATIONS)


def _width_grid(x: np.ndarray) -> np.ndarray:
  return np.ptp(x) * np.geomspace(0.02, 2, _NUM_WIDTHS)


def _exponential(x: np.ndarray, rate: np.ndarray) -> np.ndarray:
  return np.where(x >= 0, rate * np.exp(-rate * np.maximum(x, 0)), 0.0)


def _lognormal(x: np.ndarray, mu: np.ndarray, sigma: np.ndarray) -> np.ndarray:
  return scipy.stats.lognorm.pdf(x, sigma, scale=np.exp(mu))


def _gamma(x: np.ndarray, shape: np.ndarray, scale: np.ndarray) -> np.ndarray:
  return scipy.stats.gamma.pdf(x, shape, scale=scale)


def _skew_normal(
  x: np.ndarray, location: np.ndarray, scale: np.ndarray, alpha: np.ndarray
) -> np.ndarray:
  z = (x - location) / scale
  return 2 / scale * scipy.stats.norm.pdf(z) * scipy.stats.norm.cdf(alpha * z)


def _skew_normal_mode(parameters: np.ndarray) -> float:
  with jax.enable_x64(True):
    return float(curves.mode(curves.SkewNormal(*np.float64(parameters))))


def _lognormal_grid(x: np.ndarray) -> tuple[np.ndarray, ...]:
  logs = np.log(x[x > 0])
  locations = np.linspace(logs.min() - 1, logs.max() + 1, _NUM_LOCATIONS)
  return locations, np.geomspace(0.02, 3, _NUM_WIDTHS)


def _gamma_grid(x: np.ndarray) -> tuple[np.ndarray, ...]:
  # The mean, shape times scale, must come near the points.
  shapes = np.geomspace(1.01, 3000, _NUM_WIDTHS)
  centres = np.linspace(x[x > 0].min() / 2, x.max() * 1.5, _NUM_LOCATIONS)
  return shapes, np.unique(np.outer(1 / shapes, centres).ravel())


GAUSSIAN = CurveFamily(
  name="gaussian",
  parameters=("mu", "sigma"),
  lower=(-np.inf, 1e-6),
  upper=(np.inf, np.inf),
  pdf=scipy.stats.norm.pdf,
  mode=lambda p: p[0],
  parameter_grid=lambda x: (_location_grid(x), _width_grid(x)),
  peak_start=lambda top: (top, _PEAK_SCALE),
)
EXPONENTIAL = CurveFamily(
  name="exponential",
  parameters=("rate",),
  # At rate 0 the density vanishes; near it the curve is constant.
  lower=(1e-9,),
  upper=(np.inf,),
  pdf=_exponential,
  mode=lambda p: 0.0,
  parameter_grid=lambda x: (np.geomspace(1e-8, 10, 4 * _NUM_LOCATIONS),),
  peak_start=lambda top: (1 / max(top, 1.0),),
)
LOGNORMAL = CurveFamily(
  name="lognormal",
  parameters=("mu", "sigma"),
  lower=(-np.inf, 1e-6),
  upper=(np.inf, np.inf),
  pdf=_lognormal,
  mode=lambda p: np.exp(p[0] - p[1] ** 2),
  parameter_grid=_lognormal_grid,
  peak_start=lambda top: (np.log(max(top, 1.0)), _PEAK_SCALE / max(top, 1.0)),
)
GAMMA = CurveFamily(
  name="gamma",
  parameters=("shape", "scale"),
  # With a shape below 1 the density is unbounded.
  lower=(1.0, 1e-6),
  upper=(np.inf, np.inf),
  pdf=_gamma,
  mode=lambda p: (p[0] - 1) * p[1],
  parameter_grid=_gamma_grid,
  peak_start=lambda top: (
    max((top / _PEAK_SCALE) ** 2, 1.01),
    _PEAK_SCALE**2 / max(top, 1.0),
  ),
)
SKEW_NORMAL = CurveFamily(
  name="skew_normal",
  parameters=("location", "scale", "skewness"),
  lower=(-np.inf, 1e-6, -_MAX_ALPHA),
  upper=(np.inf, np.inf, _MAX_ALPHA),
  pdf=_skew_normal,
  mode=_skew_normal_mode,
  parameter_grid=lambda x: (
    _location_grid(x),
    _width_grid(x),
    np.array(_ALPHAS),
  ),
  peak_start=lambda top: (top, _PEAK_SCALE, 0.0),
)
FAMILIES = {
  family.name: family
  for family in (GAUSSIAN, EXPONENTIAL, LOGNORMAL, GAMMA, SKEW_NORMAL)
}


@dataclasses.dataclass(frozen=True)
class CurveFit:
  """A curve fitted to points."""

  family: CurveFamily
  amplitude: float  # factor of the density
  parameters: Float[np.ndarray, " P"]
  x: Float[np.ndarray, " N"]  # log times of the points
  y: Float[np.ndarray, " N"]  # their validities
  ridge: float  # weight of the squared skewness among the squared residuals
  converged: bool
  parameters_at_bound: tuple[str, ...]
  num_starts: int
  num_agreeing_starts: int  # that reached the same cost

  def evaluate(self, x: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
    """Returns the fitted validities at any log times."""
    return self.amplitude * self.family.density(x, self.parameters)

  @property
  def mode(self) -> float:
    """Log time of the peak."""
    return float(self.family.mode(self.parameters))

  @property
  def rmse(self) -> float:
    """Root mean square residual, as in Table 11."""
    return float(np.sqrt(np.mean((self.y - self.evaluate(self.x)) ** 2)))


def fit_curve(
  family: CurveFamily,
  x: Float[np.ndarray, " N"],
  y: Float[np.ndarray, " N"],
  peak_height: float | None = None,
  ridge: float | None = None,
) -> CurveFit:
  """Returns the best of the fits from several starts.

  Args:
    peak_height: validity at the peak; None fits it.
    ridge: weight of the squared skewness among the squared residuals; None is
      0, or `WEAK_RIDGE` where the points leave a skew-normal undetermined.

  Raises:
    ValueError: if the points cannot determine a curve of the family.
  """
  num_values = len(family.parameters) + (peak_height is None)
  if ridge is None or family is not SKEW_NORMAL:
    ridge = WEAK_RIDGE if family is SKEW_NORMAL and len(x) < num_values else 0.0
  if len(set(x)) < len(x):
    raise ValueError(
      "two points at one time; a curve has only one validity there"
    )
  # A ridge counts as one more residual.
  if len(x) + (ridge > 0) < num_values:
    raise ValueError(
      f"{len(x)} points do not determine the {num_values} values of "
      f"{family.name}; give more points, the height of the peak or a ridge"
    )
  if not y.max() > 0:
    raise ValueError("no point has a validity above 0")
  if family in (LOGNORMAL, GAMMA) and not (x > 0).all():
    raise ValueError(
      f"{family.name} has no value at log time {x.min():g}; it needs times "
      "above one minute"
    )
  starts = [
    *_grid_starts(family, x, y, peak_height),
    family.peak_start(x[np.argmax(y)]),
  ]
  return fit_from_starts(family, x, y, starts, peak_height, ridge)


def _best_amplitudes(
  density: Float[np.ndarray, "*G N"], y: Float[np.ndarray, " N"]
) -> Float[Any, "*G"]:
  """Returns the least-squares amplitude of densities, above 0."""
  # Densities far from all points are 0 everywhere.
  power = np.maximum((density**2).sum(-1), np.finfo(float).tiny)
  return np.maximum((density * y).sum(-1) / power, np.finfo(float).tiny)


def _grid_starts(
  family: CurveFamily, x: np.ndarray, y: np.ndarray, peak_height: float | None
) -> list[np.ndarray]:
  """Returns the local optima of the parameter grid, best first."""
  axes = family.parameter_grid(x)
  shape = *map(len, axes), len(axes)
  grid = np.array(list(itertools.product(*axes))).reshape(shape)
  density = family.density(x, grid)
  if peak_height is None:
    amplitudes = _best_amplitudes(density, y)
  else:
    peaks = np.array(
      [
        family.peak_density(parameters)
        for parameters in grid.reshape(-1, len(axes))
      ]
    )
    amplitudes = peak_height / peaks.reshape(shape[:-1])
  errors = ((density * amplitudes[..., None] - y) ** 2).sum(-1)  # [*G]
  is_local_minimum = errors == scipy.ndimage.minimum_filter(errors, size=3)
  order = np.argsort(errors[is_local_minimum], kind="stable")[:_MAX_STARTS]
  return list(grid[is_local_minimum][order])


def fit_from_starts(
  family: CurveFamily,
  x: np.ndarray,
  y: np.ndarray,
  starts: Sequence[Any],
  peak_height: float | None = None,
  ridge: float = 0.0,
) -> CurveFit:
  """Returns the fit with the lowest cost by the trust-region method.

  The published fits have one start, `family.peak_start` of the highest point.

  Args:
    starts: parameters [P] of each start.
    peak_height: see `fit_curve`; likewise `ridge`.
  """
  num_parameters = len(family.parameters)
  lower, upper = np.array(family.lower), np.array(family.upper)

  def split(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Returns the amplitude, which is free or set by the peak, and the rest."""
    parameters = values[-num_parameters:]
    if peak_height is None:
      return values[0], parameters
    return peak_height / family.peak_density(parameters), parameters

  def residuals(values: np.ndarray) -> np.ndarray:
    amplitude, parameters = split(values)
    errors = amplitude * family.density(x, parameters) - y
    # The ridge is one more residual, sqrt(ridge) x alpha.
    return np.append(errors, math.sqrt(ridge) * values[-1]) if ridge else errors

  solutions = []
  for parameters in starts:
    # The method needs a start strictly inside the bounds.
    start = np.clip(parameters, lower * 1.001, upper)
    bounds = lower, upper
    if peak_height is None:
      amplitude = _best_amplitudes(family.density(x, start), y)
      start = np.array([amplitude, *start])
      bounds = [0.0, *lower], [np.inf, *upper]
    solutions.append(
      scipy.optimize.least_squares(
        residuals,
        start,
        bounds=bounds,
        method="trf",
        x_scale="jac",  # amplitude, location and shape differ by magnitudes
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
        gtol=_TOLERANCE,
        max_nfev=_MAX_EVALUATIONS,
      )
    )
  best = min(solutions, key=lambda solution: solution.cost)
  amplitude, parameters = split(best.x)
  is_at_bound = np.isclose(
    parameters, [lower, upper], rtol=1e-3, atol=1e-6
  ).any(axis=0)
  max_cost = best.cost * (1 + _COST_TOLERANCE) + np.finfo(float).eps
  return CurveFit(
    family=family,
    amplitude=float(amplitude),
    parameters=parameters,
    x=x,
    y=y,
    ridge=ridge,
    converged=bool(best.success),
    parameters_at_bound=tuple(
      itertools.compress(family.parameters, is_at_bound)
    ),
    num_starts=len(solutions),
    num_agreeing_starts=sum(bool(s.cost <= max_cost) for s in solutions),
  )


class _Point(msgspec.Struct):
  """A row of the table of points."""

  curve: str
  validity: Annotated[float, msgspec.Meta(ge=0, le=1)]
  minutes: Annotated[float, msgspec.Meta(gt=0)] | None = None
  log_time: float | None = None

  def __post_init__(self):
    """Raises ValueError unless there is one finite time."""
    if (self.minutes is None) == (self.log_time is None):
      raise ValueError("expected minutes or log_time, one of the two")
    if not math.isfinite(self.minutes or self.log_time or 0.0):
      raise ValueError(
        "expected finite numbers; a statement that holds for ever has no point "
        "on this axis"
      )


def read_points(path: pathlib.Path, base: float) -> CurvePoints:
  """Returns curve -> (log times [N], validities [N]), sorted by time.

  Args:
    path: CSV file with the columns curve, minutes or log_time, and validity.
    base: base of the logarithm of `minutes`.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if a cell is wrong; the message names file, line and column.
  """
  if not path.is_file():
    raise FileNotFoundError(f"--points={path}: no such file")
  points_by_curve: dict[str, dict[float, float]] = {}
  for line, row in files.read_csv_rows(path, _Point):
    x = row.log_time
    if row.minutes is not None:
      x = math.log(row.minutes) / math.log(base)
    points = points_by_curve.setdefault(row.curve, {})
    if x in points:
      raise ValueError(
        f"{path}:{line} ({row.curve}): the curve has this time already"
      )
    points[x] = row.validity
  if not points_by_curve:
    raise ValueError(f"--points={path}: no point")
  return {
    curve: tuple(np.array(sorted(points.items())).T)
    for curve, points in points_by_curve.items()
  }


def fit_points(
  points: CurvePoints,
  families: Sequence[str],
  peak_height: float | None = None,
  ridge: float | None = None,
) -> dict[str, list[CurveFit]]:
  """Returns the fits of each curve, one per family; see `fit_curve`.

  Raises:
    ValueError: if points do not determine a fit; the message names the curve.
  """
  fits_by_curve: dict[str, list[CurveFit]] = {}
  for curve, (x, y) in output.Progress(
    points.items(), desc="fit", unit="curve"
  ):
    try:
      fits_by_curve[curve] = [
        fit_curve(FAMILIES[name], x, y, peak_height, ridge) for name in families
      ]
    except ValueError as error:
      raise ValueError(f"curve {curve}: {error}") from None
  return fits_by_curve


def fit_to_json(fit: CurveFit, base: float) -> dict[str, Any]:
  """Returns a fit as plain values."""
  return {
    "family": fit.family.name,
    "points": len(fit.x),
    "ridge": fit.ridge,
    "rmse": fit.rmse,
    "mode": fit.mode,
    "mode_minutes": float(curves.to_minutes(fit.mode, base)),
    "amplitude": fit.amplitude,
    **dict(zip(fit.family.parameters, fit.parameters.tolist(), strict=True)),
    "converged": fit.converged,
    "at_bound": list(fit.parameters_at_bound),
    "starts": fit.num_starts,
    "agreeing": fit.num_agreeing_starts,
  }


def make_table_rows(
  fits_by_curve: Mapping[str, Sequence[CurveFit]],
) -> list[dict[str, str]]:
  """Returns the rows of the table, one for each curve and family."""
  return [
    {
      "curve": curve,
      "family": fit.family.name,
      "points": str(len(fit.x)),
      "rmse": f"{fit.rmse:.4f}",
      "mode": f"{fit.mode:.2f}",
      "ridge": f"{fit.ridge:g}",
      "starts": f"{fit.num_agreeing_starts}/{fit.num_starts}",
      "flags": ",".join(
        ["not_converged"] * (not fit.converged)
        + [f"{name}_at_bound" for name in fit.parameters_at_bound]
      )
      or "-",
      "parameters": " ".join(
        f"{name}={value:.5g}"
        for name, value in zip(
          ("amplitude", *fit.family.parameters),
          (fit.amplitude, *fit.parameters),
          strict=True,
        )
      ),
    }
    for curve, fits in fits_by_curve.items()
    for fit in fits
  ]


def plot_fits(
  fits_by_curve: Mapping[str, Sequence[CurveFit]], base: float
) -> matplotlib.figure.Figure:
  """Returns a panel for each curve with its points and fitted curves."""
  num_curves = len(fits_by_curve)
  columns = min(_MAX_COLUMNS, num_curves)
  rows = math.ceil(num_curves / columns)
  figure = output.make_figure(4.2 * columns, 2.9 * rows + 0.7)
  panels = figure.subplots(rows, columns, squeeze=False)
  for panel in panels.flat[num_curves:]:
    panel.set_visible(False)
  for panel, (curve, fits) in zip(
    panels.flat, fits_by_curve.items(), strict=False
  ):
    _draw_fits(panel, curve, fits, base)
  for panel in panels[:, 0]:
    panel.set_ylabel("validity")
  # The lowest panel of each column: the last row may be short.
  for panel in list(panels.flat)[max(num_curves - columns, 0) : num_curves]:
    panel.set_xlabel("time since publication (log scale)")
  handles, labels = panels[0, 0].get_legend_handles_labels()
  figure.legend(
    handles, labels, loc="outside lower center", ncols=6, frameon=False
  )
  return figure


def _draw_fits(
  axes: matplotlib.axes.Axes, curve: str, fits: Sequence[CurveFit], base: float
) -> None:
  """Draws the points of a curve and its fits."""
  x, y = fits[0].x, fits[0].y
  margin = 0.25 * max(np.ptp(x), 1.0)
  # The lognormal has no value at log time 0.
  grid = np.linspace(max(x.min() - margin, 0.01), x.max() + margin, 400)
  y_max = 1.0
  for colour, fit in zip(output.COLOURS, fits, strict=False):
    values = fit.evaluate(grid)
    # A free amplitude may exceed a validity of 1.
    y_max = max(y_max, 1.05 * values.max())
    axes.plot(grid, values, color=colour, label=fit.family.name)
  axes.plot(x, y, "o", color="black", label="points", zorder=3)
  axes.set_title(curve)
  axes.set_xlim(grid[0], grid[-1])
  axes.set_ylim(0, y_max)
  ticks: dict[float, str] = {}
  for name, minutes in curves.ANCHORS.items():
    tick = math.log(minutes) / math.log(base)
    is_apart = (
      not ticks or tick - max(ticks) > np.ptp(grid) * _MIN_TICK_DISTANCE
    )
    if grid[0] <= tick <= grid[-1] and is_apart:
      ticks[tick] = name
  axes.set_xticks(list(ticks), list(ticks.values()), rotation=30, fontsize=8)
  axes.spines[["top", "right"]].set_visible(False)
