"""Late interaction: every token of a query looks for its like in the record.

The score is exact, nothing is pruned or quantised:

  score = sum over the query's tokens of the highest cosine with any token of
          the record

It stands between one vector for a text and reading query and record together,
and is what ColBERT computes. Records are groups of one padded length; pairs
are scored in blocks, so that the memory of the scores does not grow with the
gallery.

Axes: Q queries, N records, b and n a block of them, q and d their tokens, W
width, k results.

Source: Khattab and Zaharia 2020 (MaxSim).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ctd_jax.models.token_encoder import TokenVectors
from ctd_jax.retrieval import search
from ctd_jax.retrieval.host_search import Galleries, TopK

# Groups of records: their rows in the gallery [n], and their vectors.
RecordGroups = Sequence[tuple[np.ndarray, TokenVectors]]
_QUERY_BLOCK = 64  # queries scored at once
_MAX_COSINES = 2**25  # in memory at a time, fp32: 128 MiB


def score_maxsim(
  queries: TokenVectors, records: TokenVectors
) -> Float[Array, "b n"]:
  """Returns the score of every pair.

  Args:
    queries: [b, q, W].
    records: [n, d, W].
  """
  b, q, width = queries.vectors.shape
  n, d, _ = records.vectors.shape
  # highest: a TPU would multiply in bfloat16.
  cosines = jnp.matmul(
    queries.vectors.reshape(b * q, width),
    records.vectors.reshape(n * d, width).T,
    precision="highest",
  ).reshape(b, q, n, d)
  # A padded token gets the lowest cosine there is and never wins the maximum.
  cosines = jnp.where(records.mask, cosines, -1.0)
  best_cosines = jnp.max(cosines, axis=3)  # [b, q, n]
  return jnp.sum(jnp.where(queries.mask[:, :, None], best_cosines, 0.0), axis=1)


def search_top_k_by_maxsim(
  queries: TokenVectors,
  records: RecordGroups,
  k: int,
  galleries: Galleries,
) -> TopK:
  """Returns the k best records of every query, for every gallery.

  Args:
    queries: [Q, q, W].
    records: groups that make up the gallery.
    k: results per query.
    galleries: name -> [N] bool.

  Returns:
    gallery -> (indices [Q, k], scores [Q, k]), see `search.search_top_k`.
  """
  group_results = []
  for rows, vectors in records:
    # A pair of texts costs q x d cosines: the longer the group, the fewer
    # records a block.
    num_token_pairs = (
      _QUERY_BLOCK * queries.mask.shape[1] * vectors.mask.shape[1]
    )
    top_k = search.search_top_k(
      queries,
      vectors,
      score_maxsim,
      k,
      {name: mask[rows] for name, mask in galleries.items()},
      _QUERY_BLOCK,
      max(1, _MAX_COSINES // num_token_pairs),
    )
    group_results.append((rows, top_k))
  return {name: _merge_groups(group_results, name, k) for name in galleries}


def _merge_groups(
  group_results: Sequence[tuple[np.ndarray, TopK]], gallery: str, k: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the k best of all groups; ties go by index."""
  # Row -1 (no result) picks the appended -1, not the last record.
  indices = np.concatenate(
    [np.append(rows, -1)[top_k[gallery][0]] for rows, top_k in group_results],
    axis=1,
  )
  scores = np.concatenate(
    [top_k[gallery][1] for _, top_k in group_results], axis=1
  )
  order = np.lexsort((indices, -scores), axis=1)[:, :k]
  return (
    np.take_along_axis(indices, order, axis=1).astype(np.int32),
    np.take_along_axis(scores, order, axis=1),
  )
