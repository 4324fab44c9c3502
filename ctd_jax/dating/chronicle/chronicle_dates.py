"""Dates of a chronicle: the months and days of its sections.

A section has its most probable month, the next, the smallest set of months
with 90 % of the probability (credible months), and the probability of no month
of the calendar, which the ordinal after the last stands for.

Axes: n sections, m = 2 months of each; V readings, S offsets, K months.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.chronology import reigns, sexagenary
from ctd_jax.chronology.reigns import MONTHS_PER_SEASON, MONTHS_PER_YEAR
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import (
  COMMON_DAYS_STATEMENT,
  DAY_STATEMENTS,
  MONTH_DAY_STATEMENT,
  NUMBERED_DAY_STATEMENT,
  DatePart,
  DateStatement,
  Section,
  find_statement,
)
from ctd_jax.dating.experts import date_features
from ctd_jax.texts.works import Entry, Place

# From the first probability on a date is certain; below the second it is
# doubtful. All outputs and the summary share these bounds.
CERTAIN, DOUBTFUL = 0.9, 0.5


@dataclasses.dataclass(frozen=True)
class CredibleMonths:
  """The credible months of every section."""

  # Where each section begins in `ordinals`, then their number, [n + 1].
  starts: Int[np.ndarray, " starts"]
  # Of the months, ascending in each section; K is outside.
  ordinals: Int[np.ndarray, " total"]
  probabilities: Float[np.ndarray, " total"]  # of these

  def months_of(self, section: int) -> Int[np.ndarray, " k"]:
    """Returns the ordinals of a section."""
    return self.ordinals[self.starts[section] : self.starts[section + 1]]

  def probabilities_of(self, section: int) -> Float[np.ndarray, " k"]:
    """Returns the probabilities of the months of a section."""
    return self.probabilities[self.starts[section] : self.starts[section + 1]]

  def take(self, sections: Int[np.ndarray, " k"]) -> CredibleMonths:
    """Returns the months of some sections, in the order given."""
    rows = [
      np.arange(self.starts[section], self.starts[section + 1])
      for section in sections.tolist()
    ]
    row = np.concatenate(rows)
    return CredibleMonths(
      np.cumsum([0, *map(len, rows)]),
      self.ordinals[row],
      self.probabilities[row],
    )


@dataclasses.dataclass(frozen=True)
class ChronicleDates:
  """The sections of a chronicle with their months."""

  records: Sequence[Entry]  # text and headings, in order
  sections: Sequence[Section]  # of the records, in order
  # Ordinals of the most probable month and the next; K is outside.
  months: Int[np.ndarray, "n m"]
  probabilities: Float[np.ndarray, "n m"]  # of these
  credible: CredibleMonths  # months that hold 90 % of the probability
  outside: Float[np.ndarray, " n"]  # probability of no month of the calendar
  # Of the calendar; None if its days are known or no day is printed.
  offsets: Int[np.ndarray, " n"] | None
  is_fixed: Bool[np.ndarray, " n"]  # whether the month was given by hand
  calendar: Calendar  # names the ordinals
  # How often each kind of statement is printed.
  statement_counts: Mapping[str, int]

  def __len__(self) -> int:
    """Number of sections."""
    return len(self.sections)

  def is_outside(self, ordinal: int | np.integer) -> bool:
    """Whether an ordinal stands for no month of the calendar."""
    return bool(ordinal >= len(self.calendar))

  @functools.cached_property
  def printed_reigns(self) -> frozenset[int]:
    """Rows of the reigns that the text names."""
    return frozenset(
      row
      for name in {*list_named_reigns(self.sections)}
      for row in self.calendar.find_reigns(name)
    )

  @functools.cached_property
  def days(self) -> list[SectionDays]:
    """Days of every section."""
    # By the calendar that names the month: 民國 and its lunar one differ.
    make_month_days = functools.cache(
      functools.partial(MonthDays, self.calendar)
    )
    return [
      _locate_section(
        self,
        row,
        make_month_days(
          self.printed_reigns
          if self.is_outside(month)
          else self.find_naming_reigns(self.reigns_of_sections[row], month)
        ),
      )
      for row, month in enumerate(self.months[:, 0].tolist())
    ]

  @functools.cached_property
  def reigns_of_sections(self) -> Sequence[frozenset[int]]:
    """Rows of the reigns that each section, or the last before it, names."""
    rows: frozenset[int] = frozenset()
    rows_of_sections = []
    for section in self.sections:
      for name in list_named_reigns([section]):
        rows = frozenset(self.calendar.find_reigns(name)) or rows
      rows_of_sections.append(rows)
    return rows_of_sections

  @functools.cached_property
  def find_naming_reigns(
    self,
  ) -> Callable[[frozenset[int], int | np.integer], frozenset[int]]:
    """Finds rows of reigns that name a month in a section of some reigns."""
    # Kept: sections ask the same thousands of times.
    polities = self.calendar.polities

    def find(
      own_reigns: frozenset[int], ordinal: int | np.integer
    ) -> frozenset[int]:
      same_polity = np.isin(polities, polities[list(own_reigns)])
      return next(
        (
          rows
          for rows in (
            own_reigns,
            frozenset(np.flatnonzero(same_polity).tolist()),
          )
          if self.calendar.find_reign(ordinal, rows) in rows
        ),
        self.printed_reigns,
      )

    return functools.cache(find)

  def text_of(self, section: int) -> str:
    """Returns the whole text of a section."""
    span = self.sections[section]
    return self.records[span.record].text[span.start : span.stop]

  def place_of(self, section: int) -> Place:
    """Returns the place of a section's first character in print."""
    span = self.sections[section]
    return self.records[span.record].place_at(span.start)


