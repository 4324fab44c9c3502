"""TREC files: what is written is what every other tool ranks and measures."""

import os

import numpy as np
import pytest
import pytrec_eval

from ctd_jax.benchmark import runs


def tied_run(queries=40, depth=20, seed=0):
  """Few distinct scores, so that most of every ranking is tied."""
  rng = np.random.default_rng(seed)
  rankings = {}
  for query in range(queries):
    names = [f"r{i:05d}" for i in np.sort(rng.choice(100, depth, False))]
    scores = rng.choice([0.0, 0.5, 1.0, 1e-30, -3.0, 17.25], depth)
    order = sorted(range(depth), key=lambda i: (-scores[i], names[i]))
    rankings[f"point-{query:05d}"] = [
      (names[i], float(scores[i])) for i in order
    ]
  return runs.Run("made", "T0", "lexical", "test", "neg1_ne1", rankings)


def test_strictly_decreasing():
  parted = runs.make_strictly_decreasing([2.0, 1.0, 1.0, 1.0, 0.0, 0.0])
  assert parted.dtype == np.float32
  assert np.all(np.diff(parted) < 0)
  np.testing.assert_allclose(parted, [2, 1, 1, 1, 0, 0], atol=1e-6)
  np.testing.assert_array_equal(parted, runs.make_strictly_decreasing(parted))
  # Equal only in float32.
  close = [1.0, 1.0 - 1e-12, 1.0 - 2e-12]
  assert np.all(np.diff(runs.make_strictly_decreasing(close)) < 0)


@pytest.mark.parametrize(
  ("scores", "message"),
  [([1.0, 2.0], "increase"), ([np.nan], "finite"), ([1e300], "finite")],
)
def test_strictly_decreasing_refuses(scores, message):
  with pytest.raises(ValueError, match=message):
    runs.make_strictly_decreasing(scores)


def test_round_trip(tmp_path):
  run = tied_run()
  path = runs.write_run(run, tmp_path)
  assert path.name == "run.made.test.neg1_ne1.trec"
  again = runs.read_run(path)
  assert again.tag == "made:T0:lexical"
  assert (again.split, again.gallery) == ("test", "neg1_ne1")
  before, after = (
    {query: [name for name, _ in ranking] for query, ranking in some.items()}
    for some in (run.rankings, again.rankings)
  )
  assert before == after
  content = path.read_bytes()
  runs.write_run(again, tmp_path)
  assert path.read_bytes() == content


def test_ties_would_be_reversed_without_parting():
  # The reason for nextafter: trec_eval puts the larger id first.
  evaluator = pytrec_eval.RelevanceEvaluator({"q": {"r00001": 1}}, {"success"})
  tied = {"q": {"r00001": 1.0, "r00002": 1.0}}
  assert evaluator.evaluate(tied)["q"]["success_1"] == 0
  ours = runs.compute_per_query(
    {"q": ["r00001"]}, {"q": [("r00001", 1.0), ("r00002", 1.0)]}
  )
  assert ours["hit@1"]["q"] == 1


def test_foreign_file_with_ties_goes_by_record_id(tmp_path):
  path = tmp_path / "theirs.txt"
  path.write_text(
    "q Q0 r21 1 0.5 other:T0:semantic\n"
    "q Q0 r12 2 0.5 other:T0:semantic\n"
    "q Q0 r30 3 0.9 other:T0:semantic\n"
  )
  run = runs.read_run(path, split="test", gallery="neg1_ne1")
  assert [name for name, _ in run.rankings["q"]] == ["r30", "r12", "r21"]


def test_from_topk_drops_the_padding():
  indices = np.array([[1, 0, -1]])
  scores = np.array([[2.0, 2.0, -np.inf]], np.float32)
  (run,) = runs.make_runs(
    "s", "T0", "ctd", "test", ["q"], ["a", "b"], {"neg0_ne0": (indices, scores)}
  )
  (first, second) = run.rankings["q"]
  assert (first[0], second[0]) == ("b", "a")
  assert first[1] == 2.0 > second[1]


@pytest.mark.parametrize(
  ("field", "value"),
  [
    *(("system", value) for value in ("a:b", "a b", "a/b", "")),
    *(("score_mode", "x y"), ("track", "T2")),
  ],
)
def test_names_that_would_break_the_file_are_refused(field, value):
  fields = {"system": "s", "track": "T0", "score_mode": "ctd", field: value}
  with pytest.raises(ValueError, match=field):
    runs.Run(**fields, split="test", gallery="neg1_ne1", rankings={})


