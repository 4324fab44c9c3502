"""Dating model: the month of undated records from a sum of experts.

  >>> import numpy as np
  >>> from ctd_jax import DatingModel
  >>> from ctd_jax.chronology import reigns
  >>> from ctd_jax.dating.corpus import UNKNOWN, Labels, read_corpus
  >>> from ctd_jax_datasets.chunqiutr import mini
  >>> timeline = reigns.load_timeline("mini")
  >>> records = [r for r in mini.generate_records(0) if r.key.reign <= 2]
  >>> months = np.array([timeline.ordinal(r.key) for r in records])
  >>> months[::5] = UNKNOWN  # every fifth record is to be dated
  >>> is_event = np.array([r.kind == "event" for r in records], int)
  >>> labels = Labels(months, np.where(months == UNKNOWN, UNKNOWN, is_event))
  >>> corpus = read_corpus([r.text for r in records], timeline)
  >>> model = DatingModel.without(["neural"]).fit(corpus, labels)
  >>> posterior = model.predict()
  >>> records[5].text
  '夏，四月，岷人侵我桃谷。'
  >>> posterior.log_p(np.array([5])).shape
  (1, 360)
  >>> [reason.expert for reason in model.explain(5)][:3]
  ['openings', 'prior', 'room']

Axes: N records, n rows, K months, Y years.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping

import numpy as np
from absl import logging
from jaxtyping import Bool, Float, Int

from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating import expert_panel
from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels
from ctd_jax.dating.expert_panel import POOL_SLICES, ExpertPanel, RecordScores
from ctd_jax.dating.experts import (
  base,
  citations,
  date_features,
  parallels,
  words,
)
from ctd_jax.dating.experts.base import CorpusFeatures, read_corpus_features
from ctd_jax.dating.posterior import LOG_IMPOSSIBLE, Posterior, PosteriorBlock
from ctd_jax.utils import output

# What is known about the labelled records; see `FittedDatingModel.predict`.
VARIANTS = FITTED, ELIMINATION, STRICT = ("fitted", "elimination", "strict")

# Evidence that `config.dating.off` can leave out.
EVIDENCE = {
  "openings": "month, season and year number that open a record",
  "days": "sexagenary days against the computed calendar",
  "empty": "which months are empty, by placeholders of months without a known "
  "record: they exclude these months, tell what else is in a season, and take "
  "no record that opens a month",
  "seasons": "whether a season is named, against its empty months",
  "words": "names and words by year",
  "neural": "an encoder that reads the text whole, by year",
  "cited": "years cited in commentary beside the event",
  "carried": "cited years without a ruler",
  "parallels": "records that tell the same event, and messages along links",
  "room": "each work opens a month once",
  "punctuation": "the classifier of events sees punctuation",
}


def check_evidence(names: Iterable[str]) -> frozenset[str]:
  """Returns the names as a set; raises ValueError for one not in EVIDENCE."""
  names = frozenset(names)
  for name in sorted(names):
    if name not in EVIDENCE:
      raise ValueError(f"unknown {name!r}; there are {', '.join(EVIDENCE)}")
  return names


def check_variant(variant: str) -> str:
  """Returns the variant, or raises ValueError if it is not one of VARIANTS."""
  if variant not in VARIANTS:
    raise ValueError(f"variant must be one of {VARIANTS}, got {variant!r}")
  return variant


# Explanations: what each expert adds to the log score of a record.
#
# The scores are sums, so the reasons of a record are: over all of them,
# `log_scores` adds up to the unnormalised log score of its months.

LABEL = "label"  # name of the reason of a record whose month is known
PLACEHOLDER = "placeholder"  # likewise, of one that states its month


def _explain_hidden_record(
  scores: RecordScores,
  block: PosteriorBlock,
  pool_weights: np.ndarray,
  row: int,
  month: int,
) -> list[base.Reason]:
  """Returns the reasons for a month of a hidden record, the strongest first."""
  axis, panel = scores.panel.features.axis, scores.panel
  index = int(np.flatnonzero(scores.rows == row)[0])
  month_terms = {
    name: year_scores[axis.year_of]
    for name, year_scores in _year_terms(
      scores, pool_weights, row, index
    ).items()
  }
  month_terms |= panel.experts["dates"].split_log_scores(row)
  if "parallels" in month_terms:
    month_terms["parallels"] = (
      month_terms["parallels"]
      + scores.month_of_year_log_ratios[index][axis.month_of_year - 1]
    )
  if "known" in panel.experts:
    month_terms["known"] = panel.experts["known"].log_scores(np.array([row]))[0]
  if "room" in panel.experts and panel.features.opens_month[row]:
    month_terms["room"] = block.month_log_factors
  if not block.allowed_months.all():
    # Added after the temperature, so divided by it to belong to the sum.
    month_terms["elimination"] = np.where(
      block.allowed_months, 0, LOG_IMPOSSIBLE / block.inverse_temperature
    )
  year = int(axis.year_of[month])
  reasons = [
    _make_reason(
      name, log_scores, month, _find_evidence(panel, name, row, year)
    )
    for name, log_scores in month_terms.items()
  ]
  return sorted(reasons, key=lambda reason: -abs(reason.weight))


def _make_reason(
  name: str, log_scores: np.ndarray, month: int, evidence: base.Evidence
) -> base.Reason:
  return base.Reason(
    expert=name,
    log_scores=log_scores,
    weight=float(log_scores[month] - log_scores.mean()),
    evidence=evidence,
  )


def _year_terms(
  scores: RecordScores, pool_weights: np.ndarray, row: int, index: int
) -> Mapping[str, np.ndarray]:
  """Returns the terms each expert adds to years' log scores, name -> [Y]."""
  panel = scores.panel
  terms = {"prior": np.log(panel.year_prior)}
  if index < len(scores.events.targets):
    pooled = scores.events.expert_scores(slice(index, index + 1))[:, 0]
    for name, places in POOL_SLICES.items():
      if name in panel.experts:
        terms[name] = np.tensordot(pool_weights[places], pooled[places], 1)
  elif "words" in panel.experts:
    terms["words"] = panel.score_words(np.array([row]))[0]
  if "parallels" in panel.experts:
    messages = scores.year_scores[index] - scores.own_year_scores[index]
    terms["parallels"] = terms.get("parallels", 0) + messages
  return terms


