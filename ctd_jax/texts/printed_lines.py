"""Lines of a printed edition: places, indents, widths in the column."""

from __future__ import annotations

import collections
import itertools
import re
from typing import NamedTuple

from ctd_jax.texts.mandoku_marks import (
  NOTE,
  PAGE_BREAK,
  count_head_line,
  name_page,
  strip_marks,
)
from ctd_jax.texts.printed_patterns import COLLATION_TITLE
from ctd_jax.texts.source_files import SourceFile
from ctd_jax.texts.works import Place

_WIDE_QUANTILE = 0.97
_MIN_LINES_OF_QUANTILE = 1000
_WIDE_SHARE = 0.65
_MIN_PAGE_LENGTH = 60
_MIN_LINES = 20  # below, the widest line is a full one


class Line(NamedTuple):
  """A printed line without its marks; `body` is "" where nothing is printed.

  `width` counts the characters that stand in the column, two of a note for
  one, the indent included; `is_apparatus` says that the line is the editors'
  collation or on a page that the transcript has twice.
  """

  place: Place
  indent: int
  body: str
  width: int
  is_apparatus: bool


def read_printed_lines(
  file: SourceFile, counts: collections.Counter[str]
) -> list[Line]:
  """Returns the printed lines of a juan."""
  lines = []
  page = ""
  is_collation = is_page_top = False
  for number, raw_line in enumerate(file.text.split("\n"), start=1):
    if raw_line.startswith("#"):
      count_head_line(raw_line, counts)
      if raw_line.startswith("#+PROPERTY: JUAN"):
        is_collation = raw_line.rstrip().endswith("考證")
      continue
    place = Place(file.name, number, page)
    line = raw_line
    if "<pb:" in line:
      breaks = list(PAGE_BREAK.finditer(line))
      counts["page breaks"] += len(breaks)
      page = name_page(breaks[-1][1])
      line = PAGE_BREAK.sub("", line)
      if raw_line.startswith("<pb:"):
        place = Place(file.name, number, page)
      if not line.strip("¶ \t\r"):
        counts["line ends"] += line.count("¶")
        is_page_top = True
        continue  # the mark of a page is no empty line
    line = strip_marks(line, counts).rstrip()
    if is_page_top and not line:
      continue  # nor is what some transcripts leave below it
    is_page_top = False
    body = line.lstrip("　")
    indent = len(line) - len(body)
    body = body.strip(" \t")
    width = indent + len(body)
    if "(" in body:
      width = indent + len(NOTE.sub(_measure_note, body))
    lines.append(Line(place, indent, body, width, is_collation))
    if (
      indent and body.endswith(("考證", "考証")) and COLLATION_TITLE.match(body)
    ):
      is_collation = True
  return _mark_repeated_pages(lines, counts)


def _mark_repeated_pages(
  lines: list[Line], counts: collections.Counter[str]
) -> list[Line]:
  """Returns the lines, those of pages that came before marked as apparatus.

  Some transcripts have a page twice, in place of another: read as text, its
  dates would run back.
  """
  earlier_pages: set[str] = set()
  marked: list[Line] = []
  for _, group in itertools.groupby(lines, key=lambda line: line.place.page):
    page = list(group)
    text = "".join(line.body for line in page)
    if len(text) >= _MIN_PAGE_LENGTH and text in earlier_pages:
      counts["pages printed twice"] += 1
      page = [line._replace(is_apparatus=True) for line in page]
    earlier_pages.add(text)
    marked += page
  return marked


def _measure_note(match: re.Match[str]) -> str:
  """Returns as many characters as the note is long in the column."""
  note = match[1]
  if "/" in note:
    return "x" * max(map(len, note.split("/")))
  return "x" * ((len(note) + 1) // 2)


def find_full_width(lines: list[Line]) -> int:
  """Returns how many characters a full line has.

  The commonest width among the wide ones: tables of contents and annals of a
  few words have more short lines than full ones, and slips of a transcript make
  some lines too wide.
  """
  widths = sorted(line.width for line in lines)
  if not widths:
    return 0
  if len(widths) < _MIN_LINES:
    return widths[-1]
  # One line in thousands can be anything.
  is_long = len(widths) >= _MIN_LINES_OF_QUANTILE
  wide = widths[int(_WIDE_QUANTILE * len(widths)) if is_long else -1]
  wide *= _WIDE_SHARE
  counts = collections.Counter(width for width in widths if width >= wide)
  return max(counts, key=lambda width: (counts[width], width))
