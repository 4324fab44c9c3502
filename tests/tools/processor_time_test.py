"""The limit of processor time fails a run for tests that are slow alone."""

import os
import pathlib

import pytest

from tests.tools import processes

ROOT = pathlib.Path(__file__).parents[2]
CONFTEST = """
from tests.tools import processor_time

def pytest_addoption(parser):
  parser.addoption("--cpu-limit", type=float)

def pytest_configure(config):
  plugin = processor_time.ProcessorTime(0, config.getoption("cpu_limit"))
  config.pluginmanager.register(plugin)
"""
TESTS = """
import os, time

def work():
  begin = time.process_time()
  while time.process_time() - begin < 1:
    pass

def test_slow():
  work()

def test_fast():
  pass

def test_charged():
  if "PYTEST_XDIST_WORKER" in os.environ:
    work()
"""


@pytest.mark.slow
def test_a_run_fails_for_tests_that_are_slow_alone(tmp_path):
  (tmp_path / "conftest.py").write_text(CONFTEST, "utf-8")
  (tmp_path / "some_test.py").write_text(TESTS, "utf-8")
  environment = {**os.environ, "PYTHONPATH": str(ROOT)}
  environment.pop("PYTEST_XDIST_WORKER", None)

  def run(*arguments):
    command = "-m", "pytest", "-n", "2", "--cpu-limit=0.5", *arguments
    return processes.run_python(*command, cwd=tmp_path, env=environment)

  done = run()
  assert done.returncode == pytest.ExitCode.TESTS_FAILED
  _, _, too_slow = done.stdout.partition("too slow")
  assert "::test_slow: 1." in too_slow
  assert "::test_" not in too_slow.replace("::test_slow:", "")
  done = run("-k", "not test_slow")
  assert done.returncode == pytest.ExitCode.OK, done.stdout
