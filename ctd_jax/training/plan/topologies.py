"""Topologies that a run can be planned for, and the figures of their devices.

A topology is a name and a number or a grid of chips: h100:8, v5e:4x4, cpu:8.
"""

from __future__ import annotations

import dataclasses
import math
import re

from ctd_jax.training.speed import device_peaks

_GIGA = 1e9
_GIB = 2**30
CPU, GPU, TPU = "cpu", "gpu", "tpu"


@dataclasses.dataclass(frozen=True)
class Accelerator:
  """Figures of one JAX device; those of a processor are not known.

  Attributes:
    platform: `CPU`, `GPU` or `TPU`.
    kind: name that JAX has for the device.
    memory: bytes.
    memory_bandwidth: bytes a second.
    link_bandwidth: bytes a second to the other devices, in one direction, over
      all links of the device.
    devices_per_chip: JAX devices on a chip of the grid.
    chip_config: name that libtpu has for how cores form devices; "" = its
      default.
  """

  platform: str
  kind: str
  memory: float | None = None
  memory_bandwidth: float | None = None
  link_bandwidth: float | None = None
  devices_per_chip: int = 1
  chip_config: str = ""

  @property
  def peak_flops(self) -> float | None:
    """FLOP/s of one device; None = not known."""
    return device_peaks.find_peak_flops(self.kind)


def _gpu(kind: str, memory: float, bandwidth: float, link: float):
  """Returns a GPU: memory in 10^9 bytes, bandwidths in 10^9 bytes a second."""
  return Accelerator(GPU, kind, memory * _GIGA, bandwidth * _GIGA, link * _GIGA)


def _tpu(
  kind: str, memory: float, bandwidth: float, link: float, devices: int = 1
):
  """Returns a device of a TPU chip; memory of the chip in GiB, as documented.

  Args:
    kind: name of the device.
    memory: of the chip.
    bandwidth: of the chip, in 10^9 bytes a second.
    link: bidirectional inter-chip interconnect of the chip, likewise; half of
      it goes in one direction.
    devices: JAX devices on the chip.
  """
  return Accelerator(
    TPU,
    kind,
    memory * _GIB / devices,
    bandwidth * _GIGA / devices,
    link * _GIGA / 2 / devices,
    devices,
  )


ACCELERATORS = {
  "cpu": Accelerator(CPU, "cpu"),
  # Google Cloud documentation of each version, specifications per chip.
  "v4": dataclasses.replace(
    _tpu("TPU v4", 32, 1228, 300), chip_config="megacore"
  ),
  "v5e": _tpu("TPU v5 lite", 16, 819, 400),
  "v5p": _tpu("TPU v5p", 95, 2765, 1200),
  "v6e": _tpu("TPU v6 lite", 32, 1638, 800),
  "tpu7x": _tpu("TPU7x", 192, 7380, 1200, devices=2),
  # NVIDIA data sheets: memory, its bandwidth, and half of the NVLink bandwidth,
  # which they give for both directions (L4: of PCIe 4.0 x16).
  "a100-40": _gpu("NVIDIA A100-SXM4-40GB", 40, 1555, 300),
  "a100": _gpu("NVIDIA A100-SXM4-80GB", 80, 2039, 300),
  "h100": _gpu("NVIDIA H100 80GB HBM3", 80, 3350, 450),
  "h200": _gpu("NVIDIA H200", 141, 4800, 450),
  "b200": _gpu("NVIDIA B200", 180, 7700, 900),
  "l4": _gpu("NVIDIA L4", 24, 300, 32),
}
# GPUs that NVLink joins in one node of NVIDIA's own design, and what each has
# to other nodes there: a network adapter of 400 Gb/s (DGX H100 data sheet).
GPUS_PER_NODE = 8
NETWORK_BANDWIDTH = 50 * _GIGA


@dataclasses.dataclass(frozen=True)
class Topology:
  """Devices of a run.

  Attributes:
    name: as it was given, and as libtpu names it.
    accelerator: each of the devices.
    num_devices: JAX devices.
  """

  name: str
  accelerator: Accelerator
  num_devices: int

  @property
  def link_bandwidth(self) -> float | None:
    """Bytes a second from a device to the others, in one direction."""
    if self.accelerator.platform == GPU and self.num_devices > GPUS_PER_NODE:
      return NETWORK_BANDWIDTH
    return self.accelerator.link_bandwidth


def parse_topology(text: str) -> Topology:
  """Returns the topology of a name such as h100:8 or v5e:4x4.

  Raises:
    ValueError: saying what would be right.
  """
  name, _, shape = text.partition(":")
  if name not in ACCELERATORS:
    raise ValueError(
      f"--topology={text}: unknown device {name!r}; there are "
      f"{', '.join(ACCELERATORS)}"
    )
  accelerator = ACCELERATORS[name]
  pattern, example = r"[1-9]\d*", f"{name}:8"
  if accelerator.platform == TPU:
    # Chips of v5e and v6e form a plane, others a block.
    axes = 2 if name in ("v5e", "v6e") else 3
    pattern = "x".join([pattern] * axes)
    example = f"{name}:4x4" if axes == 2 else f"{name}:2x2x1"
  if not re.fullmatch(pattern, shape):
    raise ValueError(f"--topology={text}: expected e.g. {example}")
  chips = math.prod(map(int, shape.split("x")))
  return Topology(text, accelerator, chips * accelerator.devices_per_chip)
