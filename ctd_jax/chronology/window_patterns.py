"""Patterns of the words around the dates of a query.

They match the text of a query in which the anchor, the date as written, is
replaced by `ANCHOR_MARK`, folded to Traditional script. `query_windows` says
how the words are read.
"""

from __future__ import annotations

import re

from ctd_jax.chronology.numerals import DURATION_PATTERN, NUMERAL_PATTERN

ANCHOR_MARK = "\0"  # stands for the date; no text of a query holds it

_NEAR_PATTERN = "[的之，、在]{0,2}"
# What may stand between 「之後」 and 「三個月」.
_FILLER_PATTERN = (
  "(?:[的之這那其，、約整足滿緊鄰接連續著再數推算溯追延伸看計展長達最近內為]"
  "|[以在於取]"
  "|範圍|時間|期間|相鄰|不超過|不久){0,8}?"
)
# Strict words count months from the anchor (「之前一年」: twelve months), loose
# ones may name regnal years (「前一年」: the year before).
STRICT_PAST = (
  "之前|以前|之先|以往|往前|向前|朝前|往回|前推|回推|倒推|逆推"
  "|前溯|上溯|回溯|追溯"
)
STRICT_FUTURE = "之後|以後|往後|向後|朝後|後推|後延|順延|順推|往下"
_LOOSE_PAST = "此前|其前|先前|過去|最近|前"
_LOOSE_FUTURE = "此後|其後|隨後|接下來|接著|接續|後續|未來|今後|嗣後|後"
# 「自A起，往後三個月」 begins with A, 「自A起，之後三個月」 after it.
ANCHOR_INCLUDING_WORDS = (
  "往後",
  "向後",
  "朝後",
  "後推",
  "順延",
  "順推",
  "往下",
)
_SIDES_PATTERN = (
  rf"(?:(?P<past>{STRICT_PAST}|{_LOOSE_PAST})"
  rf"|(?P<future>{STRICT_FUTURE}|{_LOOSE_FUTURE}))"
)
# 「A及其後三個月」: the anchor belongs to the window.
_PLUS_PATTERN = "(?P<plus>以及|連同|及|與|和|暨)?"
# 「先後三個月」 is no window after the date.
DIRECTED_WINDOW = re.compile(
  rf"(?<!先){_SIDES_PATTERN}{_FILLER_PATTERN}{DURATION_PATTERN}"
  "(?P<within>之內|以內|內|裡)?"
)
SIDE_OF_ANCHOR = re.compile(
  rf"{ANCHOR_MARK}{_NEAR_PATTERN}{_PLUS_PATTERN}{_SIDES_PATTERN}"
)
# `$.` never matches: the group exists, so that both patterns of a side have it.
BEYOND_ANCHOR = re.compile(
  rf"(?:(?P<past>早於|先於)|(?P<future>晚於|遲於|後於)){ANCHOR_MARK}(?P<plus>$.)?"
)
AROUND_WINDOW = re.compile(
  rf"(?:前後|上下|左右|鄰近|相鄰|為中心){_FILLER_PATTERN}"
  rf"(?:各|(?P<total>一?共))?{_FILLER_PATTERN}{DURATION_PATTERN}"
)
AROUND_WITHOUT_LENGTH = re.compile(
  rf"{ANCHOR_MARK}{_NEAR_PATTERN}(?:前後|左右)"
)
# 「前三個月、後兩個月」: a length for each side.
TWO_SIDES = re.compile(
  rf"前{_FILLER_PATTERN}(?P<before>{NUMERAL_PATTERN}|半)個?(?P<unit>[月年])"
  rf"[^前後]{{0,6}}後{_FILLER_PATTERN}"
  rf"(?P<after>{NUMERAL_PATTERN}|半)個?(?P<unit_after>[月年])"
)
# 「起兵」 and 「起事」 are events, not a start.
SINCE_ANCHOR = re.compile(
  rf"{ANCHOR_MARK}{_NEAR_PATTERN}"
  "(?:起算|算起|開始|起始|以來|以降|起|始|為起點|為始)(?![兵事])"
)
UNTIL_ANCHOR = re.compile(
  rf"(?:截至|截止到?|直至|直到|止於|迄){_NEAR_PATTERN}{ANCHOR_MARK}"
  rf"|{ANCHOR_MARK}為(?:止|終點|終)"
)
# 「含當月」, but not 「不含當月」.
ANCHOR_INCLUDED = re.compile(
  "(?<![不未勿])(?:包?含|包括|連同?|計入|算上)(?:[當該本此這]|起始|首)一?個?月"
  "|[當該本此這]月(?:亦|也|均)?(?:包含)?(?:在內|計入|算入)"
  rf"|(?:包?含|包括|連同?)(?:了|著)?{ANCHOR_MARK}|{ANCHOR_MARK}[（(]含"
)
# 「數月」, 「若干年」, 「十日內」: no number of months.
VAGUE_LENGTH = re.compile(
  "(?:[數幾多]|若干)個?[月年]|半個?月|[旬日天]內|[前後]年"
)
# 「A三個月」: neither before nor after. 「A一個月」 is the month itself.
UNDIRECTED_LENGTH = re.compile(
  rf"{ANCHOR_MARK}[的之，來過了]{{0,3}}(?!一個?月){DURATION_PATTERN}"
)
HALF_YEAR = re.compile(rf"{ANCHOR_MARK}的?(?:(?P<first>[上前])|[下後])半[年歲]")
# Pattern and offset from the anchor, in months.
MONTH_SHIFTS = (
  (re.compile("次月|翌月|下一?個?月|隔月|來月"), 1),
  (re.compile("上一?個?月|前月|去月"), -1),
)
# Pattern and offset from the anchor's regnal year.
YEAR_SHIFTS = (
  (re.compile("次一?年|[翌明來隔轉]年|下一?整?年|第二年|[次翌明來]歲"), 1),
  (re.compile("上一?整?年|[去往]年|前一?整年|[去前往]歲"), -1),
)
_SAME_YEAR_PATTERN = (
  "(?:[同這那整]一?|[是當該此本其全通終]|一整)[整個]{0,3}[年歲]"
)
SAME_YEAR = re.compile(
  rf"{_SAME_YEAR_PATTERN}|所[在屬處][的之那這]?(?:整|一|個|全)*[年歲]|一年到頭"
  rf"|一年(?:之中|之內|之間|內|間|裡|中)|年度|{ANCHOR_MARK}{_NEAR_PATTERN}年內"
)
_NEXT_YEAR_PATTERN = "[次翌明來](?:一?年|歲)|下一?年"
# Between the two dates of a range: 「A起，至B」, 「A—B」.
RANGE_CONNECTOR = re.compile(
  r"(?:起始|起|始|開始|以來|以降)?[，、,的]?\s*(?:一?直)?(?:延續|持續)?"
  r"(?:至於?|到|迄於?|訖|止於|以迄|以至|\.{2,}|…+|[—–~～－-]+)[，]?"
)
# 「A與B之間」; without the end 「A與B」 is no range.
PAIR_CONNECTOR = re.compile("[與和及跟、]")
PAIR_END = re.compile("[的]?(?:之間|中間|間|期間|兩月)")
RELATIVE_END_YEAR = re.compile(
  rf"(?:(?P<same>{_SAME_YEAR_PATTERN})|(?P<next>{_NEXT_YEAR_PATTERN}))[的之，]?"
)
YEAR_END = re.compile("(?:年|歲)(?:底|末|終|尾)|(?:歲暮|終歲)")
BOOK_TITLE = re.compile("《[^《》]*》")
ENDS_OF_WINDOW = (SINCE_ANCHOR, UNTIL_ANCHOR, SIDE_OF_ANCHOR, BEYOND_ANCHOR)
LENGTH_AFTER_ANCHOR = re.compile(
  rf"(?<={ANCHOR_MARK})[^{ANCHOR_MARK}]{{0,8}}?{DURATION_PATTERN}"
  "(?:之內|以內|內|裡)?"
)
# All that says where a window lies, for readers of the rest of a query.
WINDOW_WORDS = (
  AROUND_WINDOW,
  TWO_SIDES,
  DIRECTED_WINDOW,
  SIDE_OF_ANCHOR,
  BEYOND_ANCHOR,
  AROUND_WITHOUT_LENGTH,
  SINCE_ANCHOR,
  UNTIL_ANCHOR,
  ANCHOR_INCLUDED,
  HALF_YEAR,
  *(pattern for pattern, _ in (*MONTH_SHIFTS, *YEAR_SHIFTS)),
  SAME_YEAR,
)
