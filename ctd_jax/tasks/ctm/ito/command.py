"""The command `ito`: plays all games, keeps transcripts, reports.

  python -m ctd_jax.tasks.ctm ito --agent=oracle --workdir=runs/ito-oracle

The folder holds games.jsonl, the journal of the transcripts (a game that is in
it is not played again), results.json, report.md and passes.png. With `--check`
the transcripts are replayed and nothing is played.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import time
from collections.abc import Callable, Sequence

from absl import flags

from ctd_jax import evaluate
from ctd_jax.evaluation import results
from ctd_jax.llm import endpoint_flags, question_runner
from ctd_jax.llm.journal import Journal
from ctd_jax.tasks.ctm import inputs
from ctd_jax.tasks.ctm.ito import agents, game, play, report
from ctd_jax.tasks.ctm.qa import command
from ctd_jax.utils import command_line, files
from ctd_jax_datasets.ctm import repository
from ctd_jax_datasets.ctm.questions import ItoInstance, Theme

GUESSERS = {
  "random": agents.Random,
  "elimination": agents.Elimination,
  "permutation": agents.Permutation,
  "joint": agents.JointPermutation,
}
AGENTS = (*GUESSERS, "oracle", "knowing", "model")
GAMES = "games.jsonl"
Seat = Callable[[ItoInstance, int], play.Agent]


def define_flags() -> None:
  """Defines the flags of the command."""
  endpoint_flags.define()
  inputs.define_flags()
  flags.DEFINE_enum("agent", None, AGENTS, "Who sits in all seats.")
  flags.DEFINE_float(
    "accuracy",
    0.7,
    "Chance of --agent=knowing to know the period of an entity.",
    lower_bound=0,
    upper_bound=1,
  )
  flags.DEFINE_integer("rounds", 8, "Of a game at most.", lower_bound=1)
  flags.DEFINE_integer("repeats", 1, "Games of an instance.", lower_bound=1)
  flags.DEFINE_integer("seed", 0, "Of themes and chances.")
  flags.DEFINE_integer("repairs", 2, "Of one reply.", lower_bound=0)
  flags.DEFINE_bool("feedback", True, "Whether wrong seats are published.")
  flags.DEFINE_bool("check", False, "Only replay the transcripts.")


def main() -> None:
  """Runs the command."""
  values = flags.FLAGS
  folder = pathlib.Path(command_line.WORKDIR.value).expanduser()
  start = time.perf_counter()
  with contextlib.ExitStack() as stack:
    journal = stack.enter_context(Journal(folder / GAMES))
    if not values.check:
      question_runner.check_settings(journal, _settings())
      _play_all(stack, folder, journal)
    keys = [key for key in journal if key != question_runner.SETTINGS]
    if not keys:
      raise ValueError(f"{folder / GAMES}: no game to replay")
    played = [play.replay(journal[key]) for key in keys]
  if values.check:
    print(f"{len(played)} games replayed with the recorded results")
    return
  _write(folder, played, time.perf_counter() - start)


def _settings() -> dict[str, object]:
  """Returns what decides the games."""
  values = flags.FLAGS
  names = ["agent", "rounds", "seed", "repairs", "feedback", "data"]
  names += ["accuracy"] * (values.agent == "knowing")
  names += ["model", "temperature", "max_tokens"] * (values.agent == "model")
  return {name: getattr(values, name) for name in names}


def _play_all(
  stack: contextlib.ExitStack, folder: pathlib.Path, journal: Journal
) -> None:
  """Plays the games that the journal does not have."""
  values = flags.FLAGS
  themes = repository.themes()
  seated = _seats(stack, folder, themes)
  names = _names()

  def play_one(task: tuple[str, ItoInstance, int]) -> None:
    key, instance, repeat = task
    drawn = game.draw_themes(themes, key, values.rounds, values.seed)
    state = game.start(instance, drawn, values.feedback)
    agent = seated(instance, repeat)
    played = play.play(
      state, [agent] * len(instance.seats), values.repairs, names(instance)
    )
    journal.append(key, play.to_json(played))

  tasks = [
    (f"{instance.instance_id}/{repeat}", instance, repeat)
    for instance in inputs.games()
    for repeat in range(values.repeats)
  ]
  missing = [task for task in tasks if task[0] not in journal]
  workers = values.workers if values.agent == "model" else 1
  failed = question_runner.run_all(missing, play_one, workers)
  if failed:
    raise ValueError(
      f"{len(failed)} of {len(tasks)} games were not played out ({failed[0]}); "
      "run the same command again to play only these"
    )


def _names() -> Callable[[ItoInstance], list[str]]:
  """Returns what gives the aliases of a game's entities."""
  aliases = {e.entity_id: e.aliases for e in repository.entities()}
  return lambda instance: [
    alias
    for seat in instance.seats
    for alias in aliases.get(seat.entity_id, ())
    if len(alias) > 1
  ]


def _seats(
  stack: contextlib.ExitStack, folder: pathlib.Path, themes: Sequence[Theme]
) -> Seat:
  """Returns what makes the agent of a game; repeats differ in their seed."""
  values = flags.FLAGS
  if values.agent in GUESSERS:
    made = GUESSERS[values.agent]
    return lambda instance, repeat: made(f"{values.seed}/{repeat}")
  if values.agent == "model":
    if not values.model:
      raise ValueError("--agent=model: name it with --model")
    from ctd_jax.tasks.ctm.ito.model_agent import ModelAgent

    chat = stack.enter_context(
      endpoint_flags.client(folder / "replies.jsonl", values.model)
    )
    return lambda instance, repeat: ModelAgent(chat, tuple(themes), repeat)
  accuracy = 1.0 if values.agent == "oracle" else values.accuracy
  return lambda instance, repeat: agents.Knowing(
    {seat.entity: seat.period for seat in instance.seats},
    accuracy,
    f"{values.seed}/{repeat}",
  )


def _write(
  folder: pathlib.Path, played: Sequence[play.Game], seconds: float
) -> None:
  """Writes rows, report and plot."""
  values = flags.FLAGS
  name = values.model if values.agent == "model" else values.agent
  if values.agent == "knowing":
    name += f"-{values.accuracy:g}"
  states = [one.state for one in played]
  rows = report.rows(
    states,
    dataset=inputs.name(inputs.ITO),
    system=name,
    track="facts" if values.agent == "oracle" else "closed_book",
    score_mode="rules",
    split="test",
    mode="feedback" if values.feedback else "no_feedback",
    command=command("ito"),
    commit=evaluate.commit(),
    seconds=round(seconds, 1),
  )
  results.write_rows(folder / "results.json", rows)
  turns = [turn for one in played for turn in one.turns]
  notes = {"settings": json.dumps(_settings(), ensure_ascii=False)}
  text = report.text(name, states, turns, notes)
  files.write_text(folder / "report.md", text + "\n![Pass@K](passes.png)\n")
  report.plot_passes(name, states, folder / "passes.png")
  print(report.summary(name, states))
  print(f"written: {folder / 'report.md'}")
