"""Plan of a step: topologies, workload, memory, traffic, largest batch."""

import dataclasses
import math
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from ctd_jax.training import config as training_config
from ctd_jax.training import experiment, plan, train_step
from ctd_jax.training.devices import make_mesh  # the run has another
from ctd_jax.training.objective import Objective
from ctd_jax.training.speed import ModelFlops
from ctd_jax_configs import qwen, tiny
from tests.training import synthetic_run

ROOT = pathlib.Path(__file__).resolve().parents[2]
QWEN = ROOT / "tests/golden/encoders/qwen3"  # config.json; weights not read
FLOAT = 4  # bytes
GIB = 2**30
PLAN = plan.StepPlan(
  batch_size=256,
  texts=1280,
  tokens=81_920,
  packed_shape=(8, 24, 512),
  sizes={
    "state": 7 * GIB - 2**16,
    "batch": 2**16,
    "temporaries": 4 * GIB,
    "outputs": 100,
    "program": 23 * 2**20,
  },
  model_flops=3e14,
  computed_flops=4e14,
  traffic={
    "all-gather": plan.Traffic(12, 2**20),
    "all-reduce": plan.Traffic(1034, 4.5e9 - 2**20),
  },
  compile_seconds=29.4,
)


@pytest.mark.parametrize(
  ("name", "num_devices", "link"),
  [
    ("h100:8", 8, 450),
    ("h100:16", 16, 50),  # several nodes, joined by a network
    ("v5e:4x4", 16, 200),
    ("v4:2x2x2", 8, None),  # one device a chip: megacore
    ("tpu7x:2x2x1", 8, None),  # two devices a chip
  ],
)
def test_topologies_have_as_many_devices_as_jax_will_see(
  name, num_devices, link
):
  topology = plan.parse_topology(name)
  assert (topology.name, topology.num_devices) == (name, num_devices)
  assert link in (None, topology.link)


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("v9:4x4", r"unknown device 'v9'; expected one of cpu, v4, .*h100"),
    ("h100", "expected e.g. h100:8"),
    ("h100:0", "expected e.g. h100:8"),
    ("h100:2x4", "expected e.g. h100:8"),
    ("v5e:16", "expected e.g. v5e:4x4"),
    ("v5e:2x2x1", "expected e.g. v5e:4x4"),
    ("v5p:4x4", "expected e.g. v5p:2x2x1"),
    ("v5e:4x4 ", "expected e.g. v5e:4x4"),
  ],
)
def test_what_is_no_topology_is_an_error_that_says_what_would_be(name, message):
  with pytest.raises(ValueError, match=f"--topology={name}: {message}"):
    plan.parse_topology(name)


@pytest.fixture
def qwen_config(tmp_path):
  (tmp_path / "config.json").write_text((QWEN / "config.json").read_text())
  config = qwen.get_config()
  config.model.encoder.source = str(tmp_path)
  config.query_length = config.record_length = 32
  return config


def test_an_encoder_from_scratch_has_the_vocabulary_that_is_named():
  workload = plan.read_workload(tiny.get_config(), vocab_size=123)
  assert workload.encoder.vocab_size == 123
  assert workload.encoder.hidden_size == 64
  assert len(workload.timeline.reigns) > 1
  assert (workload.query_tokens, workload.record_tokens) == (40, 64)


def test_of_a_published_encoder_config_json_is_enough(qwen_config):
  workload = plan.read_workload(qwen_config, 10, 20)
  training_config.validate(qwen_config)
  assert workload.encoder.remat
  assert type(workload.encoder).__name__ == "DecoderConfig"
  assert (workload.query_tokens, workload.record_tokens) == (10, 20)


def test_a_geometry_that_is_not_there_is_an_error(qwen_config, tmp_path):
  (tmp_path / "config.json").unlink()
  with pytest.raises(FileNotFoundError, match=r"--config\.model\.encoder\.sou"):
    plan.read_workload(qwen_config)
  qwen_config.model.encoder.source = "Qwen/Qwen3-Embedding-0.6B"
  # The tests have no network.
  with pytest.raises(FileNotFoundError, match="nor a model of the hub"):
    plan.read_workload(qwen_config)


@pytest.mark.parametrize("tokens", [0, 41])
def test_texts_longer_than_they_are_cut_are_an_error(tokens):
  message = f"--query_tokens={tokens}: expected 1 to 40"
  with pytest.raises(ValueError, match=message):
    plan.read_workload(tiny.get_config(), tokens)


