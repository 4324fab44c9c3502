"""Tables as text: columns aligned for a terminal, and Markdown.

Widths count the columns of a terminal, where a Han character takes two. (The
library `tabulate` pads every cell of a Markdown table and every header by two
columns; tables that are compared byte by byte cannot use it.)
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

_COLUMN_GAP = "  "
# Headers of columns of words, which Markdown tables align to the left; columns
# of figures stand to the right.
WORD_COLUMNS = (
  "system",
  "score",
  "source",
  "questions",
  "task",
  "measure",
  "games",
)


def measure_display_width(text: str) -> int:
  """Returns the columns of a terminal that `text` takes."""
  return sum(
    0
    if unicodedata.combining(character)
    # W and F are wide: Han, kana, full-width forms. Ambiguous ones (A) are
    # narrow outside East Asian locales.
    else 1 + (unicodedata.east_asian_width(character) in "WF")
    for character in text
  )


def align_columns(
  rows: Sequence[Sequence[str]], right_columns: Collection[int] = ()
) -> list[str]:
  """Returns one line per row, columns aligned, without trailing spaces.

  Args:
    rows: cells of each line, the header among them; all of one length.
    right_columns: indices of the columns aligned to the right.
  """
  widths = _measure_columns(rows)
  lines = []
  for row in rows:
    cells = []
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
      padding = " " * (width - measure_display_width(cell))
      cells.append(padding + cell if index in right_columns else cell + padding)
    lines.append(_COLUMN_GAP.join(cells).rstrip())
  return lines


def format_aligned_table(
  title: str, header: Sequence[str], body: Sequence[Sequence[str]]
) -> str:
  """Returns a table for a terminal: title, rules, columns to the left."""
  rows = [header, *body]
  widths = _measure_columns(rows)
  rule = "-" * (sum(widths) + len(_COLUMN_GAP) * (len(widths) - 1))
  header_line, *lines = align_columns(rows)
  return "\n".join([title, rule, header_line, rule, *lines, rule, ""])


def format_markdown_table(
  title: str, header: Sequence[str], body: Sequence[Sequence[str]]
) -> str:
  """Returns a Markdown table under its title in bold."""
  rule = [":--" if name in WORD_COLUMNS else "--:" for name in header]
  lines = ["| " + " | ".join(row) + " |" for row in (header, rule, *body)]
  return "\n".join([f"**{title}**", "", *lines, ""])


def _measure_columns(rows: Sequence[Sequence[str]]) -> list[int]:
  return [
    max(map(measure_display_width, column))
    for column in zip(*rows, strict=True)
  ]
