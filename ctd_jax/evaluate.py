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

import json
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from absl import flags, logging

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.evaluation import dates, protocol, report_page, summary
from ctd_jax.models.dual_encoder import Encoding
from ctd_jax.retrieval import dense
from ctd_jax.systems import registry
from ctd_jax.training import config_checks, distributed, train_step
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment
from ctd_jax.utils import command_line, files
from ctd_jax_configs import common
from ctd_jax_datasets import load

EVALUATION_FOLDER = experiments.EVALUATION_FOLDER
# Command, commit, seconds and seeds of the training; `train` writes it.
TRAINING_FILE = "training.json"


def format_command() -> str:
  """Returns the command line of this process as a user would type it."""
  module = pathlib.Path(sys.argv[0]).stem
  return shlex.join(["python", "-m", f"ctd_jax.{module}", *sys.argv[1:]])


def read_commit() -> str:
  """Returns the commit of the code that runs, with -dirty if it was changed.

  "" where the package does not lie at the top of a git checkout.
  """
  package = pathlib.Path(__file__).resolve().parent

  def run_git(*arguments: str) -> str:
    return subprocess.run(
      ["git", "-C", str(package), *arguments],
      capture_output=True,
      text=True,
      check=True,
    ).stdout.strip()

  try:
    if pathlib.Path(run_git("rev-parse", "--show-toplevel")) != package.parent:
      return ""
    changed_files = run_git("status", "--porcelain", "--untracked-files=no")
    return run_git("rev-parse", "HEAD") + "-dirty" * bool(changed_files)
  except (OSError, subprocess.CalledProcessError):
    return ""


def _write_runs(folder: pathlib.Path, model_runs: Sequence[runs.Run]) -> None:
  if distributed.is_coordinator():
    for run in model_runs:
      runs.write_run(run, folder)


def write_model_runs(experiment: Experiment) -> None:
  """Ranks with the best checkpoint and writes the run files.

  Raises:
    FileNotFoundError: if the workdir has no checkpoint.
    checkpointing.CheckpointError: if it is of another architecture.
  """
  workdir, config = experiment.workdir, experiment.config
  step = experiment.checkpoints.best_step
  if step is None:
    raise FileNotFoundError(
      f"no checkpoint in {workdir}/checkpoints; train it to the first "
      "validation (config.eval_every)"
    )
  params = experiment.checkpoints.restore(
    step, experiment.abstract_state()
  ).params
  logging.info("%s: evaluating the checkpoint of step %d", config.name, step)
  ranker = dense.Ranker(experiment)
  records = ranker.encode_gallery(params)
  masks = protocol.gallery_masks(experiment.benchmark.kinds)
  for split in experiments.evaluation_splits(experiment.benchmark, config):
    split_runs = ranker.rank_split(
      params, split, masks, config.eval.depth, records
    )
    _write_runs(experiment.evaluation, split_runs)
    if experiment.model.config.use_posterior and _has_same_calendar(experiment):
      _write_dates(experiment, params, records, split)


def _has_same_calendar(experiment: Experiment) -> bool:
  """Whether the posterior's months are those of the data set asked about."""
  model_months = experiment.model.config.month_classes
  return model_months == train_step.month_classes(experiment.benchmark.timeline)


def _write_dates(
  experiment: Experiment, params: Any, records: Encoding, split: str
) -> None:
  """Writes the model's dates of the records of a split."""
  rows = dates.find_split_rows(experiment.benchmark, split)
  if len(rows):
    log_p = experiment.model.apply(
      {"params": dense.select_scoring_params(params)},
      jax.tree.map(lambda leaf: leaf[rows], records),
      method="log_months",
    )
    if not distributed.is_coordinator():
      return
    dates.write_dates(
      experiment.evaluation,
      experiment.config.name,
      split,
      experiment.benchmark,
      rows,
      np.asarray(log_p),
    )


