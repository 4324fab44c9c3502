"""Reading, writing and finding dates."""

import collections
import os
import pathlib
import re

import pytest

from ctd_jax.chronology import dates, numerals, questions, reigns, sexagenary
from ctd_jax.chronology.dates import DateCue, find_date_cues
from ctd_jax.chronology.numerals import DateError
from ctd_jax.chronology.reigns import Reign, TimeKey, Timeline

LU = reigns.load_timeline("lu")
LEAP = Timeline(
  "leap",
  (Reign("隱公", "魯", -721, 3), Reign("莊公", "魯", -718, 2)),
  frozenset({(1, 2, 12), (2, 1, 3), (2, 1, 8)}),
)


def test_numerals_round_trip():
  for number in range(1, 100):
    for you in (False, True):
      text = numerals.format_numeral(number, you)
      assert numerals.parse_numeral(text) == number
  for number in (0, 100):
    with pytest.raises(ValueError, match="1-99"):
      numerals.format_numeral(number)


@pytest.mark.parametrize(
  ("number", "texts"),
  [
    *((1, "元 正"), (2, "兩"), (10, "十"), (12, "十有二 １２"), (20, "廿")),
    *((21, "廿一"), (23, "二十有三"), (31, "卅有一"), (33, "33")),
    *((120, "一百二十"), (203, "二百零三")),
  ],
)
def test_numerals(number, texts):
  assert {*map(numerals.parse_numeral, texts.split())} == {number}


@pytest.mark.parametrize("text", ["", "有二", "春", "0", "十二月"])
def test_what_is_no_numeral_is_quoted(text):
  with pytest.raises(DateError, match="numeral"):
    numerals.parse_numeral(text)


def test_first_year_and_first_month_have_their_own_word():
  assert numerals.parse_numeral("元", "year") == 1
  assert numerals.parse_numeral("正", "month") == 1
  for text, unit in (("元", "month"), ("正", "year")):
    with pytest.raises(DateError):
      numerals.parse_numeral(text, unit)


@pytest.mark.parametrize(
  ("options", "text"),
  [
    ({}, "魯莊公三十二年十二月"),
    ({"with_you": True}, "魯莊公三十有二年十有二月"),
    ({"style": "reign"}, "莊公三十二年十二月"),
    ({"style": "annals"}, "魯莊公三十二年冬十二月"),
    ({"style": "elided"}, "三十二年十二月"),
    ({"style": "month"}, "十二月"),
    ({"script": "simplified"}, "鲁庄公三十二年十二月"),
  ],
)
def test_styles(options, text):
  assert dates.format_key(TimeKey(3, 32, 12), LU, **options) == text


def test_first_month_of_the_annals():
  key = TimeKey(1, 1, 1)
  assert dates.format_key(key, LU) == "魯隱公元年正月"
  assert dates.format_key(key, LU, "annals") == "魯隱公元年春王正月"
  with pytest.raises(ValueError, match="style"):
    dates.format_key(key, LU, "long")
  with pytest.raises(KeyError):
    dates.format_key(TimeKey(1, 12, 1), LU)


@pytest.mark.slow
@pytest.mark.parametrize(
  "timeline",
  [*map(reigns.load_timeline, ("lu", "lu_release", "mini", "wei")), LEAP],
  ids=lambda timeline: timeline.name,
)
def test_parse_of_format_is_the_identity(timeline):
  for key in timeline.months:
    for style in dates.FULL_DATE_STYLES:
      for you in (False, True):
        for script in dates.SCRIPTS:
          text = dates.format_key(key, timeline, style, you, script)
          assert dates.parse_key(text, timeline) == key, text
          assert dates.find_full_dates(text, timeline) == [(0, len(text), key)]


@pytest.mark.parametrize("name", ["jin", "liu_song", "southern_qi"])
def test_eras_round_trip_with_the_ruler(name):
  timeline = reigns.load_timeline(name)
  for key in timeline.months:
    text = dates.format_key(key, timeline)
    assert dates.parse_key(text, timeline) == key


def test_era_of_two_rulers_needs_the_ruler():
  jin = reigns.load_timeline("jin")
  with pytest.raises(DateError, match="晉惠帝建武, 晉元帝建武"):
    dates.parse_key("建武元年七月", jin)
  assert dates.parse_key("元帝建武元年七月", jin).reign == 17


TONGJIAN = reigns.load_timeline("tongjian")


