"""How a chronicle moves along its timeline from one record to the next.

Why: annals print a date only where it changes. From one record to the next
the reader stays, steps on, or jumps, and what a record prints decides how: one
that opens with a season has left the season before it, one that opens with a
year the year before. A step goes to the boundary (the next month, season or
year) and a geometric number of months beyond it; a jump goes anywhere later,
for gaps and lost headings. What a record tells may be older than where it
stands (「初」): a share of its evidence is that of any earlier month alike.
Called by `order_decoder`.

A move costs O(K): sums along the timeline, never a K x K matrix.

Axis letters: B records, K months, C classes of record, S places of a calendar
that is not known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# What a record prints of its date: nothing, or the largest unit that opens it.
NOTHING, MONTH, SEASON, YEAR = range(4)
CLASSES = 4
_BELIEF = 20.0  # records that an unlearned motion is worth
_LONG = 60  # months; what goes further was a jump


@dataclasses.dataclass(frozen=True)
class Motion:
  """How a chronicle moves on; one number a class where there are four.

  Attributes:
    rest: probability that a record stands in the month of the one before.
    slip: probability of a step that does not cross the boundary of the class.
    ratio: of the geometric number of months beyond the boundary, 0-1.
    jump: probability of a jump to any later month.
    flashback: probability that a record tells of any month up to its own.
  """

  rest: tuple[float, ...] = (0.98, 0.01, 0.002, 0.002)
  slip: tuple[float, ...] = (0.0, 0.0, 0.002, 0.002)
  ratio: tuple[float, ...] = (0.5, 0.6, 0.75, 0.75)
  jump: float = 1e-3
  flashback: float = 0.01

  def __post_init__(self):
    for name in ("rest", "slip", "ratio"):
      values = getattr(self, name)
      if len(values) != CLASSES or not all(0 <= value < 1 for value in values):
        raise ValueError(
          f"{name} of a Motion should be {CLASSES} numbers from 0 to below 1, "
          f"got {values}"
        )
    for name in ("jump", "flashback"):
      if not 0 <= getattr(self, name) < 1:
        raise ValueError(
          f"{name} of a Motion should be from 0 to below 1, got "
          f"{getattr(self, name)}"
        )
    most = max(map(sum, zip(self.rest, self.slip, strict=True)))
    if most + self.jump > 1:
      raise ValueError(
        f"rest, slip and jump of a Motion should add up to at most 1, got "
        f"{most + self.jump:g}"
      )


class Moves(NamedTuple):
  """A `Motion` on a timeline, as float32 log weights; row C moves nothing.

  Attributes:
    stay: [C + 1, K] of no move.
    step: [C + 1, K] of a step past this month, by the months it can end in.
    cross: [C + 1, K] of a step past the boundary of the class, likewise.
    jump: [C + 1, K] of a jump, by the months it can end in.
    boundary: [C + 1, K] first month past the boundary, K where there is none.
    decay: [C + 1] cost of a month beyond the boundary.
    outlier: [2, K] weights of a record's own evidence and of that of any
      month up to its own.
    turn: [C + 1, S, S] of the calendar's next place, by its place.
  """

  stay: jax.Array
  step: jax.Array
  cross: jax.Array
  jump: jax.Array
  boundary: jax.Array
  decay: jax.Array
  outlier: jax.Array
  turn: jax.Array


def boundaries(years: np.ndarray, months: np.ndarray) -> np.ndarray:
  """Returns the first month after the month, season and year of each.

  Args:
    years: int [K], never falling.
    months: int [K], 1-12; a leap month repeats the number before it.

  Returns:
    int32 [C, K], by class; K where the timeline ends first.
  """
  size = len(years)
  season = years * 4 + (np.asarray(months) - 1) // 3
  after = np.arange(1, size + 1)
  rows = [after, after]
  for unit in (np.maximum.accumulate(season), years):
    rows.append(np.searchsorted(unit, unit, side="right"))
  return np.stack(rows).astype(np.int32)


def make_moves(
  motion: Motion,
  boundary_CxK: np.ndarray,
  turn_SxS: np.ndarray | None = None,
) -> Moves:
  """Returns the log weights of every move; from each month they add up to 1.

  Args:
    motion: probabilities.
    boundary_CxK: as `boundaries` gives it.
    turn_SxS: probabilities of the calendar's next place, by its place; one
      place if None.

  Raises:
    ValueError: if a boundary does not lie later than its month.
  """
  boundary = np.asarray(boundary_CxK)
  classes, size = boundary.shape
  places = np.arange(size)
  if classes != CLASSES or not ((boundary > places) & (boundary <= size)).all():
    raise ValueError(
      f"boundaries should be [{CLASSES}, K], each later than its month and at "
      "most K"
    )
  rest, slip, ratio = (
    np.array(values)[:, None]
    for values in (motion.rest, motion.slip, motion.ratio)
  )
  later = size - 1 - places
  jump = np.where(later > 0, motion.jump, 0.0)
  step = np.where(later > 0, slip, 0.0)
  # Past the last boundary nothing is left but to stay.
  cross = np.where(boundary < size, 1 - rest - slip - motion.jump, 0.0)
  stay = 1 - jump - step - cross

  def share(first: np.ndarray) -> np.ndarray:
    """Returns what the geometric weights from `first` on add up to."""
    ends = np.maximum(size - first, 1)
    return (1 - ratio**ends) / (1 - ratio)

  if turn_SxS is None:
    turn_SxS = np.ones((1, 1))
  with np.errstate(divide="ignore"):
    turns = np.log([turn_SxS] * CLASSES + [np.eye(len(turn_SxS))])
    rows = [
      np.log(stay),
      np.log(step / share(places + 1)),
      np.log(cross / share(boundary)),
      np.log(np.broadcast_to(jump / np.maximum(later, 1), stay.shape)),
    ]
    decay = -np.log(np.maximum(motion.ratio, 1e-30))
    outlier = np.stack(
      [
        np.full(size, np.log(1 - motion.flashback)),
        np.log(motion.flashback) - np.log(places + 1),
      ]
    )
  held = [np.zeros(size)] + [np.full(size, -np.inf)] * 3
  return Moves(
    *(
      jnp.asarray(np.vstack([row, hold]), jnp.float32)
      for row, hold in zip(rows, held, strict=True)
    ),
    jnp.asarray(np.vstack([boundary, places + 1]), jnp.int32),
    jnp.asarray(np.append(decay, 1.0), jnp.float32),
    jnp.asarray(outlier, jnp.float32),
    jnp.asarray(turns, jnp.float32),
  )


def learn(
  motion: Motion, path: np.ndarray, kinds: np.ndarray, boundary_CxK: np.ndarray
) -> Motion:
  """Returns the motion that a path shows, `motion` being worth 20 records.

  Of each class, how often it rests and how far beyond the boundary it goes;
  what is rarer (slips, jumps, flashbacks) stays as it was.

  Args:
    motion: as believed before.
    path: int [N], months of the records.
    kinds: int [N], their classes.
    boundary_CxK: as `boundaries` gives it.
  """
  before, after, kinds = path[:-1], path[1:], np.asarray(kinds)[1:]
  beyond = after - boundary_CxK[kinds, before]
  crossed = (beyond >= 0) & (beyond < _LONG)
  rest, ratio = [], []
  for kind in range(CLASSES):
    chosen = kinds == kind
    rests = (chosen & (before == after)).sum() + _BELIEF * motion.rest[kind]
    rest.append(float(rests / (chosen.sum() + _BELIEF)))
    steps = beyond[chosen & crossed]
    believed = _BELIEF * motion.ratio[kind] / (1 - motion.ratio[kind])
    mean = (steps.sum() + believed) / (len(steps) + _BELIEF)
    ratio.append(float(mean / (1 + mean)))
  most = 1 - motion.jump - max(motion.slip) - 1e-3
  rest = [min(share, most) for share in rest]
  return dataclasses.replace(motion, rest=tuple(rest), ratio=tuple(ratio))


def _shift(x_K: jax.Array, places: int) -> jax.Array:
  """Returns `x_K` moved to later months, to earlier ones if negative."""
  empty = jnp.full(min(abs(places), len(x_K)), -jnp.inf, x_K.dtype)
  if places < 0:
    return jnp.concatenate([x_K[-places:], empty])
  return jnp.concatenate([empty, x_K[: len(x_K) - places]])


def _sums(
  x_K: jax.Array, y_K: jax.Array, decay: jax.Array, add: Callable, back: bool
) -> tuple[jax.Array, jax.Array]:
  """Returns running sums of `x_K` with a cost a month and of `y_K` without.

  One scan of log weights for both: sums that are taken out of log space, or
  costs that are added up before, lose what fp32 cannot hold.
  """
  costs = jnp.stack([decay, jnp.zeros_like(decay)])
  lengths = jnp.ones((len(x_K), 1), jnp.float32)

  def join(earlier, later):
    value, length = earlier
    other, width = later
    return add(value - width * costs, other), length + width

  values = jnp.stack([x_K, y_K], axis=1)
  sums, _ = jax.lax.associative_scan(join, (values, lengths), reverse=back)
  return sums[:, 0], sums[:, 1]


def turn(
  turn_SxS: jax.Array, message_SxK: jax.Array, best: bool = False
) -> jax.Array:
  """Returns log p(place and month), the calendar's place being the next.

  Args:
    turn_SxS: of `Moves`, for one class; transposed on the way back.
    message_SxK: log weights.
    best: the best place before instead of the sum of all.
  """
  reduce = jnp.max if best else jax.nn.logsumexp
  return reduce(turn_SxS[..., None] + message_SxK[:, None], axis=0)


def push(
  moves: Moves, message_K: jax.Array, kind: jax.Array, best: bool = False
) -> jax.Array:
  """Returns log p(month of the next record, all before).

  Args:
    moves: of the timeline.
    message_K: log weight of the month of this record.
    kind: class of the next record.
    best: the best way to each month instead of the sum of all ways.
  """
  size = len(message_K)
  add = jnp.maximum if best else jnp.logaddexp
  boundary_K = moves.boundary[kind]
  cross_K = message_K + moves.cross[kind]
  # Months of one season or year share a boundary: one bin for each.
  most = jax.ops.segment_max(
    cross_K, boundary_K, size + 1, indices_are_sorted=True
  )
  if not best:
    finite = jnp.where(jnp.isfinite(most), most, 0.0)
    sums = jax.ops.segment_sum(
      jnp.exp(cross_K - finite[boundary_K]),
      boundary_K,
      size + 1,
      indices_are_sorted=True,
    )
    most = jnp.log(sums) + finite
  step_K = _shift(message_K + moves.step[kind], 1)
  arriving_K, jump_K = _sums(
    add(most[:size], step_K),
    message_K + moves.jump[kind],
    moves.decay[kind],
    add,
    back=False,
  )
  stay_K = message_K + moves.stay[kind]
  return add(add(stay_K, arriving_K), _shift(jump_K, 1))


def pull(moves: Moves, message_K: jax.Array, kind: jax.Array) -> jax.Array:
  """Returns log p(all after | month of this record); the transpose of `push`.

  Args:
    moves: of the timeline.
    message_K: log p(the next record and all after it | its month).
    kind: class of the next record.
  """
  arriving_K, later_K = _sums(
    message_K, message_K, moves.decay[kind], jnp.logaddexp, back=True
  )
  arriving = jnp.append(arriving_K, -jnp.inf)
  cross_K = moves.cross[kind] + arriving[moves.boundary[kind]]
  step_K = moves.step[kind] + arriving[1:]
  jump_K = moves.jump[kind] + _shift(later_K, -1)
  stay_K = message_K + moves.stay[kind]
  return jnp.logaddexp(
    jnp.logaddexp(stay_K, jump_K), jnp.logaddexp(cross_K, step_K)
  )


def ways_to(moves: Moves, month: jax.Array, kind: jax.Array) -> jax.Array:
  """Returns log weights [K] of the best single move from each to `month`."""
  places = jnp.arange(moves.stay.shape[1])
  best = jnp.where(places == month, moves.stay[kind], -jnp.inf)
  best = jnp.where(places < month, jnp.maximum(best, moves.jump[kind]), best)
  for weight, first in (
    (moves.step[kind], places + 1),
    (moves.cross[kind], moves.boundary[kind]),
  ):
    beyond = month - first
    best = jnp.where(
      beyond >= 0, jnp.maximum(best, weight - beyond * moves.decay[kind]), best
    )
  return best


def with_flashback(moves: Moves, evidence_BxSxK: jax.Array) -> jax.Array:
  """Returns log p(record | month it stands in) from log p(record | month)."""
  own, any_before = moves.outlier
  before_BxSxK = jax.lax.associative_scan(jnp.logaddexp, evidence_BxSxK, axis=2)
  return jnp.logaddexp(own + evidence_BxSxK, any_before + before_BxSxK)
