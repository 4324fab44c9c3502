"""Plots of evaluation results as PNG: hits by group and cell, reliability.

Labels are in Latin script, which every font has. Bars of one system have one
colour in every plot of a page.

Axes: N records.
"""

import os
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float

from ctd_jax.evaluation import calibration, protocol
from ctd_jax.utils import output

_GROUP_WIDTH = 0.8  # of the bars of one group together; 0.2 parts groups
_PAGE_SIZE = 11.2, 4.2  # inches; fills the width of the report page
_KIND_HATCHES = ("", "////")  # an event, a placeholder
# Panels of the training curves: title -> (name, label) of each line, as in
# metrics.jsonl and speed.jsonl.
_TRAINING_PANELS = {
  "loss": (("loss", "all"), ("retrieval", "retrieval"), ("calendar", "dates")),
  "validation, hit@1": (
    ("validation/hit@1", "all"),
    ("validation/event_hit@1", "an event"),
    ("validation/placeholder_hit@1", "a placeholder"),
  ),
  "learning rate": (("learning_rate", ""),),
  "norm of the gradient": (("gradient_norm", ""),),
  "steps a second": (("speed/steps_per_second", ""),),
  "tokens a second": (("speed/tokens_per_second", ""),),
}
CELL_LABELS = {
  "event_point": "point, event",
  "gap": "point, placeholder",
  "event_window": "window, event",
  "gap_window": "window, placeholder",
}


