"""Fact tables of `data/ctm/facts`, checked row by row.

Facts are data with a source in every row, not code. Reading them needs none of
the libraries of the builders.
"""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ctd_jax.chronology import reign_tables
from ctd_jax_datasets.ctm.vocabulary import APPROXIMATE

SOURCE_COLUMN = "source"
CHECKED_COLUMN = "checked"  # where the row was looked up
VALUE_SEPARATOR = "|"  # between several values of one cell
ITEM_SEPARATOR = "; "  # between sources, and between items of `checked`

# Items of `checked` that are no place: years that none of the places gives,
# and years that one of them gives otherwise.
YEARS_NOT_GIVEN = "no years"
NOT_GIVEN = (
  "no birth year",
  "no death year",
  "no start year",
  "no end year",
  YEARS_NOT_GIVEN,
)
DIFFERS = "differs: "


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
    columns: the header, with `source` among them; `checked` is checked
      against it where there is one.
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
  if CHECKED_COLUMN in row:
    _check_places(location, row)


def _check_places(location: str, row: Mapping[str, str]) -> None:
  """Checks that the sources of a row are those that were looked up in."""
  checked = split_checked(row)
  for place in checked.places:
    if not all(place.partition(" ")):
      raise ValueError(
        f"{location}: column {CHECKED_COLUMN!r} has {place!r}, should be a "
        "source and the place in it, as '史記 卷62'"
      )
  # A source may explain itself after a space.
  sources = {
    source.split(" ")[0] for source in row[SOURCE_COLUMN].split(ITEM_SEPARATOR)
  }
  looked_up = {place.split(" ")[0] for place in checked.places}
  if odd_sources := sorted(sources ^ looked_up):
    raise ValueError(
      f"{location}: {', '.join(odd_sources)} should be in both "
      f"{SOURCE_COLUMN!r} and {CHECKED_COLUMN!r}, or in neither"
    )
  if checked.not_given and row.get("precision", APPROXIMATE) != APPROXIMATE:
    raise ValueError(
      f"{location}: column {CHECKED_COLUMN!r} has {checked.not_given[0]!r}, "
      f"hence 'precision' should be {APPROXIMATE!r}"
    )


class CheckedRow(NamedTuple):
  """Items of the cell `checked`.

  Attributes:
    places: a source and the place in it, each.
    not_given: years that none of the places gives.
    differing: years that a source gives otherwise, each with the source.
  """

  places: tuple[str, ...]
  not_given: tuple[str, ...]
  differing: tuple[str, ...]


def split_checked(row: Mapping[str, str]) -> CheckedRow:
  """Returns the items of the cell `checked` of a row."""
  items = row[CHECKED_COLUMN].split(ITEM_SEPARATOR)
  return CheckedRow(
    tuple(
      item
      for item in items
      if item not in NOT_GIVEN and not item.startswith(DIFFERS)
    ),
    tuple(item for item in items if item in NOT_GIVEN),
    tuple(
      item.removeprefix(DIFFERS) for item in items if item.startswith(DIFFERS)
    ),
  )


def split_values(cell: str) -> tuple[str, ...]:
  """Returns the values of a cell, () for an empty one."""
  return tuple(value for value in cell.split(VALUE_SEPARATOR) if value)
