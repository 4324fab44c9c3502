"""Evidence packs: what is in them, what answers are worth, and the command."""

import dataclasses
import json
import re

import pytest

from ctd_jax.tasks import chat, evidence_packs, evidence_qa, inspect_tasks
from ctd_jax_datasets import export
from tests import synthetic
from tests.tasks.inspect_tasks_test import mock
from tests.tools import processes

BENCHMARK = synthetic.benchmark()
PACKS = evidence_packs.make_packs(
  BENCHMARK, BENCHMARK.queries["test"], max_confusable=6
)
BY_ID = {record.record_id: record for record in BENCHMARK.records}


def test_a_pack_has_the_answers_and_what_is_like_them():
  for pack, query in zip(PACKS, BENCHMARK.queries["test"], strict=True):
    assert pack.question == query.text
    roles = [item.role for item in pack.items]
    assert roles.count("answer") == len(query.positives) == pack.all_answers
    assert len(pack.items) == len(query.positives) + 6
    # Four kinds in turn; nothing happens in even months of other years.
    eventful = query.interval.start.month % 2
    expected = [2, 2, 1, 1] if eventful else [2, 0, 2, 2]
    assert [
      roles.count(role) for role in evidence_packs.CONFUSABLE_ROLES
    ] == expected
    start, _ = BENCHMARK.timeline.interval_ordinals(query.interval)
    for item in pack.items:
      record = BY_ID[item.record_id]
      away = abs(BENCHMARK.timeline.ordinal(record.key) - start)
      assert (item.role == "answer") == (item.record_id in query.positives)
      if item.role == evidence_packs.NEAR_MONTH:
        assert 0 < away <= 5
      if item.role == evidence_packs.SAME_MONTH:
        assert away % 12 == 0
        assert record.kind == "event"


def test_order_is_drawn_and_repeatable():
  asked = BENCHMARK.queries["test"]
  again, other = (
    evidence_packs.make_packs(BENCHMARK, asked, max_confusable=6, seed=seed)
    for seed in (0, 1)
  )
  assert again == PACKS != other
  assert {pack.answers for pack in PACKS} != {(1,)}


def test_no_more_answers_than_asked_for():
  query = dataclasses.replace(
    BENCHMARK.queries["train"][0], positives=tuple(BENCHMARK.record_ids[:9])
  )
  (pack,) = evidence_packs.make_packs(
    BENCHMARK, [query], max_answers=4, max_confusable=0
  )
  assert len(pack.items) == len(pack.answers) == 4
  assert pack.all_answers == 9


def item(text, role):
  return evidence_packs.PackItem("r", "元年", text, role)


ITEMS = (
  item("齊人來盟。", "answer"),
  item("宋人來盟。", evidence_packs.NEAR_MONTH),
  item("公會鄭伯。", "answer"),
  item("何外盟也", evidence_packs.COMMENTARY),
)
PACK = evidence_packs.Pack("q", "元年五月？", ITEMS, 2)


@pytest.mark.parametrize(
  ("reply", "precision", "recall", "supported", "coverage"),
  [
    # Both told and cited, with marks of another width, before or after 。
    ("齊人來盟[1]。公會鄭伯。【3】", 1, 1, 1, 1),
    # 齊人 人來 來盟 of one, none of 公會 會鄭 鄭伯.
    ("齊人來盟[1]。", 1, 1 / 2, 1, 1 / 2),
    ("宋人來盟[2]。", 0, 0, 0, (2 / 3) / 2),
    ("齊人來盟[1][2]\n公會鄭伯[9]", 1 / 3, 1 / 2, 1 / 2, 1),
    ("齊人來盟，公會鄭伯[1,3]；無他事", 1, 1, 1 / 2, 1),
    # One mark at the end of a line is for all of it, not for the next line.
    ("齊人來盟。公會鄭伯。[1,3]", 1, 1, 1, 1),
    ("齊人來盟。公會鄭伯。\n無他事[1,3]", 1, 1, 1 / 3, 1),
    ("無事。", 0, 0, 0, 0),
    ("", 0, 0, 0, 0),
  ],
)
def test_scores_by_hand(reply, precision, recall, supported, coverage):
  expected = {
    "citation_precision": precision,
    "citation_recall": recall,
    "supported": supported,
    "coverage": coverage,
  }
  assert evidence_packs.score_answer(PACK, reply) == pytest.approx(expected)


