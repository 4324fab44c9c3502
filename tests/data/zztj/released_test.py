"""The authors' demonstration files: sizes, dates, and what is odd in them."""

import hashlib
import json
import os
import pathlib

import pytest

from ctd_jax.chronology import questions, reigns
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.zztj import released

DUMMY = pathlib.Path(released.__file__).with_name("dummy_data")
RELEASE = os.environ.get(source_files.RELEASE_FOLDER_VARIABLE)
# (subset, mode) -> what the authors' script, run on their files, makes of them:
# `digest_benchmark` of its documents, queries and the documents of each answer.
# It has no mode `strict`: that is `ad` of the rows whose time has that form.
RELEASED_DIGESTS = {
  ("qi", "traditional"): "54fcc968568a0476",
  ("qi", "ad"): "fa745465cf31b6cf",
  ("qi", "strict"): "590e99aea3cf39c4",
  ("jin", "traditional"): "653419327a49e446",
  ("jin", "ad"): "6e1910049cf3c5ed",
  ("jin", "strict"): "6e1910049cf3c5ed",
}
SIZE_DIFFERS = "the released file has other sizes than published"


def dummy(subset):
  return DUMMY / released.FILE_BY_SUBSET[subset]


def read(subset, mode=released.TRADITIONAL, **options):
  return released.read_demo(dummy(subset), subset, mode, **options)


@pytest.mark.parametrize(
  ("subset", "mode", "documents", "queries"),
  [
    # 9 rows, 2 headers; 四月, 五月, 六月 by its number, 閏月, 秋.
    ("qi", "traditional", 7, 5),
    # Without the two 閏月, whose time has no month.
    ("qi", "ad", 5, 4),
    # Without the two times of two parts as well.
    ("qi", "strict", 3, 2),
    # 16 rows, 2 headers; —, 無月, 正月, 十二月, 是歲, 二月, 閏月, 冬 and the
    # three without a year together.
    ("jin", "traditional", 14, 9),
    # 265-01 (—, 無月, 正月, 是歲), 265-12, 266-02 (and 閏月), 266-10, 0-01.
    ("jin", "ad", 14, 5),
    ("jin", "strict", 14, 5),
  ],
)
def test_sizes_by_hand(subset, mode, documents, queries):
  demo = read(subset, mode)
  assert (len(demo.records), len(demo.queries)) == (documents, queries)
  expected = {"documents": documents, "queries": queries}
  assert demo.notes.facts.items() >= expected.items()
  assert demo.notes.count("a row that describes the file; left out") == 2
  # One key a row: every document answers exactly one query.
  answers = [i for query in demo.queries for i in query.positives]
  assert sorted(answers) == [record.record_id for record in demo.records]


def test_every_oddity_of_the_jin_file_is_counted():
  report = read("jin").notes
  counts = {f["reason"]: f["count"] for f in report.to_json()["findings"]}
  assert counts == {
    source_files.FILE_DIFFERS: 1,
    "a row that describes the file; left out": 2,
    "reign, year or label is null; the key is from `time`": 3,
    "the reign is a whole date, which is read": 3,
    "`time` is in the year 0000": 3,
    "闰月 is the month it names, or of the row before": 1,
    "a season for a month counts as three months": 1,
    "无月, 是岁 or the like counts as the whole year": 4,
    "— for a month: a volume heading, no event": 1,
  }
  assert report.facts["rows"] == 16


def test_the_released_file_has_the_published_sizes(monkeypatch):
  blob = released.FILE_BLOBS[released.FILE_BY_SUBSET["qi"]].blob_id
  monkeypatch.setattr(source_files, "compute_blob_id", lambda content: blob)
  report = read("qi", "strict").notes
  examples = {f["reason"]: f["examples"] for f in report.to_json()["findings"]}
  assert examples[SIZE_DIFFERS] == [
    "zztj-qiji-part-demo.jsonl: qi, strict: 3 documents, 2 queries; published "
    "204, 82"
  ]
  sizes = {**released.PUBLISHED_SIZES, ("qi", "strict"): (3, 2)}
  monkeypatch.setattr(released, "PUBLISHED_SIZES", sizes)
  assert read("qi", "strict").notes.count(SIZE_DIFFERS) == 0


@pytest.mark.parametrize(
  ("mode", "reason", "count"),
  [
    ("traditional", "neither reign, year and label nor a numeric time", 0),
    ("ad", "neither reign, year and label nor a numeric time", 2),
    ("strict", "time is not YYYY-MM-x with a numeric month", 4),
  ],
)
def test_dropped_rows_of_the_qi_file_are_counted(mode, reason, count):
  assert read("qi", mode).notes.count(f"{reason}; left out") == count


