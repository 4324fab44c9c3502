"""JSON of other people's files: parsed and checked value by value.

Whatever makes a file unusable is one `SourceError` that names the JSON path or
line and the expected value; whatever can be read all the same is a finding.
msgspec checks the formats of our own; here it would not do, for it names no key
of a map, passes over members that repeat, and stops at what the authors'
loaders only skip.
"""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.common.findings import FindingsReport

_TYPE_NAMES = {dict: "an object {...}", list: "a list [...]", str: "a string"}
_MAX_VALUE_CHARS = 40  # of a value that a message quotes
# `int` would also take 1_0 and digits of other scripts.
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


@contextlib.contextmanager
def prefix_file_errors(path: pathlib.Path) -> Iterator[None]:
  """Puts the path in front of every SourceError raised inside."""
  try:
    yield
  except SourceError as error:
    raise SourceError(f"{path}: {error}") from None


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


def parse_json(text: str, report: FindingsReport, location: str = "") -> Any:
  """Returns the value that `text` writes.

  An object that names a member twice is a finding; the last one counts.

  Args:
    text: JSON; `NaN` is accepted, as Python's `json` writes it.
    report: takes the finding.
    location: of `text` in its file, e.g. `line 3`; "" if it is the whole file.

  Raises:
    SourceError: naming line and column of what is not JSON.
  """

  def collect_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
      counts = collections.Counter(name for name, _ in pairs)
      for name in (name for name, count in counts.items() if count > 1):
        report.add("member_repeated", location or "member", format_value(name))
    return members

  head = f"{location}: " if location else ""
  try:
    value = json.loads(text, object_pairs_hook=collect_members)
    # A lone surrogate is legal JSON that no file can be written with.
    json.dumps(value, ensure_ascii=False).encode("utf-8")
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
  value: dict[str, Any], name: str, location: str, report: FindingsReport
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
    report.add("value_not_list", path, format_value(items))
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
