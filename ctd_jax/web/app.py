"""The web application, the page about the index, and the server processes.

Several processes can serve one index; the first listens, and restarts any
that dies.
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
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import uvicorn
from absl import logging
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

import ctd_jax
from ctd_jax.index import record_answers
from ctd_jax.utils import command_line, host_memory
from ctd_jax.web import (
  api,
  build_jobs,
  compare_page,
  connections,
  convert_page,
  correction_pages,
  export_pages,
  facets,
  fonts,
  month_page,
  record_page,
  rendering,
  search_page,
  security,
  upload_pages,
)
from ctd_jax.web.build_jobs import JobRunner
from ctd_jax.web.requests import (
  AnswerPools,
  PageError,
  endpoint,
)
from ctd_jax.web.served_index import (
  IndexHolder,
  NoIndexError,
  ServedIndex,
)
from ctd_jax.web.settings import WebSettings
from ctd_jax.web.upload_files import UploadStore
from ctd_jax.web.upload_reading import UploadReader

about_router = APIRouter(include_in_schema=False)

_LASTING = "public, max-age=31536000, immutable"
_MIN_COMPRESSED = 1_000  # bytes
# Each by name: Starlette raises an error again after the handler of Exception
# has answered it.
_ANSWERED_ERRORS = (
  PageError,
  NoIndexError,
  HTTPException,
  RequestValidationError,
  ValueError,
  PermissionError,
  Exception,
)
_MAX_LINE = 1 << 18  # bytes of an address, which may hold a passage
_MAX_WAITING = 2_048  # connections waiting to be accepted
# That a connection is kept without a request; longer than proxies keep theirs,
# which would lose a request that they send as we close.
_SECONDS_KEPT = 65
# A process that does not answer within this time is restarted.
_SECONDS_TO_ANSWER = 15
# Thread switch interval. SQLite releases the interpreter at every row, and a
# page then waits this long for another that computes; Python's default of 5 ms
# adds up to a second.
_SECONDS_OF_TURN = 0.0005
# For glibc: few heaps instead of one per thread, and large arrays outside
# them, so that their memory is returned when freed.
_MALLOC_VALUES = {host_memory.ARENA_MAX: 2, host_memory.MMAP_THRESHOLD: 1 << 20}


@about_router.get("/about")
@about_router.get(rendering.SAVE_PREFIX + "/about")
@endpoint
def show_about(request: Request, served: ServedIndex) -> Response:
  """Returns the page about the index."""
  index = served.index
  return rendering.render_page(
    request,
    served,
    "about.html",
    permalink=served.pin_path("/about"),
    num_records=index.num_records,
    calendar=record_answers.make_span(index, 0, len(index.calendar) - 1),
    num_months=len(index.calendar),
    calendar_name=index.calendar.timeline.name,
  )


def make_app(settings: WebSettings) -> FastAPI:
  """Returns the application that serves an index.

  Raises:
    FileNotFoundError: if there is no index and none can be built.
    ValueError: if the settings are unsafe or the index is damaged.
  """
  settings.validate()
  holder = IndexHolder(
    settings.index, settings.encoder, may_be_new=not settings.read_only
  )
  app = FastAPI(
    title="ctd_jax",
    summary="Records of chronicles, their dates, and the reasons for these.",
    version=ctd_jax.__version__,
    docs_url=None,  # FastAPI's page loads scripts from another host
    redoc_url=None,
    openapi_url=api.DESCRIPTION_PATH,
    lifespan=_warm_up,
  )
  app.state.settings = settings
  app.state.fonts = fonts.open_fonts(settings.fonts)
  app.state.pools = AnswerPools()
  app.state.holder = holder
  app.state.jobs = JobRunner(settings.index, settings)
  app.state.uploads = UploadStore(
    settings.index, settings.max_upload, settings.upload_space
  )
  app.state.upload_reader = UploadReader(settings.index, app.state.uploads)
  for router in (
    search_page.router,
    record_page.router,
    export_pages.router,
    month_page.router,
    compare_page.router,
    convert_page.router,
    about_router,
    fonts.router,
    security.router,
    upload_pages.router,
    correction_pages.router,
    build_jobs.router,
    correction_pages.api_router,
    build_jobs.api_router,
    api.router,
  ):
    app.include_router(router)
  app.mount(
    f"/static/{rendering.hash_static()}",
    _LastingFiles(directory=rendering.STATIC_FOLDER),
    name="static",
  )
  for kind in _ANSWERED_ERRORS:
    app.add_exception_handler(kind, rendering.answer_error)
  app.add_middleware(GZipMiddleware, minimum_size=_MIN_COMPRESSED)
  app.state.token_check = security.TokenCheck(settings)
  app.add_middleware(
    security.RequestGuard,
    settings=settings,
    token_check=app.state.token_check,
  )
  app.add_middleware(security.HeaderWriter)  # the outermost
  return app


class _LastingFiles(StaticFiles):
  """Files whose address changes with their content."""

  def file_response(self, *arguments: Any, **options: Any) -> Response:
    response = super().file_response(*arguments, **options)
    response.headers["Cache-Control"] = _LASTING
    return response


@contextlib.asynccontextmanager
async def _warm_up(app: FastAPI) -> AsyncIterator[None]:
  """Loads what the first question needs before anyone asks."""
  served = app.state.holder.newest
  if served is None:
    logging.info("there is no index yet; add texts on the page to build one")
  else:
    threading.Thread(target=_read_ahead, args=(served,), daemon=True).start()
  if not app.state.settings.read_only:
    app.state.uploads.remove_leftovers()
  yield
  app.state.pools.close()
  app.state.upload_reader.close()
  app.state.jobs.close()
  # Only the first process says so: another may be about to end the job.
  if multiprocessing.parent_process() is None:
    app.state.jobs.log_running()


def _read_ahead(served: ServedIndex) -> None:
  try:
    _ = served.index.question_reader, served.index.kinds, served.coverage
    _ = served.index.work_order
    served.find_density((), ())
    facets.read_ahead(served)
    # For the reasons of printed days; computing them takes a second.
    _ = served.index.calendar.day_chances
  except (OSError, ValueError) as error:
    logging.error("the index cannot be read: %s", error)


def serve(
  settings: WebSettings, num_processes: int = 1, shows_token: bool = False
) -> None:
  """Serves an index until interrupted.

  A process that dies is restarted; all end when the first one does.

  Args:
    shows_token: whether the printed link lets its reader in.

  Raises:
    FileNotFoundError: if there is no index and none can be built.
    ValueError: if the settings are unsafe, the index is damaged, or the address
      is in use.
  """
  settings.validate()
  if num_processes == 1:
    make = functools.partial(_make_app, settings)
    run_alone(make, settings, shows_token=shows_token)
    return
  with _listen(settings) as listener:
    # Opened once, so that a damaged index is reported once. Without its jobs:
    # this process only watches over those that answer.
    build_jobs.prepare_folder(settings.index, settings)
    IndexHolder(
      settings.index, settings.encoder, may_be_new=not settings.read_only
    )
    _log_address(settings, listener, shows_token)
    factory = functools.partial(make_app_of_process, settings)
    config = _make_config(factory, factory=True, workers=num_processes)
    _Supervisor(config, [listener]).run()
    looker = dataclasses.replace(settings, read_only=True)  # starts no job
    JobRunner(settings.index, looker).log_running()


def run_alone(
  make: Callable[[], ASGIApp],
  settings: WebSettings,
  path: str = "",
  shows_token: bool = False,
) -> None:
  """Serves an application from this process until interrupted.

  Args:
    path: where it is, for the printed address.
  """
  with _listen(settings) as listener:
    application = make()
    _log_address(settings, listener, shows_token, path)
    server = uvicorn.Server(_make_config(application))
    with contextlib.suppress(KeyboardInterrupt):
      server.run(sockets=[listener])


def make_app_of_process(settings: WebSettings) -> FastAPI:
  """Returns the application of one of several processes, or ends it."""
  command_line.start_logging()
  threading.Thread(target=_end_with_parent, daemon=True).start()
  try:
    return _make_app(settings)
  except (OSError, ValueError) as error:
    logging.error("restarting a process: %s", error)
    sys.exit(1)


class _Supervisor(Multiprocess):
  """Restarts processes; closing the terminal ends them all."""

  def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]):
    # On SIGHUP uvicorn would restart all processes, and nobody could end them.
    handler = signal.getsignal(signal.SIGHUP)
    super().__init__(config, sockets)
    signal.signal(signal.SIGHUP, handler)


def _end_with_parent() -> None:
  """Ends this process cleanly when its parent has died."""
  parent = multiprocessing.parent_process()
  if parent is not None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _make_app(settings: WebSettings) -> FastAPI:
  sys.setswitchinterval(_SECONDS_OF_TURN)
  host_memory.set_malloc(_MALLOC_VALUES)
  return make_app(settings)


def _make_config(application: object, **options: object) -> uvicorn.Config:
  return uvicorn.Config(
    application,
    log_level="warning",
    server_header=False,
    http=connections.BoundedProtocol,
    timeout_keep_alive=_SECONDS_KEPT,
    h11_max_incomplete_event_size=_MAX_LINE,
    timeout_worker_healthcheck=_SECONDS_TO_ANSWER,
    **options,
  )


def _listen(settings: WebSettings) -> socket.socket:
  """Returns a socket listening on the configured address."""
  try:
    return socket.create_server(
      (settings.host, settings.port),
      family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET,
      backlog=_MAX_WAITING,
    )
  except OSError as error:
    problem = error.strerror.partition(" (")[0]  # without the address
    raise ValueError(
      f"--host={settings.host} --port={settings.port}: {problem}; expected an "
      "address of this machine and a port that no program uses, or --port=0 "
      "for any"
    ) from error


def _log_address(
  settings: WebSettings,
  listener: socket.socket,
  shows_token: bool,
  path: str = "",
) -> None:
  host = f"[{settings.host}]" if ":" in settings.host else settings.host
  address = f"http://{host}:{listener.getsockname()[1]}"
  logging.info("%s is served at %s%s", settings.index, address, path)
  if shows_token:
    token = quote(settings.token, safe="")
    logging.info(
      "open it with %s%s?token=%s", address, security.TOKEN_PATH, token
    )
