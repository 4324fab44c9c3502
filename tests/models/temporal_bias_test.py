"""Temporal bias: released frequencies by value, the repaired by property."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.models import temporal_bias


@pytest.mark.slow
def test_release_offset_goldens():
  frequencies = temporal_bias.offset_frequencies(16, "release")
  np.testing.assert_allclose(frequencies[[0, 15]], [1, 1e-4])
  origin = temporal_bias.encode_offsets(jnp.zeros(()), frequencies)
  np.testing.assert_array_equal(origin, [0.0] * 16 + [1.0] * 16)
  offsets = jnp.array([1 / 4607, 12 / 4607, 384 / 4607, 1.0])
  features = temporal_bias.encode_offsets(offsets, frequencies)
  away = np.linalg.norm(np.asarray(features - origin), axis=1)
  np.testing.assert_allclose(away, [2.6e-4, 3.1e-3, 0.099, 1.15], rtol=0.03)


def test_index_offsets_see_months_and_never_repeat():
  months = 3036
  frequencies = temporal_bias.offset_frequencies(16, "index", months)
  # Radians per month at both ends: periods of 2 and of 6,072 months.
  np.testing.assert_allclose(
    frequencies[[0, 15]] / (months - 1), [np.pi, np.pi / months]
  )
  offsets = np.arange(-months + 1, months)
  angles = offsets[:, None] / (months - 1) * frequencies
  code = np.concatenate([np.sin(angles), np.cos(angles)], 1)
  origin = code[months - 1]
  away = np.linalg.norm(np.delete(code, months - 1, 0) - origin, axis=1)
  assert away.min() > 1
  ours = temporal_bias.encode_offsets(
    jnp.asarray(offsets / (months - 1)), frequencies
  )
  np.testing.assert_allclose(ours, code, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("kind", "num_months", "atol"), [("release", 0, 1e-5), ("index", 360, 1e-3)]
)
def test_bias_is_the_perceptron_of_every_offset(kind, num_months, atol):
  module = temporal_bias.OffsetBias(kind, 8, num_months, scale_init=0.7)
  query = jnp.array([0.0, 0.31, 0.9])
  record = jnp.array([0.2, 0.31, 1.0, 0.5])
  params = jax.jit(module.init)(jax.random.key(0), query, record)["params"]
  p = {name: np.asarray(x, np.float64) for name, x in params.items()}
  bias = jax.jit(module.apply)({"params": params}, query, record)
  delta = np.asarray(record)[None] - np.asarray(query)[:, None]
  angles = delta[..., None] * temporal_bias.offset_frequencies(
    4, kind, num_months
  )
  code = np.concatenate([np.sin(angles), np.cos(angles)], -1)
  hidden = np.maximum(code @ p["hidden_kernel"] + p["hidden_bias"], 0)
  value = hidden @ p["out_kernel"] + p["out_bias"]
  np.testing.assert_allclose(bias, 0.7 * value[..., 0], atol=atol)


@pytest.mark.slow
def test_scale_zero_is_no_bias_and_no_gradient_but_its_own():
  module = temporal_bias.OffsetBias("release", 8)
  scalars = jnp.array([0.1, 0.4, 0.6])
  params = jax.jit(module.init)(jax.random.key(0), scalars, scalars)["params"]

  def total(params, scalars):
    bias = jax.jit(module.apply)({"params": params}, scalars, scalars)
    return (bias * jnp.arange(9.0).reshape(3, 3)).sum(), bias

  (_, bias), (gradient, to_scalars) = jax.jit(
    jax.value_and_grad(total, argnums=(0, 1), has_aux=True)
  )(params, scalars)
  np.testing.assert_array_equal(bias, 0)
  assert gradient.pop("scale") != 0
  assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient))
  np.testing.assert_array_equal(to_scalars, 0)
