"""Temporal bias of a pair: a function of the offset between query and record.

The bias is added to the score of every query and record (paper, section 4,
relative bias). "release" is the formula of the published code; "index" sees
months.

Axes: Q queries, N records, F frequencies, U = 2F features of an offset and
hidden units of the bias.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float

from ctd_jax.models.calendar_heads import (
  MIN_FREQUENCY,
  PRECISION,
  fan_in_uniform,
  geometric_series,
)

# Offset bias as a table, so that scoring a pair looks up and interpolates.
#
# The bias (`temporal_bias.OffsetBias`) is a function of one number, the
# offset between two texts in time. As a perceptron it makes a hidden layer
# for every pair, which bounds how many pairs a search can score at once. A
# search makes the table once from the parameters; training keeps the
# perceptron, whose parameters change with every step.
#
# A hidden unit is relu(a(x)), where a is a sum of sines of the offset x. In a
# cell of width h, a differs from the straight line l between its ends by at
# most max|a''| h^2/8, and relu does not enlarge that. If l has no zero in the
# cell, relu(l) is straight too. If it has one, relu(l) has a bend there.
# A cell keeps the largest bend with its position; any further one, of height
# d at the fraction t of the cell, costs at most d t (1-t). The sum over the
# units, weighted by their share in the bias, is the bound that
# `tabulate_bias` keeps under the tolerance; it halves the cells until the
# bound holds.
#
# Axes: U hidden units, F frequencies, C cells.


# One unit in the last place of a score from 8 to 16.
TOLERANCE = 2.0**-20
# Rounding of an offset near 1 to fp32. Where the bias is steep, this alone
# changes it by more than the tolerance, and a finer table would gain nothing.
_ROUNDING = 2.0**-24


class OffsetTable(NamedTuple):
  """The bias in cells of equal width around offset 0."""

  # Cells in one unit of the offset, a power of two, so that no offset is
  # rounded; fp32 scalar.
  cells_per_unit: np.ndarray
  value: np.ndarray  # at the lower end of each cell, fp32 [C]
  slope: np.ndarray  # change over the cell without its bend, fp32 [C]
  # Change of the slope where the cell bends, fp32 [C]; 0 = straight.
  bend: np.ndarray
  bend_position: np.ndarray  # fraction of the cell before the bend, fp32 [C]


def lookup_bias(
  table: OffsetTable, delta: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
  """Returns the bias of offsets within the table's reach, fp32."""
  scaled = delta * table.cells_per_unit
  lower = jnp.floor(scaled)
  # Cells lie symmetrically around offset 0, which is the lower end of cell C/2.
  cell = lower.astype(jnp.int32) + table.value.shape[0] // 2
  take_cell = functools.partial(jnp.take, indices=cell, mode="clip")
  fraction = scaled - lower
  beyond_bend = jax.nn.relu(fraction - take_cell(table.bend_position))
  straight = take_cell(table.value) + fraction * take_cell(table.slope)
  return straight + beyond_bend * take_cell(table.bend)


def tabulate_bias(
  params: Mapping[str, Array | np.ndarray],
  frequencies: Float[np.ndarray, " F"],
  reach: float,
) -> tuple[OffsetTable, float]:
  """Returns the table of a bias, and the bound of its error.

  The bound is at most `TOLERANCE`, or the change that rounding the offset to
  fp32 can cause if that is more. The rounding of the result is not included.
  """
  arrays = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
  frequencies = np.asarray(frequencies, np.float32).astype(np.float64)
  output_weights = arrays["scale"] * arrays["out_kernel"][:, 0]
  # |a'| and |a''| are at most these sums over the waves of a unit, [U].
  height = np.hypot(*np.split(arrays["hidden_kernel"], 2))
  max_slope = np.abs(output_weights) @ (frequencies @ height)
  curvature = np.abs(output_weights) @ (frequencies**2 @ height)
  tolerance = max(TOLERANCE, _ROUNDING * max_slope)
  min_cells_per_unit = max(1.0, np.sqrt(curvature / (8 * tolerance)))
  # A power of two, so that scaling an offset is exact.
  cells_per_unit = 2.0 ** np.ceil(np.log2(min_cells_per_unit))
  while True:
    table, bend_cost = _build_cells(
      arrays, output_weights, frequencies, reach, cells_per_unit
    )
    bound = curvature / (8 * cells_per_unit**2) + bend_cost
    # Not `bound <= tolerance`: parameters that are NaN would loop for ever.
    if not bound > tolerance:
      return table, float(bound)
    cells_per_unit *= 2


def _build_cells(
  params: Mapping[str, np.ndarray],
  output_weights: Float[np.ndarray, " U"],
  frequencies: Float[np.ndarray, " F"],
  reach: float,
  cells_per_unit: float,
) -> tuple[OffsetTable, float]:
  """Returns a table of that many cells a unit, and the error of its bends."""
  half = int(np.ceil(reach * cells_per_unit)) + 1
  angles = np.arange(-half, half + 1)[:, None] / cells_per_unit * frequencies
  features = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
  # Of every unit at every cell boundary, [C + 1, U].
  pre_activations = features @ params["hidden_kernel"] + params["hidden_bias"]
  value = (
    np.maximum(pre_activations, 0) @ output_weights
    + params["scale"] * params["out_bias"]
  )
  # A unit bends in a cell where its sign changes; [C, U].
  lower, upper = np.abs(pre_activations[:-1]), np.abs(pre_activations[1:])
  bends = np.where(
    pre_activations[:-1] * pre_activations[1:] < 0, lower + upper, 0
  )
  bend_position = lower / np.where(bends, bends, 1)
  # d t (1 - t), the error if the bend is left out.
  cost = np.abs(output_weights) * bends * bend_position * (1 - bend_position)
  largest_bend = np.arange(2 * half), cost.argmax(axis=1)
  bend, bend_position = (
    (bends * output_weights)[largest_bend],
    bend_position[largest_bend],
  )
  table = OffsetTable(
    cells_per_unit,
    value[:-1],
    np.diff(value) - bend * (1 - bend_position),
    bend,
    bend_position,
  )
  missed_cost = cost.sum(axis=1) - cost[largest_bend]
  return OffsetTable(*(np.float32(x) for x in table)), missed_cost.max()


OFFSET_FEATURES = ("release", "index")
# Collection of variables with the table of the offset bias; see `OffsetBias`.
TABLES = "tables"


def offset_frequencies(
  count: int, kind: str, num_months: int = 0
) -> Float[np.ndarray, " F"]:
  """Returns the angular frequencies of the offset features, float64 [F].

  In radians per unit of the latent scalar, that is per num_months - 1 months.

  Args:
    kind: "release" = 1 to 1e-4; "index" = geometric periods from 2 months to
      twice the timeline, so that the slowest phase differs for any two offsets.
    num_months: months of the timeline; "index".

  Source: released code, relative bias; "index" repairs its frequencies.
  """
  if kind == "release":
    return geometric_series(1.0, MIN_FREQUENCY, count)
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
  """

  kind: str  # of the features, "release" or "index"
  width: int = 32  # U, even; U/2 frequencies
  num_months: int = 0  # months of the timeline; "index"
  # Initial value of the learned scale; 0 in the release, where the bias starts
  # at exactly 0 and only the scale has a gradient.
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
      return lookup_bias(self.get_variable(TABLES, "bias"), offsets)
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
