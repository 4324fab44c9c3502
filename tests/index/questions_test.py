"""Questions about an index: what they mean."""

import contextlib
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctd_jax.benchmark import generation
from ctd_jax.chronology import numerals, reigns
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.index import question_calendar
from ctd_jax.index.question_calendar import PASSAGE, TIME, WORDS, QuestionError
from ctd_jax.index.question_reading import QuestionReader
from ctd_jax_datasets.chunqiutr import gallery

LU = reigns.load_timeline("lu_release")
LU_READER = QuestionReader(
  calendar_lib.make_calendar(LU), works=("春秋", "左傳")
)
MANY_READER = QuestionReader(calendar_lib.load_calendar("all"))


def months_of(question):
  return [tuple(span[:2]) for span in question.intervals]


def year_months(number, year):
  """Returns the first and last month of a year of a duke."""
  interval = LU.year_interval(number, year)
  return LU.interval_ordinals(interval)


def month(number, year, month_number):
  ordinal = LU.ordinal(TimeKey(number, year, month_number))
  return ordinal, ordinal


YIN = year_months(1, 1)
TIMES = {
  "魯隱公元年五月": month(1, 1, 5),
  "隱公元年夏五月有何記事？": month(1, 1, 5),
  "魯隱公元年五月發生了什麼事": month(1, 1, 5),
  "魯隱公元年五月之事": month(1, 1, 5),
  "《春秋》隱公元年五月": month(1, 1, 5),
  "隱公元年秋": (6, 8),
  "襄公二十六年至二十八年": (year_months(9, 26)[0], year_months(9, 28)[1]),
  "722 BCE": YIN,
  "722 BCE..719 BCE": (0, 47),
  "公元前722年": YIN,
  "西元前七二二年有什麼大事": YIN,
  "What happened in 722 BCE?": YIN,
  "隱公元年..三年": (0, 35),
  "隱公元年春夏": (0, 5),
  "隱公二、三年": (12, 35),
  "自隱公二年起三年內有何大事": (12, 47),
  "隱公三年前後一年": (12, 47),
  "隱公三年五月之後三個月": (29, 31),
  "隱公年間": (0, 131),
  "魯隱公在位期間有何大事": (0, 131),
  "公元前八世紀": (0, 263),
  "8th century BCE": (0, 263),
  "What happened in the fifth month of the first year of Duke Yin of Lu?": (
    month(1, 1, 5)
  ),
  "spring of the 2nd year of Duke Yin": (12, 14),
}


@pytest.mark.parametrize(("text", "expected"), TIMES.items())
def test_times(text, expected):
  for written in {text, numerals.to_simplified(text)}:
    question = LU_READER.read(written)
    assert question.intent == TIME
    assert question.words == ()
    assert months_of(question) == [expected], written
    assert question.text == written


@pytest.mark.parametrize(
  ("text", "words", "expected"),
  [
    ("葬衛桓公", ("葬衛桓公",), []),
    ("僖公年間的日食", ("日食",), [(756, 1139)]),
    ("隱公五年四月葬衛桓公", ("葬衛桓公",), [month(1, 5, 4)]),
    ("隱公五年四月，葬衛桓公", ("葬衛桓公",), [month(1, 5, 4)]),
    ("隱公元年鄭伯克段于鄢", ("鄭伯克段于鄢",), [YIN]),
    ("「隱公元年」", ("隱公元年",), []),
    ("日有食之", ("日有食之",), []),
    ("隱公元年的日有食之", ("日有食",), [YIN]),
    ("「日食」有哪些記載？", ("日食",), []),
    ("獲麟是哪一年？", ("獲麟",), []),
    # The year is asked for, and not the first.
    ("隱公時，衛桓公葬在哪一年的四月？", ("衛桓公葬", "四月"), [(0, 131)]),
    ("公子翬是誰", ("公子翬",), []),
    ("孔丘卒於何時？", ("孔丘卒",), []),
    ("諸侯", ("諸侯",), []),
    ("晉文公什麼時候死的？", ("晉文公", "死"), []),
    ("劉曜、王彌入京師", ("劉曜", "王彌入京師"), []),
    ("城濮之戰 晉文公", ("城濮之戰", "晉文公"), []),
    ("when was Duke Huan of Wei buried", ("Duke", "Huan", "Wei", "buried"), []),
    ("桓公時的會盟", ("會盟",), [(132, 347)]),
    ("eclipses in the reign of Duke Xi", ("eclipses",), [(756, 1139)]),
  ],
)
def test_words(text, words, expected):
  question = LU_READER.read(text)
  assert question.intent == WORDS
  assert question.words == words
  assert months_of(question) == expected


