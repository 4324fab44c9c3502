"""Trained system: the result of a run, in its workdir or exported.

An exported folder holds the encoder in a layout that other libraries load. What
they do not compute (calendar heads, context, bias and posterior) is in two more
files, which they ignore: ctd_jax.json has the config and the calendar,
ctd_jax.safetensors the parameters. Together they are the system of the run,
without its workdir and without its data set. ctd_jax.json also has the sha256
of every other file but README.md.
"""

import dataclasses
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import msgspec
import numpy as np
from flax import traverse_util
from safetensors import numpy as safetensors_numpy

from ctd_jax.chronology.reigns import Reign, Timeline
from ctd_jax.models.dual_encoder import ENCODER, DualEncoder
from ctd_jax.models.encoders import layers
from ctd_jax.models.pretrained import folders, weights
from ctd_jax.models.pretrained.vector_settings import SideSettings
from ctd_jax.training import backbone as backbones
from ctd_jax.training import config as training_config
from ctd_jax.training import devices, run_folder, train_step
from ctd_jax.training.backbone import Backbone
from ctd_jax.training.date_marks import DateMarks
from ctd_jax.training.experiment import Experiment
from ctd_jax.training.run_folder import SYSTEM_FILE
from ctd_jax.utils import files

PARAMS_FILE = "ctd_jax.safetensors"
_FORMAT = 1  # of SYSTEM_FILE


@dataclasses.dataclass(frozen=True)
class TrainedSystem:
  """A model with its parameters, and what it takes to rank with it."""

  config: ml_collections.ConfigDict  # of the run
  dataset: str  # name of the data set that it was trained on, with its version
  step: int | None  # number of updates of the parameters; None before training
  # Calendar of that data set, of which the model's dates are.
  timeline: Timeline
  backbone: Backbone  # the text encoder and its tokenizer
  model: DualEncoder  # the dual encoder
  mesh: jax.sharding.Mesh  # devices that hold the parameters
  params: Any  # of the model

  @property
  def score_mode(self) -> str:
    """Name of the score that ranks."""
    return self.config.eval.score_mode or self.config.score_mode


class _Calendar(msgspec.Struct):
  """A `Timeline` as written."""

  name: str
  reigns: tuple[Reign, ...]
  leap_months: list[tuple[int, int, int]]


class _SystemFile(msgspec.Struct):
  """Content of SYSTEM_FILE."""

  format: int
  dataset: str
  step: int
  config: dict[str, Any]
  timeline: _Calendar
  sha256: dict[str, str] = {}  # by path; older exports have none


