"""A BEIR folder with time keys as a data set: read whole, or refused."""

import dataclasses
import json
import pathlib
import re

import pytest

from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets import build, export, load
from ctd_jax_datasets.zztj import released
from tests import synthetic
from tests.data.common import beir_files


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
  return beir_files.write(tmp_path / "liang")


@pytest.mark.slow
def test_an_export_is_read_back_as_it_was(mini_benchmark, tmp_path):
  export.export_benchmark(mini_benchmark, "beir", tmp_path / "out")
  assert beir_files.read(tmp_path / "out") == mini_benchmark


@pytest.mark.slow
def test_so_are_questions_about_a_month_that_nobody_knows(tmp_path):
  sources = pathlib.Path(released.__file__).with_name("dummy_data")
  build.build_dataset("zztj/demo_jin", tmp_path, sources)
  demo = load.load_benchmark("zztj/demo_jin", tmp_path)
  export.export_benchmark(demo, "beir", tmp_path / "out")
  assert beir_files.read(tmp_path / "out") == demo


def test_so_are_leap_months_scores_and_odd_texts(tmp_path):
  leap = dataclasses.replace(
    synthetic.TIMELINE, leap_months=frozenset({(1, 1, 3), (2, 2, 12)})
  )
  benchmark = synthetic.benchmark()
  first = dataclasses.replace(
    benchmark.records[0],
    key=TimeKey(1, 1, 3, True),
    text='a "b"\n\tc\u2028\x85 ',
    match_score=0.1,
    version="v00001",
  )
  benchmark = dataclasses.replace(
    benchmark,
    timeline=leap,
    records=(first, *benchmark.records[1:]),
    queries={
      split: tuple(dataclasses.replace(q, paper_family="gap") for q in asked)
      for split, asked in benchmark.queries.items()
    },
  )
  export.export_benchmark(benchmark, "beir", tmp_path / "out")
  assert beir_files.read(tmp_path / "out") == benchmark


def test_leap_months_join_a_calendar_that_is_named(folder):
  (folder / "reigns.tsv").unlink()
  (folder / "metadata.json").write_text(
    '{"timeline": "lu", "leap_months": ["1-1-12L"]}'
  )
  timeline = beir_files.read(folder).timeline
  assert TimeKey(1, 1, 12, True) in timeline
  assert len(timeline) == len(reigns.load_timeline("lu")) + 1


def test_the_least_folder_is_read_with_defaults(folder):
  benchmark = beir_files.read(folder)
  assert re.fullmatch(r"beir/liang:[0-9a-f]{12}", benchmark.name)
  assert benchmark.timeline.name == "liang"
  assert [row.name for row in benchmark.timeline.reigns] == ["泰康", "永平"]
  assert benchmark.record_ids == sorted(beir_files.TEXTS)
  assert set(benchmark.kinds) == {"event"}
  assert set(benchmark.record_splits) == {"test"}
  assert benchmark.queries["train"] == benchmark.queries["validation"] == ()
  point, _, window = benchmark.queries["test"]
  assert (point.family, point.paper_family) == ("point", "point")
  assert (window.family, window.paper_family) == ("window", "window")
  assert point.positives == ("d2", "d3")  # not d1, which is judged 0
  assert [record.order for record in benchmark.records] == list(range(6))


def test_other_contents_have_another_name(folder):
  before = beir_files.read(folder).name
  with (folder / "corpus.jsonl").open("a") as file:
    row = {"_id": "d7", "text": "雨。", "metadata": {"start": "1-1-1"}}
    file.write(beir_files.lines([row]))
  assert beir_files.read(folder).name != before


def test_an_export_that_was_edited_is_not_taken_for_the_original(tmp_path):
  out = tmp_path / "out"
  export.export_benchmark(synthetic.benchmark(), "beir", out)
  path = out / "queries.jsonl"
  path.write_text(path.read_text().replace("記事", "大事", 1))
  with pytest.raises(ValueError, match="json: sha256 .* have changed since"):
    beir_files.read(out)
  metadata = json.loads((out / "metadata.json").read_text())
  del metadata["sha256"]
  (out / "metadata.json").write_text(json.dumps(metadata | {"version": "2"}))
  assert beir_files.read(out).name == "synthetic/test:2"


def test_scores_with_decimals_are_grades(folder):
  expected = beir_files.read(folder)
  path = folder / "qrels/test.tsv"
  text = path.read_text()
  path.write_text(text.replace("\t1\n", "\t1.0\n"))
  assert beir_files.read(folder).queries == expected.queries
  path.write_text(text.replace("\t1\n", "\t0\n").replace("\t2\n", "\t0\n"))
  with pytest.raises(ValueError, match="so no query has an answer"):
    beir_files.read(folder)


