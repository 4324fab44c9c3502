"""Gaussian over time: divergences, fused score, what the module moves."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from ctd_jax.models import calendar_heads, dual_encoder, packing
from ctd_jax.models.calendar_heads import Gaussians
from tests.models.dual_encoder_test import BASELINE, batch

pytestmark = pytest.mark.usefixtures("quick_compile")

TEMPS = dataclasses.replace(BASELINE, use_gaussian=True, gaussian_dim=3)
MODEL = dual_encoder.DualEncoder(TEMPS)
SIDES = {"query": slice(0, 2), "record": slice(0, 4)}


@functools.cache
def encoded():
  variables = jax.jit(MODEL.init)(jax.random.key(0), *batch())
  encode = jax.jit(functools.partial(MODEL.apply, method="encode"))
  return variables, encode(variables, *batch())


def random_gaussians(rows, dimensions, seed):
  rng = np.random.default_rng(seed)
  return Gaussians(
    rng.normal(size=(rows, dimensions)).astype(np.float32),
    rng.normal(size=(rows, dimensions)).astype(np.float32),
  )


def integrate_divergence(mean_p, sigma_p, mean_q, sigma_q):
  """Returns KL(p || q) of two normal distributions by quadrature."""
  p, q = stats.norm(mean_p, sigma_p), stats.norm(mean_q, sigma_q)
  value, _ = integrate.quad(
    lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)),
    mean_p - 12 * sigma_p,
    mean_p + 12 * sigma_p,
  )
  return value


def test_divergence_is_that_of_scipy_in_every_dimension():
  query, record = random_gaussians(2, 3, 0), random_gaussians(4, 3, 1)
  divergence = calendar_heads.kl_divergence(query, record)
  assert divergence.shape == (2, 4)
  for q in range(2):
    for r in range(4):
      expected = sum(
        integrate_divergence(
          query.mean[q, z],
          np.exp(query.log_variance[q, z] / 2),
          record.mean[r, z],
          np.exp(record.log_variance[r, z] / 2),
        )
        for z in range(3)
      )
      np.testing.assert_allclose(divergence[q, r], expected, rtol=2e-4)
  np.testing.assert_allclose(
    calendar_heads.time_similarity(query, record), 1 / (1 + divergence)
  )


def test_far_and_narrow_gaussians_have_finite_gradients():
  query = Gaussians(jnp.array([[0.0], [3036.0]]), jnp.full((2, 1), -8.0))
  record = Gaussians(jnp.array([[0.0], [3036.0]]), jnp.full((2, 1), 8.0))

  def total(query, record):
    ranks = calendar_heads.time_similarity(query, record)
    return ranks.sum() + calendar_heads.time_similarity(record, query).sum()

  assert jnp.isfinite(total(query, record))
  gradients = jax.grad(total, argnums=(0, 1))(query, record)
  assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_an_interval_has_the_moments_of_its_uniform_distribution():
  ends = np.array([[0, 0], [5, 16], [3035, 3035]])
  matched = calendar_heads.match_intervals(ends)
  for row, (first, last) in enumerate(ends):
    uniform = stats.uniform(first, last - first + 1)
    np.testing.assert_allclose(matched.mean[row, 0], uniform.mean())
    np.testing.assert_allclose(
      np.exp(matched.log_variance[row, 0]), uniform.var(), rtol=1e-5
    )
  # A month is nearer to the next one than to the one after.
  months = calendar_heads.match_intervals(np.array([[7, 7], [8, 8], [9, 9]]))
  near = calendar_heads.time_similarity(months, months)[0]
  np.testing.assert_allclose(near, [1, 1 / 7, 1 / 25], rtol=1e-5)


def test_the_score_mixes_cosine_and_similarity_by_the_weight():
  variables, encoding = encoded()
  query, record = (
    jax.tree.map(lambda x, rows=rows: x[rows], encoding)
    for rows in SIDES.values()
  )
  cosine = np.asarray(query.semantic) @ np.asarray(record.semantic).T
  similarity = calendar_heads.time_similarity(query.gaussian, record.gaussian)
  assert similarity.std() > 0
  for weight in (0.0, 0.3, 1.0):
    variables["params"]["gaussian"]["weight"] = jnp.float32(weight)
    score = MODEL.apply(variables, query, record, "temps", method="score")
    expected = ((1 - weight) * cosine + weight * np.asarray(similarity)) / 0.05
    np.testing.assert_allclose(score, expected, atol=1e-4)


@pytest.mark.slow
def test_the_module_moves_nothing_in_the_encoder():
  variables, _ = encoded()

  @jax.jit
  @jax.grad
  def gradient(variables):
    encoding = MODEL.apply(variables, *batch(), method="encode")
    return calendar_heads.time_similarity(
      encoding.gaussian, encoding.gaussian
    ).sum()

  params = gradient(variables)["params"]
  assert not any(jnp.any(leaf) for leaf in jax.tree.leaves(params["encoder"]))
  for name in ("attention", "mean", "log_variance"):
    assert jnp.any(params["gaussian"][name]["kernel"]), name
  leaves = jax.tree.leaves(params)
  assert all(jnp.isfinite(leaf).all() for leaf in leaves)


@pytest.mark.slow
def test_packed_texts_have_the_gaussians_of_single_ones():
  variables, expected = encoded()
  ids, mask = (np.asarray(x) for x in batch())
  (rows, texts), *_ = packing.iter_packed_batches(ids, mask, 4, 1, 9)
  encode = functools.partial(MODEL.apply, method="encode_packed")
  packed = jax.jit(encode)(variables, texts).gaussian
  for ours, theirs in zip(packed, expected.gaussian, strict=True):
    flat = np.asarray(ours).reshape(-1, 3)
    np.testing.assert_allclose(flat[np.argsort(rows)], theirs, atol=1e-5)
