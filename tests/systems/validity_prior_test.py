"""Search by meaning and by validity at the time of asking."""

import jax
import numpy as np
import pytest

from ctd_jax.retrieval import search
from ctd_jax.systems import validity_prior
from ctd_jax.systems.validity_prior import DatedRecords, TimedQueries
from ctd_jax.tasks.chronocept import time_axis
from ctd_jax.tasks.chronocept.skew_normal import SkewNormal

DAY = 1440.0
# A notice of an hour, one of a day, one of a year; the last is about
# something else.
CURVES = SkewNormal(
  np.array(
    [float(time_axis.to_log_time(m)) for m in (60, DAY, 365 * DAY, DAY)]
  ),
  np.full(4, 8.0),
  np.zeros(4),
)
MEANING = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]], np.float32)
GALLERY = {"all": np.ones(4, bool)}


@jax.tree_util.Partial
def cosine(queries, records):
  return queries @ records.T


def found(minutes, weight, published=0.0):
  """Returns the ranking of the records for a question asked at `minutes`."""
  queries = TimedQueries(MEANING[:1], np.array([minutes], np.float32))
  records = DatedRecords(MEANING, np.full(4, published, np.float32), CURVES)
  score = jax.tree_util.Partial(
    validity_prior.score_with_validity, cosine, np.float32(weight)
  )
  indices, _ = search.search_top_k(queries, records, score, 4, GALLERY)["all"]
  return indices[0].tolist()


def test_what_still_holds_comes_first_among_equals():
  assert found(60, 0.01)[0] == 0
  assert found(DAY, 0.01)[0] == 1
  assert found(365 * DAY, 0.01)[0] == 2
  # A little weight never lifts what is about something else.
  assert found(DAY, 0.01)[3] == 3


def test_weight_trades_meaning_against_validity():
  assert found(DAY, 0.0) == [0, 1, 2, 3]
  # An hour's notice is worth nothing after a day; another subject is.
  assert found(DAY, 1.0)[:2] == [1, 3]


def test_only_the_age_counts():
  assert found(DAY + 5000, 0.01, published=5000.0) == found(DAY, 0.01)


def test_log_validity_by_hand_and_at_the_ends():
  asked = np.array([60.0, -10, 0.5, 1e9])
  values = np.exp(validity_prior.log_validity(asked, np.zeros(4), CURVES))
  assert values[0, 0] == pytest.approx(1, abs=1e-5)
  distance = (CURVES.location[1] - CURVES.location[0]) / 8
  assert values[0, 1] == pytest.approx(np.exp(-(distance**2) / 2), rel=1e-3)
  # Not yet published, whatever the curve.
  assert values[1] == pytest.approx(validity_prior.MIN_VALIDITY)
  # Within the first minute: its end, log time 0.
  expected = np.exp(-((CURVES.location[0] / 8) ** 2) / 2)
  assert values[2, 0] == pytest.approx(
    max(expected, validity_prior.MIN_VALIDITY), rel=1e-3
  )
  assert values[3] == pytest.approx(validity_prior.MIN_VALIDITY)