def compile_on_mesh(function, shape, *split_axes) -> str:
  """Returns the program of a function of one array, on 4 x 2 devices."""
  mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
  sharded = jax.shard_map(
    function,
    mesh=mesh,
    in_specs=PartitionSpec(*split_axes),
    out_specs=PartitionSpec(*split_axes),
    check_vma=False,
  )
  array = jax.ShapeDtypeStruct(
    shape,
    jnp.float32,
    sharding=NamedSharding(mesh, PartitionSpec(*split_axes)),
  )
  return jax.jit(sharded).lower(array).compile().as_text()


def test_collectives_send_their_arrays():
  text = compile_on_mesh(lambda x: jax.lax.psum(x, "b"), (16, 8), "a")
  # [4, 8] of every device, summed and then handed out.
  traffic = {"all-reduce": plan.Traffic(1, 2 * 4 * 8 * FLOAT)}
  assert plan.read_traffic(text, 8) == traffic

  def gather(x):
    return jax.lax.all_gather(x, "a", tiled=True).sum() + x

  text = compile_on_mesh(gather, (16, 8), "a")
  traffic = plan.read_traffic(text, 8)
  assert traffic["all-gather"] == plan.Traffic(1, 16 * 8 * FLOAT)


def test_collectives_in_a_loop_count_as_often_as_it_runs():
  def layers(x):
    def layer(x, _):
      return jnp.tanh(jax.lax.psum(x, "a")), None

    return jax.lax.scan(layer, x, length=5)[0]

  def nested(x):
    return jax.lax.fori_loop(0, 3, lambda _, x: layers(x), x)

  text = compile_on_mesh(nested, (16, 8), "a")
  traffic = {"all-reduce": plan.Traffic(15, 15 * 2 * 4 * 8 * FLOAT)}
  assert plan.read_traffic(text, 8) == traffic


# As libtpu writes it: no number of runs beside the loop, and one collective in
# the fusions that run beside it.
TPU_PROGRAM = """\
HloModule jit_step, is_scheduled=true

%condition.1 (state: (s32[], bf16[4,128])) -> pred[] {
  %limit.3 = s32[]{:T(128)} constant(28)
  %count.1 = s32[]{:T(128)} get-tuple-element(%state.1), index=0
  ROOT %lt.1 = pred[]{:T(512)} compare(%count.1, %limit.3), direction=LT
}

%body.1 (state: (s32[], bf16[4,128])) -> (s32[], bf16[4,128]) {
  %all-reduce.9 = (bf16[4,128]{1,0:T(8,128)(2,1)S(1)}, /*index=1*/f32[]{:T(128)}) all-reduce(%x.1, %y.1), channel_id=1, replica_groups=[2,4]<=[8], to_apply=%sum
  ROOT %next.1 = (s32[]{:T(128)}, bf16[4,128]{1,0:T(8,128)(2,1)}) tuple(%n, %x.2)
}

%start.1 (p: f32[2,3]) -> f32[16,3] {
  ROOT %all-gather.1 = f32[16,3]{1,0:T(4,128)} all-gather(%p), channel_id=2, replica_groups=mesh['axis_0'=8,'axis_1'=1] {'axis_0'}, dimensions={0}
}

%done.1 (p: f32[2,3]) -> f32[16,3] {
  ROOT %all-gather.2 = f32[16,3]{1,0:T(4,128)} all-gather(%p.1), channel_id=2, replica_groups=mesh['axis_0'=8,'axis_1'=1] {'axis_0'}, dimensions={0}
}

ENTRY %main (p: f32[2,3]) -> f32[16,3] {
  %while.1 = (s32[]{:T(128)}, bf16[4,128]{1,0:T(8,128)(2,1)}) while(%t), condition=%condition.1, body=%body.1
  %fusion.1 = f32[16,3]{1,0:T(4,128)} fusion(%p.2), kind=kCustom, calls=%start.1
  %all-reduce-start.1 = (f32[32]{0}, f32[32]{0}) all-reduce-start(%z), replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=%sum
  ROOT %fusion.2 = f32[16,3]{1,0:T(4,128)} fusion(%fusion.1), kind=kCustom, calls=%done.1
}
"""  # noqa: E501


def test_a_program_of_a_tpu():
  in_loop = 2 * (4 * 128 * 2 + FLOAT)
  assert plan.read_traffic(TPU_PROGRAM, 8) == {
    "all-reduce": plan.Traffic(29, 28 * in_loop + 2 * 32 * FLOAT),
    "all-gather": plan.Traffic(1, 16 * 3 * FLOAT),
  }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """A run whose texts have ten tokens each, not begun."""
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    yield experiment.assemble_experiment(
      synthetic_run.config("ft"), tmp_path_factory.mktemp("run")
    )


