import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctd_jax.training import config as training_config
from ctd_jax.training import optimizer
from tests import synthetic


@pytest.mark.slow
def test_schedule_touches_its_corners():
  rate = optimizer.learning_rate_schedule(1e-3, 100, 0.1)
  assert float(rate(0)) == 0.0
  np.testing.assert_allclose(rate(5), 5e-4, rtol=1e-6)
  np.testing.assert_allclose(rate(10), 1e-3, rtol=1e-6)
  np.testing.assert_allclose(rate(55), 5e-4, rtol=1e-6)
  assert float(rate(100)) == 0.0
  without_warmup = optimizer.learning_rate_schedule(2e-5, 10, 0.0)
  np.testing.assert_allclose(without_warmup(0), 2e-5, rtol=1e-6)


def test_schedules_have_their_names():
  middle = {
    name: float(optimizer.learning_rate_schedule(1.0, 100, 0.2, name)(70))
    for name in ("linear", "cosine", "constant")
  }
  expected = {"linear": 0.375, "cosine": 0.308658, "constant": 1.0}
  assert middle == pytest.approx(expected, rel=1e-4)


def test_every_optimizer_moves_parameters_and_decays_matrices_alone():
  section = synthetic.config().optimizer
  section.warmup_fraction, section.weight_decay = 0.0, 1.0
  section.schedule = "constant"
  for name in training_config.CHOICES["optimizer.name"]:
    section.name = name
    transformation = optimizer.make_optimizer(section, 10)
    state = transformation.init(PARAMS)
    for factor, is_moved in ((0.0, False), (1.0, True)):
      grads = jax.tree.map(lambda x, f=factor: f * jnp.ones_like(x), PARAMS)
      updates, _ = transformation.update(grads, state, PARAMS)
      assert (updates["encoder"]["dense"]["kernel"] < 0).all(), name
      assert updates["encoder"]["dense"]["bias"].any() == is_moved, name


def test_a_run_without_updates_keeps_nothing_for_them():
  config = synthetic.config().optimizer
  state = optimizer.make_optimizer(config, 0).init(PARAMS)
  assert not jax.tree.leaves(state)
  state = optimizer.make_optimizer(config, 1).init(PARAMS)
  held = sum(leaf.size for leaf in jax.tree.leaves(state))
  assert held >= 2 * sum(leaf.size for leaf in jax.tree.leaves(PARAMS))


PARAMS = {
  "encoder": {
    "dense": {"kernel": jnp.ones((2, 2)), "bias": jnp.ones((2,))},
    "norm": {"scale": jnp.ones((2,))},
    "layer_norm": {"scale": jnp.ones((2,)), "bias": jnp.ones((2,))},
  },
  "context": {"gate": jnp.ones(()), "project": {"kernel": jnp.ones((2, 2))}},
  "offset": {"scale": jnp.ones(()), "hidden_bias": jnp.ones((2,))},
}


def test_only_matrices_are_decayed():
  mask = optimizer.decay_mask(PARAMS)
  assert mask["encoder"]["dense"] == {"kernel": True, "bias": False}
  assert not mask["encoder"]["norm"]["scale"]
  assert mask["context"] == {"gate": False, "project": {"kernel": True}}
  assert mask["offset"] == {"scale": False, "hidden_bias": False}


def test_the_release_decays_all_but_biases_and_layer_norms():
  mask = optimizer.decay_mask(PARAMS, "release")
  assert mask["encoder"]["dense"] == {"kernel": True, "bias": False}
  assert mask["encoder"]["layer_norm"] == {"scale": False, "bias": False}
  assert mask["encoder"]["norm"]["scale"]  # an RMSNorm
  assert mask["context"] == {"gate": True, "project": {"kernel": True}}
  assert mask["offset"] == {"scale": True, "hidden_bias": False}


@pytest.mark.slow
def test_decay_reaches_what_the_mask_says():
  config = synthetic.config("ctd-release").optimizer
  config.warmup_fraction = 0.0
  adam = optimizer.make_optimizer(config, 10)
  still = jax.tree.map(jnp.zeros_like, PARAMS)
  updates, _ = adam.update(still, adam.init(PARAMS), PARAMS)
  shrunk = -config.learning_rate * config.weight_decay
  np.testing.assert_allclose(updates["context"]["gate"], shrunk, rtol=1e-5)
  assert not updates["offset"]["hidden_bias"].any()


