"""The tasks of inspect-ai: a bad server, thoughts, kill and resume, judges."""

import collections
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from ctd_jax.evaluation import results
from ctd_jax.tasks import chat, inspect_tasks
from ctd_jax.tasks.ctm import grading, ito, judge, report
from ctd_jax_datasets.ctm import periods, repository, schema
from tests.ctm import released_test
from tests.ctm.judge_test import GOLDEN, QUESTIONS
from tests.tasks.chat_server import FAULTS, THOUGHTS, serving

DATA = str(GOLDEN / "ctm_judge_questions.jsonl")
ASKED = list(QUESTIONS.values())
BY_TEXT = {question.question: question for question in ASKED}


def right(messages):
  """Answers every question with its reference."""
  return BY_TEXT[messages[-1]["content"].split("问题：")[1]].answer


def mock(answer):
  """Returns a model that answers with a function of system and user text."""

  def reply(messages, *unused):
    text = answer(*(message.text for message in messages))
    output = ModelOutput.from_content("mockllm", text)
    output.usage = ModelUsage()
    return output

  return get_model("mockllm/model", custom_outputs=reply, memoize=False)


def served(server):
  """Returns the model of a server, at no more than one second a request."""
  return get_model("openai-api/m/m", base_url=server.url, memoize=False)


def run(task, model, folder, **options):
  return chat.run_task(task, model, folder, options=options)


def verdicts(log):
  return {q.question_id: (v.correct, v.source) for q, v in report.read_log(log)}


def bad(text, attempt):
  """Every question meets some fault the first time."""
  place = ASKED.index(BY_TEXT[text.split("问题：")[1]])
  return FAULTS[place % len(FAULTS)] if attempt == 1 else ""


@pytest.mark.slow
@pytest.mark.parametrize("thinks", ["aloud", "in a field"])
def test_a_bad_server_changes_no_score(tmp_path, thinks):
  task = inspect_tasks.ctm(data=DATA, split="all")
  with serving(right) as server:
    quiet = verdicts(run(task, served(server), tmp_path / "quiet"))
    assert set(server.asked.values()) == {1}
  assert all(correct for correct, _ in quiet.values())
  with serving(right, bad, thinks) as server:
    model = served(server)
    log = run(task, model, tmp_path / "bad", attempt_timeout=1)
    assert verdicts(log) == quiet
    assert len(server.answered) == len(ASKED)
    # All from the cache; an edited question is asked again.
    before = sum(server.asked.values())
    run(task, model, tmp_path / "bad")
    assert sum(server.asked.values()) == before
    edited = tmp_path / "edited.jsonl"
    first = json.loads(schema.format_json_line(ASKED[0]))
    first["question"] += "？"
    BY_TEXT[first["question"]] = ASKED[0]
    edited.write_text(json.dumps(first), encoding="utf-8")
    run(inspect_tasks.ctm(data=str(edited), split="all"), model, tmp_path)
    assert sum(server.asked.values()) == before + 1


def test_thoughts_are_no_answer():
  for thoughts in (
    f"<think>{THOUGHTS}</think>\n",
    f"<think>{THOUGHTS}</think><think>再想。</think>",
    f"{THOUGHTS}</think>",
    f"<Thinking>\n{THOUGHTS}\n</Thinking>",
  ):
    for question in ASKED:
      for style in judge.STYLES:
        answer = question.answer
        if style == judge.COT:
          answer = json.dumps({"思考": "", "回答": answer})
        assert judge.judge_answer(question, thoughts + answer, style).correct
  cut_off = judge.judge_answer(ASKED[0], f"<think>{ASKED[0].answer}")
  assert (cut_off.correct, cut_off.source) == (False, judge.UNPARSED)


