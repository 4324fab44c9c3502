"""資治通鑑: two editions, the scan with and without headings, the data sets."""

import collections
import os
import pathlib
import re

import numpy as np
import pytest

from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets import build
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.load import load_benchmark
from ctd_jax_datasets.zztj import audit, editions, gallery, released
from tests.data.zztj import zztj_files
from tests.tools import processes

REAL = os.environ.get(source_files.ENVIRONMENT_VARIABLE)
TIMELINE = reigns.load_timeline(gallery.TIMELINE_NAME)
TAISHI = 11
DUMMY = pathlib.Path(released.__file__).with_name("dummy_data")


@pytest.fixture
def sources(tmp_path):
  return zztj_files.write_sources(tmp_path / "sources")


@pytest.fixture
def built(sources):
  return gallery.build_gallery(sources, TIMELINE)


def test_entries_of_the_punctuated_edition(sources):
  juan = editions.parse_punctuated_juan(
    sources[f"{editions.PUNCTUATED_FOLDER}/卷079.txt"]
  )
  texts = [entry.text for entry in juan.entries]
  assert len(texts) == 12
  assert texts[0].startswith("春，三月")
  # A speech goes on over two paragraphs, a line over its end.
  assert texts[-2].endswith("非禮也。「昔先君不如是。」王不聽。")
  assert texts[-1] == "冬，十月，浯侯卒，泠人哀之，遂葬之。"
  assert [e.text[:3] for e in juan.entries if e.is_remark] == ["臣光曰"]
  assert juan.entries[0].location == "卷079.txt:4"
  # 旃蒙作噩 is 乙酉.
  assert (juan.first_sexagenary, juan.num_years) == (21, 2)


def test_year_headings_of_the_print(sources):
  first = TIMELINE.key_at(0)
  name = f"{editions.PRINTED_FOLDER}/KR2b0007_0%d.txt"
  one = editions.parse_printed_juan(sources[name % 79], TIMELINE, first)
  years = [key for _, key in one.year_headings]
  assert years == [TimeKey(TAISHI, 1, 1), TimeKey(TAISHI, 2, 1)]
  # 「三年之喪」 at the start of a line is no heading.
  assert one.text[one.year_headings[1][0] :].startswith("二年春正月丁亥")
  two = editions.parse_printed_juan(sources[name % 80], TIMELINE, years[-1])
  # One heading is cut by the end of a printed line.
  assert [key for _, key in two.year_headings] == [
    TimeKey(TAISHI, 3, 1),
    TimeKey(TAISHI, 4, 1),
  ]
  assert [month for _, month in one.month_openings] == [3, 4, 5, 6, 1, 10]
  assert "音" not in one.text


def test_a_print_without_headings_is_refused(sources):
  path = sources[f"{editions.PRINTED_FOLDER}/KR2b0007_080.txt"]
  with pytest.raises(SourceError, match="no year heading from 齊高帝建元"):
    editions.parse_printed_juan(path, TIMELINE, TimeKey(51, 1, 1))


def test_records_by_hand(built):
  # Text -> year-month of the era 泰始, in order.
  found = sorted(built[0], key=lambda record: (record.source, record.order))
  assert {r.text[:6]: f"{r.key.year}-{r.key.month}" for r in found} == {
    "臣光曰：築臺": "1-8",
    "春，三月，泠": "1-3",
    "夏，四月，城": "1-4",
    # A state, not the season; and what 初 tells moves nothing.
    "夏伯遣使來，": "1-4",
    "初，浯侯有寵": "1-4",
    "五月，甲子，": "1-5",
    "六月，泠人築": "1-6",
    "秋，八月，臺": "1-8",
    "閏月，泠伯疾": "1-8",
    "是歲，泠有年": "1-8",
    "春，正月，丁": "2-1",
    "泠大夫桑衍諫": "2-1",
    "冬，十月，浯": "2-10",
    "夏，四月，浯": "3-4",
    "五月，榆泉震": "3-5",
    "春，正月，泠": "4-1",
    "夏，五月，浯": "4-5",
  }


