"""Markdown: headings, paragraphs, lists, tables, footnotes."""

import re
from collections.abc import Sequence

from ctd_jax.texts.works import (
  HEADING,
  TEXT,
  EntryAssembly,
  EntryList,
  Place,
  SourceFile,
  mark_unencoded,
  normalize_space,
)

_ATX_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*\Z")
_SETEXT_LINE = re.compile(r" {0,3}(=+|-+)\s*\Z")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})\Z")
_LIST_ITEM = re.compile(r"\s*(?:([-*+])|(\d{1,4})[.)])\s+")
_QUOTE = re.compile(r"\s*(?:>\s?)+")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_TABLE_ROW = re.compile(r"\s*\|.*\|\s*\Z")
_TABLE_RULE = re.compile(r"\s*\|[\s:|-]+\|\s*\Z")
_FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\]:\s*(.*)")
_FOOTNOTE_MARK = re.compile(r"\[\^([^\]\s]+)\]")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_INLINE = re.compile(
  r"!?\[(?P<label>[^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)"
  r"|(?P<code>`+)(?P<literal>.+?)(?P=code)"
  r"|(?P<emphasis>\*{1,3}|_{1,3}(?!\w)|(?<!\w)_{1,3}|~~)"
  r"|</?[A-Za-z][^<>]*>|\\(?P<escaped>[\\`*_{}\[\]()#+\-.!|>~])"
)
_FRONT_MATTER = re.compile(r"---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_FRONT_PAIR = re.compile(r"(\w[\w-]*):\s*(.+?)\s*\Z")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def is_markdown(text: str) -> bool:
  """Whether a text has Markdown's headings."""
  return (
    re.search(r"^#{1,6} \S", text[:200_000], re.MULTILINE) is not None
    or re.search(r"\S\n(?:={3,}|-{3,})\s*\n", text[:200_000]) is not None
  )


def read_front_matter(text: str) -> dict[str, str]:
  """Returns the `key: value` lines between `---` at the start."""
  match = _FRONT_MATTER.match(text)
  if match is None:
    return {}
  pairs = (_FRONT_PAIR.match(line) for line in match[1].split("\n"))
  return {
    pair[1].upper(): pair[2].strip("\"'") for pair in pairs if pair is not None
  }


def read_markdown(files: Sequence[SourceFile]) -> EntryList:
  """Returns the entries of one work: paragraphs, list items, table rows.

  A footnote is a note at its mark; one without a mark is at the end of
  the entry before it.
  """
  entry_list = EntryList()
  for file in files:
    entry_list.close_headings()
    _MarkdownFile(file, entry_list).read()
  return entry_list


class _MarkdownFile:
  """One file, read line by line."""

  def __init__(self, file: SourceFile, entry_list: EntryList):
    self._file_name = file.name
    self._entry_list = entry_list
    self._counts = entry_list.counts
    # Comments and front matter leave their line ends, so that numbers hold.
    text = _COMMENT.sub(self._drop_comment, file.text)
    text = _FRONT_MATTER.sub(self._drop_comment, text, count=1)
    self._lines = text.split("\n")
    self._footnotes: dict[str, tuple[str, Place]] = {}
    self._block: list[tuple[int, str]] = []
    self._label = ""

  def _drop_comment(self, match: re.Match[str]) -> str:
    self._counts["comments"] += 1
    self._counts["Han characters in head and comment lines"] += len(
      _HAN.findall(match[0])
    )
    return "\n" * match[0].count("\n")

  def read(self) -> None:
    """Adds the entries of the file."""
    self._collect_footnotes()
    is_fenced = False
    for number, line in enumerate(self._lines, start=1):
      if _FENCE.match(line):
        self._close_block()
        is_fenced = not is_fenced
        self._counts["markup"] += 1
      elif is_fenced:
        self._block.append((number, line))
      else:
        self._read_line(number, line)
    self._close_block()
    for text, place in self._footnotes.values():
      assembly = EntryAssembly()
      assembly.add_note(normalize_space(self._strip_inline(text)), place)
      self._entry_list.add(assembly)

  def _collect_footnotes(self) -> None:
    name = ""
    for index, line in enumerate(self._lines):
      match = _FOOTNOTE.match(line)
      if match is not None:
        name = match[1]
        place = Place(self._file_name, index + 1)
        self._footnotes[name] = (match[2].strip(), place)
        self._counts["notes"] += 1
      elif name and line.startswith(("    ", "\t")) and line.strip():
        text, place = self._footnotes[name]
        self._footnotes[name] = (f"{text} {line.strip()}".strip(), place)
      else:
        name = ""
        continue
      self._lines[index] = ""

  def _read_line(self, number: int, line: str) -> None:
    if not line.strip():
      self._close_block()
      return
    heading = _ATX_HEADING.match(line)
    if heading is not None:
      self._close_block()
      self._counts["markup"] += 1
      self._add([(number, heading[2])], HEADING, len(heading[1]))
      return
    setext = _SETEXT_LINE.match(line)
    if setext is not None and len(self._block) == 1 and not self._label:
      self._counts["markup"] += 1
      block, self._block = self._block, []
      self._add(block, HEADING, 1 if "=" in setext[1] else 2)
      return
    if _RULE.match(line) or _TABLE_RULE.match(line):
      self._close_block()
      self._counts["markup"] += 1
      return
    if _TABLE_ROW.match(line):
      self._close_block()
      self._counts["markup"] += line.count("|")
      cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
      self._block = [(number, "　".join(cells))]
      self._close_block()
      return
    quote = _QUOTE.match(line)
    if quote is not None:
      self._counts["markup"] += 1
      line = line[quote.end() :]
    item = _LIST_ITEM.match(line)
    if item is not None:
      self._close_block()
      self._counts["markup"] += 1
      self._label = item[2] or item[1]
      line = line[item.end() :]
    self._block.append((number, line))

  def _close_block(self) -> None:
    block, self._block = self._block, []
    if block:
      self._add(block, TEXT, 0, self._label)
    self._label = ""

  def _add(
    self, block: list[tuple[int, str]], kind: str, level: int, label: str = ""
  ) -> None:
    assembly = EntryAssembly()
    for index, (number, line) in enumerate(block):
      place = Place(self._file_name, number)
      assembly.start_line(place)
      self._add_line(f" {line}" if index else line, place, assembly)
    self._entry_list.add(assembly, kind, label=label, level=level)

  def _add_line(self, line: str, place: Place, assembly: EntryAssembly) -> None:
    position = 0
    for match in _FOOTNOTE_MARK.finditer(line):
      assembly.add_spaced(self._strip_inline(line[position : match.start()]))
      position = match.end()
      footnote = self._footnotes.pop(match[1], None)
      if footnote is None:
        self._counts["footnote marks"] += 1
      else:
        note = normalize_space(self._strip_inline(footnote[0]))
        assembly.add_note(note, footnote[1])
    assembly.add_spaced(self._strip_inline(line[position:]))

  def _strip_inline(self, text: str) -> str:
    def replace(match: re.Match[str]) -> str:
      self._counts["markup"] += 1
      if match["escaped"]:
        return match["escaped"]
      return match["label"] or match["literal"] or ""

    text, num_unencoded = mark_unencoded(_INLINE.sub(replace, text))
    self._counts["characters without a code"] += num_unencoded
    return text
