"""JSON of other people's files: checked value by value, oddities noted.

A value that a reader cannot use is a SourceError; an oddity that it can live
with is noted. Both say `file:line: reason`.
"""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from ctd_jax_datasets.common.source_files import SourceError

MAX_EXAMPLES = 5  # places that are kept of a reason
_MAX_EXAMPLE_CHARS = 160  # two lines of a terminal
_LINE = re.compile(r"line (\d+)\b[.:,]? ?")


def locate(file: object, message: str) -> str:
  """Returns a message behind its file, and behind its line if it begins so."""
  line = _LINE.match(message)
  if line is None:
    return f"{file}: {message}" if file else message
  return f"{file}:{line[1]}: {message[line.end() :]}".rstrip(": ")


class FileNotes:
  """What is odd in files that are read all the same.

  Attributes:
    file: name of the file that is being read.
    facts: counts to read beside the oddities.
  """

  def __init__(self, file: str = ""):
    self.file = file
    self.facts: dict[str, int | bool] = {}
    self._counts: dict[str, int] = {}
    self._examples: dict[str, list[str]] = {}

  def add(self, place: str, reason: str, detail: object = "") -> None:
    """Counts an oddity.

    Args:
      place: `line 12`, or where in a document of JSON.
      reason: the same sentence for all cases of a kind, with what was done.
    """
    self._counts[reason] = self._counts.get(reason, 0) + 1
    examples = self._examples.setdefault(reason, [])
    if len(examples) < MAX_EXAMPLES:
      example = locate(self.file, place)
      if detail != "":
        example += f": {detail}"
      if len(example) > _MAX_EXAMPLE_CHARS:
        example = example[: _MAX_EXAMPLE_CHARS - 1] + "…"
      examples.append(example)

  def count(self, reason: str) -> int:
    """Returns how often a reason was given."""
    return self._counts.get(reason, 0)

  def to_json(self) -> dict[str, Any]:
    """Returns facts and oddities, ready for JSON."""
    return {
      "facts": dict(self.facts),
      "findings": [
        {"reason": reason, "count": count, "examples": self._examples[reason]}
        for reason, count in self._counts.items()
      ],
    }

  def format_table(self) -> str:
    """Returns facts and oddities as lines of text."""
    lines = [f"{name}: {value}" for name, value in self.facts.items()]
    for reason, count in self._counts.items():
      lines.append(f"{count:>7}  {reason}")
      lines += [
        f"{'':>9}e.g. {example}" for example in self._examples[reason][:2]
      ]
    return "\n".join(lines if self._counts else [*lines, "no findings"])


_TYPE_NAMES = {dict: "an object {...}", list: "a list [...]", str: "a string"}
_MAX_VALUE_CHARS = 40  # of a value that a message quotes
# `int` would also take 1_0 and digits of other scripts.
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


@contextlib.contextmanager
def reading(
  path: pathlib.Path, notes: FileNotes | None = None
) -> Iterator[None]:
  """Puts file and line in front of errors raised and notes made inside."""
  if notes is not None:
    notes.file = path.name
  try:
    yield
  except SourceError as error:
    raise SourceError(locate(path, str(error))) from None


def decode_utf8(content: bytes) -> str:
  """Returns the text of a UTF-8 file.

  Raises:
    SourceError: naming the first byte that is not UTF-8.
  """
  try:
    return content.decode("utf-8")
  except UnicodeDecodeError as error:
    raise SourceError(
      f"byte {error.start} is not UTF-8; save the file as UTF-8"
    ) from None