def tongjian_date(interval):
  """Ruler, era and year-month of the first month."""
  key = interval.start
  name = TONGJIAN.full_reign_name(key.reign)
  return f"{name} {key.year}-{key.month}"


@pytest.mark.parametrize(
  "ruler",
  [
    *("晉", "西晉", "晉武帝", "武帝", "武皇帝", "世祖", "晉世祖", "世祖武皇帝"),
    *("晉世祖武皇帝", "西晉世祖武帝", "晉武帝之", "西晉·", "晉朝武帝"),
    *("晋世祖武皇帝", "西晋武帝", "世祖武皇帝上之下", "晉武帝（司馬炎）"),
  ],
)
def test_an_era_of_two_rulers_is_told_apart_by_any_name(ruler):
  text = f"请问{ruler}泰始三年五月发生了什么事？"
  interval = questions.parse_interval(text, TONGJIAN)
  assert interval.start == interval.end
  assert tongjian_date(interval) == "晉武帝泰始 3-5"


@pytest.mark.parametrize(
  ("meaning", "dates"),
  [
    ("宋明帝泰始 3-5", "宋太宗明皇帝泰始三年五月 刘宋泰始三年五月"),
    ("宋明帝泰始 3-5", "宋明帝泰始三年五月"),
    # Only one of the two had a year nine.
    ("晉武帝泰始 9-5", "泰始九年五月"),
    ("齊高帝建元 1-1", "蕭齊太祖高皇帝建元元年正月 齐高帝建元元年正月"),
    ("晉康帝建元 2-3", "東晉康皇帝建元二年三月"),
    ("晉元帝建武 1-3", "中宗元皇帝建武元年三月"),
    ("齊明帝建武 1-3", "齊高宗建武元年三月"),
    ("魏明帝太和 3-2", "烈祖明皇帝中之上太和三年二月"),
    ("晉海西公太和 3-2", "海西公太和三年二月"),
    ("晉孝武帝太元 3-2", "烈宗孝武皇帝太元三年二月"),
    ("宋孝武帝大明 3-2", "孝武帝大明三年二月"),
    ("晉安帝義熙 3-2", "晋安帝义熙三年二月"),
    ("宋後廢帝元徽 3-2", "苍梧王元徽三年二月"),
    ("齊東昏侯永元 1-2", "东昏侯永元元年二月"),
    ("魏齊王正始 3-2", "曹魏邵陵厉公正始三年二月"),
    ("晉簡文帝咸安 2-1", "簡文帝鹹安二年正月"),
    ("晉武帝泰始 3-2", "此後晉泰始三年二月"),
  ],
)
def test_rulers_by_temple_and_posthumous_names(meaning, dates):
  for date in dates.split():
    interval = questions.parse_interval(f"查詢{date}有何大事？", TONGJIAN)
    assert tongjian_date(interval) == meaning


@pytest.mark.parametrize(
  ("text", "meaning"),
  [
    ("《资治通鉴·齐纪》在建元元年正月记载了什么？", "齊高帝建元 1-1"),
    ("《資治通鑑·晉紀》在建元元年正月記載了什麼？", "晉康帝建元 1-1"),
    ("晉武帝在位之時，泰始二年三月有何事？", "晉武帝泰始 2-3"),
    ("泰始二年三月，劉宋有何事？", "宋明帝泰始 2-3"),
    ("自晉泰始二年三月至泰始三年正月有何事？", "晉武帝泰始 2-3"),
  ],
)
def test_an_era_of_two_rulers_is_told_apart_by_the_rest(text, meaning):
  interval = questions.parse_interval(text, TONGJIAN)
  assert tongjian_date(interval) == meaning


