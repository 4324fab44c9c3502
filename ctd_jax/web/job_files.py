"""Files of a job, and the process that runs it.

  python -m ctd_jax.web.job_files FOLDER ID LOCK PROGRAM ...

Each job has `ID.json` (state), `ID.log`, `ID.lock` and `ID.error` (why it
failed, as a note) in the index's folder `jobs`. The process outlives its
server, so that the end is always recorded. SIGTERM cancels a job; SIGHUP
interrupts it, and it can be started again.

An index may come from a stranger. A file of a job therefore holds no command,
only a task of a known kind, and a seal that only this user can make: a job
without it is shown, but neither started nor sent a signal.
"""

import contextlib
import csv
import dataclasses
import datetime
import errno
import fcntl
import functools
import hmac
import io
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

import msgspec
from absl import logging

from ctd_jax.utils import command_line, files, notes, output
from ctd_jax.utils.notes import Note

_MAX_LOGGED = 1_000  # damaged files that are logged once and not at every look

_State = TypeVar("_State")

JOBS_FOLDER, UPLOADS_FOLDER = "jobs", "uploads"
STATES = WAITING, RUNNING, DONE, FAILED, CANCELLED, BROKEN_OFF, FOREIGN = (
  "waiting",
  "running",
  "done",
  "failed",
  "cancelled",
  "broken_off",
  "foreign",  # not ended, and of another installation
)
# -P: without it, Python would look for modules in the current folder, and that
# may be the index of a stranger.
PYTHON = (sys.executable, "-P", "-m")
_SECRET_BYTES = 32
_MAX_STATE = 16 << 20  # bytes of a file with the state of a job or upload
# Polities, countries, CE:700-1160; no paths.
_REIGNS = re.compile(r"[\w ,:\-()（）、]*")
# --add splits at commas what is not the path of a file, and takes patterns.
_NO_SOURCE = re.compile(r"[,*?\x00-\x1f]")
_NO_NAME = re.compile(r"[\x00-\x1f]")
_MAX_BYTES = 1 << 16  # of the end of a log that are read
_MAX_LINES = 12  # that are shown
_MAX_CHARACTERS = 400  # of a line
# As absl begins a line.
_PREFIX = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\]]{1,80}\] ")
# As `output.Progress.format_line` writes it.
_PROGRESS = re.compile(
  r"(?P<step>.{1,200}?): (?P<done>[\d,]+)(?: of (?P<total>[\d,]+))? "
  r"(?P<unit>[a-z ]{1,40}s)(?: \(\d+%\))?"
  r"(?:, (?P<rate>[\d.e+-]+) [a-z ]+/s)?"
  r"(?:, (?P<left>(?:\d+ days?, )?\d+:\d\d:\d\d) left)?(?:, .*)?"
)
CHANGES_SUFFIX = ".changes.json"  # of the file of what a job has redated
_ERROR = "error: "
_TRACEBACK = "Traceback (most recent call last)"
_NICENESS = 10  # below the answers to readers
_SECONDS_TO_END = 3  # that a program has after a signal
_SECONDS_PER_LINE = "2"  # of progress


def read_state(
  path: pathlib.Path, kind: type[_State], **expected: str
) -> _State | None:
  """Returns a dataclass read from a JSON file, or None after logging why not.

  Args:
    kind: dataclass; unknown members of the file are ignored.
    **expected: members that must have these values.
  """
  try:
    content = files.read_limited(path, _MAX_STATE)
    state = msgspec.json.decode(content, type=kind)
  except FileNotFoundError:
    return None
  # Bytes that are not UTF-8 are a ValueError.
  except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
    log_damaged(path, str(error))
    return None
  for name, value in expected.items():
    if (found := getattr(state, name)) != value:
      log_damaged(path, f"{name} {found!r}, expected {value!r}")
      return None
  return state


def write_state(path: pathlib.Path, state: object) -> None:
  """Writes a file atomically and waits until it is on disk."""
  content = msgspec.json.format(msgspec.json.encode(state), indent=1)
  files.write_text(path, content.decode() + "\n", is_private=True)


