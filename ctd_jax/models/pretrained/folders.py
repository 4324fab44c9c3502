"""Folders of published encoders: finds them, reads and writes their tensors.

Tensors are read slice by slice, so that no more of a large model is in memory
than the available devices need.
"""

import dataclasses
import hashlib
import json
import math
import os
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import huggingface_hub
import msgspec
import numpy as np
import safetensors
from safetensors import numpy as safetensors_numpy

from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.utils import files

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
# Files fetched for a hub id. Other formats of the same weights stay there.
_DOWNLOAD_PATTERNS = (
  *("*.json", "*.safetensors", "1_Pooling/*"),
  *("*.txt", "*.model"),  # vocabularies without a tokenizer.json
)
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_FLOAT_TYPES = ("F32", "F16", "BF16", "F64")  # as safetensors names them

_Content = TypeVar("_Content")


class _WeightIndex(msgspec.Struct):
  """Content of model.safetensors.index.json: the file of every tensor."""

  weight_map: dict[str, str]


def is_hub_id(source: str | os.PathLike[str]) -> bool:
  """Returns whether a source looks like a hub id, "owner/name"."""
  return _HUB_ID.fullmatch(str(source)) is not None


def find_hub_id(source: str | os.PathLike[str]) -> str | None:
  """Returns the hub id of a model, of a folder the one its config.json has."""
  folder = pathlib.Path(source).expanduser()
  if not folder.is_dir():
    return str(source) if is_hub_id(source) else None
  path = folder / CONFIG_FILE
  # Written by transformers: what the model was loaded from.
  name = read_json(path).get("_name_or_path", "") if path.is_file() else ""
  return name if is_hub_id(name) else None


def find_model_folder(
  source: str | os.PathLike[str], may_download: bool = True
) -> pathlib.Path:
  """Returns the local folder of a model.

  Args:
    source: a folder, or a hub id "owner/name", which is downloaded once. The
      variables of the hub's library hold, such as HF_HOME and HF_HUB_OFFLINE.
    may_download: whether the hub may be asked for what is not here.
  """
  folder = pathlib.Path(source).expanduser()
  if folder.is_dir():
    return folder
  if not is_hub_id(source):
    raise FileNotFoundError(
      f"{source}: no such folder; expected a folder with {CONFIG_FILE} and "
      f"{WEIGHTS_FILE}, or a hub id like owner/name"
    )
  try:
    snapshot_folder = huggingface_hub.snapshot_download(
      str(source),
      allow_patterns=list(_DOWNLOAD_PATTERNS),
      local_files_only=not may_download,
    )
  except Exception as error:  # network, proxy and hub errors share no base
    reason = str(error).strip().splitlines()[0] if str(error).strip() else error
    raise FileNotFoundError(
      f"{source}: neither a local folder nor a model from the hub "
      f"({type(error).__name__}: {reason})"
    ) from error
  return pathlib.Path(snapshot_folder)


def read_json(
  path: pathlib.Path, schema: type[_Content] = dict[str, Any]
) -> _Content:
  """Returns the content of a JSON file.

  Args:
    schema: type of the content; fields that it does not name are skipped.
  """
  if not path.is_file():
    raise FileNotFoundError(f"no {path.name} in {path.parent}")
  try:
    return msgspec.json.decode(path.read_bytes(), type=schema)
  except msgspec.ValidationError as error:
    raise ValueError(f"{path}: {error}") from error
  except msgspec.DecodeError as error:
    raise ValueError(f"{path} is not JSON: {error}") from error


class TensorFiles:
  """Tensors of a model folder by name, with their shapes."""

  shapes: Mapping[str, tuple[int, ...]]

  def __init__(self, folder: pathlib.Path):
    """Opens model.safetensors, or every shard that the index names."""
    self.folder = folder
    names_by_file = _list_weight_files(folder)
    self._files = {path: _open_weights(path) for path in sorted(names_by_file)}
    self._file_by_tensor = {
      name: file
      for file in self._files.values()
      for name in file.keys()  # noqa: SIM118
    }
    absent_names = sorted(
      name
      for names in names_by_file.values()
      for name in names
      if name not in self._file_by_tensor
    )
    if absent_names:
      raise ValueError(
        f"{folder / INDEX_FILE} names tensors that no file holds: "
        f"{', '.join(absent_names)}"
      )
    self.shapes = {
      name: tuple(file.get_slice(name).get_shape())
      for name, file in self._file_by_tensor.items()
    }

  def read_tensor(self, name: str, index: tuple[slice, ...]) -> np.ndarray:
    """Returns a slice of a tensor, fp32; `index` has a slice for each axis."""
    view = self._file_by_tensor[name].get_slice(name)
    if view.get_dtype() not in _FLOAT_TYPES:
      raise ValueError(  # e.g. the integers of a quantised model
        f"{self.folder}: {name} holds {view.get_dtype()}; expected one of "
        f"{', '.join(_FLOAT_TYPES)}"
      )
    tensor = np.asarray(view[index]).astype(np.float32)
    _check_finite(self.folder, name, tensor)
    return tensor