@pytest.mark.parametrize(
  ("ruler", "reign"),
  [
    *((name, 1) for name in ("梁明帝", "梁明皇帝", "明帝", "梁")),
    *((name, 2) for name in ("後梁宣帝", "宣皇帝")),
  ],
)
def test_a_table_of_the_users_needs_no_list_of_names(ruler, reign):
  timeline = Timeline(
    "own", (Reign("大定", "梁明帝", 300, 3), Reign("大定", "後梁宣帝", 310, 3))
  )
  key = dates.parse_key(f"{ruler}大定二年三月", timeline)
  assert key == TimeKey(reign, 2, 3)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("泰始二年三月有何事？", "write one of 晉武帝泰始, 宋明帝泰始"),
    ("建元元年正月有何事？", "write one of 晉康帝建元, 齊高帝建元"),
    # A state and a ruler of another name tell nothing.
    ("泰始二年三月，魏人有何事？", "write one of 晉武帝泰始, 宋明帝泰始"),
    ("《北齊書》載建元元年正月何事？", "write one of 晉康帝建元"),
    ("宋太康二年三月有何事？", "宋 had no 太康; .* has 晉武帝太康"),
    ("晉惠帝泰始二年三月有何事？", "晉惠帝 had no 泰始; .* 晉武帝泰始, 宋明帝"),
    ("北魏太和三年二月有何事？", "no date with a reign and year in the cal"),
    ("後魏太和三年二月有何事？", "no date with a reign and year in the cal"),
  ],
)
def test_what_stays_ambiguous_lists_the_candidates(text, message):
  with pytest.raises(DateError, match=message):
    questions.parse_interval(text, TONGJIAN)


@pytest.mark.parametrize(
  ("date", "months"),
  [
    ("公元265年三月", "11-1-3..11-1-3"),
    ("西元二六五年三月", "11-1-3..11-1-3"),
    ("公元二百六十五年三月", "11-1-3..11-1-3"),
    ("265年3月", "11-1-3..11-1-3"),
    ("公元265年", "11-1-1..11-1-12"),
    ("公元265年秋", "11-1-7..11-1-9"),
    ("公元265年三月至五月", "11-1-3..11-1-5"),
    ("公元274年十二月之後兩個月", "12-1-1..12-1-2"),
  ],
)
def test_years_of_the_common_era(date, months):
  interval = questions.parse_interval(f"{date}有何事？", TONGJIAN)
  assert str(interval) == months


@pytest.mark.parametrize(
  ("first", "last", "texts"),
  [
    (-721, -721, "722 BCE/What happened in 722 BC?/B.C. 722/西元前722"),
    (-721, -721, "前722年有何事？"),
    (-721, -719, "722-720 BCE/from 722 BCE to 720 BCE/up to 720 BCE"),
    (-721, -719, "between 722 and 720 BC/公元前722-720年/公元前722年到720年"),
    (-721, -719, "公元前722年至前720年/西元前722年至西元前720年"),
    (-721, -720, "before 720 BCE"),
    (280, 280, "280 CE/A.D. 280/西曆280年/公元280/晉太康元年 (pp. 120-150)"),
    (280, 281, "280-281/records of 280–281 ce/公元280-281年/公元280年到281年"),
    (281, 501, "after 280 CE"),
    (280, 501, "since 280 CE"),
    (280, 282, "晉太康元年（280 CE）至太康三年（282 CE）"),
  ],
)
def test_years_of_the_common_era_in_questions(first, last, texts):
  timeline = LU if first < 0 else TONGJIAN
  for question in texts.split("/"):
    interval = questions.parse_interval(question, timeline)
    years = [
      reigns.astronomical_year_of(timeline, key)
      for key in (interval.start, interval.end)
    ]
    assert years == [first, last], question


@pytest.mark.parametrize(
  ("question", "message"),
  [
    ("three years after 280 CE", "length of time means; write both years"),
    ("in the third month of 280 CE", "'month' refers to part of a year"),
    ("280-600 CE", "600 CE is not in the calendar"),
    ("0 CE", "no year 0"),
    ("公元0年正月有何事？", "no year 0"),
    ("281-280 CE", "ends before it starts"),
    ("25-30", "no date with a reign and year"),
  ],
)
def test_questions_of_the_common_era_that_cannot_be_read(question, message):
  with pytest.raises(DateError, match=message):
    questions.parse_interval(question, TONGJIAN)


def test_months_of_a_common_year_have_the_name_of_their_time():
  jin = reigns.load_timeline("jin")

  def reigns_of(text):
    interval = questions.parse_interval(text, jin)
    ends = interval.start, interval.end
    return [f"{jin.reigns[key.reign - 1].name}{key.month}" for key in ends]

  assert reigns_of("公元290年三月") == ["太熙3", "太熙3"]
  assert reigns_of("公元290年四月") == ["永熙4", "永熙4"]
  assert reigns_of("公元290年") == ["太熙1", "永熙12"]
  assert reigns_of("公元304年秋") == ["建武7", "建武9"]
  assert reigns_of("公元304年冬") == ["建武10", "永興12"]


