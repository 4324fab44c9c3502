"""Timeline Ito as a state machine with immutable states.

`apply_action` is the only way from one state to the next, so the rules always
hold and a transcript can be replayed. Agents decide by what a `views.View`
shows.

Every seat holds one entity; all belong to different periods. In a round every
seat in turn describes its period by an item of the round's theme (item k of
ten stands for period k), then states its own rank in time, unseen by the
others. If all ranks are right the game is won. Otherwise the wrong seats are
published, and only they rank again in the next round, which has another theme;
the other seats keep their rank.

Two points are open in the paper: here seats rank simultaneously, and several
may choose the same item.

Source: CTM paper, section on the Timeline Ito game and its worked example.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.game_schema import ItoInstance, Theme

DESCRIBE, RANK, WON, LOST = PHASES = ("describe", "rank", "won", "lost")


@dataclasses.dataclass(frozen=True)
class Description:
  """Description of its period by a seat.

  Attributes:
    seat: number from 0.
    item: item of the theme; None if the seat gave no valid one.
    reason: reason, published with the item.
    label: believed period, never published; None if not stated.
  """

  seat: int
  item: str | None
  reason: str = ""
  label: str | None = None


@dataclasses.dataclass(frozen=True)
class Ranking:
  """Rank that a seat claims; None if it gave no valid one."""

  seat: int
  rank: int | None


@dataclasses.dataclass(frozen=True)
class Round:
  """Round of a game, complete or not.

  Attributes:
    theme: theme of the round.
    ranking_seats: seats that rank in this round; the others keep their rank.
    descriptions: in order of seats.
    ranks: (seat, rank) so far, kept ones included.
    wrong_seats: seats with a wrong rank; None until all have ranked.
  """

  theme: Theme
  ranking_seats: tuple[int, ...]
  descriptions: tuple[Description, ...] = ()
  ranks: tuple[tuple[int, int | None], ...] = ()
  wrong_seats: tuple[int, ...] | None = None

  def rank_of(self, seat: int) -> int | None:
    """Returns the rank of a seat in this round, None without one."""
    return dict(self.ranks).get(seat)


@dataclasses.dataclass(frozen=True)
class State:
  """State of a game between two actions.

  Attributes:
    instance: entities and true ranks.
    themes: one for each round, in order; the last round has the last theme.
    feedback: whether wrong seats are published and right ranks kept.
    rounds: rounds begun so far; the last is the current one.
  """

  instance: ItoInstance
  themes: tuple[Theme, ...]
  feedback: bool = True
  rounds: tuple[Round, ...] = ()

  @property
  def phase(self) -> str:
    """One of `PHASES`."""
    current_round = self.rounds[-1]
    if current_round.wrong_seats is not None:
      return LOST if current_round.wrong_seats else WON
    seats = len(self.instance.seats)
    return DESCRIBE if len(current_round.descriptions) < seats else RANK

  @property
  def next_seat(self) -> int:
    """The seat that acts next.

    Raises:
      ValueError: if the game is over.
    """
    current_round = self.rounds[-1]
    if self.phase == DESCRIBE:
      return len(current_round.descriptions)
    if self.phase == RANK:
      return next(
        s
        for s in current_round.ranking_seats
        if s not in dict(current_round.ranks)
      )
    raise ValueError(f"game {self.instance.instance_id} is over")

  @property
  def won_in(self) -> int | None:
    """The round in which the game was won, None if it was not."""
    return len(self.rounds) if self.phase == WON else None


def draw_themes(
  themes: Sequence[Theme], instance_id: str, rounds: int, seed: int
) -> tuple[Theme, ...]:
  """Returns a theme for each round, in random order, repeated cyclically."""
  shuffled_themes = list(themes)
  random.Random(f"{seed}:themes:{instance_id}").shuffle(shuffled_themes)
  return tuple(shuffled_themes[i % len(shuffled_themes)] for i in range(rounds))


def start_game(
  instance: ItoInstance, themes: Sequence[Theme], feedback: bool = True
) -> State:
  """Returns the state before the first description.

  Args:
    instance: entities and true ranks.
    themes: one for each round, see `draw_themes`.
    feedback: see `State`.

  Raises:
    ValueError: naming the game or theme that breaks the rules.
  """
  context = f"game {instance.instance_id}"
  seat_labels = sorted(seat.period for seat in instance.seats)
  distinct_labels = sorted({seat.period for seat in instance.seats})
  if seat_labels != distinct_labels or len(seat_labels) < 2:
    raise ValueError(
      f"{context}: needs two seats or more, each of another period"
    )
  # Ranks of a file are compared with the periods, not trusted.
  labels_in_time = sorted(distinct_labels, key=periods.LABELS.index)
  ranks = tuple(
    labels_in_time.index(seat.period) + 1 for seat in instance.seats
  )
  if instance.ranks != ranks:
    raise ValueError(f"{context}: ranks {instance.ranks}, should be {ranks}")
  if not themes:
    raise ValueError(f"{context}: needs a theme for each round, one at least")
  for theme in themes:
    if len(set(theme.items)) != len(periods.LABELS):
      raise ValueError(
        f"theme {theme.name}: needs {len(periods.LABELS)} different items"
      )
  all_seats = tuple(range(len(instance.seats)))
  first_round = Round(themes[0], all_seats)
  return State(instance, tuple(themes), feedback, (first_round,))


def apply_action(state: State, action: Description | Ranking) -> State:
  """Returns the state after an action of the next seat.

  Raises:
    ValueError: if the rules do not allow the action now.
  """
  # No action is allowed after the end: the phases WON and LOST have none.
  action_type = {DESCRIBE: Description, RANK: Ranking}.get(state.phase)
  context = f"game {state.instance.instance_id}, round {len(state.rounds)}"
  if action_type is None or not isinstance(action, action_type):
    raise ValueError(
      f"{context}: a {type(action).__name__} in the phase {state.phase!r}"
    )
  if action.seat != state.next_seat:
    raise ValueError(
      f"{context}: seat {action.seat}, but {state.next_seat} is asked"
    )
  current_round = state.rounds[-1]
  if isinstance(action, Description):
    if action.item is not None and action.item not in current_round.theme.items:
      raise ValueError(f"{context}: {action.item!r} is no item of the theme")
    # The phase follows from the number of descriptions, see `State.phase`.
    descriptions = (*current_round.descriptions, action)
    return _replace_current_round(
      state, dataclasses.replace(current_round, descriptions=descriptions)
    )
  ranks = (*current_round.ranks, (action.seat, action.rank))
  return _judge_round(state, dataclasses.replace(current_round, ranks=ranks))


def _replace_current_round(state: State, current_round: Round) -> State:
  return dataclasses.replace(state, rounds=(*state.rounds[:-1], current_round))


def _judge_round(state: State, current_round: Round) -> State:
  """Returns the state with a verdict and a new round once all have ranked."""
  true_ranks = state.instance.ranks
  if len(current_round.ranks) < len(true_ranks):
    return _replace_current_round(state, current_round)
  ranks = dict(current_round.ranks)
  wrong_seats = tuple(
    seat
    for seat, true_rank in enumerate(true_ranks)
    if ranks[seat] != true_rank
  )
  judged_state = _replace_current_round(
    state, dataclasses.replace(current_round, wrong_seats=wrong_seats)
  )
  # Won, or lost after the last theme.
  if not wrong_seats or len(judged_state.rounds) == len(state.themes):
    return judged_state
  # Without feedback nobody knows which ranks are right, so all rank again.
  ranking_seats = (
    wrong_seats if state.feedback else tuple(range(len(true_ranks)))
  )
  locked_ranks = tuple(
    (seat, ranks[seat])
    for seat in range(len(true_ranks))
    if seat not in ranking_seats
  )
  next_round = Round(
    state.themes[len(judged_state.rounds)], ranking_seats, ranks=locked_ranks
  )
  return dataclasses.replace(
    judged_state, rounds=(*judged_state.rounds, next_round)
  )
