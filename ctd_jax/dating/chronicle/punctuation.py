"""Punctuation of chronicles: what stands around dates and says nothing."""

from __future__ import annotations

BLANKS = " \t\u3000○〇◎●△▲"
PUNCTUATION = "，、：。；．！？・" + BLANKS


def is_blank(text: str) -> bool:
  return not text.strip(PUNCTUATION)


def is_punctuated(text: str) -> bool:
  return any(mark in text for mark in "，。")
