"""What a reader of the dates is told first."""

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  contradictions,
  dating_warnings,
  month_calendar,
  section_days,
)
from ctd_jax.texts.works import Entry, Place


def records_of(lines):
  return [
    Entry(line, Place("chronicle.txt", number))
    for number, line in enumerate(lines, 1)
  ]


def test_eras_of_other_calendars_are_named_with_their_polity():
  jin = month_calendar.load_calendar("晉")
  lines = ["泰始二年春，大水。", "明洪武三年正月，地震。", "洪武四年，雨。"]
  (warning,) = dating_warnings.list_unknown_eras(records_of(lines), jin)
  assert warning.startswith(
    "洪武 is not in the calendar 晉 (2 times, first chronicle.txt:2): an era of"
  )
  assert "明 1368 CE to" in warning
  assert "--reigns" in warning


def test_an_era_of_no_table_is_named_with_the_nearest():
  song = month_calendar.load_calendar("宋")
  (warning,) = dating_warnings.list_unknown_eras(
    records_of(["紹典三年春正月，大水。"]), song
  )
  assert "no table has it; the nearest are" in warning
  assert "紹興" in warning


def test_many_unknown_eras_are_counted():
  eras = ("洪武", "永樂", "宣德", "景泰", "成化", "弘治", "嘉靖")
  lines = [f"{era}三年春，大水。" for era in eras]
  warnings = dating_warnings.list_unknown_eras(
    records_of(lines), month_calendar.load_calendar("晉")
  )
  assert len(warnings) == 6
  assert warnings[-1] == "and 2 more eras that it lacks"


def warn(lines, calendar):
  records = records_of(lines)
  all_sections = chronicle_dating.read_all_sections(records, calendar)
  dates = chronicle_dating.date_sections(records, all_sections, calendar)
  days = section_days.locate_sections(dates)
  return dating_warnings.warn_of_contradictions(
    contradictions.find_contradictions(dates, days), all_sections
  )


def test_a_text_under_another_calendar_is_doubted():
  calendar = month_calendar.load_calendar("西晉")
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
  assert "of what is printed of dates is not in the result" in warning
