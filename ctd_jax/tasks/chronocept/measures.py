"""Measures of predicted curve parameters, in whatever units they are given.

Why: the published figures are in z-scores of each split; honest ones are in
raw units and in z-scores of the train split. The same functions serve all, so
that figures differ only in what was put in. What a prediction means for the
curve is measured by `curve_measures`. Called by `validity.experiment`.

The published columns are six, the facts in them three: R2 is 1 - MSE where
each target has variance 1, "NLL" is a function of MSE (`paper_nll`), and
"CRPS" of a point is its absolute error, that is MAE.

Axes: N samples, T = 3 targets (location, scale, skewness).

Source: Chronocept, arXiv 2505.07637v1, section on evaluation; definitions as
in the authors' code (github.com/krishgoel/chronocept-baseline-models, fc375d6).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.stats

from ctd_jax_datasets.chronocept.samples import TARGETS

ALL_TARGETS = "all"
TARGET_FAMILIES = (ALL_TARGETS, *TARGETS)
# Of each target; "all" is the mean over targets.
POINT_MEASURES = ("mse", "mae", "r2", "spearman", "pearson")
PAPER_NLL = "paper_nll"


def compute_point_measures(
  truth_NxT: np.ndarray, predicted_NxT: np.ndarray
) -> dict[str, dict[str, float]]:
  """Returns measure -> family -> value.

  A rank or linear correlation with what does not vary is 0: a constant orders
  nothing.

  Args:
    truth_NxT: annotated targets, [N, T].
    predicted_NxT: [N, T], in the same units.

  Returns:
    `POINT_MEASURES` of each target and, as "all", their mean over targets;
    `paper_nll` of "all" alone.

  Raises:
    ValueError: if shapes differ, there are fewer than two samples, or a value
      is not finite.
  """
  truth, predicted = _validate_predictions(truth_NxT, predicted_NxT)
  values_by_measure: dict[str, dict[str, float]] = {
    name: {} for name in POINT_MEASURES
  }
  for column, target in enumerate(TARGETS):
    for name, value in _target_measures(
      truth[:, column], predicted[:, column]
    ).items():
      values_by_measure[name][target] = value
  for name in POINT_MEASURES:
    values_by_measure[name][ALL_TARGETS] = float(
      np.mean([values_by_measure[name][t] for t in TARGETS])
    )
  values_by_measure[PAPER_NLL] = {ALL_TARGETS: paper_nll(truth, predicted)}
  return values_by_measure


def compute_squared_errors(
  truth_NxT: np.ndarray, predicted_NxT: np.ndarray
) -> np.ndarray:
  """Returns the mean squared error of each sample over its targets, [N].

  What a paired bootstrap or permutation test of two systems resamples; its
  mean is the MSE of "all".

  Args:
    truth_NxT: annotated targets, [N, T].
    predicted_NxT: [N, T], in the same units.
  """
  truth, predicted = _validate_predictions(truth_NxT, predicted_NxT)
  return np.mean((truth - predicted) ** 2, axis=1)


def paper_nll(truth_NxT: np.ndarray, predicted_NxT: np.ndarray) -> float:
  """Returns what the paper calls NLL.

  One standard deviation is taken from the residuals of all samples and targets
  together, then the mean negative log density of these same residuals under
  a normal distribution with that deviation and mean 0. It knows nothing of
  the skew-normal and says nothing of calibration.

  Args:
    truth_NxT: annotated targets, [N, T].
    predicted_NxT: [N, T], in the same units.
  """
  residuals = np.asarray(truth_NxT, float) - np.asarray(predicted_NxT, float)
  sd = residuals.std()
  return float(-scipy.stats.norm.logpdf(residuals, 0, sd).mean())


def paper_nll_of_mse(mse: float) -> float:
  """Returns `paper_nll` where the residuals of all targets have mean 0.

  0.5 ln(2 pi e MSE): the published values follow from the published MSE.
  """
  return 0.5 * math.log(2 * math.pi * math.e * mse)


def _validate_predictions(
  truth_NxT: np.ndarray, predicted_NxT: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  truth = np.asarray(truth_NxT, np.float64)
  predicted = np.asarray(predicted_NxT, np.float64)
  if truth.shape != predicted.shape or truth.shape[1:] != (len(TARGETS),):
    raise ValueError(
      f"targets {truth.shape} and predictions {predicted.shape} should both be "
      f"[N, {len(TARGETS)}]"
    )
  if len(truth) < 2:
    raise ValueError(f"{len(truth)} samples; correlations need at least 2")
  for name, values in (("target", truth), ("prediction", predicted)):
    bad_indices = np.argwhere(~np.isfinite(values))
    if len(bad_indices):
      row, column = bad_indices[0]
      raise ValueError(
        f"{name} {TARGETS[column]} of sample {row} is {values[row, column]}; "
        "expected a finite number"
      )
  return truth, predicted


def _target_measures(
  truth: np.ndarray, predicted: np.ndarray
) -> dict[str, float]:
  mse = np.mean((truth - predicted) ** 2)
  is_varying = np.ptp(truth) > 0 and np.ptp(predicted) > 0
  spearman = pearson = 0.0
  if is_varying:
    spearman = scipy.stats.spearmanr(truth, predicted).statistic
    pearson = scipy.stats.pearsonr(truth, predicted).statistic
  return {
    "mse": float(mse),
    "mae": float(np.mean(np.abs(truth - predicted))),
    # As scikit-learn: a constant truth that is not met exactly scores 0.
    "r2": float(1 - mse / truth.var()) if truth.var() > 0 else float(mse == 0),
    "spearman": float(spearman),
    "pearson": float(pearson),
  }
