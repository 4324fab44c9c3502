"""Reign tables: rulers and eras with their years, and years of the common era.

A regnal year means nothing without its table. The rows are facts in
`data/reigns/*.tsv`, each with the authority it comes from; this module reads
them into a `Timeline` and converts regnal years to years of the common era.

Years are astronomical: 0 = 1 BCE, -721 = 722 BCE.

Eras (「泰始」) differ from rulers in one way: an era begins within a year, so
the last numbered year of one and the first of the next can be the same
astronomical year (249 CE is both 正始十年 and 嘉平元年). `years` counts the
years as numbered, a `Timeline` gives each of them twelve months, and
`keys_of_year` returns all keys that carry a year. Ordinals of era timelines
therefore give the order of dates, not exact distances across a change of era.
Column `month` says in which month of its first year the count began:
`keys_in_use_in_year` takes from it which of two names a month had at the time,
and `precedes_accession` whether a date is earlier than its own reign.

「tongjian」 is the calendar of one book: 資治通鑑 heads every year from 220 to
501 with a single era, the last one of that year, so its years have one name
each and its ordinals are distances.
"""

from __future__ import annotations

import bisect
import csv
import dataclasses
import functools
import importlib.util
import pathlib
import re
from collections.abc import Collection, Hashable, Iterator

from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note

# Months of a reign-dated calendar, as keys and as ordinals.
#
# A chronicle writes 「隱公元年五月」, a model needs an integer. A `TimeKey`
# is a
# month as a text names it; a `Timeline` is the calendar that numbers the
# months (ordinal month, 0 = the first month of the first reign). Code outside
# `jit` passes `TimeKey` and `Interval`; `input_pipeline` makes arrays of
# ordinals once.


MONTHS_PER_YEAR = 12  # ordinary months; a leap month shares a number
MONTHS_PER_SEASON = 3
# reign-year-month, L for a leap month.
_KEY_REGEX = re.compile(r"(\d+)-(\d+)-(\d+)(L?)")


@dataclasses.dataclass(frozen=True, order=True)
class TimeKey:
  """Month of a reign.

  Ordering is chronological within one timeline; a leap month (閏月) follows
  the ordinary month of the same number.
  """

  reign: int  # index of the reign in its timeline, 1 = the first
  year: int  # regnal year, 1 = 元年
  month: int  # month of the year, 1-12 (1 = 正月)
  leap: bool = False  # whether this is the intercalary month after `month`

  def __post_init__(self):
    for name in ("reign", "year"):
      if getattr(self, name) < 1:
        raise ValueError(
          f"{name} of a TimeKey counts from 1, got {getattr(self, name)}"
        )
    if not 1 <= self.month <= MONTHS_PER_YEAR:
      raise ValueError(f"month of a TimeKey is 1-12, got {self.month}")

  def __str__(self) -> str:
    """Returns `reign-year-month`, as in the released split map, e.g. 1-2-12."""
    return f"{self.reign}-{self.year}-{self.month}{'L' * self.leap}"

  @property
  def triple(self) -> tuple[int, int, int]:
    """(reign, year, month), all counting from 1; the leap mark is dropped."""
    return self.reign, self.year, self.month

  @classmethod
  def parse(cls, text: str) -> TimeKey:
    """Returns the key written as `reign-year-month`, e.g. `1-2-12`.

    Raises:
      ValueError: if `text` has another form; the message quotes it.
    """
    match = _KEY_REGEX.fullmatch(text)
    if match is None:
      raise ValueError(Note("problem.beir.key", text=text))
    reign, year, month, leap = match.groups()
    return cls(int(reign), int(year), int(month), bool(leap))


