"""Commentary of five works is read as printed, placed, accepted and cut."""

import collections
import json
import os
import pathlib
import random
import re

import pytest

from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets.chunqiutr import (
  base_texts,
  commentary,
  essays,
  gallery,
  text_alignment,
)
from ctd_jax_datasets.common import source_files
from tests.data.chunqiutr import edition_files

# The annals and 左傳 of the invented editions, in parts.
PARTS = [
  ("元年春王正月。", TimeKey(1, 1, 1)),
  ("三月，公會泠侯于桃丘以謀嶧故。", TimeKey(1, 1, 3)),
  ("夏，嶧人侵我東鄙取柘榆二邑。", TimeKey(1, 1, 4)),
  ("秋八月，浯伯來朝且請盟。", TimeKey(1, 1, 8)),
  ("元年春，衍煦生而能言故名之。", TimeKey(1, 1, 1)),
  (
    "夏，嶧侵東鄙。騫翟曰：「民將饑。嶧師必退。」公從之。嶧師果去。",
    TimeKey(1, 1, 6),
  ),
  ("秋，初，杏陵之田久荒。", TimeKey(1, 1, 7)),
  ("二年春，泠侯使其弟騫來聘。", TimeKey(1, 2, 1)),
  ("夏五，葬泠桓侯于檀原。", TimeKey(1, 2, 5)),
  ("二年春，騫來聘始通兩國之好也。", TimeKey(1, 2, 1)),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  return edition_files.write_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def anchor():
  return text_alignment.Anchor.from_segments(PARTS)


@pytest.fixture(scope="module")
def parsed(files, anchor):
  return commentary.parse_works(files, anchor)


def of(parsed, source):
  return [
    (comment.segment_index, comment.text)
    for comment in parsed[0]
    if comment.source == source
  ]


def test_du_yu_comes_without_glosses_and_short_notes(parsed):
  assert of(parsed, "du_yu") == [
    (0, "此嗣位後第一年其月則王室所頒也凡新君皆然"),
    (1, "桃丘泠地在其國都東南近大澤之濱"),
    (2, "不稱師者將卑師少故也柘榆皆魯東鄙邑"),
    (4, "言其生而有異於衆人故記之也"),
    (7, "諸聘皆使卿此使弟故書其名以別之也"),
    (8, "無傳不書月史闕文也檀原泠國葬地"),
  ]


def test_kong_yingda_comes_without_framing_and_corrigenda(parsed):
  pieces = of(parsed, "kong_yingda")
  assert {part for part, _ in pieces[:-1]} == {0}
  assert pieces[-1] == (2, "將卑師少則稱人此國史之常例也劉氏以為貶之非其旨也")
  assert pieces[0][1].startswith("此言元年者君之始年也")
  for _, text in pieces:
    assert "正義曰" not in text
    assert "校語" not in text


def test_gu_donggao_stands_under_entries_of_the_margin(parsed):
  pieces = of(parsed, "gu_donggao")
  assert [(part, text[:4]) for part, text in pieces] == [
    (1, "岷氏澹曰"),
    (1, "案三家之"),
    (3, "湟氏岷曰"),
    (8, "岷氏澹曰"),  # printed under year 5, found in year 2
  ]
  assert pieces[0][1].endswith("謀嶧者乃其常也")
  audit = parsed[1]["gu_donggao"]
  assert audit["rejected"] == {"no entry of the year": 1, "on no entry": 2}


def test_an_entry_goes_on_over_lines_but_not_over_the_table(files):
  path = files["gudonggao_dashibiao_KR1e0114/KR1e0114_042.txt"]
  words = [heading.entry_text for heading in commentary.read_headings(path)]
  assert "秋八月浯伯來朝" in words
  assert not any("何以稱伯" in word or "其爵" in word for word in words)


def test_wei_liaoweng_stands_where_he_copies_from(parsed):
  pieces = of(parsed, "wei_liaoweng")
  assert [part for part, _ in pieces] == [0, 2, 4]
  assert pieces[1][1].startswith("將卑師少國史常例將卑師少則稱人")
  audit = parsed[1]["wei_liaoweng"]
  assert audit["rejected"] == {"no year is named": 1}
  assert (audit["years_checked"], audit["years_agreed"]) == (2, 2)


KONG_TWO_ENTRIES = (
  "經元年春王正月疏(正義曰此言元年者君之始年也年稱元者取其始也"
  "衆說紛然皆以為不可改易)\n"
  "三月公會泠侯于桃丘以謀嶧故疏(正義曰桃丘泠地近大澤之濱諸侯㑹盟多在其境"
  "内故史官不復言其國名)\n"
)


def test_a_section_on_two_entries_is_divided_between_them(tmp_path, anchor):
  kong_path = tmp_path / "KR1e0004_001.txt"
  kong_path.write_text(KONG_TWO_ENTRIES, encoding="utf-8")
  wei_path = tmp_path / "KR1e0044_001.txt"
  wei_path.write_text(
    "　隱公元年至二年¶\n　　(一/)元與桃丘之義¶\n"
    "元年春正義曰此言元年者君之始年也年稱元者取其始也衆說紛然皆以為¶\n"
    "不可改易桃丘泠地近大澤之濱諸侯㑹盟多在其境内故史官不復言其國名¶\n",
    encoding="utf-8",
  )
  work = essays.read_wei([wei_path], [kong_path], anchor)
  assert work.num_units == 1
  first, second = work.candidates
  assert first.anchor_match.key == TimeKey(1, 1, 1)
  assert first.passages[0] == "元與桃丘之義元年春"
  assert first.passages[1].endswith("不可改易")
  assert second.anchor_match.key == TimeKey(1, 1, 3)
  assert second.passages == (
    "桃丘泠地近大澤之濱諸侯㑹盟多在其境内故史官不復言其國名",
  )
  assert work.num_years_checked == work.num_years_agreed == 2


def test_a_doubtful_section_stands_between_its_neighbors(anchor):
  def section(text, segment_index, score):
    place = text_alignment.AnchorMatch(
      segment_index, anchor.keys[segment_index], score
    )
    return text_alignment.Candidate((text,), place)

  sections = [
    section("嶧人侵東鄙", 2, 0.9),
    section("騫翟言嶧師必退公從之", 9, 0.5),  # in 2, its neighbors in 1
    section("始通兩國之好", 9, 0.5),  # nothing of 1 fits
    section("杏陵之田久荒", 6, 0.9),
    section("騫翟言嶧師必退公從之", 9, 0.7),  # sure
    section("杏陵之田久荒", 6, 0.9),
  ]
  matcher = text_alignment.AnchorMatcher(anchor)
  found = essays.rematch_between_neighbors(sections, matcher)
  places = [candidate.anchor_match.segment_index for candidate in found]
  assert places == [2, 5, 9, 6, 9, 6]


def test_a_ring_begins_another_explanation(tmp_path, anchor):
  path = tmp_path / "KR1e0004_001.txt"
  path.write_text(
    "元年春王正月疏(正義曰元者始也○春者時之始也○)\n", encoding="utf-8"
  )
  assert [
    candidate.passages
    for candidate in essays.read_kong([path], anchor).candidates
  ] == [("元者始也",), ("春者時之始也",)]


@pytest.mark.parametrize(
  ("lines", "paragraphs"),
  [
    # Gaps between opinions are no text.
    ("(岷氏曰  泠/也)", ["岷氏曰泠也"]),
    # Lines of one length are one paragraph.
    (
      f"({'岷' * 18}/{'泠' * 18}) ({'岷' * 18}/{'泠' * 18}) ({'嶧' * 16}/浯)",
      [("岷" * 18 + "泠" * 18) * 2, "嶧" * 16 + "浯"],
    ),
  ],
)
def test_paragraphs_of_a_heading(lines, paragraphs, tmp_path):
  path = tmp_path / "KR1e0114_042.txt"
  body = "".join(f"　　{line}¶\n" for line in re.findall(r"\(.+?\)", lines))
  path.write_text(f"　　隱公¶\n三月公會泠侯¶\n{body}", encoding="utf-8")
  assert commentary.read_headings(path)[-1].paragraphs == paragraphs


def test_a_note_on_a_heading_explains_what_begins_there(tmp_path, anchor):
  first, second = (tmp_path / f"KR1e0004_00{n}.txt" for n in (1, 2))
  first.write_text(
    "三月公會泠侯于桃丘以謀嶧故夏嶧人侵我東鄙取柘榆二邑疏(正義曰末)\n",
    encoding="utf-8",
  )
  second.write_text(
    "湟公音義疏(正義曰世家湟公名泠)\n二年春泠侯使其弟騫來聘疏(正義曰聘)\n",
    encoding="utf-8",
  )
  matches = [
    candidate.anchor_match
    for candidate in essays.read_kong([first, second], anchor).candidates
  ]
  assert [place.key for place in matches] == [
    TimeKey(1, 1, 4),
    TimeKey(1, 2, 1),
    TimeKey(1, 2, 1),
  ]
  assert matches[1].score > 0.8


def test_titles_of_lv_zuqian_have_years_that_carry_on(files):
  path = files["lvzuqian_zuoshizhuanshuo_KR1e0039/KR1e0039_001.txt"]
  first, second, third = essays.read_lv_sections(path)
  assert first.titles == [
    "騫翟言嶧師必退而公從之嶧師果去泠人亦還",
    "杏陵之田久荒",
  ]
  assert first.years == [[(1, 1)], [(1, 1)]]
  assert (second.years, third.years) == ([[(2, 2)]], [[(1, 2)]])
  assert "闕" not in first.body
  assert third.titles == ["騫來聘通兩國之好"]


def test_what_lv_zuqian_says_goes_to_the_likest_title(parsed):
  first, second = of(parsed, "lv_zuqian")
  assert first[0] == 5
  assert first[1].startswith("騫翟之言只看嶧師侵鄙")
  assert second == (
    9,
    "通兩國之好固是美事然好之所以通者必有其本不可徒恃使人之往來而已",
  )
  audit = parsed[1]["lv_zuqian"]
  assert audit["rejected"] == {"no entry of the year": 1}


def test_audit_accounts_for_every_candidate(parsed):
  comments, audit = parsed
  assert list(audit) == list(commentary.COMMENT_SOURCES)
  json.dumps(audit)
  pieces = collections.Counter(comment.source for comment in comments)
  for source, counts in audit.items():
    lost = sum(counts["rejected"].values())
    assert counts["candidates"] == counts["accepted"] + lost, source
    assert counts["pieces"] == pieces[source]


def test_a_table_or_a_book_without_headings_is_named(tmp_path):
  path = tmp_path / "042.txt"
  path.write_text("　　　騫翟言嶧師必退(元年/)¶\n", encoding="utf-8")
  with pytest.raises(source_files.SourceError, match="042.txt: no entry"):
    commentary.read_headings(path)
  with pytest.raises(source_files.SourceError, match="before the first duke"):
    essays.read_lv_sections(path)


@pytest.mark.parametrize("seed", range(5))
def test_cut_loses_nothing(seed):
  draw = random.Random(seed)
  for _ in range(50):
    text = "".join(
      draw.choices("泠嶧浯湟澹岷也矣者曰云年僖三蓋", k=draw.randrange(900))
    )
    pieces = essays.cut_pieces(text)
    assert "".join(pieces) == text
    for piece in pieces[:-1]:
      assert len(piece) >= essays.MIN_CHARS_BEFORE_QUOTE
    if len(pieces) > 1:
      assert len(pieces[-1]) >= essays.MIN_TAIL_CHARS


def test_cut_stands_before_who_is_quoted():
  before = "泠" * essays.MIN_CHARS_BEFORE_QUOTE + "也"
  after = "湟氏泠志云嶧人之俗尚質而少文其祭不用牲也"
  assert essays.cut_pieces(before + after) == [before, after]
  cited = "僖二十八年傳曰嶧人侵東鄙取二邑而去之三年乃復"
  assert essays.cut_pieces(before[:-1] + cited) == [before[:-1], cited]


@pytest.mark.parametrize(
  ("clause", "rest"),
  [
    *(("震蕩人耳", "目"), ("晉鄭焉", "依"), ("重莫重乎", "其")),
    *(("王即", "當時之王"), ("但只以", "當時"), ("討宋曰", "何故")),
    *(("於是乎", "有"), ("今之", "學者"), ("其罪狀止", "以此")),
  ],
)
def test_no_cut_inside_a_clause(clause, rest):
  before = "泠" * essays.MIN_PIECE_CHARS + clause
  after = rest + "嶧" * essays.MIN_PIECE_CHARS
  assert essays.cut_pieces(before + after) == [before + after]
  # The same words do end or open a sentence elsewhere.
  end = "泠" * essays.MIN_PIECE_CHARS
  for sentence in (end + "耳", end + "焉", end + "乎"):
    assert essays.cut_pieces(sentence + after[2:]) == [sentence, after[2:]]


@pytest.mark.parametrize(
  ("note", "kept"),
  [
    ("桃丘泠地嶧音亦濱必人切", "桃丘泠地"),
    ("盟于桃丘好呼報切與如字", "盟于桃丘"),
    ("八音克諧也", "八音克諧也"),
    ("以備嶧嶧本又作澤", "以備嶧"),
    ("無傳", "無傳"),
    ("輸盡也積子賜反下同", "輸盡也"),
    ("爲祧祧他彫反", "爲祧"),
    ("夫人也不反哭故不書", "夫人也不反哭故不書"),
    ("爻辭也復反也極隂反陽", "爻辭也復反也極隂反陽"),
  ],
)
def test_cut_glosses(note, kept):
  assert essays.cut_glosses(note) == kept


@pytest.mark.parametrize(
  ("note", "kept"),
  [
    ("由嶧之力柘榆二本亦作柘二", "由嶧之力"),
    ("披奄人二邑一本無邑字", "披奄人"),
    ("本無二邑", "本無二邑"),
    ("皆嶧柘榆本亦作俞訾子斯切", "皆嶧柘"),
  ],
)
def test_a_variant_reading_begins_with_the_words_it_repeats(note, kept):
  assert essays.cut_glosses(note, "嶧人侵我東鄙取柘榆二邑") == kept


@pytest.mark.parametrize(
  ("text", "years"),
  [
    ("隱公元年", [(1, 1)]),
    ("隱公十年至桓公二年", [(1, 10), (1, 11), (2, 1), (2, 2)]),
    ("莊三十一年至三十二年", [(3, 31), (3, 32)]),
    ("襄公四年下", [(9, 4)]),
    ("元年無冰而饑", []),
  ],
)
def test_years_of_a_heading(text, years):
  assert text_alignment.parse_year_span(text) == years


@pytest.mark.slow
@pytest.mark.skipif(
  not os.environ.get(source_files.ENVIRONMENT_VARIABLE),
  reason="CTD_JAX_SOURCES names no folder of source texts",
)
def test_the_real_works():
  folder = pathlib.Path(os.environ[source_files.ENVIRONMENT_VARIABLE])
  files = source_files.check_folder_files(
    folder, source_files.read_file_infos(gallery.CHECKSUMS)
  )
  entries, _ = gallery.read_entries(files)
  anchor = text_alignment.Anchor.from_segments(
    [
      (entry.text, TimeKey(entry.reign, entry.year, 1))
      for entry in entries
      if entry.source in (base_texts.ANNALS, base_texts.ZUOZHUAN)
    ]
  )
  comments, audit = commentary.parse_works(files, anchor)
  assert {source: counts["units"] for source, counts in audit.items()} == {
    "du_yu": 13063,
    "kong_yingda": 3886,
    "gu_donggao": 487,
    "wei_liaoweng": 1004,
    "lv_zuqian": 255,
  }
  for source, counts in audit.items():
    assert counts["accepted"] / counts["candidates"] > 0.9, source
    if counts["years_checked"]:
      assert counts["years_agreed"] / counts["years_checked"] > 0.92, source
  assert 11_000 < len(comments) < 13_000


def test_several_years_in_one_bracket():
  years = text_alignment.parse_years("十二年莊元年二年", 2)
  assert years == [(2, 12), (3, 1), (3, 2)]


def test_a_retold_title_finds_its_part(anchor):
  matcher = text_alignment.AnchorMatcher(anchor)
  year = [(1, 1)]
  assert matcher.best_match("嶧退師騫翟之言", year).segment_index == 5
  assert matcher.best_match("騫來聘", year).score < text_alignment.MIN_SCORE
  assert matcher.find_match("泠侯使弟騫來聘", year, [(1, 2)]).segment_index == 7
  assert matcher.find_match("嶧人侵我東鄙", year, [(1, 2)]).score == 1
  assert matcher.best_match("嶧人", [(3, 1)]) is None
