"""The authors' files: what rules grade, what only a model can, broken files."""

import json

import pytest

from ctd_jax.tasks.ctm import judge
from ctd_jax.utils import files
from ctd_jax_datasets import build
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.ctm import ctm_dataset_builder, released
from tests.ctm.judge_test import GOLDEN

# First the forms of the nine examples of the paper, in words of our own, then
# variants. An answer of the form text is graded by a model.
FORMS = files.read_tsv_rows(
  GOLDEN / "ctm_release_forms.tsv",
  ("type", "question", "entities", "answer", "form", "right", "wrong"),
)


def record(row):
  return {
    "type": row["type"],
    "question": row["question"].replace("\\n", "\n"),
    "temporal_entities": row["entities"].split(),
    "construct_explanation": "略",
    "answer": row["answer"].replace("\\n", "\n"),
  }


def write(folder, *records, name="part.json"):
  text = json.dumps(records, ensure_ascii=False, indent=1)
  (folder / name).write_text(text, encoding="utf-8")


def test_every_form_is_read_and_no_gold_is_guessed(tmp_path):
  write(tmp_path, *map(record, FORMS))
  questions, notes = released.read_released_questions(tmp_path)
  assert len(questions) == len(FORMS) > 9 + 10
  for question, row in zip(questions, FORMS, strict=True):
    assert question.gold.form == row["form"], row
    assert question.listed == (row["type"] != "某种新题型")
    for reply in (row["answer"], row["right"]):
      verdict = judge.judge_answer(question, reply or row["answer"])
      if row["form"] == "text":
        assert verdict.source == judge.UNGRADED, row
      else:
        assert verdict.correct, (row, reply, verdict)
    if row["wrong"]:
      assert not judge.judge_answer(question, row["wrong"]).correct, row
  assert notes.facts[released.BY_RULES] == 10
  assert notes.facts[released.BY_MODEL] == len(FORMS) - 10
  assert notes.facts["EDD 根据人物确定所处朝代"] == 2
  by_kind = [n for name, n in notes.facts.items() if "only a model" in name]
  assert sum(by_kind[1:]) == by_kind[0] == len(FORMS) - 10
  # A place without a period has none, and is in no figure of distances.
  assert [r.period for r in questions[5].relations] == ["隋", ""]
  assert "an entity without one of the ten periods" in notes.format_table()


def test_broken_records_are_named_and_the_others_read(tmp_path):
  good = [record(row) for row in FORMS[:3]]
  lines = [json.dumps(fields, ensure_ascii=False) for fields in good]
  text = [lines[0], "?", lines[1][:-9], '{"type": "PJ"}', "", lines[2], "[3]"]
  (tmp_path / "a.jsonl").write_text("\n".join(text), encoding="utf-8")
  (tmp_path / "b.json").write_text(
    json.dumps(
      {"data": [record(FORMS[3]) | {"answer": 3, "level": 1}, good[0]]}
    ),
    encoding="utf-8",
  )
  (tmp_path / "c.json").write_bytes("汉".encode("gbk"))
  questions, notes = released.read_released_questions(tmp_path)
  assert [q.answer for q in questions] == [g["answer"] for g in good[::2]]
  assert questions[1].provenance == ("a.jsonl:6",)
  assert notes.facts[released.UNREADABLE_RECORDS] == 6
  found = {f["reason"]: f["examples"] for f in notes.to_json()["findings"]}
  places = [text.split(" ")[0] for text in found[released.UNREADABLE]]
  assert places[:5] == [f"a.jsonl:{n}:" for n in (2, 3, 4, 7)] + ["b.json:1:"]
  assert found["the same record a second time; left out"] == ["b.json:1"]


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (None, "it has none"),
    ("[]", "questions 0|no findings"),
    ('[{"type": "PJ", "question": "甲？"}]', "part.json:1: .*`answer`"),
  ],
)
def test_files_without_a_question(tmp_path, content, message):
  if content:
    (tmp_path / "part.json").write_text(content, encoding="utf-8")
  with pytest.raises(SourceError, match=message):
    released.read_released_questions(tmp_path)


def test_the_release_is_built(tmp_path):
  write(tmp_path, *map(record, FORMS))
  builder = build.build_dataset("ctm/release", tmp_path / "b", sources=tmp_path)
  found = ctm_dataset_builder.read_questions(builder)
  assert found == released.read_released_questions(tmp_path)[0]
  assert "rules can grade: 10" in (
    builder.data_path / "findings.txt"
  ).read_text("utf-8")
