"""Geometry of published encoders: their config.json and our configurations.

One module of ours covers a family of published architectures. This module
states which switch stands for which architecture, in both directions.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import msgspec

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
# Sliding attention is full attention here: no text is longer than Mistral's
# window, see `_make_decoder_config`.
_LAYER_TYPES = {
  "qwen3": _FULL_ATTENTION,
  "qwen2": _FULL_ATTENTION,
  "mistral": _FULL_ATTENTION | {"sliding_attention"},
}


class _AnyJson(msgspec.Struct):
  """The field of config.json that names the architecture."""

  model_type: str | None = None


# Fields of config.json that are read, with the values that the published
# configurations take where a field is absent.
class _BertJson(msgspec.Struct, kw_only=True):
  """config.json of a BERT or of the XLM-R family."""

  model_type: str
  vocab_size: int
  hidden_size: int
  num_hidden_layers: int
  num_attention_heads: int
  intermediate_size: int
  max_position_embeddings: int
  hidden_act: str = "gelu"
  position_embedding_type: str | None = "absolute"
  is_decoder: bool = False
  pad_token_id: int = 1
  hidden_dropout_prob: float = 0.1
  attention_probs_dropout_prob: float = 0.1
  type_vocab_size: int = 2
  layer_norm_eps: float = 1e-12
  initializer_range: float = 0.02


class _DistilBertJson(msgspec.Struct, kw_only=True):
  """config.json of a DistilBERT, whose fields have names of their own."""

  vocab_size: int
  dim: int
  n_layers: int
  n_heads: int
  hidden_dim: int
  max_position_embeddings: int
  activation: str = "gelu"
  dropout: float = 0.1
  attention_dropout: float = 0.1
  initializer_range: float = 0.02


class _RopeJson(msgspec.Struct, kw_only=True):
  """Rotary positions: rope_parameters, formerly rope_scaling."""

  rope_type: str = "default"
  type: str = "default"  # older name of rope_type
  rope_theta: float | None = None


class _DecoderJson(msgspec.Struct, kw_only=True):
  """config.json of a Qwen3, Qwen2 or Mistral."""

  model_type: str
  vocab_size: int
  hidden_size: int
  num_hidden_layers: int
  num_attention_heads: int
  intermediate_size: int
  max_position_embeddings: int
  num_key_value_heads: int | None = None  # as many as query heads
  head_dim: int | None = None  # hidden_size / num_attention_heads
  hidden_act: str = "silu"
  attention_bias: bool = False
  use_sliding_window: bool = False
  sliding_window: int | None = None
  layer_types: list[str] | None = None
  is_causal: bool = True
  rope_parameters: _RopeJson | None = None
  rope_scaling: _RopeJson | None = None
  rope_theta: float = 10000.0
  rms_norm_eps: float = 1e-6
  attention_dropout: float = 0.0
  initializer_range: float = 0.02


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
    ValueError: naming the field that is missing, of another type or of an
      unsupported value, or the override that the configuration lacks.
  """
  path = folder / hub_folders.CONFIG_FILE
  kind = hub_folders.read_json(path, _AnyJson).model_type
  if kind not in MODEL_TYPES:
    raise ValueError(
      f"{path}: model_type {kind!r} is of another architecture; expected one "
      f"of {', '.join(MODEL_TYPES)}"
    )
  schema, make_config = _FAMILIES.get(kind, (_BertJson, _make_bert_config))
  published = hub_folders.read_json(path, schema)
  try:
    config = make_config(published)
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from error
  field_names = {field.name for field in dataclasses.fields(config)}
  unknown_names = sorted(overrides.keys() - field_names)
  if unknown_names:
    raise ValueError(f"{path}: a {kind} has no {', '.join(unknown_names)}")
  return dataclasses.replace(config, **overrides)


def _expect(published: msgspec.Struct, field: str, *allowed: Any) -> None:
  """Refuses a value that would need other arithmetic than ours."""
  value = getattr(published, field)
  if value not in allowed:
    raise ValueError(f"{field}={value!r} is not supported, only {allowed}")


