"""Trained baselines: saved as arrays, loaded to predict curves.

  predictor = Predictor.load("runs/ffnn")
  predictor.predict(samples)  # [N, 3]: location, scale, skewness

A workdir holds the models, the scaler of their targets and, in its config, the
frozen encoder.

Axes: N samples, T = 3 targets.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence

import ml_collections
import numpy as np
from jaxtyping import Float

from ctd_jax.tasks.chronocept.baselines import features, systems
from ctd_jax.tasks.chronocept.baselines.features import FrozenFeatures
from ctd_jax.tasks.chronocept.baselines.regressors import Arrays
from ctd_jax.tasks.chronocept.baselines.scaling import TargetScaler
from ctd_jax.utils import files
from ctd_jax_datasets.chronocept.samples import Sample

CONFIG_FILE = "config.json"
# Names of the scaler's arrays beside those of the model, which have none such.
_SCALER_PREFIX = "scaler/"


def model_path(workdir: pathlib.Path, seed: int) -> pathlib.Path:
  """Returns the path of the model of a seed."""
  return workdir / f"model_{seed}.npz"


def save_model(
  path: pathlib.Path, arrays: Arrays, scaler: TargetScaler
) -> None:
  """Writes a model and the scaler of its targets as .npz."""
  scaler_arrays = {"mean": scaler.mean, "sd": scaler.sd}
  prefixed_arrays = {_SCALER_PREFIX + k: v for k, v in scaler_arrays.items()}
  with files.atomic_path(path) as temporary:
    np.savez(temporary, **arrays, **prefixed_arrays)


def read_model(path: pathlib.Path) -> tuple[Arrays, TargetScaler]:
  """Returns the arrays and the scaler that `save_model` wrote.

  Raises:
    ValueError: if the file is not a saved model.
  """
  try:
    with np.load(path) as file:
      arrays = dict(file)
    # Popped, so that the model's own arrays remain.
    scaler = TargetScaler(
      *(arrays.pop(_SCALER_PREFIX + name) for name in ("mean", "sd"))
    )
  except (KeyError, OSError, ValueError, AttributeError) as error:
    raise ValueError(
      f"{path}: not a saved model of validity: {error}"
    ) from None
  return arrays, scaler


def make_frozen_features(config: ml_collections.ConfigDict) -> FrozenFeatures:
  """Returns the frozen encoder of a config with its protocol's max_length."""
  # Published baselines read different numbers of tokens.
  is_paper_protocol = config.protocol == "paper"
  return FrozenFeatures(
    config.encoder,
    config.paper_max_length if is_paper_protocol else config.max_length,
    pathlib.Path(config.cache_dir).expanduser(),
  )


@dataclasses.dataclass(frozen=True)
class Predictor:
  """The models of a workdir.

  Attributes:
    config: of the run.
    system: made from `config.model`.
    features: of the frozen encoder.
    models: (arrays, scaler) of each seed.
  """

  config: ml_collections.ConfigDict
  system: systems.BaselineSystem
  features: FrozenFeatures
  models: tuple[tuple[Arrays, TargetScaler], ...]

  @classmethod
  def load(
    cls, workdir: str | os.PathLike, encoder: str | None = None
  ) -> Predictor:
    """Returns the models of a workdir.

    Args:
      workdir: of a run of `ctd_jax.train` with `configs/chronocept.py`.
      encoder: folder or hub id of the encoder, if it has moved since.

    Raises:
      FileNotFoundError: if the run is missing or not finished.
      ValueError: if a file is not a saved model.
    """
    workdir = pathlib.Path(workdir).expanduser()
    path = workdir / CONFIG_FILE
    if not path.exists():
      raise FileNotFoundError(f"{path}: no config of a run; train it first")
    config = ml_collections.ConfigDict(json.loads(path.read_text("utf-8")))
    config.encoder = encoder or config.encoder
    encoder_features = make_frozen_features(config)
    return cls(
      config,
      systems.make_system(config.model, encoder_features),
      encoder_features,
      tuple(read_model(model_path(workdir, seed)) for seed in config.seeds),
    )

  def predict(self, samples: Sequence[Sample]) -> Float[np.ndarray, "N 3"]:
    """Returns location, scale and skewness in raw units, mean over seeds.

    Args:
      samples: N samples; their targets are not read.
    """
    rows = features.make_field_texts(samples, _axes_to_read(self.config.axes))
    inputs = systems.make_inputs(
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


def _axes_to_read(axes: str) -> str:
  """Returns the axes of samples that are predicted: never shuffled."""
  return features.AXES_GIVEN if axes == features.AXES_SHUFFLED else axes
