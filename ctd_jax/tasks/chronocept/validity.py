"""Predicts how long statements stay valid.

  ctd-jax validity "The museum is closed for repairs until spring."
  ctd-jax validity --input=statements.csv --column=statement \\
    --out=curves.csv --plot=curves.png

Statements are arguments, the lines of a text file, or a column of a CSV file,
which may also have columns of axes (main_outcome, negation, ...). Times count
from publication: `mode` is the peak of the curve, and the shortest span that
holds 80 % of the area below it lies between `low` and `high`, all in minutes.

--model is the workdir of a run of configs/chronocept.py, or names published
weights, the default, which are downloaded with their encoder. A model that was
trained on invented sentences is used only if you name its workdir, and then the
output says so.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from absl import flags, logging

from ctd_jax.utils import command_line, files, output

if TYPE_CHECKING:
  import matplotlib.figure

  from ctd_jax.tasks.chronocept.curves import ValidityCurve

DEFAULT_MODEL = "chronocept/benchmark_1"
_TABLE_SUFFIXES = (".csv", ".jsonl")
_MAX_PANELS, _PANELS_IN_ROW = 12, 3
_SYNTHETIC = (
  "the model was trained on invented sentences: its curves show how the "
  "program works, not how long a statement stays true"
)

_NO_WEIGHTS = (
  ". Without a network, give --sources and --encoder, or train a model on "
  "statements of your own (ctd-jax train --config=configs/chronocept.py:tfidf "
  "--config.dataset=csv:FILE --workdir=runs/mine) and give --model=runs/mine; "
  "see docs/tutorials/own-statements.md"
)


def read_statements(
  path: pathlib.Path, column: str
) -> tuple[list[str], list[dict[str, str]]]:
  """Returns the statements of a file, and the segments of each by axis.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if there is no such column or a cell is missing.
  """
  if not path.is_file():
    raise FileNotFoundError(f"--input={path}: no such file")
  if path.suffix.lower() == ".csv":
    texts, axes = _read_table(path, column)
  else:
    lines = files.read_text(path).removeprefix("\ufeff").splitlines()
    texts = [line.strip() for line in lines if line.strip()]
    axes = [{} for _ in texts]
  if not texts:
    raise ValueError(f"--input={path}: no statement in the file")
  return texts, axes


def _read_table(
  path: pathlib.Path, column: str
) -> tuple[list[str], list[dict[str, str]]]:
  """Returns the statements of a CSV file, and the segments of each by axis."""
  from ctd_jax_datasets.chronocept.sample_records import AXES

  row_type = msgspec.defstruct(
    "Statement",
    [
      ("statement", str, msgspec.field(name=column)),
      *((axis, str | None, None) for axis in AXES if axis != column),
    ],
  )
  try:
    rows = [row for _, row in files.read_csv_rows(path, row_type)]
  except ValueError as error:
    raise ValueError(f"--input={error} (--column={column})") from None
  axes = [
    {axis: text for axis in AXES if (text := getattr(row, axis, None))}
    for row in rows
  ]
  return [row.statement for row in rows], axes


def make_row(curve: ValidityCurve, trained_on: str) -> dict[str, str | float]:
  """Returns the row of a statement in a table."""
  numbers = {
    name: float(f"{value:.6g}") if isinstance(value, float) else value
    for name, value in dataclasses.asdict(curve).items()
  }
  return numbers | {"words": curve.describe(), "trained_on": trained_on}


def write_table(
  path: pathlib.Path, rows: Sequence[Mapping[str, str | float]]
) -> None:
  """Writes rows as CSV or JSON lines."""
  if path.suffix.lower() == ".csv":
    text = output.format_delimited(list(rows[0]), map(dict.values, rows), ",")
  else:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
  files.write_text(path, text)


def plot_curves(
  curves: Sequence[ValidityCurve], warning: str
) -> matplotlib.figure.Figure:
  """Returns a panel for each curve with its mode and span."""
  from ctd_jax.tasks.chronocept import measures
  from ctd_jax.tasks.chronocept.curves import MIN_SCALE, to_log_time

  columns = min(_PANELS_IN_ROW, len(curves))
  rows = -(-len(curves) // columns)
  figure = output.make_figure(5.2 * columns, 3.2 * rows)
  panels = figure.subplots(rows, columns, squeeze=False).flat
  for panel, curve in zip(panels, curves, strict=False):
    text = curve.text if len(curve.text) < 60 else curve.text[:59] + "…"
    measures.draw_curves(
      panel,
      {"": (curve.location, max(curve.scale, MIN_SCALE), curve.skewness)},
      f"{text}\n{curve.describe()}",
    )
    mode, low, high = (
      float(to_log_time(minutes))
      for minutes in (curve.mode, curve.low, curve.high)
    )
    panel.axvspan(low, high, color=measures.TRUTH_COLOUR, alpha=0.15, lw=0)
    panel.axvline(mode, color=measures.PREDICTED_COLOUR, lw=1, ls="--")
    panel.spines[["top", "right"]].set_visible(False)
  for panel in list(panels)[len(curves) :]:
    panel.set_visible(False)
  figure.suptitle(
    warning or "dashed: the mode; shaded: the span that holds 80 %", fontsize=8
  )
  return figure


def main(arguments: list[str]) -> None:
  """Prints and writes the curves of the statements."""
  values = flags.FLAGS
  if bool(arguments) == bool(values.input):
    raise ValueError(
      "give statements as arguments or a file with --input, one of the two; "
      'example: ctd-jax validity "The shop is closed until Monday."'
    )
  out, plot = (
    pathlib.Path(value).expanduser() if value else None
    for value in (values.out, values.plot)
  )
  for flag, path, suffixes in (
    ("out", out, _TABLE_SUFFIXES),
    ("plot", plot, (".png",)),
  ):
    if path and path.suffix.lower() not in suffixes:
      raise ValueError(
        f"--{flag}={path}: expected a name that ends in {' or '.join(suffixes)}"
      )
  texts, axes = (
    read_statements(pathlib.Path(values.input).expanduser(), values.column)
    if values.input
    else ([text.strip() for text in arguments], [{} for _ in arguments])
  )
  if not all(texts):
    raise ValueError("an argument is empty; expected a statement")
  try:
    from ctd_jax.tasks.chronocept.systems import ValidityModel
  except ModuleNotFoundError as error:
    raise ValueError(
      f"validity needs {error.name}: pip install 'ctd_jax[chronocept]'"
    ) from None
  try:
    model = ValidityModel.load(values.model, values.encoder, values.sources)
    curves = model.predict(texts, axes)
  except (ValueError, OSError) as error:
    is_workdir = pathlib.Path(values.model).expanduser().exists()
    raise ValueError(
      f"--model={values.model}: {error}" + (not is_workdir) * _NO_WEIGHTS
    ) from None
  warning = _SYNTHETIC if model.is_synthetic else ""
  if warning:
    logging.warning(warning)
  if model.reads_axes and not all(axes):
    logging.info(
      "%d of %d statements have no axes: each counts as its main outcome",
      sum(not each for each in axes),
      len(texts),
    )
  trained_on = model.config.dataset + " (invented sentences)" * bool(warning)
  if out:
    write_table(out, [make_row(curve, trained_on) for curve in curves])
    print(f"{out}: {len(curves)} curves")
  else:
    for curve in curves:
      print(f"{curve.text}\n  {curve.describe()} (trained on {trained_on})")
  if plot:
    output.write_figure(plot, plot_curves(curves[:_MAX_PANELS], warning))
    print(f"{plot}: {len(curves[:_MAX_PANELS])} of {len(curves)} curves")


if __name__ == "__main__":
  flags.DEFINE_string(
    "model",
    DEFAULT_MODEL,
    "Workdir of a run of configs/chronocept.py, or published weights: "
    "chronocept/benchmark_1 (trained on single sentences, the default) or "
    "chronocept/benchmark_2 (several sentences). Example: --model=runs/ffnn",
  )
  flags.DEFINE_string(
    "encoder",
    None,
    "Folder or hub id of the encoder, if it is not where the model was "
    "trained. Example: --encoder=bert-base-uncased",
  )
  flags.DEFINE_string(
    "sources",
    None,
    "Folder of the published weights, such as baseline_weights of a clone of "
    "the authors' repository. Default: $CTD_JAX_RELEASE, else a download. "
    "Example: --sources=chronocept-baseline-models/baseline_weights",
  )
  flags.DEFINE_string(
    "input",
    None,
    "File of statements: CSV, or text with one in a line. "
    "Example: --input=statements.csv",
  )
  flags.DEFINE_string(
    "column",
    "text",
    "Column of the statements in a CSV file. Example: --column=statement",
  )
  flags.DEFINE_string(
    "out",
    None,
    "Table to write instead of printing: CSV or JSON lines. "
    "Example: --out=curves.csv",
  )
  flags.DEFINE_string(
    "plot",
    None,
    "PNG picture to write: the curves of the first 12 statements. "
    "Example: --plot=curves.png",
  )
  command_line.run_main(main, required=(), takes_arguments=True)
