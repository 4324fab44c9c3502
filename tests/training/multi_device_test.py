"""The step over eight devices is the step over one, however they are used."""

import functools
import re

import jax
import numpy as np
import optax
import pytest

from ctd_jax.models import packing
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.layers import LoraConfig
from ctd_jax.training import devices as devices_lib
from ctd_jax.training import input_pipeline, train_step
from ctd_jax.training.objective import Objective
from tests import synthetic
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile")

STEPS = 3
BATCH = 16
# Not Adam: where a gradient is zero but for rounding (a bias added to every
# score), it divides noise by noise.
SGD = optax.sgd(0.1, momentum=0.9)


def prepare(mesh, method: str, lora: LoraConfig | None = None, **fields):
  """Returns model, config and batches of the synthetic benchmark."""
  config = synthetic.config(method)
  config.model.encoder.dropout = 0.0
  config.batch_size = BATCH
  config.update(fields)
  benchmark = synthetic.benchmark()
  tokenizer, *tokens = synthetic_run.tokenize(
    benchmark, config.query_length, config.record_length
  )
  encoder = BertConfig(
    tokenizer.vocab_size, lora=lora, **config.model.encoder.to_dict()
  )
  model = train_step.make_model(config.model, encoder, benchmark.timeline)
  batches = input_pipeline.training_batches(
    benchmark,
    *tokens,
    input_pipeline.BatchSettings.from_config(
      config,
      devices_lib.count_batch_shards(mesh) * config.encode_chunks,
      [packing.row_width(config.record_length, encoder.max_length)],
    ),
  )
  return (
    model,
    config,
    (devices_lib.make_global_batch(batch, mesh) for batch in batches),
  )


def run_steps(mesh, method: str, **fields):
  """Returns the state after a few updates, and the losses before each."""
  model, config, batches = prepare(mesh, method, **fields)
  state = train_step.init_state(model, SGD, config.seed, mesh)
  update = train_step.make_train_step(
    Objective.from_config(config, model, mesh), SGD, config.seed
  )
  losses = []
  for _ in range(STEPS):
    batch = next(batches)
    assert batch["query_ends"].sharding.num_devices == mesh.size
    state, metrics = update(state, batch)
    losses.append(float(metrics["loss"]))
  return state, losses


@functools.cache
def on_one_device(method: str):
  return run_steps(devices_lib.make_mesh(1), method)


def assert_same(run, expected):
  (state, losses), (state_one, losses_one) = run, expected
  np.testing.assert_allclose(losses, losses_one, rtol=2e-5)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5),
    jax.device_get(state.params),
    jax.device_get(state_one.params),
  )
  assert int(state.step) == STEPS


@pytest.mark.slow
@pytest.mark.parametrize(
  ("method", "fsdp", "tensor"),
  [
    ("ft", 1, 1),
    ("ctd", 1, 1),
    ("ctd", 4, 1),
    ("ctd", 2, 2),
    ("temps", 2, 2),
  ],
)
def test_eight_devices_equal_one(method, fsdp, tensor):
  mesh = devices_lib.make_mesh(8, fsdp, tensor)
  run = run_steps(mesh, method)
  assert_same(run, on_one_device(method))
  kernel = run[0].params["encoder"]["layer_0"]["intermediate"]["kernel"]
  assert kernel.addressable_shards[0].data.size == kernel.size // (
    fsdp * tensor
  )


def run_on_eight_and_one(method, fsdp=2, tensor=2, **fields):
  """Returns two runs, which have to be the same."""
  meshes = devices_lib.make_mesh(8, fsdp, tensor), devices_lib.make_mesh(1)
  runs = [run_steps(mesh, method, **fields) for mesh in meshes]
  assert_same(*runs)
  return runs


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["cls", "last"])
def test_states_of_single_tokens_are_those_of_one_device(pooling):
  run_on_eight_and_one("ctd", model={"pooling": pooling})


@pytest.mark.slow
def test_processes_of_the_release_are_emulated_on_any_devices():
  loss = {"emulated_processes": 2}
  runs = run_on_eight_and_one("bias-release", 1, 1, loss=loss)
  _, losses = run_steps(devices_lib.make_mesh(1), "bias-release")
  assert abs(losses[-1] - runs[0][1][-1]) > 1e-5


@pytest.mark.slow
def test_cached_gradients_are_the_direct_ones():
  mesh = devices_lib.make_mesh(2)
  assert_same(run_steps(mesh, "ctd", encode_chunks=4), on_one_device("ctd"))


