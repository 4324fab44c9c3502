"""Files of a job: its state, its log, and the lock that shows that it runs.

`jobs/` of an index has of each job `ID.json`, `ID.log` and `ID.lock`. The lock
is held by the processes of the job and by nobody else, so that a server which
is started anew knows whether a job of the one before still runs.
"""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import pathlib

from ctd_jax.web import state_files

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
    key: of the form that asked for it; "" of none.
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
  key: str = ""

  def __post_init__(self):
    """Refuses a state that no job has.

    Raises:
      ValueError: naming it.
    """
    if self.state not in STATES:
      raise ValueError(f"state {self.state!r}, expected one of {STATES}")


def read_job(folder: pathlib.Path, job_id: str) -> StoredJob | None:
  """Returns a job as it was last written; None if none can be read.

  Args:
    folder: of the jobs.
    job_id: of the job.
  """
  return state_files.read_state(
    folder / f"{job_id}.json", StoredJob, job_id=job_id
  )


def write_job(folder: pathlib.Path, job: StoredJob) -> None:
  """Writes the state of a job to the disk.

  Args:
    folder: of the jobs.
    job: in its new state.
  """
  state_files.write_state(folder / f"{job.job_id}.json", job)


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
