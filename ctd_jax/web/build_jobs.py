"""Jobs: builds of the index started from a page, one at a time.

A job is a low-priority process whose state is kept in files, so it survives
the server. A server that shuts down stops its job; if the server is killed,
the job continues and the next server shows it. Jobs that came with somebody
else's index are shown and never started, see `job_files`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
from typing import Any

import msgspec
from absl import logging
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import (
  HTMLResponse,
  JSONResponse,
  RedirectResponse,
  Response,
)

from ctd_jax.index.answers import clean
from ctd_jax.index.corrections import CorrectionStore
from ctd_jax.index.date_changes import RedateReport
from ctd_jax.utils import files
from ctd_jax.utils.notes import Note
from ctd_jax.web import job_files, rendering, requests, served_index
from ctd_jax.web.job_files import (
  BROKEN_OFF,
  CANCELLED,
  RUNNING,
  WAITING,
  Redating,
  StoredJob,
  Task,
)
from ctd_jax.web.requests import PageError, answer_in_time
from ctd_jax.web.settings import WebSettings

_JOB_ID = re.compile("[1-9][0-9]{0,8}")
_LOCK_FILE = "lock"
_MAX_JOBS = 100  # that have ended and are kept
_SECONDS_PER_LOOK = 0.3
_SECONDS_TO_START = 10.0
_SECONDS_TO_END = 15.0  # more than `job_files` gives a program
_SUFFIXES = (".json", ".log", ".lock", ".error", job_files.CHANGES_SUFFIX)
# What the API shows of a job.
_SHOWN = (
  *("title", "subject", "state", "created", "started", "ended"),
  *("progress", "lines", "error", "report"),
)

_SECONDS_PER_LOAD = 3  # of a page without a script
_NUM_SHOWN = 30
_MAX_CHANGES = 200  # records that a page lists
router = APIRouter(include_in_schema=False)
api_router = APIRouter(tags=["jobs"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job(StoredJob):
  """The current state of a job."""

  progress: job_files.JobProgress | None  # None if it reports none
  lines: tuple[str, ...]  # last ones of the log
  error: Note | str  # why it failed; "" otherwise
  # What it has redated, or would; None before it is done.
  report: RedateReport | None

  @property
  def id(self) -> str:
    """Number of the job."""
    return self.job_id

  @property
  def is_active(self) -> bool:
    """Whether it is waiting or running."""
    return self.state in (WAITING, RUNNING)

  def to_dict(self) -> dict[str, Any]:
    """Returns the job as the API shows it."""
    values = dataclasses.asdict(self) | {
      "error": clean(self.error),
      "report": msgspec.to_builtins(self.report),
    }
    return {"id": self.id} | {name: values[name] for name in _SHOWN}


def prepare_folder(folder: pathlib.Path, settings: WebSettings) -> None:
  """Checks the folder of an index, and hides what readers wrote from others.

  Raises:
    ValueError: if the folder has links, or belongs in part to another user, or
      this installation has no place for its secret.
  """
  folder = folder.expanduser()
  if folder.is_dir():
    files.check_tree(folder)
    _check_parts(folder, settings)
  if settings.read_only:
    return
  try:
    job_files.load_installation()
  except OSError as error:
    raise ValueError(
      f"{error.filename}: {error.strerror}; builds are started only by the "
      "installation that has its secret there; set XDG_STATE_HOME to a folder "
      "of yours, or serve with --read_only"
    ) from error
  files.make_private(
    folder / job_files.JOBS_FOLDER, folder / job_files.UPLOADS_FOLDER
  )


def _check_parts(folder: pathlib.Path, settings: WebSettings) -> None:
  """Raises ValueError for what pages could not read or write later."""
  CorrectionStore(folder).version()  # names what is damaged
  jobs = folder / job_files.JOBS_FOLDER
  for path in filter(
    pathlib.Path.exists, (jobs, folder / job_files.UPLOADS_FOLDER)
  ):
    if not path.is_dir():
      raise ValueError(f"{path}: expected a folder")
    if not settings.read_only and not os.access(path, os.R_OK | os.W_OK):
      raise ValueError(
        f"{path}: cannot be written; serve as its owner, or with --read_only"
      )
  for path in jobs.glob("[!.]*/"):
    raise ValueError(f"{path}: expected a file")


class JobRunner:
  """Runs the jobs of an index, one after the other."""

  def __init__(self, folder: pathlib.Path, settings: WebSettings):
    """Picks up jobs left by an earlier server, unless this one is read-only.

    Raises:
      ValueError: see `prepare_folder`.
    """
    prepare_folder(folder, settings)
    self._index_folder = folder.expanduser().absolute()
    self._folder = self._index_folder / job_files.JOBS_FOLDER
    self._settings = settings
    self._program = (*job_files.PYTHON, "ctd_jax.index")
    self._processes: dict[str, subprocess.Popen] = {}
    self._closing = threading.Event()
    self._watching = threading.Lock()
    if not settings.read_only and any(job.is_active for job in self.list()):
      self._watch()

  def start(self, title: str, task: Task, subject: str, key: str = "") -> Job:
    """Queues a build of the index and returns its job.

    Args:
      title: shown to readers; either text, or a code such as "redate" for the
        message "job.redate".
      subject: subject of the job; `list` filters by it.
      key: key of the form; a form sent twice starts one job.
    """
    if self._settings.read_only:
      raise ValueError("the server is read-only; no job was started")
    task.list_arguments(self._index_folder)  # it may come from a stranger
    with self._lock():
      if key and (job := self.find_by_key(key)):
        return job
      job_id = self._choose_id()
      job_files.write_job(
        self._folder,
        StoredJob(
          job_id=job_id,
          title=title,
          subject=subject,
          task=task,
          state=WAITING,
          created=job_files.format_now(),
          key=key,
        ),
      )
      self._remove_old()
    self._start_next()
    self._watch()
    return self.get(job_id)

  def restart(self, job_id: str, key: str = "") -> Job | None:
    """Queues an ended job again; returns None if there is no such job."""
    job = self.get(job_id)
    return job and self.start(job.title, job.task, job.subject, key)

  def get(self, job_id: str) -> Job | None:
    """Returns the job with this number, or None."""
    stored = self._read(job_id) if job_id in self._list_ids() else None
    return stored and self._describe(stored)

  def find_by_key(self, key: str) -> Job | None:
    """Returns the job started by a form, or None."""
    for job_id in self._list_ids():
      stored = job_files.read_job(self._folder, job_id)
      if stored is not None and stored.key == key:
        return self.get(job_id)
    return None

  def list(self, subject: str | None = None) -> list[Job]:
    """Returns the jobs about a subject, or all of them, newest first."""
    jobs = (self.get(job_id) for job_id in self._list_ids())
    return [job for job in jobs if job and subject in (None, job.subject)]

  def cancel(self, job_id: str) -> Job | None:
    """Cancels a job; returns None if there is no such job."""
    if job_id not in self._list_ids():
      return None
    with self._lock():
      stored = self._read(job_id)
      if stored is not None and stored.state == WAITING:
        job_files.write_job(
          self._folder,
          dataclasses.replace(
            stored, state=CANCELLED, ended=job_files.format_now()
          ),
        )
    self._end_process(job_id, signal.SIGTERM)
    return self.get(job_id)

  def close(self) -> None:
    """Interrupts this server's job; it can be started again later."""
    self._closing.set()
    for job_id in [*self._processes]:
      self._end_process(job_id, signal.SIGHUP)

  def log_running(self) -> None:
    """Logs the job that continues after the server has ended."""
    for job in self.list():
      if job.state == RUNNING:
        logging.warning(
          "job %s continues without this server: %s", job.id, job.title
        )

  def _describe(self, stored: StoredJob) -> Job:
    log = self._folder / f"{stored.job_id}.log"
    lines = tuple(map(self._hide_folder, job_files.read_last_lines(log)))
    error: Note | str = ""
    if stored.state == job_files.FAILED:
      note = job_files.read_error(log.with_suffix(".error"))
      error = self._hide_folder(note) or job_files.find_error(
        lines, stored.status
      )
    report = None
    if stored.state == job_files.DONE and isinstance(stored.task, Redating):
      changes = log.with_suffix(job_files.CHANGES_SUFFIX)
      report = job_files.read_state(changes, RedateReport)
    return Job(
      **vars(stored),
      report=report,
      progress=job_files.find_progress(lines)
      if stored.state == RUNNING
      else None,
      lines=job_files.shorten_lines(lines),
      error=error,
    )

  def _hide_folder(self, text: Note | str) -> Note | str:
    # Readers elsewhere need not know where the index is.
    folder = f"{self._index_folder}"
    text = text.replace(f"{folder}/", "")
    return text.replace(folder, self._index_folder.name)

  def _read(self, job_id: str) -> StoredJob | None:
    """Returns a job, marked as interrupted if its processes are gone."""
    stored = job_files.read_job(self._folder, job_id)
    if stored is None or stored.state != RUNNING:
      return stored
    if job_files.is_locked(self._folder, job_id):
      return stored
    # It may have ended between the two looks.
    stored = job_files.read_job(self._folder, job_id)
    if stored is not None and stored.state == RUNNING:
      return dataclasses.replace(stored, state=BROKEN_OFF)
    return stored

  def _list_ids(self) -> list[str]:
    """Returns the job numbers, highest first."""
    names = [path.stem for path in self._folder.glob("*.json")]
    return sorted(filter(_JOB_ID.fullmatch, names), key=int, reverse=True)

  def _choose_id(self) -> str:
    used = {*map(int, self._list_ids())}
    number = 1 + max(used, default=0)
    if _JOB_ID.fullmatch(str(number)):
      return str(number)
    # A stranger has used the last one.
    return str(next(it for it in range(1, number) if it not in used))

  def _lock(self) -> contextlib.AbstractContextManager[None]:
    """Locks all jobs, across servers of this index."""
    return job_files.hold_lock(self._folder, _LOCK_FILE)

  def _start_next(self) -> None:
    """Starts the oldest waiting job, if none is running."""
    with self._lock():
      job_ids = self._list_ids()
      # A job whose file cannot be read may also be running.
      if any(job_files.is_locked(self._folder, job_id) for job_id in job_ids):
        return
      for job in map(self._read, reversed(job_ids)):
        if job is not None and job.state == WAITING:
          self._launch(job)
          return

  def _launch(self, job: StoredJob) -> None:
    """Starts the process of a job, which inherits the lock."""
    path = self._folder / f"{job.job_id}.lock"
    with files.open_private(path, "wb") as lock:
      fcntl.flock(lock, fcntl.LOCK_EX)
      job_files.write_job(
        self._folder,
        dataclasses.replace(job, state=RUNNING, started=job_files.format_now()),
      )
      self._processes[job.job_id] = subprocess.Popen(
        (
          *(*job_files.PYTHON, "ctd_jax.web.job_files"),
          *(str(self._folder), job.job_id, str(lock.fileno())),
          *self._program,
        ),
        stdin=subprocess.DEVNULL,
        pass_fds=(lock.fileno(),),
        start_new_session=True,
      )

  def _end_process(self, job_id: str, number: int) -> None:
    """Sends a signal to the processes of a job and waits for them to end."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while job_files.is_locked(self._folder, job_id):
      stored = job_files.read_job(self._folder, job_id)
      if stored is not None and stored.state == RUNNING and stored.pid:
        # Nobody else has the number while a process of the group lives.
        with contextlib.suppress(ProcessLookupError):
          os.killpg(stored.pid, number)
        break
      if time.monotonic() > deadline:
        break
      time.sleep(0.02)
    deadline = time.monotonic() + _SECONDS_TO_END
    while (
      job_files.is_locked(self._folder, job_id) and time.monotonic() < deadline
    ):
      time.sleep(0.02)

  def _watch(self) -> None:
    """Starts a thread that runs waiting jobs until none is left."""
    if self._watching.acquire(blocking=False):
      threading.Thread(target=self._start_in_turn, daemon=True).start()

  def _start_in_turn(self) -> None:
    try:
      while any(job.is_active for job in self.list()):
        if self._closing.wait(_SECONDS_PER_LOOK):
          return
        for process in self._processes.values():
          process.poll()  # or it would stay as a zombie
        self._start_next()
    except OSError as error:
      logging.error("jobs cannot be read: %s", error)
    finally:
      self._watching.release()

  def _remove_old(self) -> None:
    """Removes the files of the oldest ended jobs."""
    for job_id in self._list_ids()[_MAX_JOBS:]:
      stored = self._read(job_id)
      if stored is None:
        is_over = not job_files.is_locked(self._folder, job_id)
      else:
        is_over = stored.state not in (WAITING, RUNNING)
      if is_over:
        for suffix in _SUFFIXES:
          (self._folder / f"{job_id}{suffix}").unlink(missing_ok=True)


@router.get("/jobs")
async def show_jobs(request: Request) -> Response:
  """Returns the page that lists the jobs."""
  jobs = await answer_in_time(request, request.app.state.jobs.list)
  return _respond(
    request,
    "jobs.html",
    jobs=jobs[:_NUM_SHOWN],
    seconds=_SECONDS_PER_LOAD if any(job.is_active for job in jobs) else 0,
  )


@router.get("/jobs/{job_id}")
async def show_job(request: Request, job_id: str) -> Response:
  """Returns the page of a job, or only the part that its script refreshes."""
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
  """Cancels a job, then shows it."""
  await requests.read_form(request)
  await answer_in_time(request, find_job, request, job_id)
  await answer_in_time(request, request.app.state.jobs.cancel, job_id)
  return lead_to_job(request, job_id)


@router.post("/jobs/{job_id}/restart")
async def restart_job(request: Request, job_id: str) -> Response:
  """Starts an ended job again, then shows the new one."""
  form = await requests.read_form(request)
  job = await answer_in_time(request, find_job, request, job_id)
  if job.is_active:
    return lead_to_job(request, job_id)
  try:
    again = await answer_in_time(
      request,
      request.app.state.jobs.restart,
      job_id,
      str(form[requests.KEY_FIELD]),
    )
  except ValueError as error:  # what a stranger asks for
    raise PageError(422, "error.job.task", {"problem": str(error)}) from error
  return lead_to_job(request, again.id)


@api_router.get("/api/jobs", summary="Builds of the index, the newest first")
async def read_jobs(request: Request) -> Response:
  """Returns the builds started from pages, with their progress."""
  jobs = await answer_in_time(request, request.app.state.jobs.list)
  return JSONResponse({"jobs": [job.to_dict() for job in jobs]})


@api_router.get("/api/jobs/{job_id}", summary="A build of the index")
async def read_job(request: Request, job_id: str) -> Response:
  """Returns a build: state, progress, last log lines and error."""
  job = await answer_in_time(request, find_job, request, job_id)
  return JSONResponse(job.to_dict())


def lead_to_job(request: Request, job_id: str) -> Response:
  """Returns a redirect to a job's page."""
  link = rendering.PageLinks(request)(f"/jobs/{job_id}")
  return RedirectResponse(link, 303)


def find_job(request: Request, job_id: str) -> Job:
  """Returns a job."""
  job = request.app.state.jobs.get(job_id)
  if job is None:
    raise PageError(404, "error.job", {"job": job_id[:20]})
  return job


def _respond(request: Request, template: str, **values: Any) -> Response:
  language = rendering.find_language(request)
  return HTMLResponse(
    rendering.render_plain(
      request,
      template,
      name_job=lambda job: rendering.translate_term(language, "job", job.title),
      describe_step=job_files.describe_step,
      record_path=served_index.make_record_path,
      max_changes=_MAX_CHANGES,
      **values,
    )
  )
