"""The posterior of the month: real months only, masses, smooth years."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models import calendar_heads, dual_encoder
from ctd_jax.training import date_losses
from tests.models.dual_encoder_test import CTD, batch

pytestmark = pytest.mark.usefixtures("quick_compile")

POSTERIOR = dataclasses.replace(
  CTD, use_posterior=True, use_bias=False, posterior_dim=8
)
MODEL = dual_encoder.DualEncoder(POSTERIOR)


@functools.cache
def encoded():
  variables = jax.jit(MODEL.init)(jax.random.key(0), *batch())
  encode = jax.jit(functools.partial(MODEL.apply, method="encode"))
  return variables, encode(variables, *batch())


def test_year_features_cannot_tell_neighbours_but_tell_decades():
  features = calendar_heads.make_year_features(250, 64)
  likeness = features @ features.T / 32
  np.testing.assert_allclose(np.diag(likeness), 1, rtol=1e-5)
  assert likeness[100, 101] > 0.9
  assert np.abs(likeness[100, 120:]).max() < 0.8


@pytest.mark.slow
def test_log_p_by_hand():
  variables, encoding = encoded()
  log_p = MODEL.apply(variables, encoding, method="log_months")
  classes = np.array(POSTERIOR.month_classes)
  features = calendar_heads.make_year_features(30, 8)
  scores = np.asarray(encoding.year_code @ features.T)[:, np.arange(360) // 12]
  for head, values in enumerate(encoding.logits):
    scores = scores + np.asarray(values)[:, classes[:, head]]
  expected = scores - np.log(np.exp(scores).sum(1, keepdims=True))
  np.testing.assert_allclose(log_p, expected, atol=1e-5)


@pytest.mark.slow
def test_score_is_the_mass_of_the_interval():
  variables, encoding = encoded()
  ends = jnp.array([[0, 0], [5, 20], [359, 359], [0, 359]])
  query = encoding.replace(interval=ends)
  score = functools.partial(MODEL.apply, variables, method="score")
  gained = score(query, encoding, "posterior") - score(query, encoding, "ctd")
  p = np.exp(MODEL.apply(variables, encoding, method="log_months"))
  for row, (first, last) in enumerate(np.asarray(ends)):
    mass = p[:, first : last + 1].sum(1) / (last - first + 1)
    np.testing.assert_allclose(gained[row], np.log(mass), atol=1e-3)


def test_without_an_interval_the_own_heads_date_the_query():
  variables, encoding = encoded()
  score = functools.partial(MODEL.apply, variables, method="score")
  mass = score(encoding, encoding, "posterior") - score(
    encoding, encoding, "ctd"
  )
  p = np.exp(MODEL.apply(variables, encoding, method="log_months"))
  np.testing.assert_allclose(mass, np.log(p @ p.T), atol=1e-3)


@pytest.mark.slow
def test_interval_cross_entropy_by_hand():
  log_p = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]))
  loss = date_losses.interval_cross_entropy(log_p, jnp.array([[0, 1], [2, 2]]))
  expected = -np.mean([np.mean(np.log([0.5, 0.25])), np.log(0.7)])
  np.testing.assert_allclose(loss, expected, rtol=1e-6)
