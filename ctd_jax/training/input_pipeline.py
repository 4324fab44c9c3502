"""From a benchmark to batches of integers.

`Tokens` holds the texts tokenised once; `training_batches` is a grain pipeline
that draws, for every query, a positive record and hard negatives of train
months, packs their texts, and can be stopped and resumed at any batch. Time
becomes integers here and nowhere else. Called by `experiment`.

Axes: B queries in a batch, H hard negatives a query, L tokens, G/Y/M reign,
year and month classes.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import grain
import jax
import ml_collections
import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import (
  ANSWERING_KINDS,
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
)
from ctd_jax.chronology.timelines import Interval, Timeline
from ctd_jax.models import packing
from ctd_jax.models.tokenizer import TextTokenizer

# Hard negatives by type, with the kind of record each is.
NEGATIVE_TYPES = {
  "same_month_comment": NEG_COMMENT,
  "near_placeholder": NO_EVENT,
  "near_event": EVENT,
  "any_comment": NEG_COMMENT,
  "release_comment": NEG_COMMENT,
}
# How far from the query's interval a mined negative may lie, in months: the
# neighbouring months, and the same month of the neighbouring years.
_NEAR_MONTHS = (1, 2, 3, 12, 24)
_MAX_DRAWS = 8
# Candidates of which the release takes one: comments on the months asked for,
# filled up with others.
_RELEASE_POOL = 16


@dataclasses.dataclass(frozen=True)
class Tokens:
  """Tokenised texts: `ids` and `mask`, both int32 `[N, L]`."""

  ids: np.ndarray
  mask: np.ndarray

  def __len__(self) -> int:
    return len(self.ids)

  @functools.cached_property
  def lengths(self) -> np.ndarray:
    """Tokens of each text, int [N]."""
    return self.mask.sum(axis=1)

  def __getitem__(self, rows: Any) -> Tokens:
    return Tokens(self.ids[rows], self.mask[rows])


def tokenize_texts(
  tokenizer: TextTokenizer,
  texts: Sequence[str],
  max_length: int,
  prefix: str = "",
) -> Tokens:
  """Returns `texts`, each after `prefix`, as tokens `[N, max_length]`."""
  ids, mask = tokenizer.encode(texts, max_length, prefix=prefix)
  return Tokens(np.asarray(ids, np.int32), np.asarray(mask, np.int32))


def build_tokenizer(benchmark: Benchmark) -> TextTokenizer:
  """Returns a character tokenizer over what training may see.

  That is the text of train records and train queries; a character that only
  a held-out month has is unknown, as it is in use.
  """
  texts = [
    record.text
    for record, split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
    if split == "train"
  ]
  return TextTokenizer.build(
    texts + [query.text for query in benchmark.queries["train"]]
  )


def calendar_targets(
  interval: Interval, timeline: Timeline
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns class probabilities of an interval, uniform over its months.

  Args:
    interval: one month (then the targets are one-hot) or a window.
    timeline: its calendar.

  Returns:
    float32 arrays `[G]`, `[Y]`, `[M]`, each summing to 1.
  """
  targets = tuple(
    np.zeros(count, np.float32) for count in timeline.class_counts
  )
  months = list(timeline.iterate_keys(interval))
  for key in months:
    for target, class_number in zip(targets, key.triple, strict=True):
      target[class_number - 1] += 1 / len(months)
  return targets