def test_remarks_are_no_events_and_events_have_versions(built):
  records, counts = built
  assert counts == {
    "juan": 2,
    "year headings": 4,
    "year headings left out of the text": 1,
    "entries": 16,
    "entries cut at a month": 1,
    "entries that look back": 1,
    "months with an event": 11,
  }
  assert collections.Counter((r.kind, r.source) for r in records) == {
    ("event", gallery.ANNALS_SOURCE): 16,
    ("neg_comment", gallery.REMARKS_SOURCE): 1,
  }
  versions = {r.version for r in records if r.kind == "event"}
  assert versions == {f"v{number:05d}" for number in range(16)}


def test_the_editions_must_hold_the_same_juan(sources):
  del sources[f"{editions.PRINTED_FOLDER}/KR2b0007_080.txt"]
  with pytest.raises(SourceError, match=r"juan \[79, 80\].*juan \[79\]"):
    gallery.build_gallery(sources, TIMELINE)


def test_a_question_for_every_month_with_an_event(built):
  found, _ = built
  asked = gallery.make_point_queries(found, TIMELINE)
  assert len(asked) == 11
  records = {record.record_id: record for record in found}
  for query in asked:
    months = {records[answer].key for answer in query.positives}
    assert months == {query.interval.start} == {query.interval.end}
    assert "晉武帝泰始" in query.text
    assert (query.family, query.paper_family) == ("point", "point")
  assert asked == gallery.make_point_queries(found, TIMELINE)


SEASONS = "春，二月，甲。 夏，乙。 夏主奔。 夏，六月，丙。 正月，丁。"


@pytest.mark.parametrize(
  ("entries", "counts_years", "expected"),
  [
    # A season that begins again is the next year.
    (SEASONS, True, "5-2 5-4 5-4 6-6 7-1"),
    (SEASONS, False, "5-2 5-4 5-4 5-6 5-1"),
    # A month that goes back stays in its year.
    ("秋，九月，甲。 八月，乙。 閏月，丙。 冬，丁。", True, "5-9 5-8 5-8 5-10"),
  ],
)
def test_months_of_entries(entries, counts_years, expected):
  scanner = gallery.ChronicleScanner(counts_years=counts_years)
  scanner.enter_reign(1)
  scanner.enter_year(5)
  found = [gallery.date_entry(text, scanner)[-1][1] for text in entries.split()]
  assert [f"{key.year}-{key.month}" for key in found] == expected.split()


def test_agreement_of_the_invented_juan(sources):
  counted = audit.audit_scan(sources)
  assert counted["titles"] == {"juan": 2, "agree": 2}
  rows = {row["reading"]: row["agreement"] for row in counted["rows"]}
  assert {row["part"] for row in counted["rows"]} == {"晉紀"}
  # 泰始三年 begins with 夏 after 冬, 四年 with 春 after 夏: all is found.
  assert rows["title"]["year"] == rows["start"]["year"] == (15, 15)
  # Entries that the print opens with a month.
  assert rows["title"]["exact"] == (10, 10)
  # The scanner of the Annals stays in the first year of each juan.
  assert rows["annals"]["year"] == (8 + 2, 15)
  assert "晉紀 title" in audit.format_audit(counted)


@pytest.fixture
def checked_sources(tmp_path, monkeypatch, sources):
  table = tmp_path / "checksums.tsv"
  zztj_files.write_checksums(table)
  monkeypatch.setattr(gallery, "CHECKSUMS", table)
  return tmp_path / "sources"


@pytest.mark.slow
def test_rebuilt_is_built_and_read(checked_sources, tmp_path):
  builder = build.build_dataset(
    "zztj/rebuilt", tmp_path / "data", checked_sources
  )
  benchmark = load_benchmark("zztj/rebuilt", tmp_path / "data")
  assert builder.info.metadata["timeline"] == benchmark.timeline.name
  assert len(benchmark.records) == 17
  assert set(benchmark.record_splits) == {"test"}
  assert [len(asked) for asked in benchmark.queries.values()] == [0, 0, 11]
  assert "chunqiutr2026" in builder.info.citation


