"""One vector per text from the states of its tokens.

Why: which token speaks for a text depends on the backbone (first token for a
BERT, last for a decoder, mean for an encoder that starts from scratch), and
mistaking a pad for it under the other padding side is an old and silent
error. Every pooling in the project is made here, of rows of one text or of
several; called by the models, `text_encoder` and `retrieval.rerank`.

Axes: B texts, L tokens, D width.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ctd_jax.models import packing
from ctd_jax.models.packing import PackedTexts

POOLINGS = ("cls", "mean", "last")


def pool_tokens(
  token_states: jax.Array, mask: jax.Array, kind: str
) -> jax.Array:
  """Returns one vector per row of one text, [B, D], under either padding side.

  Args:
    token_states: states of the tokens, [B, L, D].
    mask: 1 or True where a token stands, [B, L].
    kind: as in `pool_texts`.
  """
  return pool_texts(token_states, mask.astype(jnp.int32), kind, 1)[:, 0]


def pool_texts(
  token_states: jax.Array, segments: jax.Array, kind: str, max_texts: int
) -> jax.Array:
  """Returns one vector for every text of a row, [B, most, D].

  Args:
    token_states: states of the tokens, [B, L, D].
    segments: which text of its row a token is of, from 1; 0 = padding; [B, L].
    kind: "cls" = first token, "last" = last token, "mean" = mean of all.
    max_texts: texts a row may have.

  Returns:
    Pooled states, not normalised. A text without any token gets a finite
    vector that means nothing.

  Raises:
    ValueError: if `kind` is not one of `POOLINGS`.
  """
  is_member = segments[:, None, :] == jnp.arange(1, max_texts + 1)[:, None]
  if kind == "mean":
    weights = is_member.astype(token_states.dtype)
    # The clamp only matters for texts that pad a batch out.
    weights /= jnp.maximum(weights.sum(2, keepdims=True), 1.0)
    return jnp.matmul(
      weights, token_states, precision=jax.lax.Precision.HIGHEST
    )
  if kind == "cls":
    index = jnp.argmax(is_member, axis=2)
  elif kind == "last":
    index = is_member.shape[2] - 1 - jnp.argmax(is_member[:, :, ::-1], axis=2)
  else:
    raise ValueError(f"pooling must be one of {POOLINGS}, got {kind!r}")
  return jnp.take_along_axis(token_states, index[:, :, None], axis=1)


def pool_packed(
  token_states: jax.Array, texts: PackedTexts, kind: str
) -> jax.Array:
  """Returns one vector for every packed text, [P, T, D].

  Args:
    token_states: states of the tokens of all rows, [P * R, W, D].
    texts: P packs of T texts in R rows of width W.
    kind: as in `pool_texts`.

  Returns:
    Pooled states, not normalised; zero for a text without tokens.
  """
  packs, rows, width = texts.ids.shape
  max_texts = packing.slots_per_row(width)
  segments = texts.segments.reshape(packs * rows, width)
  pooled = pool_texts(token_states, segments, kind, max_texts)
  # By pack: no vector leaves its device.
  return jnp.take_along_axis(
    pooled.reshape(packs, rows * max_texts, -1),
    texts.slots[:, :, None],
    axis=1,
    mode="fill",
    fill_value=0.0,
  )
