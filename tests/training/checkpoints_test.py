import json
import pathlib
import shutil

import grain
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from ctd_jax.training import devices as devices_lib
from ctd_jax.training import input_pipeline
from ctd_jax.training.checkpoints import (
  DIGESTS_FILE,
  CheckpointError,
  Checkpoints,
  UnreadableCheckpointError,
)
from ctd_jax.training.train_step import TrainState

MODEL = {"model": {"layers": 2, "width": 4}, "vocab_size": 7}


def numbers():
  return iter(
    grain.MapDataset.source(range(100)).to_iter_dataset(
      grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    )
  )


class NumberReader(grain.transforms.Map):
  """Makes of a batch's number the number itself."""

  def map(self, element):
    return element


def state(value: float, devices: int = 1):
  sharding = devices_lib.replicated_sharding(devices_lib.make_mesh(devices))
  return jax.device_put(
    TrainState(
      step=jnp.int32(value),
      params={"kernel": jnp.full((4, 2), value)},
      opt_state={"mu": jnp.full((4, 2), -value)},
      frozen={"table": jnp.full((9,), value)},
    ),
    sharding,
  )


def abstract(devices: int = 1):
  """Returns shapes, types and places of `state`."""
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding),
    state(0.0, devices),
  )


def fill(folder, hits, keep_latest=1):
  checkpoints = Checkpoints(folder, "validation/hit@1", MODEL, keep_latest)
  iterator = numbers()
  for step, hit in enumerate(hits, start=1):
    next(iterator)
    checkpoints.save(
      step, state(float(step)), iterator, {"validation/hit@1": hit}
    )
  checkpoints.close()
  return Checkpoints(folder, "validation/hit@1", MODEL, keep_latest)


def list_steps(folder):
  return [path for path in folder.iterdir() if path.is_dir()]


def test_the_earlier_of_equals_is_best(tmp_path):
  assert fill(tmp_path / "run", [0.1, 0.5, 0.5]).best_step == 2


def test_the_best_checkpoint_keeps_parameters_alone(tmp_path):
  folder = tmp_path / "run"
  checkpoints = fill(folder, [0.1, 0.5, 0.2, 0.3, 0.4], keep_latest=2)
  contents = {
    int(path.name): {item.name for item in path.iterdir() if item.is_dir()}
    for path in list_steps(folder)
  }
  whole = {"params", "optimizer", "model", "data", "metrics"}
  assert contents == {2: whole - {"optimizer"}, 4: whole, 5: whole}
  assert (checkpoints.best_step, checkpoints.latest_step) == (2, 5)
  params = checkpoints.restore_params(2, abstract().params)
  np.testing.assert_array_equal(params["kernel"], np.full((4, 2), 2.0))
  with pytest.raises(CheckpointError, match="run/2 holds the parameters alone"):
    checkpoints.restore(2, abstract())


def test_a_run_does_not_go_on_from_parameters_alone(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.5, 0.1, 0.2], keep_latest=1)
  cut_short(tmp_path / "run/3/optimizer/manifest.ocdbt")
  with pytest.raises(CheckpointError, match="none of the checkpoints in "):
    checkpoints.resume(abstract(), numbers())
  assert (tmp_path / "run/3").exists()


def test_checkpoints_of_one_item_have_parameters_but_no_run_to_go_on(tmp_path):
  # Formerly it held the parameters and what the optimizer knows.
  saved = state(3.0)
  items = {
    "state": ocp.args.StandardSave(
      {
        "step": saved.step,
        "params": saved.params,
        "opt_state": saved.opt_state,
      }
    ),
    "model": ocp.args.JsonSave(MODEL),
    "data": grain.checkpoint.CheckpointSave(numbers()),
  }
  with ocp.CheckpointManager(tmp_path / "run", item_names=tuple(items)) as old:
    old.save(3, args=ocp.args.Composite(**items))
  checkpoints = Checkpoints(tmp_path / "run", "validation/hit@1", MODEL)
  kernel = checkpoints.restore_params(3, abstract(8).params)["kernel"]
  np.testing.assert_array_equal(kernel, np.full((4, 2), 3.0))
  assert kernel.sharding.num_devices == 8
  with pytest.raises(
    CheckpointError,
    match="run/3: begun with another input pipeline and optimizer; it can be "
    "evaluated and exported, not trained on",
  ):
    checkpoints.resume(abstract(8), numbers())
  assert (tmp_path / "run/3").exists()


