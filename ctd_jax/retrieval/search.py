"""Exact top-k by any pairwise score, with memory bounded by one block.

Why: the score of a dual encoder may hold terms for every pair (the temporal
bias), so an inner-product index would not be exact. Here the full score is
evaluated block by block and merged into a running top-k. Several galleries
(filters of the same records) share one evaluation of the scores. Called by
`evaluate` and, during training, by `train` on the validation queries; the
sparse baselines call `topk_rows`.

Axes: Q queries, N records, b and n a block of them, G galleries, k results.

Ties, the same everywhere: score descending, then record index ascending.
Records are stored sorted by id, so this is also the order of record ids.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tqdm

Found = dict[str, tuple[np.ndarray, np.ndarray]]
ScoreFn = Callable[[Any, Any], jax.Array]


def topk(
  queries: Any,
  records: Any,
  score_fn: ScoreFn,
  k: int,
  galleries: Mapping[str, np.ndarray],
  query_block: int = 64,
  record_block: int = 4096,
) -> Found:
  """Returns the k best records of every query, for every gallery.

  Args:
    queries: pytree of arrays [Q, ...].
    records: pytree of arrays [N, ...].
    score_fn: (queries of a block [b, ...], records of a block [n, ...]) ->
      scores [b, n]. It is jitted here and compiled anew for every new function
      object; bind parameters with `jax.tree_util.Partial`, whose arguments are
      traced, not compiled in.
    k: results per query.
    galleries: name -> [N] bool, True for the records it holds.
    query_block: queries scored at once.
    record_block: records scored at once.

  Returns:
    gallery -> (indices int32 [Q, k], scores float32 [Q, k]). Where a gallery
    has fewer than k records, the rest is index -1 with score -inf.

  Raises:
    ValueError: if shapes disagree or a score is not finite.
  """
  num_queries, num_records = _length(queries), _length(records)
  masks = _masks(galleries, num_records)
  if k < 1:
    raise ValueError(f"k must be at least 1, got {k}")
  if not isinstance(score_fn, jax.tree_util.Partial):
    score_fn = jax.tree_util.Partial(score_fn)
  query_block = max(1, min(query_block, num_queries))
  record_block = max(1, min(record_block, num_records))
  starts = range(0, num_queries, query_block)
  indices = np.full((len(masks), num_queries, k), -1, np.int32)
  scores = np.full((len(masks), num_queries, k), -np.inf, np.float32)
  for start in _bar(starts, "search"):
    size = min(query_block, num_queries - start)
    block = _block(queries, start, query_block)
    best = (
      jnp.full((len(masks), query_block, k), -jnp.inf, jnp.float32),
      jnp.full((len(masks), query_block, k), -1, jnp.int32),
      jnp.zeros((query_block,), bool),
    )
    for offset in range(0, num_records, record_block):
      real = min(record_block, num_records - offset)
      allowed = np.zeros((len(masks), record_block), bool)
      allowed[:, :real] = masks[:, offset : offset + real]
      fresh = _block(records, offset, record_block)
      best = _merge(score_fn, k, best, block, fresh, allowed, offset)
    values, found, broken = jax.device_get(best)
    if np.any(broken[:size]):
      row = start + int(np.argmax(broken[:size]))
      raise ValueError(f"query {row} has a score that is not finite")
    scores[:, start : start + size] = values[:, :size]
    indices[:, start : start + size] = found[:, :size]
  return {
    name: (indices[row], scores[row]) for row, name in enumerate(galleries)
  }


@functools.partial(jax.jit, static_argnames=("k",))
def _merge(score_fn, k, best, queries, records, allowed, offset):
  """Folds one block of records into the running top-k of a query block."""
  best_scores, best_indices, broken = best
  scores_bxn = score_fn(queries, records).astype(jnp.float32)
  # top_k orders -0.0 below 0.0; as scores they are a tie.
  scores_bxn = jnp.where(scores_bxn == 0, 0.0, scores_bxn)
  wanted_n = jnp.any(allowed, axis=0)
  broken |= jnp.any(~jnp.isfinite(scores_bxn) & wanted_n, axis=1)
  indices_n = offset + jnp.arange(scores_bxn.shape[1], dtype=jnp.int32)

  def fold(old_scores, old_indices, mask_n):
    fresh = jnp.where(mask_n, scores_bxn, -jnp.inf)
    fresh_indices = jnp.broadcast_to(
      jnp.where(mask_n, indices_n, -1), scores_bxn.shape
    )
    # top_k keeps the earlier column of equal ones. Columns of the running
    # result come first and hold smaller indices, so ties go by index.
    values, columns = jax.lax.top_k(
      jnp.concatenate([old_scores, fresh], axis=1), k
    )
    candidates = jnp.concatenate([old_indices, fresh_indices], axis=1)
    return values, jnp.take_along_axis(candidates, columns, axis=1)

  scores, indices = jax.vmap(fold)(best_scores, best_indices, allowed)
  return scores, indices, broken


def topk_rows(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the k best columns of every row, as `topk` does, on the host.

  Args:
    scores: [Q, N]; compared as float32.
    k: results per row; -1 and -inf fill up if N < k.

  Returns:
    (indices int32 [Q, k], scores float32 [Q, k]).

  Raises:
    ValueError: if a score is not finite.
  """
  scores = np.asarray(scores, np.float32)
  if not np.all(np.isfinite(scores)):
    raise ValueError("a score is not finite")
  rows, columns = scores.shape
  indices = np.full((rows, k), -1, np.int32)
  values = np.full((rows, k), -np.inf, np.float32)
  kept = min(k, columns)
  if kept == 0:
    return indices, values
  for row, line in enumerate(scores):
    # Everything above the k-th value is in; of its equals, the first ones.
    # flatnonzero ascends and the sort is stable, so ties go by index.
    kth = np.partition(line, columns - kept)[columns - kept]
    candidates = np.flatnonzero(line >= kth)
    order = np.argsort(-line[candidates], kind="stable")[:kept]
    indices[row, :kept] = candidates[order]
    values[row, :kept] = line[candidates[order]]
  return indices, values


