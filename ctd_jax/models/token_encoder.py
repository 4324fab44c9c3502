"""Published encoder of tokens, frozen: texts in, a vector for each token out.

Late interaction compares tokens, not texts. Any encoder that `TextEncoder`
opens will do. One that was trained for it has, in the layout of
sentence-transformers and PyLate, a linear projection (the modules named Dense
in modules.json). Its config_sentence_transformers.json declares prefixes,
lengths, whether queries are filled up with mask tokens (query expansion) and
which tokens of a record do not count. A declaration holds unless the caller
overrides it.

Axes: N texts, L tokens, D features of a state or, once projected, of a vector.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models import text_checks, tokenizer
from ctd_jax.models.pretrained import (
  geometry,
  hub_folders,
  vector_settings,
)
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.models.text_encoder import TextEncoder, bucket_length
from ctd_jax.utils import progress

SETTINGS_FILE = vector_settings.PROMPTS_FILE
# Tokens where a checkpoint declares no length. Source: PyLate's defaults.
QUERY_LENGTH, RECORD_LENGTH = 32, 180
_WEIGHT, _BIAS = "linear.weight", "linear.bias"  # of a module Dense

_Value = TypeVar("_Value")


class _Declarations(msgspec.Struct, kw_only=True):
  """Fields of config_sentence_transformers.json that are read."""

  query_prefix: str | None = None
  document_prefix: str | None = None
  query_length: int | None = None
  document_length: int | None = None
  do_query_expansion: bool | None = False
  attend_to_expansion_tokens: bool | None = False
  skiplist_words: list[str] | None = None


class _DenseSettings(msgspec.Struct):
  """Field of a module's config.json that is read; PyTorch's default is Tanh."""

  activation_function: str = "Tanh"


class TokenVectors(NamedTuple):
  """Token vectors of texts.

  Attributes:
    vectors: fp32 [N, L, D] of length 1, zero where the mask is False.
    mask: bool [N, L], whether a vector counts.
  """

  vectors: np.ndarray
  mask: np.ndarray


@dataclasses.dataclass(frozen=True)
class SideSettings:
  """Settings with which queries, or records, are read.

  Attributes:
    prefix: put before every text.
    length: tokens read of a text, special ones included.
    filler_id: id of the token that fills every text up to `length` and counts
      like any other; None = texts are not filled up.
    attends_to_filler: whether the tokens of a text attend to the filler.
    skipped_ids: ids of tokens that do not count.
  """

  prefix: str
  length: int
  filler_id: int | None = None
  attends_to_filler: bool = False
  skipped_ids: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class TokenEncoder:
  """A published encoder of tokens with frozen weights; `load` opens one.

  Attributes:
    encoder: encoder of the states.
    projection: (kernel, bias) of the linear layers, in order; without one the
      vectors are the encoder's last states.
    query: settings of queries.
    record: settings of records.
  """

  encoder: TextEncoder
  projection: tuple[tuple[np.ndarray, np.ndarray], ...]
  query: SideSettings
  record: SideSettings

  @classmethod
  def load(
    cls,
    source: str | os.PathLike[str],
    *,
    query_prefix: str | None = None,
    record_prefix: str | None = None,
    query_length: int | None = None,
    record_length: int | None = None,
  ) -> TokenEncoder:
    """Returns the encoder of a folder or a hub id.

    Arguments that are None take the value that the folder declares, or a
    default.

    Args:
      source: see `TextEncoder.load`.
      query_prefix: put before every query; "" by default.
      record_prefix: put before every record; "" by default.
      query_length: tokens read of a query; `QUERY_LENGTH` by default.
      record_length: tokens read of a record; `RECORD_LENGTH` by default.

    Raises:
      FileNotFoundError: if the folder or one of its files is missing.
      ValueError: if a file does not fit or declares what is not read here.
    """
    folder = hub_folders.find_model_folder(source)
    # Nothing is pooled; "mean" needs no special token. Sides have their own
    # prefix and length.
    encoder = TextEncoder.load(
      folder,
      pooling="mean",
      normalize=False,
      prefix="",
      max_length=geometry.read_encoder_config(folder).max_length,
    )
    path = folder / SETTINGS_FILE
    declared = _Declarations()
    if path.is_file():
      declared = hub_folders.read_json(path, _Declarations)
    words = declared.skiplist_words or ()
    word_ids = [encoder.tokenizer.token_id(word) for word in words]
    query = SideSettings(
      _first_given(query_prefix, declared.query_prefix, ""),
      _first_given(query_length, declared.query_length, QUERY_LENGTH),
      _find_filler_id(folder, encoder, declared),
      bool(declared.attend_to_expansion_tokens),
    )
    record = SideSettings(
      _first_given(record_prefix, declared.document_prefix, ""),
      _first_given(record_length, declared.document_length, RECORD_LENGTH),
      skipped_ids=tuple(index for index in word_ids if index is not None),
    )
    for side in (query, record):
      if not 1 <= side.length <= encoder.config.max_length:
        raise ValueError(
          f"a length of {side.length} tokens: {folder} takes 1 to "
          f"{encoder.config.max_length}"
        )
    for name, side in (("query", query), ("record", record)):
      text_checks.check_prefix(
        encoder.tokenizer,
        side.prefix,
        side.length,
        f"{name}_prefix",
        f"{name}_length",
      )
    return cls(
      encoder,
      _read_projection(folder, encoder.config.hidden_size),
      query,
      record,
    )

  def encode(
    self,
    texts: Sequence[str],
    side: SideSettings,
    batch_size: int = 64,
    pad_to_longest: bool = False,
  ) -> list[tuple[np.ndarray, TokenVectors]]:
    """Returns the vectors of texts, grouped by padded length.

    Args:
      texts: N texts.
      side: `query` or `record`.
      batch_size: texts encoded at once.
      pad_to_longest: whether all texts are padded to the longest, in one group.

    Returns:
      (rows, vectors) of each group; every index 0 ... N - 1 is in one of them.
    """
    inputs, lengths = self._tokenize_texts(texts, side)
    # Padded lengths, of which few are compiled.
    sizes = np.full_like(lengths, lengths.max())
    if not pad_to_longest:
      sizes = np.array(
        [bucket_length(int(length), side.length) for length in lengths]
      )
    groups = []
    for size in np.unique(sizes):
      rows = np.flatnonzero(sizes == size)
      group = tuple(array[rows, :size] for array in inputs)
      vectors = np.concatenate(list(self._iter_vectors(group, batch_size)))
      groups.append((rows, TokenVectors(vectors, group[-1])))
    return groups

  def _tokenize_texts(
    self, texts: Sequence[str], side: SideSettings
  ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Returns (ids, attention mask, scored mask) [N, L], and lengths [N]."""
    rows, full_lengths = self.encoder.tokenizer.tokenize(
      texts, side.length, side.prefix
    )
    name = "queries" if side is self.query else "records"
    text_checks.warn_of_cuts(full_lengths, side.length, name, "length")
    text_checks.warn_of_collapse(texts, rows, name)
    ids, attention_mask = self.encoder.tokenizer.pad(rows, side.length)
    lengths = attention_mask.sum(axis=1)
    scored_mask = attention_mask.astype(bool) & ~np.isin(ids, side.skipped_ids)
    if side.filler_id is not None:
      # Query expansion: the filler takes the columns of the padding and counts,
      # but the text attends to it only where the checkpoint says so.
      ids = np.where(attention_mask, ids, side.filler_id)
      scored_mask |= attention_mask == 0
      lengths[:] = side.length
      if side.attends_to_filler:
        attention_mask = np.ones_like(attention_mask)
    return (ids, attention_mask, scored_mask), lengths

  def _iter_vectors(
    self, group: tuple[np.ndarray, ...], batch_size: int
  ) -> Iterator[Float[np.ndarray, "_ _ _"]]:
    """Yields the vectors of texts of one padded length."""
    count, size = group[0].shape
    for start in progress.Progress(
      range(0, count, batch_size),
      desc=f"encode, {size} tokens",
      unit="batch",
    ):
      # One shape, one compilation: the last row is repeated.
      rows = np.minimum(np.arange(start, start + batch_size), count - 1)
      vectors = _encode_batch(
        self.encoder.config,
        self.encoder.params,
        self.projection,
        *(array[rows] for array in group),
      )
      yield np.asarray(vectors)[: count - start]


