"""Features of a corpus: all that the experts read from the texts, read once.

Labels decide here only which records are events, not when these were, so one
reading serves every set of hidden labels.

Axes: N records, E events among them, n rows.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from absl import logging
from jaxtyping import Bool, Float, Int

from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating.corpus import NO_OPENING, Corpus, Labels
from ctd_jax.dating.experts import pairs, wording

_LOG_HALF = np.log(0.5)
# Bounds of the samples from which the years of words, and the characters there
# are, are read; the rest of a larger corpus teaches little that is new.
_MAX_VOCABULARY_RECORDS = 200_000
_MAX_ALPHABET_RECORDS = 50_000


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CorpusFeatures:
  """Everything read from the texts before dates are learned."""

  corpus: Corpus  # the texts
  event_log_p: Float[np.ndarray, " N"]  # log p(answering kind | text)
  is_event: Bool[np.ndarray, " N"]  # records that are events, by their style
  year_vocabulary: wording.YearVocabulary  # strings of all records
  citation_pairs: pairs.CitationPairs  # citations beside events
  parallel_pairs: pairs.ParallelPairs  # events beside events
  comment_pairs: pairs.ParallelPairs  # commentary beside events

  @property
  def axis(self) -> corpus_lib.MonthAxis:
    """The months."""
    return self.corpus.axis

  @functools.cached_property
  def event_records(self) -> Int[np.ndarray, " E"]:
    """Rows of the events, ascending."""
    return np.flatnonzero(self.is_event)

  @functools.cached_property
  def comment_records(self) -> Int[np.ndarray, " C"]:
    """Rows of the comments, ascending."""
    return np.flatnonzero(~self.is_event & ~self.corpus.is_placeholder)

  @property
  def opens_month(self) -> Bool[np.ndarray, " N"]:
    """Whether a record is an event that opens with a month or season."""
    return self.is_event & (self.corpus.opening != NO_OPENING)

  @property
  def event_bodies(self) -> list[str]:
    """Texts of the events without their opening date, "" for other records."""
    return [
      body if is_event else ""
      for body, is_event in zip(self.corpus.bodies, self.is_event, strict=True)
    ]

  @property
  def alphabet_texts(self) -> list[str]:
    """Texts of a sample, whose characters are those that there are."""
    rows = self.corpus.sample_rows(_MAX_ALPHABET_RECORDS)
    return [self.corpus.plain_texts[row] for row in rows]


def read_corpus_features(
  corpus: Corpus, labels: Labels, use_punctuation: bool = True
) -> CorpusFeatures:
  """Returns the evidence in the texts of a corpus.

  Args:
    corpus: the texts.
    labels: kinds of known records, from which the style of events is learned.
    use_punctuation: whether that style includes punctuation.
  """
  logging.info("dating: reading %s records", f"{len(corpus):,}")
  event_log_p = wording.predict_event_log_p(corpus, labels, use_punctuation)
  is_event = (event_log_p > _LOG_HALF) & ~corpus.is_placeholder
  # The date of an event's opening is left to the date features; in commentary
  # it is a citation, so it stays.
  bodies = [
    "" if is_placeholder else body if is_event_text else plain
    for is_placeholder, is_event_text, body, plain in zip(
      corpus.is_placeholder,
      is_event,
      corpus.bodies,
      corpus.plain_texts,
      strict=True,
    )
  ]
  event_records = np.flatnonzero(is_event)
  comment_records = np.flatnonzero(~is_event & ~corpus.is_placeholder)
  string_index = wording.build_string_index(
    [bodies[row] for row in event_records]
  )

  def make_pairs(rows: np.ndarray) -> pairs.ParallelPairs:
    return pairs.make_parallel_pairs(
      corpus, event_records, string_index, rows, [bodies[row] for row in rows]
    )

  features = CorpusFeatures(
    corpus=corpus,
    event_log_p=event_log_p,
    is_event=is_event,
    year_vocabulary=wording.build_year_vocabulary(
      bodies, corpus.sample_rows(_MAX_VOCABULARY_RECORDS)
    ),
    citation_pairs=pairs.make_citation_pairs(
      corpus,
      event_records,
      string_index,
      _read_all_citations(corpus, comment_records),
    ),
    parallel_pairs=make_pairs(event_records),
    comment_pairs=make_pairs(comment_records),
  )
  logging.info(
    "dating: read %s events, %s comments, %s placeholders; %s pairs of them",
    f"{len(event_records):,}",
    f"{len(comment_records):,}",
    f"{int(corpus.is_placeholder.sum()):,}",
    f"{len(features.parallel_pairs) + len(features.comment_pairs):,}",
  )
  return features


def _read_all_citations(
  corpus: Corpus, comment_records: np.ndarray
) -> list[pairs.Citation]:
  """Returns the citations in commentary and in texts outside the corpus."""
  inside = pairs.read_citations(
    corpus.axis, {int(row): corpus.plain_texts[row] for row in comment_records}
  )
  outside = pairs.read_citations(
    corpus.axis, list(map(corpus_lib.plain_text, corpus.external_texts))
  )
  return inside + outside
