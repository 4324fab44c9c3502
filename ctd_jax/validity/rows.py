"""Result rows of a baseline: every measure with its bootstrap interval.

Why: a test split of 129 or 55 samples leaves wide intervals, and figures
without them look like an order of systems. A value is the mean over seeds; its
interval resamples the test samples, the same for all seeds. Called by
`experiment`.

Fields of a row (`evaluation.results`): `mode` is the protocol, `family` the
target or "all", `score_mode` the units: "z" (of the protocol's scaler), "raw",
or "curve" for what compares curves over log time. `skill` is the share of the
MSE of train's mean (under `paper`: of the split's own) that is gone; as a
ratio over the same resamples it is the paired comparison with that predictor.

Axes: M seeds, N samples, T = 3 targets, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np

from ctd_jax.evaluation.results import ResultRow
from ctd_jax.validity import calibration, measures
from ctd_jax.validity.scaling import TargetScaler
from ctd_jax_datasets.chronocept.samples import TARGETS, Sample

ROUNDS = 1000
TRACK = "text"
Z, RAW, CURVE = "z", "raw", "curve"
SKILL = "skill"
_RAW_MEASURES = ("mse", "mae")  # the others have no units
Table = dict[tuple[str, str, str], float]  # units, measure, family -> value


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
  per_sample = _per_sample(truth, predictions, scaler)

  def table(picked: np.ndarray) -> Table:
    tables = [
      _points(truth["test"][picked], z[picked], scaler)
      for z in predictions["test"]
    ]
    means = {key: values[picked].mean() for key, values in per_sample.items()}
    return {k: np.mean([t[k] for t in tables]) for k in tables[0]} | means

  size = len(truth["test"])
  draws = np.random.default_rng(0).integers(size, size=(ROUNDS, size))
  resampled = [table(picked) for picked in draws]
  rows = []
  for key, value in table(np.arange(size)).items():
    low, high = np.quantile([t[key] for t in resampled], [0.025, 0.975])
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


def _points(truth: np.ndarray, z: np.ndarray, scaler: TargetScaler) -> Table:
  """Returns the measures of parameters, in both units, and the skill."""
  found = {}
  for units, pair in (
    (Z, (truth, z)),
    (RAW, (scaler.inverse(truth), scaler.inverse(z))),
  ):
    for name, families in measures.point_measures(*pair).items():
      if units == Z or name in _RAW_MEASURES:
        found |= {(units, name, f): value for f, value in families.items()}
  # The z-score of the mean is 0.
  of_mean = measures.point_measures(truth, np.zeros_like(truth))["mse"]
  for family, mse in of_mean.items():
    found[Z, SKILL, family] = 1 - found[Z, "mse", family] / mse
  return found


def _per_sample(
  truth: Mapping[str, np.ndarray],
  predictions: Mapping[str, np.ndarray],
  scaler: TargetScaler,
) -> dict[tuple[str, str, str], np.ndarray]:
  """Returns what is a mean over samples: key -> [N], the mean over seeds."""
  residuals = {split: truth[split] - z for split, z in predictions.items()}
  pits = [
    calibration.pit(*pair)
    for pair in zip(residuals["validation"], residuals["test"], strict=True)
  ]
  found = {}
  for level in calibration.LEVELS:
    hits = np.mean([calibration.covered(p, level) for p in pits], axis=0)
    name = f"coverage@{round(100 * level)}"
    found[Z, name, measures.ALL] = hits.mean(axis=1)
    found |= {(Z, name, t): c for t, c in zip(TARGETS, hits.T, strict=True)}
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
