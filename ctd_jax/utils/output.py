"""Tables as text, templates of pages, figures, and the progress of loops."""

from __future__ import annotations

import csv
import datetime
import functools
import io
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import tqdm
from absl import logging
from rich import cells

from ctd_jax.utils import files

if TYPE_CHECKING:
  import jinja2
  import matplotlib.axes
  import matplotlib.figure


_COLUMN_GAP = "  "
# Headers of columns of words. Markdown aligns them to the left and all other
# columns, which hold figures, to the right.
WORD_COLUMNS = (
  "system",
  "score",
  "source",
  "questions",
  "task",
  "measure",
  "games",
)


def format_table(
  title: str,
  header: Sequence[str],
  rows: Iterable[Sequence[Any]],
  markdown: bool = False,
  right: Collection[int] = (),
  left: Collection[str] = WORD_COLUMNS,
) -> str:
  """Returns a table as lines of text, each with its line end.

  Args:
    title: above the table; without one, a terminal table has no rules.
    rows: cells of each line, as many as the header has.
    right: columns that a terminal aligns to the right.
    left: names of the columns that Markdown aligns to the left.
  """
  lines = [list(map(str, row)) for row in (header, *rows)]
  if markdown:
    # Unpadded: tables in the docs are compared byte by byte, and one longer
    # cell would change every line of a padded one.
    rule = [":--" if name in left else "--:" for name in header]
    text_lines = [f"**{title}**", ""] if title else []
    for line in (lines[0], rule, *lines[1:]):
      text_lines.append("| " + " | ".join(line) + " |")
    return "\n".join([*text_lines, ""])
  widths = [
    max(map(cells.cell_len, column)) for column in zip(*lines, strict=True)
  ]
  text_lines = [_align(line, widths, right) for line in lines]
  if title:
    rule = "-" * (sum(widths) + len(_COLUMN_GAP) * (len(widths) - 1))
    first, *others = text_lines
    text_lines = [title, rule, first, rule, *others, rule]
  return "\n".join([*text_lines, ""])


BYTE_ORDER_MARK = "\ufeff"  # without it Excel reads Han characters wrong


def format_delimited(
  header: Sequence[str],
  rows: Iterable[Sequence[Any]],
  delimiter: str = "\t",
  quoted: bool = True,
) -> str:
  """Returns a TSV or CSV table; None becomes an empty cell.

  Args:
    quoted: whether to quote cells where needed. Without quotes, a cell must
      hold neither delimiters nor line ends.
  """
  text = io.StringIO()
  writer = csv.writer(
    text,
    delimiter=delimiter,
    lineterminator="\n",
    quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
    quotechar='"' if quoted else None,
  )
  writer.writerow(header)
  writer.writerows(rows)
  return text.getvalue()


def _align(
  line: Sequence[str], widths: Sequence[int], right: Collection[int]
) -> str:
  """Returns a line with padded cells, without trailing spaces."""
  padded = []
  for index, (cell, width) in enumerate(zip(line, widths, strict=True)):
    # Han characters are two columns wide.
    padding = " " * (width - cells.cell_len(cell))
    padded.append(padding + cell if index in right else cell + padding)
  return _COLUMN_GAP.join(padded).rstrip()


# Figures: their colours, their frame, and PNG files.
#
# Matplotlib is imported when the first figure is made: modules that draw are
# also imported for `--help`, where half a second of imports would be felt.


_DOTS_PER_INCH = 150
# Okabe and Ito's colours, told apart with any colour vision and in print.
COLOURS = (
  "#0072B2",  # blue
  "#E69F00",  # orange
  "#009E73",  # bluish green
  "#CC79A7",  # reddish purple
  "#56B4E9",  # sky blue
  "#D55E00",  # vermillion
  "#000000",
)


def colour_at(index: int) -> str:
  """Returns the colour of a series; colours repeat after the last."""
  return COLOURS[index % len(COLOURS)]


@functools.cache
def open_templates(folder: str) -> jinja2.Environment:
  """Returns the templates of pages in a folder of the package.

  Args:
    folder: path below `ctd_jax`, such as "index".
  """
  import jinja2

  return jinja2.Environment(
    loader=jinja2.PackageLoader("ctd_jax", folder),
    autoescape=True,  # corpus texts may hold < and &
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
  )


def make_figure(width: float, height: float) -> matplotlib.figure.Figure:
  """Returns an empty figure without a window; sizes are in inches."""
  # Not pyplot: it keeps every figure alive and looks for a display.
  import matplotlib.figure

  return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def style_frame(axes: matplotlib.axes.Axes) -> None:
  """Keeps two sides of the frame and draws horizontal grid lines."""
  axes.yaxis.grid(True, color="0.85")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)


def write_figure(
  path: str | os.PathLike, figure: matplotlib.figure.Figure
) -> None:
  """Writes a figure as PNG, atomically."""
  with files.atomic_path(path) as temporary:
    # Without the version of matplotlib: the same figure, the same bytes.
    figure.savefig(
      temporary,
      dpi=_DOTS_PER_INCH,
      format="png",
      metadata={"Software": None},
    )


# Progress of long loops: a bar on a terminal, elsewhere a line in the log.
#
# A batch job, a pipe or a notebook's log has no bar. There, a line every half
# minute gives progress, speed and time left.


SECONDS_VARIABLE = "CTD_JAX_PROGRESS_SECONDS"  # of the environment
# Between two lines of the log, and before the first: what is shorter says
# nothing.
SECONDS_PER_LINE = float(os.environ.get(SECONDS_VARIABLE, 30))
_SECONDS_BEFORE_BAR = 2.0


class Progress(tqdm.tqdm):
  """`tqdm.tqdm` that logs lines where there is no terminal.

  Loops under two seconds show no bar; loops under `SECONDS_PER_LINE` log
  nothing.
  """

  def __init__(self, *args: Any, file: TextIO | None = None, **kwargs: Any):
    """Takes `tqdm.tqdm`'s arguments; `file` defaults to standard error."""
    file = file or sys.stderr
    self._writes_lines = not file.isatty()
    if self._writes_lines:
      kwargs |= {
        "file": io.StringIO(),  # the lines go to the log
        "delay": SECONDS_PER_LINE,
        "mininterval": SECONDS_PER_LINE,
        "maxinterval": SECONDS_PER_LINE,
      }
    else:
      kwargs = {"file": file, "delay": _SECONDS_BEFORE_BAR} | kwargs
    super().__init__(*args, **kwargs)

  def display(self, msg: str | None = None, pos: int | None = None) -> bool:
    """Shows the bar, or logs a line; `msg=""` clears the bar."""
    if not self._writes_lines:
      return super().display(msg, pos)
    if msg is None:
      logging.info("%s", self.format_line())
    return True

  def set_postfix(self, *args: Any, **kwargs: Any) -> None:
    """Sets the text behind the bar, from the next update on."""
    super().set_postfix(*args, **kwargs | {"refresh": False})

  def format_line(self) -> str:
    """Returns a log line.

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
