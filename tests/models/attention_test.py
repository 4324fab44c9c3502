"""Attention of both encoder families: dropout of its weights, precision."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from scipy import special

from ctd_jax.models.encoders import attention
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig

pytestmark = pytest.mark.usefixtures("quick_compile")

HIGHEST = (jax.lax.Precision.HIGHEST,) * 2
ENCODERS = {
  "bert": BertConfig(40, 16, 2, 4, 24, 12, dropout=0.0, initializer_range=0.3),
  "decoder": DecoderConfig(40, 16, 2, 4, 2, 8, 24, 12, initializer_range=0.3),
}
IDS = jnp.asarray(np.random.default_rng(0).integers(4, 40, (3, 9)), jnp.int32)
MASK = jnp.asarray([[1] * 9, [1] * 5 + [0] * 4, [1] * 3 + [2] * 6])


@functools.cache
def params_of(family):
  init = ENCODERS[family].make_encoder().init
  return jax.jit(init)(jax.random.key(0), IDS, MASK)["params"]


def encoder_of(family, **fields):
  return type(ENCODERS[family])(
    **vars(ENCODERS[family]) | fields
  ).make_encoder()


def states(family, seed=None, **fields):
  """Returns the states; with a seed those of training."""
  encoder, variables = encoder_of(family, **fields), params_of(family)
  rngs = None if seed is None else {"dropout": jax.random.key(seed)}
  return encoder.apply(
    {"params": variables}, IDS, MASK, seed is None, rngs=rngs
  )


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_dropped_weights_are_those_of_a_plain_softmax(kv_heads):
  rng = np.random.default_rng(kv_heads)
  query = rng.normal(size=(2, 5, 4, 8))
  key, value = rng.normal(size=(2, 2, 5, kv_heads, 8))
  attention_mask = np.tril(np.ones((2, 1, 5, 5), bool))
  kept = rng.uniform(size=(2, 4, 5, 5)) < 0.7

  def plain(query, key, value):
    """As published: softmax, dropout, values; with autograd of numpy's sums."""
    key, value = (np.repeat(x, 4 // kv_heads, axis=2) for x in (key, value))
    scores = np.einsum("blhe,bmhe->bhlm", query, key) / np.sqrt(8)
    weights = special.softmax(np.where(attention_mask, scores, -np.inf), -1)
    return np.einsum("bhlm,bmhe->blhe", weights * kept / 0.7, value)

  @jax.jit
  def ours(query, key, value):
    return attention.dot_product_attention(
      query,
      key,
      value,
      jnp.asarray(attention_mask),
      drop_weights=lambda weights: weights * kept / 0.7,
    )

  inputs = [jnp.asarray(x, jnp.float32) for x in (query, key, value)]
  expected = plain(query, key, value)
  np.testing.assert_allclose(ours(*inputs), expected, atol=1e-5)
  # The gradient along a random direction, against central differences.
  direction = [rng.normal(size=x.shape) for x in (query, key, value)]
  weights = rng.normal(size=expected.shape)
  gradients = jax.grad(lambda *x: (ours(*x) * weights).sum(), (0, 1, 2))(
    *inputs
  )
  slope = sum(
    (np.asarray(gradient) * step).sum()
    for gradient, step in zip(gradients, direction, strict=True)
  )
  high, low = (
    plain(
      *(
        x + sign * 1e-5 * step
        for x, step in zip((query, key, value), direction, strict=True)
      )
    )
    for sign in (1, -1)
  )
  np.testing.assert_allclose(
    slope, ((high - low) * weights).sum() / 2e-5, rtol=1e-4
  )


@pytest.mark.slow
@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("stack", [{}, {"scan_layers": True, "remat": True}])
def test_weights_are_dropped_in_training_alone(family, stack):
  params = params_of(family)
  if stack:
    params = stack_params(params)
  encoder = encoder_of(family, attention_dropout=0.4, **stack)
  apply = jax.jit(
    lambda params, key: encoder.apply(
      {"params": params}, IDS, MASK, False, rngs={"dropout": key}
    )
  )
  first, again, other = (
    apply(params, jax.random.key(seed)) for seed in (0, 0, 1)
  )
  np.testing.assert_array_equal(first, again)
  assert jnp.abs(first - other)[0].max() > 0.1
  evaluated = encoder.apply({"params": params}, IDS, MASK)
  np.testing.assert_allclose(
    np.where(MASK[..., None], evaluated - states(family), 0), 0, atol=1e-5
  )
  gradient = jax.grad(lambda p: (apply(p, jax.random.key(0)) ** 2).sum())(
    params
  )
  assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(gradient))


def stack_params(params):
  """Returns the parameters of two layers, scanned."""
  rows = [params[f"layer_{i}"] for i in range(2)]
  others = {k: v for k, v in params.items() if not k.startswith("layer_")}
  return {**others, "layers": jax.tree.map(lambda *x: jnp.stack(x), *rows)}


@pytest.mark.slow
@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize(
  ("scan_layers", "attention"), [(False, "plain"), (True, "xla")]
)
def test_what_is_computed_again_has_the_same_gradients(
  family, scan_layers, attention
):
  params = params_of(family)
  if scan_layers:
    params = stack_params(params)

  def gradients(kept, remat=False):
    encoder = encoder_of(
      family,
      scan_layers=scan_layers,
      attention=attention,
      kept_activations=kept,
      remat=remat,
    )
    return jax.jit(
      jax.grad(lambda p: (encoder.apply({"params": p}, IDS, MASK) ** 3).sum())
    )(params)

  expected = gradients("all")
  for found in (gradients("products"), gradients("all", remat=True)):
    jax.tree.map(
      functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4),
      found,
      expected,
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize(
  "fields",
  [
    {},
    {"scan_layers": True, "remat": True},
    {"kept_activations": "products"},
    {"attention": "xla"},
  ],
)
def test_states_of_some_tokens_are_those_among_all(family, fields):
  params = params_of(family)
  if fields.get("scan_layers"):
    params = stack_params(params)
  encoder = encoder_of(family, **fields)
  columns = jnp.asarray([[8, 0, 3], [4, 4, 1], [2, 3, 8]])
  weights = np.random.default_rng(1).normal(size=(3, 3, 16))

  @functools.partial(jax.jit, static_argnums=1)
  def run(params, is_of_some):
    def total(params):
      asked = (IDS, MASK, True) + ((columns,) if is_of_some else ())
      states = encoder.apply({"params": params}, *asked)
      if not is_of_some:
        states = states[jnp.arange(3)[:, None], columns]
      return (states * weights).sum(), states

    return jax.grad(total, has_aux=True)(params)

  (gradients, some), (expected_gradients, expected) = (
    run(params, flag) for flag in (True, False)
  )
  np.testing.assert_allclose(some, expected, atol=1e-5)
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4),
    gradients,
    expected_gradients,
  )


