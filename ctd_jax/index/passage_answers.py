"""The date of a passage as an answer shows it, and records with the same words.

Axes: K months, Y years.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ctd_jax.chronology import reigns
from ctd_jax.dating.passages.passages import PassageCopy, PassageDates
from ctd_jax.index import (
  answers,
  calendars,
  database,
  date_levels,
  record_answers,
)
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
MAX_PARALLELS, MAX_COPIES = 12, 24
# Of copies that say nothing of the time of a passage.
_NO_COPIES = {"expert": "copies", "weight": 0.0, "linked": ()}
_MIN_PROBABILITY = 0.005  # of a month or year that is listed


def make_passage_date(index: IndexFolder, dates: PassageDates) -> PassageDate:
  """Returns the date of a passage and the reasons for it."""
  chances = np.exp(dates.log_p.astype(np.float64))
  chances /= chances.sum()
  starts = date_levels.find_year_starts(index.calendar)
  years = index.calendar.years[starts]
  sums = np.add.reduceat(chances[:-1], starts)
  bounds = np.append(starts, len(index.calendar))
  reasons = record_answers.name_linked(
    index,
    sorted(
      (reason.to_dict() for reason in dates.reasons),
      key=lambda reason: -abs(reason["weight"]),
    ),
    dates.month,
  )
  return PassageDate(
    sure=date_levels.find_sure_date(
      index.calendar, chances, index.printed_reigns
    ),
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
    parallels=_list_parallels(index, reasons, dates),
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
  dates: PassageDates,
) -> tuple[Parallel, ...]:
  month = dates.month
  # Reasons against the month would make the others more than the whole.
  speaking_for = sum(max(reason["weight"], 0) for reason in reasons)
  copies = {copy.row: copy for copy in dates.copies[:MAX_COPIES]}
  copied = next((it for it in reasons if it["expert"] == "copies"), _NO_COPIES)
  # Copies that do not count as such have the share of what they support.
  reason_of = {
    row: copied if row in copied["linked"] else _NO_COPIES for row in copies
  }
  for reason in answers.list_weighty(reasons):
    if reason["weight"] < 0 or reason["expert"] == "copies":
      continue
    for row in reason["linked"]:
      if reason_of.get(row, _NO_COPIES) is not _NO_COPIES:
        continue
      is_dated = reason["expert"] in record_answers.WORDING
      if not is_dated or (
        record_answers.find_year_mass(index, row, month)
        >= record_answers.MIN_YEAR_MASS
      ):
        reason_of[row] = reason
  records = database.fetch_records(
    index.connection, list(reason_of)[: max(MAX_PARALLELS, len(copies))]
  )
  return tuple(
    _make_parallel(
      index, it, reason_of[it.row], copies.get(it.row), speaking_for
    )
    for it in records
  )


def _make_parallel(
  index: IndexFolder,
  record: database.IndexRecord,
  reason: dict[str, Any],
  copy: PassageCopy | None,
  speaking_for: float,
) -> Parallel:
  work, weight = index.work_of(record.row), reason["weight"]
  date = record_answers.make_record_date(index, record)
  return Parallel(
    row=record.row,
    record_id=record.record_id,
    work=work.name,
    title=work.title or work.name,
    text=record.text,
    place=record.place or "",
    date=date,
    expert=reason["expert"],
    copied=copy.share if copy else 0.0,
    is_exact=copy is not None and copy.is_exact,
    weight=weight,
    share=max(weight, 0) / speaking_for if speaking_for else 0.0,
    edition=index.editions.get(work.work_id, ""),
    citation=record_answers.cite_record(index, record, date.sure),
  )


def note_unseen(index_manifest: Manifest) -> list[Note]:
  """Returns a note on the works that the passage dater was not fitted to."""
  works = index_manifest.unseen_works if index_manifest.passages else []
  if not works:
    return []
  names = ", ".join(work["title"] or work["name"] for work in works)
  number = sum(work["num_records"] for work in works)
  return [Note("note.passages.unseen", works=names, number=number)]
