"""Evaluation protocols: checks of a config, samples, targets and scalers.

`paper`: z-scores of each split by itself, the published number of tokens for
the model at hand, the last epoch. `honest`: z-scores of the train split, one
number of tokens for all models, the best epoch by validation. Their figures
have different units and must not be compared: a predictor of the train mean
has an MSE of 1 or a little more under `paper`, and of .9053 (benchmark 1) or
.8862 (benchmark 2) under `honest`.

Axes: N samples, T = 3 targets.

Source: Chronocept, arXiv 2505.07637v1, and the authors' code
(github.com/krishgoel/chronocept-baseline-models, fc375d6).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import ml_collections
import numpy as np
from jaxtyping import Float

from ctd_jax.tasks.chronocept.baselines import (
  features,
  network_training,
  scaling,
)
from ctd_jax.tasks.chronocept.baselines.scaling import TargetScaler
from ctd_jax_datasets.chronocept.samples import SPLITS, TARGETS, Sample

PAPER, HONEST = "paper", "honest"
PROTOCOLS = (PAPER, HONEST)
_MIN_TOKENS = 3  # one token of text between the two special ones
_MIN_SPLIT_SIZE = 2  # correlations and standard deviations need two samples
# FeedForward halves the width once, so its first layer needs two units.
_MIN_HYPERPARAMETERS = {"epochs": 1, "hidden_size": 2}


@dataclasses.dataclass(frozen=True)
class ProtocolData:
  """Samples and their targets under a protocol.

  Attributes:
    samples: split -> samples.
    targets: split -> raw targets, [N, T].
    score_scalers: split -> scaler of the units in which errors are measured.
    model_scalers: split -> scaler of the units that models learn and predict.
  """

  samples: Mapping[str, Sequence[Sample]]
  targets: Mapping[str, np.ndarray]
  score_scalers: Mapping[str, TargetScaler]
  model_scalers: Mapping[str, TargetScaler]

  @property
  def score_targets(self) -> dict[str, np.ndarray]:
    """Split -> targets in the units of the scores, [N, T]."""
    return _transform_by_split(self.score_scalers, self.targets)

  @property
  def model_targets(self) -> dict[str, np.ndarray]:
    """Split -> targets in the units that are learned, [N, T]."""
    return _transform_by_split(self.model_scalers, self.targets)

  def to_score_units(
    self, split: str, predicted: Float[np.ndarray, "N T"]
  ) -> Float[np.ndarray, "N T"]:
    """Returns the predictions of a split in the units of the scores.

    Args:
      split: train, validation or test.
      predicted: in the units that are learned.
    """
    return self.score_scalers[split].transform(
      self.model_scalers[split].inverse(predicted)
    )


def _transform_by_split(
  scalers: Mapping[str, TargetScaler], targets: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
  return {split: scalers[split].transform(x) for split, x in targets.items()}


def check_config(config: ml_collections.ConfigDict) -> None:
  """Checks the fields of a config before anything is computed.

  Args:
    config: see `configs/chronocept.py`.

  Raises:
    ValueError: naming the field and what would be right.
  """
  for field, allowed_values in (
    ("protocol", PROTOCOLS),
    ("axes", features.AXES_ABLATIONS),
  ):
    if config[field] not in allowed_values:
      raise ValueError(
        f"config.{field}={config[field]!r}: expected one of "
        f"{', '.join(allowed_values)}"
      )
  if not config.seeds or len(set(config.seeds)) < len(config.seeds):
    raise ValueError(f"config.seeds={config.seeds}: expected different seeds")
  for field in ("max_length", "paper_max_length"):
    if config[field] < _MIN_TOKENS:
      raise ValueError(
        f"config.{field}={config[field]}: expected at least {_MIN_TOKENS} "
        "tokens, of which two are special"
      )
  for field, least in _MIN_HYPERPARAMETERS.items():
    value = config.model.get(field, least)
    if value < least:
      raise ValueError(
        f"config.model.{field}={value}: expected at least {least}"
      )


def get_epoch_selection(config: ml_collections.ConfigDict) -> str:
  """Returns which epoch the protocol of a config selects."""
  if config.protocol == PAPER:
    return network_training.LAST_EPOCH
  return network_training.BEST_EPOCH


def make_protocol_data(
  samples: Mapping[str, Sequence[Sample]], config: ml_collections.ConfigDict
) -> ProtocolData:
  """Returns samples with the targets and the scalers of the protocol.

  Args:
    samples: split -> samples.
    config: dataset (for messages), protocol and paper_raw_targets are read.

  Raises:
    ValueError: if a split is missing or too small to be scored.
  """
  for split in SPLITS:
    size = len(samples.get(split, ()))
    if size < _MIN_SPLIT_SIZE:
      raise ValueError(
        f"{config.dataset}: split {split} has {size} samples; expected at "
        f"least {_MIN_SPLIT_SIZE}"
      )
  targets = {
    split: features.extract_targets(samples[split]) for split in SPLITS
  }
  # Train's mean and deviation for all splits: nothing of test leaks.
  if config.protocol == HONEST:
    scalers = scaling.fit_train_scalers(targets)
    return ProtocolData(samples, targets, scalers, scalers)
  scalers = scaling.fit_split_scalers(targets)
  if not config.paper_raw_targets:
    return ProtocolData(samples, targets, scalers, scalers)
  # The published BERT learns raw units but is scored in z-scores.
  raw_scalers = dict.fromkeys(SPLITS, TargetScaler.identity(len(TARGETS)))
  return ProtocolData(samples, targets, scalers, raw_scalers)
