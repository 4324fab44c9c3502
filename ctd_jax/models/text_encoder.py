"""Published text encoder, frozen: texts in, numpy vectors out.

Baselines on frozen features and zero-shot rows need vectors of texts and no
training. Texts are packed to compute their vectors, and sorted by length to
compute the states of their tokens, so that few shapes are compiled.

Axes: N texts, L tokens, D features, B texts of a batch, T texts of a pack.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from jaxtyping import Array, Float, Int

from ctd_jax.models import packing
from ctd_jax.models.packing import POOLINGS, PackedTexts, encode_packed
from ctd_jax.models.pretrained import folders, vector_settings, weights
from ctd_jax.models.pretrained.folders import EncoderConfig
from ctd_jax.models.pretrained.vector_settings import SIDES, VectorSettings
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.utils import output, unicode_text

# Checks of tokenised texts: room after a prefix, cuts, texts that collapse.
#
# A prefix that fills the length, or a length too short for texts to differ,
# makes all queries one text. The training loss falls nevertheless, and every
# measure is 0.
#
# Axes: N texts.


def check_prefix(
  tokenizer: TextTokenizer,
  prefix: str,
  max_length: int,
  prefix_name: str = "prefix",
  length_name: str = "max_length",
) -> None:
  """Checks that a prefix leaves a text at least half of its length.

  Args:
    max_length: tokens read of a text, prefix and special tokens included.
    prefix_name: name of the field or argument, for the error.
  """
  if not prefix:
    return
  (count,) = tokenizer.tokenize([""], max_length, prefix).full_lengths
  if 2 * count > max_length:
    raise ValueError(
      f"{prefix_name}={_shorten(prefix)!r} has {count} tokens and leaves "
      f"{max(max_length - count, 0)} of {length_name}={max_length} to a text; "
      f"expected at least half: shorten the prefix or set {length_name} to "
      f"{2 * count} or more"
    )


def warn_of_cuts(
  full_lengths: Int[np.ndarray, " N"],
  max_length: int,
  texts_name: str,
  length_name: str = "max_length",
) -> None:
  """Warns of texts that are longer than what is read of them."""
  num_cut = int((full_lengths > max_length).sum())
  if num_cut:
    logging.warning(
      "%s: %d of %d are cut at %s=%d tokens; %d would hold them all",
      texts_name,
      num_cut,
      len(full_lengths),
      length_name,
      max_length,
      full_lengths.max(),
    )


def warn_of_collapse(
  texts: Sequence[str], rows: Iterable[Int[np.ndarray, " _"]], texts_name: str
) -> None:
  """Warns of distinct texts with the same tokens, hence the same vector."""
  groups = _group_by_tokens(texts, rows)
  collapsed_groups = [group for group in groups if len(group) > 1]
  if collapsed_groups:
    logging.warning(
      "%s: %d of %d distinct texts have the tokens of another, and no score "
      "tells them apart; %d rows of tokens are left. First: %s",
      texts_name,
      sum(map(len, collapsed_groups)),
      sum(map(len, groups)),
      len(groups),
      " | ".join(map(_shorten, collapsed_groups[0][:2])),
    )


def check_distinct(
  texts: Sequence[str],
  rows: Iterable[Int[np.ndarray, " _"]],
  texts_name: str,
  advice: str,
) -> None:
  """Raises ValueError if most texts cannot be told apart.

  This is the case if the distinct texts have less than half as many distinct
  rows of tokens.
  """
  groups = _group_by_tokens(texts, rows)
  num_texts = sum(map(len, groups))
  if 2 * len(groups) < num_texts:
    raise ValueError(
      f"{texts_name}: {num_texts} distinct texts become {len(groups)} rows of "
      f"tokens, so that most have the vector of another; {advice}"
    )


def _group_by_tokens(
  texts: Sequence[str], rows: Iterable[Int[np.ndarray, " _"]]
) -> list[list[str]]:
  """Returns the distinct texts, those with the same tokens together."""
  groups: dict[bytes, dict[str, None]] = {}
  for text, row in zip(texts, rows, strict=True):
    groups.setdefault(row.tobytes(), {})[text] = None
  return [list(group) for group in groups.values()]


def _shorten(text: str) -> str:
  """Returns the beginning of a text that is too long for a line."""
  return text if len(text) <= 40 else f"{text[:40]}…"


_MIN_BUCKET = 16  # tokens; shorter texts are padded to it


@dataclasses.dataclass(frozen=True)
class TextEncoder:
  """A published encoder with frozen weights; `load` opens one.

  `ctd_jax.TextEncoder` is this class. Vectors do not depend on the order of the
  texts or on the other texts of a batch.

  Example:
    >>> from ctd_jax import TextEncoder
    >>> encoder = TextEncoder.load(
    ...   "tests/golden/text_encoder", pooling="mean", normalize=True
    ... )
    >>> vectors = encoder.encode(["元年春王正月", "夏五月"])
    >>> vectors.shape, vectors.dtype
    ((2, 16), dtype('float32'))
    >>> states, mask = encoder.encode_tokens(["元年春王正月", "夏五月"])
    >>> states.shape, mask.sum(axis=1).tolist()
    ((2, 6, 16), [6, 3])
  """

  config: EncoderConfig  # geometry of the encoder
  params: Any  # its parameters, fp32
  tokenizer: TextTokenizer  # published with it
  pooling: str  # "cls", "mean" or "last"
  normalize: bool  # whether vectors have length 1
  max_length: int  # tokens read of a text
  prefix: str = ""  # put before every text

  def __post_init__(self):
    # Also where `dataclasses.replace` gives another prefix or length.
    check_prefix(self.tokenizer, self.prefix, self.max_length)

  @classmethod
  def load(
    cls,
    source: str | os.PathLike[str],
    *,
    side: str | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
    max_length: int | None = None,
    dtype: str = "float32",
    scan_layers: bool = False,
    prefix: str | None = None,
    end_token: str = "",
  ) -> TextEncoder:
    """Returns the encoder of a folder or a hub id.

    What is None is taken from the folder, which says it in the layout of
    sentence-transformers: modules.json and the files that it names.

    Args:
      source: folder with config.json, model.safetensors and tokenizer.json,
        or a hub id "owner/name".
      side: "query" or "record", whose prefix and length are taken; needed
        where the folder has one for each.
      pooling: "cls" = first token, "mean" = all tokens, "last" = last token.
      normalize: whether vectors get length 1.
      max_length: tokens read of a text; as many as the model takes where the
        folder says nothing.
      dtype: type that the blocks compute in, "float32" or "bfloat16".
      scan_layers: whether one layer is compiled instead of all, which saves
        minutes for deep models.
      prefix: put before every text, e.g. "query: "; none where the folder says
        nothing.
      end_token: token that ends every text; see `TextTokenizer.load`.

    Raises:
      FileNotFoundError: if the folder or one of its files is missing.
      ValueError: if a file does not fit, the tokenizer lacks the token that
        `pooling` reads, the prefix leaves a text less than half of the length,
        or the folder does not say what no argument names.
    """
    if side is not None and side not in SIDES:
      raise ValueError(f"side must be one of {SIDES}, got {side!r}")
    folder = folders.find_model_folder(source)
    declared = VectorSettings()
    if None in (pooling, normalize, max_length, prefix):
      declared = vector_settings.read_vector_settings(
        folder, reads_steps=pooling is None or normalize is None
      )
    pooling = declared.pooling if pooling is None else pooling
    normalize = declared.normalize if normalize is None else normalize
    settings = {"pooling": pooling, "normalize": normalize}
    missing = [f"{name}=" for name, value in settings.items() if value is None]
    if missing:
      raise ValueError(
        f"{folder} does not say how its vectors are made (no "
        f"{vector_settings.MODULES_FILE} with a pooling); give "
        f"{' and '.join(missing)}"
      )
    if pooling not in POOLINGS:
      raise ValueError(f"pooling must be one of {POOLINGS}, got {pooling!r}")
    prefix = declared.choose(folder, side, "prefix", prefix)
    length = declared.choose(folder, side, "max_length", max_length)
    tokenizer, config = read_folder(
      folder, pooling, end_token, dtype=dtype, scan_layers=scan_layers
    )
    max_tokens = config.max_length
    if max_length is not None and not 1 <= max_length <= max_tokens:
      raise ValueError(
        f"max_length {max_length}: {folder} takes 1 to {max_tokens} tokens"
      )
    return cls(
      config,
      weights.load_params(folder, config),
      tokenizer,
      pooling,
      normalize,
      min(length or max_tokens, max_tokens),  # tokenizers may declare more
      prefix,
    )

  @property
  def width(self) -> int:
    """Features D of a vector."""
    return self.config.hidden_size

  def encode(
    self, texts: str | Iterable[str], batch_size: int = 64
  ) -> Float[np.ndarray, "N D"]:
    """Returns one vector for each text, in their order, fp32 [N, D].

    A string is one text: its vectors are [1, D].

    Raises:
      TypeError: if a text is no string.
    """
    texts = unicode_text.list_texts(texts)
    vectors = np.zeros((len(texts), self.width), np.float32)
    tokens = self._tokenize(texts)
    ids, mask = self.tokenizer.pad(tokens, max(map(len, tokens), default=0))
    # Rows may be wider than `max_length`: they hold several texts.
    packed_batches = packing.iter_packed_batches(
      ids, mask, batch_size, 1, self.config.max_length
    )
    forward = _make_packed_forward(self.config, self.pooling)
    with output.Progress(total=len(texts), unit="text", desc="encode") as bar:
      for rows, batch in packed_batches:
        is_text = rows >= 0  # -1 fills up the last batch of a width
        batch_vectors = forward(self.params, batch)
        vectors[rows[is_text]] = np.asarray(batch_vectors)[is_text]
        bar.update(is_text.sum())
    if self.normalize:
      norms = np.linalg.norm(vectors, axis=1, keepdims=True)
      vectors /= np.maximum(norms, 1e-12)  # a zero vector stays zero
    return vectors

  def encode_tokens(
    self, texts: str | Iterable[str], batch_size: int = 64
  ) -> tuple[Float[np.ndarray, "N L D"], Int[np.ndarray, "N L"]]:
    """Returns the last state of every token, and the mask of tokens.

    Returns:
      (states, mask): fp32 [N, L, D], zero where no token stands, and int32
      [N, L], 1 where one does; padded on the right to the longest text.
    """
    texts = unicode_text.list_texts(texts)
    max_tokens = 0
    batches = []
    for rows, states, mask in self.iter_token_states(texts, batch_size):
      batches.append((rows, np.asarray(states), mask))
      max_tokens = max(max_tokens, int(mask.sum(axis=1).max()))
    states = np.zeros((len(texts), max_tokens, self.width), np.float32)
    mask = np.zeros((len(texts), max_tokens), np.int32)
    for rows, batch_states, batch_mask in batches:
      # The last batch repeats rows, and its bucket may exceed the longest text.
      length = min(max_tokens, batch_mask.shape[1])
      mask[rows, :length] = batch_mask[: len(rows), :length]
      states[rows, :length] = batch_states[: len(rows), :length]
    states *= mask[:, :, None]
    return states, mask

  def iter_token_states(
    self, texts: Sequence[str], batch_size: int
  ) -> Iterator[
    tuple[Int[np.ndarray, " _"], Float[Array, "B L D"], Int[np.ndarray, "B L"]]
  ]:
    """Yields states of tokens, texts of similar length together.

    Args:
      batch_size: texts B encoded at once.

    Yields:
      (rows, states, mask): indices of up to B texts, their states fp32
      [B, L, D], and int32 [B, L], 1 where a token stands. Where there are
      fewer than B indices the last text is repeated, so that few shapes are
      compiled.
    """
    tokens = self._tokenize(texts)
    lengths = np.array([len(row) for row in tokens], np.int64)
    order = np.argsort(lengths, kind="stable")
    forward = _make_forward(self.config)
    with output.Progress(total=len(texts), unit="text", desc="encode") as bar:
      for start in range(0, len(texts), batch_size):
        rows = order[start : start + batch_size]
        # A power of two, or the maximum.
        longest = max(int(lengths[rows[-1]]), _MIN_BUCKET)
        columns = min(1 << (longest - 1).bit_length(), self.max_length)
        # The last batch has the shape of the others.
        padded_rows = np.pad(rows, (0, batch_size - len(rows)), mode="edge")
        ids, mask = self.tokenizer.pad(
          [tokens[i] for i in padded_rows], columns
        )
        yield rows, forward(self.params, ids, mask), mask
        bar.update(len(rows))

  def _tokenize(self, texts: Sequence[str]) -> list[Int[np.ndarray, " _"]]:
    """Returns the ids of each text; warns of texts that are cut or collapse."""
    rows, full_lengths = self.tokenizer.tokenize(
      texts, self.max_length, self.prefix
    )
    warn_of_cuts(full_lengths, self.max_length, "texts")
    warn_of_collapse(texts, rows, "texts")
    return rows


def read_folder(
  folder: pathlib.Path, pooling: str, end_token: str = "", **overrides: Any
) -> tuple[TextTokenizer, EncoderConfig]:
  """Returns tokenizer and geometry of a published encoder.

  Args:
    folder: folder with config.json, tokenizer.json and tokenizer_config.json.
    pooling: pooling of its vectors; the tokenizer must add the token that it
      reads.
    end_token: see `TextTokenizer.load`.
    **overrides: see `folders.read_encoder_config`.
  """
  config = folders.read_encoder_config(folder, **overrides)
  tokenizer = TextTokenizer.load(folder, end_token)
  tokenizer.check_pooling(pooling)
  if tokenizer.vocab_size > config.vocab_size:
    raise ValueError(
      f"{folder}: the tokenizer has {tokenizer.vocab_size} entries, the token "
      f"table only {config.vocab_size} rows"
    )
  return tokenizer, config


@functools.lru_cache
def _make_forward(config: EncoderConfig) -> Callable[..., jax.Array]:
  """Returns the jitted `(params, ids, mask) -> states [B, L, D]`."""
  encoder = config.make_encoder()
  # Parameters are arguments: as constants they would be compiled in.
  return jax.jit(lambda params, *args: encoder.apply({"params": params}, *args))


@functools.lru_cache
def _make_packed_forward(
  config: EncoderConfig, pooling: str
) -> Callable[..., jax.Array]:
  """Returns the jitted `(params, texts of one pack) -> vectors [T, D]`."""
  encoder = config.make_encoder()

  @jax.jit
  def forward(params: Any, texts: PackedTexts) -> jax.Array:
    apply = functools.partial(encoder.apply, {"params": params})
    return encode_packed(apply, texts, pooling)[0]  # one pack

  return forward
