"""Tokenizer: texts to token ids, by a built vocabulary or a published one.

The small encoder starts from scratch on classical Chinese, where a character is
a good token. Its normaliser drops punctuation: event records are punctuated and
commentary is not, so a model that sees the marks learns the type of a record
from them. A pretrained encoder knows only its own vocabulary, which is read
from its folder unchanged.

Axes: N texts, L tokens.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from jaxtyping import Int
from tokenizers import models, normalizers, pre_tokenizers, processors

from ctd_jax.chronology import glyphs
from ctd_jax.models.pretrained import tokenizer_folder
from ctd_jax.models.pretrained.tokenizer_folder import (
  SETTINGS_FILE,
  TOKENIZER_FILE,
)
from ctd_jax.utils import files

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")  # ids 0, 1, 2, 3
PADDING_SIDES = ("right", "left")
_PAD, _UNK, _CLS, _SEP = SPECIAL_TOKENS
_ENCODE_BATCH_SIZE = 4096  # texts, whose encodings are in memory at once
_DEFAULT_SETTINGS = {"pad_token": _PAD, "unk_token": _UNK}
# Unicode categories of marks that are dropped. U+3007 (zero) and private-use
# characters, which stand for Han characters without a code point, are not.
_MARKS = r"[\p{P}\p{S}\p{Z}\p{Cc}\p{Cf}]"
_BLANKS = r"[\p{Z}\p{Cc}\p{Cf}]"


def _make_normalizer(strip_punctuation: bool) -> normalizers.Normalizer:
  steps = [normalizers.NFC()]  # also folds CJK compatibility ideographs
  for spelling, *variants in glyphs.SPELLING_GROUPS:
    steps += [normalizers.Replace(variant, spelling) for variant in variants]
  marks = _MARKS if strip_punctuation else _BLANKS
  steps.append(normalizers.Replace(tokenizers.Regex(marks), ""))
  return normalizers.Sequence(steps)


class TokenRows(NamedTuple):
  """Tokens of texts, cut to a length.

  Attributes:
    ids: of the tokens that are left, an int32 array for each of N texts.
    full_lengths: tokens that each text has uncut, special ones included [N].
  """

  ids: list[Int[np.ndarray, " _"]]
  full_lengths: Int[np.ndarray, " N"]


class TextTokenizer:
  """A tokenizer that returns arrays of one length.

  `build` makes a character tokenizer from texts: ids 0 to 3 are [PAD], [UNK],
  [CLS] and [SEP], and every text starts with [CLS]. `load` opens a saved or
  published one, which adds the special tokens that its own file names.
  """

  def __init__(
    self,
    tokenizer: tokenizers.Tokenizer,
    settings: Mapping[str, Any] | None = None,
  ):
    """Wraps a tokenizer that neither pads nor truncates by itself.

    Args:
      tokenizer: with its special tokens.
      settings: of a published one: pad_token and, if it has one, unk_token.
    """
    self._tokenizer = tokenizer
    self._settings = settings

  @classmethod
  def build(
    cls,
    texts: Iterable[str],
    strip_punctuation: bool = True,
    extra_tokens: Sequence[str] = (),
  ) -> TextTokenizer:
    """Returns a tokenizer of the characters that occur in `texts`.

    Characters are numbered by falling frequency, then by code point, so the
    same texts in any order give the same vocabulary.

    Args:
      texts: usually the training split of a gallery.
      strip_punctuation: whether marks are dropped; white space always is.
      extra_tokens: stand behind the characters, and are found in a text as
        they are written.

    Raises:
      ValueError: if no character is left.
    """
    normalizer = _make_normalizer(strip_punctuation)
    counts = collections.Counter()
    for text in texts:
      counts.update(normalizer.normalize_str(text))
    characters = sorted(counts, key=lambda c: (-counts[c], c))
    if not characters:
      raise ValueError(
        "no character to build a vocabulary from: the texts are empty"
      )
    tokens = (*SPECIAL_TOKENS, *characters)  # by id
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(
      models.WordLevel(vocabulary, unk_token=_UNK)
    )
    tokenizer.normalizer = normalizer
    # Every character is a word of its own.
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
      tokenizers.Regex("."), "isolated"
    )
    tokenizer.post_processor = processors.TemplateProcessing(
      single=f"{_CLS} $A", special_tokens=[(_CLS, vocabulary[_CLS])]
    )
    tokenizer.add_special_tokens(list(extra_tokens))
    return cls(tokenizer)

  @classmethod
  def load(
    cls, directory: str | os.PathLike[str], end_token: str = ""
  ) -> TextTokenizer:
    """Returns the tokenizer of a folder.

    Args:
      directory: where `save` wrote, or the folder of a published encoder:
        tokenizer.json with tokenizer_config.json.
      end_token: token that ends every text, added where the file does not;
        "" = what the folder says (its add_eos_token).

    Raises:
      FileNotFoundError: if the folder has no tokenizer.json.
      ValueError: if the file is no tokenizer, its vocabulary is empty, or it
        lacks a token that is needed.
    """
    folder = pathlib.Path(directory)
    path = folder / TOKENIZER_FILE
    if not path.is_file():
      raise FileNotFoundError(f"no {TOKENIZER_FILE} in {folder}")
    try:
      tokenizer = tokenizers.Tokenizer.from_str(path.read_text("utf-8"))
    except Exception as error:  # the library raises bare Exception
      raise ValueError(f"{path} is not a tokenizer file: {error}") from error
    if (folder / SETTINGS_FILE).is_file():
      return cls(
        tokenizer,
        tokenizer_folder.adapt_tokenizer(tokenizer, folder, end_token),
      )
    ids = tuple(tokenizer.token_to_id(token) for token in SPECIAL_TOKENS)
    if ids != tuple(range(len(SPECIAL_TOKENS))):
      raise ValueError(
        f"{path}: {', '.join(SPECIAL_TOKENS)} must have ids 0 to 3, got {ids}; "
        f"a published tokenizer has a {SETTINGS_FILE} beside it"
      )
    if tokenizer.get_vocab_size() == len(SPECIAL_TOKENS):
      raise ValueError(f"{path}: the vocabulary has no characters")
    return cls(tokenizer)

  def save(self, directory: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the path of the tokenizer.json written into `directory`.

    The folder is made if needed; each file appears whole or not at all.
    """
    path = pathlib.Path(directory) / TOKENIZER_FILE
    # Settings first: their presence says how the other file is to be read.
    if self._settings is not None:
      text = json.dumps(self._settings, ensure_ascii=False, indent=2)
      files.write_text(path.parent / SETTINGS_FILE, text + "\n")
    files.write_text(path, self._tokenizer.to_str(pretty=True))
    return path

  def export(self, directory: str | os.PathLike[str], max_length: int) -> None:
    """Writes the tokenizer with the settings that transformers reads.

    Args:
      directory: made if needed.
      max_length: tokens that a text is cut to there.
    """
    path = self.save(directory).parent / SETTINGS_FILE
    settings = {
      **(self._settings or _DEFAULT_SETTINGS),
      "model_max_length": max_length,
      "tokenizer_class": "PreTrainedTokenizerFast",
    }
    text = json.dumps(settings, ensure_ascii=False, indent=2)
    files.write_text(path, text + "\n")

  def __len__(self) -> int:
    """Number of entries, special tokens included."""
    return self._tokenizer.get_vocab_size()

  @property
  def vocab_size(self) -> int:
    """Number of entries, special tokens included."""
    return len(self)

  @property
  def fingerprint(self) -> str:
    """A hash of vocabulary and rules: equal means the same token ids."""
    text = self._tokenizer.to_str().encode()
    # 64 bits are plenty to tell a handful of vocabularies apart.
    return hashlib.sha256(text).hexdigest()[:16]

  @property
  def pad_id(self) -> int:
    """Id of the padding token, which the mask hides."""
    return self._tokenizer.token_to_id(
      (self._settings or _DEFAULT_SETTINGS)["pad_token"]
    )

  @property
  def unk_id(self) -> int:
    """Id of the token for unknown characters; -1 where nothing is unknown."""
    token = (self._settings or _DEFAULT_SETTINGS).get("unk_token")
    return -1 if token is None else self._tokenizer.token_to_id(token)

  def token_id(self, token: str) -> int | None:
    """Returns the id of a token, None where the vocabulary lacks it."""
    return self._tokenizer.token_to_id(token)

  @property
  def special_ids(self) -> list[int]:
    """Ids of special tokens, the padding and the unknown one included."""
    added = self._tokenizer.get_added_tokens_decoder()
    special = {index for index, token in added.items() if token.special}
    return sorted(special | {self.pad_id, self.unk_id} - {-1})

  def token_ids(
    self,
    texts: Sequence[str],
    max_length: int,
    prefix: str = "",
    suffix: str = "",
  ) -> list[Int[np.ndarray, " _"]]:
    """Returns the ids of each text; arguments are those of `tokenize`."""
    return self.tokenize(texts, max_length, prefix, suffix).ids

  def tokenize(
    self,
    texts: Sequence[str],
    max_length: int,
    prefix: str = "",
    suffix: str = "",
  ) -> TokenRows:
    """Returns the ids of each text, at most `max_length`, and what was cut.

    Args:
      texts: N texts; an empty one is its special tokens alone.
      max_length: most tokens, special ones included; a longer text loses its
        end, never a special token and nothing of the suffix.
      prefix: put before every text, e.g. `format_instruction(...)`.
      suffix: put behind every text and its special tokens.

    Raises:
      ValueError: if `max_length` leaves no room for special tokens and suffix.
    """
    suffix_ids = self._tokenizer.encode(suffix, add_special_tokens=False).ids
    num_special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
    num_added = num_special + len(suffix_ids)
    min_length = max(num_added, 1)
    if max_length < min_length:
      raise ValueError(
        f"max_length must be at least {min_length}, got {max_length}"
      )
    rows, full_lengths = [], []
    # In batches: the library's encoding of a text is many times its size.
    for start in range(0, len(texts), _ENCODE_BATCH_SIZE):
      encodings = self._tokenizer.encode_batch(
        [prefix + text for text in texts[start : start + _ENCODE_BATCH_SIZE]],
        add_special_tokens=False,
      )
      for encoding in encodings:
        full_lengths.append(len(encoding) + num_added)
        # Not by `enable_truncation`, which is state of the shared tokenizer.
        encoding.truncate(max_length - num_added)
        ids = self._tokenizer.post_process(encoding).ids
        rows.append(np.array(ids + suffix_ids, np.int32))
    return TokenRows(rows, np.array(full_lengths, np.int32))

  def pad(
    self,
    rows: Sequence[Int[np.ndarray, " _"]],
    length: int,
    padding_side: str = "right",
  ) -> tuple[Int[np.ndarray, "N L"], Int[np.ndarray, "N L"]]:
    """Returns ids and mask, both int32 [N, L]; mask is 1 where a token stands.

    Args:
      rows: ids of N texts, at most L each.
      length: L.
      padding_side: "right" or "left".

    Raises:
      ValueError: if `padding_side` is neither.
    """
    if padding_side not in PADDING_SIDES:
      raise ValueError(
        f"padding_side must be one of {PADDING_SIDES}, got {padding_side!r}"
      )
    ids = np.full((len(rows), length), self.pad_id, np.int32)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(rows):
      first = length - len(tokens) if padding_side == "left" else 0
      ids[row, first : first + len(tokens)] = tokens
      mask[row, first : first + len(tokens)] = 1
    return ids, mask

  def encode(
    self,
    texts: Sequence[str],
    max_length: int,
    padding_side: str = "right",
    prefix: str = "",
  ) -> tuple[Int[np.ndarray, "N L"], Int[np.ndarray, "N L"]]:
    """Returns ids and mask of texts, cut or padded to one length.

    Args:
      texts: N texts.
      max_length: tokens L; see `tokenize`, likewise `prefix`.
      padding_side: see `pad`.
      prefix: put before every text.

    Returns:
      (ids, mask), both int32 [N, L]; mask is 1 where a token stands.

    Raises:
      ValueError: if `max_length` is too small or `padding_side` is unknown.
    """
    rows = self.token_ids(texts, max_length, prefix)
    return self.pad(rows, max_length, padding_side)

  def check_pooling(self, pooling: str) -> None:
    """Refuses a pooling whose token the tokenizer does not add.

    Raises:
      ValueError: if "cls" finds no token in front of a text, or "last" none
        behind it.
    """
    leading_tokens, trailing_tokens = tokenizer_folder.find_added_tokens(
      self._tokenizer
    )
    if pooling == "cls" and not leading_tokens:
      raise ValueError(
        "pooling 'cls' reads a token in front of every text, and the tokenizer "
        "adds none; expected pooling 'mean' or 'last'"
      )
    if pooling == "last" and not trailing_tokens:
      raise ValueError(
        "pooling 'last' reads a token behind every text, and the tokenizer "
        "adds none; name the end token of the model, e.g. <|endoftext|>"
      )


def format_instruction(task: str) -> str:
  """Returns the prefix of a query for an encoder trained with instructions.

  Args:
    task: the instruction, one sentence.

  Source: model card of Qwen3-Embedding: no blank after the second colon.
  """
  return f"Instruct: {task}\nQuery:"
