"""Kanripo's files become entries, headings, notes and places."""

import random

import pytest

from ctd_jax.texts import read_works
from ctd_jax.texts.works import mark_unencoded
from tests.texts.coverage import count_lost_han

HEAD = """# -*- mode: mandoku-view; -*-
#+TITLE: 試年紀
#+DATE: 2015-08-24
#+PROPERTY: ID KR9z0001
#+PROPERTY: BASEEDITION WYG
#+PROPERTY: JUAN {juan}
"""
TITLE_PAGE = """<pb:KR9z0001_WYG_00{juan}-1a>¶
欽定四庫全書¶
　試年紀卷{number}¶
　　　　　　　　　　　　　宋　某某　撰¶
　　某宗¶
"""
LINE = "甲乙丙丁戊己庚辛壬癸子丑寅夘辰巳午未申酉戌"  # 21, as WYG prints


def write_juan(folder, *bodies):
  """Writes one file for each body, after head lines and a title page."""
  for juan, body in enumerate(bodies, start=1):
    number = "一二三四五"[juan - 1]
    title = TITLE_PAGE.format(juan=juan, number=number)
    (folder / f"KR9z0001_00{juan}.txt").write_text(
      HEAD.format(juan=juan) + title + body, encoding="utf-8"
    )
  return folder


def read_one(folder):
  (work,) = read_works(folder)
  return work


def test_printed_lines_are_joined_and_spaces_cut_where_they_divide(tmp_path):
  body = f"{LINE}¶\n王師還　{LINE[:17]}¶\n二月立某氏為后¶\n" * 8
  work = read_one(write_juan(tmp_path, body))
  assert [entry.text for entry in work.records[:3]] == [
    f"{LINE}王師還",
    f"{LINE[:17]}二月立某氏為后",
    f"{LINE}王師還",
  ]
  assert work.records[0].headings == ("試年紀卷一", "某宗")
  assert work.counts["marks between entries"] == 8


def test_single_blanks_of_a_text_that_has_no_such_marks_are_no_cuts(tmp_path):
  body = f"{LINE}¶\n" * 400 + "以尹故　吏也¶\n"
  records = read_one(write_juan(tmp_path, body)).records
  assert records[-1].text.endswith("以尹故吏也")


def test_head_lines_apparatus_and_headings_are_no_records(tmp_path):
  work = read_one(write_juan(tmp_path, "元年春正月朔¶\n", "二年春正月朔¶\n"))
  assert work.identifier == "KR9z0001"
  assert work.title == "試年紀"
  assert dict(work.properties)["BASEEDITION"] == "WYG"
  assert "JUAN" not in work.properties  # not the same in all files
  assert [(entry.kind, entry.text) for entry in work.entries] == [
    ("apparatus", "欽定四庫全書"),
    ("heading", "試年紀卷一"),
    ("apparatus", "宋某某撰"),
    ("heading", "某宗"),
    ("text", "元年春正月朔"),
    ("apparatus", "欽定四庫全書"),
    ("heading", "試年紀卷二"),
    ("apparatus", "宋某某撰"),
    ("heading", "某宗"),
    ("text", "二年春正月朔"),
  ]


def test_juan_0_is_front_matter(tmp_path):
  write_juan(tmp_path, "元年春正月朔¶\n")
  head = HEAD.format(juan=0)
  (tmp_path / "KR9z0001_000.txt").write_text(
    f"{head}三年春正月朔進表¶\n", encoding="utf-8"
  )
  work = read_one(tmp_path)
  assert [entry.text for entry in work.records] == ["元年春正月朔"]
  assert "三年春正月朔進表" in {
    entry.text for entry in work.entries if entry.kind == "apparatus"
  }
  # Alone it is the text that was asked for.
  assert len(read_one(tmp_path / "KR9z0001_000.txt").records) == 1


@pytest.mark.parametrize(
  ("number", "text"), [(25, "盟于某"), (3, "盟于某音註")]
)
def test_labels_of_glosses_are_no_text_where_they_are_many(
  number, text, tmp_path
):
  body = "".join(f"{n}月盟于某音註(某/音)¶\n" for n in range(100, 100 + number))
  records = read_one(write_juan(tmp_path, body)).records
  assert {record.text[4:] for record in records} == {text}


