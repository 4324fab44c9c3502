"""What is written of a dated chronicle: days, EDTF, tables, TEI, summary."""

import csv
import dataclasses
import io
import json
import pathlib

import edtf as edtf_lib
import numpy as np
import pytest
from lxml import etree

from ctd_jax.chronology import reigns, sexagenary
from ctd_jax.dating.chronicle import (
  calendar,
  chronicle_dates,
  chronicle_dating,
  date_tables,
  dated_sections,
  dates_plot,
  dating_warnings,
  emissions,
  output,
  sections,
  tei_output,
  western,
  written_dates,
)
from ctd_jax.dating.chronicle.chronicle_dates import (
  ChronicleDates,
  CredibleMonths,
)
from ctd_jax.texts.works import Entry, Place

SCHEMA = pathlib.Path(__file__).with_name("tei_dates.rng")
TEI = {"tei": tei_output.NAMESPACE}


@pytest.fixture(scope="module")
def jin():
  return calendar.load_calendar("西晉")


@pytest.fixture(scope="module")
def lu():
  folder = reigns.reign_table_dir()
  return calendar.read_calendar(folder / "lu.tsv")


def find_month(calendar, year, month, leap=False):
  is_month = (calendar.years == year) & (calendar.months == month)
  (ordinal,) = np.flatnonzero(is_month & (calendar.is_leap == leap))
  return int(ordinal)


@pytest.fixture(scope="module")
def june(jin):
  """The month that Luoyang fell in, 311 CE."""
  return find_month(jin, 311, 6)


def make_dates(calendar, texts, guesses, offsets=None):
  """Dates of texts, a guess for each section.

  A guess is month -> probability, the most probable first; all are credible.
  """
  records = [
    Entry(text, Place("annals.txt", 2 * number + 1))
    for number, text in enumerate(texts)
  ]
  sections = chronicle_dating.read_all_sections(records, calendar)
  assert len(sections) == len(guesses)
  outside = len(calendar)
  best = [([*guess.items(), (outside, 0.0)])[:2] for guess in guesses]
  credible = [sorted(guess.items()) for guess in guesses]
  months, chances = np.moveaxis(np.array(best), -1, 0)
  ordinals, credible_chances = np.concatenate(credible).T
  return ChronicleDates(
    records=records,
    sections=sections,
    months=months.astype(int),
    probabilities=chances,
    credible=CredibleMonths(
      np.cumsum([0, *map(len, credible)]),
      ordinals.astype(int),
      credible_chances,
    ),
    outside=np.array([guess.get(outside, 0.0) for guess in guesses]),
    offsets=None if offsets is None else np.array(offsets),
    is_fixed=np.zeros(len(sections), bool),
    calendar=calendar,
    statement_counts={"month": len(sections)},
  )


def locate(calendar, text, guess, offset=None):
  offsets = None if offset is None else [offset]
  (days,) = make_dates(calendar, [text], [guess], offsets).days
  return days


def test_a_printed_day_of_the_month_is_a_day(jin, june):
  # The fall of Luoyang: 13 July 311, Julian calendar.
  days = locate(jin, "六月，丁酉，洛陽陷。", {june: 0.97})
  assert sexagenary.to_julian_dates(days.day).tolist() == [311, 7, 13]
  assert dated_sections.format_gregorian_day(days.day) == "0311-07-14"
  assert days.spans == ((days.day, days.day),)
  assert not days.lacks_day


def test_a_month_without_a_day_is_all_its_days(jin, june):
  days = locate(jin, "六月，洛陽陷。", {june: 0.97})
  assert days.day is None
  first, length = jin.day_spans[june]
  assert days.spans == ((first, first + length - 1),)


def test_a_day_that_the_month_has_not_contradicts_it(jin, june):
  dates = make_dates(jin, ["六月，丙寅，洛陽陷。"], [{june: 0.97}])
  (days,) = dates.days
  assert days.day is None
  assert days.lacks_day
  ((_, statement),) = dating_warnings.find_contradictions(dates)
  assert dating_warnings.format_statement(statement) == "day 丙寅"


