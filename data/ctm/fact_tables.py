"""Fact tables of `data/ctm/facts`, checked row by row.

Facts are data with a source in every row, not code. Reading them needs none of
the libraries of the builders.
"""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Collection, Mapping, Sequence

from ctd_jax.chronology import reign_tables

SOURCE_COLUMN = "source"
VALUE_SEPARATOR = "|"  # between several values of one cell


def table_path(name: str) -> pathlib.Path:
  """Returns the path of a fact table, installed or in the checkout."""
  return reign_tables.reign_table_dir().parent / "ctm" / "facts" / f"{name}.tsv"


def read_table(
  path: pathlib.Path,
  columns: Sequence[str],
  integers: Collection[str] = (),
  optional: Collection[str] = (),
) -> list[dict[str, str]]:
  """Returns the rows of a TSV file, each as column -> cell.

  Args:
    path: UTF-8, tab-separated, one header line.
    columns: the header, with `source` among them.
    integers: columns whose cells must be integers; they are returned as text.
    optional: columns that may be empty.

  Raises:
    ValueError: naming file, line and column at fault.
  """
  with path.open(encoding="utf-8", newline="") as file:
    # QUOTE_NONE: quotation marks belong to the text of a cell.
    rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    header = next(rows, [])
    if header != list(columns) or SOURCE_COLUMN not in header:
      raise ValueError(
        f"{path}, line 1: columns {', '.join(header)} should be "
        f"{', '.join(columns)}, separated by tabs"
      )
    table = []
    for line_number, cells in enumerate(rows, start=2):
      location = f"{path}, line {line_number}"
      if len(cells) != len(columns):
        raise ValueError(
          f"{location}: {len(cells)} columns, should be {len(columns)}"
        )
      row = dict(zip(columns, cells, strict=True))
      _check_row(location, row, integers, optional)
      table.append(row)
  return table


def _check_row(
  location: str,
  row: Mapping[str, str],
  integers: Collection[str],
  optional: Collection[str],
) -> None:
  """Checks the cells of a row; an error names location and column."""
  for column, cell in row.items():
    if not cell:
      if column not in optional:
        raise ValueError(f"{location}: column {column!r} is empty")
    # Years BCE are negative.
    elif column in integers and not cell.removeprefix("-").isdecimal():
      raise ValueError(
        f"{location}: column {column!r} is {cell!r}, should be an integer"
      )


def split_values(cell: str) -> tuple[str, ...]:
  """Returns the values of a cell, () for an empty one."""
  return tuple(value for value in cell.split(VALUE_SEPARATOR) if value)