@pytest.mark.slow
def test_adapters_are_trained_alike_on_eight_devices():
  runs = run_on_eight_and_one("ctd", lora=LoraConfig(rank=2, alpha=4.0))
  state = runs[0][0]
  for name in ("query", "out"):
    adapter = state.params["encoder"]["layer_0"]["attention"][f"{name}_lora"]
    for matrix in adapter.values():  # split as their kernel is, in one axis
      assert matrix.addressable_shards[0].data.size == matrix.size // 2
    kernel = state.frozen["encoder"]["layer_0"]["attention"][name]["kernel"]
    assert kernel.addressable_shards[0].data.size == kernel.size // 4


def test_moments_live_with_their_parameters():
  mesh = devices_lib.make_mesh(8, fsdp=2, tensor=2)
  model, *_ = prepare(mesh, "ctd")
  state = train_step.abstract_state(model, optax.adam(1e-3), mesh)
  places = train_step.get_shardings(state)
  specs = {
    jax.tree_util.keystr(path, simple=True, separator="/"): place.spec
    for path, place in jax.tree_util.tree_leaves_with_path(places)
  }
  split = [name for name, spec in specs.items() if any(spec)]
  kernel = "encoder/layer_0/attention/out/kernel"
  found = [name for name in split if name.endswith(kernel)]
  assert len(found) == 3  # parameter and two moments
  assert {specs[name] for name in found} == {
    jax.sharding.PartitionSpec("tensor", "fsdp")
  }
  assert not any("heads" in name or "bias" in name for name in split)


def test_an_axis_that_does_not_divide_splits_nothing():
  mesh = devices_lib.make_mesh(8, fsdp=2, tensor=4)
  leaf = jax.ShapeDtypeStruct((2, 6, 10), np.float32)  # two layers
  tree = {"layers": {"query": {"kernel": leaf}}}
  place = devices_lib.state_shardings(tree, mesh)["layers"]["query"]["kernel"]
  assert place.spec == jax.sharding.PartitionSpec(None, "fsdp", None)


def collectives(text: str) -> dict[str, list[int]]:
  """Returns the elements of each collective's results in compiled HLO."""
  found: dict[str, list[int]] = {}
  pattern = r" = (.*?) (all-gather|all-reduce|all-to-all|collective-permute)\("
  for shapes, name in re.findall(pattern, text):
    sizes = [
      int(np.prod([int(n) for n in dims.split(",") if n]))
      for dims in re.findall(r"\w+\[([\d,]*)\]", shapes)
    ]
    found.setdefault(name, []).append(sum(sizes))
  return found


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_collectives_are_gathered_vectors_and_summed_gradients(pooling):
  mesh = devices_lib.make_mesh(8)
  model, config, batches = prepare(mesh, "ft", model={"pooling": pooling})
  state = train_step.init_state(model, SGD, config.seed, mesh)
  update = train_step.make_train_step(
    Objective.from_config(config, model, mesh), SGD, config.seed
  )
  batch = next(batches)
  found = collectives(update.lower(state, batch).compile().as_text())
  assert set(found) <= {"all-gather", "all-reduce"}
  width = config.model.encoder.hidden_size
  vectors = BATCH * width
  negatives = vectors * sum(config.negatives.values())
  # Vectors of texts for their queries, and of records for the queries; no
  # device ever holds all token states, or all pairs.
  places = batch["texts"].slots.size * width
  assert max(found["all-gather"]) == places < batch["texts"].ids.size * width
  records = vectors + negatives
  assert records in found["all-gather"]
  # The gradient of every parameter that has one is summed once, for all texts
  # pass the encoder together; so are those of the gathered vectors, maximum and
  # sum of the exponentials of each positive, two of either, and the means that
  # are logged. The row of a second segment is in no text.
  encoder = sum(x.size for x in jax.tree.leaves(state.params["encoder"]))
  summed = encoder - width + places + records + 4 * BATCH
  assert summed <= sum(found["all-reduce"]) <= summed + 8


def test_batch_must_divide_over_devices():
  mesh = devices_lib.make_mesh(8)
  with pytest.raises(ValueError, match="12 does not divide over 8"):
    devices_lib.make_global_batch(np.zeros((12, 2)), mesh)


@pytest.mark.parametrize("axes", [(3, 1), (1, 16), (0, 1)])
def test_axes_must_divide_the_devices(axes):
  with pytest.raises(ValueError, match="config.mesh: fsdp=.* the 8 devices"):
    devices_lib.make_mesh(8, *axes)


def test_more_devices_than_there_are():
  with pytest.raises(ValueError, match="asked for 99 devices, 8 are visible"):
    devices_lib.make_mesh(99)
