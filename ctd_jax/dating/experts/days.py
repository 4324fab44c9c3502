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
from ctd_jax.dating.corpus import Axis, Gallery, Labels

# The first month began one lunation before to two after that of the winter
# solstice; the two in the middle are usual.
_PLACES = (-1, 0, 1, 2)
_USUAL = (0.05, 0.45, 0.45, 0.05)
# Month and day of the Julian calendar, -721 to -467; it moves by a day in 128
# years.
_SOLSTICE = (12, 27)
_VOTE = 1.5  # log likelihood of a day that fits against one that does not
_MOST_VOTES = 8.0
_NEIGHBOUR_YEARS = 2.0  # reach of a year's votes
_LEAP_CHANCE = 0.5  # that month 12 is prolonged by a leap month of the day
_NEAR_DAY = 1 / 3  # chance that a new moon is a day off the computed one
_TURN = 0.05  # chance that the place is drawn anew from record to record


@dataclasses.dataclass(frozen=True)
class Lunations:
  """The lunations that the months of a calendar may have been.

  Attributes:
    year_of: index of each month's year, int [K].
    month: 1-12, int [K].
    places: lunation of each month, by the place of its year, int [K, S].
    holds: which days each lunation holds, bool [L, 60].
  """

  year_of: np.ndarray
  month: np.ndarray
  places: np.ndarray
  holds: np.ndarray

  def held(self, seen: np.ndarray) -> np.ndarray:
    """Returns the chance that a month holds a day, float32 [K, M, 60].

    Args:
      seen: how often each month is seen with each day, [K, 60].
    """
    fits = [
      (seen * (self.holds[lunation] - 0.5)).sum(axis=1)
      for lunation in self.places.T
    ]
    votes = np.stack([np.bincount(self.year_of, fit) for fit in fits], axis=1)
    chances = _chances(votes)[self.year_of]
    held = np.einsum("ks,skmd->kmd", chances, self.held_at())
    return held.astype(np.float32)

  def held_at(self) -> np.ndarray:
    """Returns the chance that a month holds a day, by place, [S, K, M, 60]."""
    held = marked(self.holds[self.places.T].astype(np.float32))
    leap = marked(self.holds[self.places.T + 1].astype(np.float32))
    leap *= np.where(self.month == 12, _LEAP_CHANCE, 0)[:, None, None]
    return np.maximum(held, leap)


def marked(held: np.ndarray) -> np.ndarray:
  """Returns the chance that a month has a day, as its first, its last.

  Args:
    held: whether, or the chance that, a month holds a day, [..., 60].

  Returns:
    [..., M, 60]; a computed new moon may be a day off.
  """
  first, last = (held * (1 - np.roll(held, by, -1)) for by in (1, -1))
  held = np.stack([held, first, last], axis=-2)
  near = np.maximum(np.roll(held, 1, -1), np.roll(held, -1, -1))
  return np.maximum(held, _NEAR_DAY * near)


def turns() -> np.ndarray:
  """Returns the chances of a record's place, by that of the one before, [S, S].

  Mostly it is the same; else it is drawn from the usual ones. True calendars
  change their place at new year; that a record may do so within a year is what
  the decoder can afford, and takes up a misprinted day at the same price.
  """
  return (1 - _TURN) * np.eye(len(_PLACES)) + _TURN * np.array(_USUAL)


def usual() -> np.ndarray:
  """Returns the chance of each place before anything is read, [S]."""
  return np.array(_USUAL)


def lunations(
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
    sexagenary.julian_day_number(int(year) - 1, *_SOLSTICE) for year in years
  ]
  first = np.searchsorted(moons, solstices, side="right") - 1
  places = np.add.outer(first[year_of] + month - 1, np.array(_PLACES))
  return Lunations(year_of, month, places, _days_of(moons))


@functools.lru_cache(maxsize=4)
def _new_moons(first: int, last: int) -> np.ndarray:
  """Returns new moons of a stretch of astronomical years, int [L + 1]."""
  return np.array(
    sexagenary.new_moons(
      sexagenary.julian_day_number(first - 2, 6, 1),
      sexagenary.julian_day_number(last + 3, 6, 1),
    )
  )


def month_days(axis: Axis, gallery: Gallery, labels: Labels) -> np.ndarray:
  """Returns the chance that a month holds a day, float32 [K, M, 60].

  Args:
    axis: the months.
    gallery: texts; those with opening month, day and known month vote.
    labels: the known months.
  """
  seen = np.zeros((len(axis), sexagenary.CYCLE))
  for row in np.flatnonzero(labels.known & (labels.answers == 1)):
    month = labels.month[row]
    if gallery.days[row] and axis.month[month] == gallery.opening[row]:
      seen[month, gallery.days[row][0]] += 1
  return lunations(axis.civil_year, axis.year_of, axis.month).held(seen)


def _days_of(moons: np.ndarray) -> np.ndarray:
  """Returns which days each lunation holds, bool [L, 60]."""
  holds = np.zeros((len(moons) - 1, sexagenary.CYCLE), bool)
  for row, (first, last) in enumerate(itertools.pairwise(moons)):
    days = [sexagenary.day_of(int(day)) for day in range(first, last)]
    holds[row, days] = True
  return holds


def _chances(votes: np.ndarray) -> np.ndarray:
  """Returns the chance of each place of each year, [Y, S]."""
  evidence = np.clip(_VOTE * votes, -_MOST_VOTES, _MOST_VOTES)
  own = np.exp(evidence - logsumexp(evidence, axis=1, keepdims=True))
  distance = np.abs(
    np.subtract.outer(np.arange(len(votes)), np.arange(len(votes)))
  )
  near = np.exp(-distance / _NEIGHBOUR_YEARS)
  np.fill_diagonal(near, 0)
  trust = np.minimum(np.abs(votes).sum(axis=1), 3)[:, None]
  prior = near @ (own * trust) * np.array(_USUAL) + 0.3 * np.array(_USUAL)
  logs = np.log(prior / prior.sum(axis=1, keepdims=True)) + evidence
  return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
