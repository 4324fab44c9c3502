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

from ctd_jax.evaluation import result_tables
from ctd_jax.tasks.chronocept import curve_families, curve_fitting, time_axis
from ctd_jax.utils import command_line, files
from ctd_jax_datasets import summary

MINUTES, LOG_TIME = "minutes", "log_time"
_COLUMNS = 3  # of panels
Points = dict[str, tuple[np.ndarray, np.ndarray]]


def read_points(path: pathlib.Path, base: float) -> Points:
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
  rows: dict[str, dict[float, float]] = {}
  with path.open(encoding="utf-8-sig", newline="") as file:
    reader = csv.DictReader(file, skipinitialspace=True)
    time = _time_column(path, reader.fieldnames or ())
    for row in reader:
      place = f"--points={path}, line {reader.line_num}"
      curve = (row["curve"] or "").strip()
      if not curve:
        raise ValueError(f"{place}, curve: is empty; expected a name")
      place = f"{place} ({curve})"
      x = _number(row, time, place)
      if time == MINUTES:
        if x <= 0:
          raise ValueError(f"{place}, {time}: {x:g} should be above 0")
        x = math.log(x) / math.log(base)
      y = _number(row, "validity", place)
      if not 0 <= y <= 1:
        raise ValueError(f"{place}, validity: {y:g} should be from 0 to 1")
      points = rows.setdefault(curve, {})
      if x in points:
        raise ValueError(f"{place}, {time}: the curve has this time already")
      points[x] = y
  if not rows:
    raise ValueError(f"--points={path}: no point")
  return {
    curve: tuple(np.array(sorted(points.items())).T)
    for curve, points in rows.items()
  }


def _time_column(path: pathlib.Path, names: Sequence[str]) -> str:
  times = [name for name in (MINUTES, LOG_TIME) if name in names]
  missing = {"curve", "validity"} - set(names)
  if len(times) != 1 or missing:
    raise ValueError(
      f"--points={path}, line 1: columns are {', '.join(names) or 'none'}; "
      f"expected curve, {MINUTES} or {LOG_TIME}, and validity"
    )
  return times[0]


def _number(row: Mapping[str, str | None], name: str, place: str) -> float:
  text = (row[name] or "").strip()
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if not math.isfinite(value):
    hint = "expected a number"
    if name != "validity":
      hint += "; a statement that holds for ever has no point on this axis"
    raise ValueError(f"{place}, {name}: {text!r}: {hint}")
  return value


def fit_points(
  points: Points,
  families: Sequence[str],
  height: float | None = None,
  ridge: float | None = None,
) -> dict[str, list[curve_fitting.Fit]]:
  """Returns curve -> a fit of each family.

  Args:
    points: from `read_points`.
    families: names in `curve_families.FAMILIES`.
    height: of the peak; None leaves the amplitude free.
    ridge: on the skewness; None means none, but `fitting.WEAK_RIDGE` where the
      points alone do not determine a curve.

  Raises:
    ValueError: naming the curve whose points cannot be fitted.
  """
  found = {}
  for curve, (x, y) in tqdm.tqdm(
    points.items(), desc="fit", unit="curve", disable=None
  ):
    fits = []
    for name in families:
      family = curve_families.FAMILIES[name]
      skewed = family is curve_families.SKEW_NORMAL
      free = len(family.parameters) + (height is None)
      weight = ridge if ridge is not None else curve_fitting.WEAK_RIDGE
      used = skewed and (ridge is not None or len(x) < free)
      try:
        fits.append(curve_fitting.fit(family, x, y, height, weight * used))
      except ValueError as error:
        raise ValueError(f"curve {curve}: {error}") from None
    found[curve] = fits
  return found


def as_json(fit: curve_fitting.Fit, base: float) -> dict:
  """Returns a fit as plain values; what is not finite is None."""
  loo = curve_fitting.leave_one_out(fit)
  found = {
    "family": fit.family.name,
    "points": len(fit.x),
    "free": fit.free,
    "ridge": fit.ridge,
    "rmse": fit.rmse,
    "rmse_normalised": fit.rmse_normalised,
    "leave_one_out": loo,
    "aicc": fit.aicc,
    "bic": fit.bic,
    "mode": fit.mode,
    "mode_minutes": float(time_axis.to_minutes(fit.mode, base)),
    "amplitude": fit.amplitude,
    **dict(zip(fit.family.parameters, fit.parameters.tolist(), strict=True)),
    "converged": fit.converged,
    "at_bound": list(fit.at_bound),
    "starts": fit.starts,
    "agreeing": fit.agreeing,
    "covariance": fit.covariance.tolist(),
    "residuals": fit.residuals.tolist(),
  }
  return _finite(found)


