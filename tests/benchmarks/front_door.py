"""The benchmark through the front door: an index against the evaluation.

The test questions are asked of an index in which validation and test records
are undated; the system `dating-fitted` is evaluated beside it from the same
texts, on the same track. Both should give the same figures.

  python -m ctd_jax.index --index=INDEX --add=chunqiutr/rebuilt \
    --hide=validation,test
  python -m tests.benchmarks.front_door --index=INDEX [--data_dir=DIR]
    [--name=chunqiutr/rebuilt] [--split=test] [--depth=10]
    [--run=RUNS] [--ask] [--rows=FILE]

`--run` names a folder of run files of the system, which is then not fitted
anew. `--ask` asks question by question through `Index.ask` instead of
`Index.search`, which takes longer and makes whole answers. `--rows` names the
file of result rows, of both.
"""

from __future__ import annotations

import argparse
import pathlib
import shlex
import sys
import time

import numpy as np

from ctd_jax.evaluation import protocol, results, scoring
from ctd_jax.evaluation.result_tables import DEFAULT_METRICS
from ctd_jax.index.search import Index
from ctd_jax.systems import dated_gallery
from ctd_jax.utils import provenance
from ctd_jax_datasets import load

# The rows of `dating-fitted` are means of three seeds; an index is of one.
SEED = 42
SYSTEM = f"dating-fitted-seed-{SEED}"
MODES = (protocol.OFFICIAL_MODE, protocol.EVENT_ONLY_MODE)
MAX_DIFFERENCE = 0.002


class AskingIndex:
  """An index that is asked question by question.

  Attributes:
    name: of the system.
    score_mode: what its scores are.
  """

  name = "index"
  score_mode = dated_gallery.SCORE_MODE

  def __init__(self, index: Index, makes_answers: bool):
    """Keeps the index.

    Args:
      index: that is asked.
      makes_answers: whether `Index.ask` is called, not `Index.search`.
    """
    self.index = index
    self.makes_answers = makes_answers

  def search(self, queries, k):
    """Returns (record id, score) of the k best for every query."""
    if not self.makes_answers:
      return self.index.search(queries, k)
    rankings = []
    for text in queries:
      answer = self.index.ask(text, k=k, min_probability=0)
      # Equal scores are in order of the rows, as in a run file.
      rankings.append([(r.record_id, r.score) for r in answer.results])
    return rankings


class FittedSystem:
  """The dating system of the evaluation, fitted on train months.

  Attributes:
    name: of the system.
    score_mode: what its scores are.
  """

  name = SYSTEM
  score_mode = dated_gallery.SCORE_MODE

  def __init__(self, benchmark):
    """Fits the model."""
    self.benchmark = benchmark
    self.dated = dated_gallery.read_dated_gallery(benchmark)
    self.posterior = self.dated.make_posterior("fitted")

  def search(self, queries, k):
    """Returns (record id, score) of the k best for every query."""
    masks = {"all": np.ones(len(self.posterior), bool)}
    indices, scores = self.dated.rank_by_posterior(
      queries, self.posterior, k, masks
    )["all"]
    ids = self.benchmark.record_ids
    return [
      [
        (ids[index], float(score))
        for index, score in zip(row, values, strict=True)
        if index >= 0
      ]
      for row, values in zip(indices, scores, strict=True)
    ]


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--index", required=True)
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir")
  parser.add_argument("--split", default="test")
  parser.add_argument("--depth", type=int, default=10)
  parser.add_argument("--run", type=pathlib.Path)
  parser.add_argument("--ask", action="store_true")
  parser.add_argument("--rows", type=pathlib.Path, help="file for result rows")
  return parser.parse_args()


def compare(
  asked: scoring.EvaluationResult, reference: scoring.EvaluationResult
) -> float:
  """Prints the figures of both; returns the largest difference."""
  largest = 0.0
  for mode in MODES:
    for measure in DEFAULT_METRICS:
      values = asked.mean(measure, mode), reference.mean(measure, mode)
      largest = max(largest, abs(values[0] - values[1]))
      print(
        f"{mode} {measure:8} index {values[0]:.4f} {SYSTEM} {values[1]:.4f} "
        f"difference {values[0] - values[1]:+.4f}"
      )
  print(f"largest difference {largest:.4f}, allowed below {MAX_DIFFERENCE}")
  return largest


def main() -> int:
  """Asks, compares and writes rows; returns 1 if the figures differ."""
  flags = read_flags()
  benchmark = load.load_benchmark(flags.name, data_dir=flags.data_dir)
  rows: list[results.ResultRow] = []
  evaluated = []
  for make_system in (
    lambda: AskingIndex(Index.open(flags.index), flags.ask),
    lambda: flags.run or FittedSystem(benchmark),
  ):
    started = time.monotonic()
    result = scoring.evaluate(
      make_system(), benchmark, flags.split, flags.depth, name=None
    )
    seconds = time.monotonic() - started
    number = len(benchmark.queries[flags.split])
    print(f"{result.system}: {number} questions in {seconds:.1f} s", flush=True)
    evaluated.append(result)
    rows += result.rows(
      MODES,
      seeds=(SEED,),
      command=shlex.join(
        ["python", "-m", "tests.benchmarks.front_door", *sys.argv[1:]]
      ),
      commit=provenance.code_commit(),
      seconds=round(seconds, 1),
    )
  if flags.rows:
    results.write_result_rows(flags.rows, rows)
  return int(compare(*evaluated) >= MAX_DIFFERENCE)


if __name__ == "__main__":
  sys.exit(main())
