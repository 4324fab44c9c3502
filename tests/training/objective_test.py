"""Objective: what is trained, and what is frozen."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctd_jax.training import experiment, train_step
from ctd_jax.training.objective import Objective
from tests.training import synthetic_run


@pytest.mark.slow
def test_the_gradient_that_is_clipped_has_no_part_of_a_frozen_encoder(
  monkeypatch, tmp_path
):
  synthetic_run.install(monkeypatch.setattr)
  config = synthetic_run.config("ctd")
  run = experiment.assemble_experiment(config, tmp_path)
  state = run.init_state()
  batch = next(run.training_batches())

  def differentiate(freeze):
    config.optimizer.freeze_encoder = freeze
    whole = Objective.from_config(config, run.model, run.mesh)
    step = train_step.make_train_step(whole, run.optimizer, config.seed)
    # The step gives its state up.
    _, metrics = step(jax.tree.map(jnp.copy, state), batch)
    key = jax.random.fold_in(jax.random.key(config.seed), state.step)
    gradients, _ = jax.jit(jax.grad(whole.compute_loss, has_aux=True))(
      state.params, batch, key
    )
    return gradients, metrics["gradient_norm"]

  expected, norm = differentiate(False)
  gradients, frozen_norm = differentiate(True)
  assert not any(map(np.any, jax.tree.leaves(gradients.pop("encoder"))))
  assert any(map(np.any, jax.tree.leaves(expected.pop("encoder"))))
  jax.tree.map(
    lambda ours, other: np.testing.assert_allclose(
      ours, other, rtol=1e-4, atol=1e-6
    ),
    gradients,
    expected,
  )
  np.testing.assert_allclose(frozen_norm, optax.tree.norm(expected), rtol=1e-5)
  assert frozen_norm < norm
