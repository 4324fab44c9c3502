"""Linked passages: a text that is in no corpus, dated by what it is linked to.

A passage stands as one event more beside the hidden records of a corpus: it
hears what these believed in the last round, and they do not hear it. So it is
dated in milliseconds, by the links of that text alone:

  dater = fitted.make_passage_dater()
  passage = dater.date("五月，葬衛桓公。")
  passage.log_p, passage.explain()

Its links, their ranks and the scores are those of the corpus: a hidden event
that is left out of its own corpus (`exclude`) has the posterior that it has as
one of the records.

Axes: N records, M citations, K months.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection
from typing import Any

import jax
import numpy as np
from jaxtyping import Float32, UInt32

from ctd_jax.dating.corpus import NO_OPENING, UNKNOWN, Labels
from ctd_jax.dating.experts import base, citations, parallel_pairs
from ctd_jax.dating.experts.citation_pairs import CitationPairs
from ctd_jax.dating.experts.parallel_pairs import ParallelPairs
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.dating.linked import (
  block_scoring,
  hidden_records,
  link_reasons,
  link_tables,
)
from ctd_jax.dating.linked.hidden_records import HiddenRecords
from ctd_jax.dating.linked.link_reasons import ScoredRecords
from ctd_jax.dating.linked.link_tables import LinkTables
from ctd_jax.dating.passages import corpus_fitting, wording_index
from ctd_jax.dating.passages.passage_citations import CitationTable
from ctd_jax.dating.passages.passage_pairs import BestOverlaps, RecordTable
from ctd_jax.dating.passages.passage_reading import (
  PassageReader,
  PassageReading,
)
from ctd_jax.dating.passages.passage_words import PassageWords
from ctd_jax.dating.passages.wording_index import WordingIndex
from ctd_jax.dating.posterior import LOG_IMPOSSIBLE, PosteriorBlock
from ctd_jax.models.linked_dater import Beliefs, LinkedDater, LinkedScores
from ctd_jax.models.linked_inputs import EventInputs

_FIRST = np.array([0])  # row of a passage, in a corpus of one


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LinkedPassage:
  """When a passage is of.

  Attributes:
    log_p: of the months.
  """

  log_p: Float32[np.ndarray, " K"]
  _scored: ScoredRecords = dataclasses.field(repr=False)
  _block: PosteriorBlock = dataclasses.field(repr=False)

  def explain(self, month: int | None = None) -> list[base.Reason]:
    """Returns the reasons for a month, the weightiest first.

    Rows that they name are those of the corpus.

    Args:
      month: ordinal; the likeliest by default.

    Raises:
      IndexError: if there is no such month.
    """
    if month is None:
      month = int(self.log_p.argmax())
    if not 0 <= month < len(self.log_p):
      raise IndexError(f"month is 0..{len(self.log_p) - 1}, got {month}")
    return link_reasons.explain_passage(self._scored, self._block, month)


@dataclasses.dataclass(frozen=True)
class _PassageStrings:
  """Words of one passage, as an expert that says what it read."""

  words: PassageWords
  body: str

  def explain(self, row: int, year: int) -> base.Evidence:
    del row
    return base.Evidence(note=self.words.note_strings(self.body, year))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LinkedPassageDater:
  """A corpus that a linked model has dated, as far as it dates passages.

  Attributes:
    network: the model.
    params: its parameters.
    scored: the hidden records, and what the network says of them.
    block: their posteriors.
    tables: links of all records.
    reader: of printed dates.
    wording: which records hold which rare strings.
    pair_table: what pairs read of the records.
    cited: citations of the corpus.
    context_hashes: of these, see `citations.hash_contexts`.
    words: strings of the years.
    sent: what the hidden records believed before the last round; None where
      no beliefs are passed on.
    month_chances: of the hidden events, by their printed dates.
  """

  network: LinkedDater
  params: Any
  scored: ScoredRecords
  block: PosteriorBlock
  tables: LinkTables
  reader: PassageReader
  wording: WordingIndex
  pair_table: RecordTable
  cited: CitationTable
  context_hashes: UInt32[np.ndarray, " M"]
  words: PassageWords
  sent: Beliefs | None
  month_chances: Any

  @classmethod
  def make(
    cls,
    network: LinkedDater,
    params: Any,
    scored: ScoredRecords,
    block: PosteriorBlock,
    tables: LinkTables,
  ) -> LinkedPassageDater:
    """Returns the dater of a corpus, what a passage needs on the device.

    Args:
      network: the model.
      params: its parameters.
      scored: all hidden records, with the scores.
      block: their posteriors.
      tables: links of all records.
    """
    records, scores = scored.records, scored.scores
    panel, calendar = records.panel, records.inputs.calendar
    features = panel.features
    texts = corpus_fitting.keep_texts(
      features, np.arange(len(features.corpus), dtype=np.int64)
    )
    comment_beliefs = _fill_row(scores.comment_beliefs)
    sent = Beliefs(
      _fill_row(scores.event_beliefs),
      comment_beliefs,
      comment_beliefs @ calendar.has_reign,
    )
    return cls(
      network=network,
      params=jax.device_put(params),
      scored=scored,
      block=block,
      tables=tables,
      reader=PassageReader.from_fitted(panel.experts["dates"], features.axis),
      wording=texts.wording,
      pair_table=_keep_records(
        features, panel.labels, wording_index.weigh_texts(texts.wording)
      ),
      cited=CitationTable.from_features(features, texts.documents),
      context_hashes=citations.hash_contexts(features.citation_pairs.citations),
      words=PassageWords.from_fitted(panel.experts["words"]),
      sent=jax.device_put(sent) if network.config.rounds else None,
      month_chances=jax.device_put(
        _fill_row(records.inputs.events.month_chances)
      ),
    )

  def date(self, text: str, exclude: Collection[int] = ()) -> LinkedPassage:
    """Returns when a passage is of, read as an event.

    Args:
      text: of the passage, with its printed date if it has one.
      exclude: rows of records that play no part: the passage itself, where it
        is in the corpus. What other records heard of them stays heard.
    """
    reading = self.reader.read(text)
    records = self._link(reading, exclude)
    inputs = records.inputs
    terms, months, links = block_scoring.score_new_events(
      self.network,
      self.params,
      inputs.calendar,
      inputs.events,
      self.sent,
      self.month_chances,
    )
    scores = LinkedScores(
      event_terms=terms,
      comment_terms={},
      event_months=months,
      links=links,
      event_beliefs=self.scored.scores.event_beliefs,
      comment_beliefs=self.scored.scores.comment_beliefs,
      inverse_temperature=self.scored.scores.inverse_temperature,
    )
    block = dataclasses.replace(
      self.block,
      rows=_FIRST,
      dates=reading.dates,
      year_scores=scores.event_years,
      month_of_year_log_ratios=scores.event_months,
      opens_month=reading.passage.opening != NO_OPENING,
    )
    log_p = block.log_p(_FIRST)[0]
    stated = int(reading.passage.placeholder_month[0])
    if stated != UNKNOWN:
      log_p = np.full_like(log_p, LOG_IMPOSSIBLE)
      log_p[stated] = 0
    return LinkedPassage(
      log_p=log_p,
      _scored=ScoredRecords(records=records, scores=scores),
      _block=block,
    )

  def _link(
    self, reading: PassageReading, exclude: Collection[int]
  ) -> HiddenRecords:
    """Returns the hidden records with the passage as the one that hears."""
    records = self.scored.records
    panel, labels = records.panel, records.panel.labels
    cited, hashes, parallels, comments = self._pair(reading, exclude)
    tables = link_tables.make_event_tables(
      cited, hashes, parallels, comments, self.tables.quantiles
    )
    event_index, comment_index = self._index
    cited_pairs, cited_years = hidden_records.read_cited_years(
      panel.features.axis, labels, cited, tables, _FIRST, comment_index
    )
    axis, dates = panel.features.axis, reading.dates
    inputs = EventInputs(
      scores=self._read_text(reading, exclude),
      date_years=axis.to_years(dates.log_scores(_FIRST)),
      month_chances=dates.month_of_year_chances(_FIRST).astype(np.float32),
      cited_years=cited_years,
      parallels=hidden_records.make_links(
        tables, "parallels", tables.parallels, event_index[parallels.event_row]
      ),
      comments=hidden_records.make_links(
        tables, "comments", tables.comments, comment_index[comments.event_row]
      ),
    )
    experts = {
      **panel.experts,
      "dates": dates,
      "words": _PassageStrings(self.words, reading.body),
    }
    return dataclasses.replace(
      records,
      panel=dataclasses.replace(panel, experts=experts),
      citation_pairs=cited,
      cited_pairs=cited_pairs,
      inputs=records.inputs.replace(events=inputs),
    )

  @functools.cached_property
  def _index(self) -> tuple[np.ndarray, np.ndarray]:
    """Index of every record among the hidden events and comments, [N] each."""
    records = self.scored.records
    return (
      records.panel.index_rows(records.event_rows),
      records.panel.index_rows(records.comment_rows),
    )

  @functools.cached_property
  def _comment_floors(self) -> Float32[np.ndarray, " N"]:
    """Overlap of each comment that does not make a pair."""
    features = self.scored.records.panel.features
    floors = np.zeros(len(features.corpus), np.float32)
    floors[features.comment_records] = features.comment_pairs.floors
    return floors

  @property
  def _text_hashes(self) -> UInt32[np.ndarray, " N"]:
    return self.scored.records.panel.features.corpus.text_hashes

  def _pair(
    self, reading: PassageReading, exclude: Collection[int]
  ) -> tuple[CitationPairs, np.ndarray, ParallelPairs, ParallelPairs]:
    """Returns citations and their hashes, events and comments beside it."""
    passage, hashes = reading.passage, self._text_hashes
    wording = self.wording.read_wording(reading.body, exclude)
    overlap, is_event = wording.overlap_documents(), self.wording.is_event
    features = self.scored.records.panel.features
    chosen, cited = self.cited.pair_passage(
      passage, wording, overlap, exclude, features.citation_pairs.floors
    )
    parallels = self.pair_table.pair_events(
      passage,
      np.where(is_event, overlap, 0),
      wording.total_weight,
      self.pair_table.best_overlaps,
      exclude,
    )
    comments = self.pair_table.pair_comments(
      passage,
      np.where(is_event, 0, overlap),
      wording.total_weight,
      exclude,
      self._comment_floors,
    )
    # Hashes decide between links of one strength, as they do in the corpus. A
    # comment is the record of its pairs, and the passage the event.
    own, hash_pairs = passage.text_hashes, parallel_pairs.hash_pairs
    return (
      cited,
      citations.hash_pairs(cited, self.context_hashes[chosen]),
      dataclasses.replace(
        parallels, pair_hashes=hash_pairs(own, hashes[parallels.event_row])
      ),
      dataclasses.replace(
        comments, pair_hashes=hash_pairs(hashes[comments.event_row], own)
      ),
    )

  def _read_text(
    self, reading: PassageReading, exclude: Collection[int]
  ) -> dict[str, Float32[np.ndarray, "1 Y"]]:
    """Returns the scores of years by what reads the passage itself."""
    panel = self.scored.records.panel
    labels, features = panel.labels, panel.features
    # What a known record counted is taken out with it.
    counted = [
      (features.corpus.bodies[row], int(features.axis.year_of[month]))
      for row in exclude
      if (month := labels.month[row]) != UNKNOWN
    ]
    columns = self.words.find_strings(reading.body)
    words = self.words.score_strings(columns, counted)
    scores = {"words": words.sum(axis=0, dtype=np.float32)[None]}
    if "neural" in panel.experts:
      scores["neural"] = panel.experts["neural"].score_text(reading.body)[None]
    return scores


def _keep_records(
  features: CorpusFeatures, labels: Labels, weights: Float32[np.ndarray, " D"]
) -> RecordTable:
  """Returns what pairs read of the records, as of the corpus itself."""
  table = corpus_fitting.keep_records(features, labels, weights)
  best = BestOverlaps.from_features(
    features.parallel_pairs, len(features.corpus)
  )
  return dataclasses.replace(table, best_overlaps=best)


def _fill_row(
  chances: Float32[np.ndarray, "n _"],
) -> Float32[np.ndarray, "_ _"]:
  """Returns chances with a row where there is none, of even ones.

  No link leads to it, but indices of links that are none point there.
  """
  if len(chances):
    return chances
  width = chances.shape[1]
  return np.full((1, width), 1 / width, np.float32)
