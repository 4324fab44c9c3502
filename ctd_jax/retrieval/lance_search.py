"""Approximate top-k by inner product, from a Lance table on disk.

For galleries whose index one process should not hold: the vectors are written
a block at a time, and a search reads the lists that it needs. Needs the extra
[lance].

Axes: Q queries, N records, D width, k results.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from ctd_jax.retrieval import lance_tables
from ctd_jax.retrieval.host_search import (
  Galleries,
  TopK,
  iterate_vectors,
  order_results,
)
from ctd_jax.utils import progress

# Kind of index -> its class in `lancedb.index`; None compares all vectors.
KINDS = {
  "FLAT": None,
  "IVF_FLAT": "IvfFlat",
  "IVF_PQ": "IvfPq",
  "IVF_HNSW_SQ": "HnswSq",
}


def validate_kind(kind: str) -> None:
  """Refuses an index that there is not, or without the extra.

  Args:
    kind: of `KINDS`.

  Raises:
    ValueError: naming the field.
  """
  if kind not in KINDS:
    raise ValueError(
      f"config.eval.backend=lance:{kind}: there are {', '.join(KINDS)}"
    )
  lance_tables.import_lancedb(f"config.eval.backend=lance:{kind}")


def search_lance(
  queries: Float[np.ndarray, "Q D"],
  records: Any,
  k: int,
  galleries: Galleries,
  kind: str,
  folder: pathlib.Path,
) -> TopK:
  """Returns about the k best records of every query, for every gallery.

  An eighth of the lists of an index is read, and ten candidates a result are
  compared in full. Fewer than 65,536 records are all compared.

  Args:
    queries: vectors, finite.
    records: [N, D], in memory or mapped from files; the table copies them.
    k: results per query.
    galleries: masks over the records.
    kind: of the index, of `KINDS`.
    folder: in which the table lies until the search is done.

  Returns:
    As `search_approximate_top_k`.

  Raises:
    ValueError: if LanceDB is missing or a record is not finite.
  """
  lancedb = lance_tables.import_lancedb(f"config.eval.backend=lance:{kind}")
  folder.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=folder, prefix="lance-") as temporary:
    table = lancedb.connect(temporary).create_table(
      "records", schema=_make_schema(records.shape[1], len(galleries))
    )
    for batch in _iterate_batches(records, galleries, table.schema):
      table.add(batch)
    num_lists = 0
    if KINDS[kind] is not None:
      num_lists = lance_tables.count_lists(len(records))
    if num_lists:
      _index_vectors(table, num_lists, KINDS[kind])
    return {
      name: _search_gallery(
        *(table, queries, k, num_lists),
        # A condition has more lists read, though all records meet it.
        None if np.all(mask) else _name_column(number),
        name,
      )
      for number, (name, mask) in enumerate(galleries.items())
    }


def _name_column(number: int) -> str:
  return f"gallery_{number}"  # names of galleries may be any text


def _make_schema(width: int, num_galleries: int) -> pa.Schema:
  """Returns the columns: a row, its vector, whether a gallery has it."""
  columns = [_name_column(number) for number in range(num_galleries)]
  return pa.schema(
    [("row", pa.int64()), ("vector", pa.list_(pa.float32(), width))]
    + [(column, pa.bool_()) for column in columns]
  )


def _iterate_batches(
  records: Any, galleries: Galleries, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
  """Yields the records with their galleries, a block at a time."""
  for start, block in iterate_vectors(records):
    stop = start + len(block)
    vectors = pa.FixedSizeListArray.from_arrays(
      pa.array(block.reshape(-1)), block.shape[1]
    )
    members = [pa.array(mask[start:stop]) for mask in galleries.values()]
    yield pa.record_batch(
      [pa.array(np.arange(start, stop)), vectors, *members], schema
    )


def _index_vectors(table: Any, num_lists: int, index_class: str) -> None:
  """Makes an index over the vectors."""
  from lancedb import index

  make_index = getattr(index, index_class)
  table.create_index(
    "vector", config=make_index(distance_type="dot", num_partitions=num_lists)
  )


def _search_gallery(
  table: Any,
  queries: Float[np.ndarray, "Q D"],
  k: int,
  num_lists: int,
  condition: str | None,
  name: str,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns indices and scores of the results of all queries."""
  indices = np.full((len(queries), k), -1)
  scores = np.full((len(queries), k), -np.inf, np.float32)
  bar = progress.Progress(queries, f"search {name}", unit="query", leave=False)
  for query, vector in enumerate(bar):
    rows = lance_tables.find_nearest(
      table, vector, k, ["row"], num_lists, condition
    )
    indices[query, : len(rows)] = [row["row"] for row in rows]
    scores[query, : len(rows)] = [row["score"] for row in rows]
  return order_results(indices, scores)
