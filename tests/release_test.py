"""The reader of the authors' three files, on clean, odd and broken ones."""

import functools
import hashlib
import http.server
import json
import re
import subprocess
import threading

import pytest
import tensorflow_datasets as tfds

from ctd_jax.chronology import reigns
from ctd_jax.chronology.timekey import Interval, TimeKey
from ctd_jax_datasets.chunqiutr import findings, git_blobs, release, splits
from ctd_jax_datasets.chunqiutr.sources import SourceError
from tests import release_files

TIMELINE = release_files.TIMELINE
# Invented files are not the released ones; that finding is always there.
ALWAYS = {"file_differs": 3}


def read(tmp_path, documents, timeline=TIMELINE):
  return release.read(release_files.write(tmp_path, documents), timeline)


def counts(read_release):
  found = read_release.report.findings
  return {finding.code: finding.count for finding in found}


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
  return read(tmp_path_factory.mktemp("clean"), release_files.clean())


# What clean files mean.


def test_clean_files_have_no_findings(clean):
  assert counts(clean) == ALWAYS
  assert clean.report.facts == {
    "debug_info_months": 120,
    "month_nodes": 120,
    "months": 120,
    "time_ids_are_ordinals": True,
    "versions": 130,
    "records": 170,
    "queries": 130,
    "split_boundaries": 7,
  }


def test_kinds_and_sources_follow_from_the_place(clean):
  first = {record.record_id: record for record in clean.records[:8]}
  assert [
    (record.kind, record.source, record.version, record.match_score)
    for record in first.values()
  ] == [
    ("event", "chunqiu", "v00000", 1.0),
    ("event", "chunqiu", "v00001", 1.0),
    ("event", "zuozhuan", "v00001", 1.0),
    ("neg_comment", "du_yu", "v00000", 0.97),
    ("neg_comment", "kong_yingda", "v00001", 0.95),
    ("no_event", "placeholder", "", 1.0),
    ("neg_comment", "gu_donggao", "", 0.97),
    ("no_event", "placeholder", "", 1.0),
  ]
  assert list(first) == [f"s{number:06d}" for number in range(8)]
  assert first["s000005"].key == TimeKey(1, 1, 2)
  # Order counts inside a work: the second text of the annals, the first of 左.
  assert (first["s000001"].order, first["s000002"].order) == (1, 0)


def test_queries_get_split_interval_and_families(clean):
  point, gap = clean.queries["train"][:2]
  assert point.positives == ("s000000", "s000001", "s000002")
  assert (point.family, point.paper_family) == ("point", "point")
  assert (gap.family, gap.paper_family) == ("point", "gap")
  assert gap.positives == ("s000005",)
  window = next(q for q in clean.queries["test"] if q.family == "window")
  assert window.interval == Interval(TimeKey(1, 5, 1), TimeKey(1, 5, 12))
  assert window.paper_family == "window"
  assert len(window.positives) == 14
  assert [len(clean.queries[split]) for split in clean.queries] == [78, 26, 26]


def test_every_month_has_its_split(clean):
  assert list(clean.split_of) == list(TIMELINE.months)
  assert clean.split_of[TimeKey(2, 3, 9)] == "validation"


def test_reading_depends_on_nothing_but_the_files(clean, tmp_path):
  again = read(tmp_path, release_files.clean())
  assert again.records == clean.records
  assert again.queries == clean.queries
  assert again.report.to_json() == clean.report.to_json()


# What is odd: read, and reported with a place.


def change(**members):
  """Returns a change of the first month node (an event month)."""
  return lambda months, queries, split_map: months[0].update(members)


def first_version(**members):
  return lambda months, queries, split_map: months[0]["versions"][0].update(
    members
  )


def first_query(**members):
  return lambda months, queries, split_map: queries[0].update(members)


def window(**members):
  """Returns a change of the first window, which asks for a year of train."""
  return lambda months, queries, split_map: queries[12].update(members)


def without(member, number):
  return lambda months, queries, split_map: queries[number].pop(member)


def copied_sid(months, queries, split_map):
  months[13]["versions"][0]["春秋"].append(
    dict(months[13]["versions"][0]["春秋"][0])
  )


def conflicting_sid(months, queries, split_map):
  months[13]["versions"][0]["春秋"][0]["sid"] = 0


def same_month(months, queries, split_map):
  months[2]["sort_key"] = [1, 1, 2]


def placeholder_text(text):
  def alter(months, queries, split_map):
    months[1]["versions"][0]["春秋"][0]["text"] = text

  return alter


