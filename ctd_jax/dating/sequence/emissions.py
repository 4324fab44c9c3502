"""Emissions: log p(section | month) of what a chronicle prints of its dates.

Axes: N sections, B a block of them, K months, V different statements on months,
R reigns, S offsets of the calendar (one where it is computed), D = 3 x 60 days:
any day of a month, its first and its last.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable

import numpy as np
import scipy.sparse
from jaxtyping import Float32

from ctd_jax.chronology import sexagenary
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR
from ctd_jax.dating.experts import days as days_lib
from ctd_jax.dating.sequence.month_calendar import Calendar
from ctd_jax.dating.sequence.sections import (
  DAY_STATEMENTS,
  DateStatement,
  Section,
)

# Log of the chance that what is printed is wrong, against that it is right.
LOG_ERROR_ODDS = {
  "month": -6.0,
  "leap": -4.0,
  "season": -5.0,
  "day": -3.0,
  # Most wrong days fit a month by chance, few its first or last day.
  "first day": -6.0,
  "last day": -6.0,
  "year": -5.0,
  "cycle": -4.0,
  "era": -2.0,
}
# 閏五月 where 閏四月 is computed, or an ordinary 五月.
_LOG_NEAR_LEAP_ODDS = -2.0


class RecordEmissions:
  """log p(section | month) of all sections, made block by block when called.

  Attributes:
    kinds: class of every section, int32 [N].
    first_sections: first section of every record, int [records].
    statement_counts: how often each name of `LOG_ERROR_ODDS` is printed.
    offset_transition: chances of the calendar's offset from section to section,
      [S, S]; None where the calendar is computed.
  """

  def __init__(self, sections: Iterable[Section], calendar: Calendar):
    sections = list(sections)
    self.kinds = np.array([section.kind for section in sections], np.int32)
    records = np.array([section.record for section in sections])
    self.first_sections = np.flatnonzero(np.diff(records, prepend=-1))
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
    self._day_matrix = _count_pairs(
      [
        (row, _day_column(*statement))
        for row, statement in statements
        if statement not in column_of
      ],
      (len(sections), len(DAY_STATEMENTS) * sexagenary.CYCLE_LENGTH),
    )
    self._statement_log_p = np.zeros(
      (max(len(column_of), 1), len(calendar)), np.float32
    )
    for statement, column in column_of.items():
      self._statement_log_p[column] = _log_statement_chances(
        statement, calendar
      )
    # Where no day is printed there is no need of new moons, and one offset.
    all_days = np.ones((1, len(calendar), self._day_matrix.shape[1]))
    self._day_log_p = _log_day_chances(
      calendar.day_chances() if self._day_matrix.nnz else all_days
    )
    self.offset_transition = (
      days_lib.make_offset_transition()
      if self._day_log_p.shape[1] > 1
      else None
    )

  def __call__(self, start: int, stop: int) -> Float32[np.ndarray, "B S K"]:
    """Returns log p of sections start..stop, up to a constant for each."""
    # [B, V] @ [V, K], the same at every offset; [B, D] . [D, S, K].
    statement_log_p = self._statement_matrix[start:stop] @ self._statement_log_p
    day_log_p = np.tensordot(
      self._day_matrix[start:stop].toarray(), self._day_log_p, 1
    )
    return statement_log_p[:, None] + day_log_p


def _day_column(name: str, day: int) -> int:
  """Returns the index of a day in D."""
  return DAY_STATEMENTS.index(name) * sexagenary.CYCLE_LENGTH + day


def _count_pairs(
  pairs: Iterable[tuple[int, int]], shape: tuple[int, int]
) -> scipy.sparse.csr_array:
  """Returns how often each (row, column) is among the pairs."""
  rows, columns = np.array([*pairs], int).reshape(-1, 2).T
  ones = np.ones(len(rows), np.float32)
  return scipy.sparse.csr_array((ones, (rows, columns)), shape)


def _log_day_chances(day_chances: np.ndarray) -> np.ndarray:
  """Returns log p(day | offset, month), up to a constant, float32 [D, S, K]."""
  error_odds = np.exp([LOG_ERROR_ODDS[name] for name in DAY_STATEMENTS]).repeat(
    sexagenary.CYCLE_LENGTH
  )
  # 0 where the month is sure to have the day.
  log_chances = np.log(1 - (1 - error_odds) * (1 - day_chances))
  return np.moveaxis(log_chances, -1, 0).astype(np.float32)


def _log_statement_chances(
  statement: DateStatement, calendar: Calendar
) -> Float32[np.ndarray, " K"]:
  """Returns log p(statement | month), up to a constant."""
  statement_name, *arguments = statement
  readings, members = calendar.readings, calendar.memberships
  mismatch_log_p = np.full(
    len(calendar), LOG_ERROR_ODDS[statement_name], np.float32
  )
  if statement_name == "month":
    is_match = readings.find_lunations(readings.months == arguments[0])
  elif statement_name == "season":
    is_match = readings.find_lunations(
      (readings.months - 1) // 3 == arguments[0]
    )
  elif statement_name == "leap":
    number = arguments[0]
    if readings.day_spans is None:
      is_match = calendar.months == (number or MONTHS_PER_YEAR)
    else:
      is_match = readings.find_lunations(
        readings.is_leap & np.isin(readings.months, number or range(13))
      )
    if number:
      is_near = abs(readings.months - number) <= readings.is_leap
      mismatch_log_p[readings.find_lunations(is_near)] = _LOG_NEAR_LEAP_ODDS
  elif statement_name == "cycle":
    is_match = readings.find_lunations(
      sexagenary.cyclic_index_of_year(readings.years) == arguments[0]
    )
  else:
    reign_name = arguments[0]
    regnal_year = arguments[1] if statement_name == "year" else 1
    is_member = (
      members.regnal_years == regnal_year
      if regnal_year
      else np.ones(len(members.reigns), bool)
    )
    if reign_name is not None:
      is_member = is_member & np.isin(
        members.reigns,
        [
          index
          for index, reign in enumerate(calendar.timeline.reigns)
          if reign.name == reign_name
        ],
      )
    is_match = calendar.find_members(is_member)
    # A year that the table lacks is evidence of nothing.
    if not is_match.any():
      return np.zeros(len(calendar), np.float32)
  return np.where(is_match, np.float32(0), mismatch_log_p)