@contextlib.contextmanager
def hold_lock(folder: pathlib.Path, name: str) -> Iterator[None]:
  """Holds the lock of a file in a folder, across processes."""
  folder.mkdir(mode=0o700, parents=True, exist_ok=True)
  with files.open_private(folder / name, "wb") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    yield


@functools.lru_cache(_MAX_LOGGED)
def log_damaged(path: pathlib.Path, problem: str) -> None:
  """Logs once that a file is passed over."""
  logging.error("%s: cannot be read and was skipped: %s", path, problem)


def is_calendar(reigns: str) -> bool:
  """Whether a value of --reigns names a calendar, and no file."""
  # A file in the folder of the server is not for readers.
  return bool(_REIGNS.fullmatch(reigns)) and not pathlib.Path(reigns).is_file()


class UploadBuild(msgspec.Struct, frozen=True, kw_only=True, tag="upload"):
  """Task of adding an uploaded text to the index."""

  source: str  # path below the folder of uploads
  is_beir: bool = False  # whether that is a BEIR folder
  unit: Literal["", "line", "paragraph"] = ""  # of plain text
  reigns: str = ""  # calendar of a new index
  order: tuple[str, ...] = ()  # works to date by the order of their entries
  undated: tuple[str, ...] = ()  # works to date by the model

  def list_arguments(self, index: pathlib.Path) -> list[str]:
    """Returns the arguments of `ctd-jax index` besides --index.

    Raises:
      ValueError: if a value could mean something else than a text that was
        uploaded, a calendar or the name of a work.
    """
    path = files.inside(index / UPLOADS_FOLDER, self.source)
    if _NO_SOURCE.search(self.source) or not path.exists():
      raise ValueError(f"{self.source[:200]!r}: no such upload")
    if not is_calendar(self.reigns):
      raise ValueError(f"{self.reigns[:200]!r}: not a calendar")
    values = {
      "add": f"beir:{path}" if self.is_beir else str(path),
      "unit": self.unit,
      "reigns": self.reigns,
      "order": _join(self.order),
      "undated": _join(self.undated),
    }
    # In one argument: no value is taken for another flag.
    return [f"--{name}={value}" for name, value in values.items() if value]


class Redating(msgspec.Struct, frozen=True, tag="redate"):
  """Task of dating the corrected works again."""

  dry_run: bool = False  # only to see what would change

  def list_arguments(self, index: pathlib.Path) -> list[str]:
    """Returns the arguments of `ctd-jax index` besides --index."""
    del index
    return ["--redate", *["--dry_run"] * self.dry_run]


Task = UploadBuild | Redating


def _join(names: tuple[str, ...]) -> str:
  """Returns names as flags take lists, in CSV."""
  for name in filter(_NO_NAME.search, names):
    raise ValueError(f"{name[:200]!r}: not the name of a work")
  line = io.StringIO()
  csv.writer(line, lineterminator="").writerow(names)
  return line.getvalue()


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredJob:
  """The content of `ID.json`."""

  job_id: str  # a number
  title: str  # text, or the code of a message
  subject: str  # what the job is about
  task: Task
  state: str  # one of `STATES`
  created: str  # time in UTC, ISO 8601, like the next two
  started: str = ""  # "" before the process starts
  ended: str = ""  # "" before it ends
  pid: int = 0  # of the process group; 0 before it starts
  # Exit status, negative for a signal; None before it ends.
  status: int | None = None
  key: str = ""  # of the form that asked for the job
  seal: str = ""  # see `make_seal`

  def __post_init__(self):
    """Raises ValueError for an unknown state."""
    if self.state not in STATES:
      raise ValueError(f"state {self.state!r}, expected one of {STATES}")