@pytest.mark.parametrize(
  "text",
  [
    "五月，葬衛桓公。",
    "冬，公會齊侯于防",
    "元年春王正月。公何以不言即位？",
    "哀公十四年春，西狩獲麟。",
    "鄭伯克段于鄢" * 8,
    "and in this year the king went with all his host to the great river and"
    " fought there and many men were slain on either side before the evening"
    " came and they made peace",
  ],
)
def test_passages(text):
  question = LU_READER.read(text)
  assert question.intent == PASSAGE
  assert question.passage == text
  assert not question.intervals
  assert question.notes


def test_an_intent_that_is_known_wins():
  text = "五月，葬衛桓公。"
  assert LU_READER.read(text, WORDS).words == ("葬衛桓公",)
  assert LU_READER.read("隱公元年五月", PASSAGE).passage == "隱公元年五月"
  question = LU_READER.read("隱公五年四月葬衛桓公", TIME)
  assert (question.intent, question.words) == (TIME, ())
  assert months_of(question) == [month(1, 5, 4)]
  with pytest.raises(QuestionError, match="no date in '葬衛桓公'"):
    LU_READER.read("葬衛桓公", TIME)
  with pytest.raises(ValueError, match="expected one of time, words, passage"):
    LU_READER.read(text, "date")


@pytest.mark.parametrize("template", generation.TEMPLATES)
def test_templates_of_the_benchmark_ask_for_their_months_alone(template):
  for key in ("1-1-5", "8-7-1", "5-28-12"):
    anchor = TimeKey.parse(key)
    interval = template.resolve_interval(LU, anchor)
    if interval is None:
      continue
    text = template.format_question(LU, anchor, interval)
    question = LU_READER.read(text)
    assert (question.intent, question.words) == (TIME, ()), text
    assert months_of(question) == [LU.interval_ordinals(interval)], text
    assert not question.readings


def test_questions_of_the_benchmark_are_about_all_its_works():
  reader = QuestionReader(
    calendar_lib.make_calendar(LU), works=[*gallery.SOURCE_TITLES.values()]
  )
  assert not reader.read("《春秋》隱公元年正月何記？").works
  assert reader.read("《春秋經》隱公元年正月何記？").works == ("春秋經",)


def test_titles_ask_for_works():
  question = LU_READER.read("《左傳》隱公元年")
  assert question.works == ("左傳",)
  question = LU_READER.read("《史記》隱公元年")
  assert question.works == ()
  assert "《史記》 is not in the index" in str(question.notes[0])


def test_sexagenary_days():
  question = MANY_READER.read("永嘉五年六月丁酉")
  assert question.day == 33
  assert question.intent == TIME
  assert question.words == ("丁酉",)
  (one_month,) = months_of(question)
  year = MANY_READER.read("永嘉五年丁酉")
  assert one_month in months_of(year)
  assert len(year.intervals) == 6  # every second month
  assert [*map(str, year.notes)] == ["only months that can have the day 丁酉"]
  # Without months the pair is a word.
  lone = LU_READER.read("丙子朔")
  assert (lone.intent, lone.words, lone.day) == (WORDS, ("丙子",), 12)


