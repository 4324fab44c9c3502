"""Weights of words beside time, and of vectors beside words, by validation.

A question is a year of the calendar and two to four characters of an event of
the validation split that happened then; in every second question one of three
or more characters is left out, as people remember a text. What is wanted, in
two tasks:

  printed  the records of that month with the phrase as printed
  retold   events of that month that do not print it, in other works

In the index, validation and test records are undated.

  python tests/benchmarks/word_weights.py --index=INDEX [--data_dir=DIR]
    [--name=chunqiutr/rebuilt] [--questions=300] [--seed=1]
    [--encoder=none|FOLDER]

Prints the mean reciprocal rank among ten, and how often the first is right,
for every weight of words and every set of weights of the steps; where the index
has vectors, and the encoder is not none, for every weight of the vectors.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import EVENT, Record
from ctd_jax.index import asking, ranking, word_search
from ctd_jax.index.dense.dense_search import NearRecords
from ctd_jax.index.questions.question_types import WORDS, MonthSpan, Question
from ctd_jax.index.search import Index
from ctd_jax_datasets import load

TASKS = ("printed", "retold")
WORD_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0)
STEP_WEIGHTS = (
  (1.0, 0.7, 0.5, 0.3),
  (1.0, 0.9, 0.8, 0.7),
  (1.0, 0.5, 0.25, 0.1),
  (1.0, 1.0, 1.0, 1.0),
)
DENSE_WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
_HAN_RUN = re.compile("[\u3400-\u9fff]{4,}")
_DEPTH = 10


@dataclasses.dataclass(frozen=True)
class AskedQuestion:
  """A question and its answers.

  Attributes:
    question: with the year.
    wanted: rows of the answers, by task; a task without any is not asked.
  """

  question: Question
  wanted: Mapping[str, frozenset[int]]


def draw_phrases(
  benchmark: Benchmark, number: int, seed: int
) -> list[tuple[Record, str, str]]:
  """Returns (record, phrase as printed, phrase as asked) of events."""
  draw = np.random.default_rng(seed)
  records = [
    record
    for record, split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
    if split == "validation" and record.kind == EVENT
  ]
  phrases = []
  for index in draw.permutation(len(records)):
    runs = _HAN_RUN.findall(records[index].text)
    if not runs or len(phrases) == number:
      continue
    run = runs[int(draw.integers(len(runs)))]
    length = int(draw.integers(2, 5))
    start = int(draw.integers(len(run) - length + 1))
    phrase = run[start : start + length]
    asked = phrase
    if length > 2 and len(phrases) % 2:
      asked = phrase[0] + phrase[2:]
    phrases.append((records[index], phrase, asked))
  return phrases


def make_questions(
  index: Index, benchmark: Benchmark, number: int, seed: int
) -> Iterator[AskedQuestion]:
  """Yields the questions of all tasks."""
  row_of = dict(
    index.connection.execute("SELECT record_id, row FROM records").fetchall()
  )
  for record, phrase, words in draw_phrases(benchmark, number, seed):
    key = record.key
    reign = benchmark.timeline.reigns[key.reign - 1]
    year = index.ask(f"{reign.state}{reign.name}{key.year}年", k=1)
    span = year.understood.intervals[0]
    wanted: dict[str, set[int]] = {task: set() for task in TASKS}
    for other in benchmark.records:
      if other.key != key or other.record_id not in row_of:
        continue
      if phrase in other.text:
        wanted["printed"].add(row_of[other.record_id])
      elif other.kind == EVENT and other.source != record.source:
        wanted["retold"].add(row_of[other.record_id])
    yield AskedQuestion(
      Question(
        "", WORDS, (MonthSpan(span.first, span.last, span.name),), (words,)
      ),
      {task: frozenset(rows) for task, rows in wanted.items()},
    )


class Measure:
  """The index, asked with every weight."""

  def __init__(self, index: Index, asked: Sequence[AskedQuestion]):
    """Compares the vectors of all questions once."""
    self._index, self._asked = index, asked
    self._posteriors = [index.posteriors_of(work) for work in index.works]
    self._near: list[NearRecords | None] = [
      asking.find_near(index, item.question.words, index.works, None, query)
      for item, query in zip(asked, self._queries(), strict=True)
    ]
    self.find_words()

  def _queries(self) -> list[ranking.TimeQuery]:
    return [
      asking.make_time_query(self._index, item.question) for item in self._asked
    ]

  def find_words(self) -> None:
    """Looks for the words, with the weights of the steps that hold now."""
    connection = self._index.connection
    self._found = []
    for item, query in zip(self._asked, self._queries(), strict=True):
      words = item.question.words
      scores = word_search.search_words(
        connection, words, _DEPTH, None, query.hull
      )
      scores |= word_search.search_words(connection, words, _DEPTH)
      self._found.append((query, scores))

  def print_line(
    self, label: str, word_weight: float, dense_weight: float | None = None
  ) -> None:
    """Prints the figures of all tasks.

    Args:
      label: of the line.
      word_weight: as of `ranking.rank_by_words`.
      dense_weight: likewise; None = vectors are not asked, which differs from
        0 in what is ranked.
    """
    ranks: dict[str, list[float]] = {task: [] for task in TASKS}
    for item, (query, scores), near in zip(
      self._asked, self._found, self._near, strict=True
    ):
      ranked = ranking.rank_by_words(
        self._posteriors,
        scores,
        _DEPTH,
        query,
        word_weight,
        None if dense_weight is None else near,
        dense_weight or 0.0,
      )
      for task, wanted in item.wanted.items():
        if wanted:
          hits = [i for i, found in enumerate(ranked) if found.row in wanted]
          ranks[task].append(1 / (1 + hits[0]) if hits else 0.0)
    figures = "; ".join(
      f"{task} mrr@10 {np.mean(values):.4f} first "
      f"{np.mean(np.array(values) == 1):.4f} of {len(values)}"
      for task, values in ranks.items()
    )
    print(f"{label}: {figures}", flush=True)


def main() -> None:
  """Prints a line for every setting."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--index", required=True)
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir")
  parser.add_argument("--questions", type=int, default=300)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--encoder")
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.name, data_dir=flags.data_dir)
  index = Index.open(flags.index, encoder=flags.encoder)
  asked = list(make_questions(index, benchmark, flags.questions, flags.seed))
  measure = Measure(index, asked)
  if index.dense:
    measure.print_line("words alone", ranking.WORD_WEIGHT)
    for weight in DENSE_WEIGHTS:
      measure.print_line(f"vectors {weight:4.2f}", ranking.WORD_WEIGHT, weight)
    return
  for steps in STEP_WEIGHTS:
    word_search.STEP_WEIGHTS = steps
    measure.find_words()
    for weight in WORD_WEIGHTS:
      measure.print_line(f"steps {steps} words {weight:4.1f}", weight)


if __name__ == "__main__":
  main()
