"""Corrections as pages and as JSON: form, list, export, undo and redating."""

import dataclasses
import re
import secrets
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

import pydantic
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ctd_jax.index import correction_files, database
from ctd_jax.utils import notes
from ctd_jax.web import (
  build_jobs,
  corrections,
  month_page,
  queries,
  rendering,
  requests,
  served_index,
)
from ctd_jax.web.build_jobs import Job, JobRunner
from ctd_jax.web.corrections import CorrectionFields
from ctd_jax.web.job_files import Redating
from ctd_jax.web.record_page import describe_record
from ctd_jax.web.requests import (
  PageError,
  answer_in_time,
  endpoint,
  index_of,
  settings_of,
)
from ctd_jax.web.served_index import ServedIndex

_MAX_SHOWN = 12  # records of a correction

router = APIRouter(include_in_schema=False)

PAGE_SIZE = 50
# Of a file: how many corrections it lacks, as their records have changed.
LEFT_OUT_HEADER = "X-Corrections-Left-Out"
# Format -> suffix and type of its file.
_FILES = {
  correction_files.FIXED: (".tsv", "text/tab-separated-values"),
  correction_files.CSV: (".csv", "text/csv"),
  correction_files.JSONL: (".jsonl", "application/jsonl"),
  correction_files.TEI: (".xml", "application/tei+xml"),
}
_MAX_NAMED = 12  # corrections that a file lacks
REDATE = "redate"  # subject and title of a job
_TRY = "redate_dry"  # title of one that changes nothing
_MAX_LIMIT = 1000
_KEY = "^[0-9A-Za-z_.-]{8,100}$"
api_router = APIRouter(tags=["corrections"])
_ERRORS: dict[int | str, dict[str, Any]] = {
  403: {"description": "The server is read-only"},
  404: {"description": "There is no such record or correction"},
  409: {"description": "It contradicts another one; `error.detail` names it"},
  422: {"description": "It cannot be read or kept; `error.detail` says why"},
}
_KEY_TEXT = (
  "Made up by the program, another one for each change: a request that is sent "
  "twice with one key changes once. Sent again after the correction that it "
  "made was undone, it saves nothing and answers with that, as undone"
)


@router.get("/correct")
async def show_form(request: Request) -> Response:
  """Returns the form that corrects a date.

  Its script asks for `part=reading`: how the entered date is understood.
  """
  fields = corrections.parse_fields(request.query_params)
  fields = dataclasses.replace(fields, name=requests.read_name(request))
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
  """Returns the form with the current entries, without saving them."""
  fields = corrections.parse_fields(await requests.read_form(request))
  return await answer_in_time(
    request, _make_form, request, index_of(request), fields
  )


@router.post("/corrections")
async def save_correction(request: Request) -> Response:
  """Saves a correction, then shows its record.

  The form is shown again if the correction cannot be saved, or if it was saved
  before and then undone.
  """
  form = await requests.read_form(request)
  fields = corrections.parse_fields(form)
  return await answer_in_time(
    request,
    _save,
    request,
    index_of(request),
    fields,
    form[requests.KEY_FIELD],
    [path for path in form.getlist("other") if isinstance(path, str)],
  )


@router.post("/corrections/undo")
async def undo_step(request: Request) -> Response:
  """Undoes the corrections that a job has applied, all together."""
  form = await requests.read_form(request)
  job = await answer_in_time(
    request, build_jobs.find_job, request, str(form.get("job", ""))
  )
  await answer_in_time(
    request,
    corrections.undo_all,
    index_of(request),
    job.report.applied if job.report else (),
    requests.read_name(request),
    form[requests.KEY_FIELD],
  )
  return _lead_to(request, "/corrections")


@router.post("/corrections/{number}/undo")
async def undo_by_form(request: Request, number: int) -> Response:
  """Undoes a correction, then returns to the page it came from."""
  form = await requests.read_form(request)
  name = corrections.parse_fields(form).name or requests.read_name(request)
  correction = await answer_in_time(
    request,
    corrections.undo,
    index_of(request),
    number,
    name,
    form[requests.KEY_FIELD],
  )
  path = "/corrections"
  if form.get("back") == "record":
    path = served_index.make_record_path(
      correction.work, correction.first_record
    )
  return _lead_to(request, path)


