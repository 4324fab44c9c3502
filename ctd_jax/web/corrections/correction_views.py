"""Corrections as pages and programs see them: with state and records."""

from __future__ import annotations

import dataclasses
from typing import Any

from ctd_jax.index.building.staged_works import DatedWith
from ctd_jax.index.corrections import correction_checks
from ctd_jax.index.storage.corrections import Correction
from ctd_jax.web import record_addresses
from ctd_jax.web.served_index import ServedIndex

_EXCERPT = 60  # characters of a record
_MAX_FOLLOWING = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionFields:
  """What a reader writes into the form of a correction.

  Attributes:
    work: name of the work.
    first: id of the record.
    last: id of the last one; that of the first for one alone.
    date: as written.
    note: likewise.
    name: of the reader.
  """

  work: str = ""
  first: str = ""
  last: str = ""
  date: str = ""
  note: str = ""
  name: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionView:
  """A correction, and what the dates that are shown owe to it.

  Attributes:
    correction: as it is kept.
    state: applied, pending, left_out, undone or still_applied.
    problem: why it is left out; else "".
    row: of its first record; None if that is gone.
    text: of that record, its beginning.
    title: of the work.
  """

  correction: Correction
  state: str
  problem: str
  row: int | None
  text: str
  title: str

  @property
  def is_active(self) -> bool:
    """Whether it can be undone."""
    return self.correction.undone is None

  @property
  def path(self) -> str:
    """Address of its first record."""
    return record_addresses.make_record_path(
      self.correction.work, self.correction.first_record
    )

  def to_dict(self) -> dict[str, Any]:
    """Returns what programs are told of it."""
    return dataclasses.asdict(self.correction) | {
      "state": self.state,
      "problem": self.problem,
    }


def list_corrections(
  served: ServedIndex,
  work: str | None = None,
  record_id: str | None = None,
  limit: int | None = None,
  offset: int = 0,
) -> list[CorrectionView]:
  """Returns corrections, the newest first, those undone among them.

  Args:
    served: the index.
    work: name of the work; None of all.
    record_id: of a record of it; None of any.
    limit: how many at most.
    offset: how many of the newest are left out.
  """
  history = served.index.corrections.history(work, record_id, limit, offset)
  return [view_correction(served, correction) for correction in history]


def view_correction(
  served: ServedIndex, correction: Correction
) -> CorrectionView:
  """Returns a correction with its state and its first record.

  Args:
    served: the index.
    correction: one of its own.
  """
  index = served.index
  dated_with = served.remember(_read_dated_with, correction.work)
  row = record_addresses.find_row(
    index, correction.work, correction.first_record
  )
  text = ""
  if row is not None:
    (text,) = index.connection.execute(
      "SELECT substr(text, 1, ?) FROM records WHERE row = ?", (_EXCERPT, row)
    ).fetchone()
  state, problem = correction_checks.find_state(correction, dated_with)
  return CorrectionView(
    correction=correction,
    state=state,
    problem=problem,
    row=row,
    text=text,
    title=served.titles.get(correction.work, correction.work),
  )


def _read_dated_with(served: ServedIndex, work: str) -> DatedWith | None:
  return correction_checks.read_dated_with(served.index, work)


def count_pending(served: ServedIndex) -> int:
  """Returns how many changes the dates that are shown do not have in them.

  Args:
    served: the index.
  """
  return sum(correction_checks.count_pending(served.index).values())


def list_following(served: ServedIndex, row: int) -> list[tuple[str, str]]:
  """Returns ids and texts of a record and of those after it in its work.

  Args:
    served: the index.
    row: of the record.
  """
  last = min(served.index.work_of(row).rows[-1], row + _MAX_FOLLOWING)
  return served.index.connection.execute(
    "SELECT record_id, substr(text, 1, ?) FROM records "
    "WHERE row BETWEEN ? AND ? ORDER BY row",
    (_EXCERPT, row, last),
  ).fetchall()
