"""Stack of layers of an encoder: unrolled, scanned or recomputed.

Unrolled, a deep decoder compiles for minutes and keeps every layer's
activations for the backward pass. Scanning compiles one layer, and recomputing
keeps only the states that enter each.

What is kept otherwise, `kept_activations` says: "all", or "products", what
projections and kernels of attention return, which takes long to compute. An
accelerator has what lies between them sooner computed again than read from
memory, of which it needs two fifths or less then; "auto" is "products" there,
and "all" on a processor.

Where the states of a few tokens are wanted, which is all that pooling by the
first or the last one reads, the last layer computes no others, but for the keys
and values that they attend to.

Axes: B texts, L tokens, S tokens whose states are wanted, D features.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
from flax import linen as nn
from jaxtyping import Array, Float, Int

from ctd_jax.models.encoders import layers
from ctd_jax.models.mesh_axes import find_platform

SCANNED = "layers"  # parameters have the layer as first axis
UNROLLED = "layer_{}"
AUTO, ALL, PRODUCTS = "auto", "all", "products"
KEPT = (AUTO, ALL, PRODUCTS)


@runtime_checkable
class StackConfig(Protocol):
  """Fields of an encoder's configuration that the stack reads.

  Attributes:
    num_layers: number of layers.
    scan_layers: whether one compiled layer runs over stacked parameters.
    remat: whether the backward pass computes a layer's activations again.
    kept_activations: what it is given without `remat`, one of `KEPT`.
  """

  num_layers: int
  scan_layers: bool
  remat: bool
  kept_activations: str


def check_kept(kept: str) -> None:
  """Refuses what an encoder cannot keep.

  Raises:
    ValueError: if it is not one of `KEPT`.
  """
  if kept not in KEPT:
    raise ValueError(f"kept_activations must be one of {KEPT}, got {kept!r}")


def _is_product(primitive: Any, *avals: Any, **params: Any) -> bool:
  """Returns whether an operation is a projection or a kernel of attention.

  A policy of `jax.checkpoint`. What cuDNN's attention returns has no name.
  """
  is_named = jax.checkpoint_policies.save_only_these_names(layers.PRODUCT)
  return primitive.name.startswith("dot_product_attention_fwd") or is_named(
    primitive, *avals, **params
  )


def apply_layers(
  layer_type: Callable[..., nn.Module],
  config: StackConfig,
  states: Float[Array, "B L D"],
  columns: Int[Array, "B S"] | None,
  *inputs: Any,
  **static: Any,
) -> Float[Array, "B S D"]:
  """Returns the states after the last layer, [B, S, D].

  Call it inside the compact method of an encoder. Parameters are named
  `layer_<i>`, or `layers` when scanned.

  Args:
    layer_type: type of the layers, constructed from `config` and a name; called
      with states, columns, inputs and static arguments, a layer returns the
      states of the tokens of those columns.
    config: of the encoder.
    states: input of the first layer, [B, L, D].
    columns: where the tokens stand whose states are wanted, int [B, S]; None
      = all. Layers that are scanned, all of one shape, compute the others too.
    *inputs: arrays, or trees of them, that are the same for every layer.
    **static: other values that are the same for every layer.
  """

  def apply(layer: nn.Module, states: jax.Array, columns, *inputs: Any):
    states = layer(states, columns, *inputs, **static)
    # Read by tests and analyses that make "intermediates" mutable.
    layer.sow("intermediates", "states", states)
    return states, None

  kept = config.kept_activations
  keeps_products = kept == PRODUCTS or (
    kept == AUTO and find_platform() != "cpu"
  )
  if config.remat or keeps_products:
    apply = nn.remat(
      apply,
      # Inside a scan the loop keeps XLA from merging the two computations.
      prevent_cse=not config.scan_layers,
      policy=None if config.remat else _is_product,
    )
  if not config.scan_layers:
    for index in range(config.num_layers):
      layer = layer_type(config, name=UNROLLED.format(index))
      is_last = index == config.num_layers - 1
      states, _ = apply(layer, states, columns if is_last else None, *inputs)
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
  layer = layer_type(config, name=SCANNED)
  states, _ = scan(apply)(layer, states, None, *inputs)
  return layers.take_tokens(states, columns)
