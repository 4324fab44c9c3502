"""What encoders of every family are put together from.

Why: BERT and the decoders differ in their blocks, not in how a projection is
initialised, where a token stands under either padding side, or what a text
that is too long is told. `bert` and `qwen3` call it alike.

Axes: B texts, L tokens, D width.
"""

from __future__ import annotations

import functools
from typing import Protocol

import jax
import jax.numpy as jnp
from flax import linen as nn

DTYPES = ("float32", "bfloat16")
_MASKED_SCORE = -1e30  # score of a token that is not seen


class BlockConfig(Protocol):
  """What the parts read of a configuration.

  Attributes:
    hidden_size: width D of a token's state.
    max_length: longest text in tokens.
    dtype: what the blocks compute in, one of `DTYPES`.
    initializer_range: standard deviation of initial weights.
  """

  hidden_size: int
  max_length: int
  dtype: str
  initializer_range: float


def check_dtype(dtype: str) -> None:
  """Refuses a type that no encoder computes in.

  Raises:
    ValueError: if it is not one of `DTYPES`.
  """
  if dtype not in DTYPES:
    raise ValueError(f"dtype must be one of {DTYPES}, got {dtype!r}")


def check_length(ids: jax.Array, config: BlockConfig) -> None:
  """Refuses texts [B, L] that the encoder has no positions for.

  Raises:
    ValueError: if they are longer than `max_length`.
  """
  length = ids.shape[1]
  if length > config.max_length:
    raise ValueError(
      f"texts of {length} tokens exceed max_length {config.max_length} of "
      "the encoder"
    )


def token_positions(mask: jax.Array) -> jax.Array:
  """Returns the position of every column, 0 = first token, int [B, L].

  The first token of a text has the first position under left padding and
  behind another text too. What stands behind a text counts on: a query that is
  filled up has its own positions.

  Args:
    mask: 0 where no token stands, else which text of its row a token is of,
      [B, L]; one that is 0 or 1 (or a bool) has one text a row.
  """
  previous = jnp.pad(mask[:, :-1], ((0, 0), (1, 0)))
  is_first_token = (mask != previous) & (mask != 0)
  columns = jnp.arange(mask.shape[1])
  first = jax.lax.cummax(jnp.where(is_first_token, columns, -1), axis=1)
  return jnp.where(first < 0, 0, columns - first)


def make_attention_mask(mask: jax.Array) -> jax.Array:
  """Returns which tokens each one sees, those of its text: bool [B, 1, L, L].

  Padding sees what it pads.

  Args:
    mask: as in `token_positions`.
  """
  query_segments, key_segments = mask[:, None, :, None], mask[:, None, None, :]
  return (key_segments != 0) & (
    (key_segments == query_segments) | (query_segments == 0)
  )


def dot_product_attention(
  query: jax.Array, key: jax.Array, value: jax.Array, attention_mask: jax.Array
) -> jax.Array:
  """Returns the mixture of values that each head sees, [B, L, H, W].

  It is jax.nn.dot_product_attention with heads in front of tokens, and the
  weights divided by their sum after they were used: on a CPU a quarter to a
  half of the time less.

  Args:
    query: of H heads of width W, [B, L, H, W].
    key: of K heads, which divides H; consecutive query heads share one.
    value: as `key`.
    attention_mask: from `visible`, or a part of it.
  """
  heads_per_key = query.shape[2] // key.shape[2]
  query, key, value = (
    jnp.repeat(x, repeats, axis=2).swapaxes(1, 2)
    for x, repeats in ((query, 1), (key, heads_per_key), (value, heads_per_key))
  )
  # Sums are in fp32 whatever the states are.
  matmul = functools.partial(jnp.matmul, preferred_element_type=jnp.float32)
  scale = query.shape[-1] ** -0.5
  scores = matmul(query, key.swapaxes(2, 3)) * scale
  scores = jnp.where(attention_mask, scores, _MASKED_SCORE)
  highest = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
  weights = jnp.exp(scores - highest)
  mixture = matmul(weights.astype(value.dtype), value)
  mixture /= weights.sum(axis=-1, keepdims=True)
  return mixture.astype(value.dtype).swapaxes(1, 2)


def make_dense(
  config: BlockConfig, features: int, name: str, bias: bool = True
) -> nn.Dense:
  """Returns a projection to `features`."""
  return nn.Dense(
    features,
    use_bias=bias,
    dtype=jnp.dtype(config.dtype),
    kernel_init=nn.initializers.normal(config.initializer_range),
    name=name,
  )


def make_embedding(config: BlockConfig, rows: int, name: str) -> nn.Embed:
  """Returns a table of `rows` states of width D."""
  return nn.Embed(
    rows,
    config.hidden_size,
    dtype=jnp.dtype(config.dtype),
    embedding_init=nn.initializers.normal(config.initializer_range),
    name=name,
  )