def test_a_numbered_day_counts_from_the_first_of_the_month(jin, june):
  month_days = chronicle_dates.MonthDays(jin)
  first, length = jin.day_spans[june].tolist()
  for number, day in (
    (15, first + 14),
    (-1, first + length - 1),
    (length + 1, None),
  ):
    statement = (sections.MONTH_DAY_STATEMENT, number)
    assert month_days.find_day(june, statement) == day


def test_credible_months_part_where_days_are_between(jin, june):
  days = locate(jin, "夏，大水。", {june: 0.5, june + 1: 0.3, june + 5: 0.15})
  starts = jin.day_spans[june : june + 7, 0]
  july, november = (starts[1], starts[2] - 1), (starts[5], starts[6] - 1)
  assert days.spans == ((starts[0], july[1]), november)
  # Of a month that has the printed day that day alone counts.
  days = locate(jin, "丁酉，大水。", {june: 0.6, june + 1: 0.35})
  assert days.spans == ((days.day, days.day), july)


def test_what_is_given_by_hand_is_certain(jin, june):
  dates = make_dates(jin, ["大水。"], [{june: 0.5, june + 1: 0.4}])
  fixed = dataclasses.replace(dates, is_fixed=np.ones(1, bool))
  (days,) = fixed.days
  assert days.spans == (chronicle_dates.MonthDays(jin).find_span(june),)


def test_early_days_go_by_the_offset_of_the_calendar(lu):
  # The eclipse of 22 February 720 BCE is 隱公三年二月己巳.
  second = find_month(lu, -719, 2)
  text = "二月，己巳，日有食之。"
  days = [locate(lu, text, {second: 0.98}, offset) for offset in range(4)]
  assert sexagenary.to_julian_dates(days[2].day).tolist() == [-719, 2, 22]
  # A computed new moon can be a day off.
  assert days[1].day == days[2].day
  assert (
    chronicle_dates.MonthDays(lu).find_span(second, 1)[1] == days[2].day - 1
  )
  assert days[0].day == days[2].day - sexagenary.CYCLE_LENGTH
  assert [place.lacks_day for place in days] == [False, False, False, True]


def test_without_an_offset_a_month_is_one_of_four_lunations(lu):
  second = find_month(lu, -719, 2)
  days = locate(lu, "二月，大水。", {second: 0.98})
  first, last = days.spans[0]
  assert 115 <= last - first <= 120
  assert days.is_approximate
  settled = locate(lu, "二月，大水。", {second: 0.98}, offset=1)
  assert settled.spans[0][1] - settled.spans[0][0] in (28, 29)


def test_a_leap_month_follows_the_twelfth_of_an_early_calendar(lu):
  december = find_month(lu, -719, 12)
  month_days = chronicle_dates.MonthDays(lu)
  _, last = month_days.find_span(december, offset=1)
  first, _ = month_days.find_span(december, offset=1, is_leap=True)
  assert first == last + 1
  statement = ("day", sexagenary.cyclic_index_of_day(first + 3))
  assert month_days.find_day(december, statement, offset=1) == first + 3


