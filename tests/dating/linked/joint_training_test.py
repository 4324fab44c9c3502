"""One dater of several corpora, whose calendars and sizes differ."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from ctd_jax.dating import corpus, folds
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.linked import joint_training, trained_dater
from ctd_jax.dating.linked.fitting import FittingConfig
from ctd_jax.dating.linked.joint_training import KnownRecords
from ctd_jax.dating.linked.linked_model import LinkedDatingModel
from tests.dating import chronicles
from tests.dating.linked.conftest import MODEL

_BRIEF = dataclasses.replace(
  MODEL, fitting_config=FittingConfig(link_steps=20, steps=20)
)


def read_records(chronicle, labels=None, model=_BRIEF):
  return KnownRecords(
    model=model,
    corpus=corpus.read_corpus(chronicle.texts, chronicles.TIMELINE),
    labels=chronicle.labels() if labels is None else labels,
  )


def take_part(chronicle, rest):
  """A part of the chronicle: other sizes of all arrays."""
  rows = np.arange(len(chronicle.texts))
  return chronicle.take(np.flatnonzero(rows % 3 == rest))


@pytest.fixture(scope="module")
def records(chronicle):
  """A part in which years are hidden, one in which records are."""
  by_records = dataclasses.replace(
    _BRIEF,
    manner=folds.RECORDS,
    use_punctuation=False,
    config=dataclasses.replace(_BRIEF.config, use_capacity=False),
  )
  return [
    read_records(take_part(chronicle, 0)),
    read_records(take_part(chronicle, 1), model=by_records),
  ]


@pytest.fixture(scope="module")
def together(records):
  return joint_training.train_dater(_BRIEF, records)


def test_a_dater_of_two_corpora_dates_a_third(chronicle, fit, together):
  third = take_part(chronicle, 2)
  dated, poor = (
    fit(third, model=model)
    for model in (
      LinkedDatingModel.from_trained(together),
      dataclasses.replace(
        MODEL, fitting_config=FittingConfig(link_steps=0, steps=0)
      ),
    )
  )
  good, poor = (chronicles.measure(each, third) for each in (dated, poor))
  assert good["nll"] < np.log(360) - 0.5
  assert good["nll"] < poor["nll"]


def test_every_corpus_teaches(records, together):
  assert together.trained_on.count("known records of") == 2
  assert together.config == _BRIEF.config
  alone = joint_training.train_dater(_BRIEF, records[:1])
  assert set(alone.word_weights) <= set(together.word_weights)
  assert any(
    not np.allclose(value, alone.word_weights[name])
    for name, value in together.word_weights.items()
    if name in alone.word_weights
  )
  assert not np.allclose(
    alone.params["log_inverse_temperature"],
    together.params["log_inverse_temperature"],
    atol=1e-4,
  )


def test_one_corpus_trains_the_dater_that_it_trains_alone(records):
  first = records[0]
  together = joint_training.train_dater(_BRIEF, [first])
  alone = _BRIEF.fit(first.corpus, first.labels).trained
  assert together.word_weights.keys() == alone.word_weights.keys()
  for name, value in alone.word_weights.items():
    np.testing.assert_allclose(together.word_weights[name], value)
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, atol=1e-4),
    together.params,
    alone.params,
  )


def test_a_corpus_without_a_known_event_teaches_nothing(chronicle, records):
  nothing = np.full(len(take_part(chronicle, 2).texts), UNKNOWN)
  blank = read_records(take_part(chronicle, 2), Labels(nothing, nothing))
  with pytest.raises(ValueError, match="no known event in 1 corpora"):
    joint_training.train_dater(_BRIEF, [blank])
  model = dataclasses.replace(
    _BRIEF, fitting_config=FittingConfig(link_steps=0, steps=0)
  )
  trained = joint_training.train_dater(model, [blank, records[0]])
  assert trained.trained_on.count("known records of") == 1


def test_weights_of_words_are_the_mean_of_those_that_have_the_group():
  weights = trained_dater.average_weights(
    [{"1:2-3": [1.0, 2.0]}, {"1:2-3": [3.0, 0.0], "2:2-3": [5.0, 5.0]}]
  )
  assert weights == {"1:2-3": [2.0, 1.0], "2:2-3": [5.0, 5.0]}