@pytest.mark.slow
@pytest.mark.parametrize("family", ENCODERS)
def test_some_tokens_drop_weights_of_their_own(family):
  # One layer: no earlier one drops weights.
  encoder = encoder_of(family, attention_dropout=0.4, num_layers=1)
  columns = jnp.asarray([[1, 4], [1, 4], [1, 4]])

  def apply(seed):
    rngs = {"dropout": jax.random.key(seed)}
    variables = {"params": params_of(family)}
    return encoder.apply(variables, IDS, MASK, False, columns, rngs=rngs)

  np.testing.assert_array_equal(apply(0), apply(0))
  assert jnp.abs(apply(0) - apply(1)).max(axis=(1, 2)).min() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("family", ENCODERS)
def test_each_layer_drops_weights_of_its_own(family):
  drops = []

  def record(call, args, kwargs, context):
    outputs = call(*args, **kwargs)
    if isinstance(context.module, nn.Dropout) and context.module.rate:
      drops.append((context.module.rate, args[0], outputs))
    return outputs

  with nn.intercept_methods(record):
    states(family, seed=0, attention_dropout=0.4)
  assert [rate for rate, _, _ in drops] == [0.4, 0.4]
  assert [weights.shape for _, weights, _ in drops] == [(3, 4, 9, 9)] * 2
  kept = [np.asarray(after != 0) for _, _, after in drops]
  attended = [np.asarray(before != 0) for _, before, _ in drops]
  assert 0.5 < kept[0].sum() / attended[0].sum() < 0.7
  assert (kept[0] != kept[1]).any()


@pytest.mark.parametrize("family", ENCODERS)
def test_a_rate_of_zero_costs_nothing(family):
  params_of(family)  # made before anything is traced
  training, evaluation = (
    str(jax.make_jaxpr(lambda seed=seed: states(family, seed))())
    for seed in (0, None)
  )
  assert "random" not in evaluation
  # The key itself is made, and used by nothing.
  body = [line for line in training.splitlines() if "random_seed" not in line]
  assert not any("random" in line for line in body)
  assert len(body) == len(evaluation.splitlines())
  dropped = jax.make_jaxpr(
    lambda: states(family, seed=0, attention_dropout=0.1)
  )()
  assert "random_bits" in str(dropped)


@pytest.mark.parametrize("family", ENCODERS)
def test_products_of_fp32_are_not_rounded(family):
  def precisions(dtype):
    jaxpr = jax.make_jaxpr(lambda: states(family, dtype=dtype))()
    return [
      equation.params["precision"]
      for equation in list_equations(jaxpr.jaxpr)
      if equation.primitive.name == "dot_general"
    ]

  assert len(precisions("float32")) >= 2 * 8
  assert set(precisions("float32")) == {HIGHEST}
  assert set(precisions("bfloat16")) == {None}


def list_equations(jaxpr):
  """Returns the equations of a jaxpr and of those within it."""
  equations = []
  for equation in jaxpr.eqns:
    equations.append(equation)
    for inner in jax.tree.leaves(list(equation.params.values())):
      inner = getattr(inner, "jaxpr", inner)
      if hasattr(inner, "eqns"):
        equations += list_equations(inner)
  return equations


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_out_of_range_is_named(rate):
  with pytest.raises(ValueError, match=f"attention_dropout must .* got {rate}"):
    DecoderConfig(40, attention_dropout=rate)
  with pytest.raises(ValueError, match=f"^dropout must .* got {rate}"):
    BertConfig(40, dropout=rate)
