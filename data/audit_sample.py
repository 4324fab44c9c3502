"""Draws a sample of records for you to read and judge.

For each record, the command prints its place in the source text, the text
around it, and related records. With --output, it also writes the sample to a
table with an empty column `verdict`. Fill the column in and pass the table as
--verdicts to see the error rates. A verdict is ok, month, cut, kind, text or
convention, or several of them joined by +.

Example:
  python -m ctd_jax_datasets.audit_sample chunqiutr/rebuilt --n=60 --seed=1 \\
    --sources=corpus/raw --output=sample.tsv
  python -m ctd_jax_datasets.audit_sample chunqiutr/rebuilt \\
    --verdicts=sample.tsv

With both flags, the command draws the sample again, for example from a new
version of the data set, and keeps the verdicts on records that have not
changed.
"""

import bisect
import collections
import dataclasses
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from absl import app, flags

from ctd_jax.benchmark.benchmark import EVENT, NO_EVENT, Record
from ctd_jax.chronology import numerals
from ctd_jax.utils import output
from ctd_jax_datasets import build, load
from ctd_jax_datasets.common import audit_samples, source_files
from ctd_jax_datasets.common.audit_samples import SampledRecord

# What editors put between the words: headers, page breaks, glyphs without a
# code, corrections, labels, and the printed word behind an emended one.
_MARK_UP = re.compile(
  r"^#.*$|<pb:[^<>]*>|&KR\d+;|\(corr\.=.|（[經傳][^）]*）|(?<=〕)\([^)]*\)",
  re.MULTILINE,
)
_UNSEEN = re.compile(r"^#.*$|<pb:[^<>]*>|[¶\s　]", re.MULTILINE)
_MARGIN = 2000  # characters of mark-up between those of a context
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# Small type is left out of some records; a part of this many characters is then
# looked up in place of the whole.
_PART_CHARS = 12


@dataclasses.dataclass(frozen=True)
class SourcePlace:
  """Place of a record's text."""

  file: str  # name in the folder of sources
  line: int  # of its first character, from 1
  before: str  # what is printed before it, without page breaks and line ends
  # What is printed after it, or after the part of it that stands there.
  after: str
  is_whole: bool  # whether the text stands there without a gap


class SourceText:
  """All files of a work as one text, whose Chinese characters are looked up."""

  def __init__(self, files: Mapping[str, pathlib.Path], folder: str):
    """Reads the files of a folder, one of the names in `checksums.tsv`."""
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
    """Returns the positions of the Chinese characters in `text`, in order."""
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
      is_whole: see `SourcePlace`.
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
  """Returns a function from a record of one work to its place, or None.

  Words that occur more than once (「秋七月」) are taken at their first place
  after the record before them, so `records` are all of the work.
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
  """Returns the positions of words, and whether all were found."""
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
  """Returns the end of the last earlier record, or 0."""
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


_NUM_NEIGHBOURS = 2  # records shown on each side
_MENTION_CHARS = 16  # shown on each side of a month that is printed


class Page(NamedTuple):
  """One record as a reader sees it."""

  record_id: str
  place: str | None  # `file:line`, None if it is in no source
  text: str


def make_pages(
  sample: Iterable[SampledRecord],
  records: Sequence[Record],
  files: Mapping[str, pathlib.Path],
  folders: Mapping[str, str],
  context: int,
) -> list[Page]:
  """Returns a page for each record of a sample.

  `files` is name -> path of the sources, `folders` source -> folder of its
  files, `context` the characters on each side of a place.
  """
  by_source: dict[str, list[Record]] = collections.defaultdict(list)
  by_version: dict[str, list[Record]] = collections.defaultdict(list)
  for record in sorted(records, key=lambda record: record.order):
    by_source[record.source].append(record)
    if record.version and record.kind == EVENT:
      by_version[record.version].append(record)
  texts = {
    folder: SourceText(files, folder) for folder in set(folders.values())
  }
  locators = {
    source: make_locator(by_source[source], texts[folder], context)
    for source, folder in folders.items()
  }
  pages = []
  for sampled in sample:
    record = sampled.record
    lines = [
      f"{record.record_id} {record.source} {record.kind} {record.key} "
      f"(stands for {sampled.weight:.0f}, fit {record.match_score:.2f})",
      f"  text    {record.text}",
    ]
    name = None
    if record.source in locators:
      place = locators[record.source](record)
      if place is None:
        lines.append("  place   none of its words stand in the source")
      else:
        name = f"{place.file}:{place.line}"
        note = "" if place.is_whole else " (a part of it stands here)"
        lines += [
          f"  place   {name}{note}",
          f"  before  …{place.before}",
          f"  after   {place.after}…",
        ]
    if record.kind == NO_EVENT:
      lines += _describe_gap(record, by_source)
    else:
      work = by_source[record.source]
      index = work.index(record)
      for label, others in (
        ("earlier", work[max(0, index - _NUM_NEIGHBOURS) : index]),
        ("later", work[index + 1 : index + 1 + _NUM_NEIGHBOURS]),
        ("event", by_version.get(record.version, ())),
      ):
        lines += [
          _format_record(label, other)
          for other in others
          if other is not record
        ]
    pages.append(Page(record.record_id, name, "\n".join(lines)))
  return pages


def _describe_gap(
  record: Record, by_source: Mapping[str, Sequence[Record]]
) -> list[str]:
  """Returns lines on where each work passes over the month of a placeholder."""
  month = re.compile(_month_pattern(record.key.month))
  lines = []
  for work in by_source.values():
    events = [r for r in work if r.kind == EVENT]
    before = [r for r in events if r.key < record.key][-1:]
    after = [r for r in events if r.key > record.key][:1]
    lines += [_format_record("before", r, tail=True) for r in before]
    lines += [_format_record("after", r) for r in after]
    for other in events:
      if other.key.triple[:2] != record.key.triple[:2]:
        continue
      for match in month.finditer(other.text):
        start = max(0, match.start() - _MENTION_CHARS)
        mention = other.text[start : match.end() + _MENTION_CHARS]
        lines.append(
          f"  month   {other.source} {other.record_id} {other.key}: …{mention}…"
        )
  return lines


def _month_pattern(month: int) -> str:
  """Returns a pattern of a month as chronicles print it, 正月 or 十有二月."""
  if month == 1:
    return "正月"
  numeral = numerals.format_numeral(month, with_you=True).replace("有", "有?")
  return f"(?<![十有]){numeral}月"


def _format_record(label: str, record: Record, tail: bool = False) -> str:
  """Returns a line for another record, long ones by their beginning or end."""
  limit = 60
  text = record.text
  if len(text) > limit:
    text = f"…{text[-limit:]}" if tail else f"{text[:limit]}…"
  return f"  {label:<7} {record.source} {record.key} {text}"


def print_rates(name: str, path: str) -> None:
  """Prints the rates of error of a file of verdicts that is filled in.

  Raises ValueError for a file of another data set or with records unread.
  """
  rows = audit_samples.read_verdicts(path)
  if rows[0].data.partition(":")[0] != name:
    raise ValueError(
      f"--verdicts={path} belongs to {rows[0].data}, not to {name}"
    )
  audit_samples.check_all_read(rows, path)
  header, *lines = audit_samples.tabulate_rates(rows)
  print(output.format_table(audit_samples.describe_sample(rows), header, lines))


@dataclasses.dataclass(frozen=True)
class AuditSettings:
  """Values of the command's flags."""

  n: int = 60  # records to draw
  seed: int = 0  # another seed draws other records
  data_dir: str | None = None  # None: the default of TFDS
  sources: str | None = None  # None: the environment variable
  output: str | None = None  # file to write the sample to
  verdicts: str | None = None  # file with verdicts on an earlier sample
  context: int = 80  # characters on each side of a place


