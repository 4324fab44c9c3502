"""Records as an answer shows them: with date, credible months and reasons."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ctd_jax.chronology import reign_tables
from ctd_jax.index import calendars, word_search
from ctd_jax.index.answers import linked_records, record_reasons
from ctd_jax.index.answers.answer import AnswerRecord, RecordDate, Span
from ctd_jax.index.ranking import RankedRecord
from ctd_jax.index.storage import database

if TYPE_CHECKING:
  from ctd_jax.index.index_folder import IndexFolder


def find_spans(
  index: IndexFolder,
  months: Sequence[int],
  printed_reigns: Collection[int] = (),
) -> tuple[Span, ...]:
  """Returns months as spans of consecutive ones; outside is a span of its own.

  Args:
    index: that they are of.
    months: ordinals, ascending.
    printed_reigns: rows of the reigns that a work names.
  """
  runs: list[list[int]] = []
  for month in map(int, months):
    is_next = bool(runs) and runs[-1][1] == month - 1
    if is_next and month < len(index.calendar):
      runs[-1][1] = month
    else:
      runs.append([month, month])
  return tuple(
    make_span(index, first, last, printed_reigns) for first, last in runs
  )


def make_span(
  index: IndexFolder,
  first: int,
  last: int,
  printed_reigns: Collection[int] = (),
) -> Span:
  """Returns consecutive months with their name."""
  reigns = frozenset(printed_reigns)
  name = index.name_month(first, reigns)
  if last > first:
    end = index.name_month(last, reigns)
    name = f"{name} – {end}"
  return Span(first=first, last=last, name=name)


def format_years(index: IndexFolder, first: int, last: int) -> str:
  """Returns the years of months, "722 BCE" or "722 BCE – 720 BCE"."""
  num_months = len(index.calendar)
  if first >= num_months:
    return ""
  years = [
    reign_tables.format_common_era_year(int(index.calendar.years[month]))
    for month in (first, min(last, num_months - 1))
  ]
  return " – ".join(dict.fromkeys(years))


def make_record_date(
  index: IndexFolder, record: database.IndexRecord
) -> RecordDate:
  """Returns when a record happened."""
  work = index.work_of(record.row)
  posteriors = index.posteriors_of(work).arrays
  position = record.row - work.first_row
  reigns = work.printed_reigns
  describe = functools.partial(
    find_spans, index, printed_reigns=frozenset(reigns)
  )
  known = None
  if record.start_month is not None:
    known = make_span(index, record.start_month, record.end_month, reigns)
  return RecordDate(
    month=calendars.describe_month(index.calendar, record.best_month, reigns),
    common_era=format_years(index, record.best_month, record.best_month),
    probability=record.best_probability,
    outside=float(posteriors.outside[position]),
    credible_50=describe(posteriors.credible_months(position, 0.5)),
    credible_90=describe(posteriors.credible_months(position, 0.9)),
    known=known,
    dated_by=record.dated_by,
    is_fixed=record.fixed,
  )


def make_answer_record(
  index: IndexFolder,
  record: database.IndexRecord,
  ranked: RankedRecord,
  rank: int,
  words: Sequence[str] = (),
  why: bool = False,
) -> AnswerRecord:
  """Returns a record as a result.

  Args:
    index: that it is of.
    record: the record.
    ranked: its scores.
    rank: from 1.
    words: to be marked in the text.
    why: as of `find_reasons`.
  """
  work = index.work_of(record.row)
  parts = {"kind": ranked.kind_log_p}
  if ranked.mass is not None:
    parts["time"] = float(np.log(max(ranked.mass, 1e-11)))
  if ranked.word_score is not None:
    parts["words"] = ranked.word_score
  if ranked.dense_score is not None:
    parts |= {"dense": ranked.dense_score, "cosine": ranked.cosine}
  return AnswerRecord(
    rank=rank,
    row=record.row,
    record_id=record.record_id,
    work=work.name,
    title=work.title or work.name,
    text=record.text,
    kind=record.kind,
    place=record.place or "",
    headings=record.headings,
    date=make_record_date(index, record),
    score=ranked.score,
    probability_asked=ranked.mass,
    score_parts=parts,
    highlights=tuple(word_search.find_highlights(words, record.text)),
    reasons=tuple(find_reasons(index, record, why)),
  )


def find_reasons(
  index: IndexFolder, record: database.IndexRecord, why: bool = False
) -> list[dict[str, Any]]:
  """Returns the reasons of a record, the weightiest first.

  Args:
    index: that it is of.
    record: the record.
    why: whether a record that was dated by the model is read again for its
      wording, citations and parallels, which takes some 30 ms.
  """
  if _is_read_again(index, record, why):
    reasons = _read_again(index, record)
    return sorted(reasons, key=lambda reason: -abs(reason["weight"]))
  return record_reasons.explain_record(
    record,
    index.calendar,
    _find_neighbours(index, record),
    index.work_of(record.row).printed_reigns,
  )


def _is_read_again(
  index: IndexFolder, record: database.IndexRecord, why: bool
) -> bool:
  return (
    why
    and record.dated_by == database.MODEL
    and record.start_month is None
    and record.best_month < len(index.calendar)
    and index.manifest.passages is not None
  )


def _read_again(
  index: IndexFolder, record: database.IndexRecord
) -> list[dict[str, Any]]:
  """Returns the reasons of a record as of a passage that is not in the index.

  What its date owes to the other undated records, with which it was dated, is
  the last.
  """
  dates = index.passage_dater.date(
    record.text, month=record.best_month, exclude=[record.row]
  )
  reasons = [reason.to_dict() for reason in dates.reasons]
  log_odds = record_reasons.find_log_odds(record.best_probability)
  total = log_odds - dates.prior_log_odds
  reasons.append(
    {
      "expert": "corpus",
      "weight": total - sum(reason["weight"] for reason in reasons),
      "note": "what it owes to the undated ones, dated together with it",
      "spans": [],
      "linked": [],
      "months": [],
    }
  )
  return linked_records.name_linked(index, reasons, record.best_month)


def _find_neighbours(
  index: IndexFolder, record: database.IndexRecord
) -> list[record_reasons.Neighbour]:
  """Returns the nearest records before and after that are sure, in order."""
  if record.dated_by != database.ORDER:
    return []
  work = index.work_of(record.row)
  neighbours = []
  for comparison, direction in (("<", "DESC"), (">", "ASC")):
    # By its rows, which are in order; "+" keeps SQLite from other indexes, by
    # which it would sort the work.
    found = index.connection.execute(
      f"SELECT row, best_month FROM records WHERE row {comparison} ? AND row "
      "BETWEEN ? AND ? AND kind != ? AND best_probability >= ? AND "
      f"+best_month < ? ORDER BY row {direction} LIMIT 1",
      (
        record.row,
        work.rows[0],
        work.rows[-1],
        database.HEADING,
        record_reasons.SURE,
        len(index.calendar),
      ),
    ).fetchone()
    if found is not None:
      row, month = found
      neighbours.append(
        record_reasons.Neighbour(
          row,
          calendars.name_month(index.calendar, month, work.printed_reigns),
        )
      )
  return neighbours
