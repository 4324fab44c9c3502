"""Works as they are read: entries in order, notes apart, places, counts."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

TEXT = "text"
HEADING = "heading"
APPARATUS = "apparatus"
ENTRY_KINDS = (TEXT, HEADING, APPARATUS)

# How a character that has no code is written, one for each.
MISSING_CHARACTER = "□"


class TextError(ValueError):
  """A file that cannot be read; the message names file, line and remedy."""


class Place(NamedTuple):
  """Where something is printed.

  Attributes:
    file: name of the file below the path that was read.
    line: line of the file, from 1.
    page: page as the edition names it, `010-3b`; "" where it names none.
  """

  file: str
  line: int
  page: str = ""

  def __str__(self):
    page = f" (p. {self.page})" if self.page else ""
    return f"{self.file}:{self.line}{page}"


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
  """What stands beside the text: small type, footnotes, other readings.

  Attributes:
    position: how many characters of the entry's text come before it.
    text: the note without its marks.
    place: where it begins.
    kind: `note`, `reading` (what a witness or the print has instead) or
      `running head`.
  """

  position: int
  text: str
  place: Place
  kind: str = "note"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
  """A paragraph, an item or a heading.

  Attributes:
    text: without markup, notes, indents and line ends.
    place: where it begins.
    kind: `text`; `heading`; or `apparatus`, what the edition adds: its series,
      names of authors, links, the editors' collation.
    headings: the headings above it, the highest first.
    notes: in order of position.
    label: the number or mark that the edition prints before it, `A3.1.1`.
    indent: full-width spaces before its first line; subordinate text of a
      printed edition has more than what it belongs to.
    line_starts: (position in `text`, place) of every line, in order.
    commented: of an entry of `Work.commentary`, which entry of the work it
      comments on and the position there; None otherwise.
  """

  text: str
  place: Place
  kind: str = TEXT
  headings: tuple[str, ...] = ()
  notes: tuple[Note, ...] = ()
  label: str = ""
  indent: int = 0
  line_starts: tuple[tuple[int, Place], ...] = ()
  commented: tuple[int, int] | None = None

  @property
  def is_heading(self) -> bool:
    """Whether it heads other entries."""
    return self.kind == HEADING

  def place_at(self, position: int) -> Place:
    """Returns where the character at `position` of the text is printed.

    Raises:
      IndexError: if the text has no such position; its end counts as one.
    """
    if not 0 <= position <= len(self.text):
      raise IndexError(
        f"position {position}: {self.place} has {len(self.text)} characters"
      )
    index = bisect.bisect_right(
      self.line_starts, position, key=lambda line_start: line_start[0]
    )
    return self.line_starts[index - 1][1] if index else self.place


@dataclasses.dataclass(frozen=True)
class Work:
  """A text as one edition has it.

  Attributes:
    identifier: `KR2b0019`, the `idno` of a TEI file, or the name of the file
      or folder.
    title: as the edition gives it, else the identifier.
    text_format: `mandoku`, `tei`, `markdown` or `plain`.
    properties: what the heads of its files say alike, by key in capitals.
    entries: in the order of print.
    counts: how much was taken out or changed, by kind.
  """

  identifier: str
  title: str
  text_format: str
  properties: Mapping[str, str]
  entries: tuple[Entry, ...]
  counts: Mapping[str, int]

  @property
  def records(self) -> tuple[Entry, ...]:
    """The entries that are text of the work."""
    return tuple(entry for entry in self.entries if entry.kind == TEXT)

  def commentary(self) -> Work:
    """Returns the notes as a work of their own, an entry a note.

    Its entries say by `commented` where in this work they belong. Other
    readings, running heads and notes on apparatus are no commentary.
    """
    notes = tuple(
      Entry(
        note.text,
        note.place,
        headings=entry.headings,
        line_starts=((0, note.place),),
        commented=(index, note.position),
      )
      for index, entry in enumerate(self.entries)
      if entry.kind != APPARATUS
      for note in entry.notes
      if note.kind == "note" and note.text
    )
    return Work(
      f"{self.identifier}-notes",
      f"{self.title} (notes)",
      self.text_format,
      self.properties,
      notes,
      {},
    )
