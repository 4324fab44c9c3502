"""Steps of contrastive training that benchmarks give to both sides.

A step has a query, a positive and a hard negative, the one of the released
code, of each of its queries, from `chunqiutr/rebuilt`.
"""

from __future__ import annotations

import ml_collections
import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.models import packing
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import config as training_config
from ctd_jax.training import input_pipeline
from ctd_jax.training.batch_iterator import BatchIterator
from ctd_jax.training.input_pipeline import Tokens

TEXTS_PER_QUERY = 3
_QUERY_LENGTH, _RECORD_LENGTH = 128, 256  # tokens, of the published recipe
_RATE = 1e-5


def configure(batch: int, pooling: str) -> ml_collections.ConfigDict:
  """Returns the config of fine-tuning with the released single negative."""
  c = training_config.base_config()
  training_config.apply_method(c, "ft")
  c.batch_size = batch
  c.model.pooling = pooling
  c.negatives.update(
    same_month_comment=0, near_placeholder=0, near_event=0, release_comment=1
  )
  c.optimizer.learning_rate = _RATE
  c.optimizer.warmup_fraction = 0.0
  return c


def read_texts(
  benchmark: Benchmark, tokenizer: TextTokenizer
) -> tuple[Tokens, Tokens]:
  """Returns the tokens of the train queries and of the records."""
  return (
    input_pipeline.tokenize_texts(
      tokenizer,
      [query.text for query in benchmark.queries["train"]],
      _QUERY_LENGTH,
    ),
    input_pipeline.tokenize_texts(
      tokenizer, [record.text for record in benchmark.records], _RECORD_LENGTH
    ),
  )


def draw_full_texts(
  benchmark: Benchmark, vocabulary: int, length: int
) -> tuple[Tokens, Tokens]:
  """Returns random texts, all of one length, in the place of those."""
  sizes = len(benchmark.queries["train"]), len(benchmark.records)
  return tuple(
    Tokens(
      np.random.default_rng(0)
      .integers(4, vocabulary, (count, length))
      .astype(np.int32),
      np.ones((count, length), np.int32),
      np.full(count, length, np.int32),
    )
    for count in sizes
  )


def make_batches(
  config: ml_collections.ConfigDict,
  benchmark: Benchmark,
  queries: Tokens,
  records: Tokens,
  max_length: int,
  multiple: int = 32,
  **options,
) -> BatchIterator:
  """Returns the iterator over the batches of a config, in one pack each.

  Args:
    config: of `configure`.
    benchmark: the data set.
    queries: tokens of its train queries.
    records: tokens of its records.
    max_length: tokens that the encoder takes.
    multiple: that the widths of rows differ by.
    **options: of `input_pipeline.training_batches`.
  """
  width = packing.row_width(records.ids.shape[1], max_length)
  return input_pipeline.training_batches(
    benchmark,
    queries,
    records,
    batch_size=config.batch_size,
    seed=config.seed,
    negatives=config.negatives.to_dict(),
    balance_kinds=config.balance_positive_kinds,
    packs=1,
    widths=packing.row_widths(width, max_length, multiple),
    **options,
  )


def unpack_texts(texts: packing.PackedTexts) -> list[np.ndarray]:
  """Returns the tokens of every text of a batch of one pack, in its order."""
  most = packing.slots_per_row(texts.ids.shape[2])
  return [
    texts.ids[0, row][texts.segments[0, row] == slot + 1]
    for row, slot in zip(*np.divmod(texts.slots[0], most), strict=True)
  ]
