"""Months that records are dated in, grouped by years.

An axis is what a dating model knows of a calendar: a month is an integer, its
year another. The months are those of a timeline, reign after reign, or the
lunations of a chronicle (`chronicle.undated_texts.make_month_axis`), where a
year can have a leap month and belong to several reigns.

Axes: K months, Y years, R reigns, M memberships (pairs of a year and a reign),
n rows.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from jaxtyping import Float, Int

from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import Timeline

UNKNOWN = -1


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class MonthAxis:
  """Months in order, and the years that they make up.

  Attributes:
    timeline: the reigns, for readers of dates.
    month_of_year: 1-12; a leap month shares the number of the one before.
    year_of: index of the year of every month, ascending without gaps.
    civil_year: astronomical year of every year. Several may share one: the last
      of a ruler and the first of the next.
    regnal_years: (reign from 0, number of its year, index of the year), those
      that lead in their years first.
  """

  timeline: Timeline
  month_of_year: Int[np.ndarray, " K"]
  year_of: Int[np.ndarray, " K"]
  civil_year: Int[np.ndarray, " Y"]
  regnal_years: Int[np.ndarray, "M 3"]

  @classmethod
  def from_timeline(cls, timeline: Timeline) -> MonthAxis:
    """Returns the months of a timeline, numbered as there, by regnal years.

    Args:
      timeline: the calendar.
    """
    regnal_years = list(
      dict.fromkeys((key.reign, key.year) for key in timeline.months)
    )
    index = {regnal_year: row for row, regnal_year in enumerate(regnal_years)}
    year_of = np.array([index[key.reign, key.year] for key in timeline.months])
    starts = np.flatnonzero(np.diff(year_of, prepend=-1)).tolist()
    return cls(
      timeline=timeline,
      month_of_year=np.array([key.month for key in timeline.months]),
      year_of=year_of,
      civil_year=np.array(
        [
          reign_tables.astronomical_year_of(timeline, timeline.key_at(start))
          for start in starts
        ]
      ),
      regnal_years=np.array(
        [
          (reign - 1, number, row)
          for row, (reign, number) in enumerate(regnal_years)
        ]
      ),
    )

  def __len__(self) -> int:
    """Number of months K."""
    return len(self.month_of_year)

  @functools.cached_property
  def year_starts(self) -> Int[np.ndarray, " Y"]:
    """First month of every year."""
    return np.flatnonzero(np.diff(self.year_of, prepend=-1))

  @functools.cached_property
  def reign(self) -> Int[np.ndarray, " Y"]:
    """Reign that leads in every year, from 0; UNKNOWN where none does."""
    return self._leading(0)

  @functools.cached_property
  def year_number(self) -> Int[np.ndarray, " Y"]:
    """Number of every year in its leading reign, 1 = 元年."""
    return self._leading(1)

  @functools.cached_property
  def has_reign(self) -> Float[np.ndarray, "Y R"]:
    """1 where a year is of a reign, else 0."""
    result = np.zeros((self.num_years, self.num_reigns))
    result[self.regnal_years[:, 2], self.regnal_years[:, 0]] = 1
    return result

  def _leading(self, column: int) -> np.ndarray:
    result = np.full(self.num_years, UNKNOWN)
    # Backwards, so that the first membership of a year stays.
    result[self.regnal_years[::-1, 2]] = self.regnal_years[::-1, column]
    return result

  @property
  def num_years(self) -> int:
    """Number of years Y."""
    return len(self.civil_year)

  @property
  def num_reigns(self) -> int:
    """Number of reigns."""
    return int(self.regnal_years[:, 0].max(initial=-1)) + 1

  @functools.cached_property
  def _year_table(self) -> np.ndarray:
    # One more row and column than there are reigns and years: the row of the
    # reign UNKNOWN (-1, the last) and the column of any year beyond the last.
    reigns, numbers, years = self.regnal_years[::-1].T
    table = np.full((self.num_reigns + 1, numbers.max(initial=0) + 2), UNKNOWN)
    table[reigns, numbers] = years
    return table

  def year_index(
    self, reign: np.ndarray | int, year_number: np.ndarray | int
  ) -> np.ndarray | np.integer:
    """Returns indices of years, UNKNOWN where there is none, int.

    Args:
      reign: from 0, or UNKNOWN.
      year_number: of the year, 1 = 元年; broadcast against `reign`.
    """
    last = self._year_table.shape[1] - 1
    return self._year_table[reign, np.minimum(year_number, last)]

  def to_years(self, log_months: Float[np.ndarray, "n K"]) -> np.ndarray:
    """Returns log masses of years [n, Y] from log masses of months."""
    return np.logaddexp.reduceat(log_months, self.year_starts, axis=1)
