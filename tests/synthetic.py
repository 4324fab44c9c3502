"""An invented benchmark of 48 months for tests that need arrays, not TFDS."""

import numpy as np

from ctd_jax.benchmark.benchmark import Benchmark, Query, Record
from ctd_jax.chronology import dates
from ctd_jax.chronology.reigns import Interval, Reign, TimeKey, Timeline
from ctd_jax.training import config as training_config

TIMELINE = Timeline(
  "synthetic", (Reign("甲公", "滄", -700, 2), Reign("乙公", "滄", -698, 2))
)


def split_of(key: TimeKey) -> str:
  """Train, but for the second year of 乙公."""
  if (key.reign, key.year) != (2, 2):
    return "train"
  return "validation" if key.month <= 6 else "test"


def benchmark() -> Benchmark:
  """Every month asked once; odd months have an event, even ones none."""
  rng = np.random.default_rng(0)
  texts, queries = [], {"train": [], "validation": [], "test": []}
  for key in TIMELINE.months:
    date = dates.format_key(key, TIMELINE)
    if key.month % 2:
      people = rng.choice(list("齊宋衛陳"))
      texts.append((f"{date}，{people}人來盟。", "event", key))
      texts.append((f"{date}者何外盟也", "neg_comment", key))
    else:
      texts.append((f"{date}，無事可書。", "no_event", key))
  order = rng.permutation(len(texts))
  records = tuple(
    Record(f"r{row:05d}", texts[i][0], "made", texts[i][1], texts[i][2], int(i))
    for row, i in enumerate(order)
  )
  for key in TIMELINE.months:
    positives = tuple(
      r.record_id for r in records if r.key == key and r.kind != "neg_comment"
    )
    queries[split_of(key)].append(
      Query(
        f"point-{TIMELINE.ordinal(key):05d}",
        f"{dates.format_key(key, TIMELINE)}有何記事？",
        "point",
        "BASE_CONTENT",
        Interval.single_month(key),
        positives,
        "point" if key.month % 2 else "gap",
      )
    )
  return Benchmark(
    "synthetic/test:1.0.0",
    TIMELINE,
    records,
    tuple(split_of(r.key) for r in records),
    {split: tuple(items) for split, items in queries.items()},
  )


def config(method: str = "ctd"):
  """The base config shrunk to the synthetic benchmark."""
  c = training_config.base_config()
  c.name = f"{method}-synthetic"
  c.query_length, c.record_length = 16, 24
  c.batch_size = 8
  c.num_epochs = 4.0
  c.model.encoder.hidden_size = 16
  c.model.encoder.mlp_size = 32
  c.model.encoder.num_layers = 1
  c.model.encoder.max_length = 24
  c.model.context_dim = 8
  c.model.bias_dim = 8
  c.log_every = 1
  c.eval_every = 5
  c.eval.batch_size = 16
  training_config.apply_method(c, method)
  c.model.encoder.max_length = max(c.query_length, c.record_length)
  return c
