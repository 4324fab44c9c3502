"""From a checkpoint to run files, tables and plots.

  python -m ctd_jax.evaluate --config=configs/tiny.py --workdir=runs/tiny

Run files and qrels are the border: the model and the baselines write theirs,
and every table is computed from the files that lie there.
"""

from __future__ import annotations

import functools
import json
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
from absl import flags, logging

from ctd_jax import entry_point, files
from ctd_jax import experiment as experiments
from ctd_jax.evaluation import protocol, summary
from ctd_jax.experiment import Experiment
from ctd_jax.ranking import Ranker
from ctd_jax.retrieval import bm25, rules, runs, time_prior

EVALUATION = "evaluation"  # folder of the workdir
# Command, commit, seconds and seeds of the training; `train` writes it.
TRAINING = "training.json"


def command() -> str:
  """Returns the command line of this process as a user would type it."""
  module = pathlib.Path(sys.argv[0]).stem
  return shlex.join(["python", "-m", f"ctd_jax.{module}", *sys.argv[1:]])


def commit() -> str:
  """Returns the commit of the code that runs, with -dirty if it was changed.

  "" where the package does not lie at the top of a git checkout.
  """
  package = pathlib.Path(__file__).resolve().parent

  def git(*arguments: str) -> str:
    return subprocess.run(
      ["git", "-C", str(package), *arguments],
      capture_output=True,
      text=True,
      check=True,
    ).stdout.strip()

  try:
    if pathlib.Path(git("rev-parse", "--show-toplevel")) != package.parent:
      return ""
    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "HEAD") + "-dirty" * bool(changed)
  except (OSError, subprocess.CalledProcessError):
    return ""


def _write(folder: pathlib.Path, found: Sequence[runs.Run]) -> None:
  for run in found:
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
  ranker = Ranker(experiment)
  records = ranker.encode(params, experiment.records, "encode records")
  masks = protocol.gallery_masks(experiment.benchmark.kinds)
  for split in config.eval.splits:
    found = ranker.rank(params, split, masks, config.eval.depth, records)
    _write(workdir / EVALUATION, found)


def write_baseline_runs(experiment: Experiment, name: str) -> None:
  """Writes the run files of one of `experiment.BASELINES`."""
  benchmark, config = experiment.benchmark, experiment.config
  timeline = benchmark.timeline
  texts = [record.text for record in benchmark.records]
  months = np.array([timeline.ordinal(r.key) for r in benchmark.records])
  systems = {
    "bm25": (bm25, bm25.topk),
    "bm25_timekde": (
      time_prior,
      functools.partial(
        time_prior.topk, ordinals=months, num_months=len(timeline)
      ),
    ),
    "rules": (rules, functools.partial(rules.topk, timeline=timeline)),
  }
  masks = protocol.gallery_masks(benchmark.kinds)
  module, topk = systems[name]
  for split in config.eval.splits:
    queries = benchmark.queries[split]
    found = topk(
      [query.text for query in queries],
      texts,
      k=config.eval.depth,
      galleries=masks,
    )
    _write(
      experiment.workdir / EVALUATION,
      runs.from_topk(
        name,
        module.TRACK,
        module.SCORE_MODE,
        split,
        [query.query_id for query in queries],
        benchmark.record_ids,
        found,
      ),
    )


def evaluate(experiment: Experiment, also: Sequence[pathlib.Path] = ()) -> None:
  """Evaluates the best checkpoint and the baselines; prints the tables.

  Args:
    experiment: a trained run; files go to `evaluation/` in its workdir.
    also: other workdirs whose run files join the tables.

  Raises:
    FileNotFoundError: if the workdir has no checkpoint.
    checkpointing.CheckpointError: if it is of another architecture.
  """
  config, benchmark = experiment.config, experiment.benchmark
  folder = experiment.workdir / EVALUATION
  started = time.time()
  write_model_runs(experiment)
  training = json.loads((experiment.workdir / TRAINING).read_text())
  training["seconds"] = round(training["seconds"] + time.time() - started, 1)
  # Of a baseline that is not run again, what is known stays.
  origin = summary.read_origin(folder) | {config.name: training}
  for split in config.eval.splits:
    runs.write_qrels(
      folder / f"qrels.{split}.txt",
      {q.query_id: q.positives for q in benchmark.queries[split]},
    )
  for name in config.eval.baselines:
    started = time.time()
    write_baseline_runs(experiment, name)
    origin[name] = {
      "command": training["command"],
      "commit": commit(),
      "seconds": round(time.time() - started, 1),
      "seeds": [],
    }
  files.write_text(folder / summary.ORIGIN, json.dumps(origin, indent=2) + "\n")
  print(
    summary.summarise(
      [folder, *(other / EVALUATION for other in also)],
      benchmark,
      config.name,
      config.eval.baselines,
    )
  )
  if "mini" in benchmark.name:
    print("The data set is synthetic: an invented chronicle, for testing.\n")
  print(f"tables       {folder / 'results.txt'}, results.json, per_query.tsv")
  print(f"plots        {folder / 'hit_by_reign.*.png'}")
  print(f"run files    {folder / 'run.*.trec'}, qrels.*.txt")
  print(f"checkpoint   {experiment.workdir / 'checkpoints'}")


def main() -> None:
  """Evaluates the run in --workdir."""
  also = [pathlib.Path(path).expanduser() for path in flags.FLAGS.also]
  for other in also:
    if not (other / EVALUATION / summary.ORIGIN).exists():
      raise FileNotFoundError(f"--also={other}: no evaluated run there")
  workdir = pathlib.Path(entry_point.WORKDIR.value).expanduser()
  if not (workdir / TRAINING).exists():
    raise FileNotFoundError(
      f"--workdir={workdir}: no trained run there; train first: "
      f"python -m ctd_jax.train --config=... --workdir={workdir}"
    )
  evaluate(experiments.assemble(entry_point.CONFIG.value, workdir), also)


if __name__ == "__main__":
  flags.adopt_module_key_flags(entry_point)  # shown by --help
  flags.DEFINE_list(
    "also",
    [],
    "Workdirs of other evaluated runs whose run files join the tables and are "
    "compared with this one. Example: --also=runs/ft,runs/multi",
  )
  entry_point.run(main)