def _lead_to(request: Request, path: str) -> Response:
  """Returns a redirect to the corrections on a page."""
  link = rendering.PageLinks(request)(path)
  return RedirectResponse(f"{link}#corrections", 303)


def _save(
  request: Request,
  served: ServedIndex,
  fields: CorrectionFields,
  key: str,
  others: Sequence[str],
) -> Response:
  """Saves a correction, and the same for records of `others`, by address."""
  try:
    same = [
      dataclasses.replace(fields, **it["fields"])
      for it in _list_same_event(served, fields)
      if it["path"] in others
    ]
    for each in same:
      corrections.check_fields(served, each)
    correction = corrections.add(served, fields, key)
    for number, each in enumerate(same):
      corrections.add(served, each, f"{key}-{number}")
  except PageError as error:
    response = _make_form(request, served, fields, error, others=others)
    response.status_code = error.status
    return response
  if correction.undone is not None:
    response = _make_form(
      request, served, fields, undone=correction.correction_id
    )
    response.status_code = 409
    return response
  response = _lead_to(
    request,
    served_index.make_record_path(correction.work, correction.first_record),
  )
  requests.keep_name(response, fields.name)
  return response


def _make_form(
  request: Request,
  served: ServedIndex,
  fields: CorrectionFields,
  error: PageError | None = None,
  undone: int | None = None,
  others: Sequence[str] = (),
) -> Response:
  """Returns the page with the form, with a new key."""
  row = served_index.find_row(served.index, fields.work, fields.first)
  if row is None:
    raise PageError(
      404, "error.record_path", {"path": f"{fields.work}/{fields.first}"[:80]}
    )
  last = served_index.find_row(served.index, fields.work, fields.last) or row
  path = served_index.make_record_path(fields.work, fields.first)
  rows = range(row, max(last, row) + 1)
  records = database.fetch_records(served.index.connection, rows[:_MAX_SHOWN])
  return rendering.render_page(
    request,
    served,
    "correct.html",
    permalink=served.pin_path(path),
    fields=fields,
    reading=corrections.read_fields(served, fields),
    undone=undone,
    refusal=error.values.get("problem", "") if error else "",
    title=served.titles[fields.work],
    path=path,
    records=[describe_record(served, record) for record in records],
    num_left=max(len(rows) - _MAX_SHOWN, 0),
    following=corrections.list_following(served, row),
    others=_list_same_event(served, fields),
    chosen=others,
  )


def _list_same_event(
  served: ServedIndex, fields: CorrectionFields
) -> list[dict[str, Any]]:
  """Returns the records of other works that tell the event of a record.

  Those that have a correction are left out.
  """
  index = served.index
  row = served_index.find_row(index, fields.work, fields.first)
  if row is None or fields.last not in ("", fields.first):
    return []
  (record,) = database.fetch_records(index.connection, [row])
  if record.best_month >= len(index.calendar):
    return []
  month = month_page.recall_month(served, record.best_month)
  event = next(
    (it for it in month.events if any(each.row == row for each in it)), ()
  )
  rows = [it.row for it in event if it.work != fields.work]
  names = served_index.name_records(index, rows)
  marks = corrections.find_marks(served, rows)
  return [
    describe_record(served, other)
    | {
      "path": "/".join(names[other.row]),
      "fields": dict.fromkeys(("first", "last"), names[other.row][1])
      | {"work": names[other.row][0]},
    }
    for other in database.fetch_records(index.connection, rows)
    if other.row not in marks
  ]


def _make_reading(
  request: Request, served: ServedIndex, fields: CorrectionFields
) -> Response:
  return HTMLResponse(
    rendering.render_plain(
      request,
      "_reading.html",
      date=fields.date,
      reading=corrections.read_fields(served, fields),
    )
  )


