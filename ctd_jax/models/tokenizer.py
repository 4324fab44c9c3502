"""Tokenizer: texts to token ids, by a built vocabulary or a published one.

The small encoder starts from scratch on classical Chinese, where a character is
a good token. Its normaliser drops punctuation: event records are punctuated and
commentary is not, so a model that sees the marks learns the type of a record
from them. A pretrained encoder knows only its own vocabulary, which
transformers reads from its folder.

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

from ctd_jax.chronology import numerals
from ctd_jax.utils import files

TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "tokenizer_config.json"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")  # ids 0, 1, 2, 3
_PAD, _UNK, _CLS, _SEP = SPECIAL_TOKENS
_ENCODE_BATCH_SIZE = 4096  # texts, whose encodings are in memory at once
_VOCABULARY_FILES = (TOKENIZER_FILE, "vocab.*", "*.model")
_AS_SAVED = "PreTrainedTokenizerFast"  # class that takes tokenizer.json as is
# Usual names, where a published tokenizer names none.
_PAD_TOKENS = ("[PAD]", "<pad>")
_UNK_TOKENS = ("[UNK]", "<unk>")
# Unicode categories of marks that are dropped. U+3007 (zero) and private-use
# characters, which stand for Han characters without a code point, are not.
_MARKS = r"[\p{P}\p{S}\p{Z}\p{Cc}\p{Cf}]"


def _make_normalizer() -> normalizers.Normalizer:
  steps = [normalizers.NFC()]  # also folds CJK compatibility ideographs
  for spelling, *variants in numerals.SPELLING_GROUPS:
    steps += [normalizers.Replace(variant, spelling) for variant in variants]
  steps.append(normalizers.Replace(tokenizers.Regex(_MARKS), ""))
  return normalizers.Sequence(steps)


class TokenRows(NamedTuple):
  """Tokens of texts, cut to a length."""

  # Of the tokens that are left, an int32 array for each of N texts.
  ids: list[Int[np.ndarray, " _"]]
  # Tokens that each text has uncut, special ones included [N].
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
    pad_token: str = _PAD,
    unk_token: str | None = _UNK,
  ):
    """Wraps a tokenizer that neither pads nor truncates by itself.

    Args:
      tokenizer: tokenizer with its special tokens.
      unk_token: token for unknown characters; None if every character is known.
    """
    self._tokenizer = tokenizer
    self._pad_token = pad_token
    self._unk_token = unk_token

  @classmethod
  def build(
    cls,
    texts: Iterable[str],
    extra_tokens: Sequence[str] = (),
    max_size: int | None = None,
  ) -> TextTokenizer:
    """Returns a tokenizer of the characters that occur in `texts`.

    Characters are numbered by falling frequency, then by code point, so the
    same texts in any order give the same vocabulary.

    Args:
      texts: usually the training split of a gallery.
      extra_tokens: come after the characters, and are found in a text as
        they are written.
      max_size: most entries, special and extra ones included; the rarest
        characters are then unknown. None = all.
    """
    normalizer = _make_normalizer()
    counts = collections.Counter()
    for text in texts:
      counts.update(normalizer.normalize_str(text))
    characters = sorted(counts, key=lambda c: (-counts[c], c))
    if not characters:
      raise ValueError(
        "no character to build a vocabulary from: the texts are empty"
      )
    if max_size is not None:
      characters = characters[
        : max_size - len((*SPECIAL_TOKENS, *extra_tokens))
      ]
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
      directory: folder that `save` wrote, or a published folder: everything
        that transformers' AutoTokenizer reads, without running code of the
        folder.
      end_token: token that ends every text, added if the tokenizer does not
        add it; "" = leave the tokenizer as it is.
    """
    folder = pathlib.Path(directory)
    built = _read_built_tokenizer(folder / TOKENIZER_FILE)
    if built is not None:
      return cls(built)
    return cls(*_read_published_tokenizer(folder, end_token))

  def save(
    self, directory: str | os.PathLike[str], max_length: int | None = None
  ) -> pathlib.Path:
    """Returns the path of the tokenizer.json written into `directory`.

    The folder is made if needed; each file appears whole or not at all.
    """
    path = pathlib.Path(directory) / TOKENIZER_FILE
    settings = {"pad_token": self._pad_token}
    if self._unk_token is not None:
      settings["unk_token"] = self._unk_token
    if max_length is not None:
      settings["model_max_length"] = max_length
    settings["tokenizer_class"] = _AS_SAVED
    text = json.dumps(settings, ensure_ascii=False, indent=2)
    files.write_text(path.parent / SETTINGS_FILE, text + "\n")
    files.write_text(path, self._tokenizer.to_str(pretty=True))
    return path

  @property
  def vocab_size(self) -> int:
    """Number of entries, special tokens included."""
    return self._tokenizer.get_vocab_size()

  @property
  def fingerprint(self) -> str:
    """A hash of vocabulary and rules: equal means the same token ids."""
    text = self._tokenizer.to_str().encode()
    # 64 bits are plenty to tell a handful of vocabularies apart.
    return hashlib.sha256(text).hexdigest()[:16]

  @property
  def pad_id(self) -> int:
    """Id of the padding token, which the mask hides."""
    return self._tokenizer.token_to_id(self._pad_token)

  @property
  def unk_id(self) -> int:
    """Id of the token for unknown characters; -1 if nothing is unknown."""
    if self._unk_token is None:
      return -1
    return self._tokenizer.token_to_id(self._unk_token)

  def tokenize(
    self,
    texts: Sequence[str],
    max_length: int,
    prefix: str = "",
  ) -> TokenRows:
    """Returns the ids of each text, at most `max_length`, and what was cut.

    Args:
      texts: N texts; an empty one is its special tokens alone.
      max_length: most tokens, special ones included; a longer text loses its
        end, never a special token.
      prefix: put before every text, e.g. `format_instruction(...)`.
    """
    num_added = self._tokenizer.num_special_tokens_to_add(is_pair=False)
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
        rows.append(np.array(ids, np.int32))
    return TokenRows(rows, np.array(full_lengths, np.int32))

  def pad(
    self, rows: Sequence[Int[np.ndarray, " _"]], length: int
  ) -> tuple[Int[np.ndarray, "N L"], Int[np.ndarray, "N L"]]:
    """Returns ids and mask, both int32 [N, L]; mask is 1 where a token stands.

    Args:
      rows: ids of N texts, at most L each.
      length: L; shorter texts are padded on the right.
    """
    ids = np.full((len(rows), length), self.pad_id, np.int32)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(rows):
      ids[row, : len(tokens)] = tokens
      mask[row, : len(tokens)] = 1
    return ids, mask

  def encode(
    self, texts: Sequence[str], max_length: int, prefix: str = ""
  ) -> tuple[Int[np.ndarray, "N L"], Int[np.ndarray, "N L"]]:
    """Returns ids and mask of texts, cut or padded to `max_length`."""
    rows, _ = self.tokenize(texts, max_length, prefix)
    return self.pad(rows, max_length)

  def check_pooling(self, pooling: str) -> None:
    """Raises ValueError if the tokenizer does not add the pooling's token."""
    leading_tokens, trailing_tokens = _find_added_tokens(self._tokenizer)
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


