"""The benchmark through the front door: an index against the evaluation.

The test questions are asked of an index in which validation and test records
are undated; the system `dating-fitted` is evaluated beside it from the same
texts, on the same track. Both should give the same figures. Records that say
the same have the same score, and their order in the gallery decides which of
them is among the first ten: it is that of the index for both.

  python -m ctd_jax.index --index=INDEX --add=chunqiutr/rebuilt \
    --hide=validation,test
  python -m tests.benchmarks.front_door --index=INDEX [--data_dir=DIR]
    [--name=chunqiutr/rebuilt] [--split=test] [--rows=FILE]
"""

import argparse
import concurrent.futures
import multiprocessing
import sys
import time
from collections.abc import Sequence

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.dating import query_posterior
from ctd_jax.evaluation import protocol, scoring
from ctd_jax.evaluation.result_tables import DEFAULT_METRICS
from ctd_jax.index.asking import Index
from ctd_jax.systems import dated_gallery
from ctd_jax_datasets import load
from tests.benchmarks import result_rows

# The rows of `dating-fitted` are means of three seeds; an index is of one.
SEED = 42
SYSTEM = f"dating-fitted-seed-{SEED}"
MODES = (protocol.OFFICIAL_MODE, protocol.EVENT_ONLY_MODE)
MAX_DIFFERENCE = 0.002
DEPTH = 10  # of an answer


class AskingIndex:
  """An index that is asked question by question.

  Galleries that leave records out need longer rankings than an answer has:
  they come from `Index.search` and must begin as the answer does.
  """

  name = "index"
  track = runs.LOOKUP
  score_mode = dated_gallery.SCORE_MODE

  def __init__(self, index: Index):
    self.index = index
    self.answers: dict[str, list[str]] = {}

  def search(self, queries, k):
    """Returns (record id, score) of the k best for every query."""
    if not self.answers:
      return [self._ask(text, k) for text in queries]
    rankings = self.index.search(queries, k)
    for text, ranking in zip(queries, rankings, strict=True):
      answer = self.answers.get(text, [])
      if [record_id for record_id, _ in ranking[: len(answer)]] != answer:
        raise ValueError(f"{text}: the answer is not the ranking")
    return rankings

  def _ask(self, text: str, k: int) -> list[tuple[str, float]]:
    answer = self.index.ask(text, k=k, min_probability=0, sort="relevance")
    self.answers[text] = [r.record_id for r in answer.results]
    return [(r.record_id, r.score) for r in answer.results]


class FittedSystem:
  """The dating system of the evaluation, fitted on train months.

  Of equal scores the record that comes first in the index comes first.
  """

  name = SYSTEM
  track = runs.LOOKUP
  score_mode = dated_gallery.SCORE_MODE

  def __init__(self, benchmark: Benchmark, index: Index):
    self.record_ids = benchmark.record_ids
    self.dates = dated_gallery.read_dated_gallery(benchmark).date("fitted")
    self.row_of = dict(
      index.connection.execute("SELECT record_id, row FROM records")
    )

  def search(
    self, queries: Sequence[str], k: int
  ) -> list[list[tuple[str, float]]]:
    """Returns (record id, score) of the k best for every query."""
    rankings: list[list[tuple[str, float]]] = [[] for _ in queries]
    pending, depth = [*range(len(queries))], 4 * k
    while pending:
      depth = min(depth, len(self.record_ids))
      ranked = self._rank([queries[number] for number in pending], depth)
      for number, ranking in zip(pending, ranked, strict=True):
        ranking.sort(key=lambda hit: (-hit[1], self.row_of[hit[0]]))
        rankings[number] = ranking[:k]
      if depth == len(self.record_ids):
        break
      # More than were ranked may be as good as the last that is kept.
      pending = [
        number
        for number, ranking in zip(pending, ranked, strict=True)
        if ranking[-1][1] == ranking[k - 1][1]
      ]
      depth *= 16
    return rankings

  def _rank(
    self, queries: Sequence[str], k: int
  ) -> list[list[tuple[str, float]]]:
    masks = {"all": np.ones(len(self.record_ids), bool)}
    indices, scores = query_posterior.rank_by_posterior(
      queries, self.dates, k, masks
    )["all"]
    return [
      [
        (self.record_ids[index], float(score))
        for index, score in zip(row, values, strict=True)
        if index >= 0
      ]
      for row, values in zip(indices, scores, strict=True)
    ]


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


def evaluate(
  flags: argparse.Namespace, is_index: bool
) -> tuple[scoring.EvaluationResult, float]:
  """Returns the figures of the index or of the system, and its seconds."""
  benchmark = load.load_benchmark(flags.name, data_dir=flags.data_dir)
  started = time.monotonic()
  index = Index.open(flags.index)
  system = AskingIndex(index) if is_index else FittedSystem(benchmark, index)
  result = scoring.evaluate(system, benchmark, flags.split, DEPTH)
  seconds = time.monotonic() - started
  print(f"{result.system}: {seconds:.1f} s", flush=True)
  return result, seconds


def main() -> int:
  """Asks, compares and writes rows; returns 1 if the figures differ."""
  parser = result_rows.make_parser(__doc__)
  parser.add_argument("--index", required=True)
  parser.set_defaults(split="test")
  flags = parser.parse_args()
  context = multiprocessing.get_context("spawn")
  with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
    # Side by side: each takes one processor.
    reference = pool.submit(evaluate, flags, False)
    evaluated = [evaluate(flags, True), reference.result()]
  rows = []
  for result, seconds in evaluated:
    about = result_rows.describe_run("front_door", seconds)
    rows += result.rows(MODES, seeds=(SEED,), **about)
  result_rows.write_rows(flags.rows, rows)
  asked, fitted = (result for result, _ in evaluated)
  return int(compare(asked, fitted) >= MAX_DIFFERENCE)


if __name__ == "__main__":
  sys.exit(main())
