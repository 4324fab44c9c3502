"""A corpus built by Apache Beam, in processes of which some are killed."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from ctd_jax.models.pretrained import vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from tests.corpora import invented_corpus
from tests.models import published_folder

NUM_WORKS = 6


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> pathlib.Path:
  """A folder with texts and an encoder."""
  folder = tmp_path_factory.mktemp("world")
  invented_corpus.write_corpus(folder / "texts", NUM_WORKS, 12)
  published_folder.write(folder / "tiny", ["魯隱公元年正月，齊人來盟。"])
  settings = VectorSettings(
    "mean", True, SideSettings("", 40), SideSettings("", 40)
  )
  vector_settings.write_vector_settings(folder / "tiny", settings, 16)
  return folder


def start(world: pathlib.Path, out: str, *arguments: str) -> subprocess.Popen:
  """Starts the command; --out is relative to the folder of the world."""
  return subprocess.Popen(
    [
      sys.executable,
      "-m",
      "ctd_jax.corpora",
      f"--input={world / 'texts'}",
      f"--reigns={invented_corpus.REIGNS}",
      f"--encoder={world / 'tiny'}",
      f"--out={world / out}",
      *arguments,
    ],
    env=os.environ | {"JAX_NUM_CPU_DEVICES": "1"},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,  # so that it is killed with its workers
  )


def finish(process: subprocess.Popen) -> str:
  stdout, stderr = process.communicate(timeout=600)
  assert process.returncode == 0, stderr
  return stdout


def read_files(out: pathlib.Path) -> dict[str, bytes]:
  return {
    path.relative_to(out).as_posix(): path.read_bytes()
    for path in out.rglob("*")
    if path.is_file()
  }


@pytest.fixture(scope="module")
def local(world) -> dict[str, bytes]:
  """Files of the corpus that one process makes."""
  assert "6 works, 72 sections" in finish(start(world, "local"))
  files = read_files(world / "local")
  assert len(files) == 2 * NUM_WORKS + 1
  return files


@pytest.mark.beam
def test_several_workers_write_what_one_process_writes(world, local):
  process = start(world, "beam", "--runner=DirectRunner", "--workers=4")
  assert "6 works, 72 sections" in finish(process)
  assert read_files(world / "beam") == local


@pytest.mark.beam
def test_workers_that_are_killed_lose_nothing(world, local):
  flags = "--runner=DirectRunner", "--workers=2"
  process = start(world, "killed", *flags)
  dates = world / "killed" / "dates"
  while not any(dates.glob("*.parquet")) and process.poll() is None:
    time.sleep(0.02)
  os.killpg(process.pid, signal.SIGKILL)
  process.communicate()
  made = {path: path.stat().st_mtime_ns for path in dates.glob("*.parquet")}
  assert 0 < len(made) < NUM_WORKS
  for path in made:
    assert path.read_bytes() == local[f"dates/{path.name}"]
  finish(start(world, "killed", *flags))
  for path, mtime in made.items():
    assert path.stat().st_mtime_ns == mtime
  assert read_files(world / "killed") == local


def test_without_beam_the_flag_is_an_error_that_says_what_to_install(
  world, monkeypatch
):
  from ctd_jax.corpora import beam_runner

  monkeypatch.setattr(
    beam_runner.importlib.util, "find_spec", lambda name: None
  )
  with pytest.raises(ValueError, match=r"pip install 'ctd_jax\[beam\]'"):
    beam_runner.run_steps([], None, "FlinkRunner", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--workers=2"], "--workers=2: of --runner=DirectRunner alone"),
    (["--", "--flink_master=x"], "unexpected arguments: --flink_master=x"),
  ],
)
def test_flags_without_a_runner_are_an_error(world, arguments, message):
  process = start(world, "refused", *arguments)
  _, stderr = process.communicate(timeout=120)
  assert process.returncode == 1
  assert f"error: {message}" in stderr