@dataclasses.dataclass(frozen=True, order=True)
class Interval:
  """Stretch of months, both ends included."""

  start: TimeKey  # first month
  end: TimeKey  # last month, not before `start`

  def __post_init__(self):
    if self.end < self.start:
      raise ValueError(f"interval ends before it starts: {self}")

  def __str__(self) -> str:
    return f"{self.start}..{self.end}"

  def __contains__(self, key: TimeKey) -> bool:
    return self.start <= key <= self.end

  @classmethod
  def single_month(cls, key: TimeKey) -> Interval:
    """Returns the interval of one month."""
    return cls(key, key)

  def overlaps(self, second: Interval) -> bool:
    """Whether the two share at least one month. Symmetric."""
    return self.start <= second.end and second.start <= self.end


@dataclasses.dataclass(frozen=True)
class Reign:
  """Regnal years of one ruler or one era."""

  name: str  # as queries write it, e.g. 「隱公」 or 「泰始」
  state: str  # comes before the name in a full date, e.g. 「魯」; may be ""
  accession: int  # astronomical year of 元年 (0 = 1 BCE, -721 = 722 BCE)
  years: int  # number of regnal years
  aliases: tuple[str, ...] = ()  # other spellings (Simplified, glyph variants)
  first_month: int = 1  # month of 元年 in which the count began, 1-12


@functools.lru_cache(maxsize=64)
def _share(values: Hashable) -> Hashable:
  """Returns the first of equal values."""
  return values


@dataclasses.dataclass(frozen=True, repr=False)
class Timeline:
  """Calendar: the months that exist, in order."""

  name: str  # by which configs and data sets refer to it
  # In order of time; `TimeKey.reign` is the index here plus one.
  reigns: tuple[Reign, ...]
  # Ordinary months that an intercalary month follows.
  leap_months: frozenset[tuple[int, int, int]] = frozenset()

  def __post_init__(self):
    # A cache compares its key with an equal one at each look-up, row by row
    # unless they share their rows, as after an index is opened again.
    object.__setattr__(self, "reigns", _share(self.reigns))
    object.__setattr__(self, "leap_months", _share(self.leap_months))

  @functools.cached_property
  def months(self) -> tuple[TimeKey, ...]:
    """Every month of the calendar in order; its index is its ordinal."""
    keys = []
    for reign, row in enumerate(self.reigns, start=1):
      for year in range(1, row.years + 1):
        for month in range(1, MONTHS_PER_YEAR + 1):
          keys.append(TimeKey(reign, year, month))
          if (reign, year, month) in self.leap_months:
            keys.append(TimeKey(reign, year, month, True))
    return tuple(keys)

  @functools.cached_property
  def _ordinal_by_key(self) -> dict[TimeKey, int]:
    return {key: ordinal for ordinal, key in enumerate(self.months)}

  def __repr__(self) -> str:
    """The name alone: rows of a table would fill a page of a traceback."""
    return f"Timeline({self.name!r})"

  def __hash__(self) -> int:
    """Hash of the name, which equal timelines share.

    Hashing thousands of months on every look-up in a cache would be slow.
    """
    return hash(self.name)

  def __len__(self) -> int:
    """Number of months."""
    return len(self.months)

  def __contains__(self, key: TimeKey) -> bool:
    return key in self._ordinal_by_key

  @property
  def class_counts(self) -> tuple[int, int, int]:
    """(reigns, longest reign in years, months per year): sizes of the heads."""
    # The year head counts regnal years of any reign, so the longest decides.
    max_years = max(reign.years for reign in self.reigns)
    return len(self.reigns), max_years, MONTHS_PER_YEAR

  def ordinal(self, key: TimeKey) -> int:
    """Returns the ordinal of a month, 0 = first month of the timeline.

    Raises:
      KeyError: if the timeline has no such month.
    """
    try:
      return self._ordinal_by_key[key]
    except KeyError:
      raise KeyError(f"timeline {self.name!r} has no month {key}") from None

  def key_at(self, ordinal: int) -> TimeKey:
    """Returns the month at `ordinal`; the inverse of `ordinal`.

    Raises:
      KeyError: if `ordinal` is outside 0 ... len - 1.
    """
    if not 0 <= ordinal < len(self):
      raise KeyError(
        f"timeline {self.name!r} has ordinals 0..{len(self) - 1}, not {ordinal}"
      )
    return self.months[ordinal]

  def year_interval(self, reign: int, year: int) -> Interval:
    """Returns the months of a regnal year, leap months included.

    Raises:
      KeyError: if the timeline has no such year.
    """
    first = TimeKey(reign, year, 1)
    self.ordinal(first)
    # The last key that could belong to this year; the one before it does.
    last = TimeKey(reign, year, MONTHS_PER_YEAR, True)
    position = bisect.bisect_right(self.months, last) - 1
    return Interval(first, self.months[position])

  def iterate_keys(self, interval: Interval) -> Iterator[TimeKey]:
    """Yields every month of `interval` in order."""
    first, last = self.ordinal(interval.start), self.ordinal(interval.end)
    return iter(self.months[first : last + 1])

  def interval_ordinals(self, interval: Interval) -> tuple[int, int]:
    """Returns the ordinals of both ends of `interval`."""
    return self.ordinal(interval.start), self.ordinal(interval.end)

  def full_reign_name(self, reign: int) -> str:
    """Returns state and name of a reign, e.g. 「魯隱公」."""
    row = self.reigns[reign - 1]
    return row.state + row.name


