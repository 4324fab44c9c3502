"""Baselines of validity curves that need no network, published and trivial.

Why: a figure of a network means nothing beside none of these. Each is a pair
of functions: `fit` gives named arrays, `predict` reads them; so every model
is saved and loaded as plain arrays, without code inside. Called by
`validity.experiment`.

`linear`, `svr` and `xgboost` are the published ones and read vectors of the
frozen encoder. `mean`, `median`, `nearest` (the nearest train sample's
targets), `tfidf` (ridge on words) and `lexicon` (a line through the longest
span of time that the text names) are what a model has to beat.

Axes: N samples, F features, T = 3 targets, V words.

Source: Chronocept, arXiv 2505.07637v1, section on baselines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xgboost
from sklearn import linear_model, neighbors, svm
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import pairwise

from ctd_jax.tasks.chronocept import durations

Arrays = dict[str, np.ndarray]
Hyperparameters = Mapping[str, Any]
_RIDGE_STRENGTHS = np.logspace(-2, 3, 11)


@dataclasses.dataclass(frozen=True)
class Regressor:
  """A baseline.

  Attributes:
    input_kind: "vectors" (fp32 [N, F]) or "texts" (N parent texts).
    fit: (inputs, targets [N, T], hyperparameters, seed) -> arrays.
    predict: (arrays, inputs) -> [N, T].
  """

  input_kind: str
  fit: Callable[[Any, np.ndarray, Hyperparameters, int], Arrays]
  predict: Callable[[Arrays, Any], np.ndarray]


def fit_linear(
  vectors: np.ndarray, targets: np.ndarray, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns least squares; with more features than samples, of least norm.

  Args:
    vectors: [N, F].
    targets: [N, T].
    hyper: fit_intercept.
    seed: not used.
  """
  del seed
  model = linear_model.LinearRegression(fit_intercept=hyper["fit_intercept"])
  model.fit(np.asarray(vectors, np.float64), targets)
  intercept = np.broadcast_to(model.intercept_, targets.shape[1])
  return {"weights": model.coef_.T, "intercept": intercept}


def predict_linear(arrays: Arrays, vectors: np.ndarray) -> np.ndarray:
  """Returns the line's values, [N, T]."""
  return vectors @ arrays["weights"] + arrays["intercept"]


