"""Parallel texts: records that tell or explain one event share its date.

The Annals, the three traditions and the comments on them tell one event in
words that few others have. A pair of a record and an event is given the chance
that both are of one month, of one year, or of neither, learned from pairs whose
months are known. `pool_parallels` collects the evidence of an event's parallels
for the weights to use; `propagate_beliefs` sends whole beliefs along the links.

Axes: N records, P pairs or links, p pooled scores, n records linked, b a block
of them, Y years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Float32, Int
from scipy.special import logsumexp

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Labels, MonthAxis
from ctd_jax.dating.experts import base, citations
from ctd_jax.dating.experts.parallel_pairs import ParallelPairs
from ctd_jax.dating.features import CorpusFeatures

# Classes of a pair.
SAME_MONTH, SAME_YEAR, NEAR, FAR = range(4)
NUM_POOLED = 5  # scores that `pool_parallels` returns
_MAX_FAR_PAIRS = 25_000  # unrelated pairs to learn from
_MONTH_MESSAGE_WEIGHT = 0.5  # of what linked records say of the month
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
  """Models of the chance that linked records are of one month or year.

  Attributes:
    features: the texts and their pairs.
    parallel_model: of events beside events.
    comment_model: of commentary beside events.
  """

  features: CorpusFeatures
  parallel_model: regression.BinnedSoftmax
  comment_model: regression.BinnedSoftmax
  name = "parallels"

  def build_event_graph(
    self, row_of_record: Int[np.ndarray, " N"], size: int
  ) -> LinkGraph:
    """Returns the links among events.

    Args:
      row_of_record: index of every record among those linked, or UNKNOWN.
      size: number of records linked, n.
    """
    return build_link_graph(
      self.features.parallel_pairs, self.parallel_model, row_of_record, size
    )

  def build_record_graph(
    self, row_of_record: Int[np.ndarray, " N"], size: int
  ) -> LinkGraph:
    """Returns the links among events, and both ways of events and comments.

    Args:
      row_of_record: index of every record among those linked, or UNKNOWN.
      size: number of records linked, n.
    """
    comment_graph = build_link_graph(
      self.features.comment_pairs, self.comment_model, row_of_record, size
    )
    return join_graphs(
      self.build_event_graph(row_of_record, size),
      join_graphs(comment_graph, reverse_graph(comment_graph)),
    )

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the linked records, those surest of one year first."""
    del year
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
    del peers
    axis = features.axis
    return FittedParallels(
      features=features,
      parallel_model=fit_pair_model(axis, features.parallel_pairs, labels),
      comment_model=fit_pair_model(axis, features.comment_pairs, labels),
    )


