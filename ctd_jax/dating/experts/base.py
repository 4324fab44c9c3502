"""Features of the corpus that experts read, and the protocols they follow.

Axes: N records, n rows, K months, Y regnal years, E events, C comments.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse
from absl import logging
from jaxtyping import Bool, Float, Float32, Int

from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating import regression
from ctd_jax.dating.corpus import NO_OPENING, UNKNOWN, Corpus, Labels
from ctd_jax.dating.experts import pairs, wording


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
  """The evidence an expert found in one record, in words for people."""

  # (start, end) of the characters of the record's text that count.
  spans: tuple[tuple[int, int], ...] = ()
  # Other records that count, the weightiest first.
  linked_rows: tuple[int, ...] = ()
  note: str = ""  # the evidence in words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reason:
  """Terms that one expert adds to the log score of every month of a record."""

  expert: str  # name of the expert, or "prior"
  # Added to the unnormalised log score of each month.
  log_scores: Float[np.ndarray, " K"] = dataclasses.field(repr=False)
  # `log_scores` at the explained month less their mean over all months;
  # positive evidence speaks for the month.
  weight: float
  evidence: Evidence = Evidence()  # what the expert read

  @property
  def favoured_months(self) -> Int[np.ndarray, " m"]:
    """Ordinal months of the highest score, ascending."""
    return np.flatnonzero(self.log_scores >= self.log_scores.max() - 1e-6)


@runtime_checkable
class FittedExpert(Protocol):
  """An expert that knows the labels it may use."""

  @property
  def name(self) -> str:
    """Name of the expert."""

  def explain(self, row: int, year: int) -> Evidence:
    """Returns the evidence in one record for the year with this index."""


@runtime_checkable
class MonthExpert(FittedExpert, Protocol):
  """An expert that scores months."""

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns the log scores of the months, up to a constant for each row."""


@runtime_checkable
class DateExpert(MonthExpert, Protocol):
  """The expert of printed dates."""

  corpus: Any

  def month_of_year_chances(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float[np.ndarray, "n 12"]:
    """Returns the chance of each month of the year by the printed date."""

  def split_log_scores(self, row: int) -> dict[str, np.ndarray]:
    """Returns the terms that `log_scores` of a record adds up, name -> [K]."""


@runtime_checkable
class Expert(Protocol):
  """A source of evidence, with its options."""

  @property
  def name(self) -> str:
    """Name of the expert."""

  def fit(
    self, features: Any, labels: Any, peers: Mapping[str, FittedExpert]
  ) -> FittedExpert:
    """Returns the expert fitted on labelled records.

    Args:
      peers: experts fitted on the same labels before this one, by name.
    """


# Features of a corpus: all that the experts read from the texts, read once.
#
# Labels decide here only which records are events, not when these were, so
# one reading serves every set of hidden labels.

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
  citation_pairs: pairs.CitationPairs  # citations paired with events
  parallel_pairs: pairs.ParallelPairs  # events paired with events
  comment_pairs: pairs.ParallelPairs  # commentary paired with events

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
    labels: labels, of which only the kinds of records are read.
    use_punctuation: whether the style of events includes punctuation.
  """
  logging.info("dating: reading %s records", f"{len(corpus):,}")
  event_log_p = predict_event_log_p(corpus, labels, use_punctuation)
  is_event = (event_log_p > _LOG_HALF) & ~corpus.is_placeholder
  bodies = choose_wording(corpus, is_event)
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
      # In commentary, then in texts outside the corpus.
      pairs.read_citations(
        corpus.axis,
        {int(row): corpus.plain_texts[row] for row in comment_records},
      )
      + pairs.read_citations(
        corpus.axis, list(map(corpus_lib.plain_text, corpus.external_texts))
      ),
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


def choose_wording(
  corpus: Corpus, is_event: Bool[np.ndarray, " N"]
) -> list[str]:
  """Returns the compared text of each record, "" for a placeholder."""
  # The date of an event's opening is left to the date features; in commentary
  # it is a citation, so it stays.
  return [
    "" if is_placeholder else body if is_event_text else plain
    for is_placeholder, is_event_text, body, plain in zip(
      corpus.is_placeholder,
      is_event,
      corpus.bodies,
      corpus.plain_texts,
      strict=True,
    )
  ]


# Event classifier: whether a text can be an answer, by its style.
#
# Commentary has the right month and yet never answers a query. The kind of
# a hidden record is not given, its style is: a linear classifier of character
# strings is fitted on the records whose kind is known. Commentary prints of
# the benchmark have no punctuation and the events have it, so punctuation
# alone nearly decides; `punctuation=False` leaves it out, for a figure
# without that accident.

_STYLE_LENGTHS = (1, 2, 3)  # of the strings, in characters
_MIN_STYLE_TEXTS = 3  # that hold a string for it to count
_STYLE_PENALTY = 0.03  # of the squared weights, for the whole sample
_NUM_STYLE_FOLDS = 5  # so that no known record is scored by a model of itself
_MAX_STYLE_RECORDS = 50_000  # records that the classifier is fitted on
_STYLE_BLOCK = 32_768  # records scored at once


def predict_event_log_p(
  corpus: Corpus, labels: Labels, punctuation: bool = True
) -> Float32[np.ndarray, " N"]:
  """Returns log p(answering kind | text)."""
  # A record of known kind is scored by a model fitted without it: the known
  # records are split into five folds by a hash of their text.
  texts = corpus.texts if punctuation else corpus.plain_texts
  sample = corpus.sample_rows(_MAX_STYLE_RECORDS)
  strings, features = wording.count_ngrams(
    [texts[row] for row in sample], _STYLE_LENGTHS, _MIN_STYLE_TEXTS
  )
  features = _scale_rows(features)
  event_labels = labels.event_labels[sample]
  fold_of_record = np.array(
    [sum(map(ord, text)) % _NUM_STYLE_FOLDS for text in corpus.plain_texts]
  )
  models = [
    _fit_classifier(features, event_labels, fold_of_record[sample] != fold)
    for fold in range(_NUM_STYLE_FOLDS)
  ]
  models.append(
    _fit_classifier(features, event_labels, np.ones(len(sample), bool))
  )
  # Records of unknown kind are scored by the last, fitted on all the others.
  model_of_record = np.where(
    labels.event_labels == UNKNOWN, _NUM_STYLE_FOLDS, fold_of_record
  )
  result = np.zeros(len(corpus), np.float32)
  for start in range(0, len(corpus), _STYLE_BLOCK):
    block = slice(start, start + _STYLE_BLOCK)
    features = _scale_rows(strings.encode(texts[block]))
    for model_index, model in enumerate(models):
      rows = np.flatnonzero(model_of_record[block] == model_index)
      if model and len(rows):
        result[start + rows] = model.predict_log_probability(features[rows])
  return result


def _scale_rows(features: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
  """Returns the rows at unit length; those of zeros and ones, as these are."""
  lengths = np.sqrt(np.maximum(features.sum(axis=1), 1))
  return features.multiply((1 / lengths)[:, None]).tocsr()


def _fit_classifier(
  features: scipy.sparse.csr_array, event_labels: np.ndarray, rows: np.ndarray
) -> regression.LogisticRegression | None:
  """Returns a classifier of the rows of known kind, None without both kinds."""
  rows = np.flatnonzero(rows & (event_labels != UNKNOWN))
  is_event = event_labels[rows] == 1
  if not len(is_event) or is_event.all() or not is_event.any():
    return None
  return regression.LogisticRegression.fit(
    features[rows], is_event, _STYLE_PENALTY
  )
