"""Geometry of published encoders: their config.json and our configurations.

Why: one module of ours covers a family of published architectures; which
switch stands for which is written here and nowhere else. `hf_weights` and
`experiment` are the callers.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from ctd_jax.models import hf_folder
from ctd_jax.models.bert import BertConfig

EncoderConfig = BertConfig

_XLMR = ("xlm-roberta", "roberta", "camembert")
MODEL_TYPES = ("bert", *_XLMR)


def read(folder: pathlib.Path, **overrides: Any) -> EncoderConfig:
  """Returns the geometry of the model in a folder.

  Args:
    folder: with a config.json.
    **overrides: fields of our configuration that weights do not fix, such as
      dtype and dropout.

  Raises:
    FileNotFoundError: if there is no config.json.
    ValueError: if it is of an architecture that none of our modules has, or
      lacks a field.
  """
  path = folder / hf_folder.CONFIG
  published = hf_folder.read_json(path)
  kind = published.get("model_type")
  if kind not in MODEL_TYPES:
    raise ValueError(
      f"{path}: model_type {kind!r} is of another architecture; expected one "
      f"of {', '.join(MODEL_TYPES)}"
    )
  try:
    config = _bert(published)
  except KeyError as error:
    raise ValueError(f"{path}: no field {error}") from error
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from error
  return dataclasses.replace(config, **overrides)


def _expect(published: Mapping[str, Any], field: str, *allowed: Any) -> None:
  """Refuses a value that would need other arithmetic; absent is fine."""
  value = published.get(field, allowed[0])
  if value not in allowed:
    raise ValueError(f"{field}={value!r} is not supported, only {allowed}")


def _bert(published: Mapping[str, Any]) -> BertConfig:
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
