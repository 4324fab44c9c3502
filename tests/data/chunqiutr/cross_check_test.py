"""Works that tell of one event are compared, and differences have places."""

import json

import pytest

from ctd_jax.benchmark.benchmark import EVENT, NEG_COMMENT, NO_EVENT, Record
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets.chunqiutr import base_texts, cross_check, events, gallery

ANNALS, ZUOZHUAN = base_texts.ANNALS, base_texts.ZUOZHUAN
GULIANG = base_texts.GULIANG


def made(**texts):
  """Returns (entries, pieces, parts, matches) of works in one year."""
  entries = [
    base_texts.Entry(source, 1, 3, text, f"{source}.txt:{line}")
    for source, lines in texts.items()
    for line, text in enumerate(lines, start=1)
  ]
  matches = gallery.match_works(entries)
  pieces = events.cut_entries(entries, matches)
  return entries, pieces, gallery.date_pieces(pieces), matches


def test_units_before_and_after_cutting():
  entries, _, parts, _ = made(
    chunqiu=["三月，泠侯來聘。", "秋，盟。九月，嶧人大伐浯。"]
  )
  counts = {"units": 2, "characters": 15, "longest": 9}
  assert cross_check.count_units(entries, parts) == {
    ANNALS: counts | {"parts": 3, "parts_longest": 7}
  }


def test_decisions_are_counted_by_rule():
  entries, pieces, parts, _ = made(
    chunqiu=[
      "三年春，王正月，泠侯來聘。",
      "夏，盟于桃丘。公如泠。",
      "閏月，湟子卒。",
      "冬十月，大雨雪。十一月，嶧人來。",
      "閏月，城岷。",
      "十有二月，冬，公至自泠。",
    ],
    guliang=["夏，盟于桃丘。", "公如泠。"],
  )
  cut = sum(len(starts) for _, starts in pieces)
  assert cross_check.count_decisions(parts, len(entries), cut) == {
    "entry cut where a month begins": 1,
    "entry cut where an event begins": 1,
    "month printed": 4,
    "no date: the month before it": 2,
    "season alone: its first month": 2,
    "閏月: month 12": 1,
    "閏月: the month before it": 1,
  }


def test_a_season_inside_itself_moves_nothing():
  entries, _, parts, _ = made(chunqiu=["五月，盟。", "夏，公如泠。"])
  found = cross_check.count_decisions(parts, len(entries), len(entries))
  assert found["season alone: already in it"] == 1


SENTENCE = "公會泠侯于桃丘。"


@pytest.mark.parametrize(
  ("chronicle", "tradition", "other", "reason"),
  [
    ("三月，", GULIANG, "四月，", "both print a month"),
    ("夏，", GULIANG, "五月，", "a season stands for its first month"),
    ("五月，", GULIANG, "", "a month is carried on from the entry before"),
    ("五月，", ZUOZHUAN, "夏，嶧人來。", "told inside a longer passage"),
    ("五月，", ZUOZHUAN, "六月，", "both print a month"),
    ("閏月，", ZUOZHUAN, "六月，", "unsure"),
  ],
)
def test_a_disagreement_has_places_and_a_reason(
  chronicle, tradition, other, reason
):
  _, _, parts, matches = made(
    chunqiu=[chronicle + SENTENCE], **{tradition: [other + SENTENCE]}
  )
  table, rows = cross_check.measure_agreement(parts, matches)
  here, there = parts
  expected = {"tradition": tradition}
  for name, source, part, date in (
    ("annals", ANNALS, here, chronicle),
    ("tradition", tradition, there, other),
  ):
    expected[f"{name}_key"] = str(part.key)
    expected[f"{name}_place"] = f"{source}.txt:1"
    expected[f"{name}_head"] = (date + SENTENCE)[:6]
  assert rows == [expected | {"score": 1.0, "sure": True, "reason": reason}]
  counts = {"compared": 1, "same_year": 1, "same_month": 0}
  counts |= {f"all_{name}": number for name, number in counts.items()}
  assert table[f"chunqiu {tradition}"] == counts


def test_only_sure_matches_are_compared_by_default():
  _, _, parts, matches = made(
    chunqiu=["三月，公會泠侯于桃丘。"], zuozhuan=["三月，盟于桃丘。"]
  )
  table, rows = cross_check.measure_agreement(parts, matches)
  assert rows == []
  assert table["chunqiu zuozhuan"]["compared"] == 0
  assert table["chunqiu zuozhuan"]["all_same_month"] == 1


def test_months_that_commentary_prints_are_set_beside_its_own():
  _, _, parts, _ = made(chunqiu=["三月甲子，盟。", "七月戊子，泠侯卒。"])
  texts = [
    ("泠者國名", "neither"),
    ("盟在三月", "same_month"),
    ("桓二年七月嶧來", "year_named"),
    ("周三月今正月", "same_month"),
    ("今之五月麥已熟", "other_month"),
    ("經書七月戊子卒", "entry_of_year"),
  ]
  comments = [
    Record(f"r{number}", text, "du_yu", NEG_COMMENT, TimeKey(1, 3, 3), 0)
    for number, (text, _) in enumerate(texts)
  ]
  counts = {"pieces": 6, "printed": 5, "same_month": 2, "year_named": 1}
  assert cross_check.count_printed_months(comments, parts) == {
    "du_yu": counts | {"other_month": 2, "entry_of_year": 1}
  }


def test_versions_are_counted_by_month_and_by_works():
  def record(number, source, kind, month, version):
    return Record(
      f"r{number}", "盟。", source, kind, TimeKey(1, 1, month), 0, version
    )

  found = cross_check.count_versions(
    [
      record(0, ANNALS, EVENT, 1, "v0"),
      record(1, GULIANG, EVENT, 1, "v0"),
      record(2, ANNALS, EVENT, 1, "v1"),
      record(3, ZUOZHUAN, EVENT, 2, "v2"),
      record(4, "du_yu", NEG_COMMENT, 1, "v1"),
      record(5, "du_yu", NEG_COMMENT, 1, ""),
      record(6, "placeholder", NO_EVENT, 3, ""),
    ]
  )
  assert found == {
    "versions": 3,
    "with_commentary": 1,
    "months_with_several": 1,
    "per_month": {"1": 1, "2": 1},
    "by_works": {"1": 2, "2": 1},
  }
  assert json.loads(json.dumps(found)) == found
