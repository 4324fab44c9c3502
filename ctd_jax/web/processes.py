"""Processes that answer: one, or several behind one port.

Threads of one process take turns at Python, so that a second core serves
readers only if there is a second process. They share what is in files: the
index, corrections, jobs, uploads and the secret of the forms. Each has its own
connection to the index and remembers what it computed itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import multiprocessing
import os
import signal
import socket
import sys
import threading

import uvicorn
from absl import logging
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from ctd_jax.utils import command_line, host_memory
from ctd_jax.web import app
from ctd_jax.web.jobs.job_runner import JobRunner
from ctd_jax.web.settings import WebSettings

_MAX_LINE = 1 << 18  # bytes of an address: a passage may be in it
_MAX_WAITING = 2_048  # connections that are yet to be accepted
# A process that does not answer the first one for so long is started anew; one
# that dies while it is asked is waited for as long.
_SECONDS_TO_ANSWER = 15
# A thread gives way to others after so many seconds. SQLite lets go of Python
# at every row, and each time a page would wait for this long behind another
# that computes; with Python's own 5 ms these sum up to a second.
_SECONDS_OF_TURN = 0.0005
# What glibc is told: few heaps, for each of a dozen threads would keep its own,
# and large arrays apart from them, given back when they are free.
_MALLOC_VALUES = {host_memory.ARENA_MAX: 2, host_memory.MMAP_THRESHOLD: 1 << 20}


def serve(settings: WebSettings, num_processes: int = 1) -> None:
  """Serves an index until it is interrupted.

  One of several processes that dies is started anew; all of them end when the
  first one does, however that ends.

  Args:
    settings: what is served, to whom, and its limits.
    num_processes: that answer.

  Raises:
    FileNotFoundError: if there is no index and none can be built.
    ValueError: if the settings are unsafe, the index is damaged, or the address
      cannot be listened on.
  """
  settings.validate()
  with _listen(settings) as listener:
    if num_processes == 1:
      application = _make_app(settings)
      _log_address(settings, listener)
      server = uvicorn.Server(_make_config(application))
      with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
      return
    app.open_index(settings)  # what is wrong with it is said once
    _log_address(settings, listener)
    factory = functools.partial(make_app_of_process, settings)
    config = _make_config(factory, factory=True, workers=num_processes)
    _Supervisor(config, [listener]).run()
    looker = dataclasses.replace(settings, read_only=True)  # starts no job
    JobRunner(settings.index, looker).log_running()


def make_app_of_process(settings: WebSettings) -> FastAPI:
  """Returns the application of one of several processes.

  A process that cannot open the index says so and ends; it is started anew.

  Args:
    settings: what is served, to whom, and its limits.
  """
  command_line.start_logging()
  threading.Thread(target=_end_with_parent, daemon=True).start()
  try:
    return _make_app(settings)
  except (OSError, ValueError) as error:
    logging.error("a process is started again: %s", error)
    sys.exit(1)


class _Supervisor(Multiprocess):
  """Starts processes anew; a terminal that is closed ends all."""

  def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]):
    # Uvicorn would start all processes anew, and nobody could end them.
    handler = signal.getsignal(signal.SIGHUP)
    super().__init__(config, sockets)
    signal.signal(signal.SIGHUP, handler)


def _end_with_parent() -> None:
  """Ends this process in order when the one that started it has died."""
  parent = multiprocessing.parent_process()
  if parent is not None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _make_app(settings: WebSettings) -> FastAPI:
  sys.setswitchinterval(_SECONDS_OF_TURN)
  host_memory.set_malloc(_MALLOC_VALUES)
  return app.make_app(settings)


def _make_config(application: object, **options: object) -> uvicorn.Config:
  return uvicorn.Config(
    application,
    log_level="warning",
    server_header=False,
    http="h11",
    h11_max_incomplete_event_size=_MAX_LINE,
    timeout_worker_healthcheck=_SECONDS_TO_ANSWER,
    **options,
  )


def _listen(settings: WebSettings) -> socket.socket:
  """Returns a socket that listens on the address of the settings.

  Raises:
    ValueError: naming the flags, if that cannot be done.
  """
  try:
    return socket.create_server(
      (settings.host, settings.port),
      family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET,
      backlog=_MAX_WAITING,
    )
  except OSError as error:
    problem = error.strerror.partition(" (")[0]  # the address follows
    raise ValueError(
      f"--host={settings.host} --port={settings.port}: {problem}; expected an "
      "address of this machine and a port that no program uses, or --port=0 "
      "for any"
    ) from error


def _log_address(settings: WebSettings, listener: socket.socket) -> None:
  host = f"[{settings.host}]" if ":" in settings.host else settings.host
  port = listener.getsockname()[1]
  logging.info("%s is served at http://%s:%d", settings.index, host, port)
