"""The page that converts dates."""

import pytest


def test_dates_of_lines_are_converted(client):
  page = client.get("/convert", params={"q": "萬曆十五年三月廿六日\n不詳"}).text
  assert "明神宗萬曆十五年三月廿六日" in page
  assert "日本正親町天皇天正十五年三月廿六日" in page
  assert "1587-05-03" in page
  assert "no date found" in page


@pytest.mark.parametrize(
  ("calendars", "words"),
  [("ja", "日本光明天皇建武元年"), ("明明", "no polity")],
)
def test_calendars_are_chosen(client, calendars, words):
  values = {"q": "建武元年", "calendars": calendars}
  page = client.get("/convert", params=values)
  assert page.status_code == 200
  assert words in page.text
  assert "東漢光武帝" not in page.text


@pytest.mark.parametrize(
  "text",
  ["<script>alert(1)</script>", "萬曆十五年<b>", "\u202e萬曆", "9" * 900],
)
def test_hostile_dates_are_text(client, text):
  page = client.get("/convert", params={"q": text})
  assert page.status_code == 200
  assert "<script>alert" not in page.text
  assert "<b>" not in page.text


def test_dates_beyond_the_limit_are_counted(client):
  lines = "\n".join(f"{year}" for year in range(1500, 1603))
  page = client.get("/convert", params={"q": lines, "calendars": "明, ja"}).text
  assert page.count("<h2") == 100
  assert "3 lines" in page
