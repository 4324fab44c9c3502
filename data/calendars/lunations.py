"""Lunations of the source, put in order: streams, years and lengths.

The source numbers eight streams. A stream here is one run of consecutive
lunations, so that those with a gap are several (蜀 and 唐 share a number).
"""

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

from ctd_jax.chronology import sexagenary

# Name of a stream: number in the source, first and last astronomical year.
STREAMS: dict[str, tuple[int, int, int]] = {
  "qin_chen": (1, -245, 590),
  "liao_jin": (1, 907, 1233),
  "wu": (2, 222, 280),
  "wei_qi": (2, 386, 577),
  "shu": (3, 221, 263),
  "zhou_qing": (3, 535, 1912),
  "japan": (4, 445, 1872),
  "goguryeo": (5, -36, 668),
  "taebong": (5, 901, 918),
  "joseon": (5, 1392, 1895),
  "baekje": (6, -17, 660),
  "later_baekje": (6, 901, 936),
  "silla": (7, -56, 935),
  "goryeo": (8, 918, 1392),
}
# A stream that leaves another and is like it but for its corrections: the
# Southern Ming kept the Ming calendar when the Qing made a new one.
BRANCHES: dict[str, tuple[str, int, int]] = {
  "southern_ming": ("zhou_qing", 1644, 1662),
}
# Last year of calendars that are still in use.
LAST_YEAR = 2100
# Streams whose months are those of the Gregorian calendar, from the first of
# these years to the last: after a lunar calendar, or alone.
CIVIL_YEARS = {
  "japan": (1873, LAST_YEAR),
  "joseon": (1896, 1910),
  "civil": (1912, LAST_YEAR),
}
# Years of the stream zhou_qing that begin with 子月, the eleventh month. The
# source counts 正月, 臘月, 一月 as 1, 13, 14, and 建子月 ... as 1 ... 5.
_WU_ZHOU_YEARS = range(690, 701)
_WU_ZHOU_MONTHS = {1: 11, 13: 12, 14: 1}
_SUZONG_YEAR = 762
_SUZONG_MONTHS = {1: 11, 2: 12, 3: 1, 4: 2, 5: 3}
# Up to 太初元年 (104 BCE) years begin with the tenth month.
_LAST_TENTH_MONTH_YEAR = -103


@dataclasses.dataclass(frozen=True)
class Lunation:
  """Month of one stream."""

  first_day: int
  length: int
  year: int  # astronomical year as this calendar counts it
  month: int  # 1-12
  leap: bool  # whether it is intercalary

  @property
  def label(self) -> str:
    """Number and L for a leap month, as in a time key."""
    return f"{self.month}{'L' * self.leap}"


def parse_label(label: str) -> tuple[int, bool]:
  """Returns (month, leap) of `7` or `7L`."""
  return int(label.removesuffix("L")), label.endswith("L")


def assemble_streams(
  rows: Iterable[Mapping[str, str]], corrections: Iterable[Mapping[str, str]]
) -> dict[str, list[Lunation]]:
  """Returns the lunations of each stream in order of time.

  Raises ValueError for a correction that fits no row of the source, or months
  that do not follow each other.
  """
  by_stream = split_streams(rows)
  for name, (parent, first, last) in BRANCHES.items():
    by_stream[name] = [
      row for row in by_stream[parent] if first <= row[1] <= last
    ]
  changes: dict[str, list[Mapping[str, str]]] = {}
  for row in corrections:
    if row["table"] == "lunations":
      changes.setdefault(row["key"].split()[0], []).append(row)
  streams = {}
  for name, months in by_stream.items():
    months = _apply_corrections(name, months, changes.pop(name, []))
    streams[name] = list(_measure_lunations(name, months))
  if changes:
    raise ValueError(f"corrections of unknown streams: {sorted(changes)}")
  return streams


def extend_streams(streams: Mapping[str, list[Lunation]]) -> None:
  """Adds the months after the source, Gregorian or lunar."""
  streams["zhou_qing"] += _compute_lunations(streams["zhou_qing"][-1])
  for name, (first_year, last_year) in CIVIL_YEARS.items():
    months = streams.setdefault(name, [])
    labels = [
      (year, month)
      for year in range(first_year, last_year + 2)
      for month in range(1, 13)
    ]
    days = [sexagenary.to_julian_day(*label, 1) for label in labels]
    if months:
      # 明治五年 ended with the second day of its twelfth month.
      length = days[0] - months[-1].first_day
      months[-1] = dataclasses.replace(months[-1], length=length)
    months += [
      Lunation(day, next_day - day, *label, False)
      for label, (day, next_day) in zip(
        labels[:-12], itertools.pairwise(days), strict=False
      )
    ]


def _compute_lunations(last: Lunation) -> Iterator[Lunation]:
  """Yields the months of the Chinese calendar after `last`, to the end."""
  import sxtwl

  moons = sexagenary.find_new_moons(
    last.first_day + last.length, sexagenary.to_julian_day(LAST_YEAR + 1, 3, 1)
  )
  for moon, next_moon in itertools.pairwise(moons):
    day = sxtwl.fromSolar(*sexagenary.to_civil_date(moon))
    if day.getLunarYear() <= LAST_YEAR:
      yield Lunation(
        moon,
        next_moon - moon,
        day.getLunarYear(),
        day.getLunarMonth(),
        day.isLunarLeap(),
      )


def find_moved_days(
  corrections: Iterable[Mapping[str, str]],
) -> dict[str, dict[int, int]]:
  """Returns, by stream, first days of the source and what they became.

  An era that begins with a month, or ends with one, moves with it.
  """
  moved: dict[str, dict[int, int]] = {}
  for row in corrections:
    if (row["table"], row["column"]) == ("lunations", "first_day"):
      stream, day = row["key"].split()
      moved.setdefault(stream, {})[int(day)] = int(row["value"])
  return moved


