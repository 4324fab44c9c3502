"""Adapter: any object with a method `search` as a system of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry


def as_system(searcher: Any, benchmark: Benchmark) -> registry.System:
  """Returns the system of an object that searches, e.g. a `Retriever`.

  Args:
    searcher: has `search(queries, k)`, which returns for every query its
      results, best first: objects with `record_id` and `score`, or such pairs.
      Attributes `track` and `score_mode` are read where it has them.
    benchmark: whose records it ranks.
  """
  row_by_id = {
    record_id: row for row, record_id in enumerate(benchmark.record_ids)
  }

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    # All records, because a gallery may lack any number of the first.
    rankings = searcher.search(queries, len(row_by_id))
    shape = len(queries), k
    top_k = {
      name: (np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
      for name in galleries
    }
    for query_row, ranking in enumerate(rankings):
      pairs = [_split_result(result) for result in ranking]
      rows = np.array([row_by_id[name] for name, _ in pairs], np.int32)
      scores = np.array([score for _, score in pairs], np.float32)
      for name, mask in galleries.items():
        is_member = mask[rows]
        size = min(k, int(is_member.sum()))
        indices, values = top_k[name]
        indices[query_row, :size] = rows[is_member][:size]
        values[query_row, :size] = scores[is_member][:size]
    return top_k

  return registry.System(
    track=getattr(searcher, "track", "T0"),
    score_mode=getattr(searcher, "score_mode", "unknown"),
    search=search,
  )


def _split_result(result: Any) -> tuple[str, float]:
  """Returns id and score of a result."""
  if hasattr(result, "record_id"):
    return result.record_id, result.score
  record_id, score = result
  return record_id, score
