"""Plots of accuracies with 95 % intervals, of one system or several.

Axes: P points of a series.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ctd_jax.evaluation.significance import Proportion
from ctd_jax.tasks.ctm import report
from ctd_jax.utils import plotting
from ctd_jax_datasets.ctm.generation.quotas import BUCKETS
from ctd_jax_datasets.ctm.vocabulary import TASKS

if TYPE_CHECKING:
  import matplotlib.axes
  import matplotlib.figure

_GROUP_WIDTH = 0.8  # of all bars at one tick; the ticks are 1 apart
_POINT_OFFSET = 0.06  # between systems, so that their intervals stay apart
_MAX_LEGEND_COLUMNS = 4


def write_plots(
  folder: pathlib.Path,
  graded_by_system: Mapping[str, report.GradedQuestions],
) -> None:
  """Writes the three plots to which the report refers.

  Args:
    folder: folder of the report.
    graded_by_system: name -> questions with verdicts.
  """
  accuracies = {
    name: report.compute_accuracies(graded)
    for name, graded in graded_by_system.items()
  }
  names = list(graded_by_system)
  title_prefix = f"{names[0]}: " if len(names) == 1 else ""
  by_type, by_relations, by_distance = (
    folder / name for name in report.PLOT_TITLES
  )
  plot_bars(
    accuracies,
    (*TASKS, report.ALL_FAMILY),
    "type (n = questions)",
    f"{title_prefix}accuracy by type",
    by_type,
  )
  plot_bars(
    accuracies,
    BUCKETS,
    "relations needed (n = questions)",
    f"{title_prefix}accuracy by number of relations",
    by_relations,
  )
  plot_curve(
    {
      name: report.compute_distance_accuracies(graded, "widest")
      for name, graded in graded_by_system.items()
    },
    "periods between the relations widest apart (n = questions)",
    f"{title_prefix}accuracy by distance on the timeline",
    by_distance,
  )


def plot_bars(
  systems: Mapping[str, Mapping[str, Proportion]],
  families: Iterable[str],
  label: str,
  title: str,
  path: pathlib.Path,
) -> None:
  """Writes a PNG of accuracies with intervals, one colour for each system.

  Args:
    systems: name -> family -> accuracy.
    families: ticks of the horizontal axis; those without questions are left
      out.
    label: label of that axis.
    title: title of the figure.
    path: path of the PNG.
  """
  ticks = [
    f for f in families if any(f in shares for shares in systems.values())
  ]
  figure = plotting.make_figure(8, 4.2)
  axes = figure.add_subplot()
  width = _GROUP_WIDTH / len(systems)
  for index, (name, shares_by_family) in enumerate(systems.items()):
    # Bars of one tick stand side by side, centred on it.
    offset = (index - (len(systems) - 1) / 2) * width
    positions = [
      x + offset for x, f in enumerate(ticks) if f in shares_by_family
    ]
    shares = [shares_by_family[f] for f in ticks if f in shares_by_family]
    axes.bar(
      positions,
      [100 * share.ratio for share in shares],
      width,
      yerr=_error_bars(shares),
      label=name,
      color=plotting.colour_at(index),
      error_kw={"lw": 1, "capsize": 2},
    )
  first_shares = next(iter(systems.values()))
  axes.set_xticks(
    range(len(ticks)), [_format_tick(f, first_shares) for f in ticks]
  )
  _label_axes(figure, axes, label, title, len(systems))
  plotting.write_figure(path, figure)


def plot_curve(
  systems: Mapping[str, Mapping[int, Proportion]],
  label: str,
  title: str,
  path: pathlib.Path,
) -> None:
  """Writes a PNG of accuracy against a number, with intervals.

  Args:
    systems: name -> number -> accuracy.
    label: label of the horizontal axis.
    title: title of the figure.
    path: path of the PNG.
  """
  figure = plotting.make_figure(7, 4.2)
  axes = figure.add_subplot()
  for index, (name, accuracies) in enumerate(systems.items()):
    offset = _POINT_OFFSET * (index - (len(systems) - 1) / 2)
    axes.errorbar(
      [x + offset for x in accuracies],
      [100 * share.ratio for share in accuracies.values()],
      yerr=_error_bars(list(accuracies.values())),
      label=name,
      color=plotting.colour_at(index),
      marker="o",
      capsize=2,
      lw=1.2,
      ms=4,
    )
  x_values = sorted({x for accuracies in systems.values() for x in accuracies})
  first_accuracies = next(iter(systems.values()))
  axes.set_xticks(
    x_values, [_format_tick(x, first_accuracies) for x in x_values]
  )
  _label_axes(figure, axes, label, title, len(systems))
  plotting.write_figure(path, figure)


def _format_tick(
  key: str | int, shares: Mapping[str, Proportion] | Mapping[int, Proportion]
) -> str:
  return f"{key}\nn={shares[key].num_trials}" if key in shares else f"{key}"


def _error_bars(shares: Sequence[Proportion]) -> Float[np.ndarray, "2 P"]:
  """Returns how far the intervals reach below and above, in percent."""
  # [P, 2] -> [2, P]: all low ends, all high ends. No share makes [2, 0].
  bounds = np.array([share.interval for share in shares]).reshape(-1, 2).T
  values = np.array([share.ratio for share in shares])
  reach = np.stack([values - bounds[0], bounds[1] - values])
  # Rounding can put the end of an interval past a ratio of 0 or 1.
  return 100 * np.clip(reach, 0, None)


def _label_axes(
  figure: matplotlib.figure.Figure,
  axes: matplotlib.axes.Axes,
  label: str,
  title: str,
  num_systems: int,
) -> None:
  axes.set_xlabel(label)
  axes.set_ylabel("accuracy in %, 95 % interval")
  axes.set_ylim(0, 105)
  axes.set_yticks(range(0, 101, 20))
  axes.set_title(title)
  plotting.style_frame(axes)
  if num_systems > 1:
    figure.legend(
      loc="outside lower center",
      ncols=min(num_systems, _MAX_LEGEND_COLUMNS),
      frameon=False,
    )
