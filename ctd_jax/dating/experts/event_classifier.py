"""Event classifier: whether a text can be an answer, by its style.

Commentary is of the right month and yet never answers a query. The kind of a
hidden record is not given, its style is: a linear classifier of character
strings is fitted on the records whose kind is known. Commentary prints of the
benchmark have no punctuation and the events have it, so punctuation alone
nearly decides; `punctuation=False` leaves it out, for a figure without that
accident.

Axes: N records.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from jaxtyping import Float32

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels
from ctd_jax.dating.experts import ngrams

_LENGTHS = (1, 2, 3)  # of the strings, in characters
_MIN_TEXTS = 3  # that hold a string for it to count
_PENALTY = 0.03  # of the squared weights, for the whole sample
_NUM_FOLDS = 5  # so that no known record is scored by a model of itself
_MAX_TRAINING_RECORDS = 50_000  # records that the classifier is fitted on
_BLOCK = 32_768  # records scored at once


def predict_event_log_p(
  corpus: Corpus, labels: Labels, punctuation: bool = True
) -> Float32[np.ndarray, " N"]:
  """Returns log p(answering kind | text).

  A record whose kind is known is scored by a classifier that was fitted
  without it: the known records are split in five folds by a hash of their text.

  Args:
    corpus: the texts.
    labels: kinds of some records.
    punctuation: whether punctuation counts.
  """
  texts = corpus.texts if punctuation else corpus.plain_texts
  sample = corpus.sample_rows(_MAX_TRAINING_RECORDS)
  strings, features = ngrams.count_ngrams(
    [texts[row] for row in sample], _LENGTHS, _MIN_TEXTS
  )
  features = _scale_rows(features)
  event_labels = labels.event_labels[sample]
  fold_of_record = np.array(
    [sum(map(ord, text)) % _NUM_FOLDS for text in corpus.plain_texts]
  )
  models = [
    _fit_classifier(features, event_labels, fold_of_record[sample] != fold)
    for fold in range(_NUM_FOLDS)
  ]
  models.append(
    _fit_classifier(features, event_labels, np.ones(len(sample), bool))
  )
  # Records of unknown kind are scored by the last, fitted on all the others.
  model_of_record = np.where(
    labels.event_labels == UNKNOWN, _NUM_FOLDS, fold_of_record
  )
  result = np.zeros(len(corpus), np.float32)
  for start in range(0, len(corpus), _BLOCK):
    block = slice(start, start + _BLOCK)
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
  return regression.LogisticRegression.fit(features[rows], is_event, _PENALTY)
