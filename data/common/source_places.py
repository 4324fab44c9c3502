"""Places of records in the files that they were made of, for reading by eye.

No reader is asked where it took a record from: its Chinese characters are
looked up in the source files anew, so that a place is also a check that the
words stand there.
"""

from __future__ import annotations

import bisect
import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ctd_jax.benchmark.records import Record
from ctd_jax_datasets.common import source_files

# What editors put between the words: headers, page breaks, glyphs without a
# code, corrections, labels, and the printed word behind an emended one.
_MARK_UP = re.compile(
  r"^#.*$|<pb:[^<>]*>|&KR\d+;|\(corr\.=.|（[經傳][^）]*）|(?<=〕)\([^)]*\)",
  re.MULTILINE,
)
_UNSEEN = re.compile(r"^#.*$|<pb:[^<>]*>|[¶\s　]", re.MULTILINE)
_MARGIN = 2000  # characters of mark-up between those of a context
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# Small type is left out of some records; a part of so many characters is then
# looked up in place of the whole.
_PART_CHARS = 12


@dataclasses.dataclass(frozen=True)
class SourcePlace:
  """Where a record's text stands.

  Attributes:
    file: name in the folder of sources.
    line: of its first character, from 1.
    before: what is printed before it, without page breaks and line ends.
    after: what is printed after it; after its place, if only a part of it
      stands there.
    is_whole: whether the text stands there without a gap.
  """

  file: str
  line: int
  before: str
  after: str
  is_whole: bool


class SourceText:
  """All files of a work as one text, whose Chinese characters are looked up."""

  def __init__(self, files: Mapping[str, pathlib.Path], folder: str):
    """Reads the files of a folder.

    Args:
      files: name -> path, as in `checksums.tsv`.
      folder: in which the work's files lie.

    Raises:
      SourceError: if there is none.
    """
    names_by_path = {path: name for name, path in files.items()}
    paths = source_files.select_folder_files(files, folder)
    self._names = [names_by_path[path] for path in paths]
    self._file_starts, raw_files, length = [], [], 0
    for path in paths:
      self._file_starts.append(length)
      raw_files.append(path.read_text(encoding="utf-8") + "\n")
      length += len(raw_files[-1])
    self._raw = "".join(raw_files)
    # Blanks of the same length: positions stay those of the files.
    words = _MARK_UP.sub(lambda match: " " * len(match[0]), self._raw)
    self._positions = [match.start() for match in _HAN.finditer(words)]
    self._han = "".join(words[position] for position in self._positions)

  def find_starts(self, text: str) -> list[int]:
    """Returns where the Chinese characters of `text` stand, in order."""
    han = extract_han(text)
    starts, start = [], self._han.find(han) if han else -1
    while start >= 0:
      starts.append(start)
      start = self._han.find(han, start + 1)
    return starts

  def describe(
    self, start: int, num_chars: int, is_whole: bool, context: int
  ) -> SourcePlace:
    """Returns the place of characters, with as much around them.

    Args:
      start: index of the first, from `find_starts`.
      num_chars: how many they are.
      is_whole: see `SourcePlace`.
      context: characters on each side.
    """
    raw_start = self._positions[start]
    last = min(start + num_chars, len(self._positions)) - 1
    raw_end = self._positions[last] + 1
    index = bisect.bisect_right(self._file_starts, raw_start) - 1
    # Whole lines: mark-up is known by where it begins.
    first = self._raw.rfind("\n", 0, max(0, raw_start - context - _MARGIN)) + 1
    end = self._raw.find("\n", raw_end + context + _MARGIN)
    before = _UNSEEN.sub("", self._raw[first:raw_start])
    after = _UNSEEN.sub("", self._raw[raw_end : None if end < 0 else end])
    return SourcePlace(
      self._names[index],
      self._raw.count("\n", self._file_starts[index], raw_start) + 1,
      before[-context:] if context else "",
      after[:context],
      is_whole,
    )


def extract_han(text: str) -> str:
  """Returns the Chinese characters of a text, spelt as they are."""
  return "".join(_HAN.findall(text))


def make_locator(
  records: Iterable[Record], text: SourceText, context: int
) -> Callable[[Record], SourcePlace | None]:
  """Returns a function that locates records of one work.

  Words that stand there more than once (「秋七月」) are taken at their first
  place after the record before them in the work.

  Args:
    records: all of the work that were kept; their `order` is read.
    text: of the work.
    context: characters around a place.

  Returns:
    record -> place, or None if none of its words stand in the work.
  """
  in_order = sorted(records, key=lambda record: record.order)
  index_by_id = {record.record_id: i for i, record in enumerate(in_order)}

  def locate(record: Record) -> SourcePlace | None:
    starts, is_whole = _find_whole_or_part(text, record.text)
    if not starts:
      return None
    start = starts[0]
    if len(starts) > 1:
      index = index_by_id[record.record_id]
      start = _first_from(starts, _end_of_predecessors(text, in_order[:index]))
    num_chars = len(extract_han(record.text))
    return text.describe(start, num_chars, is_whole, context)

  return locate


def _find_whole_or_part(text: SourceText, words: str) -> tuple[list[int], bool]:
  """Returns where words stand, and whether all of them do.

  A part that stands there gives the place at which the whole would begin.
  """
  starts = text.find_starts(words)
  if starts:
    return starts, True
  han = extract_han(words)
  for offset in range(0, max(1, len(han) - _PART_CHARS), _PART_CHARS):
    starts = text.find_starts(han[offset : offset + _PART_CHARS])
    if starts:
      return [max(0, start - offset) for start in starts], False
  return [], False


def _end_of_predecessors(text: SourceText, earlier: Sequence[Record]) -> int:
  """Returns the end of the last of the earlier records, 0 if there is none."""
  ambiguous: list[tuple[list[int], int]] = []
  end = 0
  for record in reversed(earlier):
    starts, _ = _find_whole_or_part(text, record.text)
    num_chars = len(extract_han(record.text))
    if len(starts) == 1:
      end = starts[0] + num_chars
      break
    if starts:
      ambiguous.append((starts, num_chars))
  # Each begins where the one before it ends, or later.
  for starts, num_chars in reversed(ambiguous):
    end = _first_from(starts, end) + num_chars
  return end


def _first_from(starts: Sequence[int], end: int) -> int:
  """Returns the first start at or after `end`, the last one if none is."""
  return next((start for start in starts if start >= end), starts[-1])
