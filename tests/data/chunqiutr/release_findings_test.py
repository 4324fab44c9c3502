"""Oddities in files of the release: survived, counted, shown with a place."""

import json

import pytest

from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import Interval, TimeKey
from ctd_jax_datasets.chunqiutr import base_texts, release, release_months
from ctd_jax_datasets.common import source_files
from tests.data.chunqiutr import release_files

TIMELINE = release_files.TIMELINE
# Invented files are not the released ones; that finding is always there.
ALWAYS = {"the file is not the released one (git blob id)": 3}


def read(tmp_path, documents, timeline=TIMELINE):
  return release.read_release(
    release_files.write(tmp_path, documents), timeline
  )


def examples(read_release, reason):
  return next(
    finding["examples"]
    for finding in read_release.notes.to_json()["findings"]
    if finding["reason"].startswith(reason)
  )


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
  (
    change(no_event="no"),
    {"no_event is not true or false", "a placeholder names no month"},
  ),
  (
    change(versions=[]),
    {"a node has neither event nor placeholder", "an answer has no record"},
  ),
  (
    change(versions="none"),
    {"the value should be a list", "an answer has no record"},
  ),
  (change(neg_samples={"a": 1}), {"the value should be a list"}),
  (
    change(neg_sample=[{"parsed_comment": []}]),
    {"entries under a name that no loader reads"},
  ),
  (change(sort_key=[9, 1, 1]), {"the timeline has no such month"}),
  (change(sort_key=[1, 1, 13]), {"the timeline has no such month"}),
  (
    change(sort_key=[1, 2, 1]),
    {"a month has several nodes", "the date in words is another month"},
  ),
  (
    same_month,
    {"a month has several nodes", "a placeholder names another month"},
  ),
  (
    lambda months, queries, split_map: months[0].update(
      sort_key=[1, 1, 2], no_event=True
    ),
    {"a month has several nodes", "a placeholder names no month"},
  ),
  (
    lambda months, queries, split_map: months[1].update(sort_key=[1, 1, 1]),
    {
      "a month has several nodes",
      "nodes of one month say event and no event",
      "a placeholder names another month",
    },
  ),
  (
    first_version(春秋="text"),
    {"the value should be a list", "an answer has no record"},
  ),
  (
    first_version(公羊=[{"sid": 900, "text": "何"}]),
    {"entries under a name that no loader reads"},
  ),
  (
    first_version(neg_sample=[{"compiler": "杜預", "parsed_comment": None}]),
    {"the value should be a list", "match_score is no number from 0 to 1"},
  ),
  (
    first_version(春秋=[{"sid": 0, "text": " "}]),
    {"a record or query has no text"},
  ),
  (
    first_version(春秋=[{"sid": 0, "text": "桃丘3滄地"}]),
    {"a text occurs under several sids"},
  ),
  (copied_sid, {"a sid occurs again with the same text, month and kind"}),
  (conflicting_sid, {"a sid occurs again with other contents"}),
  (placeholder_text("此月無事可書。"), {"a placeholder names no month"}),
  (
    placeholder_text("滄昌公元年二月。無事。"),
    {"a placeholder names another month"},
  ),
  (score(None), {"match_score is no number from 0 to 1"}),
  (score("high"), {"match_score is no number from 0 to 1"}),
  (score(float("nan")), {"match_score is no number from 0 to 1"}),
  (score(97), {"match_score is no number from 0 to 1"}),
  (compiler("陸德明"), {"commentary by none of the five known works"}),
  (compiler(["杜"]), {"commentary by none of the five known works"}),
  (debug_count, {"debug_info counts other months than are listed"}),
  (no_split, {"a month has no split", "a point's month has no split"}),
  (extra_split, {"the split map has a month too many"}),
  (
    repeated_split,
    {
      "a month has two splits",
      "debug_info counts other months than are listed",
    },
  ),
  (unsorted_split, {"keys of the split map are not in order of time"}),
  (
    without("type", 0),
    {"a query has no type", "a window without a month of the split map"},
  ),
  (first_query(type=None, source="point"), {"a query has no type"}),
  (window(type="year"), {"a query's type is not point or window"}),
  (without("qid", 0), {"a query has no qid"}),
  (first_query(qid="point 18"), {"a qid is no single word"}),
  (first_query(qid=[1]), {"a qid is no single word"}),
  (repeated_qid, {"a qid occurs again"}),
  (first_query(query=""), {"a record or query has no text"}),
  (first_query(sort_key=[9, 9, 9]), {"a point's month has no split"}),
  (
    window(target_sort_keys=TWO_SPLITS),
    {"a window over months of several splits"},
  ),
  (
    window(target_sort_keys=None),
    {"a window without a month of the split map"},
  ),
  (
    window(target_sort_keys=[[9, 9, 9]]),
    {"a window without a month of the split map"},
  ),
  (
    window(target_sort_keys=[[1, 1, 1], [1, 1, 12], [9, 1, 1]]),
    {
      "a month asked for has no node",
      "months between those asked for count as well",
    },
  ),
  (
    window(target_sort_keys=[[1, 2, 1], [1, 4, 1]]),
    {
      "months between those asked for count as well",
      "the stretch asked for has months of other splits",
      "an answer is of a month that is not asked for",
    },
  ),
  (first_query(pos_sids=[]), {"a query that no record answers"}),
  (first_query(pos_sids=None), {"a query that no record answers"}),
  (
    first_query(pos_sids=[99999]),
    {"an answer has no record", "a query that no record answers"},
  ),
  (first_query(pos_sids=["0", 1, 2.0]), {"an answer is no number"}),
  (first_query(pos_sids=[0, 1, 2, 2]), {"an answer is listed twice"}),
  (first_query(pos_sids=[0, 1, 2, 3]), {"an answer is commentary"}),
  (
    first_query(pos_sids=[0, 1, 2, 5]),
    {"an answer is of a month that is not asked for"},
  ),
  (first_query(pos_sids=[0]), {"records of the months asked for are not gold"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "reasons"), DEFECTS)
