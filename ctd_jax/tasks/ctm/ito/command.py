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

from ctd_jax.evaluation import results
from ctd_jax.llm import endpoint_flags, question_runner
from ctd_jax.llm.journal import Journal
from ctd_jax.tasks.ctm import inputs
from ctd_jax.tasks.ctm.ito import agents, game, play, report
from ctd_jax.tasks.ctm.qa import format_command
from ctd_jax.utils import command_line, files, provenance
from ctd_jax_datasets.ctm import repository, theme_table
from ctd_jax_datasets.ctm.game_schema import ItoInstance, Theme

GUESSERS = {
  "random": agents.RandomGuesser,
  "elimination": agents.EliminationGuesser,
  "permutation": agents.PermutationGuesser,
  "joint": agents.JointPermutationGuesser,
}
AGENT_NAMES = (*GUESSERS, "oracle", "knowing", "model")
TRANSCRIPTS_FILE = "games.jsonl"
AgentFactory = Callable[[ItoInstance, int], play.Agent]


def define_flags() -> None:
  """Defines the flags of the command."""
  endpoint_flags.define_endpoint_flags()
  inputs.define_flags()
  flags.DEFINE_enum("agent", None, AGENT_NAMES, "Who sits in all seats.")
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
  flag_values = flags.FLAGS
  folder = pathlib.Path(command_line.WORKDIR.value).expanduser()
  start = time.perf_counter()
  with contextlib.ExitStack() as stack:
    journal = stack.enter_context(Journal(folder / TRANSCRIPTS_FILE))
    if not flag_values.check:
      question_runner.check_settings(journal, _read_settings())
      _play_missing_games(stack, folder, journal)
    keys = [key for key in journal if key != question_runner.SETTINGS_KEY]
    if not keys:
      raise ValueError(f"{folder / TRANSCRIPTS_FILE}: no game to replay")
    finished_games = [play.replay_game(journal[key]) for key in keys]
  if flag_values.check:
    print(f"{len(finished_games)} games replayed with the recorded results")
    return
  _write_results(folder, finished_games, time.perf_counter() - start)


def _read_settings() -> dict[str, object]:
  """Returns what decides the games."""
  flag_values = flags.FLAGS
  names = ["agent", "rounds", "seed", "repairs", "feedback", "data"]
  names += ["accuracy"] * (flag_values.agent == "knowing")
  names += ["model", "temperature", "max_tokens"] * (
    flag_values.agent == "model"
  )
  return {name: getattr(flag_values, name) for name in names}


def _play_missing_games(
  stack: contextlib.ExitStack, folder: pathlib.Path, journal: Journal
) -> None:
  """Plays the games that the journal does not have."""
  flag_values = flags.FLAGS
  themes = theme_table.load_themes()
  make_agent = _make_agent_factory(stack, folder, themes)
  list_aliases = _make_alias_lookup()

  def play_task(task: tuple[str, ItoInstance, int]) -> None:
    key, instance, repeat = task
    game_themes = game.draw_themes(
      themes, key, flag_values.rounds, flag_values.seed
    )
    state = game.start_game(instance, game_themes, flag_values.feedback)
    agent = make_agent(instance, repeat)
    finished_game = play.play_game(
      state,
      [agent] * len(instance.seats),
      flag_values.repairs,
      list_aliases(instance),
    )
    journal.append(key, play.game_to_json(finished_game))

  tasks = [
    (f"{instance.instance_id}/{repeat}", instance, repeat)
    for instance in inputs.load_games()
    for repeat in range(flag_values.repeats)
  ]
  pending_tasks = [task for task in tasks if task[0] not in journal]
  workers = flag_values.workers if flag_values.agent == "model" else 1
  failures = question_runner.run_tasks(pending_tasks, play_task, workers)
  if failures:
    raise ValueError(
      f"{len(failures)} of {len(tasks)} games were not played out ({failures[0]}); "
      "run the same command again to play only these"
    )


def _make_alias_lookup() -> Callable[[ItoInstance], list[str]]:
  """Returns what gives the aliases of a game's entities."""
  aliases = {
    entity.entity_id: entity.aliases for entity in repository.load_entities()
  }
  return lambda instance: [
    alias
    for seat in instance.seats
    for alias in aliases.get(seat.entity_id, ())
    if len(alias) > 1
  ]


def _make_agent_factory(
  stack: contextlib.ExitStack, folder: pathlib.Path, themes: Sequence[Theme]
) -> AgentFactory:
  """Returns what makes the agent of a game; repeats differ in their seed."""
  flag_values = flags.FLAGS
  if flag_values.agent in GUESSERS:
    guesser_class = GUESSERS[flag_values.agent]
    return lambda instance, repeat: guesser_class(
      f"{flag_values.seed}/{repeat}"
    )
  if flag_values.agent == "model":
    if not flag_values.model:
      raise ValueError("--agent=model: name it with --model")
    from ctd_jax.tasks.ctm.ito.model_agent import ModelAgent

    chat = stack.enter_context(
      endpoint_flags.open_client(folder / "replies.jsonl", flag_values.model)
    )
    return lambda instance, repeat: ModelAgent(chat, tuple(themes), repeat)
  accuracy = 1.0 if flag_values.agent == "oracle" else flag_values.accuracy
  return lambda instance, repeat: agents.InformedAgent(
    {seat.entity: seat.period for seat in instance.seats},
    accuracy,
    f"{flag_values.seed}/{repeat}",
  )


def _write_results(
  folder: pathlib.Path,
  finished_games: Sequence[play.FinishedGame],
  seconds: float,
) -> None:
  """Writes rows, report and plot."""
  flag_values = flags.FLAGS
  name = (
    flag_values.model if flag_values.agent == "model" else flag_values.agent
  )
  if flag_values.agent == "knowing":
    name += f"-{flag_values.accuracy:g}"
  states = [finished_game.state for finished_game in finished_games]
  rows = report.make_result_rows(
    states,
    dataset=inputs.format_dataset_name(inputs.ITO_DATASET),
    system=name,
    track="facts" if flag_values.agent == "oracle" else "closed_book",
    score_mode="rules",
    split="test",
    mode="feedback" if flag_values.feedback else "no_feedback",
    command=format_command("ito"),
    commit=provenance.code_commit(),
    seconds=round(seconds, 1),
  )
  results.write_result_rows(folder / "results.json", rows)
  turns = [
    turn for finished_game in finished_games for turn in finished_game.turns
  ]
  notes = {"settings": json.dumps(_read_settings(), ensure_ascii=False)}
  text = report.format_report(name, states, turns, notes)
  files.write_text(folder / "report.md", text + "\n![Pass@K](passes.png)\n")
  report.plot_passes(name, states, folder / "passes.png")
  print(report.format_summary(name, states))
  print(f"written: {folder / 'report.md'}")
