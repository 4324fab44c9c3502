"""Dating an invented chronicle, and the audit that no label leaks."""

import dataclasses

import numpy as np
import pytest

from ctd_jax.benchmark.records import EVENT, NEG_COMMENT
from ctd_jax.chronology import date_expressions, query_dates, reign_tables
from ctd_jax.chronology.timelines import TimeKey
from ctd_jax.dating import (
  calibration,
  dating_model,
  folds,
  month_ranking,
  posterior,
)
from ctd_jax.dating import features as evidence_lib
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.features import Experts
from ctd_jax_datasets.chunqiutr import mini
from ctd_jax_datasets.chunqiutr.splits import block_splits

OFF = Experts.without_experts(["neural"])
TIMELINE = reign_tables.load_timeline("mini")
REIGNS = 2  # of the chronicle are enough here
SPLIT_OF = block_splits(TIMELINE)


@dataclasses.dataclass(frozen=True)
class Chronicle:
  """Texts with everything that is true of them."""

  texts: tuple[str, ...]
  months: np.ndarray
  answers: np.ndarray
  train: np.ndarray

  def labels(self):
    return Labels(
      np.where(self.train, self.months, UNKNOWN),
      np.where(self.train, self.answers, UNKNOWN),
    )

  def take(self, order):
    return Chronicle(
      tuple(self.texts[row] for row in order),
      self.months[order],
      self.answers[order],
      self.train[order],
    )


@pytest.fixture(scope="module")
def chronicle():
  rows = [
    (record.text, record.key, record.kind != NEG_COMMENT)
    for record in mini.generate_records(0)
    if record.key.reign <= REIGNS
  ]
  told = {key for _, key, _ in rows}
  for key in TIMELINE.months:
    if key not in told and key.reign <= REIGNS:
      date = date_expressions.format_key(key, TIMELINE)
      rows.append((f"{date}，無事可書。", key, True))
  texts, keys, answers = zip(*rows, strict=True)
  return Chronicle(
    texts,
    np.array([TIMELINE.ordinal(key) for key in keys]),
    np.array(answers, int),
    np.array([SPLIT_OF[key] == "train" for key in keys]),
  )


def date(chronicle):
  labels = chronicle.labels()
  evidence = evidence_lib.read_gallery_features(
    chronicle.texts, TIMELINE, labels, OFF
  )
  weights = dating_model.fit_expert_weights(evidence, labels)
  return (
    evidence,
    weights,
    dating_model.make_fitted_posterior(evidence, labels, weights),
  )


@pytest.fixture(scope="module")
def dated(chronicle):
  return date(chronicle)


def hidden_events(chronicle, evidence):
  return np.flatnonzero(~chronicle.train & evidence.is_event)


def test_every_posterior_sums_to_one(chronicle, dated):
  log_p = dated[2].log_p(np.arange(len(chronicle.texts)))
  assert log_p.dtype == np.float32
  np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-4)


def test_hidden_events_are_dated_far_above_chance(chronicle, dated):
  rows = hidden_events(chronicle, dated[0])
  found = calibration.compute_posterior_metrics(
    dated[2], rows, chronicle.months[rows]
  )
  assert found["year"] > 0.25  # chance is 1 in 30
  assert found["month"] > 0.2  # chance is 1 in 360
  assert found["nll"] < np.log(360) - 1.5
  assert found["month"] <= found["within_1"]


def test_known_records_and_placeholders_are_certain(chronicle, dated):
  evidence, _, fitted = dated
  sure = np.flatnonzero(chronicle.train | evidence.is_placeholder)
  assert np.array_equal(
    fitted.log_p(sure).argmax(axis=1), chronicle.months[sure]
  )


def test_elimination_leaves_the_months_of_hidden_records(chronicle, dated):
  evidence, _, fitted = dated
  rows = hidden_events(chronicle, evidence)
  left = dating_model.exclude_labelled_months(fitted, chronicle.labels()).log_p(
    rows
  )
  taken = np.unique(chronicle.months[chronicle.train])
  assert np.exp(left)[:, taken].sum(axis=1).max() < 1e-6
  np.testing.assert_allclose(np.exp(left).sum(axis=1), 1, atol=1e-4)


def test_strict_does_not_know_its_own_label(chronicle, dated):
  evidence, weights, _ = dated
  labels = chronicle.labels()
  strict = dating_model.make_strict_posterior(evidence, labels, weights)
  rows = np.flatnonzero(chronicle.train & evidence.is_event)
  own = strict.log_p(rows)[np.arange(len(rows)), chronicle.months[rows]]
  assert own.mean() < -1
  # Another month for every record of one fold changes nothing of that fold.
  fold = folds.assign_folds(evidence.gallery.axis, labels) == 1
  rows = np.flatnonzero(fold)
  month = labels.month.copy()
  month[rows] = month[rows[::-1]]
  other = dating_model.make_strict_posterior(
    evidence, Labels(month, labels.event_labels), weights
  )
  np.testing.assert_array_equal(strict.log_p(rows), other.log_p(rows))


