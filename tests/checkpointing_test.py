import grain
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax import partitioning
from ctd_jax.checkpointing import CheckpointError, Checkpoints, abstract_state

MODEL = {"model": {"layers": 2, "width": 4}, "vocab_size": 7}


def numbers():
  return iter(
    grain.MapDataset.source(range(100)).to_iter_dataset(
      grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    )
  )


def state(value: float, devices: int = 1):
  sharding = partitioning.replicated(partitioning.make_mesh(devices))
  return jax.device_put(
    {"kernel": jnp.full((4, 2), value), "step": jnp.int32(value)}, sharding
  )


def fill(folder, hits):
  checkpoints = Checkpoints(folder, "validation/hit@1", MODEL, keep_latest=1)
  iterator = numbers()
  for step, hit in enumerate(hits, start=1):
    next(iterator)
    checkpoints.save(
      step, state(float(step)), iterator, {"validation/hit@1": hit}
    )
  checkpoints.close()
  return Checkpoints(folder, "validation/hit@1", MODEL, keep_latest=1)


def test_best_and_latest_are_kept(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1, 0.5, 0.2, 0.3])
  assert checkpoints.best_step == 2
  assert checkpoints.latest_step == 4
  steps = {int(p.name) for p in (tmp_path / "run").iterdir() if p.is_dir()}
  assert steps == {2, 4}


def test_the_earlier_of_equals_is_best(tmp_path):
  assert fill(tmp_path / "run", [0.1, 0.5, 0.5]).best_step == 2


def test_state_and_iterator_come_back_together(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1, 0.5, 0.2])
  iterator = numbers()
  abstract = abstract_state(state(0.0), state(0.0)["step"].sharding)
  restored = checkpoints.restore(3, abstract, iterator)
  np.testing.assert_array_equal(restored["kernel"], np.full((4, 2), 3.0))
  assert int(restored["step"]) == 3
  assert next(iterator) == 3


def test_restores_on_eight_devices_what_one_saved(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1])
  sharding = partitioning.replicated(partitioning.make_mesh(8))
  restored = checkpoints.restore(1, abstract_state(state(0.0), sharding))
  assert restored["kernel"].sharding.num_devices == 8
  np.testing.assert_array_equal(restored["kernel"], np.ones((4, 2)))


def test_another_architecture_is_refused_by_field(tmp_path):
  fill(tmp_path / "run", [0.1]).close()
  other = {"model": {"layers": 3, "width": 4}, "vocab_size": 9}
  checkpoints = Checkpoints(tmp_path / "run", "validation/hit@1", other)
  abstract = abstract_state(state(0.0), state(0.0)["step"].sharding)
  with pytest.raises(CheckpointError) as error:
    checkpoints.restore(1, abstract)
  message = str(error.value)
  assert "model.layers: run 2, config 3" in message
  assert "vocab_size: run 7, config 9" in message
  assert "width" not in message
