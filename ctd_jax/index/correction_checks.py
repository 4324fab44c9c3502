"""Checks corrections, and says which the dates include.

  >>> checked = check_correction(                           # doctest: +SKIP
  ...   index, "annals", "12", "12", "晉武帝泰始二年三月")

A correction counts once its work is dated again, by `redating.redate_index` or
by adding it again; until then it is pending.

Axis: K months.
"""

import dataclasses
from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool

from ctd_jax.index import (
  correction_dates,
  corrections,
  database,
  record_answers,
)
from ctd_jax.index.answers import Span
from ctd_jax.index.building import sources
from ctd_jax.index.building.sources import DatedWith
from ctd_jax.index.corrections import Correction, hash_texts
from ctd_jax.index.database import IndexedWork
from ctd_jax.index.index_folder import IndexFolder
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
  """Meaning of a correction."""

  work: IndexedWork
  rows: range  # of the records, headings among them
  num_records: int  # without headings
  months: Bool[np.ndarray, " K"]  # allowed by the date
  spans: tuple[Span, ...]  # the months by name, as in the work
  common_era: str  # years, such as "722 BCE – 720 BCE"
  texts_sha256: str  # for `CorrectionStore.add`


def check_correction(
  index: IndexFolder, work: str, first: str, last: str, date: str
) -> CheckedCorrection:
  """Returns the meaning of a date for the records from first to last id.

  Raises:
    ValueError: if the work lacks a record or --fixed dates it; if the date
      cannot be read or is outside the calendar.
  """
  indexed = find_work(index, work)
  _, (first_row, last_row) = corrections.find_span(
    index.folder, work, first, last
  )
  rows = range(first_row, last_row + 1)
  check_fixed_rows(index, indexed, rows)
  is_allowed = find_months(index, indexed, date)
  months = np.flatnonzero(is_allowed).tolist()
  texts = index.connection.execute(
    "SELECT text, kind != ? FROM records WHERE row BETWEEN ? AND ? "
    "ORDER BY row",
    (database.HEADING, rows[0], rows[-1]),
  ).fetchall()
  num_records = sum(is_record for _, is_record in texts)
  if not num_records:
    raise ValueError(
      Note("problem.correction.heading", record=f"{work} {first}")
    )
  (num_before,) = index.connection.execute(
    "SELECT count(*) FROM records WHERE row >= ? AND row < ? AND text = ?",
    (indexed.first_row, rows[0], texts[0][0]),
  ).fetchone()
  return CheckedCorrection(
    work=indexed,
    rows=rows,
    num_records=num_records,
    months=is_allowed,
    spans=record_answers.find_spans(index, months, indexed.printed_reigns),
    common_era=record_answers.format_years(index, months[0], months[-1]),
    texts_sha256=hash_texts([text for text, _ in texts], num_before),
  )


def find_months(
  index: IndexFolder, work: IndexedWork, date: str
) -> Bool[np.ndarray, " K"]:
  """Returns the months that a date names by the calendar of a work."""
  rows = sources.read_dated_with(work).reigns
  part = index.calendar.select_reigns(rows)
  return part.mark(correction_dates.find_months(date, part.calendar))


def check_fixed_rows(
  index: IndexFolder, work: IndexedWork, rows: range
) -> None:
  """Raises ValueError if --fixed dates one of the records."""
  dated_with = sources.read_dated_with(work)
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
  found = [index.corrections.get(number) for number in numbers]
  applied = [correction for correction in found if correction is not None]
  row_of = corrections.find_rows(
    index.folder, work.name, corrections.list_ends(applied)
  )
  return {
    row
    for correction in applied
    for row in corrections.find_range(correction, row_of) or ()
  }


def find_work(index: IndexFolder, name: str) -> IndexedWork:
  """Returns the work with a name."""
  for work in index.works:
    if work.name == name:
      return work
  names = ", ".join(work.name for work in index.works)
  raise ValueError(Note("problem.correction.work", name=name, names=names))


def find_state(
  correction: Correction,
  dated_with: DatedWith | None,
  problem: Note | str = "",
) -> tuple[str, Note | str]:
  """Returns the state of a correction, and why it is left out, else "".

  Args:
    dated_with: what its work was dated with; None if the index has no such
      work.
    problem: why its records are gone; "" if they are there or unchecked.
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
  """Returns the number of changes in each work to date again, by name.

  A change is an unapplied correction, or one that was undone but still applies.
  """
  counts: dict[str, int] = {}
  corrected = {row.work for row in index.corrections.history()}
  for work in index.works:
    if work.name not in corrected:
      continue
    active = {row.correction_id for row in index.corrections.active(work.name)}
    dated_with = sources.read_dated_with(work)
    applied = {*dated_with.corrections}
    # One that was left out has changed nothing, and neither does undoing it.
    new = active - applied - {*dated_with.left_out}
    if changes := new | (applied - active):
      counts[work.name] = len(changes)
  return counts
