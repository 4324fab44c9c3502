"""Stack of an encoder's layers: unrolled, scanned or recomputed.

Unrolled, a deep decoder compiles for minutes and keeps all activations for the
backward pass. Scanning compiles one layer, and `remat` keeps only the states
that enter each.

Without `remat`, `kept_activations` decides: "all", or "products", the results
of projections and attention kernels, which take long to compute. An accelerator
computes the rest again sooner than it reads it from memory, and needs two
fifths of the memory or less; "auto" is "products" there, and "all" on a CPU.

If only some tokens' states are wanted, as for pooling by first or last token,
the last layer computes no others.

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
  """Fields of an encoder's configuration that the stack reads."""

  num_layers: int
  scan_layers: bool  # one compiled layer runs over stacked parameters
  remat: bool  # the backward pass computes a layer's activations again
  kept_activations: str  # for the backward pass, without remat; one of `KEPT`


def check_kept(kept: str) -> None:
  """Raises ValueError if `kept` is not one of `KEPT`."""
  if kept not in KEPT:
    raise ValueError(f"kept_activations must be one of {KEPT}, got {kept!r}")


def _is_product(primitive: Any, *avals: Any, **params: Any) -> bool:
  """Returns whether an operation is a projection or an attention kernel.

  A policy of `jax.checkpoint`. The result of cuDNN's attention has no name.
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

  Call it inside an encoder's compact method. Parameters are named `layer_<i>`,
  or `layers` if scanned.

  Args:
    layer_type: called with states, columns, inputs and static values, a layer
      returns the states of the tokens in `columns`.
    config: of the encoder.
    states: input of the first layer.
    columns: positions of the tokens whose states are wanted; None = all.
      Scanned layers all have one shape and compute the others too.
    *inputs: arrays, or trees of arrays, that all layers share.
    **static: other values that all layers share.
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
