"""From a checkpoint to run files, tables and plots.

  python -m ctd_jax.evaluate --config=configs/tiny.py --workdir=runs/tiny

The gallery is encoded once, every query is scored against all of it with the
score that was trained, and each protocol filters that one ranking. `Ranker` is
also what `train` validates with. Run files and qrels are the border: every
table is computed from what was written.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import json
import os
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
import tqdm
from absl import flags, logging

from ctd_jax import entry_point, input_pipeline, partitioning, train_step
from ctd_jax.checkpointing import Checkpoints, abstract_state
from ctd_jax.evaluation import protocol, report, results, significance
from ctd_jax.input_pipeline import Benchmark, Tokens
from ctd_jax.models.dual_encoder import DualEncoder, Encoding
from ctd_jax.optimizer import make_optimizer
from ctd_jax.retrieval import bm25, rules, runs, search, time_prior
from ctd_jax.tokenization import TextTokenizer
from ctd_jax_datasets import build

SELECTION_METRIC = "validation/hit@1"
EVALUATION = "evaluation"  # folder of the workdir
SECONDS = "seconds.json"  # wall time of each system, beside its run files
BASELINES = ("bm25", "bm25_timekde", "rules")


@dataclasses.dataclass(frozen=True)
class Data:
  """A benchmark with its texts tokenised.

  Attributes:
    benchmark: records, queries, calendar.
    tokenizer: built from train texts, kept in the workdir.
    records: tokens of the gallery.
    queries: tokens of each split's queries.
  """

  benchmark: Benchmark
  tokenizer: TextTokenizer
  records: Tokens
  queries: Mapping[str, Tokens]


def check_config(config: ml_collections.ConfigDict) -> None:
  """Refuses at the start what evaluation would refuse at the end.

  Raises:
    ValueError: naming the field of `config.eval`.
  """
  protocol.mode(config.eval.mode)
  for field, known in (
    ("baselines", BASELINES),
    ("splits", input_pipeline.SPLITS),
  ):
    for name in config.eval[field]:
      if name not in known:
        raise ValueError(
          f"config.eval.{field}: unknown {name!r}; there are {', '.join(known)}"
        )


def prepare_data(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> Data:
  """Returns the data of a run, building what is not there yet.

  Args:
    config: dataset, data_dir, sources, query_length and record_length.
    workdir: holds the tokenizer of the run.

  Raises:
    ValueError: if the evaluation that the config asks for does not exist.
  """
  check_config(config)
  build.build(config.dataset, config.data_dir, config.sources)
  benchmark = input_pipeline.load_benchmark(config.dataset, config.data_dir)
  folder = workdir / "tokenizer"
  if folder.exists():
    tokenizer = TextTokenizer.load(folder)
  else:
    tokenizer = input_pipeline.build_tokenizer(benchmark)
    tokenizer.save(folder)
  tokenize = functools.partial(input_pipeline.tokenize, tokenizer)
  return Data(
    benchmark,
    tokenizer,
    tokenize([r.text for r in benchmark.records], config.record_length),
    {
      split: tokenize([q.text for q in queries], config.query_length)
      for split, queries in benchmark.queries.items()
    },
  )


def architecture(
  config: ml_collections.ConfigDict, data: Data
) -> dict[str, Any]:
  """Returns what a checkpoint must agree with to be loaded."""
  return json.loads(
    json.dumps(
      {
        "dataset": data.benchmark.name,
        "vocab_size": data.tokenizer.vocab_size,
        "model": config.model.to_dict(),
      }
    )
  )


class Ranker:
  """Ranks the gallery for queries with a model's own score."""

  def __init__(
    self,
    model: DualEncoder,
    config: ml_collections.ConfigDict,
    data: Data,
    mesh: jax.sharding.Mesh,
  ):
    self._config = config
    self._data = data
    self._mesh = mesh
    self._encode = train_step.make_encode_step(model)
    self._score = train_step.make_score(model, config.score_mode)

  def encode(self, params: Any, tokens: Tokens, what: str) -> Encoding:
    """Returns the encodings of all texts, as host arrays `[N, ...]`."""
    size = self._config.eval.batch_size
    size += -size % self._mesh.size
    parts = []
    for batch, count in tqdm.tqdm(
      input_pipeline.padded_batches(tokens, size),
      desc=what,
      total=-(-len(tokens) // size),
      leave=False,
      delay=2.0,
      disable=None,
    ):
      arrays = partitioning.global_batch(
        {"ids": batch.ids, "mask": batch.mask}, self._mesh
      )
      encoding = self._encode(params, arrays["ids"], arrays["mask"])
      parts.append(jax.tree.map(lambda x, n=count: np.asarray(x)[:n], encoding))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

  def rank(
    self,
    params: Any,
    split: str,
    galleries: Mapping[str, np.ndarray],
    depth: int,
    records: Encoding | None = None,
  ) -> list[runs.Run]:
    """Returns one run for each gallery.

    Args:
      params: of the model.
      split: whose queries.
      galleries: name -> mask over the records.
      depth: records kept for a query.
      records: encoding of the gallery if there is one already.
    """
    if records is None:
      records = self.encode(params, self._data.records, "encode records")
    queries = self.encode(params, self._data.queries[split], "encode queries")
    found = search.topk(
      queries,
      records,
      jax.tree_util.Partial(self._score, params),
      depth,
      galleries,
      # The offset bias makes a hidden layer for every pair of a block.
      query_block=16,
    )
    return runs.from_topk(
      self._config.name,
      "T0",
      self._config.score_mode,
      split,
      [query.query_id for query in self._data.benchmark.queries[split]],
      self._data.benchmark.record_ids,
      found,
    )

  def validate(self, params: Any) -> dict[str, float]:
    """Returns the validation metrics of the mode that selects."""
    benchmark = self._data.benchmark
    mode = protocol.mode(self._config.eval.mode)
    gallery = mode.gallery
    (run,) = self.rank(
      params,
      "validation",
      {gallery: protocol.gallery_mask(benchmark.kinds, gallery)},
      depth=10,
    )
    table = protocol.evaluate_run(
      run, benchmark.queries["validation"], kinds_by_id(benchmark), mode
    )
    return {
      f"validation/{measure}": table.mean(measure) for measure in table.values
    }


def kinds_by_id(benchmark: Benchmark) -> dict[str, str]:
  """Returns record id -> kind."""
  return {record.record_id: record.kind for record in benchmark.records}


def _write(folder: pathlib.Path, found: Sequence[runs.Run]) -> None:
  for run in found:
    runs.write_run(run, folder)


def write_model_runs(
  config: ml_collections.ConfigDict, workdir: pathlib.Path, data: Data
) -> None:
  """Ranks with the best checkpoint and writes the run files.

  Raises:
    FileNotFoundError: if the workdir has no checkpoint.
    checkpointing.CheckpointError: if it is of another architecture.
  """
  mesh = partitioning.make_mesh()
  replicated = partitioning.replicated(mesh)
  model = train_step.make_model(
    config, data.tokenizer.vocab_size, data.benchmark.timeline
  )
  checkpoints = open_checkpoints(config, workdir, data)
  step = checkpoints.best_step
  if step is None:
    raise FileNotFoundError(
      f"no checkpoint in {workdir}/checkpoints; train first: "
      f"python -m ctd_jax.train --config=... --workdir={workdir}"
    )
  fresh = functools.partial(
    train_step.init_state,
    model,
    make_optimizer(config.optimizer, total_steps(config, data)),
    config.seed,
    replicated,
  )
  abstract = abstract_state(jax.eval_shape(fresh), replicated)
  params = checkpoints.restore(step, abstract).params
  checkpoints.close()
  logging.info("%s: evaluating the checkpoint of step %d", config.name, step)
  ranker = Ranker(model, config, data, mesh)
  records = ranker.encode(params, data.records, "encode records")
  masks = protocol.gallery_masks(data.benchmark.kinds)
  for split in config.eval.splits:
    found = ranker.rank(params, split, masks, config.eval.depth, records)
    _write(workdir / EVALUATION, found)


def write_baseline_runs(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: Data,
  name: str,
) -> None:
  """Writes the run files of one of `BASELINES`."""
  benchmark = data.benchmark
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
      workdir / EVALUATION,
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


def total_steps(config: ml_collections.ConfigDict, data: Data) -> int:
  """Returns the number of updates of a run.

  Raises:
    ValueError: if the config asks for less than one.
  """
  queries = len(data.benchmark.queries["train"])
  steps = int(config.num_epochs * queries) // config.batch_size
  if steps < 1:
    raise ValueError(
      f"config.num_epochs={config.num_epochs} and "
      f"config.batch_size={config.batch_size} make no step of {queries} "
      "train queries"
    )
  return steps


def open_checkpoints(
  config: ml_collections.ConfigDict, workdir: pathlib.Path, data: Data
) -> Checkpoints:
  """Returns the checkpoints of a run."""
  return Checkpoints(
    workdir / "checkpoints",
    SELECTION_METRIC,
    architecture(config, data),
    config.keep_latest,
  )


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
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  benchmark: Benchmark,
  also: Sequence[pathlib.Path] = (),
) -> str:
  """Returns the text of the result tables; writes it, rows and plots.

  Args:
    config: of the run; its system is compared with every other.
    workdir: holds `evaluation/` with the run files.
    benchmark: what they were run on.
    also: other workdirs whose run files join the tables.
  """
  folder = workdir / EVALUATION
  folders = [folder, *(other / EVALUATION for other in also)]
  tables = score_runs(folders, benchmark)
  seconds = {}
  for other in reversed(folders):
    seconds |= json.loads((other / SECONDS).read_text())
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
    about = seconds[table.system]
    rows += results.result_rows(
      table, benchmark.name, groups[table.split], commit=commit(), **about
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


def evaluate_workdir(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: Data,
  seconds: float | None,
  also: Sequence[pathlib.Path] = (),
) -> None:
  """Evaluates the best checkpoint and the baselines; prints the tables.

  Args:
    config: of the run.
    workdir: holds its checkpoints; run files, tables and plots go below it.
    data: of the run.
    seconds: spent on training, None if that is not known.
    also: other workdirs whose run files join the tables.
  """
  folder = workdir / EVALUATION
  folder.mkdir(parents=True, exist_ok=True)
  command = shlex.join(["python", "-m", "ctd_jax.train", *sys.argv[1:]])
  started = time.time()
  write_model_runs(config, workdir, data)
  spent = {
    config.name: {
      "seconds": seconds and round(seconds + time.time() - started, 1),
      "seeds": [config.seed],
      "command": command,
    }
  }
  for split in config.eval.splits:
    runs.write_qrels(
      folder / f"qrels.{split}.txt",
      {q.query_id: q.positives for q in data.benchmark.queries[split]},
    )
  for name in config.eval.baselines:
    started = time.time()
    write_baseline_runs(config, workdir, data, name)
    spent[name] = {
      "seconds": round(time.time() - started, 1),
      "seeds": [],
      "command": command,
    }
  runs.write_text(folder / SECONDS, json.dumps(spent, indent=1) + "\n")
  print(write_report(config, workdir, data.benchmark, also))
  if "mini" in data.benchmark.name:
    print("The data set is synthetic: an invented chronicle, for testing.\n")
  print(f"tables       {folder / 'results.txt'}, results.json, per_query.tsv")
  print(f"plots        {folder / 'hit_by_reign.*.png'}")
  print(f"run files    {folder / 'run.*.trec'}, qrels.*.txt")
  print(f"checkpoint   {workdir / 'checkpoints'}")


def main() -> None:
  """Evaluates the run in --workdir."""
  config = entry_point.CONFIG.value
  workdir = pathlib.Path(entry_point.WORKDIR.value).expanduser().absolute()
  also = [pathlib.Path(p).expanduser() for p in flags.FLAGS.also]
  for other in also:
    if not (other / EVALUATION / SECONDS).exists():
      raise FileNotFoundError(f"--also={other}: no evaluated run there")
  data = prepare_data(config, workdir)
  evaluate_workdir(config, workdir, data, seconds=None, also=also)


if __name__ == "__main__":
  flags.adopt_module_key_flags(entry_point)  # shown by --help
  flags.DEFINE_list(
    "also",
    [],
    "Workdirs of other evaluated runs whose run files join the tables and are "
    "compared with this one. Example: --also=runs/ft,runs/multi",
  )
  entry_point.run(main)
