"""Evaluation in one call: systems and run files, galleries, comparison."""

import collections
import csv
import dataclasses

import pytest

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import protocol, results, scoring
from tests import synthetic

BENCHMARK = synthetic.benchmark()
QUERIES = BENCHMARK.queries["test"]
POSITIVES = {query.text: query.positives for query in QUERIES}

Hit = collections.namedtuple("Hit", ["record_id", "score", "text"])


@dataclasses.dataclass
class Oracle:
  """Puts the answers first, or last, and counts what it is asked."""

  name: str = "oracle"
  is_right: bool = True
  track: str = "T0"
  num_searched: int = 0

  def search(self, queries, k):
    self.num_searched += len(queries)
    return [
      [
        Hit(name, -float(rank), "")
        for rank, name in enumerate(self.rank(query)[:k])
      ]
      for query in queries
    ]

  def rank(self, query):
    return sorted(
      BENCHMARK.record_ids,
      key=lambda name: (name in POSITIVES[query]) != self.is_right,
    )


@pytest.fixture(scope="module")
def right():
  return scoring.evaluate(Oracle(), BENCHMARK)


@pytest.fixture(scope="module")
def wrong():
  return scoring.evaluate(Oracle("friend", is_right=False), BENCHMARK)


def test_all_modes_are_measured(right, wrong):
  assert list(right.scores) == list(protocol.MODES)
  for mode in protocol.MODES:
    assert right.mean(mode=mode) == 1.0
    assert wrong.mean(mode=mode) == 0.0
  assert right.interval() == (1.0, 1.0)
  assert set(right.per_query(family="gap")) == {
    query.query_id for query in QUERIES if query.paper_family == "gap"
  }


def test_galleries_are_searched_until_they_are_deep_enough(tmp_path):
  system = Oracle(is_right=False)
  shallow = scoring.evaluate(system, BENCHMARK, depth=2)
  assert system.num_searched > len(QUERIES)
  kinds = {record.record_id: record.kind for record in BENCHMARK.records}
  for gallery, gallery_kinds in protocol.GALLERY_KINDS.items():
    rankings = {}
    for query in QUERIES:
      ids = [i for i in system.rank(query.text) if kinds[i] in gallery_kinds]
      rankings[query.query_id] = [(i, -float(n)) for n, i in enumerate(ids[:2])]
    runs.write_run(
      runs.Run("oracle", "T0", "search", "test", gallery, rankings), tmp_path
    )
  written = scoring.evaluate(tmp_path, BENCHMARK)
  assert written.scores == shallow.scores


def test_one_run_file_covers_its_gallery(tmp_path):
  rankings = {query.query_id: [("r00000", 1.0)] for query in QUERIES}
  run = runs.Run("made", "T0", "x", "test", "neg1_ne1", rankings)
  result = scoring.evaluate(runs.write_run(run, tmp_path), BENCHMARK)
  assert list(result.scores) == ["neg1_ne1_dq0", "neg1_ne1_dq1"]
  with pytest.raises(ValueError, match="evaluated in .*; not in 'neg0_ne0"):
    result.mean(mode="neg0_ne0_dq1")
  runs.write_run(dataclasses.replace(run, system="second"), tmp_path)
  with pytest.raises(ValueError, match=r"made:T0:x, second:T0:x; .*name="):
    scoring.evaluate(tmp_path, BENCHMARK)
  named = scoring.evaluate(tmp_path, BENCHMARK, name="second")
  assert named.system == "second"
  with pytest.raises(FileNotFoundError, match=r"run\.third\.test"):
    scoring.evaluate(tmp_path, BENCHMARK, name="third")


def test_a_run_of_another_program_covers_all_records(tmp_path):
  path = tmp_path / "bm25.txt"
  path.write_text(
    "".join(f"{query.query_id} Q0 r00000 1 1 bm25\n" for query in QUERIES)
  )
  result = scoring.evaluate(path, BENCHMARK)
  assert (result.system, result.track) == ("bm25", "T0")
  assert list(result.scores) == ["neg1_ne1_dq0", "neg1_ne1_dq1"]


def test_tables_and_rows(right, tmp_path):
  text = right.table()
  assert text.count("track T0") == len(protocol.MODES)
  assert "1.0000 [1.000, 1.000]" in text
  rows = right.rows([protocol.OFFICIAL_MODE], ["gap"], ["hit@1"], seeds=(1,))
  results.write_result_rows(tmp_path / "rows.json", rows)
  (row,) = results.read_result_rows(tmp_path / "rows.json")
  assert (row.family, row.value, row.seeds) == ("gap", 1.0, (1,))
  results.write_wide_table(tmp_path / "rows.csv", right.rows())
  line, *others = csv.DictReader(
    (tmp_path / "rows.csv").read_text().splitlines()
  )
  assert len(others) == len(protocol.MODES) - 1
  assert (line["mode"], line["hit@1"]) == (next(iter(right.scores)), "1.0")
  assert line["hit@1_low"] == line["hit@1_high"] == "1.0"


def test_comparison(right, wrong):
  difference = right.compare(wrong)
  assert difference.by_query.difference == 1.0
  assert difference.interval == (1.0, 1.0)
  assert "6 better, 0 worse" in str(difference)
  with pytest.raises(ValueError, match="cannot be compared: track T0 and T1"):
    right.compare(dataclasses.replace(wrong, track="T1"))
  with pytest.raises(ValueError, match="measure is one of hit@1"):
    right.compare(wrong, "hits@1")


@pytest.mark.parametrize(
  ("hits", "message"),
  [
    ([("r99999", 1.0)], "r99999 is not a record"),
    ([("r00000", 1.0), ("r00000", 0.5)], "r00000 occurs twice"),
    ([("r00000", float("nan"))], "finite"),
    (["r00000"], "returned 'r00000'; expected pairs of record id and score"),
    ([("r00000", 1.0, 2)], "expected pairs of record id and score"),
  ],
)
def test_bad_rankings_are_named(hits, message):
  class Bad:
    def search(self, queries, k):
      return [hits] * len(queries)

  with pytest.raises(ValueError, match=message):
    scoring.evaluate(Bad(), BENCHMARK)
  Bad.search = lambda self, queries, k: []
  with pytest.raises(ValueError, match="0 rankings for 6 queries; expected"):
    scoring.evaluate(Bad(), BENCHMARK)
  with pytest.raises(ValueError, match="no queries of split 'dev'"):
    scoring.evaluate(Bad(), BENCHMARK, split="dev")


def test_what_cannot_be_evaluated_is_named(right):
  with pytest.raises(TypeError, match=r"search\(queries, k\).*; got int"):
    scoring.evaluate(3, BENCHMARK)
  with pytest.raises(TypeError, match="expected a benchmark.*; got str"):
    scoring.evaluate(Oracle(), "chunqiutr/mini")
  # Shown at a prompt, neither fills the terminal.
  assert len(repr(right)) < 200
  assert f"{len(BENCHMARK.records)} records" in repr(BENCHMARK)
