"""Dates as they are encoded and written: characters, numerals, pairs, eras."""

import functools
import re

import numpy as np
import pytest

from ctd_jax.chronology import dates, numerals
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  eras,
  written_dates,
)
from ctd_jax.dating.chronicle.sections import fold_date_glyphs
from ctd_jax.texts.works import Entry, Place


@functools.cache
def load(polity):
  return chronicle_input.load_reigns(polity)


def read_lines(lines, polity):
  """Returns the sections of lines of text."""
  records = [
    Entry(line, Place("text.txt", number))
    for number, line in enumerate(lines, start=1)
  ]
  return chronicle_dating.read_all_sections(records, load(polity))


def find_cue(text, polity):
  (cue,) = dates.find_date_cues(text, load(polity).timeline)
  return cue


@pytest.mark.parametrize(
  ("line", "head"),
  [
    ("\u200b建隆元年四月，二。", "\u200b建隆元年四月"),
    ("\ufeff建隆元年四月，二。", "\ufeff建隆元年四月"),
    ("建\U000e0100隆元年四月，二。", "建\U000e0100隆元年四月"),
    ("建隆\u00ad元年四月，二。", "建隆\u00ad元年四月"),
    # Variants.
    ("建隆元\u2060年四\ufe00月，二。", "建隆元\u2060年四\ufe00月"),
    ("建隆\u200d元年㋃，二。", "建隆\u200d元年㋃"),
    ("建隆元年⼀⽉，二。", "建隆元年⼀⽉"),
    ("建隆１年４月，二。", "建隆１年４月"),
  ],
)
def test_dates_are_read_in_one_form_with_their_printed_places(line, head):
  month = 1 if "⼀" in line else 4
  (section,) = read_lines([line], "宋")
  assert section.statements[:2] == (("year", "建隆", 1), ("month", month))
  assert line[section.start : section.date_end] == head
  assert section.stop == len(line)


def test_sections_in_a_line_with_invisible_characters_cover_it():
  line = "\u200b建隆元年\u00ad四月，一。五\u2060月，二。"
  first, second = read_lines([line], "宋")
  assert (first.start, second.stop) == (0, len(line))
  assert first.stop == second.start == line.index("五")
  assert line[second.start : second.date_end] == "五\u2060月"


def test_long_s_is_a_letter_of_dates():
  (section,) = read_lines(
    ["On the firſt of Auguſt 1558, a ſtorme."], "CE:1550-1560"
  )
  assert ("month", 8) in section.statements


@pytest.mark.parametrize(
  ("text", "year", "month"),
  [
    ("萬曆一二年三月", 12, 3),
    ("萬曆二〇年五月", 20, 5),
    ("萬曆二十三年一一月", 23, 11),
    ("萬曆二七年二月", 27, 2),
    ("萬曆廿八年二月", 28, 2),
    ("萬曆拾伍年貳月", 15, 2),
    # Variants.
    ("萬曆丗二年一〇月", 32, 10),
    ("萬曆卌年閏拾壹月", 40, 11),
    ("萬曆２○年１２月", None, None),
    ("萬曆二○年１２月", 20, 12),
    ("萬曆四一年一十二月", 41, 12),
    ("萬曆肆拾有陸年臘月", 46, 12),
  ],
)
def test_numerals_of_years_and_months(text, year, month):
  cues = dates.find_date_cues(text, load("明").timeline)
  if year is None:
    assert all(cue.year is None for cue in cues)
    return
  assert [(cue.reign, cue.year, cue.month) for cue in cues] == [
    ("萬曆", year, month)
  ]


@pytest.mark.parametrize(
  ("text", "number"),
  [
    ("一二", 12),
    ("二〇", 20),
    ("拾伍", 15),
    ("貳拾有參", 23),
    ("丗", 30),
    ("一一三", 113),
    ("一百一十三", 113),
    ("二百有六", 206),
    ("１２", 12),
  ],
)
def test_numerals_have_one_value(text, number):
  assert numerals.parse_numeral(text) == number


