"""Benchmarks written in the schema of the release, and read back."""

import dataclasses
import json

import pytest

from ctd_jax.benchmark import generation
from ctd_jax.benchmark.benchmark import Query, Record
from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import Interval, TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import (
  gallery,
  mini,
  release,
  release_months,
  release_writer,
)
from ctd_jax_datasets.common import base_builder
from tests.data.chunqiutr import release_files

TIMELINE = release_files.TIMELINE
SPLIT_OF = {
  key: release_files.NAMES[release_files.released_split(key.year)]
  for key in TIMELINE.months
}
FIRST, LAST = TimeKey(1, 1, 1), TimeKey(1, 5, 3)
RECORDS = [
  Record("r00000", "城桃丘。", "chunqiu", "event", FIRST, 3, "v00007"),
  Record("r00004", "城桃丘，書時也。", "zuozhuan", "event", FIRST, 0, "v00007"),
  Record("r00002", "泠侯來聘。", "guliang", "event", FIRST, 0, "v00003"),
  Record(
    "r00003", "桃丘滄地", "du_yu", "neg_comment", FIRST, 12, "v00007", 0.5
  ),
  Record("r00001", "桃丘者何", "kong_yingda", "neg_comment", FIRST, 0, "", 0.9),
  Record("r00005", "聘者何", "某氏注", "neg_comment", FIRST, 0, "v00003", 0.25),
  Record("r00006", "滄懷公元年正月無事。", "placeholder", "no_event", FIRST, 0),
  Record("r00007", "大水。", "滄志", "event", TimeKey(1, 5, 2), 0, "v00001"),
  Record("r00008", "滄懷公五年三月無事。", "placeholder", "no_event", LAST, 1),
  Record("r00009", "是月", "lv_zuqian", "neg_comment", LAST, 0),
]
POINT = Query(
  *("point-00000", "滄懷公元年正月，有何記事？", "point", "BASE_CONTENT"),
  Interval.single_month(FIRST),
  ("r00000", "r00002", "r00004", "r00006"),
  "point",
)
GAP = Query(
  *("point-00001", "滄懷公五年三月，有何記事？", "point", ""),
  *(Interval.single_month(LAST), ("r00008",), "gap"),
)
WINDOW = Query(
  *("window-00000", "滄懷公五年正月起三個月，有何記事？", "window"),
  *("MONTH_RANGE", Interval(TimeKey(1, 5, 1), LAST)),
  *(("r00007", "r00008"), "window"),
)
ASKED = {"train": [POINT], "validation": [], "test": [GAP, WINDOW]}


def write(folder, records=RECORDS, asked=ASKED, timeline=TIMELINE):
  return release_writer.write_release(
    folder, records, asked, SPLIT_OF, timeline
  )


def content(paths, name):
  return json.loads(paths[name].read_text("utf-8"))


def same_records(ours, read):
  """Whether records are equal but for id letters and version numbers."""

  def groups(records):
    members = {}
    for record in records:
      members.setdefault(record.version, set()).add(_number(record.record_id))
    return {
      _number(record.record_id): (
        dataclasses.replace(record, record_id="", version=""),
        members[record.version] if record.version else None,
      )
      for record in records
    }

  return groups(ours) == groups(read)


def same_queries(ours, read):
  """Whether queries are equal but for the letters of record ids."""

  def plain(found):
    return [
      dataclasses.replace(
        query, positives=tuple(str(_number(name)) for name in query.positives)
      )
      for query in found
    ]

  return {split: plain(ours[split]) for split in ours} == {
    split: plain(read[split]) for split in read
  }


def _number(record_id):
  return int(record_id[1:])


def test_reading_back_gives_the_same_benchmark(tmp_path):
  read = release.read_release(write(tmp_path), TIMELINE)
  assert same_records(RECORDS, read.records)
  assert same_queries(ASKED, read.queries)
  assert read.split_of == SPLIT_OF
  # One month has events and a placeholder, as the release seems to have too.
  assert set(release_files.counts(read)) == {
    "the file is not the released one (git blob id)",
    "a month has several nodes",
  }


def test_a_release_written_again_is_the_same_release(tmp_path):
  clean = release_files.write(tmp_path, release_files.clean())
  read = release.read_release(clean, TIMELINE)
  again = release.read_release(
    release_writer.write_release(
      tmp_path / "again", read.records, read.queries, read.split_of, TIMELINE
    ),
    TIMELINE,
  )
  assert dataclasses.replace(again, notes=read.notes) == read
  assert again.notes.facts == read.notes.facts


def test_an_order_that_nobody_knows_is_not_written(tmp_path):
  records = [dataclasses.replace(record, order=-1) for record in RECORDS]
  paths = write(tmp_path, records)
  assert "ctd_jax_order" not in paths[release_months.MONTHS_FILE].read_text(
    "utf-8"
  )
  assert same_records(records, release.read_release(paths, TIMELINE).records)


