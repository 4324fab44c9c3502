"""Progress of long loops: a bar on a terminal, elsewhere a line in the log.

A batch job, a pipe or a notebook's log has no bar. There a line every half
minute says how far the loop is, how fast it goes and how long it will take.
"""

from __future__ import annotations

import datetime
import os
import sys
from typing import Any, TextIO

import tqdm
from absl import logging

SECONDS_VARIABLE = "CTD_JAX_PROGRESS_SECONDS"  # of the environment
# Between two lines of the log, and before the first: what is shorter says
# nothing.
SECONDS_PER_LINE = float(os.environ.get(SECONDS_VARIABLE, 30))
_SECONDS_BEFORE_BAR = 2.0


class _NoFile:
  """File that keeps nothing: the lines go to the log."""

  def write(self, text: str) -> int:
    """Drops the text; returns its length, as files do."""
    return len(text)

  def flush(self) -> None:
    """Does nothing."""


class Progress(tqdm.tqdm):
  """`tqdm.tqdm` that writes lines to the log where there is no terminal.

  It takes the arguments of `tqdm.tqdm`; what is over within two seconds shows
  no bar, and what is over within `SECONDS_PER_LINE` writes no line.
  """

  def __init__(self, *args: Any, file: TextIO | None = None, **kwargs: Any):
    """See `tqdm.tqdm`; `file` is standard error by default."""
    file = file or sys.stderr
    self._writes_lines = not file.isatty()
    if self._writes_lines:
      kwargs |= {
        "file": _NoFile(),
        "delay": SECONDS_PER_LINE,
        "mininterval": SECONDS_PER_LINE,
        "maxinterval": SECONDS_PER_LINE,
      }
    else:
      kwargs = {"file": file, "delay": _SECONDS_BEFORE_BAR} | kwargs
    super().__init__(*args, **kwargs)

  def display(self, msg: str | None = None, pos: int | None = None) -> bool:
    """Shows the bar, or logs a line; "" as `msg` clears the bar."""
    if not self._writes_lines:
      return super().display(msg, pos)
    if msg is None:
      logging.info("%s", self.format_line())
    return True

  def set_postfix(self, *args: Any, **kwargs: Any) -> None:
    """Sets what is shown behind, from the next display on."""
    super().set_postfix(*args, **kwargs | {"refresh": False})

  def format_line(self) -> str:
    """Returns what a line of the log says.

    For example "train: 480 of 1,560 steps (31%), 3.2 steps/s, 0:05:37 left,
    loss=2.310".
    """
    state = self.format_dict
    done, total, unit = state["n"], state["total"], f"{state['unit']}s"
    rate = state["rate"]
    if not rate and state["elapsed"] > 0:
      rate = (done - state["initial"]) / state["elapsed"]
    text = f"{state['prefix'].removesuffix(': ') or 'progress'}: {done:,}"
    text += (
      f" of {total:,} {unit} ({done / total:.0%})" if total else f" {unit}"
    )
    if rate:
      text += f", {rate:.3g} {unit}/s"
      if total and done < total:
        left = datetime.timedelta(seconds=round((total - done) / rate))
        text += f", {left} left"
    return text + (f", {state['postfix']}" if state["postfix"] else "")