@pytest.mark.parametrize(
  ("spans", "probability", "expected"),
  [
    (((1834844, 1834844),), 0.97, "0311-07-14"),
    (((1834844, 1834844),), 0.8, "0311-07-14~"),
    (((1834834, 1834862),), 0.9, "0311-07-04/0311-08-01"),
    (((1834834, 1834862),), 0.5, "0311-07-04~/0311-08-01~"),
    (((1834834, 1834862),), 0.4999, "0311-07-04?/0311-08-01?"),
    (
      ((1834834, 1834862), (1835000, 1835000)),
      0.4,
      "[0311-07-04..0311-08-01,0311-12-17]",
    ),
    (((1458496, 1458525),), 0.97, "-0719-02-14/-0719-03-15"),
    (
      ((1458496, 1458525), (1459234, 1459262)),
      0.6,
      "[-0719-02-14..-0719-03-15,-0717-02-22..-0717-03-22]",
    ),
    (((1720695, 1721059),), 0.97, "-0001-01-01/-0001-12-31"),
  ],
)
def test_edtf_is_what_its_readers_read(spans, probability, expected):
  text = dated_sections.format_edtf(spans, probability)
  assert text == expected
  parsed = edtf_lib.parse_edtf(text)
  for day, date in (
    (spans[0][0], parsed.lower_strict()),
    (spans[-1][1], parsed.upper_strict()),
  ):
    assert date[:3] == tuple(sexagenary.to_gregorian_dates(day))


def test_edtf_of_many_parts_is_their_hull():
  spans = [(1834844 + 60 * part, 1834850 + 60 * part) for part in range(13)]
  assert dated_sections.format_edtf(spans, 0.95) == "0311-07-14?/0313-07-09?"
  assert dated_sections.format_edtf(spans[:12], 0.95).count(",") == 11
  assert dated_sections.format_edtf([], 0.95) == ""
  vague = dated_sections.format_edtf(spans[:1], 0.95, is_approximate=True)
  assert vague.count("~") == 2


@pytest.fixture(scope="module")
def dates(jin, june):
  leap = find_month(jin, 306, 8, leap=True)
  return make_dates(
    jin,
    [
      '五年，夏，六月，丁酉，洛陽陷，帝蒙塵\t于平陽<&>"\u2028。',
      "閏月，大水。",
      "秋，出師。冬，地震。",
      "初，王出。",
    ],
    [
      {june: 0.9731, june + 1: 0.02},
      {leap: 0.6, leap + 1: 0.35},
      {june + 1: 0.45, june + 5: 0.3, june + 12: 0.2},
      {june + 4: 0.93},
      {len(jin): 0.93, june: 0.05},
    ],
  )


@pytest.fixture(scope="module")
def rows(dates):
  return dated_sections.make_rows(dates)


def test_rows_cover_the_text_and_name_the_print(dates, rows):
  texts = [record.text for record in dates.records]
  assert "".join(row.text for row in rows) == "".join(texts)
  assert [
    (row.place.record, row.place.line, row.printed, row.contradicted)
    for row in rows
  ] == [
    (1, 1, "五年，夏，六月，丁酉", ()),
    (2, 3, "閏月", ()),
    (3, 5, "秋", ()),
    (3, 5, "冬", ()),
    (4, 7, "", ()),
  ]
  assert rows[4].months.month is None
  assert rows[4].months.outside == 0.93
  assert rows[4].dates.not_before is rows[4].dates.edtf is None


def test_the_printed_date_is_what_the_section_was_read_from(jin, june):
  texts = ["【永嘉】", "經五年夏，大水。", "　丁酉，大水。", "以丁酉赦。"]
  guesses = [{june: 0.9}] * len(texts)
  rows = dated_sections.make_rows(make_dates(jin, texts, guesses))
  assert [row.printed for row in rows] == ["【永嘉】", "經五年夏", "丁酉", ""]


def test_dates_of_western_annals_are_printed():
  text = "A.D. 787. Ships came. On the 8th of June the king died."
  records = [Entry(text, Place("annals.txt", 1))]
  dates = chronicle_dating.date_sections(
    records,
    western.read_all_western_sections(records),
    western.make_western_calendar(787, 787),
  )
  rows = dated_sections.make_rows(dates)
  assert [row.printed for row in rows] == ["A.D. 787.", "On the 8th of June"]


def read_tsv(rows):
  table = io.StringIO(date_tables.format_dates_tsv(rows))
  return [*csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)]


