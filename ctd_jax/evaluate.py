"""From a checkpoint to run files, tables and plots.

  python -m ctd_jax.evaluate --config=configs/tiny.py --workdir=runs/tiny

Run files and qrels are the border: the model and the baselines write theirs,
and every table is computed from the files that lie there.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
from absl import flags, logging

from ctd_jax import entry_point
from ctd_jax import experiment as experiments
from ctd_jax.evaluation import protocol, report, results, significance
from ctd_jax.experiment import Experiment
from ctd_jax.input_pipeline import Benchmark
from ctd_jax.ranking import Ranker, kinds_by_id
from ctd_jax.retrieval import bm25, rules, runs, time_prior

EVALUATION = "evaluation"  # folder of the workdir
# How the run files beside it came about: system -> command, seconds, ...
ORIGIN = "origin.json"
# The same of the training, in the workdir; `train` writes it.
TRAINING = "training.json"


def command() -> str:
  """Returns the command line of this process, without local paths to it."""
  module = pathlib.Path(sys.argv[0]).stem
  return shlex.join(["python", "-m", f"ctd_jax.{module}", *sys.argv[1:]])


@functools.cache
def commit() -> str:
  """Returns the commit of the code that runs, "" outside a checkout."""
  try:
    return subprocess.run(
      ["git", "-C", os.path.dirname(__file__), "rev-parse", "HEAD"],
      capture_output=True,
      text=True,
      check=True,
    ).stdout.strip()
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


def score_runs(
  folders: Sequence[pathlib.Path], benchmark: Benchmark
) -> list[protocol.PerQuery]:
  """Returns the measures of every run file, in every mode of its gallery.

  Args:
    folders: where run files lie; of two runs of one system, split and gallery
      the first counts.
    benchmark: what they were run on.
  """
  kinds = kinds_by_id(benchmark)
  paths = {}
  for folder in folders:
    for path in sorted(folder.glob("run.*.trec")):
      paths.setdefault(path.name, path)
  tables = []
  for path in paths.values():
    run = runs.read_run(path)
    for mode in protocol.MODES.values():
      if mode.gallery == run.gallery:
        tables.append(
          protocol.evaluate_run(run, benchmark.queries[run.split], kinds, mode)
        )
  return tables


def years_of_queries(benchmark: Benchmark, split: str) -> dict[str, tuple]:
  """Returns query id -> (reign, year) in which its interval begins.

  Queries about one year share records, so intervals resample whole years.
  """
  return {
    query.query_id: query.interval.start.triple[:2]
    for query in benchmark.queries[split]
  }


def _per_query_text(tables: Sequence[protocol.PerQuery]) -> str:
  """Returns every value of every query as tab-separated lines."""
  out = io.StringIO()
  writer = csv.writer(out, delimiter="\t", lineterminator="\n")
  names = list(tables[0].values)
  writer.writerow(["system", "split", "mode", "family", "query_id", *names])
  for table in tables:
    for query_id, family in table.families.items():
      values = [f"{table.values[name][query_id]:.6g}" for name in names]
      head = [table.system, table.split, table.mode, family, query_id]
      writer.writerow(head + values)
  return out.getvalue()


def write_report(
  experiment: Experiment, also: Sequence[pathlib.Path] = ()
) -> str:
  """Returns the text of the result tables; writes it, rows and plots.

  Args:
    experiment: its system is compared with every other of its track.
    also: other workdirs whose run files join the tables.
  """
  config, benchmark = experiment.config, experiment.benchmark
  folder = experiment.workdir / EVALUATION
  folders = [folder, *(other / EVALUATION for other in also)]
  tables = score_runs(folders, benchmark)
  origin = {}
  for other in reversed(folders):
    origin |= json.loads((other / ORIGIN).read_text())
  # The system of this run stands last, below what it has to beat.
  order = {name: i for i, name in enumerate(config.eval.baselines)}
  tables.sort(
    key=lambda t: (
      order.get(t.system, len(order)),
      t.system == config.name,
      t.system,
    )
  )
  groups = {s: years_of_queries(benchmark, s) for s in config.eval.splits}
  rows = []
  for table in tables:
    rows += results.result_rows(
      table, benchmark.name, groups[table.split], **origin[table.system]
    )
  results.write_rows(folder / "results.json", rows)
  runs.write_text(folder / "per_query.tsv", _per_query_text(tables))
  parts = []
  for split in config.eval.splits:
    for mode in (protocol.OFFICIAL, protocol.EVENT_ONLY):
      chosen = results.select(rows, split=split, mode=mode, family="all")
      parts.append(report.format_table(chosen))
      parts.append(_comparisons(tables, config.name, split, mode))
      _plot(folder, tables, benchmark, split, mode)
  text = "\n".join(part for part in parts if part)
  runs.write_text(folder / "results.txt", text)
  return text


def _chosen(
  tables: Sequence[protocol.PerQuery], split: str, mode: str
) -> list[protocol.PerQuery]:
  return [t for t in tables if (t.split, t.mode) == (split, mode)]


def _comparisons(
  tables: Sequence[protocol.PerQuery], system: str, split: str, mode: str
) -> str:
  """Returns paired tests of hit@1 against every system of the same track."""
  chosen = _chosen(tables, split, mode)
  ours = next((t for t in chosen if t.system == system), None)
  if ours is None:
    return ""
  lines = []
  for other in chosen:
    if other is not ours and other.track == ours.track:
      test = significance.paired_randomisation(
        ours.values["hit@1"], other.values["hit@1"]
      )
      lines.append(f"  {system} - {other.system}: {test}")
  if not lines:
    return ""
  return "hit@1, paired randomisation over queries:\n" + "\n".join(lines) + "\n"


def _plot(
  folder: pathlib.Path,
  tables: Sequence[protocol.PerQuery],
  benchmark: Benchmark,
  split: str,
  mode: str,
) -> None:
  # Tracks are not drawn side by side: a bar that reads gold keys would look
  # like a better system.
  values = {
    t.system: t.values["hit@1"]
    for t in _chosen(tables, split, mode)
    if t.track == "T0"
  }
  if not any(values.values()):
    return
  report.plot_hit_by_reign(
    values,
    {q.query_id: q.interval.start.reign for q in benchmark.queries[split]},
    report.reign_labels(benchmark.timeline),
    folder / f"hit_by_reign.{split}.{mode}.png",
    f"{benchmark.name}, {split}, {mode}, track T0",
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
  origin = {config.name: training}
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
  runs.write_text(folder / ORIGIN, json.dumps(origin, indent=2) + "\n")
  print(write_report(experiment, also))
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
    if not (other / EVALUATION / ORIGIN).exists():
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