TABLE_COLUMNS = (
  "name",
  "state",
  "accession",
  "month",
  "years",
  "aliases",
  "source",
)
NUM_RELEASE_MONTHS = 3036  # of the released split map: 253 years
# The released split map stops at 僖公三十二年 and 哀公二十六年: a property of
# the release, not of history.
_RELEASE_YEARS = {"僖公": 32, "哀公": 26}
# Parts of a calendar that are calendars: 晉紀 and 齊紀 of 資治通鑑.
_DYNASTY_BY_PART = {"tongjian_jin": "晉", "tongjian_qi": "齊"}
_TABLE_BY_PART = {
  "lu_release": "lu",
  **dict.fromkeys(_DYNASTY_BY_PART, "tongjian"),
}
# Rulers' names as the literature in Latin script gives them.
_RULER_PINYIN = {
  "隱": "Yin",
  "桓": "Huan",
  "莊": "Zhuang",
  "閔": "Min",
  "僖": "Xi",
  "文": "Wen",
  "宣": "Xuan",
  "成": "Cheng",
  "襄": "Xiang",
  "昭": "Zhao",
  "定": "Ding",
  "哀": "Ai",
  "懷": "Huai",
  "昌": "Chang",
  "惠": "Hui",
  "平": "Ping",
}


def reign_table_dir() -> pathlib.Path:
  """Returns the folder of the reign tables, installed or in the checkout."""
  # The specification is looked up without importing the package: importing it
  # registers data set builders and needs their libraries.
  spec = importlib.util.find_spec("ctd_jax_datasets")
  if spec is not None and spec.submodule_search_locations:
    return pathlib.Path(spec.submodule_search_locations[0]) / "reigns"
  return pathlib.Path(__file__).parents[2] / "data" / "reigns"


def timeline_names() -> tuple[str, ...]:
  """Returns the names that `load_timeline` accepts, sorted."""
  tables = [path.stem for path in reign_table_dir().glob("*.tsv")]
  return tuple(sorted([*tables, *_TABLE_BY_PART]))


def read_reign_table(path: pathlib.Path) -> tuple[Reign, ...]:
  """Returns the reigns of a TSV file in order of its rows.

  Args:
    path: file with the columns of `TABLE_COLUMNS`; `month` is the month of the
      first year in which the count began, `aliases` are separated by commas.

  Raises:
    ValueError: if a cell cannot be read; the message names file, line and
      column.
  """
  reigns: list[Reign] = []
  # Spreadsheets put a byte order mark before the first column's name.
  with path.open(encoding="utf-8-sig", newline="") as file:
    # Aliases may hold quotation marks; nothing is quoted.
    rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    header = tuple(next(rows, ()))
    if header != TABLE_COLUMNS:
      raise ValueError(
        Note(
          "problem.table.columns",
          place=f"{path}, line 1",
          header=str(header),
          columns=str(TABLE_COLUMNS),
        )
      )
    for line, cells in enumerate(rows, start=2):
      reign = _parse_table_row(f"{path}, line {line}", cells)
      if reigns and reign.accession < reigns[-1].accession:
        raise ValueError(
          Note(
            "problem.table.order",
            place=f"{path}, line {line}",
            name=reign.name,
            year=reign.accession,
            other=f"{reigns[-1].name} ({reigns[-1].accession})",
          )
        )
      reigns.append(reign)
  if not reigns:
    raise ValueError(Note("problem.table.no_reigns", place=path))
  return tuple(reigns)


