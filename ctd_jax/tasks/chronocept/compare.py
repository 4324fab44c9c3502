"""Tests whether finished runs differ by more than chance.

  python -m ctd_jax.tasks.chronocept.compare \\
    --workdirs=runs/ffnn,runs/svr,runs/mean

The command compares every run with the first one on the same test samples. It
prints the difference of the MSE (negative: better than the first), its
bootstrap interval and the p-value of a permutation test, uncorrected and
corrected for the number of runs (Holm).

On 129 or 55 test samples the intervals of two baselines may overlap although a
paired comparison separates them, and figures may look far apart although it
does not. Errors are squared, in z-scores of the train split whatever the
protocol of a run, and averaged over targets and seeds.

Axes: M seeds, N samples, T = 3 targets.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from absl import flags
from jaxtyping import Float64

from ctd_jax.evaluation import significance
from ctd_jax.utils import command_line, files
from ctd_jax_datasets import load

PREDICTIONS_FILE = "predictions.tsv"


class PredictionRow(msgspec.Struct):
  """A line of predictions.tsv: location, scale and skewness in raw units."""

  sample_id: str
  seed: int
  location: float
  scale: float
  skewness: float


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """Errors of a finished run on the test split."""

  name: str  # of the system, with its protocol
  dataset: str  # of the test split
  num_seeds: int
  # Sample id -> squared error, mean over seeds and targets.
  errors: Mapping[str, float]

  @property
  def mse(self) -> float:
    """Mean squared error over samples."""
    return float(np.mean([*self.errors.values()]))


def read_run(workdir: str | os.PathLike) -> FinishedRun:
  """Returns the run in a workdir of `ctd_jax.train`.

  Args:
    workdir: folder of a run of `configs/chronocept.py`.

  Raises:
    FileNotFoundError: if the run is not finished or its data are missing.
    ValueError: if the predictions are not of the config's test samples.
  """
  # Imported here: they bring JAX, which --help must not wait for.
  from ctd_jax.tasks.chronocept import features, systems

  workdir = pathlib.Path(workdir).expanduser()
  for name in (systems.CONFIG_FILE, PREDICTIONS_FILE):
    if not (workdir / name).exists():
      raise FileNotFoundError(
        f"{workdir}: no {name}; train the run to its end first"
      )
  config = json.loads((workdir / systems.CONFIG_FILE).read_text("utf-8"))
  samples = load.load_samples(
    config["dataset"], config["data_dir"], config["sources"]
  )
  targets = {
    split: features.extract_targets(split_samples)
    for split, split_samples in samples.items()
  }
  # Train's deviations for both protocols: their own scores differ in units.
  scaler = features.fit_train_scalers(targets)["test"]
  ids = [sample.sample_id for sample in samples["test"]]
  predicted = read_predictions(workdir / PREDICTIONS_FILE)
  if [*predicted] != ids:
    raise ValueError(
      f"{workdir / PREDICTIONS_FILE}: not the test samples of "
      f"{config['dataset']}"
    )
  # [N, M, T] - [N, 1, T]
  errors = np.stack([*predicted.values()]) - targets["test"][:, None]
  squared_errors = (errors / scaler.sd) ** 2
  return FinishedRun(
    f"{config['name']} ({config['protocol']})",
    config["dataset"],
    squared_errors.shape[1],
    dict(zip(ids, squared_errors.mean(axis=(1, 2)).tolist(), strict=True)),
  )


def read_predictions(
  path: pathlib.Path,
) -> dict[str, Float64[np.ndarray, "M T"]]:
  """Returns sample id -> predictions of all seeds in raw units."""
  values_by_sample: dict[str, list[list[float]]] = {}
  for _, row in files.read_csv_rows(path, PredictionRow, delimiter="\t"):
    values = [row.location, row.scale, row.skewness]
    values_by_sample.setdefault(row.sample_id, []).append(values)
  return {
    sample_id: np.array(values)
    for sample_id, values in values_by_sample.items()
  }


def compare_runs(
  run: FinishedRun, reference: FinishedRun
) -> tuple[float, tuple[float, float], float]:
  """Returns the paired comparison of a run with the reference.

  Returns:
    MSE of the run minus that of the reference, negative if the run is better;
    its 95 % bootstrap interval; two-sided p-value of a randomisation test.

  Raises:
    ValueError: if they were tested on different samples.
  """
  if run.dataset != reference.dataset:
    raise ValueError(
      f"{run.name} was tested on {run.dataset}, {reference.name} on "
      f"{reference.dataset}; expected one data set"
    )
  test = significance.run_paired_randomisation(run.errors, reference.errors)
  # Paired: each resample takes a sample's errors of both runs.
  interval = significance.compute_bootstrap_interval(
    {k: run.errors[k] - error for k, error in reference.errors.items()}
  )
  return test.difference, interval, test.p_value


def format_comparison_table(runs: Sequence[FinishedRun]) -> str:
  """Returns a table with a line for each run, the reference on top.

  Args:
    runs: the reference and at least one other.
  """
  reference, *compared_runs = runs
  comparisons = [compare_runs(run, reference) for run in compared_runs]
  # One family of tests: all runs against the reference.
  holm_p_values = significance.correct_by_holm([c[-1] for c in comparisons])
  width = max(len(run.name) for run in runs)
  lines = [
    f"{'run':<{width}}  seeds     MSE  difference   95 % interval"
    "             p    Holm",
    f"{reference.name:<{width}}  {reference.num_seeds:5}  {reference.mse:6.4f}",
  ]
  for run, (difference, (low, high), p_value), holm_p_value in zip(
    compared_runs, comparisons, holm_p_values, strict=True
  ):
    lines.append(
      f"{run.name:<{width}}  {run.num_seeds:5}  {run.mse:6.4f}  "
      f"{difference:+10.4f}  [{low:+8.4f}, {high:+8.4f}]  "
      f"{p_value:.4f}  {holm_p_value:.4f}"
    )
  return "\n".join(lines)


def main() -> None:
  """Prints the table of the runs of --workdirs."""
  workdirs = flags.FLAGS.workdirs
  if len(workdirs) < 2:
    raise ValueError("--workdirs: expected at least two runs")
  runs = [read_run(workdir) for workdir in workdirs]
  print(f"{runs[0].dataset}, test, {len(runs[0].errors)} samples")
  print(format_comparison_table(runs))


if __name__ == "__main__":
  flags.DEFINE_list(
    "workdirs",
    None,
    "Workdirs of finished runs; all others are compared with the first. "
    "Example: --workdirs=runs/ffnn,runs/svr",
  )
  command_line.run_main(main, required=("workdirs",))
