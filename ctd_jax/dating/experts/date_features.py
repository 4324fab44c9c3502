"""Date features: what the date that opens a record says about its month.

Axes: N records, n some of them, K months, O openings, M manners of opening.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy.special import logsumexp

from ctd_jax.chronology import dates, sexagenary
from ctd_jax.dating.corpus import (
  NO_OPENING,
  NUM_MANNERS,
  NUM_OPENINGS,
  Corpus,
  Labels,
  MonthAxis,
)
from ctd_jax.dating.experts import base
from ctd_jax.dating.experts.base import CorpusFeatures

# Days: which months can hold a sexagenary day.
#
# 「六月癸亥」 fits a computed calendar in about half of the years. The new
# moons
# are computed; the lunation with which a year began is not known. From
# records of known months it is learned: each that opens with month and day
# votes on the offset of its year, and years without votes follow their
# neighbours. The order decoder, which knows no month, takes the offset as
# hidden like the month.

# The first month began between one lunation before and two after that of the
# winter solstice; the two in the middle are usual.
_OFFSETS = (-1, 0, 1, 2)
# Chance of each offset before anything is read.
OFFSET_PRIOR = np.array((0.05, 0.45, 0.45, 0.05))
# Month and day of the Julian calendar, -721 to -467; it moves by a day in 128
# years.
_SOLSTICE = (12, 27)
# Log likelihood of a day that fits against one that does not.
_VOTE_LOG_LIKELIHOOD = 1.5
_MAX_VOTE_LOG_LIKELIHOOD = 8.0  # votes of one year repeat one another
_NEIGHBOUR_YEARS = 2.0  # reach of a year's votes
_MAX_TRUST = 3  # votes from which on a year is believed as much as any
_PRIOR_VOTES = 0.3  # weight of `OFFSET_PRIOR` beside the neighbours
_LEAP_CHANCE = 0.5  # that month 12 is prolonged by a leap month with the day
_ADJACENT_DAY_CHANCE = 1 / 3  # that a new moon is a day off the computed one
# That the offset is drawn again from one record to the next.
_OFFSET_CHANGE_CHANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Lunations:
  """The lunations that the months of a calendar may have been."""

  year_of: Int[np.ndarray, " K"]  # index of each month's year
  month: Int[np.ndarray, " K"]  # 1-12
  # Lunation of each month, by the offset of its year.
  lunation_index: Int[np.ndarray, "K S"]
  has_day: Bool[np.ndarray, "L 60"]  # which days each lunation holds
  # Julian day number of the first day of each, and of the one after the last,
  # [L + 1].
  new_moons: Int[np.ndarray, " moons"]

  def day_chances(
    self, day_counts: Float[np.ndarray, "K 60"]
  ) -> Float32[np.ndarray, "K M 60"]:
    """Returns the chance that a month holds a day, from counts of seen days."""
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
  """Returns the chance that a month has a day, has it first, has it last."""
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
  """Returns the chances of a record's offset, given the one before."""
  # True calendars change their offset at new year. The decoder sees records
  # and no years, so it allows a change at every record; a misprinted day is
  # absorbed at the same price.
  return (1 - _OFFSET_CHANGE_CHANCE) * np.eye(
    len(_OFFSETS)
  ) + _OFFSET_CHANGE_CHANCE * OFFSET_PRIOR


def make_lunations(
  years: Int[np.ndarray, " Y"],
  year_of: Int[np.ndarray, " K"],
  month: Int[np.ndarray, " K"],
) -> Lunations:
  """Returns the lunations that the months of a calendar may have been.

  `years` are astronomical, `year_of` is the index of each month's year.
  """
  junes = range(int(years.min()) - 2, int(years.max()) + 3)
  moons = np.unique(np.concatenate([*map(_new_moons_from_june, junes)]))
  solstices = [
    sexagenary.to_julian_day(int(year) - 1, *_SOLSTICE) for year in years
  ]
  # The lunation that holds the solstice before each year.
  first_lunation = np.searchsorted(moons, solstices, side="right") - 1
  lunation_index = np.add.outer(
    first_lunation[year_of] + month - 1, np.array(_OFFSETS)
  )
  return Lunations(
    year_of, month, lunation_index, _mark_lunation_days(moons), moons
  )


@functools.cache  # chronicles share years, not the first and the last
def _new_moons_from_june(year: int) -> tuple[int, ...]:
  """Returns the new moons from one June 1 to the next, both included."""
  return sexagenary.find_new_moons(
    *(sexagenary.to_julian_day(june_of, 6, 1) for june_of in (year, year + 1))
  )


