"""Calendars as questions see them: months in order, found by their names.

A question names a year of a reign, a month, a season or a year of the common
era, and counts on from there. `QueryCalendar` has the facts about a calendar
that readers of questions need; `TimelineMonths` has them for a `Timeline`,
whose reigns follow each other. Other calendars number the months as they
passed, so that eras overlap and years have leap months.

Months are ordinals from 0. Reigns are numbers from 1, the row of the timeline
plus one. Years of the common era are astronomical.
"""

import dataclasses
import functools
from typing import NamedTuple, Protocol, runtime_checkable

from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import (
  MONTHS_PER_SEASON,
  MONTHS_PER_YEAR,
  Interval,
  TimeKey,
  Timeline,
)


class Months(NamedTuple):
  """Stretch of months, both ends included; empty if the last is before."""

  first: int  # ordinal
  last: int  # ordinal


class RegnalYear(NamedTuple):
  """A year of a reign."""

  reign: int  # number in the timeline, from 1
  year: int  # from 1


NO_MONTHS = Months(0, -1)


@runtime_checkable
class QueryCalendar(Protocol):
  """The facts about a calendar that readers of questions need."""

  @property
  def timeline(self) -> Timeline:
    """The reigns by name."""

  def __len__(self) -> int:
    """Number of months."""

  def find_year(self, reign: int, year: int) -> Months:
    """Returns the months of a regnal year.

    Raises:
      KeyError: if the calendar has no such year.
    """

  def find_month(
    self,
    reign: int,
    year: int,
    month: int,
    leap: bool = False,
    by_number: bool = False,
  ) -> Months:
    """Returns a month of a regnal year, more than one if several are called so.

    A calendar without leap months files one with the month that it follows. The
    first month `by_number`, 一月, was not 正月 in 690-700.

    Raises:
      KeyError: if the calendar has no such month.
    """

  def find_season(self, reign: int, year: int, month: int) -> Months:
    """Returns the three months of a season, leap months among them.

    Args:
      month: first of the season.

    Raises:
      KeyError: if the calendar has no such months.
    """

  def find_leap_months(self, reign: int, year: int) -> list[int] | None:
    """Returns the leap months of a year; None if the calendar has none."""

  def find_common_year(
    self, year: int, month: int | None = None
  ) -> tuple[Months, RegnalYear | None]:
    """Returns the months of a year of the common era, and its first name.

    Args:
      month: number of a month of the year; all of them if None.

    Raises:
      KeyError: if the calendar has no such year.
    """

  def find_middle(self, year: Months) -> int:
    """Returns the first month of the second half of a year."""

  def find_next_year(self, reign: int, year: int) -> RegnalYear | None:
    """Returns the year after a regnal year; None at the end of the calendar."""

  def shift_years(
    self,
    month: int,
    regnal_year: RegnalYear | None,
    first_offset: int,
    last_offset: int,
  ) -> Months:
    """Returns the months of whole years, clipped, counted from one of them.

    Args:
      month: month in the year from which months are counted.
      regnal_year: the name of this year, None without one.
      first_offset: years from it to the first, e.g. -1 for the year before.
      last_offset: the same to the last.
    """


@dataclasses.dataclass(frozen=True)
class TimelineMonths:
  """The months of a timeline, as `QueryCalendar` finds them."""

  timeline: Timeline  # the calendar

  def __len__(self) -> int:
    """Number of months."""
    return len(self.timeline)

  def find_year(self, reign: int, year: int) -> Months:
    """Returns the months of a regnal year; see `QueryCalendar`."""
    return self._find_ordinals(self.timeline.year_interval(reign, year))

  def find_month(
    self,
    reign: int,
    year: int,
    month: int,
    leap: bool = False,
    by_number: bool = False,
  ) -> Months:
    """Returns a month of a regnal year; see `QueryCalendar`."""
    del by_number  # years begin with 正月
    is_leap = leap and bool(self.timeline.leap_months)
    ordinal = self.timeline.ordinal(TimeKey(reign, year, month, is_leap))
    return Months(ordinal, ordinal)

  def find_season(self, reign: int, year: int, month: int) -> Months:
    """Returns the months of a season; see `QueryCalendar`."""
    last = month + MONTHS_PER_SEASON - 1
    return self._find_ordinals(
      Interval(TimeKey(reign, year, month), TimeKey(reign, year, last))
    )

  def find_leap_months(self, reign: int, year: int) -> list[int] | None:
    """Returns the leap months of a year; None if the timeline has none."""
    if not self.timeline.leap_months:
      return None
    return sorted(
      month
      for leap_reign, leap_year, month in self.timeline.leap_months
      if (leap_reign, leap_year) == (reign, year)
    )

  def find_common_year(
    self, year: int, month: int | None = None
  ) -> tuple[Months, RegnalYear | None]:
    """Returns a year of the common era; see `QueryCalendar`."""
    interval = reigns.common_era_interval(self.timeline, year, month)
    key = interval.start
    return self._find_ordinals(interval), RegnalYear(key.reign, key.year)

  def find_middle(self, year: Months) -> int:
    """Returns the seventh month of a year."""
    return year.first + MONTHS_PER_YEAR // 2

  def find_next_year(self, reign: int, year: int) -> RegnalYear | None:
    """Returns the year after a regnal year; None at the end."""
    ordinal = self.find_year(reign, year).last + 1
    if ordinal >= len(self):
      return None
    # After the last year of a reign the next year is 元年 of the next reign.
    key = self.timeline.key_at(ordinal)
    return RegnalYear(key.reign, key.year)

  @functools.cached_property
  def _years(self) -> list[RegnalYear]:
    return [
      RegnalYear(reign, year)
      for reign, row in enumerate(self.timeline.reigns, start=1)
      for year in range(1, row.years + 1)
    ]

  def shift_years(
    self,
    month: int,
    regnal_year: RegnalYear | None,
    first_offset: int,
    last_offset: int,
  ) -> Months:
    """Returns the months of whole years; see `QueryCalendar`."""
    del regnal_year  # a month of a timeline has one name
    key = self.timeline.key_at(month)
    index = self._years.index((key.reign, key.year))
    low = max(index + first_offset, 0)
    high = min(index + last_offset, len(self._years) - 1)
    if high < low:
      return NO_MONTHS  # no such year in the timeline
    return Months(
      self.find_year(*self._years[low]).first,
      self.find_year(*self._years[high]).last,
    )

  def _find_ordinals(self, interval: Interval) -> Months:
    return Months(*self.timeline.interval_ordinals(interval))
