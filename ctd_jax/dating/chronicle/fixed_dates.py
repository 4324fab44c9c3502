"""Fixed dates: corrections by a reader, which dating takes as certain.

  record  line  span   date
  12      30    0-14   開寶八年閏十月
  13      31           0975-11/0976-01

`record` is its number from 1, `line` where it begins (`file:line` if there are
several files). `span` is a range of characters from 0, end excluded; it means
the sections it touches, and the whole record if empty. `date` is read by
`written_dates`. A column `note` is free.
"""

import contextlib
import csv
import dataclasses
import difflib
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Bool

from ctd_jax.dating.chronicle import written_dates
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.texts import Entry

COLUMNS = ("record", "line", "span", "date", "note")
_SPAN = re.compile(r"(\d+)-(\d+)")
_EXCERPT_LENGTH = 12
# By these a table of dates, which has months in columns of their own, is told.
_COLUMNS_OF_DATES = frozenset({"record", "start", "stop", "probability"})


@dataclasses.dataclass(frozen=True)
class FixedDate:
  """A correction; see the module for the fields."""

  date: str
  record: int | None = None
  line: str = ""
  span: tuple[int, int] | None = None
  note: str = ""


def read_fixed_dates(
  path: pathlib.Path,
  records: Sequence[Entry],
  sections: Sequence[Section],
  calendar: Calendar,
) -> dict[int, Bool[np.ndarray, " K"]]:
  """Returns number of a section -> allowed months.

  Raises:
    FileNotFoundError: if the file does not exist.
    ValueError: if a cell cannot be read, the text lacks a record, or two rows
      fix a section; the message names file, line and column.
  """
  sections_of_record: dict[int, list[int]] = {}
  for number, section in enumerate(sections):
    sections_of_record.setdefault(section.record, []).append(number)
  index = _RecordIndex(records)
  allowed_months: dict[int, np.ndarray] = {}
  line_of_section: dict[int, int] = {}
  for line, row in read_rows(path):
    with _name_cell(path, line, "record" if row.record else "line"):
      record = index.find_record(row)
    with _name_cell(path, line, "span"):
      numbers = _find_sections(
        row.span, records[record], sections_of_record[record], sections
      )
    with _name_cell(path, line, "date"):
      is_allowed = written_dates.find_months(row.date, calendar)
    for number in numbers:
      if number in line_of_section:
        section = sections[number]
        raise ValueError(
          f"--fixed={path}, line {line}: characters "
          f"{section.start}-{section.stop} of record {record + 1} are fixed in "
          f"line {line_of_section[number]}; remove one of the rows"
        )
      line_of_section[number] = line
      allowed_months[number] = is_allowed
  return allowed_months


def format_fixed_dates(fixed_dates: Iterable[FixedDate]) -> str:
  """Returns corrections as a table that `read_fixed_dates` reads.

  Raises:
    ValueError: if a row has no record or line, or a cell a tab or line break.
  """
  rows = ["\t".join(COLUMNS)]
  for fixed_date in fixed_dates:
    if fixed_date.record is None and not fixed_date.line:
      raise ValueError(f"{fixed_date}: needs a record or a line")
    cells = (
      "" if fixed_date.record is None else str(fixed_date.record),
      fixed_date.line,
      "" if fixed_date.span is None else "{}-{}".format(*fixed_date.span),
      fixed_date.date,
      fixed_date.note,
    )
    if any(mark in cell for cell in cells for mark in "\t\n\r"):
      raise ValueError(f"{fixed_date}: a tab or an end of line within a cell")
    rows.append("\t".join(cells))
  return "\n".join(rows) + "\n"


def read_rows(path: pathlib.Path) -> list[tuple[int, FixedDate]]:
  """Returns the rows of a file of fixed dates, each with its line.

  Raises:
    FileNotFoundError: if the file does not exist.
    ValueError: if a cell cannot be read; the message names file, line and
      column.
  """
  if not path.is_file():
    raise FileNotFoundError(f"--fixed={path}: no such file")
  try:
    text = path.read_text(encoding="utf-8-sig")
  except UnicodeDecodeError as error:
    raise ValueError(
      f"--fixed={path}: byte {error.start} is not UTF-8; save it as UTF-8"
    ) from None
  # Notes may hold quotation marks; nothing is quoted.
  table = csv.reader(text.split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE)
  header = [name.strip() for name in next(table, [])]
  _check_header(path, header)
  rows = []
  for line, cells in enumerate(table, start=2):
    if not any(cell.strip() for cell in cells):
      continue
    if len(cells) > len(header):
      raise ValueError(
        f"--fixed={path}, line {line}: {len(cells)} columns, expected "
        f"{len(header)} ({', '.join(header)})"
      )
    # Editors cut the tabs at the end of a line.
    cells += [""] * (len(header) - len(cells))
    row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
    rows.append((line, _parse_row(path, line, row)))
  return rows


