"""TEI, Markdown, plain text and Western annals are read as they are."""

import codecs
import os
import re

import pytest

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.index.building import sources
from ctd_jax.texts import TextError, match_year_heading, read_works
from ctd_jax.texts.plain import find_unit

TEI = """<?xml version="1.0" encoding="{encoding}"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0">
 <teiHeader><fileDesc><titleStmt><title>某公 年紀</title></titleStmt>
 <publicationStmt><idno>X1</idno></publicationStmt></fileDesc></teiHeader>
 <text>
  <body>
   <div><head>某公<note>名某</note></head>
    <div><head>元年</head>
     <pb n="1a"/>
     <p n="3">元年春，<lb/>
       王正<pb n="1b"/>月。<note>某之<hi>正月</hi></note>三月，<app>
       <lem>公</lem><rdg wit="#A">宋公</rdg></app>及<g ref="#x"/>儀父<gap
       quantity="2"/>盟。</p>
     <p>夏，<choice><sic>四</sic><corr>五</corr></choice>月。</p>
    </div>
   </div>
   <div><head>他公</head>
    <lg><l>一句一</l><l>二句二</l></lg>
    <list><item>one <seg>two</seg>
      three</item></list>
   </div>
  </body>
 </text>
</TEI>
"""


def write(folder, name, text, encoding="utf-8"):
  path = folder / name
  path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
  return path


def read_one(path, **arguments):
  (work,) = read_works(path, **arguments)
  return work


def outline(work):
  return [
    ("#" if entry.is_heading else "", entry.text, entry.headings)
    for entry in work.entries
    if entry.kind != "apparatus"
  ]


@pytest.mark.parametrize("encoding", ["UTF-8", "utf-16-le"])
def test_tei_is_read_with_notes_readings_and_pages(tmp_path, encoding):
  mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else b""
  content = mark + TEI.format(encoding=encoding).encode(encoding)
  work = read_one(write(tmp_path, "x.xml", content))
  assert (work.identifier, work.title) == ("X1", "某公年紀")
  assert outline(work) == [
    ("#", "某公", ()),
    ("#", "元年", ("某公",)),
    ("", "元年春，王正月。三月，公及□儀父□□盟。", ("某公", "元年")),
    ("", "夏，五月。", ("某公", "元年")),
    ("#", "他公", ()),
    ("", "一句一二句二", ("他公",)),
    ("", "one two three", ("他公",)),
  ]
  entry = work.records[0]
  assert [(n.position, n.text, n.kind) for n in entry.notes] == [
    (8, "某之正月", "note"),
    (12, "宋公", "reading"),
  ]
  assert entry.label == "3"
  assert entry.place_at(0) == ("x.xml", 10, "1a")
  assert entry.place_at(7) == ("x.xml", 11, "1b")
  assert [n.text for n in work.commentary().entries] == ["名某", "某之正月"]
  assert work.counts["characters missing"] == 2
  assert work.counts["characters without a code"] == 1


def test_broken_tei_is_refused_with_its_line(tmp_path):
  path = write(tmp_path, "x.xml", "<TEI>\n<text>\n<p>王</text></TEI>")
  with pytest.raises(TextError, match=r"x.xml:3: mismatched tag; correct"):
    read_works(path)
  path = write(
    tmp_path,
    "y.xml",
    '<!DOCTYPE TEI [\n<!ENTITY a "王">\n]>\n<TEI><text><p>&a;</p></text></TEI>',
  )
  with pytest.raises(TextError, match=r"y.xml:2: entity a is declared"):
    read_works(path)


MARKDOWN = """---
title: 試錄
---
# 某公

元年

----

元年 *春*，某 [盟](http://x.y)。[^1]
下行。

> 引文

1. 一事
2. 二事

| 年 | 事 |
|----|----|
| 二年 | 會 |

[^1]: 注文
    續。
<!-- 旁
批 -->
末段。
"""


def test_markdown_is_read_without_its_markup(tmp_path):
  work = read_one(write(tmp_path, "a.md", MARKDOWN))
  assert work.title == "試錄"
  assert outline(work) == [
    ("#", "某公", ()),
    ("", "元年", ("某公",)),
    ("", "元年春，某盟。下行。", ("某公",)),
    ("", "引文", ("某公",)),
    ("", "一事", ("某公",)),
    ("", "二事", ("某公",)),
    ("", "年事", ("某公",)),
    ("", "二年會", ("某公",)),
    ("", "末段。", ("某公",)),
  ]
  entry = work.records[1]
  assert [(n.position, n.text) for n in entry.notes] == [(7, "注文續。")]
  assert entry.place_at(7).line == 11
  assert work.records[-1].place.line == 26
  assert [e.label for e in work.records[3:5]] == ["1", "2"]


