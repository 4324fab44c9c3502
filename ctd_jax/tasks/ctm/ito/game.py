"""The Timeline Ito game as a state machine: immutable states, one step each.

Why: a result is worth something only if the rules are kept and a game can be
replayed. `step` is the only way from one state to the next; who moves and how
they decide is none of its business. Called by `play`, which asks the seats,
and by `transcripts`, which replays.

Every seat holds one entity; all belong to different periods. In a round every
seat in turn describes its period by an item of the round's theme (item k of
ten stands for period k), then says its own rank in time, unseen by the others.
All right: won. Else the wrong seats are published, and only they rank again in
the next round, which has another theme; the rest keep their rank, which is
enforced here. Two things the paper leaves open: seats rank simultaneously, and
one item may be chosen by several.

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
  """What a seat says of its period.

  Attributes:
    seat: from 0.
    item: of the theme; None if the seat gave none that counts.
    reason: published with the item.
    label: the period the seat believes in, never published; None if not said.
  """

  seat: int
  item: str | None
  reason: str = ""
  label: str | None = None


@dataclasses.dataclass(frozen=True)
class Ranking:
  """What a seat takes for its rank; None if it gave none that counts."""

  seat: int
  rank: int | None


@dataclasses.dataclass(frozen=True)
class Round:
  """What has happened in a round.

  Attributes:
    theme: of the round.
    ranking_seats: seats that rank in it; the others keep their rank.
    descriptions: in order of seats.
    ranks: of the seats so far, kept ones included.
    wrong_seats: seats whose rank is wrong; None until all have ranked.
  """

  theme: Theme
  ranking_seats: tuple[int, ...]
  descriptions: tuple[Description, ...] = ()
  ranks: tuple[tuple[int, int | None], ...] = ()
  wrong_seats: tuple[int, ...] | None = None

  def rank_of(self, seat: int) -> int | None:
    """Returns the rank that a seat has in this round, None without one."""
    return dict(self.ranks).get(seat)


@dataclasses.dataclass(frozen=True)
class State:
  """A game at one moment.

  Attributes:
    instance: who plays.
    themes: of the rounds, in order; their number is that of the rounds.
    feedback: whether wrong seats are published and right ranks kept.
    rounds: begun so far; the last is the current one.
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
    """Who moves next.

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
  """Returns a theme for each round: all in drawn order, then over again."""
  shuffled_themes = list(themes)
  random.Random(f"{seed}:themes:{instance_id}").shuffle(shuffled_themes)
  return tuple(shuffled_themes[i % len(shuffled_themes)] for i in range(rounds))


def start_game(
  instance: ItoInstance, themes: Sequence[Theme], feedback: bool = True
) -> State:
  """Returns the state before the first description.

  Args:
    instance: who plays.
    themes: of the rounds, see `draw_themes`.
    feedback: see `State`.

  Raises:
    ValueError: naming the game, if it or a theme cannot be played.
  """
  context = f"game {instance.instance_id}"
  seat_labels = sorted(seat.period for seat in instance.seats)
  distinct_labels = sorted({seat.period for seat in instance.seats})
  if seat_labels != distinct_labels or len(seat_labels) < 2:
    raise ValueError(
      f"{context}: needs two seats or more, each of another period"
    )
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
  """Returns the state after an action of the seat whose turn it is.

  Raises:
    ValueError: if the action is not what the rules ask for now.
  """
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
    descriptions = (*current_round.descriptions, action)
    return _replace_current_round(
      state, dataclasses.replace(current_round, descriptions=descriptions)
    )
  ranks = (*current_round.ranks, (action.seat, action.rank))
  return _judge_round(state, dataclasses.replace(current_round, ranks=ranks))


def _replace_current_round(state: State, current_round: Round) -> State:
  return dataclasses.replace(state, rounds=(*state.rounds[:-1], current_round))


def _judge_round(state: State, current_round: Round) -> State:
  """Returns the state with a verdict and a new round, once all have ranked."""
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
  if not wrong_seats or len(judged_state.rounds) == len(state.themes):
    return judged_state
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


@dataclasses.dataclass(frozen=True)
class View:
  """What the seat whose turn it is may know.

  Attributes:
    instance_id: of the game.
    phase: describe or rank.
    seat: its own, from 0.
    num_seats: how many there are.
    entity: its own.
    feedback: whether `wrong` of past rounds is shown.
    rounds: all so far; ranks and believed periods are its own only.
  """

  instance_id: str
  phase: str
  seat: int
  num_seats: int
  entity: str
  feedback: bool
  rounds: tuple[Round, ...]

  @property
  def theme(self) -> Theme:
    """Of the current round."""
    return self.rounds[-1].theme

  def refuted_ranks(self) -> set[int | None]:
    """Returns the own ranks that a verdict has called wrong."""
    return {
      past_round.rank_of(self.seat)
      for past_round in self.rounds
      if past_round.wrong_seats is not None
      and self.seat in past_round.wrong_seats
    }


def make_view(state: State) -> View:
  """Returns what the seat whose turn it is may know."""
  seat = state.next_seat
  return View(
    state.instance.instance_id,
    state.phase,
    seat,
    len(state.instance.seats),
    state.instance.seats[seat].entity,
    state.feedback,
    tuple(
      _hide_other_seats(past_round, seat, state.feedback)
      for past_round in state.rounds
    ),
  )


def _hide_other_seats(past_round: Round, seat: int, feedback: bool) -> Round:
  """Returns a round without what other seats keep to themselves."""
  return dataclasses.replace(
    past_round,
    descriptions=tuple(
      description
      if description.seat == seat or description.label is None
      else dataclasses.replace(description, label=None)
      for description in past_round.descriptions
    ),
    ranks=tuple(
      seat_rank for seat_rank in past_round.ranks if seat_rank[0] == seat
    ),
    ranking_seats=past_round.ranking_seats if feedback else (),
    wrong_seats=past_round.wrong_seats if feedback else None,
  )
