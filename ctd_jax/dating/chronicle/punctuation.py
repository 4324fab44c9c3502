"""Punctuation of chronicles: marks, blanks, circles that divide entries."""

from __future__ import annotations

# An edition puts brackets around what it took from elsewhere.
BLANKS = " \t\u3000○〇◎●△▲（(〔"
PUNCTUATION = "，、：。；．.！？・" + BLANKS


def is_blank(text: str) -> bool:
  """Returns whether a text holds nothing but punctuation and blanks."""
  return not text.strip(PUNCTUATION)


def is_punctuated(text: str) -> bool:
  """Returns whether an editor has set the clauses of a text apart."""
  return any(mark in text for mark in "，。")