def test_a_run_of_another_order_of_batches_does_not_go_on(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1])
  [path] = (tmp_path / "run/1/data").glob("process_0-of-*.json")
  path.write_text('{"next_index": 1}')  # as formerly
  (tmp_path / "run/1" / DIGESTS_FILE).unlink()
  iterator = input_pipeline.BatchIterator(NumberReader())
  with pytest.raises(
    CheckpointError, match="run/1: begun with another input pipeline, .*not tr"
  ):
    checkpoints.resume(abstract(), iterator)
  assert iterator.get_state()["next_index"] == 0


def test_another_architecture_is_refused_by_field(tmp_path):
  fill(tmp_path / "run", [0.1]).close()
  other = {"model": {"layers": 3, "width": 4}, "vocab_size": 9}
  checkpoints = Checkpoints(tmp_path / "run", "validation/hit@1", other)
  with pytest.raises(CheckpointError) as error:
    checkpoints.restore(1, abstract())
  message = str(error.value)
  assert "model.layers: run 2, config 3" in message
  assert "vocab_size: run 7, config 9" in message
  assert "width" not in message


def test_digests_do_not_name_files_outside(tmp_path):
  fill(tmp_path / "run", [0.1]).close()
  path = tmp_path / "run" / "1" / DIGESTS_FILE
  digests = json.loads(path.read_text()) | {"params/../../../../outside": "0"}
  path.write_text(json.dumps(digests))
  checkpoints = Checkpoints(tmp_path / "run", "validation/hit@1", MODEL)
  with pytest.raises(CheckpointError, match="outside.*leads out"):
    checkpoints.restore_params(1, abstract().params)


def cut_short(path):
  path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scramble(path):
  path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))


def resume(folder):
  """Returns step, kernel value and next number of the data."""
  checkpoints = Checkpoints(folder, "validation/hit@1", MODEL, keep_latest=2)
  iterator = numbers()
  step, restored = checkpoints.resume(abstract(), iterator)
  checkpoints.close()
  kernel = np.unique(restored.params["kernel"])
  assert kernel.shape == (1,)
  return step, float(kernel[0]), next(iterator)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [pathlib.Path.unlink, cut_short, scramble])
def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path, caplog, damage):
  fill(tmp_path / "run", [0.1, 0.2, 0.3], keep_latest=2).close()
  newest = tmp_path / "run" / "3"
  passed_over = set()
  files = [path for path in newest.rglob("*") if path.is_file()]
  for path in files:
    name = path.relative_to(newest)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    damage(tmp_path / "copy" / "3" / name)
    caplog.clear()
    step, kernel, number = resume(tmp_path / "copy")
    # What was read is whole, whichever it is.
    assert (kernel, number) == (step, step), name
    if step == 2:
      passed_over.add(name.parts[0])
      assert "copy/3 cannot be read" in caplog.text, name
      assert len(list((tmp_path / "copy.unreadable").iterdir())) == 1
      shutil.rmtree(tmp_path / "copy.unreadable")
    else:
      assert step == 3
    shutil.rmtree(tmp_path / "copy")
  assert {"params", "optimizer", "data", "model"} <= passed_over


@pytest.mark.slow
def test_a_step_that_was_moved_aside_is_saved_again(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1, 0.2, 0.3], keep_latest=2)
  (tmp_path / "run/3/model/metadata").unlink()
  iterator = numbers()
  assert checkpoints.resume(abstract(), iterator)[0] == 2
  checkpoints.save(3, state(3.0), iterator, {"validation/hit@1": 0.9})
  checkpoints.close()
  assert resume(tmp_path / "run") == (3, 3.0, 2)


def flip_bit(path):
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 1
  path.write_bytes(content)


def test_a_flipped_bit_in_any_file_is_noticed(tmp_path, caplog):
  checkpoints = fill(tmp_path / "run", [0.1, 0.2], keep_latest=2)
  folder = tmp_path / "run/2"
  for item in ("params", "optimizer", "model", "data"):
    for path in (folder / item).rglob("*"):
      if path.is_file():
        content = path.read_bytes()
        flip_bit(path)
        pattern = f"run/2 .*{path.relative_to(folder).as_posix()}"
        with pytest.raises(UnreadableCheckpointError, match=pattern):
          checkpoints.restore(2, abstract(), numbers())
        if item in ("params", "model"):
          with pytest.raises(UnreadableCheckpointError, match=pattern):
            checkpoints.restore_params(2, abstract().params)
        path.write_bytes(content)
  (folder / "metrics/metrics").unlink()
  caplog.clear()
  reopened = Checkpoints(tmp_path / "run", "validation/hit@1", MODEL, 2)
  assert reopened.best_step == 1
  assert str(folder) in caplog.text
  assert reopened.restore(2, abstract())
  flip_bit(next((folder / "params/d").iterdir()))
  # The step before is read in its place.
  assert resume(tmp_path / "run") == (1, 1.0, 1)


