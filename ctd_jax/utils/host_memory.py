"""What malloc does with memory that is let go; imports no JAX."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping

# Parameters of glibc's mallopt, from malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -3, -4, -8
# Parameter, its variable of the environment, value.
_SETTINGS = (
  (MMAP_MAX, "MALLOC_MMAP_MAX_", 0),  # nothing is mapped,
  (TRIM_THRESHOLD, "MALLOC_TRIM_THRESHOLD_", -1),  # given back
  (ARENA_MAX, "MALLOC_ARENA_MAX", 1),  # or kept twice
)


def keep_memory() -> None:
  """Has glibc keep what is freed, where JAX computes on processors.

  XLA asks for the buffers of a step or of a search each time, and malloc maps
  what is large and gives it back at once. The kernel then clears every page
  anew: 100,000 faults in a training step of 0.4 GB, a quarter of its time, and
  a third of that of a search by CTD's score.

  To be called before JAX computes; threads that have a heap keep it. It does
  nothing where a plugin of JAX for an accelerator is installed, whose buffers
  are none of malloc's, unless JAX_PLATFORMS is "cpu"; and nothing where the C
  library is another. What the environment says of malloc wins: a variable
  MALLOC_..., or GLIBC_TUNABLES.
  """
  if os.environ.get("JAX_PLATFORMS") != "cpu" and _has_accelerator_plugin():
    return
  if "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
    return
  set_malloc(
    {
      parameter: value
      for parameter, variable, value in _SETTINGS
      if variable not in os.environ
    }
  )


def set_malloc(values: Mapping[int, int]) -> None:
  """Sets parameters of glibc's malloc; another C library is left alone.

  Args:
    values: parameter, one of those above -> value.
  """
  with contextlib.suppress(AttributeError, OSError):  # another C library
    mallopt = ctypes.CDLL(None).mallopt
    for parameter, value in values.items():
      mallopt(parameter, value)


def _has_accelerator_plugin() -> bool:
  return bool(
    importlib.metadata.entry_points(group="jax_plugins")
    or importlib.util.find_spec("jax_plugins")
    or importlib.util.find_spec("libtpu")
  )
