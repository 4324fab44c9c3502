"""p(month | record): what is kept of it, and its mass in an interval.

Why: a gallery of two million records times three thousand months does not fit,
so a posterior is kept as scores of years and a few tables, and log p is made
block by block. A query is answered by the mass that a record has in the query's
interval. Made by `dater`; used by `ranking`.

Axes: N records, n a block of them, Q queries, K months, Y regnal years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from ctd_jax.dating.corpus import UNKNOWN, Axis
from ctd_jax.dating.experts.date_features import Cues

# Log chance of a month other than the one a record is known to be of.
NEVER = -25.0
_LEAST_MASS = 1e-11


@dataclasses.dataclass(frozen=True)
class Part:
  """The posteriors of some records.

  Attributes:
    rows: which records, ascending, int [n].
    cues: tables of the evidence within a year.
    years: log scores of years, up to a constant for each record, [n, Y].
    seasons: log ratios of the months of a year, [n, 12].
    months: log factors of months for records that open one, [K].
    opens: whether a record opens a month, bool [n].
    sharpness: inverse temperature of the whole.
    allowed: months that are possible at all, bool [K].
  """

  rows: np.ndarray
  cues: Cues
  years: np.ndarray
  seasons: np.ndarray
  months: np.ndarray
  opens: np.ndarray
  sharpness: float
  allowed: np.ndarray

  def scores(self, places: np.ndarray) -> np.ndarray:
    """Returns log scores of months without `months`, float32 [n, K].

    Args:
      places: indices into `rows`.
    """
    axis = self.cues.gallery.axis
    scores = self.cues.log_ratio(self.rows[places])
    scores += self.years[places][:, axis.year_of]
    scores += self.seasons[places][:, axis.month - 1]
    return scores

  def log_p(self, places: np.ndarray) -> np.ndarray:
    """Returns normalised log p, float32 [n, K]."""
    scores = self.scores(places)
    scores += np.where(self.opens[places, None], self.months, 0)
    scores = self.sharpness * scores + np.where(self.allowed, 0, NEVER)
    total = logsumexp(scores, axis=1, keepdims=True)
    return (scores - total).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Posterior:
  """The posteriors of all records of a gallery.

  Attributes:
    axis: the months.
    month: month of each record that is certain (known, or stated by a
      placeholder), UNKNOWN for the others, int [N].
    parts: posteriors of the others; a record is in one part at most. A record
      that is nowhere may be of any month.
  """

  axis: Axis
  month: np.ndarray
  parts: tuple[Part, ...]

  def __len__(self) -> int:
    return len(self.month)

  def log_p(self, rows: np.ndarray) -> np.ndarray:
    """Returns log p(month | record), float32 [n, K], of the records `rows`."""
    result = np.full((len(rows), len(self.axis)), -np.log(len(self.axis)))
    result = result.astype(np.float32)
    certain = np.flatnonzero(self.month[rows] != UNKNOWN)
    result[certain] = NEVER
    result[certain, self.month[rows[certain]]] = 0
    for part in self.parts:
      places = np.searchsorted(part.rows, rows)
      places = np.minimum(places, max(len(part.rows) - 1, 0))
      if not len(part.rows):
        continue
      inside = np.flatnonzero(
        (part.rows[places] == rows) & (self.month[rows] == UNKNOWN)
      )
      if len(inside):
        result[inside] = part.log_p(places[inside])
    return result

  def log_mass(
    self, rows: np.ndarray, intervals: Sequence[tuple[int, int]]
  ) -> np.ndarray:
    """Returns log of the mass of each interval, float32 [Q, n].

    Args:
      rows: records, [n].
      intervals: first and last ordinal month, both included, [Q].
    """
    month = self.month[rows]
    hidden = month == UNKNOWN
    result = _certain_log_mass(month, intervals)
    result[:, hidden] = interval_log_mass(self.log_p(rows[hidden]), intervals)
    return result


def _certain_log_mass(
  months: np.ndarray, intervals: Sequence[tuple[int, int]]
) -> np.ndarray:
  """Returns log of the mass of each interval if the month is known, [Q, n]."""
  first, last = np.array(intervals, np.int64).reshape(-1, 2).T[:, :, None]
  others = (last - first) * np.exp(NEVER)
  inside = (first <= months) & (months <= last)
  outside = np.maximum(others + np.exp(NEVER), _LEAST_MASS)
  return np.where(inside, np.log1p(others), np.log(outside)).astype(np.float32)


def interval_log_mass(
  log_p: np.ndarray, intervals: Sequence[tuple[int, int]]
) -> np.ndarray:
  """Returns log of the sum of p over each interval, float32 [Q, n].

  By cumulative sums in float64; a mass below 1e-11 counts as that.

  Args:
    log_p: [n, K].
    intervals: first and last ordinal month, both included, [Q].

  Raises:
    ValueError: if an interval does not lie within the K months.
  """
  ends = np.array(intervals, np.int64).reshape(-1, 2)
  last = log_p.shape[1] - 1
  for first, end in ends:
    if not 0 <= first <= end <= last:
      raise ValueError(
        f"an interval is first..last within 0..{last}, got {first}..{end}"
      )
  total = np.zeros((len(log_p), log_p.shape[1] + 1))
  np.cumsum(np.exp(log_p.astype(np.float64)), axis=1, out=total[:, 1:])
  mass = total[:, ends[:, 1] + 1] - total[:, ends[:, 0]]
  return np.log(np.maximum(mass, _LEAST_MASS)).T.astype(np.float32)
