"""Answers from a timeline: look-up and arithmetic; accuracies of reports."""

import msgspec
import pytest

from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks.ctm import judge, report, timeline
from ctd_jax.tasks.ctm.judge import AnswerVerdict
from ctd_jax_datasets.ctm import repository
from ctd_jax_datasets.ctm.periods import (
  EEU,
  ERA,
  EXACT,
  FIGURE,
  INGREDIENT,
  PLACE,
  RULER,
)
from ctd_jax_datasets.ctm.schema import Distance, Entity, YearInterval
from tests.ctm.judge_test import QUESTIONS


def entity(name, kind, label, start, end, place="", evidence=()):
  years = YearInterval(start, end, EXACT, "test", "life")
  return Entity(name, name, (), kind, (years,), (label,), place, "", evidence)


KNOWN = (
  entity("屈原", FIGURE, "先秦", -340, -278),
  entity("司马迁", FIGURE, "汉", -145, -86),
  entity("李白", FIGURE, "唐", 701, 762, "四川"),
  entity("杜甫", FIGURE, "唐", 712, 770, "河南"),
  entity("苏轼", FIGURE, "宋", 1037, 1101, "四川"),
  entity("王羲之", FIGURE, "六朝", 303, 361),
  entity("玉米", INGREDIENT, "明", 1531, None),
  entity("昆曲", INGREDIENT, "明", 1540, None),
  entity("葡萄", INGREDIENT, "汉", -126, None),
  entity("开元", ERA, "唐", 713, 741, "", ("唐", "李隆基")),
  entity("李隆基", RULER, "唐", 712, 756),
  entity("建康", PLACE, "六朝", 313, 589, "南京"),
  entity("江宁", PLACE, "唐", 620, 757, "南京"),
)
PRIOR = timeline.AnswerPrior("宋", True, 100)


def answer(known, name, text=None):
  question = QUESTIONS[name]
  if text is not None:
    question = msgspec.structs.replace(question, question=text)
  return timeline.TimelineAnswerer(known, PRIOR).answer(question)


@pytest.mark.parametrize(
  "name", ["edd-a", "edd-b", "pj-a", "pj-c", "tou-b", "tic-a", "tic-d", "sec-a"]
)
def test_who_knows_the_entities_is_right(name):
  said = answer(KNOWN, name)
  assert judge.judge_answer(QUESTIONS[name], said).correct, said


@pytest.mark.slow
def test_each_name_that_a_city_had_in_a_period_is_right(generated_questions):
  """This includes 恒州: no question asks for it, since two cities had it."""
  oracle = timeline.TimelineAnswerer(repository.load_entities(), PRIOR)
  for question in generated_questions:
    if question.task == EEU:
      said = oracle.answer(question)
      assert judge.judge_answer(question, said).correct, (question, said)


@pytest.mark.parametrize(
  ("name", "text", "said"),
  [
    ("tes-a", "与苏轼同属一个时期的，是下列哪一项？A. 李白 B. 苏轼", "苏轼"),
    ("rr-a", "开元、开元时在位的皇帝是谁？", "李隆基"),
    ("rr-a", "年号“开元”是哪位君主使用的？", "李隆基"),
    ("rr-a", "李白与屈原的生活年代是什么关系？", "屈原早于李白"),
    ("rr-a", "李白与杜甫的生活年代是什么关系？", "同时在世"),
    ("rr-a", "苏轼、杜甫之中，谁曾与李白同时在世？", "杜甫"),
    ("rr-c", "李白、杜甫的籍贯分别在今天的哪个省级行政区？", "四川、河南"),
    ("eeu-a", "唐时期的“江宁”（今南京），在六朝时期称作什么？", "建康"),
    ("sec-d", "“开元”年间，席间坐着李白。请指出穿帮之处。", "没有穿帮"),
    ("edd-a", "“乾隆年间”是清代的事。这属于哪个时期？", "清"),
  ],
)
def test_rules(name, text, said):
  assert answer(KNOWN, name, text) == said


def test_who_knows_nothing_says_what_is_most_frequent():
  assert answer((), "edd-a") == "宋"
  assert answer((), "pj-a").startswith("是")
  assert answer((), "tic-a") == "约100年"
  assert answer((), "sec-a") == "没有穿帮"
  listed = "鸦片战争、贞观之治、澶渊之盟"
  assert answer((), "tou-a", f"由早到晚排列：{listed}。") == listed


def test_prior_of_questions():
  prior = timeline.AnswerPrior.from_questions(QUESTIONS.values())
  # 明 is the answer of three of nine, 是 of four of seven, and 433 is the
  # fourth of seven numbers of years.
  assert prior == timeline.AnswerPrior("明", True, 433)
  with pytest.raises(ValueError, match="no train question of PJ、TIC"):
    timeline.AnswerPrior.from_questions([QUESTIONS["edd-a"]])


@pytest.mark.slow
def test_accuracies_count_types_by_listing_and_buckets_by_relations(tmp_path):
  graded = [
    (QUESTIONS["edd-a"], AnswerVerdict(True, "label")),
    (QUESTIONS["edd-b"], AnswerVerdict(False, "label")),
    (
      msgspec.structs.replace(QUESTIONS["pj-a"], listed=False),
      AnswerVerdict(True, "polarity", {"polarity_accuracy": 1.0}),
    ),
    (QUESTIONS["lsec-a"], AnswerVerdict(False, "undecided")),
  ]
  assert report.compute_accuracies(graded) == {
    "EDD": Proportion(1, 2),
    "LSEC": Proportion(0, 1),
    "=1": Proportion(1, 2),
    "=2": Proportion(1, 1),
    "all": Proportion(1, 3),
  }
  assert QUESTIONS["pj-a"].distance == Distance(4, 4)
  assert [*report.compute_distance_accuracies(graded, "widest")] == [3, 4]
  about = {"dataset": "ctm/qa", "system": "a", "track": "facts"}
  about |= {"score_mode": "rules", "split": "test", "mode": "direct"}
  rows = report.make_result_rows(graded, **about)
  assert [(r.family, r.metric) for r in rows][-1] == ("PJ", "polarity_accuracy")
  systems = {"a": (graded, {}), "b": (graded, {"n": 1})}
  report.write_report(tmp_path, systems, rows)
  assert (tmp_path / report.PLOT_FILE).exists()
  text = (tmp_path / "report.md").read_text(encoding="utf-8")
  assert "| EDD | 1 | 2 | 50.00 [9.5, 90.5] |" in text
  assert "| LSEC | 0 | 0 | 1 |" in text
  assert "| all | 2 | 1 | 1 |" in text
  assert "by number of relations and by distance): 1\n" in text
  assert "- undecided answers (they count as wrong; with --judge_model" in text
  assert "unreadable votes" not in text
  one = [graded[0]]
  report.write_report(tmp_path / "one", {"a": (one, {})}, rows)
  assert not (tmp_path / "one" / report.PLOT_FILE).exists()
  assert "By periods" not in (tmp_path / "one/report.md").read_text("utf-8")
  assert "- n: 1" in text
