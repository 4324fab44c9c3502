"""Spellings of dates that only prints have: 熈寧 is 熙寧, 丁夘 丁卯.

More than `chronology.glyphs` folds, which editions are compared by. 曆 was
taboo when the 四庫全書 was written: 慶厯 and 慶歴 are 慶曆. From 744 to 758
years were written 載.
"""

from __future__ import annotations

import re

from ctd_jax.chronology import glyphs, numerals

_SPELLINGS = "熙熈煕凞 寧寜寕 泰㤗 寶寳珤 曆厯歴歷 光灮 初𥘉 卯夘戼 觀覌 豐豊"
_fold_spellings = glyphs.make_replacer(
  {variant: group[0] for group in _SPELLINGS.split() for variant in group[1:]}
)
# 天寶十四載十一月, but not 千載.
_YEAR_SIGN = re.compile(
  rf"(?<=[元{numerals.UNIT_DIGITS}十])載"
  rf"(?=，?(?:[春夏秋冬正閏]|[{numerals.UNIT_DIGITS}十]+月))"
)


def fold_date_glyphs(text: str) -> str:
  """Returns a text with its dates spelt alike, character for character."""
  return _YEAR_SIGN.sub("年", _fold_spellings(text))
