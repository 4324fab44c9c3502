"""Days: which months can hold a sexagenary day.

「六月癸亥」 fits a computed calendar in about half of the years. The new moons
are computed; the lunation with which a year began is not known. From records of
known months it is learned: each that opens with month and day votes on the
offset of its year, and years without votes follow their neighbours. The order
decoder, which knows no month, takes the offset as hidden like the month.

Axes: K months, Y years, L lunations, S offsets of a year's first month from
that of the winter solstice, M = 3 marks of a day.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy.special import logsumexp

from ctd_jax.chronology import civil_dates, sexagenary
from ctd_jax.dating.corpus import Corpus, Labels, MonthAxis

# The first month began one lunation before to two after that of the winter
# solstice; the two in the middle are usual.
_OFFSETS = (-1, 0, 1, 2)
_OFFSET_PRIOR = (0.05, 0.45, 0.45, 0.05)
# Month and day of the Julian calendar, -721 to -467; it moves by a day in 128
# years.
_SOLSTICE = (12, 27)
# Log likelihood of a day that fits against one that does not.
_VOTE_LOG_LIKELIHOOD = 1.5
_MAX_VOTE_LOG_LIKELIHOOD = 8.0  # votes of one year repeat one another
_NEIGHBOUR_YEARS = 2.0  # reach of a year's votes
_MAX_TRUST = 3  # votes from which on a year is believed as much as any
_PRIOR_VOTES = 0.3  # weight of `_OFFSET_PRIOR` beside the neighbours
_LEAP_CHANCE = 0.5  # that month 12 is prolonged by a leap month with the day
_ADJACENT_DAY_CHANCE = 1 / 3  # that a new moon is a day off the computed one
# That the offset is drawn anew from one record to the next.
_OFFSET_CHANGE_CHANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Lunations:
  """The lunations that the months of a calendar may have been.

  Attributes:
    year_of: index of each month's year.
    month: 1-12.
    lunation_index: lunation of each month, by the offset of its year.
    has_day: which days each lunation holds.
    new_moons: Julian day number of the first day of each, and of the one after
      the last, [L + 1].
  """

  year_of: Int[np.ndarray, " K"]
  month: Int[np.ndarray, " K"]
  lunation_index: Int[np.ndarray, "K S"]
  has_day: Bool[np.ndarray, "L 60"]
  new_moons: Int[np.ndarray, " moons"]

  def day_chances(
    self, day_counts: Float[np.ndarray, "K 60"]
  ) -> Float32[np.ndarray, "K M 60"]:
    """Returns the chance that a month holds a day.

    Args:
      day_counts: how often each month is seen with each day.
    """
    # A day that fits an offset votes +1/2 for it, one that does not -1/2.
    scores_by_offset = [
      (day_counts * (self.has_day[lunation] - 0.5)).sum(axis=1)
      for lunation in self.lunation_index.T
    ]
    votes = np.stack(
      [np.bincount(self.year_of, scores) for scores in scores_by_offset], axis=1
    )
    offset_chances = _estimate_offset_chances(votes)[self.year_of]
    expected_chances = np.einsum(
      "ks,skmd->kmd", offset_chances, self.day_chances_by_offset
    )
    return expected_chances.astype(np.float32)

  @functools.cached_property
  def day_chances_by_offset(self) -> Float32[np.ndarray, "S K M 60"]:
    """Returns the chance that a month holds a day, by offset."""
    chances = add_day_marks(
      self.has_day[self.lunation_index.T].astype(np.float32)
    )
    leap_chances = add_day_marks(
      self.has_day[self.lunation_index.T + 1].astype(np.float32)
    )
    leap_chances *= np.where(self.month == 12, _LEAP_CHANCE, 0)[:, None, None]
    return np.maximum(chances, leap_chances)


def add_day_marks(
  day_chances: Float[np.ndarray, "*batch 60"],
) -> Float[np.ndarray, "*batch 3 60"]:
  """Returns the chance that a month has a day, has it first, has it last.

  A computed new moon may be a day off.

  Args:
    day_chances: that a month holds a day; 0 or 1 if it is sure.
  """
  # Days are a cycle: the first is one whose predecessor the month does not
  # hold.
  first, last = (
    day_chances * (1 - np.roll(day_chances, shift, -1)) for shift in (1, -1)
  )
  day_chances = np.stack([day_chances, first, last], axis=-2)
  adjacent_chances = np.maximum(
    np.roll(day_chances, 1, -1), np.roll(day_chances, -1, -1)
  )
  return np.maximum(day_chances, _ADJACENT_DAY_CHANCE * adjacent_chances)


def make_offset_transition() -> Float[np.ndarray, "S S"]:
  """Returns the chances of a record's offset, by that of the one before.

  Mostly it is the same; else it is drawn from the prior. True calendars change
  their offset at new year; the decoder, which sees records and no years, allows
  it at every record, and a misprinted day is absorbed at the same price.
  """
  return (1 - _OFFSET_CHANGE_CHANCE) * np.eye(
    len(_OFFSETS)
  ) + _OFFSET_CHANGE_CHANCE * np.array(_OFFSET_PRIOR)


def make_offset_prior() -> Float[np.ndarray, " S"]:
  """Returns the chance of each offset before anything is read."""
  return np.array(_OFFSET_PRIOR)


def make_lunations(
  years: Int[np.ndarray, " Y"],
  year_of: Int[np.ndarray, " K"],
  month: Int[np.ndarray, " K"],
) -> Lunations:
  """Returns the lunations that the months of a calendar may have been.

  Args:
    years: astronomical year of every year of the calendar. Several may share
      one: the last of a ruler and the first of the next.
    year_of: index of each month's year.
    month: 1-12.
  """
  moons = _new_moons(int(years.min()), int(years.max()))
  solstices = [
    civil_dates.to_julian_day(int(year) - 1, *_SOLSTICE) for year in years
  ]
  # The lunation that holds the solstice before each year.
  first_lunation = np.searchsorted(moons, solstices, side="right") - 1
  lunation_index = np.add.outer(
    first_lunation[year_of] + month - 1, np.array(_OFFSETS)
  )
  return Lunations(
    year_of, month, lunation_index, _mark_lunation_days(moons), moons
  )


def _new_moons(first: int, last: int) -> np.ndarray:
  """Returns the new moons around astronomical years, int [L + 1]."""
  moons = [_new_moons_from_june(year) for year in range(first - 2, last + 3)]
  return np.unique(np.concatenate(moons))


@functools.cache  # chronicles share years, not the first and the last
def _new_moons_from_june(year: int) -> tuple[int, ...]:
  """Returns the new moons from one June 1 to the next, both included."""
  return sexagenary.find_new_moons(
    *(civil_dates.to_julian_day(june_of, 6, 1) for june_of in (year, year + 1))
  )


def estimate_day_chances(
  axis: MonthAxis, corpus: Corpus, labels: Labels
) -> Float32[np.ndarray, "K M 60"]:
  """Returns the chance that a month holds a day.

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
  return _make_axis_lunations(axis).day_chances(day_counts)


# The same for every set of labels.
@functools.lru_cache(maxsize=1)
def _make_axis_lunations(axis: MonthAxis) -> Lunations:
  return make_lunations(axis.civil_year, axis.year_of, axis.month_of_year)


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
  """Returns the chance of each offset of each year, [Y, S]."""
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
  # A year's own votes come in below as its likelihood.
  np.fill_diagonal(kernel, 0)
  trust = np.minimum(np.abs(votes).sum(axis=1), _MAX_TRUST)[:, None]
  offset_prior = np.array(_OFFSET_PRIOR)
  prior = (
    kernel @ (year_chances * trust) * offset_prior + _PRIOR_VOTES * offset_prior
  )
  log_chances = (
    np.log(prior / prior.sum(axis=1, keepdims=True)) + vote_log_likelihood
  )
  return np.exp(log_chances - logsumexp(log_chances, axis=1, keepdims=True))
