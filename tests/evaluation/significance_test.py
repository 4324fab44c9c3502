"""Paired test and intervals: exact small cases, coverage, clusters, seeds."""

import numpy as np
import pytest
import scipy.stats

from ctd_jax.evaluation import significance


def as_values(numbers):
  return {f"q{i:05d}": float(number) for i, number in enumerate(numbers)}


def test_mcnemar_by_hand():
  # 8 wins, 1 loss, the rest equal: two-sided binomial tail 20 / 512.
  first = as_values([1] * 8 + [0] + [1] * 50 + [0] * 50)
  second = as_values([0] * 8 + [1] + [1] * 50 + [0] * 50)
  result = significance.run_paired_randomisation(first, second)
  assert result.p_value == pytest.approx(20 / 512)
  assert result.difference == pytest.approx(7 / 109)
  assert (result.num_queries, result.num_wins, result.num_losses) == (109, 8, 1)
  assert "(8 better, 1 worse), p = 0.0391" in str(result)


def test_swapping_the_systems_changes_the_sign_only():
  rng = np.random.default_rng(0)
  first, second = as_values(rng.random(200)), as_values(rng.random(200))
  there = significance.run_paired_randomisation(first, second)
  back = significance.run_paired_randomisation(second, first)
  assert back.difference == -there.difference
  assert back.p_value == pytest.approx(there.p_value, abs=0.02)


def test_agrees_with_the_binomial_test_on_many_queries():
  first = as_values([1] * 60 + [0] * 40 + [1] * 500)
  second = as_values([0] * 60 + [1] * 40 + [1] * 500)
  result = significance.run_paired_randomisation(first, second)
  exact = scipy.stats.binomtest(60, 100).pvalue
  assert result.p_value == pytest.approx(exact, abs=0.01)


def test_seed_decides():
  rng = np.random.default_rng(0)
  first, second = as_values(rng.random(50)), as_values(rng.random(50))

  def p_value(seed):
    test = significance.run_paired_randomisation
    return test(first, second, num_rounds=500, seed=seed).p_value

  assert p_value(1) == p_value(1)
  assert len({p_value(seed) for seed in range(5)}) > 1


def test_different_queries_are_refused():
  with pytest.raises(ValueError, match="only one of them has q00002"):
    significance.run_paired_randomisation(
      as_values([1, 0]), as_values([1, 0, 1])
    )
  with pytest.raises(ValueError, match="no query"):
    significance.run_paired_randomisation({}, {})


@pytest.mark.parametrize(("level", "width"), [(0.95, 1.96), (0.5, 0.674)])
def test_interval_is_near_the_normal_one(level, width):
  values = as_values([1] * 300 + [0] * 700)
  interval = significance.compute_bootstrap_interval(values, level=level)
  half = width * np.sqrt(0.3 * 0.7 / 1000)
  assert interval == pytest.approx((0.3 - half, 0.3 + half), abs=0.003)
  again = significance.compute_bootstrap_interval(values, level=level)
  assert again == interval


def test_clusters_of_equal_queries_widen_the_interval():
  # 100 groups of 10 queries with one answer each: 100 draws, not 1,000.
  answers = np.repeat(np.arange(100) % 10 < 3, 10)
  values = as_values(answers)
  groups = {query: i // 10 for i, query in enumerate(values)}
  interval = significance.compute_bootstrap_interval(values, groups)
  half = 1.96 * np.sqrt(0.3 * 0.7 / 100)
  assert interval == pytest.approx((0.3 - half, 0.3 + half), abs=0.02)


def test_clusters_of_unequal_size_weigh_by_queries():
  values = as_values([1] * 90 + [0] * 10)
  groups = {query: i < 90 for i, query in enumerate(values)}
  assert significance.compute_bootstrap_interval(values, groups) == (0, 1)
  one = dict.fromkeys(values, "all")
  assert significance.compute_bootstrap_interval(values, one) == (0.9, 0.9)


@pytest.mark.slow
def test_strata_count_the_same_however_large():
  # 900 of the one half right, 100 of the other never.
  values = as_values([1, 0] * 450 + [0] * 100)
  strata = {query: i < 900 for i, query in enumerate(values)}
  interval = significance.compute_bootstrap_interval(values, strata=strata)
  half = 1.96 * np.sqrt(0.25 / 900) / 2
  assert interval == pytest.approx((0.25 - half, 0.25 + half), abs=0.003)
  right = dict.fromkeys(values, 1.0)
  assert significance.compute_bootstrap_interval(right, strata=strata) == (1, 1)


def test_holm_by_hand():
  assert significance.correct_by_holm([0.01, 0.04, 0.03]) == pytest.approx(
    [0.03, 0.06, 0.06]
  )
  assert significance.correct_by_holm([0.5, 0.9]) == pytest.approx([1, 1])
  assert significance.correct_by_holm([]) == []


def test_interval_refuses():
  with pytest.raises(ValueError, match="no value"):
    significance.compute_bootstrap_interval({})
  with pytest.raises(ValueError, match="query q00001 has no group"):
    significance.compute_bootstrap_interval(as_values([1, 0]), {"q00000": 1})


def test_queries_of_a_group_are_swapped_together():
  first = {f"q{i}": 1.0 for i in range(12)}
  second = dict.fromkeys(first, 0.0)
  alone = significance.run_paired_randomisation(first, second)
  groups = {q: i // 6 for i, q in enumerate(first)}
  whole = significance.run_paired_randomisation(first, second, groups=groups)
  assert alone.p_value == pytest.approx(2 / 2**12)
  # Two groups, four ways to swap them, two of them as extreme.
  assert whole.p_value == pytest.approx(0.5)
  assert whole.difference == alone.difference
  one = significance.run_paired_randomisation(
    first, second, groups=dict.fromkeys(first, 0)
  )
  assert one.p_value == 1.0


def test_wilson_interval_of_a_share():
  # Newcombe (1998), table 1, method 3: 81 of 263.
  share = significance.Proportion(81, 263)
  assert share.interval == pytest.approx((0.2553, 0.3662), abs=5e-5)
  assert str(share) == "30.80 [25.5, 36.6]"
  assert significance.Proportion(0, 20).interval[0] == 0
