"""Days of the sections of a chronicle: days that a text fixes, or intervals.

A section that prints a day of the cycle, or a day by its number, fixes one day
of its month. Any other is of an interval of days: its most probable month if
that is certain (`chronicle_dates.CERTAIN`), else its credible months, of which
those that hold the printed day count with that day alone.

Of a reign table before 104 BCE the new moons are computed and the decoder found
which of them began the year; they can be a day off, and so can the days next to
them. Where no section prints a day, a month is one of four lunations, and its
interval holds them all.

Days are Julian day numbers, spans first and last day.

Axes: V readings of months, S offsets of the calendar, K months.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ctd_jax.chronology import sexagenary
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR
from ctd_jax.dating.chronicle.chronicle_dates import CERTAIN, ChronicleDates
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.printed_dates import (
  DAY_STATEMENTS,
  MONTH_DAY_STATEMENT,
  DateStatement,
)
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.experts import days as days_lib

DaySpan = tuple[int, int]


class SectionDays(NamedTuple):
  """When a section is, in days.

  Attributes:
    day: that the text fixes in the most probable month; None if it fixes none.
    spans: in order, disjoint, that hold 90 % of the probability; none if the
      section is most probably of no month of the calendar.
    lacks_day: whether the text prints a day that the most probable month has
      not.
    is_approximate: whether the ends of the spans are computed new moons.
    months: ordinals of the months that the spans are of.
  """

  day: int | None
  spans: tuple[DaySpan, ...]
  lacks_day: bool = False
  is_approximate: bool = False
  months: tuple[int, ...] = ()

  @property
  def not_before(self) -> int | None:
    """First day of the first span."""
    return self.spans[0][0] if self.spans else None

  @property
  def not_after(self) -> int | None:
    """Last day of the last span."""
    return self.spans[-1][1] if self.spans else None


def locate_sections(dates: ChronicleDates) -> list[SectionDays]:
  """Returns the days of every section."""
  month_days = MonthDays(dates.calendar, dates.printed_reigns)
  return [_locate_section(dates, row, month_days) for row in range(len(dates))]


def _locate_section(
  dates: ChronicleDates, row: int, month_days: MonthDays
) -> SectionDays:
  month = int(dates.months[row, 0])
  if dates.is_outside(month):
    return SectionDays(None, ())
  section = dates.sections[row]
  offset = None if dates.offsets is None else int(dates.offsets[row])
  is_leap = any(name == "leap" for name, *_ in section.statements)
  statement = find_day_statement(section)
  day = statement and month_days.find_day(month, statement, offset, is_leap)
  months = {month}
  if not dates.is_fixed[row] and dates.probabilities[row, 0] < CERTAIN:
    months.update(dates.credible.months_of(row).tolist())
    months.discard(len(dates.calendar))
  spans = set()
  for ordinal in months:
    day_there = statement and month_days.find_day(
      ordinal, statement, offset, is_leap
    )
    spans.add(
      month_days.find_span(ordinal, offset, is_leap)
      if day_there is None
      else (day_there, day_there)
    )
  lacks_day = (
    statement is not None and day is None and month_days.knows_days(offset)
  )
  is_approximate = day is None and not month_days.has_table
  return SectionDays(
    day, join_spans(spans), lacks_day, is_approximate, tuple(sorted(months))
  )


def find_day_statement(section: Section) -> DateStatement | None:
  """Returns the first day that a section prints, None if it prints none."""
  return next(
    (
      statement
      for statement in section.statements
      if statement[0] in (*DAY_STATEMENTS, MONTH_DAY_STATEMENT)
    ),
    None,
  )


def join_spans(spans: Collection[DaySpan]) -> tuple[DaySpan, ...]:
  """Returns spans in order, those that overlap or touch as one."""
  joined: list[DaySpan] = []
  for first, last in sorted(spans):
    if joined and first <= joined[-1][1] + 1:
      joined[-1] = joined[-1][0], max(last, joined[-1][1])
    else:
      joined.append((first, last))
  return tuple(joined)


class MonthDays:
  """The days of the months of a calendar.

  Attributes:
    calendar: of the months.
    printed_reigns: rows of reigns that a text names; of parallel calendars
      theirs is taken first.
  """

  def __init__(
    self, calendar: Calendar, printed_reigns: Collection[int] = frozenset()
  ):
    self.calendar = calendar
    self.printed_reigns = frozenset(printed_reigns)
    self._reading_starts = np.searchsorted(
      calendar.readings.lunations, np.arange(len(calendar) + 1)
    )
    self._spans: dict[int, tuple[DaySpan, ...]] = {}

  @functools.cached_property
  def _lunations(self) -> days_lib.Lunations:
    years, year_of = np.unique(self.calendar.years, return_inverse=True)
    return days_lib.make_lunations(years, year_of, self.calendar.months)

  @property
  def has_table(self) -> bool:
    """Whether the days of the months are known, not only new moons."""
    return self.calendar.readings.day_spans is not None

  def knows_days(self, offset: int | None) -> bool:
    """Whether a month has one place in time, with this offset."""
    return self.has_table or offset is not None

  def find_span(
    self, month: int, offset: int | None = None, is_leap: bool = False
  ) -> DaySpan:
    """Returns the first and last day of a month.

    Args:
      month: ordinal.
      offset: of the calendar where new moons only are known; None if it is not
        known: the span then holds the lunations of all offsets.
      is_leap: whether the leap month after a twelfth is meant, where the
        calendar counts both as one.
    """
    spans = self._find_spans(month, offset, is_leap)
    if self.knows_days(offset):
      return spans[0]
    return spans[0][0], spans[-1][1]

  def find_day(
    self,
    month: int,
    statement: DateStatement,
    offset: int | None = None,
    is_leap: bool = False,
  ) -> int | None:
    """Returns the day of a month that a statement fixes.

    None if no reading of the month has it, or the month has no one place.

    Args:
      month: ordinal.
      statement: a name of `DAY_STATEMENTS` with the index of a day of the
        cycle, or `MONTH_DAY_STATEMENT` with a number from 1.
      offset: as of `find_span`.
      is_leap: as of `find_span`.
    """
    if not self.knows_days(offset):
      return None
    name, number = statement
    spans = self._find_spans(month, offset, is_leap)
    if name == MONTH_DAY_STATEMENT:
      days = (
        first + number - 1 if number > 0 else last + 1 + number
        for first, last in spans
      )
      return next(
        (
          day for day, (_, last) in zip(days, spans, strict=True) if day <= last
        ),
        None,
      )
    if not self.has_table:
      # A leap month counts as the twelfth; new moons can be a day off.
      spans += self._find_lunations(month, offset, is_leap=True)
      spans += tuple((first - 1, last + 1) for first, last in spans)
    for first, last in spans:
      day = (
        first
        + (number - sexagenary.cyclic_index_of_day(first))
        % sexagenary.CYCLE_LENGTH
      )
      if day <= last:
        return day
    return None

  def _find_spans(
    self, month: int, offset: int | None, is_leap: bool
  ) -> tuple[DaySpan, ...]:
    """Returns the spans that a month may have, the best first."""
    if not self.has_table:
      return self._find_lunations(month, offset, is_leap)
    if month not in self._spans:
      named = self.calendar.find_reading(month, self.printed_reigns)
      start, stop = self._reading_starts[month : month + 2].tolist()
      spans = self.calendar.readings.day_spans
      self._spans[month] = tuple(
        dict.fromkeys(
          (int(spans[row, 0]), int(spans[row].sum()) - 1)
          for row in (named, *range(start, stop))
        )
      )
    return self._spans[month]

  def _find_lunations(
    self, month: int, offset: int | None, is_leap: bool
  ) -> tuple[DaySpan, ...]:
    lunations = self._lunations.lunation_index[month]
    if offset is not None:
      lunations = lunations[offset : offset + 1]
    if is_leap and self.calendar.months[month] == MONTHS_PER_YEAR:
      lunations = lunations + 1
    moons = self._lunations.new_moons
    return tuple(
      (int(moons[lunation]), int(moons[lunation + 1]) - 1)
      for lunation in lunations
    )