class NegativeSampler:
  """Draws hard negatives for a query from the records of train months.

  Types, all sharing something with what is asked without answering it:
  `same_month_comment` (later exegesis on a queried month), `near_placeholder`
  and `near_event` (records 1-3 months, one or two years off the interval),
  `any_comment` (later exegesis on any month). A type with nothing to offer
  falls back to any train record of its kind. `release_comment` is what the
  released code draws: one of 16 comments, on the months asked for as far as
  they have so many.
  """

  def __init__(self, benchmark: Benchmark, counts: Mapping[str, int]):
    """Indexes the train records by kind and month.

    Args:
      benchmark: the data set.
      counts: negatives of each type for one query; their sum is H.

    Raises:
      ValueError: if a type is unknown, or the data set has no train record
        of its kind; the message names it.
    """
    for name in counts:
      if name not in NEGATIVE_TYPES:
        raise ValueError(
          f"config.negatives.{name}: unknown type; "
          f"there are {', '.join(NEGATIVE_TYPES)}"
        )
    self._types = [name for name, n in counts.items() for _ in range(n)]
    self._timeline = benchmark.timeline
    self._by_month = collections.defaultdict(list)
    self._by_kind = collections.defaultdict(list)
    for row, (record, split) in enumerate(
      zip(benchmark.records, benchmark.record_splits, strict=True)
    ):
      if split == "train":
        month = self._timeline.ordinal(record.key)
        self._by_month[record.kind, month].append(row)
        self._by_kind[record.kind].append(row)
    for name in self._types:
      if NEGATIVE_TYPES[name] not in self._by_kind:
        raise ValueError(
          f"config.negatives.{name}={counts[name]}: {benchmark.name} has no "
          f"train record of the kind {NEGATIVE_TYPES[name]}; set it to 0"
        )

  def __len__(self) -> int:
    """Number of negatives a query, H."""
    return len(self._types)

  def draw_negatives(
    self, ends: tuple[int, int], rng: np.random.Generator
  ) -> np.ndarray:
    """Returns rows of the gallery `[H]`.

    Args:
      ends: ordinal months of the query's interval.
      rng: consumed.
    """
    rows = [self._draw_one(name, *ends, rng) for name in self._types]
    return np.array(rows, np.int32)

  def _draw_one(
    self, name: str, start: int, end: int, rng: np.random.Generator
  ) -> int:
    kind = NEGATIVE_TYPES[name]
    if name == "release_comment":
      return self._draw_released(start, end, rng)
    for _ in range(_MAX_DRAWS if name != "any_comment" else 0):
      if name == "same_month_comment":
        month = int(rng.integers(start, end + 1))
      else:
        offset = int(rng.choice(_NEAR_MONTHS))
        month = end + offset if rng.integers(2) else start - offset
      rows = self._by_month.get((kind, month))
      if rows:
        return rows[int(rng.integers(len(rows)))]
    rows = self._by_kind[kind]
    return rows[int(rng.integers(len(rows)))]

  def _draw_released(
    self, start: int, end: int, rng: np.random.Generator
  ) -> int:
    """Returns one of the release's candidates without listing them.

    Source: released code, training data set: up to 16 comments of the target
    months, topped up from the other ones, of which the collator takes one.
    """
    near_rows = [
      row
      for month in range(start, end + 1)
      for row in self._by_month.get((NEG_COMMENT, month), ())
    ]
    rows = self._by_kind[NEG_COMMENT]
    if rng.integers(_RELEASE_POOL) < len(near_rows) or len(near_rows) == len(
      rows
    ):
      return near_rows[int(rng.integers(len(near_rows)))]
    near_row_set = set(near_rows)
    while True:
      row = rows[int(rng.integers(len(rows)))]
      if row not in near_row_set:
        return row


class _DrawTrainingItems(grain.transforms.RandomMap):
  """Draws the positive and the negatives of one query."""

  def __init__(
    self,
    benchmark: Benchmark,
    negatives: NegativeSampler,
    balance_kinds: bool,
  ):
    row_of = {record_id: i for i, record_id in enumerate(benchmark.record_ids)}
    kinds = benchmark.kinds
    self._negatives = negatives
    self._balance_kinds = balance_kinds
    self._ends = [
      benchmark.timeline.interval_ordinals(query.interval)
      for query in benchmark.queries["train"]
    ]
    self._positives = []
    for query in benchmark.queries["train"]:
      rows = np.array([row_of[i] for i in query.positives], np.int32)
      groups = [rows[kinds[rows] == kind] for kind in ANSWERING_KINDS]
      self._positives.append((rows, [group for group in groups if len(group)]))

  def random_map(
    self, element: int, rng: np.random.Generator
  ) -> dict[str, np.ndarray]:
    """Returns rows of query, positive and negatives."""
    pool, groups = self._positives[element]
    if self._balance_kinds:
      pool = groups[int(rng.integers(len(groups)))]
    return {
      "query": np.int32(element),
      "positive": pool[int(rng.integers(len(pool)))],
      "negatives": self._negatives.draw_negatives(self._ends[element], rng),
    }


