"""The authors' two demonstration files, read as their own script reads them.

The published cross-corpus numbers are over these rows, keyed in one of three
ways; the sizes must come out the same, and every oddity behind a "month" is
counted for the user.

The text of a document is its body. The released script writes the gold date
in front of it, 「【齐纪 建元元年四月（甲午）】」, which turns retrieval into
finding a string; `released_text` gives that variant for comparison. A date is
written as the mode reads it: by reign, or 「公元479年四月」.

A key is the group of rows that the script makes and need not be a month:
「无月」 and 「是岁」 mean a year, 「冬」 a season. Queries and records get the
interval that the words mean, on the timeline of 齊紀 or 晉紀; the key alone
decides which rows answer a query.

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
from ctd_jax.benchmark.records import EVENT, Record
from ctd_jax.chronology import (
  date_expressions,
  numerals,
  query_dates,
  reign_tables,
)
from ctd_jax.chronology.timelines import (
  MONTHS_PER_YEAR,
  Interval,
  TimeKey,
  Timeline,
)
from ctd_jax_datasets.common import git_blobs, json_values
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.common.findings import FindingsReport
from ctd_jax_datasets.common.json_values import format_value
from ctd_jax_datasets.common.numbering import number_records
from ctd_jax_datasets.zztj.gallery import SEED, number_queries
from ctd_jax_datasets.zztj.released_rows import (
  FILE_BLOBS,
  FILE_BY_SUBSET,
  MEANINGS,
  MODES,
  PUBLISHED_SIZES,
  STRICT,
  SUBSETS,
  TIMELINE_BY_SUBSET,
  TRADITIONAL,
  DemoRow,
  read_rows,
)

QUERY_TEMPLATE = "请问{time_text}发生了什么事？"

_YEAR = re.compile(r"\d{1,4}")  # of the common era
_NUMBERED_MONTH = re.compile(rf"(正|{numerals.NUMERAL_PATTERN})月")
_SEASON_LABEL = re.compile(r"[春夏秋冬]")
_DASHES = ("—", "——", "-", "－")


@dataclasses.dataclass(frozen=True)
class DemoBenchmark:
  """A demonstration file as a benchmark.

  Attributes:
    records: sorted by id; `order` is the line in the file, from 0.
    intervals: record id -> the months that the row's date means.
    queries: one for every key, sorted by id.
    report: oddities of the file.
  """

  records: tuple[Record, ...]
  intervals: Mapping[str, Interval]
  queries: tuple[queries.Query, ...]
  report: FindingsReport


def locate_demo_file(
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
  name = FILE_BY_SUBSET[subset]
  blobs = {name: FILE_BLOBS[name]}
  if folder is not None:
    urls = git_blobs.get_urls(blobs)
    return git_blobs.find_folder_files(folder, urls)[name]
  return git_blobs.download_blobs(manager, blobs)[name]


def read_demo(
  path: pathlib.Path,
  subset: str,
  mode: str = TRADITIONAL,
  released_text: bool = False,
  seed: int = SEED,
) -> DemoBenchmark:
  """Returns the benchmark of one file.

  Args:
    path: JSON lines in the authors' schema.
    subset: one of `SUBSETS`; its calendar dates the rows.
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
  report = FindingsReport(MEANINGS)
  with json_values.prefix_file_errors(path):
    rows = read_rows(path, FILE_BY_SUBSET[subset], report)
    return _build_demo(rows, subset, mode, released_text, seed, report)


def _build_demo(
  rows: Sequence[DemoRow],
  subset: str,
  mode: str,
  released_text: bool,
  seed: int,
  report: FindingsReport,
) -> DemoBenchmark:
  """Returns the benchmark of rows, grouped by key."""
  timeline = reign_tables.load_timeline(TIMELINE_BY_SUBSET[subset])
  date_reader = _DateReader(timeline, report)
  groups: dict[tuple, list[DemoRow]] = collections.defaultdict(list)
  intervals: dict[int, Interval] = {}
  for row in rows:
    key = row.group_key(mode)
    # Read even if the row is dropped: a leap month follows the row before it.
    interval = date_reader.read_interval(row)
    location = f"line {row.line}"
    if key is None:
      code = "no_strict_time" if mode == STRICT else "no_key"
      report.add(code, location, row.texts["time"])
      continue
    if mode == TRADITIONAL and len(key) == 2:
      report.add("key_from_time", location, row.texts["time"])
    elif mode != TRADITIONAL and row.year_month and row.year_month[0]:
      interval = date_reader.month_interval(*row.year_month, location)
    if not row.body.strip():
      report.add("text_empty", location)
    groups[key].append(row)
    intervals[row.line] = interval
  for key, members in groups.items():
    line_by_wording = {row.reign_date: row.line for row in members}
    if len(line_by_wording) > 1:
      report.add("key_mixed", f"lines {list(line_by_wording.values())}", key)
  texts = {
    row.line: row.format_dated_document(subset, mode)
    if released_text
    else row.body
    for members in groups.values()
    for row in members
  }
  records = _make_records(rows, texts, intervals, seed)
  id_by_line = {record.order + 1: record.record_id for record in records}
  query_rows = [
    (
      QUERY_TEMPLATE.format(time_text=members[0].format_date(mode)),
      Interval(
        min(intervals[row.line].start for row in members),
        max(intervals[row.line].end for row in members),
      ),
      tuple(sorted(id_by_line[row.line] for row in members)),
    )
    # Sorted like the released script's: file order must not show in ids.
    for _, members in sorted(groups.items(), key=lambda item: str(item[0]))
  ]
  _check_sizes((len(records), len(query_rows)), subset, mode, report)
  return DemoBenchmark(
    records,
    {id_by_line[line]: interval for line, interval in intervals.items()},
    tuple(number_queries(query_rows, seed)),
    report,
  )


