"""Approximate top-k by inner product, from an index of FAISS or of Lance.

With millions of records an index answers without scoring all of them: one of
FAISS is in memory, one of Lance on disk. It knows inner products alone, so it
serves the scores `semantic` and `absolute`; a term for every pair (the offset
bias, the posterior) needs the exact search. Galleries filter one index.

Axes: Q queries, N records, D width, k results.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from jaxtyping import Float

from ctd_jax.models.ctd_config import INNER_PRODUCTS
from ctd_jax.retrieval import faiss_search, host_search, lance_search
from ctd_jax.retrieval.host_search import Galleries, TopK

EXACT_BACKEND = "exact"
_FAISS, _LANCE = "faiss", "lance"


def validate_backend(backend: str, score_mode: str, folder: str | None) -> None:
  """Refuses an index that cannot be had or cannot compute the score that ranks.

  Args:
    backend: `config.eval.backend`.
    score_mode: of the ranking.
    folder: `config.eval.vectors_dir`.

  Raises:
    ValueError: naming the field.
  """
  if backend == EXACT_BACKEND:
    return
  library, _, kind = backend.partition(":")
  if library not in (_FAISS, _LANCE) or not kind:
    raise ValueError(
      f"config.eval.backend={backend!r}: expected 'exact', or an index such as "
      f"'{_FAISS}:HNSW32' or '{_LANCE}:IVF_PQ'"
    )
  if library == _FAISS:
    faiss_search.import_faiss()
  else:
    lance_search.validate_kind(kind)
    if not folder:
      raise ValueError(
        f"config.eval.backend={backend!r} has its index on disk: name a folder "
        "with --config.eval.vectors_dir"
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
  backend: str,
  folder: pathlib.Path | None = None,
) -> TopK:
  """Returns about the k best records of every query, for every gallery.

  Args:
    queries: vectors.
    records: [N, D], in memory or mapped from files.
    k: results per query.
    galleries: masks over the records.
    backend: validated, not that of the exact search; see `search_faiss` and
      `search_lance`.
    folder: for an index on disk.

  Returns:
    gallery -> (indices int32 [Q, k], scores float32 [Q, k]), ordered by score,
    then index; -1 with -inf where the index returned fewer than k.

  Raises:
    ValueError: if the library is missing or cannot make such an index, or if a
      score is not finite.
  """
  host_search.stack_masks(galleries, len(records))  # refuses what does not fit
  queries = np.ascontiguousarray(queries, np.float32)
  is_not_finite = ~np.isfinite(queries).all(axis=1)
  if is_not_finite.any():
    raise ValueError(
      f"query {is_not_finite.argmax()} has a score that is not finite"
    )
  library, _, kind = backend.partition(":")
  if library == _FAISS:
    return faiss_search.search_faiss(queries, records, k, galleries, kind)
  return lance_search.search_lance(queries, records, k, galleries, kind, folder)
