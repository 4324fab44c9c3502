"""Compares the calendars with the DILA Time Authority, month by month.

    python -m ctd_jax_datasets.calendars.compare --dila=FOLDER

FOLDER has `zh.tsv`, `ja.tsv` and `ko.tsv`: dynasty, ruler, era, year, month,
leap, first_jdn, last_jdn, first_day, status. They are only compared with, and
not part of this package (CC BY-SA).
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from absl import app, flags

from ctd_jax.chronology import calendar_tables, era_calendars, sexagenary
from ctd_jax.chronology.numerals import fold_script
from ctd_jax_datasets.calendars import build_tables

COLUMNS = (
  "dynasty",
  "ruler",
  "era",
  "year",
  "month",
  "leap",
  "first_jdn",
  "last_jdn",
  "first_day",
  "status",
)
# Groups of the table, by what is asked of them.
CHINA, EARLY, PARALLEL, JAPAN, KOREA = (
  "China from 104 BCE",
  "China before 104 BCE",
  "parallel states",
  "Japan",
  "Korea",
)
_GROUP_BY_COUNTRY = {"ja": JAPAN, "ko": KOREA}
_MAIN_DYNASTIES = (
  *("西漢", "新", "東漢", "曹魏", "西晉", "東晉", "劉宋", "南齊", "南梁"),
  *("陳", "隋", "唐", "武周", "後梁", "後唐", "後晉", "後漢", "後周"),
  *("北宋", "南宋", "元", "明", "清", "民國"),
)
# Names in DILA of polities that have others here.
_POLITIES = {
  "民國": "清",
  "楚": "西漢",
  "後金": "清",
  "蒙古": "元",
  "北宋": "宋",
  "南宋": "宋",
  "東晉": "晉",
  "西晉": "晉",
  "胡夏": "夏",
  "南吳": "楊吳",
  "摩震": "後高句麗",
  "大朝鮮國": "朝鮮",
}
# 正月 of 104 BCE; sxtwl numbers no month before.
_FIRST_NUMBERED_DAY = 1683431
# Days of the years that began with 子月: 載初 to 久視, and 762 to its fourth
# month. DILA counts 正月, 臘月, 一月 as 1, -1, -2, and 建子月 as 1.
_WU_ZHOU_DAYS = range(1973067, 1977112)
_SUZONG_DAYS = range(1999349, 1999511)
# What DILA counts later or earlier than 日本書紀 27-29: 天武 from 673, and the
# years of 天智 before his enthronement from 661.
_YEARS_LATE = {"天武": 1, "中大兄皇子": -1}
_HISTORICAL = "S"
# Characters for which editions print another in names of eras.
_VARIANTS = str.maketrans(
  "太佑甯寧歷曆歴暦恒淸宏弘", "大祐寧寧曆曆曆曆恆清弘弘"
)

_DILA = flags.DEFINE_string("dila", None, "folder of the tables of DILA")


@dataclasses.dataclass(frozen=True)
class DilaMonth:
  """Month of one era in DILA."""

  country: str  # `zh`, `ja` or `ko`
  dynasty: str  # first of its names
  # Names of the era; without brackets where it is not a name.
  eras: tuple[str, ...]
  has_name: bool  # whether the years have the name of an era
  year: int
  month: int  # 1-12
  leap: bool  # whether it is intercalary
  first_day: int  # Julian day number of the month's first day
  status: str  # S if historical, P if computed

  @property
  def group(self) -> str:
    """The group in whose agreement the month counts."""
    if self.country != "zh":
      return _GROUP_BY_COUNTRY[self.country]
    if self.first_day < _FIRST_NUMBERED_DAY:
      return EARLY
    return CHINA if self.dynasty in _MAIN_DYNASTIES else PARALLEL


@dataclasses.dataclass
class Comparison:
  """All that the two say differently."""

  # (group, dynasty) -> counts of historical months: `months`, `agreeing` (with
  # the same first day, number and leap mark), `agreeing_in_source` (those that
  # no correction touched), `named` (with the same era and regnal year) and
  # `named_in_use` (those that had the name at the time, not only as part of
  # the first or last year of the era).
  by_dynasty: dict[tuple[str, str], collections.Counter]
  computed: collections.Counter  # the same of months that DILA computed
  month_classes: collections.Counter  # (group, what differs) -> months of it
  name_classes: collections.Counter  # the same of names
  examples: dict[tuple[str, str], str]  # of each class, the first

  def of_group(self, group: str) -> collections.Counter:
    """Returns the counts of a group's dynasties together."""
    rows = (a for (g, _), a in self.by_dynasty.items() if g == group)
    return sum(rows, collections.Counter())


