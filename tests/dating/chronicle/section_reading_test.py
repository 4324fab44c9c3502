"""Sections of records: where they begin and what they print of their dates."""

import collections
import itertools
import os
import pathlib

import pytest

from ctd_jax import texts
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import eras as eras_lib
from ctd_jax.dating.chronicle import section_reading
from ctd_jax.dating.chronicle.sections import (
  DAY,
  MONTH,
  NAMED,
  NO_DATE,
  SEASON,
  STREAM,
  YEAR,
  Section,
)

OUTSIDE = os.environ.get("CTD_JAX_OUTSIDE", "")


def read(text, eras):
  """Returns (kind, statements) of every section, whose spans cover the text."""
  sections = section_reading.read_sections(0, text, eras)
  assert "".join(text[s.start : s.stop] for s in sections) == text
  return [(s.kind, s.statements) for s in sections]


def cut(text, eras):
  """Returns the text of every section."""
  sections = section_reading.read_sections(0, text, eras)
  return [text[s.start : s.stop] for s in sections]


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("地震。", [(NO_DATE, ())]),
    ("春，正月，城成。", [(SEASON, (("month", 1),))]),
    ("秋，大水。", [(SEASON, (("season", 2),))]),
    # 夏 is a name here.
    ("夏人來朝。", [(NO_DATE, ())]),
    ("閏月，乙酉，雨雪。", [(MONTH, (("leap", None), ("day", 21)))]),
    ("丁酉，大赦。", [(DAY, (("day", 33),))]),
    ("八月壬辰朔，日有食之。", [(MONTH, (("month", 8), ("first day", 28)))]),
    ("大赦。辛未，晦，雨雪。", [(NO_DATE, ()), (DAY, (("last day", 7),))]),
    ("二年，春，大水。", [(YEAR, (("year", None, 2), ("season", 0)))]),
    ("永喜二年三月，大水。", [(NAMED, (("year", "永熹", 2), ("month", 3)))]),
    (
      "夏，五月，出師。秋，八月，師還。",
      [(SEASON, (("month", 5),)), (SEASON, (("month", 8),))],
    ),
    # Speech opens no section.
    ("王曰：「來。夏，五月，必勝。」", [(NO_DATE, ())]),
    ("初，五月，王出。", [(NO_DATE, ())]),
    (
      "明洪武三年正月，大水。",
      [(NAMED, (("unknown era", "洪武", 3), ("month", 1)))],
    ),
    ("大赦，改元永熹。", [(NO_DATE, (("era", "永熹"),))]),
    ("【滄安初】", [(NAMED, (("year", "安初", 0),))]),
    ("經", [(STREAM, ())]),
    ("傳二年春，大水。", [(STREAM, (("year", None, 2), ("season", 0)))]),
    # 「秋，七月。」 holds nothing but its date.
    (
      "秋，七月。冬，十月，大水。",
      [(SEASON, (("month", 7),)), (SEASON, (("month", 10),))],
    ),
    # A day after a comma opens a section, one inside a clause does not.
    (
      "夏，四月，出師，甲子，以乙丑赦。",
      [(SEASON, (("month", 4),)), (DAY, (("day", 0), ("day", 1)))],
    ),
    ("夏，四月，圍之，三月，克之。", [(SEASON, (("month", 4),))]),
    (
      "夏，四月，圍之，五月，克之。",
      [(SEASON, (("month", 4),)), (MONTH, (("month", 5),))],
    ),
    # What came before dates nothing; what the record comes back to does.
    ("初，三年，王出。五月，王歸。", [(NO_DATE, ()), (MONTH, (("month", 5),))]),
    ("四月，十五日，大水。", [(MONTH, (("month", 4), ("month day", 15)))]),
    ("廿三日，大水。", [(DAY, (("month day", 23),))]),
    ("三日，大水。", [(NO_DATE, ())]),
    ("二年甲寅，大水。", [(YEAR, (("year", None, 2), ("cycle", 50)))]),
    (
      "二年，大水。三年，城成。",
      [(YEAR, (("year", None, 2),)), (YEAR, (("year", None, 3),))],
    ),
    (
      "三月，大赦，改元永熹。四月，大水。",
      [(MONTH, (("month", 3), ("era", "永熹"))), (MONTH, (("month", 4),))],
    ),
  ],
)
def test_a_record_is_cut_at_its_dates(text, expected, eras):
  assert read(text, eras) == expected


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    (
      "三年春正月王出二月甲子大赦丙寅雨雪夏四月地震",
      ["三年春正月王出", "二月甲子大赦", "丙寅雨雪", "夏四月地震"],
    ),
    # Misprints of 己酉, and words that look like a day.
    ("三月甲子大赦已酉雨雪", ["三月甲子大赦", "已酉雨雪"]),
    ("三月甲子大赦王己未有子", ["三月甲子大赦王己未有子"]),
    # Lengths of time, petitions, what a clause goes on with.
    ("三年春正月王居喪三月不食", ["三年春正月王居喪三月不食"]),
    ("四月甲子臣乞以來年五月赦", ["四月甲子臣乞以來年五月赦"]),
    ("五月王書去年甲子事", ["五月王書去年甲子事"]),
    ("五月雨至甲子乃止", ["五月雨至甲子乃止"]),
    ("五月捕之如甲子詔書", ["五月捕之如甲子詔書"]),
    # A month that is no later is told of.
    ("五月大水王問四月之事", ["五月大水王問四月之事"]),
    ("五月封其子爲王六月地震", ["五月封其子爲王", "六月地震"]),
    ("初王好獵五月甲子王薨", ["初王好獵", "五月甲子王薨"]),
    ("甲子后安初三年立為后", ["甲子后安初三年立為后"]),
    ("夏國主遣使", ["夏國主遣使"]),
    ("五月大水先是永熹二年夏竦言邊事", ["五月大水先是永熹二年夏竦言邊事"]),
    ("五月捕盜是月甲子赦之", ["五月捕盜", "是月甲子赦之"]),
    # A life dates by era and month, its entries of annals mention them.
    (
      "王諱某好獵永熹二年三月立爲王至安初三年春薨",
      ["王諱某好獵", "永熹二年三月立爲王至", "安初三年春薨"],
    ),
    ("甲子王好獵永熹二年三月立", ["甲子王好獵永熹二年三月立"]),
    (
      "三年春正月王詔將討之四年春正月師還",
      ["三年春正月王詔將討之", "四年春正月師還"],
    ),
    ("三月王問羣臣各一人四月大水", ["三月王問羣臣各一人", "四月大水"]),
    ("三月王出明年春王歸", ["三月王出", "明年春王歸"]),
    # A birth dates nothing of what is told.
    ("王諱某永熹二年冬生於滄四年春立", ["王諱某永熹二年冬生於滄", "四年春立"]),
  ],
)
def test_texts_without_punctuation_are_cut(text, expected, eras):
  assert cut(text, eras) == expected


