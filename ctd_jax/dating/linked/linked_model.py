"""Linked dating model: a trained model that dates records by one another.

Host side of `models.linked_dater`: it reads the evidence of a corpus, learns
the parameters on known records that are hidden, and dates the others. The
posterior is one of `posterior`, as that of `dating_model.DatingModel` is.

Axes: N records, K months.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Bool, Int

from ctd_jax.dating import (
  expert_panel,
  expert_weights,
  fitted_model,
  folds,
  record_scores,
)
from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels
from ctd_jax.dating.dating_model import make_experts
from ctd_jax.dating.experts import base, month_capacity
from ctd_jax.dating.features import CorpusFeatures, read_corpus_features
from ctd_jax.dating.linked import (
  block_scoring,
  fitting,
  hidden_records,
  link_reasons,
  link_tables,
  linked_passages,
)
from ctd_jax.dating.linked.fitting import (
  FittingConfig,
  Fold,
  Targets,
  TrainingCorpus,
)
from ctd_jax.dating.linked.hidden_records import HiddenRecords
from ctd_jax.dating.linked.link_tables import LinkTables
from ctd_jax.dating.linked.trained_dater import TrainedDater, name_weights
from ctd_jax.dating.posterior import PosteriorBlock
from ctd_jax.models.linked_dater import (
  LinkedDater,
  LinkedDaterConfig,
  LinkedScores,
)
from ctd_jax.utils import progress

# Comments are dated by their words in any case.
_REQUIRED_EXPERTS = ("prior", "dates", "words")


@dataclasses.dataclass(frozen=True)
class LinkedDatingModel:
  """A linked dating model before it is fitted.

  Attributes:
    config: size and evidence of the network.
    fitting_config: how its parameters are learned.
    experts: that read a record's own text: printed dates and years, words, and
      the encoder where `config.readers` has it.
    manner: what is hidden together, as of `dating_model.DatingModel`.
    use_punctuation: whether punctuation may tell events from commentary.
    seed: of parameters, order and dropout.
    trained: on this corpus or another; then no parameter of the network is
      learned.
  """

  config: LinkedDaterConfig
  fitting_config: FittingConfig
  experts: tuple[base.Expert, ...]
  manner: str = folds.YEARS
  use_punctuation: bool = True
  seed: int = 42
  trained: TrainedDater | None = None

  @classmethod
  def make(
    cls,
    config: LinkedDaterConfig | None = None,
    fitting_config: FittingConfig | None = None,
    seed: int = 42,
  ) -> LinkedDatingModel:
    """Returns the model with the experts that its config reads.

    Args:
      config: size and evidence of the network.
      fitting_config: how its parameters are learned.
      seed: of parameters, order and dropout, those of the encoder too.
    """
    config = config or LinkedDaterConfig()
    fitting_config = fitting_config or FittingConfig()
    readers = {*_REQUIRED_EXPERTS, *config.readers}
    experts = tuple(
      expert
      for expert in make_experts(() if config.use_days else ("days",), seed)
      if expert.name in readers
    )
    return cls(config, fitting_config, experts, seed=seed)

  @classmethod
  def from_trained(cls, trained: TrainedDater) -> LinkedDatingModel:
    """Returns the model that applies what was trained.

    Its `fit` reads off the known records which years have which strings, and
    fits the encoder of years to them, as for every corpus; no parameter of the
    network is learned.

    Args:
      trained: on the corpus to be dated or another.
    """
    model = cls.make(trained.config, seed=trained.seed)
    return dataclasses.replace(model, trained=trained)

  def fit(
    self,
    corpus: Corpus,
    labels: Labels,
    features: CorpusFeatures | None = None,
  ) -> FittedLinkedModel:
    """Returns the model fitted on a corpus of labelled and other records.

    Args:
      corpus: the records.
      labels: months and kinds of those that are known.
      features: of the corpus, where they were read before with these labels and
        this `use_punctuation`.
    """
    fitted = self.read_corpus(corpus, labels, features)
    if self.trained is None:
      params = self._fit_params(fitted)
      fitted = dataclasses.replace(fitted, params=params)
    return fitted

  def read_corpus(
    self,
    corpus: Corpus,
    labels: Labels,
    features: CorpusFeatures | None = None,
  ) -> FittedLinkedModel:
    """Returns the model beside a corpus, without parameters if none are there.

    Args:
      corpus: as of `fit`.
      labels: likewise.
      features: likewise.
    """
    if features is None:
      features = read_corpus_features(corpus, labels, self.use_punctuation)
    if self.trained is None:
      word_weights = expert_weights.fit_word_weights(
        self.experts, features, labels, self.manner
      )
    else:
      word_weights = self.trained.weigh_words(features.year_vocabulary)
    return FittedLinkedModel(
      features=features,
      labels=labels,
      manner=self.manner,
      network=LinkedDater(self.config),
      params=None if self.trained is None else self.trained.params,
      experts=self.experts,
      word_weights=word_weights,
      tables=link_tables.make_link_tables(features),
      seed=self.seed,
      source=self.trained,
    )

  def _fit_params(self, unfitted: FittedLinkedModel) -> Any:
    """Returns the parameters, learned on every fold that has an event."""
    corpus, config = unfitted.make_training_corpus(), self.fitting_config
    if not corpus.folds:  # no known event to learn from
      labels = unfitted.labels
      records = unfitted.read_records(labels)
      fold = _make_fold(records, np.zeros(0, int), labels)
      corpus = dataclasses.replace(corpus, folds=[fold])
      logging.warning(
        "dating: no known event of %s records to learn from; the linked dater "
        "has its initial parameters",
        f"{len(labels.month):,}",
      )
      config = dataclasses.replace(config, steps=0)
    return fitting.fit_params([corpus], config, self.seed)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedLinkedModel(fitted_model.FittedModel):
  """A linked model that dates the records of its corpus.

  Attributes:
    network: the model.
    params: its parameters.
    experts: that read a record's own text.
    word_weights: of the groups of strings.
    tables: links of all records.
    seed: of the training.
    source: what was trained elsewhere; None if it was here.
  """

  network: LinkedDater
  params: Any
  experts: tuple[base.Expert, ...]
  word_weights: np.ndarray
  tables: LinkTables
  seed: int
  source: TrainedDater | None = None

  @property
  def trained(self) -> TrainedDater:
    """What was learned, to be saved or applied to another corpus."""
    if self.source is not None:
      return self.source
    return TrainedDater(
      config=self.network.config,
      params=self.params,
      word_weights=name_weights(
        self.word_weights, self.features.year_vocabulary
      ),
      trained_on=self.known_records,
      seed=self.seed,
    )

  @property
  def known_records(self) -> str:
    """How many there are, as in "20 known records of 30, timeline lu"."""
    timeline = self.features.axis.timeline.name
    return (
      f"{int(self.labels.is_known.sum()):,} known records of "
      f"{len(self.features.corpus):,}, timeline {timeline}"
    )

  def read_records(self, labels: Labels) -> HiddenRecords:
    """Returns the records that labels hide, as the network reads them."""
    panel = expert_panel.fit_panel(
      self.experts, self.features, labels, {"words": self.word_weights}
    )
    # Beside hidden years, no known record is of a month that is asked for.
    return hidden_records.read_hidden_records(
      panel, self.tables, known_speak=self.manner == folds.RECORDS
    )

  def make_passage_dater(self) -> linked_passages.LinkedPassageDater:
    """Returns the dater of texts that are in no corpus, beside this one."""
    scored, block = self._score_records(*self._hide_fold(UNKNOWN), True)
    return linked_passages.LinkedPassageDater.make(
      self.network, self.params, scored, block, self.tables
    )

  def make_training_corpus(self) -> TrainingCorpus:
    """Returns the known records, hidden fold by fold where one has an event."""
    labels = self.labels
    fold_of_record = folds.fold_records(
      self.features.corpus, labels, self.manner
    )
    bar = progress.Progress(
      np.unique(fold_of_record[labels.is_known]),
      "dating: hidden years",
      unit="fold",
    )
    hidden_folds = []
    for fold in bar:
      records = self.read_records(labels.hide_records(fold_of_record == fold))
      rows = np.flatnonzero(fold_of_record[records.event_rows] == fold)
      if len(rows):
        hidden_folds.append(_make_fold(records, rows, labels))
    examples = fitting.make_link_examples(self.features, self.tables, labels)
    return TrainingCorpus(self.network, hidden_folds, examples)

  def _score_records(
    self,
    labels: Labels,
    is_target: Bool[np.ndarray, " N"],
    for_reasons: bool = False,
  ) -> tuple[link_reasons.ScoredRecords, PosteriorBlock]:
    records = self.read_records(labels)
    scores = block_scoring.score_records(
      self.network, self.params, records.inputs
    )
    block = make_block(records, scores)
    if self.network.config.use_capacity:
      capacity = month_capacity.MonthCapacity().fit(self.features, labels, {})
      balanced = record_scores.balance_capacity(capacity, block)
      block = dataclasses.replace(block, month_log_factors=balanced.log_factors)
    scored = link_reasons.ScoredRecords(
      records=records, scores=scores if for_reasons else None
    )
    return scored, block.select(is_target[block.rows])

  def _explain_hidden_record(
    self,
    scores: link_reasons.ScoredRecords,
    block: PosteriorBlock,
    row: int,
    month: int,
  ) -> list[base.Reason]:
    return link_reasons.explain_record(scores, block, row, month)


def make_block(records: HiddenRecords, scores: LinkedScores) -> PosteriorBlock:
  """Returns the posteriors of all hidden records, the months not balanced.

  Args:
    records: the hidden records.
    scores: of the network, for them.
  """
  features = records.panel.features
  num_hidden = records.num_hidden
  rows = np.concatenate([records.event_rows[:num_hidden], records.comment_rows])
  order = np.argsort(rows)
  year_scores = np.concatenate(
    [scores.event_years[:num_hidden], scores.comment_years]
  )
  months = np.zeros((len(rows), 12), np.float32)
  months[:num_hidden] = scores.event_months[:num_hidden]
  return PosteriorBlock(
    rows=rows[order],
    dates=records.panel.experts["dates"],
    year_scores=year_scores[order],
    month_of_year_log_ratios=months[order],
    month_log_factors=np.zeros(len(features.axis), np.float32),
    opens_month=features.opens_month[rows[order]],
    inverse_temperature=float(scores.inverse_temperature),
    allowed_months=np.ones(len(features.axis), bool),
  )


def _make_fold(
  records: HiddenRecords, rows: Int[np.ndarray, " t"], labels: Labels
) -> Fold:
  """Returns hidden records whose months are known of some.

  Args:
    records: all that are hidden.
    rows: indices of the events whose months are learned.
    labels: their months.
  """
  event_rows = records.event_rows[rows]
  opens_month = records.panel.features.opens_month[event_rows]
  return Fold(
    inputs=records.inputs,
    openers=hidden_records.read_openers(records),
    targets=Targets(
      rows=rows.astype(np.int32),
      months=labels.month[event_rows].astype(np.int32),
      weights=np.ones(len(rows), np.float32),
      opens_month=opens_month.astype(np.float32),
      dates=hidden_records.read_date_scores(records, rows),
    ),
  )
