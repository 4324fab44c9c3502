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

ROUNDS = 1000
TRACK = "text"
Z, RAW, CURVE = "z", "raw", "curve"
SKILL = "skill"
Table = dict[tuple[str, str, str], np.ndarray]  # units, measure, family


def result_rows(
  config: ml_collections.ConfigDict,
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  scaler: TargetScaler,
  **about: Any,
) -> list[ResultRow]:
  """Returns a row for each unit, measure and family, with 95 % intervals.

  Args:
    config: name, dataset, protocol and seeds are read.
    truth: "validation" and "test" -> z-scores, [N, T].
    predictions: likewise, of each seed, [M, N, T].
    scaler: of the test split.
    **about: command, commit, seconds of the rows.
  """
  size = len(truth["test"])
  everything = np.arange(size)[None]
  draws = np.random.default_rng(0).integers(size, size=(ROUNDS, size))
  values, resampled = (
    tables(truth, predictions, scaler, picked) for picked in (everything, draws)
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
        **about,
      )
    )
  return rows


def tables(
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  scaler: TargetScaler,
  picked: np.ndarray,
) -> Table:
  """Returns every measure of resamples, [R] each, the mean over seeds.

  Args:
    truth: see `result_rows`.
    predictions: see `result_rows`.
    scaler: of the test split.
    picked: test samples of each resample, int [R, N].
  """
  of_seeds = [
    _points(truth["test"][picked], z[picked], scaler.sd)
    for z in predictions["test"]
  ]
  found = {k: np.mean([t[k] for t in of_seeds], axis=0) for k in of_seeds[0]}
  per_sample = _per_sample(truth, predictions, scaler)
  return found | {k: v[picked].mean(axis=1) for k, v in per_sample.items()}


def _points(truth: np.ndarray, z: np.ndarray, sd: np.ndarray) -> Table:
  """Returns the measures of `measures.point_measures` for many resamples.

  Args:
    truth: z-scores, [R, N, T].
    z: predicted, [R, N, T].
    sd: of the targets, [T], for raw units.
  """
  errors = truth - z
  mse, mae = np.mean(errors**2, axis=1), np.mean(np.abs(errors), axis=1)
  ranks = [scipy.stats.rankdata(x, axis=1) for x in (truth, z)]
  by_target = {
    (Z, "mse"): mse,
    (Z, "mae"): mae,
    (Z, "r2"): 1 - mse / truth.var(axis=1),
    (Z, "spearman"): _correlation(*ranks),
    (Z, "pearson"): _correlation(truth, z),
    (RAW, "mse"): mse * sd**2,
    (RAW, "mae"): mae * sd,
  }
  found = {}
  for key, values in by_target.items():
    found |= _families(key, values)
  # The z-score of the mean is 0.
  for family, of_mean in _families((Z, "mse"), np.mean(truth**2, 1)).items():
    found[Z, SKILL, family[-1]] = 1 - found[family] / of_mean
  pooled = errors.reshape(len(errors), -1)
  spread = pooled.std(axis=1)
  found[Z, measures.PAPER_NLL, measures.ALL] = (
    0.5 * np.log(2 * np.pi * spread**2)
    + 0.5 * np.mean(pooled**2, axis=1) / spread**2
  )
  return found


def _families(key: tuple[str, str], values: np.ndarray) -> Table:
  """Returns columns [R, T] by target, and their mean."""
  columns = zip(TARGETS, values.T, strict=True)
  found = {(*key, target): column for target, column in columns}
  return {(*key, measures.ALL): values.mean(axis=1), **found}


def _correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  """Returns the linear correlation along axis 1; 0 with what is constant."""
  x, y = (v - v.mean(axis=1, keepdims=True) for v in (x, y))
  scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
  # A constant is off its own mean by rounding alone.
  constant = scale < 1e-9 * x.shape[1]
  return np.where(constant, 0, (x * y).sum(1) / np.where(constant, 1, scale))


def _per_sample(
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  scaler: TargetScaler,
) -> Table:
  """Returns what is a mean over samples: key -> [N], the mean over seeds."""
  of_seeds = [
    _coverage(truth["test"], draws(truth["validation"], *pair))
    | _curves(scaler.inverse(truth["test"]), scaler.inverse(pair[1]))
    for pair in zip(predictions["validation"], predictions["test"], strict=True)
  ]
  return {k: np.mean([t[k] for t in of_seeds], axis=0) for k in of_seeds[0]}


def draws(
  truth: np.ndarray, predicted: np.ndarray, test: np.ndarray
) -> np.ndarray:
  """Returns predictive draws: predictions and all validation residuals.

  A distribution that any model can be given after training, without assuming
  a shape; it is as wide for each sample.

  Args:
    truth: of the validation split, [V, T].
    predicted: likewise, [V, T].
    test: predictions of the test split, [N, T].

  Returns:
    [V, N, T].

  Source: split conformal prediction, Vovk, Gammerman and Shafer 2005.
  """
  return test + (truth - predicted)[:, None]


def _coverage(truth: np.ndarray, drawn: np.ndarray) -> Table:
  """Returns which targets lie in the central intervals, [N] each."""
  found = {}
  for level in calibration.LEVELS:
    low, high = calibration.central_interval(drawn, level)
    inside = ((low <= truth) & (truth <= high)).astype(float)
    found |= _families((Z, f"coverage@{round(100 * level)}"), inside)
  return found


def _curves(truth: np.ndarray, predicted: np.ndarray) -> Table:
  """Returns the measures of the predicted curves, [N] each."""
  curves, _ = curve_measures.clip_scale(predicted)
  found = curve_measures.curve_measures(truth, curves)
  return {(CURVE, name, measures.ALL): v for name, v in found.items()}


def reliability(
  truth: np.ndarray, predicted: np.ndarray
) -> dict[str, calibration.Reliability]:
  """Returns horizon -> annotated against predicted validity.

  Args:
    truth: location, scale, skewness in raw units, [N, T].
    predicted: likewise.
  """
  pairs = [SkewNormal.of(truth)]
  pairs.append(SkewNormal.of(curve_measures.clip_scale(predicted)[0]))
  found = {}
  for name, minutes in curve_measures.HORIZONS.items():
    log_time = time_axis.to_log(minutes)
    validities = [skew_normal.validity(curve, log_time) for curve in pairs]
    found[name] = calibration.reliability(*validities)
  return found


def predictions_table(
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
