"""Packing: several short texts side by side in rows of one width.

Padded to the longest of a batch, the texts of a rebuilt chronicle are two
thirds padding. Rows that hold several texts are nearly full, and queries,
positives and negatives pass the encoder once, together. No text attends to its
neighbours; see `attention.make_attention_mask`.

Axes: P packs, T texts of a pack, R rows of a pack, W columns of a row, S slots
for texts in a row, L tokens of a text before packing, N texts of a collection,
B texts of a batch.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models.encoders import layers
from ctd_jax.models.encoders.layers import AnyArray, TokenIds

_WIDTH = 128  # columns; narrower rows are less full
# Tokens that a text has on average, at least, in a row that is full. It bounds
# the slots of a row, and with them the size of the pooled states.
_MIN_MEAN_LENGTH = 8


class PackedTexts(NamedTuple):
  """Texts in rows; one device encodes one pack at a time."""

  ids: np.ndarray  # token ids, int32 [P, R, W]
  # Which text of its row a token belongs to, from 1; 0 = padding; int32 [P, R,
  # W].
  segments: np.ndarray
  # Row * S + slot of each text, both from 0; R * S for a text without tokens;
  # int32 [P, T].
  slots: np.ndarray


class Layout(NamedTuple):
  """Positions of texts in rows; from `arrange_texts`."""

  # Row, slot and first column of each text, int [P, T, 3].
  positions: np.ndarray
  rows: int  # R
  width: int  # W

  def select_packs(self, packs: slice) -> Layout:
    """Returns the layout of some packs."""
    return self._replace(positions=self.positions[packs])


def row_width(longest: int, max_length: int) -> int:
  """Returns the width W of rows for texts of up to `longest` tokens."""
  if longest > max_length:
    raise ValueError(
      f"texts of {longest} tokens exceed max_length {max_length} of the encoder"
    )
  return min(longest + -longest % _WIDTH, max_length)


def row_widths(width: int, max_length: int, multiple: int) -> list[int]:
  """Returns possible widths from `width` on, in steps of `multiple`.

  Few short texts fill a row that is a little wider better than two rows.
  """
  return list(range(width, min(2 * width, max_length) + 1, multiple))


def slots_per_row(width: int) -> int:
  """Returns the maximum number of texts in a row of a width, S."""
  return max(1, width // _MIN_MEAN_LENGTH)


def arrange_texts(lengths: Int[np.ndarray, "P T"], width: int) -> Layout:
  """Returns the layout of texts of these lengths: best fit, longest first.

  All packs have as many rows as the fullest needs, rounded up by an eighth at
  most, so that few shapes are ever compiled.

  Args:
    lengths: tokens of the texts, at most `width`, int [P, T].
  """
  layout = fit_texts(lengths, lengths.shape[1], width)
  assert layout is not None  # a row for each text is enough
  rows = 1 + int(layout.positions[:, :, 0].max(initial=0))
  # Eight numbers of rows between two powers of two.
  step = 2 ** max(0, (rows - 1).bit_length() - 4)
  return layout._replace(rows=rows + -rows % step)


def fit_texts(
  lengths: Int[np.ndarray, "P T"], rows: int, width: int
) -> Layout | None:
  """Returns the layout of `arrange_texts` in `rows` rows, None if they are too
  few.
  """
  if lengths.sum(axis=1).max(initial=0) > rows * width:
    return None
  order = np.argsort(-lengths, axis=1, kind="stable")
  positions = np.zeros((*lengths.shape, 3), np.int64)
  for pack, texts in enumerate(order):
    pack_positions = _fill_rows(lengths[pack, texts].tolist(), rows, width)
    if pack_positions is None:
      return None
    positions[pack, texts] = pack_positions
  return Layout(positions, rows, width)


def _fill_rows(
  lengths: list[int], max_rows: int, width: int
) -> list[tuple[int, int, int]] | None:
  """Returns the positions of a pack's texts, None if rows are too few."""
  positions: list[tuple[int, int, int]] = []
  rows, max_slots = 0, slots_per_row(width)
  # Rows by their number of free columns, with their first free slot. Bit k of
  # the mask is set where there are rows with k free columns.
  open_rows = collections.defaultdict(list)
  open_mask = 0
  while len(positions) < len(lengths):
    length = lengths[len(positions)]
    if not length:  # nor do the others have tokens
      positions += [(0, 0, 0)] * (len(lengths) - len(positions))
      break
    fitting_mask = open_mask >> length
    if fitting_mask:
      # The lowest bit: the row that is left with the fewest free columns.
      free = length + (fitting_mask & -fitting_mask).bit_length() - 1
      row, slot = open_rows[free].pop()
      if not open_rows[free]:
        open_mask ^= 1 << free
    else:
      free, row, slot = width, rows, 0
      rows += 1
      if rows > max_rows:
        return None
    # It fits the next text of this length best, too, while that fits.
    for _ in range(min(free // length, max_slots - slot)):
      positions.append((row, slot, width - free))
      slot, free = slot + 1, free - length
      next_text = len(positions)
      if next_text == len(lengths) or lengths[next_text] != length:
        break
    if slot < max_slots:
      open_rows[free].append((row, slot))
      open_mask |= 1 << free
  return positions


def pack_texts(
  ids: Int[np.ndarray, "B L"], mask: Int[np.ndarray, "B L"], layout: Layout
) -> PackedTexts:
  """Returns texts in the rows of a layout; padding may be on either side."""
  packs, count, _ = layout.positions.shape
  is_token = mask.astype(bool)
  text, _ = np.nonzero(is_token)  # of every token, in order
  # Each of row, slot and first_column is [P * T].
  row, slot, first_column = np.moveaxis(layout.positions.reshape(-1, 3), 1, 0)
  column = (np.cumsum(is_token, axis=1) - 1)[is_token] + first_column[text]
  shape = packs, layout.rows, layout.width
  packed, segments = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
  packed[text // count, row[text], column] = ids[is_token]
  segments[text // count, row[text], column] = slot[text] + 1
  size = slots_per_row(layout.width)
  slots = np.where(is_token.any(axis=1), row * size + slot, layout.rows * size)
  return PackedTexts(
    packed, segments, slots.reshape(packs, count).astype(np.int32)
  )


def iter_packed_batches(
  ids: Int[np.ndarray, "N L"],
  mask: Int[np.ndarray, "N L"],
  size: int,
  packs: int,
  max_length: int,
) -> Iterator[tuple[Int[np.ndarray, " B"], PackedTexts]]:
  """Yields all texts in batches of few shapes: (indices of texts, packed).

  Texts longer than a row get rows twice or more as wide, in batches of their
  own: attention costs the square of the width. Texts of one width are dealt to
  the packs by length, so that all packs are about as full. In the last batch of
  a width, index -1 stands for a text without tokens.
  """
  lengths = mask.sum(axis=1)
  doublings = np.ceil(np.log2(np.maximum(lengths, 1) / _WIDTH)).clip(0)
  widths = np.minimum(_WIDTH * 2 ** doublings.astype(int), max_length)
  for width in np.unique(widths):
    text_indices = np.flatnonzero(widths == width)
    count = -(-len(text_indices) // size)
    dealt_indices = np.full(count * size, -1)
    order = np.argsort(lengths[text_indices], kind="stable")
    dealt_indices[: len(text_indices)] = text_indices[order]
    # Dealt by length to batches, then to packs:
    # [size / packs, packs, batches] -> [batches, packs, size / packs].
    dealt_indices = np.moveaxis(
      dealt_indices.reshape(-1, packs, count), 2, 0
    ).swapaxes(1, 2)
    layout = arrange_texts(
      np.where(dealt_indices < 0, 0, lengths[dealt_indices]).reshape(
        count * packs, -1
      ),
      int(width),
    )
    for number, texts in enumerate(dealt_indices.reshape(count, size)):
      batch_layout = layout.select_packs(
        slice(number * packs, (number + 1) * packs)
      )
      token_mask = np.where(texts[:, None] < 0, 0, mask[texts])
      yield texts, pack_texts(ids[texts], token_mask, batch_layout)


# Pooling: one vector per text from the states of its tokens.
#
# A BERT represents a text by its first token, a decoder by its last, and an
# encoder that starts from scratch by the mean of all. A pad taken for the
# first or last token is an old and silent error, so all pooling is done here,
# for rows of one text or several. If one token represents a text, the encoder
# is told where it is and computes no other states in its last layer.
#
# Axes: B texts (or rows), L tokens, D features, S slots for texts in a row, P
# packs, T texts of a pack, R rows of a pack, W columns of a row.


POOLINGS = ("cls", "mean", "last")
_ONE_TOKEN = ("cls", "last")  # poolings that read the state of one token
ATTENTION = "attention"  # pooling by scores of the tokens, not of a config
# Finite, so that a text without tokens has finite weights.
_MASKED_SCORE = -1e9


def encode_texts(
  encoder: Callable[..., Float[Array, "B S D"]],
  ids: TokenIds,
  segments: Int[AnyArray, "B L"],
  kind: str,
  max_texts: int,
  deterministic: bool = True,
) -> Float[Array, "B {max_texts} D"]:
  """Returns the vectors of the texts of each row, see `pool_texts`.

  Args:
    encoder: `(ids, segments, deterministic, columns)` -> states of the tokens
      in those columns, [B, S, D]; of all tokens if `columns` is None.
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

  A text without tokens gets a finite but meaningless vector.

  Args:
    token_states: states of the tokens.
    segments: number of the text in its row that a token belongs to, from 1; 0 =
      padding.
    kind: "cls" = first token, "last" = last token, "mean" = mean of all,
      "attention" = mean weighted by the softmax of the scores.
    max_texts: texts that a row may have, S.
    scores: scores of the tokens, for "attention".
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
  max_texts = slots_per_row(ids.shape[1])
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
  """Returns the vector of every packed text, zero for one without tokens."""
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