def _read_built_tokenizer(path: pathlib.Path) -> tokenizers.Tokenizer | None:
  """Returns a tokenizer that `build` made, None if it is another one."""
  if not path.is_file():
    return None
  try:
    tokenizer = tokenizers.Tokenizer.from_str(path.read_text("utf-8"))
  except Exception as error:  # the library raises bare Exception
    raise ValueError(f"{path} is not a tokenizer file: {error}") from error
  ids = [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
  # Published tokenizers split words: none of them is a WordLevel model.
  if ids != [0, 1, 2, 3] or not isinstance(tokenizer.model, models.WordLevel):
    return None
  if tokenizer.get_vocab_size() == len(SPECIAL_TOKENS):
    raise ValueError(f"{path}: the vocabulary has no characters")
  return tokenizer


def _read_published_tokenizer(
  folder: pathlib.Path, end_token: str
) -> tuple[tokenizers.Tokenizer, str, str | None]:
  """Returns the tokenizer of a folder, its pad token and its unknown token."""
  # Imported here: it takes a second, and only published folders need it.
  import transformers

  if not any(any(folder.glob(name)) for name in _VOCABULARY_FILES):
    raise FileNotFoundError(
      f"no {TOKENIZER_FILE} in {folder}, nor {', '.join(_VOCABULARY_FILES[1:])}"
    )
  path = folder / SETTINGS_FILE
  # Imported here: it brings JAX, and configs import this module.
  from ctd_jax.models.pretrained import folders

  settings = folders.read_json(path) if path.is_file() else {}
  loader = transformers.AutoTokenizer
  names_class = settings.get("tokenizer_class") not in (None, _AS_SAVED)
  if (folder / TOKENIZER_FILE).is_file() and not names_class:
    # Used as it is: from its model_type alone, AutoTokenizer would rebuild,
    # say, a WordPiece tokenizer from the vocabulary of whatever the file holds.
    loader = transformers.PreTrainedTokenizerFast
  try:
    published = loader.from_pretrained(
      str(folder),
      trust_remote_code=False,
      local_files_only=True,
      **_read_described_tokens(settings),
    )
    tokenizer = published.backend_tokenizer
  except Exception as error:  # what it raises of bad files shares no base
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{folder}: transformers reads no fast tokenizer there: {reason}"
    ) from error
  if tokenizer.get_vocab_size() <= len(published.all_special_tokens):
    # Of a class whose vocabulary file is missing, transformers makes an empty
    # tokenizer without a word.
    raise ValueError(f"{folder}: the vocabulary has special tokens alone")
  # Files carry the lengths that they were saved with.
  tokenizer.no_padding()
  tokenizer.no_truncation()
  if end_token:
    _append_end_token(tokenizer, end_token, folder)

  def find(*tokens: str | None) -> str | None:
    known = (t for t in tokens if t and tokenizer.token_to_id(t) is not None)
    return next(known, None)

  # A decoder often has no pad token. Its end token will do: the mask hides it.
  pad_token = find(published.pad_token, *_PAD_TOKENS, published.eos_token)
  if pad_token is None:
    raise ValueError(f"{folder}: no pad_token and no eos_token to pad with")
  return tokenizer, pad_token, find(published.unk_token, *_UNK_TOKENS)


