"""Scores of a passage: what every expert says of its months.

The scores are those of `expert_panel` and `record_scores`, made for one event
more beside those of the corpus.

Axes: N records, D documents, K months, Y years, L linked records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Float32, Int

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import NO_OPENING, UNKNOWN, Corpus
from ctd_jax.dating.expert_panel import POOL_SLICES
from ctd_jax.dating.experts import base, citations, parallel_texts
from ctd_jax.dating.experts import known_parallels as known_lib
from ctd_jax.dating.experts.date_features import DateTables
from ctd_jax.dating.passages.hidden_records import HiddenRecords
from ctd_jax.dating.passages.passage_citations import (
  CitedYears,
  PassageCitations,
)
from ctd_jax.dating.passages.passage_pairs import RecordTable
from ctd_jax.dating.passages.passage_reading import (
  DayTable,
  PassageReader,
  PassageReading,
)
from ctd_jax.dating.passages.passage_words import PassageWords
from ctd_jax.dating.passages.text_table import TextTable
from ctd_jax.dating.passages.wording_index import PassageWording, WordingIndex

# Of the pool: the words of a passage and its parallels, averaged; and by how
# much the best citation of a parallel exceeds those of the passage.
_MEAN_WORDS = POOL_SLICES["parallels"].stop - 1
_EXCESS = POOL_SLICES["parallels"].stop - 2
_BEST_CITATION = POOL_SLICES["parallels"].start


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CorpusState:
  """All that is kept of a corpus.

  Attributes:
    texts: of the records, [N].
    row_ids: numbers of the records for those who ask, ascending.
    months: of the labelled records, UNKNOWN for the others.
    year_prior: chance of every year.
    wording: which records hold which rare strings.
    records: what pairs read of the records.
    hidden: records without a label.
    words: strings of the years.
    cited: citations.
    parallel_model: of events beside events.
    comment_model: of comments beside events.
    known_model: of passages beside labelled events; None where the years of
      passages have no labelled records.
    pool_weights: of the pooled scores.
    known_weights: of the scores of labelled events.
    inverse_temperature: of all that the experts say.
    month_log_factors: of passages that open a month; None where a month is
      named as often as one likes.
    dates: tables of printed dates.
  """

  texts: TextTable
  row_ids: Int[np.ndarray, " N"]
  months: Int[np.ndarray, " N"]
  year_prior: Float[np.ndarray, " Y"]
  wording: WordingIndex
  records: RecordTable
  hidden: HiddenRecords
  words: PassageWords
  cited: PassageCitations
  parallel_model: regression.BinnedSoftmax
  comment_model: regression.BinnedSoftmax
  known_model: regression.BinnedSoftmax | None
  pool_weights: Float[np.ndarray, " f"]
  known_weights: Float[np.ndarray, " s"]
  inverse_temperature: float
  month_log_factors: Float32[np.ndarray, " K"] | None
  dates: DateTables | DayTable


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Links:
  """Records linked with a passage.

  Attributes:
    rows: of the records.
    chances: of the classes of `parallel_texts`, [L, 4].
  """

  rows: Int[np.ndarray, " L"]
  chances: Float32[np.ndarray, "L 4"]

  @property
  def year_chances(self) -> Float32[np.ndarray, " L"]:
    """Chance that a record is of the year of the passage."""
    return (
      self.chances[:, parallel_texts.SAME_MONTH]
      + self.chances[:, parallel_texts.SAME_YEAR]
    )

  def take(self, is_kept: np.ndarray) -> Links:
    """Returns some of the links."""
    return Links(rows=self.rows[is_kept], chances=self.chances[is_kept])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PassageScores:
  """What the experts say of one passage, and what they read.

  Attributes:
    reading: of the passage.
    terms: name -> log ratios of months, before the temperature, [K].
    uncited_parallels: the term of the parallels were the passage not cited
      itself, [K]: their citations then count in place of its own.
    cited: the citations.
    parallels: linked records without a label.
    known: linked records with one.
  """

  reading: PassageReading
  terms: dict[str, np.ndarray]
  uncited_parallels: Float[np.ndarray, " K"]
  cited: CitedYears
  parallels: Links
  known: Links

  def sum_terms(self, num_months: int) -> Float[np.ndarray, " K"]:
    """Returns the sum of the terms; zeros if no expert says anything."""
    return sum(self.terms.values(), start=np.zeros(num_months))


@dataclasses.dataclass(frozen=True, eq=False)
class PassageScorer:
  """Scores passages by a corpus.

  Attributes:
    state: of the corpus.
    reader: of its calendar.
  """

  state: CorpusState
  reader: PassageReader

  def score(self, text: str, excluded: Collection[int] = ()) -> PassageScores:
    """Returns what the experts say of a passage.

    Args:
      text: of the passage.
      excluded: rows of records that play no part.
    """
    state, axis = self.state, self.reader.axis
    reading = self.reader.read(text)
    passage, dates = reading.passage, reading.dates
    wording = state.wording.read_wording(reading.body, excluded)
    overlap = wording.overlap_documents()
    columns = state.words.find_strings(reading.body)
    words = state.words.score_strings(columns, self._list_counted(excluded))
    own_words = words.sum(axis=0, dtype=np.float32)
    cited = state.cited.score(
      axis, passage, wording, overlap, state.months, excluded
    )
    events, comments = self._link_hidden(passage, wording, overlap, excluded)
    known = self._link_known(passage, wording, excluded)
    pooled, weight = self._pool_parallels(events, dates, own_words, cited)
    weights = state.pool_weights
    terms = dict(dates.split_log_scores(0))
    terms["words"] = (
      weights[POOL_SLICES["words"]][0] + weights[_MEAN_WORDS] / weight
    ) * own_words[axis.year_of]
    terms["cited"] = np.tensordot(
      weights[POOL_SLICES["cited"]],
      np.concatenate([scores.toarray() for scores in cited.scores]),
      1,
    )[axis.year_of]
    # The passage's own share of the mean words is counted above.
    pooled[-1] -= own_words / weight
    years = np.tensordot(weights[POOL_SLICES["parallels"]], pooled, 1)
    terms["parallels"] = (
      self._send_messages(events, comments, dates) + (years[axis.year_of])
    )
    first = POOL_SLICES["parallels"].start
    covered = pooled[_BEST_CITATION - first] - pooled[_EXCESS - first]
    uncited = terms["parallels"] + (weights[_EXCESS] * covered)[axis.year_of]
    if len(known.rows):
      scores = known_lib.score_pairs(
        axis,
        np.zeros(len(known.rows), int),
        np.asarray(state.months[known.rows]),
        known.chances,
        1,
      )
      terms["known"] = np.append(state.known_weights, 1) @ scores[:, 0]
    is_opener = passage.opening[0] != NO_OPENING
    if state.month_log_factors is not None and is_opener:
      terms["room"] = state.month_log_factors
    return PassageScores(
      reading=reading,
      terms={
        name: np.asarray(term, float)
        for name, term in terms.items()
        if np.ptp(term) > 0 or (name == "parallels" and np.ptp(uncited) > 0)
      },
      uncited_parallels=np.asarray(uncited, float),
      cited=cited,
      parallels=_join_links(events, comments),
      known=known,
    )

  def _list_counted(self, excluded: Collection[int]) -> list[tuple[str, int]]:
    """Returns text and year of excluded records that the words count."""
    months, year_of = self.state.months, self.reader.axis.year_of
    return [
      (
        self.reader.read(self.state.texts[row]).body,
        int(year_of[month]),
      )
      for row in excluded
      if (month := months[row]) != UNKNOWN
    ]

  def _link_hidden(
    self,
    passage: Corpus,
    wording: PassageWording,
    overlap: np.ndarray,
    excluded: Collection[int],
  ) -> tuple[Links, Links]:
    """Returns the linked events and comments without a label."""
    state, is_event = self.state, self.state.wording.is_event
    event_pairs = state.records.pair_events(
      passage,
      np.where(is_event, overlap, 0),
      wording.total_weight,
      state.records.best_overlaps,
      excluded,
    )
    comment_pairs = state.records.pair_comments(
      passage, np.where(is_event, 0, overlap), wording.total_weight, excluded
    )
    result = []
    for pairs, model in (
      (event_pairs, state.parallel_model),
      (comment_pairs, state.comment_model),
    ):
      is_hidden = state.hidden.find(pairs.event_row) >= 0
      links = Links(
        rows=pairs.event_row[is_hidden],
        chances=model.predict_probability(pairs.features[is_hidden]),
      )
      is_linked = links.year_chances > parallel_texts.MIN_LINK_CHANCE
      result.append(links.take(is_linked))
    return result[0], result[1]

  def _link_known(
    self,
    passage: Corpus,
    wording: PassageWording,
    excluded: Collection[int],
  ) -> Links:
    """Returns the linked events with a label."""
    state, model = self.state, self.state.known_model
    if model is None:
      return Links(rows=np.zeros(0, int), chances=np.zeros((0, 4), np.float32))
    is_known = np.zeros(len(state.wording.is_event), bool)
    is_known[: len(state.months)] = state.months != UNKNOWN
    overlap, total = wording.overlap_known(is_known & state.wording.is_event)
    pairs = state.records.pair_events(
      passage, overlap, total, state.records.best_known, excluded
    )
    chances = model.predict_probability(pairs.features)
    links = Links(rows=pairs.event_row, chances=chances)
    far = chances[:, parallel_texts.FAR]
    return links.take(far < 1 - known_lib.MIN_NEAR_CHANCE)

  def _pool_parallels(
    self,
    events: Links,
    dates: base.DateExpert,
    own_words: Float32[np.ndarray, " Y"],
    cited: CitedYears,
  ) -> tuple[np.ndarray, float]:
    """Returns the pooled scores of the parallels [p, Y], and their weight."""
    state, axis = self.state, self.reader.axis
    is_pooled = (
      events.chances[:, parallel_texts.SAME_MONTH]
      > parallel_texts.MIN_POOLED_CHANCE
    )
    pooled = events.take(is_pooled)
    chances = pooled.chances[:, parallel_texts.SAME_MONTH]
    size = len(pooled.rows)
    matrix = scipy.sparse.csr_array(
      (chances, (np.zeros(size, int), 1 + np.arange(size))),
      shape=(size + 1, size + 1),
    )
    words, log_dates = [own_words], [axis.to_years(dates.log_scores(_FIRST))[0]]
    for row in pooled.rows.tolist():
      record = self.reader.read(state.texts[row])
      columns = state.words.find_strings(record.body)
      words.append(state.words.score_strings(columns).sum(axis=0))
      log_dates.append(axis.to_years(record.dates.log_scores(_FIRST))[0])
    index = state.hidden.find(pooled.rows)
    scores = list(cited.scores)
    for score, hidden in (
      (citations.BEST, state.hidden.best_citations),
      (citations.BEST_ABOVE_FIRST_STEP, state.hidden.high_citations),
    ):
      scores[score] = scipy.sparse.vstack(
        [scores[score], hidden[index]], format="csr"
      )
    result = parallel_texts.pool_parallels(
      matrix,
      scores,
      np.array(words, np.float32),
      np.array(log_dates, np.float32),
      _FIRST,
    )
    return result[:, 0], 1 + float(chances.sum())

  def _send_messages(
    self, events: Links, comments: Links, dates: base.DateExpert
  ) -> np.ndarray:
    """Returns what linked records say of the months, [K]."""
    state, axis = self.state, self.reader.axis
    links = _join_links(events, comments)
    index = state.hidden.find(links.rows)
    size = len(links.rows)
    graph = parallel_texts.LinkGraph(
      target=np.zeros(size, int),
      source=1 + np.arange(size),
      month_chance=links.chances[:, parallel_texts.SAME_MONTH],
      year_chance=links.year_chances,
      size=size + 1,
    )
    beliefs = state.hidden.log_beliefs(index, state.year_prior)
    beliefs = np.concatenate([np.zeros((1, axis.num_years)), beliefs])
    years = parallel_texts.propagate_beliefs(graph, beliefs, state.year_prior)
    month_chances = np.concatenate(
      [dates.month_of_year_chances(_FIRST), state.hidden.month_chances[index]]
    )
    months = parallel_texts.propagate_months_of_year(graph, month_chances)
    # The belief of the passage itself was 0 for all years.
    return years[0][axis.year_of] + months[0][axis.month_of_year - 1]


_FIRST = np.array([0])  # row of a passage, in a corpus of one


def _join_links(*links: Links) -> Links:
  parts: Sequence[Links] = links
  return Links(
    rows=np.concatenate([part.rows for part in parts]),
    chances=np.concatenate([part.chances for part in parts]),
  )
