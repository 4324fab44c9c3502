"""Top-k by inner product from a FAISS index, given as `search.search_top_k` gives it.

Why: with millions of records an index answers without looking at all of them.
It knows inner products alone, so it serves the scores `semantic` and
`absolute`; a term for every pair (the offset bias, the posterior) needs the
exact search. Galleries filter one index. Called by `ranking` where
`config.eval.backend` names an index; needs the extra [ann].

Axes: Q queries, N records, D width, k results.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from ctd_jax.retrieval.search import TopK

BACKEND_PREFIX = "faiss:"
_ADD_BLOCK = 65_536  # records added at once
_MAX_TRAINING_RECORDS = 262_144  # records at most, evenly spaced


def search_approximate_top_k(
  queries: np.ndarray,
  records: Any,
  k: int,
  galleries: Mapping[str, np.ndarray],
  factory: str,
) -> TopK:
  """Returns about the k best records of every query, for every gallery.

  How many of them are is a matter of the index: "Flat" finds all, "IVF..."
  looks at an eighth of its lists, "HNSW..." at four candidates a result.

  Args:
    queries: [Q, D].
    records: [N, D], in memory or mapped; the index copies them.
    k: results per query.
    galleries: name -> [N] bool, True for the records it holds.
    factory: description of the index, as FAISS reads it, e.g. "HNSW32".

  Returns:
    gallery -> (indices int32 [Q, k], scores float32 [Q, k]), ordered by score,
    then index; -1 with -inf where nothing more was found.

  Raises:
    ValueError: if FAISS is missing or cannot make such an index, or if a score
      is not finite.
  """
  faiss = _import_faiss()
  queries = np.ascontiguousarray(queries, np.float32)
  is_not_finite = ~np.isfinite(queries).all(axis=1)
  if is_not_finite.any():
    raise ValueError(
      f"query {is_not_finite.argmax()} has a score that is not finite"
    )
  try:
    index = _build_index(faiss, records, factory)
    top_k = {}
    for name, mask in galleries.items():
      mask_bits = np.packbits(mask, bitorder="little")
      parameters = _search_parameters(faiss, index, k)
      parameters.sel = faiss.IDSelectorBitmap(mask_bits)
      top_k[name] = _sort_results(*index.search(queries, k, params=parameters))
  except (RuntimeError, AssertionError) as error:
    reason = str(error).strip().splitlines()[-1]
    raise ValueError(
      f"config.eval.backend={BACKEND_PREFIX}{factory}: FAISS says: {reason}"
    ) from None
  return top_k


def _import_faiss() -> ModuleType:
  """Returns FAISS, without which the exact search does."""
  try:
    import faiss
  except ModuleNotFoundError as error:
    raise ValueError(
      f"config.eval.backend={BACKEND_PREFIX}... needs {error.name}: "
      "pip install 'ctd_jax[ann]'"
    ) from None
  return faiss


def _build_index(faiss: ModuleType, records: Any, factory: str) -> Any:
  """Returns an index of all records, read a block at a time."""
  count, width = records.shape
  index = faiss.index_factory(width, factory, faiss.METRIC_INNER_PRODUCT)
  if not index.is_trained:
    rows = np.arange(0, count, -(-count // _MAX_TRAINING_RECORDS))
    index.train(np.ascontiguousarray(records[rows]))
  for start in range(0, count, _ADD_BLOCK):
    block = np.ascontiguousarray(records[start : start + _ADD_BLOCK])
    if not np.isfinite(block).all():
      raise ValueError("query 0 has a score that is not finite")
    index.add(block)
  return index


def _search_parameters(faiss: ModuleType, index: Any, k: int) -> Any:
  """Returns how thoroughly an index of this kind is searched."""
  if isinstance(index, faiss.IndexIVF):
    return faiss.SearchParametersIVF(nprobe=-(-index.nlist // 8))
  if isinstance(index, faiss.IndexHNSW):
    return faiss.SearchParametersHNSW(efSearch=max(64, 4 * k))
  return faiss.SearchParameters()


def _sort_results(
  scores: np.ndarray, indices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns indices and scores, equal scores by index."""
  scores = np.where(indices < 0, -np.inf, scores)
  order = np.lexsort((indices, -scores), axis=1)
  indices, scores = (
    np.take_along_axis(x, order, axis=1) for x in (indices, scores)
  )
  return indices.astype(np.int32), scores.astype(np.float32)
