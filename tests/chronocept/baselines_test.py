"""Baselines of validity curves: scalers, regressors, networks."""

import jax
import ml_collections
import numpy as np
import pytest
import xgboost
from sklearn import svm
from sklearn.model_selection import ParameterGrid

from ctd_jax.tasks.chronocept import features, measures, networks, regressors
from ctd_jax.tasks.chronocept.networks import BiLstm, FeedForward
from ctd_jax_configs import chronocept
from ctd_jax_datasets.chronocept import chronocept_dataset_builder

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(30, 40)).astype(np.float32)
Y = DRAW.normal(size=(30, 3))
TEXTS = [f"she waits for {n} hours and hums {'la ' * n}" for n in range(1, 31)]


@pytest.mark.parametrize(
  ("benchmark", "expected"),
  [
    ("benchmark_1", (0.9053, 1.046, 0.806, 0.864)),
    ("benchmark_2", (0.8862, 1.069, 0.842, 0.748)),
  ],
)
def test_the_mean_predictor_under_either_protocol(benchmark, expected):
  # Synthetic targets have the published mean and spread of each split.
  samples = chronocept_dataset_builder.generate_samples(benchmark)
  targets = {
    split: features.extract_targets(rows) for split, rows in samples.items()
  }

  def mse(fit):
    z = fit(targets)["test"].transform(targets["test"])
    return measures.compute_target_measures(z, np.zeros_like(z))["mse"]

  honest = mse(features.fit_train_scalers)
  assert honest.mean() == pytest.approx(expected[0], abs=5e-4)
  assert honest == pytest.approx(expected[1:], abs=1e-3)
  assert mse(features.fit_split_scalers).mean() == pytest.approx(1)


def test_scalers_undo_themselves_and_refuse_what_does_not_vary():
  scaler = features.TargetScaler.fit(Y)
  assert scaler.inverse(scaler.transform(Y)) == pytest.approx(Y)
  same = features.TargetScaler.identity(3)
  np.testing.assert_array_equal(same.transform(Y), Y)
  with pytest.raises(ValueError, match="scale has the same value in all 30"):
    features.TargetScaler.fit(Y * [1, 0, 1])


def test_linear_is_the_interpolator_of_least_norm():
  arrays = regressors.fit_linear(X, Y, {"fit_intercept": False}, 0)
  assert regressors.predict_linear(arrays, X) == pytest.approx(Y, abs=1e-6)
  expected = np.linalg.pinv(X.astype(np.float64)) @ Y
  assert arrays["weights"] == pytest.approx(expected, abs=1e-6)
  assert not arrays["intercept"].any()


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_svr_from_arrays_is_scikit_learns(kernel):
  options = {"C": 1.0, "epsilon": 0.1, "kernel": kernel}
  arrays = regressors.fit_svr(X[:20], Y[:20], options, 0)
  actual = regressors.predict_svr(arrays, X)
  for index in range(3):
    model = svm.SVR(**options).fit(X[:20], Y[:20, index])
    assert actual[:, index] == pytest.approx(model.predict(X), abs=1e-5)


def test_svr_without_support_is_a_constant():
  options = {"C": 1.0, "epsilon": 100.0, "kernel": "rbf"}
  actual = regressors.predict_svr(regressors.fit_svr(X, Y, options, 0), X)
  assert actual == pytest.approx(np.tile(actual[0], (30, 1)))
  assert actual.shape == (30, 3)


def test_xgboost_from_arrays_is_xgboosts():
  options = {"n_estimators": 5, "max_depth": 2, "learning_rate": 0.3}
  arrays = regressors.fit_xgboost(X, Y, options, 0)
  actual = regressors.predict_xgboost(arrays, X)
  model = xgboost.XGBRegressor(**options, n_jobs=1).fit(X, Y[:, 2])
  assert actual[:, 2] == pytest.approx(model.predict(X), abs=1e-6)


def test_trivial_baselines():
  def predict(name, read):
    regressor = regressors.REGRESSORS[name]
    return regressor.predict(regressor.fit(read, Y, {}, 0), read)

  assert predict("mean", TEXTS) == pytest.approx(np.tile(Y.mean(0), (30, 1)))
  assert predict("median", TEXTS)[4] == pytest.approx(np.median(Y, axis=0))
  # The nearest of a train sample is itself.
  assert predict("nearest", X) == pytest.approx(Y)
  assert predict("tfidf", TEXTS).shape == (30, 3)


def test_words_that_tell_the_target_are_found():
  logs = np.log(60 * np.arange(1, 31))[:, None] * [1, 2, -1]
  tfidf = regressors.fit_tfidf(TEXTS, logs, {}, 0)
  actual = regressors.predict_tfidf(tfidf, TEXTS)
  assert np.mean((actual - logs) ** 2) < 0.2 * logs.var(axis=0).mean()


