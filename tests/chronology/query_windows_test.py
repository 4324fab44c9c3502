"""Windows of time that queries ask for."""

import itertools
import random

import pytest

from ctd_jax.chronology import dates, numerals, questions, reigns
from ctd_jax.chronology.numerals import DateError
from ctd_jax.chronology.reigns import Interval, Reign, TimeKey, Timeline

LU = reigns.load_timeline("lu_release")

POINTS = {
  "魯成公六年二月，魯國有何記事？": "8-6-2..8-6-2",
  "查詢《春秋》，魯隱公元年十二月這一月有什麼重要事件？": "1-1-12..1-1-12",
  "魯隱公三年五月當月有無史事？": "1-3-5..1-3-5",
  "魯隱公三年五月這個月，經傳是否有記載？": "1-3-5..1-3-5",
  "魯隱公三年五月，魯國先後發生了什麼": "1-3-5..1-3-5",
  "春秋魯隱公三年五月，經文與三傳記何事": "1-3-5..1-3-5",
  "魯隱公三年春王正月": "1-3-1..1-3-1",
  "魯隱公三年五月的次月": "1-3-6..1-3-6",
  "魯隱公三年五月之前一個月": "1-3-4..1-3-4",
  "魯隱公三年五月的下個月": "1-3-6..1-3-6",
  "魯隱公三年五月的上一個月": "1-3-4..1-3-4",
}

MONTHS_BEFORE = {
  "請檢索魯成公七年正月之前半年內，《春秋》中所有相關記事。": "8-6-7..8-6-12",
  "魯隱公二年三月以前一年內，魯國有哪些記事": "1-1-3..1-2-2",
  "隱公三年五月之前三月": "1-3-2..1-3-4",
  "從魯隱公三年五月上溯半年，有哪些記事": "1-2-11..1-3-4",
  "魯隱公三年五月往前推算半年": "1-2-11..1-3-4",
  "截至魯隱公三年五月之前的三個月": "1-3-2..1-3-4",
  "早於魯隱公三年五月的三個月": "1-3-2..1-3-4",
  "魯隱公三年五月之前的十二個月內": "1-2-5..1-3-4",
  "魯隱公三年五月之前兩年": "1-1-5..1-3-4",
  "魯桓公元年三月前四個月": "1-11-11..2-1-2",
}

MONTHS_AFTER = {
  "魯隱公二年三月之後三個月內有何大事？": "1-2-4..1-2-6",
  "魯隱公三年五月之後一年半": "1-3-6..1-4-11",
  "魯隱公三年五月之後一季": "1-3-6..1-3-8",
  "在魯隱公三年五月之後，接下來的半年裡": "1-3-6..1-3-11",
  "魯隱公三年五月，往後三個月內": "1-3-6..1-3-8",
  "晚於魯隱公三年五月三個月之內": "1-3-6..1-3-8",
  "魯莊公三十有二年十有二月之後三個月": "4-1-1..4-1-3",
  "魯隱公三年五月之後三個月（不含當月）": "1-3-6..1-3-8",
}

INCLUSIVE = {
  "魯隱公三年五月之前三個月（含當月）": "1-3-3..1-3-5",
  "魯隱公三年五月（含）之前三個月": "1-3-3..1-3-5",
  "含魯隱公三年五月在內，往前推三個月": "1-3-3..1-3-5",
  "自魯隱公三年五月起三個月內": "1-3-5..1-3-7",
  "從魯隱公三年五月算起，往後三個月": "1-3-5..1-3-7",
  "截至魯隱公三年五月的三個月裡": "1-3-3..1-3-5",
  "以魯隱公三年五月為起點的半年": "1-3-5..1-3-10",
  "魯隱公三年五月以來半年": "1-3-5..1-3-10",
  "魯隱公三年五月及其後三個月": "1-3-5..1-3-8",
  "魯隱公三年五月及此前三個月": "1-3-2..1-3-5",
}

