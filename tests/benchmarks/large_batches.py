"""Prints what a training step needs against the batch, with cached gradients.

Memory is what the compiler reserves besides arguments and results; nothing is
run for it. With --run the steps are timed too, in turns, and the ratio is that
of the medians per query.

  python tests/benchmarks/large_batches.py [--method=ctd] [--hidden_size=128]
    [--layers=2] [--batches=64,256,4096] [--part=64] [--negatives=1] [--run=3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import jax
import numpy as np
import optax

from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.models import packing
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.training import config as training_config
from ctd_jax.training import partitioning, train_step
from ctd_jax.training.objective import Objective

VOCABULARY = 8_000
MAX_LENGTH = 128  # tokens the encoder takes


def random_batch(config, timeline: Timeline) -> dict[str, Any]:
  """Returns a batch of texts of full length and random months.

  Its arrays are those of `input_pipeline.training_batches`.
  """
  rng = np.random.default_rng(0)
  size, hard = config.batch_size, sum(config.negatives.values())
  months = len(timeline.months)
  lengths = np.full((size, 2 + hard), config.record_length)
  lengths[:, 0] = config.query_length
  columns = np.arange(config.record_length)
  mask = columns < lengths.reshape(-1, 1)
  width = packing.row_width(config.record_length, MAX_LENGTH)
  layout = packing.arrange_texts(
    lengths.reshape(config.encode_chunks, -1), width
  )
  texts = packing.pack_texts(
    rng.integers(0, VOCABULARY, mask.shape), mask, layout
  )

  def month(*shape: int) -> np.ndarray:
    return rng.integers(0, months, shape).astype(np.int32)

  return {
    "texts": texts,
    "text_order": np.arange(lengths.size, dtype=np.int32),
    "query_ends": np.sort(month(size, 2)),
    "positive_month": month(size),
    "negative_month": month(size * hard),
    "positive_classes": np.zeros((size, 3), np.int32),
    "negative_answers": np.zeros(size * hard, bool),
    **{
      f"query_{name}": np.zeros((size, count), np.float32)
      for name, count in zip(
        ("reign", "year", "month"), timeline.class_counts, strict=True
      )
    },
  }


def main() -> None:
  """Reads the flags, compiles, prints."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--method", default="ctd")
  parser.add_argument("--hidden_size", type=int, default=128)
  parser.add_argument("--layers", type=int, default=2)
  parser.add_argument("--batches", default="64,256,1024,4096")
  parser.add_argument(
    "--part", type=int, default=64, help="queries encoded at once"
  )
  parser.add_argument("--negatives", type=int, default=1)
  parser.add_argument("--run", type=int, default=0, help="steps to time")
  flags = parser.parse_args()

  timeline = reign_tables.load_timeline("lu")
  mesh = partitioning.make_mesh(1)
  steps, first = {}, None
  print(f"{'batch':>6} {'parts':>6} {'MiB':>8} {'ratio':>6}")
  for size in map(int, flags.batches.split(",")):
    c = training_config.base_config()
    c.batch_size = size
    c.encode_chunks = max(1, size // flags.part)
    c.negatives.update(
      same_month_comment=flags.negatives, near_placeholder=0, near_event=0
    )
    training_config.apply_method(c, flags.method)
    encoder = BertConfig(
      VOCABULARY,
      hidden_size=flags.hidden_size,
      num_layers=flags.layers,
      num_heads=flags.hidden_size // 64,
      mlp_size=4 * flags.hidden_size,
      max_length=MAX_LENGTH,
      scan_layers=flags.layers > 2,
    )
    model = train_step.make_model(c.model, encoder, timeline)
    adam = optax.adamw(1e-4)
    objective = Objective.from_config(c, model, mesh)
    update = train_step.make_train_step(objective, adam, c.seed)
    batch = partitioning.make_global_batch(random_batch(c, timeline), mesh)
    state = train_step.abstract_state(model, adam, mesh)
    compiled = update.lower(state, batch).compile()
    reserved = compiled.memory_analysis().temp_size_in_bytes / 2**20
    first = first or reserved
    print(
      f"{size:>6} {c.encode_chunks:>6} {reserved:>8.0f} "
      f"{reserved / first:>6.2f}",
      flush=True,
    )
    steps[size] = compiled, model, adam, batch

  seconds = {size: [] for size in steps}
  for _ in range(flags.run):
    for size, (compiled, model, adam, batch) in steps.items():
      state = train_step.init_state(model, adam, 0, mesh)
      started = time.perf_counter()
      jax.block_until_ready(compiled(state, batch))
      seconds[size].append((time.perf_counter() - started) / size)
  if flags.run:
    base = statistics.median(next(iter(seconds.values())))
    for size, values in seconds.items():
      median = statistics.median(values)
      print(
        f"{size:>6} {1e3 * median:.1f} ms a query, ratio {median / base:.2f}"
      )


if __name__ == "__main__":
  main()
