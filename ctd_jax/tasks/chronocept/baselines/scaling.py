"""Scaling of targets to z-scores and back.

The standard deviations of the three targets differ by a factor of fifteen, so
models predict z-scores. The published protocol scales each split by its own
mean and deviation, the test split included: every scored target then has
variance 1 and R2 = 1 - MSE, but statistics of the test set leak into the
score, and no prediction can be mapped back. `fit_split_scalers` reproduces
this; `fit_train_scalers` uses the train split alone.

scikit-learn fits the scalers; a `TargetScaler` holds the two arrays that are
saved with a model.

Axes: N samples, T = 3 targets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from sklearn.preprocessing import StandardScaler


@dataclasses.dataclass(frozen=True)
class TargetScaler:
  """Mean and population standard deviation of each target.

  Attributes:
    mean: [T].
    sd: [T], positive.
  """

  mean: Float[np.ndarray, " T"]
  sd: Float[np.ndarray, " T"]

  @classmethod
  def fit(cls, targets: Float[np.ndarray, "N T"]) -> TargetScaler:
    """Returns the scaler fitted to targets.

    Raises:
      ValueError: if a target does not vary.
    """
    fitted = StandardScaler().fit(targets)
    # Its scale_ is 1 where the variance is 0, which would hide the fault.
    if not (fitted.var_ > 0).all():
      raise ValueError(
        f"target {int(np.argmin(fitted.var_))} of {len(targets)} samples does "
        "not vary; z-scores need at least two values"
      )
    return cls(fitted.mean_, fitted.scale_)

  @classmethod
  def identity(cls, width: int) -> TargetScaler:
    """Returns the scaler of raw units, which changes nothing."""
    return cls(np.zeros(width), np.ones(width))

  def transform(
    self, targets: Float[np.ndarray, "*B T"]
  ) -> Float[np.ndarray, "*B T"]:
    """Returns the z-scores of targets."""
    # [*B, T] - [T]
    return (targets - self.mean) / self.sd

  def inverse(
    self, scores: Float[np.ndarray, "*B T"]
  ) -> Float[np.ndarray, "*B T"]:
    """Returns the targets of z-scores."""
    return scores * self.sd + self.mean


def fit_split_scalers(
  targets: Mapping[str, np.ndarray],
) -> dict[str, TargetScaler]:
  """Returns each split's own scaler, as published.

  Args:
    targets: split -> [N, T].
  """
  return {split: TargetScaler.fit(values) for split, values in targets.items()}


def fit_train_scalers(
  targets: Mapping[str, np.ndarray],
) -> dict[str, TargetScaler]:
  """Returns the train split's scaler for every split.

  Args:
    targets: split -> [N, T], "train" among them.
  """
  # One scaler object for all splits.
  return dict.fromkeys(targets, TargetScaler.fit(targets["train"]))