def hash_weights(folder: pathlib.Path) -> str:
  """Returns a hash of the weight files of a folder, hexadecimal."""
  digest = hashlib.sha256()
  for path in sorted(_list_weight_files(folder)):
    digest.update(bytes.fromhex(files.hash_file(path)))
  return digest.hexdigest()


def _list_weight_files(folder: pathlib.Path) -> dict[pathlib.Path, list[str]]:
  """Returns the weight files, with the tensors that the index names in each."""
  if (folder / WEIGHTS_FILE).is_file():
    return {folder / WEIGHTS_FILE: []}
  if not (folder / INDEX_FILE).is_file():
    other_formats = sorted(
      path.name for path in folder.iterdir() if path.suffix in (".bin", ".h5")
    )
    raise FileNotFoundError(
      f"no {WEIGHTS_FILE} and no {INDEX_FILE} in {folder}"
      + (
        f"; {', '.join(other_formats)} has a format that is not supported"
        if other_formats
        else ""
      )
    )
  weight_map = read_json(folder / INDEX_FILE, _WeightIndex).weight_map
  if not weight_map:
    raise ValueError(f"{folder / INDEX_FILE}: weight_map names no tensor")
  names_by_file: dict[pathlib.Path, list[str]] = {}
  for name, file in weight_map.items():
    # As links: the hub's cache consists of them.
    path = folder.joinpath(*files.split_name(folder, file))
    names_by_file.setdefault(path, []).append(name)
  missing = sorted(path.name for path in names_by_file if not path.is_file())
  if missing:
    raise FileNotFoundError(
      f"{folder / INDEX_FILE} names files that are not there: "
      f"{', '.join(missing)}"
    )
  return names_by_file


