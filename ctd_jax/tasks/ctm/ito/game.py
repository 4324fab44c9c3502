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
from ctd_jax_datasets.ctm.questions import ItoInstance, Theme

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
    asked: seats that rank in it; the others keep their rank.
    descriptions: in order of seats.
    ranks: of the seats so far, kept ones included.
    wrong: seats whose rank is wrong; None until all have ranked.
  """

  theme: Theme
  asked: tuple[int, ...]
  descriptions: tuple[Description, ...] = ()
  ranks: tuple[tuple[int, int | None], ...] = ()
  wrong: tuple[int, ...] | None = None

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
    current = self.rounds[-1]
    if current.wrong is not None:
      return LOST if current.wrong else WON
    seats = len(self.instance.seats)
    return DESCRIBE if len(current.descriptions) < seats else RANK

  @property
  def seat(self) -> int:
    """Who moves next.

    Raises:
      ValueError: if the game is over.
    """
    current = self.rounds[-1]
    if self.phase == DESCRIBE:
      return len(current.descriptions)
    if self.phase == RANK:
      return next(s for s in current.asked if s not in dict(current.ranks))
    raise ValueError(f"game {self.instance.instance_id} is over")

  @property
  def won_in(self) -> int | None:
    """The round in which the game was won, None if it was not."""
    return len(self.rounds) if self.phase == WON else None


def draw_themes(
  themes: Sequence[Theme], instance_id: str, rounds: int, seed: int
) -> tuple[Theme, ...]:
  """Returns a theme for each round: all in drawn order, then over again."""
  drawn = list(themes)
  random.Random(f"{seed}:themes:{instance_id}").shuffle(drawn)
  return tuple(drawn[i % len(drawn)] for i in range(rounds))


def start(
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
  place = f"game {instance.instance_id}"
  order = sorted(seat.period for seat in instance.seats)
  labels = sorted({seat.period for seat in instance.seats})
  if order != labels or len(order) < 2:
    raise ValueError(
      f"{place}: needs two seats or more, each of another period"
    )
  wanted = sorted(labels, key=periods.LABELS.index)
  ranks = tuple(wanted.index(seat.period) + 1 for seat in instance.seats)
  if instance.ranks != ranks:
    raise ValueError(f"{place}: ranks {instance.ranks}, should be {ranks}")
  if not themes:
    raise ValueError(f"{place}: needs a theme for each round, one at least")
  for theme in themes:
    if len(set(theme.items)) != len(periods.LABELS):
      raise ValueError(
        f"theme {theme.name}: needs {len(periods.LABELS)} different items"
      )
  everyone = tuple(range(len(instance.seats)))
  first = Round(themes[0], everyone)
  return State(instance, tuple(themes), feedback, (first,))


def step(state: State, action: Description | Ranking) -> State:
  """Returns the state after an action of the seat whose turn it is.

  Raises:
    ValueError: if the action is not what the rules ask for now.
  """
  wanted = {DESCRIBE: Description, RANK: Ranking}.get(state.phase)
  place = f"game {state.instance.instance_id}, round {len(state.rounds)}"
  if wanted is None or not isinstance(action, wanted):
    raise ValueError(
      f"{place}: a {type(action).__name__} in the phase {state.phase!r}"
    )
  if action.seat != state.seat:
    raise ValueError(f"{place}: seat {action.seat}, but {state.seat} is asked")
  current = state.rounds[-1]
  if isinstance(action, Description):
    if action.item is not None and action.item not in current.theme.items:
      raise ValueError(f"{place}: {action.item!r} is no item of the theme")
    described = (*current.descriptions, action)
    return _with_last(
      state, dataclasses.replace(current, descriptions=described)
    )
  ranks = (*current.ranks, (action.seat, action.rank))
  return _judge(state, dataclasses.replace(current, ranks=ranks))


def _with_last(state: State, current: Round) -> State:
  return dataclasses.replace(state, rounds=(*state.rounds[:-1], current))


def _judge(state: State, current: Round) -> State:
  """Returns the state with a verdict and a new round, once all have ranked."""
  truth = state.instance.ranks
  if len(current.ranks) < len(truth):
    return _with_last(state, current)
  ranks = dict(current.ranks)
  wrong = tuple(s for s, right in enumerate(truth) if ranks[s] != right)
  judged = _with_last(state, dataclasses.replace(current, wrong=wrong))
  if not wrong or len(judged.rounds) == len(state.themes):
    return judged
  asked = wrong if state.feedback else tuple(range(len(truth)))
  kept = tuple((s, ranks[s]) for s in range(len(truth)) if s not in asked)
  following = Round(state.themes[len(judged.rounds)], asked, ranks=kept)
  return dataclasses.replace(judged, rounds=(*judged.rounds, following))


@dataclasses.dataclass(frozen=True)
class View:
  """What the seat whose turn it is may know.

  Attributes:
    instance_id: of the game.
    phase: describe or rank.
    seat: its own, from 0.
    seats: how many there are.
    entity: its own.
    feedback: whether `wrong` of past rounds is shown.
    rounds: all so far; ranks and believed periods are its own only.
  """

  instance_id: str
  phase: str
  seat: int
  seats: int
  entity: str
  feedback: bool
  rounds: tuple[Round, ...]

  @property
  def theme(self) -> Theme:
    """Of the current round."""
    return self.rounds[-1].theme

  def refuted(self) -> set[int | None]:
    """Returns the own ranks that a verdict has called wrong."""
    return {
      past.rank_of(self.seat)
      for past in self.rounds
      if past.wrong is not None and self.seat in past.wrong
    }


def view(state: State) -> View:
  """Returns what the seat whose turn it is may know."""
  seat = state.seat
  return View(
    state.instance.instance_id,
    state.phase,
    seat,
    len(state.instance.seats),
    state.instance.seats[seat].entity,
    state.feedback,
    tuple(_seen(past, seat, state.feedback) for past in state.rounds),
  )


def _seen(past: Round, seat: int, feedback: bool) -> Round:
  """Returns a round without what other seats keep to themselves."""
  return dataclasses.replace(
    past,
    descriptions=tuple(
      d
      if d.seat == seat or d.label is None
      else dataclasses.replace(d, label=None)
      for d in past.descriptions
    ),
    ranks=tuple(pair for pair in past.ranks if pair[0] == seat),
    asked=past.asked if feedback else (),
    wrong=past.wrong if feedback else None,
  )
