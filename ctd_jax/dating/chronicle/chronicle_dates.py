"""Dates of a chronicle: the months of its sections, and a summary of them.

A section is dated by its most probable month and the next, by the smallest set
of months that holds 90 % (the credible months), and by the probability that it
is of no month of the calendar. That stands for the ordinal after the last.

Axes: n sections, m months given for each: the most probable and the next.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.chronology import reigns, sexagenary
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import (
  DAY_STATEMENTS,
  MONTH_DAY_STATEMENT,
  DateStatement,
  Section,
)
from ctd_jax.dating.experts import date_features
from ctd_jax.texts.works import Entry, Place

# Bounds of certainty, of all that is written and of the summary: from the one
# on a date is certain, below the other doubtful.
CERTAIN, DOUBTFUL = 0.9, 0.5


@dataclasses.dataclass(frozen=True)
class CredibleMonths:
  """The credible months of every section.

  Attributes:
    starts: where those of each section begin in `ordinals`; the last entry is
      their number, [n + 1].
    ordinals: of the months, ascending for each section; that after the last of
      the calendar is of no month.
    probabilities: of these; None where they were not kept.
  """

  starts: Int[np.ndarray, " starts"]
  ordinals: Int[np.ndarray, " total"]
  probabilities: Float[np.ndarray, " total"] | None = None

  def months_of(self, section: int) -> Int[np.ndarray, " k"]:
    """Returns the ordinals of a section."""
    return self.ordinals[self.starts[section] : self.starts[section + 1]]

  def probabilities_of(self, section: int) -> Float[np.ndarray, " k"] | None:
    """Returns the probabilities of the months of a section."""
    if self.probabilities is None:
      return None
    return self.probabilities[self.starts[section] : self.starts[section + 1]]


@dataclasses.dataclass(frozen=True)
class ChronicleDates:
  """The sections of a chronicle with their months.

  Attributes:
    records: text and headings, in order.
    sections: of the records, in order.
    months: ordinals of the most probable month and the next; the number of the
      calendar's months stands for none of them.
    probabilities: of these.
    credible: months that hold 90 % of the probability of each section.
    outside: probability that a section is of no month of the calendar.
    offsets: of the calendar, an index of `experts.days`; None where its days
      are known, or no section prints a day.
    is_fixed: whether the month was given, not found.
    calendar: names the ordinals.
    statement_counts: how often a month, a season, ... is printed.
    printed_reigns: rows of the reigns that the text names.
    warnings: what a reader of the dates should know.
  """

  records: Sequence[Entry]
  sections: Sequence[Section]
  months: Int[np.ndarray, "n m"]
  probabilities: Float[np.ndarray, "n m"]
  credible: CredibleMonths
  outside: Float[np.ndarray, " n"]
  offsets: Int[np.ndarray, " n"] | None
  is_fixed: Bool[np.ndarray, " n"]
  calendar: Calendar
  statement_counts: Mapping[str, int]
  printed_reigns: frozenset[int] = frozenset()
  warnings: Sequence[str] = ()

  def __len__(self) -> int:
    """Number of sections."""
    return len(self.sections)

  def is_outside(self, ordinal: int | np.integer) -> bool:
    """Whether an ordinal stands for no month of the calendar."""
    return bool(ordinal >= len(self.calendar))

  def name_month(self, ordinal: int | np.integer) -> tuple[str, int, str]:
    """Returns reign, regnal year and month, as the text would say it.

    Args:
      ordinal: of a month of the calendar.
    """
    return self.calendar.name_month(ordinal, self.printed_reigns)

  @functools.cached_property
  def reigns_of_sections(self) -> Sequence[frozenset[int]]:
    """Rows of the reigns that each section, or the last before it, names."""
    rows: frozenset[int] = frozenset()
    rows_of_sections = []
    for section in self.sections:
      for name, *values in section.statements:
        if name in ("year", "era") and values[0] is not None:
          rows = frozenset(self.calendar.find_reigns(values[0])) or rows
      rows_of_sections.append(rows)
    return rows_of_sections

  def find_naming_reigns(
    self, section: int, ordinal: int | np.integer
  ) -> frozenset[int]:
    """Returns the rows of the reigns by which a section would name a month.

    The reigns that it prints or goes on with; else others of their polities;
    else all that the text names.

    Args:
      section: its number.
      ordinal: of a month of the calendar.
    """
    key = self.reigns_of_sections[section], int(ordinal)
    if key not in self._naming_reigns:
      self._naming_reigns[key] = self._choose_naming_reigns(*key)
    return self._naming_reigns[key]

  @functools.cached_property
  def _naming_reigns(self) -> dict[tuple[frozenset[int], int], frozenset[int]]:
    """What names a month, by the reigns of a section: many share both."""
    return {}

  def _choose_naming_reigns(
    self, own: frozenset[int], ordinal: int
  ) -> frozenset[int]:
    """See `find_naming_reigns`; `own` are the reigns of the section."""
    polities = self.calendar.polities
    same_polity = np.isin(polities, polities[list(own)])
    for rows in (own, frozenset(np.flatnonzero(same_polity).tolist())):
      if self.calendar.find_reign(ordinal, rows) in rows:
        return rows
    return self.printed_reigns

  def text_of(self, section: int) -> str:
    """Returns the whole text of a section."""
    span = self.sections[section]
    return self.records[span.record].text[span.start : span.stop]

  def place_of(self, section: int) -> Place:
    """Returns where the first character of a section is printed."""
    span = self.sections[section]
    return self.records[span.record].place_at(span.start)


def format_span(years: Sequence[int] | np.ndarray) -> str:
  """Returns the first and last year, as in "300 CE to 329 CE"."""
  first, last = (
    reigns.format_common_era_year(int(year))
    for year in (min(years), max(years))
  )
  return f"{first} to {last}"


# ----------------------------------------------------------------------------
# Days of the sections of a chronicle: days that a text fixes, or intervals.
#
# A section that prints a day of the cycle, or a day by its number, fixes one
# day of its month. Any other is of an interval of days: its most probable
# month if that is certain (`chronicle_dates.CERTAIN`), else its credible
# months, of which those that hold the printed day count with that day alone.
#
# Of a reign table before 104 BCE the new moons are computed and the decoder
# found which of them began the year; they can be a day off, and so can the
# days next to them. Where no section prints a day, a month is one of four
# lunations, and its interval holds them all.
#
# Days are Julian day numbers, spans first and last day.
#
# Axes: V readings of months, S offsets of the calendar, K months.


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
  def _lunations(self) -> date_features.Lunations:
    years, year_of = np.unique(self.calendar.years, return_inverse=True)
    return date_features.make_lunations(years, year_of, self.calendar.months)

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
