"""Intraclass correlations against a worked example and scipy's ANOVA."""

import numpy as np
import pytest
import scipy.stats

from ctd_jax.tasks.chronocept import agreement

# Six targets, four judges: Shrout and Fleiss (1979), Table 2.
SHROUT_FLEISS = np.array(
  [
    [9, 2, 5, 8],
    [6, 1, 3, 2],
    [8, 4, 6, 8],
    [7, 1, 2, 6],
    [10, 5, 6, 9],
    [6, 2, 4, 7],
  ],
  float,
)


def test_the_worked_example_of_shrout_and_fleiss():
  # Their Table 4: .17, .44, .29, .71.
  single, average = agreement.icc_one_way(SHROUT_FLEISS)
  assert single == pytest.approx(0.17, abs=0.005)
  assert average == pytest.approx(0.44, abs=0.005)
  assert agreement.icc_agreement(SHROUT_FLEISS) == pytest.approx(
    0.29, abs=0.005
  )
  assert agreement.icc_consistency(SHROUT_FLEISS) == pytest.approx(
    0.71, abs=0.005
  )


def test_one_way_is_the_f_ratio_of_an_anova():
  ratings = np.random.default_rng(1).normal(size=(30, 1)) + (
    np.random.default_rng(2).normal(size=(30, 2))
  )
  ratio = scipy.stats.f_oneway(*ratings).statistic
  single, average = agreement.icc_one_way(ratings)
  assert single == pytest.approx((ratio - 1) / (ratio + 1))
  assert average == pytest.approx(1 - 1 / ratio)


def test_a_constant_difference_hurts_agreement_not_consistency():
  first = np.arange(10.0)
  shifted = np.column_stack([first, first + 5])
  assert agreement.icc_consistency(shifted) == pytest.approx(1)
  assert agreement.icc_agreement(shifted) < 0.5
  same = np.column_stack([first, first])
  assert [float(x) for x in agreement.icc_one_way(same)] == [1, 1]


def test_intervals_hold_the_value_and_shrink_with_samples():
  draw = np.random.default_rng(0)
  truth = draw.normal(size=(400, 1))
  ratings = truth + 0.5 * draw.normal(size=(400, 2))
  few = agreement.compute_coefficients(
    ratings[:40], is_crossed=True, num_resamples=500
  )
  many = agreement.compute_coefficients(
    ratings, is_crossed=True, num_resamples=500
  )
  forms = ["ICC(1,1)", "ICC(1,2)", "ICC(A,1)", "ICC(C,1)"]
  assert [c.form for c in many] == forms
  assert (
    len(
      agreement.compute_coefficients(
        ratings, is_crossed=False, num_resamples=100
      )
    )
    == 2
  )
  for narrow, wide in zip(many, few, strict=True):
    assert narrow.low < narrow.value < narrow.high
    assert narrow.high - narrow.low < wide.high - wide.low
  # One annotator's variance is 1 + .25.
  assert many[0].low < 1 / 1.25 < many[0].high


@pytest.mark.parametrize(
  ("ratings", "message"),
  [
    (np.ones((1, 2)), "two samples and two annotators"),
    (np.ones((5, 1)), "two samples and two annotators"),
    (np.ones((5, 2)), "mean ratings differ"),
  ],
)
def test_what_has_no_icc_is_refused(ratings, message):
  with pytest.raises(ValueError, match=message):
    agreement.compute_coefficients(ratings, is_crossed=True)
