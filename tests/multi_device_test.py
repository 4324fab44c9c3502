"""The step over eight devices is the step over one."""

import jax
import numpy as np
import optax
import pytest

from ctd_jax import input_pipeline, partitioning, train_step
from ctd_jax.models.bert import BertConfig
from tests import synthetic

STEPS = 3


def run_steps(devices: int, method: str):
  config = synthetic.config(method)
  config.model.encoder.dropout = 0.0
  config.batch_size = 16
  benchmark = synthetic.benchmark()
  tokenizer = input_pipeline.build_tokenizer(benchmark)
  queries = input_pipeline.tokenize(
    tokenizer, [q.text for q in benchmark.queries["train"]], config.query_length
  )
  records = input_pipeline.tokenize(
    tokenizer, [r.text for r in benchmark.records], config.record_length
  )
  mesh = partitioning.make_mesh(devices)
  replicated = partitioning.replicated(mesh)
  encoder = BertConfig(tokenizer.vocab_size, **config.model.encoder.to_dict())
  model = train_step.make_model(config, encoder, benchmark.timeline)
  # Not Adam: where a gradient is zero but for rounding (a bias added to every
  # score), it divides noise by noise.
  sgd = optax.sgd(0.1)
  state = train_step.init_state(model, sgd, config.seed, replicated)
  update = train_step.make_train_step(model, sgd, config, replicated)
  batches = input_pipeline.training_batches(benchmark, queries, records, config)
  losses = []
  for _ in range(STEPS):
    batch = partitioning.global_batch(next(batches), mesh)
    assert batch["query_ids"].sharding.num_devices == devices
    state, metrics = update(state, batch)
    losses.append(float(metrics["loss"]))
  return jax.device_get(state), losses


@pytest.mark.parametrize("method", ["ft", "ctd"])
def test_eight_devices_equal_one(method):
  one, losses_one = run_steps(1, method)
  eight, losses_eight = run_steps(8, method)
  np.testing.assert_allclose(losses_eight, losses_one, rtol=2e-5)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5),
    eight.params,
    one.params,
  )
  assert int(one.step) == int(eight.step) == STEPS


def test_batch_must_divide_over_devices():
  mesh = partitioning.make_mesh(8)
  with pytest.raises(ValueError, match="12 does not divide over 8"):
    partitioning.global_batch(np.zeros((12, 2)), mesh)


def test_more_devices_than_there_are():
  with pytest.raises(ValueError, match="asked for 99 devices, 8 are visible"):
    partitioning.make_mesh(99)
