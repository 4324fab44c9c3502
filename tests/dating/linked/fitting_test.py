"""Losses of the linked dater against loops over their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.dating.linked import fitting
from ctd_jax.dating.linked.fitting import FittingConfig, Targets

_MONTHS = np.array([2, 0, 2, 4, 0])


@pytest.fixture
def log_p():
  scores = np.random.default_rng(1).normal(size=(len(_MONTHS), 6))
  return jax.nn.log_softmax(jnp.asarray(2 * scores))


def make_targets(months, weights=None):
  size = len(months)
  weights = np.ones(size) if weights is None else np.asarray(weights, float)
  return Targets(
    rows=np.arange(size, dtype=np.int32),
    months=np.asarray(months, np.int32),
    weights=weights.astype(np.float32),
    opens_month=np.zeros(size, np.float32),
    dates=np.zeros((size, 6), np.float32),
  )


def test_date_loss_is_the_mean_of_log_p(log_p):
  expected = -np.mean([log_p[i, month] for i, month in enumerate(_MONTHS)])
  loss = fitting.compute_date_loss(log_p, make_targets(_MONTHS))
  np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_retrieval_loss_is_the_share_of_the_right_events(log_p):
  chances = np.exp(np.asarray(log_p, np.float64))
  expected = -np.mean(
    [
      np.log(chances[month == _MONTHS, month].sum() / chances[:, month].sum())
      for month in _MONTHS
    ]
  )
  loss = fitting.compute_retrieval_loss(log_p, make_targets(_MONTHS))
  np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize(
  "compute", [fitting.compute_date_loss, fitting.compute_retrieval_loss]
)
def test_padding_adds_nothing(log_p, compute):
  padded = jnp.concatenate([log_p, log_p[:2]])
  targets = make_targets([*_MONTHS, 2, 2], weights=[1, 1, 1, 1, 1, 0, 0])
  np.testing.assert_allclose(
    compute(padded, targets), compute(log_p, make_targets(_MONTHS)), rtol=1e-6
  )
  gradient = jax.grad(lambda log_p: compute(log_p, targets))(padded)
  assert np.isfinite(gradient).all()
  assert not np.asarray(gradient[len(_MONTHS) :]).any()


def test_a_negative_weight_is_refused():
  with pytest.raises(ValueError, match="retrieval_weight must be 0 or more"):
    FittingConfig(retrieval_weight=-1.0)
