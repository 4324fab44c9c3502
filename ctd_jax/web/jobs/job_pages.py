"""Jobs: the pages and the JSON that show how far the builds are."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import (
  HTMLResponse,
  JSONResponse,
  RedirectResponse,
  Response,
)

from ctd_jax.web import forms, messages, rendering
from ctd_jax.web.answering import answer_in_time
from ctd_jax.web.errors import PageError
from ctd_jax.web.jobs.job_runner import Job, JobRunner

_SECONDS_PER_LOAD = 3  # of a page without a script
_NUM_SHOWN = 30

router = APIRouter(include_in_schema=False)
api_router = APIRouter(tags=["jobs"])


def jobs_of(request: Request) -> JobRunner:
  """Returns the jobs of the server that a request came to."""
  return request.app.state.jobs


@router.get("/jobs")
async def show_jobs(request: Request) -> Response:
  """Returns the page of all jobs."""
  jobs = await answer_in_time(request, jobs_of(request).list)
  return _respond(
    request,
    "jobs.html",
    jobs=jobs[:_NUM_SHOWN],
    seconds=_SECONDS_PER_LOAD if any(job.is_active for job in jobs) else 0,
  )


@router.get("/jobs/{job_id}")
async def show_job(request: Request, job_id: str) -> Response:
  """Returns the page of a job; its script asks for the part that changes."""
  job = await answer_in_time(request, find_job, request, job_id)
  is_part = request.query_params.get("part") == "state"
  return _respond(
    request,
    "_job_state.html" if is_part else "job.html",
    job=job,
    seconds=_SECONDS_PER_LOAD if job.is_active else 0,
  )


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(request: Request, job_id: str) -> Response:
  """Ends a job, then shows it."""
  await forms.read_form(request)
  await answer_in_time(request, find_job, request, job_id)
  await answer_in_time(request, jobs_of(request).cancel, job_id)
  return lead_to_job(request, job_id)


@router.post("/jobs/{job_id}/restart")
async def restart_job(request: Request, job_id: str) -> Response:
  """Has the same done as a job that has ended, then shows the new one."""
  form = await forms.read_form(request)
  job = await answer_in_time(request, find_job, request, job_id)
  if job.is_active:
    return lead_to_job(request, job_id)
  again = await answer_in_time(
    request, jobs_of(request).restart, job_id, str(form[forms.KEY_FIELD])
  )
  return lead_to_job(request, again.id)


@api_router.get("/api/jobs", summary="Builds of the index, the newest first")
async def read_jobs(request: Request) -> Response:
  """Returns the builds that pages have asked for, and how far they are."""
  jobs = await answer_in_time(request, jobs_of(request).list)
  return JSONResponse({"jobs": [job.to_dict() for job in jobs]})


@api_router.get("/api/jobs/{job_id}", summary="A build of the index")
async def read_job(request: Request, job_id: str) -> Response:
  """Returns a build: its state, progress, last lines and error."""
  job = await answer_in_time(request, find_job, request, job_id)
  return JSONResponse(job.to_dict())


def lead_to_job(request: Request, job_id: str) -> Response:
  """Returns the answer to a form that has started or changed a job.

  Args:
    request: with the form.
    job_id: of the job.
  """
  link = rendering.PageLinks(request)(f"/jobs/{job_id}")
  return RedirectResponse(link, 303)


def find_job(request: Request, job_id: str) -> Job:
  """Returns a job.

  Raises:
    PageError: 404, if there is none of that number.
  """
  job = jobs_of(request).get(job_id)
  if job is None:
    raise PageError(404, "error.job", {"job": job_id[:20]})
  return job


def _respond(request: Request, template: str, **values: Any) -> Response:
  language = rendering.find_language(request)
  return HTMLResponse(
    rendering.render_plain(
      request,
      template,
      name_job=lambda job: name_job(language, job),
      **values,
    )
  )


def name_job(language: str, job: Job) -> str:
  """Returns the title of a job in the language of a page.

  Args:
    language: of the page.
    job: whose title may be the name of a message.
  """
  return messages.translate_term(language, "job", job.title)