def test_leap_months_are_written_as_in_time_keys(rows):
  month = rows[1].months.month
  assert (month.month, month.is_leap) == (8, True)
  assert date_tables.format_month(month) == "晉惠帝光熙1年8L月"
  cells = read_tsv(rows)[1]
  assert (cells["month"], cells["leap_month"]) == ("8", "1")
  assert [row["leap_month"] for row in read_tsv(rows)] == [*"0100", ""]


def test_precision_is_the_smallest_unit_that_holds_the_date(jin, june):
  texts = ["六月，丁酉，雨。", *["大水。"] * 6]
  guesses = [
    {june: 0.95},
    {june: 0.95, june + 1: 0.05},
    {june: 0.6, june - 1: 0.35},
    {june: 0.6, june + 1: 0.35},
    {june: 0.6, june + 12: 0.35},
    {june: 0.6, len(jin): 0.4},
    {len(jin): 0.95},
  ]
  rows = dated_sections.make_rows(make_dates(jin, texts, guesses))
  assert [row.dates.precision for row in rows] == [
    *("day", "month", "season", "year", "interval", "month", None)
  ]


def test_winter_of_the_west_goes_over_the_new_year():
  calendar = western.make_western_calendar(787, 788)
  spans = [(2008900, 2008990)]
  found = [
    dated_sections.find_precision(calendar, spans, months)
    for months in ([11, 12, 13], [0, 11], [2, 4], [1, 2], [10, 14])
  ]
  assert found == ["season", "year", "season", "year", "interval"]


def test_months_are_read_as_they_are_written(jin, rows):
  for row in rows[:4]:
    text = date_tables.format_month(row.months.month)
    (month,) = np.flatnonzero(written_dates.find_months(text, jin))
    number = f"{row.months.month.month}{'L' * row.months.month.is_leap}"
    assert jin.name_month(month)[1:] == (row.months.month.year, number)


def test_months_of_the_common_era_are_written_as_such():
  march = dated_sections.NamedMonth("CE", 787, 3, False, 787)
  assert date_tables.format_month(march) == "March 787 CE"
  assert date_tables.format_month(None) == ""
  year = ("year", "CE", 787)
  assert dating_warnings.format_statement(year) == "year 787 CE"


def test_tsv_has_a_line_for_each_section_and_numbers_that_sort(rows):
  assert len(date_tables.format_dates_tsv(rows).splitlines()) == len(rows) + 1
  first, leap, *_, outside = table = read_tsv(rows)
  assert tuple(first) == date_tables.COLUMNS
  for column in ("year", "month", "first_julian_day", "last_julian_day"):
    assert all(row[column].isdecimal() for row in table[:4])
  expected = {
    "astronomical_year": "311",
    "first_julian_day": "1834844",
    "julian_day": "1834844",
    "julian_date": "0311-07-13",
    "not_before_julian": "0311-07-13",
    "day_of_month": "11",
    "sexagenary_day": "丁酉",
    "probability": "0.9731",
    "second": "晉懷帝永嘉5年7月",
  }
  assert {name: first[name] for name in expected} == expected
  last_day = int(leap["last_julian_day"])
  assert dated_sections.format_gregorian_day(last_day) == leap["not_after"]
  assert leap["not_after_julian"] < leap["not_after"]
  assert outside["year"] == outside["not_before"] == ""


def test_csv_keeps_the_text_and_bears_a_mark_on_request(rows):
  table = date_tables.format_dates_csv(rows, bom=True)
  assert table.startswith("\ufefffile,")
  cells = list(csv.DictReader(io.StringIO(table.removeprefix("\ufeff"))))
  assert [row["text"] for row in cells] == [row.text for row in rows]
  assert date_tables.format_dates_csv(rows) == table[1:]


