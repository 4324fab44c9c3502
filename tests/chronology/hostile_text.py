"""Hostile text for `fuzz_test`: what dates and editions are made of, damaged.

Random Unicode alone never gets past the first test of a parser. The strategies
here put together what the parsers look for (numerals, seasons, rulers,
sexagenary pairs, marks of quotation and of the editions) in orders that no
scribe wrote, and damage what once was right.
"""

import itertools
import os

from hypothesis import settings
from hypothesis import strategies as st

from ctd_jax.benchmark import generation
from ctd_jax.chronology import dates as dates_lib
from ctd_jax.chronology import reigns, sexagenary
from ctd_jax.chronology.reigns import Reign, Timeline

# Cases of each test. launch/test.sh without --all asks for few; they and the
# usual number are the same cases on every machine. A number of cases in
# CTD_JAX_FUZZ_EXAMPLES draws new ones every time, unless there is a
# --hypothesis-seed.
_EXAMPLES_BY_PROFILE = {"usual": 150, "fast": 25}
_PROFILE = os.environ.get("CTD_JAX_FUZZ_PROFILE", "usual")
_NUM_EXAMPLES = os.environ.get("CTD_JAX_FUZZ_EXAMPLES")
fuzz = settings(
  max_examples=int(_NUM_EXAMPLES or _EXAMPLES_BY_PROFILE[_PROFILE]),
  derandomize=_NUM_EXAMPLES is None,
  deadline=None,  # a first call compiles patterns
  database=None,
)

LEAP = Timeline(
  "leap",
  (Reign("隱公", "魯", -721, 3), Reign("莊公", "魯", -718, 2)),
  frozenset({(1, 2, 12), (2, 1, 3), (2, 1, 8)}),
)
TIMELINES = (
  *map(reigns.load_timeline, ("lu", "lu_release", "mini", "wei", "jin")),
  reigns.load_timeline("tongjian"),
  LEAP,
)

_NUMERALS = (
  *"元正一二三四五六七八九十百零廿卄卅卌兩两有又",
  *("十有二", "二十三", "廿有", "卅一", "三十又九", "十三", "33", "１２", "0"),
)
_CALENDAR = (
  *"年月日春夏秋冬閏闰王歲岁旬季載週半個個整期",
  *("元年", "三年", "正月", "十有二月", "閏月", "閏三月", "夏五", "春王正月"),
  *("歲在", "太歲次", "三十二年", "十一年", "二月己未", "己未年"),
)
_RULERS = (
  *"隱隐𨼆莊荘庄閔僖釐文魯鲁晉齊滄公侯傳傳經经之在即位的第",
  *("隱公", "魯隱公", "莊公", "魯哀公", "滄懷公", "懷公", "晉文公", "泰始"),
  *("晉元帝建武", "建武", "正始", "鲁闵公", "魯隱公元年", "僖廿八年"),
  *("世祖", "武皇帝", "西晉", "劉宋", "北魏太和", "晋世祖武皇帝泰始", "上之下"),
  *("公元", "公元前", "西元", "公元前722年", "265年", "公元二六五年", "晉紀"),
)
_PAIRS = (
  *(sexagenary.format_cyclic_index(place) for place in range(0, 60, 7)),
  *(*"甲乙己已巳戊戌戍未亥", "已巳", "己未", "戍戌"),
)
_MARKS = (
  *"，。、；：！？「」『』“”‘’《》〈〉（）()〔〕【】[]",
  *"○〇·…—-~\"' \t\n\r\0\u3000\u2028\u0301\ufeff\U0010ffff",
  *("。」", "？』", "。「", "曰：「"),
)
_WINDOWS = (
  *"前後后上下左右至自起迄到與和及跟間内內裡里含各共這该當本同次翌明去",
  *("之前", "以後", "此後", "前後各", "往前推", "為中心", "截至", "早於"),
  *("三個月", "半年", "兩年", "一年半", "一季", "數月", "次月", "下一個月"),
  *("同年", "次年", "全年", "前一年", "整個", "上半年", "年底", "含當月"),
  *("之間", "一年之內", "算起", "以來", "不超過", "一共", "延續至", "二週歲"),
)
_PROSE = tuple("泠嶧人盟侵我東鄙取來聘而矣也者乎何葬卒大水有事")
_KINDS = (_NUMERALS, _CALENDAR, _RULERS, _PAIRS, _MARKS, _WINDOWS, _PROSE)

