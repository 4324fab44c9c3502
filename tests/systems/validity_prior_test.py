"""BM25 with a prior of validity at the time asked."""

import numpy as np
import pytest

from ctd_jax.retrieval import bm25
from ctd_jax.systems import registry, validity_prior
from ctd_jax.tasks.chronocept import curves
from ctd_jax_configs import validity_prior as config_file
from tests import synthetic

DAY = 1440.0
# A notice of an hour, one of a day, one of a year, all with the same words;
# the others are about something else.
LOCATIONS = np.array(
  [float(curves.to_log_time(m)) for m in (60, DAY, 365 * DAY, *[DAY] * 7)]
)
CURVES = np.stack([LOCATIONS, np.full(10, 8.0), np.zeros(10)], axis=1)
TEXTS = ["齊人來盟"] * 3 + ["衛侯卒"] * 7
GALLERY = {"all": np.ones(10, bool)}


def rank(minutes, weight, published=0.0):
  """Returns the ranking of the records for a question asked at `minutes`."""
  rescore = validity_prior.make_rescore(
    np.array([minutes], float), np.full(10, published), CURVES, weight
  )
  top_k = bm25.rank_by_rescored_bm25(["齊人"], TEXTS, 4, GALLERY, rescore)
  return top_k["all"][0][0].tolist()


@pytest.mark.slow
def test_what_still_holds_comes_first_among_equals():
  first = [rank(age, 0.01)[0] for age in (60, DAY, 365 * DAY)]
  assert first == [0, 1, 2]
  # A little weight never lifts what is about something else.
  assert rank(DAY, 0.01)[3] == 3


def test_weight_trades_text_against_validity():
  assert rank(DAY, 0.0) == [0, 1, 2, 3]
  # An hour's notice is worth nothing after a day; another subject is.
  assert rank(DAY, 1.0)[:2] == [1, 3]


def test_only_the_age_counts():
  assert rank(DAY + 5000, 0.01, published=5000.0) == rank(DAY, 0.01)
  # Centuries after the origin a minute is still a minute.
  late = 250 * 365 * DAY
  assert rank(late + 60, 0.01, published=late) == rank(60, 0.01)


def test_a_query_without_a_date_leaves_bm25():
  assert rank(np.nan, 1.0) == [0, 1, 2, 3]


@pytest.mark.slow
def test_log_validity_by_hand_and_at_the_ends():
  minutes = np.array([60.0, -10, 0.5, 1e9])
  log_p = validity_prior.compute_log_validity(minutes, np.zeros(10), CURVES)
  values = np.exp(log_p)
  assert values[0, 0] == pytest.approx(1, abs=1e-5)
  distance = (LOCATIONS[1] - LOCATIONS[0]) / 8
  assert values[0, 1] == pytest.approx(np.exp(-(distance**2) / 2), rel=1e-3)
  # Not yet published, whatever the curve.
  assert values[1] == pytest.approx(validity_prior.MIN_VALIDITY)
  # Within the first minute: its end, log time 0.
  expected = np.exp(-((LOCATIONS[0] / 8) ** 2) / 2)
  assert values[2, 0] == pytest.approx(
    max(expected, validity_prior.MIN_VALIDITY), rel=1e-3
  )
  assert values[3] == pytest.approx(validity_prior.MIN_VALIDITY)


@pytest.mark.slow
def test_records_of_the_last_month_asked_come_first():
  benchmark = synthetic.benchmark()
  config = config_file.get_config()
  config.validity_prior.weight = 100.0
  system = registry.make_systems(benchmark, config)["validity_prior"]
  assert (system.track, system.score_mode) == ("T1", "lexical_validity")
  queries = benchmark.queries["test"]
  everything = {"all": np.ones(len(benchmark.records), bool)}
  indices, _ = system.search([q.text for q in queries], 1, everything)["all"]
  for query, (row,) in zip(queries, indices, strict=True):
    assert benchmark.records[row].key == query.interval.end


def test_without_weight_it_is_bm25():
  benchmark = synthetic.benchmark()
  config = config_file.get_config()
  config.validity_prior.weight = 0.0
  systems = registry.make_systems(benchmark, config)
  texts = [query.text for query in benchmark.queries["test"]]
  gallery = {"all": np.ones(len(benchmark.records), bool)}
  rankings = [
    system.search(texts, 5, gallery)["all"][0] for system in systems.values()
  ]
  assert list(systems) == ["bm25", "validity_prior"]
  np.testing.assert_array_equal(*rankings)


@pytest.mark.parametrize(
  ("field", "value"), [("weight", -1.0), ("imitates", "benchmark_3")]
)
def test_a_wrong_value_is_named(field, value):
  config = config_file.get_config()
  config.validity_prior[field] = value
  with pytest.raises(ValueError, match=f"config.validity_prior.{field}="):
    registry.validate(config)
