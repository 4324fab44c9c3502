"""Names of months and days in Chinese, in some calendars at once.

An `EraCalendar` is arrays; here are its values as lists, and what is looked up
for one day or month at a time. A name is a pair: month and membership.
"""

import bisect
import collections
from collections.abc import Iterator, Sequence

import numpy as np

from ctd_jax.chronology import (
  calendar_tables,
  era_calendars,
  numerals,
)
from ctd_jax.chronology.era_calendars import ALL_POLITIES


class CalendarNames:
  """Names of the months and days of some calendars."""

  def __init__(self, calendars: Sequence[str]):
    """Loads the calendars.

    Args:
      calendars: polities or countries; names of the first come first.
    """
    source = self.calendar = era_calendars.load_calendar(calendars)
    # Polity -> its place among those given; long-lived ones come first.
    self._ranks: dict[str, tuple[int, int, int]] = {}
    num_years = collections.Counter()
    for era in source.eras:
      num_years[era.polity.number] += era.years
    for place, name in enumerate(calendars):
      for polity in era_calendars.find_polities(name):
        country = calendar_tables.COUNTRIES.index(polity.country)
        rank = (
          place + country * (name == ALL_POLITIES),
          -num_years[polity.number],
          len(self._ranks),
        )
        self._ranks.setdefault(polity.number, rank)
    in_order = sorted(
      range(len(source.eras)),
      key=lambda era: (*self._ranks[source.eras[era].polity.number], era),
    )
    self._era_ranks = np.argsort(in_order).tolist()
    # Lists: Python reads single values of an array ten times more slowly.
    self._first_days = source.first_days.tolist()
    self._lengths = source.lengths.tolist()
    self._years = source.years.tolist()
    self._months = source.months.tolist()
    self._written = source.written_months.tolist()
    self._is_leap = source.is_leap.tolist()
    self._member_eras = source.member_eras.tolist()
    self._member_years = source.regnal_years.tolist()
    self._member_days = source.member_days.tolist()
    self._is_civil = source.is_civil.tolist()
    self._starts = np.searchsorted(
      source.member_months, np.arange(len(source) + 1)
    ).tolist()
    self._longest = max(self._lengths)
    self._era_names = [era.full_name for era in source.eras]
    # Years that began with the eleventh month called it 正月, the first 一月.
    self._odd_years: dict[int, int] = {}  # -> the countries, as bits
    odd = source.months != source.written_months
    for year, countries in zip(
      source.years[odd].tolist(), source.countries[odd].tolist(), strict=True
    ):
      self._odd_years[year] = self._odd_years.get(year, 0) | countries

  def _rank_name(self, name: tuple[int, int]) -> int:
    return self._era_ranks[self._member_eras[name[1]]]

  def _members(self, month: int) -> range:
    return range(self._starts[month], self._starts[month + 1])

  def _months_of_day(self, day: int) -> Iterator[int]:
    """Yields the months that have a day, one for each parallel calendar."""
    stop = bisect.bisect_right(self._first_days, day)
    start = bisect.bisect_left(self._first_days, day - self._longest)
    for month in range(start, stop):
      if day < self._first_days[month] + self._lengths[month]:
        yield month

  def _names_of_day(self, day: int) -> list[tuple[int, int]]:
    """Returns month and name of a day in every calendar, in use then."""
    return [
      (month, member)
      for month in self._months_of_day(day)
      for member in self._members(month)
      if self._member_days[member][0] <= day <= self._member_days[member][1]
    ]

  def _name_month(self, month: int) -> str:
    if self._is_civil[month]:
      return f"{numerals.format_numeral(self._months[month])}月"
    number, leap = self._months[month], "閏" * self._is_leap[month]
    if self._written[month] == 1 and not leap:
      odd = self._odd_years.get(self._years[month], 0)
      is_odd = number == 1 and odd & int(self.calendar.countries[month])
      return "一月" if is_odd else "正月"
    return f"{leap}{'正' if number == 1 else numerals.format_numeral(number)}月"

  def _name_year(self, member: int) -> str:
    year = name_number(self._member_years[member])
    return f"{self._era_names[self._member_eras[member]]}{year}年"

  def name_day(self, day: int, name: tuple[int, int]) -> str:
    """Returns the name of a day from its month and name."""
    month, member = name
    number = self._name_day(day - self._first_days[month] + 1, month)
    return f"{self._name_year(member)}{self._name_month(month)}{number}日"

  def _name_day(self, number: int, month: int) -> str:
    """Returns the number of a day; of a lunar month 二十六 is 廿六."""
    text = numerals.format_numeral(number)
    is_short = number > 20 and not self._is_civil[month]
    return text.replace("二十", "廿") if is_short else text

  def list_names_of_day(self, day: int) -> list[str]:
    """Returns every name of a day, those of the first calendar first."""
    names = sorted(self._names_of_day(day), key=self._rank_name)
    return [self.name_day(day, name) for name in names]


def name_number(number: int) -> str:
  """Returns a regnal year in Chinese; digits where numerals end."""
  if number == 1:
    return "元"
  return numerals.format_numeral(number) if number < 100 else str(number)
