"""Oddities in files of the release: survived, counted, shown with a place."""

import json

import pytest

from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import Interval, TimeKey
from ctd_jax_datasets.chunqiutr import splits
from ctd_jax_datasets.chunqiutr.release import finding_codes, reader, schema
from ctd_jax_datasets.common import findings
from tests.data.chunqiutr import release_files

TIMELINE = release_files.TIMELINE
# Invented files are not the released ones; that finding is always there.
ALWAYS = {"file_differs": 3}


def read(tmp_path, documents, timeline=TIMELINE):
  return reader.read_release(release_files.write(tmp_path, documents), timeline)


def counts(read_release):
  found = read_release.report.findings
  return {finding.code: finding.count for finding in found}


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
  return read(tmp_path_factory.mktemp("clean"), release_files.clean())


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


def repeated_split(months, queries, split_map):
  split_map["split_by_sort_key"]["02-5-12"] = "train"


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
  (repeated_split, {"split_repeated", "split_count_differs"}),
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


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "codes"), DEFECTS)
def test_an_oddity_is_survived_and_reported(tmp_path, defect, codes):
  found = read(tmp_path, release_files.changed(defect))
  assert codes <= set(counts(found))
  for finding in found.report.findings:
    assert finding.meaning
    assert len(finding.examples) == min(finding.count, findings.MAX_EXAMPLES)
  assert json.loads(json.dumps(found.report.to_json()))
  assert all(code in found.report.format_table() for code in codes)


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


def test_of_two_splits_of_a_month_the_last_counts(tmp_path):
  found = read(tmp_path, release_files.changed(repeated_split))
  assert found.split_of[TimeKey(2, 5, 12)] == "train"
  (example,) = next(
    finding.examples
    for finding in found.report.findings
    if finding.code == "split_repeated"
  )
  assert example == 'split_by_sort_key["02-5-12"]: was test, is train'


def test_every_meaning_is_exercised(tmp_path):
  met = {"file_differs", "member_repeated", "month_without_node"}
  met |= {"split_not_official", "interval_of_gold"}
  for _, codes in DEFECTS:
    met |= codes
  assert met == set(finding_codes.MEANINGS)


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
  del documents[schema.MONTHS_FILE]["time_mapping"]["滄懷公元年二月"]
  found = read(tmp_path, documents)
  assert counts(found)["month_without_node"] == 1
  assert found.report.facts["time_ids_are_ordinals"] is False
  # The window of the year loses a gold record and keeps its ends.
  window = next(q for q in found.queries["train"] if q.family == "window")
  assert window.interval == Interval(TimeKey(1, 1, 1), TimeKey(1, 1, 12))


def test_a_point_on_a_month_without_node_takes_the_month_of_its_gold(tmp_path):
  documents = release_files.clean()
  del documents[schema.MONTHS_FILE]["time_mapping"]["滄懷公元年二月"]
  documents[schema.QUERIES_FILE][1]["pos_sids"] = [7]
  found = read(tmp_path, documents)
  assert counts(found)["interval_of_gold"] == 1
  assert found.queries["train"][1].interval == Interval.single_month(
    TimeKey(1, 1, 3)
  )


def test_a_member_that_repeats_is_reported(tmp_path):
  documents = release_files.clean()
  text = json.dumps(documents[schema.QUERIES_FILE][0], ensure_ascii=False)
  documents[schema.QUERIES_FILE][0] = text.replace(
    "{", '{"type": "window", ', 1
  )
  found = read(tmp_path, documents)
  assert counts(found) == ALWAYS | {"member_repeated": 1}
  assert found.queries["train"][0].family == "point"


def test_another_split_than_released(tmp_path):
  timeline = reign_tables.load_timeline("lu_release")
  split_map = splits.format_split_map(splits.official_splits(timeline))
  documents = release_files.clean()
  documents[schema.SPLITS_FILE] = split_map
  documents[schema.QUERIES_FILE] = []
  split_map["split_by_sort_key"]["1-2-1"] = "train"
  found = read(tmp_path, documents, timeline)
  found_counts = counts(found)
  assert found_counts["split_not_official"] == 1
  assert found_counts["split_count_differs"] == 2
  assert found_counts["month_without_node"] == 3036 - 120
