"""Layers that encoders share: the activation, products with many tokens."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax import lax
from scipy import special

from ctd_jax.models.encoders import layers
from ctd_jax.models.encoders.bert import BertConfig

pytestmark = pytest.mark.usefixtures("quick_compile")

CONFIG = BertConfig(40, hidden_size=16, num_heads=2)
X = jnp.linspace(-9, 9, 1001)


def test_gelu_is_exact_with_its_gradient():
  x = np.asarray(X, np.float64)
  distribution = special.ndtr(x)
  np.testing.assert_allclose(layers.gelu(X), x * distribution, atol=5e-7)
  density = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
  slopes = jax.vmap(jax.grad(layers.gelu))(X)
  np.testing.assert_allclose(slopes, distribution + x * density, atol=5e-7)


def test_gelu_of_bf16_is_that_of_fp32_rounded():
  x = jnp.asarray(X, jnp.bfloat16)
  expected = layers.gelu(x.astype(jnp.float32))
  assert layers.gelu(x).dtype == jnp.bfloat16
  np.testing.assert_array_equal(layers.gelu(x), expected.astype(jnp.bfloat16))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gelu_keeps_its_argument_alone_for_the_gradient(dtype):
  x = jax.ShapeDtypeStruct((64, 128), dtype)
  _, pull_back = jax.eval_shape(lambda x: jax.vjp(layers.gelu, x), x)
  kept = [leaf for leaf in jax.tree.leaves(pull_back) if leaf.size > 1]
  assert [(leaf.shape, leaf.dtype) for leaf in kept] == [(x.shape, x.dtype)]


class Projection(nn.Module):
  features: int

  @nn.compact
  def __call__(self, states):
    return layers.make_dense(CONFIG, self.features, "dense")(states)


@pytest.mark.parametrize("features", [8, 16, 40])
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_a_projection_is_one_product_and_so_is_its_gradient(
  features, platform, monkeypatch
):
  monkeypatch.setattr(layers, "find_platform", lambda: platform)
  states = np.random.default_rng(0).normal(size=(3, 5, 16)).astype(np.float32)
  dense = Projection(features)
  variables = dense.init(jax.random.key(0), states)
  kernel = variables["params"]["dense"]["kernel"]
  np.testing.assert_allclose(
    dense.apply(variables, states), states @ np.asarray(kernel), atol=1e-6
  )

  def total(variables):
    return (dense.apply(variables, states) ** 2).sum()

  gradient = jax.grad(total)(variables)["params"]["dense"]["kernel"]
  flat = states.reshape(15, 16)
  np.testing.assert_allclose(
    gradient, 2 * flat.T @ (flat @ np.asarray(kernel)), atol=1e-5
  )
  equations = jax.make_jaxpr(jax.grad(total))(variables).jaxpr.eqns
  products = [
    equation
    for equation in equations
    if equation.primitive is lax.dot_general_p
  ]
  assert products
  for product in products:
    assert all(invar.aval.ndim == 2 for invar in product.invars)
  # On a CPU the order of a gradient that is slow the other way is kept.
  keeps_order = any(
    equation.primitive.name == "optimization_barrier" for equation in equations
  )
  assert keeps_order == (platform == "cpu" and features < 16)
  if keeps_order:
    first, second = (invar.aval.shape for invar in products[-1].invars)
    assert (first, second) == ((15, features), (15, 16))


def test_gradients_of_a_row_are_added_up_in_fp32():
  config = dataclasses.replace(CONFIG, dtype="bfloat16")

  class Table(nn.Module):
    @nn.compact
    def __call__(self, numbers):
      states = layers.make_embedding(config, 4, "table")(numbers)
      return states.astype(config.dtype)

  numbers = jnp.zeros(1000, jnp.int32)
  params = Table().init(jax.random.key(0), numbers)
  states = Table().apply(params, numbers)
  table = params["params"]["table"]["embedding"]
  np.testing.assert_array_equal(states[0], table[0].astype(jnp.bfloat16))
  gradient = jax.grad(
    lambda params: Table().apply(params, numbers).astype(jnp.float32).sum()
  )(params)["params"]["table"]["embedding"]
  # In bf16 256 + 1 is 256.
  np.testing.assert_array_equal(gradient[0], 1000.0)


def test_what_cannot_be_kept_is_refused():
  with pytest.raises(ValueError, match="kept_activations must be one of"):
    dataclasses.replace(CONFIG, kept_activations="some")