def read_job(folder: pathlib.Path, job_id: str) -> StoredJob | None:
  """Returns a job as last written, or None if it cannot be read.

  One of another installation that has not ended is `FOREIGN`.
  """
  job = read_state(folder / f"{job_id}.json", StoredJob, job_id=job_id)
  if job is None or job.state not in (WAITING, RUNNING):
    return job
  try:
    is_own = hmac.compare_digest(job.seal.encode(), make_seal(folder, job))
  # The secret cannot be read, so nothing was sealed with it.
  except (OSError, ValueError):
    is_own = False
  return job if is_own else dataclasses.replace(job, state=FOREIGN, pid=0)


def write_job(folder: pathlib.Path, job: StoredJob) -> None:
  """Writes the state of a job to disk, as one of this installation."""
  seal = make_seal(folder, job).decode()
  job = dataclasses.replace(job, seal=seal)
  write_state(folder / f"{job.job_id}.json", job)


def make_seal(folder: pathlib.Path, job: StoredJob) -> bytes:
  """Returns what proves that a job of this folder was written by this user."""
  content = (str(folder.resolve()), dataclasses.replace(job, seal=""))
  key = load_installation()
  return hmac.digest(key, msgspec.json.encode(content), "sha256").hex().encode()


def load_installation() -> bytes:
  """Returns the secret of this user's installation, made when first needed.

  It is outside of any index, so that no copy of an index has it.
  """
  state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
  try:
    folder = pathlib.Path(state).expanduser()
  except RuntimeError as error:  # a user of a container may have no home
    raise FileNotFoundError(errno.ENOENT, "no home folder", state) from error
  return load_secret(folder / "ctd_jax" / "installation")


@functools.cache
def load_secret(path: pathlib.Path) -> bytes:
  """Returns the secret in a file, which is created if it is missing.

  Raises:
    OSError: if it can be neither read nor written.
    ValueError: if it is too short.
  """
  if not path.exists():
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Linked when it is whole: two servers may start at once.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
      file.write(secrets.token_bytes(_SECRET_BYTES))
    try:
      with contextlib.suppress(FileExistsError):
        os.link(temporary, path)
    finally:
      temporary.unlink()
  secret = files.read_limited(path, 1 << 12)
  if len(secret) < _SECRET_BYTES:
    raise ValueError(f"{path}: too short for a secret; remove it")
  return secret


def is_locked(folder: pathlib.Path, job_id: str) -> bool:
  """Whether a process of the job is alive; only they hold its lock."""
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
  """Returns the current time in UTC, ISO 8601."""
  return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobProgress:
  """The progress of a job."""

  step: str  # what the job is doing
  done: int  # units finished
  total: int | None  # None if unknown
  unit: str  # English plural, such as records
  rate: float | None  # units per second; None if unknown
  left: str  # remaining time, such as "0:05:37"; "" if unknown


def read_last_lines(path: pathlib.Path) -> tuple[str, ...]:
  """Returns the last lines of a log, without timestamps; () without a log."""
  try:
    with path.open("rb") as file:
      start = max(file.seek(0, 2) - _MAX_BYTES, 0)
      file.seek(start)
      content = file.read()
  except FileNotFoundError:
    return ()
  if start:  # within a line
    content = content.partition(b"\n")[2]
  lines = content.decode("utf-8", "replace").splitlines()
  return tuple(_PREFIX.sub("", line, count=1) for line in lines if line.strip())


def shorten_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
  """Returns the log lines to show: the last ones, without tracebacks."""
  shown, is_traceback = [], False
  for line in lines:
    if line.startswith(_TRACEBACK):
      is_traceback = True
    elif not (is_traceback and line.startswith("  ")):
      is_traceback = False
      shown.append(line[:_MAX_CHARACTERS])
  return tuple(shown[-_MAX_LINES:])


def find_progress(lines: tuple[str, ...]) -> JobProgress | None:
  """Returns the progress that the last line reports, if any."""
  match = _PROGRESS.fullmatch(lines[-1]) if lines else None
  if match is None or not (match["total"] or match["rate"]):
    return None
  total, rate = match["total"], match["rate"]
  if total == match["done"]:  # what comes next has not said anything yet
    return None
  return JobProgress(
    step=match["step"],
    done=_parse_count(match["done"]),
    total=_parse_count(total) if total else None,
    unit=match["unit"],
    rate=float(rate) if rate else None,
    left=match["left"] or "",
  )


