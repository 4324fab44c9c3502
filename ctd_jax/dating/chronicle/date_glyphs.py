"""Spellings of dates that only prints have: 熈寧 is 熙寧, 丁夘 丁卯.

More than `chronology.glyphs` folds, which editions are compared by. 曆 was
taboo when the 四庫全書 was written: 慶厯 and 慶歴 are 慶曆.
"""

from __future__ import annotations

_SPELLINGS = "熙熈煕凞 寧寜寕 泰㤗 寶寳珤 曆厯歴歷 光灮 初𥘉 卯夘戼 觀覌 豐豊"
_FOLD_TABLE = str.maketrans(
  {variant: group[0] for group in _SPELLINGS.split() for variant in group[1:]}
)


def fold_date_glyphs(text: str) -> str:
  """Returns a text with its dates spelt alike, character for character."""
  return text.translate(_FOLD_TABLE)