def test_notes_keep_their_position_and_join_over_lines(tmp_path):
  body = (
    "甲乙丙丁戊己庚辛壬癸子丑寅夘辰巳午(注一/注二)未申¶\n"
    "甲乙丙丁戊己庚辛壬癸(一二三四五六七八九十百/千萬億兆京垓秭穰溝澗正)¶\n"
    "(載極/恒河)某事(臣/)等謹案¶\n"
  )
  entry = read_one(write_juan(tmp_path, body)).records[0]
  assert entry.text == (
    "甲乙丙丁戊己庚辛壬癸子丑寅夘辰巳午未申甲乙丙丁戊己庚辛壬癸某事臣等謹案"
  )
  assert [(note.position, note.text) for note in entry.notes] == [
    (17, "注一注二"),
    (29, "一二三四五六七八九十百千萬億兆京垓秭穰溝澗正載極恒河"),
  ]
  assert entry.notes[1].place.line == 13


def test_a_note_that_goes_on_keeps_its_entry_together(tmp_path):
  # The first line lacks characters of its note and is not full.
  body = f"{LINE}¶\n{LINE[:10]}(右/左)¶\n(續/完)下文¶\n甲子別事¶\n"
  first, second = read_one(write_juan(tmp_path, body)).records
  assert first.text == f"{LINE}{LINE[:10]}下文"
  assert [(n.position, n.text) for n in first.notes] == [
    (31, "右左"),
    (31, "續完"),
  ]
  assert second.text == "甲子別事"


def test_a_note_before_an_entry_comments_on_the_one_before(tmp_path):
  body = f"甲子某事¶\n(注一/注二){LINE[:18]}¶\n終¶\n"
  first, second = read_one(write_juan(tmp_path, body)).records
  assert [(n.position, n.text) for n in first.notes] == [(4, "注一注二")]
  assert (second.text, second.notes) == (f"{LINE[:18]}終", ())


def test_labels_of_notes_belong_to_the_notes(tmp_path):
  body = f"{LINE[:14]}三月盟注某也音¶\n義(某音/某)疏(注某/也)夏上疏某¶\n"
  folder = write_juan(tmp_path, body)
  path = folder / "KR9z0001_001.txt"
  text = path.read_text(encoding="utf-8")
  entry = read_one(folder).records[0]
  assert entry.text == f"{LINE[:14]}三月盟注某也音義疏夏上疏某"
  path.write_text(text.replace("試年紀", "試注疏"), encoding="utf-8")
  entry = read_one(folder).records[0]
  assert entry.text == f"{LINE[:14]}三月盟注某也夏上疏某"
  assert [(note.position, note.text) for note in entry.notes] == [
    (20, "音義某音某"),
    (20, "疏注某也"),
  ]
  assert count_lost_han(read_works(folder), folder) == 0


def test_notes_are_a_work_that_knows_its_places(tmp_path):
  work = read_one(write_juan(tmp_path, "元年春(一作二年/)正月¶\n"))
  commentary = work.commentary()
  assert commentary.identifier == "KR9z0001-notes"
  (note,) = commentary.entries
  index, position = note.commented
  assert work.entries[index].text[:position] == "元年春"
  assert note.headings == ("試年紀卷一", "某宗")


def test_every_character_knows_line_and_page(tmp_path):
  body = f"{LINE}¶\n<pb:KR9z0001_WYG_001-1b>¶\n終¶\n" * 5
  entry = read_one(write_juan(tmp_path, body)).records[0]
  first, last = entry.place_at(20), entry.place_at(21)
  assert (first.line, first.page) == (12, "001-1a")
  assert (last.line, last.page) == (14, "001-1b")
  with pytest.raises(IndexError, match="has 22 characters"):
    entry.place_at(23)


def test_what_has_no_code_is_one_square_each(tmp_path):
  work = read_one(write_juan(tmp_path, "王&KR1234;卒〓[車*犬]立\x01之¶\n"))
  assert work.records[0].text == "王□卒□□立□之"
  assert work.counts["characters without a code"] == 4


@pytest.mark.parametrize("text", ["[1]", "[a-b]", "[見-]上", "&amp;"])
def test_other_brackets_are_no_characters(text):
  marked, count = mark_unencoded(text)
  assert (marked, count) == (text, 0) or text.startswith("[見")


def test_circles_divide_entries_and_are_zeros_elsewhere(tmp_path):
  work = read_one(write_juan(tmp_path, "三月盟○夏四月會〇秋一〇五人¶\n"))
  texts = [entry.text for entry in work.records]
  assert texts == ["三月盟", "夏四月會", "秋一〇五人"]


def test_annals_with_rulers_at_the_margin(tmp_path):
  years = "元年帝即位居某¶\n五年征某夷　七年城某邑¶\n　某或作某¶\n九年陟¶\n"
  body = f"帝甲¶\n{years}外丙¶\n　名勝¶\n{years}" * 3
  body += f"　{LINE[1:]}¶\n　居某¶\n" * 8
  work = read_one(write_juan(tmp_path, body))
  assert [e.text for e in work.entries if e.is_heading][2:4] == ["帝甲", "外丙"]
  subordinate = next(e for e in work.records if e.text == "名勝")
  assert subordinate.indent == 1
  assert subordinate.headings[-1] == "外丙"


