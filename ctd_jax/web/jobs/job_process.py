"""Process of a job: runs its program and writes how that ended.

  python -m ctd_jax.web.jobs.job_process FOLDER ID LOCK

It outlives the server that started it if that is killed, so that the end of a
program is known whoever asks for it later. LOCK is the open file of the job's
lock, which its processes inherit. SIGTERM cancels the job; SIGHUP breaks it
off, to be started again.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys

from ctd_jax.utils import progress
from ctd_jax.web.jobs import job_files

_NICENESS = 10  # below the answers to readers
_SECONDS_TO_END = 3  # that a program has after a signal
_SECONDS_PER_LINE = "2"  # of progress


def main() -> None:
  """Runs the job that the arguments name."""
  folder, job_id, lock = sys.argv[1:]
  run_job(pathlib.Path(folder), job_id, int(lock))


def run_job(folder: pathlib.Path, job_id: str, lock: int) -> None:
  """Runs the program of a job, and writes its state before and after.

  Args:
    folder: of the jobs.
    job_id: of a job that is marked as running.
    lock: open file that its processes inherit.
  """
  os.nice(_NICENESS)
  job = job_files.read_job(folder, job_id)
  if job is None:
    sys.exit(f"{folder}: no job {job_id} that can be read")
  received: list[int] = []

  def end(number: int, _: object) -> None:
    received.append(number)
    signal.alarm(_SECONDS_TO_END)

  for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, end)
  with (folder / f"{job_id}.log").open("ab") as log:
    process = subprocess.Popen(
      job.command,
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=subprocess.STDOUT,
      pass_fds=(lock,),
      env=os.environ
      | {"PYTHONUNBUFFERED": "1", progress.SECONDS_VARIABLE: _SECONDS_PER_LINE},
    )
  signal.signal(signal.SIGALRM, lambda *_: process.kill())
  job = dataclasses.replace(job, pid=os.getpid())
  job_files.write_job(folder, job)
  if received:  # before there was a program to receive it
    process.send_signal(received[-1])
  status = process.wait()
  job_files.write_job(
    folder,
    dataclasses.replace(
      job,
      state=_name_end(status, received),
      status=status,
      ended=job_files.format_now(),
    ),
  )


def _name_end(status: int, received: list[int]) -> str:
  if status == 0:
    return job_files.DONE
  if not received:
    return job_files.FAILED
  is_cancelled = signal.SIGTERM in received
  return job_files.CANCELLED if is_cancelled else job_files.BROKEN_OFF


if __name__ == "__main__":
  main()
