"""`ctd-jax convert`: dates of arguments and tables, days and years."""

import codecs
import csv
import datetime
import json

import openpyxl
import pytest

from ctd_jax import convert
from ctd_jax.chronology import date_readings
from tests.tools import processes

TABLE = (
  "id,date,note\n"
  '1,萬曆十五年三月廿六日,"a, b"\n'
  "2,永熙元年正月,\n"
  "3,不詳,\n"
  "4,,x\n"
  '5,建武元年,"line\nbreak"\n'
  "6\n"
)


@pytest.fixture(scope="module")
def reader():
  return date_readings.load_reader(("zh", "ja"))


def convert_text(text, tmp_path, reader, name="table.csv", **values):
  path, out = tmp_path / name, tmp_path / "out.csv"
  path.write_bytes(text.encode() if isinstance(text, str) else text)
  return convert.convert_table(
    path, values.get("column", "date"), out, reader
  ), out


def test_rows_of_a_table_stay_and_get_columns(tmp_path, reader):
  message, out = convert_text(TABLE, tmp_path, reader)
  assert message.startswith("3 of 6 dates read, 2 of them with several")
  assert "1 with contradictions; 3 unread" in message
  with out.open(newline="") as file:
    rows = list(csv.DictReader(file))
  assert [row["id"] for row in rows] == list("123456")
  assert rows[0]["note"] == "a, b"
  assert rows[0]["date_not_before"] == "1587-05-03"
  assert rows[0]["date_sexagenary_day"] == "乙卯"
  assert rows[0]["date_day"] == "26"
  assert rows[1]["date_contradicted"]
  assert rows[2]["date_unread"]
  assert not rows[2]["date_name"]
  assert rows[4]["note"] == "line\nbreak"
  assert int(rows[4]["date_readings"]) > 5
  assert "日本後醍醐天皇建武元年" in rows[4]["date_others"]


def test_empty_lines_of_a_table_stay_where_they_are(tmp_path, reader):
  message, out = convert_text("date\n1587\n\n1588\n\n", tmp_path, reader)
  assert message.startswith("2 of 2 dates read")
  lines = out.read_text().splitlines()
  assert [line.partition(",")[0] for line in lines] == [
    *("date", "1587", "", "1588", "")
  ]


def test_western_years_are_no_years_of_an_era(tmp_path, reader):
  _, out = convert_text("date\n1587\n1587-05-03\n", tmp_path, reader)
  with out.open(newline="") as file:
    year, day = csv.DictReader(file)
  assert (year["date_era"], year["date_year"]) == ("", "")
  assert year["date_not_before"] == "1587-01-01"
  assert (day["date_era"], day["date_year"]) == ("萬曆", "15")


def test_tabs_and_byte_order_marks_are_kept(tmp_path, reader):
  text = "\ufeffwhen\tn\n1587-05-03\t1\n"
  _, out = convert_text(text, tmp_path, reader, name="table.tsv", column="when")
  content = out.read_text("utf-8")
  assert content.startswith("\ufeffwhen,n,when_name")
  assert "明神宗萬曆十五年三月廿六日" in content


def test_a_workbook_and_semicolons_are_read(tmp_path, reader):
  book = openpyxl.Workbook()
  for row in (("n", "date"), (1, "萬曆元年"), (2, datetime.date(1937, 7, 7))):
    book.active.append(row)
  book.save(tmp_path / "table.xlsx")
  _, out = convert_text("n;date\n1;萬曆元年\n2;1937-07-07\n", tmp_path, reader)
  expected = out.read_bytes()
  out.unlink()
  convert.convert_table(tmp_path / "table.xlsx", "date", out, reader)
  # A spreadsheet's user opens the answer in one, which needs the mark.
  assert out.read_bytes() == codecs.BOM_UTF8 + expected
  assert "中華民國二十六年七月七日" in out.read_text("utf-8")


@pytest.mark.parametrize(
  ("text", "name", "column"),
  [
    (TABLE, "table.csv", "when"),
    (TABLE, "table.xlsx", "date"),
    ("date,date\n1,2\n", "table.csv", "date"),
    ("date,date_name\n1,2\n", "table.csv", "date"),
    ("date\n萬曆元年,2\n", "table.csv", "date"),
    ("", "table.csv", "date"),
    ("date\n萬曆元年\n".encode("big5"), "table.csv", "date"),
    (b"date\n1587\n" + b"\xff", "table.csv", "date"),
  ],
)
def test_refused_tables_leave_nothing(tmp_path, reader, text, name, column):
  with pytest.raises(ValueError, match=name):
    convert_text(text, tmp_path, reader, name=name, column=column)
  assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_table_is_not_its_own_output(tmp_path, reader):
  path = tmp_path / "table.csv"
  path.write_text(TABLE)
  for out in (path, tmp_path / "out.xlsx"):
    with pytest.raises(ValueError, match="out"):
      convert.convert_table(path, "date", out, reader)
  assert path.read_text() == TABLE


def run(*arguments):
  return processes.run_python("-m", "ctd_jax.cli", "convert", *arguments)


def test_dates_of_arguments_are_printed():
  done = run("萬曆十五年三月廿六日", "foo", "--calendars=明", "--json")
  assert done.returncode == convert.UNREAD
  first, second = map(json.loads, done.stdout.splitlines())
  assert first["edtf"] == "1587-05-03"
  assert second["unread"]["code"] == "reading.unread"


@pytest.mark.slow
def test_days_and_years_are_printed():
  done = run("--day=1100-03-02")
  assert done.returncode == 0
  for name in ("宋哲宗元符三年", "遼道宗壽昌六年", "日本堀河天皇康和二年"):
    assert f"{name}正月二十日" in done.stdout
  done = run("--year=萬曆十五年", "--calendars=明")
  assert len(done.stdout.splitlines()) == 13
  for arguments in (
    (),
    ("--day=1587", "1587"),
    ("--day=1587",),
    ("1", "--out=x"),
  ):
    assert run(*arguments).returncode == convert.ERROR