def _find_evidence(
  panel: ExpertPanel, name: str, row: int, year: int
) -> base.Evidence:
  """Returns the evidence for a year that an expert found in a record."""
  experts = panel.experts
  if name == "openings":
    return experts["dates"].explain(row, year)
  if name == "days":
    return experts["dates"].explain_days(row)
  if name == "empty":
    return base.Evidence(note="months with a placeholder have no other record")
  if name == "elimination":
    return base.Evidence(note="months with a known record have no others")
  return experts[name].explain(row, year)


def make_experts(
  without: Iterable[str] = (),
  seed: int = 42,
  dates: base.Expert | None = None,
) -> tuple[base.Expert, ...]:
  """Returns all experts except those named in `without`.

  Args:
    seed: seed of the year encoder.
    dates: expert of printed dates; by default that of a timeline.

  Raises:
    ValueError: if a name is not in EVIDENCE.
  """
  without = check_evidence(without)
  experts: list[base.Expert] = [
    words.YearPrior(),
    dates
    or date_features.DateFeatures(
      use_openings="openings" not in without,
      use_days="days" not in without,
      use_placeholders="empty" not in without,
      use_seasons="seasons" not in without,
    ),
    words.Words(),
    citations.Citations(use_undated_reigns="carried" not in without),
    parallels.ParallelTexts(),
    date_features.MonthCapacity(use_placeholders="empty" not in without),
  ]
  if "neural" not in without:
    # Here and not above: the other experts need no JAX.
    from ctd_jax.dating.experts import year_encoder

    experts.append(year_encoder.YearEncoder(seed=seed))
  return tuple(expert for expert in experts if expert.name not in without)


