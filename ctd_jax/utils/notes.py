"""Notes: what the program has to say, as a code with values.

Reasons, warnings and errors are notes. Words are found where somebody reads
them: `str(note)` is English, for the terminal; a page asks for its language.
notes.tsv has one code per line, with its text in each language and the values
in braces.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib.resources
from collections.abc import Mapping
from typing import Any

ENGLISH, TRADITIONAL, SIMPLIFIED = LANGUAGES = ("en", "zh-Hant", "zh-Hans")

# Between the notes of a list. Some are listed within a sentence, or have a line
# each.
_SEPARATORS = {ENGLISH: "; ", TRADITIONAL: "；", SIMPLIFIED: "；"}
_SEPARATORS_OF = {
  "note.line": dict.fromkeys(LANGUAGES, ""),
  "note.text": {ENGLISH: ", ", TRADITIONAL: "", SIMPLIFIED: ""},
  "note.owner": {ENGLISH: ", ", TRADITIONAL: "、", SIMPLIFIED: "、"},
}


@dataclasses.dataclass(frozen=True, init=False)
class Note:
  """Something to say.

  Attributes:
    code: of the sentence, a line of notes.tsv.
    values: of the sentence by name: texts, numbers, notes, lists of notes.
    text: the note in English.
  """

  code: str
  values: dict[str, Any]
  text: str

  def __init__(self, code: str, /, **values: Any):
    """Writes the English text.

    Args:
      code: of the sentence.
      **values: an error stands for its note, a path for its text.

    Raises:
      KeyError: if there is no such code, or a value is missing.
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
    values = {name: write(it, language) for name, it in self.values.items()}
    return _load_notes()[self.code][language].format_map(values)

  def replace(self, old: str, new: str) -> Note:
    """Returns the note with a string replaced in its values.

    Args:
      old: such as the folder of a server, which readers need not know.
      new: what stands in its place.
    """

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
    """Returns the note as JSON has it: code, values and text."""
    return dataclasses.asdict(self)


def write(value: Any, language: str) -> Any:
  """Returns a note or list of notes in a language, other values as they are.

  Args:
    value: of a note, or a note itself.
    language: one of `LANGUAGES`.
  """
  if isinstance(value, Note):
    return value.write(language)
  if not isinstance(value, tuple):
    return value
  code = value[0].code if value and isinstance(value[0], Note) else ""
  separator = _SEPARATORS_OF.get(code, _SEPARATORS)[language]
  return separator.join(write(it, language) for it in value)


def of_error(error: BaseException) -> Note | str:
  """Returns what an error says: its note, or else its text."""
  if error.args and isinstance(error.args[0], Note):
    return error.args[0]
  return str(error)


def of_term(group: str, term: str) -> Note | str:
  """Returns the note for a value of a fixed set; the value if none has it.

  Args:
    group: first part of the code, such as "statement".
    term: the value, such as "leap month".
  """
  code = f"{group}.{term.replace(' ', '_')}"
  return Note(code) if code in _load_notes() else term


def from_json(value: Any) -> Note | str:
  """Returns a note read from JSON.

  Args:
    value: a note as code, values and text; a bare text stays one. A code of
      another version is kept as its text.
  """
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


def load_table(package: str, name: str) -> dict[str, dict[str, str]]:
  """Returns a table of texts: code -> language -> text.

  Args:
    package: that holds the table.
    name: path of the TSV in it.
  """
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
