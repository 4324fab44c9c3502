import importlib
import os
import platform
import subprocess
import sys

import pytest

from ctd_jax.utils import host_memory

needs_glibc = pytest.mark.skipif(
  platform.libc_ver()[0] != "glibc", reason="of glibc"
)
# Prints the MiB that a process still holds of 256 that it has let go, where
# JAX has the plugins of the arguments.
HELD = """
import importlib.metadata, importlib.util, resource, sys
import numpy as np
from ctd_jax.utils import host_memory

def resident():
  with open("/proc/self/statm") as file:
    return int(file.read().split()[1]) * resource.getpagesize() / 2**20

importlib.metadata.entry_points = lambda group: sys.argv[1:]
importlib.util.find_spec = lambda name: None
host_memory.keep_memory()
before = resident()
array = np.ones(256 * 2**20, np.uint8)
del array
print(resident() - before)
"""


def held(*plugins, **variables):
  environment = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("MALLOC_", "GLIBC_", "JAX_PLATFORMS"))
  }
  return float(
    subprocess.run(
      [sys.executable, "-c", HELD, *plugins],
      env=environment | variables,
      capture_output=True,
      text=True,
      check=True,
    ).stdout
  )


@needs_glibc
def test_what_is_freed_is_kept():
  assert held() > 200
  assert held("cuda", JAX_PLATFORMS="cpu") > 200


@needs_glibc
@pytest.mark.parametrize(
  "variables",
  [
    {"MALLOC_MMAP_MAX_": "9"},
    {"MALLOC_TRIM_THRESHOLD_": "0"},
    {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=9"},
  ],
)
def test_the_environment_wins(variables):
  assert held(**variables) < 50


@needs_glibc
def test_a_host_of_accelerators_is_left_alone():
  assert held("cuda") < 50


def test_what_is_set_and_what_is_left(monkeypatch):
  settings = {}

  class Library:
    def __init__(self, name):
      self.mallopt = settings.__setitem__

  monkeypatch.setattr(host_memory, "_has_accelerator_plugin", lambda: False)
  monkeypatch.setattr(host_memory.ctypes, "CDLL", Library)
  for name in ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
  host_memory.keep_memory()
  assert settings == {-4: 0, -1: -1}
  monkeypatch.delenv("MALLOC_ARENA_MAX")
  host_memory.keep_memory()
  assert settings == {-4: 0, -1: -1, -8: 1}


def test_another_c_library_is_left_alone(monkeypatch):
  monkeypatch.setattr(host_memory, "_has_accelerator_plugin", lambda: False)
  monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda name: object())
  host_memory.keep_memory()


@pytest.mark.parametrize("name", ["ctd_jax.train", "ctd_jax.evaluate"])
def test_commands_that_compute_keep_it(monkeypatch, name):
  class ReachedError(Exception):
    pass

  def reach():
    raise ReachedError

  monkeypatch.setattr(host_memory, "keep_memory", reach)
  with pytest.raises(ReachedError):
    importlib.import_module(name).main()
