"""The text of a plan, and the estimate of a step's time."""

import dataclasses

import pytest

from ctd_jax.training.plan import topologies
from ctd_jax.training.plan.collectives import Traffic
from ctd_jax.training.plan.plan_report import Planner
from ctd_jax.training.plan.step_plan import StepPlan

GIB = 2**30
PLAN = StepPlan(
  batch_size=256,
  texts=1280,
  tokens=81_920,
  packed_shape=(8, 24, 512),
  arguments=7 * GIB,
  temporaries=4 * GIB,
  outputs=100,
  code=23 * 2**20,
  state=7 * GIB - 2**16,
  model_flops=3e14,
  computed_flops=4e14,
  traffic={
    "all-gather": Traffic(12, 2**20),
    "all-reduce": Traffic(1034, 4.5e9 - 2**20),
  },
  compile_seconds=29.4,
)


def make_planner(name: str, memory=None) -> Planner:
  topology = topologies.parse_topology(name)
  return Planner(
    config=None,
    topology=topology,
    workload=None,
    efficiency=0.5,
    device_memory=topology.accelerator.memory if memory is None else memory,
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
  plan = dataclasses.replace(PLAN, computed_flops=1e12, traffic={})
  seconds = make_planner("h100:8").estimate_seconds(plan)
  assert seconds == pytest.approx((2 * plan.state / 3350e9,) * 2)


def test_nothing_is_said_of_the_time_of_processors():
  assert make_planner("cpu:8").estimate_seconds(PLAN) is None


def test_figures_stand_below_each_other():
  lines = list(make_planner("h100:8").describe_plan(PLAN))
  assert [f"{name:<7} {text}" for name, text in lines] == [
    "        took 29 s on this machine",
    "batch   256 queries, 1,280 texts of 81,920 tokens; 8 packs of 24 rows of "
    "512",
    "memory     11 GiB  a device, fits in 55.9 GiB",
    "            7 GiB  state",
    "           64 KiB  batch",
    "            4 GiB  temporaries",
    "           23 MiB  program",
    "FLOPs     300 T    a step, as MFU counts them",
    "          400 T    with recomputation",
    "sent     4.19 GiB  a device and step",
    "            1 MiB  all-gather, 12 times",
    "         4.19 GiB  all-reduce, 1,034 times",
    "step      111 ms   at 50% of the peak: 2,300 queries/s, 737,000 tokens/s",
    "         60.6 ms   at the peak",
  ]


def test_what_does_not_fit_is_said():
  texts = dict(make_planner("v5e:4x4", 8 * GIB).describe_plan(PLAN))
  assert "a device, does not fit in 8 GiB" in texts["memory"]
