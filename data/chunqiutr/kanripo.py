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
# A character without a code: its number at Kanripo, its parts as in [車*犬], or
# a private code that means something else in every font.
_UNENCODED = re.compile(
  r"&KR\d+;|\[[^\[\]\n]*[*+@-][^\[\]\n]*\]"
  r"|[\ue000-\uf8ff\U000f0000-\U0010fffd]"
)
_MISSING_CHARACTER = "□"


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
    line = mark_unencoded(_PAGE_BREAK.sub("", line)).replace("¶", "")
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


def mark_unencoded(text: str) -> str:
  """Returns the text with one □ for each character that has no code."""
  return _UNENCODED.sub(_MISSING_CHARACTER, text)


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
    line = mark_unencoded(line)
    if line:
      lines.append((number, line))
  return lines
