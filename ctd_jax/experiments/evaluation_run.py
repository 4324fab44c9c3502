"""Evaluation of a run or of untrained systems: run files, tables and plots.

Run files and qrels are the border between systems and evaluation: the model
and the systems write theirs, and every table is computed from the files.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence

import ml_collections

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.evaluation import calibration, protocol, report, results, summary
from ctd_jax.retrieval import dense
from ctd_jax.systems import registry
from ctd_jax.training import config as training_config
from ctd_jax.training import devices, metrics, run_folder, transfer
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment
from ctd_jax.training.run_folder import (
  EVALUATION_FOLDER,
  TRAINING_FILE,
  Folder,
)
from ctd_jax.utils import files
from ctd_jax_datasets import load
from ctd_jax_datasets.common.source_files import SourceError

# Said below the table of the first command.
_MINI_EXPECTATION = """\
What to expect of this synthetic set: a small encoder loses to BM25, because
nearly all first hits are placeholders, which spell out their date, so that
equal characters find them at once and two layers must learn to from a thousand
questions; of the events, whose texts do not name the year, BM25 finds next to
none."""


def run_evaluation(
  workdir: str | os.PathLike,
  config: ml_collections.ConfigDict | None = None,
  *,
  dataset: str | None = None,
  data_dir: str | None = None,
  other_workdirs: Sequence[str | os.PathLike] = (),
  baselines_only: bool = False,
  report: bool = False,
) -> None:
  """Evaluates a trained run, or untrained systems alone.

  Args:
    workdir: folder of the run; files go into its folder `evaluation`.
    config: None = that of the run, or for untrained systems the base config.
    dataset: evaluated instead of the one of the config.
    data_dir: folder of the data set; None = as in the config.
    other_workdirs: other workdirs whose run files join the tables.
    baselines_only: evaluate the systems of `config.eval.baselines` alone.
    report: rank nothing; make tables and page anew from existing run files.

  Raises:
    FileNotFoundError: if the workdir has no trained run that is needed, or no
      run files for a report.
    ValueError: if a field or file is wrong; the message names it.
  """
  if (baselines_only or report) and not devices.is_coordinator():
    return  # work for one process
  workdir = run_folder.resolve_folder(workdir)
  other_folders = [run_folder.resolve_folder(path) for path in other_workdirs]
  has_run = (workdir / TRAINING_FILE).exists()
  if not has_run and not baselines_only:
    raise FileNotFoundError(
      f"--workdir={workdir}: no trained run there; train first: "
      f"python -m ctd_jax.train --config=... --workdir={workdir}, or evaluate "
      "what needs no training with --baselines_only"
    )
  if config is None and (has_run or not baselines_only):
    config = run_folder.read_config(workdir)
  elif config is None:
    config = training_config.base_config()
  if not baselines_only and not report:
    experiment = experiments.assemble_experiment(config, workdir)
    if dataset:
      experiment = transfer.transfer_experiment(experiment, dataset, data_dir)
    evaluate_experiment(experiment, other_folders)
    return
  if not report:  # before a data set is built for minutes
    training_config.validate_evaluation(config.eval)
    registry.validate(config)
  try:
    benchmark = load.build_benchmark(
      dataset or config.dataset, data_dir or config.data_dir, config.sources
    )
  except SourceError as error:
    # The builder's own command has the flag --sources; this one has a field.
    raise SourceError(
      str(error).replace("--sources", "--config.sources")
    ) from None
  if report:
    render_report(
      benchmark,
      config,
      workdir,
      other_folders,
      is_training_dataset=not baselines_only and not dataset,
    )
  else:
    evaluate_systems(benchmark, config, workdir, other_folders)


def write_system_runs(
  benchmark: Benchmark,
  name: str,
  system: registry.System,
  splits: Sequence[str],
  depth: int,
  folder: Folder,
) -> None:
  """Writes the run files of a system that needs no training run.

  For a system that dates the gallery, its dates are written too; for a tuned
  one, tuning.NAME.tsv with the constants that were tried, best first.

  Args:
    benchmark: benchmark whose queries are asked.
    name: name of the system.
    system: system that ranks.
    splits: splits whose queries are asked.
    depth: number of records kept for a query.
    folder: folder for the run files.
  """
  masks = protocol.gallery_masks(benchmark.kinds)
  for split in splits:
    queries = benchmark.queries[split]
    texts = [query.text for query in queries]
    split_runs = runs.make_runs(
      name,
      system.track,
      system.score_mode,
      split,
      [query.query_id for query in queries],
      benchmark.record_ids,
      system.search(texts, depth, masks),
    )
    for run in split_runs:
      runs.write_run(run, folder)
    rows = calibration.find_split_rows(benchmark, split)
    if system.log_months and len(rows):
      calibration.write_dates(
        folder, name, split, benchmark, rows, system.log_months(rows)
      )
  if system.tuning_table:
    files.write_text(folder / f"tuning.{name}.tsv", system.tuning_table())


def evaluate_experiment(
  experiment: Experiment, other_workdirs: Sequence[Folder] = ()
) -> None:
  """Evaluates the best checkpoint and the baselines; prints the tables.

  Args:
    experiment: a trained run; files go to its `evaluation` folder.
    other_workdirs: other workdirs whose run files join the tables.

  Raises:
    FileNotFoundError: if the workdir has no checkpoint, or one of
      `other_workdirs` was not evaluated on this data set.
    checkpoints.CheckpointError: if it has another architecture.
  """
  workdir, config = experiment.workdir, experiment.config
  other_folders = _find_run_folders(other_workdirs, experiment.benchmark)
  validate_evaluation(config)
  start_time = time.time()
  # Every process ranks; the first alone runs the systems and writes tables.
  dense.write_model_runs(experiment)
  if not devices.is_coordinator():
    devices.wait_for_all("evaluation")
    return
  training = json.loads((workdir / TRAINING_FILE).read_text())
  training["seconds"] = round(training["seconds"] + time.time() - start_time, 1)
  system_command = training["command"]
  # On another data set the rows need both commands.
  if experiment.evaluation != workdir / EVALUATION_FOLDER:
    system_command = files.command_line()
    training["command"] += f" && {system_command}"
  _write_evaluation(
    experiment.benchmark,
    config,
    experiment.evaluation,
    system_command,
    {config.name: training},
    other_folders,
  )
  print(f"checkpoint   {workdir / run_folder.CHECKPOINT_FOLDER}")
  devices.wait_for_all("evaluation")


def validate_evaluation(config: ml_collections.ConfigDict) -> None:
  """Raises the errors of a run's evaluation before the run is trained.

  Args:
    config: config of a run; name, score_mode, eval and the systems' sections
      are read.

  Raises:
    ValueError: if a field is wrong; the message names it, its value and what is
      expected.
  """
  registry.check_run_name(config.name)
  training_config.validate_evaluation(config.eval)
  registry.validate(config)


def evaluate_systems(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  workdir: Folder,
  other_workdirs: Sequence[Folder] = (),
) -> None:
  """Evaluates the systems of `config.eval.baselines`; prints the tables.

  Args:
    benchmark: benchmark whose queries are asked.
    config: eval, seed and the sections of the systems are read.
    workdir: files go where `transfer.transfer_experiment` puts a model's.
    other_workdirs: other workdirs whose run files join the tables.

  Raises:
    FileNotFoundError: if one of `other_workdirs` was not evaluated on this
      data set.
    ValueError: if a field of the config is wrong; the message names it.
  """
  training_config.validate_evaluation(config.eval)
  registry.validate(config)
  _write_evaluation(
    benchmark,
    config,
    transfer.transfer_folder(workdir, benchmark),
    files.command_line(),
    {},
    _find_run_folders(other_workdirs, benchmark),
  )


def render_report(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  workdir: Folder,
  other_workdirs: Sequence[Folder],
  is_training_dataset: bool,
) -> None:
  """Prints an earlier evaluation and writes it and its page, without ranking.

  Args:
    benchmark: benchmark whose queries were asked.
    config: see `print_summary`.
    workdir: folder of the evaluation.
    other_workdirs: other workdirs whose run files join the tables.
    is_training_dataset: whether the run was trained on this data set.

  Raises:
    FileNotFoundError: if the run was not evaluated; the message names the
      folder.
  """
  folder = transfer.transfer_folder(workdir, benchmark)
  if is_training_dataset:
    folder = workdir / EVALUATION_FOLDER
  if not any(folder.glob("run.*.trec")):
    raise FileNotFoundError(
      f"--report: no run file in {folder}; evaluate first, without --report"
    )
  print_summary(
    benchmark, config, [folder, *_find_run_folders(other_workdirs, benchmark)]
  )


def _find_run_folders(
  workdirs: Sequence[Folder], benchmark: Benchmark
) -> list[Folder]:
  """Returns the folders with other workdirs' run files of a data set."""
  # A run has those of the data set that it was trained on in `evaluation`, all
  # others, and untrained systems always, in a folder of its own in there.
  run_folders = []
  for workdir in workdirs:
    evaluation = workdir / EVALUATION_FOLDER
    datasets_by_folder = {
      path.parent: {row.dataset for row in results.read_result_rows(path)}
      for path in (
        *evaluation.glob(summary.RESULTS_FILE),
        *sorted(evaluation.glob(f"*/{summary.RESULTS_FILE}")),
      )
    }
    matching_folders = [
      folder
      for folder, datasets in datasets_by_folder.items()
      if benchmark.name in datasets
    ]
    if not matching_folders:
      datasets = sorted(set().union(*datasets_by_folder.values()))
      raise FileNotFoundError(
        f"--also={workdir}: no evaluated run on {benchmark.name} in "
        f"{evaluation}; data sets there: {', '.join(datasets) or 'none'}"
      )
    run_folders += matching_folders
  return run_folders


