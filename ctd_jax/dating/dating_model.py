"""Dates the records of a gallery from their texts: experts, weights, variants.

Why: no single clue tells when an undated record happened; cues, calendar,
names, citations and parallels together often do. Here their scores are added
with weights of greatest likelihood, learned on known records that were hidden
in blocks of years. What comes in is texts and the labels that may be known;
keys, kinds and order of other records have no way in. Called by `system`.

How a posterior is made: log p(month) = cues (opening, year number, days, no
placeholder) + weights . (words, encoder, citations, parallels) of the year +
messages along the links + room in the month, normalised and sharpened or
flattened by one temperature.

Time grows with the records and memory with what is kept of each: weights are
learned on a sample, and the scores of the experts are made for a block of
records at a time.

Axes: N records, n some of them, m those asked for, b a block of them, K months,
Y regnal years, f experts.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.optimize
import scipy.sparse
from scipy.special import logsumexp

from ctd_jax.dating import folds, regression
from ctd_jax.dating.corpus import NO_OPENING, UNKNOWN, Labels
from ctd_jax.dating.experts import (
  citations,
  date_features,
  month_capacity,
  parallel_texts,
  vocabulary,
)
from ctd_jax.dating.features import Evidence
from ctd_jax.dating.posterior import Part, Posterior

_WORDS_PENALTY = 0.005
_POOL_PENALTY = 0.002
_LEARNED_FOLDS = (0, 3, 6)  # on which weights are learned
_MESSAGES = 0.6  # weight of the beliefs of linked records; by validation
# Words, the encoder, citations and parallels, in the order of the pool.
_POOLED = 2 + citations.SCORES + parallel_texts.POOLED
_MOST_TAUGHT = 1000  # hidden events of a fold that weights are learned on
_MIXER = np.uint32(0x9E3779B1)  # odd, so that no two keys become one
_BLOCK = 512  # records whose months are held at once


@dataclasses.dataclass(frozen=True)
class Weights:
  """What is learned once for all records.

  Attributes:
    words: of the groups of strings, [vocabulary.Words.experts].
    pool: of words, encoder, citations and parallels, [f].
    sharpness: inverse temperature of the posterior.
  """

  words: np.ndarray
  pool: np.ndarray
  sharpness: float = 1.0


@dataclasses.dataclass(frozen=True)
class _Scores:
  """What the experts say of hidden events, block by block.

  Attributes:
    cues: tables of the evidence within a year.
    cue_years: log ratios of years by them, [n, Y].
    prior: chance of each year, [Y].
    words: weighted scores of the words, [n, Y].
    asked: places of the events whose scores are asked for, ascending, [m].
    read: scores of the encoder for those, [m, Y].
    cited: scores of citations, sparse, `citations.SCORES` of [n, Y].
    parallels: chances of one month, sparse [n, n]; None if switched off.
  """

  cues: date_features.Cues
  cue_years: np.ndarray
  prior: np.ndarray
  words: np.ndarray
  asked: np.ndarray
  read: np.ndarray
  cited: list[scipy.sparse.csr_array]
  parallels: scipy.sparse.csr_array | None

  def experts(self, block: slice) -> np.ndarray:
    """Returns the scores of a block of those asked for, [f, b, Y]."""
    places = self.asked[block]
    result = np.zeros((_POOLED, *self.read[block].shape), np.float32)
    result[0], result[1] = self.words[places], self.read[block]
    for expert, scores in enumerate(self.cited, start=2):
      result[expert] = scores[places].toarray()
    if self.parallels is not None:
      result[-parallel_texts.POOLED :] = parallel_texts.pooled(
        self.parallels, self.cited, self.words, self.cue_years, places
      )
    return result

  def pool(self, weights: np.ndarray) -> np.ndarray:
    """Returns the weighted sum of the experts, float32 [m, Y]."""
    result = np.zeros_like(self.read)
    for start in range(0, len(result), _BLOCK):
      block = slice(start, start + _BLOCK)
      scores = self.experts(block)
      result[block] = np.tensordot(weights.astype(np.float32), scores, 1)
    return result


def learn(evidence: Evidence, labels: Labels) -> Weights:
  """Returns weights of greatest likelihood on records hidden in blocks.

  Args:
    evidence: from `evidence.read`.
    labels: the known records, of train months only.
  """
  axis = evidence.gallery.axis
  fold = folds.of_records(axis, labels)
  hidden = {}
  for each in _LEARNED_FOLDS:
    rows = np.flatnonzero((fold == each) & evidence.told)
    places = _taught(evidence, rows)
    if len(places):
      hidden[each] = rows, places, labels.hide(fold == each)
  years = [
    axis.year_of[labels.month[rows[places]]]
    for rows, places, _ in hidden.values()
  ]
  blank = Weights(np.zeros(evidence.words.experts), np.zeros(_POOLED))
  if not hidden:  # no known event to learn from
    return blank
  words = blank.words
  if evidence.experts.words and evidence.words.groups:
    parts = []
    for rows, places, known in hidden.values():
      rows = rows[places]
      table = _cues(evidence, known)
      base = axis.to_years(table.log_ratio(rows)) + np.log(
        _prior(evidence, known)
      )
      parts.append((_words(evidence, known, rows, None), base))
    words = regression.pool_weights(
      np.concatenate([part for part, _ in parts], axis=1),
      np.concatenate([base for _, base in parts]),
      np.concatenate(years),
      _WORDS_PENALTY,
    )
  weights = dataclasses.replace(blank, words=words)
  parts = []
  for rows, places, known in hidden.values():
    scores = _score(evidence, known, rows, weights.words, places)
    base = scores.cue_years[places] + np.log(scores.prior)
    parts.append((scores.experts(slice(None)), base))
  pool = regression.pool_weights(
    np.concatenate([part for part, _ in parts], axis=1),
    np.concatenate([base for _, base in parts]),
    np.concatenate(years),
    _POOL_PENALTY,
  )
  weights = dataclasses.replace(weights, pool=pool)
  rows, places, known = next(iter(hidden.values()))
  wanted = np.zeros(len(fold), bool)
  wanted[rows[places]] = True
  part = _part(evidence, known, weights, wanted)
  posterior = Posterior(axis, evidence.gallery.states, (part,))
  return calibrate(weights, posterior, part.rows, labels.month[part.rows])


def _taught(evidence: Evidence, rows: np.ndarray) -> np.ndarray:
  """Returns places of about `_MOST_TAUGHT` of `rows`, chosen by their texts.

  Not as `Gallery.sample` chooses: most of the records that are dated later are
  outside that sample, and so should be those that teach.
  """
  if len(rows) <= _MOST_TAUGHT:
    return np.arange(len(rows))
  mixed = evidence.gallery.keys[rows] * _MIXER
  return np.flatnonzero(
    mixed <= np.partition(mixed, _MOST_TAUGHT)[_MOST_TAUGHT]
  )


def calibrate(
  weights: Weights, posterior: Posterior, rows: np.ndarray, months: np.ndarray
) -> Weights:
  """Returns the weights with the temperature of greatest likelihood.

  Args:
    weights: those that made `posterior`.
    posterior: at the temperature of `weights`.
    rows: records that were dated as hidden ones, [n].
    months: their true ordinal months, [n].
  """
  log_p = posterior.log_p(rows)

  def loss(log_sharpness):
    scores = np.exp(log_sharpness) * log_p
    total = logsumexp(scores, axis=1)
    return float((total - scores[np.arange(len(rows)), months]).mean())

  best = scipy.optimize.minimize_scalar(loss, bounds=(-2, 1), method="bounded")
  return dataclasses.replace(
    weights, sharpness=weights.sharpness * float(np.exp(best.x))
  )


def fitted(evidence: Evidence, labels: Labels, weights: Weights) -> Posterior:
  """Returns the posterior of all records, the known ones known.

  Args:
    evidence: from `evidence.read`.
    labels: the known records.
    weights: from `learn`.
  """
  month = np.where(labels.known, labels.month, evidence.gallery.states)
  part = _part(evidence, labels, weights, ~labels.known)
  return Posterior(evidence.gallery.axis, month, (part,))


def strict(evidence: Evidence, labels: Labels, weights: Weights) -> Posterior:
  """Returns the posterior of all records, none dated by its own label.

  Known records are hidden in blocks of years, with the unknown ones, and dated
  by the rest; the unknown ones are dated by all known ones.

  Args:
    evidence: from `evidence.read`.
    labels: the known records.
    weights: from `learn`.
  """
  fold = folds.of_records(evidence.gallery.axis, labels)
  parts = [_part(evidence, labels, weights, ~labels.known)]
  for each in range(folds.FOLDS):
    rows = fold == each
    if rows.any():
      parts.append(_part(evidence, labels.hide(rows), weights, rows))
  return Posterior(evidence.gallery.axis, evidence.gallery.states, tuple(parts))


def eliminated(posterior: Posterior, labels: Labels) -> Posterior:
  """Returns a `fitted` posterior that also knows who is not known.

  Months that have a known record have known records only.

  Args:
    posterior: from `fitted`.
    labels: the known records.
  """
  allowed = np.ones(len(posterior.axis), bool)
  allowed[labels.month[labels.known]] = False
  parts = tuple(
    dataclasses.replace(part, allowed=allowed) for part in posterior.parts
  )
  return dataclasses.replace(posterior, parts=parts)


def _part(
  evidence: Evidence, known: Labels, weights: Weights, wanted: np.ndarray
) -> Part:
  """Returns the posteriors of hidden records, those `wanted` (bool [N])."""
  axis = evidence.gallery.axis
  hidden = ~known.known & ~evidence.placeholders
  rows = np.flatnonzero(hidden & evidence.told)
  comments = np.flatnonzero(hidden & ~evidence.told)
  scores = _score(evidence, known, rows, weights.words, np.arange(len(rows)))
  both = np.concatenate([rows, comments])
  years = np.concatenate(
    [
      scores.pool(weights.pool),
      _words(evidence, known, comments, weights.words),
    ]
  )
  years += np.log(scores.prior)
  seasons = np.zeros((len(both), 12), np.float32)
  if evidence.experts.parallels:
    graph = _links(evidence, known, both)
    beliefs = years.copy()
    beliefs[: len(rows)] += scores.cue_years
    years += parallel_texts.propagate(graph, beliefs, scores.prior, _MESSAGES)
    years -= beliefs
    seasons = parallel_texts.seasons(graph, scores.cues.seasons(both))
  order = np.argsort(both)
  both, years = both[order], years[order].astype(np.float32)
  seasons = seasons[order].astype(np.float32)
  opens = evidence.told[both] & (evidence.gallery.opening[both] != NO_OPENING)
  part = Part(
    both,
    scores.cues,
    years,
    seasons,
    np.zeros(len(axis), np.float32),
    opens,
    weights.sharpness,
    np.ones(len(axis), bool),
  )
  if evidence.experts.room:
    part = dataclasses.replace(part, months=_room(evidence, known, part))
  kept = wanted[both]
  return dataclasses.replace(
    part,
    rows=both[kept],
    years=years[kept],
    seasons=seasons[kept],
    opens=opens[kept],
  )


def _room(evidence: Evidence, known: Labels, part: Part) -> np.ndarray:
  """Returns the log factors of months for records that open one, [K]."""
  gallery = evidence.gallery
  told = known.known & evidence.told
  opened = told & (gallery.opening != NO_OPENING)
  months = len(gallery.axis)
  empty = np.zeros(months, bool)
  empty[gallery.states[gallery.states != UNKNOWN]] = True
  space, must_fill = month_capacity.room(
    np.bincount(known.month[opened], minlength=months),
    np.bincount(known.month[told], minlength=months),
    empty,
  )
  openers = np.flatnonzero(part.opens)

  def blocks():
    for start in range(0, len(openers), _BLOCK):
      yield part.scores(openers[start : start + _BLOCK])

  return month_capacity.log_factors(blocks, space, must_fill)


def _score(
  evidence: Evidence,
  known: Labels,
  rows: np.ndarray,
  words: np.ndarray,
  asked: np.ndarray,
) -> _Scores:
  """Returns the scores of events whose months are hidden.

  Args:
    evidence: from `evidence.read`.
    known: the known records.
    rows: events that may tell of one another, ascending, [n].
    words: weights of the groups of strings.
    asked: places in `rows` of those whose scores are asked for, [m].
  """
  axis, experts = evidence.gallery.axis, evidence.experts
  table, prior = _cues(evidence, known), _prior(evidence, known)
  cue_years = np.concatenate(
    [
      axis.to_years(table.log_ratio(rows[start : start + _BLOCK]))
      for start in range(0, len(rows), _BLOCK)
    ]
    or [np.zeros((0, axis.years), np.float32)]
  )
  places = np.full(len(evidence.gallery), UNKNOWN)
  places[rows] = np.arange(len(rows))
  blank = scipy.sparse.csr_array((len(rows), axis.years), dtype=np.float32)
  cited, parallels = [blank] * citations.SCORES, None
  if experts.cited:
    cited = _cited(evidence, known, prior, places[evidence.events], words)
  if experts.parallels:
    parallels = parallel_texts.shares(
      parallel_texts.graph(axis, evidence.parallels, known, places, len(rows))
    )
  return _Scores(
    table,
    cue_years,
    prior,
    _words(evidence, known, rows, words),
    asked,
    _neural(evidence, known, rows[asked]),
    cited,
    parallels,
  )


def _links(
  evidence: Evidence, known: Labels, rows: np.ndarray
) -> parallel_texts.Graph:
  """Returns the links among `rows` [n]: events, and events and comments."""
  axis, size = evidence.gallery.axis, len(rows)
  places = np.full(len(evidence.gallery), UNKNOWN)
  places[rows] = np.arange(size)
  parallels = parallel_texts.graph(
    axis, evidence.parallels, known, places, size
  )
  explained = parallel_texts.graph(axis, evidence.comments, known, places, size)
  return parallel_texts.join(
    parallels, parallel_texts.join(explained, parallel_texts.reverse(explained))
  )


def _cited(evidence, known, prior, asked, words):
  """Returns the scores of the citations beside the events asked about."""
  axis, found = evidence.gallery.axis, evidence.cited
  pairs = np.flatnonzero(asked[found.event] != UNKNOWN)
  chance = citations.fit(axis, found, known, evidence.events, pairs)
  if not evidence.experts.carried:
    named = found.reading[pairs] == citations.NAMED
    chance = np.where(named, chance, 0)
  hosts = np.unique([cited.host for cited in found.citations]).astype(int)
  hosts = hosts[hosts != UNKNOWN]
  hosts = hosts[~known.known[hosts] & ~evidence.told[hosts]]
  logs = _words(evidence, known, hosts, words) + np.log(prior)
  belief = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
  rulers = np.eye(axis.reign.max() + 1)[axis.reign]
  return citations.scores(
    axis, found, pairs, chance, known, prior, hosts, belief @ rulers, asked
  )


def _cues(evidence: Evidence, known: Labels) -> date_features.Cues:
  experts = evidence.experts
  return date_features.fit(
    evidence.gallery,
    known,
    evidence.told,
    experts.openings,
    experts.days,
    experts.empty,
    experts.seasons,
  )


def _prior(evidence: Evidence, known: Labels) -> np.ndarray:
  """Returns the chance of each year, smoothed over held-out ones, [Y]."""
  axis = evidence.gallery.axis
  rows = known.known & ~evidence.placeholders
  counts = np.bincount(
    axis.year_of[known.month[rows]], minlength=axis.years
  ).astype(np.float32)
  density = (counts + 0.1) @ vocabulary.kernels(axis.years)[1]
  return density / density.sum()


def _neural(evidence, known, rows) -> np.ndarray:
  """Returns what the encoder says of the years, [n, Y]; zeros if off."""
  axis = evidence.gallery.axis
  if not evidence.experts.neural:
    return np.zeros((len(rows), axis.years), np.float32)
  return evidence.neural.log_years(axis, known, evidence.told, rows)


def _words(evidence, known, rows, weights) -> np.ndarray:
  axis = evidence.gallery.axis
  if weights is not None and not evidence.experts.words:
    return np.zeros((len(rows), axis.years), np.float32)
  return evidence.words.evidence(
    axis, known, ~evidence.placeholders, rows, weights
  )
