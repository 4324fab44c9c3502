"""One vector per text from the states of its tokens.

Why: which token speaks for a text depends on the backbone (first token for a
BERT, last for a decoder, mean for an encoder that starts from scratch), and
mistaking a pad for it under the other padding side is an old and silent
error. Every pooling in the project goes through `pool`; `dual_encoder` calls
it.

Axes: B texts, L tokens, D width.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

POOLINGS = ("cls", "mean", "last")


def pool(hidden: jax.Array, mask: jax.Array, kind: str) -> jax.Array:
  """Returns one vector per text, [B, D], the same under either padding side.

  Args:
    hidden: states of the tokens, [B, L, D].
    mask: 1 or True where a token stands, [B, L].
    kind: "cls" = first token, "last" = last token, "mean" = mean of all.

  Returns:
    Pooled states, not normalised, [B, D]. A row without any token gets a
    finite vector that means nothing.

  Raises:
    ValueError: if `kind` is not one of `POOLINGS`.
  """
  real = mask.astype(bool)
  if kind == "mean":
    weights = real.astype(hidden.dtype)[..., None]
    # The clamp only matters for rows that pad a batch out.
    return (hidden * weights).sum(1) / jnp.maximum(weights.sum(1), 1.0)
  if kind == "cls":
    index = jnp.argmax(real, axis=1)
  elif kind == "last":
    index = real.shape[1] - 1 - jnp.argmax(real[:, ::-1], axis=1)
  else:
    raise ValueError(f"pooling must be one of {POOLINGS}, got {kind!r}")
  return jnp.take_along_axis(hidden, index[:, None, None], axis=1)[:, 0]