def test_common_years_before_the_era_and_outside_a_timeline():
  interval = questions.parse_interval("公元前722年三月有何事？", LU)
  assert str(interval) == "1-1-3..1-1-3"
  message = "not in the calendar, which covers 722 BCE to 468 BCE; did you "
  message += "mean 722 BCE"
  with pytest.raises(DateError, match=message):
    questions.parse_interval("公元722年有何事？", LU)
  assert dates.parse_key("公元前722年三月", LU) == TimeKey(1, 1, 3)
  # Whoever carries a date along does not read such years.
  assert find_date_cues("公元前722年三月") == []


def test_a_leap_month_that_the_calendar_does_not_have():
  def parse(date):
    return str(questions.parse_interval(f"{date}有何事？", TONGJIAN))

  # Which month it follows is not known: any of the year.
  assert parse("永明元年闰月") == parse("永明元年")
  assert parse("永明元年閏五月") == parse("永明元年五月")


@pytest.mark.parametrize(
  ("text", "key"),
  [
    ("魯隱公元年，春，王正月", TimeKey(1, 1, 1)),
    ("鲁隐公二年三月", TimeKey(1, 2, 3)),
    ("魯𨼆公二年三月", TimeKey(1, 2, 3)),
    ("荘公32年3月", TimeKey(3, 32, 3)),
    ("釐公元年三月", TimeKey(5, 1, 3)),
    ("僖廿八年四月", TimeKey(5, 28, 4)),
  ],
)
def test_other_spellings(text, key):
  assert dates.parse_key(text, LU) == key


def test_leap_month_without_a_number():
  assert dates.parse_key("魯隱公二年閏月", LEAP) == TimeKey(1, 2, 12, True)
  with pytest.raises(DateError, match="2 leap months"):
    dates.parse_key("魯莊公元年閏月", LEAP)
  with pytest.raises(DateError, match="0 leap months"):
    dates.parse_key("魯隱公元年閏月", LEAP)


@pytest.mark.parametrize(
  ("text", "position"),
  [
    ("", 0),
    ("元年正月", 0),
    ("在魯隱公元年正月", 0),
    ("魯隱公元年", 5),
    ("魯隱公元年正月有事", 7),
    ("魯隱公十二年正月", 0),
    ("魯隱公元年十三月", 5),
    ("晉文公元年正月", 0),
    ("魯隱公元年正月癸未", 9),
  ],
)
def test_unreadable_dates_are_quoted_with_their_place(text, position):
  with pytest.raises(DateError) as caught:
    dates.parse_key(text, LU)
  assert caught.value.position == position
  assert repr(text[position : position + 12]) in str(caught.value)


def cue(text, **parts):
  """The cue that covers the whole of `text`."""
  return DateCue(0, len(text), **parts)


@pytest.mark.parametrize(
  ("text", "parts"),
  [
    ("冬十有二月癸未", {"season": "冬", "month": 12, "day": "癸未"}),
    ("秋，七月，壬午", {"season": "秋", "month": 7, "day": "壬午"}),
    ("元年，春，王正月", {"year": 1, "season": "春", "month": 1}),
    ("二十有三年春", {"year": 23, "season": "春"}),
    ("夏五", {"season": "夏", "month": 5}),
    ("閏月", {"leap": True}),
    ("閏三月", {"leap": True, "month": 3}),
    ("己巳", {"day": "己巳"}),
    ("已巳", {"day": "己巳"}),
    ("隱元年", {"reign": "隱公", "year": 1}),
    ("魯僖公二十八年", {"reign": "僖公", "year": 28}),
    ("㐮公三年夏", {"reign": "襄公", "year": 3, "season": "夏"}),
    ("鲁闵公二年", {"reign": "閔公", "year": 2}),
    ("己未年", {"year_cycle": "己未"}),
    ("己未年三月", {"year_cycle": "己未", "month": 3}),
    ("歲在甲子", {"year_cycle": "甲子"}),
    ("岁次庚申，夏四月", {"year_cycle": "庚申", "season": "夏", "month": 4}),
    ("甲子歲冬", {"year_cycle": "甲子", "season": "冬"}),
    (
      "隱公元年，歲在己未，春王正月",
      dict(reign="隱公", year=1, year_cycle="己未", season="春", month=1),
    ),
  ],
)
def test_cues(text, parts):
  assert find_date_cues(text) == [cue(text, **parts)]


