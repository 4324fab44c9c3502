"""What a reader of the dates is told first."""

import pytest

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating, dating_warnings
from tests.dating.chronicles import records_of


def test_eras_of_other_calendars_are_named_with_their_polity():
  jin = calendar_lib.load_calendar("晉")
  lines = ["泰始二年春，大水。", "明洪武三年正月，地震。", "洪武四年，雨。"]
  (warning,) = dating_warnings.list_unknown_eras(records_of(lines), [], jin)
  assert str(warning).startswith(
    "洪武 is not in the calendar 晉 (2 times, first chronicle.txt:2): an era of"
  )
  assert "明 1368 CE to" in str(warning)
  assert "--reigns" in str(warning)


def test_an_era_of_no_table_is_named_with_the_nearest():
  song = calendar_lib.load_calendar("宋")
  (warning,) = dating_warnings.list_unknown_eras(
    records_of(["紹典三年春正月，大水。"]), [], song
  )
  assert "it is in no table; the nearest are" in str(warning)
  assert "紹興" in str(warning)


def warn(lines, calendar):
  records = records_of(lines)
  all_sections = chronicle_dating.read_all_sections(records, calendar)
  dates = chronicle_dating.date_sections(records, all_sections, calendar)
  return dating_warnings.list_warnings(dates, calendar)


def list_missing(lines, calendar):
  records = records_of(lines)
  return dating_warnings.list_missing_dates(
    chronicle_dating.read_all_sections(records, calendar), records, calendar
  )


def test_years_after_the_last_of_an_era_are_named():
  lines = [
    "明治四十五年正月、雨。",
    "明治四十六年一月、雨。",
    "明治四十六年二月、雪。",
  ]
  (warning,) = list_missing(lines, calendar_lib.load_calendar("日本"))
  assert str(warning) == (
    "明治46年 is not in the calendar 日本, which covers 明治1年 to 45年 (2 "
    "times, first chronicle.txt:2)"
  )


def test_months_after_a_calendar_ends_are_named():
  lines = ["天紀四年三月，晉人入。", "天紀四年冬十一月，雨。"]
  (warning,) = list_missing(lines, calendar_lib.load_calendar("孫吳"))
  assert str(warning).startswith(
    "天紀4年11月 is not in the calendar 孫吳, which has"
  )
  assert "months 1, 2, 3, 4 of that year" in str(warning)


@pytest.mark.parametrize(
  ("polity", "noun", "dates"),
  [
    ("晉", "eras", "洪武三 永樂三 宣德三 景泰三 成化三 弘治三 嘉靖三"),
    ("日本", "dates", "慶応六 慶応七 慶応八 慶応九 慶応十 慶応十一 慶応十二"),
  ],
)
def test_many_eras_and_dates_are_counted(polity, noun, dates):
  records = records_of(f"{date}年春、大水。" for date in dates.split())
  calendar = calendar_lib.load_calendar(polity)
  sections = chronicle_dating.read_all_sections(records, calendar)
  warnings = dating_warnings.list_lacking(records, sections, calendar)
  assert len(warnings) == 6
  assert str(warnings[-1]) == f"and 2 more {noun} that are not in it"


def test_a_text_that_is_hardly_dated_is_said_to_be():
  calendar = calendar_lib.load_calendar("西晉")
  for lines, is_doubtful in (
    (["泰始元年十二月，大水。", "泰始二年正月，雨。"], False),
    (["春，大水。", "秋，雨。"], True),
  ):
    warnings = warn(lines, calendar)
    assert bool(warnings) == is_doubtful
  assert str(warnings[0]).startswith("100.0% of sections have no month with a")


def test_years_of_the_common_era_ask_for_its_calendar():
  (advice,) = dating_warnings.suggest_common_era(
    records_of(["A.D. 787. Ships came."])
  )
  assert "--reigns=CE" in str(advice)
  assert dating_warnings.suggest_common_era(records_of(["大水。"])) == []


def test_a_text_under_another_calendar_is_doubted():
  calendar = calendar_lib.load_calendar("西晉")
  right = ["泰始元年春正月，大水。", "二月，地震。", "三月，雨。"]
  assert warn(right, calendar) == []
  # Days of another century: hardly one fits the month that is printed.
  wrong = [
    f"泰始{year}年{month}月{day}，大水。"
    for year, month, day in zip(
      "二三四五六七八九", "三五七九三五七九", ["甲子", "庚午"] * 4, strict=True
    )
  ]
  (warning,) = warn(wrong, calendar)
  assert "of the printed dates are not in the result" in str(warning)
