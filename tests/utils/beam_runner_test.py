"""Corpora and indexes by Apache Beam, in processes of which some are killed."""

import contextlib
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ctd_jax.corpora import shards
from ctd_jax.models.pretrained import vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.retrieval import lance_tables
from ctd_jax.utils import beam_runner
from tests.corpora import invented_corpus
from tests.models import published_folder

NUM_WORKS, NUM_SHARDS = 6, 3
DIRECT = "--runner=DirectRunner"


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> pathlib.Path:
  """A folder with texts and an encoder."""
  folder = tmp_path_factory.mktemp("world")
  invented_corpus.write_corpus(folder / "texts", NUM_WORKS, 12, has_tales=True)
  published_folder.write(folder / "tiny", ["魯隱公元年正月，齊人來盟。"])
  settings = VectorSettings(
    "mean", True, SideSettings("", 40), SideSettings("", 40)
  )
  vector_settings.write_vector_settings(folder / "tiny", settings, 16)
  return folder


def start(module: str, *arguments: str) -> subprocess.Popen:
  return subprocess.Popen(
    [sys.executable, "-m", module, *arguments],
    env=os.environ | {"JAX_NUM_CPU_DEVICES": "1"},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,  # so that it is killed with its workers
  )


def start_corpus(
  world: pathlib.Path, out: str, *arguments: str
) -> subprocess.Popen:
  """Starts the dating of all texts into a folder of the world."""
  return start(
    "ctd_jax.corpora",
    f"--input={world / 'texts'}",
    f"--reigns={invented_corpus.REIGNS}",
    f"--encoder={world / 'tiny'}",
    "--links",
    "--shard_rows=24",
    f"--out={world / out}",
    *arguments,
  )


def start_index(
  world: pathlib.Path, name: str, *arguments: str
) -> subprocess.Popen:
  """Starts the index of three texts."""
  paths = sorted((world / "texts").iterdir())[:3]
  return start(
    "ctd_jax.index",
    f"--index={world / name}",
    f"--add={','.join(map(str, paths))}",
    f"--reigns={invented_corpus.REIGNS}",
    "--nopassages",
    *arguments,
  )


def finish(process: subprocess.Popen) -> str:
  stdout, stderr = process.communicate(timeout=600)
  assert process.returncode == 0, stderr
  return stdout


def read_files(folder: pathlib.Path) -> dict[str, Any]:
  """Returns the bytes of files, and of shards, which have indexes, the rows."""
  files: dict[str, Any] = {
    path.relative_to(folder).as_posix(): path.read_bytes()
    for path in folder.rglob("*")
    if path.is_file() and shards.SHARDS_FOLDER not in path.parts
  }
  # Those of a corpus that is not whole, too.
  for path in sorted(folder.glob(f"{shards.SHARDS_FOLDER}/*.lance")):
    table = (
      lance_tables.import_lancedb("a test")
      .connect(path)
      .open_table(shards.TABLE)
    )
    files[path.name] = table.to_arrow().to_pylist()
  return files


@pytest.fixture(scope="module")
def local(world) -> dict[str, Any]:
  """Files of the corpus that one process makes."""
  assert "6 works, 72 sections" in finish(start_corpus(world, "local"))
  files = read_files(world / "local")
  assert len(files) == 3 * NUM_WORKS + 1 + NUM_SHARDS
  return files


@pytest.mark.beam
def test_several_workers_write_what_one_process_writes(world, local):
  process = start_corpus(world, "beam", DIRECT, "--workers=4")
  assert "6 works, 72 sections" in finish(process)
  assert read_files(world / "beam") == local


