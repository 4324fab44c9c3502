"""Patterns of printed lines: titles, headings, rulers, dates, separators."""

from __future__ import annotations

import re

from ctd_jax.chronology import sexagenary

_NUMERAL = r"[一二三四五六七八九十百千〇零廿卅\d]"
# 「續資治通鑑長編巻六」, 「公羊第二」, 「卷第四終」.
TITLE_LINE = re.compile(
  rf".{{0,20}}(?:[卷巻]|第){_NUMERAL}+(?:[上中下]|之[上中下]*{_NUMERAL}*|考[證証]|終|目[錄録])*"
  rf"(?:　.*)?\Z|.{{0,20}}[卷巻](?:第|苐)?(?:{_NUMERAL}+|[上中下])"
  rf"(?:[上中下]|之[上中下]*{_NUMERAL}*|考[證証]|終|目[錄録])*(?:　.*)?\Z"
)
SERIES_LINE = re.compile(r"欽定四[庫厙]全書")
AUTHOR_LINE = re.compile(
  r"(?:撰|注|註|疏|䟽|音[義註注]|[集]解|學|校|編|輯|述|譔|著|集註|集注|校正|正義)\Z"
)
# 「帝扄」, 「周武王」, 「隱公」: a ruler whose years follow.
RULER_LINE = re.compile(
  r"(?:帝.{1,3}|[帝黄黃炎].{2,5}氏|.{1,4}[公王帝]"
  r"|.{1,2}公[元一二三四五六七八九十]+年)\Z"
)
FIRST_YEAR = "元年"
# 「葬某公」 is an entry of the annals.
VERB_OPENING = re.compile(r"[葬𦵏塟立弑弒殺㑹會盟執納歸伐公]")
# Whoever made the edition signs after the text.
EDITOR_LINE = re.compile(r"總　*纂|總　*校|詳　*校|覆　*校|校　*對|謄　*[録錄]")
COLLATION_TITLE = re.compile(
  r".{2,16}(?:[卷巻].{1,8}|[原總]?目[録錄]?)考[證証]\Z"
)
VOLUME_LINE = re.compile(rf"{_NUMERAL}+[卷巻]\Z")
DATE_CUE = re.compile(
  rf"[{sexagenary.STEMS}][{sexagenary.BRANCHES}]|(?:元|{_NUMERAL}+)[年月]"
  r"|[春夏秋冬閏]|正月|是[月歲嵗年日]"
)
# 「二年春」, not 「三年之喪」.
YEAR_CUE = re.compile(
  r"(?:元|[一二三四五六七八九十百廿卅有]{1,5})年"
  r"(?:[春夏秋冬閏]|[正一二三四五六七八九十]{1,2}月)"
)
YEAR_OPENING = re.compile(r"(?:元|[一二三四五六七八九十百廿卅有]{1,5})年")
SEPARATOR = re.compile(r"\([^()]*\)|[○〇]|　+|[ \t]+|[()]")
PLAIN_LINE = re.compile(r"[^()○〇　 \t]*\Z")
# 「(臣/)等謹案」, 「(臣明楷)」: editors write their own name small.
HUMBLE_NAME = re.compile(r"臣.{0,3}\Z")
ZERO_BEFORE = re.compile(r"[一二三四五六七八九百千十]\Z")
LABELLED_TITLE = re.compile(r"[注註][疏䟽]")
