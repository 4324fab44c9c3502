"""Chronicles are read as they are published, their markup left out."""

import pytest

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.dating.chronicle.chronicle_input import LINE, PARAGRAPH

MANDOKU = """# -*- mode: mandoku-view; -*-
#+TITLE: 某國紀
#+PROPERTY: ID KR2z0001
<pb:KR2z0001_WYG_001-1a>¶
欽定四庫全書¶
某國紀巻一¶
　莊公¶
元年春正月公即位(在位三/十年)三月大水城某邑公至自某夏四月¶
地震¶
"""
TEI = """<?xml version="1.0"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt>
<title>某國紀</title></titleStmt></fileDesc></teiHeader>
<text><body><head>莊公</head>
<p>元年春，<note>周曆</note>大水。</p>
<p>夏，地震。</p></body></text></TEI>
"""
MARKDOWN = """# 某國紀

## 莊公

元年春，**大水**。[^1]

夏，[地震](http://example.org)。

[^1]: 某注。
"""


def write(folder, name, text):
  path = folder / name
  path.parent.mkdir(exist_ok=True)
  path.write_text(text, encoding="utf-8")
  return path


def read(path, unit=LINE):
  work = chronicle_input.read_chronicle(path, unit)
  return chronicle_input.list_records(work)


def texts_of(path, unit=LINE):
  return [(record.kind, record.text) for record in read(path, unit)]


def test_records_are_lines_or_paragraphs(tmp_path):
  path = tmp_path / "chronicle.txt"
  path.write_bytes("\ufeff春，大水。\r\n\r\n  夏，\r\n地震。\r\n".encode())
  for unit, expected in (
    (LINE, [(1, "春，大水。"), (3, "夏，"), (4, "地震。")]),
    (PARAGRAPH, [(1, "春，大水。"), (3, "夏，地震。")]),
  ):
    records = read(path, unit)
    assert [(record.place.line, record.text) for record in records] == expected


@pytest.mark.parametrize("unit", chronicle_input.UNITS)
@pytest.mark.parametrize(
  ("name", "text", "expected"),
  [
    (
      "KR2z0001_001.txt",
      MANDOKU,
      [
        ("heading", "某國紀巻一"),
        ("heading", "莊公"),
        ("text", "元年春正月公即位三月大水城某邑公至自某夏四月地震"),
      ],
    ),
    (
      "chronicle.xml",
      TEI,
      [("heading", "莊公"), ("text", "元年春，大水。"), ("text", "夏，地震。")],
    ),
    (
      "chronicle.md",
      MARKDOWN,
      [
        ("heading", "某國紀"),
        ("heading", "莊公"),
        ("text", "元年春，大水。"),
        ("text", "夏，地震。"),
      ],
    ),
  ],
)
def test_markup_is_no_record(tmp_path, unit, name, text, expected):
  assert texts_of(write(tmp_path, name, text), unit) == expected


def test_what_is_left_out_is_counted(tmp_path):
  work = chronicle_input.read_chronicle(
    write(tmp_path, "KR2z0001_001.txt", MANDOKU), LINE
  )
  assert chronicle_input.summarize_reading(work) == (
    "mandoku, 1 records, 2 headings, 1 entries of apparatus skipped, "
    "1 notes skipped"
  )


def test_rows_without_text_are_counted(tmp_path):
  table = "id,date,text\n1,元年,雨。\n2,,\n,,\n4,二年,\n"
  work = chronicle_input.read_chronicle(write(tmp_path, "a.csv", table), LINE)
  assert chronicle_input.summarize_reading(work) == (
    "table, 2 records, 0 headings, 1 without text skipped"
  )


GB18030 = "元年春，王正月，公即位。三月，公及某盟。".encode("gb18030")


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("a.txt", b" \n\n", r"--input=.*a.txt: a has no text; expected one record"),
    (
      "a.txt",
      "春\n大水".encode() + b"\xff",
      "a.txt:2: byte 10 is not UTF-8",
    ),
    (
      "a.txt",
      GB18030,
      "a.txt:1: .* reads as GB18030: save it as",
    ),
    ("a.xml", b"<TEI>\n<text>", r"--input=.*a.xml: a.xml:2: no element found"),
    (
      "a.txt",
      "上一篇　下一篇\n".encode(),
      "plain without records; exp",
    ),
  ],
)
def test_bad_text_is_named(tmp_path, name, content, message):
  path = tmp_path / name
  path.write_bytes(content)
  with pytest.raises(ValueError, match=message):
    read(path)


def test_one_work_is_read_whole_and_others_are_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"--input=.*no.txt: no such"):
    read(tmp_path / "no.txt")
  # Files go by their numbers.
  for name, text in (("10_閔公", "夏，地震。"), ("2_莊公", "春，大水。")):
    write(tmp_path, f"a/{name}.txt", f"元年春，王正月。\n{text}\n")
  assert [text for _, text in texts_of(tmp_path / "a")] == [
    *("莊公", "元年春，王正月。", "春，大水。"),
    *("閔公", "元年春，王正月。", "夏，地震。"),
  ]
  write(tmp_path, "b/b.txt", "夏，地震。\n")
  with pytest.raises(ValueError, match=r"--input=.*: 2 works, .*\(b/b.txt\)"):
    read(tmp_path)
