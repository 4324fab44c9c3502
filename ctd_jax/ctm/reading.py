"""Reads what models write: either script, JSON among other words.

Why: the judge and the game must read replies alike, and whatever cannot be
read has to be told apart from a wrong answer. Called by both.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import opencc

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_FULL_WIDTH = str.maketrans(
  "０１２３４５６７８９ＡＢＣＤＥＦＧａｂｃｄｅｆｇ", "0123456789ABCDEFGabcdefg"
)


@functools.cache
def _converter() -> opencc.OpenCC:
  return opencc.OpenCC("t2s")


@functools.lru_cache(maxsize=65536)
def simplified(text: str) -> str:
  """Returns a text in Simplified script with narrow digits and letters.

  For comparison only: 後 and 后 become one.
  """
  return _converter().convert(text).translate(_FULL_WIDTH)


def json_object(text: str) -> dict[str, Any]:
  """Returns the JSON object in a reply, which may stand among other words.

  Raises:
    ValueError: if there is none, or it cannot be read.
  """
  match = _OBJECT.search(text)
  try:
    found = json.loads(match[0], strict=False) if match else None
  except ValueError as error:
    raise ValueError(f"the JSON cannot be read: {error}") from None
  if not isinstance(found, dict):
    raise ValueError("expected one JSON object")
  return found