def test_a_checkpoint_without_digests_is_read_with_a_warning(tmp_path, caplog):
  fill(tmp_path / "run", [0.1]).close()
  (tmp_path / "run/1" / DIGESTS_FILE).unlink()
  caplog.clear()
  assert resume(tmp_path / "run") == (1, 1.0, 1)
  assert DIGESTS_FILE in caplog.text


def test_where_none_can_be_read_nothing_is_moved(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1, 0.2, 0.3], keep_latest=2)
  for step in (2, 3):
    scramble(tmp_path / f"run/{step}/model/metadata")
  with pytest.raises(CheckpointError, match="none of the checkpoints in "):
    checkpoints.resume(abstract(), numbers())
  assert not (tmp_path / "run.unreadable").exists()


def test_a_step_that_is_asked_for_and_damaged_is_named(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1])
  cut_short(tmp_path / "run/1/optimizer/manifest.ocdbt")
  with pytest.raises(
    UnreadableCheckpointError, match="run/1 .*optimizer/manifest.ocdbt"
  ):
    checkpoints.restore(1, abstract())
  # The parameters are in other files.
  assert checkpoints.restore_params(1, abstract().params)


def test_a_parameter_that_is_no_number_is_named(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1])
  broken = state(2.0)
  broken = broken.replace(params=jax.tree.map(jnp.log, state(0.0).params))
  checkpoints.save(2, broken, numbers(), {"validation/hit@1": 0.2})
  checkpoints.wait()
  with pytest.raises(
    UnreadableCheckpointError, match="run/2 .*: kernel holds NaN or infinity"
  ):
    checkpoints.restore_params(2, abstract().params)


def test_metrics_that_cannot_be_read_are_not_the_best(tmp_path):
  fill(tmp_path / "run", [0.1, 0.2, 0.3], keep_latest=2).close()
  cut_short(tmp_path / "run/3/metrics/metrics")
  checkpoints = Checkpoints(tmp_path / "run", "validation/hit@1", MODEL, 2)
  assert (checkpoints.best_step, checkpoints.latest_step) == (2, 3)


@pytest.mark.slow
def test_a_checkpoint_without_metrics_is_never_the_best(tmp_path):
  checkpoints = fill(tmp_path / "run", [0.1, 0.5])
  iterator = numbers()
  for step in (3, 4):
    checkpoints.save(step, state(float(step)), iterator)
  checkpoints.wait()
  assert (checkpoints.best_step, checkpoints.latest_step) == (2, 4)
  steps = {path.name for path in list_steps(tmp_path / "run")}
  assert steps == {"2", "4"}


@pytest.mark.slow
def test_from_eight_devices_to_one_to_two(tmp_path):
  """Parameters split over the devices there are, as in training."""
  width = 16

  def split(devices, value=0.0):
    mesh = devices_lib.make_mesh(devices, fsdp=devices)
    params = {"layer": {"query": {"kernel": jnp.full((width, width), value)}}}
    tree = TrainState(jnp.int32(1), params, jax.tree.map(jnp.copy, params), {})
    return jax.device_put(tree, devices_lib.state_shardings(tree, mesh))

  saved = split(8, 3.0)
  kernel = saved.params["layer"]["query"]["kernel"]
  assert kernel.sharding.num_devices == 8
  iterator = numbers()
  folder, metrics = tmp_path / "run", {"validation/hit@1": 0.5}
  first = Checkpoints(folder, "validation/hit@1", MODEL)
  first.save(1, saved, iterator, metrics)
  first.close()
  for step, devices in enumerate((1, 2), start=1):
    checkpoints = Checkpoints(folder, "validation/hit@1", MODEL)
    like = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding),
      split(devices),
    )
    found, restored = checkpoints.resume(like, iterator)
    kernel = restored.params["layer"]["query"]["kernel"]
    assert found == step
    assert kernel.sharding.num_devices == devices
    assert kernel.addressable_shards[0].data.size == width * width // devices
    np.testing.assert_array_equal(kernel, np.full((width, width), 3.0))
    checkpoints.save(step + 1, restored, iterator, metrics)
    checkpoints.close()
