"""Events told by several works: what is aligned, and days."""

from ctd_jax.dating.experts import wording
from ctd_jax.index import events
from ctd_jax.index.asking import Index
from ctd_jax.index.events import WorkText

# Invented; the second and fourth of the first work have parallels.
COLUMNS = (
  (
    "春，王正月。",
    "三月，公及邾人盟于某。",
    "夏，取禾于某田。",
    "甲子，鄭人克段。",
  ),
  ("傳曰公及邾人盟于某者何也", "甲子葬某公"),
  ("取禾于某田者何", "無可比者"),
)
USUAL = events.UsualWording.read(
  ["春，王正月，無事。", "公在某。", "鄭人來。", "邾人來朝。"] * 40, [7] * 160
)
MONTH = 8


def align(records):
  """Returns the rows of each event."""
  aligned = events.align_records(records, USUAL, [MONTH])
  return [{text.row for text in event} for event in aligned]


def align_columns(columns):
  records = [
    WorkText(10 * column + number, column, text)
    for column, texts in enumerate(columns)
    for number, text in enumerate(texts)
  ]
  return align(records)


def test_records_of_one_event_stand_in_one_row():
  aligned = align_columns(COLUMNS)
  assert all(it in aligned for it in ({1, 10}, {2, 20}, {0}, {21}))
  assert sum(map(len, aligned)) == 8
  own = [row for event in aligned for row in sorted(event) if row < 10]
  assert own == sorted(own)  # a work keeps its order


def test_usual_wording_is_drawn_from_all_the_years(index_folder, monkeypatch):
  index = Index.open(index_folder)
  monkeypatch.setattr(events, "_MAX_USUAL", 2)
  usual = events.read_usual(index, 0)
  assert 0 < len(usual.months) <= 5
  assert usual.occurrences.rows.max() < len(usual.months)
  monkeypatch.setattr(events, "_MAX_USUAL", 600)
  whole = events.read_usual(index, 0)
  assert (len(whole.months), whole.weight) == (index.num_records, 1)
  # A smaller sample stands for as many texts.
  part = events.read_usual(index, 0, 3)
  assert abs(len(part.months) * part.weight - index.num_records) < part.weight


def test_texts_of_the_month_itself_are_not_what_is_usual():
  usual = events.UsualWording.read(["公會某", "公在某"], [3, 4])
  strings = wording.collect_ngrams(["公會"], (2,))
  assert [usual.count(strings, [month])[1] for month in (3, 4, 5)] == [1, 1, 2]
  assert [usual.count(strings, [month])[0][0] for month in (3, 4, 5)] == [
    0,
    1,
    1,
  ]


def test_texts_are_prepared_alike_one_by_one_and_together():
  texts = ["春，王_正月。", "", "會\n于衛", "盟"]
  assert events._prepare_all(texts) == [*map(events._prepare, texts)]


def test_short_record_stands_with_the_one_that_holds_it():
  texts = ("秋，人來聘。", "城葭原。"), ("聘於某也", "城葭原者何城也")
  assert {1, 11} in align_columns(texts)


def test_what_begins_with_a_whole_record_stands_with_it():
  records = [
    WorkText(1, 0, "秋，大雩。", "大雩。"),
    WorkText(2, 0, "螽。", "螽。"),
    WorkText(3, 1, "螽。何以書？記災也。", "螽。何以書？記災也。"),
    WorkText(4, 1, "冬，無事。", ""),
  ]
  assert align(records) == [{1}, {2, 3}, {4}]


def test_days_are_read_but_not_years():
  assert events.find_days("己巳，日有食之。歲在甲子。") == {5}
  assert events.find_days("辛夘，王至。") == {27}  # 辛卯
