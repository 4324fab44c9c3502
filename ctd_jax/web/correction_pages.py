"""Corrections: the form, what a date is read as, the list, and dating again."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ctd_jax.index import correction_export
from ctd_jax.index import corrections as index_corrections
from ctd_jax.index.corrections import CheckedCorrection
from ctd_jax.index.storage import database
from ctd_jax.index.storage.corrections import Correction
from ctd_jax.index.storage.database import IndexedWork
from ctd_jax.web import (
  correction_views,
  forms,
  job_pages,
  queries,
  record_addresses,
  rendering,
)
from ctd_jax.web.answering import answer_in_time, index_of, settings_of
from ctd_jax.web.correction_views import CorrectionFields
from ctd_jax.web.errors import PageError
from ctd_jax.web.jobs import Job, JobRunner
from ctd_jax.web.record_page import describe_record
from ctd_jax.web.served_index import ServedIndex

PAGE_SIZE = 50
# Of a file: how many corrections it lacks, as their records have changed.
LEFT_OUT_HEADER = "X-Corrections-Left-Out"
# Format -> suffix and type of its file.
_FILES = {
  correction_export.FIXED: (".tsv", "text/tab-separated-values"),
  correction_export.CSV: (".csv", "text/csv"),
  correction_export.JSONL: (".jsonl", "application/jsonl"),
  correction_export.TEI: (".xml", "application/tei+xml"),
}
REDATE = "redate"  # subject and title of a job
_MAX_SHOWN = 12  # records of a correction
_MAX_FIELD = 10_000  # characters
_MAX_ID = 10**15

router = APIRouter(include_in_schema=False)


@dataclasses.dataclass(frozen=True)
class Reading:
  """What the form of a correction means.

  Attributes:
    checked: what it means; None if it cannot be read.
    problem: why it cannot be; "" if nothing was written.
  """

  checked: CheckedCorrection | None
  problem: str


@router.get("/correct")
async def show_form(request: Request) -> Response:
  """Returns the page that corrects a date, before it is saved.

  Its script asks for `part=reading`, what a date is read as.
  """
  fields = parse_fields(request.query_params)
  fields = dataclasses.replace(fields, name=forms.read_name(request))
  if request.query_params.get("part") == "reading":
    return await answer_in_time(
      request, _make_reading, request, index_of(request), fields
    )
  if settings_of(request).read_only:
    raise PageError(403, "error.read_only")
  return await answer_in_time(
    request, _make_form, request, index_of(request), fields
  )


@router.post("/correct")
async def read_again(request: Request) -> Response:
  """Returns the page with what is written now, which is not saved."""
  fields = parse_fields(await forms.read_form(request))
  return await answer_in_time(
    request, _make_form, request, index_of(request), fields
  )


@router.post("/corrections")
async def save_correction(request: Request) -> Response:
  """Keeps a correction, then leads to its record.

  What cannot be kept is shown in its form again.
  """
  form = await forms.read_form(request)
  fields = parse_fields(form)
  key = form[forms.KEY_FIELD]
  return await answer_in_time(
    request, _save, request, index_of(request), fields, key
  )


@router.post("/corrections/{number}/undo")
async def undo_correction(request: Request, number: int) -> Response:
  """Undoes a correction, then leads back to where that was asked for."""
  form = await forms.read_form(request)
  name = parse_fields(form).name or forms.read_name(request)
  correction = await answer_in_time(
    request, undo, index_of(request), number, name, form[forms.KEY_FIELD]
  )
  path = "/corrections"
  if form.get("back") == "record":
    path = record_addresses.make_record_path(
      correction.work, correction.first_record
    )
  link = rendering.PageLinks(request)(path)
  return RedirectResponse(f"{link}#corrections", 303)


@router.post("/corrections/redate")
async def redate(request: Request) -> Response:
  """Has the corrected works be dated again, then shows how far that is."""
  await forms.read_form(request)
  job = await answer_in_time(
    request, start_redating, job_pages.jobs_of(request)
  )
  return job_pages.lead_to_job(request, job.id)


@router.get("/corrections")
@router.get(rendering.SAVE_PREFIX + "/corrections")
async def show_corrections(request: Request) -> Response:
  """Returns the page of all corrections."""
  return await answer_in_time(request, _make_list, request, index_of(request))


@router.get("/corrections/export/{export_format}")
async def export(request: Request, export_format: str) -> Response:
  """Returns corrections as a file; `work` says of which one."""
  return await answer_in_time(
    request, _export, request, index_of(request), export_format
  )


def start_redating(jobs: JobRunner) -> Job:
  """Has the corrected works be dated again, if that is not under way.

  Args:
    jobs: of the server.
  """
  for job in jobs.list(REDATE):
    # One that runs may have read the corrections before the last of them.
    if job.state == "waiting":
      return job
  return jobs.start(REDATE, ["--redate"], REDATE)


def undo(served: ServedIndex, number: int, name: str, key: str) -> Correction:
  """Undoes a correction and returns it.

  Args:
    served: the index.
    number: of the correction.
    name: of who undoes it.
    key: of the form.

  Raises:
    PageError: 404 if there is none, 409 if it is undone.
  """
  find_correction(served, number)
  try:
    return served.index.corrections.undo(number, name, key)
  except ValueError as error:
    raise PageError(409, "error.refused", {"problem": str(error)}) from error


def find_correction(served: ServedIndex, number: int) -> Correction:
  """Returns a correction, also one that was undone.

  Args:
    served: the index.
    number: of the correction.

  Raises:
    PageError: 404, if there is none.
  """
  store = served.index.corrections
  correction = store.get(number) if 0 < number < _MAX_ID else None
  if correction is None:
    raise PageError(404, "error.correction", {"number": str(number)[:20]})
  return correction


def add(served: ServedIndex, fields: CorrectionFields, key: str) -> Correction:
  """Keeps a correction and returns it when it is on the disk.

  Args:
    served: the index.
    fields: of the form.
    key: of the form; one sent twice is one correction.

  Raises:
    PageError: 422 if it cannot be read, 409 if it contradicts another one.
  """
  reading = read_fields(served, fields)
  if reading.checked is None:
    raise PageError(
      422, "error.refused", {"problem": reading.problem or "date: empty"}
    )
  try:
    return served.index.corrections.add(
      work=fields.work,
      first_record=fields.first,
      last_record=fields.last,
      date=fields.date,
      note=fields.note,
      name=fields.name,
      texts_sha256=reading.checked.texts_sha256,
      key=key,
    )
  except ValueError as error:
    raise PageError(409, "error.refused", {"problem": str(error)}) from error


def read_fields(served: ServedIndex, fields: CorrectionFields) -> Reading:
  """Returns what a correction means, or why it cannot be read.

  Args:
    served: the index.
    fields: of the form.
  """
  if not fields.date:
    return Reading(None, "")
  try:
    checked = index_corrections.check_correction(
      served.index, fields.work, fields.first, fields.last, fields.date
    )
  except ValueError as error:
    return Reading(None, str(error))
  return Reading(checked, "")


def parse_fields(values: Mapping[str, Any]) -> CorrectionFields:
  """Returns the fields of a form, or of an address.

  Raises:
    PageError: 422, naming the field that is too long or no text.
  """
  texts = {}
  for field in dataclasses.fields(CorrectionFields):
    value = values.get(field.name, "")
    if not isinstance(value, str):
      raise PageError(422, "error.encoding")
    queries.check_encoding(value)
    queries.check_length(field.name, value, _MAX_FIELD)
    texts[field.name] = value.replace("\r\n", "\n").strip()
  texts["last"] = texts["last"] or texts["first"]
  return CorrectionFields(**texts)


def _save(
  request: Request, served: ServedIndex, fields: CorrectionFields, key: str
) -> Response:
  try:
    correction = add(served, fields, key)
  except PageError as error:
    response = _make_form(request, served, fields, error)
    response.status_code = error.status
    return response
  path = record_addresses.make_record_path(
    correction.work, correction.first_record
  )
  link = rendering.PageLinks(request)(path)
  response = RedirectResponse(f"{link}#corrections", 303)
  response.set_cookie(**forms.make_name_cookie(fields.name))
  return response


def _make_form(
  request: Request,
  served: ServedIndex,
  fields: CorrectionFields,
  error: PageError | None = None,
) -> Response:
  row = record_addresses.find_row(served.index, fields.work, fields.first)
  if row is None:
    raise PageError(
      404, "error.record_path", {"path": f"{fields.work}/{fields.first}"[:80]}
    )
  last = record_addresses.find_row(served.index, fields.work, fields.last)
  reading = read_fields(served, fields)
  return rendering.render_page(
    request,
    served,
    "correct.html",
    permalink=record_addresses.make_record_path(fields.work, fields.first)
    + f"?index={served.index.versions.index_sha256}",
    fields=fields,
    reading=reading,
    refusal=error.values.get("problem", "") if error else "",
    title=correction_views.name_work(served, fields.work),
    path=record_addresses.make_record_path(fields.work, fields.first),
    records=_list_span(served, row, last),
    num_left=max((last or row) - row + 1 - _MAX_SHOWN, 0),
    following=correction_views.list_following(served, row),
  )


def _list_span(
  served: ServedIndex, row: int, last: int | None
) -> list[dict[str, Any]]:
  """Returns the records of a correction and their dates."""
  stop = min(max(last or row, row) + 1, row + _MAX_SHOWN)
  return [
    describe_record(served, record)
    for record in database.fetch_records(
      served.index.connection, range(row, stop)
    )
  ]


def _make_reading(
  request: Request, served: ServedIndex, fields: CorrectionFields
) -> Response:
  return HTMLResponse(
    rendering.render_plain(
      request, "_reading.html", reading=read_fields(served, fields)
    )
  )


def _export(
  request: Request, served: ServedIndex, export_format: str
) -> Response:
  if export_format not in _FILES:
    raise PageError(404)
  work = request.query_params.get("work") or None
  suffix, media_type = _FILES[export_format]
  try:
    exported = correction_export.export_corrections(
      served.index,
      served.index.corrections.history(work)[::-1],
      export_format,
    )
  except ValueError as error:
    raise PageError(409, "error.export", {"problem": str(error)}) from error
  if exported.left_out and not exported.number:
    problem = "; ".join(exported.left_out[:_MAX_SHOWN])
    raise PageError(409, "error.export", {"problem": problem})
  name = re.sub(r"[^A-Za-z0-9-]+", "_", work or "").strip("_")
  return Response(
    exported.content.encode(),
    media_type=media_type,
    headers={
      "Content-Disposition": "attachment; filename="
      f'"corrections{"-" + name if name else ""}{suffix}"',
      LEFT_OUT_HEADER: str(len(exported.left_out)),
    },
  )


def _make_list(request: Request, served: ServedIndex) -> Response:
  work = request.query_params.get("work", "")
  queries.check_encoding(work)
  page = queries.parse_query({"page": request.query_params.get("page", "")}, 0)
  store = served.index.corrections
  total = store.count(work or None)
  jobs: JobRunner = job_pages.jobs_of(request)
  return rendering.render_page(
    request,
    served,
    "corrections.html",
    permalink=f"/corrections?index={served.index.versions.index_sha256}",
    corrections=correction_views.list_corrections(
      served, work or None, None, PAGE_SIZE, PAGE_SIZE * (page.page - 1)
    ),
    total=total,
    num_active=store.count(work or None, only_active=True),
    num_pending=correction_views.count_pending(served),
    page=page.page,
    num_pages=-(-total // PAGE_SIZE),
    work=work,
    works=served.index.works,
    job=next((job for job in jobs.list(REDATE) if job.is_active), None),
    formats=[name for name in _FILES if name != correction_export.FIXED],
    texts=_list_texts(served, work),
  )


def _list_texts(served: ServedIndex, name: str) -> list[IndexedWork]:
  """Returns the works whose corrections can be a table for --fixed.

  Args:
    served: the index.
    name: of the only work that is looked at; "" for all.
  """
  corrected = {
    correction.work
    for correction in served.index.corrections.active(name or None)
  }
  return [
    work
    for work in served.index.works
    if work.name in corrected and correction_export.is_text(work)
  ]
