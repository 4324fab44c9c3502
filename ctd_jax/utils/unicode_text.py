"""One form of text to search and read: without what only encodes it otherwise.

The same words are encoded in several ways: with invisible characters, in parts
(か and a mark of voice), or in compatibility forms (ＡＢＣ, ⼈, ㋀, ſ). Readers
of dates and of words see one form, with positions mapped back to the text as
printed.
"""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Iterable

# What no rule below changes; other texts are looked at by character.
_NOT_PLAIN = re.compile(
  r"[^\t-~\u00a0-\u00a9\u00ab\u00ac\u00ae-\u00b4\u00b6-\u00b9\u00bb-\u0131"
  r"\u014a-\u017e\u0400-\u0482\u05d0-\u05ea\u0621-\u064a\u2010-\u2027"
  r"\u2030-\u205e\u2500-\u25ff\u3000-\u3029\u3030-\u3037\u303b-\u3096"
  r"\u309b-\u309e\u30a0-\u30fe\u3400-\u9fff\uac00-\ud7a3\ue000-\uf8ff\uff01-\uff0f"
  r"\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\U00020000-\U0002f7ff"
  r"\U00030000-\U0003ffff]"
)
# Default_Ignorable_Code_Point of the Unicode Character Database.
_IGNORABLE = re.compile(
  r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
  r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
  r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Signs for radicals, months, days, hours and eras (⼈, ㋀, ㏠, ㍘, ㍻), which
# the categories of letters and digits leave out.
_SIGN_OF_WORD = re.compile(
  r"[\u2e80-\u2fdf\u32c0-\u32cb\u32ff\u3358-\u3370\u337b-\u337f\u33e0-\u33fe]"
)
# Vowels and final consonants, which join the Korean syllable before them.
_HANGUL_PART = re.compile(r"[\u1161-\u11ff]")
_CATEGORIES = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl")


@dataclasses.dataclass(frozen=True)
class NormalizedText:
  """A text in one form, and where its characters are in the one printed."""

  text: str
  # For each character and the end; None if no position differs.
  positions: tuple[int, ...] | None = None

  def original(self, position: int) -> int:
    """Returns the position in the text as printed.

    What was dropped belongs to what is before it, at the head to the first.
    """
    return position if self.positions is None else self.positions[position]


def list_texts(
  texts: str | Iterable[str], argument: str = "texts"
) -> list[str]:
  """Returns texts as a list; a string is one text, not its characters.

  Args:
    texts: a string, or strings in a sequence, an array or a generator.
    argument: name of the caller's argument, for messages.

  Raises:
    TypeError: if an element is no string; the message has its number.
  """
  if isinstance(texts, str):
    return [texts]
  if not isinstance(texts, Iterable):
    raise TypeError(
      f"{argument} must be strings; got {type(texts).__name__} {texts!r}"
    )
  listed = list(texts)
  for number, text in enumerate(listed):
    if not isinstance(text, str):
      raise TypeError(
        f"{argument}[{number}] must be a string; got {type(text).__name__} "
        f"{text!r:.60}"
      )
  return listed


def normalize(text: str) -> NormalizedText:
  """Returns a text without ignorable characters, in NFC.

  Letters, digits and ideographs also lose their compatibility forms (NFKC);
  punctuation keeps them, and so do ① and ², which number items and notes.
  """
  if not _NOT_PLAIN.search(text):
    return NormalizedText(text)
  pieces: list[str] = []
  positions: list[int] = []
  cluster, start = "", 0

  def close_cluster() -> None:
    piece = unicodedata.normalize("NFC", cluster)
    pieces.append(piece)
    positions.extend([start] * len(piece))

  for position, character in enumerate(text):
    folded = _fold_character(character)
    if not folded:
      continue
    if not _joins(folded[0]):
      close_cluster()
      cluster, start = "", position if positions else 0
    cluster += folded
  close_cluster()
  return NormalizedText("".join(pieces), (*positions, len(text)))


@functools.cache
def _fold_character(character: str) -> str:
  if _IGNORABLE.match(character):
    return ""
  if unicodedata.category(character) in _CATEGORIES or _SIGN_OF_WORD.match(
    character
  ):
    return unicodedata.normalize("NFKC", character)
  return character


@functools.cache
def _joins(character: str) -> bool:
  """Returns whether a character may change the one before it."""
  return (
    unicodedata.combining(character) > 0
    or _HANGUL_PART.match(character) is not None
  )
