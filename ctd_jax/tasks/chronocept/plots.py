"""Plots of predictions: curves, targets, errors and overlaps on one page.

Errors are those of all seeds; everything else is drawn for the first seed.

Axes: M seeds, N samples, T = 3 targets.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.axes
import matplotlib.figure
import numpy as np
from jaxtyping import Float

from ctd_jax.tasks.chronocept import curves, features
from ctd_jax.tasks.chronocept.curves import SkewNormal
from ctd_jax.utils import output
from ctd_jax_datasets.chronocept.sample_records import TARGETS, Sample

TRUTH_COLOUR, PREDICTED_COLOUR = output.COLOURS[0], output.COLOURS[5]
NEUTRAL_COLOUR = "0.6"
# Minutes -> tick label of the time axis.
_TICKS = {
  1: "1 min",
  15: "15 min",
  60: "1 h",
  1440: "1 d",
  10080: "1 wk",
  43200: "30 d",
  525600: "1 y",
}
_MIN_SCALE = 0.1  # that is drawn, in log time
# A good, a typical and a bad prediction are drawn: quantiles of the error.
_ERROR_QUANTILES = (0.1, 0.5, 0.9)


def plot_predictions(
  title: str,
  samples: Sequence[Sample],
  truth: Float[np.ndarray, "N T"],
  predictions: Float[np.ndarray, "M N T"],
  raw: Float[np.ndarray, "N T"],
) -> matplotlib.figure.Figure:
  """Returns the page of plots about the test split.

  Args:
    samples: N samples of the test split.
    raw: predictions of the first seed in raw units.
  """
  figure = output.make_figure(15, 7)
  grid = figure.subplots(2, 4)
  # A regression may predict scales that no curve has.
  clipped = raw.copy()
  clipped[:, 1] = np.maximum(clipped[:, 1], _MIN_SCALE)
  annotated = features.extract_targets(samples)
  errors = np.mean((truth - predictions[0]) ** 2, axis=1)
  # Best prediction first.
  order = np.argsort(errors, kind="stable")
  for axes, quantile in zip(grid[0], _ERROR_QUANTILES, strict=False):
    row = order[round(quantile * (len(order) - 1))]
    panel_title = f"{samples[row].sample_id}: error above {quantile:.0%}"
    _draw_curves(axes, annotated[row], clipped[row], panel_title)
  grid[0, 0].legend(frameon=False, fontsize=8)
  _draw_errors(grid[0, 3], truth, predictions)
  _draw_targets(grid[1, :3], annotated, raw)
  grid[1, 3].set_visible(False)
  for axes in grid.flat:
    axes.spines[["top", "right"]].set_visible(False)
  figure.suptitle(title)
  return figure


def _draw_curves(
  axes: matplotlib.axes.Axes,
  annotated: np.ndarray,
  predicted: np.ndarray,
  title: str,
) -> None:
  """Draws the annotated and the predicted validity [T] over time."""
  max_log_time = float(curves.to_log_time(max(_TICKS)))
  x = np.linspace(0, max_log_time, 400)
  for targets, colour, label in (
    (annotated, TRUTH_COLOUR, "annotated"),
    (predicted, PREDICTED_COLOUR, "predicted"),
  ):
    y = curves.validity(SkewNormal(*targets), x)
    axes.plot(x, y, color=colour, label=label)
  axes.set_xticks(
    [float(curves.to_log_time(minutes)) for minutes in _TICKS],
    _TICKS.values(),
    rotation=45,
    ha="right",
    fontsize=8,
  )
  axes.set_ylim(0, 1.05)
  axes.set_xlabel("time since publication")
  axes.set_ylabel("validity")
  axes.set_title(title, fontsize=9)


def _draw_targets(
  panels: np.ndarray, truth: np.ndarray, predicted: np.ndarray
) -> None:
  """Draws predicted against annotated values, a panel for each target."""
  for column, (axes, target) in enumerate(zip(panels, TARGETS, strict=True)):
    low = truth[:, column].min()
    high = truth[:, column].max()
    axes.plot(
      [low, high], [low, high], color=NEUTRAL_COLOUR, lw=1, label="equal"
    )
    axes.scatter(
      truth[:, column],
      predicted[:, column],
      s=9,
      color=TRUTH_COLOUR,
      linewidths=0,
    )
    axes.set_xlabel(f"annotated {target}")
    axes.set_ylabel(f"predicted {target}")
  panels[0].legend(frameon=False, fontsize=8)


def _draw_errors(
  axes: matplotlib.axes.Axes, truth: np.ndarray, predictions: np.ndarray
) -> None:
  """Draws the MSE of each target beside that of the mean, seeds as dots."""
  positions = np.arange(len(TARGETS))
  # [M, N, T] -> [M, T]
  seed_mses = np.mean((truth - predictions) ** 2, axis=1)
  axes.bar(
    positions - 0.2,
    np.mean(truth**2, axis=0),  # the z-score of the mean is 0
    0.4,
    color=NEUTRAL_COLOUR,
    label="mean of targets",
  )
  axes.bar(
    positions + 0.2,
    seed_mses.mean(0),
    0.4,
    color=PREDICTED_COLOUR,
    label="predicted",
  )
  for values in seed_mses if len(seed_mses) > 1 else ():
    axes.plot(positions + 0.2, values, ".", color="black", ms=4)
  axes.set_xticks(positions, TARGETS)
  axes.set_ylabel("MSE of z-scores (dots: seeds)")
  axes.set_ylim(top=1.2 * axes.get_ylim()[1])  # room for the legend
  axes.legend(frameon=False, fontsize=8)
