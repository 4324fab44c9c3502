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
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

_WIDTH = 128  # columns; narrower rows are less full
# Tokens that a text has on average, at least, in a row that is full. It bounds
# the slots of a row, and with them the size of the pooled states.
_MIN_MEAN_LENGTH = 8


class PackedTexts(NamedTuple):
  """Texts in rows; one device encodes one pack at a time.

  Attributes:
    ids: token ids, int32 [P, R, W].
    segments: which text of its row a token belongs to, from 1; 0 = padding;
      int32 [P, R, W].
    slots: row * S + slot of each text, both from 0; R * S for a text without
      tokens; int32 [P, T].
  """

  ids: np.ndarray
  segments: np.ndarray
  slots: np.ndarray


class Layout(NamedTuple):
  """Positions of texts in rows; from `arrange_texts`.

  Attributes:
    positions: row, slot and first column of each text, int [P, T, 3].
    rows: R.
    width: W.
  """

  positions: np.ndarray
  rows: int
  width: int

  def select_packs(self, packs: slice) -> Layout:
    """Returns the layout of some packs."""
    return self._replace(positions=self.positions[packs])


def row_width(longest: int, max_length: int) -> int:
  """Returns the width W of rows for texts of up to `longest` tokens.

  Raises:
    ValueError: if the encoder takes only `max_length` tokens, which is less.
  """
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
  """Returns how many texts a row of a width may hold, S."""
  return max(1, width // _MIN_MEAN_LENGTH)


def arrange_texts(lengths: Int[np.ndarray, "P T"], width: int) -> Layout:
  """Returns the layout of texts of these lengths: best fit, longest first.

  All packs have as many rows as the fullest needs, rounded up by an eighth at
  most, so that few shapes are ever compiled.

  Args:
    lengths: tokens of the texts, at most `width`, int [P, T].
    width: W.
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
  """Returns the positions of a pack's texts, None if rows are too few.

  Args:
    lengths: tokens of the texts, the longest first.
    max_rows: R.
    width: W.
  """
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
  """Returns the texts in the rows of a layout.

  Args:
    ids: token ids of P * T texts, [B, L], in the order of the layout.
    mask: 1 for a token, [B, L]; padding may be on either side.
    layout: of these texts.
  """
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

  Args:
    ids: token ids, [N, L].
    mask: 1 for a token, [N, L].
    size: texts B of a batch, a multiple of `packs`.
    packs: packs P of a batch.
    max_length: tokens that the encoder takes.
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
      pack_slice = slice(number * packs, (number + 1) * packs)
      token_mask = np.where(texts[:, None] < 0, 0, mask[texts])
      yield (
        texts,
        pack_texts(ids[texts], token_mask, layout.select_packs(pack_slice)),
      )
