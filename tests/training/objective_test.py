"""Objective: the bias of pairs in blocks."""

import jax
import numpy as np
import pytest

from ctd_jax.training import experiment, objective
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
