"""Known parallels: labelled records that tell an event in the same words.

Beside a chronicle all of whose years are known, an undated text mostly has a
labelled record that tells the same event, or one of the same weeks. Each pair
of the two has a chance to be of one month, of one year, of near years or of far
ones, as in `parallel_texts`; with the month of the labelled record that is a
distribution over the months. The best pair of every month and the sum of the
others are two scores, whose weights are learned with those of the pool.

Axes: P pairs, n rows, s scores, K months, Y years.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Float32, Int

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import Labels, MonthAxis
from ctd_jax.dating.experts import base, parallel_texts
from ctd_jax.dating.experts.parallel_texts import (
  FAR,
  NEAR,
  SAME_MONTH,
  SAME_YEAR,
)
from ctd_jax.dating.features import CorpusFeatures

NUM_SCORES = 2  # the best pair of a month, and the others
_MIN_NEAR_CHANCE = 0.03  # chance of near years below which a pair is left out
_MIN_FAR_CHANCE = 1e-3  # no pair is surer
_MAX_NOTED_PAIRS = 5  # that an explanation names
_BLOCK = 512  # records whose months are held at once


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedKnownParallels:
  """Pairs of hidden and labelled records, with the months of these.

  Attributes:
    features: the texts and their pairs.
    labels: the known months.
    model: chance of each class of a pair.
    weights: of the scores; None before they are learned.
  """

  features: CorpusFeatures
  labels: Labels
  model: regression.BinnedSoftmax
  weights: Float[np.ndarray, " s"] | None = None
  name = "known"

  @functools.cached_property
  def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hidden record, labelled record and chances [P, 4]; records ascend."""
    pairs, is_known = self.features.parallel_pairs, self.labels.is_known
    linked = np.flatnonzero(
      ~is_known[pairs.record_row] & is_known[pairs.event_row]
    )
    chances = self.model.predict_probability(pairs.features[linked])
    is_near = chances[:, FAR] < 1 - _MIN_NEAR_CHANCE
    linked, chances = linked[is_near], chances[is_near]
    order = np.argsort(pairs.record_row[linked], kind="stable")
    linked = linked[order]
    return pairs.record_row[linked], pairs.event_row[linked], chances[order]

  def score_months(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "s n K"]:
    """Returns the scores of months, 0 where no pair speaks.

    Args:
      rows: hidden events.
    """
    axis = self.features.axis
    records, known_records, chances = self._pairs
    starts, stops = (
      np.searchsorted(records, rows, side) for side in ("left", "right")
    )
    row = np.repeat(np.arange(len(rows)), stops - starts)
    pair = _join_ranges(starts, stops)
    month = self.labels.month[known_records[pair]]
    pair_index, months, log_ratios = _spread_chances(axis, month, chances[pair])
    cells = row[pair_index], months
    result = np.zeros((NUM_SCORES, len(rows), len(axis)), np.float32)
    np.maximum.at(result[0], cells, log_ratios)
    np.add.at(result[1], cells, log_ratios)
    result[1] -= result[0]
    return result

  def score_years(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "s n Y"]:
    """Returns the scores of years: log of the mean ratio of their months."""
    axis = self.features.axis
    log_sizes = np.log(np.bincount(axis.year_of))
    blocks = [np.zeros((NUM_SCORES, 0, axis.num_years), np.float32)]
    for start in range(0, len(rows), _BLOCK):
      scores = self.score_months(rows[start : start + _BLOCK])
      blocks.append(
        np.stack([axis.to_years(score) - log_sizes for score in scores])
      )
    return np.concatenate(blocks, axis=1).astype(np.float32)

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns the weighted sum of `score_months`; see `base.FittedExpert`.

    Raises:
      ValueError: if the weights have not been learned.
    """
    if self.weights is None:
      raise ValueError("known parallels have no weights; use score_months")
    weights = self.weights.astype(np.float32)
    return np.tensordot(weights, self.score_months(rows), 1)

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the labelled records of near years, the surest first.

    The note says how likely both are of one month, and of one year.
    """
    records, known_records, chances = self._pairs
    linked = np.arange(*np.searchsorted(records, (row, row + 1)))
    years = self.features.axis.year_of[self.labels.month[known_records[linked]]]
    linked = linked[abs(years - year) <= parallel_texts.MAX_NEAR_YEARS]
    # By the chance of the month of the labelled record.
    month_chances = chances[linked, SAME_MONTH]
    month_chances = month_chances + chances[linked, SAME_YEAR] / 12
    best = linked[np.argsort(-month_chances, kind="stable")][:_MAX_NOTED_PAIRS]
    texts = self.features.corpus.texts
    return base.Evidence(
      linked_rows=tuple(known_records[best].tolist()),
      note="；".join(
        f"{texts[known_records[pair]]} month {chances[pair, SAME_MONTH]:.2f}, "
        f"year {chances[pair, [SAME_MONTH, SAME_YEAR]].sum():.2f}"
        for pair in best
      ),
    )


@dataclasses.dataclass(frozen=True)
class KnownParallels:
  """The expert of labelled records in the same words."""

  name = "known"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedKnownParallels:
    """Returns the model of pairs; see `base.Expert`."""
    model = (
      peers["parallels"].parallel_model
      if "parallels" in peers
      else parallel_texts.fit_pair_model(
        features.axis, features.parallel_pairs, labels
      )
    )
    return FittedKnownParallels(features=features, labels=labels, model=model)


def _join_ranges(starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
  """Returns the integers start..stop of every range, one after another."""
  lengths = stops - starts
  shift = np.cumsum(lengths) - lengths
  return np.arange(lengths.sum()) + np.repeat(starts - shift, lengths)


def _spread_chances(
  axis: MonthAxis, months: np.ndarray, chances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns log ratios of the months that pairs speak for.

  The chance of each class is spread evenly over its months, against an even
  spread over all; far months are 0.

  Args:
    axis: the months.
    months: of the labelled record of each pair, [P].
    chances: of the classes of each pair, [P, 4].

  Returns:
    Index of the pair, month and log ratio.
  """
  num_months, years = len(axis), axis.year_of[months]
  edges = np.append(axis.year_starts, num_months)
  first = np.maximum(years - parallel_texts.MAX_NEAR_YEARS, 0)
  last = np.minimum(years + parallel_texts.MAX_NEAR_YEARS, axis.num_years - 1)
  starts, stops = edges[first], edges[last + 1]
  year_sizes = edges[years + 1] - edges[years]
  num_near = np.maximum(stops - starts - year_sizes, 1)
  num_same_year = np.maximum(year_sizes - 1, 1)
  pair = np.repeat(np.arange(len(months)), stops - starts)
  month = _join_ranges(starts, stops)
  chance = np.select(
    [month == months[pair], axis.year_of[month] == years[pair]],
    [
      chances[pair, SAME_MONTH],
      chances[pair, SAME_YEAR] / num_same_year[pair],
    ],
    chances[pair, NEAR] / num_near[pair],
  )
  # What is no near year is one of all months.
  far = np.maximum(chances[pair, FAR], _MIN_FAR_CHANCE)
  return pair, month, np.log1p(num_months * chance / far).astype(np.float32)