def test_an_oddity_is_survived_and_reported(tmp_path, defect, reasons):
  found = read(tmp_path, release_files.changed(defect))
  assert reasons <= set(release_files.counts(found))
  told = json.loads(json.dumps(found.notes.to_json()))
  for finding in told["findings"]:
    kept = min(finding["count"], source_files.MAX_EXAMPLES)
    assert len(finding["examples"]) == kept
    # The file is named, and the line where there are lines.
    name = finding["examples"][0].partition(":")[0]
    assert name in (
      release_months.MONTHS_FILE,
      release_months.QUERIES_FILE,
      release_months.SPLITS_FILE,
    )
  assert all(reason in found.notes.format_table() for reason in reasons)


def test_a_lone_oddity_is_the_only_finding(tmp_path):
  for defect, reason in (
    (copied_sid, "a sid occurs again with the same text, month and kind"),
    (debug_count, "debug_info counts other months than are listed"),
    (unsorted_split, "keys of the split map are not in order of time"),
    (without("qid", 0), "a query has no qid"),
    (first_query(pos_sids=[0, 1, 2, 2]), "an answer is listed twice"),
    (compiler("陸德明"), "commentary by none of the five known works"),
  ):
    found = read(tmp_path, release_files.changed(defect))
    assert release_files.counts(found) == ALWAYS | {reason: 1}


def test_of_two_splits_of_a_month_the_last_counts(tmp_path):
  found = read(tmp_path, release_files.changed(repeated_split))
  assert found.split_of[TimeKey(2, 5, 12)] == "train"
  (example,) = examples(found, "a month has two splits")
  place = f'{release_months.SPLITS_FILE}: split_by_sort_key["02-5-12"]'
  assert example == f"{place}: was test, is train"


def test_a_later_record_of_a_sid_replaces_the_earlier(tmp_path, clean):
  found = read(tmp_path, release_files.changed(conflicting_sid))
  (record,) = (r for r in found.records if r.record_id == "s000000")
  assert record.kind == "no_event"
  assert record.key == TimeKey(1, 2, 2)
  assert len(found.records) == len(clean.records) - 1
  (example,) = examples(found, "a sid occurs again with other contents")
  assert 'time_mapping["滄懷公二年二月"].versions[0].春秋[0]' in example
  assert 'time_mapping["滄懷公元年正月"].versions[0].春秋[0]' in example


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
  del documents[release_months.MONTHS_FILE]["time_mapping"]["滄懷公元年二月"]
  found = read(tmp_path, documents)
  assert release_files.counts(found)["a month of the timeline has no node"] == 1
  assert found.notes.facts["time_ids_are_ordinals"] is False
  # The window of the year loses a gold record and keeps its ends.
  window = next(q for q in found.queries["train"] if q.family == "window")
  assert window.interval == Interval(TimeKey(1, 1, 1), TimeKey(1, 1, 12))


def test_a_point_on_a_month_without_node_takes_the_month_of_its_gold(tmp_path):
  documents = release_files.clean()
  del documents[release_months.MONTHS_FILE]["time_mapping"]["滄懷公元年二月"]
  documents[release_months.QUERIES_FILE][1]["pos_sids"] = [7]
  found = read(tmp_path, documents)
  assert release_files.counts(found)["no month asked for exists"] == 1
  assert found.queries["train"][1].interval == Interval.single_month(
    TimeKey(1, 1, 3)
  )


def test_a_member_that_repeats_is_reported(tmp_path):
  documents = release_files.clean()
  text = json.dumps(
    documents[release_months.QUERIES_FILE][0], ensure_ascii=False
  )
  documents[release_months.QUERIES_FILE][0] = text.replace(
    "{", '{"type": "window", ', 1
  )
  found = read(tmp_path, documents)
  assert release_files.counts(found) == ALWAYS | {
    "a JSON member occurs twice": 1
  }
  assert found.queries["train"][0].family == "point"


def test_another_split_than_released(tmp_path):
  timeline = reigns.load_timeline("lu_release")
  split_map = base_texts.format_split_map(base_texts.official_splits(timeline))
  documents = release_files.clean()
  documents[release_months.SPLITS_FILE] = split_map
  documents[release_months.QUERIES_FILE] = []
  split_map["split_by_sort_key"]["1-2-1"] = "train"
  found = read(tmp_path, documents, timeline)
  found_counts = release_files.counts(found)
  assert found_counts["a month has another split than released"] == 1
  assert found_counts["debug_info counts other months than are listed"] == 2
  assert found_counts["a month of the timeline has no node"] == 3036 - 120
