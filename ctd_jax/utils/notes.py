"""Notes: messages of the program, each a code with values.

Reasons, warnings and errors are notes. `str(note)` is English, for the
terminal; pages ask for their language. notes.tsv has one code per line, with
its text in each language and the values in braces.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib.resources
import re
from collections.abc import Mapping
from typing import Any

ENGLISH, TRADITIONAL, SIMPLIFIED = LANGUAGES = ("en", "zh-Hant", "zh-Hans")

_CONTROL = re.compile(
  r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
# Between the notes of a list. Some are listed within a sentence, or have a line
# each.
_SEPARATORS = {ENGLISH: "; ", TRADITIONAL: "；", SIMPLIFIED: "；"}
_SEPARATORS_OF = {
  "note.line": dict.fromkeys(LANGUAGES, ""),
  "note.text": {ENGLISH: ", ", TRADITIONAL: "", SIMPLIFIED: ""},
  "note.text.year": {ENGLISH: ", ", TRADITIONAL: "、", SIMPLIFIED: "、"},
  "reading.short_date": {
    ENGLISH: " or ",
    TRADITIONAL: " 或 ",
    SIMPLIFIED: " 或 ",
  },
  "note.years": {ENGLISH: ", ", TRADITIONAL: "、", SIMPLIFIED: "、"},
  "note.owner": {ENGLISH: ", ", TRADITIONAL: "、", SIMPLIFIED: "、"},
}


@dataclasses.dataclass(frozen=True, init=False)
class Note:
  """A message as a code with values."""

  code: str  # a line of notes.tsv
  # By name: texts, numbers, notes, lists of notes.
  values: dict[str, Any]
  text: str  # the note in English

  def __init__(self, code: str, /, **values: Any):
    """Fills in the English text.

    Args:
      code: a line of notes.tsv.
      **values: texts, numbers, notes or lists of them; an error stands for its
        note.

    Raises:
      KeyError: if the code is unknown or a value is missing.
    """
    values = {name: _simplify(value) for name, value in values.items()}
    object.__setattr__(self, "code", code)
    object.__setattr__(self, "values", values)
    object.__setattr__(self, "text", self.write(ENGLISH))

  def __str__(self) -> str:
    return self.text

  def __hash__(self) -> int:
    return hash((self.code, self.text))

  def write(self, language: str) -> str:
    """Returns the note in one of `LANGUAGES`."""
    # Tables of reigns have names of their own: readers need not know ours.
    values = {
      name: write(
        of_calendar(it) if name == "calendar" and type(it) is str else it,
        language,
      )
      for name, it in self.values.items()
    }
    return _load_notes()[self.code][language].format_map(values)

  def replace(self, old: str, new: str) -> Note:
    """Returns the note with a string replaced in its values."""

    def replace(value: Any) -> Any:
      if isinstance(value, tuple):
        return tuple(map(replace, value))
      if isinstance(value, (str, Note)):
        return value.replace(old, new)
      return value

    return Note(
      self.code, **{name: replace(it) for name, it in self.values.items()}
    )

  def to_json(self) -> dict[str, Any]:
    """Returns the note as JSON: code, values and text."""
    return dataclasses.asdict(self)


def write(value: Any, language: str) -> Any:
  """Returns a note or list of notes in a language, other values unchanged."""
  if isinstance(value, Note):
    return value.write(language)
  if not isinstance(value, tuple):
    return value
  code = value[0].code if value and isinstance(value[0], Note) else ""
  separator = _SEPARATORS_OF.get(code, _SEPARATORS)[language]
  return separator.join(write(it, language) for it in value)


def of_error(error: BaseException) -> Note | str:
  """Returns the note of an error, or its text if it has none."""
  if error.args and isinstance(error.args[0], Note):
    return error.args[0]
  return str(error)


def of_term(group: str, term: str) -> Note | str:
  """Returns the note `group.term`, or the term if there is no such code."""
  code = f"{group}.{term.replace(' ', '_')}"
  return Note(code) if code in _load_notes() else term


def of_calendar(spec: str) -> Note | str:
  """Returns the name for readers of a table of reigns, or of several."""
  names = tuple(of_term("calendar", table) for table in spec.split(","))
  if not all(isinstance(name, Note) for name in names):
    return spec
  return Note("calendars", names=names)


def from_json(value: Any) -> Note | str:
  """Returns a note from JSON; the text of one whose code is unknown."""
  if not isinstance(value, Mapping):
    return str(value)
  try:
    values = {
      name: tuple(map(from_json, it))
      if isinstance(it, list)
      else from_json(it)
      if isinstance(it, Mapping)
      else it
      for name, it in value["values"].items()
    }
    return Note(value["code"], **values)
  except (AttributeError, KeyError, TypeError, ValueError):
    return str(value.get("text", ""))


def _simplify(value: Any) -> Any:
  """Returns a value as JSON can hold it."""
  if isinstance(value, BaseException):
    return of_error(value)
  if type(value) in (list, tuple):  # a named tuple, such as a place, is a text
    return tuple(map(_simplify, value))
  if hasattr(value, "item"):  # a number of NumPy
    return value.item()
  if isinstance(value, (Note, str, bool, int, float)):
    return value
  return str(value)


def show_controls(text: str) -> str:
  """Returns a text with control characters, which terminals obey, as 「␛」."""
  return _CONTROL.sub("\N{SYMBOL FOR ESCAPE}", text)


def load_table(package: str, name: str) -> dict[str, dict[str, str]]:
  """Returns a table of texts in a package: code -> language -> text."""
  path = importlib.resources.files(package).joinpath(name)
  lines = path.read_text(encoding="utf-8").splitlines()
  # Quotation marks belong to the sentences.
  rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
  return {
    row["code"]: {language: row[language] for language in LANGUAGES}
    for row in rows
  }


@functools.cache
def _load_notes() -> Mapping[str, Mapping[str, str]]:
  return load_table("ctd_jax.utils", "notes.tsv")