anything = st.text(max_size=6)
pieces = st.one_of(*map(st.sampled_from, _KINDS), anything)
timelines = st.sampled_from(TIMELINES)
comment_marks = st.sampled_from(("", "也矣者乎何"))


def joined(
  parts: st.SearchStrategy[str], most: int = 40
) -> st.SearchStrategy[str]:
  """Returns texts of up to `most` parts."""
  return st.lists(parts, max_size=most).map("".join)


@st.composite
def damaged(draw, originals, insertions=pieces, most=4):
  """Returns texts of `originals` with up to `most` cuts and insertions."""
  text = draw(originals)
  for _ in range(draw(st.integers(0, most))):
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 8)))
    copied = st.just(text[start:end] * 2)
    text = text[:start] + draw(st.just("") | insertions | copied) + text[end:]
  return text


def dates(timeline: Timeline) -> st.SearchStrategy[str]:
  """Returns dates of `timeline` in every style and script."""
  return st.builds(
    dates_lib.format_key,
    st.sampled_from(timeline.months),
    st.just(timeline),
    st.sampled_from(dates_lib.DATE_STYLES),
    st.booleans(),
    st.sampled_from(dates_lib.SCRIPTS),
  )


@st.composite
def template_questions(draw, timeline):
  """Returns (question of a template, months it means)."""
  template = draw(st.sampled_from(generation.TEMPLATES))
  interval = None
  while interval is None:
    anchor = draw(st.sampled_from(timeline.months))
    interval = template.resolve_interval(timeline, anchor)
  return template.format_question(timeline, anchor, interval), interval


def questions(timeline: Timeline) -> st.SearchStrategy[str]:
  """Returns questions about dates: of templates, of loose words, damaged."""
  loose = st.one_of(dates(timeline), st.sampled_from(_WINDOWS), pieces)
  return st.one_of(
    damaged(template_questions(timeline).map(lambda pair: pair[0])),
    st.builds(
      "{}{}{}{}{}".format,
      st.sampled_from(("", "自", "從", "截至", "早於", "以", "在《春秋》")),
      dates(timeline),
      joined(loose, 5),
      st.sampled_from(("", "，有何記事？", "之間", "之前")),
      st.just("") | pieces,
    ),
    joined(loose, 12),
  )


@st.composite
def annals_text(draw):
  """Returns running text of an annals: clauses, most of which open dated."""
  date = damaged(dates(draw(timelines)), most=1)
  clause = st.builds(
    "{}{}{}".format,
    date | pieces | st.sampled_from(_CALENDAR),
    joined(pieces, 6),
    st.sampled_from("。。。，；！？」』 \n"),
  )
  return draw(joined(clause, 12) | joined(pieces))


@st.composite
def invented_timelines(draw):
  """Returns calendars of unheard-of rulers, with leap months.

  No name has a character of dates; some have characters of patterns.
  """
  names = draw(
    st.lists(
      st.text("滄泠嶧懷昌惠平公帝^()[]{}|.*+?\\$-", min_size=1, max_size=3),
      min_size=1,
      max_size=5,
      unique=True,
    )
  )
  years = [draw(st.integers(1, 99)) for _ in names]
  accessions = itertools.accumulate(years, initial=draw(st.integers(-800, 800)))
  rows = tuple(
    Reign(name, "魯", accession, count)
    for name, count, accession in zip(names, years, accessions, strict=False)
  )
  leap = st.integers(1, len(rows)).flatmap(
    lambda reign: st.tuples(
      st.just(reign), st.integers(1, years[reign - 1]), st.integers(1, 12)
    )
  )
  leaps = draw(st.frozensets(leap, max_size=5))
  return Timeline("invented", rows, leaps)