def test_json_lines_come_back(rows, tmp_path):
  (path,) = output.write_dates(rows, tmp_path / "new", ["jsonl"])
  assert date_tables.read_dates_jsonl(path) == rows
  lines = path.read_text(encoding="utf-8").split("\n")
  first = json.loads(lines[0])
  assert (first["julian_day"], first["month"]["year"]) == (1834844, 5)
  assert [month["probability"] for month in first["credible"]] == [0.9731, 0.02]
  path.write_text(f'{lines[0]}\n{{"file": "a"}}\n', encoding="utf-8")
  with pytest.raises(ValueError, match=r"dates\.jsonl, line 2: .*line"):
    date_tables.read_dates_jsonl(path)


def test_few_of_many_credible_months_are_written(jin):
  guess = {month: 0.1 / (1 + month) for month in range(300)}
  (row,) = dated_sections.make_rows(make_dates(jin, ["大水。"], [guess]))
  assert row.months.num_credible == 300
  assert len(row.months.credible) == dated_sections.MAX_CREDIBLE_MONTHS
  # In order of time, the most probable: here the first.
  years = [month.common_era_year for month in row.months.credible]
  assert years == sorted(years)
  assert years[0] == jin.years[0]
  # Months that follow one another are one interval.
  assert edtf_lib.parse_edtf(row.dates.edtf).lower_strict()[0] == jin.years[0]


@pytest.fixture(scope="module")
def document(rows):
  return etree.fromstring(
    tei_output.format_dates_tei(rows, "Annals & <more>").encode()
  )


def test_tei_keeps_text_and_dates(rows, document):
  segments = document.findall(".//tei:seg", TEI)
  texts = ["".join(segment.itertext()) for segment in segments]
  assert texts == [row.text for row in rows]
  first, leap, *_, outside = segments
  date = first.find("tei:date", TEI)
  found = [date.get(name) for name in ("when-iso", "cert", "when-custom")]
  assert found == ["0311-07-14", "high", "0311-06"]
  assert "".join(date.itertext()) == rows[0].printed
  assert date.find("tei:certainty", TEI).get("degree") == "0.9731"
  date = leap.find("tei:date", TEI)
  dates = rows[1].dates
  assert date.get("notBefore-iso") == dates.not_before
  assert date.get("notAfter-iso") == dates.not_after
  found = [date.get(name) for name in ("cert", "when-custom", "resp")]
  assert found == ["medium", "0306-08L", "#ctd_jax"]
  assert outside.find("tei:date", TEI) is None


def test_tei_is_valid(document):
  schema = etree.RelaxNG(etree.parse(SCHEMA))
  assert schema.validate(document), schema.error_log
  document.find(".//tei:seg", TEI).set("when", "0311")
  assert not schema.validate(document)


def test_tei_replaces_what_xml_cannot_hold(rows):
  row = dated_sections.msgspec.structs.replace(rows[0], text="大\x01水\ufffe。")
  parsed = etree.fromstring(tei_output.format_dates_tei([row]).encode())
  assert "大\ufffd水\ufffd。" in "".join(parsed.itertext())


@pytest.mark.parametrize(
  ("out", "formats", "sources", "message"),
  [
    ("", ["tsv"], [], r"has dates\.csv, .*add csv,tei .*delete them"),
    ("", ["csv", "tei"], ["dates.xml"], r"dates\.xml is an input and would be"),
    ("new", ["csv"], [""], "is in the folder of the text"),
    ("dates.xml", ["tei"], [], "is a file; name a folder"),
  ],
)
def test_dates_are_written_where_they_harm_nothing(
  rows, tmp_path, out, formats, sources, message
):
  written = output.write_dates(rows, tmp_path, ["csv", "tei"])
  assert sorted(tmp_path.iterdir()) == sorted(written)
  output.check_folder(tmp_path, ["tei", "csv", "tsv"])
  read_paths = [tmp_path / name for name in sources]
  with pytest.raises(ValueError, match=message):
    output.check_folder(tmp_path / out, formats, read_paths)


