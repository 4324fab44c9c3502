"""Timeline Ito: rules as a state machine, views of a seat, and its replies.

Every seat holds one entity; all belong to different periods. In a round every
seat in turn describes its period by an item of the round's theme (item k of ten
stands for period k), then states its own rank in time, unseen by the others. If
all ranks are right the game is won. Otherwise the wrong seats are published,
and only they rank again in the next round, which has another theme; the other
seats keep their rank. `apply_action` is the only way from one state to the
next, so a transcript can be replayed.

A view has no rank and no believed period of another seat; with feedback off it
has no verdict either. A hint with the entity, a dynasty or a year would end the
game: such a reply raises an error whose message is the complaint that the seat
gets.

Two points are open in the paper: here seats rank simultaneously, and several
may choose the same item.

Source: CTM paper, section on the Timeline Ito game and its worked example. Of
the keys 时期, the believed period, is ours and never published.
"""

import dataclasses
import random
import re
from collections.abc import Iterable, Sequence

from ctd_jax.tasks.ctm.replies import parse_json_object, to_simplified
from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.schema import ItoInstance, Theme

DESCRIBE, RANK, WON, LOST = PHASES = ("describe", "rank", "won", "lost")


@dataclasses.dataclass(frozen=True)
class Description:
  """Description of its period by a seat."""

  seat: int  # number from 0
  item: str | None  # item of the theme; None if the seat gave no valid one
  reason: str = ""  # reason, published with the item
  # Believed period, never published; None if not stated.
  label: str | None = None


@dataclasses.dataclass(frozen=True)
class Ranking:
  """Rank that a seat claims; None if it gave no valid one."""

  seat: int
  rank: int | None


@dataclasses.dataclass(frozen=True)
class Round:
  """Round of a game, complete or not."""

  theme: Theme  # theme of the round
  # Seats that rank in this round; the others keep their rank.
  ranking_seats: tuple[int, ...]
  descriptions: tuple[Description, ...] = ()  # in order of seats
  # (seat, rank) so far, kept ones included.
  ranks: tuple[tuple[int, int | None], ...] = ()
  # Seats with a wrong rank; None until all have ranked.
  wrong_seats: tuple[int, ...] | None = None

  def rank_of(self, seat: int) -> int | None:
    """Returns the rank of a seat in this round, None without one."""
    return dict(self.ranks).get(seat)


@dataclasses.dataclass(frozen=True)
class State:
  """State of a game between two actions."""

  instance: ItoInstance  # entities and true ranks
  # One for each round, in order; the last round has the last theme.
  themes: tuple[Theme, ...]
  # Whether wrong seats are published and right ranks kept.
  feedback: bool = True
  # Rounds begun so far; the last is the current one.
  rounds: tuple[Round, ...] = ()

  @property
  def phase(self) -> str:
    """One of `PHASES`."""
    current_round = self.rounds[-1]
    if current_round.wrong_seats is not None:
      return LOST if current_round.wrong_seats else WON
    return (
      DESCRIBE
      if len(current_round.descriptions) < len(self.instance.seats)
      else RANK
    )

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

  Raises:
    ValueError: if a game or theme breaks the rules; the message names it.
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
  first_round = Round(themes[0], tuple(range(len(instance.seats))))
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
      raise ValueError(
        f"{context}: {action.item!r} is not an item of the theme"
      )
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


@dataclasses.dataclass(frozen=True)
class View:
  """Knowledge of the next seat."""

  instance_id: str  # id of the game
  phase: str
  seat: int  # number of the seat, from 0
  num_seats: int  # number of all seats
  entity: str  # entity of the seat
  feedback: bool  # whether `wrong_seats` of past rounds is published
  # All so far; of ranks and believed periods only those of the seat.
  rounds: tuple[Round, ...]

  @property
  def theme(self) -> Theme:
    """The theme of the current round."""
    return self.rounds[-1].theme

  def refuted_ranks(self) -> set[int | None]:
    """Returns the ranks of the seat that a verdict has called wrong."""
    return {
      past_round.rank_of(self.seat)
      for past_round in self.rounds
      if past_round.wrong_seats is not None
      and self.seat in past_round.wrong_seats
    }


