"""Functions of rows, computed for a chunk of rows at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax

_is_chunked = True


@contextlib.contextmanager
def in_one_chunk() -> Iterator[None]:
  """Has `map_in_chunks` make no chunks: XLA counts the body of a loop once."""
  global _is_chunked
  _is_chunked = False
  try:
    yield
  finally:
    _is_chunked = True


def map_in_chunks(
  function: Callable[..., Any],
  chunks: int,
  *trees: Any,
  recompute: bool = True,
) -> Any:
  """Returns `function(*trees)`, computed for one chunk of rows at a time.

  The backward pass computes a chunk again instead of keeping its activations,
  so that memory is that of one chunk, besides rows in and out: with an
  encoder, the cached gradients of large contrastive batches.

  Args:
    function: maps rows to rows, and none depends on another.
    chunks: number of chunks, which divides the rows; 1 = none are made.
    *trees: of arrays whose first axis counts the rows.
    recompute: whether the backward pass computes a chunk again; where the
      function does so itself, once is enough.

  Source: Gao et al., "Scaling Deep Contrastive Learning Batch Size under
    Memory Limited Setup" (2021), section 3; here by rematerialisation.
  """
  if chunks == 1 or not _is_chunked:
    return function(*trees)

  # Strided: a chunk has rows of every device, so that no row moves where the
  # batch is sharded.
  def split_rows(x: jax.Array) -> jax.Array:
    rows = len(x) // chunks
    return x.reshape(rows, chunks, *x.shape[1:]).swapaxes(0, 1)

  def join_rows(x: jax.Array) -> jax.Array:
    rows = x.shape[0] * x.shape[1]
    return x.swapaxes(0, 1).reshape(rows, *x.shape[2:])

  def chunk_function(rows: Any) -> Any:
    return function(*rows)

  if recompute:
    chunk_function = jax.checkpoint(chunk_function)
  return jax.tree.map(
    join_rows, jax.lax.map(chunk_function, jax.tree.map(split_rows, trees))
  )
