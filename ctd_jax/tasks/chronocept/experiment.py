"""Evaluation protocols: checks of a config, samples, targets and scalers.

`paper`: z-scores of each split by itself, the published number of tokens for
the model at hand, the last epoch. `honest`: z-scores of the train split, one
number of tokens for all models, the best epoch by validation. Their figures
have different units and must not be compared: a predictor of the train mean
has an MSE of 1 or a little more under `paper`, and of .9053 (benchmark 1) or
.8862 (benchmark 2) under `honest`.

Axes: N samples, T = 3 targets.

Source: Chronocept, arXiv 2505.07637v1, and the authors' code
(github.com/krishgoel/chronocept-baseline-models, fc375d6).

Training and evaluation of a baseline of validity curves.

  python -m ctd_jax.train --config=configs/chronocept.py:ffnn \
    --workdir=runs/ffnn

Configs with `config.task="validity"` are run here. The workdir then holds
config.json, a model for each seed (`predictor` loads them), history.json,
predictions.tsv, results.json and the plots page.png, calibration.png and
reliability.png. A model that is already there is not trained again.

The two protocols are described in `protocols`.

Axes: M seeds, N samples, T = 3 targets.
"""

import dataclasses
import json
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
from absl import logging
from jaxtyping import Float

from ctd_jax.evaluation import result_tables, results
from ctd_jax.tasks.chronocept import features, measures, networks, systems
from ctd_jax.tasks.chronocept.features import FrozenFeatures, TargetScaler
from ctd_jax.tasks.chronocept.systems import BaselineSystem
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

  @property
  def score_targets(self) -> dict[str, np.ndarray]:
    """Split -> targets in the units of the scores, [N, T]."""
    return _transform_by_split(self.score_scalers, self.targets)

  @property
  def model_targets(self) -> dict[str, np.ndarray]:
    """Split -> targets in the units that are learned, [N, T]."""
    return _transform_by_split(self.model_scalers, self.targets)

  def to_score_units(
    self, split: str, predicted: Float[np.ndarray, "N T"]
  ) -> Float[np.ndarray, "N T"]:
    """Returns the predictions of a split in the units of the scores."""
    return self.score_scalers[split].transform(
      self.model_scalers[split].inverse(predicted)
    )


def _transform_by_split(
  scalers: Mapping[str, TargetScaler], targets: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
  return {split: scalers[split].transform(x) for split, x in targets.items()}


def check_config(config: ml_collections.ConfigDict) -> None:
  """Checks the fields of a config before anything is computed.

  Args:
    config: see `configs/chronocept.py`.
  """
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


def get_epoch_selection(config: ml_collections.ConfigDict) -> str:
  """Returns which epoch the protocol of a config selects."""
  if config.protocol == PAPER:
    return networks.LAST_EPOCH
  return networks.BEST_EPOCH


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

  Args:
    config: see `configs/chronocept.py`.
    workdir: created if absent.

  Raises:
    ValueError: naming the field of the config or the fault in the data.
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
  split_inputs = SplitInputs(config, system.input_kind, data, encoder_features)
  if config.search:
    config = ml_collections.ConfigDict(config)
    config.model = systems.choose_hyperparameters(
      config,
      workdir,
      encoder_features,
      split_inputs,
      data.model_targets,
      get_epoch_selection(config),
    )
    # The chosen values decide the architecture and what is saved.
    system = systems.make_system(config.model, encoder_features)
  claim_workdir(config, workdir)
  _train_missing_seeds(config, workdir, data, system, split_inputs)
  predictions = _predict_test_split(config, workdir, data, system, split_inputs)
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
      input_kind: of the system, see `systems.BaselineSystem`.
    """
    self._config, self._input_kind = config, input_kind
    self._data, self._features = data, encoder_features
    self._cache: dict[str, Any] = {}

  def __call__(self, split: str, seed: int | None = None) -> dict[str, Any]:
    """Returns the inputs of a split.

    Axes are shuffled in train only, as published, and anew for each seed.

    Args:
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
        self._config.protocol == PAPER,
      )
    return self._cache[key]


def claim_workdir(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Writes the config of the run into its workdir.

  Args:
    workdir: created if absent.

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
  for seed in output.Progress(config.seeds, "seeds", unit="model"):
    model_file = systems.model_path(workdir, seed)
    if model_file.exists():
      continue  # of an earlier, interrupted call
    inputs = {
      split: split_inputs(split, seed) for split in ("train", "validation")
    }
    arrays, history = system.fit(
      inputs, data.model_targets, get_epoch_selection(config), seed
    )
    systems.save_model(model_file, arrays, data.model_scalers["train"])
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


def _predict_test_split(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  system: BaselineSystem,
  split_inputs: SplitInputs,
) -> np.ndarray:
  """Returns the predictions of all seeds in units of the scores, [M, N, T]."""
  seed_predictions = []
  for seed in config.seeds:
    arrays, _ = systems.read_model(systems.model_path(workdir, seed))
    predicted = system.predict(arrays, split_inputs("test"))
    seed_predictions.append(data.to_score_units("test", predicted))
  return np.stack(seed_predictions)


def _write_report(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: ProtocolData,
  predictions: np.ndarray,
  seconds: float,
) -> None:
  """Writes predictions, rows and plots; prints the table."""
  scaler, samples = data.score_scalers["test"], data.samples["test"]
  truth, raw = data.score_targets["test"], scaler.inverse(predictions)
  files.write_text(
    workdir / "predictions.tsv",
    measures.format_predictions(samples, config.seeds, raw),
  )
  result_rows = measures.make_result_rows(
    config,
    truth,
    predictions,
    scaler,
    command=files.command_line(),
    commit=files.code_commit(),
    seconds=round(seconds, 1),
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
