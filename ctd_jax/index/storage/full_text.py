"""Full text of an index: every Han character a token, in one script.

SQLite's FTS5 splits at spaces and so would take a sentence of Chinese for one
word. Every ideograph, kana and character without a code is put between
spaces; words of an alphabet stay words, without their diacritics. Variant
glyphs and both scripts are written alike, one for one, so that 「卫」, 「衞」
and 「衛」 are one token and a position in the folded text is one in the text.

  >>> fold_text("葬衛桓公")
  '葬卫桓公'
  >>> split_tokens("葬衛桓公。")
  ' 葬  卫  桓  公 。'
  >>> make_match(["衛桓公", "葬"])
  '"卫 桓 公" AND "葬"'
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import opencc

from ctd_jax.chronology import numerals
from ctd_jax.index.storage import print_variants

TOKENIZER = "unicode61 remove_diacritics 2"
# Ideographs of all planes, kana, and what texts have for a character without a
# code: private use, □, 〓.
_SINGLE = re.compile(
  "[\u3005-\u3007\u303b\u3041-\u30ff\u3400-\u9fff\ue000-\uf8ff\uf900-\ufaff"
  "\U00020000-\U000323af\U000f0000-\U0010fffd□〓]"
)
# FTS5 knows no symbols, nor all of the private use: they are named by number.
_BY_NUMBER = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd□〓]")
_MISSING = str.maketrans({"〓": "□"})
_WORD = re.compile(r"\w+")


class _SimplifiedCharacters(dict):
  """Code point -> simplified character, filled as characters come."""

  def __missing__(self, code: int) -> str:
    character = chr(code)
    simplified = character
    if _SINGLE.match(character):
      simplified = _converter().convert(character)
    # One for one: a character that becomes several stays.
    self[code] = simplified if len(simplified) == 1 else character
    return self[code]


@functools.cache
def _converter() -> opencc.OpenCC:
  return opencc.OpenCC("t2s")


_TO_SIMPLIFIED = _SimplifiedCharacters()


def fold_text(text: str) -> str:
  """Returns a text in one spelling and one script, of the same length."""
  usual = print_variants.fold_variants(text)
  return numerals.fold_script(usual).translate(_TO_SIMPLIFIED)


def split_tokens(text: str) -> str:
  """Returns what FTS5 is given of a text: its tokens between spaces."""
  return _BY_NUMBER.sub(
    _name_by_number,
    _SINGLE.sub(r" \g<0> ", fold_text(text).translate(_MISSING)),
  )


def _name_by_number(match: re.Match[str]) -> str:
  return f"u{ord(match[0]):x}"


def make_match(words: Sequence[str], match_any: bool = False) -> str | None:
  """Returns the query of FTS5 for phrases; None if they hold nothing to find.

  Args:
    words: phrases of one character or more; punctuation in them is no matter.
    match_any: whether a record that has one of them is found; else it has to
      have all.
  """
  phrases = []
  for word in words:
    tokens = _WORD.findall(split_tokens(word))
    if tokens:
      phrases.append('"' + " ".join(tokens) + '"')
  if not phrases:
    return None
  return (" OR " if match_any else " AND ").join(dict.fromkeys(phrases))


def find_spans(words: Sequence[str], text: str) -> list[tuple[int, int]]:
  """Returns where phrases stand in a text, in order, to be highlighted.

  Args:
    words: as of `make_match`.
    text: of the record.
  """
  folded = fold_text(text).casefold()
  if len(folded) != len(text):  # as of ß: positions would move
    folded = fold_text(text)
  spans: set[tuple[int, int]] = set()
  for word in words:
    tokens = _WORD.findall(_SINGLE.sub(r" \g<0> ", fold_text(word).casefold()))
    if tokens:
      pattern = r"[\W_]*".join(map(re.escape, tokens))
      spans.update(match.span() for match in re.finditer(pattern, folded))
  return sorted(spans)
