"""Dating an invented chronicle."""

import dataclasses
import doctest
import functools

import numpy as np
import pytest

from ctd_jax.chronology import dates, questions, reigns
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax.dating import (
  dating_model,
  expert_panel,
  posterior,
)
from ctd_jax.dating.corpus import UNKNOWN
from ctd_jax.dating.dating_model import DatingModel
from ctd_jax.dating.experts import base, date_features, words
from tests.benchmarks import posterior_metrics
from tests.dating import chronicles
from tests.tools import processes

MODEL = DatingModel.without(["neural"])
TIMELINE = reigns.load_timeline("mini")


@pytest.fixture(scope="module")
def chronicle():
  return chronicles.make_chronicle()


def fit(chronicle, model=MODEL, labels=None):
  labels = chronicle.labels() if labels is None else labels
  return model.fit(chronicle.read(), labels)


@pytest.fixture(scope="module")
def fitted(chronicle):
  return fit(chronicle)


@pytest.fixture(scope="module")
def dated(fitted):
  """The posterior of every variant, made on first use."""
  return functools.cache(fitted.predict)


def hidden_events(chronicle, fitted):
  return np.flatnonzero(~chronicle.train & fitted.features.is_event)


def test_hidden_events_are_dated_far_above_chance(chronicle, fitted, dated):
  rows = hidden_events(chronicle, fitted)
  metrics = posterior_metrics.compute_posterior_metrics(
    dated("fitted"), rows, chronicle.months[rows]
  )
  assert metrics["year"] > 0.25  # chance is 1 in 30
  assert metrics["month"] > 0.2  # chance is 1 in 360
  assert metrics["nll"] < np.log(360) - 1.5
  assert metrics["month"] <= metrics["within_1"]


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
  np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openings", "empty", "words", "room"])
def test_evidence_can_be_left_out(chronicle, fitted, dated, name):
  model = DatingModel.without(["neural", name])
  rows = hidden_events(chronicle, fitted)
  without = dataclasses.replace(fitted, experts=model.experts)
  log_p = without.predict().log_p(rows)
  np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-4)
  assert np.abs(log_p - dated("fitted").log_p(rows)).max() > 0.1


@pytest.mark.slow
def test_texts_from_outside_add_citations(chronicle):
  labels = chronicle.labels()
  event = chronicle.texts[int(np.flatnonzero(chronicle.answers)[0])]
  note = f"{dates.format_key(TimeKey(1, 3, 1), TIMELINE)}{event}"
  alone, more = (
    base.read_corpus_features(
      chronicle.read(notes), labels
    ).citation_pairs.citations
    for notes in ([], [note])
  )
  assert len(more) == len(alone) + 1
  assert more[-1].host == UNKNOWN


# --- the public model ------------------------------------------------------


@pytest.mark.slow
def test_the_documented_example_runs():
  tests = doctest.DocTestFinder(recurse=False).find(
    dating_model, "dating_model", globs={}
  )
  runner = doctest.DocTestRunner()
  for example in tests:
    runner.run(example)
  assert runner.summarize().attempted > 8
  assert not runner.failures


@pytest.mark.slow
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
    assert {"prior", "words", "empty"} <= {reason.expert for reason in reasons}


def test_reasons_name_what_was_read(chronicle, fitted):
  rows = [
    int(row)
    for row in hidden_events(chronicle, fitted)
    if fitted.features.corpus.days[row]
  ]
  reasons = {reason.expert: reason for reason in fitted.explain(rows[0])}
  text = chronicle.texts[rows[0]]
  for expert in ("openings", "days"):
    evidence = reasons[expert].evidence
    (start, end), *_ = evidence.spans
    assert text[start:end] in evidence.note
  months = reasons["openings"].favoured_months
  opening = fitted.features.corpus.first_month[rows[0]]
  assert set(fitted.features.axis.month_of_year[months]) == {opening}
  linked = set(reasons["parallels"].evidence.linked_rows)
  assert linked <= {*range(len(chronicle.texts))} - {rows[0]}


