"""Processes that answer: one, or several behind one port.

Threads of one process take turns at Python, so that a second core serves
readers only if there is a second process. They share what is in files: the
index, corrections, jobs, uploads and the secret of the forms. Each has its own
connection to the index and remembers what it computed itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

import msgspec
import uvicorn
from absl import logging
from fastapi import FastAPI

from ctd_jax.utils import command_line
from ctd_jax.web import app
from ctd_jax.web.settings import WebSettings

# Of the environment, by which the processes are told what to serve.
_SETTINGS_VARIABLE = "CTD_JAX_WEB_SETTINGS"
_MAX_LINE = 1 << 18  # bytes of an address: a passage may be in it
# A process that does not answer the first one for so long is started anew; one
# that dies while it is asked is waited for as long.
_SECONDS_TO_ANSWER = 15
# A thread gives way to others after so many seconds. SQLite lets go of Python
# at every row, and each time a page would wait for this long behind another
# that computes; with Python's own 5 ms these sum up to a second.
_SECONDS_OF_TURN = 0.0005
# What glibc is told (malloc.h): few heaps, for each of a dozen threads would
# keep its own, and large arrays apart from them, given back when they are free.
_MALLOC_OPTIONS = {-8: 2, -3: 1 << 20}  # M_ARENA_MAX, M_MMAP_THRESHOLD


def serve(settings: WebSettings, num_processes: int = 1) -> None:
  """Serves an index until it is interrupted.

  One of several processes that dies is started anew.

  Args:
    settings: what is served, to whom, and its limits.
    num_processes: that answer.

  Raises:
    FileNotFoundError: if there is no index and none can be built.
    ValueError: if the settings are unsafe or the index is damaged.
  """
  options = {
    "host": settings.host,
    "port": settings.port,
    "log_level": "warning",
    "server_header": False,
    "http": "h11",
    "h11_max_incomplete_event_size": _MAX_LINE,
  }
  if num_processes == 1:
    application = _make_app(settings)
    _log_address(settings)
    uvicorn.run(application, **options)
    return
  app.open_index(settings)  # what is wrong with it is said once
  _log_address(settings)
  os.environ[_SETTINGS_VARIABLE] = encode_settings(settings)
  uvicorn.run(
    f"{__name__}:{make_app_of_process.__name__}",
    factory=True,
    workers=num_processes,
    timeout_worker_healthcheck=_SECONDS_TO_ANSWER,
    **options,
  )


def make_app_of_process() -> FastAPI:
  """Returns the application of one of several processes."""
  command_line.start_logging()
  # What a process starts in turn need not know the token.
  return _make_app(decode_settings(os.environ.pop(_SETTINGS_VARIABLE)))


def _make_app(settings: WebSettings) -> FastAPI:
  sys.setswitchinterval(_SECONDS_OF_TURN)
  with contextlib.suppress(AttributeError):  # another libc
    for option, value in _MALLOC_OPTIONS.items():
      ctypes.CDLL(None).mallopt(option, value)
  return app.make_app(settings)


def encode_settings(settings: WebSettings) -> str:
  """Returns settings as JSON."""
  return msgspec.json.encode(settings, enc_hook=str).decode()


def decode_settings(content: str) -> WebSettings:
  """Returns the settings that `encode_settings` wrote."""
  return msgspec.json.decode(
    content,
    type=WebSettings,
    dec_hook=lambda kind, value: kind(value),
  )


def _log_address(settings: WebSettings) -> None:
  host = f"[{settings.host}]" if ":" in settings.host else settings.host
  logging.info(
    "%s is served at http://%s:%d", settings.index, host, settings.port
  )