def read_dila(folder: pathlib.Path) -> Iterator[DilaMonth]:
  """Yields the months of the three countries.

  Raises:
    FileNotFoundError: if a table is missing.
    ValueError: if a file has other columns; the message names it and them.
  """
  for country in ("zh", *_GROUP_BY_COUNTRY):
    path = folder / f"{country}.tsv"
    with path.open(encoding="utf-8", newline="") as file:
      rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
      if tuple(rows.fieldnames or ()) != COLUMNS:
        raise ValueError(f"{path}, line 1: columns should be {COLUMNS}")
      for row in rows:
        yield _parse_dila_row(country, row)


def _parse_dila_row(country: str, row: Mapping[str, str]) -> DilaMonth:
  first_day = int(row["first_jdn"]) - int(row["first_day"]) + 1
  month = int(row["month"])
  leap = row["leap"] != "0"
  dynasty = row["dynasty"].split("/")[0]
  if dynasty in ("唐", "武周"):
    if first_day in _WU_ZHOU_DAYS and not leap:
      month = {1: 11, -1: 12, -2: 1}.get(month, month)
    elif first_day in _SUZONG_DAYS:
      month = (month + 9) % 12 + 1
  names = row["era"].split("/")
  return DilaMonth(
    country,
    dynasty,
    tuple(name.strip("（）()") for name in names),
    bool(names[0]) and names[0][0] not in "（(",
    int(row["year"]) + _YEARS_LATE.get(names[0].strip("（）()"), 0),
    month,
    leap,
    first_day,
    row["status"],
  )


@functools.cache
def _polity_calendar(
  country: str, dynasty: str
) -> tuple[era_calendars.EraCalendar, tuple[calendar_tables.Stream, ...]]:
  """Returns the eras of a dynasty of DILA, and the calendars they went by."""
  name = "日本" if country == "ja" else _POLITIES.get(dynasty, dynasty)
  calendar = era_calendars.load_calendar(name)
  streams = calendar_tables.load_streams()
  names = dict.fromkeys(era.stream for era in calendar.eras)
  return calendar, tuple(streams[name] for name in names)


@functools.cache
def _corrected_days() -> frozenset[tuple[str, int]]:
  """Returns stream and first day of every month that a correction touched."""
  days = set()
  moved = {}
  for row in build_tables.read_corrections():
    if row["table"] != "lunations":
      continue
    stream, day = row["key"].split()
    key = (stream, int(day))
    if row["column"] == "first_day":
      moved[key] = (stream, int(row["value"]))
    days.add(moved.get(key, key))
  return frozenset(days)


def compare_months(months: Iterator[DilaMonth]) -> Comparison:
  """Returns where the calendars and DILA agree and differ."""
  result = Comparison(
    collections.defaultdict(collections.Counter),
    *(collections.Counter() for _ in range(3)),
    {},
  )
  for month in months:
    calendar, streams = _polity_calendar(month.country, month.dynasty)
    stream = next(
      (
        stream
        for stream in streams
        if (
          (stream.first_days == month.first_day)
          & (stream.months == month.month)
          & (stream.is_leap == month.leap)
        ).any()
      ),
      None,
    )
    name_class = _compare_name(calendar, month)
    counts = collections.Counter(
      months=1,
      agreeing=stream is not None,
      agreeing_in_source=stream is not None
      and (stream.name, month.first_day) not in _corrected_days(),
      named=name_class in ("", "not in use then"),
      named_in_use=not name_class,
    )
    if month.status != _HISTORICAL:
      result.computed += counts
      continue
    result.by_dynasty[month.group, month.dynasty] += counts
    for classes, difference in (
      (result.month_classes, "" if stream else _classify_month(streams, month)),
      (result.name_classes, name_class),
    ):
      if difference not in ("", "not in use then"):
        key = month.group, difference
        classes[key] += 1
        result.examples.setdefault(key, _describe(month))
  return result


def _describe(month: DilaMonth) -> str:
  label = f"{month.month}{'L' * month.leap}"
  return (
    f"{month.dynasty}{month.eras[0]} {month.year}-{label}, {month.first_day}"
  )


def _classify_month(
  streams: tuple[calendar_tables.Stream, ...], month: DilaMonth
) -> str:
  """Returns in what a month differs, and whom sxtwl supports."""
  middle = month.first_day + 2  # the tables can be two days off
  for stream in streams:
    position = np.searchsorted(stream.first_days, middle, side="right") - 1
    if position < 0 or middle - stream.first_days[position] > 31:
      continue
    day = int(stream.first_days[position])
    label = stream.months[position], stream.is_leap[position]
    break
  else:
    return "before or after the calendar"
  if abs(day - month.first_day) > 2:
    return "first day more than two days apart"
  same_label = label == (month.month, month.leap)
  what = "first day" if same_label else "number of the month"
  if month.group == EARLY:
    return f"{what}; the calendar before 104 BCE is reconstructed"
  return f"{what}; sxtwl {_judge(month, day, label)}"


