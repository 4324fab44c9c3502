"""Published weights into the parameters of our encoders, and back.

Why: nothing is retrieved well from scratch that a pretrained encoder has not
seen; its weights come as safetensors with the names of another library. One
table for each architecture says which tensor is which parameter; everything
else (nesting, transposition, layers stacked for a scan, prefixes) follows
from the parameter's path. `experiment`, `text_encoder` and `hf_export` are
the callers.

A parameter is read slice by slice to where its sharding puts it, and written
tensor by tensor, so the host never holds the whole model.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.pretrained import geometry, hub_folders
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.models.pretrained.hub_folders import TensorFiles

# Ours: theirs. `layer` is the i-th layer, {i} in theirs.
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
_LEAVES = {
  "embedding": "weight",
  "kernel": "weight",
  "scale": "weight",
  "bias": "bias",
}
# Names that older files give a tensor, and the name a table gives it.
_RENAMED = (
  (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
  (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
)
# An output layer tied to the token table: either of the two may be stored.
_TIED = (
  "lm_head.weight",
  "cls.predictions.decoder.weight",
  "vocab_projector.weight",
)
# Parts of published models that a text encoder has no use for.
_UNUSED = re.compile(
  r"(.*\.)?(pooler\.|cls\.|lm_head\.|vocab_(transform|layer_norm|projector)\."
  r"|classifier\.|qa_outputs\."
  r"|embeddings\.position_ids$|rotary_emb\.inv_freq$)"
)
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclasses.dataclass(frozen=True)
class Parameter:
  """One parameter of ours and the tensors it is made of.

  Attributes:
    shape: of the parameter.
    tensors: names of one tensor, or of one for each row of a stacked
      parameter.
    stacked: whether the first axis counts layers.
    transposed: whether the tensors are stored output first.
  """

  shape: tuple[int, ...]
  tensors: tuple[str, ...]
  stacked: bool
  transposed: bool

  @property
  def tensor_shape(self) -> tuple[int, ...]:
    """Shape of each tensor as stored."""
    shape = self.shape[1:] if self.stacked else self.shape
    return shape[::-1] if self.transposed else shape


def load(
  source: str | os.PathLike[str],
  sharding: Any = None,
  **overrides: Any,
) -> tuple[EncoderConfig, Any]:
  """Returns geometry and parameters of a published encoder.

  Args:
    source: a folder with config.json and model.safetensors (or shards and
      their index), or a hub id "owner/name".
    sharding: where the parameters live: one for all, or a tree of them like
      the parameters; None = the first device.
    **overrides: see `hf_config.read`, e.g. dtype="bfloat16".

  Returns:
    (config, params): params, fp32, are those of `config.make()`.

  Raises:
    FileNotFoundError: if the folder or one of its files is missing.
    ValueError: if a file is cut off, of another format or architecture; one
      message names every tensor that is missing, unexpected or of another
      shape.
  """
  folder = hub_folders.find(source)
  config = geometry.read(folder, **overrides)
  return config, load_params(folder, config, sharding)


def load_params(
  folder: pathlib.Path, config: EncoderConfig, sharding: Any = None
) -> Any:
  """Returns the parameters of `config.make()` from the files of a folder.

  See `load`, which also finds the folder and reads its config.
  """
  files = TensorFiles(folder)
  shapes = abstract_params(config)
  stored = _by_table_name(files.shapes, _table(config))
  parameters = _parameters(config, shapes)
  _check(folder, config, parameters, files.shapes, stored)
  if sharding is None or isinstance(sharding, jax.sharding.Sharding):
    place = sharding or jax.sharding.SingleDeviceSharding(jax.devices()[0])
    sharding = jax.tree.map(lambda _: place, shapes)

  def read(parameter: Parameter, place: jax.sharding.Sharding) -> jax.Array:
    return jax.make_array_from_callback(
      parameter.shape, place, lambda i: _read(files, stored, parameter, i)
    )

  return jax.tree.map(read, parameters, sharding)


def save(
  folder: pathlib.Path,
  config: EncoderConfig,
  params: Any,
  max_shard_bytes: int = 5_000_000_000,
) -> None:
  """Writes config.json and the weights of an encoder, fp32.

  Names are those of the bare model, without a prefix. Weights that exceed
  `max_shard_bytes` become several files and an index.

  Args:
    folder: made if needed.
    config: geometry.
    params: of `config.make()`, wherever they live.
    max_shard_bytes: of one file; no more than this is held on the host.
  """
  hub_folders.write_tensors(
    folder,
    {
      name: (
        parameter.tensor_shape,
        functools.partial(_stored, parameter, leaf, row),
      )
      for parameter, leaf in zip(
        jax.tree.leaves(_parameters(config, params)),
        jax.tree.leaves(params),
        strict=True,
      )
      for row, name in enumerate(parameter.tensors)
    },
    max_shard_bytes,
  )
  geometry.write(folder, config)


def abstract_params(config: EncoderConfig) -> Any:
  """Returns shapes and types of the parameters of `config.make()`."""
  text = jax.ShapeDtypeStruct((1, 1), jnp.int32)
  init = config.make().init
  return jax.eval_shape(init, jax.random.key(0), text, text)["params"]


def _table(config: EncoderConfig) -> Mapping[str, str]:
  """Returns which tensor is which parameter, for this architecture."""
  if isinstance(config, DecoderConfig):
    return _DECODER
  return _BERT if config.type_vocab_size else _DISTILBERT


def _parameters(config: EncoderConfig, shapes: Any) -> Any:
  """Returns a `Parameter` for every leaf of `shapes`, as the same tree."""
  table = _table(config)

  def describe(path: tuple[Any, ...], leaf: Any) -> Parameter:
    first, *middle, last = (part.key for part in path)
    name, _, number = first.partition("_")
    stacked = name == "layers"
    layers = range(config.num_layers) if stacked else (number,)
    if name in ("layer", "layers"):
      first = "layer"
    theirs = f"{table['/'.join((first, *middle))]}.{_LEAVES[last]}"
    return Parameter(
      shape=leaf.shape,
      tensors=tuple(theirs.format(i=i) for i in layers),
      stacked=stacked,
      transposed=last == "kernel",
    )

  return jax.tree_util.tree_map_with_path(describe, shapes)


def _by_table_name(
  names: Iterable[str], table: Mapping[str, str]
) -> dict[str, str]:
  """Returns the stored name of every tensor, by the table's name for it.

  The prefix ("bert.", "model.", none ...) is what stands before the name of
  the token table.
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
    # The token table is stored as the output layer that it is tied to.
    prefix = "model." if any(n.startswith("model.") for n in names) else ""
  stored = {}
  for name in names:
    renamed = name.removeprefix(prefix)
    for pattern, new in _RENAMED:
      renamed = pattern.sub(new, renamed)
    stored[renamed] = name
  for tied in _TIED:
    if not prefixes and tied in names:
      stored[anchor] = tied
  return stored


