"""Calendar of an index: on disk, by name, and as months of a data set."""

import dataclasses

import numpy as np
import pytest

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.dating.chronicle import western as western_lib
from ctd_jax.index import calendars


@pytest.mark.parametrize("name", ["lu", "宋", "CE:700-720"])
def test_calendar_on_disk_is_the_calendar(tmp_path, name):
  calendar = chronicle_input.load_reigns(name)
  entry = calendars.write_index_calendar(tmp_path, calendar, name)
  loaded = calendars.load_index_calendar(tmp_path)
  assert loaded.timeline.reigns == calendar.timeline.reigns
  sha256 = calendars.hash_calendar(loaded)
  assert entry == {"spec": name, "months": len(calendar), "sha256": sha256}
  assert loaded.name_month(7) == calendar.name_month(7)


def test_hash_tells_a_moved_month(tmp_path):
  calendar = chronicle_input.load_reigns("宋")
  months = calendar.readings.months % 12 + 1
  moved = dataclasses.replace(calendar.readings, months=months)
  moved = dataclasses.replace(calendar, readings=moved)
  assert calendars.hash_calendar(moved) != calendars.hash_calendar(calendar)


def test_months_are_named_as_texts_do():
  lu = chronicle_input.load_reigns("lu")
  assert calendars.name_month(lu, 4) == "魯隱公元年五月"
  song = chronicle_input.load_reigns("宋")
  leap = int(np.flatnonzero(song.is_leap)[0])
  assert "閏" in calendars.name_month(song, leap)
  western = western_lib.make_western_calendar(311, 312)
  assert calendars.name_month(western, 4) == "May 311 CE"
  assert calendars.name_month(lu, len(lu)) == "outside of the calendar"


def test_description_has_days_where_they_are_known():
  western = western_lib.make_western_calendar(311, 312)
  assert calendars.describe_month(western, 0) == {
    "ordinal": 0,
    "name": "January 311 CE",
    "reign": "CE",
    "year": 311,
    "month": 1,
    "leap": False,
    "ce_year": 311,
    "first_day": "0311-01-02",
    "last_day": "0311-02-01",
    "first_julian_day": 1834651,
    "last_julian_day": 1834681,
  }
  lu = chronicle_input.load_reigns("lu")
  described = calendars.describe_month(lu, 4)
  assert described["ce_year"] == -721
  assert described["first_day"] is None
  assert calendars.describe_month(lu, len(lu))["reign"] is None


def test_months_are_called_by_the_polity_that_a_work_names_most():
  calendar = chronicle_input.load_reigns("遼,北宋")
  reigns = calendar.timeline.reigns
  row_of = {reign.state + reign.name: row for row, reign in enumerate(reigns)}
  printed = [row_of["遼聖宗開泰"], row_of["遼聖宗統和"], row_of["宋真宗天禧"]]
  members = calendar.memberships
  is_year = (members.reigns == row_of["宋真宗天禧"]) & members.in_use
  month = int(members.lunations[is_year][3])
  assert "開泰" in calendars.name_month(calendar, month, printed)
  assert "天禧" in calendars.name_month(calendar, month, printed[2:])
  # Also in an era that the work does not print, 太平.
  is_taiping = (members.reigns == row_of["遼聖宗太平"]) & members.in_use
  later = int(members.lunations[is_taiping][3])
  assert "太平" in calendars.name_month(calendar, later, printed[:2])