def _check_sizes(
  sizes: tuple[int, int], subset: str, mode: str, report: FindingsReport
) -> None:
  """Notes documents and queries; of the released file both are published."""
  report.facts |= dict(zip(("documents", "queries"), sizes, strict=True))
  published_sizes = PUBLISHED_SIZES[subset, mode]
  if not report.count("file_differs") and sizes != published_sizes:
    report.add(
      "size_differs",
      f"{subset}, {mode}",
      "{} documents, {} queries; published {}, {}".format(
        *sizes, *published_sizes
      ),
    )


def _make_records(
  rows: Sequence[DemoRow],
  texts: Mapping[int, str],
  intervals: Mapping[int, Interval],
  seed: int,
) -> tuple[Record, ...]:
  """Returns records sorted by id.

  Args:
    rows: of the file, in order.
    texts: line -> text of the record; rows without a key have none.
    intervals: line -> the months that its date means.
    seed: shuffles the numbers of the ids.
  """
  return tuple(
    dataclasses.replace(record, version=f"v{record.record_id[1:]}")
    for record in number_records(
      [
        Record(
          "",
          texts[row.line],
          row.texts["source"],
          EVENT,
          intervals[row.line].start,
          row.line - 1,
        )
        for row in rows
        if row.line in texts
      ],
      seed,
    )
  )


class _DateReader:
  """Reader of the dates of consecutive rows."""

  def __init__(self, timeline: Timeline, report: FindingsReport):
    self._timeline = timeline
    self._report = report
    self._last_month: TimeKey | None = None

  def month_interval(self, year: int, month: int, location: str) -> Interval:
    """Returns the interval of a month of the common era's year.

    Raises:
      SourceError: if the timeline has no such year.
    """
    keys = reign_tables.keys_of_year(self._timeline, year)
    if not keys:
      first, last = self._timeline.key_at(0), self._timeline.months[-1]
      raise SourceError(
        f"{location}: the year {year} lies outside "
        f"{reign_tables.astronomical_year_of(self._timeline, first)}-"
        f"{reign_tables.astronomical_year_of(self._timeline, last)}"
      )
    return Interval.single_month(keys[month - 1])

  def read_interval(self, row: DemoRow) -> Interval:
    """Returns the months that the date of a row means.

    Raises:
      SourceError: if it names no year.
    """
    location = f"line {row.line}"
    year = row.texts["time"].partition("-")[0]
    ad_year = int(year) if _YEAR.fullmatch(year) else row.ad_year
    if not ad_year:
      self._report.add("year_zero", location, row.texts["time"])
      interval = self._read_reign_phrase(row, location)
      if interval is not None:
        return interval
      ad_year = row.ad_year
    if not ad_year:
      raise SourceError(
        f"{location}: no year in `time` ({format_value(row.texts['time'])}), "
        f"none in ad_year and none in the reign ({format_value(row.reign)})"
      )
    first = self.month_interval(ad_year, 1, location).start
    reign = self._timeline.reigns[first.reign - 1]
    if row.reign and row.era_year is not None:
      row_era = numerals.fold_script(row.reign), row.era_year
      spellings = {
        numerals.fold_script(n) for n in (reign.name, *reign.aliases)
      }
      if row_era[0] not in spellings or row_era[1] != first.year:
        self._report.add("era_not_ad", location, f"{row.reign_date}, {ad_year}")
    return self._read_month_label(row, first, location)

  def _read_reign_phrase(self, row: DemoRow, location: str) -> Interval | None:
    """Returns the months of a reign that is a date: 「咸宁四年, 十二月」.

    If what follows the comma cannot be read, the year counts.
    """
    for words in (row.reign, re.split("[,，]", row.reign)[0]):
      with contextlib.suppress(numerals.DateError):
        interval = query_dates.parse_interval(words, self._timeline)
        self._report.add("reign_phrase", location, row.reign)
        self._last_month = interval.end
        return interval
    return None

  def _read_month_label(
    self, row: DemoRow, first: TimeKey, location: str
  ) -> Interval:
    """Returns what the month's label means in the year that begins `first`."""
    year = self._timeline.year_interval(first.reign, first.year)
    label = numerals.fold_script(row.month_label)
    if month := _parse_numbered_month(label):
      key = dataclasses.replace(first, month=month)
      if row.year_month and row.year_month[1] != month:
        self._report.add("label_not_time", location, row.texts["time"])
      self._last_month = key
      return Interval.single_month(key)
    if _SEASON_LABEL.fullmatch(label):
      self._report.add("label_season", location, row.month_label)
      # Spring is months 1-3 of the calendar.
      start = 3 * date_expressions.SEASONS.index(label) + 1
      return Interval(
        dataclasses.replace(first, month=start),
        dataclasses.replace(first, month=start + 2),
      )
    if label.startswith("閏"):
      self._report.add("label_leap", location, row.texts["time"])
      if month := _parse_numbered_month(label.removeprefix("閏")):
        return Interval.single_month(dataclasses.replace(first, month=month))
      # 閏月 without a number follows the month of the row before.
      if self._last_month is not None and self._last_month in year:
        return Interval.single_month(self._last_month)
      return year
    code = "label_dash" if row.month_label in _DASHES else "label_no_month"
    self._report.add(code, location, row.month_label)
    return year


def _parse_numbered_month(label: str) -> int | None:
  """Returns the number of 「三月」 in folded text, None of anything else."""
  match = _NUMBERED_MONTH.fullmatch(label)
  month = numerals.parse_numeral(match[1], "month") if match else 0
  return month if 1 <= month <= MONTHS_PER_YEAR else None
