"""Training and evaluation of a baseline of validity curves.

  python -m ctd_jax.train --config=configs/chronocept.py:ffnn \\
    --workdir=runs/ffnn

Configs with `config.task="validity"` are run here. The workdir then holds
config.json, a model for each seed (`systems.ValidityModel` loads them),
history.json, predictions.tsv, results.json and page.png. A model that is
already there is not trained again.

Two protocols. `paper`: z-scores of each split by itself, the published number
of tokens for the model in use, the last epoch. `honest`: z-scores of the train
split, one number of tokens for all models, the best epoch by validation. Their
figures have different units and must not be compared: a predictor of the train
mean has an MSE of 1 or a little more under `paper`, and of .9053 (benchmark 1)
or .8862 (benchmark 2) under `honest`.

Axes: M seeds, N samples, T = 3 targets.

Source: Chronocept, arXiv 2505.07637v1, and the authors' code
(github.com/krishgoel/chronocept-baseline-models, fc375d6).
"""

import dataclasses
import functools
import json
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
from absl import logging

from ctd_jax.evaluation import result_tables, results
from ctd_jax.tasks.chronocept import features, measures, networks, systems
from ctd_jax.tasks.chronocept.features import FrozenFeatures, TargetScaler
from ctd_jax.training import config as training_config
from ctd_jax.training.checkpoints import CheckpointError, list_differences
from ctd_jax.utils import files, output
from ctd_jax_datasets import load
from ctd_jax_datasets.chronocept.sample_records import SPLITS, TARGETS, Sample

PAPER, HONEST = "paper", "honest"
PROTOCOLS = (PAPER, HONEST)
_MIN_TOKENS = 3  # one token of text between the two special ones
_MIN_SPLIT_SIZE = 2  # correlations and standard deviations need two samples
# FeedForward halves the width once, so its first layer needs two units.
_MIN_HYPERPARAMETERS = {"epochs": 1, "hidden_size": 2}


@dataclasses.dataclass(frozen=True)
class ProtocolData:
  """Samples and their targets under a protocol."""

  samples: Mapping[str, Sequence[Sample]]  # split -> samples
  targets: Mapping[str, np.ndarray]  # split -> raw targets, [N, T]
  # Split -> scaler of the units in which errors are measured.
  score_scalers: Mapping[str, TargetScaler]
  # Split -> scaler of the units that models learn and predict.
  model_scalers: Mapping[str, TargetScaler]

  def transform(
    self, scalers: Mapping[str, TargetScaler]
  ) -> dict[str, np.ndarray]:
    """Returns split -> targets in the units of some scalers, [N, T]."""
    return {
      split: scalers[split].transform(values)
      for split, values in self.targets.items()
    }


def check_config(config: ml_collections.ConfigDict) -> None:
  """Checks the fields of a config before anything is computed."""
  training_config.check_finite(config)
  for field, allowed_values in (
    ("protocol", PROTOCOLS),
    ("axes", features.AXES_ABLATIONS),
  ):
    if config[field] not in allowed_values:
      raise ValueError(
        f"config.{field}={config[field]!r}: expected one of "
        f"{', '.join(allowed_values)}"
      )
  if not config.seeds or len(set(config.seeds)) < len(config.seeds):
    raise ValueError(f"config.seeds={config.seeds}: expected different seeds")
  for field in ("max_length", "paper_max_length"):
    if config[field] < _MIN_TOKENS:
      raise ValueError(
        f"config.{field}={config[field]}: expected at least {_MIN_TOKENS} "
        "tokens, of which two are special"
      )
  for field, least in _MIN_HYPERPARAMETERS.items():
    value = config.model.get(field, least)
    if value < least:
      raise ValueError(
        f"config.model.{field}={value}: expected at least {least}"
      )


def make_protocol_data(
  samples: Mapping[str, Sequence[Sample]], config: ml_collections.ConfigDict
) -> ProtocolData:
  """Returns samples with the targets and the scalers of the protocol.

  Args:
    samples: split -> samples.
    config: dataset (for messages), protocol and paper_raw_targets are read.

  Raises:
    ValueError: if a split is missing or too small to be scored.
  """
  for split in SPLITS:
    size = len(samples.get(split, ()))
    if size < _MIN_SPLIT_SIZE:
      raise ValueError(
        f"{config.dataset}: split {split} has {size} samples; expected at "
        f"least {_MIN_SPLIT_SIZE}"
      )
  targets = {
    split: features.extract_targets(samples[split]) for split in SPLITS
  }
  # Train's mean and deviation for all splits: nothing of test leaks.
  if config.protocol == HONEST:
    scalers = features.fit_train_scalers(targets)
    return ProtocolData(samples, targets, scalers, scalers)
  scalers = features.fit_split_scalers(targets)
  if not config.paper_raw_targets:
    return ProtocolData(samples, targets, scalers, scalers)
  # The published BERT learns raw units but is scored in z-scores.
  raw_scalers = dict.fromkeys(SPLITS, TargetScaler.identity(len(TARGETS)))
  return ProtocolData(samples, targets, scalers, raw_scalers)


HISTORY_FILE = "history.json"
# Fields that may change between two calls on one workdir: paths, names and the
# list of seeds do not change a model that was trained before.
_FREE_FIELDS = ("data_dir", "sources", "cache_dir", "seeds", "name")
TABLE_METRICS = ("mse", "mae", "r2", "spearman", "pearson", "paper_nll")


