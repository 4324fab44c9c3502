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
from ctd_jax.dating.features import GalleryFeatures
from ctd_jax.dating.posterior import Posterior, PosteriorBlock

_WORDS_PENALTY = 0.005
_POOL_PENALTY = 0.002
_WEIGHT_FOLDS = (0, 3, 6)  # on which weights are learned
_MESSAGE_WEIGHT = 0.6  # weight of the beliefs of linked records; by validation
# Words, the encoder, citations and parallels, in the order of the pool.
_NUM_POOLED_EXPERTS = 2 + citations.NUM_SCORES + parallel_texts.NUM_POOLED
_MAX_TRAINING_EVENTS = (
  1000  # hidden events of a fold that weights are learned on
)
_HASH_MULTIPLIER = np.uint32(0x9E3779B1)  # odd, so that no two keys become one
_BLOCK = 512  # records whose months are held at once


@dataclasses.dataclass(frozen=True)
class ExpertWeights:
  """What is learned once for all records.

  Attributes:
    word_weights: of the groups of strings, [vocabulary.Words.experts].
    pool_weights: of words, encoder, citations and parallels, [f].
    inverse_temperature: inverse temperature of the posterior.
  """

  word_weights: np.ndarray
  pool_weights: np.ndarray
  inverse_temperature: float = 1.0


@dataclasses.dataclass(frozen=True)
class _ExpertScores:
  """What the experts say of hidden events, block by block.

  Attributes:
    date_features: tables of the evidence within a year.
    date_log_ratios: log ratios of years by them, [n, Y].
    year_prior: chance of each year, [Y].
    word_scores: weighted scores of the words, [n, Y].
    target_rows: places of the events whose scores are asked for, ascending, [m].
    encoder_scores: scores of the encoder for those, [m, Y].
    citation_scores: scores of citations, sparse, `citations.NUM_SCORES` of [n, Y].
    parallel_chances: chances of one month, sparse [n, n]; None if switched off.
  """

  date_features: date_features.DateFeatures
  date_log_ratios: np.ndarray
  year_prior: np.ndarray
  word_scores: np.ndarray
  target_rows: np.ndarray
  encoder_scores: np.ndarray
  citation_scores: list[scipy.sparse.csr_array]
  parallel_chances: scipy.sparse.csr_array | None

  def expert_scores(self, block: slice) -> np.ndarray:
    """Returns the scores of a block of those asked for, [f, b, Y]."""
    rows = self.target_rows[block]
    result = np.zeros(
      (_NUM_POOLED_EXPERTS, *self.encoder_scores[block].shape), np.float32
    )
    result[0], result[1] = self.word_scores[rows], self.encoder_scores[block]
    for expert, scores in enumerate(self.citation_scores, start=2):
      result[expert] = scores[rows].toarray()
    if self.parallel_chances is not None:
      result[-parallel_texts.NUM_POOLED :] = parallel_texts.pool_parallels(
        self.parallel_chances,
        self.citation_scores,
        self.word_scores,
        self.date_log_ratios,
        rows,
      )
    return result

  def pool_experts(self, weights: np.ndarray) -> np.ndarray:
    """Returns the weighted sum of the experts, float32 [m, Y]."""
    result = np.zeros_like(self.encoder_scores)
    for start in range(0, len(result), _BLOCK):
      block = slice(start, start + _BLOCK)
      scores = self.expert_scores(block)
      result[block] = np.tensordot(weights.astype(np.float32), scores, 1)
    return result


