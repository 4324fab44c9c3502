"""Joint training: one linked dater, learned on the known records of corpora.

The corpora may have calendars, sizes and manners of their own, since nothing
that is learned knows one. Each keeps what is read off it, and an update is on a
fold of one of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from absl import logging

from ctd_jax.dating.corpus import Corpus, Labels
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.dating.linked import fitting, trained_dater
from ctd_jax.dating.linked.linked_model import LinkedDatingModel
from ctd_jax.dating.linked.trained_dater import TrainedDater


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownRecords:
  """A corpus to learn from.

  Attributes:
    model: reads the corpus: its experts, manner and punctuation.
    corpus: the records.
    labels: months and kinds of those that are known.
    features: of the corpus, where they were read before.
  """

  model: LinkedDatingModel
  corpus: Corpus
  labels: Labels
  features: CorpusFeatures | None = None


def train_dater(
  model: LinkedDatingModel, all_records: Sequence[KnownRecords]
) -> TrainedDater:
  """Returns the dater that was trained on several corpora.

  A corpus without a known event teaches nothing.

  Args:
    model: its config, updates and seed are those of the dater.
    all_records: the corpora.

  Raises:
    ValueError: if no corpus has a known event.
  """
  unfitted = [
    records.model.read_corpus(records.corpus, records.labels, records.features)
    for records in all_records
  ]
  has_event = [
    bool((each.labels.is_known & each.features.is_event).any())
    for each in unfitted
  ]
  for each, has_known_event in zip(unfitted, has_event, strict=True):
    if not has_known_event:
      logging.warning(
        "dating: nothing is learned from %s: none is an event by its style",
        each.known_records,
      )
  unfitted = list(itertools.compress(unfitted, has_event))
  if not unfitted:
    raise ValueError(
      f"no known event in {len(all_records)} corpora; expected one with "
      "records of known months"
    )
  trained = TrainedDater(
    config=model.config,
    params=None,
    # One set for all, in training as where the dater is applied.
    word_weights=trained_dater.average_weights(
      [each.trained.word_weights for each in unfitted]
    ),
    trained_on="; ".join(each.known_records for each in unfitted),
    seed=model.seed,
  )
  corpora = []
  for each in unfitted:
    logging.info("dating: learning from %s", each.known_records)
    weights = trained.weigh_words(each.features.year_vocabulary)
    corpora.append(
      dataclasses.replace(each, word_weights=weights).make_training_corpus()
    )
  params = fitting.fit_params(corpora, model.fitting_config, model.seed)
  return dataclasses.replace(trained, params=params)
