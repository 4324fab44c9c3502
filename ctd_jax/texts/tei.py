"""TEI (P5): paragraphs, verse, notes, apparatus, gaps.

Source: TEI Consortium, P5 Guidelines, on the elements named here. Elements of
other names are read through: their text is text.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from xml.parsers import expat

from ctd_jax.chronology.western_dates import ISO_DATE
from ctd_jax.texts.plain import match_year_heading
from ctd_jax.texts.works import (
  HEADING,
  MISSING_CHARACTER,
  TEXT,
  EntryAssembly,
  EntryList,
  Place,
  SourceFile,
  TextError,
  mark_unencoded,
  normalize_space,
)
from ctd_jax.utils import notes

_ROOT = re.compile(r"<(?:\w+:)?(?:TEI|teiCorpus|TEI\.2)[\s>]")
_DIVISION = re.compile(r"(?:div\d?|front|body|back|group|text|floatingText)\Z")
_ENTRY_ELEMENTS = frozenset(
  (
    "p",
    "ab",
    "item",
    "row",
    "lg",
    "opener",
    "closer",
    "dateline",
    "salute",
    "signed",
    "trailer",
    "argument",
    "epigraph",
    "entry",
    "sp",
    "u",
    "titlePart",
    "byline",
    "docTitle",
    "docAuthor",
    "docDate",
  )
)
# What a witness, the print or the scribe has instead of the text.
_READING_ELEMENTS = frozenset(("rdg", "del", "sic", "reg", "abbr", "surplus"))
# In <choice> these give way to the other member; alone they are the text.
_CHOSEN = ("sic", "reg", "abbr")
_MAX_GAP = 1000
# Plain `when`: what ctd_jax guessed is in `when-iso`.
_LINE_HYPHEN = re.compile(r"[A-Za-zſ]-\s*\Z")
# EEBO/TCP marks the hyphen at the end of a printed line.
_LINE_HYPHEN_GLYPH = "EOLhyphen"


def is_tei(text: str) -> bool:
  """Whether a text is a TEI document."""
  return _ROOT.search(text[:4000]) is not None


def read_tei(
  files: Sequence[SourceFile],
) -> tuple[EntryList, dict[str, str]]:
  """Returns the entries of one work and the properties of its headers.

  Properties are `TITLE`, `AUTHOR`, `EDITOR`, `PUBLISHER`, `DATE`, `ID` and
  `LANGUAGE` as far as the first header has them.

  Raises:
    TextError: if a file is not well-formed.
  """
  entry_list = EntryList()
  properties: dict[str, str] = {}
  for file in files:
    entry_list.close_headings()
    reader = _TeiReader(file, entry_list)
    reader.read()
    properties = reader.properties | properties
  return entry_list, properties


class _TeiReader:
  """Events of the parser made into entries."""

  def __init__(self, file: SourceFile, entry_list: EntryList):
    self.properties: dict[str, str] = {}
    self._file = file
    self._entry_list = entry_list
    self._counts = entry_list.counts
    self._elements: list[str] = []
    self._page = ""
    self._assembly = EntryAssembly()
    self._label = ""
    self._kind = TEXT
    self._num_divisions = 0
    # Within a note, a reading or the header text is collected here.
    self._collected: list[str] = []
    self._collecting: list[tuple[str, int]] = []
    self._collected_place = Place(file.name, 1)
    self._is_in_text = False
    self._has_glyph_text = False
    self._is_in_margin = False
    self._parser = expat.ParserCreate()
    self._parser.buffer_text = True
    self._parser.StartElementHandler = self._start
    self._parser.EndElementHandler = self._end
    self._parser.CharacterDataHandler = self._add_text
    self._parser.CommentHandler = functools.partial(self._count, "comments")
    self._parser.ProcessingInstructionHandler = functools.partial(
      self._count, "processing instructions"
    )
    # A file that declares entities of its own could grow without bound.
    self._parser.EntityDeclHandler = self._refuse_entity

  def read(self) -> None:
    """Adds the entries of the file."""
    # The text is decoded already, whatever its declaration says.
    text = re.sub(
      r"\A(\s*<\?xml[^>]*?)\s+encoding=([\"'])[^\"']*\2", r"\1", self._file.text
    )
    try:
      self._parser.Parse(text.lstrip("\ufeff").encode(), True)
    except expat.ExpatError as error:
      message = expat.ErrorString(error.code)
      raise TextError(
        notes.Note(
          "problem.file.xml",
          place=f"{self._file.name}:{error.lineno}",
          message=notes.of_term("xml", message),
        )
      ) from None
    self._close_entry()

  def _refuse_entity(self, name: str, *_) -> None:
    raise TextError(
      notes.Note(
        "problem.file.entity",
        place=f"{self._file.name}:{self._parser.CurrentLineNumber}",
        name=name,
      )
    )

  def _count(self, kind: str, *_) -> None:
    self._counts[kind] += 1

  @property
  def _place(self) -> Place:
    return Place(self._file.name, self._parser.CurrentLineNumber, self._page)

  def _start(self, name: str, attributes: Mapping[str, str]) -> None:
    name = name.rsplit(":", 1)[-1]
    self._elements.append(name)
    self._counts["markup"] += 1
    if not self._is_in_text:
      if name == "text":
        self._is_in_text = True
        self._num_divisions = 1
      elif "teiHeader" in self._elements:
        self._start_header_element(name)
      return
    if self._collecting:
      if name in ("gap", "g", "pb"):
        self._start_empty(name, attributes)
      return
    if name == "date" and not len(self._assembly):
      self._add_date(attributes)
    if name in ("note", "fw"):
      self._start_collecting("note" if name == "note" else "running head")
      self._is_in_margin = attributes.get("place", "").startswith("marg")
    elif name in _READING_ELEMENTS and self._is_alternative(name):
      self._start_collecting("reading")
    elif _DIVISION.match(name):
      self._close_entry()
      self._num_divisions += 1
    elif name == "head":
      self._close_entry()
      self._kind = HEADING
    elif name in _ENTRY_ELEMENTS or (
      name == "l" and "lg" not in self._elements
    ):
      self._close_entry()
      self._label = attributes.get("n", "")
    elif name in ("cell", "label", "l"):
      self._write(" ")
    else:
      self._start_empty(name, attributes)

  def _start_header_element(self, name: str) -> None:
    path = "/".join(self._elements)
    for key, ending in (
      ("TITLE", "titleStmt/title"),
      ("AUTHOR", "titleStmt/author"),
      ("EDITOR", "titleStmt/editor"),
      ("PUBLISHER", "publicationStmt/publisher"),
      ("DATE", "publicationStmt/date"),
      ("ID", "publicationStmt/idno"),
      ("LANGUAGE", "langUsage/language"),
    ):
      if path.endswith(ending) and key not in self.properties:
        self._start_collecting(key)

  def _is_alternative(self, name: str) -> bool:
    """Whether another element beside this one is the text."""
    return name in ("rdg", "surplus", "del") or (
      self._elements[-2:-1] in (["choice"], ["subst"]) and name in _CHOSEN
    )

  def _start_empty(self, name: str, attributes: Mapping[str, str]) -> None:
    if name == "pb":
      self._page = attributes.get("n", "")
      self._counts["page breaks"] += 1
      if not self._collecting:
        self._assembly.start_line(self._place)
    elif name == "lb":
      self._counts["line ends"] += 1
      if attributes.get("break") != "no":
        self._write(" ")
      self._assembly.start_line(self._place)
    elif name == "gap":
      size = attributes.get("quantity") or attributes.get("extent") or "1"
      number = re.match(r"\d+", size)
      count = min(int(number[0]), _MAX_GAP) if number else 1
      self._counts["characters missing"] += count
      self._write(MISSING_CHARACTER * count)
    elif name == "g":
      # What is read as nothing counts as read.
      self._has_glyph_text = _LINE_HYPHEN_GLYPH in attributes.get("ref", "")
      self._counts["hyphens at line ends"] += self._has_glyph_text

  def _add_date(self, attributes: Mapping[str, str]) -> None:
    """Adds the date that an editor gives for what follows."""
    bounds = [
      value
      for key in ("when", "notBefore", "notAfter")
      if ISO_DATE.fullmatch(value := attributes.get(key, ""))
    ]
    # A range within one year is that year.
    for length in (None, -3, -6):
      shared = {value[:length] for value in bounds}
      if len(shared) == 1 and ISO_DATE.fullmatch(date := shared.pop()):
        self._counts["dates in markup"] += 1
        self._assembly.add_note(date, self._place, "date")
        return

  def _start_collecting(self, kind: str) -> None:
    self._collecting.append((kind, len(self._elements)))
    self._collected = []
    self._collected_place = self._place

  def _end(self, name: str) -> None:
    name = name.rsplit(":", 1)[-1]
    if self._collecting:
      kind, depth = self._collecting[-1]
      if name == "g" and not self._has_glyph_text:
        self._collected.append(MISSING_CHARACTER)
        self._counts["characters without a code"] += 1
      if len(self._elements) == depth:
        self._collecting.pop()
        self._finish_collecting(kind)
    elif self._is_in_text:
      if name == "g" and not self._has_glyph_text:
        self._counts["characters without a code"] += 1
        self._write(MISSING_CHARACTER)
      if _DIVISION.match(name):
        self._close_entry()
        self._entry_list.close_headings(self._num_divisions)
        self._num_divisions -= 1
        self._is_in_text = name != "text" or "text" in self._elements[:-1]
      elif (
        name == "head"
        or name in _ENTRY_ELEMENTS
        or (name == "l" and "lg" not in self._elements)
      ):
        self._close_entry()
    self._elements.pop()

  def _finish_collecting(self, kind: str) -> None:
    text = normalize_space("".join(self._collected))
    if text and not self._is_in_text:
      self.properties.setdefault(kind, text)
    elif text:
      heading = self._is_in_margin and match_year_heading(text)
      if kind == "note" and heading and heading.end == len(text):
        kind = "date"
      self._counts["notes" if kind == "note" else f"{kind}s"] += 1
      self._assembly.add_note(text, self._collected_place, kind)

  def _add_text(self, text: str) -> None:
    self._has_glyph_text = bool(
      self._elements and self._elements[-1] == "g" and text.strip()
    )
    if self._collecting or self._is_in_text:
      text, num_unencoded = mark_unencoded(text)
      self._counts["characters without a code"] += num_unencoded
      self._write(text)

  def _write(self, text: str) -> None:
    if self._collecting:
      self._collected.append(text)
      return
    first_line = self._parser.CurrentLineNumber
    is_hyphenated = False
    lines = text.split("\n")
    for index, line in enumerate(lines):
      if index and not is_hyphenated:
        self._assembly.add_spaced(" ")
      if index and is_hyphenated:
        line = line.lstrip()
      is_hyphenated = (
        index + 1 < len(lines)
        and _LINE_HYPHEN.search(line) is not None
        and lines[index + 1].lstrip()[:1].islower()
      )
      if is_hyphenated:
        self._counts["hyphens at line ends"] += 1
        line = line.rstrip()[:-1]
      if line.strip() and (not len(self._assembly) or index):
        self._assembly.start_line(
          Place(self._file.name, first_line + index, self._page)
        )
      self._assembly.add_spaced(line)

  def _close_entry(self) -> None:
    # Without text and notes nothing is added.
    self._entry_list.add(
      self._assembly, self._kind, label=self._label, level=self._num_divisions
    )
    self._kind, self._label, self._assembly = TEXT, "", EntryAssembly()
