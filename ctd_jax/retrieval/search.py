"""Exact top-k by any pairwise score, with memory bounded by one block.

The score of a dual encoder may hold terms for every pair (the temporal bias),
so an inner-product index would not be exact. The full score is evaluated block
by block, each block of records against all queries, and folded into a running
top-k. Several galleries (filters of the same records) share one evaluation of
the scores. Ties are broken as in `host_search`.

Axes: Q queries, N records, b and n a block of them, G galleries, k results, C
chunks of a block, c records of a chunk.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Int32

from ctd_jax.retrieval import host_search
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.utils import output

# (encodings of b queries, encodings of n records) -> scores [b, n].
ScoreFn = Callable[[Any, Any], jax.Array]
_CHUNK_SIZE = 64  # records whose maximum is kept, so that a search skips them


def search_top_k(
  queries: Any,
  records: Any,
  score_fn: ScoreFn,
  k: int,
  galleries: Galleries,
  query_block: int = 512,
  record_block: int = 10_240,
) -> TopK:
  """Returns the k best records of every query, for every gallery.

  Args:
    queries: pytree of arrays [Q, ...].
    records: pytree of arrays [N, ...], in memory or mapped from files: each
      block is read once; the last one begins in the one before it.
    score_fn: (queries of a block [b, ...], records of a block [n, ...]) ->
      scores [b, n]. It is jitted here and compiled anew for every new function
      object; bind parameters with `jax.tree_util.Partial`, whose arguments are
      traced, not compiled in.
    k: results per query.
    galleries: masks over the records.
    query_block: queries scored at once, at most. By default a block has 20 MiB
      of scores: glibc may keep up to 32 MiB for the next block, and larger
      blocks of records need fewer insertions.
    record_block: records scored at once, at most.

  Returns:
    Gallery -> (indices, scores), see `TopK`.

  Raises:
    ValueError: if shapes disagree or a score is not finite.
  """
  num_queries, num_records = _leading_length(queries), _leading_length(records)
  masks = host_search.stack_masks(galleries, num_records)
  if k < 1:
    raise ValueError(f"k must be at least 1, got {k}")
  if not isinstance(score_fn, jax.tree_util.Partial):
    score_fn = jax.tree_util.Partial(score_fn)
  query_block = _even_block_size(num_queries, query_block)
  record_block = _even_block_size(num_records, record_block, _CHUNK_SIZE)
  # Running scores and indices [G, b, k]; whether a score is not finite [b].
  empty_top_k = (
    np.full((len(masks), query_block, k), -np.inf, np.float32),
    np.full((len(masks), query_block, k), -1, np.int32),
    np.zeros(query_block, bool),
  )
  blocks, empty_top_k = jax.device_put(
    (
      [
        _take_block(queries, start, query_block)
        for start in range(0, num_queries, query_block)
      ],
      empty_top_k,
    )
  )
  best = [empty_top_k] * len(blocks)
  for offset in output.Progress(
    range(0, num_records, record_block), "search", unit="block"
  ):
    # The last block reaches back into the one before it, which costs less than
    # a copy that fills it up; no gallery holds what was searched already.
    start = max(0, min(offset, num_records - record_block))
    stop = min(start + record_block, num_records)
    in_gallery = np.zeros((len(masks), record_block), bool)
    in_gallery[:, offset - start : stop - start] = masks[:, offset:stop]
    # On the device once, for all blocks of queries.
    record_block_rows, in_gallery = jax.device_put(
      (_take_block(records, start, record_block), in_gallery)
    )
    for row, block in enumerate(blocks):
      best[row] = _merge_block(
        score_fn, best[row], block, record_block_rows, in_gallery, start
      )
  indices, scores = _collect_blocks(best, num_queries)
  return {
    name: (indices[row], scores[row]) for row, name in enumerate(galleries)
  }


def _collect_blocks(
  best: Sequence[tuple[jax.Array, jax.Array, jax.Array]], num_queries: int
) -> tuple[Int32[np.ndarray, "G Q k"], Float32[np.ndarray, "G Q k"]]:
  """Returns indices and scores of all queries, without padding."""
  num_galleries, query_block, k = best[0][0].shape
  indices = np.full((num_galleries, num_queries, k), -1, np.int32)
  scores = np.full((num_galleries, num_queries, k), -np.inf, np.float32)
  for row, (values, block_indices, has_non_finite) in enumerate(
    jax.device_get(best)
  ):
    start = row * query_block
    size = min(query_block, num_queries - start)
    if np.any(has_non_finite[:size]):
      query = start + int(np.argmax(has_non_finite[:size]))
      raise ValueError(f"query {query} has a score that is not finite")
    scores[:, start : start + size] = values[:, :size]
    indices[:, start : start + size] = block_indices[:, :size]
  return indices, scores


@jax.jit
def _merge_block(score_fn, best, queries, records, in_gallery, offset):
  """Returns the running top-k of a query block with a block of records."""
  best_scores, best_indices, has_non_finite = best
  scores_bxn = score_fn(queries, records).astype(jnp.float32)
  # Masks are added, which on a CPU takes a quarter of the time of `where`.
  penalty_gxn = jnp.where(in_gallery, 0.0, -jnp.inf)
  padding = (0, 0), (0, -scores_bxn.shape[1] % _CHUNK_SIZE)
  scores_bxCxc, penalty_gxCxc = (
    jnp.pad(x, padding, constant_values=value).reshape(len(x), -1, _CHUNK_SIZE)
    for x, value in ((scores_bxn, 0.0), (penalty_gxn, -jnp.inf))
  )
  # One pass for both, with no further array of the size of the scores. A
  # maximum alone does not tell: on a CPU it passes over NaN.
  is_held = (penalty_gxCxc == 0).any(axis=0)
  chunk_max_gxbxC, has_error_gxbxC = jax.lax.reduce(
    tuple(
      jnp.broadcast_arrays(
        _mask_finite(scores_bxCxc, penalty_gxCxc[:, None]),
        # An error only for a record that some gallery holds.
        is_held & ~jnp.isfinite(scores_bxCxc),
      )
    ),
    (jnp.float32(-jnp.inf), jnp.bool_(False)),
    lambda x, y: (jnp.maximum(x[0], y[0]), x[1] | y[1]),
    (3,),
  )
  has_non_finite |= has_error_gxbxC[0].any(axis=1)
  top_k = _merge_scores(
    scores_bxCxc,
    penalty_gxCxc,
    chunk_max_gxbxC,
    best_scores,
    best_indices,
    offset,
  )
  return *top_k, has_non_finite


def _merge_scores(
  scores_bxCxc,
  penalty_gxCxc,
  chunk_max_gxbxC,
  best_scores,
  best_indices,
  offset,
):
  """Folds a block of scores into the running top-k of every gallery."""
  # Sorting a block would cost more than scoring it. Instead the best remaining
  # record is inserted while it beats the k-th so far; the maximum of every
  # chunk says where it is. After the first blocks that is a handful of records
  # a block.

  def has_better(state):
    scores, _, _, best_score, _, _ = state
    return jnp.any(best_score > scores[..., -1:])

  def take_best(state):
    scores, indices, chunk_max, best_score, last_score, last_column = state
    chunk = _first_true_index(chunk_max == best_score)
    values = _mask_finite(
      _take_chunks(scores_bxCxc, chunk, 1),
      _take_chunks(penalty_gxCxc, chunk, 0),
    )
    columns = chunk * _CHUNK_SIZE + jnp.arange(_CHUNK_SIZE)
    # Of equal scores, those up to the last column were taken before.
    last_taken = jnp.where(best_score == last_score, last_column, -1)
    column = chunk * _CHUNK_SIZE + _first_true_index(
      (values == best_score) & (columns > last_taken)
    )
    is_remaining = (values < best_score) | (
      (values == best_score) & (columns > column)
    )
    remaining_max = jnp.where(is_remaining, values, -jnp.inf).max(
      -1, keepdims=True
    )
    # The minimum changes nothing, but without it XLA for CPUs repeats the
    # maximum for every chunk inside the reduction, six times as slow.
    chunk_max = jnp.where(
      jnp.arange(chunk_max.shape[-1]) == chunk,
      jnp.minimum(remaining_max, best_score),
      chunk_max,
    )
    top_k = _insert_sorted(scores, indices, best_score, offset + column)
    return (
      *top_k,
      chunk_max,
      chunk_max.max(-1, keepdims=True),
      best_score,
      column,
    )

  best_score = chunk_max_gxbxC.max(-1, keepdims=True)
  state = (
    best_scores,
    best_indices,
    chunk_max_gxbxC,
    best_score,
    jnp.full(best_score.shape, jnp.inf),
    jnp.full(best_score.shape, -1),
  )
  return jax.lax.while_loop(has_better, take_best, state)[:2]


def _mask_finite(scores, penalty):
  """Returns the scores, -inf where one is not finite or not in a gallery."""
  return jnp.where(jnp.isfinite(scores), scores, -jnp.inf) + penalty


def _take_chunks(table, chunk_gxbx1, axis):
  """Returns the rows of the chunks, [g, b, c]; `axis` is that of the table."""
  shape = [1, 1, 1]
  shape[axis] = -1
  return table[jnp.arange(len(table)).reshape(shape), chunk_gxbx1][:, :, 0]


def _first_true_index(is_true):
  """Returns the index of the first True of the last axis, [..., 1]."""
  count = is_true.shape[-1]
  # As floats: XLA for CPUs reduces integers several times as slowly.
  places_from_end = jnp.where(
    is_true, count - jnp.arange(count, dtype=jnp.float32), 1.0
  )
  return count - places_from_end.max(-1, keepdims=True).astype(jnp.int32)


def _insert_sorted(scores, indices, score, index):
  """Returns sorted scores and indices with one more, after its equals."""
  # The last entry drops out; a score no better than the last is not inserted.
  rank = jnp.sum(scores >= score, axis=-1, keepdims=True)
  ranks = jnp.arange(scores.shape[-1])

  def insert_at_rank(values, value):
    shifted = jnp.where(ranks == rank, value, jnp.roll(values, 1, axis=-1))
    return jnp.where(ranks < rank, values, shifted)

  # -0.0 ties with 0.0, and is returned as 0.0.
  return insert_at_rank(
    scores, jnp.where(score == 0, 0.0, score)
  ), insert_at_rank(indices, index)


def _even_block_size(count: int, limit: int, multiple: int = 1) -> int:
  """Returns the size of equal blocks of at most `limit`, almost full."""
  # A multiple of `multiple` unless that is above the limit.
  limit = max(1, limit)
  size = max(1, -(-count // max(1, -(-count // limit))))
  return min(limit, size + -size % multiple)


def _leading_length(tree: Any) -> int:
  """Returns the common length of the leading axis."""
  lengths = {np.shape(leaf)[0] for leaf in jax.tree.leaves(tree)}
  if len(lengths) != 1:
    raise ValueError(f"arrays of different lengths: {sorted(lengths)}")
  return lengths.pop()


def _take_block(tree: Any, start: int, size: int) -> Any:
  """Returns rows start ... start + size, the last row repeated to fill up."""
  # One shape means one compilation; a repeated row cannot produce a NaN that
  # zeros might, and the masks leave it out.

  def take(leaf):
    rows = np.asarray(leaf[start : start + size])
    filling = rows[-1:].repeat(size - len(rows), axis=0)
    return np.concatenate([rows, filling]) if len(filling) else rows

  return jax.tree.map(take, tree)
