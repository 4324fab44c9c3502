"""Marks of corrections beside records, wherever pages show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from ctd_jax.index.corrections import correction_checks
from ctd_jax.index.storage import correction_spans
from ctd_jax.index.storage.corrections import Correction
from ctd_jax.web.served_index import ServedIndex


@dataclasses.dataclass(frozen=True)
class CorrectionMark:
  """What the date of a record owes to a correction.

  Attributes:
    state: applied, pending, left_out or still_applied.
    date: as the reader wrote it.
  """

  state: str
  date: str


@dataclasses.dataclass(frozen=True, eq=False)
class _MarkedSpans:
  """Records that have a mark, those of the newest corrections first.

  Attributes:
    first: row of the first record of each span.
    last: row of its last.
    marks: of the spans.
  """

  first: np.ndarray
  last: np.ndarray
  marks: tuple[CorrectionMark, ...]


def find_marks(
  served: ServedIndex, rows: Iterable[int]
) -> dict[int, CorrectionMark]:
  """Returns row -> mark, of those records that have one.

  Args:
    served: the index.
    rows: of the records.
  """
  spans = served.remember(_find_spans, served.index.corrections.version())
  marks = {}
  for row in rows if spans.marks else ():
    matches = np.flatnonzero((spans.first <= row) & (row <= spans.last))
    if len(matches):
      marks[row] = spans.marks[matches[0]]
  return marks


def _find_spans(served: ServedIndex, version: int) -> _MarkedSpans:
  """Returns the marked records of an index.

  Args:
    served: the index.
    version: of the corrections; they are read again when it has changed.
  """
  del version
  by_work: dict[str, list[Correction]] = {}
  for correction in served.index.corrections.history():
    by_work.setdefault(correction.work, []).append(correction)
  spans: list[tuple[int, int]] = []
  marks = []
  for work, corrections in by_work.items():
    dated_with = correction_checks.read_dated_with(served.index, work)
    row_of = correction_spans.find_rows(
      served.index.folder, work, correction_spans.list_ends(corrections)
    )
    for correction in corrections:
      state, _ = correction_checks.find_state(correction, dated_with)
      first = row_of.get(correction.first_record)
      last = row_of.get(correction.last_record)
      if state == correction_checks.UNDONE or None in (first, last):
        continue
      spans.append((first, last))
      marks.append(CorrectionMark(state, correction.date))
  first, last = np.array(spans, int).reshape(-1, 2).T
  return _MarkedSpans(first, last, tuple(marks))
