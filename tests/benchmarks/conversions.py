"""Conversion of dates, compared with other libraries, and its speed.

  python -m tests.benchmarks.conversions --wareki=WAREKI --dila=DILA \\
    [--rows=FILE]

Random days of long eras are written as dates, read, and compared: those of
China with sxtwl and lunar_python (extra [conversions]), those of Japan, 645 to
1872, with the tables of the Ruby library wareki
(https://github.com/sugi/wareki, folder lib/wareki), which come from
日本暦日原典.

sxtwl and lunar_python share one list of corrections for months before 1645. For
each month that differs, the output says whether DILA's Time Authority agrees
with us. It has a table for each state (months as TSV: zh.tsv and ja.tsv).
"""

import argparse
import bisect
import collections
import csv
import pathlib
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import lunar_python
import sxtwl

from ctd_jax.chronology import date_readings, numerals, sexagenary
from tests.benchmarks import result_rows

# State, era, astronomical year of 元年, years.
_ERAS = (
  ("東漢", "建武", 25, 31),
  ("東漢", "永平", 58, 18),
  ("晉", "太康", 280, 10),
  ("南朝宋", "元嘉", 424, 29),
  ("隋", "開皇", 581, 20),
  ("唐", "貞觀", 627, 23),
  ("唐", "開元", 713, 29),
  ("唐", "大中", 847, 13),
  ("宋", "元豐", 1078, 8),
  ("宋", "紹興", 1131, 32),
  ("元", "至正", 1341, 28),
  ("明", "洪武", 1368, 31),
  ("明", "嘉靖", 1522, 45),
  ("明", "萬曆", 1573, 47),
  ("清", "康熙", 1662, 61),
  ("清", "乾隆", 1736, 60),
  ("清", "光緒", 1875, 34),
  ("", "民國", 1912, 38),
)
# Last two characters of the era, year, leap, month.
_MONTH = re.compile(
  r"(.{1,2}?)(元|[一二三四五六七八九十]+)年(?:農曆)?(閏?)(.+)月"
)


class Sample(NamedTuple):
  """A date as text, and the day that others say it is."""

  text: str
  day: int  # Julian day number
  number: int  # in the month
  others: tuple[tuple[int, int, bool, int], ...] = ()  # year ... day of a month


