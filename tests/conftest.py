"""Setup of every test: CPU, eight devices, no network, checked array shapes.

Environment variables rather than `jax.config`, because tests also start other
processes; set here, before anything imports JAX.
"""

import os
import pathlib
import sys
from collections.abc import Iterator

import jaxtyping
import pytest
import threadpoolctl
from absl import flags

from tests.tools import processor_time

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Folder of sources -> package that it is installed as.
PACKAGES = {
  "ctd_jax": "ctd_jax",
  "data": "ctd_jax_datasets",
  "configs": "ctd_jax_configs",
}

# Stretches of memory that a process may have, by default 65,530 on Linux: a
# compiled program has some, and beyond it a process is killed.
MEMORY_MAP = pathlib.Path("/proc/self/maps")
MOST_STRETCHES = 30_000

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"
os.environ["HF_HUB_OFFLINE"] = "1"
# Compiled functions are kept between test runs. Set here and not when pytest
# is configured: a conftest.py further down may import JAX before.
COMPILATION_CACHE = ROOT / ".pytest_cache" / "d" / "jax"
COMPILATION_CACHE.mkdir(parents=True, exist_ok=True)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILATION_CACHE))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def find_annotated_modules() -> list[str]:
  """Returns the modules that annotate arrays with their shapes."""
  modules = []
  for folder, package in PACKAGES.items():
    for path in (ROOT / folder).rglob("*.py"):
      if "from jaxtyping import" in path.read_text(encoding="utf-8"):
        parts = path.relative_to(ROOT / folder).with_suffix("").parts
        modules.append(".".join((package, *parts)))
  return modules


# Before any test imports them: every call then checks shapes and types.
jaxtyping.install_import_hook(find_annotated_modules(), "beartype.beartype")


def pytest_addoption(parser: pytest.Parser) -> None:
  """Adds the options of this project."""
  parser.addoption(
    "--parity",
    action="store_true",
    help="also compare with the published implementations (extra [parity])",
  )
  parser.addoption(
    "--durations-cpu",
    type=int,
    default=0,
    metavar="N",
    help="list the N tests and fixtures that take most processor time",
  )
  parser.addoption(
    "--cpu-limit",
    type=float,
    metavar="S",
    help="fail if a test not marked slow takes over S seconds of processor",
  )


def pytest_ignore_collect(
  collection_path: pathlib.Path, config: pytest.Config
) -> bool | None:
  """Leaves out what needs torch, unless it is asked for."""
  if collection_path.name == "parity" and not config.getoption("parity"):
    return True
  return None


def pytest_collection_modifyitems(
  config: pytest.Config, items: list[pytest.Item]
) -> None:
  """Skips what needs TensorFlow or Beam, unless it is asked for by -m."""
  for name in ("tf", "beam"):
    reason = f"launch/test.sh --{name} runs it"
    for item in items:
      if config.getoption("-m") != name and item.get_closest_marker(name):
        item.add_marker(pytest.mark.skip(reason=reason))


def pytest_configure(config: pytest.Config) -> None:
  """Marks flags as parsed: grain and TFDS read what app.run() would parse."""
  flags.FLAGS.mark_as_parsed()
  config.pluginmanager.register(
    processor_time.ProcessorTime(
      config.getoption("durations_cpu"), config.getoption("cpu_limit")
    )
  )


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
  """Keeps BLAS to one thread: the matrices are small and the cores shared.

  L-BFGS on a few hundred parameters is ten times slower where several threads
  wait for one another.
  """
  with threadpoolctl.threadpool_limits(1):
    yield


@pytest.fixture(autouse=True, scope="module")
def unload_programs() -> Iterator[None]:
  """Lets go of the programs of other files where there are too many."""
  yield
  if "jax" in sys.modules and MEMORY_MAP.exists():
    with MEMORY_MAP.open(encoding="utf-8") as lines:
      num_stretches = sum(1 for _ in lines)
    if num_stretches > MOST_STRETCHES:
      sys.modules["jax"].clear_caches()