def test_lines_of_plain_text_are_records(tmp_path):
  text = (
    "== 某公/元年 ==\n一、元年，春。\n無事。\n2　夏，盟。[3]\n"
    "起，〔王〕(主)立。\n"
  )
  work = read_one(write(tmp_path, "a.txt", text))
  assert outline(work) == [
    ("#", "某公/元年", ()),
    ("", "元年，春。", ("某公/元年",)),
    ("", "無事。", ("某公/元年",)),
    ("", "夏，盟。", ("某公/元年",)),
    ("", "起，王立。", ("某公/元年",)),
  ]
  assert [e.label for e in work.records] == ["一", "", "2", ""]
  assert [(n.text, n.kind) for n in work.records[-1].notes] == [
    ("主", "reading")
  ]
  assert work.counts["footnote marks"] == 1
  assert not work.commentary().entries


def test_paragraphs_of_plain_text_are_records(tmp_path):
  text = "元年春，某人\n來盟。\n\n\n二年夏，某人\n來聘。\n"
  assert find_unit(text) == "paragraph"
  path = write(tmp_path, "a.txt", text)
  assert [e.text for e in read_one(path).records] == [
    "元年春，某人來盟。",
    "二年夏，某人來聘。",
  ]
  assert len(read_one(path, unit="line").records) == 4


def test_short_lines_without_a_stop_head_punctuated_text(tmp_path):
  text = "經\n元年春，盟。\n螟。\n傳\n元年春，盟于某。\n回目錄　下一篇\n"
  work = read_one(write(tmp_path, "a.txt", text))
  assert outline(work) == [
    ("#", "經", ()),
    ("", "元年春，盟。", ("經",)),
    ("", "螟。", ("經",)),
    ("#", "傳", ()),
    ("", "元年春，盟于某。", ("傳",)),
  ]
  assert work.entries[-1].kind == "apparatus"


def test_files_of_a_folder_are_parts_of_a_work_in_order(tmp_path):
  for name in ("2_乙公.txt", "10_丙公.txt", "1_甲公.txt"):
    write(tmp_path, name, "元年春，盟。\n")
  write(tmp_path, "README.md", "# about\n")
  (tmp_path / ".git").mkdir()
  write(tmp_path / ".git", "x.txt", "無。")
  work = read_one(tmp_path)
  assert [e.headings for e in work.records] == [("甲公",), ("乙公",), ("丙公",)]
  assert work.counts["files"] == 3


ANNALS = """THE CHRONICLE

A.D. 1.  Octavian reigned; and in the forty-second
year came a star.

A.D. 3.  This year died Herod.

Then came another.

A.D. 787.  In this year king Bertric took to wife Ead-
burga.

MARCH.

There came ships.

A.D. 793.  In 794 nothing came.
"""


def test_years_of_western_annals_are_headings(tmp_path):
  work = read_one(write(tmp_path, "asc.txt", ANNALS))
  top = ("THE CHRONICLE",)
  assert outline(work) == [
    ("#", "THE CHRONICLE", ()),
    ("#", "A.D. 1.", top),
    (
      "",
      "Octavian reigned; and in the forty-second year came a star.",
      (*top, "A.D. 1."),
    ),
    ("#", "A.D. 3.", top),
    ("", "This year died Herod.", (*top, "A.D. 3.")),
    ("", "Then came another.", (*top, "A.D. 3.")),
    ("#", "A.D. 787.", top),
    (
      "",
      "In this year king Bertric took to wife Eadburga.",
      (*top, "A.D. 787."),
    ),
    ("#", "MARCH.", (*top, "A.D. 787.")),
    ("", "There came ships.", (*top, "A.D. 787.", "MARCH.")),
    ("#", "A.D. 793.", top),
    ("", "In 794 nothing came.", (*top, "A.D. 793.")),
  ]
  wife = work.records[3]
  assert wife.place_at(wife.text.index("Ead") + 3).line == 11
  assert work.records[1].place.line == 6


@pytest.mark.parametrize(
  ("text", "year", "end"),
  [
    ("A.D. 787. In this year", 787, 10),
    ("787. In this year", 787, 5),
    ("787", 787, 3),
    ("AD 787: ships", 787, 8),
    ("An. dccxcvii. Hic", 797, 14),
    ("DCCLXXXVII.", 787, 11),
    ("Anno Domini 1066, came", 1066, 18),
    ("60 B.C.--Caesar", -59, 9),
    ("B.C. 60. Sixty winters", -59, 9),
    ("1066 CE.", 1066, 8),
    ("[1066]", 1066, 6),
    ("1087 Ships came", 1087, 5),
    ("A. 911. Then the next year", 911, 8),
    ("[60BC] Before", -59, 7),
    ("1AD Octavian", 1, 4),
    ("U431.1: Palladius", 431, 8),
  ],
)
def test_year_headings(text, year, end):
  heading = match_year_heading(text)
  assert (heading.year, heading.end) == (year, end)


