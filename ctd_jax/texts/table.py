"""Tables as texts: a row is a record, with its date and id in columns."""

import contextlib
import csv
import datetime
import io
import pathlib
import re
import zipfile
from collections.abc import Iterator, Mapping

from ctd_jax.texts.works import (
  EntryAssembly,
  EntryList,
  Place,
  SourceFile,
  TextError,
  mark_unencoded,
)
from ctd_jax.utils.notes import Note

TEXT_COLUMN, DATE_COLUMN, ID_COLUMN = COLUMNS = ("text", "date", "id")
WORKBOOK_SUFFIX = ".xlsx"
TABLE_SUFFIXES = (".csv", ".tsv", WORKBOOK_SUFFIX)
_OTHER_WORKBOOKS = (".xls", ".xlsm", ".xlsb", ".ods")
_MAX_WORKBOOK = 1 << 30  # bytes unpacked; a small archive can hold any number
_HAN_END = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]\Z")


def parse_columns(columns: str | None) -> dict[str, str]:
  """Returns role -> name of "text=條文,date=年月"."""
  pairs = [pair.partition("=") for pair in (columns or "").split(",") if pair]
  if any(role not in COLUMNS or not name for role, _, name in pairs):
    raise ValueError(Note("problem.sheet.form", flag=f"--columns={columns}"))
  return {role: name for role, _, name in pairs}


def read_table(file: SourceFile, columns: str | None = None) -> EntryList:
  """Returns the rows of a table as entries, their dates before their text.

  Args:
    file: CSV with commas or semicolons, or with tabs; its first row names the
      columns. A workbook is what `read_workbook` returns.
    columns: names of the columns, `text=條文,date=年月,id=編號`; `text`,
      `date` and `id` if None.

  Raises:
    TextError: if a column is missing or a row has more cells than columns; it
      names the columns.
    ValueError: if `columns` has another form.
  """
  reader = csv.reader(
    io.StringIO(file.text), delimiter=find_separator(file.text)
  )
  names = _read_names(reader)
  chosen = _find_columns(file, names, parse_columns(columns))
  entry_list = EntryList()
  line = reader.line_num + 1
  try:
    for row in reader:
      place, line = Place(file.name, line), reader.line_num + 1
      if len(row) > len(names):
        raise TextError(
          Note("problem.sheet.cells", place=place, columns=", ".join(names))
        )
      # The first of several columns of one name counts.
      cells = dict(reversed([*zip(names, row, strict=False)]))
      _add_row(cells, chosen, place, entry_list)
  except csv.Error as error:
    raise TextError(
      Note("problem.at", place=f"{file.name}:{line}", problem=str(error))
    ) from None
  entry_list.counts["rows"] = len(entry_list.entries)
  unread = len(names) - len(set(filter(None, chosen.values())))
  entry_list.counts["columns not read"] = unread
  return entry_list


def is_text_table(text: str, columns: str | None) -> bool:
  """Returns whether a table of a folder is a text: columns say so, or `text`.

  Others beside texts are lists of figures, places and the like.
  """
  reader = csv.reader(io.StringIO(text), delimiter=find_separator(text))
  names = map(str.casefold, _read_names(reader))
  name = parse_columns(columns).get(TEXT_COLUMN, TEXT_COLUMN)
  return name.casefold() in names


def find_separator(text: str) -> str:
  """Returns what is between the cells of a table, by its first line."""
  return max(",\t;", key=text.partition("\n")[0].count)


def _read_names(reader: Iterator[list[str]]) -> list[str]:
  return [name.strip() for name in next(reader, [])]


def read_workbook(path: pathlib.Path) -> str:
  """Returns the first sheet of a workbook as a table with commas.

  Raises:
    TextError: if it is no XLSX, or the extra `xlsx` is not installed.
  """
  try:
    import openpyxl  # of an extra, and slow
  except ModuleNotFoundError:
    raise TextError(Note("problem.sheet.extra", file=path)) from None
  target = io.StringIO()
  writer = csv.writer(target, lineterminator="\n")
  try:
    with zipfile.ZipFile(path) as archive:
      if sum(part.file_size for part in archive.filelist) > _MAX_WORKBOOK:
        raise ValueError
    with contextlib.closing(
      openpyxl.load_workbook(path, read_only=True, data_only=True)
    ) as book:
      for row in book.worksheets[0].iter_rows(values_only=True):
        writer.writerow(map(_format_cell, row))
  # The file is no ZIP archive, or its parts are missing or broken.
  except (zipfile.BadZipFile, KeyError, IndexError, ValueError, SyntaxError):
    raise TextError(Note("problem.sheet.workbook", file=path)) from None
  return target.getvalue()


def _format_cell(value: object) -> str:
  """Returns a cell as it is shown: whole numbers and days without a time."""
  if isinstance(value, datetime.datetime):
    is_day = value.time() == datetime.time()
    return (value.date() if is_day else value).isoformat()
  if isinstance(value, float) and value.is_integer():
    value = int(value)
  # A line of the table is a row of the sheet.
  return "" if value is None else " ".join(str(value).splitlines())


def refuse_workbook(path: pathlib.Path) -> None:
  """Raises TextError for workbooks of other formats, which says what to do."""
  if path.suffix.lower() in _OTHER_WORKBOOKS:
    raise TextError(Note("problem.sheet.workbook", file=path))


def _find_columns(
  file: SourceFile, names: list[str], asked: Mapping[str, str]
) -> dict[str, str]:
  """Returns role -> name as the table has it."""
  by_folded = {name.casefold(): name for name in reversed(names)}
  chosen = {
    role: by_folded.get(asked.get(role, role).casefold(), "")
    for role in COLUMNS
  }
  missing = [asked[role] for role in asked if not chosen[role]]
  if not chosen[TEXT_COLUMN] and TEXT_COLUMN not in asked:
    missing.append(TEXT_COLUMN)
  if missing:
    raise TextError(
      Note(
        "problem.sheet.columns",
        place=f"{file.name}:1",
        missing=", ".join(missing),
        columns=", ".join(names),
      )
    )
  return chosen


def _add_row(
  row: Mapping[str, str],
  chosen: Mapping[str, str],
  place: Place,
  entry_list: EntryList,
) -> None:
  date, text, label = (
    row.get(chosen[role], "").strip()
    for role in (DATE_COLUMN, TEXT_COLUMN, ID_COLUMN)
  )
  if not (date or text):
    entry_list.counts["rows without text"] += any(
      cell.strip() for cell in row.values()
    )
    return
  assembly = EntryAssembly()
  assembly.start_line(place)
  if date:
    # The text has it as printed; here it is for readers of other calendars.
    assembly.add_note(date, place, "date")
  for index, cell in enumerate(filter(None, (date, text))):
    if index:
      # A date ends with its cell: 「二年」 and 「月食」 are not 二年月.
      assembly.add_unspaced("　" if _HAN_END.search(date) else ". ")
    cell, num_unencoded = mark_unencoded(cell)
    entry_list.counts["characters without a code"] += num_unencoded
    assembly.add_spaced(cell)
  entry_list.add(assembly, label=label)