def test_days_of_an_uncertain_calendar_narrow_a_year():
  question = LU_READER.read("僖公五年丙子朔")
  ((first, last),) = months_of(question)
  year_first, year_last = year_months(5, 5)
  assert year_first < first <= last == year_last
  assert months_of(LU_READER.read("僖公五年十二月丙子朔")) == [(last, last)]


def test_a_year_without_a_reign_lists_the_rulers():
  question = LU_READER.read("元年有何記事")
  numbers = range(1, len(LU.reigns) + 1)
  names = [f"{LU.full_reign_name(number)}元年" for number in numbers]
  assert [reading.name for reading in question.readings] == names
  assert len(question.intervals) == len(LU.reigns)
  assert "12 possible meanings; all are searched" in str(question.notes[0])
  # Only the longest reigns have so many years.
  names = [reading.name for reading in LU_READER.read("三十一年五月").readings]
  assert names == ["魯莊公三十一年五月", "魯僖公三十一年五月", *names[2:]]
  assert "魯襄公三十一年五月" in names


def test_an_era_of_several_states_lists_all():
  question = MANY_READER.read("泰始元年五月")
  names = ["晉武帝泰始元年五月", "劉宋明帝泰始元年五月"]
  assert [reading.name for reading in question.readings] == names
  spans = [tuple(reading.span[:2]) for reading in question.readings]
  assert months_of(question) == spans
  assert len(MANY_READER.read("建武年間").readings) > 5
  assert MANY_READER.read("晉泰始元年五月").readings == ()
  assert MANY_READER.read("泰始九年").readings == ()  # of one only


def test_meanings_with_records_come_first_by_time():
  calendar = calendar_lib.load_calendar("晉,劉宋")
  first = len(calendar) - 40
  counts = np.zeros(len(calendar), int)
  counts[first:] = 1
  reader = QuestionReader(calendar, count_records=lambda: counts)
  readings = reader.read("元年").readings
  has_records = [reading.span.last >= first for reading in readings]
  assert 0 < sum(has_records) < len(readings)
  assert has_records == sorted(has_records, reverse=True)
  months = [reading.span.first for reading in readings]
  number = sum(has_records)
  assert months[:number] == sorted(months[:number])


@pytest.mark.parametrize(
  ("text", "is_passage"),
  [
    ("夏四月使来賀千齡節帝獵於炭山", True),
    ("齊侯使其弟年來聘公及大夫送之", True),
    ("隱公三年二月己巳日有食之", False),
    ("隱公五年夏四月葬衛桓公于其國之南", False),  # words of a known time
    ("鄭伯克段于鄢", False),
    ("五月有何記事載於史冊而可考者乎", False),
  ],
)
def test_long_texts_without_punctuation_are_passages(text, is_passage):
  assert (LU_READER.read(text).intent == PASSAGE) == is_passage


def test_printed_reigns_come_first():
  calendar = calendar_lib.load_calendar("晉,劉宋")
  names = [reign.state + reign.name for reign in calendar.timeline.reigns]
  reader = QuestionReader(calendar, frozenset({names.index("劉宋明帝泰始")}))
  readings = reader.read("泰始元年").readings
  assert readings[0].name == "劉宋明帝泰始元年"


def test_many_meanings_are_cut_and_counted():
  question = MANY_READER.read("元年")
  assert len(question.readings) == question_calendar.MAX_READINGS
  assert len(question.intervals) > 1000
  assert "24 of 1," in str(question.notes[0])


@pytest.mark.parametrize(
  ("text", "names"),
  [
    ("太祖時", ("遼太祖", "宋太祖", "金太祖", "明太祖")),
    ("宋太祖時的杯酒", ()),
    ("武帝時", ("西漢武帝", "晉武帝", "劉宋武帝")),
    ("宋代的水災", ("劉宋 (420 CE to 479 CE)", "宋 (960 CE to 1279 CE)")),
    ("己未年", ("己未年 (242 BCE)", "己未年 (182 BCE)")),
  ],
)
def test_rulers_dynasties_and_years_of_the_cycle(text, names):
  readings = [reading.name for reading in MANY_READER.read(text).readings]
  assert set(names) <= set(readings)


