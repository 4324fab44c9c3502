"""Two processes on this machine make the run that one makes.

They are started as Slurm and as a person would start them; their collectives
are those of the CPU.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from absl.testing import flagsaver

from ctd_jax.benchmark import runs
from ctd_jax.experiments import training_run
from ctd_jax.training import devices
from tests.training import synthetic_run

ROOT = pathlib.Path(__file__).resolve().parents[2]
METHOD = "ctd"
# So that there is a step left when the signal has come.
SLOW = ["--step_seconds=0.5"]


pytestmark = pytest.mark.usefixtures("quick_compile")


@pytest.fixture(scope="module")
def alone(quick_compile, tmp_path_factory):
  """The run of one process, which this one is."""
  folder = tmp_path_factory.mktemp("alone")
  run_alone(folder)
  return folder


def run_alone(workdir: pathlib.Path) -> None:
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    training_run.train_and_evaluate(synthetic_run.config(METHOD), workdir)


def free_port() -> int:
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    return probe.getsockname()[1]


def start(workdir: pathlib.Path, flags: list[str], **env: str):
  """Starts one process, with one device."""
  log = workdir.parent / f"{workdir.name}.{time.time_ns()}.log"
  with log.open("w") as file:
    run = subprocess.Popen(
      [
        sys.executable,
        *("-m", "tests.training.synthetic_run", f"--method={METHOD}"),
        f"--workdir={workdir}",
        *flags,
      ],
      cwd=ROOT,
      env={**os.environ, "JAX_NUM_CPU_DEVICES": "1", **env},
      stdout=file,
      stderr=subprocess.STDOUT,
    )
  run.log = log
  return run


def by_slurm(workdir: pathlib.Path) -> list[subprocess.Popen]:
  """Starts two slow tasks with the variables that srun gives them."""
  job = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NTASKS": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "JAX_COORDINATOR_PORT": str(free_port()),
  }
  return [
    start(workdir, SLOW, **job, SLURM_PROCID=rank, SLURM_LOCALID=rank)
    for rank in "01"
  ]


def by_hand(workdir: pathlib.Path) -> list[subprocess.Popen]:
  """Starts two processes that are told of each other."""
  shared = [f"--coordinator=localhost:{free_port()}", "--num_processes=2"]
  return [start(workdir, [*shared, f"--process_id={rank}"]) for rank in "01"]


def wait(processes: list[subprocess.Popen], status: int = 0) -> None:
  """Returns when all have ended with `status`; none outlives the other."""
  try:
    for process in processes:
      assert process.wait(timeout=900) == status, process.log.read_text()
  finally:
    for process in processes:
      process.kill()


def metrics(workdir: pathlib.Path) -> list[dict[str, float]]:
  lines = (workdir / "metrics.jsonl").read_text().splitlines()
  return [json.loads(line) for line in lines]


def top_ten(workdir: pathlib.Path) -> dict[str, list[list[str]]]:
  """Returns the first ten records for every question, by run file."""
  paths = sorted((workdir / "evaluation").glob(f"run.{METHOD}-*.trec"))
  assert len(paths) == 4  # galleries
  return {
    path.name: {
      query: [record for record, _ in ranking[:10]]
      for query, ranking in runs.read_run(path).rankings.items()
    }
    for path in paths
  }


def assert_same(workdir: pathlib.Path, other: pathlib.Path) -> None:
  """Compares losses, validation metrics, lists and measures of two runs."""
  ours, theirs = metrics(workdir), metrics(other)
  assert [row.keys() for row in ours] == [row.keys() for row in theirs]
  for row, expected in zip(ours, theirs, strict=True):
    np.testing.assert_allclose(
      list(row.values()), list(expected.values()), rtol=1e-5, err_msg=str(row)
    )
  assert top_ten(workdir) == top_ten(other)
  table = "evaluation/per_query.tsv"
  assert (workdir / table).read_text() == (other / table).read_text()


@pytest.fixture(scope="module")
def stopped(quick_compile, tmp_path_factory):
  """A run of two processes, one of which was told to stop."""
  workdir = tmp_path_factory.mktemp("stopped") / "run"
  processes = by_slurm(workdir)
  while not (workdir / "metrics.jsonl").exists() or len(metrics(workdir)) < 2:
    assert processes[0].poll() is None, processes[0].log.read_text()
    time.sleep(0.05)
  processes[1].send_signal(signal.SIGTERM)
  wait(processes, devices.EXIT_SAVED)
  return workdir


@pytest.mark.slow
def test_where_one_process_is_told_to_stop_both_save_the_same_step(
  stopped, alone
):
  last = metrics(stopped)[-1]["step"]
  assert 2 <= last < metrics(alone)[-1]["step"]
  assert (stopped / "checkpoints" / str(last)).is_dir()
  assert not (stopped / "evaluation").exists()


@pytest.mark.slow
def test_two_processes_make_the_run_of_one(tmp_path, stopped, alone):
  workdir = tmp_path / "run"
  shutil.copytree(stopped, workdir)
  processes = by_hand(workdir)
  wait(processes)
  assert_same(workdir, alone)
  # One of them tells.
  told = [process.log.read_text() for process in processes]
  assert ["tables  " in text for text in told] == [True, False]


@pytest.mark.slow
def test_one_process_goes_on_with_the_run_of_two(tmp_path, stopped, alone):
  workdir = tmp_path / "run"
  shutil.copytree(stopped, workdir)
  run_alone(workdir)
  assert_same(workdir, alone)


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_shares_are_all_rows_once(monkeypatch, rows, processes):
  monkeypatch.setattr(devices.jax, "process_count", lambda: processes)
  shares = []
  for process in range(processes):
    monkeypatch.setattr(devices.jax, "process_index", lambda p=process: p)
    shares.append(devices.process_slice(rows))
  assert len({len(share) for share in shares}) == 1
  assert np.concatenate(shares)[:rows].tolist() == list(range(rows))
  assert np.concatenate(shares).max() < rows


def test_flags_belong_together():
  with (
    flagsaver.flagsaver(coordinator="localhost:1", process_id=0),
    pytest.raises(ValueError, match="--num_processes is missing"),
  ):
    devices.initialize_processes()


def test_one_process_is_left_alone(monkeypatch):
  monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
  monkeypatch.setattr(
    devices.jax.distributed, "initialize", lambda **_: pytest.fail("one")
  )
  devices.initialize_processes()
  tree = {"x": np.arange(3)}
  assert devices.is_coordinator()
  assert devices.to_process_local(tree) is tree
  np.testing.assert_array_equal(devices.fetch_to_host(tree)["x"], tree["x"])
