"""Corrections in a build: which records they apply to.

A correction is matched by the ids and texts of its records. If they are gone or
have changed, it is left out and reported, never given to another record.

Axes: n records of a work, K months.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging
from jaxtyping import Bool, Int

from ctd_jax.dating.chronicle import fixed_dates
from ctd_jax.dating.chronicle import sections as sections_lib
from ctd_jax.dating.chronicle.calendar import CalendarPart
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.index.building.sources import SourceRecord
from ctd_jax.index.correction_dates import find_months
from ctd_jax.index.corrections import Correction, hash_texts
from ctd_jax.index.database import HEADING, IndexRecord
from ctd_jax.texts.works import Entry
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note


@dataclasses.dataclass(frozen=True, eq=False)
class WorkCorrections:
  """Corrections of the records of a work."""

  # Row of a record -> its allowed months.
  months: Mapping[int, Bool[np.ndarray, " K"]] = dataclasses.field(
    default_factory=dict
  )
  # Row of a record -> its correction.
  correction_of: Mapping[int, Correction] = dataclasses.field(
    default_factory=dict
  )
  applied: tuple[int, ...] = ()  # ids
  # Id of a correction without records -> why.
  left_out: Mapping[int, Note | str] = dataclasses.field(default_factory=dict)

  def limit_months(
    self, known_months: Int[np.ndarray, "n 2"]
  ) -> Int[np.ndarray, "n 2"]:
    """Returns first and last known months, those of corrections first."""
    months = known_months.copy()
    for row, is_allowed in self.months.items():
      months[row] = np.flatnonzero(is_allowed)[[0, -1]]
    return months


def match_corrections(
  name: str,
  corrections: Iterable[Correction],
  records: Sequence[SourceRecord],
  part: CalendarPart,
) -> WorkCorrections:
  """Returns corrections by record; logs those left out.

  Args:
    corrections: corrections of the work, without those undone.
    records: all of the work, in order.
    part: reigns by which the dates are read.
  """
  months: dict[int, np.ndarray] = {}
  correction_of: dict[int, Correction] = {}
  left_out: dict[int, Note | str] = {}
  applied = []
  finder = RecordFinder(records)
  for correction in corrections:
    try:
      rows = finder.find_rows(correction)
      is_allowed = part.mark(find_months(correction.date, part.calendar))
    except ValueError as error:
      left_out[correction.correction_id] = notes.of_error(error)
      logging.warning(
        "%s: left out correction %d of %s to %s by %s: %s",
        name,
        correction.correction_id,
        correction.record_span,
        correction.date,
        correction.name or "somebody",
        error,
      )
      continue
    applied.append(correction.correction_id)
    for row in rows:
      months[row] = is_allowed
      correction_of[row] = correction
  if applied:
    logging.info("%s: corrections by readers %s", name, f"{len(applied):,}")
  return WorkCorrections(months, correction_of, tuple(applied), left_out)


def add_fixed_sections(
  corrected: WorkCorrections,
  path: pathlib.Path,
  entries: Sequence[Entry],
  sections: Sequence[Section],
  part: CalendarPart,
) -> WorkCorrections:
  """Returns the index's corrections with those of a --fixed file.

  Args:
    corrected: corrections of a text whose records are `sections`.
  """
  fixed = fixed_dates.read_fixed_dates(path, entries, sections, part.calendar)
  fixed = {row: part.mark(is_allowed) for row, is_allowed in fixed.items()}
  for row in fixed:
    correction = corrected.correction_of.get(row)
    if correction is not None:
      raise ValueError(
        f"--fixed={path}: record {sections[row].record + 1} is corrected in "
        f"the index too, to {correction.date} by "
        f"{correction.name or 'somebody'} (correction "
        f"{correction.correction_id}); undo that, or take the row out"
      )
  return dataclasses.replace(corrected, months={**corrected.months, **fixed})


def add_fixed_entries(
  corrected: WorkCorrections,
  path: pathlib.Path,
  entries: Sequence[Entry],
  part: CalendarPart,
) -> WorkCorrections:
  """Returns the index's corrections with those of a --fixed file, by entry.

  Args:
    corrected: corrections of a text whose records are its entries without
      headings.
  """
  sections = [
    Section(number, 0, len(entry.text), 0, sections_lib.NO_DATE)
    for number, entry in enumerate(entries)
  ]
  numbers = [n for n, entry in enumerate(entries) if not entry.is_heading]
  row_of = {number: row for row, number in enumerate(numbers)}
  by_section = dataclasses.replace(
    corrected,
    months={},
    correction_of={
      numbers[row]: correction
      for row, correction in corrected.correction_of.items()
    },
  )
  fixed = add_fixed_sections(by_section, path, entries, sections, part)
  for number in fixed.months.keys() - row_of.keys():
    raise ValueError(
      f"--fixed={path}: record {number + 1} is a heading; in a text that is "
      "dated by the model nothing depends on it"
    )
  months = {row_of[number]: mask for number, mask in fixed.months.items()}
  return dataclasses.replace(corrected, months={**corrected.months, **months})


class RecordFinder:
  """Finds the records of corrections again."""

  def __init__(self, records: Sequence[SourceRecord | IndexRecord]):
    self._records = records
    self._row_of = {record.record_id: row for row, record in enumerate(records)}
    self._num_before: list[int] = []
    counts: collections.Counter[str] = collections.Counter()
    for record in records:
      self._num_before.append(counts[record.text])
      counts[record.text] += 1

  def find_rows(self, correction: Correction) -> list[int]:
    """Returns the rows of a correction's records without headings."""
    # Headings have no date of their own: they take that of what is below,
    # so a correction of several records skips them.
    ends = (correction.first_record, correction.last_record)
    gone = [record_id for record_id in ends if record_id not in self._row_of]
    if gone:
      raise ValueError(Note("problem.correction.gone", record=gone[0]))
    first, last = (self._row_of[record_id] for record_id in ends)
    texts = [record.text for record in self._records[first : last + 1]]
    num_before = self._num_before[first]
    if hash_texts(texts, num_before) != correction.texts_sha256:
      raise ValueError(Note("problem.correction.changed"))
    return [
      row
      for row in range(first, last + 1)
      if self._records[row].kind != HEADING
    ]


def describe_left_out(corrected: WorkCorrections) -> list[Note]:
  """Returns a warning if corrections of a work are left out."""
  if not corrected.left_out:
    return []
  total = len(corrected.applied) + len(corrected.left_out)
  reasons = [
    Note("problem.correction.number", number=number, problem=reason)
    for number, reason in corrected.left_out.items()
  ]
  return [
    Note(
      "problem.warning.corrections",
      number=len(corrected.left_out),
      total=total,
      reasons=reasons,
    )
  ]
