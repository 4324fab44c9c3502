"""Measures of curve parameters."""

import collections
import pathlib

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from ctd_jax.evaluation import results
from ctd_jax.tasks.chronocept import measures

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
  assert tuple(families) == (measures.ALL_TARGETS, *measures.TARGETS)
  assert families["all"] == pytest.approx(mse)


def test_a_constant_orders_nothing():
  constant = np.full_like(TRUTH, TRUTH.mean(0))
  values = measures.compute_target_measures(TRUTH, constant)
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
  with pytest.raises(ValueError, match="prediction scale of sample 4 is not"):
    measures.compute_target_measures(TRUTH, bad)


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
    room = 1.5e-4 if index == ("BERT", "chronocept/benchmark_2") else 5.1e-5
    # Four decimals of an MSE below 2 move the value by less than 3e-5.
    assert actual == pytest.approx(row["paper_nll"], abs=room + 3e-5), index


def test_paper_nll_knows_the_bias_and_nothing_else():
  scaled = (TRUTH - TRUTH.mean(0)) / TRUTH.std(0)
  centred = PREDICTED - PREDICTED.mean(0)
  expected = paper_nll_of_mse(np.mean((scaled - centred) ** 2))
  actual = measures.paper_nll(scaled, centred)
  assert actual == pytest.approx(expected)
  assert measures.paper_nll(scaled, centred + 3) > actual


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
