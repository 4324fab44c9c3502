"""Temporal bias of a pair: a function of the offset between query and record.

The bias is added to the score of every query and record (paper, section 4,
relative bias). "release" is the formula of the published code; "index" sees
months.

Axes: Q queries, N records, F frequencies, U = 2F features of an offset and
hidden units of the bias.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float

from ctd_jax.models import offset_table
from ctd_jax.models.calendar_heads import (
  MIN_FREQUENCY,
  PRECISION,
  fan_in_uniform,
  geometric_series,
)

OFFSET_FEATURES = ("release", "index")
# Collection of variables with the table of the offset bias; see `OffsetBias`.
TABLES = "tables"


def offset_frequencies(
  count: int, kind: str, num_months: int = 0
) -> Float[np.ndarray, " F"]:
  """Returns the angular frequencies of the offset features, float64 [F].

  In radians per unit of the latent scalar, that is per num_months - 1 months.

  Args:
    count: number of frequencies F.
    kind: "release" = 1 to 1e-4; "index" = geometric periods from 2 months to
      twice the timeline, so that the slowest phase differs for any two offsets.
    num_months: months of the timeline; "index".

  Raises:
    ValueError: if `kind` is unknown or "index" lacks `num_months`.

  Source: released code, relative bias; "index" repairs its frequencies.
  """
  if kind == "release":
    return geometric_series(1.0, MIN_FREQUENCY, count)
  if kind != "index":
    raise ValueError(
      f"offset features must be one of {OFFSET_FEATURES}, got {kind!r}"
    )
  if num_months < 2:
    raise ValueError(
      f"offset features 'index' need num_months > 1, got {num_months}"
    )
  periods = geometric_series(2.0, 2.0 * num_months, count)  # months
  return 2 * np.pi * (num_months - 1) / periods


def encode_offsets(
  delta: Float[Array, "*shape"], frequencies: Float[np.ndarray, " F"]
) -> Float[Array, "*shape 2*F"]:
  """Returns sines, then cosines, of offsets in time, fp32 [..., 2F]."""
  angles = delta[..., None] * jnp.asarray(frequencies, jnp.float32)
  return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class OffsetBias(nn.Module):
  """A learned function of the offset between query and record, [Q, N].

  bias = scale * MLP(encode_offsets(u_record - u_query)), where the MLP is
  U -> U, ReLU, U -> 1. The first layer is linear in sines and cosines of a
  difference, hence bilinear in those of its two terms. It is one matrix product
  of per-record and per-query codes: no feature and no sine is computed per
  pair. The largest array is [Q, N, U]; on a CPU blocks of about 32,000 pairs
  stay in the cache, and larger ones take up to four times as long per pair. The
  release clips the offset to [-1, 1], which changes nothing on its axis.

  A search passes the collection `TABLES` with an `OffsetTable` named "bias";
  the bias is then looked up.

  Attributes:
    kind: of the features, "release" or "index".
    width: U, even; U/2 frequencies.
    num_months: months of the timeline; "index".
    scale_init: initial value of the learned scale; 0 in the release, where the
      bias starts at exactly 0 and only the scale has a gradient.
  """

  kind: str
  width: int = 32
  num_months: int = 0
  scale_init: float = 0.0

  @nn.compact
  def __call__(
    self, query: Float[Array, " Q"], record: Float[Array, " N"]
  ) -> Float[Array, "Q N"]:
    """Returns the bias of every pair, fp32 [Q, N], for latent scalars.

    Source: released code, relative bias, there on the positives alone.
    """
    if self.has_variable(TABLES, "bias"):
      offsets = record[None, :] - query[:, None]
      return offset_table.lookup_bias(
        self.get_variable(TABLES, "bias"), offsets
      )
    width = self.width
    init = fan_in_uniform(width)
    hidden_kernel = self.param("hidden_kernel", init, (width, width))
    hidden_bias = self.param("hidden_bias", init, (width,))
    out_kernel = self.param("out_kernel", init, (width, 1))
    out_bias = self.param("out_bias", init, (1,))
    scale = self.param("scale", nn.initializers.constant(self.scale_init), ())

    frequencies = offset_frequencies(width // 2, self.kind, self.num_months)
    sines, cosines = jnp.split(hidden_kernel, 2)  # each [F, U]
    sin_q, cos_q = jnp.split(encode_offsets(query, frequencies), 2, axis=-1)
    # For a query q and a record r, the weights of sin r and cos r, [Q, F, U]:
    # sin(r-q) = sin r cos q - cos r sin q;
    # cos(r-q) = cos r cos q + sin r sin q
    sin_weights = cos_q[..., None] * sines + sin_q[..., None] * cosines
    cos_weights = cos_q[..., None] * cosines - sin_q[..., None] * sines
    activations = jnp.einsum(
      "nf,qfu->qnu",
      encode_offsets(record, frequencies),
      jnp.concatenate([sin_weights, cos_weights], axis=1),
      precision=PRECISION,
    )
    activations = nn.relu(activations + hidden_bias)
    value = jnp.matmul(activations, out_kernel, precision=PRECISION) + out_bias
    return scale * value[..., 0]
