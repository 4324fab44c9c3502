"""Input pipeline: from the texts of a benchmark to batches of integers.

`Tokens` holds texts tokenised once; `training_batches` draws a positive record
and hard negatives of train months for every query, packs their texts, and can
be stopped and resumed at any batch. Time becomes integers here and nowhere
else.

Axes: B queries in a batch, H hard negatives a query, N texts, L tokens, G/Y/M
reign, year and month classes.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Float32, Int, Int32

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import ANSWERING_KINDS
from ctd_jax.chronology.timelines import Interval, Timeline
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import row_shapes, token_store
from ctd_jax.training.batch_iterator import BatchIterator
from ctd_jax.training.batch_plan import BatchPlanner, Positives
from ctd_jax.training.batch_reader import WHOLE, BatchReader, Share
from ctd_jax.training.negatives import NegativeSampler
from ctd_jax.training.row_shapes import RowShape
from ctd_jax.training.token_store import TokenStore

_SAMPLE_WINDOWS = 16  # in which batches are looked at to choose shapes


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
  def store(self) -> TokenStore:
    """The tokens without padding."""
    return TokenStore(self.ids[self.mask > 0], self.lengths.astype(np.int32))

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
  folder: pathlib.Path | None = None,
) -> Tokens:
  """Returns texts as tokens, cut or padded to one length.

  Args:
    tokenizer: vocabulary.
    texts: [N].
    max_length: L.
    prefix: stands before every text and counts in its length.
    folder: where tokens are kept, see `token_store.read_or_tokenize`; None =
      nowhere.
  """
  kept = None
  if folder is not None:
    kept = token_store.read_or_tokenize(
      folder, tokenizer, texts, max_length, prefix
    )
  if kept is None:
    rows, full_lengths = tokenizer.tokenize(texts, max_length, prefix)
    return Tokens(*tokenizer.pad(rows, max_length), full_lengths)
  store, full_lengths = kept
  rows = np.split(store.ids, store.starts[1:])[: len(texts)]
  tokens = Tokens(*tokenizer.pad(rows, max_length), full_lengths)
  tokens.__dict__["store"] = store  # the mapped one
  return tokens


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
  widths: Sequence[int],
  share: Share = WHOLE,
  workers: int = 0,
  place: Callable[[dict[str, Any]], Any] | None = None,
) -> BatchIterator:
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
    widths: of rows, to choose from; see `packing.row_widths`.
    share: of this process.
    workers: processes that read ahead; 0 = a thread does.
    place: puts a batch on devices ahead of time.

  Returns:
    An iterator over what `place` makes of dictionaries: texts,
    `packing.PackedTexts` of every query, its positive and its negatives,
    wherever there was room for them; text_order `[B*(2+H)]`, the place of each
    among those of all packs, in this order; and numpy arrays: query_ends
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
  timeline = benchmark.timeline
  targets = [calendar_targets(q.interval, timeline) for q in train_queries]
  query_ends = np.array(
    [timeline.interval_ordinals(q.interval) for q in train_queries], np.int32
  )
  planner = BatchPlanner(
    batch_size,
    seed,
    Positives.make(benchmark, balance_kinds),
    NegativeSampler(benchmark, negatives),
    query_ends,
    queries.lengths,
    records.lengths,
  )
  reader = BatchReader(
    planner=planner,
    share=share,
    packs=packs,
    shapes=_choose_shapes(planner, packs, widths),
    queries=queries.store,
    records=records.store,
    query_ends=query_ends,
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
  return BatchIterator(reader, workers, place)


def _choose_shapes(
  planner: BatchPlanner, packs: int, widths: Sequence[int]
) -> tuple[RowShape, RowShape]:
  """Returns the shapes of rows, by the first batches of a run; logs them."""
  count = row_shapes.count_sample(planner.count_tokens(planner.plan(0)).size)
  # Batches of one window are alike; those of several are not quite.
  step = max(1, _SAMPLE_WINDOWS * planner.window_batches // count)
  sample = [
    planner.count_tokens(planner.plan(number))
    for number in range(0, count * step, step)
  ]
  usual, large = row_shapes.choose_shapes(sample, packs, widths)
  mean = np.mean([tokens.sum() for tokens in sample])
  logging.info(
    "texts in %d packs of %d rows of %d columns, about %.0f%% full; "
    "of %d rows of %d columns where they need more",
    packs,
    usual.rows,
    usual.width,
    100 * mean / (packs * usual.rows * usual.width),
    large.rows,
    large.width,
  )
  return usual, large


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