def test_a_limit_asks_some_of_each_kind(tmp_path):
  task = inspect_tasks.ctm(data=DATA, split="all")
  log = run(task, mock(lambda *texts: "不知道"), tmp_path, limit=9)
  kinds = collections.Counter(q.task for q, _ in report.read_log(log))
  assert set(kinds.values()) == {1}
  assert len(kinds) == len({q.task for q in ASKED})
  assert "each kind" in log.eval.metadata["order"]
  again = inspect_tasks.ctm(data=DATA, split="all")
  assert [s.id for s in again.dataset] == [s.id for s in task.dataset]


def test_rows_come_from_the_log(tmp_path):
  task = inspect_tasks.ctm(
    data=DATA, split="validation", arm="facts", style="cot"
  )
  answer = mock(
    lambda system, user: json.dumps(
      {"回答": BY_TEXT[user.split("问题：")[1]].answer}
    )
  )
  log = run(task, answer, tmp_path, epochs=2, limit=9)
  graded = report.read_log(log)
  assert len(graded) == 9
  rows = report.make_result_rows(graded, **chat.describe_run(log))
  report.write_report(tmp_path, {"m": (graded, report.describe_log(log))}, rows)
  row = results.read_result_rows(tmp_path / "results.json")[0]
  assert (row.system, row.track, row.mode) == ("mockllm/model", "facts", "cot")
  assert (row.value, row.score_mode) == (1.0, "rules")
  assert row.command == (
    "inspect eval ctd_jax/ctm --model mockllm/model -T arm=facts -T style=cot "
    "-T split=validation"
  )
  assert "draws of each question: 2" in (tmp_path / "report.md").read_text()


def slow(messages):
  time.sleep(0.1)
  return right(messages)


