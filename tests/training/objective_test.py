"""Objective: what is frozen, and the order of time in chunks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ctd_jax.training import experiment, train_step
from ctd_jax.training.objective import Objective
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile")


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


def assert_same_gradients(ours, expected):
  """Fails where gradients differ by more than their rounding."""
  scale = max(np.abs(x).max() for x in jax.tree.leaves(expected))
  jax.tree.map(
    lambda one, other: np.testing.assert_allclose(
      one, other, atol=1e-6 * scale, rtol=1e-4
    ),
    ours,
    expected,
  )


@pytest.mark.slow
def test_chunks_change_neither_loss_nor_gradients_of_the_order(
  monkeypatch, tmp_path
):
  synthetic_run.install(monkeypatch.setattr)
  config = synthetic_run.config("temps")
  config.encode_chunks = 4
  run = experiment.assemble_experiment(config, tmp_path)
  params = run.init_state().params
  batch = next(run.training_batches())
  chunked = Objective.from_config(config, run.model, run.mesh)

  def differentiate(chunks):
    whole = dataclasses.replace(chunked, encode_chunks=chunks)
    gradient = jax.jit(jax.value_and_grad(whole.compute_loss, has_aux=True))
    (_, metrics), gradients = gradient(params, batch, jax.random.key(0))
    return metrics, gradients

  metrics, gradients = differentiate(1)
  chunk_metrics, chunk_gradients = differentiate(4)
  assert metrics["time_order"] > 0
  for name, value in metrics.items():
    np.testing.assert_allclose(chunk_metrics[name], value, rtol=1e-5)
  assert np.any(gradients["gaussian"]["mean"]["kernel"])
  assert_same_gradients(chunk_gradients, gradients)


@pytest.mark.slow
def test_the_loss_is_the_mean_over_whole_and_cut_vectors(monkeypatch, tmp_path):
  synthetic_run.install(monkeypatch.setattr)
  config = synthetic_run.config("ft")
  run = experiment.assemble_experiment(config, tmp_path)
  params, batch = run.init_state().params, next(run.training_batches())

  def compute(sizes):
    config.loss.matryoshka = sizes
    objective = Objective.from_config(config, run.model, run.mesh)
    return jax.jit(objective.compute_loss)(params, batch, jax.random.key(0))[0]

  whole, half, third = map(compute, ((), (5,), (5, 5)))
  cut = 2 * half - whole
  assert abs(cut - whole) > 1e-3
  np.testing.assert_allclose(3 * third, whole + 2 * cut, rtol=1e-5)
  for size in (0, 16):
    with pytest.raises(ValueError, match="expected numbers from 1 to 15"):
      compute((size,))


@pytest.mark.parametrize("chunks", [1, 4])
def test_pairs_of_the_order_are_those_of_a_chunk(monkeypatch, tmp_path, chunks):
  synthetic_run.install(monkeypatch.setattr)
  config = synthetic_run.config("temps")
  config.encode_chunks = chunks
  run = experiment.assemble_experiment(config, tmp_path)
  compute_loss = Objective.from_config(config, run.model, run.mesh).compute_loss
  jaxpr = jax.make_jaxpr(compute_loss)(
    run.abstract_state().params,
    next(run.training_batches()),
    jax.random.key(0),
  )
  records = config.batch_size * (1 + sum(config.negatives.values()))
  dimensions = config.model.gaussian_dim
  pairs = {
    rows: f"f32[{rows},{records},{dimensions}]" in str(jaxpr)
    for rows in (config.batch_size, config.batch_size // 4)
  }
  assert list(pairs.values()) == [chunks == 1, chunks == 4]