def fit_pair_model(
  axis: MonthAxis, parallel_pairs: ParallelPairs, labels: Labels
) -> regression.BinnedSoftmax:
  """Returns a model of SAME_MONTH, SAME_YEAR, NEAR and FAR.

  Args:
    axis: the years.
    parallel_pairs: the pairs; those of two known records teach.
    labels: the known months.
  """
  record_months = labels.month[parallel_pairs.record_row]
  event_months = labels.month[parallel_pairs.event_row]
  training_pairs = np.flatnonzero(
    (record_months != UNKNOWN) & (event_months != UNKNOWN)
  )
  pair_class = classify_pairs(
    axis, record_months[training_pairs], event_months[training_pairs]
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


def classify_pairs(
  axis: MonthAxis,
  record_months: Int[np.ndarray, " P"],
  event_months: Int[np.ndarray, " P"],
) -> Int[np.ndarray, " P"]:
  """Returns SAME_MONTH, SAME_YEAR, NEAR or FAR of every pair.

  Args:
    axis: the years.
    record_months: known month of the record of each pair.
    event_months: known month of its event.
  """
  year_distance = np.abs(
    axis.year_of[record_months] - axis.year_of[event_months]
  )
  # The first condition that holds decides.
  return np.select(
    [
      record_months == event_months,
      year_distance == 0,
      year_distance <= MAX_NEAR_YEARS,
    ],
    [SAME_MONTH, SAME_YEAR, NEAR],
    FAR,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkGraph:
  """Links among the records of a list.

  Attributes:
    target: index of the record that receives.
    source: index of the record that sends.
    month_chance: chance that both are of one month.
    year_chance: chance that both are of one year, that month included.
    size: number of records, n.
  """

  target: Int[np.ndarray, " P"]
  source: Int[np.ndarray, " P"]
  month_chance: Float32[np.ndarray, " P"]
  year_chance: Float32[np.ndarray, " P"]
  size: int


def build_link_graph(
  parallel_pairs: ParallelPairs,
  model: regression.BinnedSoftmax,
  row_of_record: Int[np.ndarray, " N"],
  size: int,
) -> LinkGraph:
  """Returns the links between records of a list.

  Args:
    parallel_pairs: the pairs; each links the record to the event.
    model: from `fit_pair_model`.
    row_of_record: index of every record in the list, or UNKNOWN.
    size: number of records in the list.
  """
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


def join_graphs(first: LinkGraph, second: LinkGraph) -> LinkGraph:
  """Returns both sets of links among the same records."""
  return LinkGraph(
    target=np.concatenate([first.target, second.target]),
    source=np.concatenate([first.source, second.source]),
    month_chance=np.concatenate([first.month_chance, second.month_chance]),
    year_chance=np.concatenate([first.year_chance, second.year_chance]),
    size=first.size,
  )


def reverse_graph(graph: LinkGraph) -> LinkGraph:
  """Returns the links with sender and receiver exchanged."""
  return dataclasses.replace(graph, target=graph.source, source=graph.target)


def make_pooling_matrix(graph: LinkGraph) -> scipy.sparse.csr_array:
  """Returns the chances of one month worth pooling, sparse [n, n].

  Args:
    graph: among the events.
  """
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
  """Returns the NUM_POOLED scores of some events' parallels.

  They are: the best citation of a parallel, the best citation of a parallel
  above the first step, the dates of the parallels, how much the first exceeds
  the event's own, and the mean words of event and parallels.

  Args:
    pooling_matrix: from `make_pooling_matrix`, [n, n].
    citation_scores: of all events, `citations.NUM_SCORES` of [n, Y].
    word_scores: weighted scores of their words.
    date_log_ratios: log ratios of years by their dates.
    rows: indices of the events to score.
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
  """Returns log ratios of the month of the year by linked records.

  The Annals may name the month of an event that a tradition tells without one.

  Args:
    graph: among the records.
    month_of_year_chances: of each record by its own opening date.
  """
  message_sums = np.zeros_like(month_of_year_chances)
  for start in range(0, len(graph.target), _BLOCK):
    block = slice(start, start + _BLOCK)
    chance = np.minimum(graph.month_chance[block, None], _MAX_LINK_CHANCE)
    message = np.log1p(
      chance * (12 * month_of_year_chances[graph.source[block]] - 1)
    )
    np.add.at(message_sums, graph.target[block], message)
  sender_weights = np.bincount(
    graph.target, weights=graph.month_chance, minlength=graph.size
  )
  message_sums *= _MONTH_MESSAGE_WEIGHT / np.sqrt(1 + sender_weights[:, None])
  # What a record says of its own month needs no help.
  return np.where(
    month_of_year_chances.max(axis=1, keepdims=True) > 0.5, 0, message_sums
  )


def propagate_beliefs(
  graph: LinkGraph,
  year_scores: Float[np.ndarray, "n Y"],
  year_prior: Float[np.ndarray, " Y"],
) -> Float[np.ndarray, "n Y"]:
  """Returns scores of years with the beliefs of linked records added.

  Each link sends log(1 - c + c * belief / prior), c the chance of one year. A
  record's messages are averaged with itself, so that ten copies do not count
  ten times.

  Args:
    graph: among the records.
    year_scores: of years, log and up to a constant.
    year_prior: chance of each year.
  """
  belief = year_scores - logsumexp(year_scores, axis=1, keepdims=True)
  np.exp(belief, out=belief)
  belief /= year_prior
  message_sums = np.zeros_like(year_scores)
  for start in range(0, len(graph.target), _LINKS_PER_BLOCK):
    block = slice(start, start + _LINKS_PER_BLOCK)
    chance = np.minimum(graph.year_chance[block, None], _MAX_LINK_CHANCE)
    message = np.log1p(chance * (belief[graph.source[block]] - 1))
    np.add.at(message_sums, graph.target[block], message)
  sender_weights = np.bincount(
    graph.target, weights=graph.year_chance, minlength=graph.size
  )
  message_sums *= _MESSAGE_WEIGHT / (1 + sender_weights[:, None])
  message_sums += year_scores
  return message_sums
