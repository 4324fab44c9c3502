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

from ctd_jax.dating import days
from ctd_jax.dating.gallery import OPENINGS, UNKNOWN, Gallery, Labels

_SMOOTHING = 0.1  # pseudo-counts of each opening, over the months
_WRONG_YEAR = 0.003  # chance that an opening year number is not the record's
_WRONG_DAY = 0.06  # chance that a day is misprinted or of another month
_LATER_DAYS = 0.5  # weight of the days after the first
EXCLUDED = -9.0  # log chance of a record in a month with a placeholder


@dataclasses.dataclass(frozen=True)
class Cues:
  """Tables from which the evidence of any record is read.

  Attributes:
    gallery: the texts.
    events: which records are narrated events, bool [N].
    months: log chance ratio of each month given the opening, [OPENINGS, K].
    held: chance that a month holds a day, [K, 60].
    empty: log chance ratio of each month: EXCLUDED where a placeholder is, [K].
  """

  gallery: Gallery
  events: np.ndarray
  months: np.ndarray
  held: np.ndarray
  empty: np.ndarray

  def seasons(self, rows: np.ndarray) -> np.ndarray:
    """Returns the chance of each month of the year by the opening, [n, 12]."""
    month = self.gallery.axis.month - 1
    first = np.array([np.flatnonzero(month == each)[0] for each in range(12)])
    chances = np.exp(self.months[:, first]) / 12
    even = np.full((1, 12), 1 / 12, np.float32)
    opening = np.where(self.events[rows], self.gallery.opening[rows], -1)
    return np.concatenate([chances, even])[opening]

  def log_ratio(self, rows: np.ndarray) -> np.ndarray:
    """Returns the log likelihood ratio of every month, float32 [n, K].

    Args:
      rows: indices of records, none of them a placeholder, [n].
    """
    gallery = self.gallery
    evidence = np.tile(self.empty, (len(rows), 1))
    told = self.events[rows]
    evidence[told] += self.months[gallery.opening[rows[told]]]
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
        fits = np.log(_WRONG_DAY + (1 - _WRONG_DAY) * self.held[:, day])
        evidence[place] += fits if order == 0 else _LATER_DAYS * fits
    return evidence


def fit(
  gallery: Gallery,
  labels: Labels,
  events: np.ndarray,
  use_openings: bool = True,
  use_days: bool = True,
  use_empty: bool = True,
) -> Cues:
  """Returns the tables, those of experts that are switched off empty.

  Args:
    gallery: the texts.
    labels: known months, from which openings and calendar are learned.
    events: which records are narrated events, bool [N].
    use_openings: whether the opening month, season and year number count.
    use_days: whether sexagenary days count.
    use_empty: whether months with a placeholder are excluded.
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
  empty = np.zeros(len(axis), np.float32)
  if use_empty:
    empty[gallery.states[gallery.states != UNKNOWN]] = EXCLUDED
  return Cues(
    gallery,
    events,
    np.log(12 * chances)[:, axis.month - 1].astype(np.float32),
    days.month_days(axis, gallery, labels),
    empty,
  )