def score(value):
  def alter(months, queries, split_map):
    months[0]["versions"][0]["neg_sample"][0]["match_score"] = value

  return alter


def compiler(name):
  def alter(months, queries, split_map):
    months[0]["versions"][0]["neg_sample"][0]["compiler"] = name

  return alter


def debug_count(months, queries, split_map):
  split_map["debug_info"]["2"]["month_counts"]["train"] += 7


def no_split(months, queries, split_map):
  del split_map["split_by_sort_key"]["1-1-2"]


def extra_split(months, queries, split_map):
  split_map["split_by_sort_key"]["9-1-1"] = "train"
  split_map["debug_info"]["9"] = {
    "month_counts": {"train": 1, "val": 0, "test": 0}
  }


def unsorted_split(months, queries, split_map):
  listed = split_map["split_by_sort_key"]
  listed["1-1-1"] = listed.pop("1-1-1")


def repeated_qid(months, queries, split_map):
  queries[1]["qid"] = queries[0]["qid"]


TWO_SPLITS = [[1, 2, 12], [1, 3, 1]]
DEFECTS = [
  (change(no_event="no"), {"flag_not_boolean", "placeholder_undated"}),
  (change(versions=[]), {"month_without_record", "gold_missing"}),
  (change(versions="none"), {"value_not_list", "gold_missing"}),
  (change(neg_samples={"a": 1}), {"value_not_list"}),
  (change(neg_sample=[{"parsed_comment": []}]), {"member_unread"}),
  (change(sort_key=[9, 1, 1]), {"month_outside_timeline"}),
  (change(sort_key=[1, 1, 13]), {"month_outside_timeline"}),
  (change(sort_key=[1, 2, 1]), {"month_repeated", "month_text_differs"}),
  (same_month, {"month_repeated", "placeholder_differs"}),
  (
    lambda months, queries, split_map: months[0].update(
      sort_key=[1, 1, 2], no_event=True
    ),
    {"month_repeated", "placeholder_undated"},
  ),
  (
    lambda months, queries, split_map: months[1].update(sort_key=[1, 1, 1]),
    {"month_repeated", "flags_disagree", "placeholder_differs"},
  ),
  (first_version(春秋="text"), {"value_not_list", "gold_missing"}),
  (first_version(公羊=[{"sid": 900, "text": "何"}]), {"member_unread"}),
  (
    first_version(neg_sample=[{"compiler": "杜預", "parsed_comment": None}]),
    {"value_not_list", "match_score_unusable"},
  ),
  (first_version(春秋=[{"sid": 0, "text": " "}]), {"text_empty"}),
  (
    first_version(春秋=[{"sid": 0, "text": "桃丘3滄地"}]),
    {"text_repeated"},
  ),
  (copied_sid, {"sid_repeated"}),
  (conflicting_sid, {"sid_conflict"}),
  (placeholder_text("此月無事可書。"), {"placeholder_undated"}),
  (placeholder_text("滄昌公元年二月。無事。"), {"placeholder_differs"}),
  (score(None), {"match_score_unusable"}),
  (score("high"), {"match_score_unusable"}),
  (score(float("nan")), {"match_score_unusable"}),
  (score(97), {"match_score_unusable"}),
  (compiler("陸德明"), {"compiler_unknown"}),
  (compiler(["杜"]), {"compiler_unknown"}),
  (debug_count, {"split_count_differs"}),
  (no_split, {"split_missing", "query_month_unsplit"}),
  (extra_split, {"split_month_outside"}),
  (unsorted_split, {"split_unsorted"}),
  (without("type", 0), {"type_missing", "query_without_split"}),
  (first_query(type=None, source="point"), {"type_missing"}),
  (window(type="year"), {"type_unknown"}),
  (without("qid", 0), {"qid_missing"}),
  (first_query(qid="point 18"), {"qid_unusable"}),
  (first_query(qid=[1]), {"qid_unusable"}),
  (repeated_qid, {"qid_repeated"}),
  (first_query(query=""), {"text_empty"}),
  (first_query(sort_key=[9, 9, 9]), {"query_month_unsplit"}),
  (window(target_sort_keys=TWO_SPLITS), {"query_mixed"}),
  (window(target_sort_keys=None), {"query_without_split"}),
  (window(target_sort_keys=[[9, 9, 9]]), {"query_without_split"}),
  (
    window(target_sort_keys=[[1, 1, 1], [1, 1, 12], [9, 1, 1]]),
    {"target_without_month", "interval_with_holes"},
  ),
  (
    window(target_sort_keys=[[1, 2, 1], [1, 4, 1]]),
    {"interval_with_holes", "interval_mixed", "gold_outside"},
  ),
  (first_query(pos_sids=[]), {"query_without_gold"}),
  (first_query(pos_sids=None), {"query_without_gold"}),
  (first_query(pos_sids=[99999]), {"gold_missing", "query_without_gold"}),
  (first_query(pos_sids=["0", 1, 2.0]), {"gold_not_integer"}),
  (first_query(pos_sids=[0, 1, 2, 2]), {"gold_repeated"}),
  (first_query(pos_sids=[0, 1, 2, 3]), {"gold_is_comment"}),
  (first_query(pos_sids=[0, 1, 2, 5]), {"gold_outside"}),
  (first_query(pos_sids=[0]), {"gold_incomplete"}),
]


