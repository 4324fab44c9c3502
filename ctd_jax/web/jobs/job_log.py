"""Log of a job: how far it is, its last lines, and what went wrong."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import signal

_MAX_BYTES = 1 << 16  # of the end of a log that are read
_MAX_LINES = 12  # that are shown
_MAX_CHARACTERS = 400  # of a line
# As absl begins a line.
_PREFIX = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\]]{1,80}\] ")
# As `progress.Progress.format_line` writes it.
_PROGRESS = re.compile(
  r"(?P<step>.{1,200}?): (?P<done>[\d,]+)(?: of (?P<total>[\d,]+))? "
  r"(?P<unit>[a-z ]{1,40}s)(?: \(\d+%\))?"
  r"(?:, (?P<rate>[\d.e+-]+) [a-z ]+/s)?"
  r"(?:, (?P<left>(?:\d+ days?, )?\d+:\d\d:\d\d) left)?(?:, .*)?"
)
_ERROR = "error: "
_TRACEBACK = "Traceback (most recent call last)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobProgress:
  """How far a job is.

  Attributes:
    step: what it does.
    done: of the units.
    total: of them; None if it is not known.
    unit: what is counted, in English and in the plural.
    rate: units in a second; None if it is not known.
    left: time that the step will still take, as "0:05:37"; "" if unknown.
  """

  step: str
  done: int
  total: int | None
  unit: str
  rate: float | None
  left: str


def read_last_lines(path: pathlib.Path) -> tuple[str, ...]:
  """Returns the last lines of a log, without the time before them.

  Args:
    path: of the log; one that is not there is empty.
  """
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
  """Returns the lines that are shown: the last ones, without tracebacks.

  Args:
    lines: of a log.
  """
  shown, is_traceback = [], False
  for line in lines:
    if line.startswith(_TRACEBACK):
      is_traceback = True
    elif not (is_traceback and line.startswith("  ")):
      is_traceback = False
      shown.append(line[:_MAX_CHARACTERS])
  return tuple(shown[-_MAX_LINES:])


def find_progress(lines: tuple[str, ...]) -> JobProgress | None:
  """Returns how far a step is; None if the last line is not of one under way.

  Args:
    lines: of its log.
  """
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


def find_error(lines: tuple[str, ...], status: int | None) -> str:
  """Returns what a program that failed said of it.

  Args:
    lines: of its log.
    status: with which it ended, negative for a signal.
  """
  for number in range(len(lines) - 1, -1, -1):
    if lines[number].startswith(_ERROR):
      # Further lines name one problem each.
      message = " ".join(map(str.strip, lines[number : number + _MAX_LINES]))
      return message.removeprefix(_ERROR)[: 4 * _MAX_CHARACTERS]
  if status is not None and status < 0:
    # What the system does when memory runs out.
    return f"ended by {signal.Signals(-status).name}"
  return lines[-1][:_MAX_CHARACTERS] if lines else f"status {status}"
