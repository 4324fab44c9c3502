"""Kanripo's mandoku files: marks, printed lines, paragraphs, entries.

Two families write the same marks. Printed editions (WYG, SBCK) keep the lines
of the block print: the end of a line is not the end of a sentence, and what is
a heading, a paragraph or subordinate text shows only by indents and by lines
that are not full. TLS editions have one clause per line, `**` headings and item
numbers.
"""

import collections
import re
from collections.abc import Iterator, Sequence

from ctd_jax.texts.printed_edition import (
  NOTE,
  PAGE_BREAK,
  Line,
  PrintedEdition,
  count_head_line,
  name_page,
  read_printed_lines,
  strip_marks,
)
from ctd_jax.texts.works import (
  HEADING,
  EntryAssembly,
  EntryList,
  Place,
  SourceFile,
)

# TLS editions.


_HEADING = re.compile(r"(\*+)\s+(?:([\d.]+)\s+)?(.*)")
_TITLE = re.compile(r"(?:\d+ )?(?:([A-Z]?\d+(?:\.\d+)*)\s*)?《([^《》]+)》\Z")
_ITEM = re.compile(r"([A-Z]?\d+(?:\.\d+){2,})\s*")
_STRAY_NUMBER = re.compile(r"(\d+) +")
_MIN_ITEMS = 3
_WITHIN_SENTENCE = "，、：；"


def read_tls(file: SourceFile, entry_list: EntryList) -> None:
  """Adds the entries of a juan that has one clause per line.

  If items are numbered, each is an entry; otherwise the text between empty
  lines or comments is.
  """
  counts = entry_list.counts
  entry_list.close_headings()
  lines = file.text.split("\n")
  is_numbered = (
    sum(_ITEM.match(PAGE_BREAK.sub("", line)) is not None for line in lines)
    >= _MIN_ITEMS
  )
  assembly, label, page = EntryAssembly(), "", ""

  def close_entry() -> EntryAssembly:
    entry_list.add(assembly, label=label)
    return EntryAssembly()

  for number, line in enumerate(lines, start=1):
    is_head = line.startswith("#")
    if is_head:
      count_head_line(line, counts)
    if is_head or not line.strip():
      # An editor's comment can be within a sentence.
      is_open = is_numbered or assembly.last_character in _WITHIN_SENTENCE
      if not is_open:
        assembly, label = close_entry(), ""
      continue
    # Parts of the line between page breaks, each with its page.
    is_first = True
    for index, part in enumerate(PAGE_BREAK.split(line)):
      if index % 2:
        page = name_page(part)
        counts["page breaks"] += 1
        continue
      part = strip_marks(part, counts).strip(" \t\r　")
      if not part:
        continue
      place = Place(file.name, number, page)
      if is_first:
        heading = _match_heading(part)
        if heading is not None:
          assembly, label = close_entry(), ""
          level, heading_label, text = heading
          assembly.start_line(place)
          assembly.add_spaced(text)
          entry_list.add(assembly, HEADING, label=heading_label, level=level)
          assembly = EntryAssembly()
          counts["item numbers"] += bool(heading_label)
          is_first = False
          continue
        item = _ITEM.match(part) or _STRAY_NUMBER.match(part)
        if item is not None:
          counts["item numbers"] += 1
          if "." in item[1]:
            assembly, label = close_entry(), item[1]
          part = part[item.end() :]
      is_first = False
      assembly.start_line(place)
      _add_part(part, place, assembly, counts)
  close_entry()


def _match_heading(part: str) -> tuple[int, str, str] | None:
  """Returns (level, label, text) of a heading line."""
  match = _HEADING.match(part)
  if match is not None:
    return len(match[1]), match[2] or "", match[3]
  match = _TITLE.match(part)
  if match is None:
    return None
  label = match[1] or ""
  return 10 + label.count("."), label, match[2]


def _add_part(
  part: str,
  place: Place,
  assembly: EntryAssembly,
  counts: collections.Counter[str],
) -> None:
  position = 0
  for match in NOTE.finditer(part):
    assembly.add_spaced(part[position : match.start()])
    counts["notes"] += 1
    assembly.add_note(match[1], place)
    position = match.end()
  rest = part[position:]
  counts["brackets without a pair"] += rest.count("(") + rest.count(")")
  assembly.add_spaced(rest.replace("(", "").replace(")", ""))


_MODE_LINE = re.compile(r"#\s*-\*-.*mandoku", re.IGNORECASE)
# Juan 0 is what comes before the text: contents, prefaces, a notice.
_FRONT_MATTER = re.compile(r"_000\.txt\Z")
_PROPERTY = re.compile(r"#\+(\w+):\s*(.*?)\s*$")


def is_mandoku(text: str) -> bool:
  """Whether the first lines of a file have mandoku's marks."""
  head = text[:4000]
  return bool(
    _MODE_LINE.match(head)
    or PAGE_BREAK.search(head)
    or re.search(r"^#\+(?:TITLE|PROPERTY):", head, re.MULTILINE)
  )


def read_properties(files: Sequence[SourceFile]) -> dict[str, str]:
  """Returns the values of the `#+` headers that all files share.

  Of `#+PROPERTY: ID KR2b0019` the key is `ID`.
  """
  values: dict[str, list[str]] = {}
  for file in files:
    for key, value in _iterate_properties(file.text):
      if value not in values.setdefault(key, []):
        values[key].append(value)
  return {
    key: alternatives[0]
    for key, alternatives in values.items()
    if len(alternatives) == 1 and alternatives[0]
  }


def read_identifier(text: str) -> str:
  """Returns the identifier that the head of a file gives, or ""."""
  return dict(_iterate_properties(text[:4000])).get("ID", "")


def _iterate_properties(text: str) -> Iterator[tuple[str, str]]:
  for line in text.split("\n"):
    if not line.startswith("#"):
      # Heads come before the text; only collations have one further down.
      if line.strip():
        return
      continue
    match = _PROPERTY.match(line)
    if match is None:
      continue
    key, value = match[1].upper(), match[2]
    if key == "PROPERTY":
      key, _, value = value.partition(" ")
      key, value = key.upper(), value.strip()
    yield key, value


def read_mandoku(files: Sequence[SourceFile]) -> EntryList:
  """Returns the entries of one work.

  Args:
    files: its juan, in order.
  """
  entry_list = EntryList()
  printed: list[list[Line]] = []
  for file in files:
    properties = dict(_iterate_properties(file.text))
    if properties.get("BASEEDITION", "").lower() == "tls" or re.search(
      r"^\*+ ", file.text, re.MULTILINE
    ):
      read_tls(file, entry_list)
    else:
      lines = read_printed_lines(file, entry_list.counts)
      if len(files) > 1 and _FRONT_MATTER.search(file.name):
        entry_list.counts["lines of front matter"] += len(lines)
        lines = [line._replace(is_apparatus=True) for line in lines]
      printed.append(lines)
  if printed:
    title = read_properties(files[:1]).get("TITLE", "")
    PrintedEdition(printed, title, entry_list).read()
  return entry_list