def test_a_known_calendar_can_be_named_instead(folder):
  (folder / "reigns.tsv").unlink()
  with pytest.raises(ValueError, match=r"no calendar; add reigns.tsv .*lu"):
    beir_files.read(folder)
  (folder / "metadata.json").write_text('{"timeline": "jin"}')
  assert beir_files.read(folder).timeline == reigns.load_timeline("jin")
  (folder / "metadata.json").write_text('{"timeline": "jinn"}')
  with pytest.raises(ValueError, match="no timeline 'jinn'; known: jin"):
    beir_files.read(folder)


def test_a_title_stands_before_the_text(folder):
  path = folder / "corpus.jsonl"
  path.write_text(
    path.read_text().replace('"_id": "d3"', '"_id": "d3", "title": "災異"')
  )
  assert beir_files.read(folder).records[2].text == "災異 地震，屋瓦皆墮。"


def test_marks_of_other_editors_are_read(folder):
  expected = beir_files.read(folder)
  for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
    text = (folder / name).read_text().replace("\n", "\r\n")
    (folder / name).write_text("\ufeff" + text + "\r\n", newline="")
  path = folder / "reigns.tsv"
  path.write_text(path.read_text(), encoding="utf-8-sig")
  found = beir_files.read(folder)
  assert (found.records, found.queries) == (expected.records, expected.queries)
  assert found.timeline.reigns == expected.timeline.reigns


def test_dates_before_their_reign_are_counted_aloud(folder, caplog):
  beir_files.read(folder)
  assert "earlier than their reign" not in caplog.text
  path = folder / "reigns.tsv"
  text = path.read_text().replace("\t300\t1\t", "\t300\t4\t")
  path.write_text(text.replace("\t303\t1\t", "\t303\t8\t"))
  beir_files.read(folder)
  # d1 is of the second month of 泰康, d5 and q2 of the seventh of 永平.
  assert "corpus.jsonl: 2 of 6 dates are earlier than their" in caplog.text
  assert "first: d1, 1-1-2, but 梁明帝泰康 began in month 4" in caplog.text
  assert "queries.jsonl: 1 of 2 dates are earlier" in caplog.text


def test_queries_that_nobody_judged_are_left_out_aloud(folder, caplog):
  with (folder / "queries.jsonl").open("a") as file:
    row = {"_id": "q9", "text": "何事？", "metadata": {"start": "1-1-1"}}
    file.write(beir_files.lines([row]))
  assert len(beir_files.read(folder).queries["test"]) == 3
  assert "1 of 4 queries are in no file of qrels" in caplog.text
  assert "q9" in caplog.text
  path = folder / "queries.jsonl"
  path.write_text(path.read_text().replace("1-1-1", '1-1-1", "split": "dev'))
  (asked,) = beir_files.read(folder).queries["validation"]
  assert (asked.query_id, asked.positives) == ("q9", ())


