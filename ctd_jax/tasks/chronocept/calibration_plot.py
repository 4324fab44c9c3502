"""Plots of calibration: interval coverage, PIT histograms, reliability.

A coverage of .9 can be right on average and wrong for every target and level.

Axes: D draws, N samples, T = 3 targets.
"""

from __future__ import annotations

import matplotlib.axes
import matplotlib.figure
import numpy as np
from jaxtyping import Float

from ctd_jax.tasks.chronocept import calibration
from ctd_jax.utils import plotting
from ctd_jax_datasets.chronocept.samples import TARGETS

_MAX_BINS = 10
_LEVELS = np.linspace(0.05, 0.95, 19)  # at which coverage is drawn


def plot_draws(
  truth_NxT: Float[np.ndarray, "N T"],
  draws_DxNxT: Float[np.ndarray, "D N T"],
  title: str,
) -> matplotlib.figure.Figure:
  """Returns coverage of intervals and PIT histograms of each target.

  Args:
    truth_NxT: annotated targets.
    draws_DxNxT: predictive draws in the same units.
    title: system, data set and split.
  """
  figure = plotting.make_figure(12, 3.6)
  figure.suptitle(title)
  # Coverage of all targets in one panel, a PIT histogram for each.
  coverage, *histograms = figure.subplots(1, 1 + len(TARGETS))
  _draw_coverage(coverage, truth_NxT, draws_DxNxT)
  pit = calibration.probability_integral_transform(truth_NxT, draws_DxNxT)
  p_values = calibration.compute_pit_p_values(pit)
  # D draws give D + 1 ranks; more bins than ranks would show gaps.
  num_bins = min(_MAX_BINS, len(draws_DxNxT) + 1)
  for column, (axes, target) in enumerate(
    zip(histograms, TARGETS, strict=True)
  ):
    axes.hist(
      pit[:, column],
      bins=num_bins,
      range=(0, 1),
      density=True,
      color=plotting.COLOURS[column],
      edgecolor="white",
    )
    # The density of calibrated ranks.
    axes.axhline(1, color="black", ls="--", lw=1)
    axes.set_title(f"{target}, KS p = {p_values[column]:.2g}", fontsize=10)
    axes.set_xlabel("rank of the truth\namong the draws (PIT)")
    axes.spines[["top", "right"]].set_visible(False)
  histograms[0].set_ylabel("density")
  return figure


def _draw_coverage(
  axes: matplotlib.axes.Axes, truth_NxT: np.ndarray, draws_DxNxT: np.ndarray
) -> None:
  qualities = calibration.compute_interval_quality(
    truth_NxT, draws_DxNxT, _LEVELS
  )
  for column, target in enumerate(TARGETS):
    axes.plot(
      _LEVELS,
      [quality.coverage[column] for quality in qualities],
      color=plotting.COLOURS[column],
      marker="o",
      ms=3,
      label=target,
    )
  _finish_unit_square(axes)
  axes.set_xlabel("level of the central interval")
  axes.set_ylabel("share of truths inside")
  axes.legend(frameon=False, fontsize=8)


def plot_reliability(
  reliability_by_horizon: dict[str, calibration.Reliability], title: str
) -> matplotlib.figure.Figure:
  """Returns annotated against predicted validity at each horizon.

  Args:
    reliability_by_horizon: name of a horizon -> its reliability.
    title: system, data set and split.
  """
  figure = plotting.make_figure(4.8, 4.6)
  axes = figure.subplots()
  axes.set_title(title, fontsize=10)
  for colour, (name, reliability) in zip(
    plotting.COLOURS, reliability_by_horizon.items(), strict=False
  ):
    axes.plot(
      reliability.predicted,
      reliability.observed,
      color=colour,
      marker="o",
      ms=4,
      label=f"{name}, off by {reliability.error:.3f}",
    )
  _finish_unit_square(axes)
  axes.set_xlabel("predicted validity, mean of a bin")
  axes.set_ylabel("annotated validity, mean of the same samples")
  axes.legend(frameon=False, fontsize=8)
  return figure


def _finish_unit_square(axes: matplotlib.axes.Axes) -> None:
  """Adds the diagonal and fixes both axes to [0, 1]."""
  axes.plot([0, 1], [0, 1], color="black", ls="--", lw=1)
  axes.set_xlim(0, 1)
  axes.set_ylim(0, 1)
  axes.set_aspect("equal")
  axes.spines[["top", "right"]].set_visible(False)
