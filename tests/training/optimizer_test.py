import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


def test_schedule_without_warmup_starts_at_the_peak():
  rate = optimizer.learning_rate_schedule(2e-5, 10, 0.0)
  np.testing.assert_allclose(rate(0), 2e-5, rtol=1e-6)


def test_a_run_without_updates_keeps_nothing_for_them():
  config = synthetic.config().optimizer
  state = optimizer.make_optimizer(config, 0).init(PARAMS)
  assert not jax.tree.leaves(state)
  state = optimizer.make_optimizer(config, 1).init(PARAMS)
  held = sum(leaf.size for leaf in jax.tree.leaves(state))
  assert held >= 2 * sum(leaf.size for leaf in jax.tree.leaves(PARAMS))


@pytest.mark.parametrize(("steps", "warmup"), [(0, 0.1), (10, 1.0), (10, -0.1)])
def test_schedule_refuses(steps, warmup):
  with pytest.raises(ValueError, match="total_steps|warmup_fraction"):
    optimizer.learning_rate_schedule(1e-3, steps, warmup)


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
