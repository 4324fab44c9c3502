"""Devices to compile for: those of a topology, or processors in their place."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies

from ctd_jax.training.plan.topologies import CPU, TPU, Topology


class CompileDevices(NamedTuple):
  """Devices that a step is compiled for.

  Attributes:
    devices: as many as the topology has.
    description: of the compiler, for people.
    is_exact: whether it is that of the topology's own devices.
  """

  devices: Sequence[jax.Device]
  description: str
  is_exact: bool


def find_devices(topology: Topology) -> CompileDevices:
  """Returns the devices to compile for; to be called before JAX is used.

  For a TPU libtpu compiles, where it is installed; for GPUs, those of this
  machine if it has enough of them. Otherwise as many processors stand in.

  Raises:
    ValueError: if libtpu does not know the topology.
  """
  jax.config.update("jax_num_cpu_devices", topology.num_devices)
  if topology.accelerator.platform == TPU:
    # Nothing here asks for a TPU, and to look for one takes minutes.
    jax.config.update("jax_platforms", CPU)
    if devices := _find_tpu_devices(topology):
      version = importlib.metadata.version("libtpu")
      return CompileDevices(devices, f"libtpu {version}", True)
    missing = "libtpu is not installed (pip install 'ctd_jax[tpu]')"
  elif topology.accelerator.platform == CPU:
    jax.config.update("jax_platforms", CPU)
    return CompileDevices(jax.devices(CPU), "XLA for processors", True)
  else:
    devices = _list_local_gpus(topology.accelerator.kind)
    if len(devices) >= topology.num_devices:
      count = topology.num_devices
      return CompileDevices(devices[:count], "XLA for its GPUs", True)
    missing = (
      f"this machine has {len(devices)} {topology.accelerator.kind!r} of "
      f"{topology.num_devices}"
    )
  return CompileDevices(
    jax.devices(CPU)[: topology.num_devices],
    f"XLA for {topology.num_devices} processors, because {missing}",
    False,
  )


def _find_tpu_devices(topology: Topology) -> Sequence[jax.Device]:
  """Returns the devices that libtpu describes; () without it."""
  try:
    importlib.metadata.version("libtpu")
  except importlib.metadata.PackageNotFoundError:
    return ()
  # It would ask the metadata server of a TPU machine, wait for it, and warn
  # that it did not say these; the topology is what is named below.
  os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
  os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
  os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-8")
  options: dict[str, Any] = {}
  if topology.accelerator.chip_config:
    options["chip_config_name"] = topology.accelerator.chip_config
  if topology.num_devices == topology.accelerator.devices_per_chip:
    # One chip; hosts have four by default.
    options["chips_per_host_bounds"] = (1, 1, 1)
  try:
    description = topologies.get_topology_desc(
      topology.name, platform=TPU, **options
    )
  except jax.errors.JaxRuntimeError as error:
    raise ValueError(
      f"--topology={topology.name}: libtpu refuses it: "
      f"{str(error).splitlines()[0]}"
    ) from error
  return description.devices


def _list_local_gpus(kind: str) -> list[jax.Device]:
  """Returns the GPUs of this machine of one kind."""
  try:
    devices = jax.devices("gpu")
  except RuntimeError:  # no such backend
    return []
  return [device for device in devices if device.device_kind == kind]
