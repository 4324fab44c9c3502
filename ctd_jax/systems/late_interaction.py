"""Late interaction: every token of a query looks for its like in the record.

The score is exact, nothing is pruned or quantised:

  score = sum over the query's tokens of the highest cosine with any token of
          the record

Why: between one vector for a text and reading query and record together; what
ColBERT does. Records are encoded once, into groups of one padded length, and
all their tokens are kept; pairs are scored in blocks, so that the memory of the
scores does not grow with the gallery. Track T0: it reads texts alone. Called by
`baselines`; `pqr` scores with it as well.

Axes: Q queries, N records, b and n a block of them, q and d their tokens, W
width, k results.

Source: Khattab and Zaharia 2020 (MaxSim).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from ctd_jax.models.token_encoder import TokenEncoder, TokenVectors
from ctd_jax.retrieval import search
from ctd_jax.retrieval.search import TopK

TRACK = "T0"
SCORE_MODE = "late_interaction"
# What records are stored as: their rows in the gallery, and their vectors.
RecordGroups = Sequence[tuple[np.ndarray, TokenVectors]]
_QUERY_BLOCK = 64
_MAX_COSINES = 2**25  # in memory at a time; 128 MiB


def score_maxsim(queries: TokenVectors, records: TokenVectors) -> jax.Array:
  """Returns the score described above, [b, n].

  Args:
    queries: [b, q, W].
    records: [n, d, W].
  """
  b, q, width = queries.vectors.shape
  n, d, _ = records.vectors.shape
  cosines = jnp.matmul(
    queries.vectors.reshape(b * q, width),
    records.vectors.reshape(n * d, width).T,
    precision="highest",
  ).reshape(b, q, n, d)
  # No cosine is lower, so this never wins over a token.
  cosines = jnp.where(records.mask, cosines, -1.0)
  best_cosines = jnp.max(cosines, axis=3)
  return jnp.sum(jnp.where(queries.mask[:, :, None], best_cosines, 0.0), axis=1)


def search_top_k_by_maxsim(
  queries: TokenVectors,
  records: RecordGroups,
  k: int,
  galleries: Mapping[str, np.ndarray],
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
  # Row -1, nothing found, is record -1.
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


def make_maxsim_ranker(
  texts: Sequence[str], config: ml_collections.ConfigDict
) -> Callable[[Sequence[str], int, Mapping[str, np.ndarray]], TopK]:
  """Returns what ranks records for queries; it loads and encodes when called.

  Args:
    texts: of the records [N].
    config: `maxsim` of a config.
  """

  @functools.cache
  def load_and_encode() -> tuple[TokenEncoder, RecordGroups]:
    encoder = TokenEncoder.load(**config.to_dict())
    return encoder, encoder.encode(texts, encoder.record)

  def rank_records(
    queries: Sequence[str], k: int, galleries: Mapping[str, np.ndarray]
  ) -> TopK:
    encoder, records = load_and_encode()
    ((_, query_vectors),) = encoder.encode(
      queries, encoder.query, pad_to_longest=True
    )
    return search_top_k_by_maxsim(query_vectors, records, k, galleries)

  return rank_records
