"""Trains and evaluates a baseline of validity curves.

  python -m ctd_jax.train --config=configs/chronocept.py:ffnn \\
    --workdir=runs/ffnn

`ctd_jax.train` hands over to `run` where `config.task` is "validity". In the
workdir lie afterwards: config.json, a model for each seed (`predictor` loads
them), history.json, predictions.tsv, results.json and the plots page.png,
calibration.png and reliability.png. What lies
there already is not trained again.

Two protocols. `paper`: z-scores of each split by itself, the published length
of the model's texts, the last epoch. `honest`: z-scores of train, one length
for all, the best epoch by validation. Figures of the two are in different
units and never comparable: a predictor of the train mean scores 1 or a little
more under `paper`, and .9053 (benchmark 1) or .8862 (2) under `honest`.

Axes: M seeds, N samples, T = 3 targets.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
import tqdm
from absl import logging

from ctd_jax import evaluate
from ctd_jax.evaluation import result_tables, results
from ctd_jax.tasks.chronocept import (
  baselines,
  calibration_plot,
  features,
  hyperparameter_search,
  network_training,
  predictor,
  report_page,
  rows,
  scaling,
)
from ctd_jax.tasks.chronocept.baselines import BaselineSystem
from ctd_jax.tasks.chronocept.features import FrozenFeatures
from ctd_jax.tasks.chronocept.scaling import TargetScaler
from ctd_jax.training.checkpoints import CheckpointError, list_differences
from ctd_jax.utils import files
from ctd_jax_datasets.chronocept import reader
from ctd_jax_datasets.chronocept.samples import SPLITS, TARGETS, Sample

PAPER, HONEST = "paper", "honest"
PROTOCOLS = (PAPER, HONEST)
HISTORY_FILE = "history.json"
# Fields that another part of the same run may change.
_FREE_FIELDS = ("data_dir", "sources", "cache_dir", "seeds", "name")
TABLE_METRICS = ("mse", "mae", "r2", "spearman", "pearson", "paper_nll")


@dataclasses.dataclass(frozen=True)
class ProtocolData:
  """Samples and their targets under a protocol.

  Attributes:
    samples: split -> samples.
    targets: split -> [N, T], raw.
    score_scalers: split -> what its errors are measured with.
    model_scalers: split -> the units that models learn and predict.
  """

  samples: Mapping[str, Sequence[Sample]]
  targets: Mapping[str, np.ndarray]
  score_scalers: Mapping[str, TargetScaler]
  model_scalers: Mapping[str, TargetScaler]

  @property
  def score_targets(self) -> dict[str, np.ndarray]:
    """Split -> targets in the units of the scores."""
    return _transform_by_split(self.score_scalers, self.targets)

  @property
  def model_targets(self) -> dict[str, np.ndarray]:
    """Split -> targets in the units that are learned."""
    return _transform_by_split(self.model_scalers, self.targets)

  def to_score_units(self, split: str, predicted: np.ndarray) -> np.ndarray:
    """Returns predictions of a split, [N, T], in the units of the scores."""
    return self.score_scalers[split].transform(
      self.model_scalers[split].inverse(predicted)
    )


def _transform_by_split(
  scalers: Mapping[str, TargetScaler], targets: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
  return {split: scalers[split].transform(x) for split, x in targets.items()}


def run_experiment(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Trains what is missing in the workdir, evaluates and prints the table.

  Args:
    config: see `configs/chronocept.py`.
    workdir: created if absent.

  Raises:
    ValueError: naming the field of the config or what is wrong in the data.
    FileNotFoundError: if the encoder or the data are not there.
  """
  check_config(config)
  start_time = time.time()
  workdir = workdir.expanduser().absolute()
  data = make_protocol_data(
    reader.load_samples(config.dataset, config.data_dir, config.sources),
    config,
  )
  encoder_features = predictor.make_frozen_features(config)
  system = baselines.make_system(config.model, encoder_features)
  split_inputs = SplitInputs(config, system.input_kind, data, encoder_features)
  if config.search:
    config = ml_collections.ConfigDict(config)
    config.model = hyperparameter_search.choose_hyperparameters(
      config,
      workdir,
      encoder_features,
      split_inputs,
      data.model_targets,
      get_epoch_selection(config),
    )
    system = baselines.make_system(config.model, encoder_features)
  claim_workdir(config, workdir)
  _train_missing_seeds(config, workdir, data, system, split_inputs)
  predictions = {}
  for split in ("validation", "test"):
    predictions[split] = np.stack(
      [
        data.to_score_units(
          split,
          system.predict(
            predictor.read_model(predictor.model_path(workdir, seed))[0],
            split_inputs(split),
          ),
        )
        for seed in config.seeds
      ]
    )
  _write_report(config, workdir, data, predictions, time.time() - start_time)