@dataclasses.dataclass(frozen=True)
class _AssembleBatch(grain.transforms.Map):
  """Turns rows into the arrays of a training batch.

  Every process lays out the texts of all, of which it needs the lengths, and
  so knows the shape that all have; it reads those of its own queries.
  """

  packs: int
  width: int
  queries: Tokens
  records: Tokens
  query_ends: np.ndarray
  query_targets: tuple[np.ndarray, ...]
  record_months: np.ndarray
  record_classes: np.ndarray
  record_is_positive: np.ndarray

  def map(self, element: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns one batch; see `training_batches`."""
    query = element["query"]
    records = np.column_stack([element["positive"], element["negatives"]])
    lengths = np.column_stack(
      [self.queries.lengths[query], self.records.lengths[records]]
    )
    layout = packing.arrange_texts(lengths.reshape(self.packs, -1), self.width)
    local_rows = _process_slice(len(query))
    query, records = query[local_rows], records[local_rows]
    positive, negatives = records[:, 0], records[:, 1:].reshape(-1)
    reign, year, month = (targets[query] for targets in self.query_targets)
    return {
      "texts": packing.pack_texts(
        *self._stack_texts(query, records),
        layout.select_packs(_process_slice(self.packs)),
      ),
      "query_ends": self.query_ends[query],
      "query_reign": reign,
      "query_year": year,
      "query_month": month,
      "positive_month": self.record_months[positive],
      "positive_classes": self.record_classes[positive],
      "negative_month": self.record_months[negatives],
      "negative_answers": self.record_is_positive[negatives],
    }

  def _stack_texts(
    self, query: np.ndarray, records: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids and mask of each query and its records, in this order."""
    width = max(self.queries.ids.shape[1], self.records.ids.shape[1])

    def stack_rows(
      query_rows: np.ndarray, record_rows: np.ndarray
    ) -> np.ndarray:
      texts = np.zeros((len(query), 1 + records.shape[1], width), np.int32)
      texts[:, 0, : query_rows.shape[1]] = query_rows[query]
      texts[:, 1:, : record_rows.shape[1]] = record_rows[records]
      return texts.reshape(-1, width)

    return (
      stack_rows(self.queries.ids, self.records.ids),
      stack_rows(self.queries.mask, self.records.mask),
    )


def _process_slice(count: int) -> slice:
  """Returns which of `count` rows of a global batch this process reads."""
  size = count // jax.process_count()
  return slice(jax.process_index() * size, (jax.process_index() + 1) * size)


def training_batches(
  benchmark: Benchmark,
  queries: Tokens,
  records: Tokens,
  config: ml_collections.ConfigDict,
  packs: int,
  width: int,
) -> grain.DatasetIterator:
  """Returns an endless, resumable iterator over training batches.

  Every query comes once an epoch in a new order. Its draws depend on the seed
  and on its place in the sequence, not on what was read before, so an
  iterator restored at batch k goes on exactly as the uninterrupted one. Each
  process reads its own share of the global batch, which is the same however
  many there are.

  Args:
    benchmark: the data set.
    queries: tokens of its train queries.
    records: tokens of its gallery.
    config: the run's config: seed, batch_size (global), negatives,
      balance_positive_kinds.
    packs: into which the texts of the global batch are divided, for devices
      and for `encode_chunks`.
    width: of their rows, see `packing.row_width`.

  Returns:
    An iterator over dictionaries: texts, `packing.PackedTexts` of every query,
    its positive and its negatives, in this order; and numpy arrays: query_ends
    `[B, 2]` (ordinal months); query_reign, query_year, query_month (target
    probabilities); positive_month `[B]` (ordinal); positive_classes `[B, 3]`
    (0-based reign, year, month); negative_month
    `[B*H]` (ordinal); negative_answers `[B*H]` (whether the record is of a
    kind that can answer a query at all).

  Raises:
    ValueError: if the batch does not divide into the packs, or is larger than
      an epoch.
  """
  train_queries = benchmark.queries["train"]
  if config.batch_size % packs:
    raise ValueError(
      f"config.batch_size={config.batch_size} does not divide into {packs} "
      "packs: config.encode_chunks of them on each of the devices that split "
      "the batch"
    )
  if config.batch_size > len(train_queries):
    raise ValueError(
      f"config.batch_size={config.batch_size} exceeds the "
      f"{len(train_queries)} train queries of {benchmark.name}"
    )
  timeline = benchmark.timeline
  targets = [calendar_targets(q.interval, timeline) for q in train_queries]
  assemble_batch = _AssembleBatch(
    packs=packs,
    width=width,
    queries=queries,
    records=records,
    query_ends=np.array(
      [timeline.interval_ordinals(q.interval) for q in train_queries], np.int32
    ),
    query_targets=tuple(
      np.stack(head_targets) for head_targets in zip(*targets, strict=True)
    ),
    record_months=np.array(
      [timeline.ordinal(r.key) for r in benchmark.records], np.int32
    ),
    record_classes=np.array([r.key.triple for r in benchmark.records], np.int32)
    - 1,
    record_is_positive=np.isin(benchmark.kinds, ANSWERING_KINDS),
  )
  draw_items = _DrawTrainingItems(
    benchmark,
    NegativeSampler(benchmark, config.negatives.to_dict()),
    config.balance_positive_kinds,
  )
  return iter(
    grain.MapDataset.source(range(len(train_queries)))
    .seed(config.seed)
    .shuffle()
    .repeat()
    .random_map(draw_items)
    .batch(config.batch_size)
    .map(assemble_batch)
    .to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=4))
  )


def padded_batches(tokens: Tokens, batch_size: int):
  """Yields `(tokens [batch_size, L], count)`; the last is filled with row 0.

  `count` rows of each batch are real, so nothing is dropped and the compiled
  shape stays one.
  """
  for start in range(0, len(tokens), batch_size):
    rows = np.arange(start, start + batch_size)
    count = int((rows < len(tokens)).sum())
    yield tokens[np.where(rows < len(tokens), rows, 0)], count
