"""A run that is told to stop saves, leaves with a status, and goes on."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from ctd_jax.experiments import training_run
from ctd_jax.training import devices, train_step
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def whole(small_world, tmp_path_factory):
  """A run that nobody stopped."""
  folder = tmp_path_factory.mktemp("whole")
  training_run.train_and_evaluate(synthetic_run.config("ft"), folder)
  return folder


def results(workdir: pathlib.Path) -> dict[str, str]:
  """Returns what a run has to leave, to the byte."""
  paths = [
    workdir / "metrics.jsonl",
    workdir / "evaluation/per_query.tsv",
    *workdir.glob("evaluation/run.ft-synthetic.*.trec"),
  ]
  assert len(paths) == 6  # one split, four galleries
  return {path.name: path.read_text() for path in paths}


def signalled(monkeypatch, at: int, *signals: int) -> None:
  """Sends signals to this process during an update."""
  make = train_step.make_train_step
  count = iter(range(1, 1000))

  def wrapped(*args):
    update = make(*args)

    def step(state, batch):
      if next(count) == at:
        for number in signals:
          os.kill(os.getpid(), number)
      return update(state, batch)

    return step

  monkeypatch.setattr(train_step, "make_train_step", wrapped)


def saved_steps(workdir: pathlib.Path) -> set[int]:
  """Returns the complete checkpoints."""
  names = [path.name for path in (workdir / "checkpoints").iterdir()]
  return {int(name) for name in names if name.isdigit()}


@pytest.mark.slow
@pytest.mark.parametrize(
  ("number", "status", "at"),
  [
    (signal.SIGTERM, devices.EXIT_SAVED, 8),
    (signal.SIGINT, devices.EXIT_INTERRUPTED, 5),  # a step that validates
  ],
)
def test_saves_after_the_step_and_goes_on_exactly(
  tmp_path, monkeypatch, whole, number, status, at
):
  before = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)}
  with monkeypatch.context() as patch:
    signalled(patch, at, number)
    with pytest.raises(devices.Preempted) as stop:
      training_run.train_and_evaluate(synthetic_run.config("ft"), tmp_path)
  assert stop.value.code == status
  assert max(saved_steps(tmp_path)) == at
  assert not (tmp_path / "evaluation").exists()
  assert before == {s: signal.getsignal(s) for s in before}
  training_run.train_and_evaluate(synthetic_run.config("ft"), tmp_path)
  assert results(tmp_path) == results(whole)


@pytest.mark.slow
def test_told_twice_it_leaves_at_once(tmp_path, monkeypatch):
  signalled(monkeypatch, 8, signal.SIGTERM, signal.SIGTERM)
  with pytest.raises(devices.Preempted) as stop:
    training_run.train_and_evaluate(synthetic_run.config("ft"), tmp_path)
  assert stop.value.code == devices.EXIT_SAVED
  assert 8 not in saved_steps(tmp_path)


def test_without_anything_to_save_it_leaves_at_once():
  with devices.PreemptionWatch(), pytest.raises(devices.Preempted):
    os.kill(os.getpid(), signal.SIGTERM)


def start(workdir: pathlib.Path) -> subprocess.Popen:
  return subprocess.Popen(
    [
      sys.executable,
      *("-m", "tests.training.synthetic_run", "--step_seconds=0.1"),
      f"--workdir={workdir}",
    ],
    cwd=ROOT,
    env={**os.environ, "JAX_NUM_CPU_DEVICES": "1"},
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
  )


def wait_for(path: pathlib.Path, lines: int, run: subprocess.Popen) -> None:
  """Returns when a file has so many lines."""
  while not path.exists() or len(path.read_text().splitlines()) < lines:
    assert run.poll() is None, "the run ended by itself"
    time.sleep(0.02)


@pytest.mark.slow
def test_a_run_that_is_killed_and_stopped_is_the_uninterrupted_one(
  tmp_path, whole
):
  path = tmp_path / "metrics.jsonl"
  run = start(tmp_path)
  wait_for(path, 8, run)
  run.kill()
  run.wait()
  run = start(tmp_path)
  wait_for(path, 10, run)
  run.send_signal(signal.SIGTERM)
  assert run.wait() == devices.EXIT_SAVED
  last = json.loads(path.read_text().splitlines()[-1])["step"]
  assert max(saved_steps(tmp_path)) == last
  training_run.train_and_evaluate(synthetic_run.config("ft"), tmp_path)
  assert results(tmp_path) == results(whole)
