"""What tells of one event is found by its wording and shares a version."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets.chunqiutr import base_texts, events, gallery

ANNALS, ZUOZHUAN = base_texts.ANNALS, base_texts.ZUOZHUAN
GONGYANG, GULIANG = base_texts.GONGYANG, base_texts.GULIANG


def entries(source, *texts, year=1):
  return [
    base_texts.Entry(source, 1, year, text, f"{source}.txt:{line}")
    for line, text in enumerate(texts, start=1)
  ]


def works(**texts):
  """Returns entries of all works, matches, and the dated parts."""
  found = [
    entry
    for source, lines in texts.items()
    for entry in entries(source, *lines)
  ]
  matches = gallery.match_works(found)
  return matches, gallery.date_pieces(events.cut_entries(found, matches))


def told(matches, source):
  """Returns (entry of the annals, entry of the tradition), counting from 1."""
  return [
    tuple(
      int(spot.location.split(":")[1]) for spot in (pair.annals, pair.tradition)
    )
    for pair in matches[source]
  ]


def texts_of(parts, source):
  return [part.text for part in parts if part.source == source]


CHRONICLE = [
  "元年春，王正月，公會泠侯于桃丘。",
  "夏四月，嶧人侵我東鄙。",
  "秋七月。",
  "冬十月，浯伯來朝。",
]


def test_the_annals_are_found_in_other_spelling_with_commentary():
  matches, _ = works(
    chunqiu=CHRONICLE,
    gongyang=[
      "元年春，王正月，公㑹泠侯於桃丘。會者何？信也。浯伯來朝則曷為不會？",
      "夏四月，嶧人侵我東鄙。",
      "秋，七月。",
      "冬，十月，浯伯来朝。其言来朝何？",
    ],
  )
  assert told(matches, GONGYANG) == [(1, 1), (2, 2), (3, 3), (4, 4)]
  assert matches[GONGYANG][0].score == 1
  assert 0.4 < matches[GONGYANG][3].score < 1


def test_a_state_has_another_name_in_gongyang():
  matches, _ = works(chunqiu=["邾人入泠。"], gongyang=["邾婁人入泠。"])
  assert [pair.score for pair in matches[GONGYANG]] == [1]


def test_dates_are_not_compared():
  matches, _ = works(
    chunqiu=["三月，公如泠。", "九月，公如嶧。"],
    guliang=["三月，公如嶧。", "九月，公如泠。"],
  )
  # 公如泠 and 公如嶧 stand the other way round: in order is only one of them.
  exact = [pair for pair in matches[GULIANG] if pair.score == 1]
  assert len(exact) == 1


@pytest.mark.parametrize(
  ("chronicle", "tradition", "expected"),
  [
    # Formulas are told apart by their order.
    (
      ["公如泠。", "嶧人來聘。", "公如泠。", "浯人來聘。"],
      ["嶧人來聘。", "公如泠。", "浯人來聘。"],
      [(2, 1), (3, 2), (4, 3)],
    ),
    # An entry may print a part of a sentence.
    (
      ["公如泠。", "辛巳，有事于桃丘，嶧遂卒于湟。"],
      ["公如泠。", "辛巳，有事于桃丘。", "嶧遂卒于湟。遂者何？"],
      [(1, 1), (2, 2), (2, 3)],
    ),
  ],
)
def test_entries_are_matched(chronicle, tradition, expected):
  matches, _ = works(chunqiu=chronicle, gongyang=tradition)
  assert sorted(told(matches, GONGYANG)) == expected


def test_the_tradition_tells_in_its_own_words():
  matches, _ = works(
    chunqiu=CHRONICLE,
    zuozhuan=[
      "春，衍煦生而能言故名之。",
      "夏，嶧侵我東鄙，報桃丘之會也。君子曰：「浯伯來朝，禮也。」",
      "冬，騫翟病。書曰「浯伯來朝」，嘉之也。",
    ],
  )
  assert told(matches, ZUOZHUAN) == [(2, 2), (4, 3)]
  assert matches[ZUOZHUAN][1].score == 1


def test_years_that_are_too_far_apart_are_not_compared():
  chronicle = entries(ANNALS, "公會泠侯于桃丘。", year=3)
  for year, number in ((2, 1), (4, 1), (1, 0), (5, 0), (None, 1)):
    other = entries(ZUOZHUAN, "公會泠侯于桃丘。", year=year)
    assert len(events.match_events(chronicle, other)) == number, year


def test_a_work_without_the_reign_has_no_match():
  chronicle = entries(ANNALS, "公會泠侯于桃丘。")
  other = [base_texts.Entry(GULIANG, 2, 1, "公會泠侯于桃丘。", "x.txt:1")]
  assert events.match_events(chronicle, other) == []


TWO_EVENTS = "三月，泠侯來聘。嶧人伐浯。"


@pytest.mark.parametrize(
  ("gongyang", "expected"),
  [
    (["三月，泠侯來聘。", "嶧人伐浯。"], ["三月，泠侯來聘。", "嶧人伐浯。"]),
    (["三月，泠侯來聘。嶧人伐浯。"], [TWO_EVENTS]),
    (["三月，泠侯來聘。聘者何？嶧人伐浯。"], [TWO_EVENTS]),
  ],
)
def test_the_annals_are_cut_where_another_edition_begins(gongyang, expected):
  _, parts = works(chunqiu=[TWO_EVENTS], gongyang=gongyang)
  assert texts_of(parts, ANNALS) == expected


def test_a_line_is_cut_where_the_annals_begin():
  _, parts = works(
    chunqiu=["三月，泠侯來聘。", "嶧人伐浯。", "湟子出奔岷。"],
    gongyang=[
      "三月，泠侯來聘。聘者何？以嶧人伐浯故也。嶧人伐浯。伐者何？",
      "湟子出奔岷。奔者何？泠侯來聘。",
    ],
  )
  assert texts_of(parts, GONGYANG) == [
    "三月，泠侯來聘。聘者何？以嶧人伐浯故也。",
    "嶧人伐浯。伐者何？",
    "湟子出奔岷。奔者何？泠侯來聘。",
  ]


@pytest.mark.parametrize(
  ("chronicle", "gongyang"),
  [
    (["泠侯來聘。", "嶧人伐浯。"], "泠侯來聘，嶧人伐浯。"),
    (["泠侯來聘。", "嶧人伐浯。"], "泠侯來聘。曰：「何也？嶧人伐浯。」"),
    # What stands before the first match.
    (["夏五，泠侯使其弟騫來聘。"], "夏，五。泠侯使其弟騫來聘。夏五者何？"),
  ],
)
def test_no_cut_at_a_comma_in_speech_or_before_the_first_match(
  chronicle, gongyang
):
  _, parts = works(chunqiu=chronicle, gongyang=[gongyang])
  assert texts_of(parts, GONGYANG) == [gongyang]


def versions(matches, parts):
  """Returns the parts of each version as (source, text)."""
  found = {}
  for part, event in zip(
    parts, events.group_events(parts, matches), strict=True
  ):
    found.setdefault(event, []).append((part.source, part.text))
  return [found[event] for event in sorted(found)]


def test_one_event_in_four_works_is_one_version():
  found = works(
    chunqiu=["三月，公會泠侯于桃丘。"],
    gongyang=["三月，公會泠侯於桃丘。"],
    guliang=["三月，公會泠侯于桃丘。會者信也。"],
    zuozhuan=["三月，公會泠侯，盟于桃丘，謀嶧也。"],
  )
  assert [len(version) for version in versions(*found)] == [4]


def test_a_version_lies_in_one_month():
  matches, parts = works(
    chunqiu=["三月，公會泠侯于桃丘。"],
    gongyang=["四月，公會泠侯於桃丘。"],
    guliang=["四月，公會泠侯于桃丘。"],
    zuozhuan=["夏五月，公會泠侯于桃丘。"],
  )
  keys = [key for _, key in events.group_events(parts, matches)]
  assert keys == [part.key for part in parts]
  assert sorted(
    [source for source, _ in version] for version in versions(matches, parts)
  ) == [[ANNALS], [GONGYANG, GULIANG], [ZUOZHUAN]]


def test_events_of_one_month_are_several_versions():
  matches, parts = works(
    chunqiu=["三月，泠侯來聘。", "嶧人伐浯。"],
    guliang=["三月，泠侯來聘。", "嶧人伐浯。"],
    zuozhuan=["三月，衍煦生而能言故名之。"],
  )
  assert [len(version) for version in versions(matches, parts)] == [2, 2, 1]


def test_a_passage_of_two_events_goes_to_the_likest_of_its_month():
  matches, parts = works(
    chunqiu=["二月，泠侯來聘。", "三月，嶧人伐浯。", "湟子出奔岷。"],
    zuozhuan=["三月，泠侯來聘。嶧人遂伐浯，湟子出奔岷。"],
  )
  assert len(matches[ZUOZHUAN]) == 3
  assert versions(matches, parts)[-1] == [
    (ANNALS, "湟子出奔岷。"),
    (ZUOZHUAN, "三月，泠侯來聘。嶧人遂伐浯，湟子出奔岷。"),
  ]


def test_less_likeness_is_enough_in_the_same_month():
  def sizes(date):
    found = works(
      chunqiu=["三月，澹公孫騫帥師侵我北鄙。"],
      zuozhuan=[f"{date}，騫伯侵我，怒也。"],
    )
    assert found[0][ZUOZHUAN] == []
    return [len(version) for version in versions(*found)]

  assert sizes("三月") == [2]
  assert sizes("五月") == [1, 1]


@given(
  numpy_strategies.arrays(
    np.int64,
    st.tuples(st.integers(0, 4), st.integers(0, 5)),
    elements=st.integers(-3, 9),
  )
)
def test_best_chain_is_the_best_of_all(worth):
  pairs = events.best_chain(worth)
  for (row, column), (next_row, next_column) in itertools.pairwise(pairs):
    assert row < next_row
    assert column < next_column
  assert all(worth[pair] > 0 for pair in pairs)
  rows, columns = worth.shape
  best = max(
    worth[list(some), list(others)].sum()
    for size in range(min(rows, columns) + 1)
    for some in itertools.combinations(range(rows), size)
    for others in itertools.combinations(range(columns), size)
  )
  assert sum(worth[pair] for pair in pairs) == best


PHRASES = ["泠侯來聘", "嶧人伐浯", "聘者何", "「嶧人伐浯。」", "夏六月", "湟"]


@settings(max_examples=30)
@given(
  st.lists(
    st.lists(st.sampled_from(PHRASES), min_size=1), min_size=1, max_size=5
  )
)
def test_parts_join_to_their_entries(lines):
  texts = ["。".join(phrases) + "。" for phrases in lines]
  _, parts = works(
    chunqiu=["三月，泠侯來聘。嶧人伐浯。"], gongyang=texts, guliang=texts[::-1]
  )
  assert "".join(texts_of(parts, GONGYANG)) == "".join(texts)
  assert all(part.key == TimeKey(1, 1, part.key.month) for part in parts)
  assert all(part.text for part in parts)