def test_labels_of_held_out_records_have_no_way_in(chronicle, dated):
  held_out = np.flatnonzero(~chronicle.train)
  months, answers = chronicle.months.copy(), chronicle.answers.copy()
  months[held_out] = months[held_out[::-1]]
  answers[held_out] = 1 - answers[held_out]
  permuted = dataclasses.replace(chronicle, months=months, answers=answers)
  log_p = date(permuted)[2].log_p(held_out)
  np.testing.assert_array_equal(log_p, dated[2].log_p(held_out))


def test_order_of_the_records_carries_nothing(chronicle, dated):
  order = np.random.default_rng(5).permutation(len(chronicle.texts))
  shuffled = date(chronicle.take(order))[2]
  rows = np.flatnonzero(~chronicle.train[order])
  np.testing.assert_allclose(
    np.exp(shuffled.log_p(rows)), np.exp(dated[2].log_p(order[rows])), atol=0.02
  )


@pytest.mark.parametrize("expert", ["openings", "empty", "words", "room"])
def test_an_expert_can_be_switched_off(chronicle, dated, expert):
  evidence, weights, fitted = dated
  experts = dataclasses.replace(evidence.experts, **{expert: False})
  without = dataclasses.replace(evidence, experts=experts)
  rows = hidden_events(chronicle, evidence)
  log_p = dating_model.make_fitted_posterior(
    without, chronicle.labels(), weights
  ).log_p(rows)
  np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-4)
  assert np.abs(log_p - fitted.log_p(rows)).max() > 0.1


def test_texts_from_outside_add_citations(chronicle):
  labels = chronicle.labels()
  event = chronicle.texts[int(np.flatnonzero(chronicle.answers)[0])]
  note = f"{date_expressions.format_key(TimeKey(1, 3, 1), TIMELINE)}{event}"
  alone = evidence_lib.read_gallery_features(
    chronicle.texts, TIMELINE, labels, OFF
  )
  more = evidence_lib.read_gallery_features(
    chronicle.texts, TIMELINE, labels, OFF, [note]
  )
  assert (
    len(more.citation_pairs.citations)
    == len(alone.citation_pairs.citations) + 1
  )
  assert more.citation_pairs.citations[-1].host == UNKNOWN


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
  with pytest.raises(ValueError, match=f"{interval[0]}..{interval[1]}"):
    posterior.interval_log_mass(np.zeros((1, 40)), [interval])


def test_calibration_finds_the_temperature():
  rng = np.random.default_rng(0)
  true = rng.normal(scale=2, size=(4000, 12))
  true -= np.log(np.exp(true).sum(axis=1, keepdims=True))
  months = np.array([rng.choice(12, p=np.exp(row)) for row in true])

  class Overconfident:
    def log_p(self, rows):
      return 2 * true[rows]

  weights = dating_model.ExpertWeights(np.zeros(0), np.zeros(0))
  found = dating_model.calibrate_temperature(
    weights, Overconfident(), np.arange(4000), months
  )
  assert found.inverse_temperature == pytest.approx(0.5, abs=0.05)


def test_queries_find_the_records_of_their_month(chronicle, dated):
  evidence, _, fitted = dated
  rows = np.flatnonzero(chronicle.train & evidence.is_event)[:20]
  queries = [
    f"{date_expressions.format_key(TIMELINE.key_at(int(month)), TIMELINE)}有何記事？"
    for month in chronicle.months[rows]
  ]
  everything = {"all": np.ones(len(chronicle.texts), bool)}
  found = month_ranking.rank_by_posterior(
    queries, fitted, evidence.event_log_p, 5, everything, record_block=100
  )
  whole = month_ranking.rank_by_posterior(
    queries, fitted, evidence.event_log_p, 5, everything
  )
  for one, other in zip(found["all"], whole["all"], strict=True):
    np.testing.assert_array_equal(one, other)
  first = found["all"][0][:, 0]
  assert np.array_equal(chronicle.months[first], chronicle.months[rows])
  assert chronicle.answers[first].all()


def test_a_query_without_a_date_asks_for_all_months():
  assert query_dates.read_query_intervals(
    ["有何記事？"], TIMELINE
  ).tolist() == [[0, 359]]


def test_kinds_of_this_audit_are_those_of_the_data():
  assert {record.kind for record in mini.generate_records(0)} == {
    EVENT,
    NEG_COMMENT,
  }
