"""From a checkpoint to run files, tables and plots.

  python -m ctd_jax.evaluate --config=configs/tiny.py --workdir=runs/tiny

Tables, plots and a page to read from the run files that lie there, without
ranking anew:

  python -m ctd_jax.evaluate --report --workdir=runs/tiny

A run is also asked about a data set it was not trained on, and the systems
that need no training about any:

  python -m ctd_jax.evaluate --dataset=beir:FOLDER --workdir=runs/tiny
  python -m ctd_jax.evaluate --baselines_only --dataset=beir:FOLDER --workdir=w

Run files and qrels are the border: the model and the baselines write theirs,
and every table is computed from the files that lie there.
"""

from __future__ import annotations

from absl import flags

from ctd_jax.systems import evaluation_run
from ctd_jax.training import config as training_config
from ctd_jax.training import (
  distributed,
  distributed_flags,
  run_folder,
  transfer,
)
from ctd_jax.training import experiment as experiments
from ctd_jax.utils import command_line
from ctd_jax_datasets import load


def main() -> None:
  """Evaluates the run in --workdir, or the baselines alone."""
  distributed.initialize_processes()
  workdir = run_folder.resolve_folder(command_line.WORKDIR.value)
  other_workdirs = [
    run_folder.resolve_folder(path) for path in flags.FLAGS.also
  ]
  dataset, data_dir = flags.FLAGS.dataset, flags.FLAGS.data_dir
  if (flags.FLAGS.baselines_only or flags.FLAGS.report) and (
    not distributed.is_coordinator()
  ):
    return  # work for one process
  has_trained_run = (workdir / run_folder.TRAINING_FILE).exists()
  if flags.FLAGS.baselines_only:
    config = command_line.CONFIG.value or (
      run_folder.read_config(workdir)
      if has_trained_run
      else training_config.base_config()
    )
    benchmark = load.build_benchmark(
      dataset or config.dataset, data_dir or config.data_dir, config.sources
    )
    if flags.FLAGS.report:
      evaluation_run.render_report(
        benchmark, config, workdir, other_workdirs, is_training_dataset=False
      )
    else:
      evaluation_run.evaluate_systems(
        benchmark, config, workdir, other_workdirs
      )
    return
  if not has_trained_run:
    raise FileNotFoundError(
      f"--workdir={workdir}: no trained run there; train first: "
      f"python -m ctd_jax.train --config=... --workdir={workdir}, or evaluate "
      "what needs no training with --baselines_only"
    )
  config = command_line.CONFIG.value or run_folder.read_config(workdir)
  if flags.FLAGS.report:
    benchmark = load.build_benchmark(
      dataset or config.dataset, data_dir or config.data_dir, config.sources
    )
    evaluation_run.render_report(
      benchmark,
      config,
      workdir,
      other_workdirs,
      is_training_dataset=not dataset,
    )
    return
  experiment = experiments.assemble_experiment(config, workdir)
  if dataset:
    experiment = transfer.transfer_experiment(experiment, dataset, data_dir)
  evaluation_run.evaluate_experiment(experiment, other_workdirs)


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.adopt_module_key_flags(distributed_flags)
  flags.DEFINE_list(
    "also",
    [],
    "Workdirs of other evaluated runs whose run files join the tables and are "
    "compared with this one. Example: --also=runs/ft,runs/multi",
  )
  flags.DEFINE_string(
    "dataset",
    None,
    "Data set to ask about instead of the one the run was trained on: a name "
    "as in config.dataset, or beir:FOLDER. Results go to a folder of its own "
    "in WORKDIR/evaluation. Example: --dataset=beir:exports/mine",
  )
  flags.DEFINE_string(
    "data_dir",
    None,
    "Where the data set of --dataset lies; by default where config.data_dir "
    "says. Example: --data_dir=/data/tfds",
  )
  flags.DEFINE_bool(
    "baselines_only",
    False,
    "Evaluate the systems of config.eval.baselines, which need no trained run "
    "(by default BM25, BM25 with a time prior and rules). "
    "Example: --baselines_only --dataset=beir:exports/mine",
  )
  flags.DEFINE_bool(
    "report",
    False,
    "Rank nothing; make tables, plots and a page to read (report.html) from "
    "the run files in WORKDIR/evaluation, with those of --also. Errors are "
    "shown of the trained run, or of --config.name. "
    "Example: --report --also=runs/ft",
  )
  command_line.run_main(main, required=("workdir",))