def test_what_a_label_means_on_the_timeline():
  demo = read("jin")
  spans = {r.order + 1: str(demo.intervals[r.record_id]) for r in demo.records}
  expected = dict.fromkeys((2, 3, 9), "1-1-1..1-1-12")
  expected |= {6: "1-1-1..1-1-1", 7: "1-1-12..1-1-12"}
  # 閏月 after 二月, and 冬.
  expected |= {12: "1-2-2..1-2-2", 13: "1-2-10..1-2-12"}
  # The reign, 咸寧, is a phrase and tells the month.
  expected |= {14: "2-4-10..2-4-10", 15: "2-4-12..2-4-12"}
  assert spans.items() >= expected.items()
  mixed = [query for query in demo.queries if len(query.positives) == 3]
  assert "2-4-10..2-4-12" in {str(query.interval) for query in mixed}


def test_a_query_about_several_months_is_a_window():
  asked = read("jin").queries
  ids = [query.query_id for query in asked]
  assert ids == sorted(ids)
  for query in asked:
    single = query.interval.start == query.interval.end
    family = "point" if single else "window"
    assert query.family == query.paper_family == family
    assert query.query_id.startswith(family)
  assert {query.family for query in asked} == {"point", "window"}


def test_questions_quote_the_date_in_the_words_of_the_first_row():
  texts = {query.text for name in ("jin", "qi") for query in read(name).queries}
  for date in ("晋世祖武皇帝泰始元年无月", "晋世祖武皇帝咸宁四年, 十月"):
    assert f"请问{date}发生了什么事？" in texts
  for date in ("建元元年六月", "建元元年秋"):
    assert f"请问{date}发生了什么事？" in texts


@pytest.mark.parametrize("mode", ["ad", "strict"])
def test_by_the_common_era_questions_and_texts_quote_its_year(mode):
  texts = {query.text for query in read("jin", mode).queries}
  dates = ["0年正月", "265年正月", "265年十二月", "266年二月", "266年十月"]
  assert texts == {f"请问公元{date}发生了什么事？" for date in dates}
  dated = {
    r.order: r.text for r in read("qi", mode, released_text=True).records
  }
  assert dated[1] == "【齐纪 公元479年四月（甲午）】\n泠伯会盟于桃丘。"


@pytest.mark.parametrize("subset", released.SUBSETS)
@pytest.mark.parametrize("mode", released.MODES)
def test_the_date_of_every_question_is_read(subset, mode):
  timeline = reigns.load_timeline(released.TIMELINE_BY_SUBSET[subset])
  for query in read(subset, mode).queries:
    asked = questions.parse_query_interval(query.text, timeline)
    if "公元0年" in query.text:
      assert asked is None
    elif "闰月" in query.text:
      # The file's calendar knows which month it followed, ours does not.
      assert query.interval.start in asked
    elif "咸宁四年, 十月" in query.text:
      # Its key holds rows of other months too.
      assert asked.start == query.interval.start
    else:
      assert asked == query.interval


def test_a_row_without_a_reign_is_dated_by_its_time(tmp_path):
  rows = [row(), row(id="qi_0002", time_meta={"reign": None})]
  demo = released.read_demo(write(tmp_path, *rows), "qi", released_text=True)
  dates = ["建元元年四月", "公元479年四月"]
  records = sorted(demo.records, key=lambda record: record.order)
  assert [r.text for r in records] == [f"【齐纪 {d}】\n甲乙" for d in dates]
  assert {query.text for query in demo.queries} == {
    f"请问{date}发生了什么事？" for date in dates
  }


def digest_benchmark(demo):
  text_by_id = {record.record_id: record.text for record in demo.records}
  lines = [r.text for r in sorted(demo.records, key=lambda r: r.order)]
  lines += [
    "\t".join(fields)
    for fields in sorted(
      (query.text, *sorted(text_by_id[answer] for answer in query.positives))
      for query in demo.queries
    )
  ]
  return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.skipif(not RELEASE, reason="needs the authors' files")
@pytest.mark.parametrize(("subset", "mode"), RELEASED_DIGESTS)
def test_the_released_files_give_the_authors_benchmark(subset, mode):
  name = released.FILE_BY_SUBSET[subset]
  blobs = {name: released.FILE_BLOBS[name]}
  path = source_files.locate_blobs(None, blobs, RELEASE)[name]
  demo = released.read_demo(path, subset, mode, released_text=True)
  assert digest_benchmark(demo) == RELEASED_DIGESTS[subset, mode]
  assert not demo.notes.count(source_files.FILE_DIFFERS)
  assert not demo.notes.count(SIZE_DIFFERS)


