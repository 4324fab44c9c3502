"""Figures: their colours, their frame, and PNG files.

Matplotlib is imported when the first figure is made: modules that draw are
also imported for `--help`, where half a second of imports would be felt.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ctd_jax.utils import files

if TYPE_CHECKING:
  import matplotlib.axes
  import matplotlib.figure

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
  """Returns the colour of a series; they repeat after the last."""
  return COLOURS[index % len(COLOURS)]


def make_figure(width: float, height: float) -> matplotlib.figure.Figure:
  """Returns an empty figure that belongs to no window.

  Args:
    width: in inches.
    height: in inches.
  """
  # Not pyplot: it keeps every figure alive and looks for a display.
  import matplotlib.figure

  return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def style_frame(axes: matplotlib.axes.Axes) -> None:
  """Leaves two sides of the frame and draws horizontal grid lines below."""
  axes.yaxis.grid(True, color="0.85")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)


def write_figure(
  path: str | os.PathLike, figure: matplotlib.figure.Figure
) -> None:
  """Writes a figure as PNG, whole or not at all.

  Args:
    path: folders on the way are made.
    figure: complete.
  """
  with files.atomic_path(path) as temporary:
    # Without the version of matplotlib: the same figure, the same bytes.
    figure.savefig(
      temporary,
      dpi=_DOTS_PER_INCH,
      format="png",
      metadata={"Software": None},
    )
