"""Upload pages: upload files, check the preview, choose settings, build."""

import dataclasses
import unicodedata
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from absl import logging
from fastapi import APIRouter
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.index.building import sources
from ctd_jax.web import (
  build_jobs,
  job_files,
  queries,
  rendering,
  requests,
  upload_files,
  upload_reading,
)
from ctd_jax.web.build_jobs import Job
from ctd_jax.web.job_files import UploadBuild
from ctd_jax.web.requests import PageError, answer_in_time, settings_of
from ctd_jax.web.served_index import ServedIndex
from ctd_jax.web.upload_files import (
  ACCEPTED,
  PREVIEW,
  Upload,
  UploadSettings,
  UploadStore,
)

ORDER, UNDATED = "order", "undated"
router = APIRouter(include_in_schema=False)
_SECONDS_PER_LOAD = 2  # of the page of an upload that is being read
_MAX_FIELDS = 400  # of the form of a preview, which has one for each work
_MAX_NAME = 100
CALENDARS = ("zh", "ja", "ko", "vi", "all", "CE")


def make_task(
  upload: Upload,
  settings: UploadSettings,
  preview: dict[str, Any],
  has_index: bool,
) -> UploadBuild:
  """Returns the task that builds an upload."""
  names = {work["name"] for work in preview["works"]}
  return UploadBuild(
    source=f"{upload.name}/{upload.source}",
    is_beir=upload.is_beir,
    unit=settings.unit,
    reigns="" if has_index else settings.reigns,
    order=tuple(filter(names.__contains__, settings.in_order)),
    undated=tuple(filter(names.__contains__, settings.undated)),
  )


def read_settings(form: FormData) -> UploadSettings:
  """Returns the reading settings in a form."""
  unit = queries.parse_choice(form, "unit", chronicle_input.UNITS)
  reigns = queries.parse_field(form, "reigns").replace("、", ",")
  if not job_files.is_calendar(reigns):
    queries.refuse("reigns", reigns, "宋; zh; CE:700-1160")
  manners = {ORDER: [], UNDATED: []}
  for field, value in form.items():
    if field.startswith("manner.") and value in manners:
      manners[value].append(field.removeprefix("manner."))
  return UploadSettings(
    unit=unit,
    reigns=reigns,
    in_order=tuple(manners[ORDER]),
    undated=tuple(manners[UNDATED]),
  )


def name_subject(upload: Upload) -> str:
  """Returns the subject of the jobs that build an upload."""
  return f"upload/{upload.name}"


def is_upload_built(builds: Iterable[Job]) -> bool:
  """Whether a build of the upload has succeeded."""
  return any(job.state == job_files.DONE for job in builds)


def settle(
  store: UploadStore,
  upload: Upload,
  builds: list[Job],
  served: ServedIndex | None,
) -> Upload:
  """Returns an upload in the state that its builds left it in.

  It becomes a preview again if every build failed, unless the index has its
  works anyway: a job may be stopped after it has written.
  """
  if not builds:
    return upload
  is_kept = (
    is_upload_built(builds)
    or any(job.is_active for job in builds)
    or (served is not None and _has_works(served, store, upload))
  )
  state = ACCEPTED if is_kept else PREVIEW
  return upload if upload.state == state else store.change(upload, state=state)


def _has_works(served: ServedIndex, store: UploadStore, upload: Upload) -> bool:
  folder, index = store.folder_of(upload), served.index.folder
  for work in served.index.works:
    try:
      source = sources.read_dated_with(work).source
    except ValueError as error:  # the work may come from the upload
      logging.warning("upload %s is kept: %s", upload.name, error)
      return True
    path = source and source.find_path(index.absolute())
    if path and path.is_relative_to(folder):
      return True
  return False


@router.get("/upload")
async def show_uploads(request: Request) -> Response:
  """Returns the upload form and the list of uploads."""
  _check_allowed(request)
  uploads = await answer_in_time(request, _list_uploads, request)
  return _respond(
    request,
    "upload.html",
    uploads=uploads,
    has_index=request.app.state.holder.newest is not None,
    calendars=(*CALENDARS, *chronicle_input.list_installed_tables()),
    units=chronicle_input.UNITS,
    suffixes=(*upload_files.SUFFIXES, upload_files.ARCHIVE_SUFFIX),
    max_files=upload_files.MAX_FILES,
    max_bytes=settings_of(request).max_upload,
  )


@router.post("/upload")
async def take_files(request: Request) -> Response:
  """Keeps uploaded files as a preview, then shows it."""
  form = await requests.read_form(request, max_files=upload_files.MAX_FILES)
  settings = read_settings(form)
  title = queries.parse_field(form, "name", _MAX_NAME)
  brought = [
    (item.filename or "", item.file)
    for item in form.getlist("files")
    if isinstance(item, UploadFile) and item.filename
  ]
  if not brought:
    raise PageError(
      422,
      "error.upload.empty",
      {"suffixes": ", ".join(upload_files.SUFFIXES)},
    )
  upload = await answer_in_time(
    request,
    request.app.state.uploads.add,
    brought,
    title,
    settings,
    str(form[requests.KEY_FIELD]),
  )
  request.app.state.upload_reader.read(upload)
  return _lead_to(request, upload)


