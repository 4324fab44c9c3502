"""Dates inside a record: titles before years, eras that they fit, days."""

import pytest

from ctd_jax.dating.chronicle import chronicle_dating, chronicle_input
from tests.dating.chronicles import records_of


def read_heads(line, reigns):
  """Returns (printed date, statements) of the sections of a line."""
  sections = chronicle_dating.read_all_sections(
    records_of([line]), chronicle_input.load_reigns(reigns)
  )
  return [
    (line[section.start : section.date_end], section.statements[:1])
    for section in sections
  ]


@pytest.mark.parametrize(
  "title", ["立爲皇太子", "封為清河王", "降爵為公", "自稱燕王", "立為皇帝"]
)
def test_a_title_that_is_given_ends_before_a_year(title):
  line = f"太和二十一年正月丙申{title}二十三年夏四月丁巳即位"
  heads = [head for head, _ in read_heads(line, "北魏")]
  assert heads == ["太和二十一年正月丙申", "二十三年夏四月丁巳"]


def test_a_year_of_another_ruler_opens_nothing():
  line = "太和二十一年正月丙申論晉文公三年夏四月事"
  assert len(read_heads(line, "北魏")) == 1


@pytest.mark.parametrize(
  ("line", "reigns", "year"),
  [
    # A birth dates nothing, but names the era.
    (
      "世宗諱恪有娠太和七年閏四月生帝於平城宫二十一年正月丙申立爲皇太子",
      "北魏",
      ("year", "太和", 21),
    ),
    (
      "延昌元年十月乙亥立爲皇太子四年春正月丁巳即位",
      "北魏",
      ("year", "延昌", 4),
    ),
    (
      "母孝端萬曆十年八月生四十三年夏五月己酉薊州男子入宮",
      "明",
      ("year", "萬曆", 43),
    ),
    # The month of that year lacks the day.
    ("延昌元年十月乙亥立爲皇太子四年春正月丙子即位", "北魏", ("year", None, 4)),
    # Without a day nothing fits; a smaller number is another count.
    ("延昌元年十月乙亥立爲皇太子四年春正月即位", "北魏", ("year", None, 4)),
    ("太和七年正月庚申行幸五年春正月丙申大赦", "北魏", ("year", None, 5)),
  ],
)
def test_a_bare_year_that_fits_is_of_the_era_before_it(line, reigns, year):
  assert read_heads(line, reigns)[-1][1] == (year,)


@pytest.mark.slow
def test_a_printed_year_that_fits_outweighs_the_order():
  lines = [
    "世宗母曰高夫人有娠太和七年閏四月生帝於平城宫二十一年正月丙申立爲皇太子"
    "二十三年夏四月丁巳即皇帝位大赦",
    "六月乙卯分遣侍臣巡行郡國",
  ]
  dates = chronicle_dating.date_records(
    records_of(lines), chronicle_input.load_reigns("北魏")
  )
  years = [dates.calendar.years[month] for month in dates.months[:, 0].tolist()]
  assert years[-3:] == [497, 499, 499]


@pytest.mark.parametrize(
  ("line", "is_led"),
  [
    (
      "秋九月以恭宗監國正平元年六月戊辰薨於東宫時年二十四庚午冊曰嗚呼惟爾",
      True,
    ),
    ("三月甲寅帝崩正平元年六月戊辰薨壬申葬于金陵", True),
    ("三月甲寅帝崩。正平元年六月戊辰，薨。庚午，冊曰嗚呼。", True),
    # Weeks later, and no day of the month.
    ("三月甲寅帝崩正平元年六月戊辰薨辛卯葬于金陵", False),
    ("三月甲寅帝崩正平元年六月戊辰薨丙戌葬于金陵", False),
  ],
)
def test_a_day_belongs_to_the_whole_date_right_before_it(line, is_led):
  sections = chronicle_dating.read_all_sections(
    records_of([line]), chronicle_input.load_reigns("北魏")
  )
  statements = sections[-1].statements
  assert (("year", "正平", 1) in statements) == is_led
  assert (("month", 6) in statements) == is_led


def test_a_relative_year_after_a_birth_is_read():
  line = "世宗太和七年閏四月生於平城明年秋七月丙申行幸"
  assert read_heads(line, "北魏")[-1][0] == "明年秋七月丙申"
