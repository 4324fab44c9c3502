"""Plots of what run files are worth, as PNG.

Labels are in Latin script, which every font has. Called by
`evaluation.summary` and `evaluation.page`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctd_jax.dating import calibration
from ctd_jax.evaluation import protocol
from ctd_jax.evaluation.result_tables import COLOURS
from ctd_jax.utils import files

_WIDTH = 0.8  # of the bars of one group together
_HATCHES = ("", "////")  # an event, a placeholder
CELL_LABELS = {
  "event_point": "point, event",
  "gap": "point, placeholder",
  "event_window": "window, event",
  "gap_window": "window, placeholder",
}


def plot_hit_by_group(
  values: Mapping[str, Mapping[str, float]],
  places: Mapping[str, int],
  labels: Sequence[str],
  path: str | os.PathLike,
  title: str,
  group: str,
  metric: str = "hit@1",
) -> None:
  """Writes a PNG of a measure by group of queries, a colour for each system.

  Args:
    values: system -> query id -> value.
    places: query id -> its group, 1 = the first.
    labels: of all groups, e.g. `report.reign_labels`.
    path: of the PNG.
    title: says data set, split and mode.
    group: what a group is, for the axis.
    metric: label of the vertical axis.

  Raises:
    ValueError: if there is no system or no query.
  """
  counts = _grouped(dict.fromkeys(next(iter(values.values()), ()), 1), places)
  if not counts:
    raise ValueError("nothing to plot: no system or no query")
  shown = sorted(counts)
  columns = np.arange(len(shown))
  width = _WIDTH / len(values)
  figure = matplotlib.figure.Figure(
    figsize=(max(6.0, 1.0 + 0.85 * len(shown)), 4.2), layout="constrained"
  )
  axes = figure.add_subplot()
  for number, (system, by_query) in enumerate(values.items()):
    groups = _grouped(by_query, places)
    axes.bar(
      columns + (number - (len(values) - 1) / 2) * width,
      [np.mean(groups[place]) if place in groups else 0 for place in shown],
      width,
      label=system,
      color=COLOURS[number % len(COLOURS)],
    )
  axes.set_xticks(
    columns, [f"{labels[place - 1]}\nn={len(counts[place])}" for place in shown]
  )
  axes.set_xlabel(f"{group} (n = queries)")
  axes.set_ylabel(f"mean {metric}")
  _dress(axes, title)
  columns_of_legend = min(max(3, len(shown) // 2), len(values))
  figure.legend(
    loc="outside lower center", ncols=columns_of_legend, frameon=False
  )
  files.write_figure(path, figure)


def plot_first_of_kind(
  tables: Sequence[protocol.PerQuery], path: str | os.PathLike, title: str
) -> None:
  """Writes a PNG of hit@1 in each cell, divided by what was hit.

  Args:
    tables: of the systems, in one split and mode.
    path: of the PNG.
    title: says data set, split and mode.
  """
  cells = [c for c in protocol.CELLS if tables[0].of_family("hit@1", c)]
  columns = np.arange(len(cells))
  width = _WIDTH / len(tables)
  figure = matplotlib.figure.Figure(figsize=(11.2, 4.2), layout="constrained")
  axes = figure.add_subplot()
  for number, table in enumerate(tables):
    at = columns + (number - (len(tables) - 1) / 2) * width
    bottom = np.zeros(len(cells))
    colour = COLOURS[number % len(COLOURS)]
    for measure, hatch in zip(protocol.FIRST_OF_KIND, _HATCHES, strict=True):
      height = np.array([table.mean(measure, cell) for cell in cells])
      axes.bar(
        at,
        height,
        width,
        bottom,
        label=table.system if not hatch else None,
        color="white" if hatch else colour,
        edgecolor=colour,
        hatch=hatch,
        linewidth=0.8,
      )
      bottom += height
  ticks = [
    f"{CELL_LABELS[cell]}\nn={len(tables[0].of_family('hit@1', cell))}"
    for cell in cells
  ]
  axes.set_xticks(columns, ticks)
  axes.set_xlabel("what answers the query (n = queries)")
  axes.set_ylabel("hit@1: event (full), placeholder (hatched)")
  _dress(axes, title)
  figure.legend(
    loc="outside lower center", ncols=min(4, len(tables)), frameon=False
  )
  files.write_figure(path, figure)


def plot_reliability(
  judged: Mapping[str, tuple[np.ndarray, np.ndarray]],
  path: str | os.PathLike,
  title: str,
) -> None:
  """Writes a PNG of how right dates are against how sure, and of how many.

  Args:
    judged: system -> (chance given to the likeliest month, whether it is the
      true one), each [n]; systems that agree in both share a line.
    path: of the PNG.
    title: says data set and split.
  """
  figure = matplotlib.figure.Figure(figsize=(11.2, 4.6), layout="constrained")
  left, right = figure.subplots(1, 2, sharex=True)
  left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
  lines: dict[tuple[bytes, ...], list[str]] = {}
  for system, arrays in judged.items():
    lines.setdefault(tuple(a.tobytes() for a in arrays), []).append(system)
  places = {system: number for number, system in enumerate(judged)}
  for systems in lines.values():
    sure, hit = judged[systems[0]]
    bins = calibration.reliability(sure, hit)
    confidence, share, counts = map(np.array, zip(*bins, strict=True))
    spread = 1.96 * np.sqrt(share * (1 - share) / counts)
    colour = COLOURS[places[systems[0]] % len(COLOURS)]
    left.errorbar(
      *(confidence, share, spread),
      marker="o",
      markersize=5,
      capsize=2,
      linewidth=1.2,
      color=colour,
      label=", ".join(systems),
    )
    right.hist(sure, np.linspace(0, 1, 11), histtype="step", color=colour)
  for axes in (left, right):
    axes.set_xlabel("chance given to the likeliest month")
    _frame(axes)
  left.set(ylabel="share of them that are right", ylim=(-0.03, 1.05))
  right.set(ylabel="events", ylim=(0, None), xlim=(0, 1))
  figure.suptitle(title)
  figure.legend(
    loc="outside lower center", ncols=min(3, len(lines)), frameon=False
  )
  files.write_figure(path, figure)


def _dress(axes, title: str) -> None:
  highest = axes.get_ylim()[1]
  axes.set_ylim(0, 1 if highest > 0.5 else highest)
  axes.margins(x=0.02)
  axes.set_title(title)
  _frame(axes)


def _frame(axes) -> None:
  axes.yaxis.grid(True, color="0.85")
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)


def _grouped(
  values: Mapping[str, float], places: Mapping[str, int]
) -> dict[int, list[float]]:
  groups: dict[int, list[float]] = {}
  for query_id, value in values.items():
    groups.setdefault(places[query_id], []).append(value)
  return groups
