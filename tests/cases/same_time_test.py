"""「是月」, 「是歲」, 「是冬」: what they tell has no day."""

import pytest

from ctd_jax.chronology import sexagenary
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dated_sections,
)
from tests.dating.chronicles import records_of

_LINES = [
  "洪武三年春正月癸巳徐逹為大將軍",
  "{}十二月甲子立太學壬午賜宴{}占城入貢",
  "四年春正月丙戌善長罷",
]


def read(lines, reigns="明"):
  return chronicle_dating.read_all_sections(
    records_of(lines), chronicle_input.load_reigns(reigns)
  )


def read_heads(line):
  return [line[s.start : s.date_end] for s in read([line])]


@pytest.mark.parametrize(
  ("line", "heads"),
  [
    ("十二月甲子立太學是月倭寇山東", ["十二月甲子", "是月"]),
    ("十二月甲子立太學是歲占城入貢", ["十二月甲子", "是歲"]),
    ("十二月甲子立太學是嵗占城入貢", ["十二月甲子", "是嵗"]),
    ("十二月甲子立太學是冬無雪", ["十二月甲子", "是冬"]),
    ("十二月甲子，立太學。是月，倭寇山東。", ["十二月甲子", "是月"]),
    ("十二月甲子，立太學。其年，占城入貢。", ["十二月甲子", "其年"]),
    # With a date of their own.
    ("十二月甲子，立太學。是月晦，大水。", ["十二月甲子", "是月晦"]),
    ("十二月甲子立太學是月晦大水", ["十二月甲子", "是月晦"]),
    ("十二月甲子立太學是月乙丑大水", ["十二月甲子", "是月乙丑"]),
    ("十二月甲子立太學是歲冬十月倭寇", ["十二月甲子", "是歲冬十月"]),
    # They lead to something, or are in a document.
    ("十二月甲子以正月至是月日中有黒子", ["十二月甲子"]),
    ("十二月甲子詔自是歲始", ["十二月甲子"]),
    ("十二月甲子言臣聞是月也", ["十二月甲子"]),
    # No date of the text.
    ("二月丙子預徵山西河南明年賦", ["二月丙子"]),
    ("二月丙子免應天去年田租", ["二月丙子"]),
    ("二月丙子以明年為永樂元年", ["二月丙子"]),
  ],
)
def test_the_same_month_and_year_open_a_section(line, heads):
  assert read_heads(line)[: len(heads)] == heads
  assert len(read_heads(line)) <= len(heads) + ("永樂" in line)


@pytest.mark.parametrize(
  ("line", "heads"),
  [
    # Lives and treatises count by it.
    ("公諱遵洪武三年生從軍有功明年從徐達北征", ["", "明年"]),
    (
      "公諱遵洪武三年十月為將其明年破城次年卒",
      ["", "洪武三年十月", "其明年", "次年"],
    ),
    ("公諱遵洪武三年十月為將明年以老歸", ["", "洪武三年十月", "明年"]),
    ("公諱遵為將請以明年出師又免明年田租", [""]),
    ("公諱遵為將踰年改元有例", [""]),
    # The year has a name.
    ("公諱遵為將其明年破城是歲洪武三年也後卒", ["", "其明年", "是歲洪武三年"]),
  ],
)
def test_next_years_of_lives_open_sections(line, heads):
  assert read_heads(line) == heads


@pytest.mark.slow
@pytest.mark.parametrize(
  ("words", "precision", "first", "last"),
  [
    ("是月", "month", (1370, 12, 19), (1371, 1, 16)),
    ("是歲", "year", (1370, 1, 28), (1371, 1, 16)),
    ("是冬", "season", (1370, 10, 20), (1371, 1, 16)),
  ],
)
def test_the_same_year_is_dated_to_the_year(words, precision, first, last):
  lines = [line.format("冬", words) for line in _LINES]
  dates = chronicle_dating.date_records(
    records_of(lines), chronicle_input.load_reigns("明")
  )
  row = dated_sections.make_rows(dates)[3]
  assert row.printed == words
  assert row.dates.julian_day is None
  assert row.dates.precision == precision
  assert (row.dates.first_julian_day, row.dates.last_julian_day) == tuple(
    sexagenary.to_julian_day(*day) for day in (first, last)
  )


@pytest.mark.parametrize(
  ("line", "head"),
  [
    ("同三年八月十八日、政變。", "同三年八月十八日"),
    ("同二年秋、大水。", "同二年秋"),
    ("同十二年、遷都。", "同十二年"),
    # An unknown era, and a verb.
    ("會同三年八月、戰。", "會同三年八月"),
    ("人不同三年八月、戰。", ""),
  ],
)
def test_a_year_of_the_same_era_opens_a_record(line, head):
  assert [line[s.start : s.date_end] for s in read([line], "日本")] == [head]
