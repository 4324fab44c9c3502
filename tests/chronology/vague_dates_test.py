"""Vague dates of questions: the months that they admit, and what is left."""

import pytest

from ctd_jax.chronology import questions, reigns
from ctd_jax.chronology.reigns import Reign, Timeline

LU = reigns.load_timeline("lu")


def read(text):
  date = questions.read_vague_date(text, LU)
  months = None
  if date.months is not None:
    months = [LU.key_at(row) for row in date.months.nonzero()[0].tolist()]
  return months, date.rest


@pytest.mark.parametrize(
  ("date", "rest", "after", "count", "bounds"),
  [
    ("隱公時", "   ", "，鄭伯克段于鄢在何時？", 132, {"reign": [1]}),
    ("哪一年的夏天", "哪一年的  ", "克段？", 765, {"month": [4, 5, 6]}),
    ("哪一年的七月", "哪一年的  ", "會于鄧？", 255, {"month": [7]}),
    (
      *("隐公年间，秋七月", "    ，   ", "，天王使宰咺来是哪年？", 11),
      {"reign": [1], "month": [7]},
    ),
    ("三年", "  ", "，葬宋穆公，何時？", 132, {"year": [3]}),
    # The day stays: a record may print it.
    ("五月癸未", "  癸未", "，葬宋穆公，何年？", 255, {"month": [5]}),
  ],
)
def test_reign_year_season_and_month_narrow_the_months(
  date, rest, after, count, bounds
):
  months, left = read(date + after)
  assert left == rest + after
  assert len(months) == count
  assert months == [
    key
    for key in LU.months
    if all(getattr(key, name) in values for name, values in bounds.items())
  ]


@pytest.mark.parametrize(
  "text",
  [
    "衛桓公何時葬？",  # no duke of Lu
    "衛桓公時何年葬？",
    "三月而葬在何時？",  # a length of time
    "桓公會齊侯在何時？",  # a duke who acts
    "",
  ],
)
def test_names_and_lengths_of_time_are_no_date(text):
  assert read(text) == (None, text)


def test_a_date_that_contradicts_the_first_is_left_in_the_text():
  months, rest = read("五月，甲。七月，乙，何年？")
  assert {key.month for key in months} == {5}
  assert "七月" in rest


def test_a_name_of_several_reigns_admits_all_of_them():
  timeline = Timeline(
    "two", (Reign("泰始", "晉武帝", 265, 10), Reign("泰始", "宋明帝", 465, 7))
  )
  of_year = questions.read_vague_date("泰始三年，大赦在何月？", timeline)
  assert of_year.months.sum() == 24
  of_reigns = questions.read_vague_date("泰始年間，大赦在何時？", timeline)
  assert of_reigns.months.all()
  assert of_reigns.rest == "    ，大赦在何時？"


@pytest.mark.parametrize(
  "text", ["隱公時，鄭伯克段在哪一年的五月？", "隱公在位，哪一年五月鄭伯克段？"]
)
def test_the_year_that_is_asked_for_is_not_the_first(text):
  assert questions.parse_query_interval(text, LU) is None