def test_short_entries_of_annals_are_no_rulers(tmp_path):
  body = "葬某公¶\n元年春某事¶\n葬秦景公¶\n公會某王¶\n冬螽¶\n二年春某事¶\n"
  assert len(read_one(write_juan(tmp_path, body * 5)).records) == 30


def test_a_year_after_a_full_line_begins_an_entry(tmp_path):
  body = ("元年春某事¶\n二年夏某事¶\n" * 12) + f"{LINE}¶\n三年春正月會¶\n"
  records = read_one(write_juan(tmp_path, body)).records
  assert [e.text for e in records[-2:]] == [LINE, "三年春正月會"]
  body = ("元年春某事¶\n二年夏某事¶\n" * 12) + f"{LINE}¶\n三年之喪終¶\n"
  records = read_one(write_juan(tmp_path, body)).records
  assert records[-1].text == f"{LINE}三年之喪終"


def test_entries_whose_first_line_stands_out_are_one_record_each(tmp_path):
  body = ""
  for day in "一二三":
    body += f"{day}日{LINE[2:]}¶\n　秋{LINE[2:]}¶\n　{LINE[:5]}¶\n"
  work = read_one(write_juan(tmp_path, body + "四日雨¶\n五日雪¶\n"))
  assert [entry.text[:2] for entry in work.records] == [
    f"{day}日" for day in "一二三四五"
  ]


def test_line_one_short_ends_an_entry_only_before_a_date(tmp_path):
  full = f"{LINE}¶\n" * 30
  body = f"{full}{LINE[:-1]}¶\n下文¶\n{full}{LINE[:-1]}¶\n甲子立后¶\n"
  records = read_one(write_juan(tmp_path, body)).records
  assert records[0].text.endswith(f"{LINE[:-1]}下文")
  assert records[-1].text == "甲子立后"


def test_collation_and_pages_printed_twice_are_apparatus(tmp_path):
  page = "".join(f"{LINE[k:]}{LINE[:k]}¶\n" for k in range(4))
  body = (
    f"<pb:KR9z0001_WYG_001-2a>¶\n{page}"
    f"<pb:KR9z0001_WYG_001-3a>¶\n{page}"
    "終¶\n"
    "<pb:KR9z0001_WYG_001-4a>¶\n"
    "　試年紀卷一¶\n"
    "　試年紀卷一考證¶\n"
    f"{LINE}¶\n　監本誤某○某按當作某¶\n"
  )
  # The second page ends in another line and is no repetition.
  counts = read_one(write_juan(tmp_path, body)).counts
  assert "pages printed twice" not in counts
  work = read_one(write_juan(tmp_path, body.replace("終¶\n", "")))
  assert work.counts["pages printed twice"] == 1
  assert [entry.kind for entry in work.entries].count("text") == 1
  apparatus = [e.text for e in work.entries if e.kind == "apparatus"]
  assert apparatus[-1] == f"{LINE}監本誤某○某按當作某"
  assert not work.commentary().entries


def test_a_line_far_too_wide_does_not_hide_the_width_of_the_others(tmp_path):
  lines = f"{LINE[:20]}¶\n{LINE[:20]}¶\n{LINE[:9]}¶\n" * 9
  too_wide = f"{LINE}{LINE[:11]}¶\n" + f"　　{LINE}乙¶\n¶\n" * 2
  records = read_one(write_juan(tmp_path, lines + too_wide)).records
  assert records[0].text == LINE[:20] * 2 + LINE[:9]


def test_a_juan_after_collation_in_the_same_file_is_text(tmp_path):
  body = (
    "元年春正月朔¶\n"
    "　試年紀卷一上考證¶\n元年正月○監本誤某¶\n　試年紀卷一上考證¶\n"
    "欽定四庫全書¶\n　試年紀卷一下¶\n二年春正月朔¶\n"
    "　試年紀卷一下考證¶\n二年正月○監本誤某¶\n"
  )
  assert [
    record.text for record in read_one(write_juan(tmp_path, body)).records
  ] == ["元年春正月朔", "二年春正月朔"]


@pytest.mark.parametrize("end", ["恭校上¶\n", "恭校¶\n上¶\n欽定四庫全書¶\n"])
def test_what_a_series_says_of_a_book_is_apparatus(tmp_path, end):
  body = (
    "　　提要¶\n　　臣等謹案試年紀一卷始於元年正月¶\n聖朝親征¶\n"
    f"　　訖於三年乾隆四十六年十一月{end}　試年紀卷一¶\n元年春正月朔¶\n"
  )
  work = read_one(write_juan(tmp_path, body))
  assert [record.text for record in work.records] == ["元年春正月朔"]
  assert any("聖朝" in e.text for e in work.entries if e.kind == "apparatus")


