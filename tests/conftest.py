"""What every test runs under: CPU, eight devices, no network, parsed flags.

Environment variables rather than `jax.config`, because tests also start other
processes; set here, before anything imports JAX.
"""

import os
import pathlib

import pytest
from absl import flags

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
  """Adds --parity, without which tests/parity is not collected."""
  parser.addoption(
    "--parity",
    action="store_true",
    help="also compare with the published implementations (extra [parity])",
  )


def pytest_ignore_collect(
  collection_path: pathlib.Path, config: pytest.Config
) -> bool | None:
  """Leaves out what needs torch, unless it is asked for."""
  if collection_path.name == "parity" and not config.getoption("parity"):
    return True
  return None


def pytest_configure(config: pytest.Config) -> None:
  """Keeps compiled functions between test runs, and marks flags as parsed."""
  cache = config.cache.mkdir("jax")
  os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
  os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
  os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
  # grain and TFDS read flags that only app.run() would parse.
  flags.FLAGS.mark_as_parsed()