class SplitInputs:
  """The inputs of a system by split, made when they are asked for."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    input_kind: str,
    data: ProtocolData,
    encoder_features: FrozenFeatures,
  ):
    """Keeps what is needed.

    Args:
      config: axes and protocol are read.
      input_kind: what the system reads, see `baselines.BaselineSystem`.
      data: the samples.
      encoder_features: the frozen encoder.
    """
    self._config, self._input_kind = config, input_kind
    self._data, self._features = data, encoder_features
    self._cache: dict[str, Any] = {}

  def __call__(self, split: str, seed: int | None = None) -> dict[str, Any]:
    """Returns the inputs of a split.

    Axes change places in train only, as published; anew for each seed.

    Args:
      split: of the data.
      seed: of the run that trains on them; None for evaluation.
    """
    axes = self._config.axes
    is_shuffled = axes == features.AXES_SHUFFLED and split == "train"
    key = f"{split} {seed}" if is_shuffled else split
    if key not in self._cache:
      if axes == features.AXES_SHUFFLED and not is_shuffled:
        axes = features.AXES_GIVEN
      self._cache[key] = baselines.make_inputs(
        self._input_kind,
        features.make_field_texts(self._data.samples[split], axes, seed or 0),
        self._features,
        self._config.protocol == PAPER,
      )
    return self._cache[key]


def check_config(config: ml_collections.ConfigDict) -> None:
  """Refuses at the start what would fail or mislead later.

  Raises:
    ValueError: naming the field.
  """
  for field, allowed_values in (
    ("protocol", PROTOCOLS),
    ("axes", features.AXES_ABLATIONS),
  ):
    if config[field] not in allowed_values:
      raise ValueError(
        f"config.{field}={config[field]!r}: expected one of {', '.join(allowed_values)}"
      )
  if not config.seeds or len(set(config.seeds)) < len(config.seeds):
    raise ValueError(f"config.seeds={config.seeds}: expected different seeds")
  for field in ("max_length", "paper_max_length"):
    if config[field] < 3:
      raise ValueError(
        f"config.{field}={config[field]}: expected at least 3 tokens, of which "
        "two are special"
      )
  for field in ("epochs", "hidden_size"):
    if config.model.get(field, 2) < 1 + (field == "hidden_size"):
      raise ValueError(f"config.model.{field}={config.model[field]}: too small")


def get_epoch_selection(config: ml_collections.ConfigDict) -> str:
  """Returns which epoch the protocol keeps."""
  return (
    network_training.LAST_EPOCH
    if config.protocol == PAPER
    else network_training.BEST_EPOCH
  )


def make_protocol_data(
  samples: Mapping[str, Sequence[Sample]], config: ml_collections.ConfigDict
) -> ProtocolData:
  """Returns samples with the targets and the scalers of the protocol.

  Raises:
    ValueError: if a split is missing or too small to be scored.
  """
  for split in SPLITS:
    if len(samples.get(split, ())) < 2:
      raise ValueError(
        f"{config.dataset}: split {split} has {len(samples.get(split, ()))} "
        "samples; expected at least 2"
      )
  targets = {
    split: features.extract_targets(samples[split]) for split in SPLITS
  }
  if config.protocol == HONEST:
    score_scalers = model_scalers = scaling.fit_train_scalers(targets)
  else:
    score_scalers = model_scalers = scaling.fit_split_scalers(targets)
    if config.paper_raw_targets:
      model_scalers = dict.fromkeys(SPLITS, TargetScaler.identity(len(TARGETS)))
  return ProtocolData(samples, targets, score_scalers, model_scalers)


def claim_workdir(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Writes the config of the run.

  Raises:
    CheckpointError: if models of another config lie there; the message names
      each field that differs.
  """
  path = workdir / predictor.CONFIG_FILE
  config_fields = json.loads(config.to_json_best_effort())
  if any(workdir.glob("model_*.npz")):
    saved_fields = json.loads(path.read_text("utf-8"))
    compared_fields = [
      {k: v for k, v in fields.items() if k not in _FREE_FIELDS}
      for fields in (saved_fields, config_fields)
    ]
    field_changes = list_differences(*compared_fields)
    if field_changes:
      raise CheckpointError(
        f"{workdir} holds models of another config: {'; '.join(field_changes)}. "
        "Give another --workdir."
      )
  files.write_text(path, json.dumps(config_fields, indent=2) + "\n")


