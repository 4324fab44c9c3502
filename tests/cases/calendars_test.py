"""Cases of calendars: years, months and first days as books print them."""

import datetime
import importlib.util
import pathlib

import numpy as np
import pytest

from ctd_jax.chronology import (
  calendar_tables,
  era_calendars,
  mentions,
  sexagenary,
)
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating, dated_sections
from ctd_jax.index.question_calendar import CalendarMonths
from ctd_jax.texts.works import Entry, Place


def find_first_day(calendar, name, year, month):
  """Returns the Gregorian date of the first day of a month."""
  found = era_calendars.load_calendar(calendar).find_months(name, year, month)
  day = int(era_calendars.load_calendar(calendar).first_days[found[0].month])
  return sexagenary.format_date(sexagenary.to_gregorian_dates(day))


@pytest.mark.parametrize(
  ("calendar", "name", "year", "month", "first_day"),
  [
    # The months of 民國 are Gregorian, those of 農曆 lunar.
    ("zh", "民國", 26, 7, "1937-07-01"),
    ("zh", "中華民國", 1, 1, "1912-01-01"),
    ("民國", "民國", 189, 12, "2100-12-01"),
    ("zh", "農曆", 26, 6, "1937-07-08"),
    ("zh", "農曆", 189, 1, "2100-02-09"),
    ("zh", "康德", 1, 3, "1934-03-01"),
    ("滿洲國", "大同", 2, 1, "1933-01-01"),
    # 明治五年 had two days of a twelfth month.
    ("ja", "明治", 5, 12, "1872-12-30"),
    ("ja", "明治", 6, 1, "1873-01-01"),
    ("ja", "大正", 12, 9, "1923-09-01"),
    ("ja", "昭和", 64, 1, "1989-01-01"),
    ("ja", "平成", 31, 4, "2019-04-01"),
    ("ja", "令和", 1, 5, "2019-05-01"),
    ("ko", "建陽", 1, 1, "1896-01-01"),
    ("ko", "光武", 9, 11, "1905-11-01"),
    # 日本書紀 counts 天武 from 672.
    ("日本", "天武天皇", 1, 6, "0672-07-04"),
    ("日本", "天武天皇", 13, 10, "0684-11-16"),
    ("日本", "持統天皇", 1, 1, "0687-02-21"),
    ("ko", "廣開土王", 2, 8, "0393-09-23"),
    ("高句麗", "長壽王", 79, 12, "0492-01-16"),
    ("vi", "順天", 2, 1, "1011-02-12"),
    ("vi", "天資寳祐", 1, 1, "1202-02-02"),
    ("vi", "越黎洪德", 28, 1, "1497-02-11"),
    ("vi", "越阮保大", 1, 5, "1926-06-10"),
  ],
)
def test_a_month_begins_on_the_day_of_its_calendar(
  calendar, name, year, month, first_day
):
  assert find_first_day(calendar, name, year, month) == first_day


@pytest.mark.parametrize(
  ("calendar", "name", "year", "month", "days"),
  [
    # The reform of 237 put every month one ahead (三國志 3).
    ("曹魏", "景初", 1, 5, "己巳 己丑"),
    ("曹魏", "景初", 1, 6, "戊申 己亥"),
    ("曹魏", "景初", 1, 7, "丁卯 辛卯"),
    ("曹魏", "景初", 1, 9, "庚辰"),
    ("曹魏", "景初", 1, 10, "丁未 癸丑 乙卯"),
    ("曹魏", "景初", 1, 12, "壬子 丁巳"),
    ("曹魏", "景初", 2, 4, "庚子 壬寅"),
    ("曹魏", "景初", 2, 12, "乙丑 辛巳"),
    ("曹魏", "景初", 3, 1, "丁亥"),
    # The years of 690-700 began with 正月, 臘月, 一月 (舊唐書 6).
    ("唐", "天授", 1, 9, "壬午"),
    ("唐", "長壽", 2, 12, "癸亥"),
    ("唐", "證聖", 1, 11, "戊子 丙申 庚子"),
    ("唐", "久視", 1, 10, "甲寅"),
    # 761-762 had months of their branches (舊唐書 10).
    ("唐", "寶應", 1, 3, "己酉"),
    ("唐", "寶應", 1, 4, "甲寅 丁卯 己巳"),
  ],
)
def test_days_are_in_the_months_that_histories_print(
  calendar, name, year, month, days
):
  months = era_calendars.load_calendar(calendar)
  found = [
    found.month
    for found in months.find_months(name, year)
    if months.months[found.month] == month and not months.is_leap[found.month]
  ]
  for day in days.split():
    index = sexagenary.parse_cyclic_index(day)
    assert any(months.find_day(m, index) for m in found), day


@pytest.mark.parametrize(
  ("name", "year", "leap_month"),
  [
    ("永承", 5, 10),
    ("延久", 1, 10),
    ("大治", 4, 7),
    ("長寛", 2, 10),
    ("天平宝字", 6, 12),
  ],
)
def test_leap_months_of_japan_are_its_own(name, year, leap_month):
  """China had each of them a month later."""
  calendar = era_calendars.load_calendar("日本")
  (found,) = {m.month for m in calendar.find_months(name, year, leap=True)}
  assert calendar.months[found] == leap_month


