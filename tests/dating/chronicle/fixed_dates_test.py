"""Corrections of a reader are read, matched to sections and written."""

import functools

import numpy as np
import pytest

from ctd_jax.chronology import sexagenary
from ctd_jax.chronology.reigns import Reign, Timeline
from ctd_jax.dating.chronicle import (
  calendar,
  fixed_dates,
  sections,
  western,
  written_dates,
)
from ctd_jax.dating.chronicle.fixed_dates import FixedDate
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.texts import Entry, Place

ERAS = (("安初", "滄", 300, 6), ("永熹", "滄", 306, 5), ("熙和", "滄", 311, 9))
RULERS = (("懷公", "滄", -500, 8), ("昌公", "滄", -492, 6))
OF_ONE_NAME = (("安初", "滄", 300, 6), ("安初", "懷", 302, 6))
RECORDS = [
  Entry("三年", Place("a.txt", 1), "heading"),
  Entry("三月，大水。四月，地震。", Place("a.txt", 1)),
  Entry("五月，雨雪。", Place("a.txt", 4)),
  Entry("城成。", Place("a.txt", 4)),
]
SECTIONS = [
  Section(0, 0, 2, 2, sections.YEAR),
  Section(1, 0, 6, 2, sections.MONTH),
  Section(1, 6, 12, 8, sections.MONTH),
  Section(2, 0, 6, 2, sections.MONTH),
  Section(3, 0, 3, 0, sections.NO_DATE),
]


@functools.cache
def make_calendar(rows=ERAS):
  reigns = tuple(Reign(name, state, year, n) for name, state, year, n in rows)
  return calendar.make_calendar(Timeline("table", reigns))


def name_months(calendar, is_named):
  return [
    "{}{}.".format(*calendar.name_month(place)[:2])
    + f"{calendar.months[place]}{'L' * bool(calendar.is_leap[place])}"
    for place in np.flatnonzero(is_named)
  ]


def read(folder, rows, calendar=None, header="record\tline\tspan\tdate"):
  path = folder / "fixed.tsv"
  path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
  return fixed_dates.read_fixed_dates(
    path, RECORDS, SECTIONS, calendar or make_calendar()
  )


@pytest.mark.parametrize(
  ("text", "first", "last", "count"),
  [
    ("安初三年三月", "滄安初3.3", "滄安初3.3", 1),
    ("滄安初3年3月", "滄安初3.3", "滄安初3.3", 1),
    ("安初二年閏三月", "滄安初2.3L", "滄安初2.3L", 1),
    ("安初二年閏月", "滄安初2.3L", "滄安初2.3L", 1),
    ("安初二年春", "滄安初2.1", "滄安初2.3L", 4),
    ("安初二年", "滄安初2.1", "滄安初2.12", 13),
    ("公元302年三月", "滄安初3.3", "滄安初3.3", 1),
    ("安初三年三月/安初三年五月", "滄安初3.3", "滄安初3.5", 3),
    ("熙和九年十一月/..", "滄熙和9.11", "滄熙和9.12", 2),
    ("/安初元年二月", "滄安初1.1", "滄安初1.2", 2),
    ("0290/安初元年二月", "滄安初1.1", "滄安初1.2", 2),
  ],
)
def test_a_date_names_months(text, first, last, count):
  calendar = make_calendar()
  names = name_months(calendar, written_dates.find_months(text, calendar))
  assert (names[0], names[-1], len(names)) == (first, last, count)


def test_iso_dates_are_gregorian_days():
  calendar = make_calendar()
  for place in (0, 57, len(calendar) - 1):
    first, length = calendar.day_spans[place]
    for day in (first, first + length - 1):
      text = sexagenary.format_date(sexagenary.to_gregorian_dates(day))
      is_named = written_dates.find_months(text, calendar)
      assert np.flatnonzero(is_named).tolist() == [place]
      month = written_dates.find_months(text[:-3], calendar)
      assert month[place]
      assert month.sum() <= 3
  # No month of a year but its own begins in its middle.
  year = written_dates.find_months("0305", calendar)
  assert set(calendar.years[year]) == {304, 305}