@pytest.mark.parametrize(
  ("text", "kind", "statements"),
  [
    ("三年", YEAR, (("year", None, 3),)),
    ("◎元年", YEAR, (("year", None, 1),)),
    ("永熹二年", NAMED, (("year", "永熹", 2),)),
    ("春", SEASON, (("season", 0),)),
    ("【永熹】", NAMED, (("year", "永熹", 0),)),
    ("永熹下", NAMED, (("year", "永熹", 0),)),
    ("永熹中第四", NAMED, (("year", "永熹", 0),)),
    ("經", STREAM, ()),
    ("〔傳〕", STREAM, ()),
    ("傳：", STREAM, ()),
    ("永熹元年傳", STREAM, (("year", "永熹", 1),)),
  ],
)
def test_a_record_that_is_a_date_is_a_heading(text, kind, statements, eras):
  (section,) = section_reading.read_sections(7, text, eras)
  date_end = len(text) if statements else 0
  assert section == Section(
    7, 0, len(text), date_end, kind, statements, is_heading=True
  )


def test_a_heading_that_ends_like_the_name_of_a_stream_is_none(eras):
  (section,) = section_reading.read_sections(0, "夜讀一卷經", eras, True)
  assert section.kind == NO_DATE


@pytest.mark.parametrize(
  ("text", "dates"),
  [
    ("地震。", [""]),
    ("夏，五月，出師。甲子，雨雪。", ["夏，五月", "甲子"]),
    ("永喜二年三月，甲寅，大水。", ["永喜二年三月，甲寅"]),
    ("王薨。○四月，大水。", ["", "四月"]),
    # A day inside a clause is no date at the head.
    ("以乙丑赦。", [""]),
    ("傳二年春，大水。", ["傳二年春"]),
    ("【公羊傳】大水。", [""]),
  ],
)
def test_sections_know_where_the_date_at_their_head_ends(text, dates, eras):
  sections = section_reading.read_sections(0, text, eras)
  assert [text[s.start : s.date_end] for s in sections] == dates


def test_a_heading_is_one_section_and_a_range_dates_nothing(eras):
  for text, statements in (
    ("卷三 永熹二年 大水", (("year", "永熹", 2),)),
    ("起永熹二年盡三年", ()),
    ("諸王傳", ()),
  ):
    (section,) = section_reading.read_sections(0, text, eras, is_heading=True)
    assert section.is_heading
    assert section.statements == statements


def test_a_ruler_of_several_eras_heads_none_of_them():
  calendar = calendar_lib.load_calendar("宋,遼,高麗")
  (section,) = section_reading.read_sections(
    0, "太祖", calendar, is_heading=True
  )
  assert section.statements == ()


