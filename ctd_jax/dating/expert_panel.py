"""Panel of experts fitted on the same labels, its scores and its weights.

Axes: N records, n records scored, m targets among them, b a block of these,
K months, Y regnal years, f pooled scores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.optimize
import scipy.sparse
from jaxtyping import Bool, Float, Float32, Int
from scipy.special import logsumexp

from ctd_jax.dating import corpus, regression
from ctd_jax.dating.corpus import UNKNOWN, Labels, cut_blocks
from ctd_jax.dating.experts import base, citations, date_features, parallels
from ctd_jax.dating.experts.base import CorpusFeatures
from ctd_jax.dating.posterior import Posterior, PosteriorBlock
from ctd_jax.utils import output

# Experts in the order of fitting: each may read the scores of those before it.
FITTING_ORDER = (
  "prior",
  "dates",
  "words",
  "neural",
  "cited",
  "parallels",
  "known",
  "room",
)
_REQUIRED = ("prior", "dates")
# Experts whose weights are learned, and their scores in the pool [f]. An expert
# that is left out keeps its place with scores of 0, so that all ablations share
# one layout of weights.
POOL_SLICES = {
  "words": slice(0, 1),
  "neural": slice(1, 2),
  "cited": slice(2, 2 + citations.NUM_SCORES),
  "parallels": slice(
    2 + citations.NUM_SCORES,
    2 + citations.NUM_SCORES + parallels.NUM_POOLED,
  ),
}
NUM_POOLED = POOL_SLICES["parallels"].stop
BLOCK = 512  # records whose months are held at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertPanel:
  """Experts fitted on the same labels."""

  features: CorpusFeatures  # the texts
  labels: Labels  # the known records
  experts: Mapping[str, base.FittedExpert]  # by name, in the order of fitting

  @property
  def year_prior(self) -> np.ndarray:
    """Chance of each year, [Y]."""
    return self.experts["prior"].chances

  def score_words(self, rows: Int[np.ndarray, " n"]) -> np.ndarray:
    """Returns the weighted scores of words, float32 [n, Y]; 0 without them."""
    if "words" not in self.experts:
      return self._blank(len(rows))
    return self.experts["words"].year_scores(rows)

  def score_dates(self, rows: Int[np.ndarray, " n"]) -> np.ndarray:
    """Returns log ratios of years by printed dates, float32 [n, Y]."""
    dates, axis = self.experts["dates"], self.features.axis
    blocks = [
      axis.to_years(dates.log_scores(rows[block]))
      for block in cut_blocks(len(rows), BLOCK)
    ]
    return np.concatenate(blocks or [self._blank(0)])

  def score_events(
    self,
    rows: Int[np.ndarray, " n"],
    targets: Int[np.ndarray, " m"] | None = None,
  ) -> EventScores:
    """Returns the scores of events whose months are hidden.

    Args:
      rows: events that may be evidence for one another, ascending.
      targets: indices into `rows` of those to score; all by default.
    """
    if targets is None:
      targets = np.arange(len(rows))
    encoder_scores = self._blank(len(targets))
    if "neural" in self.experts:
      encoder_scores = self.experts["neural"].log_scores(rows[targets])[0]
    citation_scores = [
      scipy.sparse.csr_array(
        (len(rows), self.features.axis.num_years), dtype=np.float32
      )
    ] * citations.NUM_SCORES
    if "cited" in self.experts:
      citation_scores = self.experts["cited"].sparse_scores(rows)
    pooling_matrix = None
    if "parallels" in self.experts:
      pooling_matrix = parallels.make_pooling_matrix(
        self.experts["parallels"].build_event_graph(
          self.index_rows(rows), len(rows)
        )
      )
    return EventScores(
      date_log_ratios=self.score_dates(rows),
      word_scores=self.score_words(rows),
      encoder_scores=encoder_scores,
      citation_scores=citation_scores,
      pooling_matrix=pooling_matrix,
      targets=targets,
    )

  def index_rows(self, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " N"]:
    """Returns the index of every record in `rows`, or UNKNOWN."""
    result = np.full(len(self.features.corpus), UNKNOWN)
    result[rows] = np.arange(len(rows))
    return result

  def _blank(self, num_rows: int) -> np.ndarray:
    return np.zeros((num_rows, self.features.axis.num_years), np.float32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EventScores:
  """Scores of hidden events by the pooled experts, given block by block."""

  # Log ratios of years by printed dates.
  date_log_ratios: Float32[np.ndarray, "n Y"]
  word_scores: Float32[np.ndarray, "n Y"]  # weighted scores of the words
  # Scores of the encoder, of the targets alone.
  encoder_scores: Float32[np.ndarray, "m Y"]
  # `citations.NUM_SCORES` sparse [n, Y].
  citation_scores: Sequence[scipy.sparse.csr_array]
  # Chances of one month, sparse [n, n]; None without parallels.
  pooling_matrix: scipy.sparse.csr_array | None
  targets: Int[np.ndarray, " m"]  # indices of the events to score, ascending

  def expert_scores(self, block: slice) -> Float32[np.ndarray, "f b Y"]:
    """Returns the scores of a block of the targets, in order of the pool."""
    rows = self.targets[block]
    result = np.zeros(
      (NUM_POOLED, *self.encoder_scores[block].shape), np.float32
    )
    result[POOL_SLICES["words"]] = self.word_scores[rows]
    result[POOL_SLICES["neural"]] = self.encoder_scores[block]
    result[POOL_SLICES["cited"]] = [
      scores[rows].toarray() for scores in self.citation_scores
    ]
    if self.pooling_matrix is not None:
      result[POOL_SLICES["parallels"]] = parallels.pool_parallels(
        self.pooling_matrix,
        self.citation_scores,
        self.word_scores,
        self.date_log_ratios,
        rows,
      )
    return result

  def pool_experts(
    self, weights: Float[np.ndarray, " f"]
  ) -> Float32[np.ndarray, "m Y"]:
    """Returns the weighted sum of the scores."""
    result = np.zeros_like(self.encoder_scores)
    for block in cut_blocks(len(result), BLOCK):
      scores = self.expert_scores(block)
      result[block] = np.tensordot(weights.astype(np.float32), scores, 1)
    return result


def fit_panel(
  experts: Sequence[base.Expert],
  features: CorpusFeatures,
  labels: Labels,
  expert_weights: Mapping[str, np.ndarray] | None = None,
  fitted: Mapping[str, base.FittedExpert] | None = None,
) -> ExpertPanel:
  """Returns the experts fitted on labels, in FITTING_ORDER.

  Args:
    expert_weights: name -> weights of the scores of "words" and "known".
    fitted: experts already fitted on these labels, by name.

  Raises:
    ValueError: if an expert is missing, unknown or given twice.
  """
  by_name = check_experts(experts)
  panel = dict(fitted or {})
  for name in FITTING_ORDER:
    if name in by_name and name not in panel:
      panel[name] = by_name[name].fit(features, labels, panel)
    if name in panel and name in (expert_weights or {}):
      panel[name] = dataclasses.replace(
        panel[name], weights=expert_weights[name]
      )
  return ExpertPanel(features=features, labels=labels, experts=panel)


def check_experts(experts: Sequence[base.Expert]) -> dict[str, base.Expert]:
  """Returns experts by name; ValueError if missing, unknown or doubled."""
  by_name = {expert.name: expert for expert in experts}
  if len(by_name) < len(experts):
    names = sorted(expert.name for expert in experts)
    raise ValueError(f"an expert is given twice: {', '.join(names)}")
  unknown_names = [name for name in by_name if name not in FITTING_ORDER]
  missing_names = [name for name in _REQUIRED if name not in by_name]
  if unknown_names or missing_names:
    raise ValueError(
      f"experts should be some of {', '.join(FITTING_ORDER)}, with "
      f"{' and '.join(_REQUIRED)}; got {', '.join(by_name) or 'none'}"
    )
  return by_name


# Scores of hidden records: the pooled experts, then messages along the links.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordScores:
  """Log scores of the hidden records, up to a constant for each."""

  panel: ExpertPanel  # the experts
  rows: Int[np.ndarray, " n"]  # hidden records, events before commentary
  events: EventScores  # scores of the events, the first of `rows`
  # Of years without messages; None unless kept.
  own_year_scores: Float32[np.ndarray, "n Y"] | None
  year_scores: Float32[np.ndarray, "n Y"]  # of years, with messages
  # Messages on the months of a year.
  month_of_year_log_ratios: Float32[np.ndarray, "n 12"]

  def make_block(
    self, inverse_temperature: float, is_target: Bool[np.ndarray, " N"]
  ) -> PosteriorBlock:
    """Returns the posteriors of the hidden records selected by `is_target`."""
    features, order = self.panel.features, np.argsort(self.rows)
    rows = self.rows[order]
    block = PosteriorBlock(
      rows=rows,
      dates=self.panel.experts["dates"],
      year_scores=self.year_scores[order],
      month_of_year_log_ratios=self.month_of_year_log_ratios[order],
      month_log_factors=np.zeros(len(features.axis), np.float32),
      opens_month=features.opens_month[rows],
      inverse_temperature=inverse_temperature,
      allowed_months=np.ones(len(features.axis), bool),
      month_experts=tuple(
        expert for name, expert in self.panel.experts.items() if name == "known"
      ),
    )
    if "room" in self.panel.experts:
      factors = _balance_capacity(self.panel.experts["room"], block)
      block = dataclasses.replace(block, month_log_factors=factors)
    return block.select(is_target[rows])


def score_hidden_records(
  panel: ExpertPanel,
  pool_weights: Float[np.ndarray, " f"],
  keep_own_scores: bool = False,
) -> RecordScores:
  """Returns the scores of all records whose month is not known."""
  features, labels = panel.features, panel.labels
  is_hidden = ~labels.is_known & ~features.corpus.is_placeholder
  event_rows = np.flatnonzero(is_hidden & features.is_event)
  comment_rows = np.flatnonzero(is_hidden & ~features.is_event)
  events = panel.score_events(event_rows)
  rows = np.concatenate([event_rows, comment_rows])
  # Commentary is dated by its words, and by the events that it is linked to.
  year_scores = np.concatenate(
    [events.pool_experts(pool_weights), panel.score_words(comment_rows)]
  )
  year_scores += np.log(panel.year_prior)
  own_year_scores = year_scores.copy() if keep_own_scores else None
  month_of_year_log_ratios = np.zeros((len(rows), 12), np.float32)
  if "parallels" in panel.experts:
    graph = panel.experts["parallels"].build_record_graph(
      panel.index_rows(rows), len(rows)
    )
    # What a record believes, and sends, includes its printed date.
    beliefs = year_scores.copy()
    beliefs[: len(event_rows)] += events.date_log_ratios
    year_scores += parallels.propagate_beliefs(graph, beliefs, panel.year_prior)
    # The date is counted again month by month, so it is taken out here.
    year_scores -= beliefs
    month_of_year_log_ratios = parallels.propagate_months_of_year(
      graph, panel.experts["dates"].month_of_year_chances(rows)
    )
  return RecordScores(
    panel=panel,
    rows=rows,
    events=events,
    own_year_scores=own_year_scores,
    year_scores=year_scores.astype(np.float32),
    month_of_year_log_ratios=month_of_year_log_ratios.astype(np.float32),
  )


def _balance_capacity(
  room: date_features.FittedMonthCapacity, block: PosteriorBlock
) -> Float32[np.ndarray, " K"]:
  """Returns the log factors that balance a block with the capacity."""
  openers = np.flatnonzero(block.opens_month)
  return date_features.fit_month_log_factors(
    lambda: (
      block.score_months(openers[rows])
      for rows in cut_blocks(len(openers), BLOCK)
    ),
    room.capacity,
    room.must_fill,
  )


# Weights of the experts, learned on known records that are hidden in folds.
#
# The weights have greatest likelihood on events that are dated as an undated
# record is (see `corpus`). They are learned on a sample, so that a large
# corpus costs no more.

_WORDS_PENALTY = 0.005  # of the squared weights of words, per event
_POOL_PENALTY = 0.002  # of the squared weights of the pool, per event
_WEIGHT_FOLDS = (0, 3, 6)  # of `corpus.NUM_FOLDS`; three are enough
# Hidden events of a fold that weights are learned on.
_MAX_TRAINING_EVENTS = 1000
# Odd, so that no two hashes become one.
_HASH_MULTIPLIER = np.uint32(0x9E3779B1)
_LOG_TEMPERATURE_BOUNDS = (-2, 1)  # of the log inverse temperature


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertWeights:
  """Parameters learned once for all records."""

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
  fitted: Mapping[str, base.FittedExpert]


def fit_expert_weights(
  experts: Sequence[base.Expert],
  features: CorpusFeatures,
  labels: Labels,
  fold_by: str,
) -> ExpertWeights:
  """Returns weights of greatest likelihood on known records that are hidden."""
  hidden_folds = _hide_folds(experts, features, labels, fold_by)
  weights = ExpertWeights(
    word_weights=np.zeros(features.year_vocabulary.num_scores),
    pool_weights=np.zeros(NUM_POOLED),
  )
  if not hidden_folds:  # no known event to learn from
    return weights
  years = np.concatenate(
    [
      features.axis.year_of[labels.month[fold.rows[fold.sample]]]
      for fold in hidden_folds
    ]
  )
  if "words" in hidden_folds[0].fitted and features.year_vocabulary.groups:
    weights = dataclasses.replace(
      weights, word_weights=_fit_word_weights(features, hidden_folds, years)
    )
  panels = [
    fit_panel(
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
  panel = fit_panel(
    experts, features, first.labels, weights.by_expert, panels[0].experts
  )
  block = score_hidden_records(panel, weights.pool_weights).make_block(
    weights.inverse_temperature, is_target
  )
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
      result.append(
        _HiddenFold(
          rows=rows,
          sample=sample,
          labels=visible_labels,
          fitted=fit_panel(unweighted, features, visible_labels).experts,
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
  panels: Sequence[ExpertPanel],
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
  return tuple(np.split(weights, [NUM_POOLED]))


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
  """Returns the factor on log scores that makes the true months likeliest.

  `log_p` are those of records dated with their months hidden.
  """

  def loss(log_inverse_temperature):
    scores = np.exp(log_inverse_temperature) * log_p
    total = logsumexp(scores, axis=1)
    return float((total - scores[np.arange(len(months)), months]).mean())

  optimum = scipy.optimize.minimize_scalar(
    loss, bounds=_LOG_TEMPERATURE_BOUNDS, method="bounded"
  )
  return float(np.exp(optimum.x))
