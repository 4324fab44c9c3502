"""Export of an encoder in the layout of sentence-transformers."""

from __future__ import annotations

import pathlib
from typing import Any

from ctd_jax.models.pretrained import state_dict, vector_settings
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.models.tokenizer import TextTokenizer


def export_encoder(
  folder: pathlib.Path,
  config: EncoderConfig,
  params: Any,
  tokenizer: TextTokenizer,
  pooling: str,
  query: SideSettings,
  record: SideSettings,
) -> None:
  """Writes an encoder, its tokenizer and how its vectors are made.

  Other libraries then compute the `semantic` vectors: of unit length, without
  calendar context. One that knows a single length takes the longer of both.

  Args:
    folder: made if needed.
    config: geometry.
    params: of `config.make_encoder()`.
    tokenizer: of the encoder.
    pooling: "cls", "mean" or "last".
    query: prefix and length of queries; both sides have a length.
    record: the same for records.
  """
  state_dict.save_encoder(folder, config, params)
  tokenizer.save(folder, max(query.max_length, record.max_length))
  settings = VectorSettings(pooling, True, query, record)
  vector_settings.write_vector_settings(folder, settings, config.hidden_size)