def test_a_record_of_one_character():
  pack = evidence_packs.Pack("q", "元年秋？", (item("螟。", "answer"),), 1)
  assert set(evidence_packs.score_answer(pack, "螟。[1]").values()) == {1.0}
  assert evidence_packs.score_answer(pack, "無事。[1]")["coverage"] == 0


def test_what_is_cited_wrongly_is_told_by_kind():
  wrong = evidence_packs.count_wrong_citations(PACK, "宋[2] 何[4] 何[4] 齊[1]")
  roles = evidence_packs.NEAR_MONTH, evidence_packs.COMMENTARY
  assert {role: n for role, n in wrong.items() if n} == dict.fromkeys(roles, 1)


def test_quotations_bound_the_measures():
  best = evidence_packs.score_answer(PACK, evidence_packs.quote_answers(PACK))
  assert set(best.values()) == {1.0}
  everything = evidence_packs.score_answer(PACK, evidence_packs.quote_all(PACK))
  assert everything["coverage"] == everything["citation_recall"] == 1
  assert everything["citation_precision"] == everything["supported"] == 1 / 2


def test_verdicts():
  verdict = evidence_packs.parse_verdict('好：{"1": 1, "3": 0}', PACK)
  assert verdict == {1: True, 3: False}
  for reply in ("沒有", '{"1": 1}', '{"1": 1, "3": "是"}'):
    with pytest.raises(ValueError, match="verdict"):
      evidence_packs.parse_verdict(reply, PACK)


def test_a_model_is_not_told_what_answers():
  told = json.dumps(evidence_packs.make_answer_prompt(PACK), ensure_ascii=False)
  assert "（元年）" in told
  assert "answer" not in told
  assert evidence_packs.NEAR_MONTH not in told
  dateless = evidence_packs.make_answer_prompt(PACK, with_dates=False)
  assert "（元年）" not in str(dateless)
  graded = evidence_packs.make_judging_prompt(PACK, "作答文")[1]
  assert "作答文" in graded
  assert "[3] 公會鄭伯。" in graded
  assert "宋人來盟" not in graded


def dated_reader(system, text):
  """Answers as who reads dates does."""
  asked = re.search("問題：(.+?月)", text)[1]
  lines = re.findall(r"\[(\d+)\] （(.+?)）(.+)", text)
  return "\n".join(f"{t}[{n}]" for n, date, t in lines if date == asked)


def test_a_model_is_asked_and_judged(tmp_path, capsys):
  """A verdict that cannot be read is counted, and asked for again."""
  export.export_benchmark(BENCHMARK, "beir", tmp_path / "beir")
  task = inspect_tasks.evidence_qa(
    dataset=f"beir:{tmp_path / 'beir'}", judge=True
  )
  unread = [PACKS[0].question]

  def all_told(system, text):
    if unread and unread[0] in text:
      return "不知道"
    part = text.split("應當說到的史料")[1]
    return json.dumps(dict.fromkeys(re.findall(r"\[(\d+)\]", part), 1))

  def run():
    log = chat.run_task(task, mock(dated_reader), tmp_path, mock(all_told))
    evidence_qa.report_log(tmp_path, log)
    return capsys.readouterr().out

  first = run()
  assert "1 verdicts could not be read" in first
  assert re.search(r"citation_recall +1.0000 +\[1.000, 1.000\]", first)
  assert re.search(r"judged_coverage +1.0000", first)
  assert re.search(r"near month +12 +0", first)
  lines = (tmp_path / "scores.tsv").read_text().splitlines()
  assert len(lines) == 1 + len(PACKS)
  assert sum("nan" in line for line in lines) == 1
  unread.clear()
  assert "could not be read" not in run()


@pytest.mark.slow
def test_the_command(tmp_path):
  folder = tmp_path / "beir"
  export.export_benchmark(BENCHMARK, "beir", folder)
  about = (f"--dataset=beir:{folder}", f"--workdir={tmp_path / 'run'}")
  command = ("-m", "ctd_jax.tasks.evidence_qa", *about)
  done = processes.run_python(*command, "--system=quote_answers")
  assert re.search("supported +1.0000", done.stdout), done.stderr
  done = processes.run_python(*command)
  assert done.stderr.endswith("or --log for the report of a log\n")
