"""The commands end to end: a model behind a bad server, kill and resume."""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from ctd_jax.tasks import chat_client, chat_models
from ctd_jax.tasks.chat_models import Endpoint, Journal, NoReplyError
from ctd_jax.tasks.ctm import (
  __main__,
  command_settings,
  data_sources,
  grading,
  ito,
  ito_game,
  ito_players,
  judge,
  qa,
)
from ctd_jax_datasets.ctm import periods, repository, schema
from tests.ctm.ito_files import BOOK, FRUIT, instance
from tests.ctm.judge_test import GOLDEN, QUESTIONS
from tests.tasks.chat_server import FAULTS, serving
from tests.tools import processes

DATA = GOLDEN / "ctm_judge_questions.jsonl"
ASKED = list(QUESTIONS.values())
TEST = [question for question in ASKED if question.split == "test"]
BY_TEXT = {question.question: question for question in ASKED}


def endpoint(server, **fields):
  about = {"base_url": server.url, "api_key": "k", "backoff": 0.01}
  return Endpoint("m", **about | fields)


@contextlib.contextmanager
def asking(server, folder, **fields):
  """Gives a client of the server and a journal of answers."""
  with (
    Journal(folder / "replies.jsonl") as replies,
    Journal(folder / "answers.jsonl") as journal,
  ):
    yield chat_client.ChatClient(endpoint(server, **fields), replies), journal


def question_of(text):
  return BY_TEXT[text.split("问题：")[1]]


def right(messages):
  """Answers every question with its reference."""
  return question_of(messages[-1]["content"]).answer


def bad(text, attempt):
  """Every question meets some fault the first time."""
  place = ASKED.index(question_of(text))
  return FAULTS[place % len(FAULTS)] if attempt == 1 else ""


@pytest.mark.slow
def test_all_questions_through_a_bad_server(tmp_path):
  with (
    serving(right, bad) as server,
    asking(server, tmp_path, timeout=0.8) as (chat, journal),
  ):
    answer = functools.partial(
      qa.answer_with_model, chat, "direct", qa.list_facts
    )
    found = chat_models.ask_questions(ASKED, answer, journal, num_workers=8)
    assert found == {q.question_id: q.answer for q in ASKED}
    assert chat.totals()["replies"] == len(ASKED) == len(server.answered)
  assert all(judge.judge_answer(q, found[q.question_id]).correct for q in ASKED)


@pytest.mark.slow
def test_questions_without_a_reply_are_asked_again(tmp_path):
  down = [True]
  lost = ASKED[3].question

  def fault(text, attempt):
    return "error" if down[0] and lost in text else ""

  with (
    serving(right, fault) as server,
    asking(server, tmp_path, attempts=2) as (chat, journal),
  ):
    answer = functools.partial(
      qa.answer_with_model, chat, "cot", lambda question: ()
    )
    with pytest.raises(NoReplyError, match=f"1 of {len(ASKED)} questions"):
      chat_models.ask_questions(ASKED, answer, journal, num_workers=4)
    assert len(journal) == len(ASKED) - 1
    down[0] = False
    before = sum(server.asked.values())
    assert len(chat_models.ask_questions(ASKED, answer, journal)) == len(ASKED)
    assert sum(server.asked.values()) == before + 1


def command(*flags, **about):
  environment = {
    **os.environ,
    "PYTHONPATH": str(pathlib.Path(__file__).parents[2]),
    "OPENAI_API_KEY": "k",
  }
  return subprocess.Popen(
    [sys.executable, "-m", "ctd_jax.tasks.ctm", *map(str, flags)],
    env=environment,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    **about,
  )


def slow(messages):
  time.sleep(0.1)
  return right(messages)


@pytest.mark.slow
def test_kill_and_resume(tmp_path, monkeypatch):
  monkeypatch.setenv("OPENAI_API_KEY", "k")
  with serving(slow) as server:
    process = command(
      *("qa", "--system=model", "--model=m", f"--base_url={server.url}"),
      *(f"--data={DATA}", f"--workdir={tmp_path / 'run'}", "--workers=2"),
      *("--prices=1,1", "--timeout=5"),
    )
    deadline = time.monotonic() + 120
    while sum(server.answered.values()) < 9 and time.monotonic() < deadline:
      time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = (tmp_path / "run" / "answers.jsonl").read_text(encoding="utf-8")
    assert 5 <= done.count("\n") < len(TEST)
    # The settings of the command above, in this process to save its start.
    address = endpoint(server, api_key=None, prices=(1.0, 1.0), timeout=5.0)
    qa.run_questions(
      command_settings.QaSettings(
        system="model",
        workdir=tmp_path / "run",
        data=command_settings.DataSettings(str(DATA)),
        endpoint=address,
        workers=2,
      )
    )
    # At most what was under way at the kill was asked twice, and counts once.
    assert sum(server.asked.values()) <= len(TEST) + 2
    assert len(server.answered) == len(TEST)
  report = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
  assert f"- replies: {len(TEST)}" in report
  cost = float(re.search(r"cost in USD: (\S+)", report)[1])
  assert cost == pytest.approx(len(TEST) * 15e-6)
  rows = json.loads((tmp_path / "run" / "results.json").read_text())
  assert {row["value"] for row in rows if row["metric"] == "accuracy"} == {1.0}
  assert {path.name for path in (tmp_path / "run").glob("*.png")} == {
    *("by_type.png", "by_relations.png", "by_distance.png")
  }


