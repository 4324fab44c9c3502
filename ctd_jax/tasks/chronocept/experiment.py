"""Training and evaluation of a baseline of validity curves.

  python -m ctd_jax.train --config=configs/chronocept.py:ffnn \\
    --workdir=runs/ffnn

Configs with `config.task="validity"` are run here. The workdir then holds
config.json, a model for each seed (`predictor` loads them), history.json,
predictions.tsv, results.json and the plots page.png, calibration.png and
reliability.png. A model that is already there is not trained again.

The two protocols are described in `protocols`.

Axes: M seeds, N samples, T = 3 targets.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import ml_collections
import numpy as np
from absl import logging

from ctd_jax.evaluation import result_tables, results
from ctd_jax.tasks.chronocept import (
  calibration_plot,
  prediction_plots,
  protocols,
  rows,
)
from ctd_jax.tasks.chronocept.baselines import (
  features,
  hyperparameter_search,
  predictor,
  systems,
)
from ctd_jax.tasks.chronocept.baselines.features import FrozenFeatures
from ctd_jax.tasks.chronocept.baselines.systems import BaselineSystem
from ctd_jax.tasks.chronocept.protocols import ProtocolData
from ctd_jax.training.checkpoints import CheckpointError, list_differences
from ctd_jax.utils import files, plotting, progress, provenance
from ctd_jax_datasets.chronocept import reader

HISTORY_FILE = "history.json"
# Fields that may change between two calls on one workdir: paths, names and the
# list of seeds do not change a model that was trained before.
_FREE_FIELDS = ("data_dir", "sources", "cache_dir", "seeds", "name")
TABLE_METRICS = ("mse", "mae", "r2", "spearman", "pearson", "paper_nll")


def run_experiment(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Trains the missing models of a workdir, evaluates and prints the table.

  Args:
    config: see `configs/chronocept.py`.
    workdir: created if absent.

  Raises:
    ValueError: naming the field of the config or the fault in the data.
    FileNotFoundError: if the encoder or the data are missing.
    CheckpointError: if the workdir holds models of another config.
  """
  protocols.check_config(config)
  start_time = time.time()
  workdir = workdir.expanduser().absolute()
  data = protocols.make_protocol_data(
    reader.load_samples(config.dataset, config.data_dir, config.sources),
    config,
  )
  encoder_features = predictor.make_frozen_features(config)
  system = systems.make_system(config.model, encoder_features)
  split_inputs = SplitInputs(config, system.input_kind, data, encoder_features)
  if config.search:
    config = ml_collections.ConfigDict(config)
    config.model = hyperparameter_search.choose_hyperparameters(
      config,
      workdir,
      encoder_features,
      split_inputs,
      data.model_targets,
      protocols.get_epoch_selection(config),
    )
    # The chosen values decide the architecture and what is saved.
    system = systems.make_system(config.model, encoder_features)
  claim_workdir(config, workdir)
  _train_missing_seeds(config, workdir, data, system, split_inputs)
  predictions = {
    split: _predict_split(config, workdir, data, system, split_inputs, split)
    for split in ("validation", "test")
  }
  _write_report(config, workdir, data, predictions, time.time() - start_time)


class SplitInputs:
  """Inputs of a system by split, made on first use."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    input_kind: str,
    data: ProtocolData,
    encoder_features: FrozenFeatures,
  ):
    """Makes no inputs yet.

    Args:
      config: axes and protocol are read.
      input_kind: of the system, see `systems.BaselineSystem`.
      data: the samples.
      encoder_features: of the frozen encoder.
    """
    self._config, self._input_kind = config, input_kind
    self._data, self._features = data, encoder_features
    self._cache: dict[str, Any] = {}

  def __call__(self, split: str, seed: int | None = None) -> dict[str, Any]:
    """Returns the inputs of a split.

    Axes are shuffled in train only, as published, and anew for each seed.

    Args:
      split: train, validation or test.
      seed: of the model that trains on them; None for evaluation.
    """
    axes = self._config.axes
    is_shuffled = axes == features.AXES_SHUFFLED and split == "train"
    key = f"{split} {seed}" if is_shuffled else split
    # Inputs of other seeds are the same unless axes are shuffled.
    if key not in self._cache:
      if axes == features.AXES_SHUFFLED and not is_shuffled:
        axes = features.AXES_GIVEN
      self._cache[key] = systems.make_inputs(
        self._input_kind,
        features.make_field_texts(self._data.samples[split], axes, seed or 0),
        self._features,
        self._config.protocol == protocols.PAPER,
      )
    return self._cache[key]


def claim_workdir(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Writes the config of the run into its workdir.

  Args:
    config: of the run.
    workdir: created if absent.

  Raises:
    CheckpointError: if the workdir holds models of another config; the message
      names each field that differs.
  """
  path = workdir / predictor.CONFIG_FILE
  # Through JSON, so that tuples compare equal to the lists of a saved config.
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
        f"{workdir} holds models of another config: "
        f"{'; '.join(field_changes)}. Give another --workdir."
      )
  files.write_text(path, json.dumps(config_fields, indent=2) + "\n")


