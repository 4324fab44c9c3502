"""Corrections as files: tables, JSON and TEI.

fixed  the `--fixed` table of one text: active ones, one row per record
csv    all, undone ones too, each with its state
jsonl  the same as objects
tei    the corrected records with their dates

Corrections whose records are gone or have changed appear in csv and jsonl only;
the others report them as left out.
"""

import csv
import dataclasses
import difflib
import io
import json
import pathlib
import re
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from ctd_jax import __version__
from ctd_jax.dating.chronicle import fixed_dates
from ctd_jax.dating.chronicle.fixed_dates import FixedDate
from ctd_jax.index import (
  answer_files,
  calendars,
  correction_checks,
  database,
  record_answers,
  records_tei,
)
from ctd_jax.index.building import sources
from ctd_jax.index.building.sources import DatedWith
from ctd_jax.index.building.work_corrections import RecordFinder
from ctd_jax.index.corrections import Correction, LocatedCorrection
from ctd_jax.index.database import IndexedWork
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.records_tei import DatedText
from ctd_jax.utils import files, notes, output
from ctd_jax.utils.notes import Note

FIXED, CSV, JSONL, TEI = FORMATS = ("fixed", "csv", "jsonl", "tei")
FORMAT_OF_SUFFIX = {".tsv": FIXED, ".csv": CSV, ".jsonl": JSONL, ".xml": TEI}
_FORMATS_OF_RECORDS = ("dataset", "beir")  # works that are not texts
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
  """Corrections as a file."""

  content: str
  number: int  # of corrections in the file
  left_out: tuple[Note, ...] = ()  # with reasons


def export_corrections(
  index: IndexFolder, chosen: Sequence[Correction], export_format: str
) -> Export:
  """Returns corrections as a file.

  Args:
    chosen: the corrections; the formats fixed and tei omit undone ones.
    export_format: one of `FORMATS`.
  """
  if export_format not in FORMATS:
    raise ValueError(
      f"format {export_format!r}: expected one of {', '.join(FORMATS)}"
    )
  located = _locate_corrections(index, chosen)
  if export_format in (CSV, JSONL):
    works = {row.correction.work: row.work for row in located}
    dated_with = {
      name: sources.read_dated_with(work) for name, work in works.items()
    }
    rows = [
      _describe(index, row, dated_with[row.correction.work]) for row in located
    ]
    if export_format == CSV:
      table = answer_files.format_rows(rows, COLUMNS, answer_files.CSV)
      content = output.BYTE_ORDER_MARK + table
    else:
      lines = (json.dumps(row, ensure_ascii=False) for row in rows)
      content = "".join(line + "\n" for line in lines)
    return Export(content=content, number=len(rows))
  active = [row for row in located if row.correction.undone is None]
  kept = [row for row in active if not row.problem]
  problems = [(row.correction, row.problem) for row in active if row.problem]
  if export_format == TEI:
    content = _format_tei(index, kept)
  else:
    problems += [
      (row.correction, Note("problem.correction.dataset"))
      for row in kept
      if not is_text(row.work)
    ]
    kept = [row for row in kept if is_text(row.work)]
    content = _format_fixed(index, kept)
  left_out = tuple(
    Note(
      "problem.correction.described",
      number=correction.correction_id,
      record=f"{correction.work} {correction.record_span}",
      problem=problem,
    )
    for correction, problem in problems
  )
  return Export(content=content, number=len(kept), left_out=left_out)


