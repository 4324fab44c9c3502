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
  NUM_MANNERS,
  NUM_OPENINGS,
  UNKNOWN,
  Gallery,
  Labels,
  MonthAxis,
)
from ctd_jax.dating.experts import days

_MANNER_PSEUDO_COUNT = 3.0  # pseudo-counts of a manner of opening
_NUM_SEASON_POSITIONS = 4  # in a season, see `_neighbours`
_MIN_POSITION_COUNT = 0.01  # months of a place, where there is none
_OPENING_PSEUDO_COUNT = 0.1  # pseudo-counts of each opening, over the months
_YEAR_ERROR_CHANCE = (
  0.003  # chance that an opening year number is not the record's
)
# Chance that a day is misprinted or of another month, by `sexagenary.DAY_MARKS`:
# most wrong days fit a month by chance, few its first or last.
_DAY_ERROR_CHANCES = (0.06, 0.0025, 0.0025)
_LATER_DAY_WEIGHT = 0.5  # weight of the days after the first
LOG_EXCLUDED = -9.0  # log chance of a record in a month with a placeholder


@dataclasses.dataclass(frozen=True)
class DateFeatures:
  """Tables from which the evidence of any record is read.

  Attributes:
    gallery: the texts.
    is_event: which records are narrated events, bool [N].
    opening_month_chances: chance of each month of the year given the opening,
      [OPENINGS, 12].
    opening_log_ratios: log chance ratio of each month given the opening and its manner,
      [OPENINGS, MANNERS, K].
    day_chances: chance that a month holds a day, also as its first and as its last,
      [K, M, 60], M in the order of `sexagenary.DAY_MARKS`.
    placeholder_log_ratios: log chance ratio of each month: EXCLUDED where a placeholder is, [K].
  """

  gallery: Gallery
  is_event: np.ndarray
  opening_month_chances: np.ndarray
  opening_log_ratios: np.ndarray
  day_chances: np.ndarray
  placeholder_log_ratios: np.ndarray

  def month_of_year_chances(self, rows: np.ndarray) -> np.ndarray:
    """Returns the chance of each month of the year by the opening, [n, 12]."""
    uniform = np.full((1, 12), 1 / 12, np.float32)
    opening_class = np.where(
      self.is_event[rows], self.gallery.opening[rows], -1
    )
    return np.concatenate([self.opening_month_chances, uniform])[opening_class]

  def log_ratio(self, rows: np.ndarray) -> np.ndarray:
    """Returns the log likelihood ratio of every month, float32 [n, K].

    Args:
      rows: indices of records, none of them a placeholder, [n].
    """
    gallery = self.gallery
    log_ratios = np.tile(self.placeholder_log_ratios, (len(rows), 1))
    is_event = self.is_event[rows]
    log_ratios[is_event] += self.opening_log_ratios[
      gallery.opening[rows[is_event]], gallery.opening_manner[rows[is_event]]
    ]
    year_numbers = gallery.axis.year_number[gallery.axis.year_of]
    for index in np.flatnonzero(is_event):
      row = rows[index]
      if gallery.opening_year[row]:
        log_ratios[index] += np.where(
          year_numbers == gallery.opening_year[row],
          np.log1p(-_YEAR_ERROR_CHANCE),
          np.log(_YEAR_ERROR_CHANCE),
        )
      for day_index, day in enumerate(gallery.days[row]):
        mark = (
          gallery.first_day_mark[row] if day_index == 0 else sexagenary.ANY_DAY
        )
        error_chance = _DAY_ERROR_CHANCES[mark]
        day_log_ratios = np.log(
          error_chance + (1 - error_chance) * self.day_chances[:, mark, day]
        )
        log_ratios[index] += (
          day_log_ratios
          if day_index == 0
          else _LATER_DAY_WEIGHT * day_log_ratios
        )
    return log_ratios