# By file: text to replace, its replacement, and the message expected.
BAD = {
  "corpus.jsonl": [
    ('"d2"', '"d1"', "corpus.jsonl:2: _id: 'd1' also occurs in line 1"),
    ('"_id": "d2"', '"id": "d2"', "corpus.jsonl:2: _id: missing"),
    ('"d2"', "2", "corpus.jsonl:2: _id: Expected `str`, got `int`"),
    (
      '"d2"',
      '"d 2"',
      "corpus.jsonl:2: _id: 'd 2': must not contain white space",
    ),
    ('"_id": "d2",', '"_id": "d2"', "corpus.jsonl:2: not JSON"),
    ("二月，河水溢，壞民舍。", "", "corpus.jsonl:1: text: is emp"),
    ("河水", "\\ud800", "corpus.jsonl:1: text: holds half"),
    ('"start": "1-1-2"', "", "corpus.jsonl:1: metadata.start: missing"),
    ('"1-1-2"', "112", "l:1: metadata.start: Expected `str | null`, got `int`"),
    ("1-1-2", "元年", "not a time key: '元年'; expected reign-year-month,"),
    ("1-1-2", "1-1-13", "month of a TimeKey is 1-12, got 13"),
    ("1-1-2", "1-4-2", "'1-4-2': reign 1 (梁明帝泰康) has years 1-3"),
    ("1-1-2", "3-1-2", "'3-1-2': timeline liang has reigns 1-2"),
    ("1-1-2", "1-1-2L", "no such leap month; name it in `leap"),
    ('"1-1-2"', '"1-1-2", "end": "1-1-3"', "filed under one month"),
    (
      '"1-1-2"',
      '"1-1-2", "kind": "x"',
      "kind: 'x' is not one of event, no_event",
    ),
    ('"1-1-2"', '"1-1-2", "split": "x"', "split: 'x' is not one of dev, train"),
    ('"1-1-2"', '"1-1-2", "order": true', "metadata.order: Expected `int"),
    ('{"start": "1-1-2"}', "[]", "metadata: Expected `object | null`, got"),
    (
      '"1-2-5"',
      '"1-2-5", "kind": "neg_comment"',
      "test.tsv:3: corpus-id: 'd2' is a neg_comment, which answers nothing",
    ),
  ],
  "queries.jsonl": [
    ('"q2"', '"q1"', "queries.jsonl:2: _id: 'q1' also occurs in line 1"),
    ("1-3-12", "1-2-12", "l:3: metadata.end: 1-2-12 is before start 1-3-1"),
    ("2-1-7", "2-9-7", "l:2: metadata.start: '2-9-7': reign 2 (梁明帝永平)"),
    ('"1-3-12"', '"1-3-12", "family": "x"', "'x' is not one of point, window"),
    (
      '"1-3-12"',
      '"1-3-12", "family": "point"',
      "queries.jsonl:3: metadata.family: a point asks for one month, not 1-3",
    ),
    ('"1-3-12"', '"1-3-12", "split": "train"', "query-id: 'q3' belongs to tr"),
  ],
  "qrels/test.tsv": [
    ("q1\td3", "q7\td3", "test.tsv:2: query-id: 'q7' is not in queries.jsonl"),
    ("q1\td3", "q1\td9", "test.tsv:2: corpus-id: 'd9' is not in corpus.jsonl"),
    ("q1\td3", "q1\td2", "test.tsv:3: 'q1' and 'd2' are judged twice"),
    ("q1\td3\t1", "q1\td3", "test.tsv:2: 2 columns"),
    ("q1\td3\t1", "q1\td3\tyes", "score: 'yes' is not a whole"),
    ("query-id\tcorpus-id\tscore\n", "", "test.tsv:1: should be the header"),
  ],
  "reigns.tsv": [
    ("\t300\t", "\tx\t", "reigns.tsv, line 2: column 'accession' is 'x'")
  ],
}


@pytest.mark.parametrize(
  ("name", "old", "new", "message"),
  [(name, *row) for name, rows in BAD.items() for row in rows],
)
def test_what_is_wrong_is_named(folder, name, old, new, message):
  text = (folder / name).read_text()
  assert old in text
  (folder / name).write_text(text.replace(old, new, 1))
  with pytest.raises(ValueError, match=re.escape(message)) as caught:
    beir_files.read(folder)
  assert str(folder) in str(caught.value)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("name", "value", "message"),
  [
    ("metadata.json", b"[1]", "metadata.json: Expected `object`, got `array`"),
    ("metadata.json", b"{", "metadata.json: not JSON"),
    ("metadata.json", b'{"name": 1}', "metadata.json: name: Expected `str"),
    ("metadata.json", b'{"leap_months": 3}', "leap_months: Expected `array`"),
    ("metadata.json", b'{"leap_months": ["1-1-3"]}', "should end in L"),
    ("metadata.json", b'{"leap_months": ["x"]}', "not a time key: 'x'"),
    (
      "metadata.json",
      b'{"leap_months": ["9-1-3L"]}',
      "leap_months[0]: 9-1-3L follows a month that timeline liang does not",
    ),
    ("reigns.tsv", b"\xff", "reigns.tsv: not UTF-8"),
    ("corpus.jsonl", b"\xff", "corpus.jsonl:1: not JSON in UTF-8"),
    ("qrels/test.tsv", b"\xff", "test.tsv:1: not UTF-8"),
    ("qrels/val.tsv", b"", "unknown qrels/val.tsv; expected qrels/train"),
  ],
)
def test_files_that_cannot_be_read_are_named(folder, name, value, message):
  (folder / name).write_bytes(value)
  with pytest.raises(ValueError, match=re.escape(message)):
    beir_files.read(folder)


def test_a_missing_file_is_named(folder):
  (folder / "qrels" / "test.tsv").unlink()
  with pytest.raises(ValueError, match="no qrels; expected qrels/train.tsv"):
    beir_files.read(folder)
  (folder / "queries.jsonl").unlink()
  with pytest.raises(FileNotFoundError, match="no queries.jsonl there"):
    beir_files.read(folder)