def list_named_reigns(sections: Sequence[Section]) -> list[str]:
  """Returns the names of reigns and eras that sections print, in order."""
  return [
    values[0]
    for section in sections
    for name, *values in section.statements
    if name in ("year", "era") and values[0] is not None
  ]


def format_span(years: Sequence[int] | np.ndarray) -> str:
  """Returns the first and last year, as in "300 CE to 329 CE"."""
  first, last = (
    reigns.format_common_era_year(int(year))
    for year in (min(years), max(years))
  )
  return f"{first} to {last}"


# A section that prints a day fixes one day of its month. Any other section gets
# the days of its most probable month if that is certain, otherwise of its
# credible months; those that hold the printed day count with that day alone.
#
# New moons before 104 BCE are computed and can be a day off. Where no section
# prints a day, a month is one of four lunations, and its span holds them all.

DaySpan = tuple[int, int]


class SectionDays(NamedTuple):
  """Dates of a section as Julian day numbers."""

  day: int | None  # fixed by the text in the most probable month, or None
  # In order and disjoint, with 90 % of the probability; none if the section is
  # probably outside the calendar.
  spans: tuple[DaySpan, ...]
  # Whether the most probable month lacks the printed day.
  lacks_day: bool = False
  is_approximate: bool = False  # whether spans end at computed new moons
  months: tuple[int, ...] = ()  # ordinals of the months of the spans

  @property
  def not_before(self) -> int | None:
    """First day of the first span."""
    return self.spans[0][0] if self.spans else None

  @property
  def not_after(self) -> int | None:
    """Last day of the last span."""
    return self.spans[-1][1] if self.spans else None