@pytest.mark.slow
def test_kill_and_resume(tmp_path):
  with serving(slow) as server:
    # Plain, so that an error is shown; from a folder without our sources.
    about = {"M_BASE_URL": server.url, "INSPECT_DISPLAY": "plain"}
    where = {"env": os.environ | about, "cwd": tmp_path}
    inspect = [sys.executable, "-m", "inspect_ai"]
    folder = f"--log-dir={tmp_path / 'logs'}"
    process = subprocess.Popen(
      [
        *(*inspect, "eval", "ctd_jax/ctm", "--model=openai-api/m/m", folder),
        *("-T", f"data={DATA}", "-T", "split=all", "--max-connections=2"),
      ],
      **where,
      stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 240
    while len(server.answered) < 9 and time.monotonic() < deadline:
      assert process.poll() is None
      time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 9 <= len(server.answered) < len(ASKED)
    (path,) = (tmp_path / "logs").glob("*.eval")
    subprocess.run(
      [*inspect, "eval-retry", str(path), folder], **where, check=True
    )
    # At most what was under way at the kill was asked twice.
    assert sum(server.asked.values()) <= len(ASKED) + 2
    assert len(server.answered) == len(ASKED)
  (last,) = set((tmp_path / "logs").glob("*.eval")) - {path}
  assert all(correct for correct, _ in verdicts(read_eval_log(last)).values())


def test_a_question_without_reply_is_asked_again(tmp_path):
  lost = [QUESTIONS["pj-00455"].question]

  def answer(system, user):
    if lost and lost[0] in user:
      raise RuntimeError("a long request\nno connection")
    return right([{"content": user}])

  task = inspect_tasks.ctm(data=DATA, split="validation")
  with pytest.raises(ValueError, match=r"^1 .* reply \(no connection.*; run"):
    run(task, mock(answer), tmp_path, retry_on_error=0)
  lost.clear()
  assert len(verdicts(run(task, mock(answer), tmp_path))) == sum(
    q.split == "validation" for q in ASKED
  )
  with pytest.raises(ValueError, match="--inspect=colour: "):
    run(task, mock(answer), tmp_path, colour=1)


def test_the_grader_decides_what_rules_cannot(tmp_path):
  """Votes are counted; a vote that cannot be read is asked for again."""
  data = tmp_path / "q.jsonl"
  data.write_text(schema.format_json_line(QUESTIONS["eeu-a"]), encoding="utf-8")
  no, thought = '{"评估结果": 0}', '<think>1</think>{"评估结果": "0"}'
  votes = [no, "0", thought, "?", "？"]
  asked = []

  def vote(system, user):
    asked.append(user)
    return votes.pop(0)

  task = inspect_tasks.ctm(data=str(data), split="all", judge="undecided")
  grader = mock(vote)

  def grade():
    log = chat.run_task(
      task, mock(lambda *texts: "金陵"), tmp_path, grader, {"epochs": 1}
    )
    ((_, verdict),) = report.read_log(log)
    return verdict

  first = grade()
  assert (first.correct, first.source) == (False, "model")
  assert (first.why, first.unreadable_votes) == ("0 of 3 votes", 1)
  assert len(asked) == 5
  assert asked[0].endswith("【作答】金陵")
  votes += ["?", '{"评估结果": 1}']
  second = grade()
  assert (second.why, second.unreadable_votes) == ("1 of 3 votes", 1)
  votes += ["?", "?"]
  undecided = grade()
  assert (undecided.correct, undecided.source) == (False, "model")
  assert len(asked) == 9


def test_the_grader_may_judge_all(tmp_path):
  task = inspect_tasks.ctm(
    data=DATA, split="validation", judge="all", prompts="paper"
  )
  assert not any("六朝（" in str(sample.input) for sample in task.dataset)
  answer = mock(lambda system, user: right([{"content": user}]))
  grader = mock(lambda *texts: '{"评估结果": 0}')
  log = chat.run_task(task, answer, tmp_path, grader, {"limit": 5})
  assert set(verdicts(log).values()) == {(False, "model")}
  score_mode = chat.describe_run(log)["score_mode"]
  assert score_mode == "mockllm/model, protocol of the paper"
  log = run(task, answer, tmp_path, fail_on_error=False, limit=1)
  assert "grader" in log.samples[0].error.message


def test_the_authors_files(tmp_path, capsys):
  """What only a model can compare is ungraded without one, and rows say so."""
  forms = [released_test.record(row) for row in released_test.FORMS[:9]]
  released_test.write(tmp_path, *forms, {"type": "PJ"})
  answers = {fields["question"]: fields["answer"] for fields in forms}

  def ask(who, prompts="ours", grader=None):
    task = inspect_tasks.ctm(
      dataset="release", sources=str(tmp_path), judge=who, prompts=prompts
    )
    answer = mock(lambda system, user: answers[user.split("问题：")[1]])
    votes = mock(lambda *texts: '{"评估结果": 1}')
    log = chat.run_task(task, answer, tmp_path, grader and votes)
    graded = report.read_log(log)
    assert all(verdict.correct for _, verdict in graded)
    return log, len(graded), report.describe_run(log, graded)

  log, num_graded, fields = ask("rules")
  assert "unreadable records: 1" in capsys.readouterr().err
  assert num_graded == 3
  (group,) = [s for s in log.results.scores if s.name == "rules"]
  assert group.metrics["all"].value == 1
  told = "rules; by rules 3, by a model 0, not graded 6"
  assert fields["score_mode"] == told
  # Votes that cannot be read grade nothing.
  open_verdict = judge.AnswerVerdict(False, judge.UNGRADED)
  assert grading.count_votes([None] * 3, open_verdict).source == judge.UNGRADED
  published = results.read_result_rows(
    GOLDEN.parent / "results" / "published_ctm.json"
  )
  # Only rows made as the paper's stand beside the published ones.
  for who, prompts in (("undecided", "ours"), ("all", "paper")):
    log, num_graded, fields = ask(who, prompts, grader=True)
    assert num_graded == len(forms)
    by_both = "by rules 3, by a model 6, not graded 0" in fields["score_mode"]
    assert by_both == (who == "undecided")
    rows = report.make_result_rows(report.read_log(log), **fields)
    folder = tmp_path / who
    report.write_report(folder, {"m": (report.read_log(log), {})}, rows)
    assert (folder / report.PLOT_FILE).exists()
    table = report.format_systems(rows, published)
    assert ("o1-preview" in table) == (prompts == "paper")


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({"style": "long"}, "style=long: should be one of direct, cot"),
    ({"split": "dev"}, "split=dev: should be one of train"),
    ({"tasks": "EDD,X"}, "tasks=X: should be one of EDD"),
    ({"judge": "me"}, "judge=me: should be one of rules"),
    ({"dataset": "theirs"}, "dataset=theirs: should be one of ours, release"),
    ({"sources": "x"}, "sources=x: needs dataset=release"),
    ({"dataset": "release", "arm": "facts", "sources": "x"}, "no dates of"),
    ({"dataset": "release", "sources": "/none"}, "/none: no question"),
    ({"data": 3}, "data=3: Expected `str | null`, got `int`"),
    ({"data": "/none"}, "/none: no such file"),
  ],
)
def test_a_wrong_parameter_is_one_sentence(values, message):
  """inspect-ai shows such an error without a traceback."""
  with pytest.raises(PrerequisiteError) as caught:
    inspect_tasks.ctm(**values)
  assert message in caught.value.message


