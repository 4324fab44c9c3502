"""Sexagenary days and years."""

import itertools

import pytest

from ctd_jax.chronology import sexagenary


def test_places_and_pairs_are_inverse():
  pairs = [sexagenary.format_cyclic_index(index) for index in range(60)]
  assert len(set(pairs)) == 60
  assert pairs[0] == "甲子"
  assert pairs[-1] == "癸亥"
  assert list(map(sexagenary.parse_cyclic_index, pairs)) == list(range(60))


@pytest.mark.parametrize(
  ("mark", "texts"),
  [
    (sexagenary.FIRST_DAY, ["朔", "朔，日有食之", "，朔，隕石", "，日有食之"]),
    (sexagenary.LAST_DAY, ["晦，震", "晦公宮火", "，晦，震", "，晦"]),
    (
      sexagenary.ANY_DAY,
      ["，朔方節度使反", "，朔州刺史", "，晦之弟遯", "，公薨。朔", ""],
    ),
  ],
)
def test_first_and_last_days_are_said_after_the_pair(mark, texts):
  for after in texts:
    assert sexagenary.find_day_mark(f"秋，壬辰{after}", 4) == mark, after


def test_mixed_glyphs_are_read_by_position():
  written = ["已巳", "己已", "丙戍", "戌申", "巳丑", "丁已"]
  meant = ["己巳", "己巳", "丙戌", "戊申", "己丑", "丁巳"]
  read = sexagenary.parse_cyclic_index
  assert list(map(read, written)) == list(map(read, meant))


@pytest.mark.parametrize("text", ["甲丑", "子甲", "甲", "甲子日", ""])
def test_what_is_no_pair_is_quoted(text):
  with pytest.raises(ValueError, match="sexagenary"):
    sexagenary.parse_cyclic_index(text)
  for index in (-1, 60):
    with pytest.raises(ValueError, match="0-59"):
      sexagenary.format_cyclic_index(index)


@pytest.mark.parametrize(
  ("date", "pair"), [((-719, 2, 22), "己巳"), ((-708, 7, 17), "壬辰")]
)
def test_eclipses_of_the_annals(date, pair):
  # 隱公三年 and 桓公三年: an eclipse falls on a new moon.
  day = sexagenary.to_julian_day(*date)
  index = sexagenary.cyclic_index_of_day(day)
  assert sexagenary.format_cyclic_index(index) == pair
  assert sexagenary.is_new_moon(day)
  assert not sexagenary.is_new_moon(day + 1)


@pytest.mark.parametrize(
  "date", [(1582, 10, 10), (-721, 2, 30), (2023, 2, 29), (1, 13, 1), (1, 0, 1)]
)
def test_impossible_dates_are_refused(date):
  with pytest.raises(ValueError, match="month of a date|no day"):
    sexagenary.to_julian_day(*date)


@pytest.mark.parametrize(
  ("year", "name"),
  [(-721, "己未年"), (-480, "庚申年"), (4, "甲子年"), (265, "乙酉年")],
)
def test_years_and_their_names(year, name):
  assert sexagenary.format_cyclic_year(year) == name
  index = sexagenary.cyclic_index_of_year(year)
  assert sexagenary.parse_cyclic_index(name[:2]) == index
  assert sexagenary.years_with_cyclic_index(index, year - 59, year + 59) == (
    year,
  )
  with pytest.raises(ValueError, match="0-59"):
    sexagenary.years_with_cyclic_index(60, 0, 1)


def test_no_new_moon_is_passed_over_where_calendars_change():
  # The month before the calendar of 237 CE has 28 days.
  first = sexagenary.to_julian_day(236, 6, 1)
  moons = sexagenary.find_new_moons(first, first + 500)
  assert moons == tuple(
    day for day in range(first, first + 501) if sexagenary.is_new_moon(day)
  )
  assert min(b - a for a, b in itertools.pairwise(moons)) == 28
