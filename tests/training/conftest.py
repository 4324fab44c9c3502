"""Fixtures of the tests that train."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def quick_compile():
  """Has XLA compile quickly rather than well, here and in child processes.

  For tests of the life of a run, whose models are small and whose time is
  spent compiling. Not for golden values.
  """
  import jax  # not above: tests/conftest.py configures JAX first

  name = "jax_disable_most_optimizations"
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv(name.upper(), "1")
    jax.config.update(name, True)
    yield
  jax.config.update(name, False)
