"""Topologies by name, and figures of their devices."""

import pytest

from ctd_jax.training.plan import topologies
from ctd_jax.training.plan.topologies import parse_topology


@pytest.mark.parametrize(
  ("name", "num_devices"),
  [
    ("cpu:8", 8),
    ("h100:8", 8),
    ("v5e:4x4", 16),
    ("v4:2x2x2", 8),  # one device a chip: megacore
    ("tpu7x:2x2x1", 8),  # two devices a chip
  ],
)
def test_topologies_have_as_many_devices_as_jax_will_see(name, num_devices):
  topology = parse_topology(name)
  assert topology.name == name
  assert topology.num_devices == num_devices


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("v9:4x4", r"unknown device 'v9'; there are cpu, v4, .*h100"),
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
    parse_topology(name)


def test_every_accelerator_has_a_peak_and_figures():
  for name, accelerator in topologies.ACCELERATORS.items():
    figures = (
      accelerator.peak_flops,
      accelerator.memory,
      accelerator.memory_bandwidth,
      accelerator.link_bandwidth,
    )
    if name == "cpu":
      assert figures == (None,) * 4
    else:
      assert all(figure > 0 for figure in figures), name


def test_gpus_of_several_nodes_are_joined_by_a_network():
  assert parse_topology("h100:8").link_bandwidth == 450e9
  assert parse_topology("h100:16").link_bandwidth == 50e9
  assert parse_topology("v5e:16x16").link_bandwidth == 200e9
