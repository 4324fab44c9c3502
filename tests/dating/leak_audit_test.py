"""Audit that no label leaks, of the pipeline of counts and the linked model."""

import dataclasses

import numpy as np
import pytest

from ctd_jax.benchmark.records import EVENT, NEG_COMMENT
from ctd_jax.dating import corpus, folds
from ctd_jax.dating.corpus import Labels
from ctd_jax.dating.dating_model import DatingModel
from ctd_jax.dating.linked.fitting import FittingConfig
from ctd_jax.dating.linked.linked_model import LinkedDatingModel
from ctd_jax.dating.posterior import Posterior
from ctd_jax.models.linked_dater import LinkedDaterConfig
from ctd_jax_datasets.chunqiutr import mini
from tests.dating import chronicles

pytestmark = pytest.mark.slow

# Without dropout, which of two records with one text is first plays no part.
MODELS = {
  "counts": DatingModel.without(["neural"]),
  "linked": LinkedDatingModel.make(
    LinkedDaterConfig(readers=("words",), hidden_size=16, dropout=0.0),
    FittingConfig(link_steps=60, steps=40),
  ),
}


@pytest.fixture(scope="module")
def chronicle():
  return chronicles.make_chronicle()


@pytest.fixture(scope="module", params=MODELS)
def model(request):
  return MODELS[request.param]


@pytest.fixture(scope="module")
def fitted(model, chronicle):
  return fit(model, chronicle)


def fit(model, chronicle, labels=None):
  texts = corpus.read_corpus(chronicle.texts, chronicles.TIMELINE)
  return model.fit(texts, chronicle.labels() if labels is None else labels)


def compare_chances(log_p, other):
  """The greatest difference of a chance, and the mean total variation."""
  difference = np.abs(np.exp(log_p) - np.exp(other))
  return difference.max(), difference.sum(axis=1).mean() / 2


def test_labels_of_hidden_records_have_no_way_in(model, chronicle, fitted):
  draw = np.random.default_rng(3)
  hidden = np.flatnonzero(~chronicle.train)
  months, answers = chronicle.months.copy(), chronicle.answers.copy()
  months[hidden] = draw.integers(len(chronicles.TIMELINE), size=len(hidden))
  answers[hidden] = draw.integers(2, size=len(hidden))
  other = dataclasses.replace(chronicle, months=months, answers=answers)
  np.testing.assert_array_equal(
    fit(model, other).predict().log_p(hidden), fitted.predict().log_p(hidden)
  )


def test_order_of_the_records_carries_nothing(model, chronicle, fitted):
  order = np.random.default_rng(5).permutation(len(chronicle.texts))
  rows = np.flatnonzero(~chronicle.train[order])
  most, mean = compare_chances(
    fit(model, chronicle.take(order)).predict().log_p(rows),
    fitted.predict().log_p(order[rows]),
  )
  # A fit ends near its optimum, not on it; how near depends on the machine.
  assert most < 0.1
  assert mean < 0.02


def test_strict_does_not_know_its_own_label(chronicle, fitted):
  labels = chronicle.labels()
  events = np.flatnonzero(chronicle.train & fitted.features.is_event)
  strict = fitted.predict("strict").log_p(events)
  own = strict[np.arange(len(events)), chronicle.months[events]]
  assert own.mean() < -1
  # Another month for every record of one fold changes nothing of that fold.
  fold_of_record = folds.assign_folds(fitted.features.axis, labels)
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


def test_order_is_rounded_off_where_nothing_is_learned(chronicle):
  """Parameters as they are: no loop of updates makes more of a rounding."""
  first = fit(MODELS["linked"], chronicle)
  model = LinkedDatingModel.from_trained(first.trained)
  order = np.random.default_rng(5).permutation(len(chronicle.texts))
  rows = np.flatnonzero(~chronicle.train[order])
  most, _ = compare_chances(
    fit(model, chronicle.take(order)).predict().log_p(rows),
    first.predict().log_p(order[rows]),
  )
  assert most < 1e-3


def test_kinds_of_this_audit_are_those_of_the_data():
  assert {record.kind for record in mini.generate_records(0)} == {
    EVENT,
    NEG_COMMENT,
  }
