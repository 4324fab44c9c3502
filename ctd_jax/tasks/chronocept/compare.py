"""Tells whether finished runs differ by more than chance.

  python -m ctd_jax.tasks.chronocept.compare --workdirs=runs/ffnn,runs/svr,runs/mean

Why: on 129 or 55 test samples the intervals of two baselines overlap where a
paired comparison tells them apart, and do not where figures look far apart.
Every run is compared with the first, on the same samples: squared errors in
z-scores of the train split, whatever the protocol, the mean over targets and
seeds. Printed are the difference (negative: better than the first), its
bootstrap interval and the p-value of a permutation test, alone and corrected
for the number of runs (Holm). `tests/benchmarks/validity.py` calls it too.

Axes: M seeds, N samples, T = 3 targets.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from absl import flags

from ctd_jax.evaluation import significance
from ctd_jax.tasks.chronocept import features, predictor, scaling
from ctd_jax.utils import command_line
from ctd_jax_datasets.chronocept import reader
from ctd_jax_datasets.chronocept.samples import TARGETS

PREDICTIONS_FILE = "predictions.tsv"


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """A finished run.

  Attributes:
    name: of the system, with its protocol.
    dataset: that it was tested on.
    num_seeds: how many models.
    errors: sample id -> squared error, the mean over seeds and targets.
  """

  name: str
  dataset: str
  num_seeds: int
  errors: Mapping[str, float]

  @property
  def mse(self) -> float:
    """Mean over samples."""
    return float(np.mean([*self.errors.values()]))


@dataclasses.dataclass(frozen=True)
class RunComparison:
  """A run beside the first one.

  Attributes:
    difference: of the MSE, negative if the run is better.
    interval: of it, 95 %.
    p_value: two-sided.
  """

  difference: float
  interval: tuple[float, float]
  p_value: float


def read_run(workdir: str | os.PathLike) -> FinishedRun:
  """Returns the run in a workdir of `ctd_jax.train`.

  Raises:
    FileNotFoundError: if the run is not finished or its data are not there.
    ValueError: if the predictions are not of the config's test samples.
  """
  workdir = pathlib.Path(workdir).expanduser()
  for name in (predictor.CONFIG_FILE, PREDICTIONS_FILE):
    if not (workdir / name).exists():
      raise FileNotFoundError(
        f"{workdir}: no {name}; train the run to its end first"
      )
  config_json = (workdir / predictor.CONFIG_FILE).read_text("utf-8")
  config = json.loads(config_json)
  samples = reader.load_samples(
    config["dataset"], config["data_dir"], config["sources"]
  )
  scaler = scaling.fit_train_scalers(
    {
      split: features.extract_targets(split_samples)
      for split, split_samples in samples.items()
    }
  )["test"]
  ids = [sample.sample_id for sample in samples["test"]]
  predicted = read_predictions(workdir / PREDICTIONS_FILE)
  if [*predicted] != ids:
    raise ValueError(
      f"{workdir / PREDICTIONS_FILE}: not the test samples of {config['dataset']}"
    )
  truth = features.extract_targets(samples["test"])
  errors = ((np.stack([*predicted.values()]) - truth[:, None]) / scaler.sd) ** 2
  return FinishedRun(
    f"{config['name']} ({config['protocol']})",
    config["dataset"],
    errors.shape[1],
    dict(zip(ids, errors.mean(axis=(1, 2)).tolist(), strict=True)),
  )


def read_predictions(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns sample id -> predictions in raw units, [M, T]."""
  values_by_sample: dict[str, list[list[float]]] = {}
  with path.open(encoding="utf-8") as file:
    for row in csv.DictReader(file, delimiter="\t"):
      values = [float(row[target]) for target in TARGETS]
      values_by_sample.setdefault(row["sample_id"], []).append(values)
  return {
    sample_id: np.array(values)
    for sample_id, values in values_by_sample.items()
  }


def compare_runs(run: FinishedRun, reference: FinishedRun) -> RunComparison:
  """Returns the paired comparison of a run with the first.

  Raises:
    ValueError: if they were tested on different samples.
  """
  if run.dataset != reference.dataset:
    raise ValueError(
      f"{run.name} was tested on {run.dataset}, {reference.name} on "
      f"{reference.dataset}; expected one data set"
    )
  randomisation_test = significance.run_paired_randomisation(
    run.errors, reference.errors
  )
  error_differences = {
    k: run.errors[k] - error for k, error in reference.errors.items()
  }
  return RunComparison(
    randomisation_test.difference,
    significance.compute_bootstrap_interval(error_differences),
    randomisation_test.p_value,
  )


def format_comparison_table(runs: Sequence[FinishedRun]) -> str:
  """Returns a line for each run, the first on top."""
  reference, *compared_runs = runs
  comparisons = [compare_runs(run, reference) for run in compared_runs]
  holm_p_values = significance.correct_by_holm([c.p_value for c in comparisons])
  width = max(len(run.name) for run in runs)
  lines = [
    f"{'run':<{width}}  seeds     MSE  difference   95 % interval"
    "             p    Holm",
    f"{reference.name:<{width}}  {reference.num_seeds:5}  {reference.mse:6.4f}",
  ]
  for run, comparison, holm_p_value in zip(
    compared_runs, comparisons, holm_p_values, strict=True
  ):
    low, high = comparison.interval
    lines.append(
      f"{run.name:<{width}}  {run.num_seeds:5}  {run.mse:6.4f}  "
      f"{comparison.difference:+10.4f}  [{low:+8.4f}, {high:+8.4f}]  "
      f"{comparison.p_value:.4f}  {holm_p_value:.4f}"
    )
  return "\n".join(lines)


def main() -> None:
  """Prints the table."""
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
    "Finished runs of ctd_jax.train, the first to compare the others with. "
    "Example: --workdirs=runs/ffnn,runs/svr",
  )
  command_line.run_main(main, required=("workdirs",))
