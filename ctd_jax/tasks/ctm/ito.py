"""Runs of the Timeline Ito game: transcripts, report and result rows."""

import contextlib
import json
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

from ctd_jax.evaluation import results
from ctd_jax.tasks import chat_models
from ctd_jax.tasks.chat_client import open_client
from ctd_jax.tasks.chat_models import Journal
from ctd_jax.tasks.ctm import data_sources, ito_game, ito_players, ito_report
from ctd_jax.tasks.ctm.command_settings import MODEL, ItoSettings
from ctd_jax.utils import files
from ctd_jax_datasets.ctm import repository
from ctd_jax_datasets.ctm.schema import ItoInstance, Theme

TRANSCRIPTS_FILE = "games.jsonl"
REPLIES_FILE = "replies.jsonl"
# (instance, number of the repeat) -> agent of all its seats.
AgentFactory = Callable[[ItoInstance, int], ito_players.Agent]


def run_games(settings: ItoSettings) -> None:
  """Plays all games, writes the results and prints a summary.

  Args:
    settings: a run in `settings.workdir` with the same settings is resumed; its
      journaled games are not played again.
  """
  start = time.perf_counter()
  with Journal(settings.workdir / TRANSCRIPTS_FILE) as journal:
    chat_models.check_settings(journal, _make_run_key(settings))
    _play_missing_games(settings, journal)
    finished_games = _replay_all(journal)
  _write_results(settings, finished_games, time.perf_counter() - start)


def check_transcripts(folder: pathlib.Path) -> None:
  """Replays the transcripts of a run and prints their number.

  Raises:
    ValueError: if a round breaks the rules or an outcome differs; the message
      names game and round.
  """
  with Journal(folder / TRANSCRIPTS_FILE) as journal:
    finished_games = _replay_all(journal)
  print(f"{len(finished_games)} games replayed with the recorded results")


def _replay_all(journal: Journal) -> list[ito_players.FinishedGame]:
  keys = [key for key in journal if key != chat_models.SETTINGS_KEY]
  if not keys:
    raise ValueError(f"{journal.path}: no game to replay")
  # Results come from transcripts alone, so that they can be checked later.
  return [ito_players.replay_game(journal[key]) for key in keys]


def _make_run_key(settings: ItoSettings) -> dict[str, object]:
  """Returns everything on which the games depend, as the journal has it."""
  run_key: dict[str, object] = {
    "agent": settings.agent,
    "rounds": settings.rounds,
    "seed": settings.seed,
    "repairs": settings.repairs,
    "feedback": settings.feedback,
    "data": settings.data.file,
  }
  if settings.agent == "knowing":
    run_key["accuracy"] = settings.accuracy
  if settings.agent == MODEL:
    run_key |= {
      "model": settings.endpoint.model,
      "temperature": settings.endpoint.temperature,
      "max_tokens": settings.endpoint.max_tokens,
    }
  return run_key


def _play_missing_games(settings: ItoSettings, journal: Journal) -> None:
  """Plays the games that the journal lacks."""
  themes = repository.load_themes()
  aliases = {
    entity.entity_id: entity.aliases for entity in repository.load_entities()
  }
  tasks = [
    (f"{instance.instance_id}/{repeat}", instance, repeat)
    for instance in data_sources.load_games(settings.data)
    for repeat in range(settings.repeats)
  ]
  pending_tasks = [task for task in tasks if task[0] not in journal]
  with _open_agent_factory(settings, themes) as make_agent:

    def play_task(task: tuple[str, ItoInstance, int]) -> None:
      key, instance, repeat = task
      game_themes = ito_game.draw_themes(
        themes, key, settings.rounds, settings.seed
      )
      finished_game = ito_players.play_game(
        ito_game.start_game(instance, game_themes, settings.feedback),
        [make_agent(instance, repeat)] * len(instance.seats),
        settings.repairs,
        # Names of one character occur in any sentence and would count as leaks.
        [
          alias
          for seat in instance.seats
          for alias in aliases.get(seat.entity_id, ())
          if len(alias) > 1
        ],
      )
      journal.append(key, ito_players.game_to_json(finished_game))

    # Guessers are fast, and one thread keeps the journal in order.
    errors = chat_models.run_tasks(
      pending_tasks,
      play_task,
      settings.workers if settings.agent == MODEL else 1,
    )
  if errors:
    raise ValueError(
      f"{len(errors)} of {len(tasks)} games were not played out ({errors[0]});"
      " run the same command again to play only these"
    )


@contextlib.contextmanager
def _open_agent_factory(
  settings: ItoSettings, themes: Sequence[Theme]
) -> Iterator[AgentFactory]:
  """Yields the factory of agents; repeats of a game differ in their seed."""
  if settings.agent in ito_players.GUESSERS:
    yield lambda instance, repeat: ito_players.Guesser(
      settings.agent, f"{settings.seed}/{repeat}"
    )
  elif settings.agent == MODEL:
    replies_path = settings.workdir / REPLIES_FILE
    with open_client(replies_path, settings.endpoint) as chat:
      yield lambda instance, repeat: ito_players.ModelAgent(
        chat, tuple(themes), repeat
      )
  else:
    accuracy = 1.0 if settings.agent == "oracle" else settings.accuracy
    yield lambda instance, repeat: ito_players.InformedAgent(
      {seat.entity: seat.period for seat in instance.seats},
      accuracy,
      f"{settings.seed}/{repeat}",
    )


def _name_system(settings: ItoSettings) -> str:
  if settings.agent == MODEL:
    return settings.endpoint.model
  if settings.agent == "knowing":
    return f"{settings.agent}-{settings.accuracy:g}"
  return settings.agent


def _write_results(
  settings: ItoSettings,
  finished_games: Sequence[ito_players.FinishedGame],
  seconds: float,
) -> None:
  """Writes rows, report and plot; prints a summary."""
  folder, name = settings.workdir, _name_system(settings)
  states = [finished_game.state for finished_game in finished_games]
  rows = ito_report.make_result_rows(
    states,
    dataset=data_sources.format_dataset_name(
      data_sources.ITO_DATASET, settings.data
    ),
    system=name,
    track="facts" if settings.agent == "oracle" else "closed_book",
    score_mode="rules",
    split="test",
    mode="feedback" if settings.feedback else "no_feedback",
    command=settings.command,
    commit=files.code_commit(),
    seconds=round(seconds, 1),
  )
  results.write_result_rows(folder / "results.json", rows)
  turns = [turn for game in finished_games for turn in game.turns]
  text = ito_report.format_report(
    name,
    states,
    turns,
    {"settings": json.dumps(_make_run_key(settings), ensure_ascii=False)},
  )
  files.write_text(folder / "report.md", text + "\n![Pass@K](passes.png)\n")
  ito_report.plot_passes(name, states, folder / "passes.png")
  print(ito_report.format_summary(name, states))
  print(f"written: {folder / 'report.md'}")
