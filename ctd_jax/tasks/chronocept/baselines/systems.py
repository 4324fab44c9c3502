"""Baselines by their config: inputs, fitting and prediction.

Regressors and networks share one interface: a fit returns named arrays, and a
prediction reads them. Both are trained, saved, loaded and searched alike.

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

from ctd_jax.tasks.chronocept.baselines import network_training, regressors
from ctd_jax.tasks.chronocept.baselines.features import FrozenFeatures
from ctd_jax.tasks.chronocept.baselines.networks import (
  BiLstm,
  EncoderRegression,
  FeedForward,
)
from ctd_jax.tasks.chronocept.baselines.regressors import Arrays

# Kinds of input; see `make_inputs`.
TEXTS, VECTORS, SEQUENCE, TOKENS = "texts", "vectors", "sequence", "tokens"
_NETWORK_INPUT_KINDS = {"ffnn": VECTORS, "bilstm": SEQUENCE, "bert": TOKENS}
SYSTEM_KINDS = (*_NETWORK_INPUT_KINDS, *regressors.REGRESSORS)

FitFunction = Callable[
  [Mapping[str, Any], Mapping[str, np.ndarray], str, int],
  tuple[Arrays, dict[str, Any]],
]


@dataclasses.dataclass(frozen=True)
class BaselineSystem:
  """A baseline.

  Attributes:
    input_kind: TEXTS, VECTORS, SEQUENCE or TOKENS.
    fit: (inputs by split, targets by split, selection of the epoch, seed) ->
      (arrays, history of the training); the history of a regressor is {}.
    predict: (arrays, inputs) -> [N, T].
    has_epochs: whether the training has epochs to select from.
  """

  input_kind: str
  fit: FitFunction
  predict: Callable[[Arrays, Any], np.ndarray]
  has_epochs: bool


def make_system(
  hyper: ml_collections.ConfigDict, features: FrozenFeatures
) -> BaselineSystem:
  """Returns the system of `config.model`.

  Args:
    hyper: kind and hyperparameters.
    features: of the frozen encoder, from which `bert` is initialised.

  Raises:
    ValueError: if the kind is unknown.
  """
  if hyper.kind in _NETWORK_INPUT_KINDS:
    return _make_network_system(hyper, features)
  if hyper.kind not in regressors.REGRESSORS:
    raise ValueError(
      f"config.model.kind={hyper.kind!r}: expected one of "
      f"{', '.join(SYSTEM_KINDS)}"
    )
  regressor = regressors.REGRESSORS[hyper.kind]
  options = {k: v for k, v in hyper.items() if k != "kind"}

  def fit(inputs, targets, selection, seed):
    del selection  # regressors have no epochs
    train_inputs = inputs["train"][regressor.input_kind]
    return regressor.fit(train_inputs, targets["train"], options, seed), {}

  def predict(arrays, inputs):
    return regressor.predict(arrays, inputs[regressor.input_kind])

  return BaselineSystem(regressor.input_kind, fit, predict, has_epochs=False)


def _make_network_system(
  hyper: ml_collections.ConfigDict, features: FrozenFeatures
) -> BaselineSystem:
  model = _make_network(hyper, features)

  def fit(inputs, targets, selection, seed):
    params = network_training.init_params(model, inputs["train"], seed)
    if hyper.kind == "bert":
      # Random head, pretrained encoder.
      params = {**params, "encoder": features.encoder.params}
    network = network_training.train_network(
      model, params, inputs, targets, hyper, selection, seed
    )
    # "encoder/layer_0/..." -> array: .npz has no nested names.
    arrays = traverse_util.flatten_dict(jax.device_get(network.params), sep="/")
    history = dataclasses.asdict(network)
    del history["params"]  # saved as arrays
    return arrays, history

  def predict(arrays, inputs):
    params = traverse_util.unflatten_dict(arrays, sep="/")
    return network_training.predict_targets(model, params, inputs)

  return BaselineSystem(
    _NETWORK_INPUT_KINDS[hyper.kind], fit, predict, has_epochs=True
  )


def _make_network(
  hyper: ml_collections.ConfigDict, features: FrozenFeatures
) -> nn.Module:
  if hyper.kind == "ffnn":
    return FeedForward(hyper.hidden_size, hyper.dropout)
  if hyper.kind == "bilstm":
    return BiLstm(hyper.hidden_size)
  return EncoderRegression(features.encoder.config, hyper.dropout)


def make_inputs(
  input_kind: str,
  rows: list[tuple[str, ...]],
  features: FrozenFeatures,
  pad_to_max_length: bool,
) -> dict[str, Any]:
  """Returns the inputs of a system.

  Args:
    input_kind: see `BaselineSystem`.
    rows: texts of the fields of N samples, the parent first.
    features: of the frozen encoder.
    pad_to_max_length: see `FrozenFeatures.encode_sequences`.

  Returns:
    Name -> N parent texts, or an array of N rows. The names of arrays are
    those of the arguments of the networks in `networks`.
  """
  if input_kind == TEXTS:
    return {TEXTS: [row[0] for row in rows]}
  if input_kind == VECTORS:
    return {VECTORS: features.encode_vectors(rows)}
  if input_kind == TOKENS:
    return features.tokenize_rows(rows)
  states, lengths = features.encode_sequences(rows, pad_to_max_length)
  return {"states": states, "lengths": lengths}