def _train_missing_seeds(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  system: BaselineSystem,
  split_inputs: SplitInputs,
) -> None:
  """Trains and saves a model for each seed that has none."""
  history_path = workdir / HISTORY_FILE
  histories = (
    json.loads(history_path.read_text("utf-8")) if history_path.exists() else {}
  )
  for seed in progress.Progress(config.seeds, "seeds", unit="model"):
    model_file = predictor.model_path(workdir, seed)
    if model_file.exists():
      continue  # of an earlier, interrupted call
    inputs = {
      split: split_inputs(split, seed) for split in ("train", "validation")
    }
    arrays, history = system.fit(
      inputs, data.model_targets, protocols.get_epoch_selection(config), seed
    )
    predictor.save_model(model_file, arrays, data.model_scalers["train"])
    histories[str(seed)] = history  # JSON keys are strings
    if history:
      _log_history(config.name, seed, history)
    files.write_text(history_path, json.dumps(histories, indent=1) + "\n")


def _log_history(name: str, seed: int, history: Mapping[str, Any]) -> None:
  logging.info(
    "%s, seed %d: epoch %d of %d, validation MSE %.4f",
    name,
    seed,
    history["epoch"],
    len(history["validation_mse"]),
    # Epochs count from 1.
    history["validation_mse"][history["epoch"] - 1],
  )


def _predict_split(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  system: BaselineSystem,
  split_inputs: SplitInputs,
  split: str,
) -> np.ndarray:
  """Returns the predictions of all seeds in units of the scores, [M, N, T]."""
  seed_predictions = []
  for seed in config.seeds:
    arrays, _ = predictor.read_model(predictor.model_path(workdir, seed))
    predicted = system.predict(arrays, split_inputs(split))
    seed_predictions.append(data.to_score_units(split, predicted))
  return np.stack(seed_predictions)


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
    command=provenance.command_line(),
    commit=provenance.code_commit(),
    seconds=round(seconds, 1),
  )
  results.write_result_rows(workdir / "results.json", result_rows)
  _write_plots(config, workdir, data, predictions)
  # Rows of single targets are in results.json only.
  table_rows = [row for row in result_rows if row.family == "all"]
  print(result_tables.format_table(table_rows, TABLE_METRICS, intervals=True))
  print(f"{workdir}: models, predictions.tsv, results.json, *.png")


def _write_plots(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  predictions: Mapping[str, np.ndarray],
) -> None:
  """Writes the plots; curves and calibration are those of the first seed."""
  scaler, samples = data.score_scalers["test"], data.samples["test"]
  truth = data.score_targets
  first_seed = {split: values[0] for split, values in predictions.items()}
  raw = scaler.inverse(first_seed["test"])
  title = f"{config.name} on {config.dataset}, protocol {config.protocol}, test"
  figure = prediction_plots.plot_predictions(
    title, samples, truth["test"], predictions["test"], raw
  )
  plotting.write_figure(workdir / "page.png", figure)
  # One draw for each validation sample.
  draws = rows.make_predictive_draws(
    truth["validation"], first_seed["validation"], first_seed["test"]
  )
  plotting.write_figure(
    workdir / "calibration.png",
    calibration_plot.plot_draws(truth["test"], draws, title),
  )
  plotting.write_figure(
    workdir / "reliability.png",
    calibration_plot.plot_reliability(
      rows.compute_horizon_reliability(data.targets["test"], raw), title
    ),
  )
