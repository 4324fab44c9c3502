"""Every baseline of validity curves under both protocols, and the ablations.

  python tests/benchmarks/validity.py --encoder=FOLDER --workdir=runs/v \\
    --variant=synthetic_1 --systems=mean,ffnn --rows=rows.json

Runs what is not yet in the workdir, writes the result rows of all (`--rows`)
and prints paired permutation tests over test samples: each system against
ffnn, and ffnn with its axes removed and shuffled against ffnn with them; same
model, encoder, epochs, length and seeds. The errors compared are the means
over seeds. `bilstm` and `bert`, the slow ones, run only where --systems names
them.
"""

from __future__ import annotations

import csv
import dataclasses
import pathlib
from collections.abc import Iterable

import ml_collections
import numpy as np
from absl import flags

from ctd_jax import entry_point
from ctd_jax.configs import chronocept
from ctd_jax.evaluation import results, significance
from ctd_jax.validity import experiment, features
from ctd_jax_datasets.chronocept import reader
from ctd_jax_datasets.chronocept.samples import TARGETS

SEEDS = tuple(range(10))
TRIVIAL = ("mean", "median", "lexicon", "tfidf", "nearest")
PUBLISHED = ("linear", "svr", "xgboost", "ffnn")
ABLATED = {
  f"ffnn-{axes}": axes
  for axes in (features.AXES_REMOVED, features.AXES_SHUFFLED)
}
REFERENCE = "ffnn"


def plan(systems: Iterable[str]) -> list[tuple[str, str]]:
  """Returns (system, protocol) of the runs.

  The paper's protocol is for the published systems and, as its zero, `mean`.
  """
  pairs = [(system, experiment.HONEST) for system in systems]
  only_honest = {*TRIVIAL[1:], *ABLATED}
  pairs += [(s, experiment.PAPER) for s in systems if s not in only_honest]
  return pairs


def make_config(
  system: str, protocol: str, variant: str
) -> tuple[ml_collections.ConfigDict, list[str]]:
  """Returns the config of a run, and the flags that give it."""
  model = system.partition("-")[0]
  config = chronocept.get_config(f"{model},{variant}")
  changes = {"protocol": protocol, "name": system}
  if model == REFERENCE:
    changes["seeds"] = SEEDS
  if system in ABLATED:
    changes["axes"] = ABLATED[system]
  values = flags.FLAGS
  changes |= {
    name: values[name].value
    for name in ("encoder", "data_dir", "cache_dir")
    if values[name].value
  }
  config.update(changes)
  said = [f"--config=configs/chronocept.py:{model},{variant}"]
  for name, value in changes.items():
    text = str(value).replace(" ", "")
    said.append(f"--config.{name}={text}")
  return config, said


def predictions_of(folder: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns sample id -> predictions, [M, T], of predictions.tsv."""
  found: dict[str, list[list[float]]] = {}
  with (folder / "predictions.tsv").open(encoding="utf-8") as file:
    for row in csv.DictReader(file, delimiter="\t"):
      values = [float(row[target]) for target in TARGETS]
      found.setdefault(row["sample_id"], []).append(values)
  return {sample_id: np.array(values) for sample_id, values in found.items()}


def print_tests(variant: str, folders: dict[str, pathlib.Path]) -> None:
  """Prints paired tests of honest runs against the reference, in z-scores."""
  config, _ = make_config(REFERENCE, experiment.HONEST, variant)
  samples = reader.load_samples(config.dataset, config.data_dir)
  data = experiment.make_data(samples, config)
  scaler = data.scalers["test"]
  truth = {
    sample.sample_id: np.array(sample.targets) for sample in samples["test"]
  }
  errors = {
    system: {
      sample_id: float(np.mean(((values - truth[sample_id]) / scaler.sd) ** 2))
      for sample_id, values in predictions_of(folder).items()
    }
    for system, folder in folders.items()
  }
  print(f"{variant}, honest: MSE less that of {REFERENCE}, permutation tests")
  for system in errors:
    if system != REFERENCE:
      test = significance.paired_randomisation(
        errors[system], errors[REFERENCE]
      )
      print(f"  {system:<14} {test}")


def main() -> None:
  """Runs the plan and writes the rows."""
  values = flags.FLAGS
  workdir = pathlib.Path(values.workdir).expanduser()
  rows, folders = [], {}
  for system, protocol in plan(values.systems):
    config, said = make_config(system, protocol, values.variant)
    folder = workdir / f"{system}-{values.variant}-{protocol}"
    experiment.run(config, folder)
    command = ["python -m ctd_jax.train", *said, f"--workdir={folder}"]
    rows += [
      dataclasses.replace(row, command=" ".join(command))
      for row in results.read_rows(folder / "results.json")
    ]
    if protocol == experiment.HONEST:
      folders[system] = folder
    if values.rows:
      results.write_rows(values.rows, rows)
  if REFERENCE in folders:
    print_tests(values.variant, folders)


if __name__ == "__main__":
  flags.DEFINE_string(
    "variant",
    "synthetic_1",
    "Of chronocept/, on which everything runs. Example: --variant=synthetic_2",
  )
  flags.DEFINE_list(
    "systems",
    [*TRIVIAL, *PUBLISHED, *ABLATED],
    "What runs, in this order. Example: --systems=mean,ffnn,bilstm",
  )
  flags.DEFINE_string(
    "encoder", None, "Folder or hub id. Example: --encoder=minilm"
  )
  flags.DEFINE_string(
    "data_dir", None, "Where data sets lie. Example: --data_dir=data_sets"
  )
  flags.DEFINE_string(
    "cache_dir", None, "Of embeddings. Example: --cache_dir=embeddings"
  )
  flags.DEFINE_string(
    "rows", None, "File of result rows to write. Example: --rows=rows.json"
  )
  entry_point.run(main, required=("workdir",))