def test_given_answers_are_judged(tmp_path):
  said = [(QUESTIONS["eeu-a"], "金陵"), *((q, q.answer) for q in ASKED[:11])]
  answers = [grading.JudgedAnswer(q, "direct", True, text) for q, text in said]
  task = inspect_tasks.make_agreement_task(answers, "undecided")
  log = chat.run_task(
    task, "none/none", tmp_path, mock(lambda *texts: '{"评估结果": 0}')
  )
  log.samples.sort(key=lambda sample: sample.id)
  graded = report.read_log(log)
  assert [q for q, _ in graded] == [q for q, _ in said]
  assert [v.correct for _, v in graded] == [False, *[True] * 11]
  assert graded[0][1].source == "model"


def play_by_the_items(labels):
  """Returns a player that knows all periods, and first says what is none."""

  def play(system, text):
    theme = re.findall(r"第\d轮，主题(\S+)：", text)[-1]
    items = re.search(rf"{theme}（.*）：(\S+)", system)[1].split("＜")
    if "你持有" not in text:
      seat = int(re.search(r"你是(\d)号", system)[1])
      told = re.findall(r"(\d)号玩家：\S+ (\S+)", text)[-len(labels) :]
      order = sorted(told, key=lambda pair: items.index(pair[1]))
      rank = [int(number) for number, _ in order].index(seat) + 1
      return f'<think>{{"我的排序": 9}}</think>{{"我的排序": {rank}}}'
    if "不合要求" not in text:
      return "让我想想"
    label = labels[re.search("你持有“(.+?)”", text)[1]]
    item = items[periods.get_period(label).index]
    fields = {"理由": "靠近一端", "主题实体": item, "时期": label}
    return json.dumps(fields, ensure_ascii=False)

  return play


def test_a_model_plays(tmp_path):
  entities = [e for e in repository.load_entities() if e.intervals]
  first_of = {e.periods[0]: e for e in reversed(entities)}
  seats = tuple(
    repository.make_relation(first_of[label]) for label in ("汉", "唐", "清")
  )
  game = schema.ItoInstance("g", "easy", seats, (1, 2, 3))
  data = tmp_path / "games.jsonl"
  data.write_text(schema.format_json_line(game), encoding="utf-8")
  model = mock(play_by_the_items({s.entity: s.period for s in seats}))
  task = inspect_tasks.ito_game(data=str(data))
  log = run(task, model, tmp_path, epochs=2)
  played = ito.read_log(log)
  assert [game.state.won_in for game in played] == [1, 1]
  assert played[0].state.themes != played[1].state.themes
  repairs = [len(turn["replies"]) for turn in played[0].turns]
  assert repairs == [2, 2, 2, 1, 1, 1]
  notes = report.describe_log(log)
  ito.write_report(tmp_path, played, notes, **chat.describe_run(log))
  rows = results.read_result_rows(tmp_path / "results.json")
  assert {row.value for row in rows} == {1.0}
