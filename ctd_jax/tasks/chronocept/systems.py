"""Baselines by their config: inputs, fitting, saved models, grid search.

Every baseline is a `BaselineSystem` whose fitted state is a dict of arrays, so
that it is saved as .npz and read without executing anything. `ValidityModel`
applies the models of a workdir.

The published hyperparameters were chosen on the published data and may not suit
others. A search compares networks by the validation MSE of the epoch that the
protocol selects; regressors by five-fold cross-validation on train under the
paper's protocol, and by validation MSE under the honest one.

Axes: N samples, T = 3 targets, M models.

Source: Chronocept, arXiv 2505.07637v1, appendix on hyperparameters; the
criteria are those of the authors' code
(github.com/krishgoel/chronocept-baseline-models, fc375d6).
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from flax import traverse_util
from jaxtyping import Float
from sklearn.model_selection import KFold, ParameterGrid

from ctd_jax.tasks.chronocept import (
  features,
  networks,
  published_weights,
  regressors,
)
from ctd_jax.tasks.chronocept.curves import ValidityCurve
from ctd_jax.tasks.chronocept.features import FrozenFeatures, TargetScaler
from ctd_jax.tasks.chronocept.networks import (
  BiLstm,
  EncoderRegression,
  FeedForward,
)
from ctd_jax.tasks.chronocept.regressors import Arrays
from ctd_jax.utils import files, output, unicode_text
from ctd_jax_datasets.chronocept.sample_records import AXES, Sample

# Kinds of input; see `make_inputs`.
TEXTS, VECTORS, SEQUENCE, TOKENS = "texts", "vectors", "sequence", "tokens"
_NETWORK_INPUT_KINDS = {"ffnn": VECTORS, "bilstm": SEQUENCE, "bert": TOKENS}
SYSTEM_KINDS = (*_NETWORK_INPUT_KINDS, *regressors.REGRESSORS)

FitFunction = Callable[
  [Mapping[str, Any], Mapping[str, np.ndarray], str, int],
  tuple[Arrays, dict[str, Any]],
]


@dataclasses.dataclass(frozen=True)
class BaselineSystem:
  """A baseline."""

  input_kind: str  # TEXTS, VECTORS, SEQUENCE or TOKENS
  # (inputs by split, targets by split, selection of the epoch, seed) ->
  # (arrays, history of the training); the history of a regressor is {}.
  fit: FitFunction
  predict: Callable[[Arrays, Any], np.ndarray]  # (arrays, inputs) -> [N, T]
  has_epochs: bool  # whether the training has epochs to select from


def make_system(
  hyper: ml_collections.ConfigDict, features: FrozenFeatures
) -> BaselineSystem:
  """Returns the system of `config.model`.

  Args:
    features: features of the frozen encoder, from which `bert` is initialised.

  Raises:
    ValueError: if the kind is unknown.
  """
  if hyper.kind in _NETWORK_INPUT_KINDS:
    return _make_network_system(hyper, features)
  if hyper.kind not in regressors.REGRESSORS:
    raise ValueError(
      f"config.model.kind={hyper.kind!r}: expected one of "
      f"{', '.join(SYSTEM_KINDS)}"
    )
  regressor = regressors.REGRESSORS[hyper.kind]
  options = {k: v for k, v in hyper.items() if k != "kind"}

  def fit(inputs, targets, selection, seed):
    return regressor.fit(
      inputs["train"][regressor.input_kind], targets["train"], options, seed
    ), {}

  def predict(arrays, inputs):
    return regressor.predict(arrays, inputs[regressor.input_kind])

  return BaselineSystem(regressor.input_kind, fit, predict, has_epochs=False)


def _make_network_system(
  hyper: ml_collections.ConfigDict, features: FrozenFeatures
) -> BaselineSystem:
  if hyper.kind == "ffnn":
    model = FeedForward(hyper.hidden_size, hyper.dropout)
  elif hyper.kind == "bilstm":
    model = BiLstm(hyper.hidden_size)
  else:
    model = EncoderRegression(features.encoder.config, hyper.dropout)

  def fit(inputs, targets, selection, seed):
    params = networks.init_params(model, inputs["train"], seed)
    if hyper.kind == "bert":
      # Random head, pretrained encoder.
      params = {**params, "encoder": features.encoder.params}
    network = networks.train_network(
      model, params, inputs, targets, hyper, selection, seed
    )
    # "encoder/layer_0/..." -> array: .npz has no nested names.
    arrays = traverse_util.flatten_dict(jax.device_get(network.params), sep="/")
    history = dataclasses.asdict(network)
    del history["params"]  # saved as arrays
    return arrays, history

  def predict(arrays, inputs):
    return networks.predict_targets(
      model, traverse_util.unflatten_dict(arrays, sep="/"), inputs
    )

  return BaselineSystem(
    _NETWORK_INPUT_KINDS[hyper.kind], fit, predict, has_epochs=True
  )


def make_inputs(
  input_kind: str,
  rows: list[tuple[str, ...]],
  features: FrozenFeatures,
  pad_to_max_length: bool,
) -> dict[str, Any]:
  """Returns the inputs of a system.

  Args:
    input_kind: see `BaselineSystem`.
    rows: texts of the fields of N samples, the parent first.
    pad_to_max_length: see `FrozenFeatures.encode_sequences`.

  Returns:
    Name -> N parent texts, or an array of N rows. The names of arrays are
    those of the arguments of the networks in `networks`.
  """
  if input_kind == TEXTS:
    return {TEXTS: [row[0] for row in rows]}
  if input_kind == VECTORS:
    return {VECTORS: features.encode_vectors(rows)}
  if input_kind == TOKENS:
    return features.tokenize_rows(rows)
  states, lengths = features.encode_sequences(rows, pad_to_max_length)
  return {"states": states, "lengths": lengths}


CONFIG_FILE = "config.json"
# Keeps the scaler's arrays apart from the model's, in one file.
_SCALER_PREFIX = "scaler/"


def model_path(workdir: pathlib.Path, seed: int) -> pathlib.Path:
  """Returns the path of the model of a seed."""
  return workdir / f"model_{seed}.npz"


def save_model(
  path: pathlib.Path, arrays: Arrays, scaler: TargetScaler
) -> None:
  """Writes a model and the scaler of its targets as .npz."""
  scaler_arrays = {
    _SCALER_PREFIX + "mean": scaler.mean,
    _SCALER_PREFIX + "sd": scaler.sd,
  }
  with files.atomic_path(path) as temporary:
    np.savez(temporary, **arrays, **scaler_arrays)


def read_model(path: pathlib.Path) -> tuple[Arrays, TargetScaler]:
  """Returns the arrays and the scaler that `save_model` wrote.

  Raises:
    ValueError: if the file is not a saved model.
  """
  try:
    arrays = files.load_arrays(path)
    # Popped, so that the model's own arrays remain.
    scaler = TargetScaler(
      *(arrays.pop(_SCALER_PREFIX + name) for name in ("mean", "sd"))
    )
  except (KeyError, OSError, ValueError, AttributeError) as error:
    raise ValueError(
      f"{path}: not a saved model of validity: {error}"
    ) from None
  return arrays, scaler


def make_frozen_features(
  config: ml_collections.ConfigDict, caches: bool = True
) -> FrozenFeatures:
  """Returns the frozen encoder of a config with its protocol's max_length."""
  # Published baselines read different numbers of tokens.
  is_paper_protocol = config.protocol == "paper"
  return FrozenFeatures(
    config.encoder,
    config.paper_max_length if is_paper_protocol else config.max_length,
    pathlib.Path(config.cache_dir).expanduser() if caches else None,
  )


