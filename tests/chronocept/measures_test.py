"""Measures of curve parameters, of curves, and calibration."""

import collections
import pathlib

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from ctd_jax.evaluation import results
from ctd_jax.tasks.chronocept import (
  calibration,
  calibration_plot,
  curve_measures,
  measures,
)
from ctd_jax.tasks.chronocept.curves import time_axis

RESULTS = pathlib.Path(__file__).parents[1] / "results"
DRAW = np.random.default_rng(0)
TRUTH = DRAW.normal([50, 11, 0], [20, 3, 1], (60, 3))
PREDICTED = TRUTH + DRAW.normal(0, [12, 2, 1], (60, 3))


def test_point_measures_are_those_of_scikit_learn():
  values = measures.compute_target_measures(TRUTH, PREDICTED)
  assert tuple(values) == measures.POINT_MEASURES
  for column in range(3):
    truth, predicted = TRUTH[:, column], PREDICTED[:, column]
    expected = {
      "mse": sklearn.metrics.mean_squared_error(truth, predicted),
      "mae": sklearn.metrics.mean_absolute_error(truth, predicted),
      "r2": sklearn.metrics.r2_score(truth, predicted),
      "spearman": scipy.stats.spearmanr(truth, predicted).statistic,
      "pearson": np.corrcoef(truth, predicted)[0, 1],
    }
    for name, value in expected.items():
      assert values[name][column] == pytest.approx(value), name
  mse = sklearn.metrics.mean_squared_error(TRUTH, PREDICTED)
  families = measures.split_by_target(values["mse"])
  assert tuple(families) == measures.TARGET_FAMILIES
  assert families["all"] == pytest.approx(mse)


def test_r2_is_1_less_mse_in_units_of_the_split_itself():
  scaled = (TRUTH - TRUTH.mean(0)) / TRUTH.std(0)
  values = measures.compute_target_measures(scaled, scaled + 0.3)
  assert values["r2"] == pytest.approx(1 - values["mse"])


def test_a_constant_orders_nothing():
  values = measures.compute_target_measures(
    TRUTH, np.full_like(TRUTH, TRUTH.mean(0))
  )
  assert not values["spearman"].any()
  assert not values["pearson"].any()
  assert values["r2"] == pytest.approx(0)


def test_a_constant_truth_is_scored_as_scikit_learn_does():
  truth = np.full_like(TRUTH, 2.0)
  for predicted in (truth, truth + 1):
    expected = sklearn.metrics.r2_score(truth[:, 0], predicted[:, 0])
    values = measures.compute_target_measures(truth, predicted)
    assert values["r2"] == pytest.approx(expected)


def test_bad_predictions_are_named():
  bad = PREDICTED.copy()
  bad[4, 1] = np.nan
  with pytest.raises(ValueError, match="prediction scale of sample 4 is nan"):
    measures.compute_target_measures(TRUTH, bad)
  with pytest.raises(ValueError, match=r"\(60, 3\) and .* \(59, 3\)"):
    measures.compute_target_measures(TRUTH, PREDICTED[1:])


def paper_nll_of_mse(mse):
  """Returns `paper_nll` where the residuals of all targets have mean 0."""
  return 0.5 * np.log(2 * np.pi * np.e * mse)


def test_the_published_nll_follows_from_the_published_mse():
  rows = collections.defaultdict(dict)
  for row in results.read_result_rows(RESULTS / "published_chronocept.json"):
    rows[row.system, row.dataset][row.metric] = row.value
  values = [row for row in rows.values() if "paper_nll" in row]
  assert len(values) == 16
  for index, row in rows.items():
    actual = paper_nll_of_mse(row["mse"])
    # BERT's residuals on the second benchmark have a mean.
    biased = index == ("BERT", "chronocept/benchmark_2")
    room = 1.5e-4 if biased else 5.1e-5
    # Four decimals of an MSE below 2 move the value by less than 3e-5.
    assert actual == pytest.approx(row["paper_nll"], abs=room + 3e-5), index


def test_paper_nll_knows_the_bias_and_nothing_else():
  scaled = (TRUTH - TRUTH.mean(0)) / TRUTH.std(0)
  centred = PREDICTED - PREDICTED.mean(0)
  mse = float(np.mean((scaled - centred) ** 2))
  assert measures.paper_nll(scaled, centred) == pytest.approx(
    paper_nll_of_mse(mse)
  )
  shifted = measures.paper_nll(scaled, centred + 3)
  assert shifted > measures.paper_nll(scaled, centred)


def test_published_rows_hold_what_the_paper_says():
  rows = results.read_result_rows(RESULTS / "published_chronocept.json")
  values = {(r.system, r.dataset[-1], r.metric): r.value for r in rows}
  assert values["FFNN", "1", "mse"] == 0.8763
  assert values["Bi-LSTM", "2", "spearman"] == 0.3535
  for (system, benchmark, metric), value in values.items():
    # Targets of variance 1.
    if metric == "r2" and system != "BERT":
      mse = values[system, benchmark, "mse"]
      assert value == pytest.approx(1 - mse, abs=1e-9)


# Curves.


@pytest.fixture(scope="module")
def of_curves():
  truth = np.array([[42.96, 8.0, 0.0], [60.0, 10.0, 2.0]])
  predicted = np.array([[52.96, 8.0, 0.0], [60.0, 10.0, 2.0]])
  return curve_measures.compute_curve_measures(truth, predicted)