@pytest.mark.parametrize(
  ("text", "first", "last"),
  [
    ("June 311 CE", "晉懷帝永嘉五年四月", "晉懷帝永嘉五年五月"),
    ("13 July 311", "晉懷帝永嘉五年六月", None),
    ("公元311年7月13日", "晉懷帝永嘉五年六月", None),
    ("天寶十四載十一月", "唐玄宗天寶十四年十一月", None),
    ("天宝十四载", "唐玄宗天寶十四年", None),
    ("後至元元年", "元順帝至元元年", None),
    ("萬曆丁酉七月", "明神宗萬曆二十五年七月", None),
    ("漢高祖元年冬十月", "西漢高帝元年十月", None),
  ],
)
def test_dates_of_many_calendars(text, first, last):
  question = MANY_READER.read(text)
  (span,) = question.intervals
  start, end = MANY_READER.read(first), MANY_READER.read(last or first)
  assert span[:2] == (start.intervals[0].first, end.intervals[0].last)


def test_a_side_of_a_western_month():
  month_span, before, after = (
    MANY_READER.read(text).intervals[0]
    for text in ("June 311 CE", "before June 311 CE", "after June 311 CE")
  )
  assert before[:2] == (0, month_span.first - 1)
  assert after.first == month_span.last + 1


def test_a_month_of_any_year():
  question = LU_READER.read("五月葬衛桓公")
  assert question.words == ("葬衛桓公",)
  assert len(question.intervals) == len(LU) // 12
  (note,) = question.notes
  assert str(note) == "五月 of any year, because no year is given"
  assert months_of(LU_READER.read("五月至七月"))[0] == (4, 6)


@pytest.mark.parametrize(
  ("text", "spans", "words"),
  [
    ("隱公二年或三年", [(12, 23), (24, 35)], ()),
    ("隱公元年五月或八月有何事", [(4, 4), (7, 7)], ()),
    ("隱公元年、三年、五年", [(0, 11), (24, 35), (48, 59)], ()),
    ("隱公元年五月或三年四月的日食", [(4, 4), (27, 27)], ("日食",)),
    ("722 BCE or 720 BCE", [(0, 11), (24, 35)], ()),
    ("隱公元年五月或桓公三年四月", [(4, 4), (159, 159)], ()),
    ("隱公元年春或秋", [(0, 2), (6, 8)], ()),
    ("隱公元年五、六月", [(4, 5)], ()),
    ("隱公元年五月與八月之間", [(4, 7)], ()),
    ("隱公元年三月、三年之喪", [(2, 2)], ("三年之喪",)),
  ],
)
def test_one_date_or_another(text, spans, words):
  question = LU_READER.read(text)
  assert months_of(question) == spans
  assert question.words == words
  assert not question.readings


