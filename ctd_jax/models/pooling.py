"""Pooling: one vector per text from the states of its tokens.

A BERT represents a text by its first token, a decoder by its last, and an
encoder that starts from scratch by the mean of all. A pad taken for the first
or last token is an old and silent error, so all pooling is done here, for rows
of one text or several. If one token represents a text, the encoder is told
where it is and computes no other states in its last layer.

Axes: B texts (or rows), L tokens, D features, S slots for texts in a row, P
packs, T texts of a pack, R rows of a pack, W columns of a row.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models import packing
from ctd_jax.models.arrays import AnyArray, TokenIds, TokenMask
from ctd_jax.models.encoders import layers
from ctd_jax.models.packing import PackedTexts

POOLINGS = ("cls", "mean", "last")
_ONE_TOKEN = ("cls", "last")  # poolings that read the state of one token
ATTENTION = "attention"  # pooling by scores of the tokens, not of a config
# Finite, so that a text without tokens has finite weights.
_MASKED_SCORE = -1e9


def pool_tokens(
  token_states: Float[AnyArray, "B L D"], mask: TokenMask, kind: str
) -> Float[Array, "B D"]:
  """Returns one vector per row of one text; padding may be on either side."""
  return pool_texts(token_states, mask.astype(jnp.int32), kind, 1)[:, 0]


def encode_texts(
  encoder: Callable[..., Float[Array, "B S D"]],
  ids: TokenIds,
  segments: Int[AnyArray, "B L"],
  kind: str,
  max_texts: int,
  deterministic: bool = True,
) -> Float[Array, "B {max_texts} D"]:
  """Returns the vectors of the texts of each row, as `pool_texts` of all
  states.

  Args:
    encoder: `(ids, segments, deterministic, columns)` -> states of the tokens
      in those columns, [B, S, D]; of all tokens if `columns` is None.
    ids: token ids.
    segments: which text of its row a token belongs to, from 1; 0 = padding.
    kind: one of `POOLINGS`.
    max_texts: texts that a row may have.
    deterministic: whether dropout is off.

  Raises:
    ValueError: if `kind` is unknown.
  """
  if kind in _ONE_TOKEN:
    columns = _find_columns(_find_members(segments, max_texts), kind)
    return encoder(ids, segments, deterministic, columns)
  states = encoder(ids, segments, deterministic, None)
  return pool_texts(states, segments, kind, max_texts)


def pool_texts(
  token_states: Float[AnyArray, "B L D"],
  segments: Int[AnyArray, "B L"],
  kind: str,
  max_texts: int,
  scores: Float[Array, "B L"] | None = None,
) -> Float[Array, "B {max_texts} D"]:
  """Returns one vector for every text of a row, not normalised.

  A text without any token gets a finite vector without meaning.

  Args:
    token_states: states of the tokens.
    segments: which text of its row a token belongs to, from 1; 0 = padding.
    kind: "cls" = first token, "last" = last token, "mean" = mean of all,
      "attention" = mean weighted by the softmax of the scores.
    max_texts: texts that a row may have, S.
    scores: of the tokens, for "attention".

  Raises:
    ValueError: if `kind` is unknown.
  """
  is_member = _find_members(segments, max_texts)
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
  if kind not in POOLINGS:
    raise ValueError(f"pooling must be one of {POOLINGS}, got {kind!r}")
  return layers.take_tokens(token_states, _find_columns(is_member, kind))


def _find_members(
  segments: Int[AnyArray, "B L"], max_texts: int
) -> Bool[Array, "B S L"]:
  """Returns whether a token belongs to the text of a slot, [B, S, L]."""
  return segments[:, None, :] == jnp.arange(1, max_texts + 1)[:, None]


def _find_columns(
  is_member: Bool[Array, "B S L"], kind: str
) -> Int[Array, "B S"]:
  """Returns the position of the token that represents each text, [B, S]."""
  # argmax returns the first True of a row; reversed, it counts from the end.
  if kind == "cls":
    return jnp.argmax(is_member, axis=2)
  return is_member.shape[2] - 1 - jnp.argmax(is_member[:, :, ::-1], axis=2)


def encode_packed(
  encoder: Callable[..., Float[Array, "_ S D"]],
  texts: PackedTexts,
  kind: str,
  deterministic: bool = True,
) -> Float[Array, "P T D"]:
  """Returns the vector of every packed text, as `encode_texts`, [P, T, D].

  Vectors are not normalised; that of a text without tokens is zero.
  """
  ids, segments = flatten_packs(texts)
  max_texts = packing.slots_per_row(ids.shape[1])
  return take_packed(
    encode_texts(encoder, ids, segments, kind, max_texts, deterministic), texts
  )


def flatten_packs(
  texts: PackedTexts,
) -> tuple[Int[AnyArray, "_ W"], Int[AnyArray, "_ W"]]:
  """Returns ids and segments of the rows of all packs, [P * R, W] each.

  A row is a text to an encoder, whose attention keeps segments apart.
  """
  width = texts.ids.shape[2]
  return texts.ids.reshape(-1, width), texts.segments.reshape(-1, width)


def take_packed(
  pooled: Float[Array, "_ S D"], texts: PackedTexts
) -> Float[Array, "P T D"]:
  """Returns the vector of every packed text, zero for one without tokens.

  Args:
    pooled: vectors of the slots of all rows, [P * R, S, D].
    texts: P packs of T texts in R rows.
  """
  # [P * R, S, D] -> [P, R * S, D]. Taking within a pack keeps every vector on
  # the device that encoded it. The slot R * S of a text without tokens is out
  # of range and is filled with zeros.
  return jnp.take_along_axis(
    pooled.reshape(len(texts.ids), -1, pooled.shape[-1]),
    texts.slots[:, :, None],
    axis=1,
    mode="fill",
    fill_value=0.0,
  )
