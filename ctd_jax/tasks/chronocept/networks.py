"""Networks that predict validity curves, and their training.

The published loops return the last epoch, because "the best state" is a
reference that later training overwrites; here "best" is by validation MSE. The
data are too few for the sharded step of a retrieval trainer.
Axes: N samples, B samples of a batch, F features of a sample's vector,
L tokens, D features of a token, S fields of a sample, T = 3 targets.
Source: Chronocept, arXiv 2505.07637v1, section on baselines.
"""

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
from jaxtyping import Array, Float, Int

from ctd_jax.models.packing import encode_texts
from ctd_jax.models.pretrained.folders import EncoderConfig
from ctd_jax.utils import output

NUM_TARGETS = 3  # location, scale, skewness


class FeedForward(nn.Module):
  """Two hidden layers over one vector, the second half as wide."""

  hidden_size: int  # width of the first layer
  dropout: float = 0.0  # rate after both layers

  @nn.compact
  def __call__(
    self, vectors: Float[Array, "B F"], deterministic: bool = True
  ) -> Float[Array, "B 3"]:
    """Returns the curve parameters."""
    for width in (self.hidden_size, self.hidden_size // 2):
      vectors = nn.relu(nn.Dense(width)(vectors))
      vectors = nn.Dropout(self.dropout)(vectors, deterministic)
    return nn.Dense(NUM_TARGETS)(vectors)


class BiLstm(nn.Module):
  """One LSTM layer in each direction and a linear map of its last states."""

  hidden_size: int

  @nn.compact
  def __call__(
    self,
    states: Float[Array, "B L D"],
    lengths: Int[Array, " B"],
    deterministic: bool = True,
  ) -> Float[Array, "B 3"]:
    """Returns the curve parameters.

    Args:
      lengths: number of states to read; those behind are padding.
    """
    final_states = []
    for name, reverse in (("forward", False), ("backward", True)):
      cell = nn.OptimizedLSTMCell(self.hidden_size, name=name)
      layer = nn.RNN(cell, return_carry=True, reverse=reverse)
      # The carry is (cell, hidden), taken at `lengths` and not at L.
      (_, final_state), _ = layer(states, seq_lengths=lengths)
      final_states.append(final_state)
    return nn.Dense(NUM_TARGETS)(jnp.concatenate(final_states, axis=-1))


class EncoderRegression(nn.Module):
  """A fine-tuned encoder of each field and a linear map of the vectors.

  A field without text has a zero vector. The reference implementation reads
  the output of the pooler; here the state of the first token is read, since
  not every published encoder has a pooler.
  """

  # Shape of the encoder; its parameters are under `encoder`.
  geometry: EncoderConfig
  dropout: float = 0.0  # rate on the concatenated vectors

  def setup(self):
    """Makes the encoder and the head."""
    self.encoder = self.geometry.make_encoder()
    self.drop = nn.Dropout(self.dropout)
    self.head = nn.Dense(NUM_TARGETS)

  def __call__(
    self,
    ids: Int[Array, "B 1 L"],
    mask: Int[Array, "B 1 L"],
    axis_ids: Int[Array, "B S L_axis"] | None = None,
    axis_mask: Int[Array, "B S L_axis"] | None = None,
    deterministic: bool = True,
  ) -> Float[Array, "B 3"]:
    """Returns the curve parameters.

    Args:
      mask: 1 at tokens, 0 at padding.
      axis_ids: tokens of the axes, padded to a length of their own; None if
        axes are not read.
      axis_mask: likewise; all 0 if a field is absent.
    """
    vectors = self._encode_fields(ids, mask, deterministic)
    if axis_ids is not None:
      axes = self._encode_fields(axis_ids, axis_mask, deterministic)
      vectors = jnp.concatenate([vectors, axes], axis=1)
    return self.head(self.drop(vectors, deterministic))

  def _encode_fields(
    self, ids: jax.Array, mask: jax.Array, deterministic: bool
  ) -> jax.Array:
    """Returns the concatenated vectors of fields [B, S, L], [B, S * D]."""
    batch, _, length = ids.shape
    # [B, S, L] -> [B * S, L]: the encoder sees fields as separate texts.
    flat = mask.reshape(-1, length)
    is_present = flat.any(axis=1, keepdims=True)
    # A row without tokens would attend to nothing and give NaN, so its first
    # padding position is attended to; the vector is set to 0 below.
    vectors = encode_texts(
      self.encoder,
      ids.reshape(-1, length),
      flat.at[:, 0].set(1),
      "cls",
      1,
      deterministic,
    )
    return jnp.where(is_present, vectors[:, 0], 0.0).reshape(batch, -1)


InputArrays = Mapping[str, np.ndarray]
BEST_EPOCH, LAST_EPOCH = "best", "last"
_PREDICT_BATCH_SIZE = 128  # up to 1,152 fields for an encoder


class NetworkDivergedError(ValueError):
  """The loss of a network of validity curves is not finite."""


class OptimizerRates(NamedTuple):
  """Rates of an update, traced so that other values need no compilation."""

  learning_rate: float
  weight_decay: float  # weight of the decay
  l1: float  # weight of the sum of absolute parameters in the loss


@dataclasses.dataclass(frozen=True)
class TrainedNetwork:
  """A trained network."""

  params: Any  # of the selected epoch
  epoch: int  # the selected epoch, counted from 1
  train_loss: tuple[float, ...]  # mean loss of each epoch, with the L1 penalty
  # After each epoch, in the units that are trained on.
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
    inputs: "train" and "validation" -> name -> [N, ...].
    targets: split -> [N, T], in the units that are trained on.
    hyper: epochs, batch_size (0 = the whole split), learning_rate,
      weight_decay, decoupled (AdamW; otherwise the decay passes through Adam,
      as published), l1.
    selection: "best" is the epoch of the lowest validation MSE, the earliest of
      equals; "last" is the last epoch.
    seed: seed of the order of batches and of dropout.

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
  bar = output.Progress(
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
  """Returns predictions of samples in the units that were trained on."""
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
  """Returns the jitted update (state, batch, ...) -> (state, loss)."""

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
    updates, optimizer_state = make_optimizer(rates, decoupled).update(
      gradient, optimizer_state, params
    )
    return (optax.apply_updates(params, updates), optimizer_state), loss

  return update


@functools.lru_cache
def _make_forward(model: nn.Module):
  """Returns the jitted forward pass (params, batch) -> [B, T]."""
  return jax.jit(lambda params, batch: model.apply({"params": params}, **batch))