@dataclasses.dataclass(frozen=True)
class ValidityModel:
  """Predicts how long statements stay valid.

  Example:
    >>> import ctd_jax
    >>> model = ctd_jax.ValidityModel.load("runs/ffnn")  # doctest: +SKIP
    >>> (curve,) = model.predict(["The shop is closed."])  # doctest: +SKIP
    >>> curve.describe()  # doctest: +SKIP
    'about 3 hours; most likely between 40 minutes and 13 hours'
  """

  config: ml_collections.ConfigDict
  system: BaselineSystem  # made from `config.model`
  features: FrozenFeatures  # of the frozen encoder
  # (arrays, scaler) of each seed.
  models: tuple[tuple[Arrays, TargetScaler], ...]

  @classmethod
  def load(
    cls,
    source: str | os.PathLike,
    encoder: str | None = None,
    sources: str | os.PathLike | None = None,
  ) -> ValidityModel:
    """Returns the models of a run, or the authors' feed-forward network.

    Args:
      source: workdir of a finished run of `configs/chronocept.py`, or published
        weights: `chronocept/benchmark_1` or `chronocept/benchmark_2`.
      encoder: folder or hub id of the encoder, if it has moved since.
      sources: folder of the authors' weights; by default they are downloaded.

    Raises:
      FileNotFoundError: if the run is missing or not finished.
      ValueError: if a file is not a saved model or cannot be downloaded.
    """
    workdir = pathlib.Path(source).expanduser()
    path = workdir / CONFIG_FILE
    if str(source) in published_weights.BLOBS:
      config, model = published_weights.load_published(str(source), sources)
      models = (model,)
    elif path.exists():
      config = ml_collections.ConfigDict(json.loads(path.read_text("utf-8")))
      if config.get("task") != "validity":
        raise ValueError(f"{path}: not the config of configs/chronocept.py")
      models = tuple(
        read_model(model_path(workdir, seed)) for seed in config.seeds
      )
    else:
      raise FileNotFoundError(
        f"{path}: no config of a run; train one (ctd-jax train "
        f"--config=configs/chronocept.py --workdir={source}) or name published "
        f"weights: {', '.join(published_weights.BLOBS)}"
      )
    config.encoder = encoder or config.encoder
    encoder_features = make_frozen_features(config, caches=False)
    system = make_system(config.model, encoder_features)
    return cls(config, system, encoder_features, models)

  @property
  def is_synthetic(self) -> bool:
    """Whether it was trained on invented sentences."""
    return self.config.dataset.startswith("chronocept/synthetic")

  @property
  def reads_axes(self) -> bool:
    """Whether it reads more of a sample than its text."""
    is_text_only = self.system.input_kind == TEXTS
    return self.config.axes != features.AXES_REMOVED and not is_text_only

  def predict(
    self,
    texts: str | Iterable[str],
    axes: Sequence[Mapping[str, str]] | None = None,
  ) -> list[ValidityCurve]:
    """Returns the curve of each statement.

    Args:
      texts: statements; a string is one statement.
      axes: of each statement, name in `AXES` -> its segments. Every annotated
        statement has a main outcome; where none is given, the whole statement
        counts as its main outcome.
    """
    texts = unicode_text.list_texts(texts)
    samples = [
      Sample(
        str(number),
        text,
        dict.fromkeys(AXES, "") | {AXES[0]: text} | dict(given),
        *(0.0, 1.0, 0.0),  # not read
      )
      for number, (text, given) in enumerate(
        zip(texts, axes or [{}] * len(texts), strict=True)
      )
    ]
    if not samples:
      return []
    targets = self.predict_targets(samples).tolist()
    return [
      ValidityCurve.make(text, *values)
      for text, values in zip(texts, targets, strict=True)
    ]

  def predict_targets(
    self, samples: Sequence[Sample]
  ) -> Float[np.ndarray, "N 3"]:
    """Returns location, scale and skewness in raw units, mean over seeds."""
    axes = self.config.axes
    if axes == features.AXES_SHUFFLED:  # in train only
      axes = features.AXES_GIVEN
    rows = features.make_field_texts(samples, axes)
    inputs = make_inputs(
      self.system.input_kind,
      rows,
      self.features,
      self.config.protocol == "paper",
    )
    # Seeds are averaged in raw units, where they are comparable.
    predictions = [
      scaler.inverse(self.system.predict(arrays, inputs))
      for arrays, scaler in self.models
    ]
    return np.mean(predictions, axis=0)


