"""Gallery and questions of `zztj/rebuilt`: source files in, data out.

The year of an entry is that of the heading it is printed under; its month is
that of a scan, which reads the dates that open an entry and carries them on.
"""

import collections
import dataclasses
import pathlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.benchmark import benchmark
from ctd_jax.benchmark.benchmark import (
  EVENT,
  NEG_COMMENT,
  Record,
  collect_months,
)
from ctd_jax.chronology import annals, dates, numerals
from ctd_jax.chronology.reigns import Interval, TimeKey, Timeline
from ctd_jax_datasets.common.base_builder import number_records
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.zztj import editions

# In a punctuated text a season is set off, or a month follows it. Elsewhere the
# character belongs to a word: the state 夏, the general 麻秋, 冬至.
_NON_SEASON_PATTERN = re.compile(
  rf"[{dates.SEASONS}](?![，、]|閏?(?:正|{numerals.NUMERAL_PATTERN})?月)"
)
# An entry with one of these openings looks back; its dates move no scan.
_RETROSPECTIVE_OPENINGS = ("初，", "先是，", "初、", "始，", "昔，")


@dataclasses.dataclass
class ChronicleScanner(annals.MonthScanner):
  """The date that a reader carries through the chronicle."""

  # Whether a season that begins again opens the next year. For texts without
  # year headings; the year is then any running number.
  counts_years: bool = False
  season: int = 0  # 0 = none yet, 1 = 春 ... 4 = 冬

  def enter_year(self, year: int) -> None:
    """Goes to 正月 of `year`, unless the scan is already in it."""
    if year != self.year:
      self.season = 0
    super().enter_year(year)

  def advance_by_cue(self, cue: dates.DateCue) -> TimeKey | None:
    """Returns the month after reading one date cue.

    As in the annals, but 閏月 belongs to the month it follows, whichever that
    is: the calendar of the period puts it anywhere.
    """
    if cue.leap and cue.month is None:
      return self.key
    if cue.season is not None:
      self.season = dates.SEASONS.index(cue.season) + 1
    return super().advance_by_cue(cue)

  def read_entry_month(self, text: str) -> TimeKey | None:
    """Returns the month of an entry: the scan after its opening date."""
    for cue in annals.find_opening_cues(text):
      if self.counts_years and self._opens_year(cue):
        self.enter_year(self.year + 1)
      self.advance_by_cue(cue)
    return self.key

  def _opens_year(self, cue: dates.DateCue) -> bool:
    """Returns whether a cue can only belong to another year."""
    if not self.year or cue.year is not None:
      return False
    if cue.season is not None:
      return dates.SEASONS.index(cue.season) + 1 <= self.season
    return cue.month == 1 and not cue.leap and self.month > 1


def date_entry(
  text: str, scanner: ChronicleScanner
) -> list[tuple[str, TimeKey]]:
  """Returns the segments of an entry with their months, and moves the scan.

  The segments join to `text`. There are none if the scan has no year yet. An
  entry that looks back does not move it.
  """
  if is_retrospective(text):
    return [(text, scanner.key)] if scanner.key else []
  # The mask has the same length, so segments of it are segments of the text.
  dated_segments, start = [], 0
  for segment, key in annals.split_entry_by_month(
    _NON_SEASON_PATTERN.sub("□", text), scanner
  ):
    dated_segments.append((text[start : start + len(segment)], key))
    start += len(segment)
  return dated_segments


def is_retrospective(text: str) -> bool:
  """Returns whether an entry looks back: 「初，…」."""
  return text.startswith(_RETROSPECTIVE_OPENINGS)


