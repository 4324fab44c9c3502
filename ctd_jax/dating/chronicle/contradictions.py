"""Contradictions: dates that a text prints and its dating does not have.

A misprint, a lost heading or a table that lacks an era shows here, and so does
a dating that went wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ctd_jax.chronology import date_expressions, sexagenary
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR
from ctd_jax.dating.chronicle import western_calendar
from ctd_jax.dating.chronicle.chronicle_dates import ChronicleDates
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.printed_dates import DateStatement
from ctd_jax.dating.chronicle.section_days import (
  SectionDays,
  find_day_statement,
)


class Contradiction(NamedTuple):
  """A printed date that the most probable month of its section has not.

  Attributes:
    section: its number.
    statement: what is printed.
  """

  section: int
  statement: DateStatement


def find_contradictions(
  dates: ChronicleDates, days: Sequence[SectionDays]
) -> list[Contradiction]:
  """Returns the contradicted statements, in order.

  Of the days of a section the first is checked. A section of no month of the
  calendar contradicts nothing.

  Args:
    dates: of the sections.
    days: of the same sections.
  """
  fits: dict[tuple[DateStatement, int], bool] = {}
  contradictions = []
  for row, (section, month) in enumerate(
    zip(dates.sections, dates.months[:, 0].tolist(), strict=True)
  ):
    if dates.is_outside(month):
      continue
    for statement in section.statements:
      if (statement, month) not in fits:
        fits[statement, month] = fits_month(statement, month, dates.calendar)
      if not fits[statement, month]:
        contradictions.append(Contradiction(row, statement))
    if days[row].lacks_day:
      contradictions.append(Contradiction(row, find_day_statement(section)))
  return contradictions


def fits_month(
  statement: DateStatement, month: int, calendar: Calendar
) -> bool:
  """Whether one of the readings of a month has what a statement says.

  Args:
    statement: on a month, season or year; any other fits.
    month: ordinal.
    calendar: of the month.
  """
  name, *values = statement
  readings, members = calendar.readings, calendar.memberships
  read = slice(*np.searchsorted(readings.lunations, (month, month + 1)))
  if name == "month":
    return bool((readings.months[read] == values[0]).any())
  if name == "months":
    return bool(np.isin(readings.months[read], values[0]).any())
  if name == "season":
    return bool(((readings.months[read] - 1) // 3 == values[0]).any())
  if name == "leap":
    # Without days a leap month counts as the twelfth.
    if readings.day_spans is None:
      return bool(calendar.months[month] == (values[0] or MONTHS_PER_YEAR))
    is_number = np.isin(readings.months[read], values[0] or range(13))
    return bool((readings.is_leap[read] & is_number).any())
  if name == "common year":
    return bool((readings.years[read] == values[0]).any())
  if name == "cycle":
    cyclic_indices = sexagenary.cyclic_index_of_year(readings.years[read])
    return bool((cyclic_indices == values[0]).any())
  if name in ("year", "era"):
    named = slice(*np.searchsorted(members.lunations, (month, month + 1)))
    year = values[1] if name == "year" else 1
    reigns = None if values[0] is None else calendar.find_reigns(values[0])
    return any(
      (not year or regnal_year == year) and (reigns is None or reign in reigns)
      for reign, regnal_year in zip(
        members.reigns[named], members.regnal_years[named], strict=True
      )
    )
  # An era that the calendar lacks is of none of its months.
  return name != "unknown era"


def format_statement(statement: DateStatement) -> str:
  """Returns a statement as a reader would say it: month 3, day 癸未."""
  name, *values = statement
  if name == "months":
    return f"month {' or '.join(map(str, values[0]))}"
  if name == "season":
    return date_expressions.SEASONS[values[0]]
  if name in ("day", "first day", "last day"):
    return f"{name} {sexagenary.format_cyclic_index(values[0])}"
  if name == "cycle":
    return f"year {sexagenary.format_cyclic_index(values[0])}"
  if name == "leap":
    return f"month {values[0]}L" if values[0] else "a leap month"
  if name == "year":
    reign, year = values[:2]
    if reign in (
      western_calendar.COMMON_ERA,
      western_calendar.BEFORE_COMMON_ERA,
    ):
      return f"year {year} {reign}"
    return f"year {reign or ''}{year}年" if year else f"reign {reign}"
  return " ".join(map(str, (name, *values)))