def _check(
  folder: pathlib.Path,
  config: EncoderConfig,
  parameters: Any,
  shapes: Mapping[str, tuple[int, ...]],
  stored: Mapping[str, str],
) -> None:
  """Refuses files that do not fit, with everything that does not."""
  expected = {
    name: parameter.tensor_shape
    for parameter in jax.tree.leaves(parameters)
    for name in parameter.tensors
  }
  missing = expected.keys() - stored.keys()
  unexpected = {
    stored[name]
    for name in stored.keys() - expected.keys()
    if not _UNUSED.match(stored[name])
  }
  wrong = [
    f"{stored[name]} {shapes[stored[name]]} instead of {expected[name]}"
    for name in sorted(expected.keys() & stored.keys())
    if shapes[stored[name]] != expected[name]
  ]
  problems = [
    f"{what}: {', '.join(found)}"
    for what, found in (
      ("missing", _abridged(missing)),
      ("unexpected", _abridged(unexpected)),
      ("of another shape", _abridged(wrong)),
    )
    if found
  ]
  if problems:
    raise ValueError(
      f"the weights in {folder} are not those of a {type(config).__name__} of "
      f"{config.num_layers} layers as its config.json says; tensors "
      + "; ".join(problems)
    )


def _abridged(names: Iterable[str]) -> list[str]:
  """Returns the names, those that differ in one number told once."""
  groups: dict[str, list[str]] = {}
  for name in sorted(names):
    groups.setdefault(_NUMBER.sub("N", name), []).append(name)
  return [
    found[0] if len(found) == 1 else f"{name} ({len(found)} times)"
    for name, found in groups.items()
  ]


def _read(
  files: TensorFiles,
  stored: Mapping[str, str],
  parameter: Parameter,
  index: tuple[slice, ...],
) -> np.ndarray:
  """Returns one shard of a parameter, fp32."""
  tensors = parameter.tensors
  if parameter.stacked:
    tensors, index = tensors[index[0]], index[1:]
  if parameter.transposed:
    index = index[::-1]
  parts = [files.read(stored[name], index) for name in tensors]
  if parameter.transposed:
    parts = [part.T for part in parts]
  return np.stack(parts) if parameter.stacked else parts[0]


def _stored(parameter: Parameter, leaf: jax.Array, row: int) -> np.ndarray:
  """Returns a tensor as it is stored, fp32."""
  tensor = np.asarray(leaf[row] if parameter.stacked else leaf, np.float32)
  return np.ascontiguousarray(tensor.T) if parameter.transposed else tensor
