"""Names of tensors in published weights, by parameter of our encoders.

Nesting, transposition, layers stacked for a scan and prefixes follow from the
path of the parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.pretrained.geometry import EncoderConfig

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

  Raises:
    ValueError: if the tensors are those of several encoders.
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
