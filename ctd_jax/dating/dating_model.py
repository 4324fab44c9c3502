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
import functools
from collections.abc import Iterable

import numpy as np
from absl import logging
from jaxtyping import Bool, Float

from ctd_jax.dating import (
  expert_panel,
  expert_weights,
  explanation,
  folds,
  record_scores,
)
from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels
from ctd_jax.dating.experts import base
from ctd_jax.dating.features import CorpusFeatures, read_corpus_features
from ctd_jax.dating.options import (
  ELIMINATION,
  FITTED,
  STRICT,
  check_evidence,
  check_variant,
)
from ctd_jax.dating.posterior import Posterior, PosteriorBlock
from ctd_jax.utils import progress


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
    fold_by: what is hidden together to learn weights, of `folds.FOLD_BY`:
      "years" where the records to be dated are of years without known records,
      "records" where all years are known.
  """

  experts: tuple[base.Expert, ...] = dataclasses.field(
    default_factory=make_experts
  )
  use_punctuation: bool = True
  fold_by: str = folds.YEARS

  def __post_init__(self):
    expert_panel.check_experts(self.experts)
    folds.check_fold_by(self.fold_by)

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
      self.experts, features, labels, self.fold_by
    )
    return FittedDatingModel(
      experts=self.experts,
      features=features,
      labels=labels,
      weights=weights,
      fold_by=self.fold_by,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedDatingModel:
  """A model that dates the records of its corpus.

  Attributes:
    experts: sources of evidence.
    features: of the corpus.
    labels: months and kinds of the known records.
    weights: of the experts.
    fold_by: what is hidden together, of `folds.FOLD_BY`.
  """

  experts: tuple[base.Expert, ...]
  features: CorpusFeatures
  labels: Labels
  weights: expert_weights.ExpertWeights
  fold_by: str = folds.YEARS
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
      variant: "fitted": labelled records have the months of their labels;
        "elimination": besides, months that have labelled records have no
        others; "strict": every record is dated by others, labelled ones with
        their fold hidden.

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
    fold_of_record = folds.fold_records(corpus, self.labels, self.fold_by)
    labelled_blocks = [
      self._score_records(*self._hide_fold(int(fold)))[1]
      for fold in progress.Progress(
        np.unique(fold_of_record[self.labels.is_known]),
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
    """Returns the reasons for the month of a record, the weightiest first.

    Their `log_scores` add up to the unnormalised log score of the months. The
    first call scores all records as `predict` does; later ones of the same
    variant (of "strict", the same fold) are quick.

    Args:
      row: the record.
      month: ordinal month to explain; the likeliest by default.
      variant: as of `predict`.

    Raises:
      ValueError: if the variant is unknown.
      IndexError: if there is no such record or month.
    """
    check_variant(variant)
    corpus = self.features.corpus
    num_months = len(corpus.axis)
    if not 0 <= row < len(corpus):
      raise IndexError(f"row is 0..{len(corpus) - 1}, got {row}")
    if month is not None and not 0 <= month < num_months:
      raise IndexError(f"month is 0..{num_months - 1}, got {month}")
    certain = {explanation.PLACEHOLDER: int(corpus.placeholder_month[row])}
    if variant != STRICT:
      # A label goes before what the text states.
      certain = {explanation.LABEL: int(self.labels.month[row])} | certain
    for name, known_month in certain.items():
      if known_month != UNKNOWN:
        return explanation.explain_certain_record(
          name, num_months, known_month, known_month if month is None else month
        )
    fold = UNKNOWN
    if variant == STRICT:
      fold = int(folds.fold_records(corpus, self.labels, self.fold_by)[row])
    if fold not in self._explained:
      self._explained.clear()
      self._explained[fold] = self._score_records(*self._hide_fold(fold), True)
    scores, block = self._explained[fold]
    block = self._eliminate(block, variant)
    if month is None:
      index = np.flatnonzero(block.rows == row)
      month = int(block.log_p(index)[0].argmax())
    return explanation.explain_hidden_record(
      scores, block, self.weights.pool_weights, row, month
    )

  def _hide_fold(self, fold: int) -> tuple[Labels, np.ndarray]:
    """Returns the labels without a fold, and its records, bool [N].

    The fold UNKNOWN is that of the records without a label.
    """
    if fold == UNKNOWN:
      return self.labels, ~self.labels.is_known
    is_hidden = (
      folds.fold_records(self.features.corpus, self.labels, self.fold_by)
      == fold
    )
    return self.labels.hide_records(is_hidden), is_hidden

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
  ) -> tuple[record_scores.RecordScores, PosteriorBlock]:
    """Returns scores for explanations, and the posteriors of the targets.

    Args:
      labels: those that may be used.
      is_target: records to date, none of them labelled.
      for_reasons: whether the scores will be explained.
    """
    panel = expert_panel.fit_panel(
      self.experts, self.features, labels, self.weights.by_expert
    )
    scores = record_scores.score_hidden_records(
      panel, self.weights.pool_weights, for_reasons
    )
    block = scores.make_block(self.weights.inverse_temperature, is_target)
    return scores, block
