"""Targets in units of their own spread, and back.

Why: the three targets differ in spread by a factor of fifteen, so all models
predict z-scores. Whose mean and spread is the question. The published
protocol takes each split's own, test included: the variance of every scored
target is then 1 and R2 = 1 - MSE, but the test set has told its mean and
spread, and no prediction can be mapped back. Here that is `per_split`; what
is honest is fitted on the train split alone and stored with the model.
Called by `validity.experiment`.

Axes: N samples, T = 3 targets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np


@dataclasses.dataclass(frozen=True)
class TargetScaler:
  """Mean and population standard deviation of each target.

  Attributes:
    mean: [T].
    sd: [T], positive.
  """

  mean: np.ndarray
  sd: np.ndarray

  @classmethod
  def fit(cls, targets: np.ndarray) -> TargetScaler:
    """Returns the scaler of targets [N, T].

    Raises:
      ValueError: if a target does not vary.
    """
    sd = targets.std(axis=0)
    if not (sd > 0).all():
      raise ValueError(
        f"target {int(np.argmin(sd))} of {len(targets)} samples does not vary; "
        "z-scores need at least two values"
      )
    return cls(targets.mean(axis=0), sd)

  @classmethod
  def identity(cls, width: int) -> TargetScaler:
    """Returns the scaler that changes nothing: raw units."""
    return cls(np.zeros(width), np.ones(width))

  def transform(self, targets: np.ndarray) -> np.ndarray:
    """Returns z-scores of targets [N, T]."""
    return (targets - self.mean) / self.sd

  def inverse(self, scores: np.ndarray) -> np.ndarray:
    """Returns targets of z-scores [N, T]."""
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
  return dict.fromkeys(targets, TargetScaler.fit(targets["train"]))
