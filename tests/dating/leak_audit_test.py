"""Audit that no label leaks, of the dating model."""

import dataclasses

import numpy as np
import pytest

from ctd_jax.benchmark.benchmark import EVENT, NEG_COMMENT
from ctd_jax.dating import corpus
from ctd_jax.dating.corpus import Labels
from ctd_jax.dating.dating_model import DatingModel
from ctd_jax.dating.posterior import Posterior
from ctd_jax_datasets.chunqiutr import mini
from tests.dating import chronicles

pytestmark = pytest.mark.slow

MODEL = DatingModel.without(["neural"])


@pytest.fixture(scope="module")
def chronicle():
  return chronicles.make_chronicle()


@pytest.fixture(scope="module")
def fitted(chronicle):
  return fit(chronicle)


def fit(chronicle):
  return MODEL.fit(chronicle.read(), chronicle.labels())


def test_labels_of_hidden_records_have_no_way_in(chronicle, fitted):
  draw = np.random.default_rng(3)
  hidden = np.flatnonzero(~chronicle.train)
  months, answers = chronicle.months.copy(), chronicle.answers.copy()
  months[hidden] = draw.integers(len(chronicles.TIMELINE), size=len(hidden))
  answers[hidden] = draw.integers(2, size=len(hidden))
  other = dataclasses.replace(chronicle, months=months, answers=answers)
  np.testing.assert_array_equal(
    fit(other).predict().log_p(hidden), fitted.predict().log_p(hidden)
  )


def test_order_of_the_records_carries_nothing(chronicle, fitted):
  order = np.random.default_rng(5).permutation(len(chronicle.texts))
  rows = np.flatnonzero(~chronicle.train[order])
  shuffled = fit(chronicle.take(order)).predict().log_p(rows)
  whole = fitted.predict().log_p(order[rows])
  difference = np.abs(np.exp(shuffled) - np.exp(whole))
  # A fit ends near its optimum, not on it; how near depends on the machine.
  assert difference.max() < 0.1
  assert difference.sum(axis=1).mean() / 2 < 0.02  # total variation


def test_strict_does_not_know_its_own_label(chronicle, fitted):
  labels = chronicle.labels()
  events = np.flatnonzero(chronicle.train & fitted.features.is_event)
  strict = fitted.predict("strict").log_p(events)
  own = strict[np.arange(len(events)), chronicle.months[events]]
  assert own.mean() < -1
  # Another month for every record of one fold changes nothing of that fold.
  fold_of_record = corpus.assign_folds(fitted.features.axis, labels)
  in_fold = fold_of_record[events] == 1
  months, rows = labels.month.copy(), np.flatnonzero(fold_of_record == 1)
  months[rows] = months[np.random.default_rng(7).permutation(rows)]
  other = dataclasses.replace(
    fitted, labels=Labels(months, labels.event_labels)
  )
  posterior = Posterior(
    axis=fitted.features.axis,
    certain_months=fitted.features.corpus.placeholder_month,
    blocks=(other._score_records(*other._hide_fold(1))[1],),
  )
  np.testing.assert_array_equal(
    posterior.log_p(events[in_fold]), strict[in_fold]
  )


def test_kinds_of_this_audit_are_those_of_the_data():
  assert {record.kind for record in mini.generate_records(0)} == {
    EVENT,
    NEG_COMMENT,
  }