def make_view(state: State) -> View:
  """Returns the view of the next seat."""
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
  """Returns a round without the secrets of other seats."""
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
    # Who ranks again tells who was wrong.
    ranking_seats=past_round.ranking_seats if feedback else (),
    wrong_seats=past_round.wrong_seats if feedback else None,
  )


ANALYSIS_KEY, REASON_KEY, ITEM_KEY, RANK_KEY, LABEL_KEY = (
  "分析",
  "理由",
  "主题实体",
  "我的排序",
  "时期",
)
# Years and centuries, in either script and any numerals.
_YEAR_PATTERN = re.compile(
  r"公元前?|西元前?|世[纪紀]|[0-9０-９]{2,}|[〇零一二三四五六七八九十百千]{2,}年"
)


class ReplyError(ValueError):
  """Invalid reply; the message says what would be valid."""


class LeakError(ReplyError):
  """Description whose reason gives away what the others must guess."""


def _parse_fields(text: str) -> dict:
  try:
    return parse_json_object(text)
  except ValueError as error:
    raise ReplyError(str(error)) from None


def find_leaks(reason: str, names: Iterable[str]) -> list[str]:
  """Returns the leaks in a reason: names, dynasty words, years.

  Args:
    names: names and aliases of all entities of the game.
  """
  text = to_simplified(reason)
  leaked_texts = [name for name in names if to_simplified(name) in text]
  leaked_texts += [
    mention.text for mention in periods.find_period_mentions(text)
  ]
  return leaked_texts + _YEAR_PATTERN.findall(text)


def read_description(
  text: str, view: View, names: Iterable[str]
) -> Description:
  """Returns the description in a reply.

  Raises:
    ReplyError: if the form is invalid.
    LeakError: if only the reason leaks.
  """
  fields = _parse_fields(text)
  item, reason = fields.get(ITEM_KEY), fields.get(REASON_KEY)
  by_spelling = {
    to_simplified(theme_item): theme_item for theme_item in view.theme.items
  }
  if not isinstance(item, str) or to_simplified(item) not in by_spelling:
    raise ReplyError(
      f"{ITEM_KEY} is {item!r}, should be one of {'、'.join(view.theme.items)}"
    )
  if not isinstance(reason, str) or not reason.strip():
    raise ReplyError(f"{REASON_KEY} is {reason!r}, should be a sentence")
  if leaked_texts := find_leaks(reason, names):
    raise LeakError(
      f"{REASON_KEY} names {'、'.join(dict.fromkeys(leaked_texts))}; it must "
      "name no entity, dynasty or year"
    )
  labels = periods.find_period_labels(str(fields.get(LABEL_KEY, "")))
  believed_label = labels[0] if len(labels) == 1 else None
  return Description(
    view.seat, by_spelling[to_simplified(item)], reason.strip(), believed_label
  )


def read_ranking(text: str, view: View) -> Ranking:
  """Returns the rank in a reply.

  Raises:
    ReplyError: if it is not an integer from 1 to the number of seats.
  """
  rank = _parse_fields(text).get(RANK_KEY)
  if isinstance(rank, str) and rank.strip().isdecimal():
    rank = int(rank)
  # Not isinstance: true in JSON is a bool, which is an int.
  if type(rank) is not int or not 1 <= rank <= view.num_seats:
    raise ReplyError(
      f"{RANK_KEY} is {rank!r}, should be a whole number from 1 to "
      f"{view.num_seats}"
    )
  return Ranking(view.seat, rank)


def read_reply(
  text: str, view: View, names: Iterable[str]
) -> Description | Ranking:
  """Returns the description or rank in a reply, by the phase."""
  if view.phase == DESCRIBE:
    return read_description(text, view, names)
  return read_ranking(text, view)
