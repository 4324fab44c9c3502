"""A baseline by its config: what it reads, how it is fitted, what it predicts.

Why: regressors and networks are trained, saved, loaded and searched alike
once both are named arrays. Called by `experiment`, `search` and `predictor`.

Axes: N samples, T = 3 targets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import ml_collections
import numpy as np
from flax import linen as nn
from flax import traverse_util

from ctd_jax.tasks.chronocept import network_training, regressors
from ctd_jax.tasks.chronocept.features import FrozenFeatures
from ctd_jax.tasks.chronocept.networks import (
  BiLstm,
  EncoderRegression,
  FeedForward,
)
from ctd_jax.tasks.chronocept.regressors import Arrays

# What an input is made of; see `inputs`.
TEXTS, VECTORS, SEQUENCE, TOKENS = "texts", "vectors", "sequence", "tokens"
_NETWORK_READS = {"ffnn": VECTORS, "bilstm": SEQUENCE, "bert": TOKENS}
KINDS = (*_NETWORK_READS, *regressors.REGRESSORS)

Fit = Callable[
  [Mapping[str, Any], Mapping[str, np.ndarray], str, int],
  tuple[Arrays, dict[str, Any]],
]


@dataclasses.dataclass(frozen=True)
class System:
  """A baseline.

  Attributes:
    reads: TEXTS, VECTORS, SEQUENCE or TOKENS.
    fit: (inputs by split, targets by split, selection of the epoch, seed) ->
      (arrays, history of the training, {} if it has none).
    predict: (arrays, inputs) -> [N, T].
    has_epochs: whether there is one to select by validation.
  """

  reads: str
  fit: Fit
  predict: Callable[[Arrays, Any], np.ndarray]
  has_epochs: bool


def make_system(
  hyper: ml_collections.ConfigDict, features: FrozenFeatures
) -> System:
  """Returns the system of `config.model`.

  Args:
    hyper: kind and hyperparameters.
    features: whose encoder `bert` starts from.

  Raises:
    ValueError: if the kind is unknown.
  """
  if hyper.kind in _NETWORK_READS:
    return _network_system(hyper, features)
  if hyper.kind not in regressors.REGRESSORS:
    raise ValueError(
      f"config.model.kind={hyper.kind!r}: expected one of {', '.join(KINDS)}"
    )
  regressor = regressors.REGRESSORS[hyper.kind]
  options = {k: v for k, v in hyper.items() if k != "kind"}

  def fit(inputs, targets, selection, seed):
    del selection  # there are no epochs
    read = inputs["train"][regressor.reads]
    return regressor.fit(read, targets["train"], options, seed), {}

  def predict(arrays, found):
    return regressor.predict(arrays, found[regressor.reads])

  return System(regressor.reads, fit, predict, has_epochs=False)


def _network_system(
  hyper: ml_collections.ConfigDict, features: FrozenFeatures
) -> System:
  model = _network(hyper, features)

  def fit(inputs, targets, selection, seed):
    params = network_training.init(model, inputs["train"], seed)
    if hyper.kind == "bert":
      params = {**params, "encoder": features.encoder.params}
    trained = network_training.train(
      model, params, inputs, targets, hyper, selection, seed
    )
    flat = traverse_util.flatten_dict(jax.device_get(trained.params), sep="/")
    history = dataclasses.asdict(trained)
    del history["params"]
    return flat, history

  def predict(arrays, inputs):
    params = traverse_util.unflatten_dict(arrays, sep="/")
    return network_training.predict(model, params, inputs)

  return System(_NETWORK_READS[hyper.kind], fit, predict, has_epochs=True)


def _network(
  hyper: ml_collections.ConfigDict, features: FrozenFeatures
) -> nn.Module:
  if hyper.kind == "ffnn":
    return FeedForward(hyper.hidden_size, hyper.dropout)
  if hyper.kind == "bilstm":
    return BiLstm(hyper.hidden_size)
  return EncoderRegression(features.encoder.config, hyper.dropout)


def inputs(
  reads: str,
  rows: list[tuple[str, ...]],
  features: FrozenFeatures,
  padded: bool,
) -> dict[str, Any]:
  """Returns what a system that reads `reads` gets of the fields.

  Args:
    reads: see `System`.
    rows: texts of the fields of N samples, the parent first.
    features: of the frozen encoder.
    padded: see `FrozenFeatures.sequences`.

  Returns:
    Name -> one entry for each sample: the parent texts, or arrays as the
    networks of `models.validity` name them.
  """
  if reads == TEXTS:
    return {TEXTS: [row[0] for row in rows]}
  if reads == VECTORS:
    return {VECTORS: features.vectors(rows)}
  if reads == TOKENS:
    return features.tokens(rows)
  states, lengths = features.sequences(rows, padded)
  return {"states": states, "lengths": lengths}
