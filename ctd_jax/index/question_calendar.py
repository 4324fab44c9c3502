"""Questions as understood, and the months that they may name.

Eras overlap, states ran calendars of their own, years have leap months, and
until 104 BCE they began with the tenth month. So a regnal year is all lunations
that its own calendar counts to it, even before the era began. Years are counted
on within a polity, then in the leading one.

Axes: K months, M memberships of a lunation in a reign.
"""

import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from ctd_jax.chronology import dates, reigns, sexagenary
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.query_calendar import NO_MONTHS, Months, RegnalYear
from ctd_jax.chronology.reigns import (
  MONTHS_PER_SEASON,
  MONTHS_PER_YEAR,
  Timeline,
)
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.index import calendars
from ctd_jax.utils.notes import Note

TIME, WORDS, PASSAGE = INTENTS = ("time", "words", "passage")
# Names of rulers and eras listed for one date.
MAX_READINGS = 24
_MAX_RUNS = 4  # stretches of years that are named
# More than a reign has years.
_REIGN_STRIDE = 1 << 13
# Beyond, the days of an uncertain calendar take too long to compute.
_MAX_COMPUTED_MONTHS = 600


class QuestionError(ValueError):
  """A question that cannot be read; the message says what would be right."""


class MonthSpan(NamedTuple):
  """A stretch of lunations."""

  first: int
  last: int  # included
  name: str  # as a text would call it


class DateMeaning(NamedTuple):
  """One of several meanings of a question's date."""

  name: str  # under this meaning, e.g. 晉武帝泰始元年
  span: MonthSpan


@dataclasses.dataclass(frozen=True)
class Question:
  """A question as understood."""

  text: str  # as asked
  # `TIME` (what happened then), `WORDS` (records that contain them, within the
  # intervals if any) or `PASSAGE` (when was this written).
  intent: str
  # Any of these months, under all readings; none means any time.
  intervals: tuple[MonthSpan, ...] = ()
  words: tuple[str, ...] = ()  # to find as written; the pair of a day is one
  passage: str = ""  # to be dated, if that is the intent
  # The first `MAX_READINGS` if ambiguous.
  readings: tuple[DateMeaning, ...] = ()
  day: int | None = None  # sexagenary, 0 = 甲子
  works: tuple[str, ...] = ()  # names in the index; all if empty
  notes: tuple[Note, ...] = ()  # what was understood and what left out
  # First and last months of the intervals in which the year had another era.
  late_spans: tuple[Months, ...] = ()


