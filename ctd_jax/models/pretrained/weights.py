"""Published weights into the parameters of our encoders, and back.

A table of names says which tensor is which parameter. A parameter is read slice
by slice to where its sharding puts it, and written tensor by tensor: the host
never holds the whole model.
"""

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctd_jax.models.encoders import layers
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.encoders.layers import SCANNED
from ctd_jax.models.pretrained import folders, vector_settings
from ctd_jax.models.pretrained.folders import EncoderConfig, TensorFiles
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.utils import files

# Names of tensors in published weights, by parameter of our encoders.
#
# Nesting, transposition, layers stacked for a scan and prefixes follow from
# the path of the parameter.


# Parameter -> tensor. `layer` is the i-th layer, {i} in the name of a tensor.
_BERT = {
  "embeddings/word_embeddings": "embeddings.word_embeddings",
  "embeddings/position_embeddings": "embeddings.position_embeddings",
  "embeddings/token_type_embeddings": "embeddings.token_type_embeddings",
  "embeddings/layer_norm": "embeddings.LayerNorm",
  "layer/attention/query": "encoder.layer.{i}.attention.self.query",
  "layer/attention/key": "encoder.layer.{i}.attention.self.key",
  "layer/attention/value": "encoder.layer.{i}.attention.self.value",
  "layer/attention/out": "encoder.layer.{i}.attention.output.dense",
  "layer/attention_norm": "encoder.layer.{i}.attention.output.LayerNorm",
  "layer/intermediate": "encoder.layer.{i}.intermediate.dense",
  "layer/output": "encoder.layer.{i}.output.dense",
  "layer/output_norm": "encoder.layer.{i}.output.LayerNorm",
}
_DISTILBERT = {
  "embeddings/word_embeddings": "embeddings.word_embeddings",
  "embeddings/position_embeddings": "embeddings.position_embeddings",
  "embeddings/layer_norm": "embeddings.LayerNorm",
  "layer/attention/query": "transformer.layer.{i}.attention.q_lin",
  "layer/attention/key": "transformer.layer.{i}.attention.k_lin",
  "layer/attention/value": "transformer.layer.{i}.attention.v_lin",
  "layer/attention/out": "transformer.layer.{i}.attention.out_lin",
  "layer/attention_norm": "transformer.layer.{i}.sa_layer_norm",
  "layer/intermediate": "transformer.layer.{i}.ffn.lin1",
  "layer/output": "transformer.layer.{i}.ffn.lin2",
  "layer/output_norm": "transformer.layer.{i}.output_layer_norm",
}
_DECODER = {
  "embed_tokens": "embed_tokens",
  "layer/input_norm": "layers.{i}.input_layernorm",
  "layer/attention/query": "layers.{i}.self_attn.q_proj",
  "layer/attention/key": "layers.{i}.self_attn.k_proj",
  "layer/attention/value": "layers.{i}.self_attn.v_proj",
  "layer/attention/query_norm": "layers.{i}.self_attn.q_norm",
  "layer/attention/key_norm": "layers.{i}.self_attn.k_norm",
  "layer/attention/out": "layers.{i}.self_attn.o_proj",
  "layer/mlp_norm": "layers.{i}.post_attention_layernorm",
  "layer/gate": "layers.{i}.mlp.gate_proj",
  "layer/up": "layers.{i}.mlp.up_proj",
  "layer/down": "layers.{i}.mlp.down_proj",
  "norm": "norm",
}
LEAVES = {
  "embedding": "weight",
  "kernel": "weight",
  "scale": "weight",
  "bias": "bias",
}
# Older spellings of tensor names, and the one in the tables.
_OLD_NAMES = (
  (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
  (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
)
# An output layer tied to the token table: either of the two may be stored.
_TIED_NAMES = (
  "lm_head.weight",
  "cls.predictions.decoder.weight",
  "vocab_projector.weight",
)
# Heads, poolers and buffers of published models, which a text encoder lacks.
UNUSED_NAMES = re.compile(
  r"(.*\.)?(pooler\.|cls\.|lm_head\.|vocab_(transform|layer_norm|projector)\."
  r"|classifier\.|qa_outputs\."
  r"|embeddings\.position_ids$|rotary_emb\.inv_freq$)"
)


def tensor_table(config: EncoderConfig) -> Mapping[str, str]:
  """Returns the names of an architecture's tensors, by parameter."""
  if isinstance(config, DecoderConfig):
    return _DECODER
  return _BERT if config.type_vocab_size else _DISTILBERT


def map_stored_names(
  names: Iterable[str], table: Mapping[str, str]
) -> dict[str, str]:
  """Returns the stored name of every tensor, by its name in a table.

  Stored names may have a prefix ("bert.", "model.", ...), which the name of the
  token table, the first entry of `table`, reveals.
  """
  names = set(names)
  anchor = f"{next(iter(table.values()))}.weight"
  prefixes = [n.removesuffix(anchor) for n in names if n.endswith(anchor)]
  if len(prefixes) > 1:
    raise ValueError(
      f"several encoders in one file: {', '.join(sorted(prefixes))}; expected "
      "one"
    )
  if prefixes:
    prefix = prefixes[0]
  else:
    # Only the output layer that is tied to the token table was stored.
    prefix = "model." if any(n.startswith("model.") for n in names) else ""
  stored_names = {}
  for name in names:
    table_name = name.removeprefix(prefix)
    for pattern, new in _OLD_NAMES:
      table_name = pattern.sub(new, table_name)
    stored_names[table_name] = name
  for tied_name in _TIED_NAMES:
    if not prefixes and tied_name in names:
      stored_names[anchor] = tied_name
  return stored_names


# Number of a layer inside the name of a tensor.
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclasses.dataclass(frozen=True)
class Parameter:
  """A parameter of our encoder and the tensors that hold it."""

  shape: tuple[int, ...]  # of the parameter
  # Name of its tensor, or of one tensor for each layer of a stacked parameter.
  tensors: tuple[str, ...]
  is_stacked: bool  # whether the first axis counts layers
  # Whether the tensors are [out, in], as torch stores kernels.
  is_transposed: bool

  @property
  def tensor_shape(self) -> tuple[int, ...]:
    """Shape of each tensor as stored."""
    shape = self.shape[1:] if self.is_stacked else self.shape
    return shape[::-1] if self.is_transposed else shape


def load_params(
  folder: pathlib.Path,
  config: EncoderConfig,
  sharding: Any = None,
  dtype: str = "float32",
) -> Any:
  """Returns the parameters of `config.make_encoder()` from a folder.

  Args:
    folder: folder with model.safetensors, or with shards and their index.
    config: geometry, without adapters.
    sharding: one for all parameters, or a tree of them; None = the first
      device.
  """
  tensor_files = TensorFiles(folder)
  shapes = abstract_params(config)
  stored_names = map_stored_names(tensor_files.shapes, tensor_table(config))
  parameters = _describe_parameters(config, shapes)
  _check_tensors(folder, config, parameters, tensor_files.shapes, stored_names)
  if sharding is None or isinstance(sharding, jax.sharding.Sharding):
    # The same for every leaf of the tree.
    default_sharding = sharding or jax.sharding.SingleDeviceSharding(
      jax.devices()[0]
    )
    sharding = jax.tree.map(lambda _: default_sharding, shapes)

  # The callback is asked for one shard after another, so the host holds no
  # more than the largest shard.
  def read_parameter(
    parameter: Parameter, leaf_sharding: jax.sharding.Sharding
  ) -> jax.Array:
    return jax.make_array_from_callback(
      parameter.shape,
      leaf_sharding,
      lambda i: _read_shard(tensor_files, stored_names, parameter, i).astype(
        jnp.dtype(dtype), copy=False
      ),
    )

  return jax.tree.map(read_parameter, parameters, sharding)


def save_encoder(
  folder: pathlib.Path,
  config: EncoderConfig,
  params: Any,
  max_shard_bytes: int = 5_000_000_000,
  dtype: str = "float32",
) -> None:
  """Writes config.json and the weights of an encoder."""
  folders.write_tensors(
    folder,
    {
      name: (
        parameter.tensor_shape,
        functools.partial(to_stored_tensor, parameter, leaf, row, dtype),
      )
      for parameter, leaf in zip(
        jax.tree.leaves(_describe_parameters(config, params)),
        jax.tree.leaves(params),
        strict=True,
      )
      for row, name in enumerate(parameter.tensors)
    },
    max_shard_bytes,
  )
  folders.write_encoder_config(folder, config)


def abstract_params(config: EncoderConfig) -> Any:
  """Returns shapes and types of the parameters of `config.make_encoder()`."""
  text = jax.ShapeDtypeStruct((1, 1), jnp.int32)
  # Nothing is computed: a 7B encoder has shapes on any host.
  init = config.make_encoder().init
  return jax.eval_shape(init, jax.random.key(0), text, text)["params"]


def _describe_parameters(config: EncoderConfig, shapes: Any) -> Any:
  """Returns a `Parameter` for every leaf of `shapes`, as the same tree."""
  return jax.tree_util.tree_map_with_path(
    functools.partial(_describe_parameter, config), shapes
  )


def _describe_parameter(
  config: EncoderConfig, path: tuple[Any, ...], leaf: Any
) -> Parameter:
  """Returns the tensors of a parameter of an encoder or of an adapter."""
  # E.g. layer_3 / attention / query / kernel, or query_lora / a; layers / ...
  # if scanned.
  first, *middle, last = (entry.key for entry in path)
  is_stacked = first == SCANNED
  number = first.removeprefix("layer_")
  if is_stacked or number != first:
    first = "layer"
  module = "/".join((first, *middle))
  tensor_name = tensor_table(config)[module.removesuffix(layers.SUFFIX)]
  if module.endswith(layers.SUFFIX):
    tensor_name = f"{_PREFIX}.{tensor_name}.lora_{last.upper()}.weight"
  else:
    tensor_name += f".{LEAVES[last]}"
  numbers = range(config.num_layers) if is_stacked else (number,)
  return Parameter(
    shape=leaf.shape,
    tensors=tuple(tensor_name.format(i=i) for i in numbers),
    is_stacked=is_stacked,
    is_transposed=last in ("kernel", layers.A, layers.B),
  )


def _check_tensors(
  folder: pathlib.Path,
  config: EncoderConfig,
  parameters: Any,
  shapes: Mapping[str, tuple[int, ...]],
  stored_names: Mapping[str, str],
) -> None:
  """Raises a ValueError that names every tensor that does not fit."""
  expected = {
    name: parameter.tensor_shape
    for parameter in jax.tree.leaves(parameters)
    for name in parameter.tensors
  }
  missing = expected.keys() - stored_names.keys()
  unexpected = {
    stored_names[name]
    for name in stored_names.keys() - expected.keys()
    if not UNUSED_NAMES.match(stored_names[name])
  }
  misshapen = [
    f"{stored_names[name]} {shapes[stored_names[name]]} instead of "
    f"{expected[name]}"
    for name in sorted(expected.keys() & stored_names.keys())
    if shapes[stored_names[name]] != expected[name]
  ]
  problems = [
    f"{problem}: {', '.join(tensor_names)}"
    for problem, tensor_names in (
      ("missing", _abridge_names(missing)),
      ("unexpected", _abridge_names(unexpected)),
      ("of another shape", _abridge_names(misshapen)),
    )
    if tensor_names
  ]
  if problems:
    raise ValueError(
      f"the weights in {folder} are not those of a {type(config).__name__} of "
      f"{config.num_layers} layers as its config.json says; tensors "
      + "; ".join(problems)
    )


def _abridge_names(names: Iterable[str]) -> list[str]:
  """Returns the names, those that differ only in the layer as one entry."""
  groups: dict[str, list[str]] = {}
  for name in sorted(names):
    groups.setdefault(_NUMBER.sub("N", name), []).append(name)
  return [
    group[0] if len(group) == 1 else f"{name} ({len(group)} times)"
    for name, group in groups.items()
  ]


def _read_shard(
  tensor_files: TensorFiles,
  stored_names: Mapping[str, str],
  parameter: Parameter,
  index: tuple[slice, ...],
) -> np.ndarray:
  """Returns one shard of a parameter, fp32."""
  tensors = parameter.tensors
  if parameter.is_stacked:
    # The first axis of the index selects layers, which are tensors.
    tensors, index = tensors[index[0]], index[1:]
  if parameter.is_transposed:
    index = index[::-1]  # of the stored [out, in]
  arrays = [
    tensor_files.read_tensor(stored_names[name], index) for name in tensors
  ]
  if parameter.is_transposed:
    arrays = [array.T for array in arrays]
  return np.stack(arrays) if parameter.is_stacked else arrays[0]


def to_stored_tensor(
  parameter: Parameter, leaf: jax.Array, row: int, dtype: str = "float32"
) -> np.ndarray:
  """Returns a tensor as it is stored."""
  tensor = np.asarray(
    leaf[row] if parameter.is_stacked else leaf, jnp.dtype(dtype)
  )
  # safetensors stores arrays in C order; a transpose is only a view.
  return np.ascontiguousarray(tensor.T) if parameter.is_transposed else tensor


# Adapters of an encoder as the library PEFT stores them.
#
# adapter_config.json says which encoder they adapt and how;
# adapter_model.safetensors holds A as lora_A, [r, in], and B as lora_B, [out,
# r], under the projection's name in the published weights.


CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
_PREFIX = "base_model.model"  # what PEFT puts around the encoder


def write_adapters(
  folder: pathlib.Path, config: EncoderConfig, params: Any, base: str
) -> None:
  """Writes the adapters of an encoder, fp32."""
  adapters, _ = layers.split_adapters(params)
  tensors = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(adapters):
    parameter = _describe_parameter(config, path, leaf)
    for row, name in enumerate(parameter.tensors):
      tensors[name] = to_stored_tensor(parameter, leaf, row)
  folder.mkdir(parents=True, exist_ok=True)
  folders.write_tensor_file(folder / WEIGHTS_FILE, tensors)
  text = json.dumps(_describe_adapters(config, base), indent=2, sort_keys=True)
  # Last: its presence says that the other is there.
  files.write_text(folder / CONFIG_FILE, text + "\n")


def _describe_adapters(config: EncoderConfig, base: str) -> dict[str, Any]:
  """Returns the content of adapter_config.json."""
  # One pattern of whole names: the end of a name, e.g. output.dense, may be
  # that of two projections.
  modules = [
    re.escape(module).replace(r"\{i\}", r"\d+")
    for projection, module in tensor_table(config).items()
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


# Export of an encoder in the layout of sentence-transformers.


def export_encoder(
  folder: pathlib.Path,
  config: EncoderConfig,
  params: Any,
  tokenizer: TextTokenizer,
  pooling: str,
  query: SideSettings,
  record: SideSettings,
  normalize: bool = True,
  dtype: str = "float32",
) -> None:
  """Writes an encoder, its tokenizer and how its vectors are made.

  Other libraries then compute the `semantic` vectors, without calendar context.
  One that knows a single length takes the longer of both.

  Args:
    params: parameters of `config.make_encoder()`.
    pooling: "cls", "mean" or "last".
    query: prefix and length of queries; both sides have a length.
    normalize: whether vectors have length 1, as those have that are compared by
      their cosine.
    dtype: type of the stored weights.
  """
  save_encoder(folder, config, params, dtype=dtype)
  tokenizer.save(folder, max(query.max_length, record.max_length))
  settings = VectorSettings(pooling, normalize, query, record)
  vector_settings.write_vector_settings(folder, settings, config.hidden_size)
