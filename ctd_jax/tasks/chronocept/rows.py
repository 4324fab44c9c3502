"""Result rows of a baseline: every measure with its bootstrap interval.

Test splits of 129 and 55 samples leave wide intervals, and figures without
them look like a ranking of systems. A value is the mean over seeds; its
interval resamples test samples, the same ones for all seeds.

Fields of a row (`evaluation.results`): `mode` is the protocol, `family` the
target or "all", `score_mode` the units: "z" (of the protocol's scaler), "raw",
or "curve" for measures that compare curves over log time, where predicted
scales are clipped to a minimum. `skill` is 1 - MSE / MSE of the mean of train
(under `paper`, of the test split); both come from the same resamples, so its
interval is that of a paired comparison with that predictor.

Axes: M seeds, N samples, V validation samples, T = 3 targets, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
from jaxtyping import Float, Int

from ctd_jax.evaluation.results import ResultRow
from ctd_jax.tasks.chronocept import calibration, curve_measures, measures
from ctd_jax.tasks.chronocept.baselines.scaling import TargetScaler
from ctd_jax.tasks.chronocept.curves import skew_normal, time_axis
from ctd_jax.tasks.chronocept.curves.skew_normal import SkewNormal
from ctd_jax_datasets.chronocept.samples import TARGETS, Sample

NUM_RESAMPLES = 1000  # enough for two digits of a 95 % percentile interval
TRACK = "text"
Z_UNITS, RAW_UNITS, CURVE_UNITS = "z", "raw", "curve"
SKILL = "skill"
# (units, measure, family) -> values of resamples or samples.
MeasureTable = dict[tuple[str, str, str], np.ndarray]


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
    **run_metadata: command, commit and seconds of the rows.
  """
  num_samples = len(truth["test"])
  # The estimate itself is one more "resample": every sample once.
  all_indices = np.arange(num_samples)[None]
  resample_indices = np.random.default_rng(0).integers(
    num_samples, size=(NUM_RESAMPLES, num_samples)
  )
  values, resampled = (
    compute_measures(truth, predictions, scaler, indices)
    for indices in (all_indices, resample_indices)
  )
  rows = []
  for key, (value,) in values.items():  # one resample: the sample itself
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
  indices: Int[np.ndarray, "R N"],
) -> MeasureTable:
  """Returns every measure of resamples, [R] each, the mean over seeds.

  Args:
    truth: see `make_result_rows`.
    predictions: see `make_result_rows`.
    scaler: of the test split.
    indices: test samples of each resample.
  """
  # Measures first, then the mean over seeds: not those of a mean prediction.
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
  """Returns the point measures, `skill` and `paper_nll` of resamples.

  Args:
    truth: z-scores, [R, N, T].
    z: predicted, [R, N, T].
    sd: of the targets, [T], for raw units.
  """
  target_measures = measures.compute_target_measures(truth, z)
  by_target = {(Z_UNITS, name): v for name, v in target_measures.items()}
  # A z-score times the deviation is the error in raw units.
  by_target[RAW_UNITS, "mse"] = target_measures["mse"] * sd**2
  by_target[RAW_UNITS, "mae"] = target_measures["mae"] * sd
  measure_table = {}
  for (units, name), values in by_target.items():
    measure_table |= _split_by_target(units, name, values)
  # The z-score of the mean is 0, so the MSE of the mean is E[z^2].
  mean_mse = measures.split_by_target(np.mean(truth**2, axis=1))
  for family, values in mean_mse.items():
    mse = measure_table[Z_UNITS, "mse", family]
    measure_table[Z_UNITS, SKILL, family] = 1 - mse / values
  nll = measures.paper_nll(truth, z)
  measure_table[Z_UNITS, measures.PAPER_NLL, measures.ALL_TARGETS] = nll
  return measure_table


def _split_by_target(
  units: str, measure: str, values: np.ndarray
) -> MeasureTable:
  """Returns the columns of values [R, T] and their mean."""
  return {
    (units, measure, family): column
    for family, column in measures.split_by_target(values).items()
  }


def _sample_measures(
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  scaler: TargetScaler,
) -> MeasureTable:
  """Returns the values of each test sample, [N], the mean over seeds.

  These measures are means over samples, so resampling needs no second
  computation.
  """
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
  validation_truth: Float[np.ndarray, "V T"],
  validation_predictions: Float[np.ndarray, "V T"],
  test_predictions: Float[np.ndarray, "N T"],
) -> Float[np.ndarray, "V N T"]:
  """Returns predictive draws: test predictions plus validation residuals.

  The predictive distribution needs no distributional assumption and can be
  given to any trained model; it has the same width for all samples.

  Args:
    validation_truth: targets of the validation split.
    validation_predictions: predictions of the validation split.
    test_predictions: predictions of the test split.

  Source: split conformal prediction, Vovk, Gammerman and Shafer 2005.
  """
  # [N, T] + [V, 1, T] -> [V, N, T]
  return test_predictions + (validation_truth - validation_predictions)[:, None]


def _interval_coverage(
  truth: np.ndarray, predictive_draws: np.ndarray
) -> MeasureTable:
  """Returns whether each target lies in its central intervals, [N] each."""
  coverage_table = {}
  for level in calibration.LEVELS:
    low, high = calibration.central_interval(predictive_draws, level)
    is_inside = ((low <= truth) & (truth <= high)).astype(float)
    coverage_table |= _split_by_target(
      Z_UNITS, f"coverage@{round(100 * level)}", is_inside
    )
  return coverage_table


def _curve_measures(truth: np.ndarray, predicted: np.ndarray) -> MeasureTable:
  """Returns the measures of the predicted curves, [N] each."""
  # A regression may predict scales that no curve has.
  curves, _ = curve_measures.clip_scale(predicted)
  sample_values = curve_measures.compute_curve_measures(truth, curves)
  return {
    (CURVE_UNITS, name, measures.ALL_TARGETS): v
    for name, v in sample_values.items()
  }


def compute_horizon_reliability(
  truth: Float[np.ndarray, "N T"], predicted: Float[np.ndarray, "N T"]
) -> dict[str, calibration.Reliability]:
  """Returns horizon -> reliability of the predicted validity.

  Args:
    truth: location, scale, skewness in raw units.
    predicted: predictions in the same units.
  """
  clipped, _ = curve_measures.clip_scale(predicted)
  curves = [SkewNormal.from_targets(targets) for targets in (truth, clipped)]
  reliability_by_horizon = {}
  for name, minutes in curve_measures.HORIZONS.items():
    log_time = time_axis.to_log_time(minutes)
    validities = [skew_normal.validity(curve, log_time) for curve in curves]
    reliability_by_horizon[name] = calibration.compute_reliability(*validities)
  return reliability_by_horizon


def format_predictions(
  samples: Sequence[Sample],
  seeds: Sequence[int],
  raw: Float[np.ndarray, "M N T"],
) -> str:
  """Returns the text of predictions.tsv.

  Args:
    samples: N samples of the test split.
    seeds: M seeds.
    raw: predictions in raw units.
  """
  lines = ["\t".join(["sample_id", "seed", *TARGETS])]
  for seed, values in zip(seeds, raw, strict=True):
    for sample, row in zip(samples, values, strict=True):
      cells = (f"{value:.6g}" for value in row)
      lines.append("\t".join([sample.sample_id, str(seed), *cells]))
  return "\n".join(lines) + "\n"
