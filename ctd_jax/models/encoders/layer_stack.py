"""The layers of an encoder one after the other: unrolled, scanned, recomputed.

Why: a deep decoder compiles layer by layer for minutes and keeps every
layer's activations for the backward pass. Scanning compiles one layer, and
recomputing keeps only what enters each. `bert` and `qwen3` call it alike.

Axes: B texts, L tokens, D width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
from flax import linen as nn

SCANNED = "layers"  # parameters have the layer as first axis
UNROLLED = "layer_{}"


class StackConfig(Protocol):
  """What a configuration says about its layers.

  Attributes:
    num_layers: how many.
    scan_layers: whether one compiled layer runs over stacked parameters.
    remat: whether the backward pass computes a layer's activations again.
  """

  num_layers: int
  scan_layers: bool
  remat: bool


def apply_layers(
  layer_type: Callable[..., nn.Module],
  config: StackConfig,
  states: jax.Array,
  *inputs: jax.Array,
  **static: Any,
) -> jax.Array:
  """Returns the states after the last layer, [B, L, D].

  Call it inside the compact method of an encoder. Parameters are named
  `layer_<i>`, or `layers` when scanned.

  Args:
    layer_type: makes a module of `config` and a name; the module is called
      with states, inputs and static arguments and returns states.
    config: of the encoder.
    states: that enter the first layer, [B, L, D].
    *inputs: arrays that are the same for every layer.
    **static: values that are the same for every layer and no arrays.
  """

  def apply(layer: nn.Module, states: jax.Array, *inputs: jax.Array):
    # What left a layer, for those who ask for "intermediates".
    states = layer(states, *inputs, **static)
    layer.sow("intermediates", "states", states)
    return states, None

  if config.remat:
    # Inside a scan the loop keeps XLA from merging the two computations.
    apply = nn.remat(apply, prevent_cse=not config.scan_layers)
  if not config.scan_layers:
    for index in range(config.num_layers):
      layer = layer_type(config, name=UNROLLED.format(index))
      states, _ = apply(layer, states, *inputs)
    return states
  scan = functools.partial(
    nn.scan,
    variable_axes={"params": 0, "intermediates": 0},
    split_rngs={"params": True, "dropout": True},
    in_axes=nn.broadcast,
    length=config.num_layers,
  )
  states, _ = scan(apply)(layer_type(config, name=SCANNED), states, *inputs)
  return states
