"""Works as read: entries in order, with notes, places and counts."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import re
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
  """Place in print."""

  file: str  # name of the file below the path that was read
  line: int  # line of the file, from 1
  # Page as the edition names it, `010-3b`; "" if it names none.
  page: str = ""

  def __str__(self):
    page = f" (p. {self.page})" if self.page else ""
    return f"{self.file}:{self.line}{page}"


@dataclasses.dataclass(frozen=True, slots=True)
class SideNote:
  """Text beside the main text: small type, footnotes, other readings."""

  position: int  # how many characters of the entry's text come before it
  text: str  # the note without its marks
  place: Place  # where it begins
  # `note`, `reading` (what a witness or the print has instead), `running head`,
  # or `date`, an editor's date of what follows, 0969-05 or "A.D. 969".
  kind: str = "note"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
  """A paragraph, an item or a heading."""

  text: str  # without markup, notes, indents and line ends
  place: Place  # where it begins
  # `text`; `heading`; or `apparatus`, what the edition adds: its series, names
  # of authors, links, the editors' collation.
  kind: str = TEXT
  headings: tuple[str, ...] = ()  # the headings above it, the highest first
  notes: tuple[SideNote, ...] = ()  # in order of position
  # The number or mark that the edition prints before it, `A3.1.1`.
  label: str = ""
  # Full-width spaces before its first line; subordinate text of a printed
  # edition has more than what it belongs to.
  indent: int = 0
  # (position in `text`, place) of every line, in order.
  line_starts: tuple[tuple[int, Place], ...] = ()
  # Of an entry of `Work.commentary`, which entry of the work it comments on and
  # the position there; None otherwise.
  commented: tuple[int, int] | None = None

  @property
  def is_heading(self) -> bool:
    """Whether it heads other entries."""
    return self.kind == HEADING

  def place_at(self, position: int) -> Place:
    """Returns the printed place of the character at `position` of the text.

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
  """A text as one edition has it."""

  # `KR2b0019`, the `idno` of a TEI file, or the name of the file or folder.
  identifier: str
  title: str  # as the edition gives it, else the identifier
  text_format: str  # `mandoku`, `tei`, `markdown` or `plain`
  # What the heads of its files say alike, by key in capitals.
  properties: Mapping[str, str]
  entries: tuple[Entry, ...]  # in the order of print
  counts: Mapping[str, int]  # how much was taken out or changed, by kind
  # How many letters and ideographs of the source are in `text`, `heading`,
  # `apparatus`, `notes`, and in none of them, `dropped`.
  characters: Mapping[str, int] = dataclasses.field(default_factory=dict)

  @property
  def records(self) -> tuple[Entry, ...]:
    """The entries that are text of the work."""
    return tuple(entry for entry in self.entries if entry.kind == TEXT)

  def commentary(self) -> Work:
    """Returns the notes as a work of their own, an entry a note.

    Its entries say by `commented` where in this work they belong. Other
    readings, running heads and notes on apparatus are not commentary.
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


# Files that were decoded, and the characters in them that have no code.


# A character without a code: its number at Kanripo, its parts as in [車*犬], a
# private code that means something else in every font, a control character
# that a transcript left in its place, or the printers' 〓.
_UNENCODED = re.compile(
  r"&KR\d+;"
  r"|\[(?=[^\[\]]*[\u3400-\u9fff])(?:[\u2e80-\u9fff\U00020000-\U0003ffff?()]*"
  r"[*+@/-])+[\u2e80-\u9fff\U00020000-\U0003ffff?()]*\]"
  r"|[〓\x01-\x08\x0e-\x1f\x7f\ue000-\uf8ff\U000f0000-\U0010fffd]"
)
_MAY_BE_UNENCODED = re.compile(
  r"[&\[〓\x01-\x08\x0e-\x1f\x7f\ue000-\uf8ff\U000f0000-\U0010fffd]"
)


class SourceFile(NamedTuple):
  """A file that was decoded."""

  name: str  # below the path that was read
  text: str  # its text, `\n` at line ends


def mark_unencoded(text: str) -> tuple[str, int]:
  """Returns the text with □ for each character without a code, and how many."""
  if not _MAY_BE_UNENCODED.search(text):
    return text, 0
  return _UNENCODED.subn(MISSING_CHARACTER, text)


# Entries put together from pieces of lines, and the headings above them.


# Between these no space is written: Han, kana, their punctuation, full width.
# Korean words have spaces.
_UNSPACED = re.compile(
  r"[\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
  r"\U00020000-\U0003ffff〓□○“”‘’…—]"
)
_SPACE = re.compile(r"\s+")


class EntryAssembly:
  """Text and notes of one entry, added in the order of print.

  White space becomes one space between words of an alphabet and nothing beside
  a Chinese character.
  """

  def __init__(self):
    self._pieces: list[str] = []
    self._length = 0
    self._last_character = ""
    self._has_pending_space = False
    self._notes: list[SideNote] = []
    self._line_starts: list[tuple[int, Place]] = []

  def __len__(self):
    return self._length

  @property
  def last_character(self) -> str:
    """The last character of the text so far, or a blank."""
    return self._last_character or " "

  @property
  def has_notes(self) -> bool:
    """Whether a note was added."""
    return bool(self._notes)

  @property
  def place(self) -> Place | None:
    """Place of the first line or note in print."""
    if self._line_starts:
      return self._line_starts[0][1]
    return self._notes[0].place if self._notes else None

  def start_line(self, place: Place) -> None:
    """Says that what follows is printed at `place`."""
    if self._line_starts and self._line_starts[-1][0] == self._length:
      if self._length or self._notes:
        self._line_starts[-1] = (self._length, place)
      else:
        self._line_starts = [(0, place)]
    else:
      self._line_starts.append((self._length, place))

  def add_unspaced(self, text: str) -> None:
    """Adds text in which no white space is left."""
    if text:
      self._pieces.append(text)
      self._length += len(text)
      self._last_character = text[-1]
      self._has_pending_space = False

  def remove_end(self, end: str) -> bool:
    """Removes `end` if the text so far ends with it; says whether it did.

    Notes that come after it or within stay, so it is left then.
    """
    start = self._length - len(end)
    if self._notes and self._notes[-1].position > start:
      return False
    text = "".join(self._pieces[-len(end) :])
    if not text.endswith(end):
      return False
    self._pieces[-len(end) :] = [text[: -len(end)]]
    self._length = start
    self._last_character = text[-len(end) - 1 : -len(end)]
    self._line_starts = [
      (min(position, start), place) for position, place in self._line_starts
    ]
    return True

  def add_spaced(self, text: str) -> None:
    """Adds text, its white space as described for the class."""
    for index, word in enumerate(_SPACE.split(text)):
      if index:
        self._has_pending_space = True
      if not word:
        continue
      if (
        self._has_pending_space
        and self._last_character
        and not _UNSPACED.match(self._last_character)
        and not _UNSPACED.match(word)
      ):
        self._pieces.append(" ")
        self._length += 1
      self.add_unspaced(word)

  def add_note(self, text: str, place: Place, kind: str = "note") -> None:
    """Adds a note at the end of the text so far."""
    self._notes.append(SideNote(self._length, text, place, kind))

  def extend_note(self, text: str) -> None:
    """Adds text to the last note."""
    note = self._notes[-1]
    self._notes[-1] = dataclasses.replace(note, text=note.text + text)

  def take_notes(self, end: int | None = None) -> list[SideNote]:
    """Returns the notes up to position `end`, all if None, and removes them."""
    taken = [
      note for note in self._notes if end is None or note.position <= end
    ]
    self._notes = self._notes[len(taken) :]
    return taken

  def build(
    self,
    headings: tuple[str, ...],
    kind: str = TEXT,
    label: str = "",
    indent: int = 0,
  ) -> Entry:
    """Returns the entry."""
    place = self.place
    assert place is not None, "start_line comes before build"
    return Entry(
      "".join(self._pieces),
      place,
      kind,
      headings,
      tuple(self._notes),
      label,
      indent,
      tuple(self._line_starts) or ((0, place),),
    )


def normalize_space(text: str) -> str:
  """Returns text with its white space as `EntryAssembly` writes it."""
  assembly = EntryAssembly()
  assembly.start_line(Place("", 1))
  assembly.add_spaced(text)
  return assembly.build(()).text


class EntryList:
  """Entries in order, each with the headings that are open at its place."""

  def __init__(self):
    self.entries: list[Entry] = []
    self.counts: collections.Counter[str] = collections.Counter()
    self._open_headings: list[tuple[int, str]] = []

  @property
  def headings(self) -> tuple[str, ...]:
    """The headings above what comes next."""
    return tuple(text for _, text in self._open_headings)

  def close_headings(self, level: int = 0) -> None:
    """Closes the headings of `level` and of higher numbers."""
    self._open_headings = [
      heading for heading in self._open_headings if heading[0] < level
    ]

  def add(
    self,
    assembly: EntryAssembly,
    kind: str = TEXT,
    *,
    label: str = "",
    indent: int = 0,
    level: int = 0,
  ) -> None:
    """Adds an entry; a heading of `level` closes those of its level and below.

    Notes without text go to the entry before; without one they stand alone,
    as apparatus.
    """
    if not len(assembly):
      if self.entries:
        self.append_notes(assembly.take_notes())
      elif assembly.has_notes:
        self.entries.append(assembly.build((), APPARATUS))
      return
    if kind == HEADING:
      self.close_headings(level)
    entry = assembly.build(self.headings, kind, label, indent)
    self.entries.append(entry)
    if kind == HEADING:
      self._open_headings.append((level, entry.text))

  def append_notes(self, taken: list[SideNote]) -> None:
    """Adds notes at the end of the last entry."""
    last = self.entries[-1]
    notes = (
      dataclasses.replace(note, position=len(last.text)) for note in taken
    )
    self.entries[-1] = dataclasses.replace(last, notes=(*last.notes, *notes))