def _check_header(path: pathlib.Path, header: Sequence[str]) -> None:
  location = f"--fixed={path}, line 1"
  if set(header) >= _COLUMNS_OF_DATES:
    raise ValueError(
      f"{location}: these are the columns of dates.tsv; expected those of "
      f"{', '.join(COLUMNS)} and the corrected rows alone, with its record, "
      "its start and stop as span (0-14), and the right date"
    )
  for name in header:
    if name not in COLUMNS:
      nearest = difflib.get_close_matches(name, COLUMNS, 1)
      hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
      raise ValueError(
        f"{location}: column {name!r} is unknown{hint}; expected "
        f"{', '.join(COLUMNS)}, separated by tabs"
      )
  if len(set(header)) < len(header):
    raise ValueError(f"{location}: a column occurs twice")
  if "date" not in header or not {"record", "line"} & set(header):
    raise ValueError(
      f"{location}: columns {', '.join(header) or 'missing'}; expected date, "
      "and record or line, separated by tabs"
    )


def _parse_row(path: pathlib.Path, line: int, row: dict[str, str]) -> FixedDate:
  record_text, line_text = row.get("record", ""), row.get("line", "")
  if not record_text and not line_text:
    raise ValueError(
      f"--fixed={path}, line {line}: columns 'record' and 'line' are empty; "
      "one of them must name the record"
    )
  with _name_cell(path, line, "record"):
    if record_text and not (record_text.isdecimal() and int(record_text)):
      raise ValueError(f"{record_text!r}, expected a number from 1")
  with _name_cell(path, line, "span"):
    span = _parse_span(row.get("span", ""))
  with _name_cell(path, line, "date"):
    if not row["date"]:
      raise ValueError(f"empty; expected a form like {written_dates.FORMS}")
  return FixedDate(
    row["date"],
    int(record_text) if record_text else None,
    line_text,
    span,
    row.get("note", ""),
  )


def _parse_span(text: str) -> tuple[int, int] | None:
  if not text:
    return None
  match = _SPAN.fullmatch(text)
  if match is None or int(match[1]) >= int(match[2]):
    raise ValueError(
      f"{text!r}, expected first character and the one after the last, such "
      "as 0-14"
    )
  return int(match[1]), int(match[2])


class _RecordIndex:
  """Records by number and by the line on which they begin."""

  def __init__(self, records: Sequence[Entry]):
    self._records = records
    self._by_line: dict[tuple[str, int], list[int]] = {}
    for number, record in enumerate(records):
      place = record.place
      self._by_line.setdefault((place.file, place.line), []).append(number)
    self._files = list(dict.fromkeys(file for file, _ in self._by_line))

  def find_record(self, row: FixedDate) -> int:
    """Returns the index of the one record that a row names."""
    numbers = self._find_line(row.line) if row.line else []
    if row.record is None:
      texts = [n for n in numbers if not self._records[n].is_heading]
      # A year and the text that it opens stand on one line.
      numbers = texts or numbers
      if len(numbers) > 1:
        names = ", ".join(f"{number + 1}" for number in numbers)
        raise ValueError(
          f"{row.line!r} holds the records {names}; say which in a column "
          "'record'"
        )
      return numbers[0]
    if row.record > len(self._records):
      raise ValueError(
        f"no record {row.record}; the text has {len(self._records)}"
      )
    record = row.record - 1
    if row.line and record not in numbers:
      raise ValueError(
        f"{row.line!r} is not of record {row.record}, which begins at "
        f"{self._records[record].place}; was the text changed?"
      )
    return record

  def _find_line(self, text: str) -> list[int]:
    """Returns the records that begin on a line, `30` or `file:30`."""
    file, _, number = text.rpartition(":")
    if not number.isdecimal():
      raise ValueError(f"{text!r}, expected a number such as 30, or file:30")
    if not file and len(self._files) > 1:
      raise ValueError(
        f"{text!r}: the text has {len(self._files)} files; expected one like "
        f"{self._files[0]}:{number}"
      )
    file = file or self._files[0]
    if file not in self._files:
      raise ValueError(
        f"{text!r}: no file {file!r}; the text has {', '.join(self._files)}"
      )
    line = int(number)
    if (file, line) not in self._by_line:
      before = max(
        (
          other
          for other in self._by_line
          if other[0] == file and other[1] < line
        ),
        default=None,
      )
      hint = (
        f"; record {self._by_line[before][0] + 1} begins on line {before[1]}"
        if before
        else ""
      )
      raise ValueError(f"no record begins on line {line}{hint}")
    return self._by_line[file, line]


def _find_sections(
  span: tuple[int, int] | None,
  record: Entry,
  numbers: Sequence[int],
  sections: Sequence[Section],
) -> list[int]:
  """Returns the sections of a record that share a character with a span."""
  if span is None:
    return list(numbers)
  start, stop = span
  if stop > len(record.text):
    raise ValueError(
      f"'{start}-{stop}' goes beyond the record, which has "
      f"{len(record.text)} characters: {record.text[:_EXCERPT_LENGTH]!r}"
    )
  return [
    number
    for number in numbers
    if sections[number].start < stop and sections[number].stop > start
  ]


@contextlib.contextmanager
def _name_cell(path: pathlib.Path, line: int, column: str) -> Iterator[None]:
  """Context in which an error names the cell that it is about."""
  try:
    yield
  except ValueError as error:
    raise ValueError(
      f"--fixed={path}, line {line}, column {column!r}: {error}"
    ) from None
