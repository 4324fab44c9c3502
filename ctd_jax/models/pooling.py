"""Pooling: one vector per text from the states of its tokens.

The token that represents a text depends on the backbone: the first of a BERT,
the last of a decoder, the mean of all for an encoder that starts from scratch;
a module that scores the tokens takes a mean with weights of its own.
A pad that is mistaken for it under the other padding side is an old and silent
error. Every pooling of the project is therefore made here, of rows that hold
one text or several.

Axes: B texts (or rows), L tokens, D features, S slots for texts in a row, P
packs, T texts of a pack, R rows of a pack, W columns of a row.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ctd_jax.models import packing
from ctd_jax.models.arrays import AnyArray, TokenMask
from ctd_jax.models.packing import PackedTexts

POOLINGS = ("cls", "mean", "last")
ATTENTION = "attention"  # pooling by scores of the tokens, not of a config
# Finite, so that a text without tokens has finite weights.
_MASKED_SCORE = -1e9


def pool_tokens(
  token_states: Float[AnyArray, "B L D"],
  mask: TokenMask,
  kind: str,
  scores: Float[Array, "B L"] | None = None,
) -> Float[Array, "B D"]:
  """Returns one vector per row of one text, under either padding side.

  Args:
    token_states: states of the tokens, [B, L, D].
    mask: 1 or True where a token stands, [B, L].
    kind: as in `pool_texts`.
    scores: likewise.
  """
  segments = mask.astype(jnp.int32)
  return pool_texts(token_states, segments, kind, 1, scores)[:, 0]


def pool_texts(
  token_states: Float[AnyArray, "B L D"],
  segments: Int[AnyArray, "B L"],
  kind: str,
  max_texts: int,
  scores: Float[Array, "B L"] | None = None,
) -> Float[Array, "B {max_texts} D"]:
  """Returns one vector for every text of a row, [B, max_texts, D].

  Args:
    token_states: states of the tokens, [B, L, D].
    segments: which text of its row a token belongs to, from 1; 0 = padding;
      [B, L].
    kind: "cls" = first token, "last" = last token, "mean" = mean of all,
      "attention" = mean with the softmax of the scores as weights.
    max_texts: texts that a row may have, S.
    scores: of the tokens, [B, L]; "attention".

  Returns:
    Pooled states, not normalised. A text without any token gets a finite
    vector without meaning.

  Raises:
    ValueError: if `kind` is not one of `POOLINGS`.
  """
  # [B, S, L]: whether a token belongs to the text of a slot.
  is_member = segments[:, None, :] == jnp.arange(1, max_texts + 1)[:, None]
  weights = None
  if kind == "mean":
    weights = is_member.astype(token_states.dtype)
    # The clamp only matters for texts that pad a batch out.
    weights /= jnp.maximum(weights.sum(2, keepdims=True), 1.0)
  elif kind == ATTENTION and scores is not None:
    masked_scores = jnp.where(is_member, scores[:, None], _MASKED_SCORE)
    weights = jax.nn.softmax(masked_scores, axis=2).astype(token_states.dtype)
  if weights is not None:
    return jnp.matmul(
      weights, token_states, precision=jax.lax.Precision.HIGHEST
    )
  # argmax returns the first True of a row; reversed, it counts from the end.
  if kind == "cls":
    index = jnp.argmax(is_member, axis=2)
  elif kind == "last":
    index = is_member.shape[2] - 1 - jnp.argmax(is_member[:, :, ::-1], axis=2)
  else:
    raise ValueError(f"pooling must be one of {POOLINGS}, got {kind!r}")
  return jnp.take_along_axis(token_states, index[:, :, None], axis=1)


def pool_packed(
  token_states: Float[Array, "_ W D"],
  texts: PackedTexts,
  kind: str,
  scores: Float[Array, "_ W"] | None = None,
) -> Float[Array, "P T D"]:
  """Returns one vector for every packed text, [P, T, D].

  Args:
    token_states: states of the tokens of all rows, [P * R, W, D].
    texts: P packs of T texts in R rows of width W.
    kind: as in `pool_texts`.
    scores: likewise, of the tokens of all rows, [P * R, W].

  Returns:
    Pooled states, not normalised; zero for a text without tokens.
  """
  packs, rows, width = texts.ids.shape
  max_texts = packing.slots_per_row(width)
  segments = texts.segments.reshape(packs * rows, width)
  pooled = pool_texts(token_states, segments, kind, max_texts, scores)
  # [P * R, S, D] -> [P, R * S, D]. Taking within a pack keeps every vector on
  # the device that encoded it. The slot R * S of a text without tokens is out
  # of range and is filled with zeros.
  return jnp.take_along_axis(
    pooled.reshape(packs, rows * max_texts, -1),
    texts.slots[:, :, None],
    axis=1,
    mode="fill",
    fill_value=0.0,
  )
