"""Traces of steps, the flag that asks for them, and runs that have none."""

import pathlib
import subprocess
import sys

import jax.numpy as jnp
import pytest
from absl import flags
from etils import epath

from ctd_jax.systems import training_run
from ctd_jax.training import profile_flags
from ctd_jax.training.speed import profiler as profiler_lib
from ctd_jax.training.speed.profiler import StepProfiler
from tests.training import synthetic_run


@pytest.fixture
def lines(monkeypatch):
  """Lines of the log."""
  log = []
  monkeypatch.setattr(
    profiler_lib.logging, "info", lambda text, *args: log.append(text % args)
  )
  return log


def run_steps(profiler: StepProfiler, first: int, last: int) -> None:
  for step in range(first, last + 1):
    profiler.begin_step(step)
    profiler.end_step(step, jnp.ones(3) * step)
  profiler.close()


def trace_files(folder: pathlib.Path) -> list[pathlib.Path]:
  return list(folder.rglob("*.xplane.pb"))


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("20", "expected START:STOP, two numbers of steps, e.g. 20:25"),
    ("a:b", "expected START:STOP, two numbers"),
    ("20:25:30", "expected START:STOP, two numbers"),
    ("-3:4", "expected START:STOP, two numbers"),
    ("25:20", "expected 1 <= START < STOP"),
    ("20:20", "expected 1 <= START < STOP"),
    ("0:3", "expected 1 <= START < STOP; the first step is 1"),
  ],
)
def test_a_wrong_range_is_an_error_of_the_flag(text, message):
  parser = flags.FLAGS[profile_flags.PROFILE.name].parser
  with pytest.raises(ValueError, match=message):
    parser.parse(text)
  assert parser.parse("20:25") == range(20, 25)


def test_the_error_is_one_line_before_anything_begins(tmp_path):
  done = subprocess.run(
    [
      *(sys.executable, "-m", "ctd_jax.train"),
      *("--config=configs/tiny.py", "--profile=25:20"),
    ],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 1
  (line,) = done.stderr.splitlines()
  assert line == (
    "error: flag --profile=25:20: expected 1 <= START < STOP; the first step "
    "is 1"
  )
  assert not list(tmp_path.iterdir())


def test_steps_up_to_the_one_before_stop_are_traced(tmp_path, lines):
  profiler = StepProfiler(range(2, 4), tmp_path, 0)
  run_steps(profiler, 1, 9)
  assert len(trace_files(tmp_path / "profile")) == 1
  (line,) = lines
  assert line == f"trace of the steps 2 to 3 is in {tmp_path / 'profile'}"


def test_a_run_that_ends_early_writes_what_it_has(tmp_path, lines):
  profiler = StepProfiler(range(2, 40), tmp_path, 0)
  run_steps(profiler, 1, 5)
  assert trace_files(tmp_path / "profile")
  assert "the steps 2 to 5 is in" in lines[0]


def test_without_a_range_nothing_is_written(tmp_path, lines):
  run_steps(StepProfiler(None, tmp_path, 0), 1, 9)
  assert not lines
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("resume_step", [2, 3, 8])
def test_a_run_resumed_behind_the_start_says_so(tmp_path, lines, resume_step):
  profiler = StepProfiler(range(2, 5), tmp_path, resume_step)
  run_steps(profiler, resume_step + 1, 9)
  assert lines == [
    "--profile=2:5: step 2 is done already, nothing is traced; the next step "
    f"is {resume_step + 1}"
  ]
  assert not list(tmp_path.iterdir())


def test_steps_that_the_run_does_not_have_are_refused(tmp_path):
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    config = synthetic_run.config("ft")
    with pytest.raises(ValueError, match="--profile=20:22: the run has 13 ste"):
      training_run.train_and_evaluate(config, tmp_path, profile=range(20, 22))
  assert not (tmp_path / "config.json").exists()


def test_only_the_first_process_traces(tmp_path, monkeypatch):
  monkeypatch.setattr(profiler_lib.distributed, "is_coordinator", lambda: False)
  run_steps(StepProfiler(range(2, 4), tmp_path, 0), 1, 9)
  assert not list(tmp_path.iterdir())


def test_the_trace_of_a_run_in_a_bucket_is_copied_there(
  tmp_path, lines, monkeypatch
):
  local_folders = []
  start_trace = profiler_lib.jax.profiler.start_trace
  monkeypatch.setattr(
    profiler_lib.jax.profiler,
    "start_trace",
    lambda folder: (local_folders.append(folder), start_trace(folder)),
  )
  workdir = epath.Path(tmp_path)  # of the class that buckets have
  run_steps(StepProfiler(range(1, 2), workdir, 0), 1, 2)
  assert trace_files(tmp_path / "profile")
  assert not pathlib.Path(local_folders[0]).exists()


def test_a_validity_run_has_no_steps_to_trace(tmp_path):
  config = synthetic_run.config("ft")
  config.task = "validity"
  with pytest.raises(ValueError, match="--profile: config.task='validity' is"):
    training_run.run_task(config, tmp_path, range(2, 4))