@pytest.mark.slow
def test_a_normal_curve_moved_by_ten(of_curves):
  actual = {name: values[0] for name, values in of_curves.items()}
  moved = 10 * np.log(1.1)
  assert actual["curve_kl"] == pytest.approx(100 / (2 * 64))
  assert actual["wasserstein"] == pytest.approx(10, abs=1e-3)
  overlap = 2 * scipy.stats.norm.cdf(-5 / 8)
  assert actual["overlap"] == pytest.approx(overlap, abs=1e-4)
  for name in ("mode", "start", "end"):
    assert actual[f"{name}_log_minutes"] == pytest.approx(moved, abs=1e-6)
  gap = 1 - np.exp(-0.5 * (10 / 8) ** 2)
  assert actual["validity_mae@1_hour"] == pytest.approx(gap, abs=1e-3)
  assert actual["validity_brier@1_hour"] == pytest.approx(gap**2, abs=1e-3)


def test_a_curve_that_is_met_costs_its_entropy_only(of_curves):
  actual = {name: values[1] for name, values in of_curves.items()}
  assert tuple(actual) == curve_measures.MEASURES
  least = {"curve_cross_entropy", "expected_crps", "overlap"}
  for name in set(actual) - least:
    assert actual[name] == pytest.approx(0, abs=1e-9), name
  entropy = scipy.stats.skewnorm(2, 60, 10).entropy()
  assert actual["curve_cross_entropy"] == pytest.approx(entropy, abs=1e-6)
  assert actual["overlap"] == pytest.approx(1)


def test_predictions_that_are_no_curve():
  bad = np.array([[50.0, -2.0, 0.0], [50.0, 3.0, 0.0]])
  with pytest.raises(ValueError, match="predicted scale of sample 0 is -2.0"):
    curve_measures.compute_curve_measures(np.abs(bad), bad)
  clipped, count = curve_measures.clip_scale(bad)
  assert count == 1
  assert clipped[:, 1].tolist() == [curve_measures.MIN_SCALE, 3.0]
  assert bad[0, 1] == -2.0


def test_horizons_are_anchors():
  assert {
    name: time_axis.ANCHORS[name] for name in ("1 hour", "1 day", "1 week")
  } == curve_measures.HORIZONS


# Calibration.

SPREAD = np.array([12.0, 2.0, 1.0])


def draws(stretch, count=400):
  """Returns draws about the truth's own predictions, stretched."""
  noise = np.random.default_rng(1).normal(0, SPREAD, (count, 2000, 3))
  return noise * stretch


@pytest.fixture(scope="module")
def truth():
  return np.random.default_rng(2).normal(0, SPREAD, (2000, 3))


def test_coverage_of_draws_that_are_right(truth):
  for quality in calibration.compute_interval_quality(truth, draws(1.0)):
    # Three standard errors of a share of 2,000.
    room = 3 * np.sqrt(quality.level * (1 - quality.level) / 2000)
    np.testing.assert_allclose(quality.coverage, quality.level, atol=room)
    width = 2 * scipy.stats.norm.ppf((1 + quality.level) / 2) * SPREAD
    np.testing.assert_allclose(quality.width, width, rtol=0.05)


def test_draws_that_are_too_narrow_or_wide_score_worse(truth):
  narrow, right, wide = (
    calibration.compute_interval_quality(truth, draws(stretch), [0.9])[0]
    for stretch in (0.4, 1.0, 2.5)
  )
  assert (narrow.coverage < 0.7).all()
  assert (wide.coverage > 0.98).all()
  assert (right.score < narrow.score).all()
  assert (right.score < wide.score).all()


def test_interval_score_by_hand():
  scores = calibration.compute_interval_score(
    np.array([1.0, 5.0, -1.0]), np.zeros(3), np.full(3, 2.0), 0.5
  )
  np.testing.assert_allclose(scores, [2, 2 + 4 * 3, 2 + 4 * 1])


def test_ranks_are_uniform_where_the_draws_are_right(truth):
  right, narrow = (
    calibration.probability_integral_transform(truth, draws(s, 50))
    for s in (1.0, 0.3)
  )
  assert (calibration.compute_pit_p_values(right) > 0.01).all()
  assert (calibration.compute_pit_p_values(narrow) < 1e-6).all()
  assert ((right > 0) & (right < 1)).all()
  # A truth equal to every draw may have any rank.
  same = calibration.probability_integral_transform(
    np.zeros((500, 3)), np.zeros((10, 500, 3))
  )
  assert (calibration.compute_pit_p_values(same) > 0.01).all()


def test_shapes_that_do_not_fit_are_told(truth):
  with pytest.raises(ValueError, match=r"\(2000, 3\) and draws \(2000, 3\)"):
    calibration.probability_integral_transform(truth, truth)


def test_reliability_by_hand():
  actual = calibration.compute_reliability(
    [0.0, 0.2, 1.0, 0.6], [0.05, 0.05, 0.95, 1.0], num_bins=10
  )
  np.testing.assert_allclose(actual.predicted, [0.05, 0.975])
  np.testing.assert_allclose(actual.observed, [0.1, 0.8])
  assert actual.count.tolist() == [2, 2]
  assert actual.error == pytest.approx((2 * 0.05 + 2 * 0.175) / 4)


@pytest.mark.slow
def test_pictures_have_labels(truth):
  figure = calibration_plot.plot_draws(truth[:50], draws(1.0)[:9, :50], "t")
  assert len(figure.axes) == 4
  row = calibration.compute_reliability(
    np.linspace(0, 1, 20), np.linspace(0, 1, 20)
  )
  picture = calibration_plot.plot_reliability({"1 day": row}, "t")
  for axes in (*figure.axes, *picture.axes):
    assert axes.get_xlabel()
  assert "1 day" in picture.axes[0].get_legend().get_texts()[0].get_text()
