"""Weights of the experts, learned on known records that are hidden in folds.

The weights have greatest likelihood on events that are dated as an undated
record is (see `folds`). They are learned on a
sample, so that a large corpus costs no more.

Axes: N records, n some of them, K months, Y regnal years, f pooled scores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.optimize
from jaxtyping import Float, Int
from scipy.special import logsumexp

from ctd_jax.dating import corpus, expert_panel, regression
from ctd_jax.dating.corpus import Labels
from ctd_jax.dating.experts import base, parallels
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.dating.posterior import Posterior
from ctd_jax.utils import output

_WORDS_PENALTY = 0.005  # of the squared weights of words, per event
_POOL_PENALTY = 0.002  # of the squared weights of the pool, per event
_WEIGHT_FOLDS = (0, 3, 6)  # of `folds.NUM_FOLDS`; three are enough
# Hidden events of a fold that weights are learned on.
_MAX_TRAINING_EVENTS = 1000
# Odd, so that no two hashes become one.
_HASH_MULTIPLIER = np.uint32(0x9E3779B1)
_LOG_TEMPERATURE_BOUNDS = (-2, 1)  # of the log inverse temperature


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertWeights:
  """What is learned once for all records."""

  # Of the groups of strings, [`YearVocabulary.num_scores`].
  word_weights: Float[np.ndarray, " g"]
  # Of words, encoder, citations and parallels.
  pool_weights: Float[np.ndarray, " f"]
  # Of known parallels; none without that expert.
  known_weights: Float[np.ndarray, " s"] = dataclasses.field(
    default_factory=lambda: np.zeros(parallels.NUM_SCORES)
  )
  inverse_temperature: float = 1.0  # of the posterior

  @property
  def by_expert(self) -> dict[str, np.ndarray]:
    """Weights of the scores of experts that have weights of their own."""
    return {"words": self.word_weights, "known": self.known_weights}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _HiddenFold:
  """Events of one fold, dated by the records of the others."""

  rows: np.ndarray  # all events of the fold
  sample: np.ndarray  # indices into `rows` of those that weights are learned on
  labels: Labels  # without those of the fold
  # Experts on these labels that need no weights, by name.
  fitted: dict[str, base.FittedExpert]


def fit_expert_weights(
  experts: Sequence[base.Expert],
  features: CorpusFeatures,
  labels: Labels,
  fold_by: str,
) -> ExpertWeights:
  """Returns weights of greatest likelihood on known records that are hidden.

  Args:
    experts: whose scores are weighed.
    features: the texts.
    labels: the known records, of train months only.
    fold_by: what is hidden together, see `folds.fold_records`.
  """
  hidden_folds = _hide_folds(experts, features, labels, fold_by)
  weights = ExpertWeights(
    word_weights=np.zeros(features.year_vocabulary.num_scores),
    pool_weights=np.zeros(expert_panel.NUM_POOLED),
  )
  if not hidden_folds:  # no known event to learn from
    return weights
  years = _true_years(features, labels, hidden_folds)
  if _has_words(experts, features):
    weights = dataclasses.replace(
      weights, word_weights=_fit_word_weights(features, hidden_folds, years)
    )
  panels = [
    expert_panel.fit_panel(
      experts,
      features,
      fold.labels,
      {"words": weights.word_weights},
      fold.fitted,
    )
    for fold in output.Progress(hidden_folds, "dating: weights", unit="fold")
  ]
  pool_weights, known_weights = _fit_pool_weights(panels, hidden_folds, years)
  weights = dataclasses.replace(
    weights, pool_weights=pool_weights, known_weights=known_weights
  )
  # One fold is enough for the one number of the temperature.
  first = hidden_folds[0]
  is_target = np.zeros(len(features.corpus), bool)
  is_target[first.rows[first.sample]] = True
  panel = expert_panel.fit_panel(
    experts, features, first.labels, weights.by_expert, panels[0].experts
  )
  block = expert_panel.score_hidden_records(
    panel, weights.pool_weights
  ).make_block(weights.inverse_temperature, is_target)
  posterior = Posterior(
    axis=features.axis,
    certain_months=features.corpus.placeholder_month,
    blocks=(block,),
  )
  return dataclasses.replace(
    weights,
    inverse_temperature=fit_inverse_temperature(
      posterior.log_p(block.rows), labels.month[block.rows]
    ),
  )


def _has_words(
  experts: Sequence[base.Expert], features: CorpusFeatures
) -> bool:
  has_expert = any(expert.name == "words" for expert in experts)
  return has_expert and bool(features.year_vocabulary.groups)


def _true_years(
  features: CorpusFeatures, labels: Labels, hidden_folds: Sequence[_HiddenFold]
) -> np.ndarray:
  """Returns the years of the sampled events of all folds."""
  return np.concatenate(
    [
      features.axis.year_of[labels.month[fold.rows[fold.sample]]]
      for fold in hidden_folds
    ]
  )


def _hide_folds(
  experts: Sequence[base.Expert],
  features: CorpusFeatures,
  labels: Labels,
  fold_by: str,
) -> list[_HiddenFold]:
  """Returns the folds of `_WEIGHT_FOLDS` that have events."""
  fold_of_record = corpus.fold_records(features.corpus, labels, fold_by)
  unweighted = [
    expert for expert in experts if expert.name in ("prior", "dates", "words")
  ]
  result = []
  for fold in _WEIGHT_FOLDS:
    rows = np.flatnonzero((fold_of_record == fold) & features.is_event)
    sample = _sample_training_rows(features, rows)
    if len(sample):
      visible_labels = labels.hide_records(fold_of_record == fold)
      panel = expert_panel.fit_panel(unweighted, features, visible_labels)
      result.append(
        _HiddenFold(
          rows=rows,
          sample=sample,
          labels=visible_labels,
          fitted=dict(panel.experts),
        )
      )
  return result


def _fit_word_weights(
  features: CorpusFeatures,
  hidden_folds: Sequence[_HiddenFold],
  years: np.ndarray,
) -> np.ndarray:
  """Returns the weights of the groups of strings, beside the dates alone."""
  scores, bases = [], []
  for fold in hidden_folds:
    rows = fold.rows[fold.sample]
    scores.append(fold.fitted["words"].log_scores(rows))
    date_log_ratios = features.axis.to_years(
      fold.fitted["dates"].log_scores(rows)
    )
    bases.append(date_log_ratios + np.log(fold.fitted["prior"].chances))
  return regression.fit_pool_weights(
    np.concatenate(scores, axis=1), np.concatenate(bases), years, _WORDS_PENALTY
  )


def _fit_pool_weights(
  panels: Sequence[expert_panel.ExpertPanel],
  hidden_folds: Sequence[_HiddenFold],
  years: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the weights of the pool and of known parallels."""
  scores, bases = [], []
  for panel, fold in zip(panels, hidden_folds, strict=True):
    # All events of the fold may be parallels; the sample alone is scored.
    event_scores = panel.score_events(fold.rows, fold.sample)
    bases.append(
      event_scores.date_log_ratios[fold.sample] + np.log(panel.year_prior)
    )
    pooled = [event_scores.expert_scores(slice(None))]
    if "known" in panel.experts:
      known = panel.experts["known"].score_years(fold.rows[fold.sample])
      pooled.append(known[:-1])
      bases[-1] = bases[-1] + known[-1]
    scores.append(np.concatenate(pooled))
  weights = regression.fit_pool_weights(
    np.concatenate(scores, axis=1), np.concatenate(bases), years, _POOL_PENALTY
  )
  return tuple(np.split(weights, [expert_panel.NUM_POOLED]))


