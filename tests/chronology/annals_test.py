"""The scan carries a date as a reader does, and cuts where months change."""

import pytest

from ctd_jax.chronology.annals import (
  MonthScanner,
  classify_printed_date,
  make_sentence_start_test,
  split_entry_by_month,
)


def at(month, year=3):
  return MonthScanner(reign=1, year=year, month=month)


def cut(text, scanner, *particles):
  return [
    (str(key), part)
    for part, key in split_entry_by_month(text, scanner, *particles)
  ]


@pytest.mark.parametrize(
  ("month", "text", "expected"),
  [
    (3, "公如泠。", "1-3-3"),
    (3, "五月，公如泠。", "1-3-5"),
    (3, "夏，公如泠。", "1-3-4"),
    (5, "夏，公如泠。", "1-3-5"),
    (8, "夏，公如泠。", "1-3-4"),
    (3, "冬十有二月癸未，公如泠。", "1-3-12"),
    (3, "辛未，公如泠。", "1-3-3"),
    (3, "夏五，公如泠。", "1-3-5"),
    (9, "閏月，公如泠。", "1-3-9"),
    (10, "閏月，公如泠。", "1-3-12"),
    (12, "閏月，公如泠。", "1-3-12"),
    (9, "四年，公如泠。", "1-4-1"),
    (9, "四年春，王二月，公如泠。", "1-4-2"),
    (9, "三年，公如泠。", "1-3-9"),
    (9, "三月而葬，速也。", "1-3-9"),
    (9, "公使其弟年來聘。", "1-3-9"),
    (1, "公如泠，六月，公至自泠。", "1-3-1"),
    (1, "夏者何？時也。", "1-3-1"),
  ],
)
def test_month_of_an_entry(month, text, expected):
  assert str(at(month).read_entry_month(text)) == expected


def test_a_new_ruler_begins_at_the_first_month_of_the_first_year():
  scanner = MonthScanner({"桓公": 2}, reign=1, year=11, month=12)
  assert str(scanner.read_entry_month("桓公三年，公如泠。")) == "2-3-1"
  scanner = at(12, year=11)
  scanner.enter_reign(2)
  assert str(scanner.key) == "2-1-1"
  scanner.enter_reign(2)
  assert str(scanner.read_entry_month("三月，公如泠。")) == "2-1-3"


def test_no_month_before_a_year_is_known():
  scanner = MonthScanner(reign=1)
  assert scanner.read_entry_month("夏，公如泠。") is None
  assert split_entry_by_month("夏，公如泠。", scanner) == []


def test_an_entry_is_cut_where_a_later_month_opens_a_sentence():
  scanner = at(1)
  text = "夏，嶧人來。曰：「十月，師必退。」公從之。六月，師退。秋，盟。"
  assert cut(text, scanner) == [
    ("1-3-4", "夏，嶧人來。曰：「十月，師必退。」公從之。"),
    ("1-3-6", "六月，師退。"),
    ("1-3-7", "秋，盟。"),
  ]
  assert str(scanner.key) == "1-3-7"


@pytest.mark.parametrize(
  "text",
  [
    *(f"六月，師退。{date}，盟。" for date in ("夏", "五月", "壬午")),
    *("六月，師退。其三月而葬，速也。", "公圍泠，三月，克之。"),
    *("公如泠，三月不還。", "公如泠，五月而還。", "公如泠，冬曰烝。"),
    *("公田于岷，春曰田，夏曰苗，秋曰蒐。", "曰：「公如泠，六月，必還。」"),
    "六月，師退。於泠侯之來也，四月，城岷。師還。",
  ],
)
def test_an_entry_is_not_cut(text):
  assert len(split_entry_by_month(text, at(1))) == 1


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    # What a sentence says before its date is its reason.
    (
      "二月，盟。嶧人賞城岷之功，三月甲寅朔，享湟子。",
      [
        ("1-3-2", "二月，盟。"),
        ("1-3-3", "嶧人賞城岷之功，三月甲寅朔，享湟子。"),
      ],
    ),
    ("為泠亂故，冬，盟。", [("1-3-10", "為泠亂故，冬，盟。")]),
    ("湟子有疾，五月，卒。", [("1-3-5", "湟子有疾，五月，卒。")]),
    # With a date before it, the sentence tells of two months.
    (
      "六月，師退，八月，盟，師還。",
      [("1-3-6", "六月，師退，"), ("1-3-8", "八月，盟，師還。")],
    ),
    (
      "聞之，四月，城岷，六月己卯，城泠。",
      [("1-3-4", "聞之，四月，城岷，"), ("1-3-6", "六月己卯，城泠。")],
    ),
    ("圍泠，三月丙辰而滅之。", [("1-3-3", "圍泠，三月丙辰而滅之。")]),
  ],
)
def test_a_date_within_a_sentence_dates_the_sentence(text, expected):
  assert cut(text, at(1)) == expected