@pytest.mark.parametrize(
  ("polity", "printed", "era"),
  [
    ("唐", "太和", "大和"),
    ("唐", "大歷", "大曆"),
    ("唐", "寳應", "寶應"),
    ("明", "宏治", "弘治"),
    ("宋", "崇甯", "崇寧"),
    ("遼", "大康", "太康"),
    ("陳", "大建", "太建"),
    ("清", "同治", "同治"),
  ],
)
def test_an_era_is_found_as_editions_spell_it(polity, printed, era):
  calendar = era_calendars.load_calendar(polity)
  names = {calendar.eras[index].name for index in calendar.find_eras(printed)}
  assert names == {era}


def test_lunar_months_after_1911_are_those_of_almanacs():
  """New years and leap months of almanacs; 2033 has a leap eleventh month."""
  stream = calendar_tables.load_streams()["zhou_qing"]
  new_years = {
    int(stream.years[i]): sexagenary.format_date(
      sexagenary.to_gregorian_dates(stream.first_days[i])
    )
    for i in np.flatnonzero(stream.months == 1)
  }
  assert new_years[1949] == "1949-01-29"
  assert new_years[2000] == "2000-02-05"
  assert new_years[2024] == "2024-02-10"
  leap = {
    int(stream.years[i]): stream.months[i]
    for i in np.flatnonzero(stream.is_leap)
  }
  assert (leap[1984], leap[2020], leap[2033]) == (10, 4, 11)
  assert stream.years[-1] == 2100


def test_countries_whose_books_print_chinese_eras_have_them():
  for country in ("ko", "vi"):
    names = {
      era.polity.name for era in era_calendars.load_calendar(country).eras
    }
    assert {"宋", "明", "清", "唐", "武周", "西漢", "晉", "隋"} <= names
  names = {era.polity.name for era in era_calendars.load_calendar("唐").eras}
  assert names == {"唐", "武周"}


def date_lines(lines, reigns, years):
  """Dates lines and returns their first days in the Gregorian calendar.

  A part of the calendar makes the test quick.
  """
  calendar = calendar_lib.load_calendar(reigns)
  first, last = years
  calendar = calendar.take((calendar.years >= first) & (calendar.years <= last))
  records = [
    Entry(line, Place("a.txt", number)) for number, line in enumerate(lines, 1)
  ]
  dates = chronicle_dating.date_records(records, calendar)
  return [
    dated_sections.format_gregorian_day(days.not_before) for days in dates.days
  ]


@pytest.mark.slow  # the decoder is compiled
@pytest.mark.parametrize(
  ("reigns", "years", "lines"),
  [
    (
      "民國",
      (1935, 1950),
      {
        "民國二十六年七月七日，夜，砲聲。": "1937-07-07",
        "農曆六月十五日，祭。": "1937-07-22",
        "民國二十六年農曆八月初一日，祭。": "1937-09-05",
        "民國二十六年九月十日，雨。": "1937-09-10",
        "民國二十六年舊曆臘月八日，祭。": "1938-01-09",
        "中華民國三十八年十月一日，會。": "1949-10-01",
      },
    ),
    (
      "唐",
      (688, 763),
      {
        "載初元年正月，大赦。": "0689-12-21",
        "臘月，雪。": "0690-01-19",
        "一月戊子，封王。": "0690-02-27",
        "二月，策士。": "0690-03-19",
        "天授二年一月，地震。": "0691-02-07",
        "聖曆元年正月甲子朔，享明堂。": "0697-12-23",
        "寶應元年建卯月辛亥，大赦。": "0762-03-05",
        "建巳月甲寅，上崩。": "0762-05-07",
      },
    ),
  ],
  ids=["republic", "tang"],
)
def test_months_are_read_by_the_names_they_had(reigns, years, lines):
  assert date_lines(lines, reigns, years) == list(lines.values())


@pytest.mark.parametrize(
  ("text", "month"),
  [
    ("天授二年正月", 11),
    ("天授二年臘月", 12),
    ("天授二年一月", 1),
    ("開元二年正月", 1),
    ("開元二年一月", 1),
  ],
)
def test_a_question_for_a_month_by_its_name(text, month):
  calendar = calendar_lib.load_calendar("唐")
  months = CalendarMonths(calendar)
  (mention,) = mentions.find_mentions(text, months).mentions
  (reign,) = mention.reigns
  found = mentions._find_regnal_months(reign, mention, mention, text, months)
  assert found.first == found.last
  assert calendar.months[found.first] == month


# 文中 began in the fourth month, as CLDR and when_exe say; no day is known.
# 明治 is counted from the day it was declared, not from the new year before.
_DIFFERENT = {"文中", "明治"}


@pytest.mark.skipif(
  importlib.util.find_spec("japanera") is None, reason="needs japanera"
)
def test_eras_of_japan_begin_as_in_japanera():
  folder = pathlib.Path(importlib.util.find_spec("japanera").origin).parent
  # The data alone: the package needs another one.
  spec = importlib.util.spec_from_file_location(
    "era_data", folder / "era_data.py"
  )
  data = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(data)
  first_days = {}
  for era in era_calendars.load_calendar("日本").eras:
    for name in map(fold_script, (era.name, *era.spellings)):
      first_days.setdefault(name, set()).add(era.first_day)
  rows = [
    row
    for name, table in vars(data).items()
    if name.startswith("_ERA_DATA") and "COMMON" not in name
    for row in table
    if row[0] and row[0] not in _DIFFERENT
  ]
  assert len(rows) > 240
  to_julian_day = datetime.date(2000, 1, 1).toordinal() - 2451545
  assert {
    name: day
    for name, _, day, *_ in rows
    if day.toordinal() - to_julian_day not in first_days[fold_script(name)]
  } == {}
