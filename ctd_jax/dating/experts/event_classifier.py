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
import scipy.sparse

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Gallery, Labels
from ctd_jax.dating.experts import ngrams

_LENGTHS = (1, 2, 3)
_AT_LEAST = 3
_PENALTY = 0.03
_PARTS = 5
_MOST = 50_000  # records that the classifier is fitted on
_BLOCK = 32_768  # records scored at once


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
  sample = gallery.sample(_MOST)
  strings, features = ngrams.count(
    [texts[row] for row in sample], _LENGTHS, _AT_LEAST
  )
  features = _scaled(features)
  answers = labels.answers[sample]
  parts = np.array([sum(map(ord, text)) % _PARTS for text in gallery.plain])
  models = [
    _fit(features, answers, parts[sample] != part) for part in range(_PARTS)
  ]
  models.append(_fit(features, answers, np.ones(len(sample), bool)))
  # Records of unknown kind are scored by the last, fitted on all the others.
  chosen = np.where(labels.answers == UNKNOWN, _PARTS, parts)
  result = np.zeros(len(gallery), np.float32)
  for start in range(0, len(gallery), _BLOCK):
    block = slice(start, start + _BLOCK)
    features = _scaled(strings.encode(texts[block]))
    for number, model in enumerate(models):
      rows = np.flatnonzero(chosen[block] == number)
      if model and len(rows):
        result[start + rows] = model.log_probability(features[rows])
  return result


def _scaled(features: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
  lengths = np.sqrt(np.maximum(features.sum(axis=1), 1))
  return features.multiply((1 / lengths)[:, None]).tocsr()


def _fit(features, answers, rows) -> regression.Logistic | None:
  """Returns a classifier of the rows of known kind, None without both kinds."""
  rows = np.flatnonzero(rows & (answers != UNKNOWN))
  kinds = answers[rows] == 1
  if not len(kinds) or kinds.all() or not kinds.any():
    return None
  return regression.Logistic.fit(features[rows], kinds, _PENALTY)
