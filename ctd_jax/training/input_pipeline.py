"""Input pipeline: from the texts of a benchmark to batches of integers.

`Tokens` holds texts tokenised once; `training_batches` is a grain pipeline
that draws a positive record and hard negatives of train months for every query,
packs their texts, and can be stopped and resumed at any batch. Time becomes
integers here and nowhere else.

Axes: B queries in a batch, H hard negatives a query, N texts, L tokens, T
train queries, G/Y/M reign, year and month classes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grain
import jax
import numpy as np
from jaxtyping import Bool, Float32, Int, Int32

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import ANSWERING_KINDS
from ctd_jax.chronology.timelines import Interval, Timeline
from ctd_jax.models import packing
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training.negatives import NegativeSampler


@dataclasses.dataclass(frozen=True)
class Tokens:
  """Tokenised texts.

  Attributes:
    ids: of tokens.
    mask: 1 = a token, 0 = padding.
    full_lengths: tokens that each text has before it is cut to L.
  """

  ids: Int32[np.ndarray, "N L"]
  mask: Int32[np.ndarray, "N L"]
  full_lengths: Int32[np.ndarray, " N"]

  def __len__(self) -> int:
    return len(self.ids)

  @functools.cached_property
  def lengths(self) -> Int[np.ndarray, " N"]:
    """Tokens of each text."""
    return self.mask.sum(axis=1)

  def __getitem__(self, rows: Any) -> Tokens:
    return Tokens(self.ids[rows], self.mask[rows], self.full_lengths[rows])


def tokenize_texts(
  tokenizer: TextTokenizer,
  texts: Sequence[str],
  max_length: int,
  prefix: str = "",
) -> Tokens:
  """Returns texts as tokens, cut or padded to one length.

  Args:
    tokenizer: vocabulary.
    texts: [N].
    max_length: L.
    prefix: stands before every text and counts in its length.
  """
  rows, full_lengths = tokenizer.tokenize(texts, max_length, prefix)
  return Tokens(*tokenizer.pad(rows, max_length), full_lengths)


def build_tokenizer(
  benchmark: Benchmark, extra_tokens: Sequence[str] = ()
) -> TextTokenizer:
  """Returns a character tokenizer over what training may see.

  That is the text of train records and train queries; a character that only
  a held-out month has is unknown, as new texts will have unknown ones.

  Args:
    benchmark: the data set.
    extra_tokens: see `TextTokenizer.build`.
  """
  texts = [
    record.text
    for record, split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
    if split == "train"
  ]
  return TextTokenizer.build(
    texts + [query.text for query in benchmark.queries["train"]],
    extra_tokens=extra_tokens,
  )


def calendar_targets(
  interval: Interval, timeline: Timeline
) -> tuple[
  Float32[np.ndarray, " G"],
  Float32[np.ndarray, " Y"],
  Float32[np.ndarray, " M"],
]:
  """Returns class probabilities of an interval, uniform over its months.

  Args:
    interval: one month (then the targets are one-hot) or a window.
    timeline: its calendar.

  Returns:
    Of reign, year and month, each summing to 1.
  """
  targets = tuple(
    np.zeros(count, np.float32) for count in timeline.class_counts
  )
  months = list(timeline.iterate_keys(interval))
  for key in months:
    # A time key counts from 1, classes from 0.
    for target, class_number in zip(targets, key.triple, strict=True):
      target[class_number - 1] += 1 / len(months)
  return targets


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
  ) -> dict[str, Any]:
    """Returns rows of query, positive and negatives."""
    pool, groups = self._positives[element]
    if self._balance_kinds:
      # A long interval has far more placeholders than events.
      pool = groups[int(rng.integers(len(groups)))]
    return {
      "query": np.int32(element),
      "positive": pool[int(rng.integers(len(pool)))],
      "negatives": self._negatives.draw_negatives(self._ends[element], rng),
    }


@dataclasses.dataclass(frozen=True)
class _AssembleBatch(grain.transforms.Map):
  """Turns rows into the arrays of a training batch.

  Every process lays out the texts of all processes, of which it needs the
  lengths, and so knows the common shape; it reads those of its own queries.
  """

  packs: int  # of the global batch
  width: int  # tokens of a packed row
  queries: Tokens
  records: Tokens
  query_ends: Int32[np.ndarray, "T 2"]  # ordinal months
  query_targets: tuple[np.ndarray, ...]  # of the heads, [T, classes]
  record_months: Int32[np.ndarray, " N"]  # ordinal
  record_classes: Int32[np.ndarray, "N 3"]  # reign, year, month from 0
  record_is_positive: Bool[np.ndarray, " N"]  # of a kind that can answer

  def map(self, element: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns one batch; see `training_batches`."""
    query = element["query"]  # [B]
    records = np.column_stack([element["positive"], element["negatives"]])
    # A query and its 1 + H records stay in one pack, hence on one device.
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
  *,
  batch_size: int,
  seed: int,
  negatives: Mapping[str, int],
  balance_kinds: bool,
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
    batch_size: queries of the global batch, B.
    seed: of the order and the draws.
    negatives: hard negatives a query of each type; their sum is H.
    balance_kinds: draw event or placeholder first, then a record of the kind.
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
  if batch_size % packs:
    raise ValueError(
      f"config.batch_size={batch_size} does not divide into {packs} "
      "packs: config.encode_chunks of them on each of the devices that split "
      "the batch"
    )
  if batch_size > len(train_queries):
    raise ValueError(
      f"config.batch_size={batch_size} exceeds the "
      f"{len(train_queries)} train queries of {benchmark.name}"
    )
  draw_items = _DrawTrainingItems(
    benchmark, NegativeSampler(benchmark, negatives), balance_kinds
  )
  return iter(
    grain.MapDataset.source(range(len(train_queries)))
    .seed(seed)
    .shuffle()
    .repeat()
    .random_map(draw_items)
    .batch(batch_size)
    .map(_make_assembler(benchmark, queries, records, packs, width))
    .to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=4))
  )


def _make_assembler(
  benchmark: Benchmark, queries: Tokens, records: Tokens, packs: int, width: int
) -> _AssembleBatch:
  """Returns the last stage, which has the time of all texts as integers."""
  train_queries, timeline = benchmark.queries["train"], benchmark.timeline
  targets = [calendar_targets(q.interval, timeline) for q in train_queries]
  classes = np.array([r.key.triple for r in benchmark.records], np.int32) - 1
  return _AssembleBatch(
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
    record_classes=classes,
    record_is_positive=np.isin(benchmark.kinds, ANSWERING_KINDS),
  )


def padded_batches(
  tokens: Tokens, batch_size: int
) -> Iterator[tuple[Tokens, int]]:
  """Yields batches of tokens, the last one filled up with row 0.

  Nothing is dropped and the compiled shape stays one.

  Args:
    tokens: of all texts.
    batch_size: rows of a batch.

  Yields:
    Tokens [batch_size, L], and how many rows, the first ones, are real.
  """
  for start in range(0, len(tokens), batch_size):
    rows = np.arange(start, start + batch_size)
    count = int((rows < len(tokens)).sum())
    yield tokens[np.where(rows < len(tokens), rows, 0)], count
