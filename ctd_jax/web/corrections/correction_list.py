"""List of corrections: its page, its files, and dating again."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.index.corrections import correction_export
from ctd_jax.index.storage.database import IndexedWork
from ctd_jax.web import (
  forms,
  queries,
  rendering,
)
from ctd_jax.web.answering import answer_in_time, index_of
from ctd_jax.web.corrections import correction_views
from ctd_jax.web.errors import PageError
from ctd_jax.web.jobs import job_pages
from ctd_jax.web.jobs.job_runner import Job, JobRunner
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
_MAX_NAMED = 12  # corrections that a file lacks
REDATE = "redate"  # subject and title of a job

router = APIRouter(include_in_schema=False)


@router.post("/corrections/redate")
async def redate(request: Request) -> Response:
  """Has the corrected works be dated again, then shows how far that is."""
  form = await forms.read_form(request)
  job = await answer_in_time(
    request,
    start_redating,
    job_pages.jobs_of(request),
    str(form[forms.KEY_FIELD]),
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


def start_redating(jobs: JobRunner, key: str = "") -> Job:
  """Has the corrected works be dated again, if that is not under way.

  Args:
    jobs: of the server.
    key: of the form; one sent twice starts one job.
  """
  for job in jobs.list(REDATE):
    # One that runs may have read the corrections before the last of them.
    if job.state == "waiting":
      return job
  return jobs.start(REDATE, ["--redate"], REDATE, key)


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
    problem = "; ".join(exported.left_out[:_MAX_NAMED])
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
  address = {"index": served.index.versions.index_sha256, "page": page.page}
  if work:
    address["work"] = work
  store = served.index.corrections
  total = store.count(work or None)
  jobs: JobRunner = job_pages.jobs_of(request)
  return rendering.render_page(
    request,
    served,
    "corrections.html",
    permalink=f"/corrections?{urlencode(address)}",
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
