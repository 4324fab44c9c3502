"""Fits validity curves to annotated points.

  python -m ctd_jax.tasks.chronocept.fit_validity --points=points.csv --out=fits

points.csv has a header and a row for each point: `curve` (any name), `minutes`
since publication or `log_time` (their logarithm to --base), and `validity` from
0 to 1. The command writes fits.tsv (a row for each curve and family, with its
error), fits.json (the same as numbers), curves.csv (the skew-normal ones, to be
trained on once a column text is added) and fits.png (every curve through its
points). Three points do not determine a skew-normal: a weak prior on the
skewness (column `ridge`) then selects one, or --height gives the peak.
"""

import json
import pathlib

from absl import flags

from ctd_jax.utils import command_line

# Literals, because `fits` and `samples` import JAX and TensorFlow Datasets, for
# which --help should not wait. A test compares them.
FAMILY_NAMES = ("gaussian", "exponential", "lognormal", "gamma", "skew_normal")
LOG_BASE = 1.1


def main() -> None:
  """Fits the curves of --points, writes the files and prints the table."""
  from ctd_jax.tasks.chronocept import fits
  from ctd_jax.utils import files, output

  values = flags.FLAGS
  folder = pathlib.Path(values.out).expanduser()
  # Before the fits, which take a while.
  if folder.exists() and not folder.is_dir():
    raise ValueError(f"--out={values.out}: is a file; name a folder")
  points = fits.read_points(
    pathlib.Path(values.points).expanduser(), values.base
  )
  fits_by_curve = fits.fit_points(
    points, values.families, values.height, values.ridge
  )
  rows = fits.make_table_rows(fits_by_curve)
  header, lines = list(rows[0]), [list(row.values()) for row in rows]
  files.write_text(folder / "fits.tsv", output.format_delimited(header, lines))
  json_fits = {
    curve: [fits.fit_to_json(fit, values.base) for fit in curve_fits]
    for curve, curve_fits in fits_by_curve.items()
  }
  files.write_text(
    folder / "fits.json",
    json.dumps({"base": values.base, "curves": json_fits}, indent=1) + "\n",
  )
  # Statements of one's own, as `csv:FILE` of a config reads them.
  skew_normals = [
    [curve, *map(float, fit.parameters), values.base]
    for curve, curve_fits in fits_by_curve.items()
    for fit in curve_fits
    if fit.family is fits.SKEW_NORMAL
  ]
  files.write_text(
    folder / "curves.csv",
    output.format_delimited(
      ["id", *fits.SKEW_NORMAL.parameters, "log_base"], skew_normals, ","
    ),
  )
  output.write_figure(
    folder / "fits.png", fits.plot_fits(fits_by_curve, values.base)
  )
  print(f"{len(fits_by_curve)} curves")
  print(output.format_table("", header, lines), end="")
  print(f"{folder}: fits.tsv, fits.json, curves.csv, fits.png")


if __name__ == "__main__":
  flags.DEFINE_string(
    "points",
    None,
    "CSV file of the points, with the columns curve, minutes or log_time, and "
    "validity. Example: --points=points.csv",
  )
  flags.DEFINE_string(
    "out", None, "Folder for the results. Example: --out=fits"
  )
  flags.DEFINE_multi_enum(
    "families",
    list(FAMILY_NAMES),
    list(FAMILY_NAMES),
    "Family of curves to fit. Default: all. Repeat the flag for several. "
    "Example: --families=skew_normal --families=gaussian",
  )
  flags.DEFINE_float(
    "base",
    LOG_BASE,
    "Base of the logarithm of time. Default: 1.1. Example: --base=2",
    lower_bound=1.000001,
  )
  flags.DEFINE_float(
    "height",
    None,
    "Validity at the peak. Default: fitted. Example: --height=1",
    lower_bound=1e-6,
    upper_bound=1.0,
  )
  flags.DEFINE_float(
    "ridge",
    None,
    "Weight of the squared skewness among the squared residuals. Default: 0, "
    "or 1e-5 if the points do not determine the curve. Example: --ridge=1e-4",
    lower_bound=0.0,
  )
  command_line.run_main(main, required=("points", "out"))
