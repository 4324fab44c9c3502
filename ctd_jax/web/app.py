"""The application: routes, guards, static files.

Scripts of other people's libraries are served from where these are installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import pathlib
import threading
from collections.abc import AsyncIterator

from absl import logging
from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

import ctd_jax
from ctd_jax.web import (
  about_page,
  api,
  errors,
  month_page,
  passage_page,
  record_page,
  search_page,
  security,
)
from ctd_jax.web.answering import AnswerThreads
from ctd_jax.web.corrections import (
  correction_api,
  correction_list,
  correction_pages,
)
from ctd_jax.web.errors import PageError
from ctd_jax.web.jobs import job_pages
from ctd_jax.web.jobs.job_runner import JobRunner
from ctd_jax.web.served_index import IndexHolder, ServedIndex
from ctd_jax.web.settings import WebSettings
from ctd_jax.web.uploads import upload_page
from ctd_jax.web.uploads.upload_reader import UploadReader
from ctd_jax.web.uploads.upload_store import UploadStore

_MAX_AGE = 86_400  # seconds that a browser keeps a static file
# Name of a file of another library -> module and path in it.
_VENDOR_FILES = {
  "plotly.js": ("plotly", "package_data/plotly.min.js"),
  "swagger-ui.js": ("fastapi_offline", "static/swagger-ui-bundle.js"),
  "swagger-ui.css": ("fastapi_offline", "static/swagger-ui.css"),
}
_vendor = APIRouter(include_in_schema=False)


def make_app(settings: WebSettings) -> FastAPI:
  """Returns the application that serves an index.

  Args:
    settings: what it serves, to whom, and its limits.

  Raises:
    FileNotFoundError: if there is no index and none can be built.
    ValueError: if the settings are unsafe or the index is damaged.
  """
  holder = open_index(settings)
  app = FastAPI(
    title="ctd_jax",
    summary="Records of chronicles, their dates, and the reasons for these.",
    version=ctd_jax.__version__,
    docs_url=None,  # its page would load scripts from another host
    redoc_url=None,
    openapi_url=api.DESCRIPTION_PATH,
    lifespan=_warm_up,
  )
  app.state.settings = settings
  app.state.threads = AnswerThreads()
  app.state.holder = holder
  app.state.jobs = JobRunner(settings.index, settings)
  app.state.uploads = UploadStore(settings.index, settings.max_upload)
  app.state.upload_reader = UploadReader(settings.index, app.state.uploads)
  for router in (
    search_page.router,
    record_page.router,
    month_page.router,
    passage_page.router,
    about_page.router,
    upload_page.router,
    correction_pages.router,
    correction_list.router,
    job_pages.router,
    correction_api.router,
    job_pages.api_router,
    api.router,
    _vendor,
  ):
    app.include_router(router)
  app.mount(
    "/static",
    StaticFiles(directory=pathlib.Path(__file__).parent / "static"),
    name="static",
  )
  errors.add_handlers(app)
  security.add_guards(app, settings)
  return app


def open_index(settings: WebSettings) -> IndexHolder:
  """Returns the index that is to be served.

  Raises:
    FileNotFoundError: if there is no index and none can be built.
    ValueError: if the settings are unsafe or the index is damaged.
  """
  settings.validate()
  return IndexHolder(
    settings.index, settings.encoder, may_be_new=not settings.read_only
  )


@contextlib.asynccontextmanager
async def _warm_up(app: FastAPI) -> AsyncIterator[None]:
  """Has what the first question needs read while nobody has asked yet."""
  served = app.state.holder.newest
  if served is None:
    logging.info("there is no index yet: the page takes texts for one")
  else:
    threading.Thread(target=_read_ahead, args=(served,), daemon=True).start()
  if not app.state.settings.read_only:
    app.state.uploads.remove_leftovers()
  yield
  app.state.threads.close()
  app.state.upload_reader.close()
  app.state.jobs.close()
  # Of several processes another may be about to end the job: the first says it.
  if multiprocessing.parent_process() is None:
    app.state.jobs.log_running()


def _read_ahead(served: ServedIndex) -> None:
  try:
    _ = served.index.question_reader, served.index.kinds, served.coverage
    _ = served.best_months
    served.find_density((), ())
    from ctd_jax.dating.chronicle import chronicle_dating  # noqa: F401

    # Of the reasons of printed days; takes a second where they are computed.
    _ = served.index.calendar.day_chances
  except (OSError, ValueError) as error:
    logging.error("the index cannot be read: %s", error)


@_vendor.get("/static/vendor/{name}")
def send_vendor_file(name: str) -> Response:
  """Returns a script of a library, from where it is installed."""
  if name not in _VENDOR_FILES:
    raise PageError(404)
  module, path = _VENDOR_FILES[name]
  folder = importlib.util.find_spec(module).submodule_search_locations[0]
  return FileResponse(
    pathlib.Path(folder) / path,
    headers={"Cache-Control": f"max-age={_MAX_AGE}"},
  )
