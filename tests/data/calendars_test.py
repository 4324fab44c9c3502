"""Tables of calendars: how they are made, and what they agree with."""

import collections
import importlib.util
import os
import pathlib
import re

import pytest

from ctd_jax.chronology import calendar_tables, reigns, sexagenary
from ctd_jax_datasets.calendars import (
  build_tables,
  compare,
  lunations,
  witnesses,
)
from ctd_jax_datasets.zztj import editions, gallery

OUTSIDE = os.environ.get("CTD_JAX_OUTSIDE")
SOURCES = os.environ.get("CTD_JAX_SOURCES")
# Files of two Ruby libraries (see `witnesses`).
WITNESSES = os.environ.get("CTD_JAX_WITNESSES")
needs_sanmiao = pytest.mark.skipif(
  importlib.util.find_spec("sanmiao") is None,
  reason="needs sanmiao, the extra [calendars]",
)


def _lunation_rows(*rows):
  """Returns rows as the source has them, of year, month, leap and days."""
  columns = ("ind_year", "month", "intercalary", "nmd_jdn", "hui_jdn")
  return [
    {"cal_stream": "2", **dict(zip(columns, map(str, row), strict=True))}
    for row in rows
  ]


def _correction(*values):
  columns = ("table", "key", "column", "source", "value")
  return dict(zip(columns, ("lunations", *values), strict=True))


SOURCE = _lunation_rows(
  (386, 12, 0, 1862443.5, 1862472.5),
  (387, 1, 0, 1862473.5, 1862501.5),
  (387, 2, 0, 1862502.5, 1862560.5),
  (387, 3, 0, 1862561.5, 1862590.5),
)


@pytest.mark.slow
@needs_sanmiao
def test_tables_are_those_that_the_command_makes(tmp_path):
  tables = build_tables.build_tables(
    build_tables.sanmiao_data_dir(), build_tables.read_corrections()
  )
  build_tables.write_tables(tables, tmp_path)
  for name in calendar_tables.TABLE_COLUMNS:
    made = (tmp_path / f"{name}.tsv").read_text(encoding="utf-8")
    kept = build_tables.FOLDER / f"{name}.tsv"
    assert kept.read_text(encoding="utf-8") == made, name


def test_a_month_that_the_source_lacks_is_refused_and_can_be_added():
  with pytest.raises(ValueError, match="the month at 1862503 has 59 days"):
    lunations.assemble_streams(SOURCE, [])
  added = _correction("wei_qi 1862532", "added", "", "2L 30")
  months = lunations.assemble_streams(SOURCE, [added])["wei_qi"]
  assert [month.label for month in months] == ["12", "1", "2", "2L", "3"]
  assert [month.length for month in months] == [30, 29, 29, 30, 30]


def test_a_correction_that_fits_no_month_is_refused():
  wrong = _correction("wei_qi 1862503", "month", "3", "2L")
  with pytest.raises(ValueError, match="wei_qi 1862503, month: the source has"):
    lunations.assemble_streams(SOURCE, [wrong])
  unknown = _correction("north 1862503", "month", "2", "3")
  with pytest.raises(ValueError, match="unknown streams: \\['north'\\]"):
    lunations.assemble_streams(SOURCE[:2], [unknown])


def test_a_first_day_and_a_number_of_one_month_are_corrected():
  corrections = [
    _correction("wei_qi 1862503", "first_day", "1862503", "1862502"),
    _correction("wei_qi 1862503", "month", "2", "1L"),
    _correction("wei_qi 1862562", "first_day", "1862562", "1862531"),
  ]
  rows = [*SOURCE[:3], {**SOURCE[3], "hui_jdn": "1862560.5"}]
  months = lunations.assemble_streams(rows, corrections)["wei_qi"]
  found = [(month.label, month.first_day) for month in months[2:]]
  assert found == [("1L", 1862502), ("3", 1862531)]


def test_a_twelfth_month_given_to_the_next_year_is_counted_anew():
  rows = [
    *_lunation_rows((386, 11, 0, 1862413.5, 1862442.5)),
    {**SOURCE[0], "ind_year": "387"},
    SOURCE[1],
  ]
  months = lunations.assemble_streams(rows, [])["wei_qi"]
  assert [month.year for month in months] == [386, 386, 387]


def test_years_are_written_as_runs_of_months():
  months = [
    lunations.Lunation(1862444 + 30 * i, 30, 386, number, i == 2)
    for i, number in enumerate([1, 2, 2, 3, 4])
  ]
  (row,) = lunations.format_year_rows({"wu": months})
  assert row == ("wu", 386, 1862444, "1-2,2L,3-4", "00000")


def test_every_correction_has_a_reason(tmp_path):
  corrections = build_tables.read_corrections()
  assert len(corrections) > 400
  path = tmp_path / "corrections.tsv"
  header = "table\tkey\tcolumn\tsource\tvalue\treason\tauthority\n"
  path.write_text(f"{header}eras\t1 泰始\tadded\t\t\t\tDILA\n", "utf-8")
  with pytest.raises(ValueError, match="line 2: should have a reason"):
    build_tables.read_corrections(path)
  path.write_text("key\treason\tauthority\n", "utf-8")
  with pytest.raises(ValueError, match="line 1: columns key, reason"):
    build_tables.read_corrections(path)


