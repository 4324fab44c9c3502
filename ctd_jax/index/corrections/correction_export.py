"""Export of corrections: what other programs and archives read of them.

fixed  the `--fixed` table of one text, see `fixed_dates`: those that hold, one
       row for each record
csv    all, also those that were undone, with the state of each
jsonl  the same as objects
tei    the records that are corrected, with their dates

A correction whose records are gone or have changed is in the second and third
alone, and said to be left out of the others.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ctd_jax.dating.chronicle import fixed_dates, written_dates
from ctd_jax.dating.chronicle.fixed_dates import FixedDate
from ctd_jax.index import answer_output, calendars, record_answers
from ctd_jax.index.building.staged_works import DatedWith
from ctd_jax.index.building.work_corrections import RecordFinder
from ctd_jax.index.corrections import correction_checks, correction_tei
from ctd_jax.index.corrections.correction_tei import DatedRecords
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.storage import database
from ctd_jax.index.storage.corrections import Correction
from ctd_jax.index.storage.database import IndexedWork, IndexRecord
from ctd_jax.utils import files, notes
from ctd_jax.utils.notes import Note

FIXED, CSV, JSONL, TEI = FORMATS = ("fixed", "csv", "jsonl", "tei")
FORMAT_OF_SUFFIX = {".tsv": FIXED, ".csv": CSV, ".jsonl": JSONL, ".xml": TEI}
_FORMATS_OF_RECORDS = ("dataset", "beir")  # works that are no texts
_PAGE = re.compile(r" \(p\. [^()]*\)$")
COLUMNS = (
  "correction_id",
  "work",
  "title",
  "first_record",
  "last_record",
  "place",
  "text",
  "date",
  "months",
  "first_month",
  "last_month",
  "common_era",
  "name",
  "note",
  "made",
  "undone",
  "undone_by",
  "state",
  "problem",
  "texts_sha256",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
  """Corrections as a file.

  Attributes:
    content: of the file.
    number: of the corrections in it.
    left_out: those that it lacks, each with the reason.
  """

  content: str
  number: int
  left_out: tuple[Note, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Located:
  """A correction with its records.

  Attributes:
    correction: as it is kept.
    work: of the index; None if it has none of this name.
    dated_with: of the work; None likewise.
    records: that it is of, without headings; none if they are gone.
    months: that it allows; none if the records are gone.
    problem: why there are none; else "".
  """

  correction: Correction
  work: IndexedWork | None
  dated_with: DatedWith | None
  records: Sequence[IndexRecord] = ()
  months: Sequence[int] = ()
  problem: Note | str = ""

  def describe_problem(self, problem: Note | str) -> Note:
    """Returns why the correction is left out, with its name."""
    number, span = self.correction.correction_id, self.correction.record_span
    return Note(
      "problem.correction.described",
      number=number,
      record=f"{self.correction.work} {span}",
      problem=problem,
    )


def export_corrections(
  index: IndexFolder, chosen: Sequence[Correction], export_format: str
) -> Export:
  """Returns corrections as a file.

  Args:
    index: that has them.
    chosen: the corrections; fixed and tei leave out what was undone.
    export_format: one of `FORMATS`.

  Raises:
    ValueError: if the format is none of these; if corrections of several texts
      are to be one table for --fixed.
  """
  if export_format not in FORMATS:
    raise ValueError(
      f"format {export_format!r}: expected one of {', '.join(FORMATS)}"
    )
  located = _locate_corrections(index, chosen)
  if export_format in (CSV, JSONL):
    rows = [_describe(index, row) for row in located]
    if export_format == CSV:
      content = answer_output.format_rows(rows, COLUMNS, answer_output.CSV)
    else:
      lines = (json.dumps(row, ensure_ascii=False) for row in rows)
      content = "".join(line + "\n" for line in lines)
    return Export(content=content, number=len(rows))
  active = [row for row in located if row.correction.undone is None]
  left_out = [
    row.describe_problem(row.problem) for row in active if row.problem
  ]
  active = [row for row in active if not row.problem]
  if export_format == TEI:
    content = correction_tei.format_corrections_tei(
      [_make_dated_records(index, row) for row in active]
    )
    return Export(content=content, number=len(active), left_out=tuple(left_out))
  texts = [row for row in active if is_text(row.work)]
  left_out += [
    row.describe_problem(Note("problem.correction.dataset"))
    for row in active
    if not is_text(row.work)
  ]
  return Export(
    content=_format_fixed(index, texts),
    number=len(texts),
    left_out=tuple(left_out),
  )


def write_corrections(folder: pathlib.Path, path: pathlib.Path) -> str:
  """Writes the corrections of an index and returns what was written, in words.

  Args:
    folder: of the index.
    path: of the file, whose suffix says the format. A table for --fixed is of
      one text: of several, each has a file with its name before the suffix.

  Raises:
    FileNotFoundError: if there is no index.
    ValueError: naming the suffix, if it says nothing.
  """
  export_format = FORMAT_OF_SUFFIX.get(path.suffix.lower())
  if export_format is None:
    raise ValueError(
      f"--corrections={path}: suffix {path.suffix!r}; expected one of "
      f"{', '.join(FORMAT_OF_SUFFIX)}"
    )
  index = IndexFolder.open(folder)
  chosen = index.corrections.history()[::-1]
  parts = {path: chosen}
  if export_format == FIXED:
    names = {work.name for work in index.works if is_text(work)}
    corrected = sorted(
      {row.work for row in chosen if row.undone is None} & names
    )
    others = [row for row in chosen if row.work not in corrected]
    if len(corrected) > 1:
      parts = {
        path.with_name(f"{path.stem}.{_name_file(name)}{path.suffix}"): [
          row for row in chosen if row.work == name
        ]
        for name in corrected
      }
      # Said to be left out, with the first.
      parts[next(iter(parts))] += others
  lines = []
  for target, rows in parts.items():
    export = export_corrections(index, rows, export_format)
    files.write_text(target, export.content)
    lines.append(f"{target}: corrections written {export.number:,}")
    lines += [f"  left out {problem}" for problem in export.left_out]
  return "\n".join(lines)


def _name_file(work: str) -> str:
  return re.sub(r"[^\w-]+", "_", work)


def is_text(work: IndexedWork) -> bool:
  """Whether a work is a text, of which there can be a table for --fixed."""
  return work.text_format not in _FORMATS_OF_RECORDS


def _locate_corrections(
  index: IndexFolder, chosen: Sequence[Correction]
) -> list[_Located]:
  """Returns the corrections, each with the records that it is of."""
  works = {work.name: work for work in index.works}
  finders: dict[str, RecordFinder] = {}
  dated_with_of = {
    name: correction_checks.read_dated_with(index, name)
    for name in {correction.work for correction in chosen}
  }
  located = []
  for correction in chosen:
    work = works.get(correction.work)
    records, months, problem = [], [], correction_checks.NO_WORK
    if work is not None:
      if work.name not in finders:
        finders[work.name] = RecordFinder(
          database.fetch_records(index.connection, work.rows)
        )
      try:
        rows = finders[work.name].find_rows(correction)
        months = _find_months(index, correction)
      except ValueError as error:
        problem = notes.of_error(error)
      else:
        problem = ""
        records = database.fetch_records(
          index.connection, [work.first_row + row for row in rows]
        )
    located.append(
      _Located(
        correction=correction,
        work=work,
        dated_with=dated_with_of[correction.work],
        records=records,
        months=months,
        problem=problem,
      )
    )
  return located


def _describe(index: IndexFolder, row: _Located) -> dict[str, Any]:
  """Returns what csv and jsonl say of a correction."""
  first = row.records[0] if row.records else None
  state, problem = correction_checks.find_state(
    row.correction, row.dated_with, row.problem
  )
  values = dataclasses.asdict(row.correction) | {
    "title": row.work.title if row.work else "",
    "place": first.place if first else "",
    "text": first.text if first else "",
    "months": "",
    "first_month": None,
    "last_month": None,
    "common_era": "",
    "state": state,
    "problem": str(problem or row.problem),
  }
  if months := row.months:
    spans = record_answers.find_spans(index, months, row.work.printed_reigns)
    values |= {
      "months": "; ".join(span.name for span in spans),
      "first_month": months[0],
      "last_month": months[-1],
      "common_era": record_answers.format_years(index, months[0], months[-1]),
    }
  return {name: values[name] for name in COLUMNS}


def _find_months(index: IndexFolder, correction: Correction) -> list[int]:
  is_allowed = written_dates.find_months(correction.date, index.calendar)
  return np.flatnonzero(is_allowed).tolist()


def _format_fixed(index: IndexFolder, texts: Sequence[_Located]) -> str:
  """Returns the table for --fixed of the corrections of one text.

  Raises:
    ValueError: if they are of several.
  """
  names = sorted({row.work.name for row in texts})
  if len(names) > 1:
    raise ValueError(Note("problem.correction.works", names=", ".join(names)))
  if not texts:
    return fixed_dates.format_fixed_dates([])
  line_of = _find_lines(index, texts[0].work)
  rows = []
  for row in texts:
    correction = row.correction
    note = ": ".join(filter(None, (correction.name, correction.note)))
    for record in row.records:
      number, _, part = record.record_id.partition("-")
      span = (record.section_start, record.section_end)
      rows.append(
        FixedDate(
          correction.date,
          int(number),
          line_of[number],
          span if part else None,
          " ".join(note.split()),
        )
      )
  rows.sort(key=lambda row: (row.record, row.span or (0, 0)))
  return fixed_dates.format_fixed_dates(rows)


def _find_lines(index: IndexFolder, work: IndexedWork) -> dict[str, str]:
  """Returns number of an entry -> line on which it begins, of a text."""
  places: dict[str, str] = {}
  cursor = index.connection.execute(
    "SELECT record_id, place FROM records WHERE row >= ? AND row < ? "
    "ORDER BY row",
    (work.rows.start, work.rows.stop),
  )
  for record_id, place in cursor:
    places.setdefault(record_id.partition("-")[0], _PAGE.sub("", place))
  texts_of_place = {place.rpartition(":")[0] for place in places.values()}
  if len(texts_of_place) > 1:
    return places
  return {number: place.rpartition(":")[2] for number, place in places.items()}


def _make_dated_records(index: IndexFolder, row: _Located) -> DatedRecords:
  months = row.months
  spans = record_answers.find_spans(index, months, row.work.printed_reigns)
  ends = [
    calendars.describe_month(index.calendar, month, row.work.printed_reigns)
    for month in (months[0], months[-1])
  ]
  return DatedRecords(
    correction=row.correction,
    title=row.work.title or row.work.name,
    records=row.records,
    months="; ".join(span.name for span in spans),
    first=ends[0],
    last=ends[1],
  )
