"""Processes that read ahead end with the run, however it ends."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import grain
import numpy as np
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


KILLED_READER = """
import os
import pathlib
import signal
import threading

from absl import flags

from ctd_jax.training.input_pipeline import BatchIterator
from tests.training.batch_iterator_test import LargeReader


def find_readers():
  tasks = pathlib.Path("/proc/self/task")
  children = " ".join(path.read_text() for path in tasks.glob("*/children"))
  for child in map(int, children.split()):
    if b"spawn_main" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
      yield child


def kill_reader():
  # Before it has read what it is given, which multiprocessing waits for.
  while not (readers := list(find_readers())):
    pass
  os.kill(readers[0], signal.SIGKILL)


if __name__ == "__main__":
  flags.FLAGS.mark_as_parsed()
  iterator = BatchIterator(LargeReader(), workers=1)
  killer = threading.Thread(target=kill_reader)
  killer.start()
  try:
    next(iterator)
  finally:
    killer.join()
    iterator.close()
"""


class LargeReader(grain.transforms.Map):
  """Reader that does not fit into the buffer of a pipe."""

  def __init__(self):
    """Makes what does not fit."""
    self.zeros = np.zeros(2**20, np.uint8)

  def map(self, element):
    """Returns the number."""
    return element


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
    env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
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
    assert not list(tmp_path.glob("ctd_jax-reader-*"))
  finally:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(run.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_reader_that_is_killed_before_it_has_begun_is_an_error(tmp_path):
  (tmp_path / "program.py").write_text(KILLED_READER)
  run = subprocess.run(
    [sys.executable, str(tmp_path / "program.py")],
    env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert run.returncode == 1
  assert "terminated unexpectedly with exit code -9" in run.stderr
  assert not list(tmp_path.glob("ctd_jax-reader-*"))
