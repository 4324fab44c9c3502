"""Result rows of a baseline: every measure with its bootstrap interval.

Why: a test split of 129 or 55 samples leaves wide intervals, and figures
without them look like an order of systems. A value is the mean over seeds; its
interval resamples the test samples, the same for all seeds. Called by
`experiment`.

Fields of a row (`evaluation.results`): `mode` is the protocol, `family` the
target or "all", `score_mode` the units: "z" (of the protocol's scaler), "raw",
or "curve" for what compares curves over log time; for these a predicted scale
below a least one counts as that. `skill` is the share of the
MSE of train's mean (under `paper`: of the split's own) that is gone; as a
ratio over the same resamples it is the paired comparison with that predictor.

Axes: M seeds, N samples, T = 3 targets, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
import scipy.stats

from ctd_jax.evaluation.results import ResultRow
from ctd_jax.tasks.chronocept import (
  calibration,
  curve_measures,
  measures,
  skew_normal,
  time_axis,
)
from ctd_jax.tasks.chronocept.scaling import TargetScaler
from ctd_jax.tasks.chronocept.skew_normal import SkewNormal
from ctd_jax_datasets.chronocept.samples import TARGETS, Sample

NUM_RESAMPLES = 1000
TRACK = "text"
Z_UNITS, RAW_UNITS, CURVE_UNITS = "z", "raw", "curve"
SKILL = "skill"
MeasureTable = dict[tuple[str, str, str], np.ndarray]  # units, measure, family


def make_result_rows(
  config: ml_collections.ConfigDict,
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  scaler: TargetScaler,
  **run_metadata: Any,
) -> list[ResultRow]:
  """Returns a row for each unit, measure and family, with 95 % intervals.

  Args:
    config: name, dataset, protocol and seeds are read.
    truth: "validation" and "test" -> z-scores, [N, T].
    predictions: likewise, of each seed, [M, N, T].
    scaler: of the test split.
    **about: command, commit, seconds of the rows.
  """
  num_samples = len(truth["test"])
  all_indices = np.arange(num_samples)[None]
  resample_indices = np.random.default_rng(0).integers(
    num_samples, size=(NUM_RESAMPLES, num_samples)
  )
  values, resampled = (
    compute_measures(truth, predictions, scaler, indices)
    for indices in (all_indices, resample_indices)
  )
  rows = []
  for key, (value,) in values.items():
    low, high = np.quantile(resampled[key], [0.025, 0.975])
    units, metric, family = key
    rows.append(
      ResultRow(
        dataset=config.dataset,
        system=config.name,
        track=TRACK,
        score_mode=units,
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
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  scaler: TargetScaler,
  indices: np.ndarray,
) -> MeasureTable:
  """Returns every measure of resamples, [R] each, the mean over seeds.

  Args:
    truth: see `result_rows`.
    predictions: see `result_rows`.
    scaler: of the test split.
    indices: test samples of each resample, int [R, N].
  """
  seed_tables = [
    _point_measures(truth["test"][indices], z[indices], scaler.sd)
    for z in predictions["test"]
  ]
  measure_table = {
    k: np.mean([t[k] for t in seed_tables], axis=0) for k in seed_tables[0]
  }
  sample_measures = _sample_measures(truth, predictions, scaler)
  return measure_table | {
    k: v[indices].mean(axis=1) for k, v in sample_measures.items()
  }


def _point_measures(
  truth: np.ndarray, z: np.ndarray, sd: np.ndarray
) -> MeasureTable:
  """Returns the measures of `measures.compute_point_measures` for many resamples.

  Args:
    truth: z-scores, [R, N, T].
    z: predicted, [R, N, T].
    sd: of the targets, [T], for raw units.
  """
  errors = truth - z
  mse, mae = np.mean(errors**2, axis=1), np.mean(np.abs(errors), axis=1)
  ranks = [scipy.stats.rankdata(x, axis=1) for x in (truth, z)]
  by_target = {
    (Z_UNITS, "mse"): mse,
    (Z_UNITS, "mae"): mae,
    (Z_UNITS, "r2"): 1 - mse / truth.var(axis=1),
    (Z_UNITS, "spearman"): _correlation(*ranks),
    (Z_UNITS, "pearson"): _correlation(truth, z),
    (RAW_UNITS, "mse"): mse * sd**2,
    (RAW_UNITS, "mae"): mae * sd,
  }
  measure_table = {}
  for key, values in by_target.items():
    measure_table |= _split_by_target(key, values)
  # The z-score of the mean is 0.
  for measure_key, mean_baseline_mse in _split_by_target(
    (Z_UNITS, "mse"), np.mean(truth**2, 1)
  ).items():
    measure_table[Z_UNITS, SKILL, measure_key[-1]] = (
      1 - measure_table[measure_key] / mean_baseline_mse
    )
  pooled = errors.reshape(len(errors), -1)
  spread = pooled.std(axis=1)
  measure_table[Z_UNITS, measures.PAPER_NLL, measures.ALL_TARGETS] = (
    0.5 * np.log(2 * np.pi * spread**2)
    + 0.5 * np.mean(pooled**2, axis=1) / spread**2
  )
  return measure_table


def _split_by_target(key: tuple[str, str], values: np.ndarray) -> MeasureTable:
  """Returns columns [R, T] by target, and their mean."""
  columns = zip(TARGETS, values.T, strict=True)
  target_columns = {(*key, target): column for target, column in columns}
  return {(*key, measures.ALL_TARGETS): values.mean(axis=1), **target_columns}


def _correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  """Returns the linear correlation along axis 1; 0 with what is constant."""
  x, y = (v - v.mean(axis=1, keepdims=True) for v in (x, y))
  scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
  # A constant is off its own mean by rounding alone.
  is_constant = scale < 1e-9 * x.shape[1]
  return np.where(
    is_constant, 0, (x * y).sum(1) / np.where(is_constant, 1, scale)
  )


def _sample_measures(
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  scaler: TargetScaler,
) -> MeasureTable:
  """Returns what is a mean over samples: key -> [N], the mean over seeds."""
  seed_tables = [
    _interval_coverage(
      truth["test"],
      make_predictive_draws(truth["validation"], *split_predictions),
    )
    | _curve_measures(
      scaler.inverse(truth["test"]), scaler.inverse(split_predictions[1])
    )
    for split_predictions in zip(
      predictions["validation"], predictions["test"], strict=True
    )
  ]
  return {
    k: np.mean([t[k] for t in seed_tables], axis=0) for k in seed_tables[0]
  }


def make_predictive_draws(
  validation_truth: np.ndarray,
  validation_predictions: np.ndarray,
  test_predictions: np.ndarray,
) -> np.ndarray:
  """Returns predictive draws: predictions and all validation residuals.

  A distribution that any model can be given after training, without assuming
  a shape; it is as wide for each sample.

  Args:
    validation_truth: of the validation split, [V, T].
    validation_predictions: likewise, [V, T].
    test_predictions: predictions of the test split, [N, T].

  Returns:
    [V, N, T].

  Source: split conformal prediction, Vovk, Gammerman and Shafer 2005.
  """
  return test_predictions + (validation_truth - validation_predictions)[:, None]


def _interval_coverage(
  truth: np.ndarray, predictive_draws: np.ndarray
) -> MeasureTable:
  """Returns which targets lie in the central intervals, [N] each."""
  coverage_table = {}
  for level in calibration.LEVELS:
    low, high = calibration.central_interval(predictive_draws, level)
    is_inside = ((low <= truth) & (truth <= high)).astype(float)
    coverage_table |= _split_by_target(
      (Z_UNITS, f"coverage@{round(100 * level)}"), is_inside
    )
  return coverage_table


def _curve_measures(truth: np.ndarray, predicted: np.ndarray) -> MeasureTable:
  """Returns the measures of the predicted curves, [N] each."""
  curves, _ = curve_measures.clip_scale(predicted)
  sample_values = curve_measures.compute_curve_measures(truth, curves)
  return {
    (CURVE_UNITS, name, measures.ALL_TARGETS): v
    for name, v in sample_values.items()
  }


def compute_horizon_reliability(
  truth: np.ndarray, predicted: np.ndarray
) -> dict[str, calibration.Reliability]:
  """Returns horizon -> annotated against predicted validity.

  Args:
    truth: location, scale, skewness in raw units, [N, T].
    predicted: likewise.
  """
  curves = [SkewNormal.from_targets(truth)]
  curves.append(
    SkewNormal.from_targets(curve_measures.clip_scale(predicted)[0])
  )
  reliability_by_horizon = {}
  for name, minutes in curve_measures.HORIZONS.items():
    log_time = time_axis.to_log_time(minutes)
    validities = [skew_normal.validity(curve, log_time) for curve in curves]
    reliability_by_horizon[name] = calibration.compute_reliability(*validities)
  return reliability_by_horizon


def format_predictions(
  samples: Sequence[Sample], seeds: Sequence[int], raw: np.ndarray
) -> str:
  """Returns the lines of predictions.tsv.

  Args:
    samples: N of the test split.
    seeds: M.
    raw: predictions, [M, N, T].
  """
  lines = ["\t".join(["sample_id", "seed", *TARGETS])]
  for seed, values in zip(seeds, raw, strict=True):
    for sample, row in zip(samples, values, strict=True):
      cells = (f"{value:.6g}" for value in row)
      lines.append("\t".join([sample.sample_id, str(seed), *cells]))
  return "\n".join(lines) + "\n"
