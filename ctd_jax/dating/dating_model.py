"""Dating model: the month of undated records from a sum of experts.

No single clue tells when an undated record happened; printed dates, calendar,
names, citations and parallels together often do. The scores of the experts are
added with weights of greatest likelihood, learned on labelled records that were
hidden in blocks of years. The model reads texts and the given labels; keys,
kinds and order of other records do not reach it.

  >>> import numpy as np
  >>> from ctd_jax import DatingModel
  >>> from ctd_jax.chronology import reign_tables
  >>> from ctd_jax.dating.corpus import UNKNOWN, Labels, read_corpus
  >>> from ctd_jax_datasets.chunqiutr import mini
  >>> timeline = reign_tables.load_timeline("mini")
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

Axes: N records, n rows, K months.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
from absl import logging
from jaxtyping import Bool

from ctd_jax.dating import (
  expert_panel,
  expert_weights,
  explanation,
  fitted_model,
  folds,
  record_scores,
)
from ctd_jax.dating.corpus import Corpus, Labels
from ctd_jax.dating.experts import base
from ctd_jax.dating.features import CorpusFeatures, read_corpus_features
from ctd_jax.dating.options import check_evidence
from ctd_jax.dating.posterior import PosteriorBlock


def make_experts(
  without: Iterable[str] = (), seed: int = 42
) -> tuple[base.Expert, ...]:
  """Returns all experts but those, or the evidence, left out.

  Args:
    without: names of `options.EVIDENCE`.
    seed: of the year encoder.

  Raises:
    ValueError: if a name is unknown.
  """
  from ctd_jax.dating.experts import (
    citations,
    date_features,
    month_capacity,
    parallel_texts,
    words,
    year_prior,
  )

  without = check_evidence(without)
  experts: list[base.Expert] = [
    year_prior.YearPrior(),
    date_features.DateFeatures(
      use_openings="openings" not in without,
      use_days="days" not in without,
      use_placeholders="empty" not in without,
      use_seasons="seasons" not in without,
    ),
    words.Words(),
    citations.Citations(use_undated_reigns="carried" not in without),
    parallel_texts.ParallelTexts(),
    month_capacity.MonthCapacity(),
  ]
  if "neural" not in without:
    # Here and not above: the other experts need no JAX.
    from ctd_jax.dating.experts import year_encoder

    experts.append(year_encoder.YearEncoder(seed=seed))
  return tuple(expert for expert in experts if expert.name not in without)


@dataclasses.dataclass(frozen=True)
class DatingModel:
  """A model that dates records, before it is fitted.

  Attributes:
    experts: sources of evidence, in any order; all by default.
    use_punctuation: whether punctuation may tell events from commentary.
    manner: what is hidden together to learn weights, of `folds.MANNERS`:
      "years" where the records to be dated are of years without known records,
      "records" where all years are known.
  """

  experts: tuple[base.Expert, ...] = dataclasses.field(
    default_factory=make_experts
  )
  use_punctuation: bool = True
  manner: str = folds.YEARS

  def __post_init__(self):
    expert_panel.check_experts(self.experts)
    folds.check_manner(self.manner)

  @classmethod
  def without(cls, names: Iterable[str], seed: int = 42) -> DatingModel:
    """Returns a model that leaves evidence out, for an ablation.

    Args:
      names: of `options.EVIDENCE`.
      seed: of the year encoder.

    Raises:
      ValueError: if a name is unknown.
    """
    names = check_evidence(names)
    return cls(make_experts(names, seed), "punctuation" not in names)

  def fit(
    self,
    corpus: Corpus,
    labels: Labels,
    features: CorpusFeatures | None = None,
  ) -> FittedDatingModel:
    """Returns the model fitted on a corpus of labelled and other records.

    Args:
      corpus: the records.
      labels: months and kinds of those that are known.
      features: of the corpus, where they were read before with these labels and
        this `use_punctuation`.

    Raises:
      TypeError: if the records or the labels are of another type.
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
    weights = expert_weights.fit_expert_weights(
      self.experts, features, labels, self.manner
    )
    return FittedDatingModel(
      experts=self.experts,
      features=features,
      labels=labels,
      weights=weights,
      manner=self.manner,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedDatingModel(fitted_model.FittedModel):
  """A model that dates the records of its corpus.

  Attributes:
    experts: sources of evidence.
    weights: of the experts.
  """

  experts: tuple[base.Expert, ...]
  weights: expert_weights.ExpertWeights

  def _score_records(
    self,
    labels: Labels,
    is_target: Bool[np.ndarray, " N"],
    for_reasons: bool = False,
  ) -> tuple[record_scores.RecordScores, PosteriorBlock]:
    panel = expert_panel.fit_panel(
      self.experts, self.features, labels, self.weights.by_expert
    )
    scores = record_scores.score_hidden_records(
      panel, self.weights.pool_weights, for_reasons
    )
    block = scores.make_block(self.weights.inverse_temperature, is_target)
    return scores, block

  def _explain_hidden_record(
    self,
    scores: record_scores.RecordScores,
    block: PosteriorBlock,
    row: int,
    month: int,
  ) -> list[base.Reason]:
    return explanation.explain_hidden_record(
      scores, block, self.weights.pool_weights, row, month
    )
