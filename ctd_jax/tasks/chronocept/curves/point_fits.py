"""Annotated points read from a table, fitted curves as tables and plots.

Points are a CSV file with a header and a row for each point: `curve` (any
name), `minutes` since publication or `log_time` (their logarithm to a base),
and `validity` from 0 to 1.

Axes: N points of a curve.
"""

from __future__ import annotations

import csv
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.axes
import matplotlib.figure
import numpy as np

from ctd_jax.tasks.chronocept.curves import (
  curve_families,
  curve_fitting,
  time_axis,
)
from ctd_jax.tasks.chronocept.curves.curve_fitting import CurveFit
from ctd_jax.utils import plotting, progress

MINUTES, LOG_TIME = "minutes", "log_time"
_MAX_COLUMNS = 3  # of panels
# Ticks nearer than this share of the axis would overlap.
_MIN_TICK_DISTANCE = 1 / 9
# Curve -> (log times [N], validities [N]).
CurvePoints = dict[str, tuple[np.ndarray, np.ndarray]]


def read_points(path: pathlib.Path, base: float) -> CurvePoints:
  """Returns curve -> (log times [N], validities [N]), sorted by time.

  Args:
    path: CSV, see the module docstring.
    base: base of the log times.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file, line, column and curve of the fault.
  """
  if not path.is_file():
    raise FileNotFoundError(f"--points={path}: no such file")
  points_by_curve: dict[str, dict[float, float]] = {}
  with path.open(encoding="utf-8-sig", newline="") as file:
    reader = csv.DictReader(file, skipinitialspace=True)
    time_column = _find_time_column(path, reader.fieldnames or ())
    for row in reader:
      line_label = f"--points={path}, line {reader.line_num}"
      curve, x, y = _parse_point(row, time_column, base, line_label)
      points = points_by_curve.setdefault(curve, {})
      if x in points:
        raise ValueError(
          f"{line_label} ({curve}), {time_column}: the curve has this time "
          "already"
        )
      points[x] = y
  if not points_by_curve:
    raise ValueError(f"--points={path}: no point")
  return {
    curve: tuple(np.array(sorted(points.items())).T)
    for curve, points in points_by_curve.items()
  }


def _find_time_column(path: pathlib.Path, names: Sequence[str]) -> str:
  """Returns which of the two time columns a header has."""
  time_columns = [name for name in (MINUTES, LOG_TIME) if name in names]
  missing = {"curve", "validity"} - set(names)
  if len(time_columns) != 1 or missing:
    raise ValueError(
      f"--points={path}, line 1: columns are {', '.join(names) or 'none'}; "
      f"expected curve, {MINUTES} or {LOG_TIME}, and validity"
    )
  return time_columns[0]


def _parse_point(
  row: Mapping[str, str | None], time_column: str, base: float, line_label: str
) -> tuple[str, float, float]:
  """Returns (curve, log time, validity) of a row."""
  curve = (row["curve"] or "").strip()
  if not curve:
    raise ValueError(f"{line_label}, curve: is empty; expected a name")
  line_label = f"{line_label} ({curve})"
  x = _parse_number(row, time_column, line_label)
  if time_column == MINUTES:
    if x <= 0:
      raise ValueError(f"{line_label}, {time_column}: {x:g} should be above 0")
    x = math.log(x) / math.log(base)
  y = _parse_number(row, "validity", line_label)
  if not 0 <= y <= 1:
    raise ValueError(f"{line_label}, validity: {y:g} should be from 0 to 1")
  return curve, x, y


def _parse_number(
  row: Mapping[str, str | None], name: str, line_label: str
) -> float:
  text = (row[name] or "").strip()
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  # float() reads "infinity" and "nan" as well.
  if not math.isfinite(value):
    hint = "expected a number"
    if name != "validity":
      hint += "; a statement that holds for ever has no point on this axis"
    raise ValueError(f"{line_label}, {name}: {text!r}: {hint}")
  return value


def fit_points(
  points: CurvePoints,
  families: Sequence[str],
  peak_height: float | None = None,
  ridge: float | None = None,
) -> dict[str, list[CurveFit]]:
  """Returns curve -> a fit of each family.

  Args:
    points: from `read_points`.
    families: names in `curve_families.FAMILIES`.
    peak_height: height of the peak; None leaves the amplitude free.
    ridge: on the skewness. None means no ridge, but `WEAK_RIDGE` of
      `curve_fitting` where the points alone do not determine a skew-normal.

  Raises:
    ValueError: naming the curve whose points cannot be fitted.
  """
  fits_by_curve = {}
  for curve, (x, y) in progress.Progress(
    points.items(), desc="fit", unit="curve"
  ):
    fits = []
    for name in families:
      family = curve_families.FAMILIES[name]
      num_free_values = len(family.parameters) + (peak_height is None)
      weight = ridge
      if ridge is None:
        is_undetermined = len(x) < num_free_values
        weight = curve_fitting.WEAK_RIDGE if is_undetermined else 0.0
      if family is not curve_families.SKEW_NORMAL:
        weight = 0.0  # no other family has a skewness
      try:
        fit = curve_fitting.fit_curve(family, x, y, peak_height, weight)
      except ValueError as error:
        raise ValueError(f"curve {curve}: {error}") from None
      fits.append(fit)
    fits_by_curve[curve] = fits
  return fits_by_curve