def fit_svr(
  vectors: np.ndarray, targets: np.ndarray, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns a support vector machine for each target.

  Args:
    vectors: [N, F].
    targets: [N, T].
    hyper: C, epsilon (in units of the targets), kernel ("rbf" or "linear").
    seed: not used.
  """
  del seed
  arrays = {"kernel": np.array(hyper["kernel"])}
  for number, column in enumerate(targets.T):
    model = svm.SVR(
      C=hyper["C"], epsilon=hyper["epsilon"], kernel=hyper["kernel"]
    ).fit(vectors, column)
    arrays[f"support_{number}"] = model.support_vectors_
    arrays[f"weights_{number}"] = model.dual_coef_[0]
    arrays[f"intercept_{number}"] = model.intercept_[0]
  # What scikit-learn's default "scale" comes to.
  arrays["gamma"] = np.array(1 / (vectors.shape[1] * vectors.var()))
  return arrays


def predict_svr(arrays: Arrays, vectors: np.ndarray) -> np.ndarray:
  """Returns the machines' values, [N, T]."""
  options = {}
  if arrays["kernel"] == "rbf":
    options["gamma"] = float(arrays["gamma"])
  columns = []
  for number in range(sum(name.startswith("support_") for name in arrays)):
    if not len(arrays[f"support_{number}"]):
      # Every error was within epsilon: a constant.
      columns.append(np.full(len(vectors), arrays[f"intercept_{number}"]))
      continue
    similarity = pairwise.pairwise_kernels(
      vectors,
      arrays[f"support_{number}"],
      metric=str(arrays["kernel"]),
      **options,
    )
    columns.append(
      similarity @ arrays[f"weights_{number}"] + arrays[f"intercept_{number}"]
    )
  return np.column_stack(columns)


def fit_xgboost(
  vectors: np.ndarray, targets: np.ndarray, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns boosted trees for each target, as xgboost's own bytes.

  Args:
    vectors: [N, F].
    targets: [N, T].
    hyper: n_estimators, max_depth, learning_rate.
    seed: of whatever xgboost draws; with these settings nothing.
  """
  arrays = {}
  for number, column in enumerate(targets.T):
    model = xgboost.XGBRegressor(
      **hyper, objective="reg:squarederror", random_state=seed, n_jobs=1
    ).fit(vectors, column)
    raw = model.get_booster().save_raw("ubj")
    arrays[f"trees_{number}"] = np.frombuffer(raw, np.uint8)
  return arrays


def predict_xgboost(arrays: Arrays, vectors: np.ndarray) -> np.ndarray:
  """Returns the trees' values, [N, T]."""
  matrix = xgboost.DMatrix(vectors)
  columns = []
  for number in range(len(arrays)):
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(arrays[f"trees_{number}"].tobytes()))
    columns.append(booster.predict(matrix))
  return np.column_stack(columns)


def fit_mean(
  texts: Sequence[str], targets: np.ndarray, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns the mean of the targets."""
  del texts, hyper, seed
  return {"constant": targets.mean(axis=0)}


def fit_median(
  texts: Sequence[str], targets: np.ndarray, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns the median of each target."""
  del texts, hyper, seed
  return {"constant": np.median(targets, axis=0)}


def predict_constant(arrays: Arrays, texts: Sequence[str]) -> np.ndarray:
  """Returns the same values for each text, [N, T]."""
  return np.tile(arrays["constant"], (len(texts), 1))


def fit_nearest(
  vectors: np.ndarray, targets: np.ndarray, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns the train samples themselves."""
  del hyper, seed
  return {"vectors": vectors, "targets": targets}


def predict_nearest(arrays: Arrays, vectors: np.ndarray) -> np.ndarray:
  """Returns the targets of the train sample of the highest cosine, [N, T]."""
  model = neighbors.KNeighborsRegressor(1, metric="cosine", algorithm="brute")
  return model.fit(arrays["vectors"], arrays["targets"]).predict(vectors)


def fit_tfidf(
  texts: Sequence[str], targets: np.ndarray, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns ridge regression on TF-IDF of words and pairs of words.

  Its strength is chosen on the train samples by leaving each out in turn.
  """
  del hyper, seed
  vectorizer = _make_vectorizer()
  counts = vectorizer.fit_transform(texts)
  model = linear_model.RidgeCV(_RIDGE_STRENGTHS).fit(counts.toarray(), targets)
  return {
    "words": vectorizer.get_feature_names_out().astype(str),
    "idf": vectorizer.idf_,
    "weights": model.coef_.T,
    "intercept": model.intercept_,
  }


def predict_tfidf(arrays: Arrays, texts: Sequence[str]) -> np.ndarray:
  """Returns the ridge's values, [N, T]."""
  vectorizer = _make_vectorizer([*map(str, arrays["words"])])
  vectorizer.idf_ = arrays["idf"]
  return predict_linear(arrays, vectorizer.transform(texts))


def _make_vectorizer(words: Sequence[str] | None = None) -> TfidfVectorizer:
  return TfidfVectorizer(ngram_range=(1, 2), vocabulary=words)


def fit_lexicon(
  texts: Sequence[str], targets: np.ndarray, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns a line through the logarithm of the longest span named."""
  del hyper, seed
  weights, *_ = np.linalg.lstsq(_span_features(texts), targets)
  return {"weights": weights, "intercept": np.zeros(targets.shape[1])}


def predict_lexicon(arrays: Arrays, texts: Sequence[str]) -> np.ndarray:
  """Returns the line's values; texts without a span share one, [N, T]."""
  return predict_linear(arrays, _span_features(texts))


def _span_features(texts: Sequence[str]) -> np.ndarray:
  """Returns [N, 3]: whether no span is named, whether one is, its log."""
  rows = []
  for text in texts:
    spans = durations.extract_durations(text)
    rows.append([0, 1, np.log(max(spans))] if spans else [1, 0, 0])
  return np.array(rows, np.float64)


REGRESSORS = {
  "linear": Regressor("vectors", fit_linear, predict_linear),
  "svr": Regressor("vectors", fit_svr, predict_svr),
  "xgboost": Regressor("vectors", fit_xgboost, predict_xgboost),
  "mean": Regressor("texts", fit_mean, predict_constant),
  "median": Regressor("texts", fit_median, predict_constant),
  "nearest": Regressor("vectors", fit_nearest, predict_nearest),
  "tfidf": Regressor("texts", fit_tfidf, predict_tfidf),
  "lexicon": Regressor("texts", fit_lexicon, predict_lexicon),
}