def test_days_of_an_early_calendar_name_what_months_they_may_be_of():
  calendar = make_calendar(RULERS)
  is_named = written_dates.find_months("-0495-06-15", calendar)
  assert set(calendar.years[is_named]) == {-495}
  assert calendar.months[is_named].tolist() == [4, 5, 6, 7, 8]
  is_named = written_dates.find_months("懷公六年閏月", calendar)
  assert name_months(calendar, is_named) == ["滄懷公6.12"]


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("安初十八年三月", r"no such month; 滄安初 has the years 1-6"),
    ("安初三年閏五月", r"滄安初3年 has the months 1, 2, 3, "),
    ("三年三月", "does not name a reign and a year"),
    ("開寶八年三月", "is not a date in the calendar 'table'|does not name"),
    ("安初三年三月甲子", "contains a sexagenary day"),
    ("安初三年三月大水", "is not a date"),
    ("0302-13", "month 13, expected 01-12"),
    ("0302-02-30", "day 30, expected 01-28"),
    ("302-02", "a four-digit year"),
    ("0302-02~", "no marks of doubt"),
    ("0290", "outside the calendar 'table': 300 CE to 319 CE"),
    ("0303/0302", "ends before it begins"),
    ("../..", "is not an interval"),
    ("公元0年", "no year 0"),
  ],
)
def test_a_date_that_names_none_is_refused(text, message):
  with pytest.raises(ValueError, match=message):
    written_dates.find_months(text, make_calendar())


@pytest.mark.parametrize(
  ("text", "first", "last"),
  [
    ("8 June 787", (787, 6), (787, 6)),
    ("June 787", (787, 6), (787, 6)),
    ("in the month of June 787", (787, 6), (787, 6)),
    ("A.D. 787", (787, 1), (787, 12)),
    ("0787-06", (787, 6), (787, 6)),
    ("0787", (787, 1), (787, 12)),
    ("0787-06/June 788", (787, 6), (788, 6)),
    # The fourth day more of the Gregorian calendar.
    ("0787-07-02", (787, 6), (787, 6)),
    ("0700/0787-02", (780, 1), (787, 2)),
  ],
)
def test_months_of_the_common_era_have_their_own_names(text, first, last):
  calendar = western.make_western_calendar(780, 790)
  places = np.flatnonzero(written_dates.find_months(text, calendar))
  for place, month in ((places[0], first), (places[-1], last)):
    assert (calendar.years[place], calendar.months[place]) == month
  with pytest.raises(ValueError, match="not a date of the common era"):
    written_dates.find_months("安初三年", calendar)
  with pytest.raises(ValueError, match="a four-digit year"):
    written_dates.find_months("787", calendar)


def test_reigns_of_one_name_are_ambiguous():
  calendar = make_calendar(OF_ONE_NAME)
  with pytest.raises(
    ValueError, match="ambiguous; write one of 懷安初二年三月, 滄安初二年三月$"
  ):
    written_dates.find_months("安初二年三月", calendar)
  for state, year in (("滄", 301), ("懷", 303)):
    is_named = written_dates.find_months(f"{state}安初二年三月", calendar)
    assert calendar.years[is_named].tolist() == [year]


@pytest.mark.parametrize(
  ("date", "expected"),
  [
    ("安初二年三月", ["滄安初二年三月", "懷安初二年三月"]),
    ("二年三月", ["滄安初二年三月", "懷安初二年三月"]),
    ("安初二年/0303", ["滄安初二年/0303", "懷安初二年/0303"]),
  ],
)
def test_choices_of_an_ambiguous_date_can_be_read(date, expected):
  calendar = make_calendar(OF_ONE_NAME)
  with pytest.raises(written_dates.AmbiguousDateError) as caught:
    written_dates.find_months(date, calendar)
  choices = caught.value.choices
  assert sorted(choices, key=choices.get) == expected
  for choice, month in choices.items():
    is_named = written_dates.find_months(choice, calendar)
    assert month == is_named.argmax()