def _sample_training_rows(
  features: CorpusFeatures, rows: np.ndarray
) -> np.ndarray:
  """Returns indices of a sample of `rows`, chosen by their texts."""
  # Not as `Corpus.sample_rows` chooses: most of the records that are dated
  # later are outside that sample, and so should be those that teach.
  if len(rows) <= _MAX_TRAINING_EVENTS:
    return np.arange(len(rows))
  hashes = features.corpus.text_hashes[rows] * _HASH_MULTIPLIER
  return np.flatnonzero(
    hashes <= np.partition(hashes, _MAX_TRAINING_EVENTS)[_MAX_TRAINING_EVENTS]
  )


def fit_inverse_temperature(
  log_p: Float[np.ndarray, "n K"], months: Int[np.ndarray, " n"]
) -> float:
  """Returns the factor on log scores of greatest likelihood.

  Args:
    log_p: of the months of records that were dated as hidden ones.
    months: their true ordinal months.
  """

  def loss(log_inverse_temperature):
    scores = np.exp(log_inverse_temperature) * log_p
    total = logsumexp(scores, axis=1)
    return float((total - scores[np.arange(len(months)), months]).mean())

  optimum = scipy.optimize.minimize_scalar(
    loss, bounds=_LOG_TEMPERATURE_BOUNDS, method="bounded"
  )
  return float(np.exp(optimum.x))
