"""The authors' two demonstration files, read as their own script reads them.

A row has a date in several forms, which do not always agree; rows are grouped
by the key of the mode, and oddities of a row are noted.
"""

import collections
import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ctd_jax.benchmark import benchmark
from ctd_jax.benchmark.benchmark import EVENT, Record
from ctd_jax.chronology import dates, numerals, questions, reigns
from ctd_jax.chronology.reigns import (
  MONTHS_PER_YEAR,
  Interval,
  TimeKey,
  Timeline,
)
from ctd_jax_datasets.chunqiutr import release_months
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.base_builder import number_records
from ctd_jax_datasets.common.source_files import (
  FileNotes,
  SourceError,
  format_value,
)
from ctd_jax_datasets.zztj.gallery import SEED, number_queries

TRADITIONAL, AD, STRICT = MODES = ("traditional", "ad", "strict")
QI, JIN = SUBSETS = ("qi", "jin")
# Names in the released documents.
SUBSET_NAMES: Mapping[str, str] = {QI: "齐纪", JIN: "晋纪"}
_URL = release_months.FILES[release_months.MONTHS_FILE].url.rpartition("/")[0]
FILE_BLOBS: Mapping[str, source_files.Blob] = {
  "zztj-qiji-part-demo.jsonl": source_files.Blob(
    f"{_URL}/zztj-qiji-part-demo.jsonl",
    "4d95e75efef9a92be16db2be473f9ede2765eda6",
  ),
  "zztj-jinji-demo.jsonl": source_files.Blob(
    f"{_URL}/zztj-jinji-demo.jsonl",
    "c412cb4b141dcf8c0cb673774f1f581042d58d14",
  ),
}
FILE_BY_SUBSET: Mapping[str, str] = dict(zip(SUBSETS, FILE_BLOBS, strict=True))
# Calendars of the parts: in 齊紀 建元 is not an era of 晉.
TIMELINE_BY_SUBSET: Mapping[str, str] = {QI: "tongjian_qi", JIN: "tongjian_jin"}
# (subset, mode) -> published numbers of documents and queries.
PUBLISHED_SIZES: Mapping[tuple[str, str], tuple[int, int]] = {
  (QI, TRADITIONAL): (266, 92),
  (QI, AD): (258, 88),
  (QI, STRICT): (204, 82),
  (JIN, TRADITIONAL): (818, 119),
  (JIN, AD): (818, 95),
  (JIN, STRICT): (818, 95),
}
_MEMBERS = ("id", "time", "title", "description", "source")
# The day may be missing or be words; year and month are numbers.
_TIME_PATTERN = re.compile(r"(\d{1,4})-(\d{1,4})(?:-|$)")
_STRICT_TIME_PATTERN = re.compile(r"\d{4}-\d{2}-[^-]+")