def _read_described_tokens(settings: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the special tokens that settings describe field by field."""
  # Older folders write {"content": "<pad>", "lstrip": false, ...}, which
  # transformers refuses unless "__type" says that it is an AddedToken.

  def read(value: Any) -> Any:
    if isinstance(value, list):
      return [read(each) for each in value]
    if not isinstance(value, Mapping):
      return value
    fields = {key: item for key, item in value.items() if key != "__type"}
    return tokenizers.AddedToken(**fields)

  return {
    name: read(value)
    for name, value in settings.items()
    if name.endswith(("_token", "_tokens")) and isinstance(value, dict | list)
  }


def _find_added_tokens(
  tokenizer: tokenizers.Tokenizer,
) -> tuple[list[str], list[str]]:
  """Returns the tokens that are added before every text and after it."""
  plain = tokenizer.encode("a", add_special_tokens=False).tokens
  tokens = tokenizer.encode("a").tokens
  size = len(plain)
  for first in range(len(tokens) - size + 1):
    if tokens[first : first + size] == plain:
      return tokens[:first], tokens[first + size :]
  raise ValueError(
    f"the tokenizer does more than add tokens: {plain} becomes {tokens}"
  )


def _append_end_token(
  tokenizer: tokenizers.Tokenizer, token: str, folder: pathlib.Path
) -> None:
  """Makes every text end with `token`, unless it does so already."""
  if tokenizer.token_to_id(token) is None:
    raise ValueError(
      f"{folder}: the end token {token!r} is not in the vocabulary"
    )
  leading_tokens, trailing_tokens = _find_added_tokens(tokenizer)
  if trailing_tokens[-1:] == [token]:
    return
  # One template for all: a second one after the first would take the tokens
  # that the first has added for another text.
  template_tokens = dict.fromkeys((*leading_tokens, *trailing_tokens, token))
  tokenizer.post_processor = processors.TemplateProcessing(
    single=[*leading_tokens, "$A", *trailing_tokens, token],
    special_tokens=[
      (special_token, tokenizer.token_to_id(special_token))
      for special_token in template_tokens
    ],
  )


def format_instruction(task: str) -> str:
  """Returns the prefix of a query for an encoder trained with instructions.

  Source: model card of Qwen3-Embedding: no blank after the second colon.
  """
  return f"Instruct: {task}\nQuery:"
