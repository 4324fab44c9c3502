"""Folder of a run: its path, the names of its files, its config.

A folder is local or in a bucket (`gs://bucket/run`).
"""

import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import ml_collections
from etils import epath

from ctd_jax.training import config as training_config
from ctd_jax.training import pretraining_config
from ctd_jax.utils import files

Folder = pathlib.Path | epath.Path

CONFIG_FILE = "config.json"
METRICS_FILE = "metrics.jsonl"
TRAINING_FILE = "training.json"  # command, commit, seconds and seeds
TOKENIZER_FOLDER = "tokenizer"
SYSTEM_FILE = "ctd_jax.json"  # of an exported run: config and calendar
CHECKPOINT_FOLDER = "checkpoints"
EVALUATION_FOLDER = "evaluation"
TENSORBOARD_FOLDER = "tensorboard"
PROFILE_FOLDER = "profile"
NEGATIVES_FOLDER = "negatives"  # lists of mined records, by step
TOKENS_FOLDER = "tokens"  # of the texts, see `config.input.tokens_dir`
WANDB_FILE = "wandb_id.txt"  # of the run in Weights & Biases

_RUNS_CODE = "run_model_code"  # field of a published system, see `systems`
_DEFAULT_PARENT = "runs"
# Fields that older configs lack; their default is what was done without them.
_LATER_FIELDS = (
  "accumulate_steps",
  "patience",
  "eval.dimension",
  "eval.mask_train",
  "loss.matryoshka",
  "model.learn_temperature",
  "model.separate_towers",
  "negatives.mined",
  "mining.source",
  "mining.depth",
  "mining.margin",
  "mining.refresh_every",
  "optimizer.name",
  "optimizer.schedule",
  "optimizer.moment_dtype",
  "optimizer.freeze_encoder",
  "dates.form",
  "dates.records",
  "loss.gaussian_weight",
  "loss.calendar_targets",
  "loss.name",
  "loss.module",
  "loss.options",
  "loss.teacher",
  "model.similarity",
  "model.context_bias",
  "model.use_gaussian",
  "model.gaussian_dim",
  "model.lora.rank",
  "model.lora.alpha",
  "model.lora.dropout",
  "model.lora.targets",
  "model.lora.base_dtype",
)
# Fields that may change between the parts of a run that is resumed: none of
# them changes a number of the training.
_FREE_FIELDS = (
  "data_dir",
  "sources",
  "keep_latest",
  "mesh",
  "wandb_project",
  "input",
)
_FREE_EVAL_FIELDS = (
  "splits",
  "baselines",
  "depth",
  "batch_size",
  "vectors_dir",
  "backend",  # of older configs
)
_FREE_ENCODER_FIELDS = ("attention", "kept_activations")


def resolve_folder(path: str | os.PathLike) -> Folder:
  """Returns an absolute path; one in a bucket is already absolute."""
  folder = files.as_path(path)
  if isinstance(folder, pathlib.Path):
    # Not resolve(): the checkpoints of a linked folder keep its name.
    return folder.expanduser().absolute()
  return folder


def default_workdir(config_path: str) -> str:
  """Returns the workdir of a config where none is given.

  The same as `name_workdir` in launch/arguments.sh: configs/small.py:ft runs
  in runs/small-ft.

  Args:
    config_path: value of --config: FILE or FILE:ARGUMENT.
  """
  path, _, argument = config_path.partition(":")
  name = pathlib.PurePath(path).name.removesuffix(".py")
  if ":" in config_path:
    name += f"-{argument}"
  return f"{_DEFAULT_PARENT}/{re.sub(r'[^A-Za-z0-9._-]', '-', name)}"


def has_checkpoints(workdir: Folder) -> bool:
  """Returns whether a run was begun in a workdir and has saved its state."""
  folder = workdir / CHECKPOINT_FOLDER
  # Unfinished checkpoints have other names.
  return folder.exists() and any(p.name.isdigit() for p in folder.iterdir())


def read_config(workdir: str | os.PathLike) -> ml_collections.ConfigDict:
  """Returns the config that the run of a workdir was trained with."""
  path = resolve_folder(workdir) / CONFIG_FILE
  if not path.exists():
    raise FileNotFoundError(f"{path}: no config of a run; give --config")
  return parse_config(json.loads(path.read_text()), path)


def parse_config(
  fields: dict[str, Any], path: str | os.PathLike
) -> ml_collections.ConfigDict:
  """Returns the config that was written as JSON.

  Raises:
    ValueError: if it lacks fields that configs have had since, or is one of
      pre-training, whose run ranks nothing.
  """
  if fields.get("task") == pretraining_config.TASK:
    raise ValueError(
      f"{path}: a run of pre-training, which ranks nothing; train a run with "
      "--config.model.encoder.source=WORKDIR/encoder"
    )
  config = ml_collections.ConfigDict(complete_fields(fields))
  for section in config.values():
    # The folder may be a stranger's: who allows its code says so in --config.
    if isinstance(section, ml_collections.ConfigDict) and _RUNS_CODE in section:
      section[_RUNS_CODE] = False
  base_config = training_config.base_config()
  missing_fields = training_config.field_names(base_config)
  missing_fields -= training_config.field_names(config)
  for name in sorted(set(_FREE_FIELDS) - set(config)):
    config[name] = base_config[name]
  # The encoder is one that is made here, or a published one.
  missing_fields = {
    name
    for name in missing_fields
    if name.partition(".")[0] not in _FREE_FIELDS
    and not name.startswith("model.encoder.")
  }
  if missing_fields:
    raise ValueError(
      f"{path} lacks {', '.join(sorted(missing_fields))}: the run was begun "
      "with another version; give its --config"
    )
  # Who reads a run may have other devices than those that it was trained on.
  for name in _FREE_ENCODER_FIELDS:
    if name in config.model.encoder:
      config.model.encoder[name] = base_config.model.encoder[name]
  return config


def complete_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
  """Returns fields as written, and those that configs have had since."""
  config = ml_collections.ConfigDict(fields)
  base_config = training_config.base_config()
  for name in _LATER_FIELDS:
    section, base_section = config, base_config
    *parents, last = name.split(".")
    for parent in parents:
      base_section = base_section[parent]
      if parent not in section:
        section[parent] = ml_collections.ConfigDict()
      section = section[parent]
    if last not in section:
      section[last] = to_json_types(base_section[last])
  return config.to_dict()


def to_json_types(value: Any) -> Any:
  """Returns `value` as JSON reads it back: tuples become lists."""
  return json.loads(json.dumps(value))


def fixed_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the fields that a resumed run must share with its beginning.

  Sections that the base config lacks belong to untrained systems, and are
  free.
  """
  base_names = training_config.base_config().keys()
  fields = complete_fields(fields)
  fixed = {
    name: value
    for name, value in fields.items()
    if name in base_names and name not in _FREE_FIELDS
  }
  fixed["eval"] = {
    name: value
    for name, value in fields["eval"].items()
    if name not in _FREE_EVAL_FIELDS
  }
  fixed["model"] = fixed_model_fields(fields["model"])
  if fields["model"]["lora"]["rank"]:
    # Adapters need the encoder again, wherever it lies now; their checkpoints
    # know it by its weights.
    del fixed["model"]["encoder"]["source"]
  return fixed


def fixed_model_fields(section: dict[str, Any]) -> dict[str, Any]:
  """Returns `config.model` without what only says how it is computed."""
  encoder = {
    name: value
    for name, value in section["encoder"].items()
    if name not in _FREE_ENCODER_FIELDS
  }
  return {**section, "encoder": encoder}
