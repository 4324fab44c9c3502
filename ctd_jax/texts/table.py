"""Tables as texts: a row is a record, with its date and id in columns."""

import csv
import io
import pathlib
import re
from collections.abc import Mapping

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
TABLE_SUFFIXES = (".csv", ".tsv")
# Workbooks need another package than the standard library.
WORKBOOK_SUFFIXES = (".xlsx", ".xls", ".ods")
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
      columns.
    columns: names of the columns, `text=條文,date=年月,id=編號`; `text`,
      `date` and `id` if None.

  Raises:
    TextError: if a column is missing or a row has more cells than columns; it
      names the columns.
    ValueError: if `columns` has another form.
  """
  head = file.text.partition("\n")[0]
  separators = sorted("\t,;", key=head.count)
  reader = csv.reader(io.StringIO(file.text), delimiter=separators[-1])
  names = [name.strip() for name in next(reader, [])]
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
      _add_row(dict(zip(names, row, strict=False)), chosen, place, entry_list)
  except csv.Error as error:
    raise TextError(
      Note("problem.at", place=f"{file.name}:{line}", problem=str(error))
    ) from None
  entry_list.counts["rows"] = len(entry_list.entries)
  return entry_list


def refuse_workbook(path: pathlib.Path) -> None:
  """Raises TextError, which says how to save it, if a file is a workbook."""
  if path.suffix.lower() in WORKBOOK_SUFFIXES:
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
  assembly = EntryAssembly()
  assembly.start_line(place)
  for index, cell in enumerate(filter(None, (date, text))):
    if index:
      # A date ends with its cell: 「二年」 and 「月食」 are not 二年月.
      assembly.add_unspaced("　" if _HAN_END.search(date) else ". ")
    cell, num_unencoded = mark_unencoded(cell)
    entry_list.counts["characters without a code"] += num_unencoded
    assembly.add_spaced(cell)
  entry_list.add(assembly, label=label)
