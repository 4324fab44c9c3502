"""What the date that opens a record says of its month.

Why: 「秋七月」 gives the month, 「秋」 nearly always the first of the season,
「十有八年」 the number of a regnal year, and a day the years whose calendar
holds it in that month. A month for which the gallery has a placeholder has no
other record. All of it acts within a year or excludes whole years, so it is
kept apart from the experts that tell years from one another. Called by `dater`.

Axes: N records, n some of them, K months.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ctd_jax.chronology import sexagenary
from ctd_jax.dating.corpus import (
  MANNERS,
  OPENINGS,
  UNKNOWN,
  Axis,
  Gallery,
  Labels,
)
from ctd_jax.dating.experts import days

_EXPECTED = 3.0  # pseudo-counts of a manner of opening
_PLACES = 4  # in a season, see `_neighbours`
_SMALL = 0.01  # months of a place, where there is none
_SMOOTHING = 0.1  # pseudo-counts of each opening, over the months
_WRONG_YEAR = 0.003  # chance that an opening year number is not the record's
# Chance that a day is misprinted or of another month, by `cyclic_days.MARKS`:
# most wrong days fit a month by chance, few its first or last.
_WRONG_DAY = (0.06, 0.0025, 0.0025)
_LATER_DAYS = 0.5  # weight of the days after the first
EXCLUDED = -9.0  # log chance of a record in a month with a placeholder


@dataclasses.dataclass(frozen=True)
class Cues:
  """Tables from which the evidence of any record is read.

  Attributes:
    gallery: the texts.
    events: which records are narrated events, bool [N].
    openings: chance of each month of the year given the opening,
      [OPENINGS, 12].
    months: log chance ratio of each month given the opening and its manner,
      [OPENINGS, MANNERS, K].
    held: chance that a month holds a day, also as its first and as its last,
      [K, M, 60], M in the order of `cyclic_days.MARKS`.
    empty: log chance ratio of each month: EXCLUDED where a placeholder is, [K].
  """

  gallery: Gallery
  events: np.ndarray
  openings: np.ndarray
  months: np.ndarray
  held: np.ndarray
  empty: np.ndarray

  def seasons(self, rows: np.ndarray) -> np.ndarray:
    """Returns the chance of each month of the year by the opening, [n, 12]."""
    even = np.full((1, 12), 1 / 12, np.float32)
    opening = np.where(self.events[rows], self.gallery.opening[rows], -1)
    return np.concatenate([self.openings, even])[opening]

  def log_ratio(self, rows: np.ndarray) -> np.ndarray:
    """Returns the log likelihood ratio of every month, float32 [n, K].

    Args:
      rows: indices of records, none of them a placeholder, [n].
    """
    gallery = self.gallery
    evidence = np.tile(self.empty, (len(rows), 1))
    told = self.events[rows]
    evidence[told] += self.months[
      gallery.opening[rows[told]], gallery.manner[rows[told]]
    ]
    number = gallery.axis.number[gallery.axis.year_of]
    for place in np.flatnonzero(told):
      row = rows[place]
      if gallery.number[row]:
        evidence[place] += np.where(
          number == gallery.number[row],
          np.log1p(-_WRONG_YEAR),
          np.log(_WRONG_YEAR),
        )
      for order, day in enumerate(gallery.days[row]):
        mark = gallery.mark[row] if order == 0 else sexagenary.ANY
        wrong = _WRONG_DAY[mark]
        fits = np.log(wrong + (1 - wrong) * self.held[:, mark, day])
        evidence[place] += fits if order == 0 else _LATER_DAYS * fits
    return evidence


def fit(
  gallery: Gallery,
  labels: Labels,
  events: np.ndarray,
  use_openings: bool = True,
  use_days: bool = True,
  use_empty: bool = True,
  use_seasons: bool = True,
) -> Cues:
  """Returns the tables, those of experts that are switched off empty.

  Args:
    gallery: the texts.
    labels: known months, from which openings and calendar are learned.
    events: which records are narrated events, bool [N].
    use_openings: whether the opening month, season and year number count.
    use_days: whether sexagenary days count.
    use_empty: whether months with a placeholder are excluded.
    use_seasons: whether the manner of an opening counts.
  """
  axis = gallery.axis
  if not use_openings:
    blank = np.zeros_like(gallery.opening)
    gallery = dataclasses.replace(gallery, opening=blank, number=blank)
  if not use_days:
    gallery = dataclasses.replace(gallery, days=((),) * len(gallery))
  known = np.flatnonzero(labels.known & events)
  counts = np.zeros((OPENINGS, 12))
  months = axis.month[labels.month[known]] - 1
  np.add.at(counts, (gallery.opening[known], months), 1)
  if not use_openings:
    counts[:] = 0
  share = (counts.sum(0) + 1) / (counts.sum() + 12)
  chances = counts + _SMOOTHING * share
  chances /= chances.sum(axis=1, keepdims=True)
  stated = np.zeros(len(axis), bool)
  stated[gallery.states[gallery.states != UNKNOWN]] = True
  months = np.log(12 * chances)[:, None, axis.month - 1]
  if use_openings and use_seasons:
    months = _manners(gallery, known, labels, chances, stated)
  return Cues(
    gallery,
    events,
    chances,
    np.broadcast_to(months, (OPENINGS, MANNERS, len(axis))).astype(np.float32),
    days.month_days(axis, gallery, labels),
    np.where(use_empty & stated, EXCLUDED, 0).astype(np.float32),
  )


def _manners(gallery, known, labels, chances, empty) -> np.ndarray:
  """Returns log chance ratios of months, [OPENINGS, MANNERS, K].

  A season is named once, and where nothing else happened its name and its first
  month are all that is written: 「秋八月」 is of a year whose seventh month is
  empty, 「秋七月」 alone of one whose eighth and ninth are.

  Args:
    gallery: the texts.
    known: events whose month is known.
    labels: the known months.
    chances: of each month of the year given the opening, [OPENINGS, 12].
    empty: whether a month has a placeholder, bool [K].
  """
  axis = gallery.axis
  month = axis.month - 1
  place = _neighbours(axis, empty)
  filled = np.full((12, _PLACES), _SMALL)
  np.add.at(filled, (month[~empty], place[~empty]), 1)
  counts = np.zeros((OPENINGS, MANNERS, 12, _PLACES))
  of_known = labels.month[known]
  np.add.at(
    counts,
    (
      gallery.opening[known],
      gallery.manner[known],
      month[of_known],
      place[of_known],
    ),
    1,
  )
  share = filled / filled.sum(axis=1, keepdims=True)
  expected = chances[:, None, :, None] * share
  total = counts.sum(axis=(2, 3), keepdims=True)
  right = (counts + _EXPECTED * expected) / (total + _EXPECTED)
  ratios = np.log(right * filled.sum() / filled)
  return ratios[:, :, month, place]


def _neighbours(axis: Axis, empty: np.ndarray) -> np.ndarray:
  """Returns whether the months beside each in its season are empty, int [K].

  1 if all before it are, plus 2 if all after it are.
  """
  season = 4 * axis.year_of + (axis.month - 1) // 3
  filled = np.flatnonzero(~empty)
  first = np.full(4 * axis.years, len(axis))
  last = np.full(4 * axis.years, -1)
  np.minimum.at(first, season[filled], filled)
  np.maximum.at(last, season[filled], filled)
  months = np.arange(len(axis))
  return (first[season] >= months) + 2 * (last[season] <= months)
