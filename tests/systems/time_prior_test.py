"""BM25 + TimeKDE: kernel, ends of the calendar, the added score."""

import math

import numpy as np
import pytest

from ctd_jax.retrieval import bm25, host_search
from ctd_jax.systems import time_prior


def test_density_by_hand():
  density = time_prior.estimate_month_density(np.array([[20, 20, 35]]), 60)[0]
  bump = np.exp(-(np.arange(-9, 10) ** 2) / 18)
  expected = np.zeros(60)
  expected[11:30] += 2 * bump
  expected[26:45] += bump
  np.testing.assert_allclose(density, expected / expected.sum())


def test_kernels_are_clipped_at_the_ends_not_renormalised():
  density = time_prior.estimate_month_density(np.array([[0, 20]]), 60)[0]
  # Both kernels weigh the same where they are whole.
  assert density[0] == pytest.approx(density[20])
  assert density.sum() == pytest.approx(1)


def test_rescore_by_hand():
  scores = np.array([[3.0, 1.0, 0.0]])
  ordinals = np.array([5, 5, 50])
  density = time_prior.estimate_month_density(np.array([[5, 5, 50]]), 60)[0]
  expected = scores[0] + np.log(density[[5, 5, 50]] + 1e-8)
  result = time_prior.add_time_prior(scores, ordinals, 60)[0]
  np.testing.assert_allclose(result, expected)


def test_only_the_200_best_make_the_density():
  scores = np.linspace(10, 1, 300)[None]
  ordinals = np.where(np.arange(300) < 200, 5, 50)
  prior = time_prior.add_time_prior(scores, ordinals, 60)[0] - scores[0]
  assert prior[200] == pytest.approx(math.log(1e-8))
  assert prior[0] > math.log(0.05)


def test_query_without_a_hit_gets_a_flat_prior():
  result = time_prior.add_time_prior(np.zeros((1, 3)), np.array([0, 0, 7]), 10)
  np.testing.assert_allclose(result, math.log(0.1 + 1e-8))


def test_topk_uses_each_gallery_alone():
  rng = np.random.default_rng(0)
  texts = ["".join(rng.choice([*"春夏秋冬王人來盟"], 6)) for _ in range(40)]
  ordinals = rng.integers(0, 30, 40)
  mask = rng.random(40) < 0.5
  members = np.flatnonzero(mask)
  queries = ["王人來盟", "春"]
  found = time_prior.rank_by_time_prior(
    queries, texts, ordinals, 30, 5, {"half": mask}
  )
  scores = bm25.BM25([texts[i] for i in members]).score_queries(queries)
  rescored = time_prior.add_time_prior(scores, ordinals[members], 30)
  np.testing.assert_array_equal(
    found["half"][0], members[host_search.select_top_k(rescored, 5)[0]]
  )
