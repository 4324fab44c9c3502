"""Play of a game: turns, repairs of replies, and the transcript.

A transcript holds everything that was said and replays to the same result. An
invalid reply is asked for again, with the complaint, up to `repairs` times.
After that a leaking reason is masked and the item counts; without a valid item
the seat describes nothing; without a valid rank it is wrong. All of it is
counted.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from ctd_jax.tasks.ctm import replies
from ctd_jax.tasks.ctm.ito import game, schema, views
from ctd_jax_datasets.ctm import json_records


class Agent(Protocol):
  """Player of a seat."""

  def reply(self, view: views.View, complaints: Sequence[str]) -> str:
    """Returns the JSON of the phase, see `schema`.

    Args:
      view: knowledge of the seat.
      complaints: problems of the earlier replies of this turn.
    """


@dataclasses.dataclass(frozen=True)
class FinishedGame:
  """Game that is over.

  Attributes:
    state: the last state.
    turns: for each action {"replies": texts, "complaints": their problems,
      "leaked": whether a reason was masked}.
  """

  state: game.State
  turns: tuple[dict[str, Any], ...]


def play_game(
  state: game.State,
  agents: Sequence[Agent],
  repairs: int = 2,
  extra_names: Collection[str] = (),
) -> FinishedGame:
  """Returns the game after the last round, or after it was won.

  Args:
    state: from `game.start_game`.
    agents: one for each seat; the same object may take several.
    repairs: how often one reply may be asked for again.
    extra_names: names that reasons must not contain, besides the entities.
  """
  seats = state.instance.seats
  # A hint must not name the own entity, nor that of another seat.
  forbidden_names = {*(seat.entity for seat in seats), *extra_names}
  turns = []
  while state.phase in (game.DESCRIBE, game.RANK):
    action, turn = _play_turn(
      state, agents[state.next_seat], repairs, forbidden_names
    )
    state = game.apply_action(state, action)
    turns.append(turn)
  return FinishedGame(state, tuple(turns))


def _play_turn(
  state: game.State,
  agent: Agent,
  repairs: int,
  forbidden_names: Collection[str],
) -> tuple[game.Description | game.Ranking, dict[str, Any]]:
  """Returns the action of the next seat and the record of its turn."""
  view = views.make_view(state)
  turn: dict[str, Any] = {"replies": [], "complaints": [], "leaked": False}
  leaking_reply = None  # the last one; its item is valid
  for _ in range(repairs + 1):
    text = agent.reply(view, tuple(turn["complaints"]))
    turn["replies"].append(text)
    try:
      return schema.read_reply(text, view, forbidden_names), turn
    except schema.ReplyError as error:
      turn["complaints"].append(str(error))
      leaking_reply = (
        text if isinstance(error, schema.LeakError) else leaking_reply
      )
  # The budget of repairs is spent.
  if view.phase == game.RANK:
    return game.Ranking(view.seat, None), turn
  if leaking_reply is None:
    return game.Description(view.seat, None), turn
  turn["leaked"] = True
  return _mask_reason(leaking_reply, view), turn


def _mask_reason(text: str, view: views.View) -> game.Description:
  """Returns a leaking description with its reason masked."""
  fields = {**replies.parse_json_object(text), schema.REASON: "xxx"}
  masked = json.dumps(fields, ensure_ascii=False)
  return schema.read_description(masked, view, ())


def game_to_json(finished_game: FinishedGame) -> dict[str, Any]:
  """Returns the transcript of a game."""
  actions = [
    dataclasses.asdict(action) for action in _list_actions(finished_game.state)
  ]
  return {
    "instance": json_records.to_json(finished_game.state.instance),
    "themes": [
      json_records.to_json(theme) for theme in finished_game.state.themes
    ],
    "feedback": finished_game.state.feedback,
    "turns": [
      {**turn, "action": action}
      for turn, action in zip(finished_game.turns, actions, strict=True)
    ],
    "wrong": [
      list(past_round.wrong_seats or ())
      for past_round in finished_game.state.rounds
    ],
    "won_in": finished_game.state.won_in,
  }


def _list_actions(
  state: game.State,
) -> list[game.Description | game.Ranking]:
  """Returns all actions of a game in their order."""
  return [
    action
    for past_round in state.rounds
    for action in (
      *past_round.descriptions,
      *(
        game.Ranking(*seat_rank)
        # Kept ranks of earlier rounds are no actions.
        for seat_rank in past_round.ranks
        if seat_rank[0] in past_round.ranking_seats
      ),
    )
  ]


def replay_game(transcript: Mapping[str, Any]) -> FinishedGame:
  """Returns the game of a transcript, replayed by the rules.

  Args:
    transcript: from `game_to_json`.

  Raises:
    ValueError: naming the game and round of an action against the rules, or
      the outcome that differs from the record.
  """
  instance = json_records.instance_from_json(transcript["instance"])
  themes = [
    json_records.theme_from_json(theme) for theme in transcript["themes"]
  ]
  state = game.start_game(instance, themes, transcript["feedback"])
  turns = []
  for turn in transcript["turns"]:
    fields = turn["action"]
    action_class = game.Ranking if "rank" in fields else game.Description
    state = game.apply_action(state, action_class(**fields))
    # The action is in the state.
    turns.append({key: turn[key] for key in turn if key != "action"})
  finished_game = FinishedGame(state, tuple(turns))
  replayed_transcript = game_to_json(finished_game)
  for key in ("wrong", "won_in"):
    if replayed_transcript[key] != transcript[key]:
      raise ValueError(
        f"game {instance.instance_id}: {key} is {transcript[key]} in the "
        f"transcript, {replayed_transcript[key]} when replayed"
      )
  return finished_game
