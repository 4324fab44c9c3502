"""Kanripo's mandoku files: marks, printed lines, paragraphs, entries.

Two families write the same marks. Printed editions (WYG, SBCK) keep the lines
of the block print: the end of a line is no end of a sentence, and what is a
heading, a paragraph or subordinate text shows only by indents and by lines that
are not full. TLS editions have a clause a line, `**` headings and item numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ctd_jax.texts.assembly import EntryList
from ctd_jax.texts.mandoku_marks import PAGE_BREAK
from ctd_jax.texts.printed_edition import PrintedEdition
from ctd_jax.texts.printed_lines import Line, read_printed_lines
from ctd_jax.texts.source_files import SourceFile
from ctd_jax.texts.tls_edition import read_tls

_MODE_LINE = re.compile(r"#\s*-\*-.*mandoku", re.IGNORECASE)
# Juan 0 is what stands before the text: contents, prefaces, a notice.
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
  """Returns what the `#+` heads say: values that all files have in common.

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
      # Heads stand before the text; only collations have one further down.
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
    if _is_tls(file.text):
      read_tls(file, entry_list)
    else:
      lines = read_printed_lines(file, entry_list.counts)
      if len(files) > 1 and _FRONT_MATTER.search(file.name):
        entry_list.counts["lines of front matter"] += len(lines)
        lines = [line._replace(is_apparatus=True) for line in lines]
      printed.append(lines)
  if printed:
    PrintedEdition(printed, _title_of(files), entry_list).read()
  return entry_list


def _title_of(files: Sequence[SourceFile]) -> str:
  return read_properties(files[:1]).get("TITLE", "")


def _is_tls(text: str) -> bool:
  return bool(
    re.search(r"^\*+ ", text, re.MULTILINE)
    or dict(_iterate_properties(text)).get("BASEEDITION", "").lower() == "tls"
  )
