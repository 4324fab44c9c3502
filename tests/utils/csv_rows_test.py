"""Rows of CSV files: conversion, and what is named where one is malformed."""

from typing import Annotated

import msgspec
import pytest

from ctd_jax.utils import files


class Point(msgspec.Struct):
  name: str
  height: Annotated[float, msgspec.Meta(gt=0)]
  note: str | None


class Width(msgspec.Struct):
  width: Annotated[float, msgspec.Meta(gt=0)] | None
  note: str | None = None


def read(tmp_path, text, row_type=Point):
  path = tmp_path / "points.csv"
  path.write_text(text, encoding="utf-8-sig")
  return list(files.read_csv_rows(path, row_type))


def test_a_column_may_be_left_out(tmp_path, caplog):
  caplog.set_level("INFO")
  assert read(tmp_path, " width \n1\n", Width) == [(2, Width(1.0))]
  assert not caplog.text
  text = "width,note,depth\n1, x,2\n2,,3\n"
  rows = [row for _, row in read(tmp_path, text, Width)]
  assert rows == [Width(1.0, "x"), Width(2.0)]
  assert "points.csv: columns not read: depth" in caplog.text
  with pytest.raises(ValueError, match="header width and, if you have them, n"):
    read(tmp_path, "note\n", Width)


def test_cells_are_converted_and_counted_by_line(tmp_path):
  text = 'height,extra,name,note\n 2.5 ,x, a ,\n1,x,"b\nc",d\n'
  assert read(tmp_path, text) == [
    (2, Point("a", 2.5, None)),
    # The line on which the row ends.
    (4, Point("b\nc", 1.0, "d")),
  ]


@pytest.mark.parametrize("number", [".5", "0.5", "+0.5", "00.50", "5e-1"])
def test_numbers_are_read_as_spreadsheets_write_them(tmp_path, number):
  ((_, row),) = read(tmp_path, f"name,height,note\na,{number},\n")
  assert row.height == 0.5
  path = tmp_path / "widths.csv"
  path.write_text(f"width,x\n{number},\n,x\n", encoding="utf-8")
  assert [row for _, row in files.read_csv_rows(path, Width)] == [
    Width(0.5),
    Width(None),
  ]


def test_an_empty_line_of_a_table_is_named(tmp_path):
  path = tmp_path / "table.tsv"
  path.write_text("name\tyear\na\t1\n\nb\t2\n", encoding="utf-8")
  with pytest.raises(ValueError, match=r"table\.tsv, line 3: should have"):
    files.read_tsv_rows(path)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "csv:1: no column name, height, note; expected the header name,hei"),
    ("name,note\n", "csv:1: no column height.*; the file has name, note"),
    ("name,height,note\na,1\n", "csv:2: expected 3 columns"),
    ("name,height,note\na,1,b,c\n", "csv:2: expected 3 columns"),
    ("name,height,note\na,1,\n,1,\n", "csv:3: name is empty"),
    ("name,height,note\na,x,\n", "csv:2: height='x': Expected `float`, got"),
    ("name,height,note\na,-1,\n", "csv:2: height='-1': Expected `float` > 0"),
  ],
)
def test_a_malformed_row_is_named(tmp_path, text, message):
  with pytest.raises(ValueError, match=message):
    read(tmp_path, text)


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("name,height,note\nBöhme,1,\n".encode("latin-1"), "not UTF-8 at byte 18"),
    (
      b'name,height,note\n"' + b"a" * 140_000,
      "csv: after line 1: field larger.*never closed",
    ),
  ],
)
def test_a_file_that_is_no_table_is_named(tmp_path, content, message):
  path = tmp_path / "points.csv"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=message):
    list(files.read_csv_rows(path, Point))
