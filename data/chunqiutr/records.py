"""The gallery of the `rebuilt` data set: source files in, records out.

Why: here the rules meet. Entries of the four base texts are cut into events,
get months from the scan and are cut again where the month changes; what tells
of one event in one month shares a version; commentary gets month and version
from the text it explains; every month without an entry gets a placeholder;
what falls outside the released map is left out and counted. Called by the
builder.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import multiprocessing
import pathlib
import random
from collections.abc import (
  Callable,
  Hashable,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
from typing import Any

from ctd_jax.chronology import annals
from ctd_jax.chronology.annals import Record
from ctd_jax.chronology.timelines import Timeline
from ctd_jax_datasets.chunqiutr import (
  alignment,
  commentary,
  cross_check,
  events,
  placeholders,
  sources,
)

SEED = 20
# Commentary of these traditions asks and explains, an annals entry never
# does: a sentence with one of these particles is no new entry.
_EXPLAINING = "也矣者乎何"
# Folder -> layer letter -> source.
_NUMBERED = {
  "zuozhuan_KR1e0001": {"A": sources.ANNALS, "B": sources.ZUOZHUAN},
  "guliangzhuan_KR1e0008": {"": sources.GULIANG},
}
_LINES = {"gongyangzhuan_wikisource": sources.GONGYANG}


@dataclasses.dataclass(frozen=True)
class Gallery:
  """Everything the benchmark retrieves from.

  Attributes:
    records: sorted by id.
    left_out: reason -> number of texts that are in the sources but not here.
    audit: how the records were made, fit for JSON: `units`, `agreement`,
      `disagreements`, `decisions`, `versions` of `cross_check` and `alignment`
      of `commentary`.
  """

  records: tuple[Record, ...]
  left_out: Mapping[str, int]
  audit: Mapping[str, Any]


def build_gallery(
  files: Mapping[str, pathlib.Path],
  timeline: Timeline,
  seed: int = SEED,
  processes: int = 1,
) -> Gallery:
  """Returns the records of the source files.

  Args:
    files: name -> path, as in `checksums.tsv`.
    timeline: months that exist, `lu_release`.
    seed: shuffles the numbers of the ids and draws placeholder wordings.
    processes: works read and compared at a time; the result does not depend
      on it.

  Raises:
    sources.SourceError: if a file is not what its parser expects.
  """
  with _workers(processes) as run:
    entries, undated = read_entries(files, run)
    matches = match_works(entries, run)
  pieces = events.cut(entries, matches)
  parts = date_pieces(pieces)
  told = events.group(parts, matches)
  comments, aligned = _comments(files, parts, told, processes)
  inside, outside = _on_timeline(_events(parts, told) + comments, timeline)
  grouped = name_versions(inside, seed)
  grouped += placeholders.fill_months(grouped, timeline, seed)
  numbered = number_records(grouped, seed)
  agreement, disagreements = cross_check.agreement(parts, matches)
  cuts = sum(len(starts) for _, starts in pieces)
  decisions = cross_check.decisions(parts, len(entries), cuts)
  return Gallery(
    numbered,
    {"undated": undated}
    | _count(f"{row.source} outside the released months" for row in outside),
    {
      "units": cross_check.units(entries, parts),
      "alignment": aligned,
      "agreement": agreement,
      "disagreements": disagreements,
      "decisions": decisions
      | _count(
        f"year {row.key.reign}-{row.key.year} left out: not in the released map"
        for row in outside
      ),
      "versions": cross_check.versions(numbered),
    },
  )


def _events(
  parts: Sequence[events.Part], told: Sequence[Hashable]
) -> list[tuple[Record, Hashable]]:
  """Returns the dated parts of the base texts, each with its event."""
  return [
    (Record("", part.text, part.source, annals.EVENT, part.key, 0), event)
    for part, event in zip(parts, told, strict=True)
  ]


def _comments(
  files: Mapping[str, pathlib.Path],
  parts: Sequence[events.Part],
  told: Sequence[Hashable],
  processes: int,
) -> tuple[list[tuple[Record, Hashable]], dict[str, Any]]:
  """Returns the commentary, each with the event it explains, and its audit.

  Args:
    files: as in `build_gallery`.
    parts: the dated base texts; 經 and 左傳 are what is explained.
    told: their events.
    processes: as in `build_gallery`.
  """
  explained = [
    (part, event)
    for part, event in zip(parts, told, strict=True)
    if part.source in (sources.ANNALS, sources.ZUOZHUAN)
  ]
  anchor = alignment.Anchor.of([(part.text, part.key) for part, _ in explained])
  comments, audit = commentary.parse_all(files, anchor, processes)
  filed = []
  for comment in comments:
    record = Record(
      "",
      comment.text,
      comment.source,
      annals.NEG_COMMENT,
      comment.key,
      0,
      match_score=comment.match_score,
    )
    event = None if comment.part is None else explained[comment.part][1]
    filed.append((record, event))
  return filed, audit


def _on_timeline(
  filed: Iterable[tuple[Record, Hashable]], timeline: Timeline
) -> tuple[list[tuple[Record, Hashable]], list[Record]]:
  """Returns the records of months that exist, and those of other months.

  Each gets its place in its work, which counts both.

  Args:
    filed: (record, its event), in the order of the works.
    timeline: months that exist.
  """
  orders: collections.Counter[str] = collections.Counter()
  inside, outside = [], []
  for record, event in filed:
    record = dataclasses.replace(record, order=orders[record.source])
    orders[record.source] += 1
    if record.key in timeline:
      inside.append((record, event))
    else:
      outside.append(record)
  return inside, outside


def _count(names: Iterable[str]) -> dict[str, int]:
  """Returns name -> how often it occurs, in order of the first time."""
  return dict(collections.Counter(names))


def name_versions(
  records: Sequence[tuple[Record, Hashable]], seed: int
) -> list[Record]:
  """Returns the records with versions `v00000`..., in the given order.

  Args:
    records: (record, its event); equal events share a version, None has none.
    seed: shuffles the numbers, so that they tell nothing about time.
  """
  found = list(
    dict.fromkeys(event for _, event in records if event is not None)
  )
  random.Random(seed).shuffle(found)
  names = {event: f"v{number:05d}" for number, event in enumerate(found)}
  return [
    dataclasses.replace(record, version=names.get(event, ""))
    for record, event in records
  ]


def number_records(records: Iterable[Record], seed: int) -> tuple[Record, ...]:
  """Returns the records with ids `r00000`..., sorted by id.

  The numbers are shuffled, so that an id tells nothing about time or source.
  """
  records = list(records)
  random.Random(seed).shuffle(records)
  return tuple(
    dataclasses.replace(record, record_id=f"r{number:05d}")
    for number, record in enumerate(records)
  )


def read_entries(
  files: Mapping[str, pathlib.Path], run: Callable[..., Iterable] = map
) -> tuple[list[sources.Entry], int]:
  """Returns the entries of all base texts and how many have no year.

  Args:
    files: name -> path, as in `checksums.tsv`.
    run: `map` or what does the same with several processes.
  """
  numbered = [
    (path, layers)
    for folder, layers in _NUMBERED.items()
    for path in commentary.files_of(files, folder)
  ]
  lines = [
    (path, source)
    for folder, source in _LINES.items()
    for path in commentary.files_of(files, folder)
  ]
  entries: list[sources.Entry] = []
  undated = 0
  for found, without_year in run(
    sources.parse_numbered, *zip(*numbered, strict=True)
  ):
    entries += found
    undated += without_year
  for found in run(sources.parse_lines, *zip(*lines, strict=True)):
    entries += found
  return entries, undated


def match_works(
  entries: Sequence[sources.Entry], run: Callable[..., Iterable] = map
) -> dict[str, list[events.Match]]:
  """Returns tradition -> its matches with the annals."""
  by_source = {
    source: [entry for entry in entries if entry.source == source]
    for source in sources.BASE_SOURCES
  }
  annals_entries = by_source.pop(sources.ANNALS)
  found = run(
    functools.partial(events.match, annals_entries), by_source.values()
  )
  return dict(zip(by_source, found, strict=True))


def date_pieces(
  pieces: Iterable[tuple[sources.Entry, Sequence[int]]],
) -> list[events.Part]:
  """Returns the events of entries cut where the month changes, in order.

  Each source is one scan: 經 and 傳 of a year stand one after the other in
  KR1e0001, and the second begins at 正月 again.

  Args:
    pieces: entries with the characters at which their events begin.
  """
  scanners: dict[str, annals.Scanner] = collections.defaultdict(annals.Scanner)
  parts = []
  for entry, starts in pieces:
    scanner = scanners[entry.source]
    scanner.enter_reign(entry.reign)
    if entry.year is not None:
      scanner.enter_year(entry.year)
    stop = _EXPLAINING if entry.source in events.EXEGETIC else ""
    for start, end in itertools.pairwise([*starts, len(entry.text)]):
      for text, key in annals.split_entry(entry.text[start:end], scanner, stop):
        spot = events.Spot(entry.place, start)
        parts.append(events.Part(entry.source, text, key, spot))
        start += len(text)
  return parts


@contextlib.contextmanager
def _workers(processes: int) -> Iterator[Callable[..., Iterable]]:
  """Yields `map`, by so many processes."""
  if processes == 1:
    yield map
    return
  with concurrent.futures.ProcessPoolExecutor(
    processes, multiprocessing.get_context("spawn")
  ) as pool:
    yield pool.map
