"""Entries of the annals and the three traditions, read from public editions.

Kanripo's files have mark-up, printed lines and small type; Wikisource has one
entry a line. An entry is a numbered item or a line, with what the edition says
of its reign and year.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

from ctd_jax_datasets.common.source_files import SourceError

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
    text: the whole file; headers start with `#`, page breaks are `<pb:...>`,
      printed lines end with `¶`.

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


ANNALS = "chunqiu"
ZUOZHUAN = "zuozhuan"
GONGYANG = "gongyang"
GULIANG = "guliang"
BASE_SOURCES = (ANNALS, ZUOZHUAN, GONGYANG, GULIANG)
# 《春秋》 of a question is the Annals with their traditions.
TITLES = {
  ANNALS: "春秋經",
  ZUOZHUAN: "左傳",
  GONGYANG: "公羊傳",
  GULIANG: "穀梁傳",
}


# A1.2.3 (annals) and B1.2.3 (tradition) of KR1e0001; 1.2.3 of KR1e0008.
_NUMBERED = re.compile(r"「?([AB]?)(\d{1,3})\.(\d{1,3})\.(\d+)\.?")
_YEAR_HEADING = re.compile(r"〔?([AB]?)(\d+)\.(\d+)《.*》")
_UNDATED = re.compile(r"[AB]\d+[^.\d]")
_NAVIGATION = "回目錄"  # link to the table of contents
_DASH = re.compile("[-－]{2,}")
# Editors' corrections, labels and marks, and wiki marks left in the text. Words
# in brackets are restored and stay; a lone sign there is the reading replaced.
_STRAY = re.compile(
  r"\(corr\.=.|（[經傳][^）]*）|（[^一-鿿）]*）|[A-Za-z0-9=]+|〓#|[-－〔〕（）]"
)


@dataclasses.dataclass(frozen=True)
class Entry:
  """One entry of an edition: a numbered item or a line."""

  source: str  # one of `BASE_SOURCES`
  reign: int  # of the duke, 1 = 隱公
  # Regnal year by the edition's numbering; None if only the text gives it.
  year: int | None
  text: str  # punctuated, without line ends and mark-up
  location: str  # `file:line` of its first line, for messages


def parse_numbered_entries(
  path: pathlib.Path, source_by_layer: dict[str, str]
) -> tuple[list[Entry], int]:
  """Returns the entries of a Kanripo TLS file and the number without a year.

  Args:
    path: one file of KR1e0001 or KR1e0008, one duke.
    source_by_layer: source of each layer letter, {"A": ..., "B": ...} or {"":
      ...}.

  Returns:
    (entries in order, number of undated items left out). 隱公's prelude is the
    only undated item of these editions.

  Raises:
    SourceError: if the file holds no numbered item, or one of a reign or a year
      0.
  """
  entries: list[Entry] = []
  num_undated = 0
  current: Entry | None = None
  text_lines: list[str] = []

  def close_entry():
    if current is not None:
      entries.append(dataclasses.replace(current, text=_clean_text(text_lines)))

  for number, line in parse_kanripo_lines(read_text(path)):
    item = _NUMBERED.match(line)
    if item and item[1] in source_by_layer:
      close_entry()
      if not int(item[2]) or not int(item[3]):
        raise SourceError(
          f"{path}, line {number}: item {item[0]} has a number 0; reigns "
          "and years count from 1"
        )
      current = Entry(
        source=source_by_layer[item[1]],
        reign=int(item[2]),
        year=int(item[3]),
        text="",
        location=f"{path.name}:{number}",
      )
      text_lines = [line[item.end() :]]
    elif _YEAR_HEADING.match(line) or line.startswith("**"):
      close_entry()
      current, text_lines = None, []
    elif _UNDATED.match(line):
      # An item without year and month: counted, but a heading is not.
      close_entry()
      current, text_lines = None, []
      num_undated += line[0] == "B" and "《" not in line[:3]
    else:
      text_lines.append(line)
  close_entry()
  entries = [entry for entry in entries if entry.text]
  if not entries:
    raise SourceError(
      f"{path}: no numbered item such as A1.1.1 or 1.1.1 with a text; expected "
      "a Kanripo TLS text"
    )
  return entries, num_undated


def parse_line_entries(path: pathlib.Path, source: str) -> list[Entry]:
  """Returns the entries of a Wikisource file: one line, one entry.

  A new year shows only in the text (`N年` at the start of a line), so `year`
  is None. The first and last lines are navigation.

  Args:
    path: file named `NN_duke.txt`; NN is the reign.

  Raises:
    SourceError: if the file's name or content has another form.
  """
  reign_number = re.match(r"(\d\d)_", path.name)
  if reign_number is None:
    raise SourceError(f"{path}: the name must start with the reign, as 01_")
  entries = []
  for line_number, line in enumerate(read_text(path).split("\n"), start=1):
    line = _clean_text([mark_unencoded(_SPACE.sub("", line))])
    if not line or _NAVIGATION in line:
      continue
    entries.append(
      Entry(
        source=source,
        reign=int(reign_number[1]),
        year=None,
        text=line,
        location=f"{path.name}:{line_number}",
      )
    )
  if not entries:
    raise SourceError(f"{path}: no entry; expected one event a line")
  return entries


def _clean_text(text_lines: list[str]) -> str:
  """Returns an entry's text without corrections, labels and marks."""
  return _STRAY.sub("", _DASH.sub("——", "".join(text_lines)))
