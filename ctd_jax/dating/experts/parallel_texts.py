"""Records that tell or explain the same event share what is known of its date.

Why: the Annals, the three traditions and the comments on them tell one event in
words that few others have. A pair of a record and an event is given the chance
that both are of one month, of one year, or of neither, learned from pairs whose
months are known. `pooled` collects the evidence of an event's parallels for the
weights to use; `propagate` sends whole beliefs along the links. Called by
`dater`.

Pairs are many times the records, so that what is made of them is made of a
stretch of records or pairs at a time.

Axes: P pairs, p some of them, E events, n records asked about, b a block of
them, Y years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse
from scipy.special import logsumexp

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Gallery, Labels, MonthAxis
from ctd_jax.dating.experts import shared_wording

SAME_MONTH, SAME_YEAR, NEAR, FAR = range(4)
NUM_POOLED = 5  # experts that `pooled` returns
_NUM_CANDIDATES = 20
_MAX_FAR_PAIRS = 25_000  # unrelated pairs to learn from
_MONTH_MESSAGE_WEIGHT = 0.5  # weight of what linked records say of the month
_MAX_LINK_CHANCE = 0.9999  # no link is surer
_MAX_NEAR_YEARS = 3
_MIN_POOLED_CHANCE = 0.1  # chance of one month below which a pair pools nothing
_MIN_LINK_CHANCE = 0.03  # chance of one year below which a pair sends nothing
_RIVAL_SHARE = 0.8  # share of the best overlap that makes a rival
_BLOCK = 65_536  # pairs whose features are made at once
_LINKS_PER_BLOCK = 4096  # links whose messages are made at once


@dataclasses.dataclass(frozen=True)
class ParallelPairs:
  """Records beside the events nearest in wording.

  Attributes:
    record: [P].
    event: index of the other record, an event, [P].
    features: of the pair, float32 [P, f].
    pair_hashes: made of the two texts, uint32 [P].
  """

  record: np.ndarray
  event: np.ndarray
  features: np.ndarray
  pair_hashes: np.ndarray


def make_parallel_pairs(
  gallery: Gallery,
  event_records: np.ndarray,
  string_index: shared_wording.EventStringIndex,
  rows: np.ndarray,
  texts: list[str],
) -> ParallelPairs:
  """Returns `rows` beside the events nearest in wording, never themselves.

  Args:
    gallery: the texts.
    event_records: records that are events, ascending, [E].
    string_index: wording of those events.
    rows: records, [n].
    texts: what of them to compare, [n].
  """
  event_position = np.minimum(
    np.searchsorted(event_records, rows), max(len(event_records) - 1, 0)
  )
  self_event = np.full(len(rows), UNKNOWN)
  if len(event_records):
    self_event = np.where(
      event_records[event_position] == rows, event_position, UNKNOWN
    )
  nearest_pairs, max_overlap, text_weight, max_event_overlap = (
    _find_nearest_events(string_index, texts, self_event)
  )
  text_index, event_index, overlap = nearest_pairs
  is_rival = overlap >= _RIVAL_SHARE * max_overlap[text_index]
  num_rivals = np.bincount(text_index, weights=is_rival, minlength=len(rows))
  ranks, event_weights = (
    _rank_within_rows(text_index, overlap),
    string_index.event_weights,
  )
  record, event = (
    rows[text_index].astype(np.int32),
    event_records[event_index].astype(np.int32),
  )
  date_fields = (
    (gallery.first_month, 0),
    (gallery.first_day, -1),
    (gallery.opening_year, 0),
  )

  def make_features(block: slice) -> list[np.ndarray]:
    text_rows, event_rows, pair_overlap = (
      text_index[block],
      event_index[block],
      overlap[block],
    )
    columns = [
      np.log1p(pair_overlap),
      pair_overlap / (max_overlap[text_rows] + 5),
      pair_overlap / (max_event_overlap[event_rows] + 5),
      pair_overlap / (text_weight[text_rows] + 5),
      pair_overlap / (event_weights[event_rows] + 5),
      np.log1p(num_rivals[text_rows]),
      ranks[block],
      np.log1p(text_weight[text_rows]),
      np.log1p(event_weights[event_rows]),
      ~is_rival[block],
    ]
    for date_field, missing_value in date_fields:
      field_values = date_field[record[block]], date_field[event[block]]
      has_values = (field_values[0] != missing_value) & (
        field_values[1] != missing_value
      )
      is_same = field_values[0] == field_values[1]
      columns += [has_values & is_same, has_values & ~is_same]
    return columns

  pair_hashes = (
    gallery.text_hashes[record] * np.uint32(31) + gallery.text_hashes[event]
  )
  return ParallelPairs(
    record, event, stack_features(make_features, len(record)), pair_hashes
  )


def _find_nearest_events(
  string_index: shared_wording.EventStringIndex,
  texts: list[str],
  self_event: np.ndarray,
):
  """Returns the pairs of texts and events, and what all their overlaps tell.

  Args:
    string_index: wording of the events.
    texts: what to compare, [n].
    self_event: event that each text is of, or UNKNOWN, [n].

  Returns:
    Text, event and overlap of each pair, [P]; the greatest overlap and the
    weight of each text, [n]; the greatest overlap of each event, [E].
  """
  max_overlap, text_weight = np.zeros((2, len(texts)), np.float32)
  max_event_overlap = np.zeros(string_index.event_strings.shape[0], np.float32)
  blocks = [(np.zeros(0, np.int32),) * 2 + (np.zeros(0, np.float32),)]
  for block, (string_matrix,) in string_index.iter_blocks(texts):
    overlap = _drop_self_overlap(
      string_index.overlap(string_matrix), self_event[block]
    )
    text_index, event_index, value = shared_wording.select_top_entries(
      overlap, _NUM_CANDIDATES
    )
    blocks.append((text_index + np.int32(block.start), event_index, value))
    max_overlap[block], text_weight[block] = (
      shared_wording.row_max(overlap),
      string_matrix @ string_index.idf,
    )
    np.maximum.at(max_event_overlap, overlap.indices, overlap.data)
  pairs = [np.concatenate(arrays) for arrays in zip(*blocks, strict=True)]
  return pairs, max_overlap, text_weight, max_event_overlap


def stack_features(
  make_features: Callable[[slice], list[np.ndarray]], size: int
) -> np.ndarray:
  """Returns the features of `size` pairs, float32 [P, f], made in stretches.

  Args:
    make_features: gives f columns of a stretch of the pairs.
    size: number of pairs, P.
  """
  result = np.zeros((size, len(make_features(slice(0, 0)))), np.float32)
  for start in range(0, size, _BLOCK):
    block = slice(start, start + _BLOCK)
    result[block] = np.stack(make_features(block), axis=1)
  return result


def _rank_within_rows(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
  """Returns how many pairs of the same row have a greater value, [P].

  Args:
    rows: ascending.
    values: falling within each row.
  """
  positions = np.arange(len(rows), dtype=np.int32)
  is_new_row = np.diff(rows, prepend=-1) != 0
  is_new_value = is_new_row | (np.diff(values, prepend=np.inf) != 0)
  value_starts = np.maximum.accumulate(np.where(is_new_value, positions, 0))
  return value_starts - np.maximum.accumulate(
    np.where(is_new_row, positions, 0)
  )


def _drop_self_overlap(overlap, self_event: np.ndarray):
  """Returns the overlap without one event of each row, UNKNOWN for none."""
  self_event_of_entry = np.repeat(self_event, np.diff(overlap.indptr))
  overlap.data[overlap.indices == self_event_of_entry] = 0
  overlap.eliminate_zeros()
  return overlap


def fit_pair_chances(
  axis: MonthAxis,
  parallel_pairs: ParallelPairs,
  labels: Labels,
  target_pairs: np.ndarray,
) -> np.ndarray:
  """Returns the chance of SAME_MONTH, SAME_YEAR, NEAR, FAR, float32 [p, 4].

  Args:
    axis: the years.
    parallel_pairs: the pairs.
    labels: the known months; pairs of two known records teach.
    target_pairs: which pairs are asked about, [p].
  """
  record_months, event_months = (
    labels.month[parallel_pairs.record],
    labels.month[parallel_pairs.event],
  )
  training_pairs = np.flatnonzero(
    (record_months != UNKNOWN) & (event_months != UNKNOWN)
  )
  record_months, event_months = (
    record_months[training_pairs],
    event_months[training_pairs],
  )
  year_distance = np.abs(
    axis.year_of[record_months] - axis.year_of[event_months]
  )
  pair_class = np.select(
    [
      record_months == event_months,
      year_distance == 0,
      year_distance <= _MAX_NEAR_YEARS,
    ],
    [SAME_MONTH, SAME_YEAR, NEAR],
    FAR,
  )
  sample, weights = regression.subsample_examples(
    pair_class == FAR,
    parallel_pairs.pair_hashes[training_pairs],
    _MAX_FAR_PAIRS,
  )
  model = regression.BinnedSoftmax.fit(
    parallel_pairs.features[training_pairs[sample]],
    pair_class[sample],
    4,
    weights,
  )
  return model.predict_probability(parallel_pairs.features[target_pairs])


@dataclasses.dataclass(frozen=True)
class LinkGraph:
  """Links among the records asked about.

  Attributes:
    target: place of the record that receives, [P].
    source: place of the record that sends, [P].
    month_chance: chance that both are of one month, float32 [P].
    year_chance: chance that both are of one year, that month included, float32 [P].
    size: number of records asked about, n.
  """

  target: np.ndarray
  source: np.ndarray
  month_chance: np.ndarray
  year_chance: np.ndarray
  size: int


def build_link_graph(
  axis: MonthAxis,
  parallel_pairs: ParallelPairs,
  labels: Labels,
  row_of_record: np.ndarray,
  size: int,
) -> LinkGraph:
  """Returns the links between records that are asked about.

  Args:
    axis: the years.
    parallel_pairs: the pairs; each links the record to the event.
    labels: the known months, from which the chances are learned.
    row_of_record: place of every record among those asked about, or UNKNOWN, [N].
    size: number of records asked about.
  """
  target, source = (
    row_of_record[parallel_pairs.record],
    row_of_record[parallel_pairs.event],
  )
  linked_pairs = np.flatnonzero((target != UNKNOWN) & (source != UNKNOWN))
  chance = fit_pair_chances(axis, parallel_pairs, labels, linked_pairs)
  year_chance = chance[:, SAME_MONTH] + chance[:, SAME_YEAR]
  is_link = year_chance > _MIN_LINK_CHANCE
  linked_pairs = linked_pairs[is_link]
  return LinkGraph(
    target[linked_pairs],
    source[linked_pairs],
    chance[is_link, SAME_MONTH],
    year_chance[is_link],
    size,
  )


def join_graphs(first: LinkGraph, second: LinkGraph) -> LinkGraph:
  """Returns both sets of links among the same records."""
  return LinkGraph(
    np.concatenate([first.target, second.target]),
    np.concatenate([first.source, second.source]),
    np.concatenate([first.month_chance, second.month_chance]),
    np.concatenate([first.year_chance, second.year_chance]),
    first.size,
  )


def reverse_graph(graph: LinkGraph) -> LinkGraph:
  """Returns the links with sender and receiver exchanged."""
  return dataclasses.replace(graph, target=graph.source, source=graph.target)


def make_pooling_matrix(graph: LinkGraph) -> scipy.sparse.csr_array:
  """Returns the chances of one month worth pooling, sparse [n, n].

  Args:
    graph: among the records asked about.
  """
  is_pooled = graph.month_chance > _MIN_POOLED_CHANCE
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
  word_scores: np.ndarray,
  date_log_ratios: np.ndarray,
  rows: np.ndarray,
) -> np.ndarray:
  """Returns the scores of some records' parallels, float32 [POOLED, b, Y].

  They are: the best citation of a parallel, the best citation of a parallel
  above the first step, the cues of the parallels, how much the first exceeds
  the record's own, and the mean words of record and parallels.

  Args:
    pooling_matrix: from `shares`, [n, n].
    citation_scores: scores of all records' citations, `citations.NUM_SCORES` of [n, Y].
    word_scores: weighted scores of their words, [n, Y].
    date_log_ratios: log ratios of years by their cues, [n, Y].
    rows: of the records to score, [b].
  """
  pooling_matrix = pooling_matrix[rows]
  parallel_weight = 1 + np.asarray(pooling_matrix.sum(axis=1)).reshape(-1, 1)
  result = np.zeros((NUM_POOLED, len(rows), word_scores.shape[1]), np.float32)
  linked_rows = np.flatnonzero(np.diff(pooling_matrix.indptr))
  if len(linked_rows):
    starts, source = pooling_matrix.indptr[linked_rows], pooling_matrix.indices
    chance = pooling_matrix.data[:, None]
    log_beliefs = date_log_ratios[source]
    belief = np.exp(log_beliefs - logsumexp(log_beliefs, axis=1, keepdims=True))
    belief *= word_scores.shape[1]
    best_citation = np.minimum(citation_scores[0][source].toarray(), 25)
    best_citation = np.log1p(chance * np.expm1(best_citation))
    result[0, linked_rows] = np.maximum.reduceat(best_citation, starts)
    citation_excess = chance * citation_scores[3][source].toarray()
    result[1, linked_rows] = np.maximum.reduceat(citation_excess, starts)
    date_scores = np.log1p(chance * (belief - 1))
    result[2, linked_rows] = np.add.reduceat(date_scores, starts)
  result[2] /= np.sqrt(parallel_weight)
  result[3] = np.maximum(result[0] - citation_scores[0][rows].toarray(), 0)
  result[4] = (
    word_scores[rows] + pooling_matrix @ word_scores
  ) / parallel_weight
  return result


def propagate_months_of_year(
  graph: LinkGraph, month_of_year_chances: np.ndarray
) -> np.ndarray:
  """Returns what linked records say of the month of the year, [n, 12].

  Log ratios: the Annals may name the month of an event that a tradition tells
  without one.

  Args:
    graph: among the records.
    month_of_year_chances: chance of each month of the year by a record's own cues, [n, 12].
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
  year_scores: np.ndarray,
  year_prior: np.ndarray,
  message_weight: float,
) -> np.ndarray:
  """Returns scores of years with what linked records believe, [n, Y].

  Each link sends log(1 - c + c * belief / prior), c the chance of one year. A
  record's messages are averaged with itself, so that ten copies do not count
  ten times.

  Args:
    graph: among the records.
    year_scores: of years, log and up to a constant, [n, Y].
    year_prior: chance of each year, [Y].
    message_weight: of the messages.
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
  message_sums *= message_weight / (1 + sender_weights[:, None])
  message_sums += year_scores
  return message_sums
