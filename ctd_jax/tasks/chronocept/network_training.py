"""Trains the networks of `models.validity` on z-scored targets.

Why: the published loops keep "the best state" as a reference that training
goes on to change, and select on the last epoch. Here a state is a tree of
arrays that nothing can change, and which one is kept is said: `best` by
validation, or `last` as published. Called by `validity.experiment`.

Axes: N samples, B of them in a batch, T = 3 targets.
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
import tqdm
from flax import linen as nn

Inputs = Mapping[str, np.ndarray]
BEST, LAST = "best", "last"
SELECTIONS = (BEST, LAST)
_PREDICT_ROWS = 128


class DivergedError(ValueError):
  """The loss is no longer a number."""


class Rates(NamedTuple):
  """Numbers of an update that do not change what is compiled.

  Attributes:
    learning: rate.
    decay: of weights.
    l1: weight of the sum of absolute parameters in the loss.
  """

  learning: float
  decay: float
  l1: float


@dataclasses.dataclass(frozen=True)
class Trained:
  """A trained network.

  Attributes:
    params: of the epoch that was selected.
    epoch: which that is, from 1.
    train_loss: by epoch, with its penalty.
    validation_mse: by epoch.
  """

  params: Any
  epoch: int
  train_loss: tuple[float, ...]
  validation_mse: tuple[float, ...]


def train(
  model: nn.Module,
  params: Any,
  inputs: Mapping[str, Inputs],
  targets: Mapping[str, np.ndarray],
  hyper: ml_collections.ConfigDict,
  selection: str,
  seed: int,
) -> Trained:
  """Returns the network after `hyper.epochs` passes over the train split.

  Args:
    model: takes the arrays of an input by name, and `deterministic`.
    params: to start from.
    inputs: split -> name -> [N, ...]; "train" and "validation".
    targets: split -> [N, T], in the units that are trained on.
    hyper: epochs, batch_size (0 = all at once), learning_rate, weight_decay,
      decoupled (AdamW; else decay goes through Adam, as published), l1.
    selection: "best" = the epoch of the lowest validation MSE, the earlier of
      equals; "last" = the last.
    seed: order of batches and dropout.

  Raises:
    DivergedError: if the loss stops being finite.
  """
  # Traced, so that a search over them compiles once.
  rates = Rates(hyper.learning_rate, hyper.weight_decay, hyper.l1)
  state = params, make_optimizer(rates, hyper.decoupled).init(params)
  update = _update(model, hyper.decoupled)
  random = np.random.default_rng(seed)
  key = jax.random.key(seed)
  read = inputs["train"]
  whole = None if hyper.batch_size else jax.device_put(dict(read))
  losses, scores = [], []
  kept, epoch = params, 0
  bar = tqdm.trange(
    1, hyper.epochs + 1, desc="train", unit="epoch", disable=None, leave=False
  )
  for number in bar:
    total = 0.0
    batches = _batches(len(targets["train"]), hyper.batch_size, random)
    for rows in batches:
      key, drop = jax.random.split(key)
      batch = whole or {name: array[rows] for name, array in read.items()}
      state, loss = update(state, batch, targets["train"][rows], drop, rates)
      total += float(loss) / len(batches)
    if not np.isfinite(total):
      raise DivergedError(
        f"epoch {number}: the loss is not finite; lower "
        "config.model.learning_rate"
      )
    losses.append(total)
    found = predict(model, state[0], inputs["validation"])
    scores.append(float(np.mean((found - targets["validation"]) ** 2)))
    bar.set_postfix(loss=f"{total:.3f}", validation=f"{scores[-1]:.3f}")
    if selection == LAST or scores[-1] < min(scores[:-1], default=np.inf):
      kept, epoch = state[0], number
  return Trained(kept, epoch, tuple(losses), tuple(scores))


def make_optimizer(
  rates: Rates, decoupled: bool
) -> optax.GradientTransformation:
  """Returns Adam with either kind of weight decay; see `train`."""
  if decoupled:
    return optax.adamw(rates.learning, weight_decay=rates.decay)
  return optax.chain(
    optax.add_decayed_weights(rates.decay), optax.adam(rates.learning)
  )


def predict(model: nn.Module, params: Any, inputs: Inputs) -> np.ndarray:
  """Returns predictions of samples, fp32 [N, T].

  Args:
    model: see `train`.
    params: of it.
    inputs: name -> [N, ...].
  """
  size = len(next(iter(inputs.values())))
  forward = _forward(model)
  parts = []
  for start in range(0, size, _PREDICT_ROWS):
    # The last rows are repeated: one shape, one compilation.
    rows = np.minimum(np.arange(start, start + _PREDICT_ROWS), size - 1)
    batch = {name: array[rows] for name, array in inputs.items()}
    parts.append(np.asarray(forward(params, batch)))
  return np.concatenate(parts)[:size]


def init(model: nn.Module, inputs: Inputs, seed: int) -> Any:
  """Returns fresh parameters for samples like `inputs`."""
  one = {name: array[:1] for name, array in inputs.items()}
  return jax.jit(model.init)(jax.random.key(seed), **one)["params"]


def _batches(
  size: int, batch_size: int, random: np.random.Generator
) -> list[Any]:
  """Returns the rows of an epoch's batches; 0 makes one batch of all."""
  if not batch_size:
    return [slice(None)]
  order = random.permutation(size)
  return [order[i : i + batch_size] for i in range(0, size, batch_size)]


@functools.lru_cache
def _update(model: nn.Module, decoupled: bool):
  """Returns the jitted ((params, slots), ...) -> ((params, slots), loss)."""

  def loss_of(params, batch, targets, key, l1):
    found = model.apply(
      {"params": params}, **batch, deterministic=False, rngs={"dropout": key}
    )
    # Of weights and biases alike, as published.
    penalty = sum(jnp.abs(x).sum() for x in jax.tree.leaves(params))
    return jnp.mean((found - targets) ** 2) + l1 * penalty

  @jax.jit
  def update(state, batch, targets, key, rates):
    params, slots = state
    loss, gradient = jax.value_and_grad(loss_of)(
      params, batch, targets, key, rates.l1
    )
    optimizer = make_optimizer(rates, decoupled)
    changes, slots = optimizer.update(gradient, slots, params)
    return (optax.apply_updates(params, changes), slots), loss

  return update


@functools.lru_cache
def _forward(model: nn.Module):
  """Returns the jitted (params, batch) -> [B, T]."""
  return jax.jit(lambda params, batch: model.apply({"params": params}, **batch))
