"""The three small convex models that weigh evidence.

Why: how much a piece of evidence is worth is learned, not set by hand: whether
a text can answer (`Logistic`), what two texts with shared wording have in
common (`Binned`), and how the experts' scores add up over the years
(`pool_weights`). All are fitted by L-BFGS in float64 and have a few hundred
parameters at most, style apart. Called by the experts of this package.

Axes: n examples, f features, c classes, Y years.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.optimize
import scipy.sparse
from scipy.special import expit

_QUANTILES = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_ITERATIONS = 150
_BINNED_ITERATIONS = 60  # of a model of bins, near enough to the optimum
_BLOCK = 65_536  # examples whose bins are held at once
_MAX_OTHERS = 100_000  # examples that `thin` keeps of the other classes


@dataclasses.dataclass(frozen=True)
class LogisticRegression:
  """A linear classifier of two classes over sparse features."""

  weights: np.ndarray
  bias: float

  @classmethod
  def fit(
    cls, features: scipy.sparse.csr_array, labels: np.ndarray, penalty: float
  ) -> LogisticRegression:
    """Returns the classifier of greatest likelihood.

    Args:
      features: [n, f].
      labels: bool [n].
      penalty: of the squared weights, for the whole sample.
    """
    signs = np.where(labels, 1.0, -1.0)

    def loss(values):
      margins = signs * (features @ values[:-1] + values[-1])
      slopes = -signs * expit(-margins)
      gradient = np.append(features.T @ slopes, slopes.sum())
      gradient[:-1] += penalty * values[:-1]
      total = np.logaddexp(0, -margins).sum()
      return total + penalty / 2 * values[:-1] @ values[:-1], gradient

    values = _minimize(loss, np.zeros(features.shape[1] + 1))
    return cls(values[:-1], float(values[-1]))

  def predict_log_probability(
    self, features: scipy.sparse.csr_array
  ) -> np.ndarray:
    """Returns the log of the chance of class 1, [n]."""
    return -np.logaddexp(0, -(features @ self.weights + self.bias))


@dataclasses.dataclass(frozen=True)
class BinnedSoftmax:
  """Softmax regression on features cut into bins.

  A bin has its own weight, so a chance may rise and fall with a feature.

  Attributes:
    edges: of the bins of each feature.
    center: mean of each feature; `scale` its standard deviation.
    weights: [bins + f + 1, c].
  """

  edges: tuple[np.ndarray, ...]
  center: np.ndarray
  scale: np.ndarray
  weights: np.ndarray

  @classmethod
  def fit(
    cls,
    features: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    weights: np.ndarray | None = None,
    penalty: float = 1.0,
  ) -> BinnedSoftmax:
    """Returns the model of greatest likelihood.

    Args:
      features: [n, f].
      labels: int [n], from 0.
      num_classes: number of classes c.
      weights: how many examples each stands for, [n]; 1 by default.
      penalty: of the squared weights, for the whole sample.
    """
    if not len(features):
      features, labels = np.zeros((1, features.shape[1])), np.array([0])
      weights = None
    if weights is None:
      weights = np.ones(len(features))
    weights = weights.astype(np.float32)[:, None]
    center, scale = features.mean(0), features.std(0) + 1e-6
    edges = tuple(
      np.unique(np.quantile(column, _QUANTILES))
      for column in ((features - center) / scale).T
    )
    unfitted_model = cls(edges, center, scale, np.zeros((0, num_classes)))
    design = unfitted_model._make_design(features)
    targets = weights * np.eye(num_classes, dtype=np.float32)[labels]

    def loss(values):
      matrix = values.reshape(-1, num_classes)
      logs = _log_softmax(design @ matrix.astype(np.float32))
      slopes = weights * np.exp(logs) - targets
      gradient = design.T @ slopes + penalty * matrix
      total = -np.sum(logs * targets, dtype=np.float64)
      return total + penalty / 2 * np.sum(matrix**2), gradient.ravel()

    values = _minimize(
      loss, np.zeros(design.shape[1] * num_classes), _BINNED_ITERATIONS
    )
    return dataclasses.replace(
      unfitted_model, weights=values.reshape(-1, num_classes)
    )

  def predict_probability(self, features: np.ndarray) -> np.ndarray:
    """Returns the chance of every class, float32 [n, c]."""
    result = np.zeros((len(features), self.weights.shape[1]), np.float32)
    weights = self.weights.astype(np.float32)
    for start in range(0, len(features), _BLOCK):
      block = slice(start, start + _BLOCK)
      scores = self._make_design(features[block]) @ weights
      result[block] = np.exp(_log_softmax(scores))
    return result

  def _make_design(self, features: np.ndarray) -> np.ndarray:
    scaled = ((features - self.center) / self.scale).astype(np.float32)
    blocks = [scaled, np.ones((len(scaled), 1), np.float32)]
    for column, edges in zip(scaled.T, self.edges, strict=True):
      bin_indices = np.searchsorted(edges, column, side="right")
      blocks.append(np.eye(len(edges) + 1, dtype=np.float32)[bin_indices])
    return np.concatenate(blocks, axis=1)


def fit_pool_weights(
  features: np.ndarray,
  base: np.ndarray,
  years: np.ndarray,
  penalty: float,
) -> np.ndarray:
  """Returns the weights of a log-linear pool of experts, float64 [f].

  The pool is log p(year) = base + weights . features + constant.

  Args:
    features: scores of the experts, float32 [f, n, Y].
    base: what is not weighed, [n, Y].
    years: true year of each example, int [n].
    penalty: of the squared weights, per example.
  """
  flat = features.reshape(len(features), -1)
  examples = np.arange(len(years))

  def loss(values):
    scores = base + (values.astype(np.float32) @ flat).reshape(base.shape)
    logs = _log_softmax(scores)
    slopes = np.exp(logs)
    slopes[examples, years] -= 1
    gradient = flat @ slopes.ravel().astype(np.float32) / len(years)
    total = -logs[examples, years].mean(dtype=np.float64)
    return total + penalty * values @ values, gradient + 2 * penalty * values

  return _minimize(loss, np.full(len(features), 0.02))


def subsample_examples(
  is_majority: np.ndarray,
  hashes: np.ndarray,
  max_majority: int,
  max_others: int = _MAX_OTHERS,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns which examples to keep, and how many each stands for.

  Of a class that swamps the others a share is enough, and of all others a
  number that does not grow with the gallery. Which ones is decided by keys made
  of the texts, so the order of the records plays no part.

  Args:
    is_majority: whether an example is of that class, bool [n].
    hashes: of the examples, uint32 [n].
    max_majority: examples of that class to keep, roughly.
    max_others: examples of the other classes to keep, roughly.
  """
  num_majority = int(is_majority.sum())
  majority_step = max(1, num_majority // max_majority)
  other_step = max(1, (len(is_majority) - num_majority) // max_others)
  steps = np.where(is_majority, np.uint32(majority_step), np.uint32(other_step))
  sample = np.flatnonzero(hashes % steps == 0)
  return sample, steps[sample].astype(int)


def _log_softmax(scores: np.ndarray) -> np.ndarray:
  scores = scores - scores.max(axis=1, keepdims=True)
  return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def _minimize(
  loss, start: np.ndarray, iterations: int = _ITERATIONS
) -> np.ndarray:
  def loss_in_float64(values):
    total, gradient = loss(values)
    return float(total), np.asarray(gradient, np.float64)

  return scipy.optimize.minimize(
    loss_in_float64,
    start,
    jac=True,
    method="L-BFGS-B",
    options={"maxiter": iterations},
  ).x