@pytest.mark.parametrize(
  ("text", "months"),
  [
    # The outcome, how it came about, and the outcome again.
    ("十二月，滅嶧。九月，侵嶧。十二月，克之。", [12, 9, 12]),
    ("泠、嶧之間有田焉。九月，侵嶧。十二月丙申，圍之。", [12, 9, 12]),
    ("十二月，滅嶧。九月，侵嶧。圍之，十二月丙辰而滅之。", [12, 9, 12]),
    # Nothing comes back to the outcome, or a clause looks back.
    ("十二月，滅嶧。九月，侵嶧。師還。", [12]),
    ("十二月，滅嶧。來聘，九月，侵嶧，師還。十二月，克之。", [12]),
  ],
)
def test_months_go_back_only_from_an_outcome_to_its_story(text, months):
  parts = split_entry_by_month(text, at(12))
  assert [key.month for _, key in parts] == months
  assert "".join(part for part, _ in parts) == text


@pytest.mark.parametrize(
  "text",
  [
    "公曰：「『盟。』師必還！」秋，師還。",
    "公曰：「『『盟。』師必還！」秋，師還。",
    "公曰：「盟。子曰：「師必還！」秋，師還。",
    "公曰：「盟。』師必還！」秋，師還。",
  ],
)
def test_forgotten_marks_of_quotation_hide_no_month(text):
  assert [key.month for _, key in split_entry_by_month(text, at(1))] == [1, 7]


def test_explanations_begin_no_part():
  text = "烝者何？冬，祭也。冬十月，公如泠。"
  for particles, expected in (
    ((), ["烝者何？", "冬，祭也。冬十月，公如泠。"]),
    (("也矣者乎何",), ["烝者何？冬，祭也。", "冬十月，公如泠。"]),
  ):
    assert [part for _, part in cut(text, at(1), *particles)] == expected


@pytest.mark.parametrize(
  ("text", "marks", "expected"),
  [
    # A speech that ends a sentence ends it outside the marks.
    ("曰：「盟。」冬，盟。", (), [6]),
    # Clauses end at what the caller names.
    ("盟，師出。曰：「來，盟。」冬，城。", ("。，",), [2, 5, 13, 15]),
  ],
)
def test_where_sentences_start(text, marks, expected):
  opens = make_sentence_start_test(text, *marks)
  assert list(filter(opens, range(len(text)))) == expected


@pytest.mark.parametrize(
  ("expected", "texts"),
  [
    ("month", ["三年春，王正月，公如泠。", "夏五，公如泠。"]),
    ("month", ["公如泠，六月，公至自泠。"]),
    ("leap month", ["閏月，公如泠。"]),
    ("season", ["三年春，公如泠。", "公如泠，冬，公至自泠。"]),
    ("year", ["三年，公如泠。"]),
    ("nothing", ["辛未，公如泠。", "公如泠。六月，公至自泠。"]),
    ("nothing", ["辛未，公如泠，六月，公至自泠。", "夏者何？時也。"]),
  ],
)
def test_what_dates_an_entry_by_itself(expected, texts):
  assert {*map(classify_printed_date, texts)} == {expected}