def _locate_section(
  dates: ChronicleDates, row: int, month_days: MonthDays
) -> SectionDays:
  month = int(dates.months[row, 0])
  if dates.is_outside(month):
    return SectionDays(None, ())
  section = dates.sections[row]
  offset = None if dates.offsets is None else int(dates.offsets[row])
  is_leap = any(name == "leap" for name, *_ in section.statements)
  statements = [statement] if (statement := find_day_statement(section)) else []
  numbered = find_statement(section, NUMBERED_DAY_STATEMENT)
  if numbered:
    # Where they differ the day is one of them. A pair is copied with more care.
    number, pair = numbered[1]
    statements = [(DAY_STATEMENTS[0], pair), (MONTH_DAY_STATEMENT, number)]

  def find_days(ordinal: int) -> list[int]:
    days = (
      month_days.find_day(ordinal, statement, offset, is_leap)
      for statement in statements
    )
    return [day for day in days if day is not None]

  day = next(iter(find_days(month)), None)
  months = {month}
  if not dates.is_fixed[row] and dates.probabilities[row, 0] < CERTAIN:
    months.update(dates.credible.months_of(row).tolist())
    months.discard(len(dates.calendar))
  if section.extent is not None:
    months = _extend(months, section.extent, dates.calendar)
  spans = set()
  for ordinal in months:
    spans.update(
      [(day_there, day_there) for day_there in find_days(ordinal)]
      or [month_days.find_span(ordinal, offset, is_leap)]
    )
  return SectionDays(
    day,
    _join_spans(spans),
    bool(statements) and day is None and month_days.knows_days(offset),
    day is None and not month_days.has_table,
    tuple(sorted(months)),
  )


def _extend(
  months: Collection[int], extent: DatePart, calendar: Calendar
) -> set[int]:
  """Returns the months of the years or seasons that some months are in."""
  part = calendar.years * MONTHS_PER_YEAR
  if extent == DatePart.SEASON:
    part = part + (calendar.months - 1) // MONTHS_PER_SEASON
  return {*np.flatnonzero(np.isin(part, part[[*months]])).tolist()}


def find_day_statement(section: Section) -> DateStatement | None:
  """Returns the first day that a section prints, or None."""
  day = find_statement(section, *DAY_STATEMENTS, MONTH_DAY_STATEMENT)
  common = find_statement(section, COMMON_DAYS_STATEMENT)
  if day is None and common is not None:
    first, last, days_later = common[1]
    return common if first == last and not days_later else None
  return day


def _join_spans(spans: Collection[DaySpan]) -> tuple[DaySpan, ...]:
  """Returns spans in order, with those that touch or overlap joined."""
  joined: list[DaySpan] = []
  for first, last in sorted(spans):
    if joined and first <= joined[-1][1] + 1:
      joined[-1] = joined[-1][0], max(last, joined[-1][1])
    else:
      joined.append((first, last))
  return tuple(joined)


class MonthDays:
  """The days of a calendar's months; the calendar of `printed_reigns` leads."""

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
    """Whether a month has one place in time, given this offset."""
    return self.has_table or offset is not None

  def find_span(
    self, month: int, offset: int | None = None, is_leap: bool = False
  ) -> DaySpan:
    """Returns the first and last day of a month.

    Args:
      month: ordinal.
      offset: offset of the calendar; None spans the lunations of all offsets.
      is_leap: whether the leap month after the twelfth is meant, where the
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
    """Returns the day of a month that a statement fixes, or None."""
    if not self.knows_days(offset):
      return None
    name, number = statement
    spans = self._find_spans(month, offset, is_leap)
    if name != MONTH_DAY_STATEMENT and not self.has_table:
      # A leap month counts as the twelfth; new moons can be a day off.
      spans += self._find_lunations(month, offset, is_leap=True)
      spans += tuple((first - 1, last + 1) for first, last in spans)
    for first, last in spans:
      if name == COMMON_DAYS_STATEMENT:
        day = number[0]
      elif name == MONTH_DAY_STATEMENT:
        day = first + number - 1 if number > 0 else last + 1 + number
      else:
        past = number - sexagenary.cyclic_index_of_day(first)
        day = first + past % sexagenary.CYCLE_LENGTH
      if first <= day <= last:
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