def test_lives_have_the_line_of_names_as_heading(tmp_path):
  body = (
    "¶\n荀甲　子乙(孫/丙)　賈丁¶\n¶\n荀甲字文若某人也¶\n¶\n評曰善¶\n¶\n終¶\n"
  )
  work = read_one(write_juan(tmp_path, body, body))
  assert [(entry.text, entry.headings[-1]) for entry in work.records] == [
    (text, "荀甲　子乙　賈丁") for text in ("荀甲字文若某人也", "評曰善", "終")
  ] * 2


TLS = """# -*- mode: mandoku-view -*-
#+TITLE: 試傳
#+PROPERTY: ID KR9z0002
#+PROPERTY: BASEEDITION tls

# src: TEST 1.1; tr. X
# dating: 8120
<pb:KR9z0002_tls_001-1a>¶
** 1 某公

A1.1《某公元年經》
<pb:KR9z0002_tls_001-2a>¶

A1.1.1元年春，¶
王正月。<pb:KR9z0002_tls_001-3a>¶

# src: TEST 1.2
公會某侯。

A1.1.2三月，¶
盟。

B1.1《某公元年傳》

B1.1.1元年春，¶葬。
"""


def test_tls_items_are_entries(tmp_path):
  (tmp_path / "KR9z0002_001.txt").write_text(TLS, encoding="utf-8")
  work = read_one(tmp_path)
  assert [(e.kind, e.label, e.text, e.headings) for e in work.entries] == [
    ("heading", "1", "某公", ()),
    ("heading", "A1.1", "某公元年經", ("某公",)),
    ("text", "A1.1.1", "元年春，王正月。公會某侯。", ("某公", "某公元年經")),
    ("text", "A1.1.2", "三月，盟。", ("某公", "某公元年經")),
    ("heading", "B1.1", "某公元年傳", ("某公",)),
    ("text", "B1.1.1", "元年春，葬。", ("某公", "某公元年傳")),
  ]
  entry = work.records[0]
  assert entry.place_at(4).page == "001-2a"
  assert entry.place_at(8).page == "001-3a"
  assert work.counts["comment lines"] == 4


def test_tls_without_items_is_cut_at_comments_that_end_a_sentence(tmp_path):
  (tmp_path / "KR9z0002_001.txt").write_text(
    "#+TITLE: 試紀\n#+PROPERTY: BASEEDITION tls\n1.1《某本紀》\n"
    "\n# src: 1\n元年，¶\n王立。\n"
    "\n# src: 2\n二年，¶\n曰：\n\n# src: 3\n「善。」\n",
    encoding="utf-8",
  )
  assert [entry.text for entry in read_one(tmp_path).records] == [
    "元年，王立。",
    "二年，曰：「善。」",
  ]


def test_works_of_one_folder_and_their_juan_are_told_apart(tmp_path):
  for name, identifier, text in (
    ("a_10.txt", "KR9z0001", "十"),
    ("a_9.txt", "KR9z0001", "九"),
    ("b_1.txt", "KR9z0002", "一"),
    ("Readme.org", "KR9z0003", "無"),
  ):
    (tmp_path / name).write_text(
      f"#+PROPERTY: ID {identifier}\n{text}年春某事¶\n", encoding="utf-8"
    )
  works = read_works(tmp_path)
  assert [
    (work.identifier, [entry.text for entry in work.records]) for work in works
  ] == [
    ("KR9z0001", ["九年春某事", "十年春某事"]),
    ("KR9z0002", ["一年春某事"]),
  ]


PIECES = (
  *"王公會盟卒葬元年春正月甲子○〇　()/¶<>〓\n",
  *("<pb:KR9z0001_WYG_001-9a>", "(注/文)", "(注\n文)", "¶\n", "¶\n　"),
  *("¶\n　　", "&KR12;", "卷一¶\n", "考證¶\n", "** 1 某\n", "A1.1.1"),
  *("# 注\n", "王" * 21 + "¶\n"),
)


@pytest.mark.parametrize("seed", range(60))
def test_no_character_of_a_broken_file_is_lost(tmp_path, seed):
  rng = random.Random(seed)
  body = "".join(rng.choices(PIECES, k=rng.randrange(5, 400)))
  folder = write_juan(tmp_path, body)
  assert count_lost_han(read_works(folder), folder) == 0
