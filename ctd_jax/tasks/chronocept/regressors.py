"""Regression baselines of validity curves, published and trivial.

A baseline is a pair of functions: `fit` returns named arrays and `predict`
reads them, so that models are saved without pickled code. `linear`, `svr` and
`xgboost` are published and read vectors of the frozen encoder. The others are
lower bounds.
Axes: N samples, F features, T = 3 targets.
Source: Chronocept, arXiv 2505.07637v1, section on baselines.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xgboost
from jaxtyping import Float
from sklearn import linear_model, neighbors, svm
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import pairwise

Arrays = dict[str, np.ndarray]
Hyperparameters = Mapping[str, Any]
Vectors = Float[np.ndarray, "N F"]
Targets = Float[np.ndarray, "N T"]
_RIDGE_STRENGTHS = np.logspace(-2, 3, 11)  # half a decade apart


@dataclasses.dataclass(frozen=True)
class Regressor:
  """A baseline."""

  input_kind: str  # "vectors" (fp32 [N, F]) or "texts" (N parent texts)
  # (inputs, targets [N, T], hyperparameters, seed) -> arrays.
  fit: Callable[[Any, np.ndarray, Hyperparameters, int], Arrays]
  predict: Callable[[Arrays, Any], np.ndarray]  # (arrays, inputs) -> [N, T]


def fit_linear(
  vectors: Vectors, targets: Targets, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns the least-squares fit, the one of least norm if F > N."""
  # float64: with more features than samples the system is ill-conditioned.
  model = linear_model.LinearRegression(fit_intercept=hyper["fit_intercept"])
  model.fit(np.asarray(vectors, np.float64), targets)
  return {
    "weights": model.coef_.T,
    "intercept": np.broadcast_to(model.intercept_, targets.shape[1]),
  }


def predict_linear(arrays: Arrays, vectors: Vectors) -> Targets:
  """Returns the values of the linear map."""
  return vectors @ arrays["weights"] + arrays["intercept"]


def fit_svr(
  vectors: Vectors, targets: Targets, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns a support vector machine for each target.

  Args:
    hyper: C, epsilon (in units of the targets), kernel ("rbf" or "linear").
  """
  arrays = {"kernel": np.array(hyper["kernel"])}
  for number, column in enumerate(targets.T):
    model = svm.SVR(
      C=hyper["C"], epsilon=hyper["epsilon"], kernel=hyper["kernel"]
    ).fit(vectors, column)
    arrays[f"support_{number}"] = model.support_vectors_
    arrays[f"weights_{number}"] = model.dual_coef_[0]
    arrays[f"intercept_{number}"] = model.intercept_[0]
  # The value of scikit-learn's default gamma="scale".
  arrays["gamma"] = np.array(1 / (vectors.shape[1] * vectors.var()))
  return arrays


def predict_svr(arrays: Arrays, vectors: Vectors) -> Targets:
  """Returns the values that the machines predict."""
  options = {}
  if arrays["kernel"] == "rbf":
    options["gamma"] = float(arrays["gamma"])
  columns = []
  for number in range(sum(name.startswith("support_") for name in arrays)):
    if not len(arrays[f"support_{number}"]):
      # Every error was within epsilon, so the machine is a constant.
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
  vectors: Vectors, targets: Targets, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns boosted trees for each target, serialised as UBJSON.

  Args:
    seed: seed for xgboost, which draws nothing with these settings.
  """
  arrays = {}
  for number, column in enumerate(targets.T):
    model = xgboost.XGBRegressor(
      **hyper, objective="reg:squarederror", random_state=seed, n_jobs=1
    ).fit(vectors, column)  # one thread: sums in one order, same trees
    arrays[f"trees_{number}"] = np.frombuffer(
      model.get_booster().save_raw("ubj"), np.uint8
    )
  return arrays


def predict_xgboost(arrays: Arrays, vectors: Vectors) -> Targets:
  """Returns the values of the trees."""
  matrix = xgboost.DMatrix(vectors)
  columns = []
  for number in range(len(arrays)):
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(arrays[f"trees_{number}"].tobytes()))
    columns.append(booster.predict(matrix))
  return np.column_stack(columns)


def fit_mean(
  texts: Sequence[str], targets: Targets, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns the mean of the targets."""
  return {"constant": targets.mean(axis=0)}


def fit_median(
  texts: Sequence[str], targets: Targets, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns the median of each target."""
  return {"constant": np.median(targets, axis=0)}


def predict_constant(arrays: Arrays, texts: Sequence[str]) -> Targets:
  """Returns the same values for each text."""
  return np.tile(arrays["constant"], (len(texts), 1))


def fit_nearest(
  vectors: Vectors, targets: Targets, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns the train samples themselves."""
  return {"vectors": vectors, "targets": targets}


def predict_nearest(arrays: Arrays, vectors: Vectors) -> Targets:
  """Returns the targets of the train sample with the highest cosine."""
  return (
    neighbors.KNeighborsRegressor(1, metric="cosine", algorithm="brute")
    .fit(arrays["vectors"], arrays["targets"])
    .predict(vectors)
  )


def fit_tfidf(
  texts: Sequence[str], targets: Targets, hyper: Hyperparameters, seed: int
) -> Arrays:
  """Returns ridge regression on TF-IDF of words and pairs of words.

  The strength is chosen by leave-one-out error on the train samples.
  """
  vectorizer = _make_vectorizer()
  model = linear_model.RidgeCV(_RIDGE_STRENGTHS).fit(
    vectorizer.fit_transform(texts).toarray(), targets
  )
  return {
    "words": vectorizer.get_feature_names_out().astype(str),
    "idf": vectorizer.idf_,
    "weights": model.coef_.T,
    "intercept": model.intercept_,
  }


def predict_tfidf(arrays: Arrays, texts: Sequence[str]) -> Targets:
  """Returns the values of the ridge regression."""
  vectorizer = _make_vectorizer([*map(str, arrays["words"])])
  # Of the train texts; the vocabulary is fixed, so nothing is fitted here.
  vectorizer.idf_ = arrays["idf"]
  # Sparse [N, words], which the linear map's product takes as it is.
  return vectorizer.transform(texts) @ arrays["weights"] + arrays["intercept"]


def _make_vectorizer(words: Sequence[str] | None = None) -> TfidfVectorizer:
  return TfidfVectorizer(ngram_range=(1, 2), vocabulary=words)


REGRESSORS = {
  "linear": Regressor("vectors", fit_linear, predict_linear),
  "svr": Regressor("vectors", fit_svr, predict_svr),
  "xgboost": Regressor("vectors", fit_xgboost, predict_xgboost),
  "mean": Regressor("texts", fit_mean, predict_constant),
  "median": Regressor("texts", fit_median, predict_constant),
  "nearest": Regressor("vectors", fit_nearest, predict_nearest),
  "tfidf": Regressor("texts", fit_tfidf, predict_tfidf),
}
