"""Export of an encoder as a folder that other libraries load.

The folder has the layout of sentence-transformers, for search engines and
notebooks that do not use ctd_jax.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from ctd_jax.models.pretrained import state_dict
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.utils import files

_MODULE = "sentence_transformers.models"
_POOLING_FIELDS = {
  "cls": "pooling_mode_cls_token",
  "mean": "pooling_mode_mean_tokens",
  "last": "pooling_mode_lasttoken",
}


def export_encoder(
  folder: pathlib.Path,
  config: EncoderConfig,
  params: Any,
  tokenizer: TextTokenizer,
  pooling: str,
  max_length: int,
  query_prefix: str = "",
  record_prefix: str = "",
) -> None:
  """Writes an encoder, its tokenizer and the pooling of its states.

  Other libraries then compute the `semantic` vectors: of unit length, without
  calendar context.

  Args:
    folder: made if needed.
    config: geometry.
    params: of `config.make_encoder()`.
    tokenizer: of the encoder.
    pooling: "cls", "mean" or "last".
    max_length: tokens read of a text.
    query_prefix: put before a query.
    record_prefix: put before a record.
  """
  state_dict.save_encoder(folder, config, params)
  tokenizer.export(folder, max_length)
  # A pipeline of three modules, each with its folder; the first has the root.
  names = ("Transformer", "Pooling", "Normalize")
  paths = ("", "1_Pooling", "2_Normalize")
  modules = [
    {"idx": i, "name": str(i), "path": path, "type": f"{_MODULE}.{name}"}
    for i, (name, path) in enumerate(zip(names, paths, strict=True))
  ]
  # One boolean for each pooling, of which exactly one is true.
  pooling_fields = {
    field: kind == pooling for kind, field in _POOLING_FIELDS.items()
  }
  for name, content in (
    ("modules.json", modules),
    (
      "1_Pooling/config.json",
      {"word_embedding_dimension": config.hidden_size, **pooling_fields},
    ),
    ("sentence_bert_config.json", {"max_seq_length": max_length}),
    (
      "config_sentence_transformers.json",
      {
        "prompts": {"query": query_prefix, "document": record_prefix},
        "similarity_fn_name": "cosine",
      },
    ),
  ):
    text = json.dumps(content, ensure_ascii=False, indent=2)
    files.write_text(folder / name, text + "\n")
  # The module has no settings, but its folder is looked for.
  (folder / "2_Normalize").mkdir(exist_ok=True)