@pytest.fixture(scope="module")
def workload(run):
  return plan.Workload(run.model.config.encoder, run.benchmark.timeline, 10, 10)


@pytest.fixture(scope="module")
def step_plan(run, workload, quick_compile):
  return plan.plan_step(run.config, workload, run.mesh)


def test_a_plan_needs_what_the_step_of_the_run_needs(run, step_plan):
  assert step_plan.batch_size == 8
  assert step_plan.texts == 8 * (2 + sum(run.config.negatives.values()))
  assert step_plan.tokens == 10 * step_plan.texts
  batch = next(run.training_batches())
  assert step_plan.packed_shape == batch["texts"].ids.shape
  objective = Objective.from_config(run.config, run.model, run.mesh)
  update = train_step.make_train_step(objective, run.optimizer, 0)
  state = run.abstract_state()
  memory = update.lower(state, batch).compile().memory_analysis()
  sizes = step_plan.sizes
  assert sizes["state"] + sizes["batch"] == memory.argument_size_in_bytes
  assert sizes["temporaries"] == memory.temp_size_in_bytes
  # Parameters, two moments, two counters.
  assert sizes["state"] == count_bytes(state)
  assert sizes["outputs"] < 1024  # metrics: the new state takes the old place
  assert step_plan.model_flops == ModelFlops(objective).count(batch)
  assert step_plan.computed_flops == step_plan.model_flops
  assert step_plan.traffic == {}


def count_bytes(tree) -> int:
  leaves = jax.tree.leaves(tree)
  return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def test_devices_share_the_batch_and_send_gradients(run, workload, step_plan):
  mesh = make_mesh(2, devices=jax.devices())
  shared = plan.plan_step(run.config, workload, mesh)
  assert shared.packed_shape[0] == 2
  assert shared.sizes["state"] == step_plan.sizes["state"]
  assert shared.sizes["batch"] < step_plan.sizes["batch"]
  assert shared.model_flops == pytest.approx(step_plan.model_flops, rel=0.2)
  # The gradients are summed and handed out, the vectors of texts gathered.
  gradients = count_bytes(run.abstract_state().params)
  assert 2 * gradients < shared.sent_bytes < 4 * gradients


def test_processors_stand_in_for_devices_with_kernels_and_rows_of_theirs(
  run, workload, quick_compile
):
  config = run.config.copy_and_resolve_references()
  config.record_length = 90
  encoder = dataclasses.replace(
    workload.encoder, max_length=256, dtype="bfloat16", attention="splash"
  )
  workload = workload._replace(record_tokens=90, encoder=encoder)
  with pytest.raises(ValueError, match="it is for a tpu, and this is a cpu"):
    plan.plan_step(config, workload, run.mesh)
  # Rows of a TPU have 128 columns or 256.
  tpu = plan.plan_step(config, workload, run.mesh, "tpu")
  assert tpu.packed_shape[2] % 128 == 0


def test_a_batch_that_does_not_divide_is_an_error(run, workload):
  config = run.config.copy_and_resolve_references()
  config.encode_chunks = 3
  with pytest.raises(ValueError, match="batch_size=8 does not divide into 3"):
    plan.plan_step(config, workload, run.mesh)


@given(
  fixed=st.floats(0, 1e9),
  per_query=st.floats(1, 1e6),
  per_pair=st.floats(0, 100),
  unit=st.integers(1, 512),
  first=st.integers(1, 64),
  limit=st.floats(1e3, 1e11),
  known=st.floats(1, 4),
)
def test_the_largest_batch_fits_and_one_a_tenth_larger_does_not(
  fixed, per_query, per_pair, unit, first, limit, known
):
  tried = {}

  def count_bytes(batch):
    """A compiler that says nothing of what is `known` times too much."""
    assert batch > 0
    assert batch % unit == 0
    size = fixed + per_query * batch + per_pair * batch**2
    tried[batch] = size if size <= known * limit else math.inf
    return tried[batch]

  largest = plan.find_largest_batch(unit * first, unit, limit, count_bytes)
  assert len(tried) <= 30
  too_large = [batch for batch, size in tried.items() if size > limit]
  if not largest:
    assert min(too_large) == unit
    return
  assert tried[largest] <= limit
  if 1.1 * largest + unit < plan._LARGEST_BATCH:
    assert largest < min(too_large) <= max(1.1 * largest, largest + unit)


def make_planner(name: str, memory=None) -> plan.Planner:
  topology = plan.parse_topology(name)
  return plan.Planner(
    config=None,
    topology=topology,
    workload=None,
    efficiency=0.5,
    device_memory=topology.memory if memory is None else memory,
  )


