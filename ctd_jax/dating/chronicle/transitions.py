"""Transitions: how likely a chronicle moves from one month to another.

Every move costs O(K) time by sums along the timeline, never a K x K matrix.

Axes: N sections of a path, B sections of a block, K months, P = K + 1 places:
the months and, last, outside the calendar; C kinds of section; S offsets of
the calendar. An array's name ends in its axes.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ctd_jax.dating.chronicle.sections import (
  NUM_KINDS,
  TOLD_IN_ENTRY,
  TOLD_MONTH,
)
from ctd_jax.dating.chronicle.transition_model import (
  Boundaries,
  Chances,
  TransitionModel,
)

_PLAIN_SUM = NUM_KINDS + 1  # row of `RunningSums` with a ratio of 1
# From outside the calendar: of coming back, to any month alike.
_COME_BACK = 0.1
# Of the other times that a daily entry tells of, the share that is earlier, and
# by how many months on average. In 繫年要錄 a quarter of 66 months that have no
# year are the next month; 17 dates with an era are 16 years older on average.
_SHARE_OF_EARLIER = 0.75
_MONTHS_TOLD = 600.0


class RunningSums(NamedTuple):
  """Matrices for sums over earlier months, each month away times a ratio.

  The months are cut into n pieces of W. Sums within a piece and between pieces
  are products with triangular matrices. Row C + 1 has ratio 1, a plain sum.
  """

  within: jax.Array  # [C + 2, W, W] ratio to the power of the months between
  # [C + 2, n, n] the same from the end of a piece to the month before a later
  # one.
  between: jax.Array
  powers: jax.Array  # [C + 2, W] ratio to the power of 1, 2, ... W.


class Transitions(NamedTuple):
  """Weights of a `TransitionModel` on a timeline; row C moves nothing.

  Either logs of probabilities or, from `to_probabilities`, the probabilities.
  """

  stay: jax.Array  # [C + 1, K] of no move
  # [C + 1, K] of a step past this month, divided by the months in reach.
  step: jax.Array
  # [C + 1, K] of a step past the boundary of the kind, likewise.
  cross: jax.Array
  jump: jax.Array  # [C + 1, K] of a jump, likewise
  back: jax.Array  # [C + 1, K] of going back to the head of the year, likewise
  restart: jax.Array  # [C + 1] of going to any one month
  leave: jax.Array  # [C + 1] of leaving the calendar
  # [C + 1, 2] of staying outside, and of coming back to a month.
  outside: jax.Array
  boundary: jax.Array  # [C + 1, K] first month past the boundary, K if none
  year_start: jax.Array  # [K] first month of each month's year
  # [C + 1] of the geometric number of months beyond the boundary.
  ratio: jax.Array
  # Over months with these ratios, never logs; None for best paths.
  sums: RunningSums | None
  # [C + 1, 4, K] weights of a section's own emission; of the months up to its
  # own that it may tell of instead, by its own month and by the month told of;
  # and of any month at all.
  outlier: jax.Array
  offset_transition: jax.Array  # [C + 1, S, S] from offset to the next offset


def make_transitions(
  model: TransitionModel,
  boundaries: Boundaries,
  offset_transition_SxS: Float[np.ndarray, "S S"] | None = None,
) -> Transitions:
  """Returns the log weights of every move; from each place they sum to 1.

  `offset_transition_SxS` has probabilities from offset to offset.
  """
  boundary, year_start = boundaries
  num_months = boundary.shape[1]
  positions = np.arange(num_months)
  # Each [C, 1], to be broadcast over the months.
  rest_chance, slip_chance, ratio, jump_chance, back_chance = (
    np.array(values)[:, None]
    for values in (model.rest, model.slip, model.ratio, model.jump, model.back)
  )
  restart, leave = np.array(model.restart), np.array(model.leave)
  num_later = num_months - 1 - positions
  jump = np.where(num_later > 0, jump_chance, 0.0)
  step = np.where(num_later > 0, slip_chance, 0.0)
  anywhere = (restart + leave)[:, None]
  # Past the last boundary nothing is left but to stay.
  cross = np.where(
    boundary < num_months,
    1 - rest_chance - slip_chance - jump_chance - back_chance - anywhere,
    0.0,
  )

  def sum_geometric(first: np.ndarray) -> np.ndarray:
    """Returns what the geometric weights from `first` on add up to."""
    num_terms = np.maximum(num_months - first, 1)
    return (1 - ratio**num_terms) / (1 - ratio)

  if offset_transition_SxS is None:
    offset_transition_SxS = np.ones((1, 1))
  with np.errstate(divide="ignore"):
    log_offset_transition = np.log(
      [offset_transition_SxS] * NUM_KINDS + [np.eye(len(offset_transition_SxS))]
    )
    rows = [
      np.log(np.maximum(1 - jump - step - cross - back_chance - anywhere, 0.0)),
      np.log(step / sum_geometric(positions + 1)),
      np.log(cross / sum_geometric(boundary)),
      np.log(jump / np.maximum(num_later, 1)),
      np.log(back_chance / sum_geometric(year_start)),
    ]
    log_restart = np.log(np.append(restart, 0.0)) - np.log(num_months)
    log_leave = np.log(np.append(leave, 0.0))
    log_ratio = np.log(np.maximum(model.ratio, 1e-30))  # finite for 0
  outside = np.array(
    [[np.log(1 - _COME_BACK), np.log(_COME_BACK / num_months)]] * NUM_KINDS
    + [[0.0, -np.inf]]
  )
  no_move_rows = [np.zeros(num_months)] + [np.full(num_months, -np.inf)] * 4
  return Transitions(
    *(
      jnp.asarray(np.vstack([row, no_move_row]), jnp.float32)
      for row, no_move_row in zip(rows, no_move_rows, strict=True)
    ),
    jnp.asarray(log_restart, jnp.float32),
    jnp.asarray(log_leave, jnp.float32),
    jnp.asarray(outside, jnp.float32),
    jnp.asarray(np.vstack([boundary, positions + 1]), jnp.int32),
    jnp.asarray(year_start, jnp.int32),
    jnp.asarray(np.append(log_ratio, -1.0), jnp.float32),
    _make_running_sums(np.append(model.ratio, 0.0), num_months),
    jnp.asarray(_make_outliers(model.flashback, num_months), jnp.float32),
    jnp.asarray(log_offset_transition, jnp.float32),
  )


def _make_outliers(
  flashback: Chances, num_months: int
) -> Float[np.ndarray, "C 4 K"]:
  """Returns the log weights `Transitions.outlier`."""
  # A section that moves nothing tells of its own month.
  flashback_Cx1 = np.append(flashback, 0.0)[:, None]
  positions = np.arange(num_months)
  shape = len(flashback_Cx1), num_months
  own = np.broadcast_to(1 - flashback_Cx1, shape)
  earlier = flashback_Cx1 / (positions + 1)
  reach, anything = np.ones(shape), np.zeros(shape)
  earlier[TOLD_MONTH:], anything[TOLD_MONTH:] = 0.0, flashback_Cx1[TOLD_MONTH:]
  # What an entry tells of is the likelier the nearer; what is before the
  # calendar may be any month.
  ratio = np.exp(-1 / _MONTHS_TOLD)
  share = _SHARE_OF_EARLIER * flashback[TOLD_IN_ENTRY]
  earlier[TOLD_IN_ENTRY] = share * (1 - ratio) * ratio**positions
  reach[TOLD_IN_ENTRY] = ratio ** -positions.astype(float)
  anything[TOLD_IN_ENTRY] -= share * (1 - ratio ** (positions + 1))
  anything /= num_months
  with np.errstate(divide="ignore"):
    return np.log(np.stack([own, earlier, reach, anything], axis=1))


def _make_running_sums(
  ratios: Float[np.ndarray, " rows"], num_months: int
) -> RunningSums:
  """Returns the matrices for running sums over the months."""
  length = math.isqrt(num_months - 1) + 1  # of a piece; the last may be short
  ratios = np.append(ratios, 1.0)[:, None, None]

  def make_powers(size: int, ratios: np.ndarray, first: int) -> jax.Array:
    steps = np.arange(size) - np.arange(size)[:, None]
    powers = ratios ** np.maximum(steps - first, 0)
    return jnp.asarray(np.where(steps >= first, powers, 0.0), jnp.float32)

  return RunningSums(
    make_powers(length, ratios, 0),
    make_powers(-(-num_months // length), ratios**length, 1),
    jnp.asarray(ratios[:, 0] ** np.arange(1, length + 1), jnp.float32),
  )


def to_probabilities(log_transitions: Transitions) -> Transitions:
  """Returns the transitions with probabilities instead of their logs."""
  indices_and_sums = {
    name: getattr(log_transitions, name)
    for name in ("boundary", "year_start", "sums")
  }
  return jax.tree.map(jnp.exp, log_transitions)._replace(**indices_and_sums)


def _shift(x_K: jax.Array, num_months: int, fill: float) -> jax.Array:
  """Returns `x_K` moved to later months, to earlier ones if negative."""
  empty = jnp.full(min(abs(num_months), len(x_K)), fill, x_K.dtype)
  if num_months < 0:
    return jnp.concatenate([x_K[-num_months:], empty])
  return jnp.concatenate([empty, x_K[: len(x_K) - num_months]])


def _sum_earlier(
  x_K: jax.Array, sums: RunningSums, row: jax.Array | int
) -> jax.Array:
  """Returns sums over each month and those before it, with a ratio."""
  sums_within = _cut_into_pieces(x_K, sums) @ sums.within[row]
  sums_before = sums_within[:, -1] @ sums.between[row]
  return (sums_within + sums_before[:, None] * sums.powers[row]).ravel()[
    : len(x_K)
  ]


def _sum_later(
  x_K: jax.Array, sums: RunningSums, row: jax.Array | int
) -> jax.Array:
  """Returns sums over each month and those after it, with a ratio."""
  sums_within = _cut_into_pieces(x_K, sums) @ sums.within[row].T
  sums_after = sums.between[row] @ sums_within[:, 0]
  return (sums_within + sums_after[:, None] * sums.powers[row][::-1]).ravel()[
    : len(x_K)
  ]


def _cut_into_pieces(x_K: jax.Array, sums: RunningSums) -> jax.Array:
  """Returns [n, W], filled up with zeros."""
  shape = sums.between.shape[-1], sums.within.shape[-1]
  return jnp.pad(x_K, (0, shape[0] * shape[1] - len(x_K))).reshape(shape)


def _max_earlier(x_K: jax.Array, log_ratio: jax.Array | float) -> jax.Array:
  """Returns maxima over each month and those before it, at a cost a month."""
  costs = log_ratio * jnp.arange(len(x_K))
  return jax.lax.cummax(x_K - costs) + costs


def propagate_forward(
  moves: Transitions, message_P: jax.Array, kind: jax.Array
) -> jax.Array:
  """Returns p(place of the next section, all earlier sections), [P].

  `message_P` has the weights of this section's places, at least 0; `kind` is
  the kind of the next section.
  """
  message_K, outside = message_P[:-1], message_P[-1]
  size = len(message_K)
  total = message_K.sum()
  # What crosses a boundary arrives there; months of one unit share it.
  arriving_K = jax.ops.segment_sum(
    message_K * moves.cross[kind],
    moves.boundary[kind],
    size + 1,
    indices_are_sorted=True,
  )[:size]
  arriving_K += jax.ops.segment_sum(
    message_K * moves.back[kind],
    moves.year_start,
    size,
    indices_are_sorted=True,
  )
  arriving_K += _shift(message_K * moves.step[kind], 1, 0.0)
  jump_K = _sum_earlier(message_K * moves.jump[kind], moves.sums, _PLAIN_SUM)
  stay_outside, come_back = moves.outside[kind]
  next_K = (
    message_K * moves.stay[kind]
    + _sum_earlier(arriving_K, moves.sums, kind)
    + _shift(jump_K, 1, 0.0)
    + (total * moves.restart[kind] + outside * come_back)
  )
  return jnp.append(next_K, total * moves.leave[kind] + outside * stay_outside)


def propagate_backward(
  moves: Transitions, message_P: jax.Array, kind: jax.Array
) -> jax.Array:
  """Returns p(all after | place of this section), [P].

  The transpose of `propagate_forward`: `message_P` is p(the next section and
  all after it | its place).
  """
  message_K, outside = message_P[:-1], message_P[-1]
  total = message_K.sum()
  # Entry K: past the end of the timeline nothing is reached.
  arriving = jnp.append(_sum_later(message_K, moves.sums, kind), 0.0)
  later_K = _sum_later(message_K, moves.sums, _PLAIN_SUM)
  stay_outside, come_back = moves.outside[kind]
  previous_K = (
    moves.stay[kind] * message_K
    + moves.step[kind] * arriving[1:]
    + moves.cross[kind] * arriving[moves.boundary[kind]]
    + moves.back[kind] * arriving[moves.year_start]
    + moves.jump[kind] * _shift(later_K, -1, 0.0)
    + (moves.restart[kind] * total + moves.leave[kind] * outside)
  )
  return jnp.append(previous_K, stay_outside * outside + come_back * total)


def propagate_best(
  log_moves: Transitions, message_P: jax.Array, kind: jax.Array
) -> jax.Array:
  """Returns the log weight of the best single way to each place, [P]."""
  message_K, outside = message_P[:-1], message_P[-1]
  size = len(message_K)
  total = message_K.max()
  arriving_K = jax.ops.segment_max(
    message_K + log_moves.cross[kind],
    log_moves.boundary[kind],
    size + 1,
    indices_are_sorted=True,
  )[:size]
  returning_K = jax.ops.segment_max(
    message_K + log_moves.back[kind],
    log_moves.year_start,
    size,
    indices_are_sorted=True,
  )
  step_K = _shift(message_K + log_moves.step[kind], 1, -jnp.inf)
  stay_outside, come_back = log_moves.outside[kind]
  ways = (
    message_K + log_moves.stay[kind],
    _max_earlier(
      jnp.maximum(jnp.maximum(arriving_K, returning_K), step_K),
      log_moves.ratio[kind],
    ),
    _shift(jax.lax.cummax(message_K + log_moves.jump[kind]), 1, -jnp.inf),
  )
  anywhere = jnp.maximum(total + log_moves.restart[kind], outside + come_back)
  next_K = jnp.maximum(functools.reduce(jnp.maximum, ways), anywhere)
  return jnp.append(
    next_K, jnp.maximum(total + log_moves.leave[kind], outside + stay_outside)
  )


def score_best_moves(
  log_moves: Transitions, place: jax.Array, kind: jax.Array
) -> jax.Array:
  """Returns the log weight of the best move from each place to one, [P]."""
  size = log_moves.stay.shape[1]
  positions = jnp.arange(size)
  stay = jnp.where(positions == place, log_moves.stay[kind], -jnp.inf)
  best = jnp.maximum(stay, log_moves.restart[kind])
  best = jnp.where(
    positions < place, jnp.maximum(best, log_moves.jump[kind]), best
  )
  for weight, first in (
    (log_moves.step[kind], positions + 1),
    (log_moves.cross[kind], log_moves.boundary[kind]),
    (log_moves.back[kind], log_moves.year_start),
  ):
    months_beyond = place - first
    best = jnp.where(
      months_beyond >= 0,
      jnp.maximum(best, weight + months_beyond * log_moves.ratio[kind]),
      best,
    )
  stay_outside, come_back = log_moves.outside[kind]
  return jnp.where(
    place == size,
    jnp.append(jnp.full(size, log_moves.leave[kind]), stay_outside),
    jnp.append(best, come_back),
  )


def is_told(kinds: jax.Array | np.ndarray) -> jax.Array | np.ndarray:
  """Returns which kinds may tell of months of other times."""
  return (kinds >= TOLD_MONTH) & (kinds < NUM_KINDS)


def _take_weights(outlier: jax.Array, kinds_B: jax.Array) -> jax.Array:
  """Returns the four weights of the sections of a block, each [B, 1, K]."""
  return jnp.moveaxis(outlier[kinds_B][:, :, None], 1, 0)


def add_flashback(
  outlier: jax.Array,
  emission_BxSxP: jax.Array,
  kinds_B: jax.Array,
  other_BxS: jax.Array | float = 0.0,
) -> jax.Array:
  """Returns p(section | place it is in) from p(section | place told of).

  Args:
    emission_BxSxP: at least 0, up to a factor for each section.
    other_BxS: sum of the emissions of months outside a window.
  """
  own, earlier, reach, anything = _take_weights(outlier, kinds_B)
  emission_BxSxK = emission_BxSxP[..., :-1]
  other_BxSx1 = jnp.asarray(other_BxS)[..., None]
  earlier_BxSxK = jnp.cumsum(emission_BxSxK * reach, axis=-1) + other_BxSx1
  any_BxSx1 = emission_BxSxK.sum(-1, keepdims=True) + other_BxSx1
  inside = own * emission_BxSxK + earlier * earlier_BxSxK + anything * any_BxSx1
  return jnp.concatenate([inside, emission_BxSxP[..., -1:]], axis=-1)


def part_told(
  outlier: jax.Array,
  weight_BxSxP: jax.Array,
  emission_BxSxP: jax.Array,
  kinds_B: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """Returns the weights of telling of the own month and of another, [B, S, P].

  Only kinds in `is_told` have a weight of another month. `weight_BxSxP` is that
  of the place a section is in, without its own emission.
  """
  own, earlier, reach, anything = _take_weights(outlier, kinds_B)
  weight_BxSxK = weight_BxSxP[..., :-1]
  emission_BxSxK = emission_BxSxP[..., :-1]
  outside_BxSx1 = (weight_BxSxP * emission_BxSxP)[..., -1:]
  told_here = own * weight_BxSxK * emission_BxSxK
  # What may tell of a month stands at it or later, or anywhere.
  later_BxSxK = jax.lax.cumsum(earlier * weight_BxSxK, axis=2, reverse=True)
  elsewhere_BxSxK = reach * later_BxSxK + (anything * weight_BxSxK).sum(
    -1, keepdims=True
  )
  told = jnp.append(
    elsewhere_BxSxK * emission_BxSxK, jnp.zeros_like(outside_BxSx1), axis=-1
  )
  may_be_told = is_told(kinds_B)[:, None, None]
  standing = weight_BxSxP * add_flashback(outlier, emission_BxSxP, kinds_B)
  return (
    jnp.where(
      may_be_told, jnp.append(told_here, outside_BxSx1, axis=-1), standing
    ),
    jnp.where(may_be_told, told, 0.0),
  )


@functools.partial(jax.jit, static_argnames="num_months")
def take_months(
  transitions: Transitions, first_month: jax.Array | int, num_months: int
) -> Transitions:
  """Returns the transitions among some months, without running sums.

  Moves that leave the window are dropped; a year that begins before it begins
  with it.
  """

  def take(weights: jax.Array) -> jax.Array:
    return jax.lax.dynamic_slice_in_dim(
      weights, first_month, num_months, axis=-1
    )

  by_month = (
    *("stay", "step", "cross", "jump", "back"),
    *("boundary", "year_start", "outlier"),
  )
  taken = transitions._replace(
    sums=None, **{name: take(getattr(transitions, name)) for name in by_month}
  )
  return taken._replace(
    boundary=jnp.minimum(taken.boundary - first_month, num_months),
    year_start=jnp.maximum(taken.year_start - first_month, 0),
  )
