"""Forms of dates at the head of a record, in all their combinations."""

import itertools

import pytest

from ctd_jax.chronology import dates, reigns
from ctd_jax.dating.chronicle import (
  calendar,
  section_reading,
)
from ctd_jax.dating.chronicle.sections import (
  DAY,
  MONTH,
  NAMED,
  NO_DATE,
  SEASON,
  YEAR,
)

YEAR_STATEMENT = ("year", "永熹", 2)
CYCLE = ("cycle", 59)
NOTED_CYCLE = (*CYCLE, True)  # in a bracket
COMMON_YEAR = ("common year", 303)
YEARS = {
  "永熹二年": {YEAR_STATEMENT},
  "滄永熹二年": {YEAR_STATEMENT},
  "永熹二年癸亥": {YEAR_STATEMENT, CYCLE},
  "永熹二年癸亥歲": {YEAR_STATEMENT, CYCLE},
  "永熹二年（癸亥）": {YEAR_STATEMENT, CYCLE},
  "永熹二年，歲在癸亥，": {YEAR_STATEMENT, CYCLE},
  "歲次癸亥，永熹二年": {YEAR_STATEMENT, CYCLE},
  "癸亥永熹二年": {YEAR_STATEMENT, CYCLE},
  "（癸亥）永熹二年": {YEAR_STATEMENT, NOTED_CYCLE},
  "永熹癸亥": {YEAR_STATEMENT, CYCLE},
  "永熹二年（303年）": {YEAR_STATEMENT, COMMON_YEAR},
  "永熹二年（公元303）": {YEAR_STATEMENT, COMMON_YEAR},
  "永熹二年（癸亥，303年）": {YEAR_STATEMENT, COMMON_YEAR, NOTED_CYCLE},
  "永熹二年（癸亥，公元三〇三年）": {YEAR_STATEMENT, COMMON_YEAR, NOTED_CYCLE},
  "永熹二年（公元三零三年）": {YEAR_STATEMENT, COMMON_YEAR},
  "公元303年（永熹二年）": {YEAR_STATEMENT, COMMON_YEAR},
}
MONTHS = {
  "七月": {("month", 7)},
  "秋七月": {("month", 7)},
  "秋，七月": {("month", 7)},
  "孟秋": {("month", 7)},
  "孟秋七月": {("month", 7)},
  "閏七月": {("leap", 7)},
  "正月": {("month", 1)},
  "十有二月": {("month", 12)},
  "臘月": {("month", 12)},
}
DAYS = {
  "": set(),
  "甲子": {("day", 0)},
  "朔": {("month day", 1)},
  "望": {("month day", 15)},
  "既望": {("month day", 16)},
  "晦": {("month day", -1)},
  "初一": {("month day", 1)},
  "初十日": {("month day", 10)},
  "十九": {("month day", 19)},
  "廿九日": {("month day", 29)},
}
SIMPLIFIED = str.maketrans("永滄歲閏臘", "永沧岁闰腊")


def read(text, eras):
  """Returns (kind, statements) of every section."""
  sections = section_reading.read_sections(0, text, eras)
  return [(s.kind, s.statements) for s in sections]


@pytest.mark.parametrize("script", ["traditional", "simplified"])
@pytest.mark.parametrize("year", YEARS)
def test_year_month_and_day_in_all_forms(year, script, eras):
  for month, day in itertools.product(MONTHS, DAYS):
    date = year + month + day
    text = f"{date}，大水。"
    if script == "simplified":
      text = text.translate(SIMPLIFIED)
    (section,) = section_reading.read_sections(0, text, eras)
    statements = YEARS[year] | MONTHS[month] | DAYS[day]
    found = section.kind, set(section.statements), section.date_end
    assert found == (NAMED, statements, len(date)), text


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("癸亥七月，大水。", (YEAR, (("cycle", 59), ("month", 7)))),
    ("癸亥年七月，大水。", (YEAR, (("cycle", 59), ("month", 7)))),
    ("（癸亥）七月，大水。", (YEAR, (NOTED_CYCLE, ("month", 7)))),
    ("303年七月，大水。", (YEAR, (("common year", 303), ("month", 7)))),
    (
      "二年癸亥七月，大水。",
      (YEAR, (("year", None, 2), ("cycle", 59), ("month", 7))),
    ),
    # A pair alone is a day.
    ("癸亥，大水。", (DAY, (("day", 59),))),
    ("永熹二年冬月，大水。", (NAMED, (YEAR_STATEMENT, ("season", 3)))),
    (
      "永熹二年冬月初三，大水。",
      (NAMED, (YEAR_STATEMENT, ("month", 11), ("month day", 3))),
    ),
    (
      "永熹二年元旦，大水。",
      (NAMED, (YEAR_STATEMENT, ("month", 1), ("month day", 1))),
    ),
    ("元旦，大赦。", (MONTH, (("month", 1), ("month day", 1)))),
    ("除夕，大雪。", (MONTH, (("month", 12), ("month day", -1)))),
    ("晦日，大雪。", (DAY, (("month day", -1),))),
    ("初五，大雪。", (DAY, (("month day", 5),))),
    ("後九月，大雪。", (MONTH, (("leap", 9),))),
    # A note of the edition.
    ("永熹二年（3）大水。", (NAMED, (YEAR_STATEMENT,))),
    # 「其後九月」 is a length of time, 望 a sacrifice, 二十 a number.
    ("其後九月，大雪。", (NO_DATE, ())),
    ("四月，望祭山川。", (MONTH, (("month", 4),))),
    ("四月，二十人至。", (MONTH, (("month", 4),))),
  ],
)
def test_forms_of_dates(text, expected, eras):
  assert read(text, eras)[0] == expected