CHECKSUMS = pathlib.Path(__file__).with_name("checksums.tsv")
TIMELINE_NAME = "tongjian"
ANNALS_SOURCE, REMARKS_SOURCE = "zizhitongjian", "historians"
SOURCE_TITLES = {ANNALS_SOURCE: "資治通鑑", REMARKS_SOURCE: "資治通鑑史論"}
# Source -> folder of the files that its records are cut from.
SOURCE_FOLDERS: Mapping[str, str] = dict.fromkeys(
  (ANNALS_SOURCE, REMARKS_SOURCE), editions.PUNCTUATED_FOLDER
)
SEED = 69  # of the numbers of records and queries
BOOK_TITLE = "《資治通鑑》"
# The first two are the published wordings in Traditional script; the others
# were written for this data set.
QUERY_TEMPLATES = (
  "請問{date}發生了什麼事？",
  "{title}在{date}記載了什麼？",
  "查詢{title}，{date}這一月有什麼重要事件？",
  "{date}，朝廷與諸國各有何事？",
  "試檢{title}，{date}條下所書何事？",
  "請列出{title}所載{date}的全部史事。",
)


@dataclasses.dataclass(frozen=True)
class CollatedJuan:
  """A juan in both editions."""

  number: int  # number of the juan, 69-144
  punctuated_juan: editions.PunctuatedJuan
  printed_juan: editions.PrintedJuan  # as printed with its year headings
  # Of every entry, the position of its first character among the Chinese
  # characters of the juan, and the end of the last.
  entry_starts: tuple[int, ...]
  # Position of every printed character among them.
  text_positions: Int[np.ndarray, " P"]
  # First month of the printed year of every entry.
  entry_years: tuple[TimeKey, ...]


def collate_editions(
  files: Mapping[str, pathlib.Path], timeline: Timeline
) -> Iterator[CollatedJuan]:
  """Yields every juan of the source files, in order.

  Raises:
    SourceError: if a juan is there in one edition only, or the editions do not
      agree about where a year begins.
  """
  text_paths = _paths_by_juan(files, editions.PUNCTUATED_FOLDER)
  print_paths = _paths_by_juan(files, editions.PRINTED_FOLDER)
  if text_paths.keys() != print_paths.keys() or not text_paths:
    raise SourceError(
      f"{editions.PUNCTUATED_FOLDER}/ holds juan {sorted(text_paths)} and "
      f"{editions.PRINTED_FOLDER}/ juan {sorted(print_paths)}; both should "
      "hold the same, at least one"
    )
  next_key = timeline.key_at(0)
  for number in sorted(text_paths):
    punctuated_juan = editions.parse_punctuated_juan(text_paths[number])
    printed_juan = editions.parse_printed_juan(
      print_paths[number], timeline, next_key
    )
    entry_texts = [
      editions.extract_han(entry.text) for entry in punctuated_juan.entries
    ]
    entry_starts = [
      0,
      *np.cumsum([len(piece) for piece in entry_texts]).tolist(),
    ]
    text_positions = editions.align_positions(
      printed_juan.text, "".join(entry_texts)
    )
    year_starts = [
      int(text_positions[position])
      for position, _ in printed_juan.year_headings
    ]
    entry_years = []
    for entry, begin, end in zip(
      punctuated_juan.entries, entry_starts, entry_starts[1:], strict=False
    ):
      stretch = editions.find_stretch(year_starts, begin, end)
      if stretch is None:
        raise SourceError(
          f"{text_paths[number]}: {entry.location} stands before the first "
          f"year heading of {print_paths[number]}"
        )
      entry_years.append(printed_juan.year_headings[stretch][1])
    yield CollatedJuan(
      number,
      punctuated_juan,
      printed_juan,
      tuple(entry_starts),
      text_positions,
      tuple(entry_years),
    )
    # The next juan begins no earlier than the year after the last heading.
    last_year = printed_juan.year_headings[-1][1]
    _, end = timeline.interval_ordinals(
      timeline.year_interval(last_year.reign, last_year.year)
    )
    next_key = timeline.key_at(min(end + 1, len(timeline) - 1))


def _paths_by_juan(
  files: Mapping[str, pathlib.Path], folder: str
) -> dict[int, pathlib.Path]:
  """Returns number of the juan -> path; a name ends in three digits."""
  return {
    int(pathlib.PurePosixPath(name).stem[-3:]): path
    for name, path in files.items()
    if name.startswith(folder + "/")
  }