@router.get("/upload/{name}")
async def show_upload(request: Request, name: str) -> Response:
  """Returns the preview of an upload."""
  _check_allowed(request)
  upload, preview, job = await answer_in_time(
    request, _find_preview, request, name
  )
  served = request.app.state.holder.newest
  works = served.index.works if served else ()
  works_read = (preview or {}).get("works", ())
  names = dict.fromkeys(work["name"] for work in works_read)
  known = {work.name: work for work in works if work.name in names}
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
    replaced=[name for name in names if name in known],
    built=[*known.values()] if upload.state == ACCEPTED else [],
    units=chronicle_input.UNITS,
    encodings=upload_files.ENCODINGS,
    format_seconds=upload_reading.format_seconds,
  )


@router.post("/upload/{name}")
async def change_upload(request: Request, name: str) -> Response:
  """Reads an upload with other settings, builds it, or discards it."""
  form = await requests.read_form(request, max_fields=_MAX_FIELDS)
  upload = await answer_in_time(request, find_upload, request, name)
  action = queries.parse_field(form, "action")
  if action == "discard":
    await answer_in_time(request, _discard, request, upload)
    return RedirectResponse(rendering.PageLinks(request)("/upload"), 303)
  key = str(form[requests.KEY_FIELD])
  if upload.job_key == key:  # sent twice
    return build_jobs.lead_to_job(request, upload.job_id)
  settings = dataclasses.replace(
    read_settings(form), encoding=upload.settings.encoding
  )
  if action != "build":
    encoding = queries.parse_choice(form, "encoding", upload_files.ENCODINGS)
    upload = await answer_in_time(
      request, _change_settings, request, upload, settings, encoding
    )
    return _lead_to(request, upload)
  job = await answer_in_time(request, _build, request, upload, settings, key)
  if job is None:
    return _lead_to(request, upload, changed="1")
  return build_jobs.lead_to_job(request, job.id)


def find_upload(request: Request, name: str) -> Upload:
  """Returns an upload."""
  upload = request.app.state.uploads.get(unicodedata.normalize("NFC", name))
  if upload is None:
    raise PageError(404, "error.upload.none", {"name": name[:_MAX_NAME]})
  return upload


def _check_allowed(request: Request) -> None:
  """Raises a 403 PageError if the server is read-only."""
  if settings_of(request).read_only:
    raise PageError(403, "error.read_only")


def _find_preview(
  request: Request, name: str
) -> tuple[Upload, dict[str, Any] | None, Job | None]:
  upload, builds = _settle(
    request, find_upload(request, name), request.app.state.jobs.list()
  )
  is_built = is_upload_built(builds)
  preview = request.app.state.upload_reader.read(upload, is_built)
  return upload, preview, builds[0] if builds else None


def _settle(
  request: Request, upload: Upload, jobs: list[Job]
) -> tuple[Upload, list[Job]]:
  """Returns an upload as its builds left it, and these builds, newest first."""
  subject, state = name_subject(upload), request.app.state
  builds = [
    job
    for job in jobs
    if job.subject == subject and job.created >= upload.created
  ]
  return settle(state.uploads, upload, builds, state.holder.newest), builds


def _list_uploads(request: Request) -> list[Upload]:
  request.app.state.uploads.remove_leftovers()
  jobs = request.app.state.jobs.list()
  uploads = request.app.state.uploads.list()
  return [_settle(request, upload, jobs)[0] for upload in uploads]


def _discard(request: Request, upload: Upload) -> None:
  """Removes an upload that was not built."""
  upload, builds = _settle(request, upload, request.app.state.jobs.list())
  if any(job.is_active for job in builds):
    raise PageError(409, "error.upload.busy")
  request.app.state.uploads.discard(upload)


def _change_settings(
  request: Request, upload: Upload, settings: UploadSettings, encoding: str
) -> Upload:
  store: UploadStore = request.app.state.uploads
  if encoding:
    # Texts that were converted are read as if they were brought so.
    upload_files.convert_files(store.folder_of(upload) / upload.title, encoding)
    settings = dataclasses.replace(settings, encoding=encoding)
  upload = store.change(upload, settings=settings)
  request.app.state.upload_reader.read(upload)
  return upload


def _build(
  request: Request, upload: Upload, settings: UploadSettings, key: str
) -> Job | None:
  """Returns the job that builds an upload, or None if it must be read again."""
  state = request.app.state
  store, jobs, subject = state.uploads, state.jobs, name_subject(upload)
  if job := jobs.find_by_key(key):  # sent twice
    return job
  if any(job.is_active for job in jobs.list(subject)):
    raise PageError(409, "error.upload.busy")
  upload = store.change(upload, settings=settings)
  preview = state.upload_reader.read(upload)
  if preview is None:
    return None
  if preview["error"] or preview["error_key"]:
    raise PageError(422, "error.upload.unreadable")
  if preview["calendar_error"]:
    raise PageError(422, "error.upload.calendar")
  job = jobs.start(
    upload.title,
    make_task(
      upload,
      settings,
      preview,
      has_index=state.holder.newest is not None,
    ),
    subject,
    key,
  )
  store.change(upload, state=ACCEPTED, job_key=key, job_id=job.id)
  return job


def _lead_to(request: Request, upload: Upload, **parameters: str) -> Response:
  link = rendering.PageLinks(request)(
    f"/upload/{quote(upload.name)}", **parameters
  )
  return RedirectResponse(link, 303)


def _respond(request: Request, template: str, **values: Any) -> Response:
  return HTMLResponse(rendering.render_plain(request, template, **values))