@functools.partial(jax.jit, static_argnames="config")
def _encode_batch(
  config: EncoderConfig,
  params: Any,
  projection: Sequence[tuple[jax.Array, jax.Array]],
  ids: Int[Array, "B L"],
  attention_mask: Int[Array, "B L"],
  scored_mask: Bool[Array, "B L"],
) -> Float[Array, "B L D"]:
  """Returns unit vectors of tokens, zero where the scored mask is False."""
  states = config.make_encoder().apply({"params": params}, ids, attention_mask)
  # Accelerators would round the operands.
  for kernel, bias in projection:
    states = jnp.matmul(states, kernel, precision="highest") + bias
  # Unit length per token, so that a product of two is a cosine.
  norms = jnp.linalg.norm(states, axis=-1, keepdims=True)
  return states / jnp.maximum(norms, 1e-12) * scored_mask[:, :, None]


def _first_given(*values: _Value | None) -> _Value | None:
  """Returns the first value that is not None."""
  return next((value for value in values if value is not None), None)


def _find_filler_id(
  folder: pathlib.Path, encoder: TextEncoder, declared: _Declarations
) -> int | None:
  """Returns the id of the mask token if queries are to be filled up with it."""
  if not declared.do_query_expansion:
    return None
  token = hub_folders.read_json(folder / tokenizer.SETTINGS_FILE).get(
    "mask_token"
  )
  if isinstance(token, dict):
    token = token.get("content")
  index = encoder.tokenizer.token_id(token or "")
  if index is None:
    raise ValueError(
      f"{folder / SETTINGS_FILE}: do_query_expansion needs a mask_token in "
      f"{folder / tokenizer.SETTINGS_FILE}"
    )
  return index


