"""Printed eras outweigh headings; quoted dates end with their record."""

import pytest

from ctd_jax.dating.chronicle import calendar, chronicle_dating
from tests.dating.chronicles import records_of


def mark(lines, headings, reigns):
  records = records_of(lines, headings)
  sections = chronicle_dating.read_all_sections(
    records, calendar.load_calendar(reigns)
  )
  return [section.is_of_other_time for section in sections]


@pytest.mark.parametrize(
  ("heading", "reigns", "era"),
  [
    ("元帝紀第九", "西漢", "初元"),
    ("成帝紀第十", "西漢", "建始"),
    ("明帝紀第二", "東漢", "永平"),
    ("明帝紀第三", "曹魏", "太和"),
    # No ruler of the calendar: its printed era decides.
    ("元紀", "西漢", "初元"),
  ],
)
def test_printed_eras_outweigh_a_heading(heading, reigns, era):
  lines = ["雨。", f"{era}元年春正月，雨。", "三月，雪。", "二年春正月，雨。"]
  assert not any(mark(lines, [heading], reigns))


def test_a_quoted_date_of_another_time_ends_with_its_record():
  lines = [
    "慶曆三年春正月，雨。",
    "甲子，臣言前事。唐開元二年六月甲子，制曰可。",
    "丙寅，雪。",
  ]
  marks = mark(lines, [], "宋")
  assert not marks[0]
  assert not marks[-1]


# A text of days, one each ten, whose entries never print a year.
_DAYS = "甲子甲戌甲申甲午甲辰甲寅"


def _list_days(count):
  days = [_DAYS[i : i + 2] for i in range(0, len(_DAYS), 2)]
  return [f"{days[n % 6]}詔賜近臣錢各有差" for n in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
  "quotation",
  [
    "按真宗初有天下咸平元年春三月祥畢出禱雨",
    "太祖既平諸國建隆元年春正月始祀南郊",
    "或引故事以對謂景德四年秋八月嘗罷此官",
    "仁宗時有之皇祐二年秋九月大饗明堂",
  ],
)
def test_quoted_years_move_no_later_entry(quotation):
  lines = ["熙寧四年春正月甲寅賜近臣錢", *_list_days(60)]
  lines[30] += quotation
  records = records_of(lines)
  dates = chronicle_dating.date_records(records, calendar.load_calendar("宋"))
  years = dates.calendar.years
  last = int(dates.months[-1, 0])
  assert last < len(years)
  assert 1071 <= years[last] <= 1074
