"""Files that were decoded, and the characters in them that have no code."""

from __future__ import annotations

import re
from typing import NamedTuple

from ctd_jax.texts.works import MISSING_CHARACTER

# A character without a code: its number at Kanripo, its parts as in [車*犬], a
# private code that means something else in every font, a control character
# that a transcript left in its place, or the printers' 〓.
_UNENCODED = re.compile(
  r"&KR\d+;"
  r"|\[(?=[^\[\]]*[\u3400-\u9fff])(?:[\u2e80-\u9fff\U00020000-\U0003ffff?()]*"
  r"[*+@/-])+[\u2e80-\u9fff\U00020000-\U0003ffff?()]*\]"
  r"|[〓\x01-\x08\x0e-\x1f\x7f\ue000-\uf8ff\U000f0000-\U0010fffd]"
)
_MAY_BE_UNENCODED = re.compile(
  r"[&\[〓\x01-\x08\x0e-\x1f\x7f\ue000-\uf8ff\U000f0000-\U0010fffd]"
)


class SourceFile(NamedTuple):
  """A file that was decoded.

  Attributes:
    name: below the path that was read.
    text: its text, `\\n` at line ends.
  """

  name: str
  text: str


def mark_unencoded(text: str) -> tuple[str, int]:
  """Returns the text with □ for each character without a code, and how many."""
  if not _MAY_BE_UNENCODED.search(text):
    return text, 0
  return _UNENCODED.subn(MISSING_CHARACTER, text)
