"""Which months can hold a sexagenary day.

Why: 「六月癸亥」 fits a computed calendar in about half of the years. The new
moons are computed; which lunation a year's first month was is not, so it is
learned: every known record with a month and a day votes on its year's place,
and years without votes follow their neighbours. Called by `cues`.

Axes: K months, Y regnal years, L lunations, S places of a year's first month.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
from scipy.special import logsumexp

from ctd_jax.chronology import cyclic_days
from ctd_jax.dating.gallery import Axis, Gallery, Labels

# The first month began one lunation before to two after that of the winter
# solstice; the two in the middle are usual.
_PLACES = (-1, 0, 1, 2)
_USUAL = (0.05, 0.45, 0.45, 0.05)
_SOLSTICE = (12, 27)  # month and day of the Julian calendar, -721 to -467
_VOTE = 1.5  # log likelihood of a day that fits against one that does not
_MOST_VOTES = 8.0
_NEIGHBOUR_YEARS = 2.0  # reach of a year's votes
_LEAP_CHANCE = 0.5  # that month 12 is prolonged by a leap month of the day


@functools.lru_cache(maxsize=4)
def _lunations(first: int, last: int) -> np.ndarray:
  """Returns new moons of a stretch of astronomical years, int [L]."""
  return np.array(
    cyclic_days.new_moons(
      cyclic_days.julian_day_number(first - 2, 6, 1),
      cyclic_days.julian_day_number(last + 3, 6, 1),
    )
  )


def month_days(axis: Axis, gallery: Gallery, labels: Labels) -> np.ndarray:
  """Returns the chance that a month holds a day, float32 [K, 60].

  Args:
    axis: the months.
    gallery: texts; those with opening month, day and known month vote.
    labels: the known months.
  """
  moons = _lunations(int(axis.civil_year.min()), int(axis.civil_year.max()))
  holds = _days_of(moons)
  # Years that share a civil year with the next reign are dated apart.
  solstices = np.array(
    [
      cyclic_days.julian_day_number(int(year) - 1, *_SOLSTICE)
      for year in axis.civil_year
    ]
  )
  base = np.searchsorted(moons, solstices, side="right") - 1
  votes = np.zeros((axis.years, len(_PLACES)))
  for row in np.flatnonzero(labels.known & (labels.answers == 1)):
    month = gallery.opening[row]
    if not (gallery.days[row] and 1 <= month <= 12):
      continue
    year = axis.year_of[labels.month[row]]
    if axis.month[labels.month[row]] == month:
      places = base[year] + np.array(_PLACES) + month - 1
      votes[year] += holds[places, gallery.days[row][0]] - 0.5
  chances = _places(votes)
  months = np.arange(len(axis))
  years = axis.year_of[months]
  result = np.zeros((len(axis), cyclic_days.CYCLE), np.float32)
  for column, place in enumerate(_PLACES):
    lunation = base[years] + place + axis.month - 1
    held = holds[lunation].astype(np.float32)
    leap = _LEAP_CHANCE * holds[lunation + 1]
    held = np.where((axis.month == 12)[:, None], np.maximum(held, leap), held)
    result += chances[years, column, None] * held
  return result


def _days_of(moons: np.ndarray) -> np.ndarray:
  """Returns which days each lunation holds, bool [L - 1, 60]."""
  holds = np.zeros((len(moons) - 1, cyclic_days.CYCLE), bool)
  for row, (first, last) in enumerate(itertools.pairwise(moons)):
    days = [cyclic_days.day_of(int(day)) for day in range(first, last)]
    holds[row, days] = True
  return holds


def _places(votes: np.ndarray) -> np.ndarray:
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
