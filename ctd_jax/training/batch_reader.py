"""Reader of training batches: arrays of the share that a process has.

Nothing here needs a device, so that processes that read ahead leave them alone.

Axes: B queries in a batch, H hard negatives a query, T train queries, N
records, P packs, G/Y/M reign, year and month classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import grain
import numpy as np
from jaxtyping import Bool, Int32

from ctd_jax.models import packing
from ctd_jax.training import row_shapes, token_store
from ctd_jax.training.batch_plan import BatchPlanner, BatchTexts
from ctd_jax.training.row_shapes import RowShape, TextPlaces
from ctd_jax.training.token_store import TokenStore


@dataclasses.dataclass(frozen=True)
class Share:
  """The share of a batch that a process has, equal and in order.

  Attributes:
    index: of the process.
    count: of processes.
  """

  index: int = 0
  count: int = 1

  def of(self, rows: int) -> slice:
    """Returns which of so many rows are in the share."""
    size = rows // self.count
    return slice(self.index * size, (self.index + 1) * size)


WHOLE = Share()  # of one process


@dataclasses.dataclass(frozen=True)
class BatchReader(grain.transforms.Map):
  """Makes the arrays of a batch from its number.

  Of the whole batch it knows the lengths of the texts, and so, like every other
  process, the place of each; it reads those in its own packs.

  Attributes:
    planner: says which texts a batch has.
    share: of this process.
    packs: of the global batch, P.
    shapes: of their rows.
    queries: tokens of the train queries.
    records: tokens of the gallery.
    query_ends: ordinal months.
    query_targets: of the heads, [T, classes].
    record_months: ordinal.
    record_classes: reign, year, month from 0.
    record_is_positive: of a kind that can answer.
  """

  planner: BatchPlanner
  share: Share
  packs: int
  shapes: Sequence[RowShape]
  queries: TokenStore
  records: TokenStore
  query_ends: Int32[np.ndarray, "T 2"]
  query_targets: tuple[np.ndarray, ...]
  record_months: Int32[np.ndarray, " N"]
  record_classes: Int32[np.ndarray, "N 3"]
  record_is_positive: Bool[np.ndarray, " N"]

  def map(self, element: int) -> dict[str, Any]:
    """Returns one batch; see `input_pipeline.training_batches`."""
    texts = self.planner.plan(element)
    lengths = self.planner.count_tokens(texts).reshape(-1)
    places = row_shapes.arrange_batch(lengths, self.packs, self.shapes)
    own_queries = self.share.of(len(texts.queries))
    query, records = texts.queries[own_queries], texts.records[own_queries]
    positive, negatives = records[:, 0], records[:, 1:].reshape(-1)
    reign, year, month = (targets[query] for targets in self.query_targets)
    order = places.pack * places.shape.texts + places.place
    return {
      "texts": self._pack_texts(texts, lengths, places),
      "text_order": order[self.share.of(len(order))].astype(np.int32),
      "query_ends": self.query_ends[query],
      "query_reign": reign,
      "query_year": year,
      "query_month": month,
      "positive_month": self.record_months[positive],
      "positive_classes": self.record_classes[positive],
      "negative_month": self.record_months[negatives],
      "negative_answers": self.record_is_positive[negatives],
    }

  def _pack_texts(
    self, texts: BatchTexts, lengths: np.ndarray, places: TextPlaces
  ) -> packing.PackedTexts:
    """Returns the texts in the packs of this process."""
    rows, width, num_places = places.shape
    own_packs = self.share.of(self.packs)
    own = np.flatnonzero(
      (own_packs.start <= places.pack) & (places.pack < own_packs.stop)
    )
    pack = places.pack[own] - own_packs.start
    row, slot = places.row[own], places.slot[own]
    packs = own_packs.stop - own_packs.start
    ids = np.zeros(packs * rows * width, np.int32)
    segments = np.zeros_like(ids)
    cells = (pack * rows + row) * width + places.column[own]
    segments[token_store.spread(cells, lengths[own])] = np.repeat(
      (slot + 1).astype(np.int32), lengths[own]
    )
    query, column = np.divmod(own, 1 + texts.records.shape[1])
    is_query = column == 0
    self.queries.copy_texts(
      texts.queries[query[is_query]], cells[is_query], ids
    )
    self.records.copy_texts(
      texts.records[query[~is_query], column[~is_query] - 1],
      cells[~is_query],
      ids,
    )
    # A place without a text, or whose text has no tokens, is told by this.
    size = packing.slots_per_row(width)
    slots = np.full((packs, num_places), rows * size, np.int32)
    slots[pack, places.place[own]] = np.where(
      lengths[own] > 0, row * size + slot, rows * size
    )
    shape = packs, rows, width
    return packing.PackedTexts(
      ids.reshape(shape), segments.reshape(shape), slots
    )