@pytest.mark.beam
@pytest.mark.parametrize(
  ("pattern", "number"),
  [("dates/*.parquet", NUM_WORKS), ("shards/*.lance", NUM_SHARDS)],
)
def test_workers_that_are_killed_lose_nothing(world, local, pattern, number):
  """Killed when the first work is dated, and when the first shard is made."""
  flags = DIRECT, "--workers=2"
  folder = world / f"killed-{pattern[:5]}"
  process = start_corpus(world, folder.name, *flags)
  while not any(folder.glob(pattern)) and process.poll() is None:
    time.sleep(0.01)
  os.killpg(process.pid, signal.SIGKILL)
  process.communicate()
  made = {path: path.stat().st_mtime_ns for path in folder.glob(pattern)}
  assert 0 < len(made) < number
  for name, content in read_files(folder).items():
    assert ".tmp/" in name or content == local[name]
  with pytest.raises(FileNotFoundError, match="no finished shards"):
    shards.list_shards(folder)
  finish(start_corpus(world, folder.name, *flags))
  assert len(shards.list_shards(folder)) == NUM_SHARDS
  for path, mtime in made.items():
    assert path.stat().st_mtime_ns == mtime
  assert read_files(folder) == local


@contextlib.contextmanager
def start_cluster(
  folder: pathlib.Path,
) -> Iterator[tuple[str, list[subprocess.Popen]]]:
  """Yields the flag of a Dask scheduler, and its two workers."""
  import distributed

  file = folder / "scheduler.json"
  flags = "--no-dashboard", f"--scheduler-file={file}"
  commands = [
    ("scheduler", "--port=0"),
    *2 * [("worker", "--nthreads=1", "--no-nanny")],
  ]
  with contextlib.ExitStack() as stack:
    processes = []
    for number, command in enumerate(commands):
      log = stack.enter_context((folder / f"log{number}").open("w"))
      processes.append(
        subprocess.Popen(
          [sys.executable, "-m", "dask", *command, *flags],
          cwd=folder,  # not that of the command
          env=os.environ | {"JAX_NUM_CPU_DEVICES": "1"},
          stdout=log,
          stderr=log,
        )
      )
      stack.callback(processes[-1].wait)
      stack.callback(processes[-1].kill)
      wait_until(file.exists)
    with distributed.Client(scheduler_file=str(file)) as client:
      client.wait_for_workers(2, timeout=100)
    yield f"--dask_scheduler_file={file}", processes[1:]


def wait_until(is_true: Callable[[], bool]) -> None:
  deadline = time.monotonic() + 200
  while not is_true():
    assert time.monotonic() < deadline
    time.sleep(0.01)


@pytest.mark.beam
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_cluster_of_dask_writes_what_one_process_writes(
  world, local, tmp_path, is_killed
):
  """Also where a worker is killed when the first work is dated."""
  folder = world / f"dask-{is_killed}"
  with start_cluster(tmp_path) as (flag, workers):
    process = start_corpus(
      world, folder.name, "--runner=DaskRunner", "--", flag
    )
    if is_killed:
      pattern = "dates/*.parquet"
      wait_until(lambda: any(folder.glob(pattern)) or process.poll())
      workers[0].kill()
      assert 0 < len(list(folder.glob(pattern))) < NUM_WORKS
    assert "6 works, 72 sections" in finish(process)
    assert [worker.poll() is None for worker in workers] == [
      not is_killed,
      True,
    ]
  assert read_files(folder) == local


@pytest.mark.beam
def test_a_cluster_of_dask_that_is_lost_is_an_error(world, tmp_path):
  folder = world / "lost"
  with start_cluster(tmp_path) as (flag, _):
    process = start_corpus(
      world, folder.name, "--runner=DaskRunner", "--", flag
    )
    wait_until(lambda: any(folder.glob("dates/*.parquet")) or process.poll())
  _, stderr = process.communicate(timeout=300)
  assert process.returncode == 1
  assert "error: --runner=DaskRunner: " in stderr


