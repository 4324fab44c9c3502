"""The offset bias as a table, so that scoring a pair looks up and interpolates.

Why: the bias (`calendar_heads.OffsetBias`) is a function of one number, the
offset between two texts in time, but as a perceptron it makes a hidden layer
for every pair, which bounds how many pairs a search can score at once.
`ranking` makes the table once from the parameters; training keeps the
perceptron, whose parameters change with every step.

A hidden unit is relu(a(x)), a being a sum of sines of the offset x. In a cell
of width h, a differs from the straight line l between its ends by at most
max|a''| h^2/8, and relu does not enlarge that. If l has no zero in the cell,
relu(l) is straight as well. If it has one, relu(l) has a bend there: a cell
keeps the largest bend with its place, and any further one, of height d at the
part t of the cell, costs at most d t (1-t). The sum over the units, weighted by
their share in the bias, is the bound that `tabulate` keeps under the tolerance;
it halves the cells until that is so.

Axes: W hidden units, F frequencies, C cells.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# One unit in the last place of a score from 8 to 16.
TOLERANCE = 2.0**-20
# What an offset is itself rounded by: the bias cannot be known better than
# where it is steep enough for this to matter.
_ROUNDING = 2.0**-24


class OffsetTable(NamedTuple):
  """The bias in cells of equal width around offset 0.

  Attributes:
    per_unit: cells in one unit of the offset, a power of two, so that no
      offset is rounded; fp32 scalar.
    value: at the lower end of each cell, fp32 [C].
    slope: change over the cell without its bend, fp32 [C].
    bend: change of the slope where the cell bends, fp32 [C]; 0 = straight.
    place: part of the cell before the bend, fp32 [C].
  """

  per_unit: np.ndarray
  value: np.ndarray
  slope: np.ndarray
  bend: np.ndarray
  place: np.ndarray


def lookup(table: OffsetTable, delta: jax.Array) -> jax.Array:
  """Returns the bias of offsets, fp32, of the shape of `delta`.

  Args:
    table: from `tabulate`.
    delta: record's latent scalar less the query's, within the table's reach.
  """
  scaled = delta * table.per_unit
  lower = jnp.floor(scaled)
  cell = lower.astype(jnp.int32) + table.value.shape[0] // 2
  of_cell = functools.partial(jnp.take, indices=cell, mode="clip")
  part = scaled - lower
  past = jax.nn.relu(part - of_cell(table.place))
  straight = of_cell(table.value) + part * of_cell(table.slope)
  return straight + past * of_cell(table.bend)


def tabulate(
  params: Mapping[str, jax.Array], frequencies: np.ndarray, reach: float
) -> tuple[OffsetTable, float]:
  """Returns the table of a bias, and how far it is off at most.

  That is `TOLERANCE`, or what rounding the offset to fp32 can change if that
  is more, apart from the rounding of the result.

  Args:
    params: of `calendar_heads.OffsetBias`.
    frequencies: of its features, [F].
    reach: largest offset in either direction.
  """
  of = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
  frequencies = np.asarray(frequencies, np.float32).astype(np.float64)
  shares = of["scale"] * of["out_kernel"][:, 0]
  # |a'| and |a''| are at most these sums over the waves of a unit, [W].
  height = np.hypot(*np.split(of["hidden_kernel"], 2))
  steepest = np.abs(shares) @ (frequencies @ height)
  curvature = np.abs(shares) @ (frequencies**2 @ height)
  tolerance = max(TOLERANCE, _ROUNDING * steepest)
  finest = max(1.0, np.sqrt(curvature / (8 * tolerance)))
  per_unit = 2.0 ** np.ceil(np.log2(finest))
  while True:
    table, bends = _cells(of, shares, frequencies, reach, per_unit)
    bound = curvature / (8 * per_unit**2) + bends
    if not bound > tolerance:
      return table, float(bound)
    per_unit *= 2


def _cells(
  params: Mapping[str, np.ndarray],
  shares: np.ndarray,
  frequencies: np.ndarray,
  reach: float,
  per_unit: float,
) -> tuple[OffsetTable, float]:
  """Returns a table of that many cells a unit, and what its bends cost."""
  half = int(np.ceil(reach * per_unit)) + 1
  angles = np.arange(-half, half + 1)[:, None] / per_unit * frequencies
  features = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
  hidden = features @ params["hidden_kernel"] + params["hidden_bias"]
  value = np.maximum(hidden, 0) @ shares + params["scale"] * params["out_bias"]
  lower, upper = np.abs(hidden[:-1]), np.abs(hidden[1:])
  bends = np.where(hidden[:-1] * hidden[1:] < 0, lower + upper, 0)
  place = lower / np.where(bends, bends, 1)
  cost = np.abs(shares) * bends * place * (1 - place)
  kept = np.arange(2 * half), cost.argmax(axis=1)
  bend, place = (bends * shares)[kept], place[kept]
  table = OffsetTable(
    per_unit,
    value[:-1],
    np.diff(value) - bend * (1 - place),
    bend,
    place,
  )
  missed = cost.sum(axis=1) - cost[kept]
  return OffsetTable(*(np.float32(x) for x in table)), missed.max()
