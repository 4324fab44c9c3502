"""The judge against hand-made answers, and the traps one by one."""

import csv
import json
import pathlib

import pytest

from ctd_jax.tasks.ctm import judge
from ctd_jax.tasks.ctm.judge import COT
from ctd_jax_datasets.ctm import schema
from tests.tasks.chat_server import THOUGHTS

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


LINES = (GOLDEN / "ctm_judge_questions.jsonl").read_text(encoding="utf-8")
QUESTIONS = {
  question.question_id: question
  for line in LINES.splitlines()
  for question in [schema.question_from_json(json.loads(line))]
}


def verdict(name, answer, style="direct"):
  return judge.judge_answer(QUESTIONS[name], answer, style)


def test_hand_made_answers():
  with (GOLDEN / "ctm_judge_answers.tsv").open(encoding="utf-8") as file:
    rows = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
  assert len(rows) >= 300
  wrongly, undecided = [], 0
  for row in rows:
    answer = row["answer"].replace("\\n", "\n")
    found = verdict(row["question"], answer, row["style"])
    undecided += found.source == judge.UNDECIDED
    # An undecided answer goes to a model; a wrong verdict goes nowhere.
    if found.source != judge.UNDECIDED and found.correct != (
      row["correct"] == "1"
    ):
      wrongly.append(row)
  assert wrongly == []
  assert undecided <= 0.1 * len(rows)


def test_letter_text_and_script_of_an_option_are_one():
  said = ["B", "b", "Ｂ", "（B）", "B. 苏轼", "苏轼", "蘇軾", "答案：蘇軾"]
  assert all(verdict("tes-a", text).correct for text in said)
  assert not verdict("tes-a", "A. 苏轼").correct


def test_both_conventions_about_the_year_zero():
  for years, correct in ((977, False), (978, True), (979, True), (980, False)):
    assert verdict("tic-a", f"约{years}年").correct == correct
  off = verdict("tic-a", "1078年").measures
  assert off["absolute_error"] == 99
  assert off["relative_error"] == pytest.approx(99 / 978)


def test_order_measures():
  found = verdict("tou-b", "屈原、王羲之、司马迁、李白、苏轼")
  assert not found.correct
  assert found.measures["pair_accuracy"] == 0.9
  assert found.measures["kendall_tau"] == pytest.approx(0.8)
  missing = verdict("tou-b", "屈原、司马迁、李白、苏轼")
  assert missing.why == "1 missing"
  assert missing.measures == {"pair_accuracy": 0.6}


def test_only_what_is_accused_is_flagged():
  text = "穿帮的是昆曲。葡萄汉代已经传入，杜甫与李白同时代，都符合历史。"
  assert verdict("sec-a", text).correct
  both = verdict("sec-a", "昆曲和葡萄都是穿帮").measures
  assert (both["precision"], both["recall"]) == (0.5, 1.0)
  assert both["set_f1"] == pytest.approx(2 / 3)


def test_lifespans_make_four_anachronisms():
  named = ["王之涣", "杜牧", "张衡", "班固"]
  assert verdict("lsec-a", "、".join(named)).correct
  for name in named:
    rest = "、".join(other for other in named if other != name)
    assert verdict("lsec-a", rest).measures["recall"] == 0.75


def test_polarity_and_reason_are_told_apart():
  bare = verdict("pj-a", "否")
  assert not bare.correct
  assert bare.measures["polarity_accuracy"] == 1
  turned = verdict("pj-a", "否，李白是汉代人，玉米在唐代传入。")
  assert (turned.correct, turned.source) == (False, "polarity_reason")
  assert verdict("pj-a", "是").measures["polarity_accuracy"] == 0


def test_what_cannot_be_parsed_is_counted_as_such():
  for reply in ("", "回答：唐", '{"思考": "唐"', '{"思考": "唐"}', '["唐"]'):
    assert verdict("edd-a", reply, COT).source == judge.UNPARSED
  assert verdict("edd-a", '好的。{"思考": "", "回答": "唐"}', COT).correct


def test_a_regime_beside_the_period_is_left_open():
  assert verdict("edd-c", "辽代").source == judge.UNDECIDED


@pytest.mark.slow
@pytest.mark.parametrize("task", ["EEU", "TIC", "TES"])
def test_reference_answers_are_right(generated_questions, task):
  questions = [q for q in generated_questions if q.task == task]
  assert len(questions) > 300
  wrong = [q for q in questions if not judge.judge_answer(q, q.answer).correct]
  assert wrong == []


@pytest.mark.slow
def test_thoughts_change_no_verdict_on_a_reference(generated_questions):
  thoughts = f"<think>\n{THOUGHTS}\n</think>\n"
  for question in generated_questions:
    plain = judge.judge_answer(question, question.answer)
    assert plain.correct, question.question_id
    assert judge.judge_answer(question, thoughts + question.answer) == plain
