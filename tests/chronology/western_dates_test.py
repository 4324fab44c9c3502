"""Dates of English and Latin annals, and of the common era in Chinese."""

import pytest

from ctd_jax.chronology import western_dates


def read(text):
  return [
    (text[date.start : date.end], date.year, date.month, date.day, date.season)
    for date in western_dates.find_western_dates(text)
  ]


@pytest.mark.parametrize(
  ("text", "span", "year"),
  [
    ("A.D. 787. This year came ships.", "A.D. 787", 787),
    ("AD 787", "AD 787", 787),
    ("787 CE", "787 CE", 787),
    ("An. 787. Here", "An. 787", 787),
    ("Anno Domini DCCLXXXVII the king", "Anno Domini DCCLXXXVII", 787),
    ("55 BC Caesar", "55 BC", -54),
    ("B.C. 55", "B.C. 55", -54),
    ("1 BCE", "1 BCE", 0),
    ("In the year of our Lord 787 he", "In the year of our Lord 787", 787),
    ("he came in 787 to Kent", "in 787", 787),
    ("公元787年，大水。", "公元787年", 787),
    ("西元前七二二年", "西元前七二二年", -721),
    ("西曆二十年", "西曆二十年", 20),
  ],
)
def test_years_are_astronomical(text, span, year):
  assert read(text) == [(span, year, None, None, None)]


@pytest.mark.parametrize(
  ("text", "span", "month", "day"),
  [
    ("on the 8th of June the moon", "the 8th of June", 6, 8),
    ("on June 8th", "June 8th", 6, 8),
    ("on 8 June", "8 June", 6, 8),
    ("the eighth day of June", "the eighth day of June", 6, 8),
    ("the twenty-first of August", "the twenty-first of August", 8, 21),
    ("on the sixth before the ides of June", None, 6, 8),
    ("8 Ides of June", None, 6, 6),
    ("viii Id. Jun.", None, 6, 6),
    ("viii. Kal. Jan.", None, 12, 25),
    ("3 Non. Maii", None, 5, 5),
    ("pridie Nonas Maii", None, 5, 6),
    ("the day before the Nones of May", None, 5, 6),
    ("the Ides of March", None, 3, 15),
    ("kalends of May", None, 5, 1),
    ("In the month of May he died", "In the month of May", 5, None),
    ("in March he died", "in March", 3, None),
    ("Mense Augusto obiit", "Mense Augusto", 8, None),
    ("March", "March", 3, None),
  ],
)
def test_months_and_days(text, span, month, day):
  assert read(text) == [
    (span or text.removeprefix("on "), None, month, day, None)
  ]


def test_a_date_holds_its_year():
  english = "the 14th of October 1066, June 8, 787; in the autumn of 787"
  assert [date[1:] for date in read(f"{english}; 公元787年6月8日")] == [
    (1066, 10, 14, None),
    (787, 6, 8, None),
    (787, None, None, 3),
    (787, 6, 8, None),
  ]


@pytest.mark.parametrize(
  ("text", "season"),
  [
    ("In the spring came a host", 1),
    ("this summer there was a drought", 2),
    ("In the same winter", 0),
  ],
)
def test_seasons(text, season):
  assert [date[1:] for date in read(text)] == [(None, None, None, season)]


@pytest.mark.parametrize(
  "text",
  [
    "You may go, and they march on.",
    "He came in 350 ships with 30 days of bread.",
    "King Henry V and Edward I",
    "a spring of water",
    "the 30th of February",
    "the 12th before the Nones of May",
    "Item quoque",
    "二年三月，大水。",
  ],
)
def test_what_is_no_date(text):
  assert read(text) == []


def test_roman_days_of_a_leap_year():
  count = western_dates.count_roman_day
  assert count("kalends", 6, 3) == (2, 24)
  assert count("kalends", 6, 3, is_leap_year=True) == (2, 25)
  assert count("kalends", 7, 3, is_leap_year=True) == (2, 23)
  assert count("kalends", 19, 1) == (12, 14)
  with pytest.raises(ValueError, match="no day 20 before the kalends"):
    count("kalends", 20, 1)


def test_roman_days_are_counted_back_without_a_gap():
  lengths = {"nones": 6, "ides": 8, "kalends": 19}
  for month in range(1, 13):
    days = []
    for mark, counts in lengths.items():
      for number in range(counts, 0, -1):
        try:
          days.append(western_dates.count_roman_day(mark, number, month))
        except ValueError:
          continue
    of_month = [day for of, day in days if of == month]
    assert of_month == [*range(2, of_month[-2] + 1), 1]
    before = [day for of, day in days if of != month]
    assert before == list(range(before[0], before[-1] + 1))
    assert before[-1] in (28, 30, 31)