@dataclasses.dataclass(frozen=True)
class DemoRow:
  """A usable row of a file."""

  line: int  # number in the file, from 1
  # The members `id`, `time`, `title`, `description` and `source`.
  texts: Mapping[str, str]
  emperor: str  # "" without one, as for the other texts
  reign: str
  era_year: int | None  # None if it is not given
  ad_year: int | None  # None if it is not given
  # `lunar_month_label`, else the name of `lunar_month`, else the season.
  month_label: str
  day: str

  @property
  def year_month(self) -> tuple[int, int] | None:
    """(year, month) of the member `time`, None if it does not give both."""
    match = _TIME_PATTERN.match(self.texts["time"])
    if match is None:
      return None
    year, month = int(match[1]), int(match[2])
    return (year, month) if 1 <= month <= 12 else None

  @property
  def reign_date(self) -> str:
    """The row's own date in words: 「晋世祖武皇帝泰始元年三月」."""
    year = ""
    if self.era_year is not None:
      number = numerals.format_numeral(self.era_year)
      year = ("元" if self.era_year == 1 else number) + "年"
    return f"{self.emperor}{self.reign}{year}{self.month_label}"

  def format_date(self, mode: str) -> str:
    """Returns the date as the released script writes it in queries and texts.

    By reign in the mode `traditional`, if the row has one; else by the common
    era, 「公元479年正月」, as the member `time` has it: the year 0000 too.

    Args:
      mode: one of `MODES`, in which `group_key` is not None.
    """
    if mode == TRADITIONAL and self.reign:
      return self.reign_date
    year, month = self.year_month
    return f"公元{year}年{_name_month(month)}"

  @property
  def body(self) -> str:
    """Title and description, the title once."""
    title, description = self.texts["title"], self.texts["description"]
    return description if title in description else f"{title}\n{description}"

  def group_key(self, mode: str) -> tuple | None:
    """Returns the released script's group for a row, None to drop it."""
    if mode == TRADITIONAL:
      if self.reign and self.era_year is not None and self.month_label:
        return self.emperor, self.reign, self.era_year, self.month_label
    elif mode == STRICT and not _STRICT_TIME_PATTERN.fullmatch(
      self.texts["time"]
    ):
      return None
    return self.year_month

  def format_dated_document(self, subset: str, mode: str) -> str:
    """Returns the body with the gold date in front, as it is released."""
    date = self.format_date(mode)
    day = f"（{self.day}）" if self.day else ""
    return f"【{SUBSET_NAMES[subset]} {date}{day}】\n{self.body}"


def read_rows(path: pathlib.Path, name: str, notes: FileNotes) -> list[DemoRow]:
  """Returns the rows of a file without its headers.

  Args:
    name: name in `FILE_BLOBS`, whose blob id the file should have.
  """
  rows, num_rows = [], 0
  text = source_files.read_blob(path, FILE_BLOBS[name], notes)
  # Not splitlines: a text may hold other line separators of Unicode.
  for line, row_text in enumerate(text.split("\n"), start=1):
    if not row_text.strip():
      continue
    num_rows += 1
    location = f"line {line}"
    value = source_files.expect_type(
      source_files.parse_json(row_text, notes, location), dict, location
    )
    row = _parse_row(value, line, notes)
    if row is None:
      notes.add(location, "a row that describes the file; left out")
    else:
      rows.append(row)
  notes.facts["rows"] = num_rows
  if not rows:
    raise SourceError("no row with a date; expected JSON lines")
  return rows


def _parse_row(
  value: Mapping[str, Any], line: int, notes: FileNotes
) -> DemoRow | None:
  """Returns a row, None for one that describes the file."""
  location = f"line {line}"
  texts = {
    name: source_files.get_member(value, name, str, location)
    for name in _MEMBERS
  }
  meta = source_files.get_member(value, "time_meta", dict, location)

  def get_text(name: str) -> str:
    field_value = meta.get(name)
    if field_value is None:
      return ""
    return source_files.expect_type(
      field_value, str, f"{location}.time_meta.{name}"
    ).strip()

  def get_integer(name: str) -> int | None:
    field_value = meta.get(name)
    if field_value in (None, ""):
      return None
    try:
      return source_files.parse_integer(
        field_value, f"{location}.time_meta.{name}"
      )
    except SourceError as error:
      notes.add(str(error), "a number is none; read as not given")
      return None

  # A header describes the whole file: its id says so, or it spans years.
  is_year_span = meta.get("start_ad_year") or meta.get("end_ad_year")
  if "meta" in texts["id"] or (is_year_span and not get_text("reign")):
    return None
  month = get_integer("lunar_month") or 0
  name = _name_month(month) if 1 <= month <= 12 else ""
  era_year = get_integer("era_year")
  # No era lasted a century; a larger number is a slip for the common era.
  if era_year is not None and not 1 <= era_year <= 99:
    notes.add(
      location, "a number is none; read as not given", f"era_year {era_year}"
    )
    era_year = None
  return DemoRow(
    line,
    texts,
    get_text("emperor"),
    get_text("reign"),
    era_year,
    get_integer("ad_year"),
    get_text("lunar_month_label") or name or get_text("season"),
    get_text("day_ganzhi"),
  )