def test_a_step_takes_its_products_and_then_what_it_sends():
  lowest, expected = make_planner("h100:8").estimate_seconds(PLAN)
  compute, sending = 4e14 / (8 * 989e12), 4.5e9 / 450e9
  assert lowest == pytest.approx(compute + sending)
  assert expected == pytest.approx(2 * compute + sending)
  # Over the network of several nodes.
  lowest, _ = make_planner("h100:16").estimate_seconds(PLAN)
  assert lowest == pytest.approx(compute / 2 + 4.5e9 / 50e9)


def test_a_step_takes_the_reading_and_writing_of_its_state_at_least():
  small = dataclasses.replace(PLAN, computed_flops=1e12, traffic={})
  seconds = make_planner("h100:8").estimate_seconds(small)
  assert seconds == pytest.approx((2 * small.sizes["state"] / 3350e9,) * 2)
  # Nothing is said of processors.
  assert make_planner("cpu:8").estimate_seconds(PLAN) is None


def test_a_plan_says_what_a_step_needs():
  lines = list(make_planner("h100:8").describe_plan(PLAN))
  names = [name for name, _ in lines if name]
  assert names == ["batch", "memory", "FLOPs", "sent", "step"]
  text = "\n".join(text for _, text in lines)
  for figure in (
    "256 queries, 1,280 texts of 81,920 tokens; 8 packs of 24 rows of 512",
    "11 GiB  a device, fits in 55.9 GiB",
    "23 MiB  program",
    "300 T    a step, as MFU counts them",
    "4.19 GiB  all-reduce, 1,034 times",
    "111 ms   at 50% of the peak: 2,300 queries/s, 737,000 tokens/s",
  ):
    assert figure in text
  assert "outputs" not in text  # a hundred bytes have no line


def test_without_a_count_of_flops_there_is_no_time():
  uncounted = dataclasses.replace(PLAN, model_flops=None, computed_flops=None)
  names = dict(make_planner("h100:8").describe_plan(uncounted))
  assert "memory" in names
  assert not names.keys() & {"FLOPs", "step"}


def test_what_does_not_fit_is_said():
  texts = dict(make_planner("v5e:4x4", 8 * GIB).describe_plan(PLAN))
  assert "a device, does not fit in 8 GiB" in texts["memory"]


def call(*arguments: str) -> subprocess.CompletedProcess:
  return subprocess.run(
    [
      sys.executable,
      "-m",
      "ctd_jax.plan",
      "--config=configs/tiny.py:ft",
      "--config.model.encoder.num_layers=1",
      *arguments,
    ],
    env=os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    capture_output=True,
    text=True,
    check=False,
  )


@pytest.mark.slow
def test_a_run_is_planned_and_the_largest_batch_is_looked_for():
  done = call("--topology=cpu:2", "--memory=0.1", "--config.batch_size=16")
  assert done.returncode == 0, done.stderr
  lines = done.stdout.splitlines()
  assert lines[0] == (
    "run            ft-tiny on cpu:2 (data 2, fsdp 1, tensor 1)"
  )
  assert lines[1] == "compiler       XLA for processors"
  names = [line[:15].strip() for line in lines]
  assert " ".join(filter(None, names)) == (
    "run compiler batch memory FLOPs sent other batches largest batch"
  )
  [sizes] = re.findall(
    r"^largest batch  (.+) queries; (.+) do not", done.stdout, re.M
  )
  largest, too_large = (int(size.replace(",", "")) for size in sizes)
  assert largest < too_large <= 1.1 * largest + 2
  sizes = re.findall(r"([\d.]+) MiB  ([\d,]+) queries$", done.stdout, re.M)
  needs = {int(batch.replace(",", "")): float(size) for size, batch in sizes}
  assert needs[too_large] > 102.4
  assert largest == 32 or needs[largest] <= 102.4


@pytest.mark.slow
def test_processors_stand_in_for_devices_and_an_unknown_one_is_an_error():
  done = call(
    "--topology=h100:2",
    "--nolargest_batch",
    "--config.model.encoder.attention=cudnn",
  )
  assert done.returncode == 0, done.stderr
  assert "compiler       XLA for 2 processors, because this" in done.stdout
  assert re.search(
    r"^step .* at 40% of the peak: .* tokens/s$", done.stdout, re.M
  )
  assert "fits in 55.9 GiB" in done.stdout
  done = call("--topology=h100")
  assert done.returncode == 1
  assert "error: --topology=h100: expected e.g. h100:8" in done.stderr
  assert "Traceback" not in done.stderr
