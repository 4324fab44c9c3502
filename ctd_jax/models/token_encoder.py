"""A published encoder of tokens, frozen: texts in, a vector for each token out.

Why: late interaction compares tokens, not texts. Any encoder that
`text_encoder` opens will do; one that was trained for it brings, in the layout
of sentence-transformers and PyLate, a linear projection (the modules named
Dense in modules.json), and in config_sentence_transformers.json markers,
lengths, whether queries are filled up with mask tokens (query expansion) and
which tokens of a record do not count. What the folder declares holds unless
the caller says otherwise. Called by `retrieval.late_interaction`.

Axes: N texts, L tokens, W width of a vector.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from ctd_jax.models import tokenizer
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.models.text_encoder import TextEncoder, bucket_length

SETTINGS_FILE = "config_sentence_transformers.json"
MODULES_FILE = "modules.json"
# Source: PyLate, what a checkpoint that declares no length is read with.
QUERY_LENGTH, RECORD_LENGTH = 32, 180
_WEIGHT, _BIAS = "linear.weight", "linear.bias"


class TokenVectors(NamedTuple):
  """Texts as several vectors each.

  Attributes:
    vectors: fp32 [N, L, W] of length 1, zero where the mask is 0.
    mask: bool [N, L], whether a vector counts.
  """

  vectors: np.ndarray
  mask: np.ndarray


@dataclasses.dataclass(frozen=True)
class SideSettings:
  """How the texts of one side are read.

  Attributes:
    prefix: before every text.
    length: tokens read of a text, special ones included.
    filler_id: id of the token that every text is filled up to `length` with, and
      which counts like any other; None = texts stay as they are.
    attends_to_filler: whether the others attend to these.
    skipped_ids: ids of tokens that do not count.
  """

  prefix: str
  length: int
  filler_id: int | None = None
  attends_to_filler: bool = False
  skipped_ids: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class TokenEncoder:
  """Weights, tokenizer and projection; `load` makes one.

  Attributes:
    encoder: the published encoder.
    projection: (kernel, bias) of its linear layers, in order; none = the
      vectors are the encoder's last states.
    query: how queries are read.
    record: how records are read.
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
    """Returns the encoder in a folder, or of a hub id.

    Args:
      source: see `TextEncoder.load`.
      query_prefix: before every query; None = what the folder declares, else
        nothing. Likewise the others.
      record_prefix: before every record.
      query_length: tokens read of a query; else `QUERY_LENGTH`.
      record_length: tokens read of a record; else `RECORD_LENGTH`.

    Raises:
      FileNotFoundError: if the folder or one of its files is missing.
      ValueError: if a file does not fit or declares what is not read here.
    """
    folder = hub_folders.find_model_folder(source)
    encoder = TextEncoder.load(folder, pooling="mean")
    path = folder / SETTINGS_FILE
    settings = hub_folders.read_json(path) if path.is_file() else {}

    def choose_setting(argument: Any, field: str, default: Any) -> Any:
      return settings.get(field, default) if argument is None else argument

    words = settings.get("skiplist_words") or ()
    word_ids = [encoder.tokenizer.token_id(word) for word in words]
    query = SideSettings(
      choose_setting(query_prefix, "query_prefix", ""),
      choose_setting(query_length, "query_length", QUERY_LENGTH),
      _find_filler_id(folder, encoder, settings),
      bool(settings.get("attend_to_expansion_tokens")),
    )
    record = SideSettings(
      choose_setting(record_prefix, "document_prefix", ""),
      choose_setting(record_length, "document_length", RECORD_LENGTH),
      skipped_ids=tuple(index for index in word_ids if index is not None),
    )
    for side in (query, record):
      if not 1 <= side.length <= encoder.config.max_length:
        raise ValueError(
          f"a length of {side.length} tokens: {folder} takes 1 to "
          f"{encoder.config.max_length}"
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
    """Returns the vectors of texts, those of similar length together.

    Args:
      texts: N texts.
      side: `query` or `record`.
      batch_size: texts a step.
      pad_to_longest: whether all are padded to the longest.

    Returns:
      (rows, vectors) for each padded length: the rows of all are 0 ... N - 1.
    """
    inputs, lengths = self._tokenize_texts(texts, side)
    sizes = np.full_like(lengths, lengths.max())
    if not pad_to_longest:
      sizes = np.array(
        [bucket_length(length, side.length) for length in lengths]
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
    """Returns (ids, what is attended to, what counts) [N, L], and lengths."""
    ids, attention_mask = self.encoder.tokenizer.encode(
      texts, side.length, prefix=side.prefix
    )
    lengths = attention_mask.sum(axis=1)
    scored_mask = attention_mask.astype(bool) & ~np.isin(ids, side.skipped_ids)
    if side.filler_id is not None:
      ids = np.where(attention_mask, ids, side.filler_id)
      scored_mask |= attention_mask == 0
      lengths[:] = side.length
      if side.attends_to_filler:
        attention_mask = np.ones_like(attention_mask)
    return (ids, attention_mask, scored_mask), lengths

  def _iter_vectors(
    self, group: tuple[np.ndarray, ...], batch_size: int
  ) -> Iterator[np.ndarray]:
    """Yields the vectors of texts of one padded length."""
    count, size = group[0].shape
    for start in tqdm.trange(
      *(0, count, batch_size),
      desc=f"encode, {size} tokens",
      unit="batch",
      delay=2.0,
      disable=None,
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
  ids: jax.Array,
  attention_mask: jax.Array,
  scored_mask: jax.Array,
) -> jax.Array:
  """Returns the vectors of `TokenVectors`."""
  states = config.make_encoder().apply({"params": params}, ids, attention_mask)
  for kernel, bias in projection:
    states = jnp.matmul(states, kernel, precision="highest") + bias
  norms = jnp.linalg.norm(states, axis=-1, keepdims=True)
  return states / jnp.maximum(norms, 1e-12) * scored_mask[:, :, None]


def _find_filler_id(
  folder: pathlib.Path, encoder: TextEncoder, settings: Mapping[str, Any]
) -> int | None:
  """Returns the id of the mask token if queries are to be filled up with it."""
  if not settings.get("do_query_expansion"):
    return None
  path = folder / tokenizer.SETTINGS_FILE
  token = hub_folders.read_json(path).get("mask_token")
  token = token["content"] if isinstance(token, dict) else token
  index = encoder.tokenizer.token_id(token or "")
  if index is None:
    raise ValueError(
      f"{folder / SETTINGS_FILE}: do_query_expansion needs a mask_token in {path}"
    )
  return index


def _read_projection(
  folder: pathlib.Path, width: int
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
  """Returns kernel [in, out] and bias [out] of the folder's linear layers."""
  path = folder / MODULES_FILE
  if not path.is_file():
    return ()
  try:
    modules = json.loads(path.read_text("utf-8"))
    module_paths = [m["path"] for m in modules if m["type"].endswith(".Dense")]
  except (KeyError, TypeError, ValueError):
    raise ValueError(
      f"{path}: expected a list of objects with the fields type and path"
    ) from None
  layers = []
  for name in module_paths:
    layers.append(_read_linear(folder / name, width))
    width = layers[-1][0].shape[1]
  return tuple(layers)


def _read_linear(
  folder: pathlib.Path, width: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns kernel [width, out] and bias [out] of a module Dense."""
  path = folder / hub_folders.CONFIG_FILE
  activation = hub_folders.read_json(path).get("activation_function", "Tanh")
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
  kernel = tensors.read_tensor(_WEIGHT, full_slices).T
  bias = np.zeros(kernel.shape[1], np.float32)
  if _BIAS in tensors.shapes:
    bias = tensors.read_tensor(_BIAS, full_slices[:1])
  return kernel, bias