def _make_bert_config(published: _BertJson) -> BertConfig:
  _expect(published, "hidden_act", "gelu")
  _expect(published, "position_embedding_type", "absolute", None)
  _expect(published, "is_decoder", False)
  offset = 0
  if published.model_type in _XLMR:
    # Their positions are counted from the row after the pad token's.
    offset = published.pad_token_id + 1
  return BertConfig(
    vocab_size=published.vocab_size,
    hidden_size=published.hidden_size,
    num_layers=published.num_hidden_layers,
    num_heads=published.num_attention_heads,
    mlp_size=published.intermediate_size,
    max_length=published.max_position_embeddings - offset,
    dropout=published.hidden_dropout_prob,
    attention_dropout=published.attention_probs_dropout_prob,
    position_offset=offset,
    type_vocab_size=published.type_vocab_size,
    layer_norm_eps=published.layer_norm_eps,
    initializer_range=published.initializer_range,
  )


def _make_distilbert_config(published: _DistilBertJson) -> BertConfig:
  _expect(published, "activation", "gelu")
  return BertConfig(
    vocab_size=published.vocab_size,
    hidden_size=published.dim,
    num_layers=published.n_layers,
    num_heads=published.n_heads,
    mlp_size=published.hidden_dim,
    max_length=published.max_position_embeddings,
    dropout=published.dropout,
    attention_dropout=published.attention_dropout,
    type_vocab_size=0,  # no table of segments
    initializer_range=published.initializer_range,
  )


def _make_decoder_config(published: _DecoderJson) -> DecoderConfig:
  _expect(published, "hidden_act", "silu")
  _expect(published, "attention_bias", False)
  _expect(published, "use_sliding_window", False)
  rope_theta = published.rope_theta
  for rope in (published.rope_parameters, published.rope_scaling):
    if rope is not None:
      _expect(rope, "rope_type", "default")
      _expect(rope, "type", "default")
      rope_theta = rope.rope_theta or rope_theta
  kind = published.model_type
  if set(published.layer_types or ()) - _LAYER_TYPES[kind]:
    raise ValueError(f"layer_types={published.layer_types} is not supported")
  heads = published.num_attention_heads
  max_length = published.max_position_embeddings
  if kind == "mistral" and published.sliding_window:
    # Shorter texts never reach beyond the window.
    max_length = min(max_length, published.sliding_window)
  return DecoderConfig(
    vocab_size=published.vocab_size,
    hidden_size=published.hidden_size,
    num_layers=published.num_hidden_layers,
    num_heads=heads,
    num_kv_heads=published.num_key_value_heads or heads,
    head_dim=published.head_dim or published.hidden_size // heads,
    mlp_size=published.intermediate_size,
    max_length=max_length,
    qk_norm=kind == "qwen3",
    qkv_bias=kind == "qwen2",
    causal=published.is_causal,
    rope_theta=rope_theta,
    rms_norm_eps=published.rms_norm_eps,
    attention_dropout=published.attention_dropout,
    initializer_range=published.initializer_range,
  )


# Schema of config.json and the maker of our configuration, by model_type.
_FAMILIES = {
  _DISTILBERT: (_DistilBertJson, _make_distilbert_config),
  **dict.fromkeys(_DECODERS, (_DecoderJson, _make_decoder_config)),
}


def write_encoder_config(folder: pathlib.Path, config: EncoderConfig) -> None:
  """Writes the config.json that `read_encoder_config` and others read.

  Args:
    folder: of the model.
    config: geometry; what weights do not fix is not written, as dtype and
      scan_layers.

  Raises:
    ValueError: if no published architecture has this geometry.
  """
  describe = _describe_bert
  if isinstance(config, DecoderConfig):
    describe = _describe_decoder
  elif not config.type_vocab_size:
    describe = _describe_distilbert
  text = json.dumps(describe(config), indent=2, sort_keys=True)
  files.write_text(folder / hub_folders.CONFIG_FILE, text + "\n")


def _describe_bert(config: BertConfig) -> dict[str, Any]:
  offset = config.position_offset
  kind, name = ("xlm-roberta", "XLMRoberta") if offset else ("bert", "Bert")
  return {
    "architectures": [f"{name}Model"],
    "attention_probs_dropout_prob": config.attention_dropout,
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
    "pad_token_id": max(offset - 1, 0),  # from which XLM-R counts positions
    "type_vocab_size": config.type_vocab_size,
    "vocab_size": config.vocab_size,
  }


def _describe_distilbert(config: BertConfig) -> dict[str, Any]:
  return {
    "activation": "gelu",
    "architectures": ["DistilBertModel"],
    "attention_dropout": config.attention_dropout,
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


def _describe_decoder(config: DecoderConfig) -> dict[str, Any]:
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
    "attention_dropout": config.attention_dropout,
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
    "sliding_window": None,  # texts are never longer, see above
    "tie_word_embeddings": True,
    "vocab_size": config.vocab_size,
  }