@pytest.mark.parametrize(
  "text", ["一百三年", "十二三年", "二十三四年", "二三年", "三五年", "113年"]
)
def test_the_tail_of_a_numeral_is_none(text):
  assert not re.search(f"{numerals.NUMERAL_PATTERN}年", text)


@pytest.mark.parametrize("text", ["可參月日而知", "參年表", "參月令"])
def test_to_compare_is_no_number(text):
  assert not dates.find_date_cues(text, load("宋").timeline)


def test_what_looks_like_a_numeral_is_one():
  digits = np.random.default_rng(40).choice(
    [*"一二十百有又〇拾貳廿卅1２0"], 4000
  )
  for pattern in (
    numerals.NUMERAL_PATTERN,
    numerals.REGNAL_NUMERAL_PATTERN,
    numerals.MONTH_NUMERAL_PATTERN,
  ):
    for match in re.finditer(pattern, "".join(digits)):
      assert numerals.parse_numeral(match[0]) > 0


@pytest.mark.parametrize(
  ("text", "polity", "year"),
  [
    ("光緒己亥，立儲。", "清", 1899),
    ("萬曆丁亥", "明", 1587),
    ("天保八年丁酉", "日本", 1837),
    ("光緒二十六年庚子，和議起。", "清", 1900),
    ("康熙六十一年壬寅", "清", 1722),
    # Variants.
    ("清光緒戊戌變法。", "清", 1898),
    ("乾隆甲子仲秋", "清", 1744),
    ("嘉靖辛酉重刊", "明", 1561),
  ],
)
def test_the_pair_of_a_year_is_no_day(text, polity, year):
  calendar = load(polity)
  cue = find_cue(text, polity)
  assert cue.day is None
  assert cue.year_cycle
  (section,) = read_lines([text], polity)
  assert any(name == "cycle" for name, *_ in section.statements)
  is_named = written_dates.find_months(text[: cue.end], calendar)
  assert set(calendar.years[is_named].tolist()) == {year}


@pytest.mark.parametrize(
  "text",
  [
    "改元崇禎丁亥，大赦。",
    "崇禎己巳朔，日有食之。",
    "改元崇禎元年丁亥，大赦。",
    # 崇禎 had no such year.
    "崇禎甲子，大赦。",
  ],
)
def test_a_pair_after_an_era_that_lacks_it_is_a_day(text):
  cue = find_cue(text, "明")
  assert cue.day
  assert cue.year_cycle is None


def name_unknown(text, polity="宋"):
  return [era.name for era in eras.find_unknown_eras(text, load(polity))]


@pytest.mark.parametrize(
  "name", ["天恩寳祐", "天彰景德", "大貺淳熙", "天象景祐"]
)
def test_an_era_is_not_cut_out_of_a_longer_one(name):
  text = f"{name}元年春正月，改元，羣臣請加尊號。"
  assert name_unknown(text) == [name]
  (section,) = read_lines([text], "宋")
  assert section.statements[0] == (
    "unknown era",
    fold_date_glyphs(name),
    1,
  )


def test_a_longer_era_of_another_country_is_known_as_that():
  text = "天資寳祐元年春正月，改元，羣臣請加尊號。"
  (era,) = eras.find_unknown_eras(text, load("宋"))
  assert era.name == "天嘉寶祐"
  assert era.known
  (section,) = read_lines([text], "宋")
  assert section.statements[0] == ("unknown era", "天嘉寶祐", 1)


@pytest.mark.parametrize(
  "text",
  [
    "理宗寶祐元年春正月",
    "宋寶祐元年春正月",
    "大宋寶祐元年春正月",
    "改元寶祐元年丁未",
    "是歲寶祐元年春正月",
    "於是乎寶祐元年春正月",
    "帝崩。寶祐元年春正月",
    "太平興國元年春正月",
    "國朝寶祐元年春正月",
    "聖宋寶祐元年春正月",
    "重修寶祐元年春正月",
  ],
)
def test_words_and_rulers_before_an_era_are_not_part_of_it(text):
  assert name_unknown(text) == []
  assert dates.find_date_cues(text, load("宋").timeline)[0].year == 1


def test_a_state_after_afterwards_is_read():
  assert name_unknown("此後晉泰始元年") == ["泰始"]
