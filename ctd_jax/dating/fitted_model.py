"""Fitted model: posteriors and reasons of a corpus, by whatever scores it.

A scorer dates the records of one fold, with the labels of that fold hidden. The
variants of the posterior and the bounds of an explanation are the same for all.

Axes: N records, K months.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Bool, Float

from ctd_jax.dating import explanation, folds
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.experts import base
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.dating.options import ELIMINATION, FITTED, STRICT, check_variant
from ctd_jax.dating.posterior import Posterior, PosteriorBlock
from ctd_jax.utils import progress


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedModel(abc.ABC):
  """A model that dates the records of its corpus.

  Attributes:
    features: of the corpus.
    labels: months and kinds of the known records.
    manner: what is hidden together, of `folds.MANNERS`.
  """

  features: CorpusFeatures
  labels: Labels
  manner: str = folds.YEARS
  # Scores and posteriors of the last fold that was explained.
  _explained: dict = dataclasses.field(
    default_factory=dict, init=False, repr=False
  )

  @abc.abstractmethod
  def _score_records(
    self,
    labels: Labels,
    is_target: Bool[np.ndarray, " N"],
    for_reasons: bool = False,
  ) -> tuple[Any, PosteriorBlock]:
    """Returns scores for explanations, and the posteriors of the targets.

    Args:
      labels: those that may be used.
      is_target: records to date, none of them labelled.
      for_reasons: whether the scores are read.
    """

  @abc.abstractmethod
  def _explain_hidden_record(
    self, scores: Any, block: PosteriorBlock, row: int, month: int
  ) -> list[base.Reason]:
    """Returns the reasons for a month, the weightiest first."""

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
    fold_of_record = folds.fold_records(corpus, self.labels, self.manner)
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
      fold = int(folds.fold_records(corpus, self.labels, self.manner)[row])
    if fold not in self._explained:
      self._explained.clear()
      self._explained[fold] = self._score_records(*self._hide_fold(fold), True)
    scores, block = self._explained[fold]
    block = self._eliminate(block, variant)
    if month is None:
      index = np.flatnonzero(block.rows == row)
      month = int(block.log_p(index)[0].argmax())
    return self._explain_hidden_record(scores, block, row, month)

  def _hide_fold(self, fold: int) -> tuple[Labels, np.ndarray]:
    """Returns the labels without a fold, and its records, bool [N].

    The fold UNKNOWN is that of the records without a label.
    """
    if fold == UNKNOWN:
      return self.labels, ~self.labels.is_known
    is_hidden = (
      folds.fold_records(self.features.corpus, self.labels, self.manner) == fold
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