def plot_hit_by_group(
  values: Mapping[str, Mapping[str, float]],
  group_by_query: Mapping[str, int],
  labels: Sequence[str],
  path: str | os.PathLike,
  title: str,
  group_name: str,
  metric: str = "hit@1",
) -> None:
  """Writes a PNG of a measure by group of queries, a colour for each system.

  Args:
    values: system -> query id -> value.
    group_by_query: query id -> its group, 1 = the first.
    labels: labels of all groups, e.g. `reigns.make_reign_labels`.

  Raises:
    ValueError: if there is no system or no query.
  """
  counts = _group_values(
    dict.fromkeys(next(iter(values.values()), ()), 1.0), group_by_query
  )
  if not counts:
    raise ValueError("nothing to plot: no system or no query")
  group_indices = sorted(counts)
  columns = np.arange(len(group_indices))
  width = _GROUP_WIDTH / len(values)
  # 0.85 inches fit a label such as "Zhuang" over "n=1234". Narrower figures
  # would have larger letters on the page than the others.
  figure = output.make_figure(
    max(_PAGE_SIZE[0], 1.0 + 0.85 * len(group_indices)), _PAGE_SIZE[1]
  )
  axes = figure.add_subplot()
  for number, (system, by_query) in enumerate(values.items()):
    values_by_group = _group_values(by_query, group_by_query)
    axes.bar(
      columns + (number - (len(values) - 1) / 2) * width,
      [
        np.mean(values_by_group[group_index])
        if group_index in values_by_group
        else 0
        for group_index in group_indices
      ],
      width,
      label=system,
      color=output.colour_at(number),
    )
  axes.set_xticks(
    columns,
    [
      f"{labels[group_index - 1]}\nn={len(counts[group_index])}"
      for group_index in group_indices
    ],
  )
  axes.set_xlabel(f"{group_name} (n = queries)")
  axes.set_ylabel(f"mean {metric}")
  _style_bar_axes(axes, title)
  columns_of_legend = min(max(3, len(group_indices) // 2), len(values))
  figure.legend(
    loc="outside lower center", ncols=columns_of_legend, frameon=False
  )
  output.write_figure(path, figure)


def plot_first_record_kinds(
  tables: Sequence[protocol.PerQueryScores], path: str | os.PathLike, title: str
) -> None:
  """Writes a PNG of hit@1 in each cell, divided by what was hit."""
  cells = [c for c in protocol.CELLS if tables[0].values_of_family("hit@1", c)]
  columns = np.arange(len(cells))
  width = _GROUP_WIDTH / len(tables)
  figure = output.make_figure(*_PAGE_SIZE)
  axes = figure.add_subplot()
  for number, table in enumerate(tables):
    bar_positions = columns + (number - (len(tables) - 1) / 2) * width
    bottom = np.zeros(len(cells))
    colour = output.colour_at(number)
    for measure, hatch in zip(
      protocol.FIRST_KIND_BY_MEASURE, _KIND_HATCHES, strict=True
    ):
      height = np.array([table.mean_of_family(measure, cell) for cell in cells])
      axes.bar(
        bar_positions,
        height,
        width,
        bottom,
        label=table.system if not hatch else None,
        color="white" if hatch else colour,
        edgecolor=colour,
        hatch=hatch,
        linewidth=0.8,
      )
      bottom += height  # placeholders stand on the events
  ticks = [
    f"{CELL_LABELS[cell]}\nn={len(tables[0].values_of_family('hit@1', cell))}"
    for cell in cells
  ]
  axes.set_xticks(columns, ticks)
  axes.set_xlabel("what answers the query (n = queries)")
  axes.set_ylabel("hit@1: event (full), placeholder (hatched)")
  _style_bar_axes(axes, title)
  figure.legend(
    loc="outside lower center", ncols=min(4, len(tables)), frameon=False
  )
  output.write_figure(path, figure)


def plot_reliability(
  confidence_by_system: Mapping[
    str, tuple[Float[np.ndarray, " N"], Bool[np.ndarray, " N"]]
  ],
  path: str | os.PathLike,
  title: str,
) -> None:
  """Writes a PNG: accuracy against confidence of dates, and a histogram.

  Args:
    confidence_by_system: system -> (probability of the likeliest month,
      whether it is the true one); systems that agree in both share a line.
  """
  figure = output.make_figure(_PAGE_SIZE[0], 4.6)
  reliability_axes, histogram_axes = figure.subplots(1, 2, sharex=True)
  reliability_axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
  # Variants of one model may give the same dates: one line, several names.
  systems_by_values: dict[tuple[bytes, ...], list[str]] = {}
  for system, arrays in confidence_by_system.items():
    systems_by_values.setdefault(
      tuple(array.tobytes() for array in arrays), []
    ).append(system)
  index_by_system = {
    system: number for number, system in enumerate(confidence_by_system)
  }
  for systems in systems_by_values.values():
    confidences, is_right = confidence_by_system[systems[0]]
    bins = calibration.compute_reliability_bins(confidences, is_right)
    confidence, accuracy, counts = map(np.array, zip(*bins, strict=True))
    # Normal approximation of a 95 % interval of a proportion.
    error_bar = 1.96 * np.sqrt(accuracy * (1 - accuracy) / counts)
    colour = output.colour_at(index_by_system[systems[0]])
    reliability_axes.errorbar(
      *(confidence, accuracy, error_bar),
      marker="o",
      markersize=5,
      capsize=2,
      linewidth=1.2,
      color=colour,
      label=", ".join(systems),
    )
    histogram_axes.hist(
      confidences, np.linspace(0, 1, 11), histtype="step", color=colour
    )
  for axes in (reliability_axes, histogram_axes):
    axes.set_xlabel("chance given to the likeliest month")
    output.style_frame(axes)
  reliability_axes.set(
    ylabel="share of them that are right", ylim=(-0.03, 1.05)
  )
  histogram_axes.set(ylabel="events", ylim=(0, None), xlim=(0, 1))
  figure.suptitle(title)
  figure.legend(
    loc="outside lower center",
    ncols=min(3, len(systems_by_values)),
    frameon=False,
  )
  output.write_figure(path, figure)


def plot_training_curves(
  curves: Mapping[str, tuple[Sequence[int], Sequence[float]]],
  path: str | os.PathLike,
  title: str,
) -> None:
  """Writes a PNG of what was measured while a run was trained.

  Args:
    curves: name -> (steps, values); those of `_TRAINING_PANELS` are drawn, a
      panel without any is left out.

  Raises:
    ValueError: if there is nothing to draw.
  """
  panels = {
    panel: [(curves[name], label) for name, label in lines if name in curves]
    for panel, lines in _TRAINING_PANELS.items()
  }
  panels = {panel: lines for panel, lines in panels.items() if lines}
  if not panels:
    raise ValueError("nothing to plot: no curve of a training run")
  columns = min(3, len(panels))
  rows = -(-len(panels) // columns)
  figure = output.make_figure(_PAGE_SIZE[0], 0.5 + 2.5 * rows)
  grid = figure.subplots(rows, columns, squeeze=False, sharex=True).flat
  last_step = max(max(steps) for steps, _ in curves.values())
  for axes, (panel, lines) in zip(grid, panels.items(), strict=False):
    for number, ((steps, values), label) in enumerate(lines):
      axes.plot(
        steps,
        values,
        # A few points show where they were measured.
        marker="o" if len(steps) <= 20 else None,
        markersize=3.5,
        linewidth=1.2,
        color=output.colour_at(number),
        label=label,
        clip_on=False,  # a point of the last step is whole
      )
    axes.set_title(panel, fontsize="medium")
    lowest = min(min(values) for (_, values), _ in lines)
    axes.set(ylim=(min(0, lowest), None), xlim=(0, max(1, last_step)))
    axes.tick_params(labelbottom=True)  # also above an empty place
    output.style_frame(axes)
    if len(lines) > 1:
      axes.legend(frameon=False, fontsize="small")
  for axes in list(grid)[len(panels) :]:
    axes.set_visible(False)
  figure.supxlabel("step", fontsize="medium")
  figure.suptitle(title)
  output.write_figure(path, figure)


def _style_bar_axes(axes, title: str) -> None:
  highest = axes.get_ylim()[1]
  # Low bars are drawn large: the axis ends at 1 only if a bar comes near it.
  axes.set_ylim(0, 1 if highest > 0.5 else highest)
  axes.margins(x=0.02)
  axes.set_title(title)
  output.style_frame(axes)


def _group_values(
  values: Mapping[str, float], group_by_query: Mapping[str, int]
) -> dict[int, list[float]]:
  groups: dict[int, list[float]] = {}
  for query_id, value in values.items():
    groups.setdefault(group_by_query[query_id], []).append(value)
  return groups
