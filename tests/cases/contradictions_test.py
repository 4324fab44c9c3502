"""Contradictions of printed dates are said; feasts are days."""

import functools

import pytest

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dated_sections,
)
from tests.dating.chronicles import records_of


def date_lines(*lines, reigns="明"):
  records = records_of(list(lines), [])
  dates = chronicle_dating.date_records(records, load_reigns(reigns))
  return dated_sections.make_rows(dates)


load_reigns = functools.cache(chronicle_input.load_reigns)


@pytest.mark.parametrize(
  ("line", "contradicted"),
  [
    ("洪武三年五月己未朔，大雨。", "first day 己未"),
    # 癸巳 is a day of the month but not its first.
    ("洪武三年五月癸巳朔，大雨。", "first day 癸巳"),
    ("洪武三年六月戊午晦，大雨。", "last day 戊午"),
    ("洪武三年六月初九日癸巳，地震。", "day 9 癸巳"),
    ("洪武三年六月初九日，丁卯，地震。", "day 9 丁卯"),
    ("洪武三年六月晦日丁卯，地震。", "day -1 丁卯"),
    ("洪武六年正月三十二日，旱。", "month day 32"),
    ("洪武六年三月三十一日，旱。", "month day 31"),
    ("洪武五年十三月，雪。", "month 13"),
    ("洪武五年春十四月，雪。", "month 14"),
    ("洪武五年閏十三月，雪。", "month 13"),
    ("洪武五年二十一月，雪。", "month 21"),
    ("十三月，雪。", "month 13"),
    ("十四月甲子，雪。", "month 14"),
    ("閏十三月，雪。", "month 13"),
    # What fits, and lengths.
    ("十三月不雨。", None),
    ("三月，雪。", None),
    ("洪武三年六月戊午朔，大雨。", None),
    ("洪武三年六月初九日丙寅，地震。", None),
    ("洪武五年二月，十三月不雨。", None),
    ("洪武五年二月，居三十二日而還。", None),
  ],
)
def test_contradictions_within_a_date_are_said(line, contradicted):
  (row, *_) = date_lines(line, "洪武七年正月，雪。")
  assert row.contradicted == ((contradicted,) if contradicted else ())


def test_a_number_and_a_pair_that_differ_leave_the_day_open():
  (row,) = date_lines("洪武三年六月初九日丁卯，地震。")
  first = row.dates.first_julian_day
  assert (row.dates.julian_day, row.dates.day_of_month) == (first + 1, 10)
  assert row.dates.last_julian_day == first + 1


def test_a_year_beside_the_pair_of_the_next_is_less_sure():
  doubtful, plain = (
    date_lines(f"洪武八年{pair}二月，雪。", "洪武九年三月，雪。")[0]
    for pair in ("丙辰", "乙卯")
  )
  assert doubtful.contradicted == ("year 丙辰",)
  assert not plain.contradicted
  assert doubtful.months.probability < 0.98 < plain.months.probability


@pytest.mark.parametrize(
  ("date", "month", "day"),
  [
    ("洪武八年二月念四日", 2, 24),
    ("洪武八年五月端午", 5, 5),
    ("洪武八年端午日", 5, 5),
    ("洪武八年中秋", 8, 15),
    ("洪武八年重陽", 9, 9),
    ("洪武八年，上元", 1, 15),
    ("洪武八年除夕", 12, 30),
    ("中秋夜", 8, 15),
    ("重陽", 9, 9),
    # A place and a palace.
    ("洪武八年十月，上元縣民", 10, None),
    ("洪武八年十月，重陽宮成", 10, None),
  ],
)
def test_feasts_are_days(date, month, day):
  *_, row = date_lines("洪武八年正月，雪。", f"{date}，宴群臣。")
  assert (row.months.month.month, row.dates.day_of_month) == (month, day)
