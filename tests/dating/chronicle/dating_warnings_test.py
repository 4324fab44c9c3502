"""What a reader of the dates is told first."""

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import checks, chronicle_dating
from ctd_jax.texts.works import Entry, Place


def records_of(lines):
  return [
    Entry(line, Place("chronicle.txt", number))
    for number, line in enumerate(lines, 1)
  ]


def test_eras_of_other_calendars_are_named_with_their_polity():
  jin = calendar_lib.load_calendar("晉")
  lines = ["泰始二年春，大水。", "明洪武三年正月，地震。", "洪武四年，雨。"]
  (warning,) = checks.list_unknown_eras(records_of(lines), jin)
  assert str(warning).startswith(
    "洪武 is not in the calendar 晉 (2 times, first chronicle.txt:2): an era of"
  )
  assert "明 1368 CE to" in str(warning)
  assert "--reigns" in str(warning)


def test_an_era_of_no_table_is_named_with_the_nearest():
  song = calendar_lib.load_calendar("宋")
  (warning,) = checks.list_unknown_eras(
    records_of(["紹典三年春正月，大水。"]), song
  )
  assert "no table has it; the nearest are" in str(warning)
  assert "紹興" in str(warning)


def test_many_unknown_eras_are_counted():
  eras = ("洪武", "永樂", "宣德", "景泰", "成化", "弘治", "嘉靖")
  lines = [f"{era}三年春，大水。" for era in eras]
  warnings = checks.list_unknown_eras(
    records_of(lines), calendar_lib.load_calendar("晉")
  )
  assert len(warnings) == 6
  assert str(warnings[-1]) == "and 2 more eras that it lacks"


def warn(lines, calendar):
  records = records_of(lines)
  all_sections = chronicle_dating.read_all_sections(records, calendar)
  dates = chronicle_dating.date_sections(records, all_sections, calendar)
  return checks.list_warnings(dates, calendar)


def list_missing(lines, calendar):
  records = records_of(lines)
  return checks.list_missing_dates(
    chronicle_dating.read_all_sections(records, calendar), records, calendar
  )


def test_years_after_the_last_of_an_era_are_named():
  lines = ["明治五年正月、雨。", "明治六年一月、雨。", "明治六年二月、雪。"]
  warnings = list_missing(lines, calendar_lib.load_calendar("日本"))
  assert len(warnings) == 1
  assert str(warnings[0]) == (
    "明治6年 is not in the calendar 日本, which has 明治1年 to 5年 (2 times, "
    "first chronicle.txt:2)"
  )


def test_months_after_a_calendar_ends_are_named():
  lines = ["天紀四年三月，晉人入。", "天紀四年冬十一月，雨。"]
  (warning,) = list_missing(lines, calendar_lib.load_calendar("孫吳"))
  assert str(warning).startswith(
    "天紀4年11月 is not in the calendar 孫吳, which has"
  )
  assert "months 1, 2, 3, 4 of that year" in str(warning)


def test_many_missing_dates_are_counted():
  lines = [f"明治{year}年、雨。" for year in "六七八九十"]
  lines += ["明治十一年、雨。", "明治十二年、雨。"]
  warnings = list_missing(lines, calendar_lib.load_calendar("日本"))
  assert len(warnings) == 6
  assert str(warnings[-1]) == "and 2 more dates that it lacks"


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
  (advice,) = checks.suggest_common_era(records_of(["A.D. 787. Ships came."]))
  assert "--reigns=CE" in str(advice)
  assert checks.suggest_common_era(records_of(["大水。"])) == []


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
  assert "of what is printed of dates is not in the result" in str(warning)