def fit_expert_weights(
  features: GalleryFeatures, labels: Labels
) -> ExpertWeights:
  """Returns weights of greatest likelihood on records hidden in blocks.

  Args:
    features: from `features.read_gallery_features`.
    labels: the known records, of train months only.
  """
  axis = features.gallery.axis
  fold = folds.assign_folds(axis, labels)
  hidden_folds = {}
  for fold_id in _WEIGHT_FOLDS:
    rows = np.flatnonzero((fold == fold_id) & features.is_event)
    sample = _sample_training_rows(features, rows)
    if len(sample):
      hidden_folds[fold_id] = rows, sample, labels.hide_records(fold == fold_id)
  years = [
    axis.year_of[labels.month[rows[sample]]]
    for rows, sample, _ in hidden_folds.values()
  ]
  zero_weights = ExpertWeights(
    np.zeros(features.year_vocabulary.num_experts),
    np.zeros(_NUM_POOLED_EXPERTS),
  )
  if not hidden_folds:  # no known event to learn from
    return zero_weights
  word_weights = zero_weights.word_weights
  if features.experts.words and features.year_vocabulary.groups:
    blocks = []
    for rows, sample, visible_labels in hidden_folds.values():
      rows = rows[sample]
      date_tables = _fit_date_features(features, visible_labels)
      base = axis.to_years(date_tables.log_ratio(rows)) + np.log(
        _year_prior(features, visible_labels)
      )
      blocks.append((_score_words(features, visible_labels, rows, None), base))
    word_weights = regression.fit_pool_weights(
      np.concatenate([block for block, _ in blocks], axis=1),
      np.concatenate([base for _, base in blocks]),
      np.concatenate(years),
      _WORDS_PENALTY,
    )
  weights = dataclasses.replace(zero_weights, word_weights=word_weights)
  blocks = []
  for rows, sample, visible_labels in hidden_folds.values():
    scores = _score_events(
      features, visible_labels, rows, weights.word_weights, sample
    )
    base = scores.date_log_ratios[sample] + np.log(scores.year_prior)
    blocks.append((scores.expert_scores(slice(None)), base))
  pool_weights = regression.fit_pool_weights(
    np.concatenate([block for block, _ in blocks], axis=1),
    np.concatenate([base for _, base in blocks]),
    np.concatenate(years),
    _POOL_PENALTY,
  )
  weights = dataclasses.replace(weights, pool_weights=pool_weights)
  rows, sample, visible_labels = next(iter(hidden_folds.values()))
  is_target = np.zeros(len(fold), bool)
  is_target[rows[sample]] = True
  block = _make_posterior_block(features, visible_labels, weights, is_target)
  posterior = Posterior(axis, features.gallery.placeholder_month, (block,))
  return calibrate_temperature(
    weights, posterior, block.rows, labels.month[block.rows]
  )


def _sample_training_rows(
  features: GalleryFeatures, rows: np.ndarray
) -> np.ndarray:
  """Returns places of about `_MOST_TAUGHT` of `rows`, chosen by their texts.

  Not as `Gallery.sample` chooses: most of the records that are dated later are
  outside that sample, and so should be those that teach.
  """
  if len(rows) <= _MAX_TRAINING_EVENTS:
    return np.arange(len(rows))
  hashes = features.gallery.text_hashes[rows] * _HASH_MULTIPLIER
  return np.flatnonzero(
    hashes <= np.partition(hashes, _MAX_TRAINING_EVENTS)[_MAX_TRAINING_EVENTS]
  )


def calibrate_temperature(
  weights: ExpertWeights,
  posterior: Posterior,
  rows: np.ndarray,
  months: np.ndarray,
) -> ExpertWeights:
  """Returns the weights with the temperature of greatest likelihood.

  Args:
    weights: those that made `posterior`.
    posterior: at the temperature of `weights`.
    rows: records that were dated as hidden ones, [n].
    months: their true ordinal months, [n].
  """
  log_p = posterior.log_p(rows)

  def loss(log_inverse_temperature):
    scores = np.exp(log_inverse_temperature) * log_p
    total = logsumexp(scores, axis=1)
    return float((total - scores[np.arange(len(rows)), months]).mean())

  optimum = scipy.optimize.minimize_scalar(
    loss, bounds=(-2, 1), method="bounded"
  )
  return dataclasses.replace(
    weights,
    inverse_temperature=weights.inverse_temperature * float(np.exp(optimum.x)),
  )


def make_fitted_posterior(
  features: GalleryFeatures, labels: Labels, weights: ExpertWeights
) -> Posterior:
  """Returns the posterior of all records, the known ones known.

  Args:
    features: from `features.read_gallery_features`.
    labels: the known records.
    weights: from `learn`.
  """
  certain_months = np.where(
    labels.is_known, labels.month, features.gallery.placeholder_month
  )
  block = _make_posterior_block(features, labels, weights, ~labels.is_known)
  return Posterior(features.gallery.axis, certain_months, (block,))


def make_strict_posterior(
  features: GalleryFeatures, labels: Labels, weights: ExpertWeights
) -> Posterior:
  """Returns the posterior of all records, none dated by its own label.

  Known records are hidden in blocks of years, with the unknown ones, and dated
  by the rest; the unknown ones are dated by all known ones.

  Args:
    features: from `features.read_gallery_features`.
    labels: the known records.
    weights: from `learn`.
  """
  fold = folds.assign_folds(features.gallery.axis, labels)
  blocks = [_make_posterior_block(features, labels, weights, ~labels.is_known)]
  for fold_id in range(folds.NUM_FOLDS):
    rows = fold == fold_id
    if rows.any():
      blocks.append(
        _make_posterior_block(
          features, labels.hide_records(rows), weights, rows
        )
      )
  return Posterior(
    features.gallery.axis, features.gallery.placeholder_month, tuple(blocks)
  )


