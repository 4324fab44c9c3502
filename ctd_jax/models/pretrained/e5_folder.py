"""Folder of multilingual-e5-small whose vocabulary is cut to some texts.

Of 117 million parameters 96 million are rows of the token table, most for
languages that no text here is in. All pieces of one character and those that
occur in the texts are kept. A character of the training texts that has no piece
gets a new one, which starts as the row of the unknown token: before training
every vector is that of the whole model.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterable

import numpy as np
import tokenizers

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.models.pretrained import (
  e5_package,
  geometry,
  hub_folders,
  vector_settings,
)
from ctd_jax.models.pretrained.e5_package import (
  SPECIAL,
  UNKNOWN,
  PackedModel,
  make_tokenizer,
)
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.models.tokenizer import TextTokenizer

# Before the texts of either side, as the model was trained; likewise mean
# pooling and vectors of length 1.
PREFIXES = ("query: ", "passage: ")
_UNKNOWN_ID = SPECIAL.index(UNKNOWN)
_SETTINGS = {"pad_token": e5_package.PAD, "unk_token": UNKNOWN}


def write_trimmed_model(
  model: PackedModel,
  texts: Iterable[str],
  training_texts: Iterable[str],
  folder: pathlib.Path,
) -> tuple[int, int]:
  """Writes a model folder with the vocabulary of some texts.

  Args:
    model: the whole model.
    texts: texts whose pieces are kept.
    training_texts: texts whose characters without a piece get one.
    folder: made if needed.

  Returns:
    (number of pieces kept, number of pieces added).
  """
  full_tokenizer = make_tokenizer(model.pieces)
  piece_ids = _find_used_pieces(full_tokenizer, model.pieces, texts)
  new_characters = _find_missing_characters(full_tokenizer, training_texts)
  # A new piece costs as much as an unknown character does in a unigram model,
  # so the segmentation of the characters around it does not change.
  score = min(score for _, score in model.pieces) - e5_package.UNKNOWN_PENALTY
  pieces = [model.pieces[i] for i in piece_ids] + [
    (c, score) for c in new_characters
  ]
  rows = np.array(piece_ids + [_UNKNOWN_ID] * len(new_characters))
  config = dataclasses.replace(model.config, vocab_size=len(rows))
  # `partial` binds each tensor; a lambda would see the last of the loop.
  tensors = {
    name: (tensor.shape, functools.partial(np.ascontiguousarray, tensor))
    for name, tensor in model.tensors.items()
  }
  table = e5_package.dequantise_blocks(model.word_embeddings[rows])
  table = table.reshape(len(rows), config.hidden_size)
  tensors["embeddings.word_embeddings.weight"] = table.shape, lambda: table
  hub_folders.write_tensors(folder, tensors, max_shard_bytes=2**40)  # one file
  geometry.write_encoder_config(folder, config)
  trimmed_tokenizer = make_tokenizer(pieces)
  TextTokenizer(trimmed_tokenizer, _SETTINGS).save(folder)
  sides = [SideSettings(prefix, config.max_length) for prefix in PREFIXES]
  vector_settings.write_vector_settings(
    folder, VectorSettings("mean", True, *sides), config.hidden_size
  )
  return len(piece_ids), len(new_characters)


def _find_used_pieces(
  tokenizer: tokenizers.Tokenizer,
  pieces: list[tuple[str, float]],
  texts: Iterable[str],
) -> list[int]:
  """Returns the ids of special pieces, single characters and used pieces."""
  piece_ids = set(range(len(SPECIAL)))
  piece_ids.update(i for i, (piece, _) in enumerate(pieces) if len(piece) == 1)
  for prefix in ("", *PREFIXES):
    prefixed = [prefix + text for text in texts]
    for encoding in tokenizer.encode_batch(prefixed):
      piece_ids.update(encoding.ids)
  return sorted(piece_ids)


def _find_missing_characters(
  tokenizer: tokenizers.Tokenizer, texts: Iterable[str]
) -> list[str]:
  """Returns the characters that the vocabulary lacks, by code point."""
  characters = set()
  for text in texts:
    characters.update(tokenizer.normalizer.normalize_str(text))
  return sorted(
    c for c in characters if not c.isspace() and _is_unknown(tokenizer, c)
  )


def _is_unknown(tokenizer: tokenizers.Tokenizer, character: str) -> bool:
  ids = tokenizer.encode(character, add_special_tokens=False).ids
  return _UNKNOWN_ID in ids


def collect_texts(benchmark: Benchmark) -> tuple[list[str], list[str]]:
  """Returns all texts of a data set, and those of its training split."""
  texts = [record.text for record in benchmark.records]
  training_texts = [
    text
    for text, split in zip(texts, benchmark.record_splits, strict=True)
    if split == "train"
  ]
  training_texts += [query.text for query in benchmark.queries["train"]]
  query_texts = [
    q.text for queries in benchmark.queries.values() for q in queries
  ]
  return texts + query_texts, training_texts