def _train_missing_seeds(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  system: BaselineSystem,
  split_inputs: SplitInputs,
) -> None:
  """Trains a model for each seed that has none."""
  history_path = workdir / HISTORY_FILE
  histories = (
    json.loads(history_path.read_text("utf-8")) if history_path.exists() else {}
  )
  progress = tqdm.tqdm(config.seeds, "seeds", unit="model", disable=None)
  for seed in progress:
    model_file = predictor.model_path(workdir, seed)
    if model_file.exists():
      continue
    inputs = {
      split: split_inputs(split, seed) for split in ("train", "validation")
    }
    arrays, history = system.fit(
      inputs, data.model_targets, get_epoch_selection(config), seed
    )
    predictor.save_model(model_file, arrays, data.model_scalers["train"])
    histories[str(seed)] = history
    if history:
      logging.info(
        "%s, seed %d: epoch %d of %d, validation MSE %.4f",
        config.name,
        seed,
        history["epoch"],
        len(history["validation_mse"]),
        history["validation_mse"][history["epoch"] - 1],
      )
    files.write_text(history_path, json.dumps(histories, indent=1) + "\n")


def _write_report(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  predictions: Mapping[str, np.ndarray],
  seconds: float,
) -> None:
  """Writes predictions, rows and plots; prints the table."""
  scaler, samples = data.score_scalers["test"], data.samples["test"]
  raw = scaler.inverse(predictions["test"])
  files.write_text(
    workdir / "predictions.tsv",
    rows.format_predictions(samples, config.seeds, raw),
  )
  result_rows = rows.make_result_rows(
    config,
    data.score_targets,
    predictions,
    scaler,
    command=evaluate.format_command(),
    commit=evaluate.read_commit(),
    seconds=round(seconds, 1),
  )
  results.write_result_rows(workdir / "results.json", result_rows)
  _write_plots(config, workdir, data, predictions)
  table_rows = [row for row in result_rows if row.family == "all"]
  print(result_tables.format_table(table_rows, TABLE_METRICS, intervals=True))
  print(f"{workdir}: models, predictions.tsv, results.json, *.png")


def _write_plots(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  predictions: Mapping[str, np.ndarray],
) -> None:
  """Writes the plots, of the first seed."""
  scaler, samples = data.score_scalers["test"], data.samples["test"]
  truth = data.score_targets
  first_seed = {split: values[0] for split, values in predictions.items()}
  raw = scaler.inverse(first_seed["test"])
  title = f"{config.name} on {config.dataset}, protocol {config.protocol}, test"
  report_page.write_page(
    workdir / "page.png", title, samples, truth, predictions, raw
  )
  draws = rows.make_predictive_draws(
    truth["validation"], first_seed["validation"], first_seed["test"]
  )
  files.write_figure(
    workdir / "calibration.png",
    calibration_plot.plot_draws(truth["test"], draws, title),
  )
  files.write_figure(
    workdir / "reliability.png",
    calibration_plot.plot_reliability(
      rows.compute_horizon_reliability(data.targets["test"], raw), title
    ),
  )
