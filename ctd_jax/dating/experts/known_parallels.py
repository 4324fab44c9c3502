"""Known parallels: labelled records that tell an event in the same words.

Beside a chronicle all of whose years are known, an undated text mostly has a
labelled record that tells the same event, or one of the same weeks. Each pair
of the two has a chance to be of one month, of one year, of near years or of far
ones, as in `parallel_texts`; with the month of the labelled record that is a
distribution over the months. Three scores are made of the pairs: the best of
every month and the sum of the others, whose weights are learned with those of
the pool, and the best of those that are more likely near than far, which counts
in full: a chronicle seldom tells an event twice, so that it does not teach how
far to believe another text that does.

What such a text looks like is learned from retellings: sections of the
chronicle, shortened and with characters left out.

Axes: P pairs, n rows, s scores, K months, Y years.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Float32, Int

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import Corpus, Labels, MonthAxis
from ctd_jax.dating.experts import (
  base,
  parallel_pairs,
  parallel_texts,
  shared_wording,
)
from ctd_jax.dating.experts.parallel_pairs import ParallelPairs
from ctd_jax.dating.experts.parallel_texts import (
  FAR,
  NEAR,
  SAME_MONTH,
  SAME_YEAR,
)
from ctd_jax.dating.features import CorpusFeatures

# Scores with learned weights: the best pair of a month, and the others. A third
# score, of the pairs that are more likely near than far, has the weight 1.
NUM_SCORES = 2
_MIN_SURE_CHANCE = 0.5  # that such a pair is of near years
_MAX_TRAINING_RECORDS = 2000  # that teach, and as many retellings of others
_RETOLD_SHARES = (0.3, 1.0)  # least and greatest share of a text that is retold
_OMITTED_SHARES = (0.05, 0.4)  # of its characters that are left out
MIN_NEAR_CHANCE = 0.03  # chance of near years below which a pair is left out
_MIN_FAR_CHANCE = 1e-3  # no pair is surer
_MAX_NOTED_PAIRS = 5  # that an explanation names
_HASH_MULTIPLIER = 0x9E3779B1  # odd, so that no two hashes become one
_BLOCK = 512  # records whose months are held at once


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedKnownParallels:
  """Pairs of hidden and labelled records, with the months of these.

  Attributes:
    features: the texts.
    labels: the known months.
    pairs: hidden events beside labelled ones.
    model: chance of each class of a pair.
    weights: of the scores; None before they are learned.
  """

  features: CorpusFeatures
  labels: Labels
  pairs: ParallelPairs
  model: regression.BinnedSoftmax
  weights: Float[np.ndarray, " s"] | None = None
  name = "known"

  @functools.cached_property
  def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hidden record, labelled record and chances [P, 4]; records ascend."""
    pairs = self.pairs
    chances = self.model.predict_probability(pairs.features)
    linked = np.flatnonzero(chances[:, FAR] < 1 - MIN_NEAR_CHANCE)
    linked = linked[np.argsort(pairs.record_row[linked], kind="stable")]
    return pairs.record_row[linked], pairs.event_row[linked], chances[linked]

  def score_months(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "s n K"]:
    """Returns the scores of months, 0 where no pair speaks.

    Those with learned weights, then that of the likely pairs.

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
    return score_pairs(
      axis,
      row,
      self.labels.month[known_records[pair]],
      chances[pair],
      len(rows),
    )

  def score_years(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "s n Y"]:
    """Returns the scores of years: log of the mean ratio of their months."""
    axis = self.features.axis
    log_sizes = np.log(np.bincount(axis.year_of))
    blocks = [np.zeros((NUM_SCORES + 1, 0, axis.num_years), np.float32)]
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
    weights = np.append(self.weights, 1).astype(np.float32)
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
    """Returns the pairs and their model; see `base.Expert`."""
    del peers
    corpus, is_known = features.corpus, labels.is_known
    bodies = features.event_bodies
    known_rows = np.flatnonzero(is_known & features.is_event)
    index = shared_wording.build_string_index(
      [bodies[row] for row in known_rows]
    )
    training, retold = sample_training_rows(corpus, known_rows)
    hidden_rows = np.flatnonzero(~is_known & features.is_event)
    num_records = len(corpus)
    rows = np.concatenate(
      [training, hidden_rows, num_records + np.arange(len(retold))]
    )
    texts = [bodies[row] for row in (*training, *hidden_rows)]
    texts += [_retell(bodies[row], corpus.text_hashes[row]) for row in retold]
    # Retellings follow the records, as records of their own.
    all_rows = np.append(np.arange(num_records), retold)
    pairs = parallel_pairs.make_parallel_pairs(
      corpus.take(all_rows), known_rows, index, rows, texts
    )
    source_row = all_rows[pairs.record_row]
    is_training = is_known[source_row]
    model = parallel_texts.fit_pair_model(
      features.axis,
      dataclasses.replace(
        pairs.take(is_training), record_row=source_row[is_training]
      ),
      labels,
    )
    return FittedKnownParallels(
      features=features,
      labels=labels,
      pairs=pairs.take(~is_training),
      model=model,
    )


def sample_training_rows(
  corpus: Corpus, known_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns records that teach as they are, ascending, and others retold.

  Args:
    corpus: the texts.
    known_rows: labelled events, ascending.
  """
  hashes = corpus.text_hashes[known_rows].astype(int) * _HASH_MULTIPLIER
  order = np.argsort(hashes % 2**32, kind="stable")
  size = min(_MAX_TRAINING_RECORDS, len(order) // 2)
  return known_rows[np.sort(order[:size])], known_rows[order[size : 2 * size]]


def score_pairs(
  axis: MonthAxis,
  row: Int[np.ndarray, " P"],
  month: Int[np.ndarray, " P"],
  chances: Float[np.ndarray, "P 4"],
  num_rows: int,
) -> Float32[np.ndarray, "s n K"]:
  """Returns the scores of months by pairs, as `score_months` has them.

  Args:
    axis: the months.
    row: of the hidden record of each pair.
    month: of its labelled record.
    chances: of the classes of each pair.
    num_rows: number of hidden records.
  """
  pair_index, months, log_ratios = spread_chances(axis, month, chances)
  cells = row[pair_index], months
  result = np.zeros((NUM_SCORES + 1, num_rows, len(axis)), np.float32)
  is_sure = chances[:, FAR] < 1 - _MIN_SURE_CHANCE
  for score, is_counted in ((0, ~is_sure), (2, is_sure)):
    counted = np.flatnonzero(is_counted[pair_index])
    counted_cells = cells[0][counted], cells[1][counted]
    np.maximum.at(result[score], counted_cells, log_ratios[counted])
    if score == 0:
      np.add.at(result[1], counted_cells, log_ratios[counted])
  result[1] -= result[0]
  return result


def _retell(text: str, seed: int | np.integer) -> str:
  """Returns a stretch of a text with some of its characters left out."""
  rng = np.random.default_rng(int(seed))
  length = round(len(text) * rng.uniform(*_RETOLD_SHARES))
  start = rng.integers(len(text) - length + 1)
  omitted_share = rng.uniform(*_OMITTED_SHARES)
  is_kept = rng.random(length) >= omitted_share
  return "".join(itertools.compress(text[start : start + length], is_kept))


def _join_ranges(starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
  """Returns the integers start..stop of every range, one after another."""
  lengths = stops - starts
  shift = np.cumsum(lengths) - lengths
  return np.arange(lengths.sum()) + np.repeat(starts - shift, lengths)


def spread_chances(
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
