"""Objective: the bias of pairs in blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctd_jax.training import experiment, objective, train_step
from ctd_jax.training.objective import Objective
from tests.training import synthetic_run


@pytest.mark.parametrize(
  ("rows", "columns", "shards", "blocks"),
  [
    (64, 64, 1, 1),
    (64, 512, 1, 1),
    (4096, 4096, 1, 512),
    (4096, 4096, 8, 64),
    (4096, 12288, 8, 256),  # 2 rows of each device: 3 would not divide 512
    (61, 4096, 1, 61),
    (8, 10**6, 2, 4),
  ],
)
def test_blocks_of_pairs_have_rows_of_every_device(
  rows, columns, shards, blocks
):
  assert objective.count_pair_blocks(rows, columns, shards) == blocks
  assert rows % (blocks * shards) == 0


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


@pytest.mark.slow
def test_blocks_change_neither_loss_nor_gradients(monkeypatch, tmp_path):
  synthetic_run.install(monkeypatch.setattr)
  config = synthetic_run.config("ctd")
  run = experiment.assemble_experiment(config, tmp_path)
  params = run.init_state().params
  batch = next(run.training_batches())

  def differentiate(pairs):
    monkeypatch.setattr(objective, "_PAIRS_PER_BLOCK", pairs)
    compute_loss = Objective.from_config(
      config, run.model, run.mesh
    ).compute_loss
    gradient = jax.jit(jax.value_and_grad(compute_loss, has_aux=True))
    (loss, _), gradients = gradient(params, batch, jax.random.key(0))
    return loss, gradients

  loss, gradients = differentiate(10**9)
  columns = config.batch_size * sum(config.negatives.values())
  block_loss, block_gradients = differentiate(2 * columns)
  np.testing.assert_allclose(block_loss, loss, rtol=1e-6)
  scale = max(np.abs(x).max() for x in jax.tree.leaves(gradients))
  jax.tree.map(
    lambda ours, whole: np.testing.assert_allclose(
      ours, whole, atol=1e-6 * scale, rtol=1e-4
    ),
    block_gradients,
    gradients,
  )
