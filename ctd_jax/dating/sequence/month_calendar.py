"""Calendar of a chronicle: the months of a reign table as they passed.

Where eras overlap, a month is one month with several names. From 104 BCE on new
moons, leap months and so the days of every month are computed (`sxtwl`).
Before, only the new moons are: which lunation a year began with is one of four
offsets (see `experts.days`), between which the decoder chooses; a leap month
counts as month 12, which it mostly followed.

Axes: K months, R reigns, S offsets of the calendar (one where it is computed),
D = 3 x 60 days: any day of a month, its first and its last.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.chronology import reign_tables, sexagenary
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR, Timeline
from ctd_jax.dating.experts import days as days_lib

# The calendar reform of 104 BCE, 太初元年.
FIRST_COMPUTED_YEAR = -103
# Beyond it no calendar of a chronicle is meant; a typing error would fill
# memory.
MAX_YEAR = 5000


@dataclasses.dataclass(frozen=True)
class Calendar:
  """The months of a reign table in order, each once.

  Attributes:
    timeline: the table, for readers of dates.
    years: astronomical year of each month.
    months: 1-12.
    is_leap: whether the month is intercalary.
    reign_indices: row in the table of the reign in use.
    day_spans: Julian day number of each month's first day, and its length; None
      where the calendar is not computed.
  """

  timeline: Timeline
  years: Int[np.ndarray, " K"]
  months: Int[np.ndarray, " K"]
  is_leap: Bool[np.ndarray, " K"]
  reign_indices: Int[np.ndarray, " K"]
  day_spans: Int[np.ndarray, "K 2"] | None

  def __len__(self) -> int:
    """Number of months."""
    return len(self.years)

  def name_month(self, ordinal: int | np.integer) -> tuple[str, int, str]:
    """Returns (reign, regnal year, month) of a month, e.g. 晉泰始, 1, 閏三."""
    reign = self.timeline.reigns[self.reign_indices[ordinal]]
    year = int(self.years[ordinal]) - reign.accession + 1
    month = f"{'閏' * bool(self.is_leap[ordinal])}{self.months[ordinal]}"
    return reign.state + reign.name, year, month

  def day_chances(self) -> Float[np.ndarray, "S K D"]:
    """Returns the chance that a month has a day, has it first, has it last."""
    if self.day_spans is None:
      years, year_of = np.unique(self.years, return_inverse=True)
      chances = days_lib.make_lunations(
        years, year_of, self.months
      ).day_chances_by_offset()
    else:
      first, length = self.day_spans.T[..., None]  # each [K, 1]
      day_offset = np.arange(
        sexagenary.CYCLE_LENGTH
      ) - sexagenary.cyclic_index_of_day(first)
      chances = (day_offset % sexagenary.CYCLE_LENGTH < length)[None].astype(
        float
      )
      chances = days_lib.add_day_marks(chances)
    # [S, K, 3, 60] to [S, K, D].
    return chances.reshape(*chances.shape[:2], -1)

  def regnal_years(self) -> Int[np.ndarray, "R K"]:
    """Returns the regnal year of each month in each reign, 0 = none."""
    rows = []
    for reign in self.timeline.reigns:
      regnal_year = self.years - reign.accession + 1
      rows.append(
        np.where(
          (regnal_year >= 1) & (regnal_year <= reign.years), regnal_year, 0
        )
      )
    return np.stack(rows)


def read_calendar(path: pathlib.Path) -> Calendar:
  """Returns the months of a reign table.

  Args:
    path: TSV as `reign_tables.read_reign_table` reads it.

  Raises:
    ValueError: naming file, line and column of what cannot be read.
    FileNotFoundError: if there is no such file.
  """
  try:
    rows = reign_tables.read_reign_table(path)
  except UnicodeDecodeError as error:
    raise ValueError(f"{path}: not UTF-8 ({error.reason})") from error
  for line, row in enumerate(rows, start=2):
    if not -MAX_YEAR <= row.accession <= row.accession + row.years < MAX_YEAR:
      raise ValueError(
        f"{path}, line {line}: columns 'accession' and 'years' should stay "
        f"between -{MAX_YEAR} and {MAX_YEAR}"
      )
  with path.open(encoding="utf-8", newline="") as file:
    table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    first_months = [int(row["month"]) for row in table]
  return make_calendar(Timeline(path.stem, rows), first_months)


def make_calendar(timeline: Timeline, first_months: Sequence[int]) -> Calendar:
  """Returns the months of a timeline's reigns, leap months computed.

  Args:
    timeline: rows in order of time; gaps and overlaps are allowed.
    first_months: month of the first year in which each reign began, [R].
  """
  reign_of_month: dict[tuple[int, int], int] = {}
  for reign_index, (reign, first_month) in enumerate(
    zip(timeline.reigns, first_months, strict=True)
  ):
    for year in range(reign.accession, reign.accession + reign.years):
      for month in range(1, MONTHS_PER_YEAR + 1):
        is_in_use = year > reign.accession or month >= first_month
        # Reigns go by time, so a later name takes the month over.
        if is_in_use or (year, month) not in reign_of_month:
          reign_of_month[year, month] = reign_index
  is_computed = timeline.reigns[0].accession >= FIRST_COMPUTED_YEAR
  rows, spans = [], []
  if is_computed:
    years_in_table = {year for year, _ in reign_of_month}
    for year, month, leap, first, length in _iter_lunations(
      min(years_in_table), max(years_in_table)
    ):
      if year in years_in_table:
        rows.append((year, month, leap, reign_of_month[year, month]))
        spans.append((first, length))
  else:
    rows = [
      (*date, False, reign_of_month[date]) for date in sorted(reign_of_month)
    ]
  years, months, leaps, reign_indices = map(np.array, zip(*rows, strict=True))
  return Calendar(
    timeline,
    years,
    months,
    leaps,
    reign_indices,
    np.array(spans) if spans else None,
  )


def _iter_lunations(
  first_year: int, last_year: int
) -> Iterator[tuple[int, int, bool, int, int]]:
  """Yields the months of the years first..last as they passed.

  Year, month, leap, Julian day number of the first day, and length. A year can
  lack a month: 237 CE has no third, its calendar was reformed.
  """
  import sxtwl

  moons = sexagenary.find_new_moons(
    sexagenary.to_julian_day(first_year - 1, 11, 1),
    sexagenary.to_julian_day(last_year + 1, 4, 30),
  )
  year, month = first_year - 1, 1
  for moon, next_moon in itertools.pairwise(moons):
    day = sxtwl.fromSolar(*sexagenary.to_civil_date(moon))
    # sxtwl has no number for a second twelfth month (239 CE), and the
    # years 690-700, which began two months early, run back in it.
    lunar_month = day.getLunarMonth() or MONTHS_PER_YEAR
    lunar_year = max(day.getLunarYear(), year)
    is_leap = day.isLunarLeap() or (lunar_year, lunar_month) == (year, month)
    year, month = lunar_year, lunar_month
    if first_year <= year <= last_year:
      yield year, month, is_leap, moon, next_moon - moon
