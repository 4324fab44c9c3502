"""Weights of words beside time, on questions made of validation records.

A question is a year of the calendar and two to four characters of an event of
the validation split that happened then; in every second question one of three
or more characters is left out, as people remember a text. What is wanted are
the records of that month with the phrase as printed. In the index, validation
and test records are undated.

  python tests/benchmarks/word_weights.py --index=INDEX [--data_dir=DIR]
    [--name=chunqiutr/rebuilt] [--questions=300] [--seed=1]

Prints the mean reciprocal rank among ten, and how often the first is right,
for every weight of words and every set of weights of the steps.
"""

from __future__ import annotations

import argparse
import re

import numpy as np

from ctd_jax.benchmark.records import EVENT
from ctd_jax.index import asking, ranking, word_search
from ctd_jax.index.questions.question_types import WORDS, MonthSpan, Question
from ctd_jax.index.search import Index
from ctd_jax_datasets import load

WORD_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0)
STEP_WEIGHTS = (
  (1.0, 0.7, 0.5, 0.3),
  (1.0, 0.9, 0.8, 0.7),
  (1.0, 0.5, 0.25, 0.1),
  (1.0, 1.0, 1.0, 1.0),
)
_HAN_RUN = re.compile("[\u3400-\u9fff]{4,}")
_DEPTH = 10


def draw_questions(benchmark, number: int, seed: int):
  """Returns (record, phrase as printed, phrase as asked) of events."""
  draw = np.random.default_rng(seed)
  records = [
    record
    for record, split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
    if split == "validation" and record.kind == EVENT
  ]
  questions = []
  for index in draw.permutation(len(records)):
    runs = _HAN_RUN.findall(records[index].text)
    if not runs or len(questions) == number:
      continue
    run = runs[int(draw.integers(len(runs)))]
    length = int(draw.integers(2, 5))
    start = int(draw.integers(len(run) - length + 1))
    phrase = run[start : start + length]
    asked = phrase
    if length > 2 and len(questions) % 2:
      asked = phrase[0] + phrase[2:]
    questions.append((records[index], phrase, asked))
  return questions


def main() -> None:
  """Prints a line for every setting."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--index", required=True)
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir")
  parser.add_argument("--questions", type=int, default=300)
  parser.add_argument("--seed", type=int, default=1)
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.name, data_dir=flags.data_dir)
  index = Index.open(flags.index)
  row_of = dict(
    index.connection.execute("SELECT record_id, row FROM records").fetchall()
  )
  asked = []
  for record, phrase, words in draw_questions(
    benchmark, flags.questions, flags.seed
  ):
    key = record.key
    reign = benchmark.timeline.reigns[key.reign - 1]
    year = index.ask(f"{reign.state}{reign.name}{key.year}年", k=1)
    span = year.understood.intervals[0]
    wanted = {
      row_of[other.record_id]
      for other in benchmark.records
      if other.key == key and phrase in other.text
    }
    question = Question(
      "", WORDS, (MonthSpan(span.first, span.last, span.name),), (words,)
    )
    asked.append((question, wanted & set(row_of.values())))
  posteriors = [index.posteriors_of(work) for work in index.works]
  for steps in STEP_WEIGHTS:
    word_search.STEP_WEIGHTS = steps
    found = []
    for question, wanted in asked:
      query = asking.make_time_query(index, question)
      scores = word_search.search_words(
        index.connection, question.words, _DEPTH, None, query.hull
      )
      scores |= word_search.search_words(
        index.connection, question.words, _DEPTH
      )
      found.append((query, scores, wanted))
    for weight in WORD_WEIGHTS:
      ranks = []
      for query, scores, wanted in found:
        ranked = ranking.rank_by_words(
          posteriors, scores, _DEPTH, query, weight
        )
        hits = [i for i, item in enumerate(ranked) if item.row in wanted]
        ranks.append(1 / (1 + hits[0]) if hits else 0.0)
      print(
        f"steps {steps} words {weight:4.1f}: mrr@10 {np.mean(ranks):.4f} "
        f"first {np.mean(np.array(ranks) == 1):.4f} of {len(ranks)}",
        flush=True,
      )


if __name__ == "__main__":
  main()
