"""Juan of Kanripo's Siku editions as running text and as printed lines.

Why: whether a line is a title, body or small type shows in its indentation and
brackets, and nowhere else. Called by the readers of commentary.
"""

from __future__ import annotations

import pathlib
import re

from ctd_jax_datasets.chunqiutr import sources

_CORRIGENDA = re.compile(r"^#\+PROPERTY: JUAN .*考證", re.MULTILINE)
_PAGE_BREAK = re.compile(r"<pb:[^>]*>")
_UNENCODED = re.compile(r"&KR\d+;")


def read_running_text(path: pathlib.Path) -> str:
  """Returns a juan as one string, small type joined inside `(...)`.

  The Siku editors' 考證 at the end of the juan is cut.
  """
  text = sources.read_text(path)
  corrigenda = _CORRIGENDA.search(text)
  if corrigenda:
    text = text[: corrigenda.start()]
  lines = [line for _, line in sources.parse_kanripo_lines(text)]
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
  for line in sources.read_text(path).split("\n"):
    if line.startswith("#"):
      continue
    line = _UNENCODED.sub("□", _PAGE_BREAK.sub("", line)).replace("¶", "")
    depth = len(line) - len(line.lstrip("　"))
    if line:
      lines.append((depth, line.replace("　", "").strip()))
  return lines
