"""A page of plots of a baseline: curves, targets, errors.

Called by `experiment`, which says what was predicted; the first seed is drawn,
and `calibration_plot` has pictures of its own.

Axes: M seeds, N samples, T = 3 targets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from ctd_jax.evaluation.result_tables import COLOURS
from ctd_jax.tasks.chronocept import (
  curve_measures,
  features,
  skew_normal,
  time_axis,
)
from ctd_jax.tasks.chronocept.skew_normal import SkewNormal
from ctd_jax.utils import files
from ctd_jax_datasets.chronocept.samples import TARGETS, Sample

TRUTH, PREDICTED, NEUTRAL = COLOURS[0], COLOURS[5], "0.6"
# Minutes -> label of the axis of time.
_TICKS = {
  1: "1 min",
  15: "15 min",
  60: "1 h",
  1440: "1 d",
  10080: "1 wk",
  43200: "30 d",
  525600: "1 y",
}
_SHOWN = (0.1, 0.5, 0.9)  # quantiles of the error whose curves are drawn


def write(
  path: str | os.PathLike,
  title: str,
  samples: Sequence[Sample],
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  raw: np.ndarray,
) -> None:
  """Writes the page as PNG.

  Args:
    path: of the picture.
    title: says system, data set and protocol.
    samples: of the test split, N.
    truth: "validation" and "test" -> z-scores, [N, T].
    predictions: likewise, of each seed, [M, N, T].
    raw: predictions of the first seed for the test split, [N, T].
  """
  figure = matplotlib.figure.Figure(figsize=(15, 7), layout="constrained")
  grid = figure.subplots(2, 4)
  curves, _ = curve_measures.clip_scale(raw)
  annotated = features.targets(samples)
  errors = np.mean((truth["test"] - predictions["test"][0]) ** 2, axis=1)
  order = np.argsort(errors, kind="stable")
  for axes, quantile in zip(grid[0], _SHOWN, strict=False):
    row = order[round(quantile * (len(order) - 1))]
    name = f"{samples[row].sample_id}: error above {quantile:.0%}"
    _curves(axes, annotated[row], curves[row], name)
  grid[0, 0].legend(frameon=False, fontsize=8)
  _errors(grid[0, 3], truth["test"], predictions["test"])
  _targets(grid[1, :3], annotated, raw)
  _overlaps(grid[1, 3], annotated, curves)
  for axes in grid.flat:
    axes.spines[["top", "right"]].set_visible(False)
  figure.suptitle(title)
  files.write_figure(path, figure)


def _curves(
  axes, annotated: np.ndarray, predicted: np.ndarray, title: str
) -> None:
  """Draws the annotated and the predicted validity [T] over time."""
  longest = float(time_axis.to_log(max(_TICKS)))
  x = np.linspace(0, longest, 400)
  for targets, colour, label in (
    (annotated, TRUTH, "annotated"),
    (predicted, PREDICTED, "predicted"),
  ):
    y = skew_normal.validity(SkewNormal(*targets), x)
    axes.plot(x, y, color=colour, label=label)
  axes.set_xticks(
    [float(time_axis.to_log(minutes)) for minutes in _TICKS],
    _TICKS.values(),
    rotation=45,
    ha="right",
    fontsize=8,
  )
  axes.set_ylim(0, 1.05)
  axes.set_xlabel("time since publication")
  axes.set_ylabel("validity")
  axes.set_title(title, fontsize=9)


def _targets(row, truth: np.ndarray, predicted: np.ndarray) -> None:
  """Draws predicted against annotated values of each target."""
  for place, (axes, target) in enumerate(zip(row, TARGETS, strict=True)):
    low = truth[:, place].min()
    high = truth[:, place].max()
    axes.plot([low, high], [low, high], color=NEUTRAL, lw=1, label="equal")
    axes.scatter(
      truth[:, place], predicted[:, place], s=9, color=TRUTH, linewidths=0
    )
    axes.set_xlabel(f"annotated {target}")
    axes.set_ylabel(f"predicted {target}")
  row[0].legend(frameon=False, fontsize=8)


def _errors(axes, truth: np.ndarray, predictions: np.ndarray) -> None:
  """Draws the MSE of each target beside that of the mean, seeds as dots."""
  places = np.arange(len(TARGETS))
  found = np.mean((truth - predictions) ** 2, axis=1)
  axes.bar(
    places - 0.2,
    np.mean(truth**2, axis=0),
    0.4,
    color=NEUTRAL,
    label="mean of targets",
  )
  axes.bar(places + 0.2, found.mean(0), 0.4, color=PREDICTED, label="predicted")
  for values in found if len(found) > 1 else ():
    axes.plot(places + 0.2, values, ".", color="black", ms=4)
  axes.set_xticks(places, TARGETS)
  axes.set_ylabel("MSE of z-scores (dots: seeds)")
  axes.set_ylim(top=1.2 * axes.get_ylim()[1])  # room for the legend
  axes.legend(frameon=False, fontsize=8)


def _overlaps(axes, truth: np.ndarray, curves: np.ndarray) -> None:
  """Draws how much of the annotated curves the predicted ones share."""
  overlap = curve_measures.curve_measures(truth, curves)["overlap"]
  axes.hist(overlap, np.linspace(0, 1, 11), color=TRUTH, edgecolor="white")
  axes.axvline(overlap.mean(), color="black", ls="--", lw=1)
  axes.set_xlabel(f"overlap of curves (mean {overlap.mean():.2f})")
  axes.set_ylabel("test samples")