def exclude_labelled_months(posterior: Posterior, labels: Labels) -> Posterior:
  """Returns a `fitted` posterior that also knows who is not known.

  Months that have a known record have known records only.

  Args:
    posterior: from `fitted`.
    labels: the known records.
  """
  allowed_months = np.ones(len(posterior.axis), bool)
  allowed_months[labels.month[labels.is_known]] = False
  blocks = tuple(
    dataclasses.replace(block, allowed_months=allowed_months)
    for block in posterior.blocks
  )
  return dataclasses.replace(posterior, blocks=blocks)


def _make_posterior_block(
  features: GalleryFeatures,
  labels: Labels,
  weights: ExpertWeights,
  is_target: np.ndarray,
) -> PosteriorBlock:
  """Returns the posteriors of hidden records, those `is_target` (bool [N])."""
  axis = features.gallery.axis
  is_hidden = ~labels.is_known & ~features.is_placeholder
  event_rows = np.flatnonzero(is_hidden & features.is_event)
  comment_rows = np.flatnonzero(is_hidden & ~features.is_event)
  scores = _score_events(
    features,
    labels,
    event_rows,
    weights.word_weights,
    np.arange(len(event_rows)),
  )
  hidden_rows = np.concatenate([event_rows, comment_rows])
  year_scores = np.concatenate(
    [
      scores.pool_experts(weights.pool_weights),
      _score_words(features, labels, comment_rows, weights.word_weights),
    ]
  )
  year_scores += np.log(scores.year_prior)
  month_of_year_log_ratios = np.zeros((len(hidden_rows), 12), np.float32)
  if features.experts.parallels:
    graph = _link_records(features, labels, hidden_rows)
    beliefs = year_scores.copy()
    beliefs[: len(event_rows)] += scores.date_log_ratios
    year_scores += parallel_texts.propagate_beliefs(
      graph, beliefs, scores.year_prior, _MESSAGE_WEIGHT
    )
    year_scores -= beliefs
    month_of_year_log_ratios = parallel_texts.propagate_months_of_year(
      graph, scores.date_features.month_of_year_chances(hidden_rows)
    )
  order = np.argsort(hidden_rows)
  hidden_rows, year_scores = (
    hidden_rows[order],
    year_scores[order].astype(np.float32),
  )
  month_of_year_log_ratios = month_of_year_log_ratios[order].astype(np.float32)
  opens_month = features.is_event[hidden_rows] & (
    features.gallery.opening[hidden_rows] != NO_OPENING
  )
  block = PosteriorBlock(
    hidden_rows,
    scores.date_features,
    year_scores,
    month_of_year_log_ratios,
    np.zeros(len(axis), np.float32),
    opens_month,
    weights.inverse_temperature,
    np.ones(len(axis), bool),
  )
  if features.experts.room:
    block = dataclasses.replace(
      block, month_log_factors=_fit_month_log_factors(features, labels, block)
    )
  target_mask = is_target[hidden_rows]
  return dataclasses.replace(
    block,
    rows=hidden_rows[target_mask],
    year_scores=year_scores[target_mask],
    month_of_year_log_ratios=month_of_year_log_ratios[target_mask],
    opens_month=opens_month[target_mask],
  )


def _fit_month_log_factors(
  features: GalleryFeatures, labels: Labels, block: PosteriorBlock
) -> np.ndarray:
  """Returns the log factors of months for records that open one, [K]."""
  gallery = features.gallery
  is_known_event = labels.is_known & features.is_event
  is_known_opener = is_known_event & (gallery.opening != NO_OPENING)
  num_months = len(gallery.axis)
  has_placeholder = np.zeros(num_months, bool)
  has_placeholder[
    gallery.placeholder_month[gallery.placeholder_month != UNKNOWN]
  ] = True
  capacity, must_fill = month_capacity.compute_month_capacity(
    np.bincount(labels.month[is_known_opener], minlength=num_months),
    np.bincount(labels.month[is_known_event], minlength=num_months),
    has_placeholder,
  )
  openers = np.flatnonzero(block.opens_month)

  def iter_scores():
    for start in range(0, len(openers), _BLOCK):
      yield block.score_months(openers[start : start + _BLOCK])

  return month_capacity.fit_month_log_factors(iter_scores, capacity, must_fill)