def overfitting():
  """Returns a model, inputs and targets whose validation soon gets worse."""
  # What is learned of the first samples is wrong for validation.
  inputs = {"train": {"vectors": X[:20]}, "validation": {"vectors": X[:8]}}
  return FeedForward(16), inputs, {"train": Y[:20], "validation": -Y[:8]}


def trained(selection, **changes):
  model, inputs, targets = overfitting()
  options = ml_collections.ConfigDict(chronocept.get_config("ffnn").model)
  options.update({"epochs": 12, "learning_rate": 0.02, "l1": 0.0, **changes})
  params = networks.init_params(model, inputs["train"], 0)
  return networks.train_network(
    model, params, inputs, targets, options, selection, 0
  )


@pytest.mark.slow
def test_the_best_state_is_a_copy_that_training_does_not_change():
  model, inputs, targets = overfitting()

  def validation_mse(actual):
    predicted = networks.predict_targets(
      model, actual.params, inputs["validation"]
    )
    return np.mean((predicted - targets["validation"]) ** 2)

  best, last = map(trained, (networks.BEST_EPOCH, networks.LAST_EPOCH))
  assert best.validation_mse == last.validation_mse
  assert best.epoch == 1 + int(np.argmin(best.validation_mse)) < 12
  assert validation_mse(best) == pytest.approx(min(best.validation_mse))
  assert last.epoch == 12
  assert validation_mse(last) == pytest.approx(last.validation_mse[-1])
  assert validation_mse(last) > 1.1 * validation_mse(best)


@pytest.mark.slow
def test_penalty_and_decay_shrink_and_batches_change_the_path():
  def size(actual):
    return sum(float(abs(x).sum()) for x in jax.tree.leaves(actual.params))

  plain = trained(networks.LAST_EPOCH)
  for changes in (
    {"l1": 1e-2},
    {"weight_decay": 1.0},
    {"weight_decay": 1.0, "decoupled": True},
  ):
    assert size(trained(networks.LAST_EPOCH, **changes)) < size(plain)
  once, again = (
    trained(networks.LAST_EPOCH, batch_size=10).train_loss for _ in "ab"
  )
  assert plain.train_loss != once == again


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run():
  with pytest.raises(
    networks.NetworkDivergedError, match=r"epoch \d: .*learning_rate"
  ):
    trained(networks.LAST_EPOCH, learning_rate=1e30)


@pytest.mark.slow
def test_the_lstm_does_not_read_what_lies_behind_the_length():
  model = BiLstm(4)
  states = DRAW.normal(size=(2, 6, 5)).astype(np.float32)
  inputs = {"states": states, "lengths": np.array([4, 6], np.int32)}
  params = networks.init_params(model, inputs, 0)
  before = networks.predict_targets(model, params, inputs)
  states = states.copy()
  states[0, 4:] = 9
  after = networks.predict_targets(model, params, {**inputs, "states": states})
  assert after == pytest.approx(before)
  states[0, 3] = 9
  after = networks.predict_targets(model, params, {**inputs, "states": states})
  assert abs(after[0] - before[0]).max() > 1e-3


def test_the_grid_is_the_published_one():
  sizes = {"linear": 2, "svr": 18, "xgboost": 8, "ffnn": 243, "bilstm": 9}
  for model, size in sizes.items():
    config = chronocept.get_config(model)
    grid = config.grid.to_dict()
    assert len(ParameterGrid(grid)) == size
    assert {name: config.model[name] for name in grid} in ParameterGrid(grid)


@pytest.mark.slow
def test_measures_of_resamples_are_those_of_single_ones():
  seeds = Y + DRAW.normal(size=(2, *Y.shape))
  resample_indices = DRAW.integers(len(Y), size=(5, len(Y)))
  actual = measures.compute_measures(Y, seeds, resample_indices)
  for resample, samples in enumerate(resample_indices):
    tables = [
      measures.compute_target_measures(Y[samples], z[samples]) for z in seeds
    ]
    for name in measures.POINT_MEASURES:
      values = np.mean([table[name] for table in tables], axis=0)
      for family, expected in measures.split_by_target(values).items():
        value = actual[name, family][resample]
        assert value == pytest.approx(expected), (name, family)
    nll = np.mean([measures.paper_nll(Y[samples], z[samples]) for z in seeds])
    value = actual[measures.PAPER_NLL, "all"][resample]
    assert value == pytest.approx(nll)
  mean = np.zeros((1, *Y.shape))
  nothing = measures.compute_measures(Y, mean, resample_indices)
  assert nothing[measures.SKILL, "all"] == pytest.approx(0)
  assert nothing["spearman", "scale"] == pytest.approx(0)