LINE = "q Q0 r1 1 0.5 s:T0:ctd\n"


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (LINE + "q Q0 r2 2 0.4\n", ":2: 5 columns where 6"),
    (LINE + "q Q0 r2 2 high s:T0:ctd\n", ":2: score 'high'"),
    (LINE + "q Q0 r2 2 nan s:T0:ctd\n", ":2: score 'nan' is not a number"),
    (LINE + "q Q0 r2 x 0.4 s:T0:ctd\n", ":2: rank 'x'"),
    (LINE + LINE, ":2: record r1 occurs twice for query q"),
    (LINE + "\nq Q0 r2 x 0.4 s:T0:ctd\n", ":3: rank 'x'"),
    (LINE + "q Q0 r2 2 0.4 t:T0:ctd\n", ":2: tag 't:T0:ctd' differs"),
    ("q Q0 r1 1 0.5 s:T9:ctd\n", ":1: tag .* T0, T0\\+train"),
    ("", "no line in this run file"),
  ],
)
def test_malformed_run_names_file_and_line(tmp_path, text, message):
  path = tmp_path / "run.s.test.neg1_ne1.trec"
  path.write_text(text)
  with pytest.raises(ValueError, match=f"{path.name}.*{message}"):
    runs.read_run(path)


# As other programs write runs and judgements.
@pytest.mark.parametrize(
  ("text", "system"),
  [
    ("q Q0 r1 1 12.500000 Anserini\nq Q0 r2 2 9.000000 Anserini\n", "Anserini"),
    ("q Q0 r1 1 12.5 bm25\nq Q0 r2 2 9 bm25\n\n", "bm25"),
    (
      "\ufeffq\tQ0\tr1\t0\t12.5\tbm25/k1=.9\r\nq Q0 r2 1 9 bm25/k1=.9\n",
      "bm25_k1=.9",
    ),
    ("q Q0 r2 1 9e0 dense:v2\nq Q0 r1 0 1.25e1 dense:v2\n", "dense_v2"),
  ],
)
def test_runs_of_other_programs(tmp_path, caplog, text, system):
  path = tmp_path / "mine.txt"
  path.write_text(text, encoding="utf-8")
  run = runs.read_run(path, "test", "neg1_ne1")
  assert run.rankings == {"q": [("r1", 12.5), ("r2", 9.0)]}
  assert (run.system, run.track, run.score_mode) == (system, "T0", "search")
  assert "names no track; taken as T0" in caplog.text


def test_judgements_of_other_programs(tmp_path):
  path = tmp_path / "qrels.txt"
  path.write_text("\ufeffq 0 r1 1.0\nq\t0\tr2\t2\r\n\nq Q0 r3 -2\n", "utf-8")
  assert runs.read_qrels(path) == {"q": ("r1", "r2")}
  path.write_text("q 0 r1 0\n")
  with pytest.raises(ValueError, match="qrels.txt: no line with a relevance"):
    runs.read_qrels(path)


def test_name_that_tells_no_split_is_refused(tmp_path):
  path = tmp_path / "mine.txt"
  path.write_text(LINE)
  with pytest.raises(ValueError, match="cannot tell split and gallery"):
    runs.read_run(path)


def test_system_names_may_hold_dots(tmp_path):
  run = runs.Run(
    "bge-v1.5", "T0", "semantic", "test", "neg0_ne1", {"q": [("r1", 1.0)]}
  )
  again = runs.read_run(runs.write_run(run, tmp_path))
  assert (again.system, again.gallery) == ("bge-v1.5", "neg0_ne1")


def test_another_system_of_the_same_name_is_not_overwritten(tmp_path):
  run = tied_run(queries=1)
  runs.write_run(run, tmp_path)
  other = runs.Run("made", "T1", "lexical", "test", "neg1_ne1", run.rankings)
  with pytest.raises(ValueError, match="made:T0:lexical, not made:T1"):
    runs.write_run(other, tmp_path)


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
  def broken(*args):
    raise OSError("disk full")

  monkeypatch.setattr(os, "replace", broken)
  with pytest.raises(OSError, match="disk full"):
    runs.write_run(tied_run(queries=1), tmp_path)
  assert list(tmp_path.iterdir()) == []


def test_qrels_of_relevance_zero_are_no_positives(tmp_path):
  path = tmp_path / "qrels.trec"
  path.write_text("q 0 r1 1\nq 0 r2 0\n")
  assert runs.read_qrels(path) == {"q": ("r1",)}
  for line, message in (
    ("q 0 r2 yes", "relevance 'yes'"),
    ("q 0 r2 nan", "relevance 'nan'"),
    ("q 0 r1 1", "q and r1 judged twice"),
  ):
    path.write_text(f"q 0 r1 1\n{line}\n")
    with pytest.raises(ValueError, match=f"qrels.trec:2: {message}"):
      runs.read_qrels(path)
