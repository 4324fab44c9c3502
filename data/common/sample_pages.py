"""Sampled records as text to read: place, context, and what stands beside.

An event is judged by the records before and after it in its work, commentary by
the entry it explains, a placeholder by the places at which the works pass over
its month and by every mention of that month in its year.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ctd_jax.benchmark.records import EVENT, NO_EVENT, Record
from ctd_jax.chronology import numerals
from ctd_jax_datasets.common import source_places
from ctd_jax_datasets.common.audit_samples import SampledRecord

_NUM_NEIGHBOURS = 2  # records shown on each side
_MENTION_CHARS = 16  # shown on each side of a month that is printed

_Locator = Callable[[Record], source_places.SourcePlace | None]


@dataclasses.dataclass(frozen=True)
class Page:
  """One record as a reader sees it.

  Attributes:
    record_id: of the record.
    place: `file:line`, None where it stands in no source.
    text: lines.
  """

  record_id: str
  place: str | None
  text: str


def make_pages(
  sample: Iterable[SampledRecord],
  records: Sequence[Record],
  files: Mapping[str, pathlib.Path],
  folders: Mapping[str, str],
  context: int,
) -> list[Page]:
  """Returns a page for each record of a sample.

  Args:
    sample: of `records`.
    records: the gallery.
    files: name -> path of every source file.
    folders: source -> folder of its files.
    context: characters on each side of a place.

  Raises:
    SourceError: if a work has no file.
  """
  by_source: dict[str, list[Record]] = collections.defaultdict(list)
  by_version: dict[str, list[Record]] = collections.defaultdict(list)
  for record in sorted(records, key=lambda record: record.order):
    by_source[record.source].append(record)
    if record.version and record.kind == EVENT:
      by_version[record.version].append(record)
  texts = {
    folder: source_places.SourceText(files, folder)
    for folder in set(folders.values())
  }
  locators = {
    source: source_places.make_locator(
      by_source[source], texts[folder], context
    )
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
    place = None
    if record.source in locators:
      place, place_lines = _describe_place(record, locators[record.source])
      lines += place_lines
    if record.kind == NO_EVENT:
      lines += _describe_gap(record, by_source)
    else:
      lines += _describe_neighbours(record, by_source[record.source])
      lines += _describe_versions(record, by_version)
    pages.append(Page(record.record_id, place, "\n".join(lines)))
  return pages


def _describe_place(
  record: Record, locate: _Locator
) -> tuple[str | None, list[str]]:
  """Returns `file:line` and the lines that show the place."""
  place = locate(record)
  if place is None:
    return None, ["  place   none of its words stand in the source"]
  name = f"{place.file}:{place.line}"
  note = "" if place.is_whole else " (a part of it stands here)"
  return name, [
    f"  place   {name}{note}",
    f"  before  …{place.before}",
    f"  after   {place.after}…",
  ]


def _describe_neighbours(record: Record, work: Sequence[Record]) -> list[str]:
  """Returns lines with the records before and after it in its work."""
  index = work.index(record)
  first = max(0, index - _NUM_NEIGHBOURS)
  return [_format_record("earlier", r) for r in work[first:index]] + [
    _format_record("later", r)
    for r in work[index + 1 : index + 1 + _NUM_NEIGHBOURS]
  ]


def _describe_versions(
  record: Record, by_version: Mapping[str, Sequence[Record]]
) -> list[str]:
  """Returns lines with the records that tell of the same event."""
  return [
    _format_record("event", other)
    for other in by_version.get(record.version, ())
    if other is not record
  ]


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
      if (other.key.reign, other.key.year) != (
        record.key.reign,
        record.key.year,
      ):
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