def main() -> None:
  """Prints how many dates agree, where others differ, and dates a second."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--num_dates", type=int, default=20_000)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--wareki", type=pathlib.Path)
  parser.add_argument("--dila", type=pathlib.Path)
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  options = parser.parse_args()
  start = time.process_time()
  chance = random.Random(options.seed)
  china = list(_draw(options.num_dates, lambda: _draw_chinese(chance)))
  num_alike = sum(len(set(sample.others)) == 1 for sample in china)
  print(f"sxtwl and lunar_python agree on {num_alike:,} of {len(china):,}")
  agreed = {"China": compare("sxtwl", china, "zh", options.dila)}
  if options.wareki:
    tables = JapaneseTables(options.wareki)
    japan = list(_draw(options.num_dates, lambda: tables.draw(chance)))
    agreed["Japan"] = compare("wareki", japan, "ja", options.dila)
  about = result_rows.describe_run("conversions", time.process_time() - start)
  rows = []
  for name, count in agreed.items():
    figures = {"dates": options.num_dates, "agree": count}
    rows += result_rows.make_test_rows(
      about, "conversions", name, "random", figures
    )
  result_rows.write_rows(options.rows, rows)
  for name in ("明", "zh", "all"):
    measure_speed(
      name, [it.text for it in china if name != "明" or it.text[0] == "明"]
    )


def _draw(number: int, draw: Callable[[], Sample | None]) -> Iterator[Sample]:
  while number:
    sample = draw()
    if sample:
      number -= 1
      yield sample


def compare(
  name: str,
  samples: list[Sample],
  country: str,
  dila: pathlib.Path | None = None,
) -> int:
  """Returns how many first readings are the days of another library.

  Prints what the others are.
  """
  reader = date_readings.load_reader(country)
  months = read_months(dila / f"{country}.tsv") if dila else {}
  kinds, differing = collections.Counter(), collections.Counter()
  for sample in samples:
    try:
      first, *others = reader.read(sample.text)
    except ValueError:
      kinds["unread"] += 1
      differing[sample.text.rpartition("月")[0], "unread"] += 1
      continue
    if first.first_day == sample.day:
      continue
    known = months.get(_MONTH.search(sample.text).groups(), set())
    kind = (
      "a later reading"
      if sample.day in [it.first_day for it in others]
      else "DILA as here"
      if first.first_day - (first.day or 1) + 1 in known
      else f"DILA as {name}"
      if sample.day - sample.number + 1 in known
      else "DILA has neither"
    )
    if first.contradictions:
      kind += ", contradiction said"
    kinds[kind] += 1
    differing[sample.text.partition("月")[0] + "月", kind] += 1
  num_agreed = len(samples) - kinds.total()
  print(f"{num_agreed:,} of {len(samples):,} dates agree with {name}; others:")
  for kind, number in kinds.most_common():
    print(f"  {number} {kind}")
  for (month, kind), number in sorted(differing.items()):
    print(f"    {month}: {number} {kind}")
  return num_agreed


def read_months(path: pathlib.Path) -> dict[tuple[str, ...], set[int]]:
  """Returns era, year, leap and month as texts -> first days of DILA."""
  months: dict[tuple[str, ...], set[int]] = {}
  with path.open(encoding="utf-8") as file:
    for row in csv.DictReader(file, delimiter="\t"):
      year, month = int(row["year"]), int(row["month"])
      if (
        not 1 <= min(year, month) <= max(year, month) < 100
      ):  # no years of eras
        continue
      leap = "閏" * (row["leap"] == "1")
      parts = _name(year, "元"), leap, _name(month, "正")
      first = int(row["first_jdn"]) - int(row["first_day"]) + 1
      for era in row["era"].split("/"):
        months.setdefault((era[-2:], *parts), set()).add(first)
  return months


def _draw_chinese(chance: random.Random) -> Sample | None:
  state, era, first_year, num_years = chance.choice(_ERAS)
  if era == "民國":  # months of its dates are Gregorian unless it says 農曆
    state, mark = "", "農曆"
  else:
    mark = ""
  day = sexagenary.to_julian_day(first_year, 3, 1) + chance.randrange(
    int((num_years - 0.5) * 365)
  )
  year, month, number = sexagenary.to_civil_date(day)
  theirs = sxtwl.fromSolar(year, month, number)
  first = (
    theirs.getLunarYear(),
    theirs.getLunarMonth(),
    theirs.isLunarLeap(),
    theirs.getLunarDay(),
  )
  solar = lunar_python.Solar.fromYmd(year, month, number)
  lunar = solar.getLunar()
  second = (
    lunar.getYear(),
    abs(lunar.getMonth()),
    lunar.getMonth() < 0,
    lunar.getDay(),
  )
  regnal_year = first[0] - first_year + 1
  if not 1 <= regnal_year <= num_years:
    return None
  text = _write(state + era, regnal_year, *first[1:], mark)
  return Sample(text, day, first[-1], (first, second))


def _write(
  name: str, year: int, month: int, is_leap: bool, day: int, mark: str = ""
) -> str:
  return (
    f"{name}{_name(year, '元')}年{mark}{'閏' * is_leap}{_name(month, '正')}月"
    f"{numerals.format_numeral(day)}日"
  )


def _name(number: int, first: str) -> str:
  return first if number == 1 else numerals.format_numeral(number)


class JapaneseTables:
  """Eras and months of the Ruby library wareki."""

  def __init__(self, folder: pathlib.Path):
    text = (folder / "calendar_def.rb").read_text(encoding="utf-8")
    self._first_year = int(re.search(r"YEAR_MIN = (\d+)", text)[1])
    self._last_day = int(re.search(r"JD_MAX = (\d+)", text)[1])
    self._years = [int(it, 16) for it in re.findall("0x[0-9a-f]{10}", text)]
    self._first_days = [year & 0x3FFFFF for year in self._years]
    text = (folder / "era_def.rb").read_text(encoding="utf-8")
    eras = re.findall(r'Era.new\("(..+?)", (\d+), (\d+), (\d+)\)', text)
    self._eras = [
      (name, int(year), int(start), int(end))
      for name, year, start, end in dict.fromkeys(eras)
      if int(start) < self._last_day
    ]

  def draw(self, chance: random.Random) -> Sample | None:
    """Returns a random day between the first and the last day of an era."""
    day = chance.randrange(self._eras[0][2], self._last_day)
    # An era ends on the first day of the next.
    eras = [era for era in self._eras if era[2] <= day < era[3]]
    if not eras:
      return None
    name, first_year, _, _ = chance.choice(eras)
    place = bisect.bisect_right(self._first_days, day) - 1
    # Bits: first day 0-21, month i long 22+i, thirteen months 35, leap 36-39.
    packed, year = self._years[place], self._first_year + place
    number, month, leap = day - self._first_days[place], 0, packed >> 36
    while number >= (length := 29 + (packed >> 22 + month & 1)):
      number, month = number - length, month + 1
    is_leap = bool(leap) and month == leap
    month = month + 1 - (bool(leap) and month >= leap)
    return Sample(
      _write("日本" + name, year - first_year + 1, month, is_leap, number + 1),
      day,
      number + 1,
    )


def measure_speed(calendars: str, texts: list[str]) -> None:
  """Prints dates a second, as the cells of a table are converted."""
  reader = date_readings.load_reader(calendars)
  start = time.process_time()
  for text in texts:
    for reading in reader.read(text)[:1]:
      reading.to_dict()
  seconds = time.process_time() - start
  print(f"{calendars}: {len(texts) / seconds:,.0f} dates a second")


if __name__ == "__main__":
  main()