def test_pairs_of_eras_are_resolved_and_days_of_rulers_are_not(eras):
  (cue,) = dates.find_date_cues("永熹癸亥七月", eras.timeline)
  assert (cue.reign, cue.year, cue.month, cue.year_cycle) == (
    "永熹",
    2,
    7,
    "癸亥",
  )
  # No year of the era has that pair.
  cues = dates.find_date_cues("永熹癸丑七月", eras.timeline)
  assert all(cue.reign is None for cue in cues)
  lu = reigns.load_timeline("lu")
  (cue,) = dates.find_date_cues("莊公丁酉七月", lu)[:1]
  assert (cue.reign, cue.day) == (None, "丁酉")
  # A gloss names the day first.
  cues = dates.find_date_cues("宣四年戊申三月十七日", lu)
  assert [cue.day for cue in cues] == ["戊申", None]


def test_years_of_the_parts_of_a_reign_are_named():
  han = calendar.load_calendar("西漢")
  for text, reign, year in (
    ("中二年二月，大水。", "中元", 2),
    ("中元年，大水。", "中元", 1),
    ("後元年冬，大水。", "後元", 1),
    ("後三年十月，大水。", "後元", 3),
  ):
    ((kind, (statement, *_)),) = read(text, han)
    assert (kind, statement) == (NAMED, ("year", reign, year))
  # Two years later.
  assert read("後二年，卒。", han)[0] != (NAMED, (("year", "後元", 2),))


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("同年八月，大水。", [(MONTH, (("month", 8),))]),
    ("是歲冬，大水。", [(SEASON, (("season", 3),))]),
    ("其年冬十月甲子，大水。", [(SEASON, (("month", 10), ("day", 0)))]),
    ("明年，大水。", [(YEAR, ())]),
    ("越明年春，大水。", [(YEAR, (("season", 0),))]),
    ("次年三月，大水。", [(YEAR, (("month", 3),))]),
    ("是月甲子，大水。", [(DAY, (("day", 0),))]),
    ("翌月，大水。", [(MONTH, ())]),
    # Inside a record, after a sentence.
    (
      "永熹二年三月，王出。明年春，王歸。同年八月，王薨。",
      [
        (NAMED, (YEAR_STATEMENT, ("month", 3))),
        (YEAR, (("year", "永熹", 3), ("season", 0))),
        (MONTH, (("year", "永熹", 3), ("month", 8))),
      ],
    ),
    # They add nothing to the date before.
    ("是歲，大水。", [(NO_DATE, ())]),
    ("是年大水。", [(NO_DATE, ())]),
    # Speech, plans, mentions.
    ("王曰：「來。明年春，必勝。」", [(NO_DATE, ())]),
    ("三月，王出。明年，當復伐之。", [(MONTH, (("month", 3),))]),
    ("三月，王出，以明年春為期。", [(MONTH, (("month", 3),))]),
  ],
)
def test_dates_by_relation(text, expected, eras):
  for found, right in zip(read(text, eras), expected, strict=True):
    assert (found[0], set(found[1])) == (right[0], set(right[1]))


def test_relation_to_a_year_that_is_not_printed_is_of_the_order(eras):
  assert read("明年春，王歸。", eras) == [(YEAR, (("season", 0),))]
