"""Fits validity curves to the points that annotators placed.

  python -m ctd_jax.tasks.chronocept.fit_validity --points=points.csv --out=fits

The points are a CSV file with a header and a row for each: `curve` (any name),
`minutes` since publication or `log_time` (their logarithm to --base), and
`validity` from 0 to 1. Written are fits.tsv, a row for each curve and family
with its errors, criteria and flags; fits.json, the same with covariances and
residuals; and fits.png, every curve through its points.

Three points do not determine a skew-normal with free amplitude: a weak prior
on the skewness decides then (column `ridge`), or --height fixes the peak.
"""

from __future__ import annotations

import csv
import json
import math
import pathlib
from collections.abc import Mapping, Sequence

import matplotlib.axes
import matplotlib.figure
import numpy as np
import tqdm
from absl import flags

from ctd_jax.tasks.chronocept import curve_families, curve_fitting, time_axis
from ctd_jax.utils import command_line, files, plotting
from ctd_jax_datasets import summary

MINUTES, LOG_TIME = "minutes", "log_time"
_MAX_COLUMNS = 3  # of panels
CurvePoints = dict[str, tuple[np.ndarray, np.ndarray]]


def read_points(path: pathlib.Path, base: float) -> CurvePoints:
  """Returns curve -> (log times [N], validities [N]), sorted by time.

  Args:
    path: CSV, see the module docstring.
    base: of the log times.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file, line, column and curve of what is wrong.
  """
  if not path.is_file():
    raise FileNotFoundError(f"--points={path}: no such file")
  points_by_curve: dict[str, dict[float, float]] = {}
  with path.open(encoding="utf-8-sig", newline="") as file:
    reader = csv.DictReader(file, skipinitialspace=True)
    time_column = _find_time_column(path, reader.fieldnames or ())
    for row in reader:
      line_label = f"--points={path}, line {reader.line_num}"
      curve = (row["curve"] or "").strip()
      if not curve:
        raise ValueError(f"{line_label}, curve: is empty; expected a name")
      line_label = f"{line_label} ({curve})"
      x = _read_number(row, time_column, line_label)
      if time_column == MINUTES:
        if x <= 0:
          raise ValueError(
            f"{line_label}, {time_column}: {x:g} should be above 0"
          )
        x = math.log(x) / math.log(base)
      y = _read_number(row, "validity", line_label)
      if not 0 <= y <= 1:
        raise ValueError(f"{line_label}, validity: {y:g} should be from 0 to 1")
      points = points_by_curve.setdefault(curve, {})
      if x in points:
        raise ValueError(
          f"{line_label}, {time_column}: the curve has this time already"
        )
      points[x] = y
  if not points_by_curve:
    raise ValueError(f"--points={path}: no point")
  return {
    curve: tuple(np.array(sorted(points.items())).T)
    for curve, points in points_by_curve.items()
  }


def _find_time_column(path: pathlib.Path, names: Sequence[str]) -> str:
  time_columns = [name for name in (MINUTES, LOG_TIME) if name in names]
  missing = {"curve", "validity"} - set(names)
  if len(time_columns) != 1 or missing:
    raise ValueError(
      f"--points={path}, line 1: columns are {', '.join(names) or 'none'}; "
      f"expected curve, {MINUTES} or {LOG_TIME}, and validity"
    )
  return time_columns[0]