def test_rows_fix_records_and_spans(tmp_path):
  calendar = make_calendar()
  allowed = read(
    tmp_path,
    [
      "2\t1\t7-9\t安初三年四月",
      "",
      "3\t\t\t安初三年五月",
      "4\ta.txt:4\t\t0302",
    ],
    calendar,
  )
  assert sorted(allowed) == [2, 3, 4]
  assert name_months(calendar, allowed[2]) == ["滄安初3.4"]
  assert name_months(calendar, allowed[3]) == ["滄安初3.5"]


def test_a_row_without_a_span_fixes_all_sections_of_its_record(tmp_path):
  # The heading that stands on the line is not meant.
  allowed = read(tmp_path, ["1\t安初三年"], header="line\tdate")
  assert sorted(allowed) == [1, 2]


DATES_HEADER = "file\trecord\tstart\tstop\tprobability"


@pytest.mark.parametrize(
  ("header", "rows", "message"),
  [
    ("", ["2\t安初三年"], "line 2, column 'date': '初三' is not a date|line 1"),
    ("recrd\tdate", [], "line 1: column 'recrd' is unknown .* mean 'record'"),
    ("record\tspan", [], "line 1: .*expected date, and record or line"),
    (DATES_HEADER, [], "line 1: these are the columns of dates.tsv; expected"),
    ("record\tdate\tdate", [], "line 1: a column occurs twice"),
    ("record\tdate", ["2\ta\tb"], "line 2: 3 columns, expected 2"),
    ("record\tdate", ["0\t安初三年"], "line 2, column 'record': '0', expected"),
    ("record\tdate", ["9\t安初三年"], "'record': no record 9; the text has 4"),
    ("record\tdate", ["2\t"], "line 2, column 'date': empty; expected a form"),
    (
      "record\tdate",
      ["2\t安初九年"],
      "'date': '安初九年': the calendar",
    ),
    ("line\tdate", ["3\t安初三年"], "'line': no record begins on line 3; rec"),
    ("line\tdate", ["4\t安初三年"], "'4' holds the records 3, 4; say which"),
    ("line\tdate", ["b.txt:4\t安初三年"], "no file 'b.txt'; the text has a"),
    ("line\tdate", ["x\t安初三年"], "'x', expected a number such as 30"),
    (
      "record\tline\tdate",
      ["2\t4\t安初三年"],
      "a.txt:1; was the text",
    ),
    ("record\tline\tdate", ["\t\t安初三年"], "'record' and 'line' are empty"),
    ("record\tspan\tdate", ["2\t5\t安初三年"], "column 'span': '5', expected"),
    ("record\tspan\tdate", ["2\t5-5\t安初三年"], "'5-5', expected first"),
    ("record\tspan\tdate", ["2\t5-13\t安初三年"], "beyond .* has 12 charact"),
    (
      "record\tspan\tdate",
      ["2\t0-6\t安初三年三月", "2\t\t安初三年"],
      "line 3: characters 0-6 of record 2 are fixed in line 2; remove one",
    ),
  ],
)
def test_bad_rows_are_named(tmp_path, header, rows, message):
  with pytest.raises(ValueError, match=r"--fixed=.*fixed.tsv, line") as error:
    read(tmp_path, rows, header=header)
  assert error.match(message)


def test_what_is_written_is_read_again(tmp_path):
  path = tmp_path / "fixed.tsv"
  rows = [
    FixedDate("安初三年三月", 2, "1", (0, 6), 'so says "某書"'),
    FixedDate("0302/..", line="4"),
  ]
  path.write_text(fixed_dates.format_fixed_dates(rows))
  assert fixed_dates.read_rows(path) == [(2, rows[0]), (3, rows[1])]
  for bad in (FixedDate("0302"), FixedDate("0302", 1, note="a\tb")):
    with pytest.raises(ValueError, match="needs a record|a tab"):
      fixed_dates.format_fixed_dates([bad])
