"""Low-rank adapters (LoRA) of an encoder's projections.

A projection W becomes W + alpha/r A B with two narrow matrices. Only they are
trained. B starts from 0, so that an adapted encoder starts as the encoder
itself. The parameters of query/kernel's adapter are query_lora/a, [in, r], and
query_lora/b, [r, out]; without them the tree is that of the encoder.

Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models",
section 4.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import traverse_util
from jaxtyping import Array, Float

SUFFIX = "_lora"  # of the name of an adapter, behind that of its projection
A, B = "a", "b"
PROJECTIONS = (
  *("query", "key", "value", "out"),  # of the attention, in either family
  *("intermediate", "output"),  # feed-forward of a BERT
  *("gate", "up", "down"),  # feed-forward of a decoder
)


@dataclasses.dataclass(frozen=True)
class LoraConfig:
  """Adapters of an encoder.

  Attributes:
    rank: columns of A, r.
    alpha: numerator of the scale; alpha / r times A B is added.
    dropout: rate on an adapter's input.
    targets: of `PROJECTIONS`, () = all; those that the encoder lacks are
      skipped.
    base_dtype: type of the encoder's own parameters.
  """

  rank: int
  alpha: float
  dropout: float = 0.0
  targets: tuple[str, ...] = ()
  base_dtype: str = "float32"

  def __post_init__(self):
    object.__setattr__(self, "targets", self.targets or PROJECTIONS)

  @property
  def scale(self) -> float:
    """Factor of A B."""
    return self.alpha / self.rank


class Adapter(nn.Module):
  """What is added to the output of one projection, [..., out]."""

  features: int
  lora: LoraConfig
  dtype: jnp.dtype
  precision: jax.lax.Precision | None

  @nn.compact
  def __call__(self, states: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
    """Returns alpha/r x A B, [..., out], for states x, [..., in]."""
    rank = self.lora.rank
    # As in PEFT: A is uniform within 1/sqrt(in).
    init = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
    a = self.param(A, init, (states.shape[-1], rank))
    b = self.param(B, nn.initializers.zeros, (rank, self.features))
    # A training step gives a key for dropout, nothing else does.
    is_dropping = self.has_rng("dropout")
    states = nn.Dropout(self.lora.dropout)(states, not is_dropping)
    # One axis of tokens: see `layers.make_dense`.
    flat = states.reshape(-1, states.shape[-1])
    for matrix in (a, b):
      flat = jnp.matmul(
        flat.astype(self.dtype),
        matrix.astype(self.dtype),
        precision=self.precision,
      )
    flat *= self.lora.scale
    return flat.reshape(*states.shape[:-1], self.features)


def is_adapter(path: tuple[str, ...]) -> bool:
  """Returns whether a parameter belongs to an adapter."""
  return len(path) > 1 and path[-2].endswith(SUFFIX)


def split_adapters(params: Mapping[str, Any]) -> tuple[Any, Any]:
  """Returns (adapters, the encoder without them); {} if there are none."""
  flat = traverse_util.flatten_dict(dict(params))
  adapters = {path: leaf for path, leaf in flat.items() if is_adapter(path)}
  rest = {path: leaf for path, leaf in flat.items() if path not in adapters}
  return tuple(map(traverse_util.unflatten_dict, (adapters, rest)))


def join_params(*trees: Mapping[str, Any]) -> dict[str, Any]:
  """Returns one tree of parameters; for equal paths the last tree wins."""
  flat = {}
  for tree in trees:
    flat |= traverse_util.flatten_dict(dict(tree))
  return traverse_util.unflatten_dict(flat)


def merge_adapters(params: Mapping[str, Any], lora: LoraConfig) -> Any:
  """Returns the encoder's parameters with the adapters added in, fp32."""
  adapters, base = map(traverse_util.flatten_dict, split_adapters(params))
  merged = dict(base)
  for path, a in adapters.items():
    if path[-1] != A:
      continue
    kernel = (*path[:-2], path[-2].removesuffix(SUFFIX), "kernel")
    # The axis of the layers of a scan stays in front.
    product = jnp.matmul(
      a, adapters[*path[:-1], B], precision=jax.lax.Precision.HIGHEST
    )
    merged[kernel] = base[kernel].astype(jnp.float32) + lora.scale * product
  return traverse_util.unflatten_dict(merged)