def _parse_table_row(location: str, cells: list[str]) -> Reign:
  if len(cells) != len(TABLE_COLUMNS):
    raise ValueError(
      Note(
        "problem.table.num_columns",
        place=location,
        number=len(cells),
        expected=len(TABLE_COLUMNS),
      )
    )
  row = dict(zip(TABLE_COLUMNS, cells, strict=True))
  for column in ("name", "source"):
    if not row[column]:
      raise ValueError(
        Note("problem.table.empty", place=location, column=column)
      )
  numbers = {}
  for column in ("accession", "month", "years"):
    try:
      numbers[column] = int(row[column])
    except ValueError:
      raise ValueError(
        Note(
          "problem.table.integer",
          place=location,
          column=column,
          value=row[column],
        )
      ) from None
  if numbers["years"] < 1:
    raise ValueError(Note("problem.table.years", place=location))
  first_month = numbers.pop("month")
  if not 1 <= first_month <= MONTHS_PER_YEAR:
    raise ValueError(Note("problem.table.month", place=location))
  aliases = tuple(alias for alias in row["aliases"].split(",") if alias)
  return Reign(
    row["name"],
    row["state"],
    **numbers,
    aliases=aliases,
    first_month=first_month,
  )


@functools.cache
def load_timeline(name: str) -> Timeline:
  """Returns the calendar called `name`.

  Args:
    name: "lu" (the twelve dukes of Lu as history has them), "lu_release" (the
      3,036 months of the released split map), "mini" (an invented state), or
      an era table: "wei", "jin", "liu_song", "southern_qi", or "tongjian"
      (the years 220-501 as 資治通鑑 heads them) with its parts "tongjian_jin"
      and "tongjian_qi".

  Raises:
    ValueError: if there is no such table, or its file cannot be read.

  Source: `lu_release`: months of the benchmark's released split map.
  """
  if name not in timeline_names():
    raise ValueError(
      f"no timeline {name!r}; known: {', '.join(timeline_names())}"
      f" (tables in {reign_table_dir()})"
    )
  reigns = read_reign_table(
    reign_table_dir() / f"{table_of_timeline(name)}.tsv"
  )
  if name in _DYNASTY_BY_PART:
    dynasty = _DYNASTY_BY_PART[name]
    reigns = tuple(row for row in reigns if row.state.startswith(dynasty))
  elif name == "lu_release":
    reigns = tuple(
      dataclasses.replace(row, years=_RELEASE_YEARS.get(row.name, row.years))
      for row in reigns
    )
  timeline = Timeline(name, reigns)
  if name == "lu_release" and len(timeline) != NUM_RELEASE_MONTHS:
    raise ValueError(
      f"lu.tsv gives {len(timeline)} released months, should be"
      f" {NUM_RELEASE_MONTHS}"
    )
  return timeline


def table_of_timeline(name: str) -> str:
  """Returns the table that a timeline is read from: `lu` for `lu_release`."""
  return _TABLE_BY_PART.get(name, name)


def astronomical_year_of(calendar: Timeline, key: TimeKey) -> int:
  """Returns the astronomical year in which the regnal year of `key` begins.

  Raises:
    KeyError: if `calendar` has no such month.
  """
  calendar.ordinal(key)
  return calendar.reigns[key.reign - 1].accession + key.year - 1


