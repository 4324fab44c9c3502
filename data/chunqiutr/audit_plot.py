"""How much of each ruler's time the annals cover, as a picture.

Why: half of the months have no event, unevenly over the rulers; a system that
knows which months are empty wins where they are many. Called by `build`.

Source: ChunQiuTR Figure 8.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.figure

from ctd_jax.evaluation import report


def plot_coverage(
  rows: Sequence[Mapping[str, Any]],
  title: str,
  path: str | os.PathLike,
  paper_gap: float | None = None,
) -> None:
  """Writes a PNG: months with and without an event, and the empty share.

  Args:
    rows: `reigns` of `summary.summarise`; the last is the total.
    title: says data set and version.
    path: of the PNG.
    paper_gap: share of empty months in the paper, a line across; None for a
      data set that the paper does not describe.
  """
  *rulers, total = rows
  # Latin letters: matplotlib's own font has no others.
  labels = [row["ruler"].rpartition(" ")[2] for row in rulers]
  figure = matplotlib.figure.Figure(figsize=(8.5, 5.2), layout="constrained")
  months, share = figure.subplots(2, sharex=True, height_ratios=(3, 2))
  full, empty, *_, other, line = report.COLOURS
  with_event = [row["with_event"] for row in rulers]
  without = [row["empty"] for row in rulers]
  months.bar(labels, with_event, color=full, label="with an event")
  tops = months.bar(
    labels, without, bottom=with_event, color=empty, label="empty"
  )
  counts = [f"{row['with_event']} / {row['months']}" for row in rulers]
  months.bar_label(tops, counts, padding=1, fontsize=8)
  months.margins(y=0.1)
  months.set_ylabel("months (with an event / all)")
  months.set_title(title)
  bars = share.bar(labels, [row["gap_share"] for row in rulers], color=empty)
  share.bar_label(bars, fmt="{:.2f}", label_type="center", fontsize=8)
  share.axhline(
    total["gap_share"],
    color=line,
    linewidth=1,
    label=f"all rulers, {total['gap_share']:.3f}",
  )
  if paper_gap is not None:
    share.axhline(
      paper_gap,
      color=other,
      linewidth=1.5,
      linestyle="--",
      label=f"paper, {paper_gap:.3f}",
    )
  share.set_ylim(0, 1)
  share.set_ylabel("share of empty months")
  share.set_xlabel("ruler, in order of time")
  figure.legend(loc="outside lower center", ncols=4, frameon=False)
  for axes in (months, share):
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.grid(True, color="0.85")
    axes.set_axisbelow(True)
  path = pathlib.Path(path)
  with tempfile.TemporaryDirectory(dir=path.parent) as folder:
    temporary = pathlib.Path(folder) / path.name
    figure.savefig(temporary, dpi=150, metadata={"Software": None})
    os.replace(temporary, path)
