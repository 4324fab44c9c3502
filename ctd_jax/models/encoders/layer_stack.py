"""Stack of layers of an encoder: unrolled, scanned or recomputed.

Unrolled, a deep decoder compiles for minutes and keeps every layer's
activations for the backward pass. Scanning compiles one layer, and recomputing
keeps only the states that enter each.

Axes: B texts, L tokens, D features.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
from flax import linen as nn
from jaxtyping import Array, Float

SCANNED = "layers"  # parameters have the layer as first axis
UNROLLED = "layer_{}"


@runtime_checkable
class StackConfig(Protocol):
  """Fields of an encoder's configuration that the stack reads.

  Attributes:
    num_layers: number of layers.
    scan_layers: whether one compiled layer runs over stacked parameters.
    remat: whether the backward pass computes a layer's activations again.
  """

  num_layers: int
  scan_layers: bool
  remat: bool


def apply_layers(
  layer_type: Callable[..., nn.Module],
  config: StackConfig,
  states: Float[Array, "B L D"],
  *inputs: Any,
  **static: Any,
) -> Float[Array, "B L D"]:
  """Returns the states after the last layer, [B, L, D].

  Call it inside the compact method of an encoder. Parameters are named
  `layer_<i>`, or `layers` when scanned.

  Args:
    layer_type: type of the layers, constructed from `config` and a name; called
      with states, inputs and static arguments, a layer returns states.
    config: of the encoder.
    states: input of the first layer, [B, L, D].
    *inputs: arrays, or trees of them, that are the same for every layer.
    **static: other values that are the same for every layer.
  """

  def apply(layer: nn.Module, states: jax.Array, *inputs: Any):
    # Read by tests and analyses that make "intermediates" mutable.
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
  # Parameters and sown states get the layer as their first axis; every layer
  # gets the same inputs and its own random keys.
  scan = functools.partial(
    nn.scan,
    variable_axes={"params": 0, "intermediates": 0},
    split_rngs={"params": True, "dropout": True},
    in_axes=nn.broadcast,
    length=config.num_layers,
  )
  states, _ = scan(apply)(layer_type(config, name=SCANNED), states, *inputs)
  return states
