"""Transitions: how a chronicle moves along its timeline between two records.

Annals print a date only where it changes. From one record to the next the text
stays, steps on, or jumps, by the date that the next record prints: one that
opens with a season has left the season before it, one that opens with a year
the year before. A step goes to the boundary (the next month, season or year)
and a geometric number of months beyond it; a jump goes anywhere later, for gaps
and lost headings. A record may tell what is older than its position (「初」): a
share of its emission is that of any earlier month alike.

A move costs O(K): sums along the timeline, never a K x K matrix.

Axes: B records, N records of a path, K months, C classes of record, S offsets
of a calendar that is not known. A name ends in the axes of its array.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Int32

# What a record prints of its date: nothing, or the largest unit that opens it.
NO_DATE, MONTH, SEASON, YEAR = range(4)
NUM_CLASSES = 4
_PRIOR_RECORDS = 20.0  # records that the prior model is worth
_MAX_STEP_MONTHS = 60  # what goes further was a jump


@dataclasses.dataclass(frozen=True)
class TransitionModel:
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
      if len(values) != NUM_CLASSES or not all(
        0 <= value < 1 for value in values
      ):
        raise ValueError(
          f"{name} of a TransitionModel should be {NUM_CLASSES} numbers from 0 "
          f"to below 1, got {values}"
        )
    for name in ("jump", "flashback"):
      if not 0 <= getattr(self, name) < 1:
        raise ValueError(
          f"{name} of a TransitionModel should be from 0 to below 1, got "
          f"{getattr(self, name)}"
        )
    max_sum = max(map(sum, zip(self.rest, self.slip, strict=True)))
    if max_sum + self.jump > 1:
      raise ValueError(
        "rest, slip and jump of a TransitionModel should add up to at most 1, "
        f"got {max_sum + self.jump:g}"
      )


class Transitions(NamedTuple):
  """Log weights of a `TransitionModel` on a timeline; row C moves nothing.

  Attributes:
    stay: [C + 1, K] of no move.
    step: [C + 1, K] of a step past this month, by the months it can end in.
    cross: [C + 1, K] of a step past the boundary of the class, likewise.
    jump: [C + 1, K] of a jump, by the months it can end in.
    boundary: [C + 1, K] first month past the boundary, K where there is none.
    decay: [C + 1] cost of a month beyond the boundary.
    outlier: [2, K] weights of a record's own emission and of that of any
      month up to its own.
    offset_transition: [C + 1, S, S] of the calendar's next offset, by its
      offset.
  """

  stay: jax.Array
  step: jax.Array
  cross: jax.Array
  jump: jax.Array
  boundary: jax.Array
  decay: jax.Array
  outlier: jax.Array
  offset_transition: jax.Array


def find_boundaries(
  years: Int[np.ndarray, " K"], months: Int[np.ndarray, " K"]
) -> Int32[np.ndarray, "C K"]:
  """Returns the first month past the boundary of each class, by month.

  K where the timeline ends first.

  Args:
    years: of the months, never falling.
    months: 1-12; a leap month repeats the number before it.
  """
  size = len(years)
  season = (np.asarray(months) - 1) // 3
  next_months = np.arange(1, size + 1)
  rows = [next_months, next_months]
  is_new_year = np.diff(years, prepend=years[:1]) != 0
  # A season ends with its last month, a leap month included, or with its year;
  # a year need not begin with spring.
  is_new_season = is_new_year | (np.diff(season, prepend=season[:1]) != 0)
  for is_new in (is_new_season, is_new_year):
    unit = np.cumsum(is_new)
    rows.append(np.searchsorted(unit, unit, side="right"))
  return np.stack(rows).astype(np.int32)


def make_transitions(
  model: TransitionModel,
  boundary_CxK: Int[np.ndarray, "C K"],
  offset_transition_SxS: Float[np.ndarray, "S S"] | None = None,
) -> Transitions:
  """Returns the log weights of every move; from each month they add up to 1.

  Args:
    model: probabilities.
    boundary_CxK: from `find_boundaries`.
    offset_transition_SxS: probabilities of the calendar's next offset, by its
      offset; one offset if None.

  Raises:
    ValueError: if a boundary does not lie later than its month.
  """
  boundary = np.asarray(boundary_CxK)
  num_classes, num_months = boundary.shape
  positions = np.arange(num_months)
  if (
    num_classes != NUM_CLASSES
    or not ((boundary > positions) & (boundary <= num_months)).all()
  ):
    raise ValueError(
      f"boundaries should be [{NUM_CLASSES}, K], each later than its month "
      "and at most K"
    )
  # Each [C, 1], to be broadcast over the months.
  rest_chance, slip_chance, ratio = (
    np.array(values)[:, None]
    for values in (model.rest, model.slip, model.ratio)
  )
  num_later = num_months - 1 - positions
  jump = np.where(num_later > 0, model.jump, 0.0)
  step = np.where(num_later > 0, slip_chance, 0.0)
  # Past the last boundary nothing is left but to stay.
  cross = np.where(
    boundary < num_months, 1 - rest_chance - slip_chance - model.jump, 0.0
  )
  stay = 1 - jump - step - cross

  def sum_geometric(first: np.ndarray) -> np.ndarray:
    """Returns what the geometric weights from `first` on add up to."""
    num_terms = np.maximum(num_months - first, 1)
    return (1 - ratio**num_terms) / (1 - ratio)

  if offset_transition_SxS is None:
    offset_transition_SxS = np.ones((1, 1))
  with np.errstate(divide="ignore"):
    log_offset_transition = np.log(
      [offset_transition_SxS] * NUM_CLASSES
      + [np.eye(len(offset_transition_SxS))]
    )
    rows = [
      np.log(stay),
      np.log(step / sum_geometric(positions + 1)),
      np.log(cross / sum_geometric(boundary)),
      np.log(np.broadcast_to(jump / np.maximum(num_later, 1), stay.shape)),
    ]
    decay = -np.log(np.maximum(model.ratio, 1e-30))  # finite for a ratio of 0
    outlier = np.stack(
      [
        np.full(num_months, np.log(1 - model.flashback)),
        np.log(model.flashback) - np.log(positions + 1),
      ]
    )
  no_move_rows = [np.zeros(num_months)] + [np.full(num_months, -np.inf)] * 3
  return Transitions(
    *(
      jnp.asarray(np.vstack([row, no_move_row]), jnp.float32)
      for row, no_move_row in zip(rows, no_move_rows, strict=True)
    ),
    jnp.asarray(np.vstack([boundary, positions + 1]), jnp.int32),
    jnp.asarray(np.append(decay, 1.0), jnp.float32),
    jnp.asarray(outlier, jnp.float32),
    jnp.asarray(log_offset_transition, jnp.float32),
  )


def fit_transition_model(
  model: TransitionModel,
  path: Int[np.ndarray, " N"],
  kinds: Int[np.ndarray, " N"],
  boundary_CxK: Int[np.ndarray, "C K"],
) -> TransitionModel:
  """Returns the model that a path shows, `model` being worth 20 records.

  Of each class, how often it rests and how far beyond the boundary it goes;
  what is rarer (slips, jumps, flashbacks) stays as it was.

  Args:
    model: prior.
    path: months of the records.
    kinds: classes of the records.
    boundary_CxK: from `find_boundaries`.
  """
  previous_months, next_months, kinds = (
    path[:-1],
    path[1:],
    np.asarray(kinds)[1:],
  )
  months_beyond = next_months - boundary_CxK[kinds, previous_months]
  is_crossing = (months_beyond >= 0) & (months_beyond < _MAX_STEP_MONTHS)
  rest_chances, ratios = [], []
  for kind in range(NUM_CLASSES):
    is_kind = kinds == kind
    num_rests = (
      is_kind & (previous_months == next_months)
    ).sum() + _PRIOR_RECORDS * model.rest[kind]
    rest_chances.append(float(num_rests / (is_kind.sum() + _PRIOR_RECORDS)))
    steps = months_beyond[is_kind & is_crossing]
    # Of a geometric number with ratio r the mean is r / (1 - r).
    prior_months = _PRIOR_RECORDS * model.ratio[kind] / (1 - model.ratio[kind])
    mean = (steps.sum() + prior_months) / (len(steps) + _PRIOR_RECORDS)
    ratios.append(float(mean / (1 + mean)))
  max_rest = 1 - model.jump - max(model.slip) - 1e-3
  rest_chances = [min(rest_chance, max_rest) for rest_chance in rest_chances]
  return dataclasses.replace(
    model, rest=tuple(rest_chances), ratio=tuple(ratios)
  )


def _shift(x_K: jax.Array, num_months: int) -> jax.Array:
  """Returns `x_K` moved to later months, to earlier ones if negative."""
  empty = jnp.full(min(abs(num_months), len(x_K)), -jnp.inf, x_K.dtype)
  if num_months < 0:
    return jnp.concatenate([x_K[-num_months:], empty])
  return jnp.concatenate([empty, x_K[: len(x_K) - num_months]])


def _sum_with_decay(
  x_K: jax.Array, y_K: jax.Array, decay: jax.Array, add: Callable, reverse: bool
) -> tuple[jax.Array, jax.Array]:
  """Returns running sums of `x_K` with a cost a month and of `y_K` without.

  One scan of log weights for both: sums that are taken out of log space, or
  costs that are added up before, lose what fp32 cannot hold.
  """
  costs = jnp.stack([decay, jnp.zeros_like(decay)])
  lengths = jnp.ones((len(x_K), 1), jnp.float32)

  def combine(earlier, later):
    earlier_value, earlier_length = earlier
    later_value, later_length = later
    return add(
      earlier_value - later_length * costs, later_value
    ), earlier_length + later_length

  values = jnp.stack([x_K, y_K], axis=1)
  sums, _ = jax.lax.associative_scan(
    combine, (values, lengths), reverse=reverse
  )
  return sums[:, 0], sums[:, 1]


def propagate_offset(
  offset_transition_SxS: jax.Array, message_SxK: jax.Array, best: bool = False
) -> jax.Array:
  """Returns log weights [S, K] of the next offset and the same month.

  Args:
    offset_transition_SxS: of one class; transposed on the way back.
    message_SxK: log weights of offset and month.
    best: the best offset before instead of the sum of all.
  """
  reduce = jnp.max if best else jax.nn.logsumexp
  return reduce(offset_transition_SxS[..., None] + message_SxK[:, None], axis=0)


def propagate_forward(
  log_transitions: Transitions,
  message_K: jax.Array,
  kind: jax.Array,
  best: bool = False,
) -> jax.Array:
  """Returns log p(month of the next record, all before).

  Args:
    log_transitions: of the timeline.
    message_K: log weight of the month of this record.
    kind: class of the next record.
    best: the best way to each month instead of the sum of all ways.
  """
  size = len(message_K)
  add = jnp.maximum if best else jnp.logaddexp
  boundary_K = log_transitions.boundary[kind]
  cross_K = message_K + log_transitions.cross[kind]
  # Months of one season or year share a boundary: one bin for each.
  boundary_max = jax.ops.segment_max(
    cross_K, boundary_K, size + 1, indices_are_sorted=True
  )
  if not best:
    # logsumexp by segment; a segment without a way has maximum -inf.
    finite = jnp.where(jnp.isfinite(boundary_max), boundary_max, 0.0)
    sums = jax.ops.segment_sum(
      jnp.exp(cross_K - finite[boundary_K]),
      boundary_K,
      size + 1,
      indices_are_sorted=True,
    )
    boundary_max = jnp.log(sums) + finite
  step_K = _shift(message_K + log_transitions.step[kind], 1)
  arriving_K, jump_K = _sum_with_decay(
    add(boundary_max[:size], step_K),
    message_K + log_transitions.jump[kind],
    log_transitions.decay[kind],
    add,
    reverse=False,
  )
  stay_K = message_K + log_transitions.stay[kind]
  return add(add(stay_K, arriving_K), _shift(jump_K, 1))


def propagate_backward(
  log_transitions: Transitions, message_K: jax.Array, kind: jax.Array
) -> jax.Array:
  """Returns log p(all after | month of this record).

  The transpose of `propagate_forward`.

  Args:
    log_transitions: of the timeline.
    message_K: log p(the next record and all after it | its month).
    kind: class of the next record.
  """
  arriving_K, later_K = _sum_with_decay(
    message_K,
    message_K,
    log_transitions.decay[kind],
    jnp.logaddexp,
    reverse=True,
  )
  # Entry K: past the end of the timeline nothing is reached.
  arriving = jnp.append(arriving_K, -jnp.inf)
  cross_K = (
    log_transitions.cross[kind] + arriving[log_transitions.boundary[kind]]
  )
  step_K = log_transitions.step[kind] + arriving[1:]
  jump_K = log_transitions.jump[kind] + _shift(later_K, -1)
  stay_K = message_K + log_transitions.stay[kind]
  return jnp.logaddexp(
    jnp.logaddexp(stay_K, jump_K), jnp.logaddexp(cross_K, step_K)
  )


def score_best_moves(
  log_transitions: Transitions, month: jax.Array, kind: jax.Array
) -> jax.Array:
  """Returns log weights [K] of the best single move from each to `month`."""
  positions = jnp.arange(log_transitions.stay.shape[1])
  best = jnp.where(positions == month, log_transitions.stay[kind], -jnp.inf)
  best = jnp.where(
    positions < month, jnp.maximum(best, log_transitions.jump[kind]), best
  )
  for weight, first in (
    (log_transitions.step[kind], positions + 1),
    (log_transitions.cross[kind], log_transitions.boundary[kind]),
  ):
    months_beyond = month - first
    best = jnp.where(
      months_beyond >= 0,
      jnp.maximum(best, weight - months_beyond * log_transitions.decay[kind]),
      best,
    )
  return best


def add_flashback(
  log_transitions: Transitions, emission_BxSxK: jax.Array
) -> jax.Array:
  """Returns log p(record | month it stands in) from log p(record | month)."""
  own_weight, earlier_weight = log_transitions.outlier
  earlier_BxSxK = jax.lax.associative_scan(
    jnp.logaddexp, emission_BxSxK, axis=2
  )
  return jnp.logaddexp(
    own_weight + emission_BxSxK, earlier_weight + earlier_BxSxK
  )
