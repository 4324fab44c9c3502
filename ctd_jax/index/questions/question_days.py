"""Sexagenary days of questions, and the months that can have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ctd_jax.chronology import date_expressions, sexagenary
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.query_calendar import Months
from ctd_jax.index.questions import question_readings
from ctd_jax.index.questions.question_calendar import CalendarMonths, find_runs
from ctd_jax.index.questions.question_types import MonthSpan

# Beyond, the days of an uncertain calendar take too long to compute.
_MAX_COMPUTED_MONTHS = 600


class Day(NamedTuple):
  """A sexagenary day of a question.

  Attributes:
    start: position of the pair.
    end: position after it.
    index: 0 = 甲子.
    mark: one of `sexagenary.DAY_MARKS`.
  """

  start: int
  end: int
  index: int
  mark: int


def find_days(text: str, months: CalendarMonths) -> list[Day]:
  """Returns the sexagenary days of a question.

  Args:
    text: the question.
    months: of the calendar.
  """
  folded = fold_script(text)
  days = []
  for cue in date_expressions.find_date_cues(text, months.timeline):
    if cue.day:
      days.append(
        Day(
          cue.end - len(cue.day),
          cue.end,
          sexagenary.parse_cyclic_index(cue.day),
          sexagenary.find_day_mark(folded, cue.end),
        )
      )
  return days


def narrow_to_day(
  intervals: Sequence[MonthSpan],
  day: Day,
  months: CalendarMonths,
  notes: list[str],
  numbers: Sequence[int],
) -> tuple[MonthSpan, ...]:
  """Returns the months of intervals that can have a day; all if none can.

  Args:
    intervals: months that a question asks for.
    day: of the question.
    months: of the calendar.
    notes: to which is added what was left out.
    numbers: of the reigns that the question names, for the names of months.
  """
  pair = sexagenary.format_cyclic_index(day.index)
  if months.calendar.readings.day_spans is None:
    num_months = sum(span.last + 1 - span.first for span in intervals)
    if num_months == len(intervals):
      return tuple(intervals)  # single months, whose days are not certain
    if num_months > _MAX_COMPUTED_MONTHS:
      notes.append(f"too many months to tell which have a day {pair}")
      return tuple(intervals)
  has_day = _find_months_of_day(day, intervals, months)
  narrowed = [
    MonthSpan(
      *run,
      interval.name
      if run == (interval.first, interval.last)
      else question_readings.name_months(run, months, numbers),
    )
    for interval in intervals
    for run in _find_runs_within(has_day, interval)
  ]
  if not narrowed:
    notes.append(f"none of the months has a day {pair}; all are searched")
    return tuple(intervals)
  if sum(span.last - span.first for span in narrowed) < sum(
    span.last - span.first for span in intervals
  ) or len(narrowed) != len(intervals):
    notes.append(f"only months that can have a day {pair}")
  return tuple(dict.fromkeys(narrowed))


def _find_runs_within(
  is_member: np.ndarray, interval: MonthSpan
) -> Iterator[Months]:
  for run in find_runs(is_member[interval.first : interval.last + 1]):
    yield Months(interval.first + run.first, interval.first + run.last)


def _find_months_of_day(
  day: Day, intervals: Sequence[MonthSpan], months: CalendarMonths
) -> np.ndarray:
  """Returns which lunations of intervals can have a day at its place."""
  is_asked = np.zeros(len(months), bool)
  for span in intervals:
    is_asked[span.first : span.last + 1] = True
  calendar = months.calendar
  if calendar.readings.day_spans is None:
    column = day.mark * sexagenary.CYCLE_LENGTH + day.index
    chances = calendar.take(is_asked).day_chances[:, :, column]
    is_asked[is_asked] = chances.any(0)
    return is_asked
  first, length = calendar.readings.day_spans.T
  offset = (
    day.index - sexagenary.cyclic_index_of_day(first)
  ) % sexagenary.CYCLE_LENGTH
  is_match = {
    sexagenary.ANY_DAY: offset < length,
    sexagenary.FIRST_DAY: offset == 0,
    sexagenary.LAST_DAY: offset == length - 1,
  }[day.mark]
  return is_asked & calendar.readings.find_lunations(is_match)