@pytest.mark.parametrize(("defect", "codes"), DEFECTS)
def test_an_oddity_is_survived_and_reported(tmp_path, defect, codes):
  found = read(tmp_path, release_files.changed(defect))
  assert codes <= set(counts(found))
  for finding in found.report.findings:
    assert finding.meaning
    assert len(finding.examples) == min(finding.count, findings.MOST_EXAMPLES)
  assert json.loads(json.dumps(found.report.to_json()))
  assert all(code in found.report.table() for code in codes)


def test_a_lone_oddity_is_the_only_finding(tmp_path):
  for defect, code in (
    (copied_sid, "sid_repeated"),
    (debug_count, "split_count_differs"),
    (unsorted_split, "split_unsorted"),
    (without("qid", 0), "qid_missing"),
    (first_query(pos_sids=[0, 1, 2, 2]), "gold_repeated"),
    (compiler("陸德明"), "compiler_unknown"),
  ):
    found = read(tmp_path, release_files.changed(defect))
    assert counts(found) == ALWAYS | {code: 1}


def test_every_meaning_is_exercised(tmp_path):
  met = {"file_differs", "member_repeated", "month_without_node"}
  met |= {"split_not_official", "interval_of_gold"}
  for _, codes in DEFECTS:
    met |= codes
  assert met == set(release.MEANINGS)


def test_a_later_record_of_a_sid_replaces_the_earlier(tmp_path, clean):
  found = read(tmp_path, release_files.changed(conflicting_sid))
  (record,) = (r for r in found.records if r.record_id == "s000000")
  assert record.kind == "no_event"
  assert record.key == TimeKey(1, 2, 2)
  finding = found.report.findings[-1]
  assert len(found.records) == len(clean.records) - 1
  (example,) = next(
    finding.examples
    for finding in found.report.findings
    if finding.code == "sid_conflict"
  )
  assert 'time_mapping["滄懷公二年二月"].versions[0].春秋[0]' in example
  assert 'time_mapping["滄懷公元年正月"].versions[0].春秋[0]' in example
  assert finding.level in (findings.NOTE, findings.DROPPED)


def test_match_scores_without_a_number(tmp_path):
  for value, expected in ((None, 1.0), (float("nan"), 1.0), (97, 1.0), (-1, 0)):
    found = read(tmp_path, release_files.changed(score(value)))
    (record,) = (r for r in found.records if r.record_id == "s000003")
    assert record.match_score == expected


def test_a_point_in_a_month_of_event_and_placeholder_is_no_gap(tmp_path):
  def alter(months, queries, split_map):
    months[1]["sort_key"] = [1, 1, 1]

  found = read(tmp_path, release_files.changed(alter))
  assert found.queries["train"][0].paper_family == "point"


def test_a_month_without_node_keeps_the_axis_apart(tmp_path):
  documents = release_files.clean()
  del documents[release.MONTHS]["time_mapping"]["滄懷公元年二月"]
  found = read(tmp_path, documents)
  assert counts(found)["month_without_node"] == 1
  assert found.report.facts["time_ids_are_ordinals"] is False
  # The window of the year loses a gold record and keeps its ends.
  window = next(q for q in found.queries["train"] if q.family == "window")
  assert window.interval == Interval(TimeKey(1, 1, 1), TimeKey(1, 1, 12))


def test_a_point_on_a_month_without_node_takes_the_month_of_its_gold(tmp_path):
  documents = release_files.clean()
  del documents[release.MONTHS]["time_mapping"]["滄懷公元年二月"]
  documents[release.QUERIES][1]["pos_sids"] = [7]
  found = read(tmp_path, documents)
  assert counts(found)["interval_of_gold"] == 1
  assert found.queries["train"][1].interval == Interval.month(TimeKey(1, 1, 3))


