"""Offset bias as a table, so that scoring a pair looks up and interpolates.

The bias (`temporal_bias.OffsetBias`) is a function of one number, the offset
between two texts in time. As a perceptron it makes a hidden layer for every
pair, which bounds how many pairs a search can score at once. A search makes the
table once from the parameters; training keeps the perceptron, whose parameters
change with every step.

A hidden unit is relu(a(x)), where a is a sum of sines of the offset x. In a
cell of width h, a differs from the straight line l between its ends by at most
max|a''| h^2/8, and relu does not enlarge that. If l has no zero in the cell,
relu(l) is straight as well. If it has one, relu(l) has a bend there. A cell
keeps the largest bend with its position; any further one, of height d at the
fraction t of the cell, costs at most d t (1-t). The sum over the units,
weighted by their share in the bias, is the bound that `tabulate_bias` keeps
under the tolerance; it halves the cells until the bound holds.

Axes: U hidden units, F frequencies, C cells.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# One unit in the last place of a score from 8 to 16.
TOLERANCE = 2.0**-20
# Rounding of an offset near 1 to fp32. Where the bias is steep, this alone
# changes it by more than the tolerance, and a finer table would gain nothing.
_ROUNDING = 2.0**-24


class OffsetTable(NamedTuple):
  """The bias in cells of equal width around offset 0.

  Attributes:
    cells_per_unit: cells in one unit of the offset, a power of two, so that no
      offset is rounded; fp32 scalar.
    value: at the lower end of each cell, fp32 [C].
    slope: change over the cell without its bend, fp32 [C].
    bend: change of the slope where the cell bends, fp32 [C]; 0 = straight.
    bend_position: fraction of the cell before the bend, fp32 [C].
  """

  cells_per_unit: np.ndarray
  value: np.ndarray
  slope: np.ndarray
  bend: np.ndarray
  bend_position: np.ndarray


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

  Args:
    params: of `temporal_bias.OffsetBias`.
    frequencies: of its features, [F].
    reach: largest offset in either direction.
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
