"""Temperature of passages and coverage of credible sets, on invented scores."""

import numpy as np
import pytest
from scipy.special import logsumexp

from ctd_jax.dating.passages import fitting

NUM_MONTHS = 40
LOG_PRIOR = np.full(NUM_MONTHS, -np.log(NUM_MONTHS))


def draw_passages(size, factor):
  """Scores that say `factor` times too much, and the months drawn from them."""
  rng = np.random.default_rng(0)
  true = rng.normal(scale=1.5, size=(size, NUM_MONTHS))
  chances = np.exp(true - logsumexp(true, axis=1, keepdims=True))
  months = np.array([rng.choice(NUM_MONTHS, p=row) for row in chances])
  return true * factor, months


@pytest.mark.parametrize("factor", [0.8, 1.0, 2.0])
def test_sets_hold_what_they_say(factor):
  scores, months = draw_passages(3000, factor)
  scale = fitting.fit_inverse_temperature(LOG_PRIOR, scores, months)
  assert scale == pytest.approx(1 / factor, rel=0.15)
  log_p = LOG_PRIOR + scale * scores
  log_p -= logsumexp(log_p, axis=1, keepdims=True)
  assert 0.89 < fitting.measure_coverage(log_p, months) < 0.93


def test_a_set_is_the_smallest_that_holds_its_mass():
  log_p = np.log([[0.5, 0.3, 0.15, 0.05]])
  held = [
    fitting.measure_coverage(log_p, np.array([month])) for month in range(4)
  ]
  assert held == [1, 1, 1, 0]
