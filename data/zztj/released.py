"""The two demonstration files of the authors, as their own script reads them.

Why: the published cross-corpus numbers are over these rows, keyed in one of
three ways; the sizes must come out the same, and a reader should be told what
is behind a "month". Every oddity is counted. Called by the builder.

The text of a document is its body. The released script writes the gold date
in front of it, 「【齐纪 建元元年四月（甲午）】」, which turns retrieval into
finding a string; `released_text` gives that variant for comparison.

A key is what the script groups rows by, and need not be a month: 「无月」 and
「是岁」 mean a year, 「冬」 a season. Queries and records get the interval that
the words mean, on the timeline `tongjian`; which rows answer a query is decided
by the key alone.

Source: specification 1.4 and 5.1 (schema, released script).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

import tensorflow_datasets as tfds

from ctd_jax.benchmark import queries
from ctd_jax.chronology import annals, date_expressions, numerals, reign_tables
from ctd_jax.chronology.annals import Record
from ctd_jax.chronology.timelines import (
  MONTHS_PER_YEAR,
  Interval,
  TimeKey,
  Timeline,
)
from ctd_jax_datasets.chunqiutr import git_blobs, release_json
from ctd_jax_datasets.chunqiutr.findings import Report
from ctd_jax_datasets.chunqiutr.records import number_records
from ctd_jax_datasets.chunqiutr.release_json import shown
from ctd_jax_datasets.chunqiutr.sources import SourceError
from ctd_jax_datasets.zztj.records import SEED, number_queries
from ctd_jax_datasets.zztj.released_rows import (
  FILE_OF,
  FILES,
  MEANINGS,
  MODES,
  PUBLISHED_SIZES,
  STRICT,
  SUBSETS,
  TRADITIONAL,
  Row,
  read_rows,
)

TEMPLATE = "请问{time_text}发生了什么事？"

_YEAR = re.compile(r"\d{1,4}")
_NUMBERED = re.compile(rf"(正|{numerals.NUMERAL})月")
_SEASON_LABEL = re.compile(r"[春夏秋冬]")
_DASHES = ("—", "——", "-", "－")


@dataclasses.dataclass(frozen=True)
class Demo:
  """A demonstration file as a benchmark.

  Attributes:
    records: sorted by id; `order` is the line in the file, from 0.
    intervals: record id -> the months that the row's date means.
    queries: one for every key, sorted by id.
    report: what was odd.
  """

  records: tuple[Record, ...]
  intervals: Mapping[str, Interval]
  queries: tuple[queries.Query, ...]
  report: Report


def file_of(
  manager: tfds.download.DownloadManager,
  subset: str,
  folder: str | os.PathLike | None = None,
) -> pathlib.Path:
  """Returns the path of the file of a subset.

  Args:
    manager: downloads it, if no folder is named.
    subset: one of `SUBSETS`.
    folder: that holds it, or a clone of the authors' repository.

  Raises:
    SourceError: if it is missing, cannot be downloaded, or was downloaded and
      is not the released one.
  """
  name = FILE_OF[subset]
  known = {name: FILES[name]}
  if folder is not None:
    urls = git_blobs.urls_of(known)
    return git_blobs.files_of_folder(folder, urls)[name]
  return git_blobs.download_files(manager, known)[name]


def read(
  path: pathlib.Path,
  subset: str,
  mode: str = TRADITIONAL,
  released_text: bool = False,
  seed: int = SEED,
) -> Demo:
  """Returns the benchmark of one file.

  Args:
    path: JSON lines in the authors' schema.
    subset: one of `SUBSETS`; only names documents of `released_text`.
    mode: how rows are grouped, one of `MODES`.
    released_text: whether the gold date stands in front of every document.
    seed: shuffles the numbers of the ids.

  Raises:
    SourceError: naming file and line of what cannot be read.
    ValueError: if there is no such subset or mode.
  """
  if subset not in SUBSETS or mode not in MODES:
    raise ValueError(
      f"no subset {subset!r} in mode {mode!r}; subsets: {', '.join(SUBSETS)}; "
      f"modes: {', '.join(MODES)}"
    )
  report = Report(MEANINGS)
  with release_json.in_file(path):
    rows = read_rows(path, FILE_OF[subset], report)
    return _demo(rows, subset, mode, released_text, seed, report)


def _demo(
  rows: Sequence[Row],
  subset: str,
  mode: str,
  released_text: bool,
  seed: int,
  report: Report,
) -> Demo:
  """Returns the benchmark of rows, grouped by key."""
  timeline = reign_tables.timeline("tongjian")
  dates = _Dates(timeline, report)
  groups: dict[tuple, list[Row]] = collections.defaultdict(list)
  intervals: dict[int, Interval] = {}
  for row in rows:
    key = row.key(mode)
    # Read even if the row is dropped: a leap month follows the row before it.
    interval = dates.read(row)
    place = f"line {row.line}"
    if key is None:
      code = "no_strict_time" if mode == STRICT else "no_key"
      report.add(code, place, row.texts["time"])
      continue
    if mode == TRADITIONAL and len(key) == 2:
      report.add("key_from_time", place, row.texts["time"])
    elif mode != TRADITIONAL and row.time and row.time[0]:
      interval = dates.month(*row.time, place)
    if not row.body.strip():
      report.add("text_empty", place)
    groups[key].append(row)
    intervals[row.line] = interval
  for key, members in groups.items():
    words = {row.time_text: row.line for row in members}
    if len(words) > 1:
      report.add("key_mixed", f"lines {list(words.values())}", key)
  records = _records(rows, groups, intervals, subset, released_text, seed)
  ids = {record.order + 1: record.record_id for record in records}
  asked = [
    (
      TEMPLATE.format(time_text=members[0].time_text),
      Interval(
        min(intervals[row.line].start for row in members),
        max(intervals[row.line].end for row in members),
      ),
      tuple(sorted(ids[row.line] for row in members)),
    )
    # Sorted like the released script's: file order must not show in ids.
    for _, members in sorted(groups.items(), key=lambda item: str(item[0]))
  ]
  _note_sizes((len(records), len(asked)), subset, mode, report)
  return Demo(
    records,
    {ids[line]: interval for line, interval in intervals.items()},
    tuple(number_queries(asked, seed)),
    report,
  )


def _note_sizes(
  found: tuple[int, int], subset: str, mode: str, report: Report
) -> None:
  """Notes documents and queries; of the released file both are published."""
  report.facts |= dict(zip(("documents", "queries"), found, strict=True))
  published = PUBLISHED_SIZES[subset, mode]
  if not report.count("file_differs") and found != published:
    report.add(
      "size_differs",
      f"{subset}, {mode}",
      "{} documents, {} queries; published {}, {}".format(*found, *published),
    )


def _records(
  rows: Sequence[Row],
  groups: Mapping[tuple, Sequence[Row]],
  intervals: Mapping[int, Interval],
  subset: str,
  released_text: bool,
  seed: int,
) -> tuple[Record, ...]:
  """Returns the rows that have a key as records, sorted by id."""
  kept = {row.line for members in groups.values() for row in members}
  return tuple(
    dataclasses.replace(record, version=f"v{record.record_id[1:]}")
    for record in number_records(
      [
        Record(
          "",
          row.document(subset, released_text),
          row.texts["source"],
          annals.EVENT,
          intervals[row.line].start,
          row.line - 1,
        )
        for row in rows
        if row.line in kept
      ],
      seed,
    )
  )


class _Dates:
  """Reads what the dates of consecutive rows mean."""

  def __init__(self, timeline: Timeline, report: Report):
    self._timeline = timeline
    self._report = report
    self._last: TimeKey | None = None

  def month(self, year: int, month: int, place: str) -> Interval:
    """Returns the interval of a month of the common era's year.

    Raises:
      SourceError: if the timeline has no such year.
    """
    keys = reign_tables.keys_of_year(self._timeline, year)
    if not keys:
      first, last = self._timeline.key(0), self._timeline.months[-1]
      raise SourceError(
        f"{place}: the year {year} lies outside "
        f"{reign_tables.year_of(self._timeline, first)}-"
        f"{reign_tables.year_of(self._timeline, last)}"
      )
    return Interval.month(keys[month - 1])

  def read(self, row: Row) -> Interval:
    """Returns the months that the date of a row means.

    Raises:
      SourceError: if it names no year.
    """
    place = f"line {row.line}"
    year = row.texts["time"].partition("-")[0]
    number = int(year) if _YEAR.fullmatch(year) else row.ad_year
    if not number:
      self._report.add("year_zero", place, row.texts["time"])
      interval = self._phrase(row, place)
      if interval is not None:
        return interval
      number = row.ad_year
    if not number:
      raise SourceError(
        f"{place}: no year in `time` ({shown(row.texts['time'])}), none in "
        f"ad_year and none in the reign ({shown(row.reign)})"
      )
    first = self.month(number, 1, place).start
    headed = self._timeline.reigns[first.reign - 1]
    if row.reign and row.era_year is not None:
      named = numerals.fold(row.reign), row.era_year
      spellings = {numerals.fold(n) for n in (headed.name, *headed.aliases)}
      if named[0] not in spellings or named[1] != first.year:
        self._report.add("era_not_ad", place, f"{row.time_text}, {number}")
    return self._label(row, first, place)

  def _phrase(self, row: Row, place: str) -> Interval | None:
    """Returns the months of a reign that is a date: 「咸宁四年, 十二月」.

    If what follows the comma cannot be read, the year counts.
    """
    for words in (row.reign, re.split("[,，]", row.reign)[0]):
      with contextlib.suppress(numerals.DateError):
        interval = date_expressions.parse_interval(words, self._timeline)
        self._report.add("reign_phrase", place, row.reign)
        self._last = interval.end
        return interval
    return None

  def _label(self, row: Row, first: TimeKey, place: str) -> Interval:
    """Returns what the month's label means in the year that begins `first`."""
    year = self._timeline.year(first.reign, first.year)
    label = numerals.fold(row.label)
    if month := _numbered(label):
      key = dataclasses.replace(first, month=month)
      if row.time and row.time[1] != month:
        self._report.add("label_not_time", place, row.texts["time"])
      self._last = key
      return Interval.month(key)
    if _SEASON_LABEL.fullmatch(label):
      self._report.add("label_season", place, row.label)
      start = 3 * date_expressions.SEASONS.index(label) + 1
      return Interval(
        dataclasses.replace(first, month=start),
        dataclasses.replace(first, month=start + 2),
      )
    if label.startswith("閏"):
      self._report.add("label_leap", place, row.texts["time"])
      if month := _numbered(label.removeprefix("閏")):
        return Interval.month(dataclasses.replace(first, month=month))
      if self._last is not None and self._last in year:
        return Interval.month(self._last)
      return year
    code = "label_dash" if row.label in _DASHES else "label_no_month"
    self._report.add(code, place, row.label)
    return year


def _numbered(label: str) -> int | None:
  """Returns the number of 「三月」 in folded text, None of anything else."""
  match = _NUMBERED.fullmatch(label)
  month = numerals.parse_numeral(match[1], "month") if match else 0
  return month if 1 <= month <= MONTHS_PER_YEAR else None