@dataclasses.dataclass(frozen=True)
class DatingModel:
  """Model that dates records, before it is fitted."""

  # Sources of evidence, in any order; all by default.
  experts: tuple[base.Expert, ...] = dataclasses.field(
    default_factory=make_experts
  )
  # Whether punctuation may tell events from commentary.
  use_punctuation: bool = True
  # What is hidden together to learn weights, of `corpus.FOLD_BY`: "years" where
  # the years of the records to date have no known records, "records" where
  # all years are known.
  fold_by: str = corpus_lib.YEARS
  # See `PosteriorBlock`. Chosen on the validation events of two other splits of
  # the Annals, where it brings the calibration error from .041 to .030.
  sharpening: float = 0.4

  def __post_init__(self):
    expert_panel.check_experts(self.experts)
    if self.fold_by not in corpus_lib.FOLD_BY:
      raise ValueError(
        f"what is hidden must be one of {corpus_lib.FOLD_BY}, got "
        f"{self.fold_by!r}"
      )

  @classmethod
  def without(cls, names: Iterable[str], seed: int = 42) -> DatingModel:
    """Returns a model without some of EVIDENCE, for an ablation."""
    names = check_evidence(names)
    return cls(make_experts(names, seed), "punctuation" not in names)

  def fit(
    self,
    corpus: Corpus,
    labels: Labels,
    features: CorpusFeatures | None = None,
  ) -> FittedDatingModel:
    """Returns the model fitted on a corpus.

    Args:
      labels: months and kinds of the known records.
      features: features of this corpus, if already read with these labels and
        this `use_punctuation`.

    Raises:
      TypeError: if the records or labels have another type.
    """
    if not isinstance(corpus, Corpus) or not isinstance(labels, Labels):
      raise TypeError(
        "expected a Corpus from dating.corpus.read_corpus and Labels; got "
        f"{type(corpus).__name__} and {type(labels).__name__}"
      )
    if features is None:
      features = read_corpus_features(corpus, labels, self.use_punctuation)
    logging.info(
      "dating: learning weights on %s known events",
      f"{int((labels.is_known & features.is_event).sum()):,}",
    )
    weights = expert_panel.fit_expert_weights(
      self.experts, features, labels, self.fold_by
    )
    return FittedDatingModel(
      experts=self.experts,
      features=features,
      labels=labels,
      weights=weights,
      fold_by=self.fold_by,
      sharpening=self.sharpening,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedDatingModel:
  """Model that dates the records of its corpus."""

  experts: tuple[base.Expert, ...]  # sources of evidence
  features: CorpusFeatures  # of the corpus
  labels: Labels  # months and kinds of the known records
  weights: expert_panel.ExpertWeights  # of the experts
  # What is hidden together, of `corpus.FOLD_BY`.
  fold_by: str = corpus_lib.YEARS
  sharpening: float = 0.0  # of the posteriors, see `PosteriorBlock`
  # Scores and posteriors of the last fold that was explained.
  _explained: dict = dataclasses.field(
    default_factory=dict, init=False, repr=False
  )

  @property
  def event_log_p(self) -> Float[np.ndarray, " N"]:
    """log p(answering kind | text) of the records."""
    return self.features.event_log_p

  def predict(self, variant: str = FITTED) -> Posterior:
    """Returns the posterior of all records.

    Args:
      variant: "fitted" gives labelled records their months; "elimination" also
        closes these months to other records; "strict" dates labelled records as
        well, each with its fold hidden.

    Raises:
      ValueError: if the variant is unknown.
    """
    corpus = self.features.corpus
    check_variant(variant)
    logging.info(
      "dating: the months of %s records, %s", f"{len(corpus):,}", variant
    )
    if variant != STRICT:
      return Posterior(
        axis=corpus.axis,
        certain_months=np.where(
          self.labels.is_known, self.labels.month, corpus.placeholder_month
        ),
        blocks=(self._eliminate(self._unlabelled_block, variant),),
      )
    labelled_blocks = [
      self._score_records(*self._hide_fold(int(fold)))[1]
      for fold in output.Progress(
        np.unique(self._fold_of_record[self.labels.is_known]),
        "dating: hidden years",
        unit="fold",
      )
    ]
    return Posterior(
      axis=corpus.axis,
      certain_months=corpus.placeholder_month,
      blocks=(self._unlabelled_block, *labelled_blocks),
    )

  def explain(
    self, row: int, month: int | None = None, variant: str = FITTED
  ) -> list[base.Reason]:
    """Returns the reasons for the month of a record, the strongest first.

    Their `log_scores` add up to the unnormalised log score of the months.

    Args:
      month: ordinal month to explain; the likeliest by default.
      variant: see `predict`.

    Raises:
      ValueError: if the variant is unknown.
      IndexError: if the row or month does not exist.
    """
    check_variant(variant)
    corpus = self.features.corpus
    num_months = len(corpus.axis)
    if not 0 <= row < len(corpus):
      raise IndexError(f"row is 0..{len(corpus) - 1}, got {row}")
    if month is not None and not 0 <= month < num_months:
      raise IndexError(f"month is 0..{num_months - 1}, got {month}")
    certain = {PLACEHOLDER: int(corpus.placeholder_month[row])}
    if variant != STRICT:
      # A label goes before what the text states.
      certain = {LABEL: int(self.labels.month[row])} | certain
    for name, known_month in certain.items():
      if known_month != UNKNOWN:
        month = known_month if month is None else month
        log_scores = np.full(num_months, LOG_IMPOSSIBLE)
        log_scores[known_month] = 0
        return [_make_reason(name, log_scores, month, base.Evidence())]
    fold = int(self._fold_of_record[row]) if variant == STRICT else UNKNOWN
    if fold not in self._explained:
      self._explained.clear()
      self._explained[fold] = self._score_records(*self._hide_fold(fold), True)
    scores, block = self._explained[fold]
    block = self._eliminate(block, variant)
    if month is None:
      month = int(block.log_p(np.flatnonzero(block.rows == row))[0].argmax())
    return _explain_hidden_record(
      scores, block, self.weights.pool_weights, row, month
    )

  def _hide_fold(self, fold: int) -> tuple[Labels, np.ndarray]:
    """Returns the labels without a fold, and its records, bool [N]."""
    # The fold UNKNOWN is that of the records without a label.
    if fold == UNKNOWN:
      return self.labels, ~self.labels.is_known
    is_hidden = self._fold_of_record == fold
    return self.labels.hide_records(is_hidden), is_hidden

  @functools.cached_property
  def _fold_of_record(self) -> Int[np.ndarray, " N"]:
    return corpus_lib.fold_records(
      self.features.corpus, self.labels, self.fold_by
    )

  @functools.cached_property
  def _unlabelled_block(self) -> PosteriorBlock:
    """Posteriors of the records without a label, which all variants share."""
    return self._score_records(*self._hide_fold(UNKNOWN))[1]

  def _eliminate(self, block: PosteriorBlock, variant: str) -> PosteriorBlock:
    """Returns the block; of "elimination" without months that are labelled."""
    if variant != ELIMINATION:
      return block
    allowed_months = np.ones(len(self.features.axis), bool)
    allowed_months[self.labels.month[self.labels.is_known]] = False
    return dataclasses.replace(block, allowed_months=allowed_months)

  def _score_records(
    self,
    labels: Labels,
    is_target: Bool[np.ndarray, " N"],
    for_reasons: bool = False,
  ) -> tuple[expert_panel.RecordScores, PosteriorBlock]:
    """Returns scores for explanations, and the posteriors of the targets."""
    panel = expert_panel.fit_panel(
      self.experts, self.features, labels, self.weights.by_expert
    )
    scores = expert_panel.score_hidden_records(
      panel, self.weights.pool_weights, for_reasons
    )
    block = scores.make_block(self.weights.inverse_temperature, is_target)
    return scores, dataclasses.replace(block, sharpening=self.sharpening)