class CalendarMonths:
  """The lunations of a calendar; a `QueryCalendar`."""

  def __init__(self, calendar: Calendar):
    self.calendar = calendar
    members = calendar.memberships
    keys = members.reigns * _REIGN_STRIDE + members.regnal_years
    self._order = np.lexsort((members.lunations, keys))
    self._sorted_keys = keys[self._order]
    readings = calendar.readings
    self._member_years = readings.years[members.readings]
    self._member_polities = calendar.polities[members.reigns]
    self._has_leap_months = bool(readings.is_leap.any())

  @property
  def timeline(self) -> Timeline:
    """The reigns by name."""
    return self.calendar.timeline

  def __len__(self) -> int:
    return len(self.calendar)

  @functools.cached_property
  def years(self) -> Int[np.ndarray, " Y"]:
    """Astronomical years in the calendar, ascending."""
    return np.unique(self.calendar.years)

  def find_year(self, reign: int, year: int) -> Months:
    """Returns the lunations of a regnal year."""
    return _span(self._lunations(self._find_members(reign, year)))

  def find_start(self, reign: int) -> int | None:
    """Returns the lunation that a reign came into use in its first year."""
    members = self._find_members(reign, 1)
    used = members[self.calendar.memberships.in_use[members]]
    return int(self._lunations(used).min()) if len(used) else None

  def find_month(
    self,
    reign: int,
    year: int,
    month: int,
    leap: bool = False,
    by_number: bool = False,
  ) -> Months:
    """Returns a month of a regnal year.

    One that a reform left out, as the third of 237, is the month before it.
    """
    numbers, is_leap, lunations = self._list_months(reign, year)
    if month == 1 and not by_number:
      members = self._find_members(reign, year)
      readings = self.calendar.memberships.readings[members]
      is_first = self.calendar.readings.is_named_first[readings]
      if is_first.any():
        return _span(lunations[is_first])
    is_match = (numbers == month) & (
      is_leap == (leap and self._has_leap_months)
    )
    if not leap and not is_match.any() and (numbers > month).any():
      earlier = lunations[numbers < month]
      return _span(earlier[-1:])
    return _span(lunations[is_match])

  def lacks_month(self, reign: int, year: int, month: int) -> bool:
    """Returns whether a regnal year has no month of a number."""
    return month not in self._list_months(reign, year)[0]

  def _list_months(
    self, reign: int, year: int
  ) -> tuple[
    Int[np.ndarray, " m"], Bool[np.ndarray, " m"], Int[np.ndarray, " m"]
  ]:
    members = self._find_members(reign, year)
    readings = self.calendar.readings
    rows = self.calendar.memberships.readings[members]
    return (
      readings.months[rows],
      readings.is_leap[rows],
      self._lunations(members),
    )

  def find_season(self, reign: int, year: int, month: int) -> Months:
    """Returns the months of a season."""
    numbers, _, lunations = self._list_months(reign, year)
    is_match = (numbers >= month) & (numbers < month + MONTHS_PER_SEASON)
    return _span(lunations[is_match])

  def find_leap_months(self, reign: int, year: int) -> list[int] | None:
    """Returns the leap months of a year; None if the calendar marks none."""
    if not self._has_leap_months:
      return None
    numbers, is_leap, _ = self._list_months(reign, year)
    return sorted(set(numbers[is_leap].tolist()))

  def find_common_year(
    self, year: int, month: int | None = None
  ) -> tuple[Months, RegnalYear | None]:
    """Returns a year of the common era, with its regnal year."""
    is_match = self.calendar.years == year
    if not is_match.any():
      raise KeyError(
        reigns.describe_missing_year(
          year, set(self.years.tolist()), format_years(self.years)
        )
      )
    if month is not None:
      is_match &= (self.calendar.months == month) & ~self.calendar.is_leap
      if not is_match.any():
        raise KeyError(
          Note(
            "problem.question.month_lacking",
            year=reigns.format_common_era_year(year),
            month_number=month,
            calendar=self.timeline.name,
          )
        )
    months = _span(np.flatnonzero(is_match))
    return months, self._name_year(months.first)

  def find_middle(self, year: Months) -> int:
    """Returns the first lunation after six months and their leap months."""
    is_ordinary = ~self.calendar.is_leap[year.first : year.last + 1]
    after = np.flatnonzero(np.cumsum(is_ordinary) > MONTHS_PER_YEAR // 2)
    return year.first + (int(after[0]) if len(after) else len(is_ordinary))

  def find_next_year(self, reign: int, year: int) -> RegnalYear | None:
    """Returns the year after a regnal year."""
    next_years = self.years[self.years > self._civil_year(reign, year)]
    if not len(next_years):
      return None
    members = self._members_of_year(
      int(next_years[0]), self.calendar.polities[reign - 1]
    )
    if not len(members):
      return None
    # The name that was in use first.
    in_use = self.calendar.memberships.in_use[members]
    return self._name_member(members[np.argmax(in_use)])

  def shift_years(
    self,
    month: int,
    regnal_year: RegnalYear | None,
    first_offset: int,
    last_offset: int,
  ) -> Months:
    """Returns the lunations of whole years at offsets from a month."""
    if regnal_year is None:
      year, polity = int(self.calendar.years[month]), None
    else:
      year = self._civil_year(*regnal_year)
      polity = self.calendar.polities[regnal_year.reign - 1]
    index = int(np.searchsorted(self.years, year))
    low = max(index + first_offset, 0)
    high = min(index + last_offset, len(self.years) - 1)
    if high < low:
      return NO_MONTHS
    first, last = (
      self._find_polity_year(int(self.years[row]), polity)
      for row in (low, high)
    )
    return Months(min(first.first, last.first), max(first.last, last.last))

  def _find_members(self, reign: int, year: int) -> Int[np.ndarray, " m"]:
    key = (reign - 1) * _REIGN_STRIDE + year
    start, end = np.searchsorted(self._sorted_keys, (key, key + 1))
    if start == end or year >= _REIGN_STRIDE:
      raise KeyError((reign, year))
    return self._order[start:end]

  def _lunations(self, members: Int[np.ndarray, " m"]) -> np.ndarray:
    return self.calendar.memberships.lunations[members]

  def _members_of_year(
    self, year: int, polity: int | np.integer | None
  ) -> Int[np.ndarray, " m"]:
    """Returns the memberships of a year, a polity's own if it has any."""
    members = np.flatnonzero(self._member_years == year)
    of_polity = members[self._member_polities[members] == polity]
    return of_polity if len(of_polity) else members

  def _find_polity_year(
    self, year: int, polity: int | np.integer | None
  ) -> Months:
    members = self._members_of_year(year, polity)
    is_of_polity = self._member_polities[members] == polity
    if polity is None or not is_of_polity.any():
      return _span(np.flatnonzero(self.calendar.years == year))
    return _span(self._lunations(members))

  def _civil_year(self, reign: int, year: int) -> int:
    return self.timeline.reigns[reign - 1].accession + year - 1

  def _name_year(self, month: int) -> RegnalYear | None:
    members = self.calendar.memberships
    row = np.searchsorted(members.lunations, month)
    if row == len(members.lunations) or members.lunations[row] != month:
      return None
    return self._name_member(row)

  def _name_member(self, row: int | np.integer) -> RegnalYear:
    members = self.calendar.memberships
    return RegnalYear(
      int(members.reigns[row]) + 1, int(members.regnal_years[row])
    )


def format_years(years: Sequence[int] | Int[np.ndarray, " Y"]) -> Note:
  """Returns the first and last of years, e.g. "722 BCE to 468 BCE".

  Years between two calendars, or left out by one, divide them.
  """
  years = np.asarray(years)
  runs = np.split(years, np.flatnonzero(np.diff(years) > 1) + 1)
  if len(runs) > _MAX_RUNS:
    runs = [years]
  named = [
    Note("note.years", first=first, last=last)
    for first, last in (
      map(reigns.format_common_era_year, run[[0, -1]].tolist()) for run in runs
    )
  ]
  return named[0] if len(named) == 1 else Note("note.years.runs", years=named)


def name_months(
  run: Months,
  months: CalendarMonths,
  numbers: Sequence[int] = (),
  printed_reigns: Collection[int] = (),
) -> str:
  """Returns the names of the first and last month, or of the only one.

  Args:
    numbers: numbers of the reigns that a question names.
    printed_reigns: rows of reigns for names if it names none.
  """
  reigns = {number - 1 for number in numbers} or printed_reigns
  first, last = (
    calendars.name_month(months.calendar, month, reigns) for month in run
  )
  return first if first == last else f"{first} – {last}"


def find_runs(is_member: Bool[np.ndarray, " K"]) -> list[Months]:
  """Returns the stretches of marked months, in order."""
  edges = np.flatnonzero(np.diff(is_member, prepend=False, append=False))
  return [
    Months(int(first), int(end) - 1) for first, end in edges.reshape(-1, 2)
  ]


def _span(lunations: np.ndarray) -> Months:
  if not len(lunations):
    raise KeyError(Note("problem.question.no_months"))
  return Months(int(lunations.min()), int(lunations.max()))


class Day(NamedTuple):
  """A sexagenary day of a question."""

  start: int  # of the pair in the text
  end: int
  index: int  # 0 = 甲子
  mark: int  # one of `sexagenary.DAY_MARKS`


def find_days(text: str, months: CalendarMonths) -> list[Day]:
  """Returns the sexagenary days of a question."""
  folded = fold_script(text)
  return [
    Day(
      cue.end - len(cue.day),
      cue.end,
      sexagenary.parse_cyclic_index(cue.day),
      sexagenary.find_day_mark(folded, cue.end),
    )
    for cue in dates.find_date_cues(text, months.timeline)
    if cue.day
  ]


def narrow_to_day(
  intervals: Sequence[MonthSpan],
  day: Day,
  months: CalendarMonths,
  notes: list[Note],
  numbers: Sequence[int],
) -> tuple[MonthSpan, ...]:
  """Returns the months of intervals that can have a day; all if none can.

  Args:
    notes: list that receives a note on what was left out.
    numbers: numbers of the reigns that the question names.
  """
  pair = sexagenary.format_cyclic_index(day.index)
  readings = months.calendar.readings
  is_computed = readings.find_lunations(~readings.has_days)
  num_months = sum(
    is_computed[span.first : span.last + 1].sum() for span in intervals
  )
  if num_months:
    if all(span.first == span.last for span in intervals):
      return tuple(intervals)  # single months, whose days are not certain
    if num_months > _MAX_COMPUTED_MONTHS:
      notes.append(Note("note.question.days_many", day=pair))
      return tuple(intervals)
  has_day = _find_months_of_day(day, intervals, months)
  narrowed = [
    MonthSpan(
      *run,
      interval.name
      if run == (interval.first, interval.last)
      else name_months(run, months, numbers),
    )
    for interval in intervals
    for run in find_runs(has_day & _mask_months([interval], months))
  ]
  if not narrowed:
    notes.append(Note("note.question.days_none", day=pair))
    return tuple(intervals)
  if sum(span.last - span.first for span in narrowed) < sum(
    span.last - span.first for span in intervals
  ) or len(narrowed) != len(intervals):
    notes.append(Note("note.question.days_only", day=pair))
  return tuple(dict.fromkeys(narrowed))


def _mask_months(
  intervals: Sequence[MonthSpan], months: CalendarMonths
) -> Bool[np.ndarray, " K"]:
  mask = np.zeros(len(months), bool)
  for span in intervals:
    mask[span.first : span.last + 1] = True
  return mask


def _find_months_of_day(
  day: Day, intervals: Sequence[MonthSpan], months: CalendarMonths
) -> np.ndarray:
  is_asked = _mask_months(intervals, months)
  calendar = months.calendar
  has_days = calendar.readings.has_days
  is_computed = is_asked & ~calendar.readings.find_lunations(has_days)
  if is_computed.any():
    column = day.mark * sexagenary.CYCLE_LENGTH + day.index
    chances = calendar.take(is_computed).day_chances[:, :, column]
    is_computed[is_computed] = chances.any(0)
  if not has_days.any():
    return is_computed
  first, length = calendar.readings.day_spans.T
  offset = (
    day.index - sexagenary.cyclic_index_of_day(first)
  ) % sexagenary.CYCLE_LENGTH
  is_match = {
    sexagenary.ANY_DAY: offset < length,
    sexagenary.FIRST_DAY: offset == 0,
    sexagenary.LAST_DAY: offset == length - 1,
  }[day.mark] & has_days
  return is_computed | (is_asked & calendar.readings.find_lunations(is_match))
