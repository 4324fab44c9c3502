"""Apache Beam: an index by several workers, some of which are killed."""

import contextlib
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator

import pytest

from ctd_jax.models.pretrained import vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.utils import beam
from tests.index import corpora
from tests.models import published_folder

NUM_WORKS = 5
DIRECT = "--runner=DirectRunner", "--workers=2"
ENVIRONMENT = os.environ | {"JAX_NUM_CPU_DEVICES": "1"}


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> pathlib.Path:
  """A folder with chronicles, notes without dates, and an encoder."""
  folder = tmp_path_factory.mktemp("world")
  texts = folder / "texts"
  texts.mkdir()
  corpora.write_notes(texts / "notes.txt")
  corpora.write_annals(folder / "annals.txt")
  lines = (folder / "annals.txt").read_text().splitlines()
  for year in range(NUM_WORKS):
    of_year = lines[24 * year : 24 * (year + 1)]
    (texts / f"year{year + 1}.txt").write_text("\n".join(of_year))
  published_folder.write(folder / "tiny", lines)
  settings = VectorSettings(
    "mean", True, SideSettings("", 40), SideSettings("", 40)
  )
  vector_settings.write_vector_settings(folder / "tiny", settings, 16)
  return folder


def start_index(
  world: pathlib.Path, name: str, *arguments: str
) -> subprocess.Popen:
  """Starts the index of all texts."""
  return subprocess.Popen(
    [
      *(sys.executable, "-m", "ctd_jax.index"),
      f"--index={world / name}",
      f"--add={world / 'texts' / '*.txt'}",
      f"--encoder={world / 'tiny'}",
      "--reigns=西晉",
      "--nopassages",
      *arguments,
    ],
    env=ENVIRONMENT,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,  # so that it is killed with its workers
  )


def finish(process: subprocess.Popen) -> None:
  stderr = process.communicate(timeout=600)[1]
  assert process.returncode == 0, stderr


