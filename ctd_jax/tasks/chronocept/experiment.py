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
from ctd_jax.tasks.chronocept.baselines import System
from ctd_jax.tasks.chronocept.features import FrozenFeatures
from ctd_jax.tasks.chronocept.scaling import TargetScaler
from ctd_jax.training.checkpoints import CheckpointError, differences
from ctd_jax.utils import files
from ctd_jax_datasets.chronocept import reader
from ctd_jax_datasets.chronocept.samples import SPLITS, TARGETS, Sample

PAPER, HONEST = "paper", "honest"
PROTOCOLS = (PAPER, HONEST)
HISTORY = "history.json"
# Fields that another part of the same run may change.
_FREE_FIELDS = ("data_dir", "sources", "cache_dir", "seeds", "name")
SHOWN_METRICS = ("mse", "mae", "r2", "spearman", "pearson", "paper_nll")


@dataclasses.dataclass(frozen=True)
class Data:
  """Samples and their targets under a protocol.

  Attributes:
    samples: split -> samples.
    targets: split -> [N, T], raw.
    scalers: split -> what its errors are measured with.
    learned: split -> the units that models learn and predict.
  """

  samples: Mapping[str, Sequence[Sample]]
  targets: Mapping[str, np.ndarray]
  scalers: Mapping[str, TargetScaler]
  learned: Mapping[str, TargetScaler]

  @property
  def scaled(self) -> dict[str, np.ndarray]:
    """Split -> targets in the units of the scores."""
    return _transformed(self.scalers, self.targets)

  @property
  def wanted(self) -> dict[str, np.ndarray]:
    """Split -> targets in the units that are learned."""
    return _transformed(self.learned, self.targets)

  def rescaled(self, split: str, predicted: np.ndarray) -> np.ndarray:
    """Returns predictions of a split, [N, T], in the units of the scores."""
    return self.scalers[split].transform(self.learned[split].inverse(predicted))


