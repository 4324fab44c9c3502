"""Dates of a passage as an answer shows them: months, years, parallels.

Axes: K months, Y years.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.passages.passage_dates import PassageDates
from ctd_jax.index import calendars
from ctd_jax.index.answers import (
  answer_phrases,
  linked_records,
  record_answers,
)
from ctd_jax.index.answers.answer import (
  LikelyMonth,
  LikelyYear,
  Parallel,
  PassageDate,
  Span,
)
from ctd_jax.index.storage import database

if TYPE_CHECKING:
  from ctd_jax.index.index_folder import IndexFolder

MAX_MONTHS, MAX_YEARS = 12, 6  # of those that an answer lists
MAX_PARALLELS = 12
_MIN_PROBABILITY = 0.005  # of a month or year that is listed


def make_passage_date(index: IndexFolder, dates: PassageDates) -> PassageDate:
  """Returns when a passage is of, and why.

  Args:
    index: whose records date it.
    dates: of the passage.
  """
  chances = np.exp(dates.log_p.astype(np.float64))
  chances /= chances.sum()
  years, sums, bounds = _sum_years(index, chances[:-1])
  reasons = linked_records.name_linked(
    index,
    sorted(
      (reason.to_dict() for reason in dates.reasons),
      key=lambda reason: -abs(reason["weight"]),
    ),
    dates.month,
  )
  return PassageDate(
    month=calendars.describe_month(
      index.calendar, dates.month, index.printed_reigns
    ),
    common_era=record_answers.format_years(index, dates.month, dates.month),
    probability=float(chances[dates.month]),
    outside=float(chances[-1]),
    months=_list_months(index, chances),
    years=_list_years(index, years, sums, bounds),
    credible_50=_find_credible(index, chances, 0.5),
    credible_90=_find_credible(index, chances, 0.9),
    prior_log_odds=dates.prior_log_odds,
    log_odds=dates.log_odds,
    reasons=tuple(reasons),
    parallels=_list_parallels(
      index, reasons, dates.month, dates.log_odds - dates.prior_log_odds
    ),
    curve=tuple(
      (int(year), float(chance))
      for year, chance in zip(years, sums, strict=True)
    ),
  )


def _find_credible(
  index: IndexFolder, chances: Float[np.ndarray, " months"], share: float
) -> tuple[Span, ...]:
  """Returns the smallest set of months that holds a share."""
  order = np.argsort(-chances, kind="stable")
  size = int((np.cumsum(chances[order]) < share).sum()) + 1
  return record_answers.find_spans(
    index, np.sort(order[:size]).tolist(), index.printed_reigns
  )


def _list_months(
  index: IndexFolder, chances: Float[np.ndarray, " months"]
) -> tuple[LikelyMonth, ...]:
  # None of the months is told apart, unless that is likelier than all.
  size = len(chances) - (chances[-1] <= 0.5)
  order = np.argsort(-chances[:size], kind="stable")[:MAX_MONTHS].tolist()
  return tuple(
    LikelyMonth(
      ordinal=month,
      name=calendars.name_month(index.calendar, month, index.printed_reigns),
      common_era=record_answers.format_years(index, month, month),
      probability=float(chances[month]),
    )
    for month in order
    if chances[month] >= _MIN_PROBABILITY or month == order[0]
  )


def _sum_years(
  index: IndexFolder, chances: Float[np.ndarray, " K"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the years, their probabilities, and where each begins."""
  # Where calendars change, a month may be counted to a year already past.
  year_of = np.maximum.accumulate(index.calendar.years)
  starts = np.flatnonzero(np.diff(year_of, prepend=year_of[0] - 1))
  bounds = np.append(starts, len(year_of))
  return year_of[starts], np.add.reduceat(chances, starts), bounds


def _list_years(
  index: IndexFolder, years: np.ndarray, sums: np.ndarray, bounds: np.ndarray
) -> tuple[LikelyYear, ...]:
  order = np.argsort(-sums, kind="stable")[:MAX_YEARS].tolist()
  return tuple(
    LikelyYear(
      name=calendars.name_year(
        index.calendar, int(bounds[year]), index.printed_reigns
      ),
      ce_year=int(years[year]),
      common_era=reign_tables.format_common_era_year(int(years[year])),
      first=int(bounds[year]),
      last=int(bounds[year + 1]) - 1,
      probability=float(sums[year]),
    )
    for year in order
    if sums[year] >= _MIN_PROBABILITY or year == order[0]
  )


def _list_parallels(
  index: IndexFolder,
  reasons: Sequence[dict[str, Any]],
  month: int,
  gained: float,
) -> tuple[Parallel, ...]:
  """Returns the records that speak for a month, the weightiest first.

  Args:
    index: that they are of.
    reasons: the weightiest first.
    month: ordinal, that the reasons are for.
    gained: log odds that all reasons add.
  """
  reason_of: dict[int, dict[str, Any]] = {}
  for reason in answer_phrases.list_weighty(reasons):
    if reason["weight"] < 0:
      continue
    for row in reason["linked"]:
      is_dated = reason["expert"] in linked_records.WORDING
      if not is_dated or linked_records.is_near(index, row, month):
        reason_of.setdefault(row, reason)
  records = database.fetch_records(
    index.connection, list(reason_of)[:MAX_PARALLELS]
  )
  return tuple(
    Parallel(
      row=record.row,
      record_id=record.record_id,
      work=index.work_of(record.row).name,
      text=record.text,
      place=record.place or "",
      date=record_answers.make_record_date(index, record),
      expert=reason_of[record.row]["expert"],
      weight=reason_of[record.row]["weight"],
      share=reason_of[record.row]["weight"] / gained if gained else 0.0,
    )
    for record in records
  )
