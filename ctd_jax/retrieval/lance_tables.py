"""Tables of vectors on disk: Lance, with an index over the vectors.

A search reads the lists of vectors that it needs, so that no process holds a
table. Vectors are compared by their inner product. Needs the extra [lance].

Axes: D width of a vector.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float32

# Fewer rows are compared one by one, which is as fast; the codes of an index
# are learned from as many.
MIN_INDEXED_ROWS = 65_536
_ROWS_OF_LIST = 4096  # vectors that share a centroid
# Share of the lists of vectors that are read, and candidates for each result
# whose vectors are compared in full.
_SHARE_OF_LISTS = 1 / 8
_CANDIDATES = 10


def import_lancedb(needed_by: str) -> ModuleType:
  """Returns LanceDB, which comes with an extra.

  Args:
    needed_by: flag, field or command that asks for it.

  Raises:
    ValueError: if it is not installed.
  """
  try:
    import lancedb
  except ModuleNotFoundError as error:
    raise ValueError(
      f"{needed_by} needs {error.name}: pip install 'ctd_jax[lance]'"
    ) from None
  return lancedb


def count_lists(num_rows: int) -> int:
  """Returns the number of lists of vectors of a table; 0 without an index."""
  return 0 if num_rows < MIN_INDEXED_ROWS else num_rows // _ROWS_OF_LIST


def find_nearest(
  table: Any,
  vector: Float32[np.ndarray, " D"],
  k: int,
  columns: list[str],
  num_lists: int,
  condition: str | None = None,
) -> list[dict[str, Any]]:
  """Returns the rows with the k greatest inner products, the greatest first.

  With an index an eighth of its lists is read, more where the condition leaves
  fewer than k rows in them, and some rows may be missed.

  Args:
    table: with a column "vector".
    vector: of the question.
    k: number of rows.
    columns: of the rows; "score" is added to them, the inner product.
    num_lists: of its index; 0 = all vectors are compared.
    condition: in SQL, that rows must meet before the nearest are taken.
  """
  query = table.search(vector).distance_type("dot").limit(k)
  query = query.select([*columns, "_distance"])
  if condition:
    query = query.where(condition)
  if not num_lists:
    query = query.bypass_vector_index()
  else:
    lists = max(1, round(num_lists * _SHARE_OF_LISTS))
    query = query.minimum_nprobes(lists)
    # Where few rows meet the condition, lists are read until k are found.
    query = query.maximum_nprobes(0 if condition else lists)
    query = query.refine_factor(_CANDIDATES)
  rows = query.to_arrow().to_pylist()
  rows.sort(key=lambda row: row["_distance"])
  # Lance calls 1 - inner product a distance.
  return [row | {"score": 1 - row.pop("_distance")} for row in rows]
