"""Our figures are trec_eval's, from the files that we write."""

import numpy as np
import pytest
import pytrec_eval

from ctd_jax.benchmark import runs

QUERIES, RECORDS, DEPTH = 4, 40, 30
# Ours -> trec_eval's; its reciprocal rank has no cutoff.
NAMES = {
  "hit@1": "success_1",
  "hit@5": "success_5",
  "hit@10": "success_10",
  "recall@10": "recall_10",
  "ndcg@10": "ndcg_cut_10",
  "mrr@10": "recip_rank",
}


def draw(rng):
  """Returns positives and a run of few different scores, so of many ties."""
  ids = np.array([f"r{i:02d}" for i in range(RECORDS)])
  qrels, rankings = {}, {}
  for number in range(QUERIES):
    scores = rng.integers(rng.integers(1, 12), size=RECORDS) / 3
    scores += rng.choice([0.0, 1e7, 1e-30])
    order = np.lexsort((ids, -scores.astype(np.float32)))
    order = order[: rng.integers(1, DEPTH + 1)]
    query = f"q{number}"
    rankings[query] = [(str(ids[i]), float(scores[i])) for i in order]
    chosen = rng.choice(ids, rng.integers(1, 15), replace=False)
    qrels[query] = tuple(map(str, chosen))
  return qrels, runs.Run("made", "T0", "x", "test", "neg1_ne1", rankings)


def of_trec_eval(qrels_path, run_path):
  """Returns measure -> query -> value as trec_eval reads the two files."""
  with open(qrels_path) as qrels, open(run_path) as run:
    judge = pytrec_eval.RelevanceEvaluator(
      pytrec_eval.parse_qrel(qrels),
      {"success.1,5,10", "recall.10", "ndcg_cut.10", "recip_rank"},
    )
    values_by_query = judge.evaluate(pytrec_eval.parse_run(run))
  table = {
    ours: {query: values[theirs] for query, values in values_by_query.items()}
    for ours, theirs in NAMES.items()
  }
  table["mrr@10"] = {
    query: value if value >= 0.1 else 0.0
    for query, value in table["mrr@10"].items()
  }
  return table


@pytest.mark.parametrize(
  "num_runs", [20, pytest.param(1000, marks=pytest.mark.slow)]
)
def test_random_runs_with_ties(tmp_path, num_runs):
  rng = np.random.default_rng(0)
  qrels_path, tied = tmp_path / "qrels.txt", 0
  for _ in range(num_runs):
    qrels, run = draw(rng)
    for ranking in run.rankings.values():
      tied += len({score for _, score in ranking}) < len(ranking)
    (tmp_path / run.file_name).unlink(missing_ok=True)
    runs.write_qrels(qrels_path, qrels)
    path = runs.write_run(run, tmp_path)
    assert runs.read_qrels(qrels_path) == qrels
    expected = of_trec_eval(qrels_path, path)
    written = runs.read_run(path).rankings
    for rankings in (run.rankings, written):
      ours = runs.compute_per_query(qrels, rankings, list(NAMES))
      for name, values in ours.items():
        assert values == pytest.approx(expected[name], abs=1e-12), name
  assert tied > 0.8 * num_runs * QUERIES
