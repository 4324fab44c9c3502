"""Emissions: log p(section | place) of what a chronicle prints of its dates.

Axes: N sections, B a block of them, K months, P = K + 1 places: the months and,
last, outside of the calendar; V different statements on months, R reigns, S
offsets of the calendar (one where it is computed), D = 3 x 60 days: any day of
a month, its first and its last.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Float32

from ctd_jax.chronology import sexagenary
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.printed_dates import DAY_STATEMENTS, DateStatement
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.experts import days as days_lib
from ctd_jax.dating.sequence import section_kinds

# Log of the chance that what is printed is wrong, against that it is right.
LOG_ERROR_ODDS = {
  "month": -8.0,
  # One that somebody may but speak of.
  "doubtful month": -6.0,
  "leap": -4.0,
  "season": -5.0,
  # One of some months: a season that is no quarter of the year.
  "months": -5.0,
  "day": -2.5,
  # Most wrong days fit a month by chance, few its first or last day.
  "first day": -6.0,
  "last day": -6.0,
  "month day": -3.0,
  "year": -9.0,
  # A reign with its year: nothing but the whole text says otherwise.
  "named year": -14.0,
  # An astronomical year, 「（1900年）」.
  "common year": -9.0,
  "cycle": -4.0,
  "era": -2.0,
  # An era that the calendar lacks: it may be that of a document told of.
  "unknown era": -6.0,
}
# The same outside of the calendar, against a month of it that fits: that a
# season is right by chance, and a step to its month would have been right too.
_LOG_OUTSIDE_CHANCES = {
  "month": -4.5,
  "doubtful month": -2.5,
  "leap": -5.0,
  "season": -3.5,
  "months": -3.5,
  "day": -2.0,
  "first day": -5.0,
  "last day": -5.0,
  "month day": 0.0,
  "year": -6.0,
  "named year": LOG_ERROR_ODDS["named year"],
  "common year": -6.0,
  "cycle": -6.0,
  "era": LOG_ERROR_ODDS["era"],
  "unknown era": 0.0,
}
# 閏五月 where 閏四月 is computed, or an ordinary 五月; 五月 for 閏五月.
_LOG_NEAR_LEAP_ODDS = -2.0
# A year of a reign that the calendar has no more.
_LOG_PAST_YEAR_ODDS = -9.0
# A stretch of the text that is of another time (`outside_stretches`): as much
# as a bare year with a month and a day can say.
LOG_OTHER_TIME_ODDS = -13.0
# Kinds of dates inside a record that may but tell of them. A season with its
# month is hardly anything but a date, and a day is of the month before it.
_KINDS_TOLD = {
  section_kinds.MONTH: section_kinds.TOLD_MONTH,
  section_kinds.YEAR: section_kinds.TOLD_YEAR,
  section_kinds.NAMED: section_kinds.TOLD_YEAR,
}
# What is fixed by hand is certain; finite, so that it can be said where two
# such dates exclude each other.
LOG_FIXED_ODDS = -1e4


def name_evidence(statement: DateStatement) -> str:
  """Returns the key of `LOG_ERROR_ODDS` for a statement."""
  name, *values = statement
  return "named year" if name == "year" and values[0] is not None else name


class SectionEmissions:
  """log p(section | place) of all sections, made block by block when called.

  Attributes:
    kinds: kind of every section, int32 [N].
    statement_counts: how often each name of a statement is printed.
    offset_transition: chances of the calendar's offset from section to section,
      [S, S]; None where the calendar is computed.
    allowed_months: number of a section -> months that it can be of.
  """

  def __init__(
    self,
    sections: Sequence[Section],
    calendar: Calendar,
    allowed_months: Mapping[int, Bool[np.ndarray, " K"]] | None = None,
  ):
    """Reads the statements.

    Args:
      sections: in order of the text.
      calendar: whose months they may be of.
      allowed_months: number of a section -> months that it can be of, known
        from elsewhere for certain.
    """
    sections = [name_calendars(section) for section in sections]
    # What a reader dates stands there, and is not but told of.
    self.kinds = np.array(
      [
        _KINDS_TOLD.get(section.kind, section.kind)
        if section.may_be_told and row not in (allowed_months or {})
        else section.kind
        for row, section in enumerate(sections)
      ],
      np.int32,
    )
    self.allowed_months = dict(allowed_months or {})
    self._is_of_other_time = np.array(
      [section.is_of_other_time for section in sections]
    )
    statements = [
      (row, statement)
      for row, section in enumerate(sections)
      for statement in section.statements
    ]
    self.statement_counts = collections.Counter(
      name for _, (name, *_) in statements
    )
    month_statements = dict.fromkeys(
      statement
      for _, statement in statements
      if statement[0] not in DAY_STATEMENTS
    )
    column_of = {
      statement: column for column, statement in enumerate(month_statements)
    }
    self._statement_matrix = _count_pairs(
      [
        (row, column_of[statement])
        for row, statement in statements
        if statement in column_of
      ],
      (len(sections), max(len(column_of), 1)),
    )
    day_rows = [
      (row, _day_column(*statement))
      for row, statement in statements
      if statement not in column_of
    ]
    # Of the days, those that are printed.
    days = sorted({day for _, day in day_rows})
    column_of_day = {day: column for column, day in enumerate(days)}
    self._day_matrix = _count_pairs(
      [(row, column_of_day[day]) for row, day in day_rows],
      (len(sections), max(len(days), 1)),
    )
    self._statement_log_p = np.zeros(
      (max(len(column_of), 1), len(calendar) + 1), np.float32
    )
    for statement, column in column_of.items():
      self._statement_log_p[column] = score_statement(statement, calendar)
    # Where no day is printed there is no need of new moons, and one offset.
    self._day_log_p = (
      _log_day_chances(calendar.day_chances[..., days], days)
      if days
      else np.zeros((1, 1, len(calendar) + 1), np.float32)
    )
    self.offset_transition = (
      days_lib.make_offset_transition()
      if self._day_log_p.shape[1] > 1
      else None
    )

  def __call__(
    self, start: int, stop: int, months: slice | None = None
  ) -> Float32[np.ndarray, "B S P"]:
    """Returns log p of sections start..stop, up to a constant for each.

    Args:
      start: first section.
      stop: after the last.
      months: which to read beside outside of the calendar; all if None.
    """
    # Rows of places: a section prints few statements and fewer days.
    if months is None:
      statement_log_p, day_log_p = self._statement_log_p, self._day_log_p
    else:
      statement_log_p, day_log_p = (
        np.concatenate([rows[..., months], rows[..., -1:]], axis=-1)
        for rows in (self._statement_log_p, self._day_log_p)
      )
    num_days, num_offsets, num_places = day_log_p.shape
    # [B, V] @ [V, P], the same at every offset; [B, D] @ [D, S x P].
    log_p = self._day_matrix[start:stop] @ day_log_p.reshape(num_days, -1)
    log_p = log_p.reshape(stop - start, num_offsets, num_places)
    log_p += (self._statement_matrix[start:stop] @ statement_log_p)[:, None]
    log_p[self._is_of_other_time[start:stop], :, :-1] += LOG_OTHER_TIME_ODDS
    for row in range(start, stop):
      if row in self.allowed_months:
        is_allowed = self.allowed_months[row][months or slice(None)]
        is_allowed = np.append(is_allowed, False)
        log_p[row - start][:, ~is_allowed] += LOG_FIXED_ODDS
    return log_p


def _day_column(name: str, day: int) -> int:
  """Returns the index of a day in D."""
  return DAY_STATEMENTS.index(name) * sexagenary.CYCLE_LENGTH + day


def _count_pairs(
  pairs: Sequence[tuple[int, int]], shape: tuple[int, int]
) -> scipy.sparse.csr_array:
  """Returns how often each (row, column) is among the pairs."""
  rows, columns = np.array([*pairs], int).reshape(-1, 2).T
  ones = np.ones(len(rows), np.float32)
  return scipy.sparse.csr_array((ones, (rows, columns)), shape)


def _log_day_chances(
  day_chances: np.ndarray, days: Sequence[int]
) -> np.ndarray:
  """Returns log p(day | offset, place), up to a constant, float32 [D, S, P].

  Args:
    day_chances: of some days, [S, K, D].
    days: their numbers among all.
  """
  error_odds = np.exp([LOG_ERROR_ODDS[name] for name in DAY_STATEMENTS]).repeat(
    sexagenary.CYCLE_LENGTH
  )[days]
  # 0 where the month is sure to have the day.
  log_chances = np.log(1 - (1 - error_odds) * (1 - day_chances))
  outside = np.array(
    [_LOG_OUTSIDE_CHANCES[name] for name in DAY_STATEMENTS]
  ).repeat(sexagenary.CYCLE_LENGTH)[days]
  log_chances = np.concatenate(
    [
      log_chances,
      np.broadcast_to(outside, (*log_chances[:, :1].shape,)),
    ],
    axis=1,
  )
  # In memory as its shape says, or every product would copy it.
  return np.ascontiguousarray(np.moveaxis(log_chances, -1, 0), np.float32)


def score_statement(
  statement: DateStatement, calendar: Calendar
) -> Float32[np.ndarray, " P"]:
  """Returns log p(statement | place), up to a constant.

  Args:
    statement: of a year, a season or a month.
    calendar: whose months are the places, and one outside of it.
  """
  outside = np.float32(_LOG_OUTSIDE_CHANCES[name_evidence(statement)])
  if is_past_calendar(statement, calendar):
    # 「大中祥符九年」 of a table that ends with the eighth.
    in_calendar = np.full(len(calendar), _LOG_PAST_YEAR_ODDS, np.float32)
    return np.append(in_calendar, np.float32(0))
  return np.append(_score_months(statement, calendar), outside)


def is_past_calendar(statement: DateStatement, calendar: Calendar) -> bool:
  """Returns whether a year of a reign lies where the calendar has no months.

  Args:
    statement: of a date.
    calendar: that knows the reign.
  """
  name, *values = statement
  if name != "year" or values[0] is None or not values[1]:
    return False
  rows = calendar.find_reigns(values[0])
  years = [
    calendar.timeline.reigns[row].accession + values[1] - 1 for row in rows
  ]
  return bool(years) and not (
    _find_reign_years(*values[:2], calendar).any()
    or np.isin(years, calendar.readings.years).any()
  )


def _score_months(
  statement: DateStatement, calendar: Calendar
) -> Float32[np.ndarray, " K"]:
  """Returns log p(statement | month), up to a constant."""
  name, *arguments = statement
  log_odds = LOG_ERROR_ODDS[name_evidence(statement)]
  if name == "unknown era":
    return np.full(len(calendar), log_odds, np.float32)
  if name in ("year", "era"):
    regnal_year = arguments[1] if name == "year" else 1
    is_match = _find_reign_years(arguments[0], regnal_year, calendar)
    # A year that the table lacks is evidence of nothing.
    if not is_match.any():
      return np.zeros(len(calendar), np.float32)
    return np.where(is_match, np.float32(0), np.float32(log_odds))
  log_p = _score_readings(name, arguments, calendar)
  return calendar.readings.score_lunations(log_p).astype(np.float32)


def _find_reign_years(
  reign_name: str | None, regnal_year: int, calendar: Calendar
) -> Bool[np.ndarray, " K"]:
  """Returns the months of a year of a reign; any year if it is 0."""
  members = calendar.memberships
  is_member = (
    members.regnal_years == regnal_year
    if regnal_year
    else np.ones(len(members.reigns), bool)
  )
  if reign_name is not None:
    is_member = is_member & np.isin(
      members.reigns, calendar.find_reigns(reign_name)
    )
  return calendar.find_members(is_member)


def _score_readings(
  name: str, arguments: Sequence[Hashable], calendar: Calendar
) -> Float[np.ndarray, " V"]:
  """Returns log p(statement | reading), up to a constant."""
  readings = calendar.readings
  months, log_odds = readings.months, LOG_ERROR_ODDS[name]
  if name == "cycle":
    years = sexagenary.cyclic_index_of_year(readings.years)
    is_match = years == arguments[0]
  elif name == "common year":
    is_match = readings.years == arguments[0]
  elif name == "months":
    is_match = np.isin(months, arguments[0])
  elif name == "season":
    is_match = (months - 1) // 3 == arguments[0]
  elif name == "month day":
    # Every month has 29 days.
    is_match = np.ones(len(months), bool)
    if readings.day_spans is not None and arguments[0] >= 30:
      is_match = readings.day_spans[:, 1] >= arguments[0]
  elif name in ("month", "doubtful month"):
    is_match = (months == arguments[0]) & ~readings.is_leap
    is_near = (months == arguments[0]) & readings.is_leap
    log_odds = np.where(is_near, _LOG_NEAR_LEAP_ODDS, log_odds)
  else:
    number = arguments[0]  # of a leap month, if it is printed
    if readings.day_spans is None:
      is_match = months == (number or MONTHS_PER_YEAR)
    else:
      is_match = readings.is_leap & np.isin(months, number or range(13))
    if number:
      is_near = abs(months - number) <= readings.is_leap
      log_odds = np.where(is_near, _LOG_NEAR_LEAP_ODDS, log_odds)
  log_p = np.where(is_match, 0.0, log_odds)
  reign_name = arguments[1] if len(arguments) > 1 else None
  if reign_name is not None:
    # By the calendar of the reign that is printed with the month.
    members = calendar.memberships
    is_reign = np.isin(members.reigns, calendar.find_reigns(reign_name))
    is_of_reign = np.zeros(len(months), bool)
    is_of_reign[members.readings[is_reign]] = True
    weight = np.where(is_of_reign, -readings.log_weights, 0.0)
    log_p = np.where(is_of_reign, log_p + weight, np.minimum(log_p, log_odds))
  return log_p


def name_calendars(section: Section) -> Section:
  """Returns a section whose month is of the calendar of its reign.

  Args:
    section: with the statements that it prints.
  """
  reign = next(
    (values[0] for name, *values in section.statements if name == "year"), None
  )
  if reign is None:
    return section
  statements = (
    (*statement, reign) if statement[0] in ("month", "leap") else statement
    for statement in section.statements
  )
  return dataclasses.replace(section, statements=tuple(statements))
