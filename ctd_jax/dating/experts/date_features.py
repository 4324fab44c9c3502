"""Date features: what the date that opens a record says of its month.

「秋七月」 gives the month, 「秋」 nearly always the first of the season,
「十有八年」 the number of a regnal year, and a day the years whose calendar
holds it in that month. A month for which the corpus has a placeholder has no
other record. This evidence acts within a year or excludes whole years, so it is
kept apart from the experts that tell years from one another.

Axes: N records, n some of them, K months, O openings, M manners of opening.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from ctd_jax.chronology import date_expressions, sexagenary
from ctd_jax.dating.corpus import (
  NO_OPENING,
  NUM_MANNERS,
  NUM_OPENINGS,
  Corpus,
  Labels,
  MonthAxis,
)
from ctd_jax.dating.experts import base, days
from ctd_jax.dating.features import CorpusFeatures

_MANNER_PSEUDO_COUNT = 3.0  # pseudo-counts of a manner of opening
_NUM_SEASON_POSITIONS = 4  # in a season, see `_season_positions`
_MIN_POSITION_COUNT = 0.01  # months of a position that none has
_OPENING_PSEUDO_COUNT = 0.1  # pseudo-counts of each opening, over the months
# Chance that an opening year number is not the record's.
_YEAR_ERROR_CHANCE = 0.003
# Chance that a day is misprinted or of another month, by
# `sexagenary.DAY_MARKS`: most wrong days fit a month by chance, few its first
# or last.
_DAY_ERROR_CHANCES = (0.06, 0.0025, 0.0025)
_LATER_DAY_WEIGHT = (
  0.5  # of the days after the first, which repeat its evidence
)
LOG_EXCLUDED = -9.0  # log chance of a record in a month with a placeholder


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DateTables:
  """What the dates that open records say of the months of a timeline.

  Attributes:
    opening_month_chances: chance of each month of the year given the opening.
    opening_log_ratios: log chance ratio of each month given the opening and its
      manner.
    day_chances: chance that a month holds a day, also as its first and as its
      last, in the order of `sexagenary.DAY_MARKS`.
    placeholder_log_ratios: LOG_EXCLUDED where a month has a placeholder, else
      0.
  """

  opening_month_chances: Float[np.ndarray, "O 12"]
  opening_log_ratios: Float32[np.ndarray, "O M K"]
  day_chances: Float32[np.ndarray, "K 3 60"]
  placeholder_log_ratios: Float32[np.ndarray, " K"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedDates:
  """Printed dates of records, and the tables by which they are read.

  Attributes:
    corpus: the texts, with blank openings or days where these do not count.
    is_event: which records are narrated events.
    tables: of the months.
  """

  corpus: Corpus
  is_event: Bool[np.ndarray, " N"]
  tables: DateTables
  name = "dates"

  def month_of_year_chances(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float[np.ndarray, "n 12"]:
    """Returns the chance of each month of the year by the opening."""
    uniform = np.full((1, 12), 1 / 12, np.float32)
    # Commentary is looked up in the last row, the uniform one.
    opening_class = np.where(self.is_event[rows], self.corpus.opening[rows], -1)
    return np.concatenate([self.tables.opening_month_chances, uniform])[
      opening_class
    ]

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns the log likelihood ratio of every month.

    Args:
      rows: records, none of them a placeholder.
    """
    log_ratios = np.tile(self.tables.placeholder_log_ratios, (len(rows), 1))
    # Dates in commentary are of what it cites, not its own.
    indices = np.flatnonzero(self.is_event[rows])
    events, corpus = rows[indices], self.corpus
    log_ratios[indices] += self.tables.opening_log_ratios[
      corpus.opening[events], corpus.opening_manner[events]
    ]
    has_year = corpus.opening_year[events] > 0
    log_ratios[indices[has_year]] += self._year_number_log_ratios(
      events[has_year]
    )
    num_days = np.array([len(corpus.days[row]) for row in events], int)
    for day_index in range(num_days.max(initial=0)):
      has_day = num_days > day_index
      log_ratios[indices[has_day]] += self._day_log_ratios(
        events[has_day], day_index
      )
    return log_ratios

  def split_log_scores(self, row: int) -> dict[str, np.ndarray]:
    """Returns the terms that `log_scores` of a record adds up, name -> [K]."""
    corpus = self.corpus
    terms = {"empty": self.tables.placeholder_log_ratios}
    if not self.is_event[row]:
      return terms
    rows = np.array([row])
    terms["openings"] = self.tables.opening_log_ratios[
      corpus.opening[row], corpus.opening_manner[row]
    ]
    if corpus.opening_year[row]:
      terms["openings"] = (
        terms["openings"] + self._year_number_log_ratios(rows)[0]
      )
    if corpus.days[row]:
      terms["days"] = sum(
        self._day_log_ratios(rows, day_index)[0]
        for day_index in range(len(corpus.days[row]))
      )
    return terms

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the evidence of one record; see `base.FittedExpert`."""
    del year
    if not self.is_event[row]:
      return base.Evidence()
    start, end = map(int, self.corpus.opening_span[row])
    return base.Evidence(
      spans=((start, end),) if end > start else (),
      note=self.corpus.texts[row][start:end],
    )

  def explain_days(self, row: int) -> base.Evidence:
    """Returns the days that a record names, with their places in its text."""
    text, spans = self.corpus.texts[row], []
    days_left = list(self.corpus.days[row])
    for cue in date_expressions.find_date_cues(text, self.corpus.axis.timeline):
      is_next = (
        cue.day
        and days_left
        and (sexagenary.parse_cyclic_index(cue.day) == days_left[0])
      )
      if is_next:
        start = text.find(cue.day, cue.start, cue.end)
        spans.append((max(start, cue.start), cue.end))
        days_left.pop(0)
    names = map(sexagenary.format_cyclic_index, self.corpus.days[row])
    return base.Evidence(spans=tuple(spans), note="、".join(names))

  def _year_number_log_ratios(self, rows: np.ndarray) -> np.ndarray:
    """Returns the log chance of the opening year number, [n, K]."""
    axis = self.corpus.axis
    return np.where(
      axis.year_number[axis.year_of] == self.corpus.opening_year[rows, None],
      np.log1p(-_YEAR_ERROR_CHANCE),
      np.log(_YEAR_ERROR_CHANCE),
    )

  @functools.cached_property
  def _day_table(self) -> np.ndarray:
    """Log chance of a day of some mark in every month, [M, 60, K]."""
    error_chances = np.array(_DAY_ERROR_CHANCES)[:, None, None]
    return np.log(
      error_chances.astype(np.float32)
      + (1 - error_chances).astype(np.float32)
      * np.moveaxis(self.tables.day_chances, 0, -1)
    )

  def _day_log_ratios(self, rows: np.ndarray, day_index: int) -> np.ndarray:
    """Returns the log chance of a day in every month, weighted, [n, K]."""
    days_of_rows = [self.corpus.days[row][day_index] for row in rows]
    if day_index == 0:
      return self._day_table[self.corpus.first_day_mark[rows], days_of_rows]
    # Only the first day has a mark; the others may be any day of the month.
    log_ratios = self._day_table[sexagenary.ANY_DAY, days_of_rows]
    return _LATER_DAY_WEIGHT * log_ratios


@dataclasses.dataclass(frozen=True, kw_only=True)
class DateFeatures:
  """The expert of printed dates.

  Attributes:
    use_openings: whether the opening month, season and year number count.
    use_days: whether sexagenary days count.
    use_placeholders: whether months with a placeholder are excluded.
    use_seasons: whether the manner of an opening counts, where openings do.
  """

  use_openings: bool = True
  use_days: bool = True
  use_placeholders: bool = True
  use_seasons: bool = True
  name = "dates"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedDates:
    """Returns the tables; see `base.Expert`."""
    del peers
    return self.fit_tables(features.corpus, labels, features.is_event)

  def fit_tables(
    self, corpus: Corpus, labels: Labels, is_event: Bool[np.ndarray, " N"]
  ) -> FittedDates:
    """Returns the tables, flat ones for evidence that does not count.

    Args:
      corpus: the texts.
      labels: known months, from which openings and calendar are learned.
      is_event: which records are narrated events.
    """
    axis = corpus.axis
    if not self.use_openings:
      blank = np.full_like(corpus.opening, NO_OPENING)
      corpus = dataclasses.replace(corpus, opening=blank, opening_year=blank)
    if not self.use_days:
      corpus = dataclasses.replace(corpus, days=((),) * len(corpus))
    event_rows = np.flatnonzero(labels.is_known & is_event)
    opening_month_chances = self._estimate_opening_months(
      corpus, labels, event_rows
    )
    # [O, 1, K]: the manner plays no part unless seasons count.
    log_ratios = np.log(12 * opening_month_chances)[
      :, None, axis.month_of_year - 1
    ]
    if self.use_openings and self.use_seasons:
      log_ratios = _manner_log_ratios(
        corpus, event_rows, labels, opening_month_chances
      )
    tables = DateTables(
      opening_month_chances=opening_month_chances,
      opening_log_ratios=np.broadcast_to(
        log_ratios, (NUM_OPENINGS, NUM_MANNERS, len(axis))
      ).astype(np.float32),
      day_chances=days.estimate_day_chances(axis, corpus, labels),
      placeholder_log_ratios=np.where(
        self.use_placeholders & corpus.has_placeholder, LOG_EXCLUDED, 0
      ).astype(np.float32),
    )
    return FittedDates(corpus=corpus, is_event=is_event, tables=tables)

  def _estimate_opening_months(
    self, corpus: Corpus, labels: Labels, event_rows: np.ndarray
  ) -> np.ndarray:
    """Returns the chance of each month of the year by opening, [O, 12]."""
    counts = np.zeros((NUM_OPENINGS, 12))
    months = corpus.axis.month_of_year[labels.month[event_rows]] - 1
    np.add.at(counts, (corpus.opening[event_rows], months), 1)
    if not self.use_openings:
      # All records are in the row of no opening, which would still learn the
      # share of each month.
      counts[:] = 0
    month_prior = (counts.sum(0) + 1) / (counts.sum() + 12)
    chances = counts + _OPENING_PSEUDO_COUNT * month_prior
    return chances / chances.sum(axis=1, keepdims=True)


def _manner_log_ratios(
  corpus: Corpus,
  event_rows: np.ndarray,
  labels: Labels,
  opening_month_chances: np.ndarray,
) -> np.ndarray:
  """Returns log chance ratios of months, [O, M, K].

  A season is named once, and where nothing else happened its name and its first
  month are all that is written: 「秋八月」 is of a year whose seventh month is
  empty, 「秋七月」 alone of one whose eighth and ninth are.

  Args:
    corpus: the texts.
    event_rows: events whose month is known.
    labels: the known months.
    opening_month_chances: of each month of the year by opening, [O, 12].
  """
  axis, has_placeholder = corpus.axis, corpus.has_placeholder
  month = axis.month_of_year - 1
  season_position = _season_positions(axis, has_placeholder)
  # Months that may have a record, by month of the year and position, [12, S].
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
      corpus.opening[event_rows],
      corpus.opening_manner[event_rows],
      month[event_months],
      season_position[event_months],
    ),
    1,
  )
  position_share = position_counts / position_counts.sum(axis=1, keepdims=True)
  # What a manner is expected to show if it depended on the opening alone.
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
