"""Geometry of published encoders: their config.json and our configurations.

Why: one module of ours covers a family of published architectures; which
switch stands for which is written here and nowhere else. `hf_weights` and
`experiment` are the callers.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.utils import files

EncoderConfig = BertConfig | DecoderConfig

_XLMR = ("xlm-roberta", "roberta", "camembert")
_DECODERS = ("qwen3", "qwen2", "mistral")
_DISTILBERT = "distilbert"
MODEL_TYPES = ("bert", _DISTILBERT, *_XLMR, *_DECODERS)
_FULL_ATTENTION = frozenset({"full_attention"})
# No text is longer than Mistral's window, see `_decoder`.
_LAYER_TYPES = {
  "qwen3": _FULL_ATTENTION,
  "qwen2": _FULL_ATTENTION,
  "mistral": _FULL_ATTENTION | {"sliding_attention"},
}
_DEFAULT_ROPE_THETA = 10000.0  # of the rotary periods where nothing is said


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
    ValueError: if it is of an architecture that none of our modules has,
      lacks a field, or has none that an override names.
  """
  path = folder / hub_folders.CONFIG_FILE
  published = hub_folders.read_json(path)
  kind = published.get("model_type")
  if kind not in MODEL_TYPES:
    raise ValueError(
      f"{path}: model_type {kind!r} is of another architecture; expected one "
      f"of {', '.join(MODEL_TYPES)}"
    )
  try:
    config = _CONFIG_MAKERS.get(kind, _bert_config)(published)
  except KeyError as error:
    raise ValueError(f"{path}: no field {error}") from error
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from error
  field_names = {field.name for field in dataclasses.fields(config)}
  if overrides.keys() - field_names:
    raise ValueError(
      f"{path}: a {kind} has no {', '.join(sorted(overrides.keys() - field_names))}"
    )
  return dataclasses.replace(config, **overrides)


def _expect(published: Mapping[str, Any], field: str, *allowed: Any) -> None:
  """Refuses a value that would need other arithmetic; absent is fine."""
  value = published.get(field, allowed[0])
  if value not in allowed:
    raise ValueError(f"{field}={value!r} is not supported, only {allowed}")


def _bert_config(published: Mapping[str, Any]) -> BertConfig:
  _expect(published, "hidden_act", "gelu")
  _expect(published, "position_embedding_type", "absolute", None)
  _expect(published, "is_decoder", False)
  offset = 0
  if published["model_type"] in _XLMR:
    # Their positions are counted from the row after the pad token's.
    offset = published.get("pad_token_id", 1) + 1
  return BertConfig(
    vocab_size=published["vocab_size"],
    hidden_size=published["hidden_size"],
    num_layers=published["num_hidden_layers"],
    num_heads=published["num_attention_heads"],
    mlp_size=published["intermediate_size"],
    max_length=published["max_position_embeddings"] - offset,
    dropout=published.get("hidden_dropout_prob", 0.1),
    position_offset=offset,
    type_vocab_size=published.get("type_vocab_size", 2),
    layer_norm_eps=published.get("layer_norm_eps", 1e-12),
    initializer_range=published.get("initializer_range", 0.02),
  )


def _decoder_config(published: Mapping[str, Any]) -> DecoderConfig:
  _expect(published, "hidden_act", "silu")
  _expect(published, "attention_bias", False)
  _expect(published, "use_sliding_window", False)
  rope = published.get("rope_parameters") or {}
  rope = {**rope, **(published.get("rope_scaling") or {})}
  _expect(rope, "rope_type", "default")
  _expect(rope, "type", "default")
  kind = published["model_type"]
  if set(published.get("layer_types") or ()) - _LAYER_TYPES[kind]:
    raise ValueError(f"layer_types={published['layer_types']} is not supported")
  heads = published["num_attention_heads"]
  max_length = published["max_position_embeddings"]
  if kind == "mistral" and published.get("sliding_window"):
    # Shorter texts never reach beyond the window.
    max_length = min(max_length, published["sliding_window"])
  return DecoderConfig(
    vocab_size=published["vocab_size"],
    hidden_size=published["hidden_size"],
    num_layers=published["num_hidden_layers"],
    num_heads=heads,
    num_kv_heads=published.get("num_key_value_heads") or heads,
    head_dim=published.get("head_dim") or published["hidden_size"] // heads,
    mlp_size=published["intermediate_size"],
    max_length=max_length,
    qk_norm=kind == "qwen3",
    qkv_bias=kind == "qwen2",
    causal=published.get("is_causal", True),
    rope_theta=rope.get("rope_theta")
    or published.get("rope_theta", _DEFAULT_ROPE_THETA),
    rms_norm_eps=published.get("rms_norm_eps", 1e-6),
    initializer_range=published.get("initializer_range", 0.02),
  )