def _read_number(
  row: Mapping[str, str | None], name: str, line_label: str
) -> float:
  text = (row[name] or "").strip()
  try:
    value = float(text)
  except ValueError:
    value = math.nan
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
) -> dict[str, list[curve_fitting.CurveFit]]:
  """Returns curve -> a fit of each family.

  Args:
    points: from `read_points`.
    families: names in `curve_families.FAMILIES`.
    peak_height: of the peak; None leaves the amplitude free.
    ridge: on the skewness; None means none, but `fitting.WEAK_RIDGE` where the
      points alone do not determine a curve.

  Raises:
    ValueError: naming the curve whose points cannot be fitted.
  """
  fits_by_curve = {}
  for curve, (x, y) in tqdm.tqdm(
    points.items(), desc="fit", unit="curve", disable=None
  ):
    fits = []
    for name in families:
      family = curve_families.FAMILIES[name]
      is_skew_normal = family is curve_families.SKEW_NORMAL
      num_free_values = len(family.parameters) + (peak_height is None)
      ridge_weight = ridge if ridge is not None else curve_fitting.WEAK_RIDGE
      uses_ridge = is_skew_normal and (
        ridge is not None or len(x) < num_free_values
      )
      try:
        fits.append(
          curve_fitting.fit_curve(
            family, x, y, peak_height, ridge_weight * uses_ridge
          )
        )
      except ValueError as error:
        raise ValueError(f"curve {curve}: {error}") from None
    fits_by_curve[curve] = fits
  return fits_by_curve


def fit_to_json(fit: curve_fitting.CurveFit, base: float) -> dict:
  """Returns a fit as plain values; what is not finite is None."""
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


def _replace_non_finite(value):
  """Returns the value with None for every number that JSON does not know."""
  if isinstance(value, dict):
    return {key: _replace_non_finite(item) for key, item in value.items()}
  if isinstance(value, list):
    return [_replace_non_finite(item) for item in value]
  if isinstance(value, float) and not math.isfinite(value):
    return None
  return value


def make_table_rows(fits: Mapping[str, Sequence[dict]]) -> list[dict[str, str]]:
  """Returns the rows of the table, one for each curve and family.

  Args:
    fits: curve -> fits as `as_json` gives them.
  """
  rows = []
  for curve, curve_fits in fits.items():
    for fit in curve_fits:
      parameters = curve_families.FAMILIES[fit["family"]].parameters
      rows.append(
        {
          "curve": curve,
          "family": fit["family"],
          "points": str(fit["points"]),
          **{
            name: "-" if fit[name] is None else f"{fit[name]:.4f}"
            for name in ("rmse", "rmse_normalised", "leave_one_out")
          },
          **{
            name: "-" if fit[name] is None else f"{fit[name]:.2f}"
            for name in ("aicc", "bic", "mode")
          },
          "ridge": f"{fit['ridge']:g}",
          "starts": f"{fit['agreeing']}/{fit['starts']}",
          "flags": ",".join(
            [*(["not_converged"] * (not fit["converged"]))]
            + [f"{name}_at_bound" for name in fit["at_bound"]]
          )
          or "-",
          "parameters": " ".join(
            f"{name}={fit[name]:.5g}" for name in ("amplitude", *parameters)
          ),
        }
      )
  return rows


def plot_fits(
  fits_by_curve: Mapping[str, Sequence[curve_fitting.CurveFit]], base: float
) -> matplotlib.figure.Figure:
  """Returns a panel for each curve: its points and the fitted curves.

  Args:
    fits_by_curve: from `fit_points`.
    base: of the log times.
  """
  columns = min(_MAX_COLUMNS, len(fits_by_curve))
  rows = math.ceil(len(fits_by_curve) / columns)
  figure = matplotlib.figure.Figure(
    figsize=(4.2 * columns, 2.9 * rows + 0.7), layout="constrained"
  )
  panels = figure.subplots(rows, columns, squeeze=False)
  for panel in panels.flat[len(fits_by_curve) :]:
    panel.set_visible(False)
  for panel, (curve, fits) in zip(
    panels.flat, fits_by_curve.items(), strict=False
  ):
    _draw_fits(panel, curve, fits, base)
  for panel in panels[:, 0]:
    panel.set_ylabel("validity")
  # The last row may be short: the panel above then is the lowest.
  for panel in list(panels.flat)[
    max(len(fits_by_curve) - columns, 0) : len(fits_by_curve)
  ]:
    panel.set_xlabel("time since publication (log scale)")
  handles, labels = panels[0, 0].get_legend_handles_labels()
  figure.legend(
    handles, labels, loc="outside lower center", ncols=6, frameon=False
  )
  return figure