def _list_files(folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Returns path in a folder -> path of every file that exports hash."""
  # The card may be edited, and SYSTEM_FILE holds the digests.
  return {
    path.relative_to(folder).as_posix(): path
    for path in sorted(folder.rglob("*"))
    if path.is_file() and path.suffix != ".md" and path.name != SYSTEM_FILE
  }


def restore_system(experiment: Experiment) -> TrainedSystem:
  """Returns the system of a run: its best checkpoint, or none before training.

  Raises:
    checkpoints.CheckpointError: if the checkpoint has another architecture.
  """
  step = experiment.checkpoints.best_step
  if step is None:
    params = experiment.init_state().model_params
  else:
    params = experiment.restore_params(step)
  return TrainedSystem(
    experiment.config,
    experiment.benchmark.name,
    step,
    experiment.benchmark.timeline,
    experiment.backbone,
    experiment.model,
    experiment.mesh,
    params,
  )


def write_system(folder: pathlib.Path, system: TrainedSystem) -> None:
  """Writes a trained system, with its encoder as other libraries load it.

  Adapters are merged into the encoder; the folder has no other copy of it.

  Args:
    folder: created if needed.
    system: system with the parameters of a checkpoint.
  """
  config, backbone = system.config, system.backbone
  encoder, encoder_params = backbone.encoder, system.params[ENCODER]
  if encoder.lora is not None:
    encoder_params = layers.merge_adapters(encoder_params, encoder.lora)
    encoder = dataclasses.replace(encoder, lora=None)
  weights.export_encoder(
    folder,
    encoder,
    encoder_params,
    backbone.tokenizer,
    config.model.pooling,
    SideSettings(backbone.query_prefix, config.query_length),
    SideSettings(backbone.record_prefix, config.record_length),
    normalize=config.model.similarity == "cosine",
  )
  with files.atomic_path(folder / PARAMS_FILE) as temporary:
    tensors = {
      name: np.asarray(leaf, np.float32, order="C")
      for name, leaf in _flatten_scoring_params(system.params).items()
    }
    safetensors_numpy.save_file(tensors, temporary)
  # Last: its presence says that the others are there.
  content = {
    "format": _FORMAT,
    "dataset": system.dataset,
    "step": system.step,
    "config": _portable_fields(config),
    "timeline": {
      "name": system.timeline.name,
      "reigns": [dataclasses.asdict(row) for row in system.timeline.reigns],
      "leap_months": sorted(system.timeline.leap_months),
    },
    "sha256": {
      name: files.hash_file(path) for name, path in _list_files(folder).items()
    },
  }
  files.write_text(
    folder / SYSTEM_FILE,
    json.dumps(content, ensure_ascii=False, indent=2) + "\n",
  )


def read_system(folder: pathlib.Path) -> TrainedSystem:
  """Returns the system of a folder that `write_system` wrote.

  Raises:
    FileNotFoundError: if a file is missing.
    ValueError: if a file does not fit; the message names it.
  """
  path = folder / SYSTEM_FILE
  content = folders.read_json(path, _SystemFile)
  if content.format != _FORMAT:
    raise ValueError(
      f"{path}: format {content.format}, expected {_FORMAT}; export the run "
      "again with this version"
    )
  # Only files that are listed: a name alone may lead out of the folder.
  paths = _list_files(folder)
  for name, digest in content.sha256.items():
    if name not in paths:
      raise FileNotFoundError(f"no {name} in {folder}; export the run again")
    if files.hash_file(paths[name]) != digest:
      raise ValueError(f"{folder / name} has changed; export the run again")
  config = run_folder.parse_config(content.config, path)
  calendar = content.timeline
  timeline = Timeline(
    calendar.name, calendar.reigns, frozenset(calendar.leap_months)
  )
  if "source" in config.model.encoder:
    backbone = backbones.read_published_backbone(config.model, folder)
  else:
    backbone = backbones.make_scratch_backbone(config.model, None, folder)
  backbone = dataclasses.replace(
    backbone, date_marks=DateMarks.from_config(config, timeline)
  )
  model = train_step.make_model(config.model, backbone.encoder, timeline)
  mesh = devices.make_mesh(**config.mesh.to_dict())
  return TrainedSystem(
    config,
    content.dataset,
    content.step,
    timeline,
    backbone,
    model,
    mesh,
    _read_params(folder, model, mesh),
  )


def _portable_fields(config: ml_collections.ConfigDict) -> dict[str, Any]:
  """Returns the fields of a config without paths and devices of a machine."""
  fields = run_folder.to_json_types(config.to_dict())
  fields |= {"data_dir": None, "sources": None}
  defaults = training_config.base_config()
  fields |= {name: defaults[name].to_dict() for name in ("mesh", "input")}
  fields["eval"]["vectors_dir"] = None
  fields["model"]["lora"]["rank"] = 0  # merged
  encoder = fields["model"]["encoder"]
  if "source" in encoder:
    encoder["source"] = portable_source(encoder["source"])
  return fields


def portable_source(source: str) -> str:
  """Returns the hub id of a published encoder, or the name of its folder."""
  return folders.find_hub_id(source) or pathlib.Path(source).name


def _flatten_scoring_params(params: Any) -> dict[str, Any]:
  """Returns path -> leaf of all parameters but the encoder's."""
  return traverse_util.flatten_dict(
    {name: subtree for name, subtree in params.items() if name != ENCODER},
    sep="/",
  )


def _read_params(
  folder: pathlib.Path, model: DualEncoder, mesh: jax.sharding.Mesh
) -> Any:
  """Returns the parameters of a model, where its mesh has them."""
  text = jax.ShapeDtypeStruct((1, 1), jnp.int32)
  shapes = jax.eval_shape(model.init, jax.random.key(0), text, text)["params"]
  shardings = devices.state_shardings(shapes, mesh)
  path = folder / PARAMS_FILE
  tensors = folders.read_tensors(path)
  expected = {
    name: leaf.shape for name, leaf in _flatten_scoring_params(shapes).items()
  }
  misfits = sorted(
    name
    for name in expected.keys() | tensors.keys()
    if name not in tensors or tensors[name].shape != expected.get(name)
  )
  if misfits:
    raise ValueError(
      f"{path} and the config in {SYSTEM_FILE} differ in {', '.join(misfits)}; "
      "export the run again"
    )
  scoring_params = {
    name: jax.device_put(subtree, shardings[name])
    for name, subtree in traverse_util.unflatten_dict(tensors, sep="/").items()
  }
  return {
    **scoring_params,
    ENCODER: weights.load_params(
      folder, model.config.encoder, shardings[ENCODER]
    ),
  }