@router.post("/corrections/redate")
async def redate(request: Request) -> Response:
  """Starts redating the corrected works, then shows the job."""
  form = await requests.read_form(request)
  job = await answer_in_time(
    request,
    start_redating,
    request.app.state.jobs,
    str(form[requests.KEY_FIELD]),
    bool(form.get("dry_run")),
  )
  return build_jobs.lead_to_job(request, job.id)


@router.get("/corrections")
@router.get(rendering.SAVE_PREFIX + "/corrections")
@endpoint
def show_corrections(request: Request, served: ServedIndex) -> Response:
  """Returns the page that lists all corrections."""
  work = request.query_params.get("work", "")
  queries.check_encoding(work)
  page = queries.parse_query(
    {"page": request.query_params.get("page", "")}, 0
  ).page
  address = {"index": served.index.versions.index_sha256, "page": page}
  if work:
    address["work"] = work
  store = served.index.corrections
  total = store.count(work or None)
  corrected = {row.work for row in store.active(work or None)}
  jobs: JobRunner = request.app.state.jobs
  return rendering.render_page(
    request,
    served,
    "corrections.html",
    permalink=f"/corrections?{urlencode(address)}",
    corrections=corrections.list_corrections(
      served, work or None, None, PAGE_SIZE, PAGE_SIZE * (page - 1)
    ),
    total=total,
    num_active=store.count(work or None, only_active=True),
    num_pending=corrections.count_pending(served),
    page=page,
    num_pages=-(-total // PAGE_SIZE),
    work=work,
    works=served.index.works,
    job=next((job for job in jobs.list(REDATE) if job.is_active), None),
    formats=[name for name in _FILES if name != correction_files.FIXED],
    texts=[
      work
      for work in served.index.works
      if work.name in corrected and correction_files.is_text(work)
    ],
  )


def start_redating(
  jobs: JobRunner, key: str = "", dry_run: bool = False
) -> Job:
  """Returns the job that redates the corrected works, started if necessary."""
  task = Redating(dry_run)
  for job in jobs.list(REDATE):
    # One that runs may have read the corrections before the last of them.
    if job.state == "waiting" and job.task == task:
      return job
  return jobs.start(_TRY if dry_run else REDATE, task, REDATE, key)


@router.get("/corrections/export/{export_format}")
@endpoint
def export(
  request: Request, served: ServedIndex, export_format: str
) -> Response:
  """Returns the corrections, of all works or of one, as a file."""
  if export_format not in _FILES:
    raise PageError(404)
  work = request.query_params.get("work") or None
  suffix, media_type = _FILES[export_format]
  try:
    exported = correction_files.export_corrections(
      served.index,
      served.index.corrections.history(work)[::-1],
      export_format,
    )
  except ValueError as error:
    raise PageError(
      409, "error.export", {"problem": notes.of_error(error)}
    ) from error
  if exported.left_out and not exported.number:
    problem = exported.left_out[:_MAX_NAMED]
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


class NewCorrection(pydantic.BaseModel):
  """A date for a record or for consecutive records."""

  model_config = pydantic.ConfigDict(extra="forbid")

  work: str = pydantic.Field(description="Name of the work")
  first_record: str = pydantic.Field(description="`record_id` of the record")
  last_record: str = pydantic.Field(
    "", description="`record_id` of the last one, if there are several"
  )
  date: str = pydantic.Field(
    description="As texts write it (魯隱公元年五月) or in ISO 8601 (0311-06); "
    "two with a slash make an interval"
  )
  note: str = pydantic.Field("", description="Why, with sources")
  name: str = pydantic.Field("", description="Who corrects")
  key: str = pydantic.Field("", description=_KEY_TEXT, pattern=f"{_KEY}|^$")


class CorrectionObject(pydantic.BaseModel):
  """A correction."""

  correction_id: int
  work: str
  first_record: str
  last_record: str
  date: str = pydantic.Field(description="As the reader wrote it")
  note: str
  name: str
  made: str = pydantic.Field(description="Time, ISO 8601 in UTC")
  undone: str | None = pydantic.Field(description="When it was undone")
  undone_by: str
  texts_sha256: str = pydantic.Field(
    description="Hash of its records' texts when it was made"
  )
  state: str = pydantic.Field(
    description="Whether the dates shown include it: applied; pending, not "
    "dated again yet; left_out, its records have changed or are gone; undone; "
    "still_applied, undone and not dated again yet"
  )
  problem: str = pydantic.Field(description="Why it is left out")


class CorrectionList(pydantic.BaseModel):
  """Corrections, newest first."""

  corrections: list[CorrectionObject]
  total: int = pydantic.Field(description="Including those not listed")
  pending: int = pydantic.Field(
    description="Changes that the dates do not include yet"
  )


class ReadDate(pydantic.BaseModel):
  """Meaning of a date that a reader entered."""

  months: list[int] = pydantic.Field(description="Ordinals of the months")
  names: list[str] = pydantic.Field(description="The same by name")
  common_era: str
  records: int = pydantic.Field(description="That would get the date")


@api_router.get("/api/corrections", summary="Corrections", responses=_ERRORS)
@endpoint
def read_corrections(
  request: Request,
  served: ServedIndex,
  work: str | None = None,
  record_id: str | None = None,
  limit: Annotated[int, Query(ge=1, le=_MAX_LIMIT)] = 100,
  offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> CorrectionList:
  """Returns corrections, undone ones included, newest first."""
  if record_id is not None and work is None:
    queries.refuse("record_id", record_id, "work=…")
  views = corrections.list_corrections(served, work, record_id, limit, offset)
  return CorrectionList(
    corrections=[_describe(view) for view in views],
    total=served.index.corrections.count(work, record_id),
    pending=corrections.count_pending(served),
  )


@api_router.get(
  "/api/corrections/check", summary="What a date means", responses=_ERRORS
)
@endpoint
def check_date(
  request: Request,
  served: ServedIndex,
  work: str,
  first_record: str,
  date: str,
  last_record: str = "",
) -> ReadDate:
  """Returns the months that a date means; changes nothing."""
  fields = corrections.parse_fields(
    {"work": work, "first": first_record, "last": last_record, "date": date}
  )
  checked = corrections.check_fields(served, fields)
  return ReadDate(
    months=checked.months.nonzero()[0].tolist(),
    names=[span.name for span in checked.spans],
    common_era=checked.common_era,
    records=checked.num_records,
  )


@api_router.get(
  "/api/corrections/{number}", summary="A correction", responses=_ERRORS
)
@endpoint
def read_correction(
  request: Request, served: ServedIndex, number: int
) -> CorrectionObject:
  """Returns a correction, even if it was undone."""
  correction = corrections.find_correction(served, number)
  return _describe(corrections.view_correction(served, correction))


@api_router.post(
  "/api/corrections",
  summary="Correct a date",
  status_code=201,
  responses=_ERRORS,
)
@endpoint
def add_correction(
  request: Request, served: ServedIndex, correction: NewCorrection
) -> CorrectionObject:
  """Saves a correction; answers once it is on disk.

  The dates of the index change when its works are dated again.
  """
  values = correction.model_dump()
  values |= {
    "first": values["first_record"],
    "last": values["last_record"],
  }
  added = corrections.add(
    served,
    corrections.parse_fields(values),
    correction.key or secrets.token_hex(16),
  )
  return _describe(corrections.view_correction(served, added))


@api_router.delete(
  "/api/corrections/{number}", summary="Undo a correction", responses=_ERRORS
)
@endpoint
def undo_correction(
  request: Request,
  served: ServedIndex,
  number: int,
  name: str = "",
  key: Annotated[str, Query(description=_KEY_TEXT, pattern=f"{_KEY}|^$")] = "",
) -> CorrectionObject:
  """Undoes a correction; it stays in the list, marked as undone."""
  key = key or secrets.token_hex(16)
  undone = corrections.undo(served, number, name, key)
  return _describe(corrections.view_correction(served, undone))


def _describe(view: corrections.CorrectionView) -> CorrectionObject:
  return CorrectionObject(
    **dataclasses.asdict(view.correction),
    state=view.state,
    problem=str(view.problem),
  )
