"""Texts to token ids: a character vocabulary built from a gallery.

Why: the small encoder starts from scratch on classical Chinese, where a
character is a good token. The normaliser drops punctuation, because event
records are punctuated and commentary is not: a model that sees the marks
learns the type of a record from them. `input_pipeline` and `evaluate` are
the callers.

Axes: N texts, L tokens.
"""

from __future__ import annotations

import collections
import hashlib
import os
import pathlib
import tempfile
from collections.abc import Iterable, Sequence

import numpy as np
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from ctd_jax.chronology import glyphs

FILE_NAME = "tokenizer.json"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")  # ids 0, 1, 2, 3
PADDING_SIDES = ("right", "left")
_PAD, _UNK, _CLS, _SEP = SPECIAL_TOKENS
# Other marks than these are text: U+3007 (zero) and private-use characters,
# which stand for Han characters without a code point, are kept.
_MARKS = r"[\p{P}\p{S}\p{Z}\p{Cc}\p{Cf}]"
_BLANKS = r"[\p{Z}\p{Cc}\p{Cf}]"


def _normalizer(strip_punctuation: bool) -> normalizers.Normalizer:
  steps = [normalizers.NFC()]  # also folds CJK compatibility ideographs
  for written, *others in glyphs.SPELLINGS:
    steps += [normalizers.Replace(other, written) for other in others]
  marks = _MARKS if strip_punctuation else _BLANKS
  steps.append(normalizers.Replace(tokenizers.Regex(marks), ""))
  return normalizers.Sequence(steps)


class TextTokenizer:
  """A character tokenizer that gives fixed-length arrays.

  `build` one from texts or `load` a saved one. Ids 0 to 3 are [PAD], [UNK],
  [CLS] and [SEP]; every text starts with [CLS].
  """

  def __init__(self, tokenizer: tokenizers.Tokenizer):
    self._tokenizer = tokenizer

  @classmethod
  def build(
    cls,
    texts: Iterable[str],
    strip_punctuation: bool = True,
  ) -> TextTokenizer:
    """Returns a tokenizer of the characters that occur in `texts`.

    Characters are numbered by falling frequency, then by code point, so the
    same texts in any order give the same vocabulary.

    Args:
      texts: usually the training part of a gallery.
      strip_punctuation: whether marks are dropped; white space always is.

    Raises:
      ValueError: if no character is left.
    """
    normalizer = _normalizer(strip_punctuation)
    counts = collections.Counter()
    for text in texts:
      counts.update(normalizer.normalize_str(text))
    characters = sorted(counts, key=lambda c: (-counts[c], c))
    if not characters:
      raise ValueError(
        "no character to build a vocabulary from: the texts are empty"
      )
    tokens = (*SPECIAL_TOKENS, *characters)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(
      models.WordLevel(vocabulary, unk_token=_UNK)
    )
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
      tokenizers.Regex("."), "isolated"
    )
    tokenizer.post_processor = processors.TemplateProcessing(
      single=f"{_CLS} $A", special_tokens=[(_CLS, vocabulary[_CLS])]
    )
    return cls(tokenizer)

  @classmethod
  def load(cls, directory: str | os.PathLike[str]) -> TextTokenizer:
    """Returns the tokenizer that `save` wrote into `directory`.

    Raises:
      FileNotFoundError: if the folder has no tokenizer.json.
      ValueError: if the file is no tokenizer, its vocabulary is empty, or
        the special tokens stand elsewhere than at ids 0 to 3.
    """
    path = pathlib.Path(directory) / FILE_NAME
    if not path.is_file():
      raise FileNotFoundError(f"no {FILE_NAME} in {path.parent}")
    try:
      tokenizer = tokenizers.Tokenizer.from_str(path.read_text("utf-8"))
    except Exception as error:  # the library raises bare Exception
      raise ValueError(f"{path} is not a tokenizer file: {error}") from error
    ids = tuple(tokenizer.token_to_id(token) for token in SPECIAL_TOKENS)
    if ids != tuple(range(len(SPECIAL_TOKENS))):
      raise ValueError(
        f"{path}: {', '.join(SPECIAL_TOKENS)} must have ids 0 to 3, got {ids}"
      )
    if tokenizer.get_vocab_size() == len(SPECIAL_TOKENS):
      raise ValueError(f"{path}: the vocabulary has no characters")
    return cls(tokenizer)

  def save(self, directory: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the path of the tokenizer.json written into `directory`.

    The folder is made if needed; the file appears whole or not at all.
    """
    folder = pathlib.Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
      temporary = pathlib.Path(scratch) / FILE_NAME
      temporary.write_text(self._tokenizer.to_str(pretty=True), "utf-8")
      os.replace(temporary, path)
    return path

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
    return hashlib.sha256(text).hexdigest()[:16]

  @property
  def pad_id(self) -> int:
    """Id of [PAD]."""
    return self._tokenizer.token_to_id(_PAD)

  @property
  def unk_id(self) -> int:
    """Id of [UNK], which a character outside the vocabulary gets."""
    return self._tokenizer.token_to_id(_UNK)

  def encode(
    self,
    texts: Sequence[str],
    max_length: int,
    padding_side: str = "right",
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids and mask of texts, cut or padded to one length.

    Args:
      texts: N texts; an empty one is [CLS] alone.
      max_length: tokens L, [CLS] included; a longer text loses its end.
      padding_side: "right" or "left".

    Returns:
      (ids, mask), both int32 [N, L]; mask is 1 where a token stands.

    Raises:
      ValueError: if `max_length` or `padding_side` makes no sense.
    """
    if max_length < 1:
      raise ValueError(f"max_length must be at least 1, got {max_length}")
    if padding_side not in PADDING_SIDES:
      raise ValueError(
        f"padding_side must be one of {PADDING_SIDES}, got {padding_side!r}"
      )
    ids = np.full((len(texts), max_length), self.pad_id, np.int32)
    mask = np.zeros_like(ids)
    # Padding by hand: the library keeps it as state of the shared tokenizer.
    for row, encoding in enumerate(self._tokenizer.encode_batch(list(texts))):
      tokens = encoding.ids[:max_length]
      first = max_length - len(tokens) if padding_side == "left" else 0
      ids[row, first : first + len(tokens)] = tokens
      mask[row, first : first + len(tokens)] = 1
    return ids, mask
