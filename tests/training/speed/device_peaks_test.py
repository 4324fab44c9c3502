"""Peaks by the names that JAX has for devices."""

import pytest

from ctd_jax.training.speed import device_peaks


@pytest.mark.parametrize(
  ("device_kind", "tera"),
  [
    ("NVIDIA H100 80GB HBM3", 989),
    ("NVIDIA H100 PCIe", 756),
    ("NVIDIA H100 NVL", 835),
    ("NVIDIA H200", 989),
    ("NVIDIA GH200 480GB", 989),
    ("NVIDIA B200", 2250),
    ("NVIDIA GB200", 2500),
    ("NVIDIA A100-SXM4-80GB", 312),
    ("NVIDIA A10G", 70),
    ("NVIDIA A10", 125),
    ("NVIDIA L40S", 362),
    ("NVIDIA L4", 121),
    ("NVIDIA GeForce RTX 4090", 165.2),
    ("AMD Instinct MI300X", 1307.4),
    ("TPU v2", 22.5),
    ("TPU v4", 275),
    ("TPU v5 lite", 197),
    ("TPU v5", 459),
    ("TPU v6 lite", 918),
    ("TPU7x", 1153.5),
  ],
)
def test_the_peak_is_that_of_one_device(device_kind, tera):
  assert device_peaks.find_peak_flops(device_kind) == tera * 1e12


@pytest.mark.parametrize(
  "device_kind",
  [
    "cpu",
    "Intel(R) Xeon(R) CPU",
    "NVIDIA H20",
    "NVIDIA L40",
    "Tesla T4",
    "TPU v9",
    # A seventh of it has no seventh of the table.
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
  ],
)
def test_of_other_devices_no_peak_is_known(device_kind):
  assert device_peaks.find_peak_flops(device_kind) is None
