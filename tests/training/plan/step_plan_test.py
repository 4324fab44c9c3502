"""Plan of a step beside the step of a run, and the largest batch that fits."""

import dataclasses
import math

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctd_jax.training import experiment, train_step
from ctd_jax.training.objective import Objective
from ctd_jax.training.partitioning import make_mesh  # the run has another
from ctd_jax.training.plan import step_plan
from ctd_jax.training.plan.step_plan import LARGEST_BATCH, find_largest_batch
from ctd_jax.training.plan.workload import Workload
from ctd_jax.training.speed.model_flops import UpdateFlops
from tests.training import synthetic_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  """A run whose texts have ten tokens each, not begun."""
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    yield experiment.assemble_experiment(
      synthetic_run.config("ctd"), tmp_path_factory.mktemp("run")
    )


@pytest.fixture(scope="module")
def workload(run):
  return Workload(run.model.config.encoder, run.benchmark.timeline, 10, 10)


@pytest.fixture(scope="module")
def plan(run, workload):
  return step_plan.plan_step(run.config, workload, run.mesh)


def test_a_plan_has_the_size_of_a_batch(run, plan):
  assert plan.batch_size == 8
  assert plan.texts == 8 * (2 + sum(run.config.negatives.values()))
  assert plan.tokens == 10 * plan.texts


def test_a_plan_needs_what_the_step_of_the_run_needs(run, plan):
  batch = next(run.training_batches())
  assert plan.packed_shape == batch["texts"].ids.shape
  objective = Objective.from_config(run.config, run.model, run.mesh)
  update = train_step.make_train_step(objective, run.optimizer, 0)
  state = run.abstract_state()
  memory = update.lower(state, batch).compile().memory_analysis()
  assert plan.arguments == memory.argument_size_in_bytes
  assert plan.temporaries == memory.temp_size_in_bytes
  # Parameters, two moments, two counters.
  leaves = jax.tree.leaves(run.abstract_state())
  assert plan.state == sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
  assert plan.outputs < 1024  # metrics: the new state takes the old one's place
  flops = UpdateFlops(objective.compute_loss, state.params)
  assert plan.model_flops == flops.count(batch)
  assert plan.traffic == {}


def test_devices_share_the_batch_and_send_gradients(run, workload, plan):
  mesh = make_mesh(2, devices=jax.devices())
  shared = step_plan.plan_step(run.config, workload, mesh)
  assert shared.packed_shape[0] == 2
  assert shared.state == plan.state
  assert shared.arguments - shared.state < plan.arguments - plan.state
  assert shared.model_flops == pytest.approx(plan.model_flops, rel=0.2)
  larger = run.config.copy_and_resolve_references()
  larger.batch_size = 2 * run.config.batch_size
  twice = step_plan.plan_step(larger, workload, mesh)
  # Vectors of texts grow with the batch. What is left is sent whatever its
  # size: gradients, which each device sends and gets once, twice a half each.
  leaves = jax.tree.leaves(run.abstract_state().params)
  gradients = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
  vectors = twice.sent_bytes - shared.sent_bytes
  assert 0 < vectors < shared.sent_bytes
  assert gradients <= shared.sent_bytes - vectors < 1.5 * gradients


def test_devices_that_share_parameters_hold_parts_of_them(run, workload, plan):
  mesh = make_mesh(2, fsdp=2, devices=jax.devices())
  assert step_plan.plan_step(run.config, workload, mesh).state < plan.state


def test_processors_stand_in_for_devices_with_kernels_and_rows_of_theirs(
  run, workload
):
  config = run.config.copy_and_resolve_references()
  config.record_length = 90
  workload = dataclasses.replace(
    workload,
    record_tokens=90,
    encoder=dataclasses.replace(
      workload.encoder, max_length=256, dtype="bfloat16", attention="splash"
    ),
  )
  with pytest.raises(ValueError, match="it is for a tpu, and this is a cpu"):
    step_plan.plan_step(config, workload, run.mesh)
  tpu = step_plan.plan_step(config, workload, run.mesh, "tpu")
  plain = dataclasses.replace(workload.encoder, attention="plain")
  cpu = step_plan.plan_step(
    config, dataclasses.replace(workload, encoder=plain), run.mesh, "cpu"
  )
  # Rows of a TPU have 128 columns or 256, of processors what fits best.
  assert tpu.packed_shape[2] % 128 == 0 < cpu.packed_shape[2] % 128


def test_processors_in_the_place_of_devices_keep_products_alone(run, workload):
  """Unrolled, a program of theirs would keep all; FLOPs are of the run."""

  def plan(platform, **fields):
    encoder = dataclasses.replace(
      workload.encoder, attention="plain", num_layers=8, **fields
    )
    return step_plan.plan_step(
      run.config,
      dataclasses.replace(workload, encoder=encoder),
      run.mesh,
      platform,
    )

  unrolled, scanned = plan("gpu"), plan("gpu", scan_layers=True)
  assert unrolled.temporaries == scanned.temporaries
  assert unrolled.state == scanned.state
  all_kept = plan("gpu", kept_activations="all")
  assert scanned.temporaries < all_kept.temporaries
  assert plan("cpu", scan_layers=True).temporaries == all_kept.temporaries
  assert unrolled.model_flops == plan("cpu").model_flops


def test_a_batch_that_does_not_divide_is_an_error(run, workload):
  config = run.config.copy_and_resolve_references()
  config.encode_chunks = 3
  with pytest.raises(ValueError, match="batch_size=8 does not divide into 3"):
    step_plan.plan_step(config, workload, run.mesh)


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
    assert batch not in tried
    size = fixed + per_query * batch + per_pair * batch**2
    tried[batch] = size if size <= known * limit else math.inf
    return tried[batch]

  largest = find_largest_batch(unit * first, unit, limit, count_bytes)
  assert len(tried) <= 30
  too_large = [batch for batch, size in tried.items() if size > limit]
  if not largest:
    assert min(too_large) == unit
    return
  assert tried[largest] <= limit
  if 1.1 * largest + unit < LARGEST_BATCH:
    assert largest < min(too_large) <= max(1.1 * largest, largest + unit)


def test_a_batch_that_needs_memory_in_proportion_is_found_in_few_trials():
  tried = []

  def count_bytes(batch):
    tried.append(batch)
    return 3e9 + 7e6 * batch

  largest = find_largest_batch(16, 16, 16e9, count_bytes)
  assert largest == 1856  # 13e9 / 7e6 is 1857
  assert len(tried) <= 6
