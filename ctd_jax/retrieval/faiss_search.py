"""Approximate top-k by inner product, from a FAISS index in memory.

Needs the extra [ann].

Axes: Q queries, N records, D width, k results.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from ctd_jax.retrieval.host_search import (
  Galleries,
  TopK,
  iterate_vectors,
  order_results,
)

_MAX_TRAINING_RECORDS = 262_144  # for the centroids of IVF, evenly spaced


def search_faiss(
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
    queries: vectors, finite.
    records: [N, D], in memory or mapped from files; the index copies them.
    k: results per query.
    galleries: masks over the records.
    factory: description of the index, as FAISS reads it, e.g. "HNSW32".

  Returns:
    As `search_approximate_top_k`.

  Raises:
    ValueError: if FAISS is missing or cannot make such an index, or if a record
      is not finite.
  """
  faiss = import_faiss()
  try:
    index = _build_index(faiss, records, factory)
    top_k = {}
    for name, mask in galleries.items():
      # FAISS reads eight records a byte, the first in the lowest bit.
      mask_bits = np.packbits(mask, bitorder="little")
      parameters = _search_parameters(faiss, index, k)
      parameters.sel = faiss.IDSelectorBitmap(mask_bits)
      scores, indices = index.search(queries, k, params=parameters)
      # It pads with index -1 and the lowest float.
      top_k[name] = order_results(
        indices, np.where(indices < 0, -np.inf, scores)
      )
  except (RuntimeError, AssertionError) as error:
    reason = str(error).strip().splitlines()[-1]
    raise ValueError(
      f"config.eval.backend=faiss:{factory}: FAISS says: {reason}"
    ) from None
  return top_k


def import_faiss() -> ModuleType:
  """Returns FAISS, which comes with an extra.

  Raises:
    ValueError: if it is not installed.
  """
  try:
    import faiss
  except ModuleNotFoundError as error:
    raise ValueError(
      f"config.eval.backend=faiss:... needs {error.name}: "
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
  for _, block in iterate_vectors(records):
    index.add(block)
  return index


def _search_parameters(faiss: ModuleType, index: Any, k: int) -> Any:
  """Returns how thoroughly an index of this kind is searched."""
  if isinstance(index, faiss.IndexIVF):
    return faiss.SearchParametersIVF(nprobe=-(-index.nlist // 8))
  if isinstance(index, faiss.IndexHNSW):
    return faiss.SearchParametersHNSW(efSearch=max(64, 4 * k))
  return faiss.SearchParameters()