def _finite(value):
  """Returns the value with None for every number that JSON does not know."""
  if isinstance(value, dict):
    return {key: _finite(item) for key, item in value.items()}
  if isinstance(value, list):
    return [_finite(item) for item in value]
  if isinstance(value, float) and not math.isfinite(value):
    return None
  return value


def table_rows(fits: Mapping[str, Sequence[dict]]) -> list[dict[str, str]]:
  """Returns the rows of the table, one for each curve and family.

  Args:
    fits: curve -> fits as `as_json` gives them.
  """
  rows = []
  for curve, found in fits.items():
    for fit in found:
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


def plot(
  found: Mapping[str, Sequence[curve_fitting.Fit]], base: float
) -> matplotlib.figure.Figure:
  """Returns a panel for each curve: its points and the fitted curves.

  Args:
    found: from `fit_points`.
    base: of the log times.
  """
  columns = min(_COLUMNS, len(found))
  rows = math.ceil(len(found) / columns)
  figure = matplotlib.figure.Figure(
    figsize=(4.2 * columns, 2.9 * rows + 0.7), layout="constrained"
  )
  panels = figure.subplots(rows, columns, squeeze=False)
  for panel in panels.flat[len(found) :]:
    panel.set_visible(False)
  for panel, (curve, fits) in zip(panels.flat, found.items(), strict=False):
    _draw(panel, curve, fits, base)
  for panel in panels[:, 0]:
    panel.set_ylabel("validity")
  # The last row may be short: the panel above then is the lowest.
  for panel in list(panels.flat)[max(len(found) - columns, 0) : len(found)]:
    panel.set_xlabel("time since publication (log scale)")
  handles, labels = panels[0, 0].get_legend_handles_labels()
  figure.legend(
    handles, labels, loc="outside lower center", ncols=6, frameon=False
  )
  return figure


def _draw(
  axes: matplotlib.axes.Axes,
  curve: str,
  fits: Sequence[curve_fitting.Fit],
  base: float,
) -> None:
  x, y = fits[0].x, fits[0].y
  reach = 0.25 * max(np.ptp(x), 1.0)
  grid = np.linspace(max(x.min() - reach, 0.01), x.max() + reach, 400)
  highest = 1.0
  for colour, fit in zip(result_tables.COLOURS, fits, strict=False):
    values = fit.curve(grid)
    highest = max(highest, 1.05 * values.max())
    axes.plot(grid, values, color=colour, label=fit.family.name)
  axes.plot(x, y, "o", color="black", label="points", zorder=3)
  axes.set_title(curve)
  axes.set_xlim(grid[0], grid[-1])
  axes.set_ylim(0, highest)
  ticks: dict[float, str] = {}
  for name, minutes in time_axis.ANCHORS.items():
    at = math.log(minutes) / math.log(base)
    # Names nearer than this would be written over one another.
    apart = not ticks or at - max(ticks) > np.ptp(grid) / 9
    if grid[0] <= at <= grid[-1] and apart:
      ticks[at] = name
  axes.set_xticks(list(ticks), list(ticks.values()), rotation=30, fontsize=8)
  axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
  """Fits the curves of --points."""
  values = flags.FLAGS
  out = pathlib.Path(values.out).expanduser()
  if out.exists() and not out.is_dir():
    raise ValueError(f"--out={out}: is a file; name a folder")
  points = read_points(pathlib.Path(values.points).expanduser(), values.base)
  found = fit_points(points, values.families, values.height, values.ridge)
  fits = {
    curve: [as_json(fit, values.base) for fit in each]
    for curve, each in found.items()
  }
  rows = table_rows(fits)
  lines = [list(rows[0]), *(list(row.values()) for row in rows)]
  files.write_text(
    out / "fits.tsv", "".join("\t".join(line) + "\n" for line in lines)
  )
  settings = {"base": values.base, "height": values.height, "curves": fits}
  files.write_text(out / "fits.json", json.dumps(settings, indent=1) + "\n")
  files.write_figure(out / "fits.png", plot(found, values.base))
  print(summary.table(f"{len(found)} curves", rows))
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
  command_line.run(main, required=("points", "out"))