def write_baseline_runs(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  name: str,
  baseline: registry.Baseline,
  folder: pathlib.Path,
) -> None:
  """Writes the run files of a system that needs no training run.

  Of one that is tuned also tuning.NAME.tsv: what was tried, the best first.

  Args:
    benchmark: what is asked.
    config: eval.splits and eval.depth are read.
    name: of the system.
    baseline: the system.
    folder: for the run files.
  """
  masks = protocol.gallery_masks(benchmark.kinds)
  for split in experiments.evaluation_splits(benchmark, config):
    queries = benchmark.queries[split]
    texts = [query.text for query in queries]
    _write_runs(
      folder,
      runs.make_runs(
        name,
        baseline.track,
        baseline.score_mode,
        split,
        [query.query_id for query in queries],
        benchmark.record_ids,
        baseline.rank_top_k(texts, config.eval.depth, masks),
      ),
    )
    rows = dates.find_split_rows(benchmark, split)
    if baseline.log_months and len(rows):
      log_p = baseline.log_months(rows)
      dates.write_dates(folder, name, split, benchmark, rows, log_p)
  if baseline.format_tuning:
    files.write_text(folder / f"tuning.{name}.tsv", baseline.format_tuning())


def evaluate_experiment(
  experiment: Experiment, other_workdirs: Sequence[pathlib.Path] = ()
) -> None:
  """Evaluates the best checkpoint and the baselines; prints the tables.

  Args:
    experiment: a trained run; files go to its `evaluation` folder.
    other_workdirs: other workdirs whose run files join the tables.

  Raises:
    FileNotFoundError: if the workdir has no checkpoint, or one of `other_workdirs` was
      not evaluated on this data set.
    checkpointing.CheckpointError: if it is of another architecture.
  """
  workdir, config = experiment.workdir, experiment.config
  other_folders = _find_run_folders(
    other_workdirs, experiment.evaluation.relative_to(workdir)
  )
  start_time = time.time()
  write_model_runs(experiment)
  if not distributed.is_coordinator():
    distributed.wait_for_all("evaluation")
    return
  training = json.loads((workdir / TRAINING_FILE).read_text())
  training["seconds"] = round(training["seconds"] + time.time() - start_time, 1)
  baseline_command = training["command"]
  if experiment.evaluation != workdir / EVALUATION_FOLDER:
    baseline_command = format_command()
    training["command"] += f" && {baseline_command}"
  _write_evaluation(
    experiment.benchmark,
    config,
    experiment.evaluation,
    baseline_command,
    {config.name: training},
    other_folders,
  )
  print(f"checkpoint   {workdir / experiments.CHECKPOINT_FOLDER}")
  distributed.wait_for_all("evaluation")


def evaluate_baselines(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  other_workdirs: Sequence[pathlib.Path] = (),
) -> None:
  """Evaluates the systems that need no training; prints the tables.

  Args:
    benchmark: what is asked.
    config: eval, seed and the sections of the systems are read.
    workdir: files go where `experiment.transfer_experiment` puts those of a model.
    other_workdirs: other workdirs whose run files join the tables.

  Raises:
    FileNotFoundError: if one of `other_workdirs` was not evaluated on this data set.
    ValueError: naming a field of the config.
  """
  config_checks.check_evaluation(config)
  folder = experiments.transfer_folder(workdir, benchmark)
  other_folders = _find_run_folders(other_workdirs, folder.relative_to(workdir))
  _write_evaluation(
    benchmark, config, folder, format_command(), {}, other_folders
  )


def render_report(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  other_workdirs: Sequence[pathlib.Path],
  is_training_dataset: bool,
) -> None:
  """Tells what was evaluated before, with the page; ranks nothing.

  Args:
    benchmark: what was asked.
    config: see `tell`.
    workdir: of the evaluation.
    other_workdirs: other workdirs whose run files join the tables.
    is_training_dataset: whether the run was trained on this data set.

  Raises:
    FileNotFoundError: naming the folder, if it was not evaluated.
  """
  folder = experiments.transfer_folder(workdir, benchmark)
  if is_training_dataset:
    folder = workdir / EVALUATION_FOLDER
  if not any(folder.glob("run.*.trec")):
    raise FileNotFoundError(
      f"--report: no run file in {folder}; evaluate first, without --report"
    )
  other_folders = _find_run_folders(other_workdirs, folder.relative_to(workdir))
  print_summary(benchmark, config, [folder, *other_folders], with_page=True)


def _find_run_folders(
  workdirs: Sequence[pathlib.Path], subfolder: pathlib.Path
) -> list[pathlib.Path]:
  """Returns where other workdirs keep their run files."""
  for workdir in workdirs:
    if not (workdir / subfolder / summary.ORIGIN_FILE).exists():
      raise FileNotFoundError(
        f"--also={workdir}: no evaluated run in {workdir / subfolder}"
      )
  return [workdir / subfolder for workdir in workdirs]


