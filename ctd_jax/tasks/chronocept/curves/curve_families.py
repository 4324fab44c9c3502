"""Families of curves that are fitted to annotated points.

The paper chooses the skew-normal because it fits best, which can only be
judged beside other families. A family is a density of log time with its mode
and a grid of parameters from which a fit may start.

Axes: N points, P parameters of a family, *G = G_1, ..., G_P steps of a grid.

Source: Chronocept, arXiv 2505.07637v1, appendix D and Table 11.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import jax
import numpy as np
import scipy.stats
from jaxtyping import Float

from ctd_jax.tasks.chronocept.curves import skew_normal

_NUM_LOCATIONS, _NUM_WIDTHS = 41, 21  # steps of the grids
_MAX_ALPHA = 20.0  # beyond it the curve is as good as half a normal curve
_ALPHAS = (-20.0, -8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0, 20.0)
_PEAK_SCALE = 10.0  # width in log time of a start at the highest point


@dataclasses.dataclass(frozen=True)
class CurveFamily:
  """A family of densities over log time.

  Attributes:
    name: as in tables and flags.
    parameters: names of the P parameters.
    lower: lower bounds, [P].
    upper: upper bounds, [P].
    density: (log times [N], parameters [..., P]) -> [..., N].
    mode: parameters [P] -> log time of the peak.
    parameter_grid: log times [N] -> one array of values for each parameter.
    peak_start: log time of the highest point -> parameters [P].
  """

  name: str
  parameters: tuple[str, ...]
  lower: tuple[float, ...]
  upper: tuple[float, ...]
  density: Callable[[np.ndarray, np.ndarray], np.ndarray]
  mode: Callable[[np.ndarray], float]
  parameter_grid: Callable[[np.ndarray], tuple[np.ndarray, ...]]
  peak_start: Callable[[float], tuple[float, ...]]

  def peak_density(self, parameters: np.ndarray) -> float:
    """Returns the maximum of the density at parameters [P]."""
    mode_log_time = np.array([self.mode(parameters)])
    return float(self.density(mode_log_time, parameters)[0])


def _columns(parameters: np.ndarray) -> tuple[np.ndarray, ...]:
  """Returns the P parameters, each [..., 1] to broadcast with points [N]."""
  return tuple(np.moveaxis(np.asarray(parameters, float)[..., None], -2, 0))


def _location_grid(x: np.ndarray) -> np.ndarray:
  reach = np.ptp(x)
  return np.linspace(x.min() - reach, x.max() + reach, _NUM_LOCATIONS)


def _width_grid(x: np.ndarray) -> np.ndarray:
  return np.ptp(x) * np.geomspace(0.02, 2, _NUM_WIDTHS)


def _gaussian(x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
  mu, sigma = _columns(parameters)
  return scipy.stats.norm.pdf(x, mu, sigma)


def _exponential(x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
  (rate,) = _columns(parameters)
  return np.where(x >= 0, rate * np.exp(-rate * np.maximum(x, 0)), 0.0)


def _lognormal(x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
  mu, sigma = _columns(parameters)
  return scipy.stats.lognorm.pdf(x, sigma, scale=np.exp(mu))


def _gamma(x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
  shape, scale = _columns(parameters)
  return scipy.stats.gamma.pdf(x, shape, scale=scale)


def _skew_normal(x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
  location, scale, alpha = _columns(parameters)
  z = (x - location) / scale
  return 2 / scale * scipy.stats.norm.pdf(z) * scipy.stats.norm.cdf(alpha * z)


def _skew_normal_mode(parameters: np.ndarray) -> float:
  location, scale, alpha = parameters
  with jax.enable_x64(True):
    return float(location + scale * skew_normal.mode_offset(np.float64(alpha)))


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
  density=_gaussian,
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
  density=_exponential,
  mode=lambda p: 0.0,
  parameter_grid=lambda x: (np.geomspace(1e-8, 10, 4 * _NUM_LOCATIONS),),
  peak_start=lambda top: (1 / max(top, 1.0),),
)
LOGNORMAL = CurveFamily(
  name="lognormal",
  parameters=("mu", "sigma"),
  lower=(-np.inf, 1e-6),
  upper=(np.inf, np.inf),
  density=_lognormal,
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
  density=_gamma,
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
  density=_skew_normal,
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


def make_shape_grid(
  family: CurveFamily, x: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "*G P"]:
  """Returns the grid of parameters to start from, [G_1, ..., G_P, P].

  Args:
    family: of the curves.
    x: log times of the points.
  """
  axes = family.parameter_grid(x)
  shape = tuple(map(len, axes))
  return np.array(list(itertools.product(*axes))).reshape(*shape, len(axes))
