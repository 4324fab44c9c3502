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