AROUND = {
  "魯隱公二年三月前後三個月": "1-1-12..1-2-6",
  "以魯隱公二年三月為中心，前後各兩個月": "1-2-1..1-2-5",
  "魯莊公8年3月前后2个月": "3-8-1..3-8-5",
  "魯隱公三年五月前後共五個月": "1-3-3..1-3-7",
  "魯隱公三年五月前三個月至後兩個月": "1-3-2..1-3-7",
  "魯隱公三年五月前後半年": "1-2-11..1-3-11",
  "魯隱公三年五月前後，發生何事": "1-3-4..1-3-6",
  "魯莊公三十二年十月前後三個月": "3-32-7..4-1-1",
  "魯隱公六年前後一年": "1-5-1..1-7-12",
}

RANGES = {
  "自魯隱公元年正月至三月": "1-1-1..1-1-3",
  "從魯隱公元年正月到魯隱公二年三月之間有哪些事": "1-1-1..1-2-3",
  "魯隱公元年正月起至二年三月止": "1-1-1..1-2-3",
  "魯隱公元年正月迄同年五月": "1-1-1..1-1-5",
  "魯隱公十一年十月至次年三月": "1-11-10..2-1-3",
  "自魯隱公十一年十月至魯桓公元年二月": "1-11-10..2-1-2",
  "魯隱公三年五月與八月之間": "1-3-5..1-3-8",
  "介於魯隱公三年五月和魯隱公三年九月之間": "1-3-5..1-3-9",
  "魯隱公三年五月—八月": "1-3-5..1-3-8",
  "自魯隱公三年至五年": "1-3-1..1-5-12",
  "自魯隱公三年五月起，至同年年底": "1-3-5..1-3-12",
  "魯隱公三年夏至冬": "1-3-4..1-3-12",
  "魯隱公三年五月之後、魯隱公三年九月之前": "1-3-6..1-3-8",
  "魯隱公在位期間，自元年正月至三月": "1-1-1..1-1-3",
}

YEARS = {
  "魯隱公三年，魯國有何大事": "1-3-1..1-3-12",
  "魯隱公三年五月所在的那一年": "1-3-1..1-3-12",
  "魯隱公三年五月，同年還有何事": "1-3-1..1-3-12",
  "魯隱公三年五月是年之事": "1-3-1..1-3-12",
  "魯隱公三年一整年": "1-3-1..1-3-12",
  "魯隱公三年五月翌年有何記事": "1-4-1..1-4-12",
  "魯桓公元年五月的前一年有何事": "1-11-1..1-11-12",
  "魯桓公元年去年": "1-11-1..1-11-12",
  "魯隱公十一年後一年": "2-1-1..2-1-12",
  "魯隱公三年五月此後兩年": "1-4-1..1-5-12",
  "魯隱公三年之後兩年內": "1-4-1..1-5-12",
  "魯隱公四年五月前兩年的記事": "1-2-1..1-3-12",
  "魯隱公三年五月所在年份的前一年": "1-2-1..1-2-12",
  "魯隱公三年五月次年全年": "1-4-1..1-4-12",
  "魯隱公三年秋，魯國何事": "1-3-7..1-3-9",
  "魯隱公三年上半年": "1-3-1..1-3-6",
  "魯隱公三年下半年": "1-3-7..1-3-12",
}

OPEN_OR_CLIPPED = {
  "魯隱公三年五月以前": "1-1-1..1-3-4",
  "魯隱公三年五月後，魯國又有何事": "1-3-6..12-26-12",
  "魯哀公二十六年十月以來": "12-26-10..12-26-12",
  "截至魯隱公三年五月": "1-1-1..1-3-5",
  "魯隱公元年三月之前半年內": "1-1-1..1-1-2",
  "魯哀公二十六年十一月之後半年": "12-26-12..12-26-12",
  "魯隱公二年前三年": "1-1-1..1-1-12",
}

ALL = POINTS | MONTHS_BEFORE | MONTHS_AFTER | INCLUSIVE | AROUND | RANGES
ALL |= YEARS | OPEN_OR_CLIPPED


