"""Gallery of `chunqiutr/rebuilt`: source files in, records out.

Entries are matched by wording before any month is known, cut where an event
begins, and dated by a scan; commentary is aligned with the text it explains. A
month without an entry gets a placeholder.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
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

from ctd_jax.benchmark.benchmark import (
  CHUNQIU_TITLE,
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
  Record,
  collect_months,
)
from ctd_jax.chronology import annals, dates
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import (
  base_texts,
  commentary,
  cross_check,
  events,
  text_alignment,
)
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.base_builder import number_records

TEMPLATES = (
  "{date}：經傳於是月史事闕如，無專條可錄。",
  "{date}。{title}經文及三傳於此月無事可書。",
  "{date}。{title}及三傳皆不載此月之事。",
)

SOURCE = "placeholder"
SOURCE_TITLE = "無事之月"


def format_placeholder(
  key: TimeKey, timeline: Timeline, seed: int = 0, title: str = CHUNQIU_TITLE
) -> str:
  """Returns the statement that nothing is recorded in the month `key`."""
  # Drawn by a hash of (seed, key): the wording of a month does not depend on
  # which other months are empty.
  digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
  template = TEMPLATES[int.from_bytes(digest, "big") % len(TEMPLATES)]
  date = dates.format_key(key, timeline)
  return template.format(date=date, title=title)


def make_placeholders(
  records: Iterable[Record],
  timeline: Timeline,
  seed: int = 0,
  title: str = CHUNQIU_TITLE,
) -> list[Record]:
  """Returns a placeholder record for every month without an event.

  Returns:
    Records of kind "no_event" in order of time, without id.
  """
  event_months = collect_months(records)
  empty_months = (key for key in timeline.months if key not in event_months)
  return [
    Record(
      "",
      format_placeholder(key, timeline, seed, title),
      SOURCE,
      NO_EVENT,
      key,
      order,
    )
    for order, key in enumerate(empty_months)
  ]


CHECKSUMS = pathlib.Path(__file__).with_name("checksums.tsv")
SEED = 20  # of ids and placeholder wordings
# Commentary of these traditions asks and explains, an annals entry never does:
# a sentence with one of these particles is not a new entry.
_EXPLAINING_PARTICLES = "也矣者乎何"
# Folder -> layer letter -> source.
_NUMBERED_SOURCES = {
  "zuozhuan_KR1e0001": {"A": base_texts.ANNALS, "B": base_texts.ZUOZHUAN},
  "guliangzhuan_KR1e0008": {"": base_texts.GULIANG},
}
_LINE_SOURCES = {"gongyangzhuan_wikisource": base_texts.GONGYANG}
# Source -> folder of the files that its records are cut from.
SOURCE_FOLDERS: Mapping[str, str] = {
  **{
    source: folder
    for folder, layers in _NUMBERED_SOURCES.items()
    for source in layers.values()
  },
  **{source: folder for folder, source in _LINE_SOURCES.items()},
  **{source: work.folders[0] for source, work in commentary.WORKS.items()},
}
SOURCE_TITLES: Mapping[str, str] = {
  **base_texts.TITLES,
  **{source: work.title for source, work in commentary.WORKS.items()},
}


@dataclasses.dataclass(frozen=True)
class Gallery:
  """The records that the benchmark retrieves from, and their account."""

  records: tuple[Record, ...]
  # Reason -> number of texts that are left out.
  excluded_counts: Mapping[str, int]
  # Account of the making of the records, fit for JSON: `units`,
  # `printed_months`, `agreement`, `disagreements`, `decisions`, `versions` of
  # `cross_check` and `alignment` of `commentary`.
  audit: Mapping[str, Any]


def build_gallery(
  files: Mapping[str, pathlib.Path],
  timeline: Timeline,
  seed: int = SEED,
  processes: int = 1,
) -> Gallery:
  """Returns the records of the source files in the months of `timeline`.

  `seed` shuffles the numbers of the ids and draws placeholder wordings; the
  result does not depend on `processes`.
  """
  # Order matters: events are matched by wording before any month is known, so
  # that the agreement of the works tests the scans.
  with _worker_map(processes) as map_function:
    entries, num_undated = read_entries(files, map_function)
    matches = match_works(entries, map_function)
    pieces = events.cut_entries(entries, matches)
    segments = date_pieces(pieces)
    event_ids = events.group_events(segments, matches)
    comments, alignment_audit = _make_comment_records(
      files, segments, event_ids, map_function
    )
  timeline_records, excluded_records = _split_by_timeline(
    [
      (Record("", segment.text, segment.source, EVENT, segment.key, 0), event)
      for segment, event in zip(segments, event_ids, strict=True)
    ]
    + comments,
    timeline,
  )
  versioned_records = name_versions(timeline_records, seed)
  versioned_records += make_placeholders(versioned_records, timeline, seed)
  numbered_records = number_records(versioned_records, seed)
  agreement, disagreements = cross_check.measure_agreement(segments, matches)
  num_cuts = sum(len(starts) for _, starts in pieces)
  decisions = cross_check.count_decisions(segments, len(entries), num_cuts)
  return Gallery(
    numbered_records,
    {"undated": num_undated}
    | collections.Counter(
      f"{row.source} outside the released months" for row in excluded_records
    ),
    {
      "units": cross_check.count_units(entries, segments),
      "alignment": alignment_audit,
      "printed_months": cross_check.count_printed_months(
        (record for record, _ in comments), segments
      ),
      "agreement": agreement,
      "disagreements": disagreements,
      "decisions": decisions
      | collections.Counter(
        f"year {row.key.reign}-{row.key.year} left out: not in the released map"
        for row in excluded_records
      ),
      "versions": cross_check.count_versions(numbered_records),
    },
  )


def _make_comment_records(
  files: Mapping[str, pathlib.Path],
  segments: Sequence[events.DatedSegment],
  event_ids: Sequence[Hashable],
  map_function: Callable[..., Iterable],
) -> tuple[list[tuple[Record, Hashable]], dict[str, Any]]:
  """Returns the commentary, each with the event it explains, and its audit."""
  annotated_segments = [
    (segment, event)
    for segment, event in zip(segments, event_ids, strict=True)
    if segment.source in (base_texts.ANNALS, base_texts.ZUOZHUAN)
  ]
  anchor = text_alignment.Anchor.from_segments(
    [(segment.text, segment.key) for segment, _ in annotated_segments]
  )
  comments, audit = commentary.parse_works(files, anchor, map_function)
  comment_records = []
  for comment in comments:
    record = Record(
      "",
      comment.text,
      comment.source,
      NEG_COMMENT,
      comment.key,
      0,
      match_score=comment.match_score,
    )
    event = (
      None
      if comment.segment_index is None
      else annotated_segments[comment.segment_index][1]
    )
    comment_records.append((record, event))
  return comment_records, audit


def _split_by_timeline(
  records_with_events: Iterable[tuple[Record, Hashable]], timeline: Timeline
) -> tuple[list[tuple[Record, Hashable]], list[Record]]:
  """Returns the records of months that exist, and those of other months."""
  orders: collections.Counter[str] = collections.Counter()
  timeline_records, excluded_records = [], []
  for record, event in records_with_events:
    # Counted before the selection: a gap in the order shows what is left out.
    record = dataclasses.replace(record, order=orders[record.source])
    orders[record.source] += 1
    if record.key in timeline:
      timeline_records.append((record, event))
    else:
      excluded_records.append(record)
  return timeline_records, excluded_records


def name_versions(
  records_with_events: Sequence[tuple[Record, Hashable]], seed: int
) -> list[Record]:
  """Returns the records with versions `v00000`..., in the given order.

  Records of equal events share a version, one whose event is None has none. The
  numbers are shuffled, so that they tell nothing about time.
  """
  event_ids = list(
    dict.fromkeys(e for _, e in records_with_events if e is not None)
  )
  random.Random(seed).shuffle(event_ids)
  names = {event: f"v{number:05d}" for number, event in enumerate(event_ids)}
  return [
    dataclasses.replace(record, version=names.get(event, ""))
    for record, event in records_with_events
  ]


def read_entries(
  files: Mapping[str, pathlib.Path], map_function: Callable[..., Iterable] = map
) -> tuple[list[base_texts.Entry], int]:
  """Returns the entries of all base texts and how many have no year.

  Args:
    files: name -> path, as in `checksums.tsv`.
    map_function: `map` or what does the same with several processes.
  """
  numbered_files = [
    (path, layers)
    for folder, layers in _NUMBERED_SOURCES.items()
    for path in source_files.select_folder_files(files, folder)
  ]
  line_files = [
    (path, source)
    for folder, source in _LINE_SOURCES.items()
    for path in source_files.select_folder_files(files, folder)
  ]
  entries: list[base_texts.Entry] = []
  num_undated = 0
  for file_entries, num_without_year in map_function(
    base_texts.parse_numbered_entries, *zip(*numbered_files, strict=True)
  ):
    entries += file_entries
    num_undated += num_without_year
  for file_entries in map_function(
    base_texts.parse_line_entries, *zip(*line_files, strict=True)
  ):
    entries += file_entries
  return entries, num_undated


def match_works(
  entries: Sequence[base_texts.Entry],
  map_function: Callable[..., Iterable] = map,
) -> dict[str, list[events.EventMatch]]:
  """Returns tradition -> its matches with the annals."""
  by_source = {
    source: [entry for entry in entries if entry.source == source]
    for source in base_texts.BASE_SOURCES
  }
  annals_entries = by_source.pop(base_texts.ANNALS)
  work_matches = map_function(
    functools.partial(events.match_events, annals_entries),
    by_source.values(),
  )
  return dict(zip(by_source, work_matches, strict=True))


def date_pieces(
  pieces: Iterable[tuple[base_texts.Entry, Sequence[int]]],
) -> list[events.DatedSegment]:
  """Returns the events of entries cut where the month changes, in order.

  Each source is one scan: 經 and 傳 of a year stand one after the other in
  KR1e0001, and the second begins at 正月 again.
  """
  scanners: dict[str, annals.MonthScanner] = collections.defaultdict(
    annals.MonthScanner
  )
  segments = []
  for entry, starts in pieces:
    scanner = scanners[entry.source]
    scanner.enter_reign(entry.reign)
    if entry.year is not None:
      scanner.enter_year(entry.year)
    stop_particles = (
      _EXPLAINING_PARTICLES if entry.source in events.EXEGETIC else ""
    )
    for start, end in itertools.pairwise([*starts, len(entry.text)]):
      for text, key in annals.split_entry_by_month(
        entry.text[start:end], scanner, stop_particles
      ):
        # A cut at a month starts later in the same entry.
        position = events.TextPosition(entry.location, start)
        segments.append(events.DatedSegment(entry.source, text, key, position))
        start += len(text)
  return segments


@contextlib.contextmanager
def _worker_map(processes: int) -> Iterator[Callable[..., Iterable]]:
  """Yields `map`, by this many processes."""
  if processes == 1:
    yield map
    return
  with concurrent.futures.ProcessPoolExecutor(
    # Not fork: the parent may hold threads of TensorFlow or JAX.
    processes,
    multiprocessing.get_context("spawn"),
  ) as pool:
    yield pool.map
