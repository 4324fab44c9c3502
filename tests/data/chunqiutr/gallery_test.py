"""Editions are read as they are printed; commentary is dated by its text."""

import collections
import itertools
import json
import os
import pathlib
import unicodedata

import pytest

from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets.chunqiutr import base_texts, gallery
from ctd_jax_datasets.common import source_files
from tests.data.chunqiutr import edition_files

RELEASE = reigns.load_timeline("lu_release")
SOURCES = os.environ.get(source_files.ENVIRONMENT_VARIABLE)
needs_sources = pytest.mark.skipif(
  not SOURCES, reason="CTD_JAX_SOURCES names no folder of source texts"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  return edition_files.write_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def built(files):
  return gallery.build_gallery(files, RELEASE)


def of(built, source):
  found = [record for record in built.records if record.source == source]
  return [
    (str(record.key), record.text)
    for record in sorted(found, key=lambda record: record.order)
  ]


def test_annals_are_numbered_items_cut_by_month(built):
  assert of(built, "chunqiu") == [
    ("1-1-1", "元年春王正月。"),
    ("1-1-3", "三月，公會泠侯于桃丘以謀嶧故。"),
    ("1-1-4", "夏，嶧人侵我東鄙取柘榆二邑。"),
    ("1-1-8", "秋八月，浯伯來朝且請盟。"),
    ("1-2-1", "二年春，泠侯使其弟騫來聘。"),
    ("1-2-5", "夏五，葬泠桓侯于檀原。"),
    ("1-2-5", "閏月，大雨雹于沅谷之南。"),
    ("1-2-10", "冬，嶧人築城于蘆口以備我。"),
    ("1-2-12", "閏月，公如泠弔其夫人。"),
  ]


def test_the_tradition_is_a_scan_of_its_own(built):
  keys = ["1-1-1", "1-1-4", "1-1-6", "1-1-7", "1-2-1"]
  assert [key for key, _ in of(built, "zuozhuan")] == keys


def test_a_line_may_hold_two_entries_and_words_about_seasons(built):
  assert of(built, "gongyang")[1:] == [
    ("1-1-3", "三月，公會泠侯於桃丘。"),
    ("1-1-10", "冬，十月，浯伯來盟。盟者何？信也。冬祭也。"),
    ("1-2-1", "二年春，泠侯使其弟騫來聘。騫者何？弟也。夏者何？時也。"),
  ]


def test_marks_of_the_edition_are_not_text(built):
  assert of(built, "guliang")[1] == (
    "1-1-3",
    "三月，公會泠侯于桃丘。會者、信也。",
  )
  for record in built.records:
    assert not set(record.text) & set("()<>#¶/　AB123"), record


def test_a_character_without_a_code_is_one_mark(tmp_path):
  path = tmp_path / "01_隱公.txt"
  path.write_text("元年，嶧人\ue246來。\n公如泠--非禮也。\n", encoding="utf-8")
  assert [entry.text for entry in base_texts.parse_line_entries(path, "x")] == [
    "元年，嶧人□來。",
    "公如泠——非禮也。",
  ]
  path = tmp_path / "KR1e0001_001.txt"
  path.write_text(
    "A1.1.1元年，&KR0001;子卒。¶ 〓#\n－－非卿也。¶\n- 公如泠。〔會、\n",
    encoding="utf-8",
  )
  (entry,), _ = base_texts.parse_numbered_entries(path, {"A": "x"})
  assert entry.text == "元年，□子卒。——非卿也。公如泠。會、"
  path.write_text(
    "A1.1.1稱人以殺（¶\n大夫），伯（\U000f01da）棼曰（䷰）䷪。\n",
    encoding="utf-8",
  )
  (entry,), _ = base_texts.parse_numbered_entries(path, {"A": "x"})
  assert entry.text == "稱人以殺大夫，伯棼曰䷪。"
  path.write_text(
    "(弦在弋陽[車*犬]/縣)[孑*(焉-正+?)]\U000f01da[泠]\n", encoding="utf-8"
  )
  assert base_texts.read_running_text(path) == "(弦在弋陽□縣)□□[泠]"
  assert base_texts.read_printed_lines(path)[0][1] == "(弦在弋陽□/縣)□□[泠]"


def test_an_undated_prelude_is_counted_not_filed(built):
  assert built.excluded_counts == {"undated": 1}
  assert not any("衍煦。" in record.text for record in built.records)


def test_official_split_refuses_another_calendar():
  with pytest.raises(ValueError, match="lu_release"):
    base_texts.official_splits(reigns.load_timeline("lu"))


def test_placeholders_fill_the_empty_months_in_every_wording(built):
  empty = [record for record in built.records if record.kind == "no_event"]
  assert len(empty) == 3036 - 11
  assert {record.key for record in empty} == set(RELEASE.months) - {
    record.key for record in built.records if record.kind == "event"
  }
  endings = collections.Counter(record.text[-4:] for record in empty)
  assert len(endings) == len(gallery.TEMPLATES) >= 3
  assert min(endings.values()) > 900
  key = TimeKey(1, 1, 2)
  assert gallery.format_placeholder(key, RELEASE).startswith("魯隱公元年二月")


def test_ids_are_shuffled_and_reproducible(files, built):
  again = gallery.build_gallery(files, RELEASE)
  assert again == built
  ids = [record.record_id for record in built.records]
  assert ids == sorted(ids)
  assert len(set(ids)) == len(ids)
  ordinals = [RELEASE.ordinal(record.key) for record in built.records]
  rises = sum(a < b for a, b in itertools.pairwise(ordinals))
  assert 0.45 < rises / len(ordinals) < 0.55


def check_versions(built):
  """Asserts what holds for the versions of any built."""
  months = collections.defaultdict(set)
  for record in built.records:
    if record.kind == "event":
      assert record.version
      assert record.match_score == 1
    if record.kind == "no_event":
      assert not record.version
    assert 0 < record.match_score <= 1
    if record.version:
      months[record.version].add(record.key)
  assert all(len(keys) == 1 for keys in months.values())
  assert sorted(months) == [f"v{number:05d}" for number in range(len(months))]
  return months


def test_records_of_one_event_share_a_version(built):
  months = check_versions(built)
  ordinals = [RELEASE.ordinal(*months[version]) for version in sorted(months)]
  assert ordinals != sorted(ordinals)
  versions = {
    record.source: record.version
    for record in built.records
    if record.key == TimeKey(1, 1, 3)
  }
  assert set(versions) >= {"chunqiu", "gongyang", "guliang", "du_yu"}
  assert len(set(versions.values())) == 1


def test_another_seed_gives_other_numbers_to_the_same_groups(files, built):
  other = gallery.build_gallery(files, RELEASE, seed=7)

  def groups(built):
    found = collections.defaultdict(set)
    for record in built.records:
      if record.version:
        found[record.version].add((record.source, record.order))
    return found

  assert groups(other) != groups(built)
  assert sorted(map(sorted, groups(other).values())) == sorted(
    map(sorted, groups(built).values())
  )


def test_the_audit_is_fit_for_json(built):
  assert json.loads(json.dumps(built.audit)) == built.audit
  assert [row["tradition_place"] for row in built.audit["disagreements"]] == [
    "01_隱公.txt:3"
  ]


def test_missing_folder_of_an_edition_is_named(files):
  some = {name: path for name, path in files.items() if "KR1e0002" not in name}
  with pytest.raises(source_files.SourceError, match="duyu_jijie_KR1e0002/"):
    gallery.build_gallery(some, RELEASE)


@pytest.mark.parametrize(
  ("parse", "layers", "name"),
  [
    (base_texts.parse_numbered_entries, {"A": "chunqiu"}, "x.txt"),
    (base_texts.parse_line_entries, "gongyang", "x.txt"),
    (base_texts.parse_line_entries, "gongyang", "01_x.txt"),
  ],
)
def test_another_format_is_an_error_that_names_the_file(
  tmp_path, parse, layers, name
):
  path = tmp_path / name
  path.write_text("回目錄\n", encoding="utf-8")
  with pytest.raises(source_files.SourceError, match=name):
    parse(path, layers)


def test_bytes_that_are_not_text_are_an_error(tmp_path):
  path = tmp_path / "01_x.txt"
  path.write_bytes(b"\xff\xfe")
  with pytest.raises(source_files.SourceError, match="01_x.txt: byte 0"):
    base_texts.read_text(path)


def test_checksums_name_every_file_by_commit():
  known = source_files.read_file_infos(gallery.CHECKSUMS)
  folders = collections.Counter(name.split("/")[0] for name in known)
  assert folders == {
    "zuozhuan_KR1e0001": 12,
    "gongyangzhuan_wikisource": 12,
    "guliangzhuan_KR1e0008": 12,
    "duyu_jijie_KR1e0002": 30,
    "zuozhuan_zhushu_KR1e0004": 60,
    "gudonggao_dashibiao_KR1e0114": 1,
    "weiliaoweng_yaoyi_KR1e0044": 32,
    "lvzuqian_zuoshizhuanshuo_KR1e0039": 20,
  }
  for url, info in known.values():
    assert len(url.split("/")[5]) == 40, url
    assert len(info.checksum) == 64


@pytest.fixture(scope="module")
def real_files():
  return source_files.check_folder_files(
    pathlib.Path(SOURCES), source_files.read_file_infos(gallery.CHECKSUMS)
  )


@pytest.fixture(scope="module")
def real(real_files):
  return gallery.build_gallery(real_files, RELEASE)


@needs_sources
def test_headline_counts(real):
  counts = collections.Counter(
    record.source for record in real.records if record.kind != "neg_comment"
  )
  assert counts == {
    "chunqiu": 1903,
    "zuozhuan": 2078,
    "gongyang": 1870,
    "guliang": 1871,
    "placeholder": 1502,
  }
  months = {r.key for r in real.records if r.kind == "event"}
  assert len(months) == 1534
  outside = [
    real.excluded_counts[f"{source} outside the released months"]
    for source in ("chunqiu", "zuozhuan", "gongyang", "guliang")
  ]
  assert outside == [14, 21, 13, 14]
  years = [name for name in real.audit["decisions"] if name.startswith("year ")]
  assert sorted(name.split()[1] for name in years) == ["12-27", "5-33"]


@needs_sources
@pytest.mark.parametrize(
  ("month", "words"),
  [
    ("3-16-9", "九月，殺公子閼"),
    ("6-6-9", "九月，賈季使續鞫居"),
    ("6-10-5", "五月，殺鬭宜申"),
    ("8-12-5", "夏五月，晉士燮會楚"),
    ("8-13-5", "五月丁亥，晉師"),
    ("9-26-3", "三月甲寅朔，享子展"),
    ("10-4-8", "八月甲申，克之"),
    ("10-8-3", "三月甲申，公子招"),
    ("10-9-6", "六月，卒于戲陽"),
    ("12-12-9", "九月，宋向巢伐鄭"),
    # The siege took three months; the year before is looked back to.
    ("7-12-1", "進復圍之，三月，克之"),
    ("9-6-11", "四月，晏弱城東陽"),
    ("9-6-4", "四月，陳無宇獻"),
  ],
)
def test_months_printed_inside_an_entry(real, month, words):
  (record,) = (
    record
    for record in real.records
    if record.source == base_texts.ZUOZHUAN and words in record.text
  )
  assert str(record.key) == month


@needs_sources
def test_texts_hold_nothing_but_characters_and_punctuation(real):
  # □ stands for a character without a code, hexagrams belong to the text.
  marks = set("，。、；：？！「」『』《》—□")
  strange = {
    character
    for record in real.records
    for character in record.text
    if not unicodedata.name(character, "").startswith(
      ("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HEXAGRAM")
    )
  }
  assert strange == marks


@needs_sources
def test_commentary_that_prints_another_month_is_counted(real):
  table = real.audit["printed_months"]
  for source, counts in table.items():
    assert counts["printed"] == sum(
      counts[name] for name in ("same_month", "year_named", "other_month")
    ), source
  # Every one of these was read: 經 and 傳 print two dates of one event.
  found = collections.Counter(
    {source: counts["entry_of_year"] for source, counts in table.items()}
  )
  assert found == collections.Counter(du_yu=2, kong_yingda=5)


@needs_sources
def test_traditions_agree_on_the_month(real):
  table = real.audit["agreement"]
  for tradition, pairs, months in (
    ("gongyang", 1800, 0.99),
    ("guliang", 1800, 0.99),
    ("zuozhuan", 500, 0.8),
  ):
    row = table[f"chunqiu {tradition}"]
    assert row["compared"] > pairs
    assert row["same_year"] > 0.98 * row["compared"]
    assert months < row["same_month"] / row["compared"] < 1
  rows = real.audit["disagreements"]
  assert len(rows) == sum(
    row["all_compared"] - row["all_same_month"] for row in table.values()
  )


@needs_sources
def test_records_are_cut_from_entries_without_loss(real, real_files):
  entries, _ = gallery.read_entries(real_files)
  for source in base_texts.BASE_SOURCES:
    printed = "".join(entry.text for entry in entries if entry.source == source)
    texts = [text for _, text in of(real, source)]
    # What is left out stands at the end of 僖公 and of 哀公.
    place = 0
    for text in texts:
      place = printed.index(text, place) + len(text)
    outside = real.excluded_counts[f"{source} outside the released months"]
    assert real.audit["units"][source]["parts"] == len(texts) + outside


@needs_sources
def test_versions_of_the_real_gallery(real):
  check_versions(real)
  counts = real.audit["versions"]
  assert 500 < counts["months_with_several"] < 1000
  assert counts["by_works"]["4"] > 700
