"""Several processes serve one index: they share it, and one that dies returns.

What a reader brings to one of them the other shows.
"""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from ctd_jax.utils import command_line
from ctd_jax.web import app
from ctd_jax.web.settings import WebSettings
from tests.tools import processes
from tests.web.conftest import wait_for

_TOKEN = "0123456789abcdef"
_SECONDS = 60


@pytest.mark.parametrize("module", ["app", "agent_tools"])
def test_serving_needs_no_jax(module):
  if module == "agent_tools":
    pytest.importorskip("mcp")
  loaded = processes.list_loaded_modules(f"import ctd_jax.web.{module}")
  assert "jax" not in loaded


def test_index_is_opened_before_processes_are_started(tmp_path):
  settings = WebSettings(index=tmp_path / "none", read_only=True, port=0)
  with pytest.raises(FileNotFoundError, match="none"):
    app.serve(settings, num_processes=2)


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_folder_that_is_not_served_is_named_once(tmp_path, num_processes):
  (tmp_path / "jobs").symlink_to("/etc")
  settings = WebSettings(index=tmp_path, port=0)
  with pytest.raises(ValueError, match="jobs is a link"):
    app.serve(settings, num_processes)


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_port_that_is_taken_is_named(index_folder, caplog, num_processes):
  with socket.create_server(("127.0.0.1", 0)) as other:
    port = other.getsockname()[1]
    settings = WebSettings(index=index_folder, port=port)
    with pytest.raises(ValueError, match=f"--port={port}: .*in use; expected"):
      app.serve(settings, num_processes)
  # An address of another machine.
  settings = WebSettings(index=index_folder, host="192.0.2.1", token=_TOKEN)
  with pytest.raises(ValueError, match="--host=192.0.2.1 .*address"):
    app.serve(settings, num_processes)
  assert "is served" not in caplog.text


def test_a_process_that_cannot_open_the_index_says_why(
  tmp_path, caplog, monkeypatch
):
  monkeypatch.setattr(command_line, "start_logging", lambda: None)
  settings = WebSettings(index=tmp_path / "none", read_only=True)
  with pytest.raises(SystemExit, match="1"):
    app.make_app_of_process(settings)
  assert "manifest.json: missing" in caplog.text


@contextlib.contextmanager
def _serve(folder):
  """Yields process and port of a server of two processes."""
  server = subprocess.Popen(
    [
      *(sys.executable, "-m", "ctd_jax.serve", f"--index={folder}"),
      *("--port=0", "--processes=2"),
    ],
    stderr=subprocess.PIPE,
    text=True,
    env=os.environ | {"CTD_JAX_TOKEN": _TOKEN},
    # Tests that were started by nohup would hand down that it is ignored.
    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
  )
  lines = iter(server.stderr.readline, "")
  line = next(line for line in lines if "is served at" in line)
  port = int(line.rpartition(":")[2])
  try:
    yield server, port
  finally:
    server.terminate()
    server.communicate(timeout=_SECONDS)


def _list_workers(server):
  """Returns the numbers of the processes that answer."""
  children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children")
  return {
    int(number)
    for number in children.read_text().split()
    if b"spawn_main" in pathlib.Path(f"/proc/{number}/cmdline").read_bytes()
  }


def _ask(port, path, method="GET", body=None):
  """Returns status and answer, on a connection of its own."""
  connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
  headers = {"Authorization": f"Bearer {_TOKEN}"}
  if body is not None:
    body, headers["Content-Type"] = json.dumps(body), "application/json"
  with contextlib.closing(connection):
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def _answers(port):
  try:
    return _ask(port, "/api/index")[0] == 200
  except OSError:
    return False


@pytest.mark.slow
def test_processes_share_an_index_and_one_that_dies_is_replaced(
  folder,
):
  with _serve(folder) as (server, port):
    wait_for(lambda: _answers(port) and len(_list_workers(server)) == 2)
    before = _list_workers(server)
    correction = {
      "work": "notes",
      "first_record": "notes-0",
      "date": "隱公元年",
    }
    assert _ask(port, "/api/corrections", "POST", correction)[0] == 201
    # With one process stopped, the other answers all.
    for worker in before:
      os.kill(worker, signal.SIGSTOP)
      try:
        other = _ask(port, "/api/corrections")
      finally:
        os.kill(worker, signal.SIGCONT)
      assert "notes-0" in other[1]
    os.kill(min(before), signal.SIGKILL)
    wait_for(lambda: len(_list_workers(server) - before) == 1)
    wait_for(lambda: _answers(port))
    assert max(before) in _list_workers(server)
  assert server.returncode == 0


@pytest.mark.slow
def test_token_that_is_made_is_printed_with_its_link(index_folder):
  server = subprocess.Popen(
    [
      *(sys.executable, "-m", "ctd_jax.serve", f"--index={index_folder}"),
      *("--token", "--port=0", "--read_only"),
    ],
    stderr=subprocess.PIPE,
    text=True,
  )
  try:
    lines = iter(server.stderr.readline, "")
    line = next(line for line in lines if "open it with" in line)
    link = line.split()[-1]
    commands = pathlib.Path(f"/proc/{server.pid}/cmdline").read_text()
    assert link.rpartition("=")[2] not in commands
    jar = urllib.request.HTTPCookieProcessor()
    page = urllib.request.build_opener(jar).open(link, timeout=_SECONDS)
    assert page.status == 200
    assert not page.url.rpartition("/")[2]
  finally:
    server.terminate()
    server.communicate(timeout=_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_processes_end_with_the_first_one(index_folder, number):
  with _serve(index_folder) as (server, port):
    wait_for(lambda: _answers(port) and len(_list_workers(server)) == 2)
    workers = _list_workers(server)
    os.kill(server.pid, number)
    wait_for(lambda: not any(map(_is_alive, workers)))
    with pytest.raises(ConnectionRefusedError):
      _ask(port, "/api/index")
  assert server.returncode == -number


def _is_alive(number):
  try:
    status = pathlib.Path(f"/proc/{number}/stat").read_text()
  except FileNotFoundError:
    return False
  return status.rpartition(")")[2].split()[0] != "Z"