@pytest.mark.beam
@pytest.mark.parametrize(
  ("flags", "message"),
  [
    ([], "--runner=DaskRunner: no scheduler is named; expected --"),
    (
      ["--dask_scheduler_file=gone.json"],
      "--dask_scheduler_file=gone.json: no such file",
    ),
    (
      [f"--dask_scheduler_file={__file__}"],
      f"--dask_scheduler_file={__file__}: not what dask scheduler writes",
    ),
    (
      [
        "--dask_client_address=tcp://127.0.0.1:1",
        "--dask_connection_timeout=2",
      ],
      "--dask_client_address=tcp://127.0.0.1:1: no scheduler answers",
    ),
    (
      ["--dask_client_address=here"],
      "--dask_client_address=here: no scheduler answers",
    ),
  ],
)
@pytest.mark.parametrize("command", ["corpora", "build"])
def test_a_cluster_that_is_not_there_is_an_error(
  world, command, flags, message
):
  arguments = "--runner=DaskRunner", "--", *flags
  if command == "corpora":
    process = start_corpus(world, "alone", *arguments)
  else:
    process = start(
      "ctd_jax_datasets.build",
      "chunqiutr/mini",
      f"--data_dir={world / 'data'}",
      *arguments,
    )
  _, stderr = process.communicate(timeout=300)
  assert process.returncode == 1
  assert f"error: {message}" in stderr
  assert "Traceback" not in stderr


def read_rows(index: pathlib.Path) -> list[tuple]:
  """Returns the records of an index, all columns."""
  connection = sqlite3.connect(index / "index.sqlite")
  with contextlib.closing(connection):
    return connection.execute("SELECT * FROM records ORDER BY row").fetchall()


@pytest.mark.beam
def test_an_index_is_the_same_by_several_workers(world, tmp_path):
  finish(start_index(world, "index"))
  finish(start_index(world, "beam-index", DIRECT, "--workers=2"))
  with start_cluster(tmp_path) as (flag, _):
    finish(start_index(world, "dask-index", "--runner=DaskRunner", "--", flag))
  rows = read_rows(world / "index")
  works = read_files(world / "index" / "works")
  assert len(rows) == 36
  assert any(name.endswith(".npy") for name in works)
  for name in ("beam-index", "dask-index"):
    assert read_rows(world / name) == rows
    assert read_files(world / name / "works") == works


@pytest.mark.beam
def test_an_error_of_a_worker_is_that_of_the_command(world):
  undated = world / "undated.txt"
  undated.write_text("齊人來盟。\n")
  process = start(
    "ctd_jax.index",
    f"--index={world / 'no-index'}",
    f"--add={undated}",
    "--order=undated",
    f"--reigns={invented_corpus.REIGNS}",
    DIRECT,
  )
  _, stderr = process.communicate(timeout=300)
  assert process.returncode == 1
  assert "error: undated: no record prints a month" in stderr
  assert "Traceback" not in stderr


@pytest.mark.parametrize(
  ("missing", "runner", "extra"),
  [
    ("apache_beam", "FlinkRunner", "beam"),
    ("apache_beam", "DaskRunner", "dask"),
    ("distributed", "DaskRunner", "dask"),
  ],
)
def test_without_its_packages_a_runner_is_an_error_that_says_what_to_install(
  tmp_path, monkeypatch, missing, runner, extra
):
  monkeypatch.setattr(
    beam_runner.importlib.util,
    "find_spec",
    lambda name: name != missing or None,
  )
  with pytest.raises(ValueError, match=rf"pip install 'ctd_jax\[{extra}\]'"):
    beam_runner.map_items(str, [], folder=tmp_path, runner=runner)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--workers=2"], "--workers=2: of --runner=DirectRunner alone"),
    (["--", "--flink_master=x"], "unexpected arguments: --flink_master=x"),
  ],
)
@pytest.mark.parametrize("begin", [start_corpus, start_index])
def test_flags_without_a_runner_are_an_error(world, begin, arguments, message):
  process = begin(world, "refused", *arguments)
  _, stderr = process.communicate(timeout=120)
  assert process.returncode == 1
  assert f"error: {message}" in stderr