def parse_json(
  text: str, notes: FileNotes | None = None, location: str = ""
) -> Any:
  """Returns the value that `text` writes.

  An object that names a member twice is noted, and the last one counts;
  without notes it is an error.

  Args:
    text: JSON; `NaN` is accepted, as Python's `json` writes it.
    location: of `text` in its file, e.g. `line 3`; "" if it is the whole file.

  Raises:
    SourceError: naming line and column of what is not JSON.
  """

  def collect_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
      counts = collections.Counter(name for name, _ in pairs)
      for name in (name for name, count in counts.items() if count > 1):
        if notes is None:
          raise SourceError(
            f"{location or 'member'}: {format_value(name)} occurs twice in one "
            "object; keep one"
          )
        notes.add(
          location or "member",
          "a JSON member occurs twice; the last counts",
          format_value(name),
        )
    return members

  head = f"{location}: " if location else ""
  try:
    value = json.loads(text, object_pairs_hook=collect_members)
    # A lone surrogate is legal JSON that no file can be written with.
    json.dumps(value, ensure_ascii=False).encode("utf-8")
  except SourceError:
    raise  # which is a ValueError, too
  except json.JSONDecodeError as error:
    position = f"column {error.colno}"
    if not location:
      position = f"line {error.lineno}, {position}"
    cut_short_hint = " (the file ends here; was it cut short?)"
    hint = cut_short_hint if error.pos >= len(text.rstrip()) else ""
    raise SourceError(
      f"{head}{position}: not JSON: {error.msg}{hint}"
    ) from None
  except UnicodeEncodeError as error:
    bad_character = error.object[error.start]
    raise SourceError(
      f"{head}holds half a character, {bad_character!a}; write the whole one"
    ) from None
  except RecursionError:
    raise SourceError(f"{head}not the schema: nested too deeply") from None
  except ValueError as error:
    # Python refuses numbers of thousands of digits.
    raise SourceError(f"{head}not JSON: {error}") from None
  return value


def format_value(value: object) -> str:
  """Returns `value` as JSON, shortened for a message."""
  text = json.dumps(value, ensure_ascii=False, default=str)
  return (
    text if len(text) <= _MAX_VALUE_CHARS else text[:_MAX_VALUE_CHARS] + "…"
  )


def expect_type(value: Any, kind: type, location: str) -> Any:
  """Returns `value` if it is of `kind` (dict, list or str).

  Raises:
    SourceError: naming the place, what stands there and what should.
  """
  if not isinstance(value, kind):
    raise SourceError(
      f"{location}: {format_value(value)} should be {_TYPE_NAMES[kind]}"
    )
  return value


def get_member(
  value: dict[str, Any], name: str, kind: type, location: str
) -> Any:
  """Returns the member `name` of an object, of the given kind.

  Raises:
    SourceError: if it is missing or of another kind.
  """
  if name not in value:
    raise SourceError(f"{location}: has no {name!r}, {_TYPE_NAMES[kind]}")
  path = f"{location}.{name}" if location else name
  return expect_type(value[name], kind, path)


def iterate_members(
  value: dict[str, Any], name: str, location: str, notes: FileNotes
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields (place, object) of the list that is a member of an object.

  A missing member is an empty list. A value that is not a list is skipped, as
  the authors' loaders do, and is a finding.

  Raises:
    SourceError: if the list holds anything but objects.
  """
  path = f"{location}.{name}"
  items = value.get(name, [])
  if not isinstance(items, list):
    notes.add(path, "the value should be a list; skipped", format_value(items))
    return
  for number, item in enumerate(items):
    yield f"{path}[{number}]", expect_type(item, dict, f"{path}[{number}]")


def parse_integer(value: Any, location: str) -> int:
  """Returns a whole number, which may be written as a string or as 3.0.

  Raises:
    SourceError: naming the place and what stands there.
  """
  if isinstance(value, str):
    is_integer = _INTEGER.fullmatch(value) is not None
  elif isinstance(value, float):
    is_integer = value.is_integer()
  else:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
  if is_integer:
    # Python refuses numbers of thousands of digits.
    with contextlib.suppress(ValueError):
      return int(value)
  raise SourceError(
    f"{location}: {format_value(value)} should be a whole number"
  )


def parse_sort_key(value: Any, location: str) -> tuple[int, int, int]:
  """Returns the three numbers of a sort key: reign, year, month.

  Raises:
    SourceError: naming the place and what stands there.
  """
  if not isinstance(value, list) or len(value) != 3:
    raise SourceError(
      f"{location}: {format_value(value)} should be [reign, year, month], "
      "e.g. [1, 2, 12]"
    )
  reign, year, month = (
    parse_integer(number_value, f"{location}[{number}]")
    for number, number_value in enumerate(value)
  )
  return reign, year, month
