"""Rows of CSV files as typed structs, with file, line and column in errors."""

from __future__ import annotations

import csv
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

Row = TypeVar("Row", bound=msgspec.Struct)


def read_csv_rows(
  path: str | os.PathLike,
  row_type: type[Row],
  delimiter: str = ",",
  strip_cells: bool = True,
) -> Iterator[tuple[int, Row]]:
  """Yields (line number, row) of a CSV file with a header.

  A blank cell is None. Columns that are not fields of the struct are ignored.

  Args:
    path: UTF-8, with or without a byte order mark.
    row_type: struct whose fields are columns; a text or number in a cell is
      converted to the type of its field.
    delimiter: between cells.
    strip_cells: whether white space around cells is removed.

  Raises:
    ValueError: naming file, line and column at fault.
  """
  columns = row_type.__struct_encode_fields__
  with pathlib.Path(path).open(encoding="utf-8-sig", newline="") as file:
    reader = csv.DictReader(file, delimiter=delimiter)
    header = reader.fieldnames or ()
    missing = [name for name in columns if name not in header]
    if missing:
      raise ValueError(
        f"{path}:1: no column {', '.join(missing)}; expected the header "
        f"{delimiter.join(columns)}"
      )
    for cells in reader:
      # DictReader files surplus cells under None and fills missing ones with
      # it; a text with an unquoted comma is the usual reason.
      if None in cells or None in cells.values():
        raise ValueError(
          f"{path}:{reader.line_num}: expected {len(header)} columns; quote "
          "cells that hold a comma"
        )
      cells = {
        name: (cells[name].strip() if strip_cells else cells[name])
        if cells[name].strip()
        else None
        for name in columns
      }
      try:
        row = msgspec.convert(cells, row_type, strict=False)
      except msgspec.ValidationError as error:
        message = _describe_error(error, cells)
        raise ValueError(f"{path}:{reader.line_num}: {message}") from None
      yield reader.line_num, row


def _describe_error(
  error: msgspec.ValidationError, cells: Mapping[str, Any]
) -> str:
  """Returns the message with the name and the text of the cell."""
  message, _, column = str(error).rpartition(" - at `$.")
  if not message:
    return str(error)  # of the row as a whole
  column = column.removesuffix("`")
  if cells[column] is None:
    return f"{column} is empty"
  return f"{column}={cells[column]!r}: {message}"