def _judge(
  month: DilaMonth, day: int, label: tuple[np.integer, np.bool_]
) -> str:
  """Returns whom the computed calendar of China supports."""
  ours = _is_computed(day, int(label[0]), bool(label[1]))
  theirs = _is_computed(month.first_day, month.month, month.leap)
  if ours == theirs:
    return "has neither"
  return "agrees with the tables" if ours else "agrees with DILA"


@functools.cache
def _is_computed(day: int, month: int, leap: bool) -> bool:
  """Returns whether sxtwl has a month with this first day and number."""
  import sxtwl

  civil = sxtwl.fromSolar(*sexagenary.to_civil_date(day))
  return (civil.getLunarDay(), civil.getLunarMonth(), civil.isLunarLeap()) == (
    1,
    month,
    leap,
  )


def _compare_name(calendar: era_calendars.EraCalendar, month: DilaMonth) -> str:
  """Returns how era and year of a month differ; "" if they do not."""
  eras = _eras_by_spelling(calendar)
  names = {_normalise(name) for name in month.eras}
  if not month.has_name:
    # The years of 漢文帝 and 漢景帝 are called 前元 here.
    names |= {"", _normalise("前元")}
  candidates = {index for name in names for index in eras.get(name, ())}
  if not candidates:
    return "era not in the tables" if month.has_name else "years not counted"
  # In the middle of the month, wherever the first days are.
  middle = month.first_day + 14
  fits, in_use, other_year = False, False, False
  for name in _names_about(calendar, middle):
    if name.era in candidates:
      fits |= name.year == month.year
      in_use |= name.year == month.year and name.in_use
      other_year |= name.year != month.year
  if in_use:
    return ""
  if fits:
    return "not in use then"
  if other_year:
    return "another regnal year"
  return "outside the years of the era"


@functools.lru_cache(maxsize=65536)
def _names_about(
  calendar: era_calendars.EraCalendar, day: int
) -> tuple[era_calendars.MonthName, ...]:
  return tuple(
    name
    for month in calendar.months_of_day(day)
    for name in calendar.names_of_month(int(month))
  )


@functools.cache
def _eras_by_spelling(
  calendar: era_calendars.EraCalendar,
) -> dict[str, tuple[int, ...]]:
  eras: dict[str, set[int]] = {}
  for index, era in enumerate(calendar.eras):
    for name in (era.name, *era.spellings):
      eras.setdefault(_normalise(name), set()).add(index)
  return {name: tuple(indices) for name, indices in eras.items()}


def _normalise(name: str) -> str:
  return fold_script(name).translate(_VARIANTS)


def format_comparison(result: Comparison) -> str:
  """Returns the table by dynasty, then the classes with an example each."""
  lines = [
    f"{'group':22}{'dynasty':10}{'months':>8}{'agree':>9}{'in source':>11}"
    f"{'named':>9}{'in use':>9}"
  ]
  for group in (CHINA, EARLY, PARALLEL, JAPAN, KOREA):
    for (row_group, dynasty), counts in result.by_dynasty.items():
      if row_group == group:
        lines.append(_format_counts(group, dynasty, counts))
    lines.append(_format_counts(group, "all", result.of_group(group)))
  lines.append(_format_counts("computed by DILA", "all", result.computed))
  for title, classes in (
    ("months that differ", result.month_classes),
    ("names that differ", result.name_classes),
  ):
    lines += ["", f"{title}: {classes.total()}"]
    for (group, what), count in sorted(
      classes.items(), key=lambda item: (item[0][0], -item[1])
    ):
      example = result.examples[group, what]
      lines.append(f"  {group}: {count:5}  {what} (e.g. {example})")
  return "\n".join(lines)


def _format_counts(
  group: str, dynasty: str, counts: collections.Counter
) -> str:
  shares = "".join(
    f"{counts[name] / max(counts['months'], 1):{width}.4f}"
    for name, width in (
      ("agreeing", 9),
      ("agreeing_in_source", 11),
      ("named", 9),
      ("named_in_use", 9),
    )
  )
  padded = dynasty + " " * (10 - sum(2 if c > "⺀" else 1 for c in dynasty))
  return f"{group:22}{padded}{counts['months']:8}{shares}"


def main(argv: Sequence[str]) -> None:
  """Entry point for absl."""
  if len(argv) > 1:
    raise app.UsageError(f"unknown arguments: {' '.join(argv[1:])}")
  try:
    result = compare_months(read_dila(pathlib.Path(_DILA.value)))
  except (FileNotFoundError, ValueError) as error:
    raise SystemExit(f"compare: {error}") from error
  print(format_comparison(result))


if __name__ == "__main__":
  flags.mark_flag_as_required("dila")
  app.run(main)
