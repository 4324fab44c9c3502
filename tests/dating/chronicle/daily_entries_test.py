"""Texts of daily entries are found, and quoted dates do not move them."""

import numpy as np
import pytest

from ctd_jax.chronology import sexagenary
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating, daily_entries
from ctd_jax.dating.chronicle.emissions import SectionEmissions
from ctd_jax.dating.chronicle.sections import (
  BETWEEN_DAYS,
  DAY,
  MONTH,
  NAMED,
  NEXT_DAY,
  NO_DATE,
  TOLD_IN_ENTRY,
  Section,
)
from tests.dating.chronicles import records_of


def make_section(record, day=None, start=0, kind=None, *statements):
  if day is not None:
    statements = (*statements, ("day", day % 60))
  if kind is None:
    kind = NO_DATE if day is None else DAY
  return Section(record, start, start + 9, start + 2, kind, statements)


def mark(sections):
  kinds = np.array([section.kind for section in sections], np.int32)
  return daily_entries.mark_daily_entries(kinds, sections)


def make_days(gaps):
  """Entries of days so far apart, each with an undated one after it."""
  days = np.cumsum([0, *gaps])
  return [
    make_section(2 * row + later, None if later else int(day))
    for row, day in enumerate(days)
    for later in (False, True)
  ]


def test_days_soon_after_one_another_are_marked():
  kinds = mark(make_days([1, 2, 1, 1, 3] * 20))
  assert kinds[0] == DAY
  assert (kinds[2::2] == NEXT_DAY).all()
  assert (kinds[1:-1:2] == BETWEEN_DAYS).all()
  assert kinds[-1] == NO_DATE  # no day after it


@pytest.mark.parametrize("gaps", [(), (1,), (1, 2)])
def test_a_few_days_say_nothing(gaps):
  assert set(mark(make_days(gaps)).tolist()) <= {DAY, NO_DATE}


@pytest.mark.parametrize("seed", range(3))
def test_days_anyhow_apart_are_not_marked(seed):
  gaps = np.random.default_rng(seed).integers(0, 400, 300)
  sections = make_days(gaps)
  np.testing.assert_array_equal(mark(sections), [s.kind for s in sections])


def test_a_longer_gap_leaves_the_months_open():
  kinds = mark(make_days([1, 2] * 30 + [45] + [1, 2] * 30))
  assert (kinds == DAY).sum() == 2  # the first and the one after the gap
  assert (kinds == NO_DATE).sum() == 2


@pytest.mark.parametrize(
  ("inside", "kind"),
  [
    (make_section(41, 21, start=20), BETWEEN_DAYS),  # the day before the next
    (make_section(41, 50, start=20), TOLD_IN_ENTRY),
    (make_section(41, 50, 0, NO_DATE), BETWEEN_DAYS),  # inside a sentence
    (make_section(41, 50, start=20, kind=MONTH), TOLD_IN_ENTRY),
    (make_section(41, start=20, kind=MONTH), TOLD_IN_ENTRY),
    (make_section(41, None, 0, MONTH, ("month", 4)), MONTH),  # a heading
    (make_section(41, None, 0, NAMED, ("year", "泰始", 2)), TOLD_IN_ENTRY),
    (make_section(41, 21, 20, DAY, ("doubtful month", 4)), TOLD_IN_ENTRY),
  ],
)
def test_a_date_inside_an_entry_is_told(inside, kind):
  sections = make_days([1] * 20 + [2] + [1] * 20)
  marked = mark([*sections[:41], inside, *sections[41:]])
  assert marked[41] == kind
  assert marked[43] == NEXT_DAY


def test_what_a_reader_dates_is_not_told():
  calendar = calendar_lib.load_calendar("西晉")
  sections = make_days([1] * 40)
  sections.insert(41, make_section(20, 50, start=20))
  allowed = {41: np.arange(len(calendar)) == 3}
  assert SectionEmissions(sections, calendar).kinds[41] == TOLD_IN_ENTRY
  assert SectionEmissions(sections, calendar, allowed).kinds[41] == DAY


def write_daily_chronicle(calendar, months, seed):
  """Returns entries of days, with other times told inside, and their months."""
  draw = np.random.default_rng(seed)
  lines, right = ["泰始二年春正月大赦"], [months.start]
  for month in months:
    first, length = (int(value) for value in calendar.day_spans[month])
    for day in range(first, first + length, 1 + int(draw.integers(3))):
      cyclic_day = int(sexagenary.cyclic_index_of_day(day))
      text = f"{sexagenary.format_cyclic_index(cyclic_day)}詔曰善"
      if draw.random() < 0.3:
        told = sexagenary.format_cyclic_index(int(draw.integers(60)))
        text += f"先是三月{told}賊攻城至五月{told}又攻之"
      lines.append(text)
      right.append(month)
  return lines, np.array(right)


@pytest.mark.parametrize("seed", range(3))
def test_what_entries_tell_of_moves_nothing(seed):
  calendar = calendar_lib.load_calendar("西晉")
  first = int(np.flatnonzero(calendar.years == 266)[0])
  lines, right = write_daily_chronicle(calendar, range(first, first + 40), seed)
  dates = chronicle_dating.date_records(records_of(lines), calendar)
  heads = [row for row, s in enumerate(dates.sections) if s.start == 0]
  np.testing.assert_array_equal(dates.months[heads, 0], right)
