"""Posterior p(month | record), kept compactly, and its mass in an interval.

Axes: N records, n a block of them, Q queries, K months, Y regnal years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy.special import logsumexp

from ctd_jax.dating.corpus import UNKNOWN, MonthAxis, find_sorted
from ctd_jax.dating.experts import base

# Log chance of a month other than the one a record is known to be of.
LOG_IMPOSSIBLE = -25.0
MIN_MASS = 1e-11  # just below exp(LOG_IMPOSSIBLE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PosteriorBlock:
  """The posteriors of some records."""

  # Two million records times three thousand months do not fit in memory: kept
  # are scores of years and a few tables, and log p is made block by block.

  rows: Int[np.ndarray, " n"]  # of the records, ascending
  dates: base.DateExpert  # the expert of printed dates, with the corpus
  # Log scores of years, up to a constant for each record.
  year_scores: Float32[np.ndarray, "n Y"]
  # Log ratios of the months of a year.
  month_of_year_log_ratios: Float32[np.ndarray, "n 12"]
  # Log factors of months for records that open one.
  month_log_factors: Float32[np.ndarray, " K"]
  opens_month: Bool[np.ndarray, " n"]  # whether a record opens a month
  inverse_temperature: float  # of the whole
  # Log p is multiplied by one plus this times the largest p: of a record with
  # much evidence the experts agree more than the temperature of all says.
  sharpening: float = 0.0
  allowed_months: Bool[np.ndarray, " K"]  # months that are possible at all
  # Whose scores of months are made when they are asked for.
  month_experts: tuple[base.MonthExpert, ...]

  def select(self, is_selected: Bool[np.ndarray, " n"]) -> PosteriorBlock:
    """Returns the posteriors of some of these records."""
    return dataclasses.replace(
      self,
      rows=self.rows[is_selected],
      year_scores=self.year_scores[is_selected],
      month_of_year_log_ratios=self.month_of_year_log_ratios[is_selected],
      opens_month=self.opens_month[is_selected],
    )

  def score_months(
    self, indices: Int[np.ndarray, " b"]
  ) -> Float32[np.ndarray, "b K"]:
    """Returns log scores of months without `month_log_factors`."""
    axis = self.dates.corpus.axis
    scores = self.dates.log_scores(self.rows[indices])
    # [b, Y] to [b, K], and [b, 12] to [b, K].
    scores += self.year_scores[indices][:, axis.year_of]
    scores += self.month_of_year_log_ratios[indices][:, axis.month_of_year - 1]
    for expert in self.month_experts:
      scores += expert.log_scores(self.rows[indices])
    return scores

  def log_p(self, indices: Int[np.ndarray, " b"]) -> Float32[np.ndarray, "b K"]:
    """Returns normalised log p."""
    scores = self.score_months(indices)
    scores += np.where(
      self.opens_month[indices, None], self.month_log_factors, 0
    )
    # The temperature scales the evidence alone: impossible months stay so.
    scores = self.inverse_temperature * scores + np.where(
      self.allowed_months, 0, LOG_IMPOSSIBLE
    )
    log_p = scores - logsumexp(scores, axis=1, keepdims=True)
    if self.sharpening:
      log_p *= 1 + self.sharpening * np.exp(log_p.max(axis=1, keepdims=True))
      log_p -= logsumexp(log_p, axis=1, keepdims=True)
    return log_p.astype(np.float32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CredibleBlock:
  """Posteriors of some records by their most probable months."""

  rows: Int[np.ndarray, " n"]  # of the records, ascending
  # Where the months of each record begin; the last entry is their number.
  starts: Int[np.ndarray, " starts"]
  # Ordinals; one beyond the last month stands for none of them.
  months: Int[np.ndarray, " total"]
  probabilities: Float[np.ndarray, " total"]  # of these
  # Number of months K. The probability of a record that the months above leave
  # over is spread evenly over all months.
  num_months: int

  def select(self, is_selected: Bool[np.ndarray, " n"]) -> CredibleBlock:
    """Returns the posteriors of some of these records."""
    sizes = np.diff(self.starts)
    is_kept = np.repeat(is_selected, sizes)
    return dataclasses.replace(
      self,
      rows=self.rows[is_selected],
      starts=np.cumsum([0, *sizes[is_selected]]),
      months=self.months[is_kept],
      probabilities=self.probabilities[is_kept],
    )

  @classmethod
  def empty(cls, num_months: int) -> CredibleBlock:
    """Returns the posteriors of no records."""
    none = np.zeros(0, int)
    return cls(
      rows=none,
      starts=np.zeros(1, int),
      months=none,
      probabilities=np.zeros(0),
      num_months=num_months,
    )

  def spread(
    self, rows: Int[np.ndarray, " n"]
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns index into `rows`, month and probability of their months."""
    index, is_found = find_sorted(self.rows, rows)
    spans = [
      np.arange(self.starts[row], self.starts[row + 1] if is_one else 0)
      for row, is_one in zip(index.tolist(), is_found.tolist(), strict=True)
    ]
    entries = np.concatenate([np.zeros(0, int), *spans])
    of_row = np.repeat(np.arange(len(rows)), [*map(len, spans)])
    return of_row, self.months[entries], self.probabilities[entries]

  def log_p(self, indices: Int[np.ndarray, " b"]) -> Float32[np.ndarray, "b K"]:
    """Returns normalised log p."""
    result = np.zeros((len(indices), self.num_months + 1))
    for chances, index in zip(result, indices, strict=True):
      span = slice(self.starts[index], self.starts[index + 1])
      chances[np.minimum(self.months[span], self.num_months)] = (
        self.probabilities[span]
      )
    chances = result[:, :-1]
    rest = np.maximum(1 - chances.sum(axis=1, keepdims=True), 0)
    chances = chances + rest / self.num_months
    return np.log(np.maximum(chances, np.exp(LOG_IMPOSSIBLE))).astype(
      np.float32
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Posterior:
  """The posteriors of all records of a corpus."""

  axis: MonthAxis  # the months
  # Month of each record that is certain (known, or stated by a placeholder),
  # UNKNOWN for the others.
  certain_months: Int[np.ndarray, " N"]
  # Posteriors of the others; a record is in one block at most. A record in no
  # block may fall in any month.
  blocks: tuple[PosteriorBlock | CredibleBlock, ...]

  def __len__(self) -> int:
    return len(self.certain_months)

  def log_p(self, rows: Int[np.ndarray, " n"]) -> Float32[np.ndarray, "n K"]:
    """Returns log p(month | record)."""
    result = np.full((len(rows), len(self.axis)), -np.log(len(self.axis)))
    result = result.astype(np.float32)
    certain_rows = np.flatnonzero(self.certain_months[rows] != UNKNOWN)
    result[certain_rows] = LOG_IMPOSSIBLE
    result[certain_rows, self.certain_months[rows[certain_rows]]] = 0
    for block in self.blocks:
      indices, is_found = find_sorted(block.rows, rows)
      block_rows = np.flatnonzero(
        is_found & (self.certain_months[rows] == UNKNOWN)
      )
      if len(block_rows):
        result[block_rows] = block.log_p(indices[block_rows])
    return result

  def log_mass(
    self,
    rows: Int[np.ndarray, " n"],
    intervals: Sequence[tuple[int, int]] | Int[np.ndarray, "Q 2"],
  ) -> Float32[np.ndarray, "Q n"]:
    """Returns the log mass of intervals, first and last month included."""
    certain_months = self.certain_months[rows]
    is_uncertain = certain_months == UNKNOWN
    result = _certain_log_mass(certain_months, intervals)
    result[:, is_uncertain] = interval_log_mass(
      self.log_p(rows[is_uncertain]), intervals
    )
    return result


def _certain_log_mass(
  months: np.ndarray, intervals: Sequence[tuple[int, int]] | np.ndarray
) -> np.ndarray:
  """Returns log of the mass of each interval if the month is known, [Q, n]."""
  first, last = np.array(intervals, np.int64).reshape(-1, 2).T[:, :, None]
  other_mass = (last - first) * np.exp(LOG_IMPOSSIBLE)
  is_inside = (first <= months) & (months <= last)
  outside_mass = np.maximum(other_mass + np.exp(LOG_IMPOSSIBLE), MIN_MASS)
  return np.where(is_inside, np.log1p(other_mass), np.log(outside_mass)).astype(
    np.float32
  )


def interval_log_mass(
  log_p: Float[np.ndarray, "n K"],
  intervals: Sequence[tuple[int, int]] | Int[np.ndarray, "Q 2"],
) -> Float32[np.ndarray, "Q n"]:
  """Returns the log mass of intervals (first and last month, both included)."""
  bounds = np.array(intervals, np.int64).reshape(-1, 2)
  first, last = bounds.T
  num_months = log_p.shape[1]
  if ((first < 0) | (last < first) | (last >= num_months)).any():
    raise ValueError(
      f"intervals should be first..last within 0..{num_months - 1}"
    )
  # In float64: differences of sums in float32 would lose small masses.
  cumulative_mass = np.zeros((len(log_p), log_p.shape[1] + 1))
  np.cumsum(
    np.exp(log_p.astype(np.float64)), axis=1, out=cumulative_mass[:, 1:]
  )
  mass = cumulative_mass[:, last + 1] - cumulative_mass[:, first]
  return np.log(np.maximum(mass, MIN_MASS)).T.astype(np.float32)
