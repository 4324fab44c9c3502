"""Geometry of published encoders: their config.json and our configurations.

transformers reads config.json with its older spellings and defaults. This
module maps its fields to ours, and back.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.utils import files

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
    folder: with a config.json.
    **overrides: fields of our configuration that weights do not fix, such as
    dtype and dropout.

  Raises:
    FileNotFoundError: if there is no config.json.
    ValueError: naming the field with an unsupported value, or the override that
      the configuration does not have.
  """
  # Imported here: it takes a second, and only published folders need it.
  import transformers

  path = folder / hub_folders.CONFIG_FILE
  kind = hub_folders.read_json(path).get("model_type")
  if kind not in (*_BERTS, *_DECODERS):
    raise ValueError(
      f"{path}: model_type {kind!r} is of another architecture; expected one "
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

  Raises:
    ValueError: if no published architecture has this geometry.
  """
  if isinstance(config, DecoderConfig):
    content, names = _describe_decoder(config), _DECODER_FIELDS
  else:
    content, names = _describe_bert(config)
  content |= {theirs: getattr(config, ours) for ours, theirs in names.items()}
  text = json.dumps(content, indent=2, sort_keys=True)
  files.write_text(folder / hub_folders.CONFIG_FILE, text + "\n")


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
    raise ValueError(
      "qk_norm and qkv_bias together are no published architecture"
    )
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
