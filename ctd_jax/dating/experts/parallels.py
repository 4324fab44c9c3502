"""Parallel texts: records that tell or explain one event share its date.

Axes: N records, P pairs or links, p pooled scores, n records linked, b a block
of them, s scores of known parallels, Y years.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Float32, Int
from scipy.special import logsumexp

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels, MonthAxis, cut_blocks
from ctd_jax.dating.experts import base, citations, wording
from ctd_jax.dating.experts import pairs as pairs_lib
from ctd_jax.dating.experts.base import CorpusFeatures
from ctd_jax.dating.experts.pairs import ParallelPairs

# Classes of a pair.
SAME_MONTH, SAME_YEAR, NEAR, FAR = range(4)
NUM_POOLED = 5  # scores that `pool_parallels` returns
_MAX_FAR_PAIRS = 25_000  # unrelated pairs to learn from
_MONTH_MESSAGE_WEIGHT = 0.5  # of what linked records say about the month
_MESSAGE_WEIGHT = 0.6  # of the beliefs of linked records; by validation
_MAX_LINK_CHANCE = 0.9999  # no link is surer, so that no message is infinite
MAX_NEAR_YEARS = 3
MIN_POOLED_CHANCE = 0.1  # chance of one month below which a pair pools nothing
MIN_LINK_CHANCE = 0.03  # chance of one year below which a pair sends nothing
_MAX_CITATION_SCORE = 25  # so that expm1 stays finite in float32
_BLOCK = 65_536  # links whose messages of months are made at once
_LINKS_PER_BLOCK = 4096  # links whose messages of years are made at once
_MAX_NOTED_LINKS = 5  # that an explanation names


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedParallels:
  """Models of the chance that linked records share their month or year."""

  features: CorpusFeatures  # the texts and their pairs
  parallel_model: regression.BinnedSoftmax  # of events paired with events
  comment_model: regression.BinnedSoftmax  # of commentary paired with events
  name = "parallels"

  def build_event_graph(
    self, row_of_record: Int[np.ndarray, " N"], size: int
  ) -> LinkGraph:
    """Returns the links among events; see `build_link_graph`."""
    return build_link_graph(
      self.features.parallel_pairs, self.parallel_model, row_of_record, size
    )

  def build_record_graph(
    self, row_of_record: Int[np.ndarray, " N"], size: int
  ) -> LinkGraph:
    """Returns the links among events, and both ways with comments."""
    comment_graph = build_link_graph(
      self.features.comment_pairs, self.comment_model, row_of_record, size
    )
    return join_graphs(
      self.build_event_graph(row_of_record, size),
      comment_graph,
      dataclasses.replace(
        comment_graph, target=comment_graph.source, source=comment_graph.target
      ),
    )

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the linked records, those surest of one year first."""
    chances: dict[int, float] = {}
    for pairs, model in (
      (self.features.parallel_pairs, self.parallel_model),
      (self.features.comment_pairs, self.comment_model),
    ):
      linked = np.flatnonzero(
        (pairs.record_row == row) | (pairs.event_row == row)
      )
      classes = model.predict_probability(pairs.features[linked])
      linked_rows = np.where(
        pairs.record_row[linked] == row,
        pairs.event_row[linked],
        pairs.record_row[linked],
      )
      for linked_row, chance in zip(
        linked_rows.tolist(),
        classes[:, [SAME_MONTH, SAME_YEAR]].sum(1),
        strict=True,
      ):
        if chance > MIN_LINK_CHANCE:
          chances[linked_row] = max(float(chance), chances.get(linked_row, 0.0))
    best = sorted(chances, key=chances.get, reverse=True)[:_MAX_NOTED_LINKS]
    return base.Evidence(
      linked_rows=tuple(best),
      note="；".join(
        f"{self.features.corpus.texts[linked_row]} {chances[linked_row]:.2f}"
        for linked_row in best
      ),
    )


@dataclasses.dataclass(frozen=True)
class ParallelTexts:
  """The expert of records that tell one event."""

  name = "parallels"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedParallels:
    """Returns the models of links; see `base.Expert`."""
    axis = features.axis
    return FittedParallels(
      features=features,
      parallel_model=fit_pair_model(axis, features.parallel_pairs, labels),
      comment_model=fit_pair_model(axis, features.comment_pairs, labels),
    )


