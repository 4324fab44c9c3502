"""Top-k of scores that are on the host, and what every search returns.

Imports no JAX, so that BM25 and the modules of systems start fast; `search`
searches on devices.

Ties are broken alike in every search: score descending, then record index
ascending. Records are stored sorted by id, so this is also the order of ids.

Axes: Q queries, b a block of them, N records, n records of a gallery, G
galleries, k results.
"""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from ctd_jax.utils import output

# Gallery -> (record indices int32 [Q, k], scores float32 [Q, k]), best first;
# index -1 and score -inf stand where a gallery has fewer than k records.
TopK = dict[str, tuple[np.ndarray, np.ndarray]]
# Gallery -> [N] bool, True for the records it holds.
Galleries = Mapping[str, np.ndarray]
# (first query, one past the last) -> scores [b, n] of a gallery's records.
BlockScorer = Callable[[int, int], np.ndarray]


def select_top_k(
  scores: Num[np.ndarray, "Q N"], k: int
) -> tuple[Int[np.ndarray, "Q k"], Float[np.ndarray, "Q k"]]:
  """Returns the k best columns of every row.

  Args:
    scores: scores of all records; compared as float32.
    k: results per row; -1 and -inf fill up if N < k.

  Returns:
    Indices (int32) and scores (float32), best first.

  Raises:
    ValueError: if a score is not finite.
  """
  # As run files store them: systems that score in float64 tie alike.
  scores = np.asarray(scores, np.float32)
  if not np.all(np.isfinite(scores)):
    raise ValueError("a score is not finite")
  rows, columns = scores.shape
  indices = np.full((rows, k), -1, np.int32)
  values = np.full((rows, k), -np.inf, np.float32)
  num_results = min(k, columns)
  if num_results == 0:
    return indices, values
  for row, row_scores in enumerate(scores):
    # Everything above the k-th value is kept; of its equals, the first ones.
    # flatnonzero ascends and the sort is stable, so ties go by index.
    kth_score = np.partition(row_scores, columns - num_results)[
      columns - num_results
    ]
    candidates = np.flatnonzero(row_scores >= kth_score)
    order = np.argsort(-row_scores[candidates], kind="stable")[:num_results]
    indices[row, :num_results] = candidates[order]
    values[row, :num_results] = row_scores[candidates[order]]
  return indices, values


def search_top_k_by_gallery(
  make_scorer: Callable[[np.ndarray], BlockScorer],
  num_queries: int,
  num_records: int,
  k: int,
  galleries: Galleries,
  query_block: int = 256,
) -> TopK:
  """Returns the k best records by a scorer that depends on the gallery.

  Args:
    make_scorer: indices of a gallery's records [n] -> its scorer.
    num_queries: Q.
    num_records: N.
    k: results per query.
    galleries: masks over the records.
    query_block: queries scored at once.
  """
  masks = stack_masks(galleries, num_records)
  top_k = {}
  for name, mask in zip(galleries, masks, strict=True):
    members = np.flatnonzero(mask).astype(np.int32)
    score_block = make_scorer(members)
    indices = np.full((num_queries, k), -1, np.int32)
    scores = np.full((num_queries, k), -np.inf, np.float32)
    for start in output.Progress(
      range(0, num_queries, query_block), f"search {name}", unit="block"
    ):
      stop = min(start + query_block, num_queries)
      columns, values = select_top_k(score_block(start, stop), k)
      # Column -1 (no result) picks the appended -1, not the last member.
      indices[start:stop] = np.append(members, np.int32(-1))[columns]
      scores[start:stop] = values
    top_k[name] = indices, scores
  return top_k


def stack_masks(
  galleries: Galleries, num_records: int
) -> Bool[np.ndarray, "G N"]:
  """Returns the masks of all galleries in one array.

  Raises:
    ValueError: if there is no gallery or a mask does not fit.
  """
  if not galleries:
    raise ValueError("no gallery to search")
  for name, mask in galleries.items():
    if np.shape(mask) != (num_records,) or np.asarray(mask).dtype != bool:
      raise ValueError(
        f"gallery {name!r} must be a bool mask of shape ({num_records},), got "
        f"{np.asarray(mask).dtype} {np.shape(mask)}"
      )
  return np.stack([np.asarray(mask) for mask in galleries.values()])
