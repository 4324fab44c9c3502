"""Which months can hold a sexagenary day.

Why: 「六月癸亥」 fits a computed calendar in about half of the years. The new
moons are computed; which lunation a year's first month was is not, so it is
learned from records of known months: each that opens with month and day votes
on its year's place, and years without votes follow their neighbours. So for
`cues`; `chronicle`, which knows no month, leaves the place to the order
decoder, for which it is hidden like the month.

Axes: K months, Y years, L lunations, S places of a year's first month, M = 3
marks of a day.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
from scipy.special import logsumexp

from ctd_jax.chronology import sexagenary
from ctd_jax.dating.corpus import Corpus, Labels, MonthAxis

# The first month began one lunation before to two after that of the winter
# solstice; the two in the middle are usual.
_OFFSETS = (-1, 0, 1, 2)
_OFFSET_PRIOR = (0.05, 0.45, 0.45, 0.05)
# Month and day of the Julian calendar, -721 to -467; it moves by a day in 128
# years.
_SOLSTICE = (12, 27)
_VOTE_LOG_LIKELIHOOD = (
  1.5  # log likelihood of a day that fits against one that does not
)
_MAX_VOTE_LOG_LIKELIHOOD = 8.0
_NEIGHBOUR_YEARS = 2.0  # reach of a year's votes
_LEAP_CHANCE = 0.5  # that month 12 is prolonged by a leap month of the day
_ADJACENT_DAY_CHANCE = (
  1 / 3
)  # chance that a new moon is a day off the computed one
_OFFSET_CHANGE_CHANCE = (
  0.05  # chance that the place is drawn anew from record to record
)


@dataclasses.dataclass(frozen=True)
class Lunations:
  """The lunations that the months of a calendar may have been.

  Attributes:
    year_of: index of each month's year, int [K].
    month: 1-12, int [K].
    lunation_index: lunation of each month, by the place of its year, int [K, S].
    has_day: which days each lunation holds, bool [L, 60].
  """

  year_of: np.ndarray
  month: np.ndarray
  lunation_index: np.ndarray
  has_day: np.ndarray

  def day_chances(self, day_counts: np.ndarray) -> np.ndarray:
    """Returns the chance that a month holds a day, float32 [K, M, 60].

    Args:
      day_counts: how often each month is seen with each day, [K, 60].
    """
    scores_by_offset = [
      (day_counts * (self.has_day[lunation] - 0.5)).sum(axis=1)
      for lunation in self.lunation_index.T
    ]
    votes = np.stack(
      [np.bincount(self.year_of, scores) for scores in scores_by_offset], axis=1
    )
    offset_chances = _estimate_offset_chances(votes)[self.year_of]
    expected_chances = np.einsum(
      "ks,skmd->kmd", offset_chances, self.day_chances_by_offset()
    )
    return expected_chances.astype(np.float32)

  def day_chances_by_offset(self) -> np.ndarray:
    """Returns the chance that a month holds a day, by place, [S, K, M, 60]."""
    chances = add_day_marks(
      self.has_day[self.lunation_index.T].astype(np.float32)
    )
    leap_chances = add_day_marks(
      self.has_day[self.lunation_index.T + 1].astype(np.float32)
    )
    leap_chances *= np.where(self.month == 12, _LEAP_CHANCE, 0)[:, None, None]
    return np.maximum(chances, leap_chances)


def add_day_marks(day_chances: np.ndarray) -> np.ndarray:
  """Returns the chance that a month has a day, as its first, its last.

  Args:
    day_chances: whether, or the chance that, a month holds a day, [..., 60].

  Returns:
    [..., M, 60]; a computed new moon may be a day off.
  """
  first, last = (
    day_chances * (1 - np.roll(day_chances, shift, -1)) for shift in (1, -1)
  )
  day_chances = np.stack([day_chances, first, last], axis=-2)
  adjacent_chances = np.maximum(
    np.roll(day_chances, 1, -1), np.roll(day_chances, -1, -1)
  )
  return np.maximum(day_chances, _ADJACENT_DAY_CHANCE * adjacent_chances)


def make_offset_transition() -> np.ndarray:
  """Returns the chances of a record's place, by that of the one before, [S, S].

  Mostly it is the same; else it is drawn from the usual ones. True calendars
  change their place at new year; that a record may do so within a year is what
  the decoder can afford, and takes up a misprinted day at the same price.
  """
  return (1 - _OFFSET_CHANGE_CHANCE) * np.eye(
    len(_OFFSETS)
  ) + _OFFSET_CHANGE_CHANCE * np.array(_OFFSET_PRIOR)


def make_offset_prior() -> np.ndarray:
  """Returns the chance of each place before anything is read, [S]."""
  return np.array(_OFFSET_PRIOR)


def make_lunations(
  years: np.ndarray, year_of: np.ndarray, month: np.ndarray
) -> Lunations:
  """Returns what the months of a calendar may have been.

  Args:
    years: astronomical year of every year of the calendar, int [Y]. Several
      may share one: the last of a ruler and the first of the next.
    year_of: index of each month's year, int [K].
    month: 1-12, int [K].
  """
  moons = _new_moons(int(years.min()), int(years.max()))
  solstices = [
    sexagenary.to_julian_day(int(year) - 1, *_SOLSTICE) for year in years
  ]
  first_lunation = np.searchsorted(moons, solstices, side="right") - 1
  lunation_index = np.add.outer(
    first_lunation[year_of] + month - 1, np.array(_OFFSETS)
  )
  return Lunations(year_of, month, lunation_index, _mark_lunation_days(moons))


@functools.lru_cache(maxsize=4)
def _new_moons(first: int, last: int) -> np.ndarray:
  """Returns new moons of a stretch of astronomical years, int [L + 1]."""
  return np.array(
    sexagenary.find_new_moons(
      sexagenary.to_julian_day(first - 2, 6, 1),
      sexagenary.to_julian_day(last + 3, 6, 1),
    )
  )


def estimate_day_chances(
  axis: MonthAxis, corpus: Corpus, labels: Labels
) -> np.ndarray:
  """Returns the chance that a month holds a day, float32 [K, M, 60].

  Args:
    axis: the months.
    corpus: texts; those with opening month, day and known month vote.
    labels: the known months.
  """
  day_counts = np.zeros((len(axis), sexagenary.CYCLE_LENGTH))
  for row in np.flatnonzero(labels.is_known & (labels.event_labels == 1)):
    month = labels.month[row]
    if corpus.days[row] and axis.month_of_year[month] == corpus.opening[row]:
      day_counts[month, corpus.days[row][0]] += 1
  return make_lunations(
    axis.civil_year, axis.year_of, axis.month_of_year
  ).day_chances(day_counts)


def _mark_lunation_days(moons: np.ndarray) -> np.ndarray:
  """Returns which days each lunation holds, bool [L, 60]."""
  has_day = np.zeros((len(moons) - 1, sexagenary.CYCLE_LENGTH), bool)
  for row, (first, last) in enumerate(itertools.pairwise(moons)):
    days = [
      sexagenary.cyclic_index_of_day(int(day)) for day in range(first, last)
    ]
    has_day[row, days] = True
  return has_day


def _estimate_offset_chances(votes: np.ndarray) -> np.ndarray:
  """Returns the chance of each place of each year, [Y, S]."""
  vote_log_likelihood = np.clip(
    _VOTE_LOG_LIKELIHOOD * votes,
    -_MAX_VOTE_LOG_LIKELIHOOD,
    _MAX_VOTE_LOG_LIKELIHOOD,
  )
  year_chances = np.exp(
    vote_log_likelihood - logsumexp(vote_log_likelihood, axis=1, keepdims=True)
  )
  distance = np.abs(
    np.subtract.outer(np.arange(len(votes)), np.arange(len(votes)))
  )
  kernel = np.exp(-distance / _NEIGHBOUR_YEARS)
  np.fill_diagonal(kernel, 0)
  trust = np.minimum(np.abs(votes).sum(axis=1), 3)[:, None]
  prior = kernel @ (year_chances * trust) * np.array(
    _OFFSET_PRIOR
  ) + 0.3 * np.array(_OFFSET_PRIOR)
  log_chances = (
    np.log(prior / prior.sum(axis=1, keepdims=True)) + vote_log_likelihood
  )
  return np.exp(log_chances - logsumexp(log_chances, axis=1, keepdims=True))
