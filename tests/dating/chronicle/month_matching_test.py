"""Months of one calendar in another."""

import numpy as np
import pytest

from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_input


def test_months_of_a_timeline_are_lunations():
  timeline = reigns.load_timeline("tongjian")
  calendar = calendar_lib.make_calendar(timeline)
  lunations = calendar_lib.map_time_keys(timeline, calendar)
  assert (lunations < len(calendar)).all()
  assert (np.diff(lunations) >= 0).all()
  for ordinal in (0, 100, 3000):
    key = timeline.key_at(ordinal)
    assert calendar.name_month(lunations[ordinal]) == (
      timeline.full_reign_name(key.reign),
      key.year,
      str(key.month),
    )


def test_months_of_another_table_are_found_by_year():
  timeline = reigns.load_timeline("liu_song")
  calendar = chronicle_input.load_reigns("zh")
  lunations = calendar_lib.map_time_keys(timeline, calendar)
  lunation = lunations[13]
  assert (calendar.years[lunation], calendar.months[lunation]) == (421, 2)
  lu = calendar_lib.make_calendar(reigns.load_timeline("lu"))
  assert (calendar_lib.map_time_keys(timeline, lu) == len(lu)).all()


@pytest.mark.parametrize("name", ["zh", "lu"])
def test_months_of_a_narrowed_calendar_are_found_in_the_whole(name):
  calendar = chronicle_input.load_reigns(name)
  kept = np.arange(200, 450)
  weighed = calendar.weigh_readings(np.arange(len(calendar.timeline.reigns)))
  narrowed = weighed.take(np.isin(np.arange(len(calendar)), kept))
  ordinals = calendar_lib.match_months(narrowed, calendar)
  assert ordinals.tolist() == [*kept, len(calendar)]