def read_index(folder: pathlib.Path) -> dict[str, bytes | str]:
  """Returns the files of an index; of its database all but times, as SQL."""
  content = {
    path.relative_to(folder).as_posix(): path.read_bytes()
    for path in folder.rglob("*")
    if path.is_file() and path.suffix in (".json", ".npy", ".npz", ".sqlite")
  }
  (name,) = (name for name in content if name.endswith(".sqlite"))
  with contextlib.closing(sqlite3.connect(folder / name)) as connection:
    dump = "\n".join(connection.iterdump())
  return content | {name: re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+", "TIME", dump)}


def find_dated(folder: pathlib.Path) -> dict[pathlib.Path, int]:
  """Returns the works of an index that are dated, and when they were."""
  return {
    path: path.stat().st_mtime_ns
    for path in folder.glob("works/*/months.npy")
    if not path.parent.name.startswith(".")
  }


def wait_until(is_true: Callable[[], bool]) -> None:
  deadline = time.monotonic() + 300
  while not is_true():
    assert time.monotonic() < deadline
    time.sleep(0.01)


@pytest.fixture(scope="module")
def local(world) -> dict[str, bytes | str]:
  """Files of the index that one process makes without a runner."""
  finish(start_index(world, "local"))
  files = read_index(world / "local")
  for pattern in ("works/.*/months.npy", "vectors/.*npy"):
    found = [name for name in files if re.fullmatch(pattern, name)]
    assert len(found) == NUM_WORKS + 1
  return files


@pytest.mark.beam
def test_a_stopped_build_continues_and_writes_what_one_process_writes(
  world, local
):
  """Command and workers are killed when the first work is dated."""
  folder = world / "direct"
  process = start_index(world, folder.name, *DIRECT)
  wait_until(lambda: find_dated(folder) or process.poll())
  os.killpg(process.pid, signal.SIGKILL)
  process.communicate()
  dated = find_dated(folder)
  assert 0 < len(dated) < NUM_WORKS
  finish(start_index(world, folder.name, *DIRECT))
  assert dated.items() <= find_dated(folder).items()
  assert read_index(folder) == local


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
          env=ENVIRONMENT,
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


@pytest.mark.beam
def test_a_killed_worker_of_dask_loses_nothing(world, local, tmp_path):
  folder = world / "dask"
  with start_cluster(tmp_path) as (flag, workers):
    process = start_index(world, folder.name, "--runner=DaskRunner", "--", flag)
    wait_until(lambda: find_dated(folder) or process.poll())
    workers[0].send_signal(signal.SIGKILL)
    assert 0 < len(find_dated(folder)) < NUM_WORKS
    finish(process)
    assert workers[1].poll() is None
  assert read_index(folder) == local


@pytest.mark.beam
def test_a_lost_scheduler_is_an_error(world, tmp_path):
  folder = world / "lost"
  with start_cluster(tmp_path) as (flag, _):
    process = start_index(world, folder.name, "--runner=DaskRunner", "--", flag)
    wait_until(lambda: find_dated(folder) or process.poll())
  stderr = process.communicate(timeout=300)[1]
  assert process.returncode == 1
  assert "error: --runner=DaskRunner" in stderr


@pytest.mark.beam
@pytest.mark.parametrize(
  ("flags", "error", "message"),
  [
    ("", ValueError, "--runner=DaskRunner: no scheduler is named"),
    ("--dask_scheduler_file=gone.json", FileNotFoundError, "no such file"),
    (
      f"--dask_scheduler_file={__file__}",
      ValueError,
      "py: not a file of dask scheduler",
    ),
    (
      "--dask_client_address=tcp://127.0.0.1:1 --dask_connection_timeout=2",
      ConnectionError,
      "--dask_client_address=tcp://127.0.0.1:1: no scheduler answers",
    ),
  ],
)
def test_a_missing_cluster_is_an_error(flags, error, message):
  with pytest.raises(error, match=re.escape(message)):
    beam._check_cluster(flags.split())


@pytest.mark.beam
@pytest.mark.parametrize(
  ("workers", "message"),
  [
    ({"n_workers": 0}, "no worker yet"),
    ({"n_workers": 1, "threads_per_worker": 2}, "with up to 2 threads"),
  ],
)
def test_a_poor_cluster_is_warned_of(monkeypatch, workers, message):
  import distributed

  warnings = []
  monkeypatch.setattr(
    beam.logging,
    "warning",
    lambda text, *values: warnings.append(text % values),
  )
  with distributed.LocalCluster(
    **workers, processes=False, dashboard_address=None
  ) as cluster:
    beam._check_cluster([f"--dask_client_address={cluster.scheduler_address}"])
  assert message in "".join(warnings)


def measure_texts(paths: list[pathlib.Path]) -> dict[str, int]:
  """Returns the length of each file by its name."""
  return {path.name: len(path.read_text()) for path in paths}


@pytest.mark.beam
def test_results_are_in_order_and_errors_those_of_the_function(tmp_path):
  paths = []
  for size in (3, 1, 2):
    paths.append(tmp_path / f"{size}.txt")
    paths[-1].write_text("來" * size)
  options = {"folder": tmp_path / "shared", "runner": beam.DIRECT}
  assert beam.map_items(measure_texts, [paths[:2], paths[2:]], **options) == [
    {"3.txt": 3, "1.txt": 1},
    {"2.txt": 2},
  ]
  with pytest.raises(ValueError, match=r"No such file .*gone\.txt"):
    beam.map_items(measure_texts, [[tmp_path / "gone.txt"]], **options)
  assert not any((tmp_path / "shared").iterdir())


@pytest.mark.parametrize(
  ("runner", "workers", "arguments", "missing", "message"),
  [
    ("local", 2, [], "", "--workers=2 works only with --runner=DirectRunner"),
    ("local", 1, ["--x=1"], "", "unexpected arguments: --x=1"),
    ("FlinkRunner", 1, [], "apache_beam", "pip install 'ctd_jax[beam]'"),
    ("DaskRunner", 1, [], "apache_beam", "pip install 'ctd_jax[dask]'"),
    ("DaskRunner", 1, [], "distributed", "pip install 'ctd_jax[dask]'"),
  ],
)
def test_flags_that_do_not_fit_are_errors(
  tmp_path, monkeypatch, runner, workers, arguments, missing, message
):
  values = types.SimpleNamespace(runner=runner, workers=workers)
  monkeypatch.setattr(beam.flags, "FLAGS", values)
  monkeypatch.setattr(
    beam.importlib.util, "find_spec", lambda name: name != missing or None
  )
  with pytest.raises(ValueError, match=re.escape(message)):
    beam.read_flags(arguments, tmp_path)
