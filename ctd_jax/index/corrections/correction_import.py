"""Import of corrections: a table with a row for each, checked one by one.

  work,first_record,last_record,date,note,name
  annals,12,,晉武帝泰始二年三月,晉書武帝紀,A. Reader
  annals,30,33,晉武帝泰始三年,,A. Reader

The columns `work`, `first_record` and `date` are needed. The table is CSV, or
has tabs; `correction_export` writes one with more columns, of which `undone`
and `texts_sha256` count: what was undone is passed over, and what was made of
another text is refused. A column that is none of these is an error.
"""

from __future__ import annotations

import csv
import dataclasses
import difflib
import io
import pathlib
import uuid
from collections.abc import Sequence

from ctd_jax.index import answer_output
from ctd_jax.index.corrections import correction_checks, correction_export
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.utils import files

_NEEDED = ("work", "first_record", "date")
_OTHERS = ("last_record", "note", "name", "undone", "texts_sha256")
# What makes two corrections the same one.
_Key = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportResult:
  """What became of the rows of a table.

  Attributes:
    added: how many corrections were made.
    present: how many were made before, by the same table or another.
    undone: how many were undone where the table comes from.
    refused: the others, each with line and reason.
  """

  added: int
  present: int
  undone: int
  refused: tuple[str, ...]

  def __str__(self) -> str:
    """Returns the counts in words."""
    return (
      f"corrections made {self.added:,}, there already {self.present:,}, "
      f"passed over as undone {self.undone:,}, refused {len(self.refused):,}"
    )


def import_corrections(
  folder: pathlib.Path, path: pathlib.Path
) -> ImportResult:
  """Makes the corrections of a table; one that is refused stops no other.

  Args:
    folder: of the index.
    path: of the table.

  Raises:
    FileNotFoundError: if there is no index or no such file.
    ValueError: naming file and column of a table that is none.
  """
  index = IndexFolder.open(folder)
  keys: set[_Key] = {
    (row.work, row.first_record, row.last_record, row.date)
    for row in index.corrections.active()
  }
  added = present = undone = 0
  refused = []
  for line, row in _read_rows(path):
    if row["undone"]:
      undone += 1
    elif (key := _make_key(row)) in keys:
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
    folder: of the index.
    numbers: of the corrections, as they were written.

  Raises:
    FileNotFoundError: if there is no index.
    ValueError: naming the number that is none, or that of no correction that
      holds.
  """
  store = IndexFolder.open(folder).corrections
  active = {str(row.correction_id): row.correction_id for row in store.active()}
  for number in numbers:
    if number not in active:
      raise ValueError(
        f"--undo={number}: no correction that holds; there are "
        f"{', '.join(active) or 'none'}"
      )
  for number in dict.fromkeys(numbers):
    store.undo(active[number], "", uuid.uuid4().hex)


def _read_rows(path: pathlib.Path) -> list[tuple[int, dict[str, str]]]:
  """Returns the rows of a table, each with its line.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming the column that is missing, or the line of a row that is
      longer or shorter than the header.
  """
  if not path.is_file():
    raise FileNotFoundError(f"--correct={path}: no such file")
  text = files.read_text(path).removeprefix("\ufeff")
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
        "has; what has a comma stands in quotation marks"
      )
    if None in row.values():
      raise ValueError(
        f"--correct={path}, line {reader.line_num}: fewer cells than the "
        f"header, which has {len(columns)}; a cell may be empty"
      )
    values = {
      name: answer_output.read_cell(row.get(name, "")).strip()
      for name in (*_NEEDED, *_OTHERS)
    }
    rows.append((reader.line_num, values))
  return rows


def _check_columns(path: pathlib.Path, columns: Sequence[str]) -> None:
  """Refuses a header that lacks a column, or has one that nobody would read.

  Raises:
    ValueError: naming the column, and the one that may be meant.
  """
  expected = (
    f"expected {', '.join(_NEEDED)}, and maybe {', '.join(_OTHERS)}, with "
    "commas or tabs"
  )
  missing = [name for name in _NEEDED if name not in columns]
  if missing:
    raise ValueError(
      f"--correct={path}, line 1: no column {', '.join(missing)}; {expected}"
    )
  unknown = [name for name in columns if name not in correction_export.COLUMNS]
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
  """Returns the column that may be meant by another, or none."""
  known = (*_NEEDED, *_OTHERS)
  # "last" and "first" stand for a part of a name, "Date" for the whole.
  parts = [name for name in known if column.lower() in name.split("_")]
  return parts or difflib.get_close_matches(column.lower(), known, n=1)


def _make_key(row: dict[str, str]) -> _Key:
  first = row["first_record"]
  return row["work"], first, row["last_record"] or first, row["date"]


def _add_correction(index: IndexFolder, key: _Key, row: dict[str, str]) -> None:
  """Makes a correction.

  Raises:
    ValueError: as of `check_correction` and `CorrectionStore.add`; if it was
      made of another text.
  """
  work, first, last, date = key
  checked = correction_checks.check_correction(index, work, first, last, date)
  if row["texts_sha256"] not in ("", checked.texts_sha256):
    raise ValueError(
      f"{work} {first}: the text is not the one that was corrected"
    )
  index.corrections.add(
    work=work,
    first_record=first,
    last_record=last,
    date=date,
    note=row["note"],
    name=row["name"],
    texts_sha256=checked.texts_sha256,
    key=uuid.uuid4().hex,
  )