def _draw_fits(
  axes: matplotlib.axes.Axes,
  curve: str,
  fits: Sequence[curve_fitting.CurveFit],
  base: float,
) -> None:
  x, y = fits[0].x, fits[0].y
  reach = 0.25 * max(np.ptp(x), 1.0)
  grid = np.linspace(max(x.min() - reach, 0.01), x.max() + reach, 400)
  y_max = 1.0
  for colour, fit in zip(plotting.COLOURS, fits, strict=False):
    values = fit.evaluate(grid)
    y_max = max(y_max, 1.05 * values.max())
    axes.plot(grid, values, color=colour, label=fit.family.name)
  axes.plot(x, y, "o", color="black", label="points", zorder=3)
  axes.set_title(curve)
  axes.set_xlim(grid[0], grid[-1])
  axes.set_ylim(0, y_max)
  ticks: dict[float, str] = {}
  for name, minutes in time_axis.ANCHORS.items():
    tick = math.log(minutes) / math.log(base)
    # Names nearer than this would be written over one another.
    is_apart = not ticks or tick - max(ticks) > np.ptp(grid) / 9
    if grid[0] <= tick <= grid[-1] and is_apart:
      ticks[tick] = name
  axes.set_xticks(list(ticks), list(ticks.values()), rotation=30, fontsize=8)
  axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
  """Fits the curves of --points."""
  flag_values = flags.FLAGS
  out = pathlib.Path(flag_values.out).expanduser()
  if out.exists() and not out.is_dir():
    raise ValueError(f"--out={out}: is a file; name a folder")
  points = read_points(
    pathlib.Path(flag_values.points).expanduser(), flag_values.base
  )
  fits_by_curve = fit_points(
    points, flag_values.families, flag_values.peak_height, flag_values.ridge
  )
  json_fits = {
    curve: [fit_to_json(fit, flag_values.base) for fit in curve_fits]
    for curve, curve_fits in fits_by_curve.items()
  }
  rows = make_table_rows(json_fits)
  lines = [list(rows[0]), *(list(row.values()) for row in rows)]
  files.write_text(
    out / "fits.tsv", "".join("\t".join(line) + "\n" for line in lines)
  )
  settings = {
    "base": flag_values.base,
    "height": flag_values.peak_height,
    "curves": json_fits,
  }
  files.write_text(out / "fits.json", json.dumps(settings, indent=1) + "\n")
  plotting.write_figure(
    out / "fits.png", plot_fits(fits_by_curve, flag_values.base)
  )
  print(summary.format_table(f"{len(fits_by_curve)} curves", rows))
  names = ", ".join(str(out / f"fits.{end}") for end in ("tsv", "json", "png"))
  print(f"written {names}")


if __name__ == "__main__":
  flags.DEFINE_string(
    "points",
    None,
    "CSV of the points: curve, minutes or log_time, validity. Example: "
    "--points=points.csv",
  )
  flags.DEFINE_string(
    "out", None, "Folder of what is written. Example: --out=fits"
  )
  flags.DEFINE_multi_enum(
    "families",
    list(curve_families.FAMILIES),
    list(curve_families.FAMILIES),
    "Family to fit, once for each. Example: --families=skew_normal "
    "--families=gaussian",
  )
  flags.DEFINE_float(
    "base",
    time_axis.LOG_BASE,
    "Of the logarithm of time. Example: --base=2",
    lower_bound=1.000001,
  )
  flags.DEFINE_float(
    "height",
    None,
    "Validity at the peak, which then is not fitted. Example: --height=1",
    lower_bound=1e-6,
    upper_bound=1.0,
  )
  flags.DEFINE_float(
    "ridge",
    None,
    "Weight of the squared skewness among the squared residuals; by default "
    "0, or a weak one where the points need it. Example: --ridge=1e-4",
    lower_bound=0.0,
  )
  command_line.run_main(main, required=("points", "out"))