def fit_to_json(fit: CurveFit, base: float) -> dict[str, Any]:
  """Returns a fit as plain values; what is not finite is None.

  Args:
    fit: of a curve.
    base: base of its log times.
  """
  # None if N - 1 points do not determine the curve.
  loo_rmse = curve_fitting.leave_one_out_rmse(fit)
  values = {
    "family": fit.family.name,
    "points": len(fit.x),
    "free": fit.num_free_values,
    "ridge": fit.ridge,
    "rmse": fit.rmse,
    "rmse_normalised": fit.rmse_normalised,
    "leave_one_out": loo_rmse,
    "aicc": fit.aicc,
    "bic": fit.bic,
    "mode": fit.mode,
    "mode_minutes": float(time_axis.to_minutes(fit.mode, base)),
    "amplitude": fit.amplitude,
    **dict(zip(fit.family.parameters, fit.parameters.tolist(), strict=True)),
    "converged": fit.converged,
    "at_bound": list(fit.parameters_at_bound),
    "starts": fit.num_starts,
    "agreeing": fit.num_agreeing_starts,
    "covariance": fit.covariance.tolist(),
    "residuals": fit.residuals.tolist(),
  }
  return _replace_non_finite(values)


def _replace_non_finite(value: Any) -> Any:
  """Returns the value with None for NaN and infinities, which JSON lacks."""
  if isinstance(value, dict):
    return {key: _replace_non_finite(item) for key, item in value.items()}
  if isinstance(value, list):
    return [_replace_non_finite(item) for item in value]
  if isinstance(value, float) and not math.isfinite(value):
    return None
  return value


def make_table_rows(
  fits_by_curve: Mapping[str, Sequence[dict[str, Any]]],
) -> list[dict[str, str]]:
  """Returns the rows of the table, one for each curve and family.

  Args:
    fits_by_curve: curve -> fits as `fit_to_json` returns them.
  """
  return [
    {"curve": curve, **_format_fit(fit)}
    for curve, fits in fits_by_curve.items()
    for fit in fits
  ]


def _format_fit(fit: Mapping[str, Any]) -> dict[str, str]:
  """Returns the cells of a fit; "-" where there is no value."""
  errors = {"rmse": 4, "rmse_normalised": 4, "leave_one_out": 4}
  criteria = {"aicc": 2, "bic": 2, "mode": 2}
  parameters = curve_families.FAMILIES[fit["family"]].parameters
  warnings = [] if fit["converged"] else ["not_converged"]
  warnings += [f"{name}_at_bound" for name in fit["at_bound"]]
  return {
    "family": fit["family"],
    "points": str(fit["points"]),
    **{
      name: "-" if fit[name] is None else f"{fit[name]:.{digits}f}"
      for name, digits in (errors | criteria).items()
    },
    "ridge": f"{fit['ridge']:g}",
    "starts": f"{fit['agreeing']}/{fit['starts']}",
    "flags": ",".join(warnings) or "-",
    "parameters": " ".join(
      f"{name}={fit[name]:.5g}" for name in ("amplitude", *parameters)
    ),
  }


def plot_fits(
  fits_by_curve: Mapping[str, Sequence[CurveFit]], base: float
) -> matplotlib.figure.Figure:
  """Returns a panel for each curve with its points and fitted curves.

  Args:
    fits_by_curve: from `fit_points`.
    base: base of the log times.
  """
  num_curves = len(fits_by_curve)
  columns = min(_MAX_COLUMNS, num_curves)
  rows = math.ceil(num_curves / columns)
  figure = plotting.make_figure(4.2 * columns, 2.9 * rows + 0.7)
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
  for colour, fit in zip(plotting.COLOURS, fits, strict=False):
    values = fit.evaluate(grid)
    # A free amplitude may exceed a validity of 1.
    y_max = max(y_max, 1.05 * values.max())
    axes.plot(grid, values, color=colour, label=fit.family.name)
  axes.plot(x, y, "o", color="black", label="points", zorder=3)
  axes.set_title(curve)
  axes.set_xlim(grid[0], grid[-1])
  axes.set_ylim(0, y_max)
  ticks: dict[float, str] = {}
  for name, minutes in time_axis.ANCHORS.items():
    tick = math.log(minutes) / math.log(base)
    is_apart = (
      not ticks or tick - max(ticks) > np.ptp(grid) * _MIN_TICK_DISTANCE
    )
    if grid[0] <= tick <= grid[-1] and is_apart:
      ticks[tick] = name
  axes.set_xticks(list(ticks), list(ticks.values()), rotation=30, fontsize=8)
  axes.spines[["top", "right"]].set_visible(False)
