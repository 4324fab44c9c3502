"""Calendar of a chronicle: its months in order, and every name they had.

A month is a lunation. Parallel states may give it other numbers, leap marks
and first days; these are its readings. The decoder moves along lunations, and
a date fits a lunation if one of its readings does.

Axes: K lunations, V readings, M memberships (a lunation in a reign), R reigns,
S offsets of the calendar (1 where days are known), D = 3 x 60 days: any day of
a month, its first, its last.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.chronology import (
  calendar_tables,
  dates,
  era_calendars,
  reigns,
  sexagenary,
)
from ctd_jax.chronology.era_calendars import EraCalendar
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR, TimeKey, Timeline
from ctd_jax.dating.experts import date_features
from ctd_jax.utils.notes import Note

# The calendar reform of 104 BCE, 太初元年.
FIRST_COMPUTED_YEAR = -103
# Beyond it no calendar of a chronicle is meant; a typing error would fill
# memory.
MAX_YEAR = 5000
# What a reading counts for beside the leading one, in nats.
_LOG_PARALLEL = 1.0
_LOG_MIN_WEIGHT = -3.0
# First days nearer to each other begin the same lunation.
_MAX_DAYS_APART = 10
# 正月 of 1912, the first lunar month that began under 民國.
_FIRST_DAY_OF_REPUBLIC = 2419451
# Of 武周, whose years began with the eleventh month until 700.
_FIRST_DAY_OF_690 = 1973067
_DAYS_PER_YEAR = 365.2425
_MAX_DAYS_LATE = 60
_DAYS_PER_LUNATION = 29.53
# Earliest and latest month that a year of an early calendar began with, in
# lunations from the one of the winter solstice (`date_features`), whose day is
# the 27th of the twelfth month of the Julian calendar.
_FIRST_OFFSET, _LAST_OFFSET = -1, 2
_SOLSTICE = (12, 27)


@dataclasses.dataclass(frozen=True)
class Readings:
  """The names of the lunations in each calendar, sorted by lunation."""

  # Ascending; every lunation has at least one reading.
  lunations: Int[np.ndarray, " V"]
  years: Int[np.ndarray, " V"]  # astronomical year by this calendar
  months: Int[np.ndarray, " V"]  # 1-12
  is_leap: Bool[np.ndarray, " V"]  # whether the month is intercalary
  # Julian day number of the first day, and number of days. Without known days
  # the number is 0 and the first day is about right; None if none are known.
  day_spans: Int[np.ndarray, "V 2"] | None
  # Log odds that a text means this reading and not the leading one, at most 0.
  log_weights: Float[np.ndarray, " V"]

  @functools.cached_property
  def starts(self) -> Int[np.ndarray, " K"]:
    """The leading reading of each lunation."""
    return np.flatnonzero(np.diff(self.lunations, prepend=-1))

  @functools.cached_property
  def has_days(self) -> Bool[np.ndarray, " V"]:
    """Whether the days of each reading are known."""
    if self.day_spans is None:
      return np.zeros(len(self.years), bool)
    return self.day_spans[:, 1] > 0

  @functools.cached_property
  def is_named_first(self) -> Bool[np.ndarray, " V"]:
    """Whether 正月 was the name of an eleventh month that began the year."""
    # Found by its days: the calendars that indexes keep have no such column.
    if self.day_spans is None:
      return np.zeros(len(self.years), bool)
    days_late = self.day_spans[:, 0] - (
      _FIRST_DAY_OF_690 + _DAYS_PER_YEAR * (self.years - 690)
    )
    return (
      (self.years >= 690)
      & (self.years <= 700)
      & (self.months == 11)
      & (abs(days_late) < _MAX_DAYS_LATE)
    )

  def have_number(self, month: int) -> Bool[np.ndarray, " V"]:
    """Returns which readings have a number, or 正月 for their name."""
    has_number = self.months == month
    return has_number | self.is_named_first if month == 1 else has_number

  def find_lunations(
    self, is_match: Bool[np.ndarray, " V"]
  ) -> Bool[np.ndarray, " K"]:
    """Returns which lunations have a reading that matches."""
    return np.logical_or.reduceat(is_match, self.starts)

  def bound_days(
    self,
  ) -> tuple[Float[np.ndarray, " V"], Float[np.ndarray, " V"]]:
    """Returns the days that each month can begin with, and ends before."""
    years, year_of = np.unique(self.years, return_inverse=True)
    solstices = np.array(
      [sexagenary.to_julian_day(int(year) - 1, *_SOLSTICE) for year in years]
    )[year_of]
    # The lunation of the solstice begins up to a lunation before it; a leap
    # month can follow the twelfth.
    starts = solstices + _DAYS_PER_LUNATION * (self.months - 2 + _FIRST_OFFSET)
    stops = solstices + _DAYS_PER_LUNATION * (
      self.months + _LAST_OFFSET + (self.months == MONTHS_PER_YEAR)
    )
    if self.day_spans is not None:
      first, length = self.day_spans.T
      starts = np.where(self.has_days, first, starts)
      stops = np.where(self.has_days, first + length, stops)
    return starts, stops

  def take(self, rows: Int[np.ndarray, " n"]) -> Readings:
    """Returns some of the readings."""
    return Readings(
      self.lunations[rows],
      self.years[rows],
      self.months[rows],
      self.is_leap[rows],
      None if self.day_spans is None else self.day_spans[rows],
      self.log_weights[rows],
    )


@dataclasses.dataclass(frozen=True)
class Memberships:
  """Years and reigns to which the lunations belong.

  The first row of a lunation is its usual name: reigns in use come first, then
  the polity that the text names most, then China, then the latest reign.
  """

  lunations: Int[np.ndarray, " M"]  # ascending
  # Row of the reading by the reign's own calendar.
  readings: Int[np.ndarray, " M"]
  reigns: Int[np.ndarray, " M"]  # row of the reign in the timeline
  regnal_years: Int[np.ndarray, " M"]  # from 1
  # Whether the reign had begun and not ended. Texts also use an era's name for
  # the months of its first year before it began.
  in_use: Bool[np.ndarray, " M"]


@dataclasses.dataclass(frozen=True)
class Calendar:
  """The months of a chronicle in order, each once."""

  timeline: Timeline  # the reigns, for readers of dates
  readings: Readings  # of all lunations, the leading one of each first
  memberships: Memberships  # of the lunations in the reigns
  # Number of each reign's polity; a polity has one calendar.
  polities: Int[np.ndarray, " R"]

  def __len__(self) -> int:
    """Number of lunations."""
    return int(self.readings.lunations[-1]) + 1

  @functools.cached_property
  def years(self) -> Int[np.ndarray, " K"]:
    """Astronomical year of each lunation in its leading reading."""
    return self.readings.years[self.readings.starts]

  @functools.cached_property
  def months(self) -> Int[np.ndarray, " K"]:
    """Number of the month in the leading reading, 1-12."""
    return self.readings.months[self.readings.starts]

  @functools.cached_property
  def is_leap(self) -> Bool[np.ndarray, " K"]:
    """Whether the month is intercalary in the leading reading."""
    return self.readings.is_leap[self.readings.starts]

  @property
  def day_spans(self) -> Int[np.ndarray, "K 2"] | None:
    """First day and length in the leading reading; None if not known."""
    if self.readings.day_spans is None:
      return None
    return self.readings.day_spans[self.readings.starts]

  def take(self, is_kept: Bool[np.ndarray, " K"]) -> Calendar:
    """Returns the calendar with some months; ValueError without any."""
    return self._select(
      is_kept[self.readings.lunations], is_kept[self.memberships.lunations]
    )

  def select_reigns(self, rows: Collection[int]) -> CalendarPart:
    """Returns the part with the months and names of some reigns; () for all."""
    if not rows:
      return CalendarPart.of_all(self)
    rows = np.array(sorted(rows), int)
    members = self.memberships
    is_member = np.isin(members.reigns, rows)
    has_reading = np.zeros(len(self.readings.lunations), bool)
    has_reading[members.readings[is_member]] = True
    selected = self._select(has_reading, is_member)
    reigns = tuple(self.timeline.reigns[row] for row in rows.tolist())
    return CalendarPart(
      dataclasses.replace(
        selected,
        timeline=dataclasses.replace(self.timeline, reigns=reigns),
        memberships=dataclasses.replace(
          selected.memberships,
          reigns=np.searchsorted(rows, selected.memberships.reigns),
        ),
        polities=np.unique(self.polities[rows], return_inverse=True)[1],
      ),
      rows,
      np.append(np.unique(members.lunations[is_member]), len(self)),
    )

  def _select(
    self, has_reading: Bool[np.ndarray, " V"], is_member: Bool[np.ndarray, " M"]
  ) -> Calendar:
    if not has_reading.any():
      raise ValueError("a calendar needs at least one month")
    members = self.memberships
    readings = self.readings.take(np.flatnonzero(has_reading))
    is_kept = np.zeros(len(self), bool)
    is_kept[readings.lunations] = True
    new_ordinals = np.cumsum(is_kept) - 1
    new_readings = np.cumsum(has_reading) - 1
    # Without its leading reading, another leads.
    log_weights = readings.log_weights.copy()
    log_weights[readings.starts] = 0.0
    return dataclasses.replace(
      self,
      readings=dataclasses.replace(
        readings,
        lunations=new_ordinals[readings.lunations],
        day_spans=readings.day_spans if readings.has_days.any() else None,
        log_weights=log_weights,
      ),
      memberships=Memberships(
        new_ordinals[members.lunations[is_member]],
        new_readings[members.readings[is_member]],
        members.reigns[is_member],
        members.regnal_years[is_member],
        members.in_use[is_member],
      ),
    )

  def weigh_readings(self, name_counts: Int[np.ndarray, " R"]) -> Calendar:
    """Returns the calendar with the readings of the polity named most first.

    `name_counts` is how often the text names each reign together with a year.
    """
    readings, members = self.readings, self.memberships
    polity_counts = np.bincount(self.polities, name_counts)
    counts = np.zeros(len(readings.lunations))
    in_use = members.in_use
    np.maximum.at(
      counts,
      members.readings[in_use],
      polity_counts[self.polities[members.reigns[in_use]]],
    )
    order = np.lexsort((-counts, readings.lunations))
    sorted_readings, counts = readings.take(order), counts[order]
    starts = sorted_readings.starts
    leading_counts = np.repeat(
      counts[starts], np.diff(starts, append=len(order))
    )
    log_weights = np.log((counts + 1) / (leading_counts + 1))
    log_weights = np.maximum(log_weights - _LOG_PARALLEL, _LOG_MIN_WEIGHT)
    log_weights[starts] = 0.0
    by_count = np.lexsort(
      (
        -polity_counts[self.polities[members.reigns]],
        ~members.in_use,
        members.lunations,
      )
    )
    return dataclasses.replace(
      self,
      readings=dataclasses.replace(sorted_readings, log_weights=log_weights),
      memberships=Memberships(
        members.lunations[by_count],
        np.argsort(order)[members.readings][by_count],
        members.reigns[by_count],
        members.regnal_years[by_count],
        members.in_use[by_count],
      ),
    )

  def find_members(
    self, is_match: Bool[np.ndarray, " M"]
  ) -> Bool[np.ndarray, " K"]:
    """Returns which lunations have a membership that matches."""
    is_found = np.zeros(len(self), bool)
    is_found[self.memberships.lunations[is_match]] = True
    return is_found

  def name_month(
    self, ordinal: int | np.integer, printed_reigns: Collection[int] = ()
  ) -> tuple[str, int, str]:
    """Returns (reign, regnal year, month) of a month, such as 晉泰始, 1, 3L.

    Of several names, one of `printed_reigns` comes first.
    """
    row = self._find_name(ordinal, printed_reigns)
    members = self.memberships
    reign = self.timeline.reigns[members.reigns[row]]
    reading = members.readings[row]
    leap = "L" * bool(self.readings.is_leap[reading])
    month = f"{self.readings.months[reading]}{leap}"
    return reign.state + reign.name, int(members.regnal_years[row]), month

  def find_reigns(self, name: str) -> tuple[int, ...]:
    """Returns the rows of all reigns with a name, with or without its state."""
    return dates.find_named_reigns(name, self.timeline)

  def find_reign(
    self, ordinal: int | np.integer, printed_reigns: Collection[int] = ()
  ) -> int:
    """Returns the row of the reign that `name_month` uses."""
    row = self._find_name(ordinal, printed_reigns)
    return int(self.memberships.reigns[row])

  def find_reading(
    self, ordinal: int | np.integer, printed_reigns: Collection[int] = ()
  ) -> int:
    """Returns the reading of a month by the reign that `name_month` uses."""
    row = self._find_name(ordinal, printed_reigns)
    return int(self.memberships.readings[row])

  def find_days(
    self, ordinal: int | np.integer, printed_reigns: Collection[int] = ()
  ) -> tuple[int, int] | None:
    """Returns the first Julian day and the length of a month, if known."""
    reading = self.find_reading(ordinal, printed_reigns)
    if not self.readings.has_days[reading]:
      return None
    first, length = self.readings.day_spans[reading].tolist()
    return first, length

  def _find_name(
    self, ordinal: int | np.integer, printed_reigns: Collection[int]
  ) -> int:
    members = self.memberships
    start, end = np.searchsorted(
      members.lunations, (ordinal, ordinal + 1)
    ).tolist()
    printed_rows = [
      row for row in range(start, end) if members.reigns[row] in printed_reigns
    ]
    # Those in use come first; 雍熙元年三月 was a name before it was in use. A
    # work on 遼 that names an era of 宋 once counts by those of 遼, also in
    # months of an era that it does not print.
    counts = collections.Counter(self.polities[list(printed_reigns)].tolist())
    if not printed_rows:
      printed_rows = [
        row
        for row in range(start, end)
        if members.in_use[row] and self.polities[members.reigns[row]] in counts
      ]
    if not printed_rows:
      return start
    return max(
      printed_rows, key=lambda row: counts[self.polities[members.reigns[row]]]
    )

  @functools.cached_property
  def day_chances(self) -> Float[np.ndarray, "S K D"]:
    """Chance that a month has each day, begins with it, and ends with it."""
    has_days = self.readings.find_lunations(self.readings.has_days)
    if not has_days.any():
      years, year_of = np.unique(self.years, return_inverse=True)
      chances = date_features.make_lunations(
        years, year_of, self.months
      ).day_chances_by_offset
    else:
      first, length = self.readings.day_spans.T[..., None]  # each [V, 1]
      days = np.arange(sexagenary.CYCLE_LENGTH)
      past_first = days - sexagenary.cyclic_index_of_day(first)
      has_day = past_first % sexagenary.CYCLE_LENGTH < length
      # [V, 3, 60] to [K, 3, 60]: a day fits if one reading has it.
      chances = np.maximum.reduceat(
        date_features.add_day_marks(has_day[None].astype(float))[0]
        * np.exp(self.readings.log_weights)[:, None, None],
        self.readings.starts,
        axis=0,
      )[None]
    # [S, K, 3, 60] to [S, K, D].
    chances = chances.reshape(*chances.shape[:2], -1)
    if has_days.any() and not has_days.all():
      by_offset = self.take(~has_days).day_chances
      chances = np.repeat(chances.astype(np.float32), len(by_offset), axis=0)
      chances[:, ~has_days] = by_offset
    return chances


@dataclasses.dataclass(frozen=True)
class CalendarPart:
  """A part of a calendar: some reigns, and the months that they name."""

  calendar: Calendar
  reigns: Int[np.ndarray, " R"]  # row in the whole of each reign of the part
  # Ordinal in the whole of each month of the part, and of outside.
  months: Int[np.ndarray, " ordinals"]

  @classmethod
  def of_all(cls, calendar: Calendar) -> CalendarPart:
    """Returns a calendar as the part that is the whole."""
    num_reigns = len(calendar.timeline.reigns)
    return cls(calendar, np.arange(num_reigns), np.arange(len(calendar) + 1))

  def find_own(self, months: Int[np.ndarray, "*n"]) -> Int[np.ndarray, "*n"]:
    """Returns ordinals of the part from those of the whole; -1 stays."""
    own = np.full(self.months[-1] + 1, len(self.calendar))
    own[self.months] = np.arange(len(self.months))
    return np.where(months < 0, months, own[months])

  def mark(self, is_member: Bool[np.ndarray, " k"]) -> Bool[np.ndarray, " K"]:
    """Returns months of the whole from months of the part."""
    is_marked = np.zeros(self.months[-1], bool)
    is_marked[self.months[:-1][is_member]] = True
    return is_marked


def read_calendar(path: pathlib.Path) -> Calendar:
  """Returns the calendar of a reign table (see `reigns.read_reign_table`).

  Raises:
    ValueError: if a cell cannot be read; the message names file, line and
      column.
    FileNotFoundError: if the file does not exist.
  """
  try:
    rows = reigns.read_reign_table(path)
  except UnicodeDecodeError as error:
    raise ValueError(
      Note("problem.table.utf8", file=path, message=error.reason)
    ) from error
  for line, row in enumerate(rows, start=2):
    if not -MAX_YEAR <= row.accession <= row.accession + row.years < MAX_YEAR:
      raise ValueError(
        f"{path}, line {line}: columns 'accession' and 'years' should stay "
        f"between -{MAX_YEAR} and {MAX_YEAR}"
      )
  return make_calendar(Timeline(path.stem, rows))


def load_calendar(names: str) -> Calendar:
  """Returns the calendar of polities or countries with commas, or of `all`.

  Raises:
    ValueError: if a name is unknown; the error lists the nearest.
  """
  return convert_calendar(era_calendars.load_calendar(names), names)


def convert_calendar(source: EraCalendar, name: str) -> Calendar:
  """Returns the chronicle calendar of an era calendar."""
  # First days ascend: those of one lunation lie together, a day or two apart.
  # A Gregorian month has lunar ones beside it, but is none of them. From 1912
  # on lunar months are read only if they are called so: 農曆 is another reading
  # of the Gregorian month in which it begins.
  is_civil = source.is_civil
  starts_lunation = (
    np.diff(source.first_days, prepend=-np.inf) > _MAX_DAYS_APART
  ) | (np.diff(is_civil, prepend=is_civil[0]) != 0)
  is_recent = source.first_days >= _FIRST_DAY_OF_REPUBLIC
  if (is_civil & is_recent).any():
    starts_lunation &= is_civil | ~is_recent
  lunation_of_month = np.cumsum(starts_lunation) - 1
  num_used = np.zeros(len(source), int)
  np.add.at(num_used, source.member_months, source.in_use)
  # The reading of most eras leads.
  order = np.lexsort((-num_used, lunation_of_month))
  reading_of_month = np.argsort(order)
  readings = Readings(
    lunation_of_month[order],
    source.years[order],
    source.months[order],
    source.is_leap[order],
    np.stack([source.first_days, source.lengths], axis=-1)[order],
    np.where(np.diff(lunation_of_month[order], prepend=-1), 0, -_LOG_PARALLEL),
  )
  reign_of_era = np.empty(len(source.eras), int)
  for reign, eras in enumerate(source.reign_eras):
    reign_of_era[list(eras)] = reign
  countries = np.array(
    [calendar_tables.COUNTRIES.index(era.polity.country) for era in source.eras]
  )
  lunations = lunation_of_month[source.member_months]
  order = np.lexsort(
    (
      -source.member_eras,
      countries[source.member_eras],
      ~source.in_use,
      lunations,
    )
  )
  memberships = Memberships(
    lunations[order],
    reading_of_month[source.member_months][order],
    reign_of_era[source.member_eras][order],
    source.regnal_years[order],
    source.in_use[order],
  )
  polities = [
    source.eras[first].polity.number for first, *_ in source.reign_eras
  ]
  return Calendar(
    Timeline(name, source.make_reigns()),
    readings,
    memberships,
    np.unique(polities, return_inverse=True)[1],
  )


def join_calendars(
  parts: Sequence[Calendar], name: str
) -> tuple[Calendar, list[tuple[int, ...]]]:
  """Returns a calendar of all months, and the rows of each part's reigns.

  Months are one that begin within a few days of each other. Where the days of a
  table are not known, its month is that of the same number and year.
  """
  day_of_group, groups = _group_months(parts)
  order = np.argsort(day_of_group, kind="stable")
  ordinal_of_group = np.argsort(order)
  lunations_of = [ordinal_of_group[of_part] for of_part in groups]
  rows = np.concatenate([_list_readings(part) for part in parts])
  rows[:, 0] = np.concatenate(
    [
      lunations[part.readings.lunations]
      for lunations, part in zip(lunations_of, parts, strict=True)
    ]
  )
  days = day_of_group[order].astype(int)
  has_days = rows[:, -1] > 0
  rows[~has_days, -2] = days[rows[~has_days, 0]]
  # Two parts may read a month alike. Readings with days lead, then those of the
  # first part.
  _, firsts, same = np.unique(
    rows, axis=0, return_index=True, return_inverse=True
  )
  by_lunation = np.lexsort((firsts, ~has_days[firsts], rows[firsts, 0]))
  lunations, years, months, is_leap, *spans = rows[firsts[by_lunation]].T
  reading_of_row = np.argsort(by_lunation)[same.reshape(-1)]
  reigns = [reign for part in parts for reign in part.timeline.reigns]
  by_accession = np.argsort(
    [reign.accession for reign in reigns], kind="stable"
  )
  new_rows = np.argsort(by_accession)
  num_reigns, num_polities, num_readings = (
    np.cumsum([0, *sizes])
    for sizes in (
      [len(part.timeline.reigns) for part in parts],
      [part.polities.max() + 1 for part in parts],
      [len(part.readings.lunations) for part in parts],
    )
  )
  members = np.concatenate(
    [
      np.stack(
        [
          lunations_of[number][part.memberships.lunations],
          reading_of_row[num_readings[number] + part.memberships.readings],
          new_rows[num_reigns[number] + part.memberships.reigns],
          part.memberships.regnal_years,
          part.memberships.in_use,
        ]
      )
      for number, part in enumerate(parts)
    ],
    axis=1,
  )
  members = members[:, np.lexsort((~members[4].astype(bool), members[0]))]
  polities = [
    polity + offset
    for part, offset in zip(parts, num_polities, strict=False)
    for polity in part.polities.tolist()
  ]
  calendar = Calendar(
    Timeline(name, tuple(reigns[row] for row in by_accession)),
    Readings(
      lunations,
      years,
      months,
      is_leap.astype(bool),
      np.stack(spans, axis=1) if has_days.any() else None,
      np.where(np.diff(lunations, prepend=-1), 0.0, -_LOG_PARALLEL),
    ),
    Memberships(*members[:4], members[4].astype(bool)),
    np.array(polities)[by_accession],
  )
  bounds = itertools.pairwise(num_reigns.tolist())
  return calendar, [
    tuple(sorted(new_rows[first:stop].tolist())) for first, stop in bounds
  ]


def _list_readings(part: Calendar) -> Int[np.ndarray, "V 6"]:
  """Returns lunation, year, month, leap mark, first day and length."""
  readings, num_readings = part.readings, len(part.readings.lunations)
  spans = np.zeros((num_readings, 2), int)
  if readings.day_spans is not None:
    spans = readings.day_spans
  columns = readings.lunations, readings.years, readings.months
  return np.stack([*columns, readings.is_leap, *spans.T], axis=1)


def _group_months(
  parts: Sequence[Calendar],
) -> tuple[Float[np.ndarray, " groups"], list[Int[np.ndarray, " k"]]]:
  """Returns the first day of each month of all, and of each part its months."""
  leading = [part.readings.take(part.readings.starts) for part in parts]
  known = np.concatenate([readings.has_days for readings in leading])
  starts, stops = np.concatenate(
    [readings.bound_days() for readings in leading], axis=1
  )
  days = np.where(known, starts, (starts + stops - _DAYS_PER_LUNATION) / 2)
  numbers = np.concatenate(
    [
      2 * _count_months(part.years, part.months) + part.is_leap
      for part in parts
    ]
  )
  order = np.flatnonzero(known)[np.argsort(days[known], kind="stable")]
  groups = np.empty(len(days), int)
  part_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
  group, last_day, present = -1, -np.inf, set()
  for row in order.tolist():
    # A month of two days, as before a reform, is one of its own.
    if days[row] - last_day > _MAX_DAYS_APART or part_of[row] in present:
      group, present = group + 1, set()
    present.add(part_of[row])
    groups[row], last_day = group, days[row]
  # Of a month without days, that of its number.
  group_of = dict(
    zip(numbers[order[::-1]].tolist(), groups[order[::-1]], strict=True)
  )
  num_groups = group + 1
  for row in np.flatnonzero(~known).tolist():
    number = int(numbers[row])
    if number not in group_of:
      group_of[number] = num_groups
      num_groups += 1
    groups[row] = group_of[number]
  first_days = np.full(num_groups, np.inf)
  # Those without days come last and only count where no other does.
  np.minimum.at(first_days, groups[known], days[known])
  is_alone = ~known & np.isinf(first_days[groups])
  first_days[groups[is_alone]] = days[is_alone]
  return first_days, [groups[part_of == number] for number in range(len(parts))]


def _count_months(years: np.ndarray, months: np.ndarray) -> np.ndarray:
  """Returns months since the first of year 0."""
  return MONTHS_PER_YEAR * years + months - 1


def make_calendar(timeline: Timeline) -> Calendar:
  """Returns the calendar of a reign table, which may have gaps and overlaps."""
  years_in_table = {
    year
    for reign in timeline.reigns
    for year in range(reign.accession, reign.accession + reign.years)
  }
  if timeline.reigns[0].accession >= FIRST_COMPUTED_YEAR:
    lunations = _iter_lunations(min(years_in_table), max(years_in_table))
    rows = [row for row in lunations if row[0] in years_in_table]
  else:
    rows = [
      (year, month, False)
      for year in sorted(years_in_table)
      for month in range(1, MONTHS_PER_YEAR + 1)
    ]
  years, months, leaps, *spans = map(np.array, zip(*rows, strict=True))
  readings = Readings(
    np.arange(len(rows)),
    years,
    months,
    leaps,
    np.stack(spans, axis=1) if spans else None,
    np.zeros(len(rows)),
  )
  return Calendar(
    timeline,
    readings,
    _find_memberships(timeline, years, months),
    np.zeros(len(timeline.reigns), int),
  )


def _find_memberships(
  timeline: Timeline,
  years: Int[np.ndarray, " K"],
  months: Int[np.ndarray, " K"],
) -> Memberships:
  """Returns the memberships of months in the reigns of a table."""
  accession, num_years, first_month = np.array(
    [
      (reign.accession, reign.years, reign.first_month)
      for reign in timeline.reigns
    ]
  ).T
  regnal_years = years - accession[:, None] + 1  # [R, K]
  reigns, lunations = np.nonzero(
    (regnal_years >= 1) & (regnal_years <= num_years[:, None])
  )
  regnal_years = regnal_years[reigns, lunations]
  in_use = (regnal_years > 1) | (months[lunations] >= first_month[reigns])
  order = np.lexsort((-reigns, ~in_use, lunations))
  # A lunation has one reading here.
  columns = lunations, lunations, reigns, regnal_years, in_use
  return Memberships(*(column[order] for column in columns))


def _iter_lunations(
  first_year: int, last_year: int
) -> Iterator[tuple[int, int, bool, int, int]]:
  """Yields (year, month, is_leap, first Julian day, length) for some years."""
  import sxtwl

  moons = sexagenary.find_new_moons(
    sexagenary.to_julian_day(first_year - 1, 11, 1),
    sexagenary.to_julian_day(last_year + 1, 4, 30),
  )
  year, month = first_year - 1, 1
  for moon, next_moon in itertools.pairwise(moons):
    day = sxtwl.fromSolar(*sexagenary.to_civil_date(moon))
    # sxtwl has no number for a second twelfth month (239 CE), and the
    # years 690-700, which began two months early, run back in it.
    lunar_month = day.getLunarMonth() or MONTHS_PER_YEAR
    lunar_year = max(day.getLunarYear(), year)
    is_leap = day.isLunarLeap() or (lunar_year, lunar_month) == (year, month)
    year, month = lunar_year, lunar_month
    if first_year <= year <= last_year:
      yield year, month, is_leap, moon, next_moon - moon


# Months of one calendar found in another, [T] of a data set's timeline.


def map_time_keys(
  timeline: Timeline, calendar: Calendar
) -> Int[np.ndarray, " T"]:
  """Returns the lunation of every month of a data set's timeline, [T].

  A month is found by its reign, or else by its year of the common era. A leap
  month missing from the calendar becomes the month before it. K stands for a
  month outside the calendar.
  """
  months_of_year = _number_months(calendar)
  lunations = np.full(len(timeline), len(calendar))
  for ordinal, key in enumerate(timeline.months):
    reign = timeline.reigns[key.reign - 1]
    candidates = months_of_year.get((reign.state, reign.name, key.year)) or (
      months_of_year.get((reigns.astronomical_year_of(timeline, key),), {})
    )
    lunations[ordinal] = _find_month(candidates, key, len(calendar))
  return lunations


def _number_months(
  calendar: Calendar,
) -> dict[tuple, dict[tuple[int, bool], int]]:
  """Returns (month, leap) -> lunation, by regnal year and by civil year."""
  readings, members = calendar.readings, calendar.memberships
  names = [
    *zip(readings.months.tolist(), readings.is_leap.tolist(), strict=True)
  ]
  months_of_year: dict[tuple, dict[tuple[int, bool], int]] = {}
  for lunation, reading, reign_row, year in zip(
    members.lunations.tolist(),
    members.readings.tolist(),
    members.reigns.tolist(),
    members.regnal_years.tolist(),
    strict=True,
  ):
    reign = calendar.timeline.reigns[reign_row]
    months = months_of_year.setdefault((reign.state, reign.name, year), {})
    months.setdefault(names[reading], lunation)
  for lunation, reading in enumerate(readings.starts.tolist()):
    months = months_of_year.setdefault((int(readings.years[reading]),), {})
    months.setdefault(names[reading], lunation)
  return months_of_year


def _find_month(
  months: dict[tuple[int, bool], int], key: TimeKey, outside: int
) -> int:
  """Returns the lunation of a month of a year, or of the last before it."""
  passed = [month for month in months if month <= (key.month, key.leap)]
  if passed:
    return months[max(passed)]
  return months[min(months)] if months else outside


def match_months(
  narrowed: Calendar, calendar: Calendar
) -> Int[np.ndarray, " ordinals"]:
  """Returns the ordinals in a calendar of the months of a part, then K."""
  ordinals = np.searchsorted(_sort_key(calendar), _sort_key(narrowed))
  return np.append(ordinals, len(calendar))


def _sort_key(calendar: Calendar) -> Int[np.ndarray, " K"]:
  """Returns an ascending number for every month that tells it from others."""
  readings = calendar.readings
  if readings.day_spans is not None:
    return np.minimum.reduceat(readings.day_spans[:, 0], readings.starts)
  return 2 * _count_months(calendar.years, calendar.months) + calendar.is_leap