def test_a_missing_or_another_sanmiao_is_named(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  with pytest.raises(ModuleNotFoundError, match="no sanmiao; pip install"):
    build_tables.sanmiao_data_dir()


def test_a_comparison_counts_what_differs():
  """Two months of 蜀 as DILA would have them, one of them a day late."""

  def row(first_day, month, year):
    return compare.DilaMonth(
      "zh", "蜀漢", ("建興",), True, year, month, False, first_day, "S"
    )

  _, (stream,) = compare._polity_calendar("zh", "蜀漢")
  first = int(stream.first_days[stream.years == 230][0])
  second = int(stream.first_days[stream.years == 230][1])
  result = compare.compare_months(
    iter([row(first, 1, 8), row(second + 1, 2, 8), row(first, 1, 9)])
  )
  counts = result.by_dynasty[compare.PARALLEL, "蜀漢"]
  assert (counts["months"], counts["agreeing"], counts["named"]) == (3, 2, 2)
  for classes, found in (
    (result.month_classes, "first day; sxtwl agrees with the tables"),
    (result.name_classes, "another regnal year"),
  ):
    assert list(classes) == [(compare.PARALLEL, found)]
  assert "蜀漢建興 8-2" in compare.format_comparison(result)


@pytest.mark.slow
@pytest.mark.skipif(not OUTSIDE, reason="CTD_JAX_OUTSIDE names no folder")
def test_months_agree_with_dila():
  months = compare.read_dila(pathlib.Path(OUTSIDE) / "dila_time")
  result = compare.compare_months(months)
  tables = (*result.by_dynasty.values(), result.computed)
  assert sum(counts["months"] for counts in tables) == 117_428
  bounds = {
    compare.CHINA: (0.995, 0.99),
    compare.JAPAN: (0.9995, 0.99),
    compare.KOREA: (0.99, 0.9),
    compare.PARALLEL: (0.99, 0.9),
    # The calendar itself is reconstructed, in several ways.
    compare.EARLY: (0.92, 0.95),
  }
  for group, (agreeing, named) in bounds.items():
    counts = result.of_group(group)
    assert counts["agreeing"] >= agreeing * counts["months"], group
    assert counts["named"] >= named * counts["months"], group
    differing = sum(
      n for (g, _), n in result.month_classes.items() if g == group
    )
    assert differing == counts["months"] - counts["agreeing"], group


@pytest.mark.slow
@pytest.mark.skipif(not SOURCES, reason="CTD_JAX_SOURCES names no folder")
def test_first_days_are_those_of_the_chronicle():
  """資治通鑑 names the first day of months of 220-501: 「正月壬戌朔」.

  It had no part in the corrections. Months that the scanner takes for others
  are the most of what differs.
  """
  files = {
    f"{path.parent.name}/{path.name}": path
    for name in (editions.PUNCTUATED_FOLDER, editions.PRINTED_FOLDER)
    for path in (pathlib.Path(SOURCES) / name).glob("*.txt")
  }
  timeline = reigns.load_timeline("tongjian")
  stream = calendar_tables.load_streams()["qin_chen"]
  first_day_of = {
    (int(year), int(month), bool(leap)): int(day)
    for year, month, leap, day in zip(
      stream.years,
      stream.months,
      stream.is_leap,
      stream.first_days,
      strict=True,
    )
  }
  agreeing = collections.Counter()
  for record in gallery.build_gallery(files, timeline)[0]:
    year = reigns.astronomical_year_of(timeline, record.key)
    day = first_day_of.get((year, record.key.month, record.key.leap))
    if day is None:  # a leap month elsewhere, or the third month of 237
      continue
    for pair in re.findall(f"({sexagenary.PAIR_PATTERN})朔", record.text):
      is_corrected = ("qin_chen", day) in compare._corrected_days()
      index = sexagenary.cyclic_index_of_day(day)
      is_same = index == sexagenary.parse_cyclic_index(pair)
      agreeing[is_corrected, is_same] += 1
  expected = {(True, True): 5, (False, True): 160, (False, False): 18}
  assert agreeing == expected


@pytest.mark.skipif(not WITNESSES, reason="CTD_JAX_WITNESSES names no folder")
def test_eras_and_months_are_those_of_two_published_tables():
  """The README says why each that differs does."""
  folder = pathlib.Path(WITNESSES)
  differences = witnesses.compare_eras(folder)
  assert int(differences.pop("compared")) > 380
  assert set(differences) == {"天福", "天成", "隆泰", "慶応", "光武", "隆熙"}
  assert witnesses.compare_months(folder) == {
    (447, 5, False),
    (448, 9, False),
    (451, 4, False),
    (452, 9, False),
    (794, 5, False),
  }


def test_beginnings_are_read_from_a_published_table(tmp_path):
  lines = (
    '["[延長=ja:%%<延長>]1", "",  "0923-04=11"],',
    '["[龍符,alias:龍符元化=ja:%%<龍符>]1","","1101"],',
    '["[天感聖武]1", "@A", "name=[太宗];1044.10"],',
    '["[<平王>]1", "@A", "name=[楊三哥];944"],',
  )
  path = tmp_path / "vietnamese.rb"
  path.write_text("\n".join(lines), encoding="utf-8")
  assert list(witnesses.read_eras(path)) == [
    (["延長"], [923, 4, True, 11]),
    (["龍符", "龍符元化"], [1101, 0, False, 0]),
    (["天感聖武"], [1044, 10, False, 0]),
  ]


def test_lunar_months_after_1911_are_those_of_another_package():
  """It has three months that official almanacs begin a day off."""
  lunardate = pytest.importorskip("lunardate")
  stream = calendar_tables.load_streams()["zhou_qing"]
  rows = (stream.years >= 1912) & (stream.years < 2100)
  columns = (stream.years, stream.months, stream.is_leap, stream.first_days)
  different = set()
  for year, month, leap, day in zip(
    *(column[rows].tolist() for column in columns), strict=True
  ):
    date = lunardate.LunarDate(year, month, 1, leap).to_solar_date()
    if sexagenary.to_julian_day(date.year, date.month, date.day) != day:
      different.add((year, month))
  assert different == {(1933, 6), (1954, 11), (1978, 8)}
