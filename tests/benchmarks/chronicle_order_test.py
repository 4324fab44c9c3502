"""Gold of the chronicles: heads, their variants, and what is judged right.

The texts are invented, the calendar too: two years, the second with a leap
month.
"""

import os
import pathlib
import types

import numpy as np
import pytest

from ctd_jax.texts.works import HEADING, TEXT, Entry, Place
from tests.benchmarks import chronicle_gold, chronicle_order, chronicle_texts
from tests.benchmarks.chronicle_gold import Month, MonthTable, YearHead

SOURCES = os.environ.get("CTD_JAX_SOURCES")
OUTSIDE = os.environ.get("CTD_JAX_OUTSIDE")
FIRST_YEAR = YearHead(0, 0, 2, 300)  # 「元年」
# 甲子 is day 11 modulo 60: the first month begins with it.
FIRST_DAY = 60 * 30_000 + 11
NUMBERS = [(300, n, False) for n in range(1, 13)] + [
  (301, n, leap)
  for n in range(1, 13)
  for leap in ((False, True) if n == 5 else (False,))
]


def make_table():
  return MonthTable(
    (Month(year, number, leap, FIRST_DAY + 30 * row), 30)
    for row, (year, number, leap) in enumerate(NUMBERS)
  )


def make_entries(*lines, kind=TEXT):
  return [
    Entry(text, Place("a_001.txt", row + 1), kind)
    for row, text in enumerate(lines)
  ]


def list_dates(records):
  return [[tuple(place.month)[:3] for place in r.places] for r in records]


def date(lines, years=(FIRST_YEAR,), layout=chronicle_gold.RUNNING):
  return chronicle_gold.date_records(
    make_entries(*lines), years, make_table(), layout
  )


@pytest.mark.parametrize(
  ("text", "value"),
  [
    ("元", 1),
    ("十", 10),
    ("十有二", 12),
    ("二十", 20),
    ("廿三", 23),
    ("金", 0),
  ],
)
def test_numerals(text, value):
  assert chronicle_gold.parse_numeral(text) == value


def test_days_are_read_in_the_shapes_of_printers():
  assert chronicle_gold.parse_day("甲子朔", 0) == 0
  assert chronicle_gold.parse_day("己夘", 0) == chronicle_gold.parse_day(
    "已卯", 0
  )
  assert chronicle_gold.parse_day("甲丑", 0) is None


def test_printed_months_are_heads():
  records = date(
    ["安初元年，春，正月，雨。", "雪。", "夏，大旱。", "六月，霜。"],
    [YearHead(0, 0, 4, 300)],
    chronicle_gold.CLAUSE,
  )
  dates = [[(300, 1, False)], [], [], [(300, 6, False)]]
  assert list_dates(records) == dates
  assert records[0].year_spans == ((0, 4),)
  assert records[0].date_spans[0][0] == 0
  # A season alone is no head, but is cut with the dates.
  assert records[2].date_spans == ((0, 1),)


@pytest.mark.parametrize(
  ("layout", "lines", "months"),
  [
    # 甲子 is the first day of the first month, and none of the second; the
    # year has no leap month; months after 自 and before 而 are none.
    (
      "running",
      ["元年春正月甲子朔雨二月甲子雪", "雪三月而葬自四月", "夏五月霜閏月霜"],
      [1, 5],
    ),
    # 「三月」 is a length of time or runs back, 「八月以」 may go on with one.
    ("running", ["元年五月雨師圍城三月城降", "雪", "七月霜"], [5, 7]),
    ("running", ["元年五月雨", "八月以某為相", "雪"], [5]),
    ("opening", ["元年五月雨八月師還", "雪", "九月霜"], [5, 9]),
  ],
)
def test_months_that_a_reader_would_doubt_are_no_heads(layout, lines, months):
  records = date(lines, layout=layout)
  heads = [head for heads in list_dates(records) for head in heads]
  assert [month for _, month, _ in heads] == months
  assert {year for year, _, _ in heads} == {300}
  # What may be no date is not cut.
  assert "三月" not in [
    record.entry.text[start:stop]
    for record in records
    for start, stop in record.date_spans
  ]


def test_a_misprinted_era_that_repeats_a_number_is_not_known():
  years = {("建安", 1): (300,), ("太寧", 1): (301,), ("太寧", 2): (302,)}
  entries = make_entries(
    "建安元年春雨", "某某元年春雨", "大寧元年春雨", "太寧二年夏雪"
  )
  heads = chronicle_texts.read_era_openings(
    entries, years, chronicle_texts.ERA_OPENING, 5
  )
  assert [head.year for head in heads] == [300, None, 301, 302]


def test_a_leap_month_without_its_number_is_that_of_the_year():
  records = date(["二年五月霜閏月雪六月雨"], [YearHead(0, 0, 2, 301)])
  months = [(301, 5, False), (301, 5, True), (301, 6, False)]
  assert list_dates(records) == [months]


def test_a_year_that_its_days_contradict_is_no_gold():
  records = date(["元年正月甲午雨二月甲子雪三月甲午霜", "旱"])
  assert list_dates(records) == [[], []]


def test_months_that_the_other_edition_lacks_are_not_known():
  records = date(["元年正月雨", "二月雪", "霜", "三月旱"])
  confirmed = chronicle_gold.confirm_months(
    records, {1: [(1, False), (3, False)]}
  )
  months = [month for dates in list_dates(confirmed) for _, month, _ in dates]
  assert months == [1, 0, 3]


