"""Readers of the TSV tables that stand beside the code."""

from __future__ import annotations

import csv
import pathlib


def read_rows(path: pathlib.Path) -> list[dict[str, str]]:
  """Returns the rows of a TSV file with a header, as column -> cell.

  Raises:
    ValueError: if a line has other columns than the header.
  """
  with path.open(encoding="utf-8", newline="") as file:
    # QUOTE_NONE: quotation marks belong to the text of a cell.
    table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    rows = list(table)
  for line, row in enumerate(rows, start=2):
    # DictReader files surplus cells under None and fills missing ones with it.
    if None in row or None in row.values():
      raise ValueError(
        f"{path}, line {line}: should have the columns {table.fieldnames}"
      )
  return rows


def read_wording(path: pathlib.Path) -> dict[str, dict[str, tuple[str, ...]]]:
  """Returns table -> key -> texts of a file of word lists and templates.

  Texts keep the order of their lines: a draw picks one by its position, so
  another order makes another data set.

  Args:
    path: a TSV file with the columns table, key and text.
  """
  wording: dict[str, dict[str, tuple[str, ...]]] = {}
  for row in read_rows(path):
    texts_by_key = wording.setdefault(row["table"], {})
    texts_by_key[row["key"]] = (
      *texts_by_key.get(row["key"], ()),
      row["text"],
    )
  return wording