def keys_of_year(calendar: Timeline, year: int) -> tuple[TimeKey, ...]:
  """Returns the months dated by astronomical year `year`, in order.

  Empty outside the timeline; the months of two regnal years where an era
  changes.
  """
  return tuple(
    key
    for key in calendar.months
    if astronomical_year_of(calendar, key) == year
  )


def keys_in_use_in_year(calendar: Timeline, year: int) -> tuple[TimeKey, ...]:
  """Returns the months of an astronomical year under the names they bore then.

  Where an era changes within `year`, the months before the change have the old
  name and those from it on the new one. A year outside the calendar has none.
  """
  key_by_month: dict[int, TimeKey] = {}
  for key in keys_of_year(calendar, year):
    # Reigns go by time, so a later name takes the month over.
    if not key.leap and not precedes_accession(calendar, key):
      key_by_month[key.month] = key
  return tuple(key_by_month[month] for month in sorted(key_by_month))


def precedes_accession(calendar: Timeline, key: TimeKey) -> bool:
  """Returns whether a month of 元年 is earlier than the count itself.

  「永熙元年正月」 is: 永熙 began in the fourth month.
  """
  return (
    key.year == 1 and key.month < calendar.reigns[key.reign - 1].first_month
  )


def describe_missing_year(
  year: int, known: Collection[int], years: Note
) -> Note:
  """Returns what is wrong with a year, and one that the calendar has.

  Args:
    year: astronomical, not in the calendar.
    known: years of the calendar.
    years: the same in words.
  """
  name = format_common_era_year(year)
  is_within = min(known) < year < max(known)
  # Beside a year that the table lacks; or the same number of the other era.
  for code, other in (
    ("problem.year.lacking", year - 1),
    ("problem.year.lacking", year + 1),
    ("problem.year.meant", 1 - year),
  ):
    is_beside = code == "problem.year.lacking"
    if other in known and is_beside == is_within:
      other_name = format_common_era_year(other)
      return Note(code, year=name, years=years, other=other_name)
  return Note("problem.year.outside", year=name, years=years)


def common_era_interval(
  calendar: Timeline, year: int, month: int | None = None
) -> Interval:
  """Returns an astronomical year, or a month (1-12) of it.

  Months are those of the calendar, from 正月. One in which the name changed has
  the name it bore from then on. KeyError if `calendar` has no such year.
  """
  keys = keys_of_year(calendar, year)
  if not keys:
    known = {astronomical_year_of(calendar, key) for key in calendar.months}
    first, last = map(format_common_era_year, (min(known), max(known)))
    years = Note("note.years", first=first, last=last)
    raise KeyError(describe_missing_year(year, known, years))
  if month is None:
    return Interval(keys[0], keys[-1])
  # Before the first accession of a calendar a month has the name of its year.
  candidates = (*keys_in_use_in_year(calendar, year), *keys)
  return Interval.single_month(
    next(key for key in candidates if key.month == month and not key.leap)
  )


def format_common_era_year(year: int) -> str:
  """Returns an astronomical year as people write it: -721 -> `722 BCE`."""
  return f"{1 - year} BCE" if year < 1 else f"{year} CE"


_YEAR = re.compile(r"(\d+) (BCE|CE)(?![A-Za-z])")
_ERAS = {"BCE": "公元前", "CE": "公元"}


def write_years(language: str, text: str) -> str:
  """Returns a text whose common-era years are as a language writes them."""
  if language == notes.ENGLISH:
    return text
  return _YEAR.sub(lambda match: f"{_ERAS[match[2]]}{match[1]}年", text)


def make_reign_labels(timeline: Timeline) -> list[str]:
  """Returns a label in Latin letters for every reign, in order.

  A name that has no known spelling becomes its number, e.g. `reign 3`.
  """
  return [
    _RULER_PINYIN.get(reign.name.removesuffix("公"), f"reign {number}")
    for number, reign in enumerate(timeline.reigns, start=1)
  ]
