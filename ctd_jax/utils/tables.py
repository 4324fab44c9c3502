"""Tables as text: for a terminal, Markdown, TSV and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich import cells

_COLUMN_GAP = "  "
# Headers of columns of words. Markdown aligns them to the left and all other
# columns, which hold figures, to the right.
WORD_COLUMNS = (
  "system",
  "score",
  "source",
  "questions",
  "task",
  "measure",
  "games",
)


def format_table(
  title: str,
  header: Sequence[str],
  rows: Iterable[Sequence[Any]],
  markdown: bool = False,
  right: Collection[int] = (),
  left: Collection[str] = WORD_COLUMNS,
) -> str:
  """Returns a table as lines of text, each with its line end.

  Args:
    title: bold above a Markdown table, or above a table with rules for a
      terminal. Without a title, there are no rules either.
    header: names of the columns.
    rows: cells of each line, as many as the header has.
    markdown: writes a Markdown table.
    right: indices of the columns that a terminal shows aligned to the right.
    left: names of the columns that Markdown aligns to the left.
  """
  lines = [list(map(str, row)) for row in (header, *rows)]
  if markdown:
    # Unpadded: tables in the docs are compared byte by byte, and one longer
    # cell would change every line of a padded one.
    rule = [":--" if name in left else "--:" for name in header]
    text_lines = [f"**{title}**", ""] if title else []
    for line in (lines[0], rule, *lines[1:]):
      text_lines.append("| " + " | ".join(line) + " |")
    return "\n".join([*text_lines, ""])
  widths = [
    max(map(cells.cell_len, column)) for column in zip(*lines, strict=True)
  ]
  text_lines = [_align(line, widths, right) for line in lines]
  if title:
    rule = "-" * (sum(widths) + len(_COLUMN_GAP) * (len(widths) - 1))
    first, *others = text_lines
    text_lines = [title, rule, first, rule, *others, rule]
  return "\n".join([*text_lines, ""])


def format_delimited(
  header: Sequence[str],
  rows: Iterable[Sequence[Any]],
  delimiter: str = "\t",
  quoted: bool = True,
) -> str:
  """Returns a TSV or CSV table.

  Args:
    header: names of the columns.
    rows: cells of each line; None is an empty cell.
    delimiter: between cells: tab or comma.
    quoted: whether cells are quoted that hold a delimiter, a quote or a line
      end. If False, a cell may hold quotes but neither of the others.
  """
  text = io.StringIO()
  writer = csv.writer(
    text,
    delimiter=delimiter,
    lineterminator="\n",
    quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
    quotechar='"' if quoted else None,
  )
  writer.writerow(header)
  writer.writerows(rows)
  return text.getvalue()


def _align(
  line: Sequence[str], widths: Sequence[int], right: Collection[int]
) -> str:
  """Returns a line with its cells padded, without trailing spaces."""
  padded = []
  for index, (cell, width) in enumerate(zip(line, widths, strict=True)):
    # Han characters are two columns wide.
    padding = " " * (width - cells.cell_len(cell))
    padded.append(padding + cell if index in right else cell + padding)
  return _COLUMN_GAP.join(padded).rstrip()