def test_documents_have_no_date_unless_asked_for():
  plain = {record.order: record.text for record in read("qi").records}
  assert plain[1] == "泠伯会盟于桃丘。"
  # The title is no part of the description: it stands in front.
  assert plain[2] == "浯侯来聘\n馈以白马。"
  dated = read("qi", released_text=True)
  dated = {record.order: record.text for record in dated.records}
  assert dated[1] == "【齐纪 建元元年四月（甲午）】\n泠伯会盟于桃丘。"
  assert dated[4] == f"【齐纪 建元元年六月】\n{plain[4]}"
  assert dated.keys() == plain.keys()


def test_ids_tell_nothing_and_lines_stay_known():
  demo = read("jin")
  ids = [record.record_id for record in demo.records]
  assert ids == [f"r{number:05d}" for number in range(14)]
  lines = [record.order for record in demo.records]
  assert lines != sorted(lines)
  assert 0 not in lines  # the header
  assert read("jin").records == demo.records


def write(tmp_path, *rows):
  path = tmp_path / "rows.jsonl"
  lines = [r if isinstance(r, str) else json.dumps(r) for r in rows]
  path.write_text("\n".join(lines), encoding="utf-8")
  return path


def row(**changes):
  meta = {"reign": "建元", "era_year": 1, "ad_year": 479}
  meta |= {"lunar_month_label": "四月", "lunar_month": 4}
  meta |= changes.pop("time_meta", {})
  whole = {"id": "qi_0001", "time": "0479-04-甲午", "time_meta": meta}
  whole |= {"title": "甲", "description": "甲乙", "location": []}
  return whole | {"source": "某"} | changes


@pytest.mark.parametrize(
  ("bad", "message"),
  [
    ("{", ":2: column 2: not JSON"),
    ("[]", r":2: \[\] should be an object"),
    (row(time=265), ":2: time: 265 should be a string"),
    (row() | {"time_meta": []}, ":2: time_meta"),
    (row(time_meta={"reign": 1}), ":2: time_meta.reign: 1 should be"),
    (row(time="0100-01-甲子"), ":2: the year 100 lies outside 479-501"),
    (
      row(time="0000-01-—", time_meta={"reign": "某四年", "ad_year": None}),
      ":2: no year in `time`",
    ),
  ],
)
def test_what_cannot_be_read_is_named(tmp_path, bad, message):
  with pytest.raises(SourceError, match=message) as caught:
    released.read_demo(write(tmp_path, row(), bad), "qi")
  assert "rows.jsonl" in str(caught.value)


def test_a_file_of_headers_or_nothing_is_refused(tmp_path):
  for rows in ([], [row(id="qi_meta_0000")]):
    with pytest.raises(SourceError, match="no row with a date"):
      released.read_demo(write(tmp_path, *rows), "qi")


def test_contradictions_are_noted(tmp_path):
  path = write(
    tmp_path,
    row(time="0480-04-甲午"),
    row(id="qi_0002", time="0479-05-甲午"),
    row(id="qi_0003", time_meta={"era_year": "x"}),
  )
  notes = released.read_demo(path, "qi").notes
  for reason in (
    "reign and year are another year than `time`",
    "the label is another month than `time`",
    "a number is none; read as not given",
  ):
    assert notes.count(reason) == 1, reason


@pytest.mark.parametrize(
  ("changes", "expected"),
  [
    ({"reign": "咸宁四年, 是岁"}, "2-4-1..2-4-12"),
    ({"reign": "咸宁四年, 闰月"}, "2-4-1..2-4-12"),
    ({"reign": "某", "ad_year": 278}, "2-4-4..2-4-4"),
  ],
)
def test_a_row_of_the_year_zero_is_placed_by_what_there_is(
  tmp_path, changes, expected
):
  meta = {"era_year": None} | changes
  demo = released.read_demo(
    write(tmp_path, row(time="0000-01-—", time_meta=meta)), "jin"
  )
  assert [*map(str, demo.intervals.values())] == [expected]


def test_a_numbered_leap_month_follows_its_number(tmp_path):
  meta = {"lunar_month_label": "闰九月", "lunar_month": None}
  demo = released.read_demo(write(tmp_path, row(time_meta=meta)), "qi")
  assert [*map(str, demo.intervals.values())] == ["1-1-9..1-1-9"]
