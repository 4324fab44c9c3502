"""The Timeline Ito game: games without a model, transcripts, results."""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ctd_jax.evaluation import results
from ctd_jax.tasks.ctm import ito_game, ito_players, ito_report
from ctd_jax.tasks.ctm.ito_players import Agent, FinishedGame
from ctd_jax.utils import files
from ctd_jax_datasets.ctm import repository
from ctd_jax_datasets.ctm.schema import ItoInstance

if TYPE_CHECKING:
  from inspect_ai.log import EvalLog

TRANSCRIPTS_FILE = "games.jsonl"


def make_agent(
  name: str, accuracy: float, seed: str, instance: ItoInstance
) -> Agent:
  """Returns an agent without a model, for all seats of a game.

  Args:
    accuracy: probability that the agent `knowing` knows a period.
  """
  if name in ito_players.GUESSERS:
    return ito_players.Guesser(name, seed)
  return ito_players.InformedAgent(
    {seat.entity: seat.period for seat in instance.seats},
    1.0 if name == "oracle" else accuracy,
    seed,
  )


async def play_instance(
  instance: ItoInstance,
  agent: Agent,
  repeat: int,
  rounds: int,
  seed: int,
  repairs: int,
  feedback: bool,
) -> FinishedGame:
  """Returns a played game.

  Args:
    agent: player of all seats.
    repeat: number of the game with this instance; each has its own themes.
  """
  themes = ito_game.draw_themes(
    repository.load_themes(), f"{instance.instance_id}/{repeat}", rounds, seed
  )
  aliases = {e.entity_id: e.aliases for e in repository.load_entities()}
  return await ito_players.play_game(
    ito_game.start_game(instance, themes, feedback),
    [agent] * len(instance.seats),
    repairs,
    # Names of one character occur in any sentence and would count as leaks.
    [
      alias
      for seat in instance.seats
      for alias in aliases.get(seat.entity_id, ())
      if len(alias) > 1
    ],
  )


def play_without_model(
  games: Sequence[ItoInstance],
  make_player: Callable[[ItoInstance, int], Agent],
  repeats: int,
  **rules: Any,
) -> list[FinishedGame]:
  """Returns all games; `rules` are those of `play_instance`."""
  return [
    asyncio.run(play_instance(instance, make_player(instance, n), n, **rules))
    for instance in games
    for n in range(repeats)
  ]


def read_log(log: EvalLog) -> list[FinishedGame]:
  """Returns the games of a log, replayed by the rules."""
  return [
    ito_players.replay_game(sample.scores["won"].metadata["transcript"])
    for sample in log.samples or []
    if sample.scores
  ]


def write_report(
  folder: pathlib.Path,
  games: Collection[FinishedGame],
  notes: Mapping[str, object],
  **row_fields: Any,
) -> None:
  """Writes transcripts, rows and report; prints a summary."""
  if not games:
    raise ValueError("no game was played out")
  lines = (
    json.dumps(ito_players.game_to_json(game), ensure_ascii=False)
    for game in games
  )
  files.write_text(
    folder / TRANSCRIPTS_FILE, "".join(f"{line}\n" for line in lines)
  )
  states = [game.state for game in games]
  results.write_result_rows(
    folder / "results.json", ito_report.make_result_rows(states, **row_fields)
  )
  name = row_fields["system"]
  turns = [turn for game in games for turn in game.turns]
  text = ito_report.format_report(name, states, turns, notes)
  files.write_text(folder / "report.md", text)
  print(text)
  print(f"written: {folder / 'report.md'}")
