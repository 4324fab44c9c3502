"""Regression: the three small convex models that weigh evidence.

Axes: n examples, f features, c classes, Y years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.optimize
import scipy.sparse
from jaxtyping import Bool, Float, Float32, Float64, Int, UInt32
from scipy.special import expit

# Edges of the bins: finer at the top, where overlaps that matter lie.
_QUANTILES = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_ITERATIONS = 150  # of L-BFGS, at most
_BINNED_ITERATIONS = 60  # of a model of bins, near enough to the optimum
_BLOCK = 65_536  # examples whose bins are held at once
_MAX_OTHERS = 100_000  # examples kept of the classes other than the majority
# Where the descent starts: all experts count a little.
_FIRST_POOL_WEIGHT = 0.02


@dataclasses.dataclass(frozen=True)
class LogisticRegression:
  """A linear classifier of two classes over sparse features."""

  weights: Float[np.ndarray, " f"]  # of the features
  bias: float  # log odds of class 1 without a feature

  @classmethod
  def fit(
    cls,
    features: scipy.sparse.csr_array,
    labels: Bool[np.ndarray, " n"],
    penalty: float,
  ) -> LogisticRegression:
    """Returns the likeliest classifier, with `penalty` on squared weights."""
    signs = np.where(labels, 1.0, -1.0)

    # The last value is the bias, which is not penalised.
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
  ) -> Float[np.ndarray, " n"]:
    """Returns the log of the chance of class 1."""
    return -np.logaddexp(0, -(features @ self.weights + self.bias))


@dataclasses.dataclass(frozen=True)
class BinnedSoftmax:
  """Softmax regression on features cut into bins."""

  edges: tuple[np.ndarray, ...]  # of the bins of each scaled feature
  center: Float[np.ndarray, " f"]  # mean of each feature
  scale: Float[np.ndarray, " f"]  # standard deviation of each feature
  # Of the features, the bias and the bins, in this order.
  weights: Float[np.ndarray, "b c"]

  @classmethod
  def fit(
    cls,
    features: Float[np.ndarray, "n f"],
    labels: Int[np.ndarray, " n"],
    num_classes: int,
    weights: Int[np.ndarray, " n"] | None = None,
    penalty: float = 1.0,
  ) -> BinnedSoftmax:
    """Returns the likeliest model, with `penalty` on squared weights.

    `weights` is how many examples each one stands for; 1 by default.
    """
    # Without an example the model is that of one of class 0.
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

  def predict_probability(
    self, features: Float[np.ndarray, "n f"]
  ) -> Float32[np.ndarray, "n c"]:
    """Returns the chance of every class."""
    result = np.zeros((len(features), self.weights.shape[1]), np.float32)
    weights = self.weights.astype(np.float32)
    for start in range(0, len(features), _BLOCK):
      block = slice(start, start + _BLOCK)
      scores = self._make_design(features[block]) @ weights
      result[block] = np.exp(_log_softmax(scores))
    return result

  def _make_design(self, features: np.ndarray) -> np.ndarray:
    """Returns scaled features, a column of ones, and the bins, [n, b]."""
    scaled = ((features - self.center) / self.scale).astype(np.float32)
    blocks = [scaled, np.ones((len(scaled), 1), np.float32)]
    for column, edges in zip(scaled.T, self.edges, strict=True):
      bin_indices = np.searchsorted(edges, column, side="right")
      blocks.append(np.eye(len(edges) + 1, dtype=np.float32)[bin_indices])
    return np.concatenate(blocks, axis=1)


def fit_pool_weights(
  features: Float32[np.ndarray, "f n Y"],
  base: Float[np.ndarray, "n Y"],
  years: Int[np.ndarray, " n"],
  penalty: float,
) -> Float64[np.ndarray, " f"]:
  """Returns weights with log p(year) = base + weights . features + constant.

  `penalty` multiplies the squared weights, per example.
  """
  flat = features.reshape(len(features), -1)
  examples = np.arange(len(years))

  def loss(values):
    scores = base + (values.astype(np.float32) @ flat).reshape(base.shape)
    logs = _log_softmax(scores)
    # Gradient of -log softmax: chance of each year, less 1 at the true one.
    slopes = np.exp(logs)
    slopes[examples, years] -= 1
    gradient = flat @ slopes.ravel().astype(np.float32) / len(years)
    total = -logs[examples, years].mean(dtype=np.float64)
    return total + penalty * values @ values, gradient + 2 * penalty * values

  return _minimize(loss, np.full(len(features), _FIRST_POOL_WEIGHT))


def subsample_examples(
  is_majority: Bool[np.ndarray, " n"],
  hashes: UInt32[np.ndarray, " n"],
  max_majority: int,
  max_others: int = _MAX_OTHERS,
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
  """Returns the indices of a sample, and how many examples each represents.

  About `max_majority` and `max_others` of the two kinds are kept.
  """
  num_majority = int(is_majority.sum())
  majority_step = max(1, num_majority // max_majority)
  other_step = max(1, (len(is_majority) - num_majority) // max_others)
  steps = np.where(is_majority, np.uint32(majority_step), np.uint32(other_step))
  # Of hashes about one in `step` is a multiple of it.
  sample = np.flatnonzero(hashes % steps == 0)
  return sample, steps[sample].astype(int)


def _log_softmax(scores: np.ndarray) -> np.ndarray:
  scores = scores - scores.max(axis=1, keepdims=True)
  return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def _minimize(
  loss: Callable,
  start: np.ndarray,
  iterations: int = _ITERATIONS,
) -> np.ndarray:
  """Returns the argument of the least loss, which gives value and gradient."""

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