def main(argv: Sequence[str], settings: AuditSettings) -> None:
  """Prints a sample, or the rates of error of one that has been read.

  Args:
    argv: program and name of the data set.
  """
  if len(argv) != 2:
    raise app.UsageError("name one data set, e.g. chunqiutr/rebuilt")
  if (
    settings.output
    and settings.output != settings.verdicts
    and pathlib.Path(settings.output).exists()
  ):
    sys.exit(
      f"error: --output={settings.output} exists and may hold verdicts; with "
      f"--verdicts={settings.output} they are kept, or name a new file"
    )
  try:
    if settings.verdicts and not settings.output:
      print_rates(argv[1], settings.verdicts)
      return
    earlier_rows = (
      audit_samples.read_verdicts(settings.verdicts)
      if settings.verdicts
      else []
    )
    benchmark = load.load_benchmark(argv[1], settings.data_dir)
    layout = build.make_builder(argv[1]).source_layout()
    if layout is None:
      raise ValueError(
        f"{argv[1]} is not made of source texts; take chunqiutr/rebuilt or "
        "zztj/rebuilt"
      )
    table, folders = layout
    files = source_files.check_folder_files(
      source_files.resolve_sources_folder(settings.sources, is_required=True),
      source_files.read_file_infos(table),
    )
    sample = audit_samples.draw_sample(
      benchmark.records, settings.n, settings.seed
    )
    pages = make_pages(
      sample, benchmark.records, files, folders, settings.context
    )
    rows = audit_samples.make_rows(
      sample,
      benchmark.name,
      settings.seed,
      {page.record_id: page.place for page in pages if page.place},
      earlier_rows,
    )
    # First: a reader may close the pipe before the last page.
    if settings.output:
      audit_samples.write_verdicts(settings.output, rows)
    for number, page in enumerate(pages, start=1):
      print(f"{number}/{len(pages)} {page.text}\n")
    if settings.output:
      num_read = sum(row.verdict is not None for row in rows)
      print(
        f"{settings.output}: {len(rows)} records, {num_read} with a verdict"
      )
  except (ValueError, OSError) as error:
    sys.exit(f"error: {error}")


if __name__ == "__main__":
  # Defined here: a program that imports this module must not accept the flags.
  flags.DEFINE_integer(
    "n",
    60,
    "Number of records to draw; the default is 60. Example: --n=200",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "seed",
    0,
    "Seed of the draw; the default is 0. Example: --seed=1",
  )
  build.define_data_dir()
  flags.adopt_module_key_flags(build)  # shown by --help
  flags.DEFINE_string(
    "sources",
    None,
    "Folder of the source texts; the default is "
    f"${source_files.ENVIRONMENT_VARIABLE}. Example: --sources=corpus/raw",
  )
  flags.DEFINE_string(
    "output",
    None,
    "New file for the sample, to be filled in with verdicts; by default the "
    "sample is only printed. Example: --output=sample.tsv",
  )
  flags.DEFINE_string(
    "verdicts",
    None,
    "Filled-in sample. Alone, it prints the error rates; with --output, "
    "its verdicts are copied to the new sample. Example: --verdicts=sample.tsv",
  )
  flags.DEFINE_integer(
    "context",
    80,
    "Number of characters to show on each side of a record; the default is 80. "
    "Example: --context=200",
    lower_bound=0,
  )

  def _run(argv: Sequence[str]) -> None:
    names = [field.name for field in dataclasses.fields(AuditSettings)]
    main(argv, AuditSettings(*(flags.FLAGS[name].value for name in names)))

  build.run_command(_run)