def _transformed(
  scalers: Mapping[str, TargetScaler], targets: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
  return {split: scalers[split].transform(x) for split, x in targets.items()}


def run(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> None:
  """Trains what is missing in the workdir, evaluates and prints the table.

  Args:
    config: see `configs/chronocept.py`.
    workdir: created if absent.

  Raises:
    ValueError: naming the field of the config or what is wrong in the data.
    FileNotFoundError: if the encoder or the data are not there.
  """
  check_config(config)
  started = time.time()
  workdir = workdir.expanduser().absolute()
  data = make_data(
    reader.load_samples(config.dataset, config.data_dir, config.sources),
    config,
  )
  found = predictor.frozen_features(config)
  system = baselines.make_system(config.model, found)
  read = Inputs(config, system.reads, data, found)
  if config.search:
    config = ml_collections.ConfigDict(config)
    config.model = hyperparameter_search.choose(
      config, workdir, found, read, data.wanted, selection_of(config)
    )
    system = baselines.make_system(config.model, found)
  claim_workdir(config, workdir)
  _train_missing(config, workdir, data, system, read)
  predictions = {}
  for split in ("validation", "test"):
    predictions[split] = np.stack(
      [
        data.rescaled(
          split,
          system.predict(
            predictor.read(predictor.model_path(workdir, seed))[0], read(split)
          ),
        )
        for seed in config.seeds
      ]
    )
  _report(config, workdir, data, predictions, time.time() - started)


class Inputs:
  """The inputs of a system by split, made when they are asked for."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    reads: str,
    data: Data,
    found: FrozenFeatures,
  ):
    """Keeps what is needed.

    Args:
      config: axes and protocol are read.
      reads: what the system reads, see `systems.System`.
      data: the samples.
      found: the frozen encoder.
    """
    self._config, self._reads = config, reads
    self._data, self._features = data, found
    self._kept: dict[str, Any] = {}

  def __call__(self, split: str, seed: int | None = None) -> dict[str, Any]:
    """Returns the inputs of a split.

    Axes change places in train only, as published; anew for each seed.

    Args:
      split: of the data.
      seed: of the run that trains on them; None for evaluation.
    """
    axes = self._config.axes
    drawn = axes == features.AXES_SHUFFLED and split == "train"
    key = f"{split} {seed}" if drawn else split
    if key not in self._kept:
      if axes == features.AXES_SHUFFLED and not drawn:
        axes = features.AXES_GIVEN
      self._kept[key] = baselines.inputs(
        self._reads,
        features.fields(self._data.samples[split], axes, seed or 0),
        self._features,
        self._config.protocol == PAPER,
      )
    return self._kept[key]


def check_config(config: ml_collections.ConfigDict) -> None:
  """Refuses at the start what would fail or mislead later.

  Raises:
    ValueError: naming the field.
  """
  for field, known in (
    ("protocol", PROTOCOLS),
    ("axes", features.ABLATIONS),
  ):
    if config[field] not in known:
      raise ValueError(
        f"config.{field}={config[field]!r}: expected one of {', '.join(known)}"
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


def selection_of(config: ml_collections.ConfigDict) -> str:
  """Returns which epoch the protocol keeps."""
  return (
    network_training.LAST if config.protocol == PAPER else network_training.BEST
  )


def make_data(
  samples: Mapping[str, Sequence[Sample]], config: ml_collections.ConfigDict
) -> Data:
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
  targets = {split: features.targets(samples[split]) for split in SPLITS}
  if config.protocol == HONEST:
    scalers = learned = scaling.of_train(targets)
  else:
    scalers = learned = scaling.per_split(targets)
    if config.paper_raw_targets:
      learned = dict.fromkeys(SPLITS, TargetScaler.identity(len(TARGETS)))
  return Data(samples, targets, scalers, learned)


def claim_workdir(
  config: ml_collections.ConfigDict, workdir: pathlib.Path
) -> None:
  """Writes the config of the run.

  Raises:
    CheckpointError: if models of another config lie there; the message names
      each field that differs.
  """
  path = workdir / predictor.CONFIG_FILE
  mine = json.loads(config.to_json_best_effort())
  if any(workdir.glob("model_*.npz")):
    saved = json.loads(path.read_text("utf-8"))
    kept = [
      {k: v for k, v in fields.items() if k not in _FREE_FIELDS}
      for fields in (saved, mine)
    ]
    changed = differences(*kept)
    if changed:
      raise CheckpointError(
        f"{workdir} holds models of another config: {'; '.join(changed)}. "
        "Give another --workdir."
      )
  files.write_text(path, json.dumps(mine, indent=2) + "\n")


def _train_missing(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: Data,
  system: System,
  read: Inputs,
) -> None:
  """Trains a model for each seed that has none."""
  path = workdir / HISTORY
  histories = json.loads(path.read_text("utf-8")) if path.exists() else {}
  bar = tqdm.tqdm(config.seeds, "seeds", unit="model", disable=None)
  for seed in bar:
    model = predictor.model_path(workdir, seed)
    if model.exists():
      continue
    inputs = {split: read(split, seed) for split in ("train", "validation")}
    arrays, history = system.fit(
      inputs, data.wanted, selection_of(config), seed
    )
    predictor.save(model, arrays, data.learned["train"])
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
    files.write_text(path, json.dumps(histories, indent=1) + "\n")


def _report(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: Data,
  predictions: Mapping[str, np.ndarray],
  seconds: float,
) -> None:
  """Writes predictions, rows and plots; prints the table."""
  scaler, samples = data.scalers["test"], data.samples["test"]
  raw = scaler.inverse(predictions["test"])
  files.write_text(
    workdir / "predictions.tsv",
    rows.predictions_table(samples, config.seeds, raw),
  )
  found = rows.result_rows(
    config,
    data.scaled,
    predictions,
    scaler,
    command=evaluate.command(),
    commit=evaluate.commit(),
    seconds=round(seconds, 1),
  )
  results.write_rows(workdir / "results.json", found)
  _plot(config, workdir, data, predictions)
  shown = [row for row in found if row.family == "all"]
  print(result_tables.format_table(shown, SHOWN_METRICS, intervals=True))
  print(f"{workdir}: models, predictions.tsv, results.json, *.png")


def _plot(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  data: Data,
  predictions: Mapping[str, np.ndarray],
) -> None:
  """Writes the plots, of the first seed."""
  scaler, samples = data.scalers["test"], data.samples["test"]
  truth = data.scaled
  first = {split: values[0] for split, values in predictions.items()}
  raw = scaler.inverse(first["test"])
  title = f"{config.name} on {config.dataset}, protocol {config.protocol}, test"
  report_page.write(
    workdir / "page.png", title, samples, truth, predictions, raw
  )
  drawn = rows.draws(truth["validation"], first["validation"], first["test"])
  files.write_figure(
    workdir / "calibration.png",
    calibration_plot.plot_draws(truth["test"], drawn, title),
  )
  files.write_figure(
    workdir / "reliability.png",
    calibration_plot.plot_reliability(
      rows.reliability(data.targets["test"], raw), title
    ),
  )
