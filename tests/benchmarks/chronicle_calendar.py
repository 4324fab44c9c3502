"""Months and numerals that the gold of chronicles is read by.

None of the tables that date chronicles: the years of eras and the days of
months are those of the DILA Time Authority, those of Lu its twelve reigns.
"""

import collections
import csv
import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterable, Sequence

STEMS, BRANCHES = "甲乙丙丁戊己庚辛壬癸", "子丑寅卯辰巳午未申酉戌亥"
# Printers mix 己 and 已 and 巳, and cut their blocks with other shapes.
_DAY = re.compile(
  r"([甲乙丙丁戊己已巳庚辛壬癸])([子丑寅卯夘辰巳已己午未申酉戌戍亥])"
)
_EPOCH_OF_CYCLE = 11  # (Julian day number - 11) % 60 is 0 on 甲子

# (era, regnal year) -> astronomical years, for a name can come twice.
EraYears = dict[tuple[str, int], tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Month:
  """A month that is right.

  Attributes:
    year: astronomical, as its calendar counts it.
    month: 1-12; 0 if only the year is known.
    is_leap: whether it is intercalary.
    first_day: Julian day number; 0 if not known.
  """

  year: int
  month: int = 0
  is_leap: bool = False
  first_day: int = 0


class MonthTable:
  """Months by year, in the order of their calendar.

  Args:
    months: of one calendar.
  """

  def __init__(self, months: Iterable[tuple[Month, int]]):
    self.by_year: dict[int, list[Month]] = collections.defaultdict(list)
    self.lengths: dict[Month, int] = {}
    for month, length in sorted(
      set(months),
      key=lambda row: (row[0].year, row[0].first_day, row[0].month),
    ):
      self.by_year[month.year].append(month)
      self.lengths[month] = length

  def find_month(
    self, year: int, number: int, is_leap: bool
  ) -> tuple[int, Month] | None:
    """Returns place in the year and month; number 0 is any leap month."""
    for index, month in enumerate(self.by_year.get(year, ())):
      if month.is_leap == is_leap and number in (0, month.month):
        return index, month
    return None

  def has_day(self, month: Month, day: int) -> bool:
    """Returns whether a month has a sexagenary day (0-59, 甲子 is 0)."""
    if not month.first_day:
      return True
    offset = (day - (month.first_day - _EPOCH_OF_CYCLE)) % 60
    return offset < self.lengths[month]


def parse_numeral(text: str) -> int:
  """Returns the value of a numeral below 100; 元 and 正 are 1, 0 if none."""
  text = text.translate(str.maketrans("元正", "一一", "有又"))
  for sign, tens in (("廿", "二十"), ("卅", "三十")):
    text = text.replace(sign, tens)
  match = re.fullmatch(r"(?:(\w?)(十))?(\w?)", text)
  if not text or match is None:
    return 0
  digits = "〇一二三四五六七八九"
  if not set(f"{match[1] or ''}{match[3]}") <= set(digits):
    return 0
  tens = (digits.index(match[1]) if match[1] else 1) if match[2] else 0
  return 10 * tens + (digits.index(match[3]) if match[3] else 0)


def parse_day(text: str, position: int) -> int | None:
  """Returns the sexagenary day printed at a position, 甲子 is 0."""
  match = _DAY.match(text, position)
  if match is None:
    return None
  stem = STEMS.index(match[1].translate(str.maketrans("已巳", "己己")))
  branch = BRANCHES.index(
    match[2].translate(str.maketrans("夘已己戍", "卯巳巳戌"))
  )
  if (stem - branch) % 2:
    return None
  return next(
    day for day in range(60) if (day % 10, day % 12) == (stem, branch)
  )


@functools.cache
def read_dila_rows(outside: pathlib.Path) -> tuple[dict[str, str], ...]:
  """Returns the rows of the months of China."""
  path = outside / "dila_time" / "zh.tsv"
  with path.open(encoding="utf-8", newline="") as file:
    return tuple(csv.DictReader(file, delimiter="\t"))


def read_dila_months(
  outside: pathlib.Path, dynasties: Sequence[str]
) -> tuple[MonthTable, EraYears]:
  """Returns months, and (era, regnal year) -> astronomical years, ascending.

  Where years are counted by the ruler alone, the era is 「景帝（中元）」.

  Args:
    outside: folder of texts and calendars from outside.
    dynasties: as DILA calls them.
  """
  months = []
  years: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
  rows = [row for row in read_dila_rows(outside) if row["dynasty"] in dynasties]
  for row in sorted(rows, key=lambda row: dynasties.index(row["dynasty"])):
    number, first = int(row["month"]), int(row["first_jdn"])
    first -= int(row["first_day"]) - 1
    # Some hundred days past new year lies in the year, leap months or not.
    day = first - round((number - 1) * 29.53) + 120
    year = int((day - 1721057.5) // 365.25)
    # Until 104 BCE the year began with the tenth month.
    year += number >= 10 and first < 1683431
    length = int(row["last_jdn"]) - first + 1
    months.append((Month(year, number, row["leap"] != "0", first), length))
    eras = row["era"].split("/")
    if "（" in row["era"]:
      eras = [row["ruler"] + era for era in eras]
    for era in eras:
      years[era, int(row["year"])].add(year)
  # A month of two eras is two rows: the longer one has its length. Of two
  # dynasties that of the first counts.
  lengths: dict[Month, int] = {}
  names: dict[tuple[int, int, bool], Month] = {}
  for month, length in months:
    name = month.year, month.month, month.is_leap
    known = names.setdefault(name, month)
    if known == month:
      lengths[month] = max(lengths.get(month, 0), length)
  return MonthTable(lengths.items()), {
    name: tuple(sorted(found)) for name, found in years.items()
  }


def make_lu_months(first_year: int, last_year: int) -> MonthTable:
  """Returns the months of years whose calendar is not known."""
  return MonthTable(
    # First days that order the months and say nothing of days.
    (Month(year, number), 0)
    for year in range(first_year, last_year + 1)
    for number in range(1, 13)
  )
