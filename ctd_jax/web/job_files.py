"""Files of a job: its state, its log, and the lock that shows that it runs.

`jobs/` of an index has of each job `ID.json`, `ID.log` and `ID.lock`. The lock
is held by the processes of the job and by nobody else, so that a server which
is started anew knows whether a job of the one before still runs.
"""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import json
import pathlib

from ctd_jax.utils import files

JOBS_FOLDER = "jobs"
STATES = WAITING, RUNNING, DONE, FAILED, CANCELLED, BROKEN_OFF = (
  "waiting",
  "running",
  "done",
  "failed",
  "cancelled",
  "broken_off",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredJob:
  """What `ID.json` has.

  Attributes:
    job_id: of the job, a number.
    title: as of `JobRunner.start`.
    subject: likewise.
    arguments: likewise.
    command: program and all of its arguments.
    state: one of `STATES`.
    created: time, ISO 8601 of UTC, like the next two.
    started: of its process; "" before.
    ended: likewise.
    pid: of the first process, which is that of the group; 0 before.
    status: with which the program ended, negative for a signal; None before.
  """

  job_id: str
  title: str
  subject: str
  arguments: tuple[str, ...]
  command: tuple[str, ...]
  state: str
  created: str
  started: str = ""
  ended: str = ""
  pid: int = 0
  status: int | None = None


def read_job(folder: pathlib.Path, job_id: str) -> StoredJob | None:
  """Returns a job as it was last written; None if there is none.

  Args:
    folder: of the jobs.
    job_id: of the job.
  """
  try:
    values = json.loads(files.read_text(folder / f"{job_id}.json"))
  except FileNotFoundError:
    return None
  return StoredJob(
    **values | {name: tuple(values[name]) for name in ("arguments", "command")}
  )


def write_job(folder: pathlib.Path, job: StoredJob) -> None:
  """Writes the state of a job, whole or not at all.

  Args:
    folder: of the jobs.
    job: in its new state.
  """
  content = json.dumps(dataclasses.asdict(job), ensure_ascii=False, indent=1)
  files.write_text(folder / f"{job.job_id}.json", content + "\n")


def is_locked(folder: pathlib.Path, job_id: str) -> bool:
  """Whether a process of a job lives.

  Args:
    folder: of the jobs.
    job_id: of the job.
  """
  try:
    file = (folder / f"{job_id}.lock").open("rb")
  except FileNotFoundError:
    return False
  with file:
    try:
      fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
      return True
  return False


def format_now() -> str:
  """Returns the time as jobs have it."""
  return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
