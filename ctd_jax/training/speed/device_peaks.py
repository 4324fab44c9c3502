"""Peak arithmetic of accelerators, by the name that JAX has for a device.

Utilisation is a share of these figures: dense products of bf16 numbers with
sums in fp32, of one JAX device. A run in fp32 is measured against them too.
"""

from __future__ import annotations

import re

_TERA = 1e12
# Part of the name of a device -> FLOP/s of one device. The first that matches
# counts. NVIDIA's data sheets print twice these figures, "with sparsity".
_PEAKS = tuple(
  (re.compile(rf"(?:^|\W)(?:{pattern})(?:\W|$)"), peak * _TERA)
  for pattern, peak in (
    # Google Cloud documentation, "TPU versions", peak compute per chip in
    # bf16. A device is one of the two cores of a chip of v2, v3 and 7x, and
    # a whole chip of the others.
    ("TPU v2", 45 / 2),
    ("TPU v3", 123 / 2),
    ("TPU v4 lite", 138),  # Jouppi et al. 2021, "Ten Lessons", table 1
    ("TPU v4", 275),
    ("TPU v5 lite|TPU v5e", 197),
    ("TPU v5|TPU v5p", 459),
    ("TPU v6 lite|TPU v6e", 918),
    ("TPU7x", 2307 / 2),
    # NVIDIA, HGX B200 data sheet (36 PFLOP/s sparse on 8) and GB200 NVL72
    # data sheet (10 sparse on 2 GPUs).
    ("GB200", 2500),
    ("B200", 2250),
    # NVIDIA H200 Tensor Core GPU data sheet (NVL 1,671, SXM 1,979 sparse).
    ("H200 NVL", 835),
    ("H200", 989),
    # NVIDIA GH200 Grace Hopper Superchip data sheet (1,979 sparse).
    ("GH200", 989),
    # NVIDIA H100 Tensor Core GPU data sheet (NVL 1,671, PCIe 1,513, SXM 1,979
    # sparse).
    ("H100 NVL", 835),
    ("H100 PCIe", 756),
    ("H100", 989),
    # NVIDIA A100 80GB data sheet (624 sparse), the same for 40 GB and PCIe.
    ("A100", 312),
    # NVIDIA A30, A40, A10 and RTX A6000 data sheets (330, 299, 250 and 310
    # sparse); NVIDIA A10G data sheet (140 sparse).
    ("A30", 165),
    ("A40", 149.7),
    ("A10G", 70),
    ("A10", 125),
    ("RTX A6000", 154.8),
    # NVIDIA L40S and L4 data sheets (733 and 242 sparse).
    ("L40S", 362),
    ("L4", 121),
    # NVIDIA architecture white papers: RTX Blackwell, Ada (RTX 4090; RTX 6000
    # Ada) and GA102, peak BF16 with FP32 accumulate, dense.
    ("GeForce RTX 5090", 209.5),
    ("GeForce RTX 4090", 165.2),
    ("RTX 6000 Ada Generation", 364.2),
    ("GeForce RTX 3090", 71),
    # AMD Instinct MI300X data sheet, peak bfloat16.
    ("MI300X", 1307.4),
  )
)
# A part of a GPU, e.g. "NVIDIA H100 80GB HBM3 MIG 3g.40gb".
_PARTITION = re.compile(r"\bMIG\b")


def find_peak_flops(device_kind: str) -> float | None:
  """Returns the peak of one device in FLOP/s; None = not known.

  Args:
    device_kind: `jax.Device.device_kind`. A processor has no peak here, nor a
      part of a GPU.
  """
  if _PARTITION.search(device_kind):
    return None
  for pattern, peak in _PEAKS:
    if pattern.search(device_kind):
      return peak
  return None
