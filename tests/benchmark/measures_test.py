"""Measures: values by hand, absent queries, names."""

import math

import pytest

from ctd_jax.benchmark import runs

RANKING = [(f"r{i:02d}", 20.0 - i) for i in range(12)]


def of(positives, ranking=None, names=runs.DEFAULT_MEASURES):
  rankings = {"q": RANKING if ranking is None else ranking}
  values = runs.compute_per_query({"q": positives}, rankings, names)
  return {name: by_query["q"] for name, by_query in values.items()}


def test_by_hand():
  # Positives at ranks 2 and 5; a third is not retrieved.
  values = of(["r01", "r04", "r99"])
  gain = 1 / math.log2(3) + 1 / math.log2(6)
  ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
  assert values == pytest.approx(
    {
      "hit@1": 0,
      "hit@5": 1,
      "hit@10": 1,
      "mrr@10": 1 / 2,
      "ndcg@10": gain / ideal,
      "recall@10": 2 / 3,
    }
  )


def test_hit_is_not_recall():
  values = of(["r00", "r11"], names=["hit@1", "recall@1", "precision@5"])
  assert values == pytest.approx(
    {"hit@1": 1, "recall@1": 0.5, "precision@5": 0.2}
  )


def test_absent_and_empty_rankings_count_zero():
  values = runs.compute_per_query(
    {"a": ["r00"], "b": ["r00"], "c": ["r00"]}, {"a": RANKING, "b": []}
  )
  assert values["hit@1"] == {"a": 1.0, "b": 0.0, "c": 0.0}
  assert runs.compute_mean(values["hit@1"]) == pytest.approx(1 / 3)


def test_rankings_of_other_queries_are_ignored():
  values = runs.compute_per_query({"a": ["r00"]}, {"a": RANKING, "z": RANKING})
  assert values["hit@1"] == {"a": 1.0}


def test_no_query_and_no_positive():
  assert runs.compute_per_query({}, {})["hit@1"] == {}
  assert runs.compute_mean({}) == 0
  with pytest.raises(ValueError, match="query q has no positive"):
    of([])


@pytest.mark.parametrize("name", ["hit", "hit@0", "R@1", "map@10", "hit@1x"])
def test_unknown_names_are_refused(name):
  with pytest.raises(ValueError, match=f"unknown measure '{name}'"):
    runs.parse_measure(name)