def test_errors_take_one_line(tmp_path, monkeypatch):
  flags = ("qa", "--system=model", f"--workdir={tmp_path}", f"--data={DATA}")
  process = command(*flags)
  output, _ = process.communicate(timeout=240)
  assert output == "error: --system=model: name it with --model\n"
  assert process.returncode
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


@pytest.mark.slow
def test_help_is_fast_and_names_what_the_data_set_has():
  assert command_settings.TASKS == periods.TASKS
  assert command_settings.SPLITS == periods.SPLITS
  for arguments in ((), ("qa",), ("ito",), ("judge",)):
    process = command(*arguments, "--help")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert ("--prices" if arguments else "the Ito game") in output
  loaded = processes.list_loaded_modules("import ctd_jax.tasks.ctm.__main__")
  assert not loaded & {"jax", "matplotlib", "numpy", "tensorflow_datasets"}


def test_the_model_decides_what_rules_cannot(tmp_path):
  question = QUESTIONS["eeu-a"]
  replies = {
    "金陵": ['{"评估结果": 0}', "0", '{"思考": "", "评估结果": "0"}'],
    "建邺": ['{"评估结果": 1}', '{"评估结果": 0}', "?"],
  }

  def vote(messages):
    answer = messages[-1]["content"].split("【作答】")[1]
    return replies[answer].pop()

  with serving(vote) as server, asking(server, tmp_path) as (chat, _):
    for answer, source in (("金陵", "model"), ("建邺", "undecided")):
      rules = judge.judge_answer(question, answer)
      assert rules.source == judge.UNDECIDED
      found = grading.decide_by_vote(chat, question, answer, rules)
      assert (found.correct, found.source) == (False, source)
      assert found.why.endswith("1 unreadable")


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
def test_a_model_plays(tmp_path):
  one = instance(["唐", "先秦", "清"])
  labels = {seat.entity: seat.period for seat in one.seats}
  said = []

  def answer(messages):
    system, text = (message["content"] for message in messages)
    said.append(text)
    theme = re.findall(r"第\d轮，主题(\S+)：", text)[-1]
    items = re.search(rf"{theme}（.*）：(\S+)", system)[1].split("＜")
    if "你持有" not in text:
      seat = int(re.search(r"你是(\d)号", system)[1])
      told = re.findall(r"(\d)号玩家：\S+ (\S+)", text)[-3:]
      order = sorted(told, key=lambda pair: items.index(pair[1]))
      rank = [int(number) for number, _ in order].index(seat) + 1
      return json.dumps({"我的排序": rank})
    if "不合要求" not in text:
      return "让我想想"
    label = labels[re.search("你持有“(.+?)”", text)[1]]
    item = items[periods.get_period(label).index]
    fields = {"理由": "靠近一端", "主题实体": item, "时期": label}
    return json.dumps(fields, ensure_ascii=False)

  with serving(answer) as server, asking(server, tmp_path) as (chat, _):
    agent = ito_players.ModelAgent(chat, (FRUIT, BOOK))
    played = ito_players.play_game(
      ito_game.start_game(one, [FRUIT, BOOK]), [agent] * 3
    )
  assert played.state.won_in == 1
  assert [len(turn["replies"]) for turn in played.turns] == [2, 2, 2, 1, 1, 1]
  assert not any(label in text for text in said for label in labels.values())


@pytest.mark.slow
def test_games_are_played_resumed_and_checked(tmp_path, capsys):
  entities = [e for e in repository.load_entities() if e.intervals]
  first_of = {e.periods[0]: e for e in reversed(entities)}
  seats = tuple(
    repository.make_relation(first_of[label]) for label in ("汉", "唐", "清")
  )
  games = [
    schema.ItoInstance(f"g{n}", "easy", seats, (1, 2, 3)) for n in range(4)
  ]
  data = tmp_path / "games.jsonl"
  data.write_text(
    "\n".join(map(schema.format_json_line, games)), encoding="utf-8"
  )
  flags = ("ito", "--agent=elimination", f"--data={data}", "--repeats=2")
  folder = f"--workdir={tmp_path / 'run'}"
  output, _ = command(*flags, folder).communicate(timeout=240)
  assert "easy   n=8" in output, output
  path = tmp_path / "run" / "games.jsonl"
  whole = path.read_bytes()
  path.write_bytes(whole[: len(whole) // 2])
  ito.run_games(
    command_settings.ItoSettings(
      agent="elimination",
      workdir=tmp_path / "run",
      data=command_settings.DataSettings(str(data)),
      repeats=2,
    )
  )
  assert path.read_bytes() == whole
  ito.check_transcripts(tmp_path / "run")
  assert "8 games replayed" in capsys.readouterr().out
  records = [json.loads(line)["value"] for line in whole.splitlines()[1:]]
  again = [
    ito_players.game_to_json(ito_players.replay_game(record))
    for record in records
  ]
  assert json.loads(json.dumps(again)) == records