def test_bad_formats_are_named():
  with pytest.raises(ValueError, match="unknown format 'xlsx'.*tsv, csv"):
    output.check_formats(["tsv", "xlsx"])
  with pytest.raises(ValueError, match="--bom is for CSV, and --formats=tsv"):
    output.check_formats(["tsv"], bom=True)


@pytest.mark.parametrize(
  ("bottom", "top", "labels"),
  [
    (-721.4, -467.0, ["700 BCE", "650 BCE", "600 BCE", "550 BCE", "500 BCE"]),
    (-30.2, 24.0, ["30 BCE", "20 BCE", "10 BCE", "1 CE", "10 CE", "20 CE"]),
    (-1.5, 3.2, ["2 BCE", "1 BCE", "1 CE", "2 CE", "3 CE"]),
    (301.1, 304.9, ["302 CE", "303 CE", "304 CE"]),
  ],
)
def test_ticks_of_the_figure_are_round_years(bottom, top, labels):
  ticks = dates_plot.find_year_ticks(bottom, top)
  assert list(map(reigns.format_common_era_year, ticks)) == labels


def test_contradictions_are_counted_and_shown(jin, june):
  texts = [f"{month}月，大水。" for month in "正二三四五六七"]
  texts.append("永嘉二年冬，閏月，大水。")
  dates = make_dates(jin, texts, [{june: 0.97}] * len(texts))
  rows = dated_sections.make_rows(dates)
  assert [row.contradicted for row in rows[:6]] == [
    *((f"month {number}",) for number in range(1, 6)),
    (),
  ]
  assert set(rows[-1].contradicted) == {"year 永嘉2年", "a leap month"}
  summary = date_tables.format_summary(dates, rows, reading="plain, 8 records")
  assert "contradicted 8 printed dates of 7 sections; the first:\n" in summary
  assert summary.count(" prints ") == 5
  assert "annals.txt:1 prints month 1, dated " in summary
  assert summary.startswith("read         plain, 8 records\n")


def test_a_summary_counts(dates, rows):
  summary = date_tables.format_summary(dates, rows, ["no era 洪武"])
  lines = dict((line[:13].strip(), line[13:]) for line in summary.split("\n"))
  for name, start in (
    *(("records", "4"), ("sections", "5"), ("days", "1 section")),
    *(("outside", "1 section"), ("dated", "306 CE to 311 CE")),
    *(("contradicted", "no printed date"), ("warning", "no era 洪武")),
    ("they print", "months 5"),
  ):
    assert lines[name].startswith(start)


def test_every_kind_of_print_has_a_name():
  assert set(date_tables.PRINTED_NAMES) == set(emissions.LOG_ERROR_ODDS) - {
    "named year",
    "doubtful year",
    "ruled year",
    "marked cycle",
  }


@pytest.mark.parametrize("fonts", [(), ("DejaVu Sans",)])
def test_reigns_are_named_or_left_out(jin, june, monkeypatch, fonts):
  monkeypatch.setattr(dates_plot, "_CJK_FONTS", fonts)
  figures = []
  monkeypatch.setattr(
    dates_plot.output, "write_figure", lambda _, figure: figures.append(figure)
  )
  guesses = [{june: 0.97}, {june + 1: 0.3, june + 9: 0.2, len(jin): 0.2}]
  dates = make_dates(jin, ["六月，雨。", "大水。"], guesses)
  dates_plot.plot_dates(dates, pathlib.Path("dates.png"))
  axes = figures[0].axes[0]
  labels = [
    label.get_text()
    for child in axes.child_axes
    for label in child.get_yticklabels()
  ]
  # The era began before the figure does.
  assert labels == ["晉懷帝永嘉"] * len(fonts)
  # Grey lines hold the credible months; the one outside has no place.
  lines = axes.collections[0]
  heights = [np.ptp(segment[:, 1]) for segment in lines.get_segments()]
  assert heights[0] == 0
  assert 0.6 < heights[1] < 0.8