def estimate_day_chances(
  axis: MonthAxis, corpus: Corpus, labels: Labels
) -> Float32[np.ndarray, "K M 60"]:
  """Returns the chance that a month holds a day."""
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
  years = np.arange(len(votes))
  kernel = np.exp(-np.abs(years[:, None] - years) / _NEIGHBOUR_YEARS)
  # A year's own votes come in below as its likelihood.
  np.fill_diagonal(kernel, 0)
  trust = np.minimum(np.abs(votes).sum(axis=1), _MAX_TRUST)[:, None]
  prior = (
    kernel @ (year_chances * trust) * OFFSET_PRIOR + _PRIOR_VOTES * OFFSET_PRIOR
  )
  log_chances = (
    np.log(prior / prior.sum(axis=1, keepdims=True)) + vote_log_likelihood
  )
  return np.exp(log_chances - logsumexp(log_chances, axis=1, keepdims=True))


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
_LATER_DAY_WEIGHT = 0.5  # of days after the first, which repeat its evidence
LOG_EXCLUDED = -9.0  # log chance of a record in a month with a placeholder


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DateTables:
  """Evidence about a timeline's months from the dates that open records."""

  # Chance of each month of the year given the opening.
  opening_month_chances: Float[np.ndarray, "O 12"]
  # Log chance ratio of each month given the opening and its manner.
  opening_log_ratios: Float32[np.ndarray, "O M K"]
  # Chance that a month holds a day, also as its first and as its last, in the
  # order of `sexagenary.DAY_MARKS`.
  day_chances: Float32[np.ndarray, "K 3 60"]
  # LOG_EXCLUDED where a month has a placeholder, else 0.
  placeholder_log_ratios: Float32[np.ndarray, " K"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedDates:
  """Printed dates of records, and the tables by which they are read."""

  # The texts, with blank openings or days where these do not count.
  corpus: Corpus
  is_event: Bool[np.ndarray, " N"]  # which records are narrated events
  tables: DateTables  # of the months
  name = "dates"

  def month_of_year_chances(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float[np.ndarray, "n 12"]:
    """Returns the chance of each month of the year by the opening."""
    # Commentary is looked up in the last row, the uniform one.
    opening_class = np.where(self.is_event[rows], self.corpus.opening[rows], -1)
    uniform = np.full((1, 12), 1 / 12, np.float32)
    chances = np.concatenate([self.tables.opening_month_chances, uniform])
    return chances[opening_class]

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns the log likelihood ratio of every month."""
    log_ratios = np.tile(self.tables.placeholder_log_ratios, (len(rows), 1))
    # Dates in commentary belong to what it cites, not to itself.
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
    for cue in dates.find_date_cues(text, self.corpus.axis.timeline):
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
    return _LATER_DAY_WEIGHT * self._day_table[sexagenary.ANY_DAY, days_of_rows]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DateFeatures:
  """The expert of printed dates."""

  # Whether the opening month, season and year number count.
  use_openings: bool = True
  use_days: bool = True  # whether sexagenary days count
  # Whether placeholders say which months are empty; else those of known records
  # alone do.
  use_placeholders: bool = True
  # Whether the manner of an opening counts, where openings do.
  use_seasons: bool = True
  name = "dates"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedDates:
    """Returns the tables; see `base.Expert`."""
    return self.fit_tables(features.corpus, labels, features.is_event)

  def fit_tables(
    self, corpus: Corpus, labels: Labels, is_event: Bool[np.ndarray, " N"]
  ) -> FittedDates:
    """Returns the tables, flat for evidence that is switched off."""
    axis = corpus.axis
    has_placeholder = corpus.has_placeholder(
      self.use_placeholders or labels.is_known
    )
    # Months of which nothing is known, not even whether they are empty.
    is_dark = np.zeros(len(axis), bool)
    if not self.use_placeholders:
      is_dark = ~_has_known_record(axis, labels)
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
        corpus,
        event_rows,
        labels,
        opening_month_chances,
        has_placeholder,
        is_dark,
      )
    tables = DateTables(
      opening_month_chances=opening_month_chances,
      opening_log_ratios=np.broadcast_to(
        log_ratios, (NUM_OPENINGS, NUM_MANNERS, len(axis))
      ).astype(np.float32),
      day_chances=estimate_day_chances(axis, corpus, labels),
      placeholder_log_ratios=np.where(has_placeholder, LOG_EXCLUDED, 0).astype(
        np.float32
      ),
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
  has_placeholder: np.ndarray,
  is_dark: np.ndarray,
) -> np.ndarray:
  """Returns log chance ratios of months, [O, M, K]."""
  # A season is named once, and where nothing else happened its name and its
  # first month are all that is written: 「秋八月」 means that the seventh is
  # empty, 「秋七月」 alone that the eighth and ninth are.
  axis = corpus.axis
  month = axis.month_of_year - 1
  season_position = _season_positions(axis, has_placeholder)
  # Months that may have a record, by month of the year and position, [12, S].
  position_counts = np.full((12, _NUM_SEASON_POSITIONS), _MIN_POSITION_COUNT)
  is_open = ~has_placeholder & ~is_dark
  np.add.at(position_counts, (month[is_open], season_position[is_open]), 1)
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
  smoothed_chances = (counts + _MANNER_PSEUDO_COUNT * expected_chances) / (
    counts.sum(axis=(2, 3), keepdims=True) + _MANNER_PSEUDO_COUNT
  )
  total = position_counts.sum()
  ratios = np.log(smoothed_chances * total / position_counts)
  # Of a dark month the position is unknown too.
  mean_ratios = np.log(
    smoothed_chances.sum(axis=3) * total / position_counts.sum(axis=1)
  )
  return np.where(
    is_dark, mean_ratios[:, :, month], ratios[:, :, month, season_position]
  )


def _has_known_record(axis: MonthAxis, labels: Labels) -> np.ndarray:
  """Returns whether a record of each month is known, bool [K]."""
  return np.isin(np.arange(len(axis)), labels.month)


def _season_positions(
  axis: MonthAxis, has_placeholder: np.ndarray
) -> np.ndarray:
  """Returns whether the months beside each in its season are empty, int [K]."""
  # 1 if all before it are, plus 2 if all after it are.
  season = 4 * axis.year_of + (axis.month_of_year - 1) // 3
  open_months = np.flatnonzero(~has_placeholder)
  first = np.full(4 * axis.num_years, len(axis))
  last = np.full(4 * axis.num_years, -1)
  np.minimum.at(first, season[open_months], open_months)
  np.maximum.at(last, season[open_months], open_months)
  months = np.arange(len(axis))
  return (first[season] >= months) + 2 * (last[season] <= months)


# Month capacity: each work opens a month once.
#
# 「秋七月」 stands once in a work's year. Of two records that open so, each
# takes
# another year; a month that no known record opens and that has no placeholder
# must be opened by some record, and one that all works have opened takes no
# more. So the posteriors of the opening records are balanced against the
# capacity of every month: Sinkhorn scaling of the columns, the rows being
# probabilities. Known records enter only as capacity taken.

# Openings of a month with events, over the four works of the benchmark.
_OPENINGS_PER_MONTH = 3.4
_MIN_CAPACITY = 0.05  # when all works have opened
_PLACEHOLDER_CAPACITY = 0.01  # of a month with a placeholder
_NUM_ROUNDS = 10  # of balancing; near enough to the fixed point
_MAX_STEP = 3.0  # of a log factor in one round
_MIN_LOG_FACTOR, _MAX_LOG_FACTOR = -8.0, 4.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedMonthCapacity:
  """Capacity of the months."""

  capacity: Float[np.ndarray, " K"]  # records that may open each month
  must_fill: Bool[np.ndarray, " K"]  # whether some record must open the month
  name = "room"

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the evidence of a record that opens a month."""
    return base.Evidence(note="opens a month, which each work does once")


@dataclasses.dataclass(frozen=True)
class MonthCapacity:
  """The expert of capacity, fitted last: it balances the others' scores."""

  use_placeholders: bool = True  # see `DateFeatures`
  name = "room"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedMonthCapacity:
    """Returns the capacity that the known records leave; see `base.Expert`."""
    num_months = len(features.axis)
    is_known_event = labels.is_known & features.is_event
    is_known_opener = labels.is_known & features.opens_month
    capacity, must_fill = compute_month_capacity(
      np.bincount(labels.month[is_known_opener], minlength=num_months),
      np.bincount(labels.month[is_known_event], minlength=num_months),
      features.corpus.has_placeholder(self.use_placeholders or labels.is_known),
    )
    if not self.use_placeholders:  # a month without known records may be empty
      must_fill &= _has_known_record(features.axis, labels)
    return FittedMonthCapacity(capacity=capacity, must_fill=must_fill)


def compute_month_capacity(
  num_openers: Int[np.ndarray, " K"],
  num_events: Int[np.ndarray, " K"],
  has_placeholder: Bool[np.ndarray, " K"],
) -> tuple[Float[np.ndarray, " K"], Bool[np.ndarray, " K"]]:
  """Returns the capacity of every month, and whether it must be filled."""
  capacity = np.maximum(_OPENINGS_PER_MONTH - num_openers, _MIN_CAPACITY)
  capacity = np.where(has_placeholder, _PLACEHOLDER_CAPACITY, capacity)
  return capacity, (num_events == 0) & ~has_placeholder


def fit_month_log_factors(
  iter_scores: Callable[[], Iterable[np.ndarray]],
  capacity: Float[np.ndarray, " K"],
  must_fill: Bool[np.ndarray, " K"],
) -> Float32[np.ndarray, " K"]:
  """Returns the term to add to log p of every month.

  `iter_scores` gives log p of the opening records block by block, [n, K].
  """
  factors = np.zeros(len(capacity), np.float32)
  for _ in range(_NUM_ROUNDS):
    mass = np.zeros(len(capacity))
    for block in iter_scores():
      scores = block + factors
      scores -= scores.max(axis=1, keepdims=True)
      chances = np.exp(scores, out=scores)
      # Divided by the sum of each record and added up over the records at once.
      mass += (1 / chances.sum(axis=1, dtype=np.float64)) @ chances
    log_deficit = np.log(capacity) - np.log(mass + 1e-6)
    # A month that need not be filled is never raised, only lowered.
    log_deficit = np.clip(
      log_deficit, -_MAX_STEP, np.where(must_fill, _MAX_STEP, 0)
    )
    factors = np.clip(
      factors + log_deficit, _MIN_LOG_FACTOR, _MAX_LOG_FACTOR
    ).astype(np.float32)
  return factors
