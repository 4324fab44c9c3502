"""Steps of contrastive training that benchmarks give to both sides.

A step has a query, a positive and a hard negative, the one of the released
code, of each of its queries, from `chunqiutr/rebuilt`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_collections
import numpy as np

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.models import packing
from ctd_jax.models.pretrained.folders import EncoderConfig
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import config as training_config
from ctd_jax.training import devices, input_pipeline, optimizer, train_step
from ctd_jax.training import packing as packing_lib
from ctd_jax.training.input_pipeline import BatchIterator, Tokens
from ctd_jax.training.objective import Objective
from ctd_jax.training.train_step import TrainState, TrainStep

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


class Steps(NamedTuple):
  """Training on one device, not begun.

  Attributes:
    state: first state.
    update: the jitted step.
    objective: its loss, with model and device.
    make_batches: returns an iterator over the batches, in one pack each; takes
      options of `input_pipeline.training_batches`.
  """

  state: TrainState
  update: TrainStep
  objective: Objective
  make_batches: Callable[..., BatchIterator]


def prepare_steps(
  config: ml_collections.ConfigDict,
  encoder: EncoderConfig,
  benchmark: Benchmark,
  texts: tuple[Tokens, Tokens],
  total_steps: int = 10**6,
  pretrained: Any = None,
) -> Steps:
  """Returns the steps of a config on the first device.

  Args:
    config: of the run; its encoder is not read.
    encoder: configuration of the encoder.
    benchmark: the data set.
    texts: tokens of its train queries and of its records.
    total_steps: of the schedule.
    pretrained: parameters of the encoder; None = random ones.
  """
  mesh = devices.make_mesh(1)
  model = train_step.make_model(config.model, encoder, benchmark.timeline)
  adam = optimizer.make_optimizer(config.optimizer, total_steps)
  objective = Objective.from_config(config, model, mesh)
  queries, records = texts
  width = packing.row_width(records.ids.shape[1], encoder.max_length)
  multiple = packing_lib.width_multiple(mesh.devices.flat[0].platform)
  return Steps(
    train_step.init_state(model, adam, config.seed, mesh, pretrained),
    train_step.make_train_step(objective, adam, config.seed),
    objective,
    functools.partial(
      input_pipeline.training_batches,
      benchmark,
      queries,
      records,
      batch_size=config.batch_size,
      seed=config.seed,
      negatives=config.negatives.to_dict(),
      balance_kinds=config.balance_positive_kinds,
      packs=1,
      widths=packing.row_widths(width, encoder.max_length, multiple),
    ),
  )


def unpack_texts(texts: packing.PackedTexts) -> list[np.ndarray]:
  """Returns the tokens of every text of a batch of one pack, in its order."""
  most = packing.slots_per_row(texts.ids.shape[2])
  return [
    texts.ids[0, row][texts.segments[0, row] == slot + 1]
    for row, slot in zip(*np.divmod(texts.slots[0], most), strict=True)
  ]
