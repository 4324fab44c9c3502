"""Corrections of an index: what they mean, and which its dates have in them.

  >>> checked = check_correction(                           # doctest: +SKIP
  ...   index, "annals", "12", "12", "晉武帝泰始二年三月")
  >>> index.corrections.add(                                # doctest: +SKIP
  ...   work="annals", first_record="12", last_record="12", note="", name="",
  ...   date="晉武帝泰始二年三月", texts_sha256=checked.texts_sha256,
  ...   key="form 1")

A correction counts when its work is dated again, by `redate_index` or when it
is added again; until then it is pending.

Axis: K months.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool

from ctd_jax.dating.chronicle import written_dates
from ctd_jax.index import record_answers
from ctd_jax.index.answers import Span
from ctd_jax.index.building import staged_works
from ctd_jax.index.building.staged_works import DatedWith
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.storage import correction_spans, database
from ctd_jax.index.storage.corrections import Correction, hash_texts
from ctd_jax.index.storage.database import IndexedWork
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note

# What the dates of an index owe to a correction: they have it, do not have it
# yet, or do not have it since its records are gone or have changed; it is
# undone, and they have it still.
APPLIED, PENDING, LEFT_OUT, UNDONE, STILL_APPLIED = (
  "applied",
  "pending",
  "left_out",
  "undone",
  "still_applied",
)
NO_WORK = Note("problem.correction.no_work")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CheckedCorrection:
  """What a correction means that is yet to be made.

  Attributes:
    work: of the records.
    rows: of the records, headings among them.
    num_records: how many of them are no headings.
    months: that the date allows.
    spans: the same by name, as the work would call them.
    common_era: their years, "722 BCE – 720 BCE".
    texts_sha256: for `CorrectionStore.add`.
  """

  work: IndexedWork
  rows: range
  num_records: int
  months: Bool[np.ndarray, " K"]
  spans: tuple[Span, ...]
  common_era: str
  texts_sha256: str


def check_correction(
  index: IndexFolder, work: str, first: str, last: str, date: str
) -> CheckedCorrection:
  """Returns what a correction means.

  Args:
    index: of the records.
    work: name of the work.
    first: id of the first record.
    last: id of the last; the same of one record.
    date: as the reader wrote it.

  Raises:
    ValueError: naming the record that the work lacks, or that --fixed dates;
      saying what of the date cannot be read, or that it lies outside of the
      calendar.
  """
  indexed = find_work(index, work)
  _, (first_row, last_row) = correction_spans.find_span(
    index.folder, work, first, last
  )
  rows = range(first_row, last_row + 1)
  check_fixed_rows(index, indexed, rows)
  is_allowed = written_dates.find_months(date, index.calendar)
  months = np.flatnonzero(is_allowed).tolist()
  num_records = _count_records(index, rows)
  if not num_records:
    raise ValueError(
      Note("problem.correction.heading", record=f"{work} {first}")
    )
  return CheckedCorrection(
    work=indexed,
    rows=rows,
    num_records=num_records,
    months=is_allowed,
    spans=record_answers.find_spans(index, months, indexed.printed_reigns),
    common_era=record_answers.format_years(index, months[0], months[-1]),
    texts_sha256=_hash_records(index, indexed, rows),
  )


def check_fixed_rows(
  index: IndexFolder, work: IndexedWork, rows: range
) -> None:
  """Refuses a correction of a record that the file of --fixed dates.

  Args:
    index: that has the work.
    work: of the records.
    rows: of the records.

  Raises:
    ValueError: naming record and file.
  """
  dated_with = staged_works.read_dated_with(index.folder / work.folder)
  if dated_with.fixed is None:
    return
  record_of = dict(
    index.connection.execute(
      "SELECT row, record_id FROM records WHERE row BETWEEN ? AND ? AND fixed "
      "AND kind != ? ORDER BY row",
      (rows[0], rows[-1], database.HEADING),
    ).fetchall()
  )
  # What readers have corrected is fixed too.
  corrected = _find_corrected_rows(index, work, dated_with.corrections)
  for row, record_id in record_of.items():
    if row not in corrected:
      raise ValueError(
        Note(
          "problem.correction.fixed",
          record=f"{work.name} {record_id}",
          file=f"--fixed={index.folder / dated_with.fixed}",
        )
      )


def _find_corrected_rows(
  index: IndexFolder, work: IndexedWork, numbers: Iterable[int]
) -> set[int]:
  """Returns the rows of the records of corrections, by their numbers."""
  found = [index.corrections.get(number) for number in numbers]
  applied = [correction for correction in found if correction is not None]
  row_of = correction_spans.find_rows(
    index.folder, work.name, correction_spans.list_ends(applied)
  )
  rows: set[int] = set()
  for correction in applied:
    ends = (correction.first_record, correction.last_record)
    if all(record_id in row_of for record_id in ends):
      first, last = (row_of[record_id] for record_id in ends)
      rows |= {*range(first, last + 1)}
  return rows


def _count_records(index: IndexFolder, rows: range) -> int:
  """Returns how many records are no headings."""
  return index.connection.execute(
    "SELECT count(*) FROM records WHERE row BETWEEN ? AND ? AND kind != ?",
    (rows[0], rows[-1], database.HEADING),
  ).fetchone()[0]


def _hash_records(index: IndexFolder, work: IndexedWork, rows: range) -> str:
  texts = [
    text
    for (text,) in index.connection.execute(
      "SELECT text FROM records WHERE row BETWEEN ? AND ? ORDER BY row",
      (rows[0], rows[-1]),
    )
  ]
  (num_before,) = index.connection.execute(
    "SELECT count(*) FROM records WHERE row >= ? AND row < ? AND text = ?",
    (work.first_row, rows[0], texts[0]),
  ).fetchone()
  return hash_texts(texts, num_before)


def find_work(index: IndexFolder, name: str) -> IndexedWork:
  """Returns the work of a name.

  Args:
    index: that has it.
    name: of the work.

  Raises:
    ValueError: if there is none.
  """
  for work in index.works:
    if work.name == name:
      return work
  names = ", ".join(work.name for work in index.works)
  raise ValueError(Note("problem.correction.work", name=name, names=names))


def read_dated_with(index: IndexFolder, name: str) -> DatedWith | None:
  """Returns with what a work was dated; None if the index has no such work.

  Args:
    index: the index.
    name: of the work.
  """
  for work in index.works:
    if work.name == name:
      return staged_works.read_dated_with(index.folder / work.folder)
  return None


def find_state(
  correction: Correction,
  dated_with: DatedWith | None,
  problem: Note | str = "",
) -> tuple[str, Note | str]:
  """Returns what the dates of an index owe to a correction.

  Args:
    correction: of the index.
    dated_with: of its work; None if the index has no such work.
    problem: why the index has its records no more; "" where it has them, or
      where that was not looked at.

  Returns:
    State: `APPLIED`, `PENDING`, `LEFT_OUT`, `UNDONE` or `STILL_APPLIED`.
    Problem: why it is left out; else "".
  """
  number = correction.correction_id
  is_applied = dated_with is not None and number in dated_with.corrections
  if correction.undone is not None:
    return STILL_APPLIED if is_applied else UNDONE, ""
  if is_applied:
    return APPLIED, ""
  if dated_with is None:
    return LEFT_OUT, NO_WORK
  problem = problem or notes.from_json(dated_with.left_out.get(number, ""))
  return LEFT_OUT if problem else PENDING, problem


def count_pending(index: IndexFolder) -> dict[str, int]:
  """Returns the works that are to be dated again, with the number of changes.

  A change is a correction that the dates of the work do not have in them, or
  one that they have and that was undone.

  Args:
    index: whose works.
  """
  counts: dict[str, int] = {}
  corrected = {row.work for row in index.corrections.history()}
  for work in index.works:
    if work.name not in corrected:
      continue
    active = {row.correction_id for row in index.corrections.active(work.name)}
    dated_with = staged_works.read_dated_with(index.folder / work.folder)
    applied = {*dated_with.corrections}
    # One that was left out has changed nothing, and neither does undoing it.
    new = active - applied - {*dated_with.left_out}
    if changes := new | (applied - active):
      counts[work.name] = len(changes)
  return counts


def pending_works(index: IndexFolder) -> list[str]:
  """Returns the names of the works that are to be dated again.

  Args:
    index: whose works.
  """
  return [*count_pending(index)]