@pytest.mark.parametrize(("query", "months"), ALL.items())
def test_windows(query, months):
  assert str(questions.parse_interval(query, LU)) == months
  simplified = numerals.to_simplified(query)
  assert str(questions.parse_interval(simplified, LU)) == months


@pytest.mark.parametrize(
  ("query", "excerpt"),
  [
    ("有何大事？", "有何大事？"),
    ("隱公三十年五月有何事", "隱公三十年五月"),
    ("魯隱公三年五月之前數月", "數月"),
    ("魯隱公三年五月兩年後", "兩年後"),
    ("魯隱公元年正月之前半年內", "魯隱公元年正月"),
    ("魯哀公二十六年的次年", "魯哀公二十六年"),
    ("魯隱公三年五月至魯隱公三年正月", "魯隱公三年正月"),
    ("魯哀公二十六年五月至次年正月", "正月"),
    ("魯隱公元年正月、魯隱公二年正月、魯桓公元年正月", "魯桓公元年正月"),
    ("公元前822年有何大事", "公元前822年"),
    ("公元0年有何大事", "公元0年"),
  ],
)
def test_unreadable_windows_are_quoted(query, excerpt):
  with pytest.raises(DateError) as caught:
    questions.parse_interval(query, LU)
  assert excerpt.startswith(query[caught.value.position :][: len(excerpt)])
  assert excerpt[:4] in str(caught.value)


@pytest.mark.slow
def test_every_month_shifts_by_ordinals_and_excludes_itself():
  words = {1: "一個月", 3: "三個月", 6: "半年", 12: "一年", 18: "一年半"}
  last = len(LU) - 1
  for ordinal, (months, length) in itertools.product(
    range(0, len(LU), 7), words.items()
  ):
    date = dates.format_key(LU.key_at(ordinal), LU)
    expected = {
      f"{date}之前{length}內": (ordinal - months, ordinal - 1),
      f"{date}之後{length}內": (ordinal + 1, ordinal + months),
      f"{date}前後{length}": (ordinal - months, ordinal + months),
    }
    for query, (low, high) in expected.items():
      low, high = max(low, 0), min(high, last)
      if low <= high:
        interval = questions.parse_interval(query, LU)
        assert LU.interval_ordinals(interval) == (low, high), query


def test_every_range_of_two_dates():
  chance = random.Random(0)
  for _ in range(300):
    low, high = sorted(chance.sample(range(len(LU)), 2))
    start, end = LU.key_at(low), LU.key_at(high)
    first, second = (dates.format_key(key, LU) for key in (start, end))
    if (start.reign, start.year) == (end.reign, end.year):
      second = dates.format_key(end, LU, "month")
    elif start.reign == end.reign:
      second = dates.format_key(end, LU, "elided")
    for query in (f"自{first}至{second}，", f"{first}起至{second}止"):
      interval = questions.parse_interval(query, LU)
      assert interval == Interval(start, end), query


def test_every_year_and_its_neighbours():
  years = [
    (reign, year)
    for reign, row in enumerate(LU.reigns, start=1)
    for year in range(1, row.years + 1)
  ]
  for earlier, year, later in zip(years, years[1:], years[2:], strict=False):
    key = TimeKey(*year, 5)
    date = dates.format_key(key, LU)
    for words, target in (("前一年", earlier), ("全年", year), ("次年", later)):
      interval = questions.parse_interval(f"{date}的{words}有何記事", LU)
      assert interval == LU.year_interval(*target), date + words


def test_leap_months_belong_to_windows():
  timeline = Timeline(
    "leap", (Reign("隱公", "魯", -721, 3),), frozenset({(1, 2, 12)})
  )
  interval = questions.parse_interval("魯隱公三年正月之前兩個月", timeline)
  assert interval == Interval(TimeKey(1, 2, 12), TimeKey(1, 2, 12, True))
  interval = questions.parse_interval("魯隱公二年閏月", timeline)
  assert interval == Interval.single_month(TimeKey(1, 2, 12, True))