def topk_by_gallery(
  scorer_of: Callable[[np.ndarray], Callable[[int, int], np.ndarray]],
  num_queries: int,
  num_records: int,
  k: int,
  galleries: Mapping[str, np.ndarray],
  query_block: int = 256,
) -> Found:
  """Returns what `topk` returns for a scorer that depends on the gallery.

  Args:
    scorer_of: indices of a gallery's records [n] -> its scorer, which takes
      the first query and one past the last and returns scores [b, n].
    num_queries: Q.
    num_records: N.
    k: results per query.
    galleries: name -> [N] bool.
    query_block: queries scored at once.
  """
  masks = _masks(galleries, num_records)
  found = {}
  for name, mask in zip(galleries, masks, strict=True):
    members = np.flatnonzero(mask).astype(np.int32)
    scorer = scorer_of(members)
    indices = np.full((num_queries, k), -1, np.int32)
    scores = np.full((num_queries, k), -np.inf, np.float32)
    for start in _bar(range(0, num_queries, query_block), f"search {name}"):
      stop = min(start + query_block, num_queries)
      columns, values = topk_rows(scorer(start, stop), k)
      # Column -1, nothing found, becomes record -1.
      indices[start:stop] = np.append(members, np.int32(-1))[columns]
      scores[start:stop] = values
    found[name] = indices, scores
  return found


def _bar(steps: range, label: str) -> Iterable[int]:
  """Returns `steps`, with a progress bar if they last and someone watches."""
  # disable=None: quiet where standard error is not a terminal.
  return tqdm.tqdm(steps, label, unit="block", delay=2.0, disable=None)


def _masks(galleries: Mapping[str, np.ndarray], records: int) -> np.ndarray:
  """Returns the galleries as one [G, N] bool array."""
  if not galleries:
    raise ValueError("no gallery to search")
  for name, mask in galleries.items():
    if np.shape(mask) != (records,) or np.asarray(mask).dtype != bool:
      raise ValueError(
        f"gallery {name!r} must be a bool mask of shape ({records},), got "
        f"{np.asarray(mask).dtype} {np.shape(mask)}"
      )
  return np.stack([np.asarray(mask) for mask in galleries.values()])


def _length(tree: Any) -> int:
  """Returns the common length of the leading axis."""
  lengths = {np.shape(leaf)[0] for leaf in jax.tree.leaves(tree)}
  if len(lengths) != 1:
    raise ValueError(f"arrays of different lengths: {sorted(lengths)}")
  return lengths.pop()


def _block(tree: Any, start: int, size: int) -> Any:
  """Returns rows start ... start + size, the last row repeated to fill up.

  One shape means one compilation; a repeated row cannot produce a NaN that
  zeros might, and the masks leave it out.
  """
  stop = start + size
  rows = slice(start, stop)
  if stop > _length(tree):
    rows = np.minimum(np.arange(start, stop), _length(tree) - 1)
  return jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), tree)
