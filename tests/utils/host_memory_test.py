import os
import subprocess
import sys

import pytest

from ctd_jax.utils import host_memory

# Prints the MiB that a process still holds of 256 that it has let go.
HELD = """
import importlib.metadata, sys
import numpy as np
from ctd_jax.utils import host_memory

def resident():
  with open("/proc/self/statm") as file:
    return int(file.read().split()[1]) * 4096 / 2**20

if sys.argv[1:]:
  importlib.metadata.entry_points = lambda group: sys.argv[1:]
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
    if not name.startswith("MALLOC_")
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


def test_what_is_freed_is_kept():
  assert held() > 200


@pytest.mark.parametrize(
  "variables", [{"MALLOC_MMAP_MAX_": "9"}, {"MALLOC_TRIM_THRESHOLD_": "0"}]
)
def test_a_variable_of_the_environment_wins(variables):
  assert held(**variables) < 50


def test_a_host_of_accelerators_is_left_alone():
  assert held("cuda") < 50


def test_another_c_library_is_left_alone(monkeypatch):
  monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda name: object())
  host_memory.keep_memory()
