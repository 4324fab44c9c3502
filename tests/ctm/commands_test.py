"""The commands without a model: baselines, games, verdicts, errors, help."""

import json
import sys

import pytest

from ctd_jax.evaluation import results
from ctd_jax.tasks.ctm import (
  __main__,
  data_sources,
  grading,
  ito_players,
  ito_report,
  qa,
)
from ctd_jax_datasets.ctm import periods, repository, schema
from tests.ctm.judge_test import GOLDEN, QUESTIONS
from tests.tools import processes

DATA = GOLDEN / "ctm_judge_questions.jsonl"
ASKED = list(QUESTIONS.values())


def command(*flags):
  return processes.run_python("-m", "ctd_jax.tasks.ctm", *flags)


def test_errors_take_one_line(tmp_path, monkeypatch):
  flags = ("qa", "--system=model", f"--workdir={tmp_path}", f"--data={DATA}")
  done = command(*flags)
  assert done.stderr == "error: a chat model answers: name it with --model\n"
  assert done.returncode
  monkeypatch.setattr(sys, "argv", ["ctm", "game"])
  with pytest.raises(SystemExit, match="'game' is not one of qa, ito, judge"):
    __main__.main()
  path = tmp_path / "answers.tsv"
  header = "\t".join(grading.COLUMNS)
  path.write_text(f"{header}\nedd-a\t1\tdirect\tright\tyes\t唐\n")
  with pytest.raises(
    ValueError, match=r"tsv, line 2: column correct: 'yes' should be"
  ):
    grading.read_answers(path, ASKED)
  path.write_text("{}\n", encoding="utf-8")
  with pytest.raises(ValueError, match="line 1: Question: .* `question_id`"):
    data_sources.read_json_lines(str(path), schema.question_from_json)
  with pytest.raises(ValueError, match="no question of split train, task LSEC"):
    data_sources.load_questions(str(DATA), None, "train", ["LSEC"])


@pytest.mark.slow
def test_help_is_fast_and_names_what_the_data_set_has():
  assert __main__.TASKS == periods.TASKS
  assert (*periods.SPLITS, "all") == __main__.SPLITS
  assert __main__.ARMS == qa.ARMS
  assert __main__.DATASETS == data_sources.DATASETS
  assert tuple(ito_players.GUESSERS) == __main__.GUESSERS
  for arguments in ((), ("qa",), ("ito",), ("judge",), ("report",)):
    done = command(*arguments, "--help")
    assert done.returncode == 0, done.stderr
  loaded = processes.list_loaded_modules("import ctd_jax.tasks.ctm.__main__")
  assert not loaded & {"jax", "matplotlib", "numpy", "tensorflow_datasets"}
  assert "inspect_ai" not in loaded


def test_contexts():
  question = QUESTIONS["tic-a"]
  needed = qa.list_facts(question)
  assert needed == (
    "屈原生于约公元前340年，卒于约公元前278年",
    "李白生于公元701年，卒于公元762年",
  )
  facts = sorted({fact for q in ASKED for fact in qa.list_facts(q)})
  mixed = qa.add_distractors(facts, question)
  assert len(mixed) == 4
  assert set(needed) < set(mixed)
  book = qa.make_open_book(["玉米产自美洲。", "李白生于碎叶。", "屈原投江。"])
  assert book(QUESTIONS["edd-a"])[0] == "李白生于碎叶。"


@pytest.mark.slow
def test_commands_without_a_model(tmp_path):
  files = [f"--data={DATA}", f"--workdir={tmp_path}"]
  files += ["--split=test", "--limit=9"]
  train = tmp_path / "train.jsonl"
  lines = [DATA.read_text(encoding="utf-8").replace('"validation"', '"train"')]
  train.write_text("".join(lines), encoding="utf-8")
  files[0] = f"--data={train}"
  done = command("qa", "--system=oracle", *files)
  assert "oracle: 9 questions" in done.stdout, done.stderr
  (row,) = [
    row
    for row in results.read_result_rows(tmp_path / "results.json")
    if (row.family, row.metric) == ("all", "accuracy")
  ]
  assert (row.system, row.track, row.mode) == ("oracle", "facts", "direct")
  assert {path.name for path in tmp_path.glob("*.png")} == {"by_distance.png"}
  done = command("judge", f"--data={DATA}", f"--answers={ANSWERS}")
  assert "| all | " in done.stdout, done.stderr


ANSWERS = GOLDEN / "ctm_judge_answers.tsv"


@pytest.mark.slow
def test_games_are_played_and_replayed(tmp_path):
  entities = [e for e in repository.load_entities() if e.intervals]
  first_of = {e.periods[0]: e for e in reversed(entities)}
  seats = tuple(
    repository.make_relation(first_of[label]) for label in ("汉", "唐", "清")
  )
  games = [
    schema.ItoInstance(f"g{n}", "easy", seats, (1, 2, 3)) for n in range(5)
  ]
  data = tmp_path / "games.jsonl"
  data.write_text(
    "\n".join(map(schema.format_json_line, games)), encoding="utf-8"
  )
  flags = ("ito", "--agent=elimination", f"--data={data}", "--repeats=2")
  flags += ("--limit=4",)
  done = command(*flags, f"--workdir={tmp_path / 'run'}")
  assert "easy, n=8" in done.stdout, done.stderr
  lines = (tmp_path / "run" / "games.jsonl").read_text(encoding="utf-8")
  records = [json.loads(line) for line in lines.splitlines()]
  played = [ito_players.replay_game(record) for record in records]
  again = [ito_players.game_to_json(game) for game in played]
  assert json.loads(json.dumps(again)) == records
  won = ito_report.pass_at_k([game.state for game in played], 8)
  assert str(won) in done.stdout