def _name_month(month: int) -> str:
  """Returns 正月 for 1, 二月 for 2."""
  return ("正" if month == 1 else numerals.format_numeral(month)) + "月"


QUERY_TEMPLATE = "请问{time_text}发生了什么事？"

_YEAR = re.compile(r"\d{1,4}")  # of the common era
_NUMBERED_MONTH = re.compile(rf"(正|{numerals.NUMERAL_PATTERN})月")
_SEASON_LABEL = re.compile(r"[春夏秋冬]")
_DASHES = ("—", "——", "-", "－")
# Why a row without a key is left out, by mode.
_NO_KEY = "neither reign, year and label nor a numeric time; left out"
_WHY_UNKEYED = {
  TRADITIONAL: _NO_KEY,
  AD: _NO_KEY,
  STRICT: "time is not YYYY-MM-x with a numeric month; left out",
}


@dataclasses.dataclass(frozen=True)
class DemoBenchmark:
  """A demonstration file as a benchmark."""

  # Sorted by id; `order` is the line in the file, from 0.
  records: tuple[Record, ...]
  # Record id -> the months that the row's date means.
  intervals: Mapping[str, Interval]
  queries: tuple[benchmark.Query, ...]  # one for every key, sorted by id
  notes: FileNotes  # oddities of the file


def read_demo(
  path: pathlib.Path,
  subset: str,
  mode: str = TRADITIONAL,
  released_text: bool = False,
  seed: int = SEED,
) -> DemoBenchmark:
  """Returns the benchmark of one file.

  `mode`, one of `MODES`, groups the rows; with `released_text` the gold date
  is in front of every document. What cannot be read is a SourceError with
  file and line.
  """
  notes = FileNotes()
  with source_files.reading(path, notes):
    rows = read_rows(path, FILE_BY_SUBSET[subset], notes)
    groups, intervals = _group_rows(rows, subset, mode, notes)
  records = number_records(
    [
      Record(
        "",
        row.format_dated_document(subset, mode) if released_text else row.body,
        row.texts["source"],
        EVENT,
        intervals[row.line].start,
        row.line - 1,
      )
      for row in rows
      if row.line in intervals
    ],
    seed,
  )
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
  sizes, published_sizes = (
    (len(records), len(query_rows)),
    PUBLISHED_SIZES[subset, mode],
  )
  notes.facts |= dict(zip(("documents", "queries"), sizes, strict=True))
  if not notes.count(source_files.FILE_DIFFERS) and sizes != published_sizes:
    notes.add(
      f"{subset}, {mode}",
      "the released file has other sizes than published",
      "{} documents, {} queries; published {}, {}".format(
        *sizes, *published_sizes
      ),
    )
  return DemoBenchmark(
    tuple(
      dataclasses.replace(record, version=f"v{record.record_id[1:]}")
      for record in records
    ),
    {id_by_line[line]: interval for line, interval in intervals.items()},
    tuple(number_queries(query_rows, seed)),
    notes,
  )


def _group_rows(
  rows: Sequence[DemoRow], subset: str, mode: str, notes: FileNotes
) -> tuple[dict[tuple, list[DemoRow]], dict[int, Interval]]:
  """Returns rows by the key of the mode, and line -> months of its date."""
  date_reader = _DateReader(
    reigns.load_timeline(TIMELINE_BY_SUBSET[subset]), notes
  )
  groups: dict[tuple, list[DemoRow]] = collections.defaultdict(list)
  intervals: dict[int, Interval] = {}
  for row in rows:
    key = row.group_key(mode)
    # Read even if the row is dropped: a leap month follows the row before it.
    interval = date_reader.read_interval(row)
    location = f"line {row.line}"
    if key is None:
      notes.add(location, _WHY_UNKEYED[mode], row.texts["time"])
      continue
    if mode == TRADITIONAL and len(key) == 2:
      notes.add(
        location,
        "reign, year or label is null; the key is from `time`",
        row.texts["time"],
      )
    elif mode != TRADITIONAL and row.year_month and row.year_month[0]:
      interval = date_reader.month_interval(*row.year_month, location)
    groups[key].append(row)
    intervals[row.line] = interval
  return groups, intervals