@pytest.mark.parametrize(
  "text",
  ["In 787 he came", "787 ships came", "I. Book", "did. They", "12th May",
   "A.D. came", "1 In the beginning", "A 911 bus", "DI Smith came",
   "mix. Then", "iiii iiii. x", ""],
)  # fmt: skip
def test_what_is_no_year_heading(text):
  heading = match_year_heading(text)
  # "mix" is a numeral: only the order of the years can tell.
  assert heading is None or text == "mix. Then"


def test_numbered_lists_and_chinese_texts_have_no_such_headings(tmp_path):
  lines = "\n\n".join(f"{k}. Take the spoon\nand stir." for k in range(1, 9))
  for text in (lines, "787. 元年春，盟。\n\n788. 夏，會。\n\n789. 秋，葬。\n"):
    work = read_one(write(tmp_path, "a.txt", text))
    assert not any(entry.is_heading for entry in work.entries)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_byte_order_marks_are_read(tmp_path, encoding):
  text = "\ufeff元年春，盟。\r\n二年。"
  work = read_one(write(tmp_path, "a.txt", text, encoding))
  assert [e.text for e in work.records] == ["元年春，盟。", "二年。"]


CHINESE = "元年春\n王正月公即位不書葬也\n大夫之事以為有年而人不知\n" * 3


@pytest.mark.parametrize(
  ("encoding", "name"), [("gb18030", "GB18030"), ("big5", "BIG5")]
)
def test_other_encodings_are_named_and_refused(tmp_path, encoding, name):
  path = write(tmp_path, "a.txt", CHINESE, encoding)
  with pytest.raises(
    TextError, match=rf"a.txt:1: byte \d is not UTF-8; it reads as {name}: save"
  ):
    read_works(path)


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("元年\n王".encode() + b"\xff", r"a.txt:2: byte 10 is not UTF-8; save"),
    ("元年\n王\0".encode(), r"a.txt:2: control character U\+0000"),
    (b"", r"a has no text"),
    (codecs.BOM_UTF32_LE + b"a\0\0\0", r"a.txt:1: UTF-32; save"),
  ],
)
def test_unreadable_files_are_refused_in_one_line(tmp_path, content, message):
  path = write(tmp_path, "a.txt", content)
  with pytest.raises(TextError, match=message) as caught:
    read_works(path)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("name", "shown"),
  [
    (b"\xff\xfe.txt", r"\xff\xfe.txt"),
    ("宋史".encode("gb18030") + b".txt", r"\xcb\xceʷ.txt"),
    (b"a\nb\t.txt", r"a\x0ab\x09.txt"),
    ("a\u2028b.txt".encode(), r"a\xe2\x80\xa8b.txt"),
    (b"\xffdir/text.txt", r"\xffdir/text.txt"),
  ],
)
def test_names_that_cannot_be_stored_are_refused(tmp_path, name, shown):
  for number in range(50):
    write(tmp_path, f"{number}.txt", "元年春\n二年夏\n")
  path = tmp_path / os.fsdecode(name)
  path.parent.mkdir(exist_ok=True)
  path.write_text("元年春\n二年夏\n", encoding="utf-8")
  for argument in (path, tmp_path):
    with pytest.raises(TextError) as error:
      read_works(argument)
    assert str(error.value).startswith(f"{tmp_path}/{shown}: ")
  for read in (
    lambda: chronicle_input.read_chronicle(path, "line"),
    lambda: sources.make_request(tmp_path, str(path)).read(tmp_path),
  ):
    with pytest.raises(ValueError, match=re.escape(shown)) as error:
      read()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
  "name",
  [
    "-x.txt",
    "q'\"&<{}%s.txt",
    "長" * 80 + ".txt",
    "a\u3000b .txt",
    "$(id).txt",
  ],
)
def test_odd_names_are_names(tmp_path, name):
  write(tmp_path, name, "元年春\n二年夏\n")
  for argument in (tmp_path, tmp_path / name):
    [work] = read_works(argument)
    assert {entry.place.file for entry in work.entries} == {name}


def test_paths_and_arguments_that_cannot_be(tmp_path):
  with pytest.raises(TextError, match="nowhere: no such file or folder"):
    read_works(tmp_path / "nowhere")
  with pytest.raises(TextError, match="no text; expected files that end in"):
    read_works(tmp_path)
  path = write(tmp_path, "a.txt", "王")
  with pytest.raises(ValueError, match="text_format='tex': expected one of"):
    read_works(path, text_format="tex")
  with pytest.raises(ValueError, match="unit='word': expected one of line"):
    read_works(path, unit="word")


def test_a_format_can_be_named(tmp_path):
  path = write(tmp_path, "a.txt", "# 某公\n元年春，盟。\n")
  assert read_one(path).text_format == "markdown"
  work = read_one(path, text_format="plain")
  assert [e.text for e in work.entries] == ["#某公", "元年春，盟。"]