def fit_pair_model(
  axis: MonthAxis, parallel_pairs: ParallelPairs, labels: Labels
) -> regression.BinnedSoftmax:
  """Returns a model of SAME_MONTH, SAME_YEAR, NEAR and FAR."""
  record_months = labels.month[parallel_pairs.record_row]
  event_months = labels.month[parallel_pairs.event_row]
  training_pairs = np.flatnonzero(
    (record_months != UNKNOWN) & (event_months != UNKNOWN)
  )
  record_months = record_months[training_pairs]
  event_months = event_months[training_pairs]
  num_years = np.abs(axis.year_of[record_months] - axis.year_of[event_months])
  # The first condition that holds decides.
  pair_class = np.select(
    [
      record_months == event_months,
      num_years == 0,
      num_years <= MAX_NEAR_YEARS,
    ],
    [SAME_MONTH, SAME_YEAR, NEAR],
    FAR,
  )
  sample, weights = regression.subsample_examples(
    pair_class == FAR,
    parallel_pairs.pair_hashes[training_pairs],
    _MAX_FAR_PAIRS,
  )
  return regression.BinnedSoftmax.fit(
    parallel_pairs.features[training_pairs[sample]],
    pair_class[sample],
    4,
    weights,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkGraph:
  """Links among the records of a list."""

  target: Int[np.ndarray, " P"]  # index of the record that receives
  source: Int[np.ndarray, " P"]  # index of the record that sends
  month_chance: Float32[np.ndarray, " P"]  # chance that both share a month
  # Chance that both are from the same year, that month included.
  year_chance: Float32[np.ndarray, " P"]
  size: int  # number of records, n


def build_link_graph(
  parallel_pairs: ParallelPairs,
  model: regression.BinnedSoftmax,
  row_of_record: Int[np.ndarray, " N"],
  size: int,
) -> LinkGraph:
  """Returns the links between records of a list, by their index in it."""
  target = row_of_record[parallel_pairs.record_row]
  source = row_of_record[parallel_pairs.event_row]
  linked_pairs = np.flatnonzero((target != UNKNOWN) & (source != UNKNOWN))
  chance = model.predict_probability(parallel_pairs.features[linked_pairs])
  year_chance = chance[:, SAME_MONTH] + chance[:, SAME_YEAR]
  is_link = year_chance > MIN_LINK_CHANCE
  linked_pairs = linked_pairs[is_link]
  return LinkGraph(
    target=target[linked_pairs],
    source=source[linked_pairs],
    month_chance=chance[is_link, SAME_MONTH],
    year_chance=year_chance[is_link],
    size=size,
  )


def join_graphs(*graphs: LinkGraph) -> LinkGraph:
  """Returns all links of some graphs among the same records."""
  columns = {
    name: np.concatenate([getattr(graph, name) for graph in graphs])
    for name in ("target", "source", "month_chance", "year_chance")
  }
  return dataclasses.replace(graphs[0], **columns)


def make_pooling_matrix(graph: LinkGraph) -> scipy.sparse.csr_array:
  """Returns the chances of one month worth pooling, sparse [n, n]."""
  is_pooled = graph.month_chance > MIN_POOLED_CHANCE
  return scipy.sparse.coo_array(
    (
      graph.month_chance[is_pooled],
      (graph.target[is_pooled], graph.source[is_pooled]),
    ),
    shape=(graph.size, graph.size),
  ).tocsr()


def pool_parallels(
  pooling_matrix: scipy.sparse.csr_array,
  citation_scores: Sequence[scipy.sparse.csr_array],
  word_scores: Float32[np.ndarray, "n Y"],
  date_log_ratios: Float32[np.ndarray, "n Y"],
  rows: Int[np.ndarray, " b"],
) -> Float32[np.ndarray, "p b Y"]:
  """Returns the NUM_POOLED scores of the parallels of some events.

  Args:
    pooling_matrix: result of `make_pooling_matrix`, [n, n].
    citation_scores: scores of all events, `citations.NUM_SCORES` of [n, Y].
  """
  pooling_matrix = pooling_matrix[rows]
  parallel_weight = 1 + np.asarray(pooling_matrix.sum(axis=1)).reshape(-1, 1)
  result = np.zeros((NUM_POOLED, len(rows), word_scores.shape[1]), np.float32)
  linked_rows = np.flatnonzero(np.diff(pooling_matrix.indptr))
  if len(linked_rows):
    # Entries of a row are adjacent in CSR: `reduceat` at the row starts reduces
    # over the parallels of each event.
    starts, source = pooling_matrix.indptr[linked_rows], pooling_matrix.indices
    chance = pooling_matrix.data[:, None]
    log_beliefs = date_log_ratios[source]
    belief = np.exp(log_beliefs - logsumexp(log_beliefs, axis=1, keepdims=True))
    belief *= word_scores.shape[1]  # ratio to a uniform year
    best_citation = np.minimum(
      citation_scores[citations.BEST][source].toarray(), _MAX_CITATION_SCORE
    )
    best_citation = np.log1p(chance * np.expm1(best_citation))
    result[0, linked_rows] = np.maximum.reduceat(best_citation, starts)
    citation_excess = (
      chance
      * citation_scores[citations.BEST_ABOVE_FIRST_STEP][source].toarray()
    )
    result[1, linked_rows] = np.maximum.reduceat(citation_excess, starts)
    date_scores = np.log1p(chance * (belief - 1))
    result[2, linked_rows] = np.add.reduceat(date_scores, starts)
  result[2] /= np.sqrt(parallel_weight)
  result[3] = np.maximum(
    result[0] - citation_scores[citations.BEST][rows].toarray(), 0
  )
  result[4] = (
    word_scores[rows] + pooling_matrix @ word_scores
  ) / parallel_weight
  return result


def propagate_months_of_year(
  graph: LinkGraph, month_of_year_chances: Float[np.ndarray, "n 12"]
) -> Float[np.ndarray, "n 12"]:
  """Returns log ratios of the month of the year, as linked records have it."""
  # The Annals may name the month of an event that a tradition tells without.
  message_sums = np.zeros_like(month_of_year_chances)
  for block in cut_blocks(len(graph.target), _BLOCK):
    chance = np.minimum(graph.month_chance[block, None], _MAX_LINK_CHANCE)
    message = np.log1p(
      chance * (12 * month_of_year_chances[graph.source[block]] - 1)
    )
    np.add.at(message_sums, graph.target[block], message)
  sender_weights = np.bincount(
    graph.target, weights=graph.month_chance, minlength=graph.size
  )
  message_sums *= _MONTH_MESSAGE_WEIGHT / np.sqrt(1 + sender_weights[:, None])
  # What a record says about its own month needs no help.
  return np.where(
    month_of_year_chances.max(axis=1, keepdims=True) > 0.5, 0, message_sums
  )


def propagate_beliefs(
  graph: LinkGraph,
  year_scores: Float[np.ndarray, "n Y"],
  year_prior: Float[np.ndarray, " Y"],
) -> Float[np.ndarray, "n Y"]:
  """Returns scores of years with the beliefs of linked records added."""
  # Each link sends log(1 - c + c * belief / prior), c the chance of one year.
  # A record's messages are averaged with itself, so that ten copies do not
  # count ten times.
  belief = year_scores - logsumexp(year_scores, axis=1, keepdims=True)
  np.exp(belief, out=belief)
  belief /= year_prior
  message_sums = np.zeros_like(year_scores)
  for block in cut_blocks(len(graph.target), _LINKS_PER_BLOCK):
    chance = np.minimum(graph.year_chance[block, None], _MAX_LINK_CHANCE)
    message = np.log1p(chance * (belief[graph.source[block]] - 1))
    np.add.at(message_sums, graph.target[block], message)
  sender_weights = np.bincount(
    graph.target, weights=graph.year_chance, minlength=graph.size
  )
  message_sums *= _MESSAGE_WEIGHT / (1 + sender_weights[:, None])
  message_sums += year_scores
  return message_sums


# Known parallels: labelled records that tell an event in the same words.
#
# Beside a chronicle all of whose years are known, an undated text mostly has
# a labelled record that tells the same event, or one of the same weeks. Each
# pair of the two has a chance to be from the same month, the same year, near
# years or far ones, as above; with the month of the labelled record that is a
# distribution over the months. Three scores are made of the pairs: the best of
# every month and the sum of the others, whose weights are learned with those of
# the pool, and the best of those that are more likely near than far, which
# counts in full: a chronicle seldom tells an event twice, so it cannot teach
# how far to believe another text that does.
#
# What such a text looks like is learned from retellings: sections of the
# chronicle, shortened and with characters left out.

# Scores with learned weights: the best pair of a month, and the others. A third
# score, of the pairs that are more likely near than far, has the weight 1.
NUM_SCORES = 2
_MIN_SURE_CHANCE = 0.5  # that such a pair has near years
_MAX_TRAINING_RECORDS = 2000  # that teach, and as many retellings of others
_RETOLD_SHARES = (0.3, 1.0)  # least and greatest share of a text that is retold
_OMITTED_SHARES = (0.05, 0.4)  # of its characters that are left out
MIN_NEAR_CHANCE = 0.03  # chance of near years below which a pair is left out
_MIN_FAR_CHANCE = 1e-3  # no pair is surer
_MAX_NOTED_PAIRS = 5  # that an explanation names
_HASH_MULTIPLIER = 0x9E3779B1  # odd, so that no two hashes become one
_RECORDS_PER_BLOCK = 512  # records whose months are held at once


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedKnownParallels:
  """Pairs of hidden and labelled records, with the months of these."""

  features: CorpusFeatures  # the texts
  labels: Labels  # the known months
  pairs: ParallelPairs  # hidden events beside labelled ones
  model: regression.BinnedSoftmax  # chance of each class of a pair
  # Of the scores; None before they are learned.
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
    """Returns the scores of months, 0 for records without pairs."""
    records, known_records, chances = self._pairs
    starts, stops = (
      np.searchsorted(records, rows, side) for side in ("left", "right")
    )
    pair = _join_ranges(starts, stops)
    axis, months = self.features.axis, self.labels.month[known_records[pair]]
    return score_pairs(
      axis,
      np.repeat(np.arange(len(rows)), stops - starts),
      chances[pair],
      spread_chances(axis, months, chances[pair]),
      len(rows),
    )

  def score_years(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "s n Y"]:
    """Returns the scores of years: log of the mean ratio of their months."""
    axis = self.features.axis
    log_sizes = np.log(np.bincount(axis.year_of))
    blocks = [np.zeros((NUM_SCORES + 1, 0, axis.num_years), np.float32)]
    for block in cut_blocks(len(rows), _RECORDS_PER_BLOCK):
      scores = self.score_months(rows[block])
      blocks.append(
        np.stack([axis.to_years(score) - log_sizes for score in scores])
      )
    return np.concatenate(blocks, axis=1).astype(np.float32)

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns the weighted sum of `score_months`; needs weights."""
    if self.weights is None:
      raise ValueError("known parallels have no weights; use score_months")
    weights = np.append(self.weights, 1).astype(np.float32)
    return np.tensordot(weights, self.score_months(rows), 1)

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the labelled records of near years, the likeliest first."""
    records, known_records, chances = self._pairs
    linked = np.arange(*np.searchsorted(records, (row, row + 1)))
    years = self.features.axis.year_of[self.labels.month[known_records[linked]]]
    linked = linked[abs(years - year) <= MAX_NEAR_YEARS]
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
    corpus, is_known = features.corpus, labels.is_known
    bodies = features.event_bodies
    known_rows = np.flatnonzero(is_known & features.is_event)
    index = wording.build_string_index([bodies[row] for row in known_rows])
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
    pairs = pairs_lib.make_parallel_pairs(
      corpus.take(all_rows), known_rows, index, rows, texts
    )
    source_row = all_rows[pairs.record_row]
    is_training = is_known[source_row]
    model = fit_pair_model(
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
  """Returns records that teach unchanged, ascending, and others to retell."""
  hashes = corpus.text_hashes[known_rows].astype(int) * _HASH_MULTIPLIER
  order = np.argsort(hashes % 2**32, kind="stable")
  size = min(_MAX_TRAINING_RECORDS, len(order) // 2)
  return known_rows[np.sort(order[:size])], known_rows[order[size : 2 * size]]


def score_pairs(
  axis: MonthAxis,
  row: Int[np.ndarray, " P"],
  chances: Float[np.ndarray, "P 4"],
  spread: tuple[np.ndarray, np.ndarray, np.ndarray],
  num_rows: int,
) -> Float32[np.ndarray, "s n K"]:
  """Returns the scores of months by pairs, as `score_months` has them.

  Args:
    row: hidden record of each pair.
    spread: pair index, month and log ratio, from `spread_chances`.
  """
  pair_index, months, log_ratios = spread
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
  """Returns pair index, month and log ratio of the months pairs speak for."""
  # The chance of each class is spread evenly over its months, against an even
  # spread over all; far months are 0.
  num_months, years = len(axis), axis.year_of[months]
  edges = np.append(axis.year_starts, num_months)
  first = np.maximum(years - MAX_NEAR_YEARS, 0)
  last = np.minimum(years + MAX_NEAR_YEARS, axis.num_years - 1)
  starts, stops = edges[first], edges[last + 1]
  year_sizes = edges[years + 1] - edges[years]
  pair = np.repeat(np.arange(len(months)), stops - starts)
  month = _join_ranges(starts, stops)
  chance = np.select(
    [month == months[pair], axis.year_of[month] == years[pair]],
    [
      chances[pair, SAME_MONTH],
      chances[pair, SAME_YEAR] / np.maximum(year_sizes - 1, 1)[pair],
    ],
    chances[pair, NEAR] / np.maximum(stops - starts - year_sizes, 1)[pair],
  )
  # What is not a near year is one of all months.
  far = np.maximum(chances[pair, FAR], _MIN_FAR_CHANCE)
  return pair, month, np.log1p(num_months * chance / far).astype(np.float32)