class _DateReader:
  """Reader of the dates of consecutive rows."""

  def __init__(self, timeline: Timeline, notes: FileNotes):
    self._timeline = timeline
    self._notes = notes
    self._last_month: TimeKey | None = None

  def month_interval(self, year: int, month: int, location: str) -> Interval:
    """Returns the interval of a month of the common era's year."""
    keys = reigns.keys_of_year(self._timeline, year)
    if not keys:
      first, last = self._timeline.key_at(0), self._timeline.months[-1]
      raise SourceError(
        f"{location}: the year {year} lies outside "
        f"{reigns.astronomical_year_of(self._timeline, first)}-"
        f"{reigns.astronomical_year_of(self._timeline, last)}"
      )
    return Interval.single_month(keys[month - 1])

  def read_interval(self, row: DemoRow) -> Interval:
    """Returns the months that the date of a row means."""
    location = f"line {row.line}"
    year = row.texts["time"].partition("-")[0]
    ad_year = int(year) if _YEAR.fullmatch(year) else row.ad_year
    if not ad_year:
      self._notes.add(location, "`time` is in the year 0000", row.texts["time"])
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
        self._notes.add(
          location,
          "reign and year are another year than `time`",
          f"{row.reign_date}, {ad_year}",
        )
    return self._read_month_label(row, first, location)

  def _read_reign_phrase(self, row: DemoRow, location: str) -> Interval | None:
    """Returns the months of a reign that is a date: 「咸宁四年, 十二月」."""
    for words in (row.reign, re.split("[,，]", row.reign)[0]):
      with contextlib.suppress(numerals.DateError):
        interval = questions.parse_interval(words, self._timeline)
        self._notes.add(
          location, "the reign is a whole date, which is read", row.reign
        )
        self._last_month = interval.end
        return interval
    return None

  def _read_month_label(
    self, row: DemoRow, first: TimeKey, location: str
  ) -> Interval:
    """Returns the meaning of a month's label in the year from `first` on."""
    year = self._timeline.year_interval(first.reign, first.year)
    label = numerals.fold_script(row.month_label)
    if month := _parse_numbered_month(label):
      key = dataclasses.replace(first, month=month)
      if row.year_month and row.year_month[1] != month:
        self._notes.add(
          location, "the label is another month than `time`", row.texts["time"]
        )
      self._last_month = key
      return Interval.single_month(key)
    if _SEASON_LABEL.fullmatch(label):
      self._notes.add(
        location, "a season for a month counts as three months", row.month_label
      )
      # Spring is months 1-3 of the calendar.
      start = 3 * dates.SEASONS.index(label) + 1
      return Interval(
        dataclasses.replace(first, month=start),
        dataclasses.replace(first, month=start + 2),
      )
    if label.startswith("閏"):
      self._notes.add(
        location,
        "闰月 is the month it names, or of the row before",
        row.texts["time"],
      )
      if month := _parse_numbered_month(label.removeprefix("閏")):
        return Interval.single_month(dataclasses.replace(first, month=month))
      # 閏月 without a number follows the month of the row before.
      if self._last_month is not None and self._last_month in year:
        return Interval.single_month(self._last_month)
      return year
    self._notes.add(
      location,
      "— for a month: a volume heading, no event"
      if row.month_label in _DASHES
      else "无月, 是岁 or the like counts as the whole year",
      row.month_label,
    )
    return year


def _parse_numbered_month(label: str) -> int | None:
  """Returns the number of 「三月」 in folded text, None of anything else."""
  match = _NUMBERED_MONTH.fullmatch(label)
  month = numerals.parse_numeral(match[1], "month") if match else 0
  return month if 1 <= month <= MONTHS_PER_YEAR else None