def test_a_damaged_source_is_named(checked_sources, tmp_path):
  path = checked_sources / editions.PUNCTUATED_FOLDER / "卷080.txt"
  path.write_text("", encoding="utf-8")
  with pytest.raises(SourceError, match="卷080.txt: expected"):
    build.build_dataset("zztj/rebuilt", tmp_path / "data", checked_sources)


@pytest.mark.slow
def test_demo_keeps_wide_dates_and_findings(tmp_path):
  builder = build.build_dataset("zztj/demo_jin", tmp_path, DUMMY)
  rows = list(builder.as_data_source("records"))
  wide = [r for r in rows if not np.array_equal(r["start"], r["end"])]
  # —, 無月 three times, 是歲, 冬.
  assert len(wide) == 6
  assert len(builder.as_data_source("test")) == 9
  written = pathlib.Path(builder.data_path, "findings.txt").read_text("utf-8")
  assert "`time` is in the year 0000" in written
  assert not any("【" in row["text"].decode() for row in rows)


@pytest.mark.slow
def test_released_text_is_another_variant(tmp_path):
  name = "zztj/demo_qi_strict_released_text"
  builder = build.build_dataset(name, tmp_path, DUMMY)
  texts = [row["text"].decode() for row in builder.as_data_source("records")]
  assert [text.startswith("【齐纪 公元479年") for text in texts] == [True] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--sources={folder}"], "error: .*KR2b0007_069.txt: missing"),
    (["--sources={folder}/none"], "error: .*none: no such folder"),
    ([], "error: name the folder of source texts with --sources"),
  ],
)
def test_audit_command_says_what_is_missing(tmp_path, arguments, message):
  given = [each.format(folder=tmp_path) for each in arguments]
  environment = os.environ | {source_files.ENVIRONMENT_VARIABLE: ""}
  done = processes.run_python(
    "-m", "ctd_jax_datasets.zztj.audit", *given, env=environment
  )
  assert done.returncode == 1
  assert re.match(message, done.stderr.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def real_files():
  if not REAL:
    pytest.skip(f"{source_files.ENVIRONMENT_VARIABLE} is not set")
  folder = pathlib.Path(REAL)
  return {
    f"{path.parent.name}/{path.name}": path
    for name in (editions.PUNCTUATED_FOLDER, editions.PRINTED_FOLDER)
    for path in (folder / name).glob("*.txt")
  }


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason="needs the source texts")
def test_real_editions_agree_with_the_headings(real_files):
  counted = audit.audit_scan(real_files)
  assert counted["titles"] == {"juan": 76, "agree": 76}
  for row in counted["rows"]:
    agreeing, total = row["agreement"]["year"]
    if row["reading"] == "title":
      assert agreeing / total > (0.96 if row["part"] == "晉紀" else 0.999)


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason="needs the source texts")
def test_real_counts_are_those_of_the_data_card(real_files):
  records, counts = gallery.build_gallery(real_files, TIMELINE)
  assert counts == {
    "juan": 76,
    "year headings": 282,
    "year headings left out of the text": 31,
    "entries": 7337,
    "entries cut at a month": 645,
    "entries that look back": 371,
    "months with an event": 2356,
  }
  kinds = collections.Counter(record.kind for record in records)
  assert kinds == {"event": 7960, "neg_comment": 53}


@pytest.mark.skipif(not REAL, reason="needs the source texts")
def test_real_headings_name_every_year(real_files):
  years = [
    key
    for juan in gallery.collate_editions(real_files, TIMELINE)
    for _, key in juan.printed_juan.year_headings
  ]
  assert years == [key for key in TIMELINE.months if key.month == 1]


def test_places_in_another_edition():
  places = editions.align_positions("甲乙丙丁戊", "甲丙丁己戊")
  assert places.tolist() == [0, 1, 1, 2, 4, 5]
  assert editions.align_positions("", "甲").tolist() == [1]


def test_an_entry_belongs_where_most_of_it_stands():
  assert editions.find_stretch([0, 10], 9, 20) == 1
  assert editions.find_stretch([0, 10], 2, 12) == 0
  assert editions.find_stretch([5], 0, 4) is None
