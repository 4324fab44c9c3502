"""Months of queries, including those without a readable date, and their
ranking.

Axes: Q queries, N records, n a block of them, K months, k results.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse
from absl import logging
from jaxtyping import Bool, Float, Float32, Int
from scipy.special import softmax

from ctd_jax.chronology import question_words, questions
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating.corpus import cut_blocks, plain_text
from ctd_jax.dating.experts import wording
from ctd_jax.dating.posterior import MIN_MASS, Posterior
from ctd_jax.retrieval import bm25, host_search

# A query whose date is read asks for that interval, all of its months alike.
# Any other, 「衛桓公何時葬？」, asks for the month of a record z that shares
# its wording, among the months that a vague date admits if the query has one:
#
#   p(z | q)  ~  exp(match(q, z) / temperature) p(answering kind | z)
#   p(m | q)  ~  admitted(m) sum_z p(z | q) p(m | z)
#
# A record answers if it has the month of the event, or tells the event:
#
#   mass(r)   =  sum_m admitted(m) p(m | r)
#                (p(r | q) + sum_{z != r} p(z | q) p(m | z))
#
# So time and wording are fused by confidence. Where the month is nearly certain
# all of its records come before others; elsewhere the mass that others share is
# small, and records with the wording come first.

# Wording of questions: how much of it each record has.
#
# A question shares few characters with the record that it asks about, and
# those in its words. BM25 counts characters and pairs of them, so that 「日食」
# is near to 「日有食之」; longer strings that few records have tell formulas
# apart,
# of which the annals are full.


@dataclasses.dataclass(frozen=True, eq=False)
class RecordWording:
  """Texts of the records that questions are compared with."""

  texts: Sequence[str]  # as printed, [N]
  plain_texts: Sequence[str]  # as of `corpus.Corpus`, [N]

  def __len__(self) -> int:
    return len(self.texts)

  @functools.cached_property
  def _bm25(self) -> bm25.BM25:
    return bm25.BM25(self.texts)

  def match_queries(
    self, words: Sequence[Sequence[str]], string_weight: float
  ) -> Float32[np.ndarray, "Q N"]:
    """Returns how well each record matches, 0 if it shares nothing.

    `string_weight` is the weight of shared strings, added to BM25.
    """
    scores = self._bm25.score_queries([" ".join(each) for each in words])
    # Of an empty question BM25 knows a token too.
    scores[[not each for each in words]] = 0
    asked = ["\n".join(map(plain_text, each)) for each in words]
    strings = wording.collect_ngrams(asked, wording.LENGTHS)
    holds = strings.encode(self.plain_texts)
    counts = np.bincount(holds.indices, minlength=len(strings))
    idf = np.log(len(self) / np.maximum(counts, 1))
    weighed = strings.encode(asked)
    weighed.data = idf[weighed.indices].astype(np.float32)
    scores += string_weight * (weighed @ holds.T).toarray()
    return scores


def find_query_words(text: str) -> tuple[str, ...]:
  """Returns the words that a question (its dates blanked) asks about."""
  rest, phrases = question_words.take_quotations(text)
  words = phrases + question_words.find_words(rest)
  if not words and not question_words.is_question(rest):
    words = question_words.split_words(rest)
  return words


_MIN_CHANCE = 1e-5  # of a record to tell the event; less is left out
_RECORD_BLOCK = 1024  # records whose months are held at once
_MAX_MATCHES = 2**24  # of queries with records, held at once


@dataclasses.dataclass(frozen=True)
class QueryConstants:
  """Free constants, chosen on validation questions."""

  string_weight: float = 0.3  # of shared strings in the match, added to BM25
  # Of the match; the lower, the surer of the best record.
  temperature: float = 2.0
  wording_weight: float = 0.1  # of the match in the score of a record
  # Weight of a month that a vague date does not admit.
  other_months: float = 1e-3
  # Chance that no record with the wording tells the event.
  background: float = 0.005


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GalleryDates:
  """Dates, kinds and wording of the records that queries are compared with."""

  posterior: Posterior  # of the records
  # Log p(answering kind | text) of the records.
  event_log_p: Float[np.ndarray, " N"]
  # Of the records, by which queries without a date are dated.
  wording: RecordWording
  constants: QueryConstants = QueryConstants()  # of the dates by wording


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ReadQueries:
  """Dates and event words read from queries."""

  # First and last month that are asked for; all months where the parser reads
  # no date.
  intervals: Int[np.ndarray, "Q 2"]
  is_read: Bool[np.ndarray, " Q"]  # whether it does
  # Months that a vague date admits; all if there is none.
  admitted: Bool[np.ndarray, "Q K"]
  # Of the event; () where the parser reads a date, or without any.
  words: Sequence[tuple[str, ...]]

  @property
  def has_words(self) -> Bool[np.ndarray, " Q"]:
    """Whether a query names words of an event."""
    return np.array([bool(words) for words in self.words], bool)

  @property
  def is_vague(self) -> Bool[np.ndarray, " Q"]:
    """Whether a query has a vague date."""
    return ~self.admitted.all(axis=1)

  @property
  def is_open(self) -> Bool[np.ndarray, " Q"]:
    """Whether a query lacks a readable date but has words or a vague date."""
    return ~self.is_read & (self.has_words | self.is_vague)

  def log_counts(self) -> None:
    """Logs how the queries without a readable date are dated."""
    if self.is_read.all():
      return
    logging.info(
      "queries without a date: %d are dated by the records that share their "
      "wording, %d of them by a reign, season or month too; %d by such a date "
      "alone; %d have neither and ask for all months",
      self.has_words.sum(),
      (self.has_words & self.is_vague).sum(),
      (~self.has_words & self.is_vague).sum(),
      (~self.is_read & ~self.is_open).sum(),
    )

  def take(self, rows: Int[np.ndarray, " q"]) -> ReadQueries:
    """Returns some of the queries."""
    return ReadQueries(
      intervals=self.intervals[rows],
      is_read=self.is_read[rows],
      admitted=self.admitted[rows],
      words=[self.words[row] for row in rows.tolist()],
    )


def read_queries(queries: Sequence[str], timeline: Timeline) -> ReadQueries:
  """Returns the dates and event words of queries."""
  intervals = questions.parse_query_intervals(queries, timeline)
  is_read = np.array([interval is not None for interval in intervals], bool)
  admitted = np.ones((len(queries), len(timeline)), bool)
  words: list[tuple[str, ...]] = [()] * len(queries)
  for row in np.flatnonzero(~is_read).tolist():
    vague_date = questions.read_vague_date(queries[row], timeline)
    if vague_date.months is not None:
      admitted[row] = vague_date.months
    words[row] = find_query_words(vague_date.rest)
  return ReadQueries(
    intervals=questions.find_interval_bounds(intervals, timeline),
    is_read=is_read,
    admitted=admitted,
    words=words,
  )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QueryPosterior:
  """The months of the events that queries ask about."""

  match: Float32[np.ndarray, "Q N"]  # of the wording of queries and records
  # P(z | q) over the chance of an admitted month; no entry in the row of a
  # query without a match.
  event_chances: scipy.sparse.csr_array
  admitted: Float32[np.ndarray, "Q K"]  # weight of the months
  # P(m | q) by the records with the wording; by what is admitted alone if there
  # are none.
  months: Float32[np.ndarray, "Q K"]
  constants: QueryConstants  # that were used

  @property
  def log_p(self) -> Float32[np.ndarray, "Q K"]:
    """log p(month | query)."""
    share = self.constants.background
    total = self.admitted.sum(axis=1, keepdims=True)
    return np.log((1 - share) * self.months + share * self.admitted / total)

  def score_records(
    self,
    rows: Int[np.ndarray, " n"],
    record_months: Float32[np.ndarray, "n K"],
  ) -> Float32[np.ndarray, "Q n"]:
    """Returns log mass plus match, before the kind of the records is added."""
    # Many queries admit the same months.
    admitted, row_of = np.unique(self.admitted, axis=0, return_inverse=True)
    row_of = row_of.reshape(-1)  # some versions of NumPy give [Q, 1]
    # p(z | q) p(m | z) of the record itself is taken out of the sum.
    own_mass = admitted @ (record_months - np.square(record_months)).T
    mass = self.months @ record_months.T
    mass += self.event_chances[:, rows].toarray() * own_mass[row_of]
    return (
      np.log(np.maximum(mass, MIN_MASS))
      + self.constants.wording_weight * self.match[:, rows]
    )


def date_open_queries(
  queries: ReadQueries, gallery: GalleryDates
) -> QueryPosterior:
  """Returns the months of queries without a readable date."""
  constants = gallery.constants
  match = gallery.wording.match_queries(queries.words, constants.string_weight)
  chances = softmax(match / constants.temperature + gallery.event_log_p, axis=1)
  chances[(match == 0) | (chances < _MIN_CHANCE)] = 0
  event_chances = scipy.sparse.csr_array(chances.astype(np.float32))
  admitted = np.where(queries.admitted, 1, constants.other_months)
  admitted = admitted.astype(np.float32)
  months = np.zeros_like(admitted)
  used = np.unique(event_chances.indices)
  for block in cut_blocks(len(used), _RECORD_BLOCK):
    rows = used[block]
    months += event_chances[:, rows] @ np.exp(gallery.posterior.log_p(rows))
  months[np.diff(event_chances.indptr) == 0] = 1  # no record matches
  months *= admitted
  total = months.sum(axis=1, keepdims=True)
  event_chances = event_chances.multiply(1 / total).tocsr()
  return QueryPosterior(
    match=match,
    event_chances=event_chances.astype(np.float32),
    admitted=admitted,
    months=months / total,
    constants=constants,
  )


def date_queries(
  queries: Sequence[str], gallery: GalleryDates
) -> Float32[np.ndarray, "Q K"]:
  """Returns log p(month | query), from the date or the event of each query."""
  axis = gallery.posterior.axis
  read = read_queries(queries, axis.timeline)
  read.log_counts()
  first, last = read.intervals.T[:, :, None]
  months = np.arange(len(axis))
  is_asked = (first <= months) & (months <= last)
  with np.errstate(divide="ignore"):
    log_p = np.log(is_asked / is_asked.sum(axis=1, keepdims=True))
  log_p = log_p.astype(np.float32)
  for rows in iterate_open_rows(read, len(gallery.posterior)):
    log_p[rows] = date_open_queries(read.take(rows), gallery).log_p
  return log_p


def iterate_open_rows(
  queries: ReadQueries, num_records: int
) -> Iterator[Int[np.ndarray, " q"]]:
  """Yields the rows of open queries, as many as can be matched at once."""
  rows = np.flatnonzero(queries.is_open)
  size = max(1, _MAX_MATCHES // max(num_records, 1))
  for block in cut_blocks(len(rows), size):
    yield rows[block]


# Ranking by posterior: the chance that a record answers a dated query.
#
# The date of a query is read by the parser, that of a record is a
# distribution. The score is the log of the mass inside the query's interval
# plus the log of the chance that texts of its kind answer. A query
# whose date the parser does not read is dated by its wording
# (`query_posterior`), and its score is that of the records' mass in its
# months, and of their wording.

MIN_EVENT_LOG_P = -20.0  # so that no style excludes a record
_Ranking = tuple[np.ndarray, np.ndarray]  # indices and scores, [Q, k]


def rank_by_posterior(
  queries: Sequence[str],
  gallery: GalleryDates,
  k: int,
  masks: Mapping[str, Bool[np.ndarray, " N"]],
) -> host_search.TopK:
  """Returns name -> indices and scores of the k best records, [Q, k].

  Args:
    masks: name of a part of the gallery -> its records, [N] bool.
  """
  posterior = gallery.posterior
  style_scores = np.maximum(gallery.event_log_p, MIN_EVENT_LOG_P)

  def rank(score_rows: Callable[[np.ndarray], np.ndarray], size: int):
    return _rank_blocks(
      lambda rows: score_rows(rows) + style_scores[rows],
      (size, len(posterior)),
      k,
      masks,
    )

  read = read_queries(queries, posterior.axis.timeline)
  # Many queries ask for the same months, whose mass is computed once.
  intervals, interval_index = np.unique(
    read.intervals, axis=0, return_inverse=True
  )
  # Some versions of NumPy give [Q, 1].
  interval_index = interval_index.reshape(-1)
  ranked = rank(
    lambda rows: posterior.log_mass(rows, intervals), len(intervals)
  )
  top_k = {
    name: (indices[interval_index], scores[interval_index])
    for name, (indices, scores) in ranked.items()
  }
  read.log_counts()
  for open_rows in iterate_open_rows(read, len(posterior)):
    dates = date_open_queries(read.take(open_rows), gallery)
    ranked = rank(
      lambda rows, dates=dates: dates.score_records(
        rows, np.exp(posterior.log_p(rows))
      ),
      len(open_rows),
    )
    for name, (indices, scores) in ranked.items():
      top_k[name][0][open_rows] = indices
      top_k[name][1][open_rows] = scores
  return top_k


def _rank_blocks(
  score_rows: Callable[[np.ndarray], Float32[np.ndarray, "Q n"]],
  shape: tuple[int, int],
  k: int,
  masks: Mapping[str, np.ndarray],
) -> dict[str, _Ranking]:
  """Returns name -> ranking of queries by the scores of blocks of records."""
  num_queries, num_records = shape
  top_k = {
    name: (
      np.full((num_queries, k), -1, np.int32),
      np.full((num_queries, k), -np.inf, np.float32),
    )
    for name in masks
  }
  for block in cut_blocks(num_records, _RECORD_BLOCK):
    rows = np.arange(block.start, block.stop)
    scores = score_rows(rows)
    for name, mask in masks.items():
      members = np.flatnonzero(mask[rows])
      columns, values = host_search.select_top_k(scores[:, members], k)
      # Column -1 stands for no result; it becomes record -1.
      records = np.append(rows[members], -1)[columns]
      top_k[name] = _merge_top_k(top_k[name], (records, values), k)
  return top_k


def _merge_top_k(
  top_k: tuple[np.ndarray, np.ndarray],
  candidates: tuple[np.ndarray, np.ndarray],
  k: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the k best of both; of equal scores the earlier record."""
  indices = np.concatenate([top_k[0], candidates[0]], axis=1)
  scores = np.concatenate([top_k[1], candidates[1]], axis=1)
  order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
  return (
    np.take_along_axis(indices, order, 1).astype(np.int32),
    np.take_along_axis(scores, order, 1),
  )
