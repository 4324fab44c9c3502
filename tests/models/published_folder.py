"""A tiny encoder in the layout of published ones, for tests that load one."""

import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers, processors

from ctd_jax.models import packing
from ctd_jax.models.encoders import bert, decoder
from ctd_jax.models.pretrained import folders, weights

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
DECODERS = {
  "qwen3": {},
  "qwen2": {"qk_norm": False, "qkv_bias": True, "causal": False},
  "mistral": {"qk_norm": False},
}


def write(
  folder: pathlib.Path, texts: list[str], kind: str = "bert"
) -> pathlib.Path:
  """Returns `folder` with random weights and a tokenizer of characters.

  Args:
    folder: made if needed.
    texts: whose characters make the vocabulary.
    kind: "bert" or "xlm-roberta", whose texts are <s> ... </s>, or one of
      `DECODERS`, whose tokenizer adds nothing by itself, as some published
      ones.
  """
  vocabulary = write_tokenizer(folder, texts, ends=kind not in DECODERS)
  if kind in DECODERS:
    sizes = (vocabulary, 16, 2, 2, 1, 8, 24)
    config = decoder.DecoderConfig(*sizes, **DECODERS[kind])
  else:
    offset = 2 if kind == "xlm-roberta" else 0
    config = bert.BertConfig(
      vocabulary, 16, 1, 2, 24, 64, position_offset=offset
    )
  text = jnp.ones((1, 1), jnp.int32)
  init = jax.jit(config.make_encoder().init)
  params = init(jax.random.key(0), text, text)["params"]
  weights.save_encoder(folder, config, params)
  return folder


def load_encoder(source, sharding=None, **overrides):
  """Returns geometry and parameters of a published encoder."""
  folder = folders.find_model_folder(source)
  config = folders.read_encoder_config(folder, **overrides)
  return config, weights.load_params(folder, config, sharding)


def write_tokenizer(
  folder: pathlib.Path,
  texts: list[str],
  ends: bool = True,
  words: tuple[str, ...] = (),
  special: tuple[str, ...] = (),
  **settings,
) -> int:
  """Writes the files of a tokenizer; returns the number of its entries.

  Args:
    folder: made if needed.
    texts: whose characters make the vocabulary.
    ends: whether a text becomes <s> ... </s>.
    words: further entries.
    special: special tokens that are recognised inside a text.
    **settings: of tokenizer_config.json.
  """
  folder.mkdir(parents=True, exist_ok=True)
  tokens = (*SPECIAL, *sorted(set("".join(texts))), "<|endoftext|>", *words)
  vocabulary = {token: index for index, token in enumerate(tokens)}
  tokenizer = tokenizers.Tokenizer(
    models.WordLevel(vocabulary, unk_token="<unk>")
  )
  tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
  if ends:
    tokenizer.post_processor = processors.TemplateProcessing(
      single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
  tokenizer.add_special_tokens(list(special))
  # As published files do, which is not what a caller asks for.
  tokenizer.enable_padding(length=8, pad_token="<pad>")
  tokenizer.enable_truncation(5)
  tokenizer.save(str(folder / "tokenizer.json"))
  settings = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "tokenizer_class": "PreTrainedTokenizerFast",
  } | settings
  (folder / "tokenizer_config.json").write_text(json.dumps(settings))
  return tokenizer.get_vocab_size()


@functools.cache
def _make_forward(config):
  return jax.jit(config.make_encoder().apply, static_argnames="mutable")


def list_states(config, params, ids, mask):
  """Returns the states before the first layer and after each, [S, B, L, D]."""
  hidden, intermediates = _make_forward(config)(
    {"params": params}, ids, mask, mutable="intermediates"
  )
  intermediates = intermediates["intermediates"]
  entering = intermediates.get("embeddings", intermediates)["states"][0]
  if config.scan_layers:
    between = list(intermediates["layers"]["states"][0])
  else:
    between = [
      intermediates[f"layer_{i}"]["states"][0] for i in range(config.num_layers)
    ]
  return np.stack([entering, *between[:-1], hidden])


def pool_tokens(token_states, mask, kind):
  """Returns one vector per row of one text; padding may be on either side."""
  return packing.pool_texts(token_states, mask.astype("int32"), kind, 1)[:, 0]
