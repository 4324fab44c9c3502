"""Training of the networks of validity curves.

The published loops store "the best state" as a reference that further training
overwrites, so they in fact return the last epoch. Here parameters are
immutable arrays and the selection is explicit: "best" by validation MSE, or
"last" as published.

A retrieval trainer feeds batches of queries and passages through a sharded
step; these networks have at most a few thousand rows and often one batch for
each epoch, so they have a loop of their own.

Axes: N samples, B samples of a batch, T = 3 targets.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Float

from ctd_jax.utils import progress

InputArrays = Mapping[str, np.ndarray]
BEST_EPOCH, LAST_EPOCH = "best", "last"
EPOCH_SELECTIONS = (BEST_EPOCH, LAST_EPOCH)
_PREDICT_BATCH_SIZE = 128  # up to 1,152 fields for an encoder


class NetworkDivergedError(ValueError):
  """The loss of a network of validity curves is not finite."""


class OptimizerRates(NamedTuple):
  """Rates of an update, traced so that other values need no compilation.

  Attributes:
    learning_rate: of Adam.
    weight_decay: weight of the decay.
    l1: weight of the sum of absolute parameters in the loss.
  """

  learning_rate: float
  weight_decay: float
  l1: float


@dataclasses.dataclass(frozen=True)
class TrainedNetwork:
  """A trained network.

  Attributes:
    params: of the selected epoch.
    epoch: the selected epoch, counted from 1.
    train_loss: mean loss of each epoch, with the L1 penalty.
    validation_mse: after each epoch, in the units that are trained on.
  """

  params: Any
  epoch: int
  train_loss: tuple[float, ...]
  validation_mse: tuple[float, ...]


def train_network(
  model: nn.Module,
  params: Any,
  inputs: Mapping[str, InputArrays],
  targets: Mapping[str, np.ndarray],
  hyper: ml_collections.ConfigDict,
  selection: str,
  seed: int,
) -> TrainedNetwork:
  """Returns the network after `hyper.epochs` passes over the train split.

  Args:
    model: takes the arrays of an input by name, and `deterministic`.
    params: initial parameters.
    inputs: "train" and "validation" -> name -> [N, ...].
    targets: split -> [N, T], in the units that are trained on.
    hyper: epochs, batch_size (0 = the whole split), learning_rate,
      weight_decay, decoupled (AdamW; otherwise the decay passes through Adam,
      as published), l1.
    selection: "best" is the epoch of the lowest validation MSE, the earliest
      of equals; "last" is the last epoch.
    seed: of the order of batches and of dropout.

  Raises:
    NetworkDivergedError: if the loss stops being finite.
  """
  rates = OptimizerRates(hyper.learning_rate, hyper.weight_decay, hyper.l1)
  state = params, make_optimizer(rates, hyper.decoupled).init(params)
  update = _make_update(model, hyper.decoupled)
  # The order of batches by NumPy on the host, dropout by JAX on the device.
  rng = np.random.default_rng(seed)
  key = jax.random.key(seed)
  train_inputs = inputs["train"]
  full_batch = None if hyper.batch_size else jax.device_put(dict(train_inputs))
  train_losses, validation_mses = [], []
  selected_params, epoch = params, 0
  bar = progress.Progress(
    range(1, hyper.epochs + 1), desc="train", unit="epoch", leave=False
  )
  for epoch_number in bar:
    epoch_loss = 0.0  # mean over batches
    batches = _epoch_batches(len(targets["train"]), hyper.batch_size, rng)
    for rows in batches:
      key, dropout_key = jax.random.split(key)
      batch = full_batch or {
        name: array[rows] for name, array in train_inputs.items()
      }
      state, loss = update(
        state, batch, targets["train"][rows], dropout_key, rates
      )
      epoch_loss += float(loss) / len(batches)
    if not np.isfinite(epoch_loss):
      raise NetworkDivergedError(
        f"epoch {epoch_number}: the loss is not finite; lower "
        "config.model.learning_rate"
      )
    train_losses.append(epoch_loss)
    predictions = predict_targets(model, state[0], inputs["validation"])
    validation_mses.append(
      float(np.mean((predictions - targets["validation"]) ** 2))
    )
    bar.set_postfix(
      loss=f"{epoch_loss:.3f}", validation=f"{validation_mses[-1]:.3f}"
    )
    if selection == LAST_EPOCH or validation_mses[-1] < min(
      validation_mses[:-1], default=np.inf
    ):
      selected_params, epoch = state[0], epoch_number
  return TrainedNetwork(
    selected_params, epoch, tuple(train_losses), tuple(validation_mses)
  )


def make_optimizer(
  rates: OptimizerRates, decoupled: bool
) -> optax.GradientTransformation:
  """Returns Adam with weight decay.

  Args:
    rates: numbers or traced arrays.
    decoupled: whether decay is that of AdamW or is added to the gradient.
  """
  # PyTorch's Adam adds the decay to the gradient; its AdamW decouples it.
  if decoupled:
    return optax.adamw(rates.learning_rate, weight_decay=rates.weight_decay)
  return optax.chain(
    optax.add_decayed_weights(rates.weight_decay),
    optax.adam(rates.learning_rate),
  )


def predict_targets(
  model: nn.Module, params: Any, inputs: InputArrays
) -> Float[np.ndarray, "N 3"]:
  """Returns predictions of samples in the units that were trained on.

  Args:
    model: see `train_network`.
    params: its parameters.
    inputs: name -> [N, ...].
  """
  num_samples = len(next(iter(inputs.values())))
  forward = _make_forward(model)
  outputs = []
  for start in range(0, num_samples, _PREDICT_BATCH_SIZE):
    # The last row is repeated up to the batch size: one shape, one compilation.
    rows = np.minimum(
      np.arange(start, start + _PREDICT_BATCH_SIZE), num_samples - 1
    )
    batch = {name: array[rows] for name, array in inputs.items()}
    outputs.append(np.asarray(forward(params, batch)))
  return np.concatenate(outputs)[:num_samples]


def init_params(model: nn.Module, inputs: InputArrays, seed: int) -> Any:
  """Returns fresh parameters for samples like `inputs`."""
  first_sample = {name: array[:1] for name, array in inputs.items()}
  return jax.jit(model.init)(jax.random.key(seed), **first_sample)["params"]


def _epoch_batches(
  size: int, batch_size: int, rng: np.random.Generator
) -> list[Any]:
  """Returns the row indices of each batch of an epoch."""
  if not batch_size:
    return [slice(None)]
  # The last batch may be smaller.
  order = rng.permutation(size)
  return [order[i : i + batch_size] for i in range(0, size, batch_size)]


@functools.lru_cache
def _make_update(model: nn.Module, decoupled: bool):
  """Returns the jitted update (state, batch, ...) -> (state, loss).

  A state is (parameters, state of the optimizer). Cached, so that seeds and
  candidates of a search share one compilation.
  """

  def compute_loss(params, batch, targets, key, l1):
    predictions = model.apply(
      {"params": params}, **batch, deterministic=False, rngs={"dropout": key}
    )
    # The penalty is on weights and biases alike, as published.
    penalty = sum(jnp.abs(x).sum() for x in jax.tree.leaves(params))
    return jnp.mean((predictions - targets) ** 2) + l1 * penalty

  @jax.jit
  def update(state, batch, targets, key, rates):
    params, optimizer_state = state
    loss, gradient = jax.value_and_grad(compute_loss)(
      params, batch, targets, key, rates.l1
    )
    optimizer = make_optimizer(rates, decoupled)
    updates, optimizer_state = optimizer.update(
      gradient, optimizer_state, params
    )
    return (optax.apply_updates(params, updates), optimizer_state), loss

  return update


@functools.lru_cache
def _make_forward(model: nn.Module):
  """Returns the jitted forward pass (params, batch) -> [B, T]."""
  return jax.jit(lambda params, batch: model.apply({"params": params}, **batch))