def _parse_count(text: str) -> int:
  return int(text.replace(",", ""))


def find_error(lines: tuple[str, ...], status: int | None) -> Note | str:
  """Returns the message of a failed program.

  Args:
    lines: last lines of its log.
    status: exit status; negative for a signal.
  """
  for number in range(len(lines) - 1, -1, -1):
    if lines[number].startswith(_ERROR):
      # Further lines name one problem each.
      message = " ".join(map(str.strip, lines[number : number + _MAX_LINES]))
      return message.removeprefix(_ERROR)[: 4 * _MAX_CHARACTERS]
  if status is not None and status < 0:
    # What the system does when memory runs out.
    names = {it.value: it.name for it in signal.Signals}
    name = names.get(-status, str(-status))
    return Note("problem.job.signal", signal=name)
  if lines:
    return lines[-1][:_MAX_CHARACTERS]
  return Note("problem.job.status", status=str(status))


def read_error(path: pathlib.Path) -> Note | str:
  """Returns the note a program left about its error, or ""."""
  try:
    return notes.from_json(json.loads(files.read_limited(path, _MAX_STATE)))
  except (OSError, ValueError, RecursionError):
    return ""


def describe_step(step: str) -> Note | str:
  """Returns the name of a build step such as "words" or "左傳: writing"."""
  work, _, action = step.rpartition(": ")
  note = notes.of_term("step", step)
  if isinstance(note, Note) or not work:
    return note
  return Note("problem.at", place=work, problem=notes.of_term("step", action))


def main() -> None:
  """Runs the job named by the arguments."""
  folder, job_id, lock, *program = sys.argv[1:]
  run_job(pathlib.Path(folder), job_id, int(lock), program)


def run_job(
  folder: pathlib.Path, job_id: str, lock: int, program: Sequence[str]
) -> None:
  """Runs a job, writing its state before and after.

  Args:
    lock: open file descriptor that the processes inherit.
    program: what takes the arguments of `ctd-jax index`.
  """
  os.nice(_NICENESS)
  job = read_job(folder, job_id)
  if job is None or job.state != RUNNING:
    sys.exit(f"{folder}: no job {job_id} that this server has started")
  received: list[int] = []

  def end(number: int, _: object) -> None:
    received.append(number)
    signal.alarm(_SECONDS_TO_END)

  for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, end)
  with files.open_private(folder / f"{job_id}.log", "ab") as log:
    try:
      arguments = job.task.list_arguments(folder.parent)
      if isinstance(job.task, Redating):
        changes = folder / f"{job_id}{CHANGES_SUFFIX}"
        arguments.append(f"--changes={changes}")
    except ValueError as error:
      log.write(f"{_ERROR}{error}\n".encode())
      ended = {"state": FAILED, "status": 1, "ended": format_now()}
      write_job(folder, dataclasses.replace(job, **ended))
      return
    process = subprocess.Popen(
      (*program, f"--index={folder.parent}", *arguments),
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=subprocess.STDOUT,
      pass_fds=(lock,),
      env=os.environ
      | {
        "PYTHONUNBUFFERED": "1",
        output.SECONDS_VARIABLE: _SECONDS_PER_LINE,
        command_line.ERROR_FILE_VARIABLE: str(folder / f"{job_id}.error"),
      },
    )
  signal.signal(signal.SIGALRM, lambda *_: process.kill())
  job = dataclasses.replace(job, pid=os.getpid())
  write_job(folder, job)
  if received:  # before there was a program to receive it
    process.send_signal(received[-1])
  status = process.wait()
  files.make_private(folder / f"{job_id}.error")
  if status == 0:
    state = DONE
  elif not received:
    state = FAILED
  else:
    state = CANCELLED if signal.SIGTERM in received else BROKEN_OFF
  write_job(
    folder,
    dataclasses.replace(
      job,
      state=state,
      status=status,
      ended=format_now(),
    ),
  )


if __name__ == "__main__":
  main()
