"""Month and year: works side by side, days, what is missing."""

import re

import pytest

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.experts import wording
from ctd_jax.web import month_page
from ctd_jax.web.month_page import WorkText
from tests.web.pages_test import read

# Invented; the second and fourth of the first work have parallels.
COLUMNS = (
  (
    "春，王正月。",
    "三月，公及邾人盟于某。",
    "夏，取禾于某田。",
    "甲子，鄭人克段。",
  ),
  ("傳曰公及邾人盟于某者何也", "甲子葬某公"),
  ("取禾于某田者何", "無可比者"),
)
USUAL = month_page.UsualWording.read(
  ["春，王正月，無事。", "公在某。", "鄭人來。", "邾人來朝。"] * 40, [7] * 160
)
MONTH = 8


def align(records):
  """Returns the rows of each event."""
  events = month_page.align_records(records, USUAL, MONTH)
  return [{text.row for text in event} for event in events]


def align_columns(columns):
  records = [
    WorkText(10 * column + number, column, text)
    for column, texts in enumerate(columns)
    for number, text in enumerate(texts)
  ]
  return align(records)


def test_records_of_one_event_stand_in_one_row():
  events = align_columns(COLUMNS)
  assert all(it in events for it in ({1, 10}, {2, 20}, {0}, {21}))
  assert sum(map(len, events)) == 8
  own = [row for event in events for row in sorted(event) if row < 10]
  assert own == sorted(own)  # a work keeps its order


def test_usual_wording_is_drawn_from_all_the_years(served, monkeypatch):
  monkeypatch.setattr(month_page, "_MAX_USUAL", 2)
  usual = month_page.read_usual(served, 0)
  assert 0 < len(usual.months) <= 2
  assert usual.occurrences.rows.max() < len(usual.months)
  monkeypatch.setattr(month_page, "_MAX_USUAL", 600)
  more = month_page.read_usual(served, 0)
  assert len(more.months) == served.index.num_records


def test_texts_of_the_month_itself_are_not_what_is_usual():
  usual = month_page.UsualWording.read(["公會某", "公在某"], [3, 4])
  strings = wording.collect_ngrams(["公會"], (2,))
  assert [usual.count(strings, month)[1] for month in (3, 4, 5)] == [1, 1, 2]
  assert [usual.count(strings, month)[0][0] for month in (3, 4, 5)] == [0, 1, 1]


def test_texts_are_prepared_alike_one_by_one_and_together():
  texts = ["春，王_正月。", "", "會\n于衛", "盟"]
  assert month_page._prepare_all(texts) == [*map(month_page._prepare, texts)]


def test_short_record_stands_with_the_one_that_holds_it():
  texts = ("秋，人來聘。", "城葭原。"), ("聘於某也", "城葭原者何城也")
  assert {1, 11} in align_columns(texts)


def test_what_begins_with_a_whole_record_stands_with_it():
  records = [
    WorkText(1, 0, "秋，大雩。", "大雩。"),
    WorkText(2, 0, "螽。", "螽。"),
    WorkText(3, 1, "螽。何以書？記災也。", "螽。何以書？記災也。"),
    WorkText(4, 1, "冬，無事。", ""),
  ]
  assert align(records) == [{1}, {2, 3}, {4}]


def test_days_are_read_but_not_years():
  assert month_page.find_days("己巳，日有食之。歲在甲子。") == {5}
  assert month_page.find_days("辛夘，王至。") == {27}  # 辛卯


def test_month_has_its_records_neighbours_and_what_is_missing(client):
  page = read(client, "/month/4")
  assert "鄭人克段" in page
  assert 'rel="prev" href="/month/3"' in page
  assert 'rel="next" href="/month/5"' in page
  missing = page.split("Works without records")[1]
  assert "Notes" in missing
  assert "before and after" in missing
  beyond = read(client, "/month/300").split("Works without records")[1]
  assert "魯隱公元年正月 – 魯隱公三年二月" in beyond  # the time of its records


def test_month_marks_printed_days_and_names_doubtful_records(client):
  assert re.search(
    r'class="printed"[^/]*<a href="#r6">己巳', read(client, "/month/25")
  )
  page = read(client, "/month/21")
  assert "Possibly in this month" in page
  assert "鄭人伐某" in page.split("Possibly in this month")[1]


def test_month_of_two_works_has_two_columns(client):
  month = client.get("/api/months/15").json()
  assert [name for name, _ in month["works"]] == ["annals", "notes"]
  assert month["month"]["name"] == "魯隱公二年四月"
  rows = [record["row"] for event in month["events"] for record in event]
  assert sorted(rows) == [5, 8]


def test_year_has_all_its_months(client):
  page = read(client, "/year/4")
  assert re.findall(r'<h2 id="m(\d+)"', page) == [str(n) for n in range(12)]
  assert "鄭人克段" in page


@pytest.mark.parametrize("path", ["/month/-1", "/month/99999", "/year/99999"])
def test_month_beyond_the_calendar_is_not_found(client, path):
  assert "the calendar has months 0 to" in read(client, path, 404)


def test_months_of_a_civil_calendar_have_western_dates(serve_calendar):
  calendar = calendar_lib.load_calendar("漢")
  served = serve_calendar(calendar)
  days = month_page._find_days(served, len(calendar) // 2, ())
  assert len(days) in (29, 30)
  assert re.fullmatch(r"-?\d{4}-\d\d-\d\d", days[0].date)
  assert month_page.name_day_number(days[0].number) == "初一"
  assert month_page.name_day_number(21) == "二十一"