def _score_events(
  features: GalleryFeatures,
  labels: Labels,
  rows: np.ndarray,
  word_weights: np.ndarray,
  target_rows: np.ndarray,
) -> _ExpertScores:
  """Returns the scores of events whose months are hidden.

  Args:
    features: from `features.read_gallery_features`.
    labels: the known records.
    rows: events that may tell of one another, ascending, [n].
    word_weights: weights of the groups of strings.
    target_rows: places in `rows` of those whose scores are asked for, [m].
  """
  axis, experts = features.gallery.axis, features.experts
  date_tables, year_prior = (
    _fit_date_features(features, labels),
    _year_prior(features, labels),
  )
  date_log_ratios = np.concatenate(
    [
      axis.to_years(date_tables.log_ratio(rows[start : start + _BLOCK]))
      for start in range(0, len(rows), _BLOCK)
    ]
    or [np.zeros((0, axis.num_years), np.float32)]
  )
  row_of_record = np.full(len(features.gallery), UNKNOWN)
  row_of_record[rows] = np.arange(len(rows))
  no_scores = scipy.sparse.csr_array(
    (len(rows), axis.num_years), dtype=np.float32
  )
  citation_scores, parallel_chances = [no_scores] * citations.NUM_SCORES, None
  if experts.cited:
    citation_scores = _score_citations(
      features,
      labels,
      year_prior,
      row_of_record[features.event_records],
      word_weights,
    )
  if experts.parallels:
    parallel_chances = parallel_texts.make_pooling_matrix(
      parallel_texts.build_link_graph(
        axis, features.parallel_pairs, labels, row_of_record, len(rows)
      )
    )
  return _ExpertScores(
    date_tables,
    date_log_ratios,
    year_prior,
    _score_words(features, labels, rows, word_weights),
    target_rows,
    _score_encoder(features, labels, rows[target_rows]),
    citation_scores,
    parallel_chances,
  )


def _link_records(
  features: GalleryFeatures, labels: Labels, rows: np.ndarray
) -> parallel_texts.LinkGraph:
  """Returns the links among `rows` [n]: events, and events and comments."""
  axis, size = features.gallery.axis, len(rows)
  row_of_record = np.full(len(features.gallery), UNKNOWN)
  row_of_record[rows] = np.arange(size)
  parallel_graph = parallel_texts.build_link_graph(
    axis, features.parallel_pairs, labels, row_of_record, size
  )
  comment_graph = parallel_texts.build_link_graph(
    axis, features.comment_pairs, labels, row_of_record, size
  )
  return parallel_texts.join_graphs(
    parallel_graph,
    parallel_texts.join_graphs(
      comment_graph, parallel_texts.reverse_graph(comment_graph)
    ),
  )


def _score_citations(features, labels, year_prior, event_rows, word_weights):
  """Returns the scores of the citations beside the events asked about."""
  axis, citation_pairs = features.gallery.axis, features.citation_pairs
  pair_rows = np.flatnonzero(event_rows[citation_pairs.event_index] != UNKNOWN)
  chance = citations.fit_citation_chances(
    axis, citation_pairs, labels, features.event_records, pair_rows
  )
  if not features.experts.carried:
    is_named = citation_pairs.reading[pair_rows] == citations.NAMED_REIGN
    chance = np.where(is_named, chance, 0)
  hosts = np.unique(
    [citation.host for citation in citation_pairs.citations]
  ).astype(int)
  hosts = hosts[hosts != UNKNOWN]
  hosts = hosts[~labels.is_known[hosts] & ~features.is_event[hosts]]
  log_beliefs = _score_words(features, labels, hosts, word_weights) + np.log(
    year_prior
  )
  year_beliefs = np.exp(
    log_beliefs - logsumexp(log_beliefs, axis=1, keepdims=True)
  )
  reign_indicators = np.eye(axis.reign.max() + 1)[axis.reign]
  return citations.score_years(
    axis,
    citation_pairs,
    pair_rows,
    chance,
    labels,
    year_prior,
    hosts,
    year_beliefs @ reign_indicators,
    event_rows,
  )


def _fit_date_features(
  features: GalleryFeatures, labels: Labels
) -> date_features.DateFeatures:
  experts = features.experts
  return date_features.fit_date_features(
    features.gallery,
    labels,
    features.is_event,
    experts.openings,
    experts.days,
    experts.empty,
    experts.seasons,
  )


def _year_prior(features: GalleryFeatures, labels: Labels) -> np.ndarray:
  """Returns the chance of each year, smoothed over held-out ones, [Y]."""
  axis = features.gallery.axis
  rows = labels.is_known & ~features.is_placeholder
  counts = np.bincount(
    axis.year_of[labels.month[rows]], minlength=axis.num_years
  ).astype(np.float32)
  density = (counts + 0.1) @ vocabulary.make_year_kernels(axis.num_years)[1]
  return density / density.sum()


def _score_encoder(features, labels, rows) -> np.ndarray:
  """Returns what the encoder says of the years, [n, Y]; zeros if off."""
  axis = features.gallery.axis
  if not features.experts.neural:
    return np.zeros((len(rows), axis.num_years), np.float32)
  return features.year_predictor.predict_log_ratios(axis, labels, features.is_event, rows)


def _score_words(features, labels, rows, weights) -> np.ndarray:
  axis = features.gallery.axis
  if weights is not None and not features.experts.words:
    return np.zeros((len(rows), axis.num_years), np.float32)
  return features.year_vocabulary.year_log_ratios(
    axis, labels, ~features.is_placeholder, rows, weights
  )
