"""Kanripo's files: lines without mark-up, running text, printed lines.

Indentation and brackets are all that distinguishes title, body and small type
in the Siku editions, so the printed lines keep them.
"""

from __future__ import annotations

import pathlib
import re

from ctd_jax_datasets.common.errors import SourceError

_CORRIGENDA = re.compile(r"^#\+PROPERTY: JUAN .*考證", re.MULTILINE)
_PAGE_BREAK = re.compile(r"<pb:[^<>]*>")
_SPACE = re.compile(r"[\s　¶]+")
_UNENCODED = re.compile(r"&KR\d+;")


def read_running_text(path: pathlib.Path) -> str:
  """Returns a juan as one string, small type joined inside `(...)`.

  The Siku editors' 考證 at the end of the juan is cut.
  """
  text = read_text(path)
  corrigenda = _CORRIGENDA.search(text)
  if corrigenda:
    text = text[: corrigenda.start()]
  lines = [line for _, line in parse_kanripo_lines(text)]
  # A note that runs over printed lines is bracketed in each of them; "/"
  # divides its two columns.
  return "".join(lines).replace(")(", "").replace("/", "")


def read_printed_lines(path: pathlib.Path) -> list[tuple[int, str]]:
  """Returns (depth, line) of a juan, small type as printed: `(right/left)`.

  Args:
    path: a Kanripo file.

  Returns:
    Depth is the number of full-width spaces before the text. A line of
    nothing but spaces, an empty cell of a table, is kept as (depth, "").
  """
  lines = []
  for line in read_text(path).split("\n"):
    if line.startswith("#"):
      continue
    line = _UNENCODED.sub("□", _PAGE_BREAK.sub("", line)).replace("¶", "")
    # Full-width spaces are the indentation of the print.
    depth = len(line) - len(line.lstrip("　"))
    if line:
      lines.append((depth, line.replace("　", "").strip()))
  return lines


def read_text(path: pathlib.Path) -> str:
  """Returns the file as text.

  Raises:
    SourceError: if it is not UTF-8.
  """
  try:
    return path.read_text(encoding="utf-8")
  except UnicodeDecodeError as error:
    raise SourceError(
      f"{path}: byte {error.start} is not UTF-8; fetch the file again"
    ) from None


def parse_kanripo_lines(text: str) -> list[tuple[int, str]]:
  """Returns (line number, line) of a Kanripo file without its mark-up.

  Args:
    text: the whole file; headers start with `#`, page breaks are
      `<pb:...>`, printed lines end with `¶`.

  Returns:
    Lines that still hold text, numbered from 1; full-width spaces are gone.
  """
  lines = []
  for number, line in enumerate(text.split("\n"), start=1):
    if line.startswith("#"):
      continue
    line = _SPACE.sub("", _PAGE_BREAK.sub("", line))
    line = _UNENCODED.sub("□", line)
    if line:
      lines.append((number, line))
  return lines
