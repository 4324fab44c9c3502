"""Scaling of targets to z-scores and back.

The standard deviations of the three targets differ by a factor of fifteen, so
models predict z-scores. The published protocol scales each split by its own
mean and deviation, the test split included: every scored target then has
variance 1 and R2 = 1 - MSE, but statistics of the test set leak into the
score, and no prediction can be mapped back. `fit_split_scalers` reproduces
this; `fit_train_scalers` uses the train split alone.

The scalers are of two arrays that are saved with each model. scikit-learn's
StandardScaler computes means in another order, which changes the last digits
of the published rows, so plain NumPy is used.

Axes: N samples, T = 3 targets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float


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
    sd = targets.std(axis=0)  # divided by N, as published
    if not (sd > 0).all():
      raise ValueError(
        f"target {int(np.argmin(sd))} of {len(targets)} samples does not vary; "
        "z-scores need at least two values"
      )
    return cls(targets.mean(axis=0), sd)

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
