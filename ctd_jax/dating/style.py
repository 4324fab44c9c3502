"""Can this text be an answer? Annals and traditions against later exegesis.

Why: commentary is of the right month and yet never answers a query. The kind of
a test record is not given, its style is: a linear classifier of character
strings is fitted on the records whose kind is known. Commentary prints of this
benchmark have no punctuation and the events have it, so punctuation alone
nearly decides; `punctuation=False` leaves it out, for an honest second figure.
Called by `dater`.

Axes: N records.
"""

from __future__ import annotations

import numpy as np

from ctd_jax.dating import ngrams, regression
from ctd_jax.dating.gallery import UNKNOWN, Gallery, Labels

_LENGTHS = (1, 2, 3)
_AT_LEAST = 3
_PENALTY = 0.03
_PARTS = 5


def log_answering(
  gallery: Gallery, labels: Labels, punctuation: bool = True
) -> np.ndarray:
  """Returns log p(answering kind | text), float32 [N].

  A record whose kind is known is scored by a classifier that was fitted
  without it: the known records are parted in five by a hash of their text.

  Args:
    gallery: the texts.
    labels: kinds of some records.
    punctuation: whether punctuation counts.
  """
  texts = gallery.texts if punctuation else gallery.plain
  _, features = ngrams.count(texts, _LENGTHS, _AT_LEAST)
  lengths = np.sqrt(np.maximum(features.sum(axis=1), 1))
  features = features.multiply((1 / lengths)[:, None]).tocsr()
  known = labels.answers != UNKNOWN
  parts = np.array([sum(map(ord, text)) % _PARTS for text in gallery.plain])
  result = np.zeros(len(gallery), np.float32)
  for part in range(_PARTS):
    _score(result, features, labels, known & (parts != part), parts == part)
  _score(result, features, labels, known, ~known)
  return result


def _score(result, features, labels, fitted: np.ndarray, rows: np.ndarray):
  if not rows.any():
    return
  answers = labels.answers[fitted] == 1
  if not len(answers) or answers.all() or not answers.any():
    return
  model = regression.Logistic.fit(features[fitted], answers, _PENALTY)
  result[rows] = model.log_probability(features[rows])