def run_experiment(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Trains the missing models of a workdir, evaluates and prints the table.

  Raises:
    ValueError: if a field of the config or the data is wrong; the message says
      which.
    FileNotFoundError: if the encoder or the data are missing.
    CheckpointError: if the workdir holds models of another config.
  """
  check_config(config)
  start_time = time.time()
  workdir = workdir.expanduser().absolute()
  data = make_protocol_data(
    load.load_samples(config.dataset, config.data_dir, config.sources),
    config,
  )
  encoder_features = systems.make_frozen_features(config)
  system = systems.make_system(config.model, encoder_features)
  split_inputs = make_split_inputs(
    config, system.input_kind, data, encoder_features
  )
  selection = (
    networks.LAST_EPOCH if config.protocol == PAPER else networks.BEST_EPOCH
  )
  model_targets = data.transform(data.model_scalers)
  if config.search:
    config = ml_collections.ConfigDict(config)
    config.model = systems.choose_hyperparameters(
      config, workdir, encoder_features, split_inputs, model_targets, selection
    )
    # The chosen values decide the architecture and what is saved.
    system = systems.make_system(config.model, encoder_features)
  claim_workdir(config, workdir)
  history_path = workdir / HISTORY_FILE
  histories = (
    json.loads(history_path.read_text("utf-8")) if history_path.exists() else {}
  )
  scaler, predictions = data.score_scalers["test"], []
  for seed in output.Progress(config.seeds, "seeds", unit="model"):
    model_file = systems.model_path(workdir, seed)
    if not model_file.exists():  # else an earlier, interrupted call wrote it
      inputs = {
        split: split_inputs(split, seed) for split in ("train", "validation")
      }
      arrays, history = system.fit(inputs, model_targets, selection, seed)
      systems.save_model(model_file, arrays, data.model_scalers["train"])
      histories[str(seed)] = history  # JSON keys are strings
      files.write_text(history_path, json.dumps(histories, indent=1) + "\n")
      if history:
        epoch, errors = history["epoch"], history["validation_mse"]
        logging.info(
          "%s, seed %d: epoch %d of %d, validation MSE %.4f",
          *(config.name, seed, epoch, len(errors), errors[epoch - 1]),
        )
    arrays, _ = systems.read_model(model_file)
    predicted = system.predict(arrays, split_inputs("test"))
    # From the units that were learned to those of the scores.
    predictions.append(
      scaler.transform(data.model_scalers["test"].inverse(predicted))
    )
  _write_report(
    config,
    workdir,
    data,
    np.stack(predictions),
    round(time.time() - start_time, 1),
  )


def make_split_inputs(
  config: ml_collections.ConfigDict,
  input_kind: str,
  data: ProtocolData,
  encoder_features: FrozenFeatures,
) -> Callable[..., dict[str, Any]]:
  """Returns a function of split and seed to the inputs of a system.

  Axes are shuffled in train only, as published, and anew for each seed.

  Args:
    config: axes and protocol are read.
    input_kind: kind of input of the system, see `systems.BaselineSystem`.
    data: samples by split.
    encoder_features: features of the frozen encoder.
  """

  @functools.cache
  def encode(split: str, axes: str, seed: int) -> dict[str, Any]:
    return systems.make_inputs(
      input_kind,
      features.make_field_texts(data.samples[split], axes, seed),
      encoder_features,
      config.protocol == PAPER,
    )

  def make_inputs(split: str, seed: int = 0) -> dict[str, Any]:
    axes = config.axes
    if axes != features.AXES_SHUFFLED:
      return encode(split, axes, 0)
    if split != "train":
      return encode(split, features.AXES_GIVEN, 0)
    return encode(split, axes, seed)

  return make_inputs


def claim_workdir(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Writes the config of the run into its workdir.

  Raises:
    CheckpointError: if the workdir holds models of another config; the message
      names each field that differs.
  """
  path = workdir / systems.CONFIG_FILE
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


def _write_report(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  predictions: np.ndarray,
  seconds: float,
) -> None:
  """Writes predictions, rows and plots; prints the table."""
  scaler, samples = data.score_scalers["test"], data.samples["test"]
  truth = scaler.transform(data.targets["test"])
  raw = scaler.inverse(predictions)
  files.write_text(
    workdir / "predictions.tsv",
    measures.format_predictions(samples, config.seeds, raw),
  )
  result_rows = measures.make_result_rows(
    config,
    truth,
    predictions,
    command=files.command_line(),
    commit=files.code_commit(),
    seconds=seconds,
  )
  results.write_result_rows(workdir / "results.json", result_rows)
  title = f"{config.name} on {config.dataset}, protocol {config.protocol}, test"
  # The curves that are drawn are those of the first seed.
  figure = measures.plot_predictions(title, samples, truth, predictions, raw[0])
  output.write_figure(workdir / "page.png", figure)
  # Rows of single targets are in results.json only.
  table_rows = [row for row in result_rows if row.family == "all"]
  print(result_tables.format_table(table_rows, TABLE_METRICS, intervals=True))
  print(f"{workdir}: models, predictions.tsv, results.json, page.png")
