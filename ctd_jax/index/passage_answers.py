"""The date of a passage as an answer shows it, and records with the same words.

Axes: K months, Y years.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ctd_jax.chronology import dates, reigns
from ctd_jax.dating.passages.passages import PassageDates
from ctd_jax.index import answers, calendars, database, record_answers
from ctd_jax.index.answers import (
  LikelyMonth,
  LikelyYear,
  Parallel,
  PassageDate,
  Span,
)
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.manifest import Manifest
from ctd_jax.utils.notes import Note

MAX_MONTHS, MAX_YEARS = 12, 6  # of those that an answer lists
MAX_PARALLELS = 12
_MIN_PROBABILITY = 0.005  # of a month or year that is listed
_CLAUSE = re.compile(r"[^\s，。、；：！？,.;:!?「」『』“”\"《》（）()]+")
_MIN_CLAUSE, _MAX_CLAUSE = 5, 40  # characters
_MAX_CLAUSES = 12  # that are looked up
_MAX_DATE = 64  # characters of a date at the start of a clause
_MAX_COMMON = 3  # records; a clause that more have is a phrase of the annals


def make_passage_date(index: IndexFolder, dates: PassageDates) -> PassageDate:
  """Returns the date of a passage and the reasons for it."""
  chances = np.exp(dates.log_p.astype(np.float64))
  chances /= chances.sum()
  # Where calendars change, a month may be counted to a year already past.
  year_of = np.maximum.accumulate(index.calendar.years)
  starts = np.flatnonzero(np.diff(year_of, prepend=year_of[0] - 1))
  years, sums = year_of[starts], np.add.reduceat(chances[:-1], starts)
  reasons = record_answers.name_linked(
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
    years=_list_years(index, years, sums, np.append(starts, len(year_of))),
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
  order = np.argsort(-chances, kind="stable")
  size = int((np.cumsum(chances[order]) < share).sum()) + 1
  return record_answers.find_spans(
    index, np.sort(order[:size]).tolist(), index.printed_reigns
  )


def _list_months(
  index: IndexFolder, chances: Float[np.ndarray, " months"]
) -> tuple[LikelyMonth, ...]:
  # "Outside the calendar" is not a month, unless it is likelier than all.
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
      common_era=reigns.format_common_era_year(int(years[year])),
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
  reason_of: dict[int, dict[str, Any]] = {}
  for reason in answers.list_weighty(reasons):
    if reason["weight"] < 0:
      continue
    for row in reason["linked"]:
      is_dated = reason["expert"] in record_answers.WORDING
      if not is_dated or (
        record_answers.find_year_mass(index, row, month)
        >= record_answers.MIN_YEAR_MASS
      ):
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


def note_unseen(index_manifest: Manifest) -> list[Note]:
  """Returns a note on the works that the passage dater has not seen."""
  works = index_manifest.unseen_works if index_manifest.passages else []
  if not works:
    return []
  names = ", ".join(work["title"] or work["name"] for work in works)
  number = sum(work["num_records"] for work in works)
  return [Note("note.passages.unseen", works=names, number=number)]


def note_copies(index: IndexFolder, passage: str) -> list[Note]:
  """Returns notes on the records that share clauses with a passage."""
  notes = []
  for clause in list_clauses(passage, index):
    matches = database.search_text(index.connection, [clause], _MAX_COMMON + 1)
    if not 0 < len(matches) <= _MAX_COMMON:
      continue
    records = database.fetch_records(
      index.connection, [match.row for match in matches]
    )
    places = ", ".join(
      f"{record.record_id} ({_name_month(index, record)})" for record in records
    )
    notes.append(Note("note.copies", clause=clause, places=places))
  return notes


def list_clauses(passage: str, index: IndexFolder) -> list[str]:
  """Returns the first clauses of a passage without the dates at their start."""
  timeline, clauses = index.calendar.timeline, {}
  for match in _CLAUSE.finditer(passage):
    start, end = match.span()
    while start < end:
      # Of a clause that is nothing but dates, all the rest would be read
      # again after each.
      head = passage[start : min(start + _MAX_DATE, end)]
      cue = next(dates.iterate_date_cues(head, timeline), None)
      if cue is None or cue.start > 0:
        break
      start += cue.end
    if _MIN_CLAUSE <= end - start <= _MAX_CLAUSE:
      clauses[passage[start:end]] = None
    if len(clauses) == _MAX_CLAUSES:
      break
  return list(clauses)


def _name_month(index: IndexFolder, record: database.IndexRecord) -> str:
  return calendars.name_month(
    index.calendar,
    record.best_month,
    index.work_of(record.row).printed_reigns,
  )
