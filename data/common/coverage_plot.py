"""Plot of the months with an event, by ruler.

Half of the months have no event, unevenly over the rulers; a system that knows
which months are empty gains most where they are many.

Source: ChunQiuTR Figure 8.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ctd_jax.utils import plotting

if TYPE_CHECKING:
  import matplotlib.axes

_BLUE, _ORANGE, *_, _RED, _BLACK = plotting.COLOURS
_MAX_LEVEL_LABELS = 16  # with more rulers the labels stand upright


def plot_coverage(
  rows: Sequence[Mapping[str, Any]],
  title: str,
  path: str | os.PathLike,
  paper_gap: float | None = None,
) -> None:
  """Writes a PNG: months with and without an event, and the empty share.

  Args:
    rows: `reigns` of `summary.summarise_dataset`; the last is the total.
    title: names data set and version.
    path: of the PNG.
    paper_gap: share of empty months in the paper, drawn as a horizontal line;
      None for a data set that the paper does not describe.
  """
  *rulers, total = rows
  # A quarter of an inch for each ruler keeps the labels apart.
  figure = plotting.make_figure(max(8.5, 0.25 * len(rulers)), 5.2)
  months, share = figure.subplots(2, sharex=True, height_ratios=(3, 2))
  months.set_title(title)
  _draw_months(months, rulers)
  _draw_share(share, rulers)
  for gap, name, colour, style in (
    (total["gap_share"], "all rulers", _BLACK, "-"),
    (paper_gap, "paper", _RED, "--"),
  ):
    if gap is not None:
      share.axhline(gap, color=colour, ls=style, label=f"{name}, {gap:.3f}")
  figure.legend(loc="outside lower center", ncols=4, frameon=False)
  for axes in (months, share):
    plotting.style_frame(axes)
  plotting.write_figure(path, figure)


def _draw_months(
  axes: matplotlib.axes.Axes, rulers: Sequence[Mapping[str, Any]]
) -> None:
  """Draws how many months of each ruler have an event."""
  with_event = [row["with_event"] for row in rulers]
  empty = [row["empty"] for row in rulers]
  positions = range(len(rulers))
  axes.bar(positions, with_event, color=_BLUE, label="with an event")
  empty_bars = axes.bar(
    positions, empty, bottom=with_event, color=_ORANGE, label="empty"
  )
  counts = [f"{row['with_event']} / {row['months']}" for row in rulers]
  is_crowded = len(rulers) > _MAX_LEVEL_LABELS
  axes.bar_label(
    empty_bars, counts, padding=2, fontsize=8, rotation=90 if is_crowded else 0
  )
  axes.margins(x=0.02, y=0.25 if is_crowded else 0.1)
  axes.set_ylabel("months (with an event / all)")


def _draw_share(
  axes: matplotlib.axes.Axes, rulers: Sequence[Mapping[str, Any]]
) -> None:
  """Draws the share of each ruler's months that are empty."""
  positions = range(len(rulers))
  bars = axes.bar(
    positions, [row["gap_share"] for row in rulers], color=_ORANGE
  )
  if len(rulers) <= _MAX_LEVEL_LABELS:
    axes.bar_label(bars, fmt="{:.2f}", label_type="center", fontsize=8)
  # Latin letters: matplotlib's own font has no others.
  axes.set_xticks(
    positions, [row["ruler"].rpartition(" ")[2] for row in rulers]
  )
  axes.set_ylim(0, 1)
  axes.set_ylabel("share of empty months")
  axes.set_xlabel("ruler, in order of time")