@pytest.mark.parametrize(
  ("reader", "text", "note"),
  [
    (
      LU_READER,
      "June 700 BCE",
      "may be any of the months 魯桓公十二年四月 – 魯桓公十二年九月",
    ),
    (
      LU_READER,
      "-0699-06",
      "may be any of the months 魯桓公十二年四月 – 魯桓公十二年九月",
    ),
    (LU_READER, "僖公", "僖公 is searched as a word; ask 僖公年間"),
    (LU_READER, "襄公末的日食", "襄公末 is read as the whole of 襄公"),
    (LU_READER, "文公六年閏月", "leap months: the whole year is searched"),
    (LU_READER, "文公六年閏三月", "閏三月 is read as 魯文公六年三月"),
    (MANY_READER, "晉永熙元年正月", "was not in use .*太熙元年正月"),
    (MANY_READER, "晉永熙元年五月", ""),
    (MANY_READER, "北宋時期的日食", "北宋 is read as 宋 "),
    (MANY_READER, "永嘉五年六月十一日", "十一日 is ignored"),
    (MANY_READER, "永嘉五年六月初一", "初一 is ignored"),
    (MANY_READER, "王衍 311", "311 is read as a year of the common era"),
    (MANY_READER, "魏明帝景初元年三月", "the year has no such month"),
  ],
)
def test_doubts_are_told(reader, text, note):
  question = reader.read(text)
  assert bool(question.notes) == bool(note)
  assert re.search(note, " ".join(map(str, question.notes)))


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "the question is empty"),
    (" \n\t ", "the question is empty"),
    ("有何記事？", "neither a date nor a word"),
    ("？？", "neither a date nor a word"),
    ("隱公\x00元年", r"character 2 of the question is .* U\+0000"),
    ("隱公\x1b[31m", r"U\+001B"),
    ("隱" * 100_000, "the question has 100,000 characters"),
    ("洪武三年", "洪武 is not a reign in .* used in 明"),
    ("洪武年間的黃河", "洪武 is not a reign in .* used in 明"),
    ("光嘉三年五月", "光嘉 is not a reign in calendar"),
    ("晉文公五年有何事", "'晉文公' does not name a reign"),
    ("至元三年", "至元 is not a reign in .* 元"),
    ("自隱公元年至永平元年", "永平 is not a reign in .* 東漢"),
    ("隱公三十年", "魯隱公 has only 11 years"),
    ("311 CE", "311 CE is not in .* 722 BCE to 628 BCE, 626 BCE to 469 BCE"),
    ("632 CE", "did you mean 632 BCE?"),
    ("627 BCE", "has no months of 627 BCE; the year beside it is 628 BCE"),
    ("公元前822年有何大事", "822 BCE is not in .* 626 BCE to 469 BCE"),
    ("0 CE", "no year 0"),
    ("魯隱公三年五月之前數月", "cannot tell which months '數月' means"),
    ("三世紀", "'三世紀' lies outside"),
  ],
)
def test_errors_are_one_line_that_says_what_would_be_right(text, message):
  with pytest.raises(QuestionError, match=message) as caught:
    LU_READER.read(text)
  assert "\n" not in str(caught.value)
  assert len(str(caught.value)) < 500


_WORDS = """
魯 隱公 建武 泰始 晉 漢武帝 元年 三年 0年 99月 正月 五月 閏 月 春 夏五
王 癸未 朔 甲子年 之前 後 前後 半年 三個月 自 至 起 同年 次年 《 》
「 」 ， 。 June 公元 前 世紀 年間 時 朝 有何記事 what 葬衛桓公 ？ 日食
- ..
"""
_PARTS = st.sampled_from(
  [*_WORDS.split(), "311 CE", "722 BCE", " ", "\x00", "\n"]
)
FEW_CALENDARS = calendar_lib.load_calendar("秦,漢,晉,日本")
FEW_READER = QuestionReader(FEW_CALENDARS)
NUM_MONTHS = {LU_READER: len(LU), FEW_READER: len(FEW_CALENDARS)}


@settings(
  max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
  st.one_of(st.lists(_PARTS, max_size=9).map("".join), st.text(max_size=40)),
  st.sampled_from([None, *question_calendar.INTENTS]),
  st.sampled_from([LU_READER, FEW_READER]),
)
def test_any_text_is_a_question_or_a_question_error(text, intent, reader):
  with contextlib.suppress(QuestionError):
    question = reader.read(text, intent)
    readings = [reading.span for reading in question.readings]
    for span in (*question.intervals, *readings):
      assert 0 <= span.first <= span.last < NUM_MONTHS[reader]
    assert (
      question.words or question.passage or question.intervals or question.works
    )
