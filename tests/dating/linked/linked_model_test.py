"""The linked model on an invented chronicle."""

import dataclasses
import functools

import numpy as np
import pytest

from ctd_jax.dating import calibration, folds
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.linked.fitting import FittingConfig
from ctd_jax.systems import linked_dating
from tests.dating.linked.conftest import MODEL


@pytest.fixture(scope="module")
def dated(fitted):
  """The posterior of every variant, made on first use."""
  return functools.cache(fitted.predict)


def hidden_events(chronicle, fitted):
  return np.flatnonzero(~chronicle.train & fitted.features.is_event)


def test_hidden_events_are_dated_far_above_chance(chronicle, fitted, dated):
  rows = hidden_events(chronicle, fitted)
  metrics = calibration.compute_posterior_metrics(
    dated("fitted"), rows, chronicle.months[rows]
  )
  assert metrics["year"] > 0.25  # chance is 1 in 30
  assert metrics["month"] > 0.2  # chance is 1 in 360
  assert metrics["nll"] < np.log(360) - 1.5


def test_every_posterior_sums_to_one(chronicle, dated):
  log_p = dated("fitted").log_p(np.arange(len(chronicle.texts)))
  assert log_p.dtype == np.float32
  np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-4)


def test_known_records_and_placeholders_are_certain(chronicle, fitted, dated):
  is_placeholder = fitted.features.corpus.is_placeholder
  certain = np.flatnonzero(chronicle.train | is_placeholder)
  assert np.array_equal(
    dated("fitted").log_p(certain).argmax(axis=1), chronicle.months[certain]
  )


def test_elimination_leaves_the_months_of_hidden_records(
  chronicle, fitted, dated
):
  rows = hidden_events(chronicle, fitted)
  chances = np.exp(dated("elimination").log_p(rows))
  taken = np.unique(chronicle.months[chronicle.train])
  assert chances[:, taken].sum(axis=1).max() < 1e-6


def test_reasons_add_up_to_the_score(chronicle, fitted, dated):
  (block,) = dated("fitted").blocks
  comments = np.flatnonzero(
    ~chronicle.train
    & ~fitted.features.is_event
    & ~fitted.features.corpus.is_placeholder
  )
  for row in (*hidden_events(chronicle, fitted)[::40], *comments[:2]):
    reasons = fitted.explain(int(row))
    index = np.flatnonzero(block.rows == row)
    expected = block.score_months(index)[0]
    expected += np.where(block.opens_month[index], block.month_log_factors, 0)
    total = sum(reason.log_scores for reason in reasons)
    np.testing.assert_allclose(total, expected, atol=1e-3)
    weights = [abs(reason.weight) for reason in reasons]
    assert weights == sorted(weights, reverse=True)
    assert {"prior", "words"} <= {reason.expert for reason in reasons}


def test_links_are_reasons(chronicle, fitted):
  names = set()
  for row in hidden_events(chronicle, fitted):
    for reason in fitted.explain(int(row)):
      if reason.evidence.linked_rows:
        names.add(reason.expert)
      for linked in reason.evidence.linked_rows:
        assert 0 <= linked < len(chronicle.texts)
        assert linked != row
  assert {"parallels", "comments"} <= names


def test_a_corpus_of_which_nothing_is_known_has_the_prior(chronicle, fit):
  nothing = np.full(len(chronicle.texts), UNKNOWN)
  fitted = fit(chronicle, labels=Labels(nothing, nothing))
  rows = np.flatnonzero(~fitted.features.corpus.is_placeholder)
  log_p = fitted.predict().log_p(rows)
  np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-4)
  for row in (rows[0], rows[-1]):
    assert {reason.expert for reason in fitted.explain(int(row))} >= {"prior"}


def test_a_corpus_without_commentary_is_dated_and_explained(chronicle, fit):
  is_comment = np.array([not answers for answers in chronicle.answers.tolist()])
  events = chronicle.take(np.flatnonzero(~is_comment))
  fitted = fit(events)
  rows = np.flatnonzero(~events.train & fitted.features.is_event)
  metrics = calibration.compute_posterior_metrics(
    fitted.predict(), rows, events.months[rows]
  )
  assert metrics["month"] > 1 / 360
  for row in rows[::50]:
    reasons = {reason.expert: reason for reason in fitted.explain(int(row))}
    assert {"prior", "words"} <= reasons.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", linked_dating.EVIDENCE)
def test_every_evidence_can_be_left_out(chronicle, fit, name):
  # The encoder takes longest, and is needed where the words are not.
  off = {name} if name == "words" else {name, "neural"}
  config = linked_dating.LinkedConfig(
    off=tuple(off), hidden_size=8, link_steps=2, steps=2
  )
  config.validate()
  fitted = fit(chronicle, model=linked_dating.make_linked_model(config, 1))
  row = int(hidden_events(chronicle, fitted)[0])
  names = {reason.expert for reason in fitted.explain(row)}
  assert name not in names
  assert "prior" in names


def test_without_rounds_records_are_dated_by_their_own_texts(chronicle, fit):
  model = dataclasses.replace(
    MODEL, config=dataclasses.replace(MODEL.config, rounds=0)
  )
  fitted = fit(chronicle, model=model)
  row = int(hidden_events(chronicle, fitted)[0])
  names = {reason.expert for reason in fitted.explain(row)}
  assert not names & {"cited", "parallels", "comments"}


@pytest.mark.slow
def test_known_records_speak_where_records_are_hidden_one_by_one(
  chronicle, fit, dated
):
  model = dataclasses.replace(MODEL, manner=folds.RECORDS)
  fitted = fit(chronicle, model=model)
  rows = np.flatnonzero(chronicle.train & fitted.features.is_event)
  by_records, by_years = (
    calibration.compute_posterior_metrics(
      posterior, rows, chronicle.months[rows]
    )
    for posterior in (fitted.predict("strict"), dated("strict"))
  )
  # A copy in another work, or an entry of the same month, is known.
  assert by_records["nll"] < by_years["nll"] - 0.3
  labels = chronicle.labels()
  records = fitted.read_records(labels)
  known = records.event_rows[records.num_hidden :]
  beliefs = records.inputs.events.date_years[records.num_hidden :]
  years = fitted.features.axis.year_of[chronicle.months[known]]
  np.testing.assert_array_equal(beliefs.argmax(axis=1), years)
  # No fold tells itself: its labels are hidden from it.
  fold_of_record = folds.fold_records(
    fitted.features.corpus, labels, folds.RECORDS
  )
  hidden = fitted.read_records(labels.hide_records(fold_of_record == 1))
  speaking = hidden.event_rows[hidden.num_hidden :]
  assert not (fold_of_record[speaking] == 1).any()


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"steps": -1}, "steps must be 0 or more, got -1"),
    ({"averaging": 1.0}, r"averaging must be in \[0, 1\)"),
    ({"learning_rate": 0.0}, "learning_rate must be greater than 0, got 0.0"),
    ({"links_per_step": 0}, "links_per_step must be greater than 0, got 0"),
  ],
)
def test_impossible_fits_are_named(fields, message):
  with pytest.raises(ValueError, match=message):
    FittingConfig(**fields)