@pytest.mark.slow
def test_an_invented_chronicle_survives(tmp_path):
  timeline = reigns.load_timeline("mini")
  records = mini.generate_records(0)
  records += gallery.make_placeholders(records, timeline, 0, mini.TITLE)
  records = base_builder.number_records(records, 0)
  # The chronicle has no versions; a reader gives every event one of its own.
  asked = generation.generate_queries(
    timeline, mini.make_splits(), records, title=mini.TITLE
  )
  paths = release_writer.write_release(
    tmp_path, records, asked, mini.make_splits(), timeline
  )
  read = release.read_release(paths, timeline)
  assert same_records(
    records,
    [dataclasses.replace(record, version="") for record in read.records],
  )
  assert same_queries(asked, read.queries)
  assert read.split_of == mini.make_splits()
  assert set(release_files.counts(read)) == {
    "the file is not the released one (git blob id)"
  }


def test_the_schema_is_the_authors(tmp_path):
  paths = write(tmp_path)
  nodes = content(paths, release_months.MONTHS_FILE)["time_mapping"]
  first = nodes["滄懷公元年正月"]
  assert first["sort_key"] == [1, 1, 1]
  assert first["no_event"] is False
  assert [list(version) for version in first["versions"]] == [
    ["春秋穀梁傳", "neg_sample"],
    ["春秋", "春秋左氏傳", "neg_sample"],
  ]
  assert first["versions"][1]["春秋"] == [
    {"sid": 0, "text": "城桃丘。", "ctd_jax_order": 3}
  ]
  assert first["versions"][1]["neg_sample"] == [
    {
      "compiler": "杜預",
      "match_score": 0.5,
      "match_strong": False,
      "parsed_comment": [{"sid": 3, "text": "桃丘滄地", "ctd_jax_order": 12}],
    }
  ]
  (block,) = first["neg_samples"]
  assert (block["compiler"], block["match_strong"]) == ("孔穎達", True)
  assert len(nodes) == len(TIMELINE) + 1
  empty = nodes["滄懷公五年三月"]
  assert empty["no_event"] is True
  assert empty["versions"] == [
    {"春秋": [{"sid": 8, "text": "滄懷公五年三月無事。", "ctd_jax_order": 1}]}
  ]
  assert len(empty["neg_samples"]) == 1


def test_queries_are_written_as_the_authors_write_them(tmp_path):
  text = write(tmp_path)[release_months.QUERIES_FILE].read_text("utf-8")
  point, gap, window = map(json.loads, text.splitlines())
  assert point == {
    "qid": "point-00000",
    "query": "滄懷公元年正月，有何記事？",
    "type": "point",
    "sort_key": [1, 1, 1],
    "pos_sids": [0, 2, 4, 6],
    "ctd_jax_group": "BASE_CONTENT",
  }
  assert gap["type"] == "point"
  assert window["type"] == "window"
  assert window["target_sort_keys"] == [[1, 5, 1], [1, 5, 2], [1, 5, 3]]
  assert window["pos_sids"] == [7, 8]


def test_a_score_in_single_precision_is_still_strong(tmp_path):
  record = dataclasses.replace(RECORDS[4], match_score=0.8999999761581421)
  paths = write(tmp_path, [*RECORDS[:4], record, *RECORDS[5:]])
  nodes = content(paths, release_months.MONTHS_FILE)["time_mapping"]
  assert nodes["滄懷公元年正月"]["neg_samples"][0]["match_strong"] is True


def test_sids_are_the_numbers_of_ids_or_counted():
  def sids(*ids):
    records = [dataclasses.replace(RECORDS[0], record_id=name) for name in ids]
    return list(release_writer.number_sids(records).values())

  assert sids("r00012", "r00100") == [12, 100]
  assert sids("s000007") == [7]
  assert sids("doc-a", "doc-b", "x1") == [0, 1, 2]
  assert sids("a1", "b1") == [0, 1]  # a number of its own, or none


def test_months_without_split_are_in_no_map(tmp_path):
  split_of = {FIRST: "train"}
  split_of |= {TimeKey(1, 5, month): "test" for month in (2, 3)}
  paths = release_writer.write_release(
    tmp_path, RECORDS, ASKED, split_of, TIMELINE
  )
  assert list(
    content(paths, release_months.SPLITS_FILE)["split_by_sort_key"]
  ) == ["1-1-1", "1-5-2", "1-5-3"]
  read = release.read_release(paths, TIMELINE)
  assert same_queries(ASKED, read.queries)


LEAP = Timeline("leap", TIMELINE.reigns, frozenset({(1, 2, 12)}))
LATER = dataclasses.replace(
  RECORDS[0], record_id="r00099", key=TimeKey(7, 1, 1)
)


def asking(query, split="train", **changes):
  return {"asked": {split: [dataclasses.replace(query, **changes)]}}


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"timeline": LEAP}, "timeline 'leap' has leap months"),
    ({"records": [*RECORDS, LATER]}, "r00099 is of 7-1-1, a month that"),
    (asking(POINT, "test"), r"1-1-1\.\.1-1-1, which is of train"),
    (
      asking(WINDOW, "test", interval=Interval(TimeKey(1, 4, 12), LAST)),
      "of no one split",
    ),
    (asking(POINT, positives=("r9",)), r"answers \['r9'\] are no records"),
    (asking(POINT, positives=()), "answers none are no records"),
  ],
)
def test_what_the_schema_cannot_hold_is_refused(tmp_path, changes, message):
  with pytest.raises(ValueError, match=message):
    write(tmp_path / "out", **changes)
  assert not (tmp_path / "out").exists()
