"""Export of a run's vectors as files that a vector database loads.

The gallery can then be searched, and filtered by date, without ctd_jax.
Vectors are plain .npy; row by row a parquet table describes them. The inner
product of a query's vector with a record's is the score of the run's best
checkpoint. Terms for every pair (offset bias, posterior) are left out, because
no database computes them; vectors.json names them.

Axes: N rows, D width of a vector.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.models.ctd_config import INNER_PRODUCTS
from ctd_jax.retrieval import dense, model_card
from ctd_jax.training.experiment import Experiment
from ctd_jax.utils import files

_BLOCK_ROWS = 65_536  # rows written at once


def export_vectors(
  experiment: Experiment, params: Any, folder: pathlib.Path
) -> None:
  """Writes vectors and tables of all records and of the queries.

  records.npy, queries.SPLIT.npy (float32, [rows, D]); the same names with
  .parquet; and vectors.json, which describes the inner product.

  Args:
    experiment: a trained run; its score mode chooses the vectors, "semantic"
      or "absolute", those with the calendar context.
    params: of the model.
    folder: made if needed.
  """
  config, benchmark = experiment.config, experiment.benchmark
  mode = config.eval.score_mode or config.score_mode
  if mode not in INNER_PRODUCTS:
    mode = "absolute"  # the nearest score that is an inner product
  temperature = experiment.model.config.temperature
  ranker = dense.Ranker(experiment)
  records = ranker.encode_gallery(params).vectors(mode)
  # The temperature divides the queries: records stay of unit length.
  _write_vectors(folder / "records.npy", records, 1.0)
  _write_table(folder / "records.parquet", _record_columns(benchmark))
  for split, queries in benchmark.queries.items():
    if not queries:
      continue
    query_encoding = ranker.encode_texts(
      params, experiment.queries[split], "encode queries"
    )
    name = f"queries.{split}"
    _write_vectors(
      folder / f"{name}.npy", query_encoding.vectors(mode), temperature
    )
    columns = _query_columns(queries, benchmark.timeline)
    _write_table(folder / f"{name}.parquet", columns)
  description = {
    "dataset": benchmark.name,
    "system": config.name,
    "step": experiment.checkpoints.best_step,
    "inner_product": f"score {mode}: cosine over the temperature",
    "temperature": temperature,
    "left_behind": model_card.list_left_behind(config, mode),
    "records": len(benchmark.records),
    "dimensions": records.shape[1],
  }
  files.write_text(
    folder / "vectors.json", json.dumps(description, indent=2) + "\n"
  )


def _write_vectors(path: pathlib.Path, vectors: Any, divisor: float) -> None:
  """Writes vectors, which may be mapped from files, a block at a time."""
  with files.atomic_path(path) as temporary:
    output_array = np.lib.format.open_memmap(
      temporary, mode="w+", dtype=np.float32, shape=vectors.shape
    )
    for start in range(0, len(vectors), _BLOCK_ROWS):
      rows = slice(start, start + _BLOCK_ROWS)
      output_array[rows] = vectors[rows] / np.float32(divisor)
    output_array.flush()


def _write_table(path: pathlib.Path, columns: Mapping[str, Sequence]) -> None:
  with files.atomic_path(path) as temporary:
    parquet.write_table(pa.table(dict(columns)), temporary)


def _time_columns(
  keys: Sequence[TimeKey], timeline: Timeline, prefix: str = ""
) -> dict[str, list]:
  """Returns the columns of one month a row; all count from 1 but `ordinal`."""
  columns = {
    "reign": [key.reign for key in keys],
    "reign_name": [timeline.reigns[key.reign - 1].name for key in keys],
    "year": [key.year for key in keys],
    "month": [key.month for key in keys],
    "leap": [key.leap for key in keys],
    "ordinal": [timeline.ordinal(key) for key in keys],
  }
  return {prefix + name: values for name, values in columns.items()}


def _record_columns(benchmark: Benchmark) -> dict[str, list]:
  """Returns the table of the records, in the order of the vectors."""
  records = benchmark.records
  return {
    "record_id": benchmark.record_ids,
    "kind": [record.kind for record in records],
    "source": [record.source for record in records],
    "split": list(benchmark.record_splits),
    "text": [record.text for record in records],
    **_time_columns([record.key for record in records], benchmark.timeline),
  }


def _query_columns(queries: Sequence, timeline: Timeline) -> dict[str, list]:
  """Returns the table of the queries of a split."""
  starts = [query.interval.start for query in queries]
  ends = [query.interval.end for query in queries]
  return {
    "query_id": [query.query_id for query in queries],
    "family": [query.family for query in queries],
    "text": [query.text for query in queries],
    **_time_columns(starts, timeline, "start_"),
    **_time_columns(ends, timeline, "end_"),
    "positives": [list(query.positives) for query in queries],
  }
