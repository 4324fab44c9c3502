"""Misses: each reason by hand, ranks and answers, examples of all reasons."""

import dataclasses

import pytest

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Query, Record
from ctd_jax.chronology.reigns import Interval, TimeKey
from ctd_jax.evaluation import calibration
from tests.synthetic import TIMELINE

INTERVAL = Interval(TimeKey(1, 1, 11), TimeKey(1, 1, 12))
QUERY = Query("q1", "甲公元年末？", "window", "", INTERVAL, ("right",))
# Name -> kind, key, verdict.
RECORD_CASES = {
  "right": ("event", TimeKey(1, 1, 11), "right"),
  "note": ("neg_comment", TimeKey(1, 1, 12), "commentary, right month"),
  "other-note": ("neg_comment", TimeKey(1, 1, 1), "commentary, other month"),
  "empty": ("no_event", TimeKey(1, 1, 10), "placeholder"),
  "month": ("event", TimeKey(1, 1, 10), "wrong month"),
  "year": ("event", TimeKey(1, 2, 11), "wrong year"),
  "reign": ("event", TimeKey(2, 1, 11), "wrong reign"),
  "unjudged": ("event", TimeKey(1, 1, 12), "right month, no answer"),
}
RECORDS = {
  name: Record(name, "文", "made", kind, key, 0)
  for name, (kind, key, _) in RECORD_CASES.items()
}


def misses(rankings, queries=(QUERY,)):
  run = runs.Run("s", "T0", "x", "test", "neg1_ne1", rankings)
  qrels = {query.query_id: query.positives for query in queries}
  return calibration.find_misses(run, queries, qrels, RECORDS, TIMELINE)


@pytest.mark.parametrize("name", [n for n in RECORD_CASES if n != "right"])
def test_reasons(name):
  (miss,) = misses({"q1": [(name, 2.0), ("right", 1.0)]})
  verdict = RECORD_CASES[name][2]
  assert (miss.reason, miss.rank) == (verdict, 2)
  assert [record.verdict for record in miss.top_records] == [verdict, "right"]
  assert (miss.answers, miss.num_answers) == ((RECORDS["right"],), 1)


def test_what_is_right_is_no_miss_and_nothing_is_one():
  assert misses({"q1": [("right", 2.0), ("month", 1.0)]}) == []
  (miss,) = misses({})
  found = miss.reason, miss.rank, miss.top_records
  assert found == ("nothing found", None, ())


def test_examples_of_every_reason():
  rankings = {f"q{i}": [("year", 1.0)] for i in range(9)}
  rankings["q9"] = [("month", 1.0)]
  queries = [dataclasses.replace(QUERY, query_id=name) for name in rankings]
  missed = misses(rankings, queries)
  counts = {"wrong month": 1, "wrong year": 9}
  assert calibration.count_reasons(missed) == counts
  examples = calibration.select_examples(missed, max_per_reason=3)
  assert [miss.query.query_id for miss in examples] == ["q9", "q1", "q4", "q7"]
