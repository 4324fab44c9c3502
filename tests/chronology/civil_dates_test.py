"""Julian and Gregorian dates of Julian day numbers."""

import datetime

import numpy as np
import pytest
import sxtwl

from ctd_jax.chronology import sexagenary

DAYS = np.arange(1_350_000, 2_500_000, 37)  # 1017 BCE to 2132
_GREGORIAN_REFORM = 2299161


@pytest.mark.parametrize(
  ("to_dates", "from_dates"),
  [
    (sexagenary.to_julian_dates, sexagenary.from_julian_dates),
    (sexagenary.to_gregorian_dates, sexagenary.from_gregorian_dates),
  ],
)
def test_days_and_dates_are_inverse(to_dates, from_dates):
  dates = to_dates(DAYS)
  assert dates.shape == (*DAYS.shape, 3)
  np.testing.assert_array_equal(from_dates(dates), DAYS)


def test_gregorian_dates_are_those_of_the_standard_library():
  days = DAYS[DAYS > 1_721_430]  # datetime begins with year 1
  offset = 2_451_545 - datetime.date(2000, 1, 1).toordinal()
  dates = (datetime.date.fromordinal(int(day) - offset) for day in days)
  expected = [date.timetuple()[:3] for date in dates]
  np.testing.assert_array_equal(sexagenary.to_gregorian_dates(days), expected)


def test_civil_dates_are_those_of_the_lunar_calendar_library():
  days = [*range(1_350_000, 2_500_000, 997), 2_299_160, _GREGORIAN_REFORM]
  for day in days:
    expected = sxtwl.JD2DD(day)  # changes calendars at the reform, too
    date = (expected.getYear(), expected.getMonth(), expected.getDay())
    assert sexagenary.to_civil_date(day) == date
    assert sexagenary.to_julian_day(*date) == day


def test_one_day_has_the_shape_of_its_argument():
  date = sexagenary.to_julian_dates(0)
  assert date.shape == (3,)
  assert sexagenary.format_date(date) == "-4712-01-01"
  date = sexagenary.to_gregorian_dates(np.int64(0))
  assert sexagenary.format_date(date) == "-4713-11-24"


def test_a_day_that_does_not_exist_is_named():
  with pytest.raises(ValueError, match="there is no day 0307-02-30"):
    sexagenary.from_julian_dates(np.array([[307, 1, 1], [307, 2, 30]]))
  # A leap day of the Julian calendar alone.
  assert sexagenary.from_julian_dates(np.array([900, 2, 29])).shape == ()
  with pytest.raises(ValueError, match="0900-02-29"):
    sexagenary.from_gregorian_dates(np.array([900, 2, 29]))