def fit_date_features(
  gallery: Gallery,
  labels: Labels,
  is_event: np.ndarray,
  use_openings: bool = True,
  use_days: bool = True,
  use_placeholders: bool = True,
  use_seasons: bool = True,
) -> DateFeatures:
  """Returns the tables, those of experts that are switched off empty.

  Args:
    gallery: the texts.
    labels: known months, from which openings and calendar are learned.
    is_event: which records are narrated events, bool [N].
    use_openings: whether the opening month, season and year number count.
    use_days: whether sexagenary days count.
    use_placeholders: whether months with a placeholder are excluded.
    use_seasons: whether the manner of an opening counts.
  """
  axis = gallery.axis
  if not use_openings:
    blank = np.zeros_like(gallery.opening)
    gallery = dataclasses.replace(gallery, opening=blank, opening_year=blank)
  if not use_days:
    gallery = dataclasses.replace(gallery, days=((),) * len(gallery))
  event_rows = np.flatnonzero(labels.is_known & is_event)
  counts = np.zeros((NUM_OPENINGS, 12))
  months = axis.month_of_year[labels.month[event_rows]] - 1
  np.add.at(counts, (gallery.opening[event_rows], months), 1)
  if not use_openings:
    counts[:] = 0
  month_prior = (counts.sum(0) + 1) / (counts.sum() + 12)
  opening_month_chances = counts + _OPENING_PSEUDO_COUNT * month_prior
  opening_month_chances /= opening_month_chances.sum(axis=1, keepdims=True)
  has_placeholder = np.zeros(len(axis), bool)
  has_placeholder[
    gallery.placeholder_month[gallery.placeholder_month != UNKNOWN]
  ] = True
  months = np.log(12 * opening_month_chances)[:, None, axis.month_of_year - 1]
  if use_openings and use_seasons:
    months = _manner_log_ratios(
      gallery, event_rows, labels, opening_month_chances, has_placeholder
    )
  return DateFeatures(
    gallery,
    is_event,
    opening_month_chances,
    np.broadcast_to(months, (NUM_OPENINGS, NUM_MANNERS, len(axis))).astype(
      np.float32
    ),
    days.estimate_day_chances(axis, gallery, labels),
    np.where(use_placeholders & has_placeholder, LOG_EXCLUDED, 0).astype(
      np.float32
    ),
  )


def _manner_log_ratios(
  gallery, event_rows, labels, opening_month_chances, has_placeholder
) -> np.ndarray:
  """Returns log chance ratios of months, [OPENINGS, MANNERS, K].

  A season is named once, and where nothing else happened its name and its first
  month are all that is written: 「秋八月」 is of a year whose seventh month is
  empty, 「秋七月」 alone of one whose eighth and ninth are.

  Args:
    gallery: the texts.
    event_rows: events whose month is known.
    labels: the known months.
    opening_month_chances: of each month of the year given the opening, [OPENINGS, 12].
    has_placeholder: whether a month has a placeholder, bool [K].
  """
  axis = gallery.axis
  month = axis.month_of_year - 1
  season_position = _season_positions(axis, has_placeholder)
  position_counts = np.full((12, _NUM_SEASON_POSITIONS), _MIN_POSITION_COUNT)
  np.add.at(
    position_counts,
    (month[~has_placeholder], season_position[~has_placeholder]),
    1,
  )
  counts = np.zeros((NUM_OPENINGS, NUM_MANNERS, 12, _NUM_SEASON_POSITIONS))
  event_months = labels.month[event_rows]
  np.add.at(
    counts,
    (
      gallery.opening[event_rows],
      gallery.opening_manner[event_rows],
      month[event_months],
      season_position[event_months],
    ),
    1,
  )
  position_share = position_counts / position_counts.sum(axis=1, keepdims=True)
  expected_chances = opening_month_chances[:, None, :, None] * position_share
  total = counts.sum(axis=(2, 3), keepdims=True)
  smoothed_chances = (counts + _MANNER_PSEUDO_COUNT * expected_chances) / (
    total + _MANNER_PSEUDO_COUNT
  )
  ratios = np.log(smoothed_chances * position_counts.sum() / position_counts)
  return ratios[:, :, month, season_position]


def _season_positions(
  axis: MonthAxis, has_placeholder: np.ndarray
) -> np.ndarray:
  """Returns whether the months beside each in its season are empty, int [K].

  1 if all before it are, plus 2 if all after it are.
  """
  season = 4 * axis.year_of + (axis.month_of_year - 1) // 3
  open_months = np.flatnonzero(~has_placeholder)
  first = np.full(4 * axis.num_years, len(axis))
  last = np.full(4 * axis.num_years, -1)
  np.minimum.at(first, season[open_months], open_months)
  np.maximum.at(last, season[open_months], open_months)
  months = np.arange(len(axis))
  return (first[season] >= months) + 2 * (last[season] <= months)
