"""Baselines of validity curves under both protocols, and their ablations.

  python tests/benchmarks/validity.py --encoder=FOLDER --workdir=runs/v \\
    --variant=synthetic_1 --systems=mean,ffnn --rows=rows.json

Runs that are missing in the workdir are made; the result rows of all are
written (`--rows`), and paired permutation tests over test samples printed (see
`comparison`): each system against ffnn, and ffnn with its axes removed or
shuffled against ffnn with them, with the same model, encoder, epochs, length
and seeds. Slow systems run only if --systems names them: `bilstm`, `bert`, and
a model whose published grid is searched first, e.g. `svr-searched`.
"""

import dataclasses
import pathlib
from collections.abc import Iterable

import ml_collections
from absl import flags

from ctd_jax.evaluation import results
from ctd_jax.tasks.chronocept import compare, experiment, features
from ctd_jax.utils import command_line
from ctd_jax_configs import chronocept

SEEDS = tuple(range(10))  # of ffnn, the reference
TRIVIAL = ("mean", "median", "lexicon", "tfidf", "nearest")
PUBLISHED = ("linear", "svr", "xgboost", "ffnn")
ABLATED = {
  f"ffnn-{axes}": axes
  for axes in (features.AXES_REMOVED, features.AXES_SHUFFLED)
}
REFERENCE = "ffnn"
SEARCHED = "-searched"  # suffix of systems with config.search


def plan_runs(systems: Iterable[str]) -> list[tuple[str, str]]:
  """Returns the (system, protocol) pairs to run.

  The paper's protocol is for the published systems and `mean`, its baseline.
  """
  pairs = [(system, experiment.HONEST) for system in systems]
  only_honest = {*TRIVIAL[1:], *ABLATED}
  pairs += [
    (system, experiment.PAPER)
    for system in systems
    if system not in only_honest and not system.endswith(SEARCHED)
  ]
  return pairs


def make_config(
  system: str, protocol: str, variant: str
) -> tuple[ml_collections.ConfigDict, list[str]]:
  """Returns the config of a run and the flags that produce it."""
  model = system.partition("-")[0]
  config = chronocept.get_config(f"{model},{variant}")
  changes = {"protocol": protocol, "name": system}
  if model == REFERENCE:
    changes["seeds"] = SEEDS
  if system in ABLATED:
    changes["axes"] = ABLATED[system]
  if system.endswith(SEARCHED):
    changes["search"] = True
  values = flags.FLAGS
  changes |= {
    name: values[name].value
    for name in ("encoder", "data_dir", "cache_dir")
    if values[name].value
  }
  config.update(changes)
  arguments = [f"--config=configs/chronocept.py:{model},{variant}"]
  for name, value in changes.items():
    text = str(value).replace(" ", "")
    arguments.append(f"--config.{name}={text}")
  return config, arguments


def main() -> None:
  """Runs the systems, writes their rows and prints the tests."""
  values = flags.FLAGS
  workdir = pathlib.Path(values.workdir).expanduser()
  rows, folders = [], {}
  for system, protocol in plan_runs(values.systems):
    config, arguments = make_config(system, protocol, values.variant)
    folder = workdir / f"{system}-{values.variant}-{protocol}"
    experiment.run_experiment(config, folder)
    command = ["python -m ctd_jax.train", *arguments, f"--workdir={folder}"]
    rows += [
      dataclasses.replace(row, command=" ".join(command))
      for row in results.read_result_rows(folder / "results.json")
    ]
    if protocol == experiment.HONEST:
      folders[system] = folder
    if values.rows:
      results.write_result_rows(values.rows, rows)
  if REFERENCE in folders and len(folders) > 1:
    reference = folders.pop(REFERENCE)
    runs = [compare.read_run(f) for f in (reference, *folders.values())]
    print(compare.format_comparison_table(runs))


if __name__ == "__main__":
  flags.DEFINE_string(
    "variant",
    "synthetic_1",
    "Variant of chronocept/. Example: --variant=synthetic_2",
  )
  flags.DEFINE_list(
    "systems",
    [*TRIVIAL, *PUBLISHED, *ABLATED],
    "Systems in the order of their runs. Example: --systems=mean,ffnn,bilstm",
  )
  flags.DEFINE_string(
    "encoder", None, "Folder or hub id. Example: --encoder=minilm"
  )
  flags.DEFINE_string(
    "data_dir", None, "Folder of data sets. Example: --data_dir=data_sets"
  )
  flags.DEFINE_string(
    "cache_dir", None, "Folder of embeddings. Example: --cache_dir=embeddings"
  )
  flags.DEFINE_string(
    "rows", None, "File of result rows to write. Example: --rows=rows.json"
  )
  command_line.run_main(main, required=("workdir",))
