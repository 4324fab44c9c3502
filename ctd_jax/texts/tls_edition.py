"""TLS editions: a clause a line, `**` headings, item numbers."""

from __future__ import annotations

import collections
import re

from ctd_jax.texts.assembly import EntryAssembly, EntryList
from ctd_jax.texts.mandoku_marks import (
  NOTE,
  PAGE_BREAK,
  count_head_line,
  name_page,
  strip_marks,
)
from ctd_jax.texts.source_files import SourceFile
from ctd_jax.texts.works import HEADING, Place

_HEADING = re.compile(r"(\*+)\s+(?:([\d.]+)\s+)?(.*)")
_TITLE = re.compile(r"(?:\d+ )?(?:([A-Z]?\d+(?:\.\d+)*)\s*)?《([^《》]+)》\Z")
_ITEM = re.compile(r"([A-Z]?\d+(?:\.\d+){2,})\s*")
_STRAY_NUMBER = re.compile(r"(\d+) +")
_MIN_ITEMS = 3
_WITHIN_SENTENCE = "，、：；"


def read_tls(file: SourceFile, entry_list: EntryList) -> None:
  """Adds the entries of a juan with a clause a line.

  Where items are numbered, an item is an entry; else what stands between empty
  lines or comments.
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

  def is_open() -> bool:
    # An editor's comment can stand within a sentence.
    return is_numbered or assembly.last_character in _WITHIN_SENTENCE

  for number, line in enumerate(lines, start=1):
    if line.startswith("#"):
      count_head_line(line, counts)
      if not is_open():
        assembly, label = close_entry(), ""
      continue
    if not line.strip():
      if not is_open():
        assembly, label = close_entry(), ""
      continue
    # Parts of the line between page breaks, each with its page.
    parts = PAGE_BREAK.split(line)
    is_first = True
    for index, part in enumerate(parts):
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
  if match is not None:
    label = match[1] or ""
    return 10 + label.count("."), label, match[2]
  return None


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
