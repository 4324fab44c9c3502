"""Shares of log odds: they add up, and tell what is said twice."""

import numpy as np
import pytest
from scipy.special import logsumexp

from ctd_jax.dating.passages import passages

PRIOR = np.log(np.full(6, 1 / 6))
CITED = np.array([3.0, 0, 0, 0, 0, 0])
NOTHING = np.zeros(6)


def make_evidence(terms, substitutes=None):
  return passages.Evidence(
    log_prior=PRIOR,
    terms=terms,
    outside_log_odds=-4.0,
    outside_term=0.5,
    substitutes=substitutes or {},
  )


def find_log_odds(scores, odds):
  log_p = scores - logsumexp(scores) - np.logaddexp(0, odds)
  return log_p[0] - np.log(-np.expm1(log_p[0]))


def test_what_two_say_alike_is_shared_by_both():
  # The parallel is cited too: it counts where the passage is not.
  terms = {"cited": CITED, "parallels": NOTHING}
  evidence = make_evidence(terms, {("parallels", "cited"): CITED})
  prior, shares, without = evidence.share_log_odds(0)
  assert shares["cited"] == pytest.approx(shares["parallels"])
  assert shares["cited"] > 0.5
  log_p = evidence.log_p()
  total = log_p[0] - np.log(-np.expm1(log_p[0]))
  assert prior + sum(shares.values()) == pytest.approx(total)
  # Without the one the other says all of it.
  assert without["cited"] == pytest.approx(total)
  assert without["parallels"] == pytest.approx(total)


def test_evidence_left_out_leaves_what_the_others_say():
  terms = {
    "cited": CITED,
    "parallels": np.array([0.5, 1, 0, 0, 0, 0]),
    "words": np.array([0, 0, 2.0, 0, 0, 0]),
  }
  substitute = np.array([2.0, 1, 0, 0, 0, 0])
  evidence = make_evidence(terms, {("parallels", "cited"): substitute})
  prior, shares, without = evidence.share_log_odds(0)
  assert without["cited"] == pytest.approx(
    find_log_odds(PRIOR + substitute + terms["words"], -3.5)
  )
  assert without["parallels"] == pytest.approx(
    find_log_odds(PRIOR + terms["cited"] + terms["words"], -3.5)
  )
  assert prior == pytest.approx(find_log_odds(PRIOR, -4.0))
  assert prior + sum(shares.values()) == pytest.approx(
    find_log_odds(PRIOR + sum(terms.values()), -3.5)
  )