def make_chronicle(num_years=2):
  lines = [
    f"{name}年，{season}，{month}月，雨{name}{month}。雪。"
    for name in ("元", "二")[:num_years]
    for season, month in (("春", "正"), ("夏", "四"), ("秋", "七"))
  ]
  heads = [YearHead(row, 0, 2, 300 + row // 3) for row in range(len(lines))]
  records = date(lines, heads, chronicle_gold.CLAUSE)
  heading = chronicle_gold.GoldRecord(make_entries("安公", kind=HEADING)[0])
  return [heading, *records]


def test_cut_dates_keep_what_is_right():
  records = make_chronicle()
  with pytest.raises(ValueError, match="no variant 'year_cut'; there are"):
    chronicle_order.make_variant(records, "year_cut")
  printed = chronicle_order.make_variant(records, "printed")
  years_cut = chronicle_order.make_variant(records, "years_cut")
  heads_cut = chronicle_order.make_variant(records, "heads_cut")
  assert printed == records
  assert years_cut[0].entry.text == "春，正月，雨元正。雪。"
  assert heads_cut[0].entry.text == "雨元正。雪。"
  assert list_dates(years_cut) == list_dates(records[1:])
  assert list_dates(heads_cut) == list_dates(records[1:])
  assert years_cut[0].places[0].position == len("春，正月")
  assert heads_cut[0].places[0].position == 0


def test_a_record_with_several_dates_is_parted():
  records = date(["元年正月雨二月雪"])
  pieces = chronicle_order.make_variant(records, "heads_cut")
  assert [piece.entry.text for piece in pieces] == ["雨", "雪"]
  assert list_dates(pieces) == [[(300, 1, False)], [(300, 2, False)]]


def test_entries_left_out_and_moved():
  records = make_chronicle()
  halves = chronicle_order.make_variant(records, "halves")
  moved = chronicle_order.make_variant(records, "misplaced")
  assert len(halves) == 3
  assert sorted(list_dates(moved)) == sorted(list_dates(records[1:]))
  assert len(chronicle_order.make_variant(records * 50, "blocks")) < 300


def make_dates(starts, months, credible):
  years, numbers, leaps = map(np.array, zip(*NUMBERS, strict=True))
  first_days = FIRST_DAY + 1 + 30 * np.arange(len(NUMBERS))
  return types.SimpleNamespace(
    sections=[
      types.SimpleNamespace(record=record, start=start)
      for record, start in starts
    ],
    months=np.array(months)[:, None],
    credible=types.SimpleNamespace(months_of=credible.__getitem__),
    calendar=types.SimpleNamespace(
      years=years,
      months=numbers,
      is_leap=leaps,
      day_spans=np.stack([first_days, first_days + 29], axis=1),
    ),
  )


def test_a_place_is_judged_by_the_section_that_holds_it():
  records = date(["元年正月雨二月雪", "三月霜"])
  # One section a record: the second month stands under the first.
  coarse = make_dates([(0, 0), (1, 0)], [0, len(NUMBERS)], [[0], []])
  fine = make_dates(
    [(0, 0), (0, 5), (1, 0)], [0, 1, 14], [[0], [0, 1], [14, 15]]
  )
  judged = list(chronicle_order.judge(records, coarse))
  assert [j.month_right for j in judged] == [True, False, False]
  assert [j.year_right for j in judged] == [True, True, False]
  judged = list(chronicle_order.judge(records, fine))
  assert [j.month_right for j in judged] == [True, True, False]
  figures = chronicle_order.compute_figures(judged)
  assert figures["year"] == pytest.approx(2 / 3)
  assert figures["coverage@90"] == pytest.approx(2 / 3)


def test_a_missing_text_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match="zuozhuan_KR1e0001"):
    chronicle_texts.read_gold(
      "zuozhuan", {"sources": tmp_path, "outside": tmp_path}
    )


@pytest.mark.skipif(
  not (SOURCES and OUTSIDE),
  reason="CTD_JAX_SOURCES and CTD_JAX_OUTSIDE name no folders",
)
@pytest.mark.parametrize(
  ("name", "num_heads", "years"),
  [
    ("zuozhuan", 2000, (-721, -467)),
    ("houhanji", 700, (23, 220)),
    ("shiji", 100, (-245, -140)),
  ],
)
def test_gold_of_the_editions(name, num_heads, years):
  gold = chronicle_texts.read_gold(
    name, {"sources": pathlib.Path(SOURCES), "outside": pathlib.Path(OUTSIDE)}
  )
  places = [place for record in gold.records for place in record.places]
  assert len(places) > num_heads
  found = {place.month.year for place in places}
  assert years[0] <= min(found) <= years[0] + 1
  assert years[1] - 1 <= max(found) <= years[1]


def test_a_year_may_open_inside_a_record_that_was_run_on():
  years = {("安初", number): (299 + number,) for number in range(1, 5)}
  entries = make_entries(
    "安初元年春正月大水", "大雨雪而城成四年春正月二年春正月地震", "三年夏五月"
  )
  for in_records, expected in (
    (False, [(0, 300), (2, 302)]),
    (True, [(0, 300), (1, 301), (2, 302)]),
  ):
    heads = chronicle_texts.read_era_openings(
      entries, years, chronicle_texts.ERA_OPENING, 5, in_records=in_records
    )
    assert [(head.record, head.year) for head in heads] == expected