NUM_FOLDS = 5  # as in the authors' code
SEARCH_FILE = "search.json"
TargetsBySplit = Mapping[str, np.ndarray]
InputsBySplit = Mapping[str, Mapping[str, Any]]


def choose_hyperparameters(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  features: FrozenFeatures,
  inputs: Callable[[str], Mapping[str, Any]],
  targets: TargetsBySplit,
  selection: str,
) -> ml_collections.ConfigDict:
  """Returns `config.model` with the best values of the grid.

  Scores are written into the workdir, so an interrupted search resumes. Of
  candidates with equal scores the first one wins.

  Args:
    config: model, grid, protocol and the first of the seeds are read.
    inputs: function of a split that returns the inputs of the system.
    targets: split -> [N, T], in the units that are trained on.

  Raises:
    ValueError: if the config has no grid.
  """
  if not config.grid:
    raise ValueError(
      f"config.search=True: {config.model.kind} has no grid to search"
    )
  path = workdir / SEARCH_FILE
  scored_candidates = (
    json.loads(path.read_text("utf-8")) if path.exists() else []
  )
  # A candidate is identified by its hyperparameters, not by its position, so a
  # grid may be extended between two calls.
  scored_models = [candidate["model"] for candidate in scored_candidates]
  candidates = [
    {**config.model.to_dict(), **changes}
    for changes in ParameterGrid(config.grid.to_dict())
  ]
  pending_candidates = [
    ml_collections.ConfigDict(c) for c in candidates if c not in scored_models
  ]
  # Encoding is expensive: none where every candidate has its score.
  split_inputs = {
    split: inputs(split)
    for split in ("train", "validation")
    if pending_candidates
  }
  for hyper in output.Progress(pending_candidates, "search", unit="candidate"):
    system = make_system(hyper, features)
    score = _score_candidate(
      system, split_inputs, targets, selection, config.seeds[0], config.protocol
    )
    scored_candidates.append({"mse": score, "model": hyper.to_dict()})
    files.write_text(path, json.dumps(scored_candidates, indent=1) + "\n")
  # `min` returns the first of equal candidates.
  best = min(scored_candidates, key=lambda candidate: candidate["mse"])
  return ml_collections.ConfigDict(best["model"])


def _score_candidate(
  system: BaselineSystem,
  inputs: InputsBySplit,
  targets: TargetsBySplit,
  selection: str,
  seed: int,
  protocol: str,
) -> float:
  """Returns the MSE by which candidates are compared."""
  if protocol == "paper" and not system.has_epochs:
    # A regressor has no epochs, so the authors cross-validate on train.
    k_fold = KFold(NUM_FOLDS, shuffle=True, random_state=seed)
    train_inputs = {k: np.asarray(v) for k, v in inputs["train"].items()}
    errors = []
    for rows, held_out in k_fold.split(targets["train"]):
      fold_inputs, held_out_inputs = (
        {k: v[chosen] for k, v in train_inputs.items()}
        for chosen in (rows, held_out)
      )
      arrays, _ = system.fit(
        {"train": fold_inputs}, {"train": targets["train"][rows]}, "", seed
      )
      predictions = system.predict(arrays, held_out_inputs)
      errors.append(np.mean((predictions - targets["train"][held_out]) ** 2))
    return float(np.mean(errors))
  arrays, _ = system.fit(inputs, targets, selection, seed)
  predictions = system.predict(arrays, inputs["validation"])
  return float(np.mean((predictions - targets["validation"]) ** 2))
