"""Shapes of the rows that hold a training batch: two at most in a run.

Every shape is compiled once, which takes minutes for a large encoder. The usual
one holds nearly all batches, the large one those of unusually long texts. Both
follow from the first batches of the run, hence from its seed.

The texts of a batch lie in any of its packs, not in that of their query: with
few queries on a device one pack would be full and others half empty. Where a
text lies, `TextPlaces` says.

Axes: P packs, R rows of a pack, N texts of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from ctd_jax.models import packing

# Of columns: a tensor core takes 8 or 16 at once, a vector of a TPU 128.
_WIDTH_MULTIPLES = {"tpu": 128}
_WIDTH_MULTIPLE = 32
# Columns of a row in which attention costs as much as all else: six times the
# width of the states, for that is 768 in most encoders.
_ATTENTION_WIDTH = 6 * 768
# The large shape has room for batches so many standard deviations above the
# mean, of tokens of queries that are drawn independently.
_DEVIATIONS = 6
_SAMPLE_TEXTS = 20_000
_SAMPLE_BATCHES = (4, 200)  # at least and at most


class RowShape(NamedTuple):
  """Shape of a pack.

  Attributes:
    rows: R.
    width: columns of a row.
    texts: that it has places for.
  """

  rows: int
  width: int
  texts: int

  @property
  def cost(self) -> float:
    """Time of its attention and all else, in columns."""
    return self.rows * self.width * (1 + self.width / _ATTENTION_WIDTH)


class TextPlaces(NamedTuple):
  """Where the texts of a batch lie.

  Attributes:
    shape: of every pack.
    pack: of each text, [N].
    row: of its pack.
    slot: of its row.
    column: its first one.
    place: among the texts of its pack.
  """

  shape: RowShape
  pack: Int[np.ndarray, " N"]
  row: Int[np.ndarray, " N"]
  slot: Int[np.ndarray, " N"]
  column: Int[np.ndarray, " N"]
  place: Int[np.ndarray, " N"]


def width_multiple(platform: str) -> int:
  """Returns the number that widths of rows are multiples of.

  Args:
    platform: of the devices, e.g. "tpu".
  """
  return _WIDTH_MULTIPLES.get(platform, _WIDTH_MULTIPLE)


def arrange_batch(
  lengths: Int[np.ndarray, " N"], packs: int, shapes: Sequence[RowShape]
) -> TextPlaces:
  """Returns the places of texts in the first of the shapes that holds them.

  If none does, the last one grows.

  Args:
    lengths: tokens of the texts, at most the width of each shape.
    packs: P.
    shapes: to be tried in this order.
  """
  for shape in shapes:
    layout = packing.fit_texts(lengths[None], shape.rows * packs, shape.width)
    if layout is not None:
      places = _deal_rows(layout.positions[0], packs, shape)
      if places.place.max(initial=0) < shape.texts:
        return places
  width = shapes[-1].width
  layout = packing.fit_texts(lengths[None], len(lengths), width)
  rows = -(-_count_rows(layout) // packs)
  places = _deal_rows(
    layout.positions[0], packs, RowShape(rows, width, len(lengths))
  )
  return places


def _deal_rows(
  positions: Int[np.ndarray, "N 3"], packs: int, shape: RowShape
) -> TextPlaces:
  """Returns the places of texts whose rows are dealt to packs in turns."""
  row, slot, column = positions.T
  # The first rows have the longest texts, hence the fewest.
  row, pack = np.divmod(row, packs)
  counts = np.bincount(pack, minlength=packs)
  place = np.empty_like(pack)
  # Of the texts of every pack, in order: 0, 1, 2, ...
  place[np.argsort(pack, kind="stable")] = np.arange(len(pack)) - np.repeat(
    np.cumsum(counts) - counts, counts
  )
  return TextPlaces(shape, pack, row, slot, column, place)


def _count_rows(layout: packing.Layout) -> int:
  """Returns the rows in use, of one pack."""
  return 1 + int(layout.positions[0, :, 0].max(initial=0))


def count_sample(texts: int) -> int:
  """Returns how many batches `choose_shapes` is to see.

  Args:
    texts: of a batch.
  """
  return int(np.clip(_SAMPLE_TEXTS // texts, *_SAMPLE_BATCHES))


def choose_shapes(
  batches: Sequence[Int[np.ndarray, "B _"]],
  packs: int,
  widths: Sequence[int],
) -> tuple[RowShape, RowShape]:
  """Returns the usual shape and the large one.

  Args:
    batches: tokens of each query and of its records, of some batches.
    packs: P.
    widths: to choose from; the first takes the longest text.
  """
  # Rows that each batch needs at each width.
  needs = {
    width: np.array(
      [_count_pack_rows(batch, packs, width) for batch in batches]
    )
    for width in widths
  }
  sums = np.array([batch.sum() for batch in batches])
  queries = np.concatenate([batch.sum(axis=1) for batch in batches])
  deviation = queries.std() * len(batches[0]) ** 0.5
  growth = max(1.0, (sums.mean() + _DEVIATIONS * deviation) / sums.max())
  num_texts = batches[0].size
  large = min(
    (
      RowShape(int(np.ceil(growth * needs[width].max())), width, num_texts)
      for width in widths
    ),
    key=lambda shape: shape.cost,
  )

  def mean_cost(shape: RowShape) -> float:
    is_held = needs[shape.width] <= shape.rows
    return float(np.where(is_held, shape.cost, large.cost).mean())

  usual = min(
    (
      RowShape(int(rows), width, num_texts)
      for width in widths
      for rows in np.unique(needs[width])
    ),
    key=mean_cost,
  )
  return tuple(_limit_texts(shape, batches, packs) for shape in (usual, large))


def _count_pack_rows(
  lengths: Int[np.ndarray, "B _"], packs: int, width: int
) -> int:
  """Returns the rows of a pack that a batch needs."""
  layout = packing.fit_texts(lengths.reshape(1, -1), lengths.size, width)
  return -(-_count_rows(layout) // packs)


def _limit_texts(
  shape: RowShape, batches: Sequence[Int[np.ndarray, "B _"]], packs: int
) -> RowShape:
  """Returns a shape with as many places for texts as packs will need."""
  num_texts = batches[0].size
  if packs == 1:
    return shape
  most = max(
    1 + int(_deal_rows(layout.positions[0], packs, shape).place.max())
    for batch in batches
    if (
      layout := packing.fit_texts(batch.reshape(1, -1), batch.size, shape.width)
    )
  )
  return shape._replace(texts=count_places(most, num_texts))


def count_places(texts: int, num_texts: int) -> int:
  """Returns places for the texts of a pack, with room to spare.

  A quarter more, which is little beside the tokens; in eights.

  Args:
    texts: that a pack has.
    num_texts: of the batch.
  """
  places = texts + texts // 4 + 8
  return min(places - places % 8, num_texts)
