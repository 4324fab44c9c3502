"""Adapters of an encoder as the library PEFT stores them.

adapter_config.json says which encoder they adapt and how;
adapter_model.safetensors holds A as lora_A, [r, in], and B as lora_B, [out, r],
under the projection's name in the published weights.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import jax

from ctd_jax.models.encoders import lora
from ctd_jax.models.encoders.layer_stack import SCANNED
from ctd_jax.models.pretrained import hub_folders, state_dict, tensor_names
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.models.pretrained.state_dict import Parameter
from ctd_jax.utils import files

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
_PREFIX = "base_model.model"  # what PEFT puts around the encoder


def write_adapters(
  folder: pathlib.Path, config: EncoderConfig, params: Any, base: str
) -> None:
  """Writes the adapters of an encoder, fp32.

  Args:
    folder: made if needed.
    config: geometry, with adapters.
    params: of `config.make_encoder()`, or its adapters alone.
    base: name of the encoder that they adapt, a hub id or a folder.
  """
  adapters, _ = lora.split_adapters(params)
  tensors = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(adapters):
    parameter = _describe_parameter(config, path, leaf)
    for row, name in enumerate(parameter.tensors):
      tensors[name] = state_dict.to_stored_tensor(parameter, leaf, row)
  folder.mkdir(parents=True, exist_ok=True)
  hub_folders.write_tensor_file(folder / WEIGHTS_FILE, tensors)
  text = json.dumps(_describe_adapters(config, base), indent=2, sort_keys=True)
  # Last: its presence says that the other is there.
  files.write_text(folder / CONFIG_FILE, text + "\n")


def _describe_parameter(
  config: EncoderConfig, path: tuple[Any, ...], leaf: jax.Array
) -> Parameter:
  """Returns the tensors of a parameter of an adapter."""
  # E.g. layer_3 / attention / query_lora / a, or layers / ... if scanned.
  layer, *middle, adapter, matrix = (entry.key for entry in path)
  projection = "/".join((*middle, adapter.removesuffix(lora.SUFFIX)))
  module = tensor_names.tensor_table(config)[f"layer/{projection}"]
  is_stacked = layer == SCANNED
  numbers = range(config.num_layers)
  if not is_stacked:
    numbers = (layer.rpartition("_")[2],)
  return Parameter(
    shape=leaf.shape,
    tensors=tuple(
      f"{_PREFIX}.{module.format(i=i)}.lora_{matrix.upper()}.weight"
      for i in numbers
    ),
    is_stacked=is_stacked,
    is_transposed=True,
  )


def _describe_adapters(config: EncoderConfig, base: str) -> dict[str, Any]:
  """Returns the content of adapter_config.json."""
  # One pattern of whole names: the end of a name, e.g. output.dense, may be
  # that of two projections.
  modules = [
    re.escape(module).replace(r"\{i\}", r"\d+")
    for projection, module in tensor_names.tensor_table(config).items()
    if projection.rpartition("/")[2] in config.lora.targets
  ]
  return {
    "base_model_name_or_path": base,
    "bias": "none",
    "fan_in_fan_out": False,
    "inference_mode": True,
    "lora_alpha": config.lora.alpha,
    "lora_dropout": config.lora.dropout,
    "peft_type": "LORA",
    "r": config.lora.rank,
    "target_modules": rf"(.*\.)?({'|'.join(modules)})",
    "task_type": "FEATURE_EXTRACTION",
  }
