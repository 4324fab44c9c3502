"""Every baseline of validity curves under both protocols, and the ablations.

  python tests/benchmarks/validity.py --encoder=FOLDER --workdir=runs/v \\
    --variant=synthetic_1 --systems=mean,ffnn --rows=rows.json

Runs what is not yet in the workdir, writes the result rows of all (`--rows`)
and prints paired permutation tests over test samples (`validity.compare`): each
system against ffnn, and ffnn with its axes removed and shuffled against ffnn
with them; same model, encoder, epochs, length and seeds. Slow ones run only
where --systems names them: `bilstm`, `bert`, and a model of the published grid
that is searched first, e.g. `svr-searched`.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable

import ml_collections
from absl import flags

from ctd_jax.evaluation import results
from ctd_jax.tasks.chronocept import compare, experiment, features
from ctd_jax.utils import command_line
from ctd_jax_configs import chronocept

SEEDS = tuple(range(10))
TRIVIAL = ("mean", "median", "lexicon", "tfidf", "nearest")
PUBLISHED = ("linear", "svr", "xgboost", "ffnn")
ABLATED = {
  f"ffnn-{axes}": axes
  for axes in (features.AXES_REMOVED, features.AXES_SHUFFLED)
}
REFERENCE = "ffnn"
SEARCHED = "-searched"


def plan(systems: Iterable[str]) -> list[tuple[str, str]]:
  """Returns (system, protocol) of the runs.

  The paper's protocol is for the published systems and, as its zero, `mean`.
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
  """Returns the config of a run, and the flags that give it."""
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
  said = [f"--config=configs/chronocept.py:{model},{variant}"]
  for name, value in changes.items():
    text = str(value).replace(" ", "")
    said.append(f"--config.{name}={text}")
  return config, said


def main() -> None:
  """Runs the plan and writes the rows."""
  values = flags.FLAGS
  workdir = pathlib.Path(values.workdir).expanduser()
  rows, folders = [], {}
  for system, protocol in plan(values.systems):
    config, said = make_config(system, protocol, values.variant)
    folder = workdir / f"{system}-{values.variant}-{protocol}"
    experiment.run_experiment(config, folder)
    command = ["python -m ctd_jax.train", *said, f"--workdir={folder}"]
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
    found = [compare.read_run(f) for f in (reference, *folders.values())]
    print(compare.format_comparison_table(found))


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
  command_line.run_main(main, required=("workdir",))
