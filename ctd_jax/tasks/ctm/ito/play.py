"""Plays games: asks the seats, lets replies be repaired, keeps a transcript.

Why: a transcript must hold everything that was said and must replay to the
same result. Called by `python -m ctd_jax.tasks.ctm ito` and by the benchmarks.

A reply that does not count is asked for again, with what was wrong, `repairs`
times. After that a leaking reason is struck out and the item stays; without a
valid item the seat describes nothing; without a valid rank it has none and is
wrong. All of it is counted.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from ctd_jax.tasks.ctm import replies
from ctd_jax.tasks.ctm.ito import game, schema
from ctd_jax_datasets.ctm import questions


class Agent(Protocol):
  """Whoever takes a seat."""

  def reply(self, view: game.View, complaints: Sequence[str]) -> str:
    """Returns the JSON that the phase asks for.

    Args:
      view: what the seat may know.
      complaints: what was wrong with the earlier replies of this turn.
    """


@dataclasses.dataclass(frozen=True)
class Game:
  """A game that is over.

  Attributes:
    state: the last one.
    turns: for each action {"replies": texts, "complaints": what was wrong with
      them, "leaked": whether a reason was struck out}.
  """

  state: game.State
  turns: tuple[dict[str, Any], ...]


def play(
  state: game.State,
  agents: Sequence[Agent],
  repairs: int = 2,
  names: Collection[str] = (),
) -> Game:
  """Returns the game after all rounds, or after it was won.

  Args:
    state: see `game.start`.
    agents: one for each seat; the same object may take several.
    repairs: how often a reply may be asked for again.
    names: that must not be said, besides those of the game's entities.
  """
  seats = state.instance.seats
  forbidden = {*(seat.entity for seat in seats), *names}
  turns = []
  while state.phase in (game.DESCRIBE, game.RANK):
    action, turn = _turn(state, agents[state.seat], repairs, forbidden)
    state = game.step(state, action)
    turns.append(turn)
  return Game(state, tuple(turns))


def _turn(
  state: game.State, agent: Agent, repairs: int, names: Collection[str]
) -> tuple[game.Description | game.Ranking, dict[str, Any]]:
  """Returns the action of one seat and the record of how it came about."""
  view = game.view(state)
  turn: dict[str, Any] = {"replies": [], "complaints": [], "leaked": False}
  leak = None
  for _ in range(repairs + 1):
    text = agent.reply(view, tuple(turn["complaints"]))
    turn["replies"].append(text)
    try:
      return schema.read(text, view, names), turn
    except schema.ReplyError as error:
      turn["complaints"].append(str(error))
      leak = text if isinstance(error, schema.LeakError) else leak
  if view.phase == game.RANK:
    return game.Ranking(view.seat, None), turn
  if leak is None:
    return game.Description(view.seat, None), turn
  turn["leaked"] = True
  return _without_reason(leak, view), turn


def _without_reason(text: str, view: game.View) -> game.Description:
  """Returns a leaking description with its reason struck out."""
  fields = {**replies.json_object(text), schema.REASON: "xxx"}
  masked = json.dumps(fields, ensure_ascii=False)
  return schema.read_description(masked, view, ())


def to_json(played: Game) -> dict[str, Any]:
  """Returns the transcript of a game."""
  actions = [dataclasses.asdict(action) for action in _actions(played.state)]
  return {
    "instance": questions.to_json(played.state.instance),
    "themes": [questions.to_json(theme) for theme in played.state.themes],
    "feedback": played.state.feedback,
    "turns": [
      {**turn, "action": action}
      for turn, action in zip(played.turns, actions, strict=True)
    ],
    "wrong": [list(past.wrong or ()) for past in played.state.rounds],
    "won_in": played.state.won_in,
  }


def _actions(
  state: game.State,
) -> list[game.Description | game.Ranking]:
  """Returns all actions of a game in their order."""
  return [
    action
    for past in state.rounds
    for action in (
      *past.descriptions,
      *(game.Ranking(*pair) for pair in past.ranks if pair[0] in past.asked),
    )
  ]


def replay(transcript: Mapping[str, Any]) -> Game:
  """Returns the game of a transcript, played again by the rules.

  Raises:
    ValueError: naming the game and round, if an action breaks the rules or
      the outcome is not the recorded one.
  """
  instance = questions.instance_from_json(transcript["instance"])
  themes = [questions.theme_from_json(t) for t in transcript["themes"]]
  state = game.start(instance, themes, transcript["feedback"])
  turns = []
  for turn in transcript["turns"]:
    fields = turn["action"]
    made = game.Ranking if "rank" in fields else game.Description
    state = game.step(state, made(**fields))
    turns.append({key: turn[key] for key in turn if key != "action"})
  played = Game(state, tuple(turns))
  again = to_json(played)
  for key in ("wrong", "won_in"):
    if again[key] != transcript[key]:
      raise ValueError(
        f"game {instance.instance_id}: {key} is {transcript[key]} in the "
        f"transcript, {again[key]} when replayed"
      )
  return played