def read_tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns all tensors of a safetensors file by name."""
  if not path.is_file():
    raise FileNotFoundError(f"no {path.name} in {path.parent}")
  with _open_weights(path) as weights:
    tensors = {
      name: weights.get_tensor(name)
      for name in weights.keys()  # noqa: SIM118
    }
  for name, tensor in tensors.items():
    _check_finite(path, name, tensor)
  return tensors


def _check_finite(path: pathlib.Path, name: str, tensor: np.ndarray) -> None:
  """Raises ValueError if a tensor has values that no training recovers from."""
  if not np.isfinite(tensor).all():
    raise ValueError(f"{path}: {name} holds NaN or infinity")


def _open_weights(path: pathlib.Path) -> Any:
  try:
    return safetensors.safe_open(str(path), framework="numpy")
  except safetensors.SafetensorError as error:
    raise ValueError(
      f"{path} is truncated or not a safetensors file: {error}"
    ) from error


def write_tensors(
  folder: pathlib.Path,
  tensors: Mapping[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]],
  max_shard_bytes: int,
) -> None:
  """Writes model.safetensors, or shards and their index.

  Every file appears whole or not at all, the index last. A tensor is its shape
  and a function that returns it, called when its file is written.
  """
  folder.mkdir(parents=True, exist_ok=True)
  split = huggingface_hub.split_state_dict_into_shards_factory(
    {name: shape for name, (shape, _) in tensors.items()},
    get_storage_size=lambda shape: 4 * math.prod(shape),  # fp32
    filename_pattern="model{suffix}.safetensors",
    max_shard_size=max_shard_bytes,
  )
  for file, names in split.filename_to_tensors.items():
    write_tensor_file(
      folder / file, {name: tensors[name][1]() for name in names}
    )
  if split.is_sharded:
    index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    files.write_text(folder / INDEX_FILE, json.dumps(index, indent=2) + "\n")


def write_tensor_file(
  path: pathlib.Path, tensors: dict[str, np.ndarray]
) -> None:
  """Writes a file of tensors, whole or not at all."""
  with files.atomic_path(path) as temporary:
    # transformers refuses a file without the format in its metadata.
    safetensors_numpy.save_file(tensors, temporary, metadata={"format": "pt"})


# Geometry of published encoders: their config.json and our configurations.
#
# transformers reads config.json with its older spellings and defaults. This
# module maps its fields to ours, and back.


EncoderConfig = BertConfig | DecoderConfig

_DISTILBERT = "distilbert"
_XLMR = ("xlm-roberta", "roberta", "camembert")
_BERTS = ("bert", _DISTILBERT, *_XLMR)
_DECODERS = ("qwen3", "qwen2", "mistral")
# Our field -> the field of config.json.
_BERT_FIELDS = {
  "vocab_size": "vocab_size",
  "hidden_size": "hidden_size",
  "num_layers": "num_hidden_layers",
  "num_heads": "num_attention_heads",
  "mlp_size": "intermediate_size",
  "dropout": "hidden_dropout_prob",
  "attention_dropout": "attention_probs_dropout_prob",
  "type_vocab_size": "type_vocab_size",
  "layer_norm_eps": "layer_norm_eps",
  "initializer_range": "initializer_range",
}
_DISTILBERT_FIELDS = {
  "vocab_size": "vocab_size",
  "hidden_size": "dim",
  "num_layers": "n_layers",
  "num_heads": "n_heads",
  "mlp_size": "hidden_dim",
  "dropout": "dropout",
  "attention_dropout": "attention_dropout",
  "initializer_range": "initializer_range",
}
_DECODER_FIELDS = {
  "vocab_size": "vocab_size",
  "hidden_size": "hidden_size",
  "num_layers": "num_hidden_layers",
  "num_heads": "num_attention_heads",
  "num_kv_heads": "num_key_value_heads",
  "mlp_size": "intermediate_size",
  "rms_norm_eps": "rms_norm_eps",
  "attention_dropout": "attention_dropout",
  "initializer_range": "initializer_range",
}
# Values of config.json that our arithmetic covers, by field.
_BERT_VALUES = {
  "hidden_act": ("gelu",),
  "position_embedding_type": ("absolute", None),
  "is_decoder": (False,),
}
_DISTILBERT_VALUES = {"activation": ("gelu",)}
_DECODER_VALUES = {
  "hidden_act": ("silu",),
  "attention_bias": (False, None),
  "use_sliding_window": (False, None),
}


def read_encoder_config(
  folder: pathlib.Path, **overrides: Any
) -> EncoderConfig:
  """Returns the geometry of the model in a folder.

  Args:
    **overrides: fields of our configuration that weights do not fix, such as
    dtype and dropout.
  """
  # Imported here: it takes a second, and only published folders need it.
  import transformers

  path = folder / CONFIG_FILE
  kind = read_json(path).get("model_type")
  if kind not in (*_BERTS, *_DECODERS):
    raise ValueError(
      f"{path}: model_type {kind!r} has another architecture; expected one "
      f"of {', '.join((*_BERTS, *_DECODERS))}"
    )
  try:
    published = transformers.AutoConfig.from_pretrained(
      str(folder), trust_remote_code=False, local_files_only=True
    )
    make_config = _make_bert if kind in _BERTS else _make_decoder
    config = make_config(published)
  except Exception as error:  # what it raises of bad fields shares no base
    reason = " ".join(str(error).split())
    raise ValueError(f"{path}: {reason}") from error
  field_names = {field.name for field in dataclasses.fields(config)}
  unknown_names = sorted(overrides.keys() - field_names)
  if unknown_names:
    raise ValueError(f"{path}: a {kind} has no {', '.join(unknown_names)}")
  return dataclasses.replace(config, **overrides)


def _read_fields(
  published: Any, names: dict[str, str], values: dict[str, tuple[Any, ...]]
) -> dict[str, Any]:
  """Returns our fields; raises ValueError if the model computes otherwise."""
  for name, allowed in values.items():
    value = getattr(published, name, allowed[0])
    if value not in allowed:
      raise ValueError(f"{name}={value!r} is not supported, only {allowed}")
  return {ours: getattr(published, theirs) for ours, theirs in names.items()}


def _make_bert(published: Any) -> BertConfig:
  max_length = published.max_position_embeddings
  if published.model_type == _DISTILBERT:
    fields = _read_fields(published, _DISTILBERT_FIELDS, _DISTILBERT_VALUES)
    # It has no table of segments.
    return BertConfig(**fields, type_vocab_size=0, max_length=max_length)
  fields = _read_fields(published, _BERT_FIELDS, _BERT_VALUES)
  offset = 0
  if published.model_type in _XLMR:
    # Their positions are counted from the row after the pad token's.
    offset = published.pad_token_id + 1
  return BertConfig(
    **fields, position_offset=offset, max_length=max_length - offset
  )


def _make_decoder(published: Any) -> DecoderConfig:
  kind = published.model_type
  fields = _read_fields(published, _DECODER_FIELDS, _DECODER_VALUES)
  rope = published.rope_parameters
  if rope["rope_type"] != "default":
    raise ValueError(f"rope_type={rope['rope_type']!r} is not supported")
  max_length = published.max_position_embeddings
  layer_types = {"full_attention"}
  if kind == "mistral" and published.sliding_window:
    # Shorter texts never reach beyond the window, where sliding attention is
    # full attention.
    max_length = min(max_length, published.sliding_window)
    layer_types.add("sliding_attention")
  if set(getattr(published, "layer_types", None) or ()) - layer_types:
    raise ValueError(f"layer_types={published.layer_types} is not supported")
  heads = fields["num_heads"]
  head_dim = getattr(published, "head_dim", None)
  fields["num_kv_heads"] = fields["num_kv_heads"] or heads
  return DecoderConfig(
    **fields,
    head_dim=head_dim or fields["hidden_size"] // heads,
    max_length=max_length,
    qk_norm=kind == "qwen3",
    qkv_bias=kind == "qwen2",
    causal=getattr(published, "is_causal", True),
    rope_theta=rope["rope_theta"],
  )


def write_encoder_config(folder: pathlib.Path, config: EncoderConfig) -> None:
  """Writes the config.json that `read_encoder_config` and others read.

  What weights do not fix, as dtype and scan_layers, is not written.
  """
  if isinstance(config, DecoderConfig):
    content, names = _describe_decoder(config), _DECODER_FIELDS
  else:
    content, names = _describe_bert(config)
  content |= {theirs: getattr(config, ours) for ours, theirs in names.items()}
  text = json.dumps(content, indent=2, sort_keys=True)
  files.write_text(folder / CONFIG_FILE, text + "\n")


def _describe_bert(config: BertConfig) -> tuple[dict[str, Any], dict[str, str]]:
  """Returns the fields that we do not have, and the names of those we have."""
  offset = config.position_offset
  if not config.type_vocab_size:
    kind, name, activation = _DISTILBERT, "DistilBert", "activation"
  elif offset:
    kind, name, activation = "xlm-roberta", "XLMRoberta", "hidden_act"
  else:
    kind, name, activation = "bert", "Bert", "hidden_act"
  content = {
    activation: "gelu",
    "architectures": [f"{name}Model"],
    "max_position_embeddings": config.max_length + offset,
    "model_type": kind,
    "pad_token_id": max(offset - 1, 0),  # from which XLM-R counts positions
  }
  return content, _DISTILBERT_FIELDS if kind == _DISTILBERT else _BERT_FIELDS


def _describe_decoder(config: DecoderConfig) -> dict[str, Any]:
  """Returns the fields that we do not have."""
  if config.qk_norm and config.qkv_bias:
    raise ValueError("no published architecture has both qk_norm and qkv_bias")
  kind, name = "mistral", "Mistral"
  if config.qk_norm:
    kind, name = "qwen3", "Qwen3"
  elif config.qkv_bias:
    kind, name = "qwen2", "Qwen2"
  return {
    "architectures": [f"{name}Model"],
    "head_dim": config.head_dim,
    "hidden_act": "silu",
    "is_causal": config.causal,
    "max_position_embeddings": config.max_length,
    "model_type": kind,
    "rope_parameters": {
      "rope_theta": config.rope_theta,
      "rope_type": "default",
    },
    "rope_theta": config.rope_theta,  # where libraries older than v5 look
    "sliding_window": None,  # texts are never longer, see above
    "tie_word_embeddings": True,
  }