@pytest.mark.parametrize(
  "text",
  [
    *("三月而葬", "天子七月而葬", "其弟年來聘", "有年", "春秋", "《春秋》"),
    *("居三月", "晉文公三年春", "齊桓公元年", "平王三年", "三年之喪"),
    *("諸夏親暱", "夏徵舒", "公孫夏", "僖之元年", "踰月", "雖己未能"),
    *("十三月", "一月周天", "歲在鶉火"),
  ],
)
def test_no_cue(text):
  assert find_date_cues(text) == []


def test_unpunctuated_text_and_positions():
  (found,) = find_date_cues("經三年春王二月已巳日有食之")
  assert found == DateCue(1, 9, year=3, month=2, season="春", day="己巳")


def test_clauses_make_separate_cues():
  text = "夏四月，取鼎。戊申，納于廟。秋，入杞。"
  found = [text[c.start : c.end] for c in find_date_cues(text)]
  assert found == ["夏四月", "戊申", "秋"]


def test_cues_know_the_names_of_their_timeline():
  mini = reigns.load_timeline("mini")
  (cue,) = find_date_cues("滄懷公三年夏四月", mini)
  assert (cue.reign, cue.year, cue.month) == ("懷公", 3, 4)
  assert find_date_cues("懷公三年") == []


def test_a_sexagenary_year_is_no_day():
  for text, day in (("公以己未年卒", None), ("冬十月己未，年老", "己未")):
    assert [cue.day for cue in find_date_cues(text)] == [day]


def test_a_sexagenary_year_has_to_agree_with_the_regnal_year():
  for key in (TimeKey(1, 1, 3), TimeKey(12, 27, 3)):
    year, month = dates.format_key(key, LU).split("年")
    name = sexagenary.format_cyclic_year(reigns.astronomical_year_of(LU, key))
    text = f"{year}年歲在{name[:2]}，{month}"
    assert dates.parse_key(text, LU) == key
  with pytest.raises(DateError, match="庚申 contradicts.*己未年"):
    dates.parse_key("魯隱公元年歲在庚申三月", LU)


def test_a_sexagenary_year_alone_is_no_date_of_a_query():
  text = "自魯隱公元年三月至庚申年三月有何事？"
  with pytest.raises(DateError, match="庚申 alone") as caught:
    questions.parse_interval(text, LU)
  assert caught.value.position == text.index("庚申")


def test_full_dates_in_a_text():
  text = "魯隱公元年正月至桓公二年三月，又及隱公十三年正月、晉文公元年五月"
  assert dates.find_full_dates(text, LU) == [
    (0, 7, TimeKey(1, 1, 1)),
    (8, 14, TimeKey(2, 2, 3)),
  ]


@pytest.mark.skipif(
  "CTD_JAX_SOURCES" not in os.environ,
  reason="CTD_JAX_SOURCES names no folder of source texts",
)
def test_cues_of_the_real_annals():
  items = annals_items(os.environ["CTD_JAX_SOURCES"])
  counts = collections.Counter(map(kind_of_cue, items))
  # An independent count of the 1,860 items has 696 months (295 with a day),
  # 471 seasons, 67 days, 2 leap months and 624 without. The one item that
  # differs is 「夏五」, which lost its 月: a month here, nothing there.
  assert dict(counts) == {
    "month": 697 - 295,
    "month+day": 295,
    "season": 471,
    "day": 67,
    "leap": 2,
    "none": 623,
  }


def annals_items(folder):
  """Items of the Annals in the Kanripo edition of the sources."""
  items = []
  for path in sorted(pathlib.Path(folder, "zuozhuan_KR1e0001").glob("*.txt")):
    text = path.read_text(encoding="utf-8").replace("¶", "")
    text = re.sub(r"^#.*$|<pb[^>]*>", "", text, flags=re.MULTILINE)
    columns = re.findall(
      r"^A\d+\.\d+\.\d+[a-z]?(.*?)(?=^[AB*]|\Z)", text, re.M | re.S
    )
    items += ["".join(item.split()) for item in columns]
  return items


def kind_of_cue(text):
  cues = find_date_cues(text)
  if not cues or cues[0].start:
    return "none"
  first = cues[0]
  if first.month:
    return "month+day" if first.day else "month"
  return "leap" if first.leap else "season" if first.season else "day"