def _read_projection(
  folder: pathlib.Path, width: int
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
  """Returns kernel [in, out] and bias [out] of each linear layer."""
  layers = []
  for module in vector_settings.read_modules(folder):
    if module.kind == "Dense":
      layers.append(_read_linear(folder / module.path, width))
      width = layers[-1][0].shape[1]
  return tuple(layers)


def _read_linear(
  folder: pathlib.Path, width: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns kernel [width, out] and bias [out] of a module Dense."""
  path = folder / hub_folders.CONFIG_FILE
  settings = hub_folders.read_json(path, _DenseSettings)
  activation = settings.activation_function
  # Written as a dotted path, torch.nn.modules.linear.Identity.
  if activation.split(".")[-1] != "Identity":
    raise ValueError(
      f"{path}: activation_function {activation}; only Identity is read"
    )
  tensors = hub_folders.TensorFiles(folder)
  shape = tensors.shapes.get(_WEIGHT)
  if (
    shape is None
    or shape[1:] != (width,)
    or set(tensors.shapes) - {_WEIGHT, _BIAS}
  ):
    tensor_shapes = ", ".join(
      f"{k} {v}" for k, v in sorted(tensors.shapes.items())
    )
    raise ValueError(
      f"{folder}: expected {_WEIGHT} of {width} columns and perhaps {_BIAS}; "
      f"there are {tensor_shapes}"
    )
  full_slices = (slice(None), slice(None))
  # Stored [out, in].
  kernel = tensors.read_tensor(_WEIGHT, full_slices).T
  bias = np.zeros(kernel.shape[1], np.float32)
  if _BIAS in tensors.shapes:
    bias = tensors.read_tensor(_BIAS, full_slices[:1])
  return kernel, bias
