"""Calendars of lunations as the readers of questions find their months."""

import pytest

from ctd_jax.chronology import mentions, questions, reigns
from ctd_jax.chronology.numerals import DateError
from ctd_jax.chronology.query_calendar import TimelineMonths
from ctd_jax.chronology.reigns import Reign, Timeline
from ctd_jax.dating.chronicle import calendar
from ctd_jax.index import calendars
from ctd_jax.index.question_calendar import CalendarMonths
from tests.chronology import query_windows_test

LU = reigns.load_timeline("lu_release")


@pytest.fixture(scope="module")
def all_months():
  """Every calendar of the tables, parallel states and countries."""
  return CalendarMonths(calendar.load_calendar("秦,漢,晉,唐,日本"))


def resolve(text, months):
  search = mentions.find_mentions(text, months)
  return questions.resolve_mentions(text, search, months)


def find(text, months):
  """Returns the names of the first and the last month that a text asks for."""
  search = mentions.find_mentions(text, months)
  reigns = [number - 1 for m in search.mentions for number in m.reigns]
  return [
    calendars.name_month(months.calendar, month, reigns)
    for month in resolve(text, months)
  ]


def test_windows_are_the_same_months_on_either_calendar():
  timeline_months = TimelineMonths(LU)
  months = CalendarMonths(calendar.make_calendar(LU))
  for text in query_windows_test.ALL:
    assert resolve(text, months) == resolve(text, timeline_months), text


@pytest.mark.parametrize(
  ("text", "first", "last"),
  [
    ("永嘉五年六月", "晉懷帝永嘉五年六月", None),
    ("永嘉五年六月之前三個月", "晉懷帝永嘉五年三月", "晉懷帝永嘉五年五月"),
    # A year begins with the tenth month, and ends with the leap ninth.
    ("秦始皇二十六年", "秦始皇二十六年十月", "秦始皇二十六年閏九月"),
    ("秦始皇二十六年冬", "秦始皇二十六年十月", "秦始皇二十六年十二月"),
    ("秦始皇二十六年上半年", "秦始皇二十六年十月", "秦始皇二十六年三月"),
    ("唐貞觀元年閏三月", "唐太宗貞觀元年閏三月", None),
    ("唐太宗貞觀元年閏月", "唐太宗貞觀元年閏三月", None),
    # The leap month is of the season and of the half that it stands in.
    ("唐貞觀元年春", "唐太宗貞觀元年正月", "唐太宗貞觀元年閏三月"),
    ("唐貞觀元年上半年", "唐太宗貞觀元年正月", "唐太宗貞觀元年六月"),
    ("唐貞觀元年三月之後兩個月", "唐太宗貞觀元年閏三月", "唐太宗貞觀元年四月"),
    ("公元627年閏三月", "唐太宗貞觀元年閏三月", None),
  ],
)
def test_dates_of_lunations(all_months, text, first, last):
  assert find(text, all_months) == [first, last or first]


def test_a_year_is_all_of_it_where_its_era_began_later(all_months):
  # 永平 began with the year, 元康 in the third month.
  first, last = resolve("晉惠帝元康元年", all_months)
  assert last - first == 11
  assert first == resolve("晉惠帝永平元年正月", all_months).first


def test_years_are_counted_on_in_the_polity(all_months):
  months = ["晉愍帝建興二年正月", "晉愍帝建興二年十二月"]
  assert find("永嘉七年的次年", all_months) == months
  first, last = resolve("永嘉七年十月至次年三月", all_months)
  assert last == resolve("晉愍帝建興二年三月", all_months).last
  first, _ = find("日本明治元年的前一年", all_months)
  assert first == "日本孝明天皇慶応三年正月"


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("唐貞觀元年閏四月", "no such month"),
    ("唐貞觀二年閏月", "has no leap month"),
    ("唐貞觀九十年三月", "has only 23 years"),
    ("722 BCE", "722 BCE is not in the calendar.* mean 722 CE"),
    ("公元前822年三月", "246 BCE to 8 CE, .* 593 CE to 2100 CE"),
  ],
)
def test_what_the_calendar_lacks(all_months, text, message):
  with pytest.raises(DateError, match=message):
    find(text, all_months)


def test_gaps_of_a_table_are_no_years():
  timeline = Timeline("gap", (Reign("甲", "", 300, 2), Reign("乙", "", 310, 2)))
  months = CalendarMonths(calendar.make_calendar(timeline))
  with pytest.raises(DateError, match="305 CE"):
    find("305 CE", months)
  assert find("乙元年的前一年", months)[0] == "甲二年正月"
