"""Bring a text: upload, preview of what was recognised, and its build."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.web import forms, rendering
from ctd_jax.web.answering import answer_in_time, settings_of
from ctd_jax.web.errors import PageError
from ctd_jax.web.jobs import job_pages
from ctd_jax.web.jobs.job_runner import Job
from ctd_jax.web.served_index import IndexHolder
from ctd_jax.web.uploads import (
  upload_archives,
  upload_builds,
  upload_estimate,
  upload_files,
  upload_forms,
)
from ctd_jax.web.uploads.upload_reader import UploadReader
from ctd_jax.web.uploads.upload_store import (
  ACCEPTED,
  Upload,
  UploadSettings,
  UploadStore,
)

router = APIRouter(include_in_schema=False)

_SECONDS_PER_LOAD = 2  # of the page of an upload that is being read
_MAX_FIELDS = 400  # of the form of a preview, which has one for each work
_MAX_NAME = 100
CALENDARS = ("zh", "ja", "ko", "all", "CE")


@router.get("/upload")
async def show_uploads(request: Request) -> Response:
  """Returns the page for bringing texts, with those that were brought."""
  _check_allowed(request)
  uploads = await answer_in_time(request, _list_uploads, request)
  return _respond(
    request,
    "upload.html",
    uploads=uploads,
    has_index=holder_of(request).has_index,
    calendars=(*CALENDARS, *chronicle_input.list_installed_tables()),
    units=chronicle_input.UNITS,
    suffixes=(*upload_files.SUFFIXES, upload_archives.ARCHIVE_SUFFIX),
    max_files=upload_files.MAX_FILES,
    max_bytes=settings_of(request).max_upload,
  )


@router.post("/upload")
async def take_files(request: Request) -> Response:
  """Keeps files as a preview, then shows it."""
  form = await forms.read_form(request, max_files=upload_files.MAX_FILES)
  settings = upload_forms.read_settings(form)
  title = upload_forms.read_field(form, "name", _MAX_NAME)
  files = [
    (item.filename or "", item.file)
    for item in form.getlist("files")
    if isinstance(item, UploadFile) and item.filename
  ]
  if not files:
    raise PageError(
      422,
      "error.upload.empty",
      {"suffixes": ", ".join(upload_files.SUFFIXES)},
    )
  upload = await answer_in_time(
    request,
    store_of(request).add,
    files,
    title,
    settings,
    str(form[forms.KEY_FIELD]),
  )
  reader_of(request).read(upload)
  return _lead_to(request, upload)


@router.get("/upload/{name}")
async def show_upload(request: Request, name: str) -> Response:
  """Returns the preview of an upload."""
  _check_allowed(request)
  upload, preview, job = await answer_in_time(
    request, _find_preview, request, name
  )
  served = holder_of(request).newest
  works = served.index.works if served else ()
  return _respond(
    request,
    "upload_preview.html",
    upload=upload,
    path=quote(upload.name),
    preview=preview,
    job=job,
    seconds=0 if preview else _SECONDS_PER_LOAD,
    has_index=served is not None,
    is_changed="changed" in request.query_params,
    replaced=_list_replaced(preview, [work.name for work in works]),
    built=_list_built(preview, works) if upload.state == ACCEPTED else [],
    units=chronicle_input.UNITS,
    encodings=upload_files.ENCODINGS,
    format_seconds=upload_estimate.format_seconds,
  )


@router.post("/upload/{name}")
async def change_upload(request: Request, name: str) -> Response:
  """Reads an upload with other settings, has it built, or discards it."""
  form = await forms.read_form(request, max_fields=_MAX_FIELDS)
  upload = await answer_in_time(request, find_upload, request, name)
  action = upload_forms.read_field(form, "action", 20)
  if action == "discard":
    await answer_in_time(request, _discard, request, upload)
    return RedirectResponse(rendering.PageLinks(request)("/upload"), 303)
  key = str(form[forms.KEY_FIELD])
  if upload.job_key == key:  # sent twice
    return job_pages.lead_to_job(request, upload.job_id)
  settings = dataclasses.replace(
    upload_forms.read_settings(form), encoding=upload.settings.encoding
  )
  if action != "build":
    encoding = upload_forms.read_choice(
      form, "encoding", upload_files.ENCODINGS
    )
    upload = await answer_in_time(
      request, _change_settings, request, upload, settings, encoding
    )
    return _lead_to(request, upload)
  job = await answer_in_time(request, _build, request, upload, settings, key)
  if job is None:
    return _lead_to(request, upload, changed="1")
  return job_pages.lead_to_job(request, job.id)


def store_of(request: Request) -> UploadStore:
  """Returns the uploads of the server that a request came to."""
  return request.app.state.uploads


def reader_of(request: Request) -> UploadReader:
  """Returns the reader of these uploads."""
  return request.app.state.upload_reader


def holder_of(request: Request) -> IndexHolder:
  """Returns what holds the index of the server, if there is one by now."""
  return request.app.state.holder


def find_upload(request: Request, name: str) -> Upload:
  """Returns an upload.

  Raises:
    PageError: 404, if there is none of that name.
  """
  upload = store_of(request).get(unicodedata.normalize("NFC", name))
  if upload is None:
    raise PageError(404, "error.upload.none", {"name": name[:_MAX_NAME]})
  return upload


def _check_allowed(request: Request) -> None:
  """Raises PageError, 403, if the server takes no texts."""
  if settings_of(request).read_only:
    raise PageError(403, "error.read_only")


def _find_preview(
  request: Request, name: str
) -> tuple[Upload, dict[str, Any] | None, Job | None]:
  upload, builds = _settle(
    request, find_upload(request, name), job_pages.jobs_of(request).list()
  )
  is_built = upload_builds.is_built(builds)
  preview = reader_of(request).read(upload, is_built)
  return upload, preview, builds[0] if builds else None


def _settle(
  request: Request, upload: Upload, jobs: list[Job]
) -> tuple[Upload, list[Job]]:
  """Returns an upload as its builds have left it, and these, newest first."""
  builds = upload_builds.list_builds(jobs, upload)
  upload = upload_builds.settle(
    store_of(request), upload, builds, holder_of(request).newest
  )
  return upload, builds


def _list_uploads(request: Request) -> list[Upload]:
  jobs = job_pages.jobs_of(request).list()
  return [
    _settle(request, upload, jobs)[0] for upload in store_of(request).list()
  ]


def _discard(request: Request, upload: Upload) -> None:
  """Removes an upload that was not built.

  Raises:
    PageError: 409, if it was, or if a job is at work on it.
  """
  jobs = job_pages.jobs_of(request).list()
  upload, builds = _settle(request, upload, jobs)
  if any(job.is_active for job in builds):
    raise PageError(409, "error.upload.busy")
  store_of(request).discard(upload)


def _change_settings(
  request: Request, upload: Upload, settings: UploadSettings, encoding: str
) -> Upload:
  store = store_of(request)
  if encoding:
    # Texts that were converted are read as if they were brought so.
    upload_files.convert_files(store.folder_of(upload) / upload.title, encoding)
    settings = dataclasses.replace(settings, encoding=encoding)
  upload = store.change(upload, settings=settings)
  reader_of(request).read(upload)
  return upload


def _build(
  request: Request, upload: Upload, settings: UploadSettings, key: str
) -> Job | None:
  """Returns the job that builds an upload; None if it has to be read again.

  Raises:
    PageError: 409, if a job is at work on it; 422, if it cannot be built.
  """
  store = store_of(request)
  jobs = job_pages.jobs_of(request)
  subject = upload_builds.name_subject(upload)
  if job := jobs.find_by_key(key):  # sent twice
    return job
  if any(job.is_active for job in jobs.list(subject)):
    raise PageError(409, "error.upload.busy")
  upload = store.change(upload, settings=settings)
  preview = reader_of(request).read(upload)
  if preview is None:
    return None
  if preview["error"] or preview["error_key"]:
    raise PageError(422, "error.upload.unreadable")
  if preview["calendar_error"]:
    raise PageError(422, "error.upload.calendar")
  job = jobs.start(
    upload.title,
    upload_forms.list_arguments(
      store.source_of(upload), settings, preview, holder_of(request).has_index
    ),
    subject,
    key,
  )
  store.change(upload, state=ACCEPTED, job_key=key, job_id=job.id)
  return job


def _list_replaced(
  preview: dict[str, Any] | None, names: Sequence[str]
) -> list[str]:
  """Returns names of works that the index has and an upload would replace."""
  works = (preview or {}).get("works", ())
  return [work["name"] for work in works if work["name"] in names]


def _list_built(
  preview: dict[str, Any] | None, works: Sequence[Any]
) -> list[Any]:
  """Returns the works of the index that an upload has become."""
  names = {work["name"] for work in (preview or {}).get("works", ())}
  return [work for work in works if work.name in names]


def _lead_to(request: Request, upload: Upload, **parameters: str) -> Response:
  link = rendering.PageLinks(request)(
    f"/upload/{quote(upload.name)}", **parameters
  )
  return RedirectResponse(link, 303)


def _respond(request: Request, template: str, **values: Any) -> Response:
  return HTMLResponse(rendering.render_plain(request, template, **values))