def _distilbert_config(published: Mapping[str, Any]) -> BertConfig:
  """Returns a BERT without segments; its fields have names of their own."""
  _expect(published, "activation", "gelu")
  return BertConfig(
    vocab_size=published["vocab_size"],
    hidden_size=published["dim"],
    num_layers=published["n_layers"],
    num_heads=published["n_heads"],
    mlp_size=published["hidden_dim"],
    max_length=published["max_position_embeddings"],
    dropout=published.get("dropout", 0.1),
    type_vocab_size=0,
    initializer_range=published.get("initializer_range", 0.02),
  )


_CONFIG_MAKERS = {
  _DISTILBERT: _distilbert_config,
  **dict.fromkeys(_DECODERS, _decoder_config),
}


def write_encoder_config(folder: pathlib.Path, config: EncoderConfig) -> None:
  """Writes the config.json that `read` and other libraries read.

  Args:
    folder: of the model.
    config: geometry; how it computes (dtype, scan, remat) is not part of it.
  """
  make_fields = _bert_fields
  if isinstance(config, DecoderConfig):
    make_fields = _decoder_fields
  elif not config.type_vocab_size:
    make_fields = _distilbert_fields
  text = json.dumps(make_fields(config), indent=2, sort_keys=True)
  files.write_text(folder / hub_folders.CONFIG_FILE, text + "\n")


def _bert_fields(config: BertConfig) -> dict[str, Any]:
  offset = config.position_offset
  kind, name = ("xlm-roberta", "XLMRoberta") if offset else ("bert", "Bert")
  return {
    "architectures": [f"{name}Model"],
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": config.dropout,
    "hidden_size": config.hidden_size,
    "initializer_range": config.initializer_range,
    "intermediate_size": config.mlp_size,
    "layer_norm_eps": config.layer_norm_eps,
    "max_position_embeddings": config.max_length + offset,
    "model_type": kind,
    "num_attention_heads": config.num_heads,
    "num_hidden_layers": config.num_layers,
    "pad_token_id": max(offset - 1, 0),
    "type_vocab_size": config.type_vocab_size,
    "vocab_size": config.vocab_size,
  }


def _distilbert_fields(config: BertConfig) -> dict[str, Any]:
  return {
    "activation": "gelu",
    "architectures": ["DistilBertModel"],
    "attention_dropout": 0.0,
    "dim": config.hidden_size,
    "dropout": config.dropout,
    "hidden_dim": config.mlp_size,
    "initializer_range": config.initializer_range,
    "max_position_embeddings": config.max_length,
    "model_type": _DISTILBERT,
    "n_heads": config.num_heads,
    "n_layers": config.num_layers,
    "pad_token_id": 0,
    "vocab_size": config.vocab_size,
  }


def _decoder_fields(config: DecoderConfig) -> dict[str, Any]:
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
    "hidden_size": config.hidden_size,
    "initializer_range": config.initializer_range,
    "intermediate_size": config.mlp_size,
    "is_causal": config.causal,
    "max_position_embeddings": config.max_length,
    "model_type": kind,
    "num_attention_heads": config.num_heads,
    "num_hidden_layers": config.num_layers,
    "num_key_value_heads": config.num_kv_heads,
    "rms_norm_eps": config.rms_norm_eps,
    "rope_parameters": {
      "rope_theta": config.rope_theta,
      "rope_type": "default",
    },
    "rope_theta": config.rope_theta,  # where libraries older than v5 look
    "sliding_window": None,
    "tie_word_embeddings": True,
    "vocab_size": config.vocab_size,
  }