@pytest.mark.parametrize(
  ("text", "mark"),
  [
    ("傳二年春，大水。", "傳"),
    ("【公羊傳】大水。", "公羊傳"),
    ("經", "經"),
    ("《傳》曰：「大水。」", None),
    ("傳其國於子。", None),
    ("大水。", None),
  ],
)
def test_marks_of_streams(text, mark, eras):
  match = section_reading.match_stream_mark(text)
  assert (match and match[1]) == mark
  is_stream = read(text, eras)[0][0] == STREAM
  assert is_stream == (mark is not None)


@pytest.mark.parametrize(
  "text",
  [
    "永熹三年，大水。",
    "王在位三年，大水。",
    "居長安三年，乃歸。",
    "其弟三年不食。",
    "二十三年春，大水。",
    "洪武九十九年，大水。",
  ],
)
def test_prose_has_no_unknown_era(text, eras):
  assert eras_lib.find_unknown_eras(text, eras) == []


def test_spellings_of_prints_are_read():
  song = calendar_lib.load_calendar("宋")
  for spelling, name in (("熈寜", "熙寧"), ("慶厯", "慶曆")):
    statements = (("year", name, 3), ("month", 1), ("day", 3))
    assert read(f"{spelling}三年正月丁夘", song) == [(NAMED, statements)]


@pytest.mark.slow
@pytest.mark.skipif(
  not OUTSIDE, reason="CTD_JAX_OUTSIDE names no folder of texts"
)
@pytest.mark.parametrize(
  ("folder", "polity", "least"),
  [
    # Of paragraphs that have a year each, no mark of punctuation.
    ("KR2b0004", "東漢", {NAMED: 34, YEAR: 150, SEASON: 280, MONTH: 340}),
    # Of entries by day.
    ("KR2b0019", "宋", {NAMED: 500, MONTH: 1000, DAY: 16500}),
  ],
)
def test_works_without_punctuation_are_cut(folder, polity, least):
  path = pathlib.Path(OUTSIDE) / folder
  if not path.is_dir():
    pytest.skip(f"CTD_JAX_OUTSIDE has no {folder}")
  calendar = calendar_lib.load_calendar(polity)
  kinds = collections.Counter()
  for work in texts.read_works(path):
    for number, entry in enumerate(work.entries):
      sections = section_reading.read_sections(
        number, entry.text, calendar, entry.is_heading
      )
      spans = [(s.start, s.stop) for s in sections]
      assert spans[0][0] == 0
      assert spans[-1][1] == len(entry.text)
      assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
      kinds.update(s.kind for s in sections)
  assert all(kinds[kind] >= number for kind, number in least.items())
  # Lengths of time and dates of petitions are no sections.
  assert all(kinds[kind] <= 1.2 * number for kind, number in least.items())


@pytest.mark.parametrize("marks", ["「」", "《》", "“”"])
def test_marks_around_the_year_of_a_head_are_passed_over(marks):
  tang = calendar_lib.load_calendar("唐")
  first, last = marks
  (section,) = section_reading.read_sections(
    0, f"{first}貞觀二年{last}三月，丙。", tang
  )
  assert section.statements == (("year", "貞觀", 2), ("month", 3))


def test_years_written_zai_are_years():
  tang = calendar_lib.load_calendar("唐")
  (section,) = section_reading.read_sections(
    0, "天寶十四載十一月甲子，大水。", tang
  )
  assert section.kind == NAMED
  assert section.statements == (("year", "天寶", 14), ("month", 11), ("day", 0))
  (section,) = section_reading.read_sections(0, "千載一時，三載不雨。", tang)
  assert section.statements == ()


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    # Somebody is ordered, or three months pass, or the record goes on.
    ("廷尉奏請誅之上可其奏三月賜死於驛", [("doubtful month", 3)]),
    ("以書諫曰臣固無罪四月卒", [("doubtful month", 4)]),
    ("師退則復來夏四月遣軍擊之", [("doubtful month", 4)]),
    ("主自其路遁去八月庚戌貶彦崇", [("doubtful month", 8), ("day", 46)]),
    # A stretch of time, and what a record of a day copies out.
    ("陳兵臣等自四月至於五月", []),
    ("臣請不過三月而還", []),
    ("甲子乞限五月還", [("day", 0)]),
  ],
)
def test_the_order_decides_on_months_that_may_be_spoken_of(
  text, expected, eras
):
  sections = section_reading.read_sections(0, text, eras)
  assert [s for section in sections for s in section.statements] == expected
  assert all(
    section.kind == DAY
    for section in sections
    if section.statements[:1] == (("doubtful month", 3),)
  )


def test_a_count_that_was_begun_anew_heads_its_years(eras):
  statements = (("year", None, 3), ("month", 10))
  assert read("前三年冬十月王來朝", eras) == [(YEAR, statements)]
  assert read("前三年立為王", eras)[0][0] == NO_DATE