def write_corrections(folder: pathlib.Path, path: pathlib.Path) -> str:
  """Writes the corrections of an index; returns a report in words.

  Args:
    path: its suffix gives the format. For --fixed, each of several texts gets a
      file with its name before the suffix.
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
      parts = {}
      for name in corrected:
        end = re.sub(r"[^\w-]+", "_", name) + path.suffix
        rows = [row for row in chosen if row.work == name]
        # The first report also says what is left out.
        parts[path.with_name(f"{path.stem}.{end}")] = rows + others
        others = []
  lines = []
  for target, rows in parts.items():
    export = export_corrections(index, rows, export_format)
    files.write_text(target, export.content)
    lines.append(f"{target}: corrections written {export.number:,}")
    lines += [f"  left out {problem}" for problem in export.left_out]
  return "\n".join(lines)


def is_text(work: IndexedWork) -> bool:
  """Whether a work is a text, so that --fixed can correct it."""
  return work.text_format not in _FORMATS_OF_RECORDS


def _locate_corrections(
  index: IndexFolder, chosen: Sequence[Correction]
) -> list[LocatedCorrection]:
  works = {work.name: work for work in index.works}
  finders: dict[str, RecordFinder] = {}
  located = []
  for correction in chosen:
    work = works.get(correction.work)
    row = LocatedCorrection(correction=correction, work=work)
    located.append(row)
    if work is None:
      row.problem = correction_checks.NO_WORK
      continue
    if work.name not in finders:
      finders[work.name] = RecordFinder(
        database.fetch_records(index.connection, work.rows)
      )
    try:
      found = finders[work.name].find_rows(correction)
      months = correction_checks.find_months(index, work, correction.date)
    except ValueError as error:
      row.problem = notes.of_error(error)
      continue
    row.months = np.flatnonzero(months).tolist()
    row.records = database.fetch_records(
      index.connection, [work.first_row + number for number in found]
    )
  return located


def _describe(
  index: IndexFolder, row: LocatedCorrection, dated_with: DatedWith | None
) -> dict[str, Any]:
  """Returns a correction's row for csv and jsonl."""
  first = row.records[0] if row.records else None
  state, problem = correction_checks.find_state(
    row.correction, dated_with, row.problem
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


def _format_tei(index: IndexFolder, rows: Sequence[LocatedCorrection]) -> str:
  """Returns the corrected records, a division per work."""
  names = dict.fromkeys(row.correction.name for row in rows)
  readers = {name: f"reader-{it}" for it, name in enumerate(names, start=1)}
  groups: dict[str, list[DatedText]] = {}
  for row in sorted(rows, key=lambda row: row.records[0].row):
    date = _describe_date(index, row) | {
      "cert": "high",
      "evidence": "external",
      "resp": f"#{readers[row.correction.name]}",
    }
    groups.setdefault(row.work.name, []).extend(
      DatedText(it.record_id, it.place, it.text, date, note=row.correction.note)
      for it in row.records
    )
  titles = {row.work.name: row.title for row in rows}
  return records_tei.format_records(
    f"Corrected dates of {', '.join(titles.values()) or 'no work'}",
    f"{len(rows)} corrections, written by ctd_jax {__version__}",
    titles.values(),
    [({"n": name}, titles[name], texts) for name, texts in groups.items()],
    readers=readers,
  )


def _describe_date(
  index: IndexFolder, row: LocatedCorrection
) -> dict[str, str | None]:
  reigns = row.work.printed_reigns
  spans = record_answers.find_spans(index, row.months, reigns)
  first, last = (
    calendars.describe_month(index.calendar, row.months[place], reigns)
    for place in (0, -1)
  )
  name = "; ".join(span.name for span in spans)
  return records_tei.describe_date(name, first, last)


def _format_fixed(
  index: IndexFolder, texts: Sequence[LocatedCorrection]
) -> str:
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


# Import: a table in CSV or with tabs, checked row by row.
#
#   work,first_record,last_record,date,note,name
#   annals,12,,晉武帝泰始二年三月,晉書武帝紀,A. Reader
#   annals,30,33,晉武帝泰始三年,,A. Reader
#
# Only `work`, `first_record` and `date` are needed. Of the columns that an
# export adds, `undone` skips a row and `texts_sha256` refuses another text; an
# unknown column is an error.


_NEEDED = ("work", "first_record", "date")
_OTHERS = ("last_record", "note", "name", "undone", "texts_sha256")
# What makes two corrections the same one.
_Key = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportResult:
  """Counts of a table's rows, and the refused ones."""

  added: int
  present: int  # made before, by this table or another
  undone: int  # already undone in the index they come from
  refused: tuple[str, ...]  # each with line and reason

  def __str__(self) -> str:
    return (
      f"corrections made {self.added:,}, already present {self.present:,}, "
      f"skipped as undone {self.undone:,}, refused {len(self.refused):,}"
    )


def import_corrections(
  folder: pathlib.Path, path: pathlib.Path
) -> ImportResult:
  """Makes the corrections of a table; a refused one does not stop others."""
  index = IndexFolder.open(folder)
  keys: set[_Key] = {
    (row.work, row.first_record, row.last_record, row.date)
    for row in index.corrections.active()
  }
  added = present = undone = 0
  refused = []
  for line, row in _read_rows(path):
    last = row["last_record"] or row["first_record"]
    key = row["work"], row["first_record"], last, row["date"]
    if row["undone"]:
      undone += 1
    elif key in keys:
      present += 1
    else:
      try:
        _add_correction(index, key, row)
      except ValueError as error:
        refused.append(f"{path}, line {line}: {error}")
        continue
      keys.add(key)
      added += 1
  return ImportResult(
    added=added, present=present, undone=undone, refused=tuple(refused)
  )


def undo_corrections(folder: pathlib.Path, numbers: Sequence[str]) -> None:
  """Undoes corrections, all or none.

  Args:
    numbers: numbers as the user wrote them.
  """
  store = IndexFolder.open(folder).corrections
  active = {str(row.correction_id): row.correction_id for row in store.active()}
  for number in numbers:
    if number not in active:
      raise ValueError(
        f"--undo={number}: no active correction; there are "
        f"{', '.join(active) or 'none'}"
      )
  for number in dict.fromkeys(numbers):
    store.undo(active[number], "", uuid.uuid4().hex)


def _read_rows(path: pathlib.Path) -> list[tuple[int, dict[str, str]]]:
  """Returns the rows of a table, each with its line."""
  if not path.is_file():
    raise FileNotFoundError(f"--correct={path}: no such file")
  text = files.read_text(path).removeprefix(output.BYTE_ORDER_MARK)
  delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
  # Notes may have any line end of Unicode, at which a table does not end a row.
  reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
  columns = [name.strip() for name in reader.fieldnames or ()]
  reader.fieldnames = columns
  _check_columns(path, columns)
  rows = []
  for row in reader:
    if None in row:
      raise ValueError(
        f"--correct={path}, line {reader.line_num}: more cells than the header "
        "has; quote cells that contain a comma"
      )
    if None in row.values():
      raise ValueError(
        f"--correct={path}, line {reader.line_num}: fewer cells than the "
        f"header, which has {len(columns)}; a cell may be empty"
      )
    values = {
      name: answer_files.read_cell(row.get(name, "")).strip()
      for name in (*_NEEDED, *_OTHERS)
    }
    rows.append((reader.line_num, values))
  return rows


def _check_columns(path: pathlib.Path, columns: Sequence[str]) -> None:
  """Raises ValueError if a column is missing or unknown."""
  expected = (
    f"expected {', '.join(_NEEDED)}, and maybe {', '.join(_OTHERS)}, with "
    "commas or tabs"
  )
  missing = [name for name in _NEEDED if name not in columns]
  if missing:
    raise ValueError(
      f"--correct={path}, line 1: no column {', '.join(missing)}; {expected}"
    )
  unknown = [name for name in columns if name not in COLUMNS]
  if unknown:
    names = ", ".join(map(repr, unknown))
    nearest = [name for column in unknown for name in _find_nearest(column)]
    hint = f"did you mean {', '.join(nearest)}? " if nearest else ""
    raise ValueError(
      f"--correct={path}, line 1: unknown column {names}; {hint}{expected}"
    )
  twice = [name for name in columns if columns.count(name) > 1]
  if twice:
    raise ValueError(f"--correct={path}, line 1: column {twice[0]} twice")


def _find_nearest(column: str) -> list[str]:
  known = (*_NEEDED, *_OTHERS)
  # "last" and "first" stand for a part of a name, "Date" for the whole.
  parts = [name for name in known if column.lower() in name.split("_")]
  return parts or difflib.get_close_matches(column.lower(), known, n=1)


def _add_correction(index: IndexFolder, key: _Key, row: dict[str, str]) -> None:
  work, first, last, date = key
  checked = correction_checks.check_correction(index, work, first, last, date)
  if row["texts_sha256"] not in ("", checked.texts_sha256):
    raise ValueError(
      f"{work} {first}: the text is not the one that was corrected"
    )
  index.corrections.add(
    Correction(
      work=work,
      first_record=first,
      last_record=last,
      date=date,
      note=row["note"],
      name=row["name"],
      texts_sha256=checked.texts_sha256,
    ),
    key=uuid.uuid4().hex,
  )