def test_a_member_that_repeats_is_reported(tmp_path):
  documents = release_files.clean()
  text = json.dumps(documents[release.QUERIES][0], ensure_ascii=False)
  documents[release.QUERIES][0] = text.replace("{", '{"type": "window", ', 1)
  found = read(tmp_path, documents)
  assert counts(found) == ALWAYS | {"member_repeated": 1}
  assert found.queries["train"][0].family == "point"


def test_another_split_than_released(tmp_path):
  timeline = reigns.timeline("lu_release")
  split_map = splits.write_map(splits.official_splits(timeline))
  documents = release_files.clean()
  documents[release.SPLITS] = split_map
  documents[release.QUERIES] = []
  split_map["split_by_sort_key"]["1-2-1"] = "train"
  found = read(tmp_path, documents, timeline)
  found_counts = counts(found)
  assert found_counts["split_not_official"] == 1
  assert found_counts["split_count_differs"] == 2
  assert found_counts["month_without_node"] == 3036 - 120


# The released split map.


def test_the_released_split_map_has_its_published_shape():
  timeline = reigns.timeline("lu_release")
  written = splits.write_map(splits.official_splits(timeline))
  listed, debug = written["split_by_sort_key"], written["debug_info"]
  assert len(listed) == 3036
  assert list(listed)[:2] == ["1-1-1", "1-1-2"]
  totals = {name: list(listed.values()).count(name) for name in ("val", "test")}
  assert totals == {"val": 295, "test": 317}
  assert debug["4"] == {
    "mode": "month",
    "years": [1, 2],
    "month_counts": {"train": 12, "val": 7, "test": 5},
  }
  assert debug["1"]["split_years"]["2"] == "test"
  assert debug["5"]["month_counts"] == {"train": 312, "val": 36, "test": 36}


# What cannot be used: one clear error.


def broken_line(text):
  documents = release_files.clean()
  documents[release.QUERIES][2] = text
  return documents


def broken_file(name, content):
  return release_files.clean() | {name: content}


