"""What is of another time than the calendar is dated outside of it."""

import pytest

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating, dating_warnings, eras
from tests.dating.chronicles import records_of


def mark(records, calendar):
  sections = chronicle_dating.read_all_sections(records, calendar)
  return [section.is_of_other_time for section in sections]


@pytest.fixture(scope="module")
def han():
  return calendar_lib.load_calendar("秦,西漢")


def test_annals_of_an_earlier_state_are_of_another_time(han):
  lines = ["武王即位。", "九年，武王上祭于畢。", "二月，陳師。"]
  assert all(mark(records_of(lines, ["紀", "周本紀第四"]), han))
  assert not any(mark(records_of(lines, ["紀", "孝文本紀"]), han))
  # 秦 is of the calendar, whatever its annals tell.
  assert not any(mark(records_of(lines, ["秦本紀"]), han))
  # That of 周 is one of the states that 北周 and 後周 are.
  zhou = calendar_lib.load_calendar("後周")
  assert not any(mark(records_of(lines, ["周本紀"]), zhou))


def test_years_after_a_ruler_of_another_time_are_his(han):
  his = ["文公元年，居西垂宮。", "三年，文公以兵東獵。", "春正月，雨。"]
  lines = [*his, "惠帝三年春正月，雨。", "四年，大水。"]
  assert mark(records_of(lines), han) == [True] * 3 + [False] * 2


def test_an_aside_does_not_lead_out_of_the_calendar(han):
  lines = ["惠帝三年春，雨。", "平王元年，東遷。", "四年春，雨。"]
  assert mark(records_of(lines), han) == [False, True, False]


@pytest.mark.parametrize(
  ("lines", "outside"),
  [
    # A document of 74 CE at the head of a record, then no year any more.
    (["孝明皇帝十七年三月，詔。", "五月，水。", "二月，雨。", "三月，雪。"], 2),
    (["孝明皇帝十七年七月，詔。", "春，雨。", "九月，雪。"], 1),
    (["洪武七年三月，雨。", "雪。", "八年正月，水。", "九年正月，雪。"], 4),
  ],
)
def test_one_year_of_another_time_lasts_a_year(lines, outside, han):
  marks = mark(records_of(["惠帝三年春，雨。", *lines]), han)
  assert marks == [False] + [row < outside for row in range(len(lines))]


def test_a_misprinted_era_goes_on_with_the_count():
  han = calendar_lib.load_calendar("東漢")
  lines = ["熹平三年春，雨。", "嘉平四年春，雪。", "二月，雨。", "五年春，水。"]
  assert not any(mark(records_of(lines), han))


def test_parallel_states_are_of_the_time_of_the_calendar():
  wei = calendar_lib.load_calendar("曹魏")
  lines = ["黃初三年春，雨。", "黃武元年冬，雪。", "二月，雨。"]
  assert not any(mark(records_of(lines), wei))
  assert all(mark(records_of(["明洪武三年春，雨。", "二月，雪。"]), wei))


@pytest.mark.slow
def test_years_past_the_end_of_a_table_are_outside():
  calendar = calendar_lib.load_calendar("日本")
  lines = [
    "令和八十二年三月、雨。",
    "令和八十三年一月、雨。",
    "二月、雪。",
    "令和八十四年、雪。",
  ]
  dates = chronicle_dating.date_records(records_of(lines), calendar)
  assert dates.outside[0] < 0.1
  assert (dates.outside[1:] > 0.9).all()


def test_headings_of_another_time_are_told(han):
  records = records_of(["武王即位。", "九年，祭于畢。"], ["周本紀"])
  sections = chronicle_dating.read_all_sections(records, han)
  assert eras.list_other_headings(records, sections, han) == {"周本紀": 2}
  (warning,) = dating_warnings.list_unknown_eras(records, sections, han)
  assert str(warning) == (
    "周本紀 belongs to a different time than the calendar 秦,西漢: 2 records "
    "are outside it"
  )