def build_gallery(
  files: Mapping[str, pathlib.Path], timeline: Timeline, seed: int = SEED
) -> tuple[tuple[Record, ...], dict[str, int]]:
  """Returns the records, sorted by id, and counts of the decisions.

  `files` are named as in `checksums.tsv`; one that is not what its parser
  expects is a SourceError. `seed` shuffles the numbers of records and events.
  """
  scanner = ChronicleScanner()
  records: list[Record] = []
  counts: collections.Counter[str] = collections.Counter()
  orders: collections.Counter[str] = collections.Counter()

  def add_record(source: str, kind: str, text: str, key: TimeKey):
    records.append(Record("", text, source, kind, key, orders[source]))
    orders[source] += 1

  for collated_juan in collate_editions(files, timeline):
    counts["juan"] += 1
    counts["year headings"] += len(collated_juan.printed_juan.year_headings)
    counts["year headings left out of the text"] += (
      collated_juan.punctuated_juan.num_headings
    )
    for entry, year in zip(
      collated_juan.punctuated_juan.entries,
      collated_juan.entry_years,
      strict=True,
    ):
      counts["entries"] += 1
      scanner.enter_reign(year.reign)
      scanner.enter_year(year.year)
      # A historian's judgement gets the month of the scan and does not move it.
      if entry.is_remark:
        add_record(REMARKS_SOURCE, NEG_COMMENT, entry.text, scanner.key)
        continue
      dated_segments = date_entry(entry.text, scanner)
      counts["entries cut at a month"] += len(dated_segments) > 1
      counts["entries that look back"] += is_retrospective(entry.text)
      for text, key in dated_segments:
        add_record(ANNALS_SOURCE, EVENT, text, key)
  counts["months with an event"] = len(collect_months(records))
  numbered_records = number_records(_with_versions(records, seed), seed)
  return numbered_records, dict(counts)


def _with_versions(records: Sequence[Record], seed: int) -> list[Record]:
  """Returns the records, every event with a number of its own."""
  events = sum(record.kind == EVENT for record in records)
  numbers = list(range(events))
  random.Random(seed).shuffle(numbers)
  remaining_numbers = iter(numbers)
  return [
    dataclasses.replace(record, version=f"v{next(remaining_numbers):05d}")
    if record.kind == EVENT
    else record
    for record in records
  ]


def make_point_queries(
  records: Sequence[Record], timeline: Timeline, seed: int = SEED
) -> list[benchmark.Query]:
  """Returns a point query for every month with an event, sorted by id.

  Args:
    records: the gallery; only id, kind and key are read.
    seed: deals the templates and shuffles the numbers of the ids.
  """
  by_month = benchmark.index_positives_by_month(records)
  query_rows = []
  rng = random.Random(f"zztj:{seed}")
  for key in sorted(by_month):
    date = dates.format_key(key, timeline)
    text = rng.choice(QUERY_TEMPLATES).format(date=date, title=BOOK_TITLE)
    query_rows.append((text, Interval.single_month(key), tuple(by_month[key])))
  return number_queries(query_rows, seed)


def number_queries(
  query_rows: Sequence[tuple[str, Interval, tuple[str, ...]]], seed: int
) -> list[benchmark.Query]:
  """Returns queries with shuffled numbers, sorted by id.

  `query_rows` have the text, the months asked for (one for a point, several for
  a window) and the ids of the answers. The numbers tell nothing about time.
  """
  shuffled_rows = list(query_rows)
  random.Random(seed).shuffle(shuffled_rows)
  numbered_queries = []
  for number, (text, interval, positives) in enumerate(shuffled_rows):
    is_single_month = interval.start == interval.end
    family = benchmark.POINT if is_single_month else benchmark.WINDOW
    numbered_queries.append(
      benchmark.Query(
        f"{family}-{number:05d}",
        text,
        family,
        "BASE_CONTENT",
        interval,
        positives,
        family,
      )
    )
  return sorted(numbered_queries, key=lambda query: query.query_id)
