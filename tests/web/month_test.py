"""Month and year: works side by side, days, what is missing."""

import re

import pytest

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.index import events
from ctd_jax.web import month_page
from tests.web.pages_test import read


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


def test_days_that_a_month_does_not_have_are_marked():
  record = month_page.MonthRecord(
    1, "annals", "二月己巳，甲子來。", "event", 1.0, 4
  )
  for days, absent in (([], ()), ([5], ()), ([0, 1], ("己巳",))):
    assert month_page._mark_absent_days(record, days).absent_days == absent


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
  month = len(calendar) // 2
  listed = events.list_days(served.index, month)
  days = month_page._find_days(served, month, listed, ())
  assert len(days) in (29, 30)
  assert re.fullmatch(r"-?\d{4}-\d\d-\d\d", days[0].date)
  assert month_page.name_day_number(days[0].number) == "初一"
  assert month_page.name_day_number(21) == "二十一"
