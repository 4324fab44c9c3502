"""Peak memory of this process and of its devices."""

from __future__ import annotations

import resource
import sys

import jax

# Of ru_maxrss, see getrusage(2): KiB under Linux, bytes under macOS.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def read_peak_memory() -> dict[str, int]:
  """Returns the peaks since the process began, in bytes.

  Returns:
    speed/peak_host_bytes, the resident set; speed/peak_device_bytes of the
    fullest device of this process, left out where devices do not say it, e.g.
    on a processor, whose arrays are in the resident set.
  """
  resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  memory = {"speed/peak_host_bytes": resident * _RSS_UNIT}
  device_stats = [device.memory_stats() for device in jax.local_devices()]
  device_peaks = [
    stats["peak_bytes_in_use"]
    for stats in device_stats
    if stats and "peak_bytes_in_use" in stats
  ]
  if device_peaks:
    memory["speed/peak_device_bytes"] = max(device_peaks)
  return memory