def test_another_month_has_other_weights(chronicle, fitted):
  row = int(hidden_events(chronicle, fitted)[0])
  likeliest, other = (
    {reason.expert: reason for reason in fitted.explain(row, month)}
    for month in (None, 0)
  )
  for name, reason in likeliest.items():
    np.testing.assert_array_equal(reason.log_scores, other[name].log_scores)
  high, low = (
    sum(reason.weight for reason in reasons.values())
    for reasons in (likeliest, other)
  )
  assert high > low


@pytest.mark.slow
def test_certain_and_eliminated_months_have_reasons(chronicle, fitted):
  row = int(np.flatnonzero(chronicle.train & fitted.features.is_event)[0])
  (reason,) = fitted.explain(row)
  assert reason.expert == "label"
  assert reason.favoured_months.tolist() == [chronicle.months[row]]
  strict = fitted.explain(row, variant="strict")
  assert {"prior", "words"} <= {reason.expert for reason in strict}
  placeholder = int(np.flatnonzero(fitted.features.corpus.is_placeholder)[0])
  (reason,) = fitted.explain(placeholder, variant="strict")
  assert reason.expert == "placeholder"
  hidden = int(hidden_events(chronicle, fitted)[0])
  names = {r.expert for r in fitted.explain(hidden, variant="elimination")}
  assert "elimination" in names


def test_bad_questions_and_options_are_named(chronicle, fitted):
  with pytest.raises(IndexError, match=r"row is 0\.\."):
    fitted.explain(len(chronicle.texts))
  with pytest.raises(IndexError, match="month is 0.*, got 10000"):
    fitted.explain(0, month=10_000)
  with pytest.raises(ValueError, match="variant must be one of"):
    fitted.predict("oracle")
  with pytest.raises(ValueError, match="unknown 'word'; there are openings"):
    DatingModel.without(["word"])
  with pytest.raises(ValueError, match="with prior and dates; got words"):
    DatingModel((words.Words(),))
  with pytest.raises(ValueError, match="'weeks'"):
    DatingModel(fold_by="weeks")
  with pytest.raises(ValueError, match="given twice: dates, prior, prior"):
    DatingModel(
      (words.YearPrior(), words.YearPrior(), date_features.DateFeatures())
    )
  assert dating_model.VARIANTS == ("fitted", "elimination", "strict")


# --- mass and ranking ------------------------------------------------------


def test_interval_mass_equals_brute_force():
  rng = np.random.default_rng(0)
  log_p = rng.normal(scale=3, size=(7, 40))
  log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
  intervals = [(0, 39), (0, 0), (39, 39), (5, 20)]
  mass = posterior.interval_log_mass(log_p.astype(np.float32), intervals)
  for row, (first, last) in enumerate(intervals):
    brute = np.log(np.exp(log_p[:, first : last + 1]).sum(axis=1))
    np.testing.assert_allclose(mass[row], brute, atol=1e-4)
  assert mass.dtype == np.float32


@pytest.mark.parametrize("interval", [(3, 2), (-1, 2), (0, 40)])
def test_an_impossible_interval_is_named(interval):
  with pytest.raises(ValueError, match=r"within 0\.\.39"):
    posterior.interval_log_mass(np.zeros((1, 40)), [interval])


def test_calibration_finds_the_temperature():
  rng = np.random.default_rng(0)
  true = rng.normal(scale=2, size=(4000, 12))
  true -= np.log(np.exp(true).sum(axis=1, keepdims=True))
  months = np.array([rng.choice(12, p=np.exp(row)) for row in true])

  scale = expert_panel.fit_inverse_temperature(2 * true, months)
  assert scale == pytest.approx(0.5, abs=0.05)


def test_a_query_without_a_date_asks_for_all_months():
  asked = questions.read_query_intervals(["有何記事？"], TIMELINE)
  assert asked.tolist() == [[0, 359]]


def test_a_model_says_what_it_is_fitted_on():
  # In a process of its own, where no import hook checks the types first.
  code = (
    "from ctd_jax import DatingModel\n"
    "DatingModel.without(['neural']).fit('text', [1])"
  )
  done = processes.run_python("-c", code)
  assert done.returncode == 1
  assert "TypeError: expected a Corpus from" in done.stderr
  assert "got str and list" in done.stderr