@pytest.mark.slow
def test_temporal_modules_have_their_own_rate():
  config = synthetic.config().optimizer
  config.warmup_fraction = 0.0
  config.weight_decay = 0.0
  config.temporal_rate_factor = 5.0
  adam = optimizer.make_optimizer(config, 10)
  grads = jax.tree.map(jnp.ones_like, PARAMS)
  updates, _ = adam.update(grads, adam.init(PARAMS), PARAMS)
  ratio = (
    updates["context"]["project"]["kernel"]
    / updates["encoder"]["dense"]["kernel"]
  )
  np.testing.assert_allclose(ratio, 5.0, rtol=1e-3)


def test_gradients_are_clipped_before_adam_sees_them():
  config = synthetic.config().optimizer
  config.clip_norm = 1.0
  adam = optimizer.make_optimizer(config, 10)
  grads = jax.tree.map(lambda x: 1e6 * jnp.ones_like(x), PARAMS)
  _, state = adam.update(grads, adam.init(PARAMS), PARAMS)
  moments = [
    x for x in jax.tree.leaves(state) if x.dtype == jnp.float32 and x.size > 1
  ]
  assert max(float(jnp.abs(x).max()) for x in moments) < 1.0


def test_what_validation_chooses_and_a_frozen_encoder_are_fixed():
  params = {**PARAMS, "gaussian": {"weight": jnp.ones(()), "mean": jnp.ones(2)}}
  groups = optimizer.label_parameter_groups(params)
  assert groups["gaussian"] == {"weight": "fixed", "mean": "temporal"}
  section = synthetic.config("temps").optimizer
  section.decay = "release"  # which decays scalars
  for freeze in (False, True):
    section.freeze_encoder = freeze
    transformation = optimizer.make_optimizer(section, 10)
    state = transformation.init(params)
    gradients = jax.tree.map(jnp.ones_like, params)
    for _ in range(2):  # the first has a rate of 0
      updates, state = transformation.update(gradients, state, params)
    assert not jnp.any(updates["gaussian"]["weight"])
    assert jnp.all(updates["gaussian"]["mean"] < 0)
    kernel = updates["encoder"]["dense"]["kernel"]
    assert jnp.any(kernel) != freeze


def moments(state, name):
  """Returns the leaves of one moment of a state of the optimizer."""
  return [
    leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    if f".{name}[" in jax.tree_util.keystr(path)
  ]


def test_the_first_moment_is_kept_in_bf16_where_asked():
  config = synthetic.config().optimizer
  sizes = {}
  for dtype in ("float32", "bfloat16"):
    config.moment_dtype = dtype
    state = optimizer.make_optimizer(config, 10).init(PARAMS)
    assert {x.dtype.name for x in moments(state, "mu")} == {dtype}
    assert {x.dtype.name for x in moments(state, "nu")} == {"float32"}
    sizes[dtype] = sum(x.nbytes for x in moments(state, "mu"))
  assert sizes["float32"] == 2 * sizes["bfloat16"] > 0


def test_an_update_has_the_mean_gradient_of_its_steps():
  config = synthetic.config().optimizer
  steps = optimizer.make_optimizer(config, 10, accumulate_steps=3)
  once = optimizer.make_optimizer(config, 10)
  state, expected_state = steps.init(PARAMS), once.init(PARAMS)
  params = expected = PARAMS
  for update in range(2):
    grads = [
      jax.tree.map(lambda x, f=1e3 * (update + i): f * jnp.ones_like(x), PARAMS)
      for i in range(3)
    ]
    for step, grad in enumerate(grads, start=1):
      updates, state = steps.update(grad, state, params)
      if step < 3:
        assert not any(x.any() for x in jax.tree.leaves(updates))
      params = optax.apply_updates(params, updates)
    # Clipped as one: the norm of the mean is far above the limit.
    mean = jax.tree.map(lambda *x: sum(x) / 3, *grads)
    updates, expected_state = once.update(mean, expected_state, expected)
    expected = optax.apply_updates(expected, updates)
    jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), params, expected
    )
  assert not jnp.array_equal(
    params["offset"]["scale"], PARAMS["offset"]["scale"]
  )