def cut(name):
  documents = release_files.clean()
  text = json.dumps(documents[name], ensure_ascii=False)
  return documents | {name: text[: len(text) // 2]}


def broken_month(**members):
  return release_files.changed(change(**members))


BROKEN = [
  (cut(release.MONTHS), r"fixed.json: line 1, column \d+: not JSON.*cut short"),
  (broken_file(release.MONTHS, ""), "fixed.json: line 1.*cut short"),
  (broken_file(release.MONTHS, b"\xff\xfe"), "byte 0 is not UTF-8"),
  (broken_file(release.MONTHS, "[]"), r"the file: \[\] should be an object"),
  (broken_file(release.MONTHS, "{}"), "has no 'time_mapping'"),
  (
    broken_file(release.MONTHS, '{"time_mapping": {}}'),
    "none of its 0 months is one of timeline 'release_files'",
  ),
  (
    broken_file(release.MONTHS, '{"time_mapping": ' + "[" * 100_000),
    "nested too deeply",
  ),
  (broken_file(release.MONTHS, "9" * 5000), "not JSON: Exceeds the limit"),
  (broken_month(sort_key=None), r"sort_key: null should be \[reign"),
  (broken_month(sort_key=[1, 2]), r"should be \[reign, year, month\]"),
  (broken_month(sort_key=[1, "二", 3]), r"sort_key\[1\]: \"二\" should be"),
  (broken_month(versions=[3]), r"\.versions\[0\]: 3 should be an object"),
  (
    broken_month(versions=[{"春秋": [{"text": "x"}]}]),
    r'time_mapping\["滄懷公元年正月"\]\.versions\[0\]\.春秋\[0\]: has no .sid',
  ),
  (
    broken_month(versions=[{"春秋": [{"sid": "a", "text": "x"}]}]),
    r'春秋\[0\]\.sid: "a" should be a whole number',
  ),
  (
    broken_month(versions=[{"春秋": [{"sid": 1.5, "text": "x"}]}]),
    r"\.sid: 1.5 should be a whole number",
  ),
  (
    broken_month(versions=[{"春秋": [{"sid": 1}]}]),
    r"春秋\[0\]: has no 'text', a string",
  ),
  (
    broken_file(release.MONTHS, json.dumps({"time_mapping": "\ud800"})),
    r"half a character, '\\ud800'",
  ),
  (broken_line('{"query": '), "v3.jsonl: line 3: column .*cut short"),
  (broken_line("[1]"), r"line 3: \[1\] should be an object"),
  (broken_line('{"type": "point"}'), "line 3: has no 'query', a string"),
  (
    broken_line('{"query": "x", "type": "point"}'),
    "line 3: a point query has no 'sort_key'",
  ),
  (
    broken_line('{"query": "x", "type": "point", "sort_key": "1-1-1"}'),
    r'line 3: sort_key: "1-1-1" should be \[reign',
  ),
  (
    broken_line('{"query": "x", "type": "w", "target_sort_keys": [5]}'),
    r"line 3: target_sort_keys\[0\]: 5 should be \[reign",
  ),
  (
    broken_line('{"query": "x", "type": "w", "pos_sids": 5}'),
    r"line 3: pos_sids: 5 should be a list",
  ),
  (
    broken_file(release.SPLITS, '{"split_by_sort_key": {"1-1": "train"}}'),
    r'split_by_sort_key\["1-1"\].* should be \[reign',
  ),
  (
    broken_file(release.SPLITS, '{"split_by_sort_key": {"1-1-1": "dev"}}'),
    r'v1.json: .*"dev" should be one of train, val, test',
  ),
]


@pytest.mark.parametrize(("documents", "message"), BROKEN)
def test_a_broken_file_is_one_line(tmp_path, documents, message):
  with pytest.raises(SourceError, match=message) as caught:
    read(tmp_path, documents)
  assert "\n" not in str(caught.value)
  assert str(tmp_path) in str(caught.value)


# Where files come from.


def test_blob_ids_are_those_of_git(tmp_path):
  path = tmp_path / "file"
  path.write_bytes("魯隱公\n".encode())
  asked = subprocess.run(
    ["git", "hash-object", path], capture_output=True, text=True, check=True
  )
  assert git_blobs.blob_id(path.read_bytes()) == asked.stdout.strip()
  empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
  assert git_blobs.blob_id(b"") == empty


def test_files_of_a_folder_or_a_clone(tmp_path):
  clone = tmp_path / "clone"
  (clone / "dataset").mkdir(parents=True)
  paths = release_files.write(clone / "dataset", release_files.clean())
  assert release.files(None, clone / "dataset") == paths
  assert release.files(None, clone) == paths
  paths[release.SPLITS].unlink()
  with pytest.raises(SourceError, match=r"clone: missing time_splits.*it is"):
    release.files(None, clone)
  with pytest.raises(SourceError, match="nowhere: no such folder"):
    release.files(None, tmp_path / "nowhere")


class _Quiet(http.server.SimpleHTTPRequestHandler):
  def log_message(self, *arguments):
    pass


@pytest.fixture
def server(tmp_path, monkeypatch):
  """A host of the three files on this machine; `FILES` points to it."""
  folder = tmp_path / "host"
  folder.mkdir()
  paths = release_files.write(folder, release_files.clean())
  handler = functools.partial(_Quiet, directory=str(folder))
  with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as host:
    thread = threading.Thread(target=host.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{host.server_port}"
    known = {
      name: git_blobs.Blob(f"{url}/{name}", blob_of(path))
      for name, path in paths.items()
    }
    monkeypatch.setattr(release, "FILES", known)
    yield folder
    host.shutdown()
    thread.join()


def blob_of(path):
  content = path.read_bytes()
  return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def manager(tmp_path):
  return tfds.download.DownloadManager(download_dir=tmp_path / "downloads")


def test_files_are_downloaded_and_checked(server, tmp_path, clean):
  paths = release.files(manager(tmp_path))
  found = release.read(paths, TIMELINE)
  assert found.records == clean.records
  assert counts(found) == {}  # not even file_differs


def test_a_changed_download_is_refused_and_not_kept(server, tmp_path):
  path = server / release.QUERIES
  path.write_bytes(path.read_bytes()[:-40])
  with pytest.raises(SourceError, match="expected git blob") as caught:
    release.files(manager(tmp_path))
  assert re.search(r"http://127.*v3.jsonl: .* got [0-9a-f]{40}", str(caught))
  left = [path.name for path in (tmp_path / "downloads").rglob("*jsonl*")]
  assert not any(name.endswith("jsonl") for name in left)


def test_no_network_is_one_line(tmp_path, monkeypatch):
  dead = {"a.json": git_blobs.Blob("http://127.0.0.1:9/d/a.json", "0" * 40)}
  monkeypatch.setattr(release, "FILES", dead)
  with pytest.raises(SourceError, match="cannot be downloaded"):
    release.files(manager(tmp_path))


def test_the_released_files_are_named_by_commit():
  for name, blob in release.FILES.items():
    assert re.fullmatch(r"https://\S+/[0-9a-f]{40}/dataset/" + name, blob.url)
    assert re.fullmatch("[0-9a-f]{40}", blob.blob_id)
