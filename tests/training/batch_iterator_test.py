"""Processes that read ahead end with the run, however it ends."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A module of its own: processes that read import the main one.
PROGRAM = """
import time

from absl import flags

from tests.training import input_pipeline_test

if __name__ == "__main__":
  flags.FLAGS.mark_as_parsed()
  iterator = input_pipeline_test.batches(workers=1)
  next(iterator)
  print("reads", flush=True)
  time.sleep(600)
"""


def has_processes(group: int) -> bool:
  """Returns whether a process of a group lives."""
  try:
    os.killpg(group, 0)
  except ProcessLookupError:
    return False
  return True


@pytest.mark.slow
def test_no_reader_outlives_a_run_that_is_killed(tmp_path):
  (tmp_path / "program.py").write_text(PROGRAM)
  run = subprocess.Popen(
    [sys.executable, str(tmp_path / "program.py")],
    env={**os.environ, "PYTHONPATH": str(ROOT)},
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
    start_new_session=True,  # of which all its processes are
  )
  try:
    assert run.stdout.readline() == "reads\n"
    run.kill()
    run.wait()
    deadline = time.monotonic() + 20
    while has_processes(run.pid) and time.monotonic() < deadline:
      time.sleep(0.1)
    assert not has_processes(run.pid)
  finally:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(run.pid, signal.SIGKILL)
