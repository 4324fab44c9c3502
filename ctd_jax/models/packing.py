"""Short texts side by side in rows of one width, and where each one lies.

Why: padded to the longest of a batch, the texts of a rebuilt chronicle are two
parts padding to one part text. Rows that hold several texts are nearly full,
and queries, positives and negatives pass the encoder once, together. A text
sees none of its neighbours: `layers.make_attention_mask`. Training, the encoding of
a gallery and `text_encoder` pack alike.

Axes: P packs, T texts of a pack, R rows of a pack, W columns of a row, L tokens
of a text before packing, S places for texts in a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_WIDTH = 128  # columns; rows of fewer are not as full
_MIN_MEAN_LENGTH = (
  8  # tokens a text has on average, at least, in a row that is full
)


class PackedTexts(NamedTuple):
  """Texts in rows; a pack is what one device encodes at once.

  Attributes:
    ids: token ids, int32 [P, R, W].
    segments: which text of its row a token is of, from 1; 0 = padding; int32
      [P, R, W].
    slots: row * S + place of each text, both from 0; R * S for one without
      tokens; int32 [P, T].
  """

  ids: np.ndarray
  segments: np.ndarray
  slots: np.ndarray


class Layout(NamedTuple):
  """Where texts lie; see `arrange`.

  Attributes:
    positions: row, place and first column of each text, int [P, T, 3].
    rows: R.
    width: W.
  """

  positions: np.ndarray
  rows: int
  width: int

  def select_packs(self, packs: slice) -> Layout:
    """Returns the layout of some of the packs."""
    return self._replace(positions=self.positions[packs])


def row_width(longest: int, max_length: int) -> int:
  """Returns the width of rows, W.

  Args:
    longest: tokens of the longest text.
    max_length: tokens that the encoder takes.

  Raises:
    ValueError: if it does not take the longest text.
  """
  if longest > max_length:
    raise ValueError(
      f"texts of {longest} tokens exceed max_length {max_length} of the encoder"
    )
  return min(longest + -longest % _WIDTH, max_length)


def slots_per_row(width: int) -> int:
  """Returns how many texts a row of a width may hold, S."""
  return max(1, width // _MIN_MEAN_LENGTH)


def arrange_texts(lengths: np.ndarray, width: int) -> Layout:
  """Returns where texts of these lengths lie: best fit, longest first.

  All packs have as many rows as the fullest needs, rounded up by an eighth at
  most, so that few shapes are ever compiled.

  Args:
    lengths: tokens of the texts, at most `width`, int [P, T].
    width: W.
  """
  pack_layouts = [_arrange_pack(pack, width) for pack in lengths]
  rows = max(rows for _, rows in pack_layouts)
  step = 2 ** max(0, (rows - 1).bit_length() - 4)
  positions = np.stack([positions for positions, _ in pack_layouts])
  return Layout(positions, rows + -rows % step, width)


def _arrange_pack(lengths: np.ndarray, width: int) -> tuple[np.ndarray, int]:
  """Returns the spots of the texts of a pack, [T, 3], and the rows in use."""
  positions = np.zeros((len(lengths), 3), np.int64)
  rows = 0
  # Rows by their free columns, each with its first free place.
  open_rows: list[list[tuple[int, int]]] = [[] for _ in range(width + 1)]
  for text in np.argsort(-lengths, kind="stable"):
    length = int(lengths[text])
    if not length:
      break
    fitting_widths = (
      free for free in range(length, width + 1) if open_rows[free]
    )
    free = next(fitting_widths, width)
    if open_rows[free]:
      row, slot = open_rows[free].pop()
    else:
      row, slot, rows = rows, 0, rows + 1
    positions[text] = row, slot, width - free
    if slot + 1 < slots_per_row(width):
      open_rows[free - length].append((row, slot + 1))
  return positions, max(rows, 1)


def pack_texts(
  ids: np.ndarray, mask: np.ndarray, layout: Layout
) -> PackedTexts:
  """Returns the texts laid out.

  Args:
    ids: their token ids, [P * T, L], in the order of the layout.
    mask: 1 where a token stands, [P * T, L].
    layout: of these texts.
  """
  packs, count, _ = layout.positions.shape
  is_token = mask.astype(bool)
  text, _ = np.nonzero(is_token)
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
  ids: np.ndarray, mask: np.ndarray, size: int, packs: int, max_length: int
) -> Iterator[tuple[np.ndarray, PackedTexts]]:
  """Yields all texts in batches of few shapes: (which they are, packed).

  Long texts have rows of their own, twice or more as wide: a token is compared
  with all of its row. Else texts of all lengths are dealt to every pack.

  Args:
    ids: token ids, [N, L].
    mask: 1 where a token stands, [N, L].
    size: texts of a batch, which `packs` divides.
    packs: P.
    max_length: tokens that the encoder takes.

  Yields:
    Which text stands where, int [size], and the batch; where the texts do not
    fill the last batch of a width, -1 stands for one without tokens.
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