def _write_evaluation(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  folder: Folder,
  system_command: str,
  origin: Mapping[str, Mapping],
  other_folders: Sequence[Folder],
) -> None:
  """Writes qrels, runs of untrained systems, tables and plots."""
  # Systems that are not run again keep their earlier entries.
  origin = summary.read_run_origin(folder) | origin
  splits = experiments.evaluation_splits(benchmark, config.eval.splits)
  for split in splits:
    runs.write_qrels(
      folder / f"qrels.{split}.txt",
      {q.query_id: q.positives for q in benchmark.queries[split]},
    )
  for name, system in registry.make_systems(benchmark, config).items():
    start_time = time.time()
    write_system_runs(
      benchmark, name, system, splits, config.eval.depth, folder
    )
    origin[name] = {
      "command": system_command,
      "commit": files.code_commit(),
      "seconds": round(time.time() - start_time, 1),
      "seeds": list(system.seeds),
    }
  files.write_text(
    folder / summary.ORIGIN_FILE, json.dumps(origin, indent=2) + "\n"
  )
  print_summary(benchmark, config, [folder, *other_folders])


def print_summary(
  benchmark: Benchmark,
  config: ml_collections.ConfigDict,
  folders: Sequence[Folder],
) -> None:
  """Prints a table of run files, and writes all tables and the page.

  Args:
    benchmark: benchmark whose queries were asked.
    config: name and eval.baselines give the order of the systems.
    folders: folders of the run files; results go into the first.

  Raises:
    FileNotFoundError: if there is no run file.
  """
  folder = folders[0]
  evaluation_summary = summary.summarize_runs(
    folders,
    benchmark,
    config.name,
    config.eval.baselines,
    variant_systems=registry.model_dependent_names(),
    # Absent in the config of an older run.
    mask_train=config.eval.get("mask_train", False),
  )
  print(summary.write_summary(evaluation_summary))
  if benchmark.name.startswith("chunqiutr/mini:"):
    print(f"{_MINI_EXPECTATION}\n")
  # Its training is shown where a run is evaluated on its own data set.
  curves = {}
  if folder.name == EVALUATION_FOLDER:
    curves = metrics.read_curves(folder.parent)
  page = report.write_page(evaluation_summary, curves)
  print(f"page to read {page}")
  print(f"tables       {folder / 'results.txt'}, results.csv, per_query.tsv")
  print(f"plots        {folder / 'hit_by_reign.*.png'}")
  if any(folder.glob("tuning.*.tsv")):
    print(f"constants    {folder / 'tuning.*.tsv'}, the chosen ones first")
  print(f"run files    {folder / 'run.*.trec'}, qrels.*.txt")