def _write_evaluation(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  folder: pathlib.Path,
  baseline_command: str,
  origin: Mapping[str, Mapping],
  other_folders: Sequence[pathlib.Path],
) -> None:
  """Writes what every evaluation has: qrels, baselines, tables, plots.

  Args:
    benchmark: what is asked.
    config: name, eval, seed and the sections of the systems are read.
    folder: of the run files.
    baseline_command: the command that baselines are had by.
    origin: of the systems whose run files lie there already.
    other_folders: further folders of run files.
  """
  # Of a system that is not run again, what is known stays.
  origin = summary.read_run_origin(folder) | origin
  for split in experiments.evaluation_splits(benchmark, config):
    runs.write_qrels(
      folder / f"qrels.{split}.txt",
      {q.query_id: q.positives for q in benchmark.queries[split]},
    )
  systems = registry.make_baselines(benchmark, config)
  for name in config.eval.baselines:
    start_time = time.time()
    write_baseline_runs(benchmark, config, name, systems[name], folder)
    origin[name] = {
      "command": baseline_command,
      "commit": read_commit(),
      "seconds": round(time.time() - start_time, 1),
      "seeds": list(systems[name].seeds),
    }
  files.write_text(
    folder / summary.ORIGIN_FILE, json.dumps(origin, indent=2) + "\n"
  )
  print_summary(benchmark, config, [folder, *other_folders])


def print_summary(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  folders: Sequence[pathlib.Path],
  with_page: bool = False,
) -> None:
  """Prints and writes tables and plots of the run files that are there.

  Args:
    benchmark: what was asked.
    config: name and eval.baselines say who stands where.
    folders: of the run files; results go into the first.
    with_page: whether to write the page as well.

  Raises:
    FileNotFoundError: if there is no run file.
  """
  folder = folders[0]
  evaluation_summary = summary.summarize_runs(
    folders, benchmark, config.name, config.eval.baselines
  )
  print(summary.write_summary(evaluation_summary))
  if benchmark.name.startswith("chunqiutr/mini:"):
    print("The data set is synthetic: an invented chronicle, for testing.\n")
  print(f"tables       {folder / 'results.txt'}, results.json, per_query.tsv")
  if with_page:
    print(f"page         {report_page.write_page(evaluation_summary)}")
  print(f"plots        {folder / 'hit_by_reign.*.png'}")
  if any(folder.glob("tuning.*.tsv")):
    print(f"constants    {folder / 'tuning.*.tsv'}, the chosen ones first")
  print(f"run files    {folder / 'run.*.trec'}, qrels.*.txt")


def main() -> None:
  """Evaluates the run in --workdir, or the baselines alone."""
  distributed.initialize_processes()
  workdir = pathlib.Path(command_line.WORKDIR.value).expanduser()
  other_workdirs = [
    pathlib.Path(path).expanduser() for path in flags.FLAGS.also
  ]
  dataset, data_dir = flags.FLAGS.dataset, flags.FLAGS.data_dir
  if (flags.FLAGS.baselines_only or flags.FLAGS.report) and (
    not distributed.is_coordinator()
  ):
    return  # work for one process
  has_trained_run = (workdir / TRAINING_FILE).exists()
  if flags.FLAGS.baselines_only:
    config = command_line.CONFIG.value or (
      experiments.read_config(workdir)
      if has_trained_run
      else common.base_config()
    )
    benchmark = load.build_benchmark(
      dataset or config.dataset, data_dir or config.data_dir, config.sources
    )
    if flags.FLAGS.report:
      render_report(
        benchmark, config, workdir, other_workdirs, is_training_dataset=False
      )
    else:
      evaluate_baselines(benchmark, config, workdir, other_workdirs)
    return
  if not has_trained_run:
    raise FileNotFoundError(
      f"--workdir={workdir}: no trained run there; train first: "
      f"python -m ctd_jax.train --config=... --workdir={workdir}, or evaluate "
      "what needs no training with --baselines_only"
    )
  config = command_line.CONFIG.value or experiments.read_config(workdir)
  if flags.FLAGS.report:
    benchmark = load.build_benchmark(
      dataset or config.dataset, data_dir or config.data_dir, config.sources
    )
    render_report(
      benchmark,
      config,
      workdir,
      other_workdirs,
      is_training_dataset=not dataset,
    )
    return
  experiment = experiments.assemble_experiment(config, workdir)
  if dataset:
    experiment = experiments.transfer_experiment(experiment, dataset, data_dir)
  evaluate_experiment(experiment, other_workdirs)


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.adopt_module_key_flags(distributed)
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
