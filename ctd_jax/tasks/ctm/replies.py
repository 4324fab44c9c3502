"""Reading of what models write: script, JSON, conclusions, clauses, numbers.

The judge and the game must read replies in the same way, and an unreadable
reply must be distinguished from a wrong answer.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import opencc

_OBJECT_PATTERN = re.compile(r"\{.*\}", re.DOTALL)
_FULL_WIDTH = str.maketrans(
  "０１２３４５６７８９ＡＢＣＤＥＦＧａｂｃｄｅｆｇ", "0123456789ABCDEFGabcdefg"
)
# Words before a conclusion.
_CONCLUSION_PATTERN = re.compile(
  r"(?:最终|正确)?答案(?:应该|应当|应)?[是为:：]+|因此|所以|综上(?:所述)?|总之|"
  r"结论(?:是|为|:|：)|由此可[见知]|故(?:应)?选|应(?:该)?选|应[该当]?[是为]"
)
_SENTENCE_PATTERN = re.compile(r"[^。！？!?；;\n]+[。！？!?；;]?")
_CLAUSE_PATTERN = re.compile(r"[^，,。！？!?；;\n]+")
# 「虽然 ... 但」: what is conceded is not asserted.
_CONCESSION_PATTERN = re.compile(
  r"(?:虽然|虽说|尽管|固然)[^。；;\n]*?(?:但是|但|却|不过|然而|可是)"
)
# Words that deny the name right after them.
_NEGATION_PATTERN = re.compile(
  r"(?:不是|并非|绝非|而非|不属于?|不在|不可能[是在]?|不应[是在]?|不会[是在]?|"
  r"排除|(?<!无)不|[^无莫除是若]非|不选|不为|没有|[以之]后才[叫称为])"
  r"[「『“\"《]?(?:选项)?$"
)
# Arabic numerals with separators, or Chinese numerals.
NUMBER_PATTERN = (
  r"(?:[0-9]+(?:[,，][0-9]{3})*(?:\.[0-9]+)?|[〇零一二两三四五六七八九十百千]+)"
)
_DIGITS = {c: i for i, c in enumerate("〇一二三四五六七八九")} | {
  "零": 0,
  "两": 2,
}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_NEGATION_LENGTH = 8  # characters before a name that can deny it


@functools.cache
def _converter() -> opencc.OpenCC:
  return opencc.OpenCC("t2s")


@functools.lru_cache(maxsize=65536)
def to_simplified(text: str) -> str:
  """Returns a text in Simplified script with narrow digits and letters.

  For comparison only: 後 and 后 become one.
  """
  return _converter().convert(text).translate(_FULL_WIDTH)


def parse_json_object(text: str) -> dict[str, Any]:
  """Returns the JSON object in a reply, which may contain other text, too.

  Raises:
    ValueError: if there is no object, or it cannot be read.
  """
  match = _OBJECT_PATTERN.search(text)
  try:
    # Not strict: models write line breaks inside strings.
    data = json.loads(match[0], strict=False) if match else None
  except ValueError as error:
    raise ValueError(f"the JSON cannot be read: {error}") from None
  if not isinstance(data, dict):
    raise ValueError("expected one JSON object")
  return data


def iterate_passages(text: str) -> Iterator[str]:
  """Yields the passages of a text that may hold the answer, best first.

  First the sentence after the last 「答案是」, 「因此」 and the like, then all
  text after it, then the first sentence, then everything. Concessions (虽然
  ... 但) are left out.
  """
  text = _CONCESSION_PATTERN.sub("", text).strip()
  marks = list(_CONCLUSION_PATTERN.finditer(text))
  if marks and text[marks[-1].end() :].strip():
    conclusion = text[marks[-1].end() :].strip()
    yield split_sentences(conclusion)[0]
    yield conclusion
  opening = _SENTENCE_PATTERN.search(text)
  if opening and opening[0] != text:
    yield opening[0]
  yield text


def split_sentences(text: str) -> list[str]:
  """Returns the sentences of a text; a line break ends a sentence."""
  return [match[0] for match in _SENTENCE_PATTERN.finditer(text)] or [text]


def split_clauses(text: str) -> list[str]:
  """Returns the clauses of a text."""
  return [match[0] for match in _CLAUSE_PATTERN.finditer(text)]


def is_negated(text: str, position: int) -> bool:
  """Returns whether the words before a position deny what follows."""
  start = max(0, position - _NEGATION_LENGTH)
  return bool(_NEGATION_PATTERN.search(text[start:position]))


def find_name_mentions(
  text: str, names: Collection[str]
) -> list[tuple[int, str]]:
  """Returns (position, name) of all names in a text, in order of position.

  Args:
    text: in Simplified script.
    names: in Simplified script; of two that overlap the longer is found.
  """
  return [(m.start(), m[0]) for m in compile_name_pattern(names).finditer(text)]


def compile_name_pattern(names: Collection[str]) -> re.Pattern[str]:
  """Returns the pattern of any of the names, longest names first."""
  sorted_names = sorted((n for n in names if n), key=len, reverse=True)
  # An empty alternation would match everywhere; (?!) matches nothing.
  return re.compile("|".join(map(re.escape, sorted_names)) or "(?!)")


def parse_number(text: str) -> float:
  """Returns the number of a match of `NUMBER_PATTERN`.

  「一千三百一十四」 is 1314, 「九七八」 is 978.
  """
  numeral = re.sub("[,，]", "", text)
  if numeral[0].isascii():
    return float(numeral)
  if not any(character in _UNITS for character in numeral):
    return float("".join(str(_DIGITS[character]) for character in numeral))
  total, digit = 0, None
  for character in numeral:
    if character in _UNITS:
      # 十二 is 12: a unit without a digit counts once.
      total += (1 if digit is None else digit) * _UNITS[character]
      digit = None
    else:
      digit = _DIGITS[character] or None  # 零 only marks an empty unit
  return float(total + (digit or 0))