def split_streams(
  rows: Iterable[Mapping[str, str]],
) -> dict[str, list[tuple[int, int, int, bool, int]]]:
  """Returns (first day, year, month, leap, last day) by stream, as read.

  Days are Julian day numbers: the source gives the midnight before.
  """
  by_stream = {name: [] for name in STREAMS}
  for row in rows:
    number, year = int(row["cal_stream"]), int(row["ind_year"])
    name = next(
      name
      for name, (stream, first, last) in STREAMS.items()
      if stream == number and first - 1 <= year <= last
    )
    month, leap = int(row["month"]), row["intercalary"] != "0"
    if name == "zhou_qing" and year in _WU_ZHOU_YEARS and not leap:
      month = _WU_ZHOU_MONTHS.get(month, month)
    first_day = round(float(row["nmd_jdn"]) + 0.5)
    last_day = round(float(row["hui_jdn"]) + 0.5)
    by_stream[name].append((first_day, year, month, leap, last_day))
  for name, months in by_stream.items():
    months.sort()
    if name == "zhou_qing":
      _number_suzong_months(months)
  return by_stream


def _number_suzong_months(
  months: list[tuple[int, int, int, bool, int]],
) -> None:
  """Numbers 建子月 to 建辰月 of 762 as what they are: 11, 12, 1, 2, 3."""
  of_year = [i for i, row in enumerate(months) if row[1] == _SUZONG_YEAR]
  for index in of_year[: len(_SUZONG_MONTHS)]:
    first_day, year, month, leap, last_day = months[index]
    months[index] = first_day, year, _SUZONG_MONTHS[month], leap, last_day


def _apply_corrections(
  stream: str,
  months: list[tuple[int, int, int, bool, int]],
  corrections: list[Mapping[str, str]],
) -> list[tuple[int, int, int, bool, int]]:
  """Returns the months corrected; `source` of each correction must fit."""
  months = list(months)
  # By the day in the source; several corrections may change one month.
  current_day: dict[int, int] = {}
  for row in corrections:
    day = int(row["key"].split()[1])
    where = f"correction {row['key']}, {row['column']}"
    if row["column"] == "added":
      label, length = row["value"].split()
      index = bisect.bisect_left(months, (day,))
      neighbour = months[max(index - 1, 0)]
      last_day = day + int(length) - 1
      months.insert(index, (day, neighbour[1], *parse_label(label), last_day))
      continue
    day = current_day.get(day, day)
    fitting = [
      index
      for index, m in enumerate(months)
      if m[0] == day
      and (
        row["column"] in ("first_day", "last_day")
        or f"{m[2]}{'L' * m[3]}" == row["source"]
      )
    ]
    if not fitting:
      raise ValueError(f"{where}: the source has no such month")
    index = fitting[0]
    if row["column"] == "dropped":
      del months[index]
      continue
    first_day, year, month, leap, last_day = months[index]
    if row["column"] == "first_day":
      current_day[first_day] = int(row["value"])
      first_day = int(row["value"])
    elif row["column"] == "last_day":
      last_day = int(row["value"])
    elif row["column"] == "month":
      month, leap = parse_label(row["value"])
    else:
      raise ValueError(f"{where}: no such column of lunations")
    months[index] = first_day, year, month, leap, last_day
    months.sort(key=lambda row: row[0])
  return months


def _measure_lunations(
  stream: str, months: list[tuple[int, int, int, bool, int]]
) -> Iterator[Lunation]:
  """Yields the months with their lengths and their years counted again."""
  year = None
  previous = 0
  for current, following in itertools.zip_longest(months, months[1:]):
    first_day, source_year, month, leap, last_day = current
    next_day = following[0] if following else last_day + 1
    length = next_day - first_day
    if not 28 <= length <= 31:
      raise ValueError(f"{stream}: the month at {first_day} has {length} days")
    if year is None or _keeps_source_years(stream, source_year):
      year = source_year
    elif month == 1 and not leap and previous != 1:
      year += 1
    # Wrong years are at the turn of a year only.
    if month == 6 and year != source_year:
      raise ValueError(f"{stream}: {first_day} is of {source_year} or {year}?")
    previous = month
    yield Lunation(first_day, length, year, month, leap)


def _keeps_source_years(stream: str, year: int) -> bool:
  """Returns whether a year may begin with another month than the first."""
  if stream == "qin_chen":
    return year <= _LAST_TENTH_MONTH_YEAR
  return stream == "zhou_qing" and (
    689 <= year <= 701 or _SUZONG_YEAR - 1 <= year <= _SUZONG_YEAR
  )


def format_year_rows(
  streams: Mapping[str, list[Lunation]],
) -> Iterator[tuple[str, int, int, str, str]]:
  """Yields stream, year, first day, months and lengths of every year.

  Months are runs, `1-7,7L,8-12`; lengths are the last digits: 0 for 30 days.
  """
  for stream, lunations in streams.items():
    for year, group in itertools.groupby(lunations, key=lambda row: row.year):
      months = list(group)
      yield (
        stream,
        year,
        months[0].first_day,
        _format_runs(months),
        "".join(str(row.length % 10) for row in months),
      )


def _format_runs(months: list[Lunation]) -> str:
  """Returns the labels of months, consecutive ones as `8-12`."""
  runs: list[list[Lunation]] = []
  for row in months:
    if (
      runs
      and not row.leap
      and not runs[-1][-1].leap
      and row.month == runs[-1][-1].month + 1
    ):
      runs[-1].append(row)
    else:
      runs.append([row])
  return ",".join(
    run[0].label if len(run) == 1 else f"{run[0].label}-{run[-1].label}"
    for run in runs
  )
