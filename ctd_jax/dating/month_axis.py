"""Months of a timeline, grouped by regnal years.

Axes: K months, Y regnal years of the timeline, n rows.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from jaxtyping import Float, Int

from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import Timeline

UNKNOWN = -1
_MAX_REGNAL_YEARS = 100  # of a reign; the longest of China had 61 years


@dataclasses.dataclass(frozen=True)
class MonthAxis:
  """The months of a timeline, grouped by regnal years.

  Attributes:
    timeline: the calendar.
  """

  timeline: Timeline

  def __len__(self) -> int:
    """Number of months K."""
    return len(self.timeline)

  @functools.cached_property
  def month_of_year(self) -> Int[np.ndarray, " K"]:
    """Month of the year of every month, 1-12."""
    return np.array([key.month for key in self.timeline.months])

  @functools.cached_property
  def _regnal_years(self) -> list[tuple[int, int]]:
    return list(
      dict.fromkeys((key.reign, key.year) for key in self.timeline.months)
    )

  @functools.cached_property
  def year_of(self) -> Int[np.ndarray, " K"]:
    """Index of the regnal year of every month."""
    index = {
      regnal_year: year_index
      for year_index, regnal_year in enumerate(self._regnal_years)
    }
    return np.array(
      [index[key.reign, key.year] for key in self.timeline.months]
    )

  @functools.cached_property
  def year_starts(self) -> Int[np.ndarray, " Y"]:
    """First month of every regnal year."""
    return np.flatnonzero(np.diff(self.year_of, prepend=-1))

  @functools.cached_property
  def reign(self) -> Int[np.ndarray, " Y"]:
    """Reign of every regnal year, from 0."""
    return np.array([reign - 1 for reign, _ in self._regnal_years])

  @functools.cached_property
  def year_number(self) -> Int[np.ndarray, " Y"]:
    """Number of every regnal year, 1 = 元年."""
    return np.array([year for _, year in self._regnal_years])

  @functools.cached_property
  def civil_year(self) -> Int[np.ndarray, " Y"]:
    """Astronomical year of every regnal year."""
    return np.array(
      [
        reign_tables.astronomical_year_of(
          self.timeline, self.timeline.key_at(int(start))
        )
        for start in self.year_starts
      ]
    )

  @property
  def num_years(self) -> int:
    """Number of regnal years Y."""
    return len(self.year_starts)

  @property
  def num_reigns(self) -> int:
    """Number of reigns."""
    return int(self.reign.max()) + 1

  @functools.cached_property
  def _year_table(self) -> np.ndarray:
    # One more row and column than there are reigns and years: the row of the
    # reign UNKNOWN (-1, the last) and the column of any year beyond the limit.
    table = np.full((self.num_reigns + 1, _MAX_REGNAL_YEARS + 2), UNKNOWN)
    table[self.reign, self.year_number] = np.arange(self.num_years)
    return table

  def year_index(
    self, reign: np.ndarray | int, year_number: np.ndarray | int
  ) -> np.ndarray | np.integer:
    """Returns indices of regnal years, UNKNOWN where there is none, int.

    Args:
      reign: from 0, or UNKNOWN.
      year_number: of the year, 1 = 元年; broadcast against `reign`.
    """
    return self._year_table[
      reign, np.minimum(year_number, _MAX_REGNAL_YEARS + 1)
    ]

  def to_years(self, log_months: Float[np.ndarray, "n K"]) -> np.ndarray:
    """Returns log masses of years [n, Y] from log masses of months."""
    return np.logaddexp.reduceat(log_months, self.year_starts, axis=1)
