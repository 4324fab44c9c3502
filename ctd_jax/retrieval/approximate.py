"""Approximate top-k by inner product, from a FAISS index.

With millions of records an index answers without scoring all of them. It knows
inner products alone, so it serves the scores `semantic` and `absolute`; a term
for every pair (the offset bias, the posterior) needs the exact search.
Galleries filter one index. Needs the extra [ann].

Axes: Q queries, N records, D width, k results.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ctd_jax.models.ctd_config import INNER_PRODUCTS
from ctd_jax.retrieval.host_search import Galleries, TopK

EXACT_BACKEND = "exact"
BACKEND_PREFIX = "faiss:"
_ADD_BLOCK = 65_536  # records added at once
_MAX_TRAINING_RECORDS = 262_144  # for the centroids of IVF, evenly spaced


def validate_backend(backend: str, score_mode: str) -> None:
  """Refuses an index that cannot compute the score that ranks.

  Args:
    backend: `config.eval.backend`.
    score_mode: of the ranking.

  Raises:
    ValueError: naming the field.
  """
  if backend == EXACT_BACKEND:
    return
  if not backend.startswith(BACKEND_PREFIX):
    raise ValueError(
      f"config.eval.backend={backend!r}: expected 'exact', or an index such as "
      f"'{BACKEND_PREFIX}HNSW32'"
    )
  if score_mode not in INNER_PRODUCTS:
    raise ValueError(
      f"config.eval.backend={backend!r} knows inner products alone, and the "
      f"score {score_mode!r} has terms for every pair; rank with --config.eval."
      "backend=exact or --config.eval.score_mode=absolute"
    )


def search_approximate_top_k(
  queries: Float[np.ndarray, "Q D"],
  records: Any,
  k: int,
  galleries: Galleries,
  factory: str,
) -> TopK:
  """Returns about the k best records of every query, for every gallery.

  The recall depends on the index: "Flat" is exact, "IVF..." scores an eighth of
  its lists, "HNSW..." four candidates a result.

  Args:
    queries: vectors.
    records: [N, D], in memory or mapped from files; the index copies them.
    k: results per query.
    galleries: masks over the records.
    factory: description of the index, as FAISS reads it, e.g. "HNSW32".

  Returns:
    gallery -> (indices int32 [Q, k], scores float32 [Q, k]), ordered by score,
    then index; -1 with -inf where the index returned fewer than k.

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
      # FAISS reads eight records a byte, the first in the lowest bit.
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
  """Returns FAISS, which comes with an extra."""
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
  scores: Float[np.ndarray, "Q k"], indices: Int[np.ndarray, "Q k"]
) -> tuple[Int[np.ndarray, "Q k"], Float[np.ndarray, "Q k"]]:
  """Returns indices and scores, best first, equal scores by index."""
  # FAISS pads with index -1 and the lowest float.
  scores = np.where(indices < 0, -np.inf, scores)
  order = np.lexsort((indices, -scores), axis=1)
  indices, scores = (
    np.take_along_axis(x, order, axis=1) for x in (indices, scores)
  )
  return indices.astype(np.int32), scores.astype(np.float32)
