"""Measures of predicted curve parameters and their result rows.

The published figures are in z-scores of each split; honest ones are in z-scores
of the train split. The same functions compute both.

The published table has six columns but only three independent measures: R2 is
1 - MSE where each target has variance 1, "NLL" is a function of the residuals'
standard deviation (`paper_nll`), and "CRPS" of a point prediction is its MAE.

A value is the mean over seeds; its interval resamples test samples, the same
ones for all seeds: test splits of 129 and 55 samples leave wide intervals.
`skill` is 1 - MSE / MSE of the mean of train (under the protocol "paper", of
the test split), so its interval is that of a paired comparison.

Axes: *R any leading axes (resamples), M seeds, N samples, T = 3 targets
(location, scale, skewness).

Source: Chronocept, arXiv 2505.07637v1, section on evaluation; definitions as
in the authors' code (github.com/krishgoel/chronocept-baseline-models, fc375d6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.axes
import matplotlib.figure
import ml_collections
import numpy as np
import scipy.stats
from jaxtyping import Float, Int

from ctd_jax.evaluation.results import ResultRow
from ctd_jax.tasks.chronocept import curves, features
from ctd_jax.tasks.chronocept.curves import SkewNormal
from ctd_jax.utils import output
from ctd_jax_datasets.chronocept.sample_records import TARGETS, Sample

ALL_TARGETS = "all"
POINT_MEASURES = ("mse", "mae", "r2", "spearman", "pearson")
PAPER_NLL = "paper_nll"
NUM_RESAMPLES = 1000  # enough for two digits of a 95 % percentile interval
Z_UNITS = "z"
SKILL = "skill"
# (measure, family) -> values of resamples, [R].
MeasureTable = dict[tuple[str, str], np.ndarray]
# Times N: rounding alone moves a constant this far from its own mean.
_CONSTANT_TOLERANCE = 1e-9


def compute_target_measures(
  truth: Float[np.ndarray, "*R N T"],
  predicted: Float[np.ndarray, ...],
) -> dict[str, Float[Any, "*R T"]]:
  """Returns `POINT_MEASURES` -> value of each target.

  Correlations with a constant are 0: a constant orders nothing.

  Args:
    predicted: predictions in the same units, [*R, N, T].

  Raises:
    ValueError: if a prediction is not finite.
  """
  _check_finite(predicted)
  errors = truth - predicted
  mse = np.mean(errors**2, axis=-2)
  variance = truth.var(axis=-2)
  # Rounding gives a resample of one sample repeated a variance above 0.
  varies = variance > _CONSTANT_TOLERANCE**2
  ranks = [scipy.stats.rankdata(x, axis=-2) for x in (truth, predicted)]
  return {
    "mse": mse,
    "mae": np.mean(np.abs(errors), axis=-2),
    # As in scikit-learn, a constant truth scores 1 if it is met exactly, else
    # 0; the inner `where` avoids dividing by its variance.
    "r2": np.where(varies, 1 - mse / np.where(varies, variance, 1), mse == 0),
    "spearman": _correlate(*ranks),
    "pearson": _correlate(truth, predicted),
  }


def split_by_target(
  values: Float[Any, "*R T"],
) -> dict[str, Float[Any, "*R"]]:
  """Returns target family -> its values; "all" is the mean over targets."""
  return {
    ALL_TARGETS: values.mean(axis=-1),
    **{target: values[..., i] for i, target in enumerate(TARGETS)},
  }


def paper_nll(
  truth: Float[np.ndarray, "*R N T"], predicted: Float[np.ndarray, "*R N T"]
) -> Float[Any, "*R"]:
  """Returns the measure that the paper calls NLL.

  One standard deviation is taken from the residuals of all samples and targets
  together; the result is the mean negative log density of the same residuals
  under a normal distribution with that deviation and mean 0. It is not the
  likelihood of a skew-normal and does not measure calibration. Where residuals
  have mean 0 it equals 0.5 ln(2 pi e MSE).
  """
  errors = truth - predicted
  # [*R, N, T] -> [*R, N * T]
  pooled = errors.reshape(*errors.shape[:-2], -1)
  sd = pooled.std(axis=-1)
  return (
    0.5 * np.log(2 * np.pi * sd**2) + 0.5 * np.mean(pooled**2, axis=-1) / sd**2
  )


def _correlate(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  """Returns the linear correlation along axis -2; 0 with a constant."""
  x, y = (v - v.mean(axis=-2, keepdims=True) for v in (x, y))
  scale = np.sqrt((x**2).sum(axis=-2) * (y**2).sum(axis=-2))
  is_constant = scale < _CONSTANT_TOLERANCE * x.shape[-2]
  return np.where(
    is_constant, 0, (x * y).sum(axis=-2) / np.where(is_constant, 1, scale)
  )


def _check_finite(predictions: Float[np.ndarray, "*R N T"]) -> None:
  """Raises ValueError for a value that is not finite, naming the sample."""
  for *_, sample, target in np.argwhere(~np.isfinite(predictions)):
    raise ValueError(
      f"prediction {TARGETS[target]} of sample {sample} is not a finite number"
    )


def name_dataset(name: str) -> str:
  """Returns the name of a data set in rows, where it begins with the task."""
  return name if name.startswith("chronocept/") else f"chronocept/{name}"


def make_result_rows(
  config: ml_collections.ConfigDict,
  truth: Float[np.ndarray, "N T"],
  predictions: Float[np.ndarray, "M N T"],
  **run_metadata: Any,
) -> list[ResultRow]:
  """Returns a row for each measure and family, with 95 % intervals.

  Args:
    config: name, dataset, protocol and seeds are read.
    **run_metadata: command, commit and seconds of the rows.
  """
  # The estimate itself is one more "resample": every sample once.
  all_indices = np.arange(len(truth))[None]
  resample_indices = np.random.default_rng(0).integers(
    len(truth), size=(NUM_RESAMPLES, len(truth))
  )
  values, resampled = (
    compute_measures(truth, predictions, indices)
    for indices in (all_indices, resample_indices)
  )
  rows = []
  for key, (value,) in values.items():
    low, high = np.quantile(resampled[key], [0.025, 0.975])
    metric, family = key
    rows.append(
      ResultRow(
        dataset=name_dataset(config.dataset),
        system=config.name,
        track="text",
        score_mode=Z_UNITS,
        split="test",
        mode=config.protocol,
        family=family,
        metric=metric,
        value=float(value),
        low=float(low),
        high=float(high),
        seeds=tuple(config.seeds),
        **run_metadata,
      )
    )
  return rows


def compute_measures(
  truth: Float[np.ndarray, "N T"],
  predictions: Float[np.ndarray, "M N T"],
  indices: Int[np.ndarray, "R N"],
) -> MeasureTable:
  """Returns every measure of resamples, [R] each, the mean over seeds."""
  # Measures first, then the mean over seeds: not those of a mean prediction.
  tables = [_measure_resamples(truth[indices], z[indices]) for z in predictions]
  return {k: np.mean([t[k] for t in tables], axis=0) for k in tables[0]}


def _measure_resamples(truth: np.ndarray, z: np.ndarray) -> MeasureTable:
  """Returns the measures of one seed on resamples [R, N, T]."""
  table = {
    (name, family): column
    for name, values in compute_target_measures(truth, z).items()
    for family, column in split_by_target(values).items()
  }
  # The z-score of the mean is 0, so the MSE of the mean is E[z^2].
  for family, mse in split_by_target(np.mean(truth**2, axis=1)).items():
    table[SKILL, family] = 1 - table["mse", family] / mse
  table[PAPER_NLL, ALL_TARGETS] = paper_nll(truth, z)
  return table


def format_predictions(
  samples: Sequence[Sample],
  seeds: Sequence[int],
  raw: Float[np.ndarray, "M N T"],
) -> str:
  """Returns the text of predictions.tsv, values in raw units."""
  lines = ["\t".join(["sample_id", "seed", *TARGETS])]
  for seed, values in zip(seeds, raw, strict=True):
    for sample, row in zip(samples, values, strict=True):
      cells = (f"{value:.6g}" for value in row)
      lines.append("\t".join([sample.sample_id, str(seed), *cells]))
  return "\n".join(lines) + "\n"


# Plots. Errors are those of all seeds; everything else is drawn for the first.
# Axes: M seeds, N samples, T = 3 targets.


TRUTH_COLOUR, PREDICTED_COLOUR = output.COLOURS[0], output.COLOURS[5]
NEUTRAL_COLOUR = "0.6"
# Label of the time axis -> minutes.
_TICKS = {
  name: minutes
  for name, minutes in curves.ANCHORS.items()
  if name not in ("30 minutes", "12 hours")  # too near to others
}
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
  clipped[:, 1] = np.maximum(clipped[:, 1], curves.MIN_SCALE)
  annotated = features.extract_targets(samples)
  errors = np.mean((truth - predictions[0]) ** 2, axis=1)
  # Best prediction first.
  order = np.argsort(errors, kind="stable")
  for axes, quantile in zip(grid[0], _ERROR_QUANTILES, strict=False):
    row = order[round(quantile * (len(order) - 1))]
    draw_curves(
      axes,
      {"annotated": annotated[row], "predicted": clipped[row]},
      f"{samples[row].sample_id}: error above {quantile:.0%}",
    )
  grid[0, 0].legend(frameon=False, fontsize=8)
  _draw_errors(grid[0, 3], truth, predictions)
  _draw_targets(grid[1, :3], annotated, raw)
  grid[1, 3].set_visible(False)
  for axes in grid.flat:
    axes.spines[["top", "right"]].set_visible(False)
  figure.suptitle(title)
  return figure


def draw_curves(
  axes: matplotlib.axes.Axes,
  targets_by_label: Mapping[str, Iterable[float]],
  title: str,
) -> None:
  """Draws the validity [T] of each label over time."""
  x = np.linspace(0, float(curves.to_log_time(max(_TICKS.values()))), 400)
  for colour, (label, targets) in zip(
    (TRUTH_COLOUR, PREDICTED_COLOUR), targets_by_label.items(), strict=False
  ):
    axes.plot(
      x, curves.validity(SkewNormal(*targets), x), color=colour, label=label
    )
  axes.set_xticks(
    [float(curves.to_log_time(minutes)) for minutes in _TICKS.values()],
    list(_TICKS),
    rotation=45,
    ha="right",
    fontsize=8,
  )
  axes.set_ylim(0, 1.05)
  axes.set_xlabel("time since publication (log scale)")
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
  """Draws the MSE of each target next to that of the mean, seeds as dots."""
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
