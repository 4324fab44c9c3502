"""Layers that encoders of every family share.

BERT and the decoders differ in their blocks. They share the initialisation of a
projection, the position of a token under either padding side, the attention
mask, attention itself, and the error of a text that is too long.

Axes: B texts, L tokens, D features, H query heads, J key and value heads, E
features of a head.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models.arrays import TokenIds, TokenMask
from ctd_jax.models.encoders import lora
from ctd_jax.models.encoders.lora import LoraConfig

DTYPES = ("float32", "bfloat16")
# Attention score of a masked token. Not -inf: where a row attends to nothing,
# the softmax of its scores would be NaN.
_MASKED_SCORE = -1e30


@runtime_checkable
class BlockConfig(Protocol):
  """Fields of an encoder's configuration that layers read.

  Attributes:
    hidden_size: features D of a token's state.
    max_length: longest text in tokens.
    dtype: type that the blocks compute in, one of `DTYPES`.
    initializer_range: standard deviation of initial weights.
    lora: adapters of the projections; None = none.
  """

  hidden_size: int
  max_length: int
  dtype: str
  initializer_range: float
  lora: LoraConfig | None


def check_dtype(dtype: str) -> None:
  """Refuses a type that no encoder computes in.

  Raises:
    ValueError: if it is not one of `DTYPES`.
  """
  if dtype not in DTYPES:
    raise ValueError(f"dtype must be one of {DTYPES}, got {dtype!r}")


def check_rates(**rates: float) -> None:
  """Refuses a rate of dropout outside [0, 1).

  Raises:
    ValueError: naming the rate and its value.
  """
  for name, rate in rates.items():
    if not 0 <= rate < 1:
      raise ValueError(f"{name} must be at least 0 and below 1, got {rate}")


def get_precision(config: BlockConfig) -> jax.lax.Precision | None:
  """Returns the precision of the matrix products of a block.

  In fp32 the operands stay as they are: accelerators would round them, GPUs to
  TF32 and TPUs to bf16. In bf16 there is nothing to round.
  """
  if config.dtype == "float32":
    return jax.lax.Precision.HIGHEST
  return None


def check_length(ids: TokenIds, config: BlockConfig) -> None:
  """Refuses texts that the encoder has no positions for.

  Raises:
    ValueError: if they are longer than `max_length`.
  """
  length = ids.shape[1]
  if length > config.max_length:
    raise ValueError(
      f"texts of {length} tokens exceed max_length {config.max_length} of "
      "the encoder"
    )


def token_positions(mask: TokenMask) -> Int[Array, "B L"]:
  """Returns the position of every column, 0 = first token, int [B, L].

  The first token of a text has position 0, also under left padding and behind
  another text of the row. Padding behind a text counts on: mask tokens that
  fill up a query have positions of their own.

  Args:
    mask: 0 where no token stands, else the number of a token's text in its
      row, [B, L]; a mask of 0 and 1 (or a bool) has one text a row.
  """
  # A text begins where the number of the text changes to another than 0.
  previous = jnp.pad(mask[:, :-1], ((0, 0), (1, 0)))
  is_first_token = (mask != previous) & (mask != 0)
  columns = jnp.arange(mask.shape[1])
  # Column of the first token of the text that a column stands in or behind; -1
  # under padding on the left.
  first = jax.lax.cummax(jnp.where(is_first_token, columns, -1), axis=1)
  return jnp.where(first < 0, 0, columns - first)


def make_attention_mask(mask: TokenMask) -> Bool[Array, "B 1 L L"]:
  """Returns whether each token attends to each other one, bool [B, 1, L, L].

  A token attends to the tokens of its own text. Padding attends to all texts of
  its row, as in published implementations, whose states of mask tokens behind
  a query are then the same.

  Args:
    mask: as in `token_positions`.
  """
  # Axes: text, head (one mask for all), attending token, attended token.
  mask = jnp.asarray(mask)
  query_segments, key_segments = mask[:, None, :, None], mask[:, None, None, :]
  return (key_segments != 0) & (
    (key_segments == query_segments) | (query_segments == 0)
  )


def dot_product_attention(
  query: Float[Array, "B L H E"],
  key: Float[Array, "B L J E"],
  value: Float[Array, "B L J E"],
  attention_mask: Bool[Array, "B 1 L L"],
  precision: jax.lax.Precision | None = None,
  drop_weights: Callable[[jax.Array], jax.Array] | None = None,
) -> Float[Array, "B L H E"]:
  """Returns the weighted sum of values of each head, [B, L, H, E].

  The result is that of jax.nn.dot_product_attention. Heads stand in front of
  tokens, and the sum is divided by the sum of the weights instead of the
  weights themselves, which saves a quarter to a half of the time on a CPU.

  Args:
    query: of H heads, [B, L, H, E].
    key: of J heads, [B, L, J, E]; J divides H, and H / J consecutive query
      heads share one.
    value: as `key`.
    attention_mask: from `make_attention_mask`, or a stricter one.
    precision: of the products.
    drop_weights: dropout of the weights, [B, H, L, L] -> the same; None = none.

  Source: Vaswani et al. 2017, eq. 1.
  """
  heads_per_key = query.shape[2] // key.shape[2]
  # All [B, H, L, E].
  query, key, value = (
    jnp.repeat(x, repeats, axis=2).swapaxes(1, 2)
    for x, repeats in ((query, 1), (key, heads_per_key), (value, heads_per_key))
  )
  # Sums are in fp32 also where the states are bf16.
  matmul = functools.partial(
    jnp.matmul, precision=precision, preferred_element_type=jnp.float32
  )
  scale = query.shape[-1] ** -0.5
  scores = matmul(query, key.swapaxes(2, 3)) * scale
  scores = jnp.where(attention_mask, scores, _MASKED_SCORE)
  # The softmax does not depend on the subtrahend, nor does its gradient.
  highest = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
  weights = jnp.exp(scores - highest)
  # The sum of all weights: what is dropped was part of the softmax.
  total = weights.sum(axis=-1, keepdims=True)
  if drop_weights is not None:
    weights = drop_weights(weights)
  mixture = matmul(weights.astype(value.dtype), value) / total
  return mixture.astype(value.dtype).swapaxes(1, 2)


def make_dense(
  config: BlockConfig, features: int, name: str, bias: bool = True
) -> Callable[[jax.Array], jax.Array]:
  """Returns a projection to a number of features, to be called on states.

  With its adapter, where the configuration has one for it.
  """
  dense = nn.Dense(
    features,
    use_bias=bias,
    dtype=jnp.dtype(config.dtype),
    precision=get_precision(config),
    kernel_init=nn.initializers.normal(config.initializer_range),
    name=name,
  )
  if config.lora is None or name not in config.lora.targets:
    return dense
  adapter = lora.Adapter(
    features,
    config.lora,
    dense.dtype,
    dense.precision,
    name=f"{name}{lora.SUFFIX}",
  )
  return lambda states: dense(states) + adapter(states)


def make_embedding(config: BlockConfig, rows: int, name: str) -> nn.Embed:
  """Returns a table of `rows` states of D features."""
  return nn.Embed(
    rows,
    config.hidden_size,
    dtype=jnp.dtype(config.dtype),
    embedding_init=nn.initializers.normal(config.initializer_range),
    name=name,
  )
