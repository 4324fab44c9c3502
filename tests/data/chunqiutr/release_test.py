"""The reader of the authors' three files, on clean, odd and broken ones."""

import collections
import json

import pytest

from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import Interval, TimeKey
from ctd_jax_datasets.chunqiutr import base_texts, release, release_months
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError
from tests.data.chunqiutr import release_files

TIMELINE = release_files.TIMELINE
# Invented files are not the released ones; that finding is always there.
ALWAYS = {"the file is not the released one (git blob id)": 3}


def read(tmp_path, documents, timeline=TIMELINE):
  return release.read_release(
    release_files.write(tmp_path, documents), timeline
  )


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
  return read(tmp_path_factory.mktemp("clean"), release_files.clean())


# What clean files mean.


def test_clean_files_have_no_findings(clean):
  assert release_files.counts(clean) == ALWAYS
  assert clean.notes.facts == {
    "month_nodes": 120,
    "months": 120,
    "versions": 130,
    "records": 170,
    "queries": 130,
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


def test_the_order_of_the_file_is_nobodys(clean):
  # It goes month by month; T0+order may read the field.
  assert {record.order for record in clean.records} == {-1}


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
  assert again.notes.to_json() == clean.notes.to_json()


# The released split map.


def test_the_released_split_map_has_its_published_shape():
  timeline = reigns.load_timeline("lu_release")
  written = base_texts.format_split_map(base_texts.official_splits(timeline))
  listed, debug = written["split_by_sort_key"], written["debug_info"]
  assert len(listed) == 3036
  assert list(listed)[:2] == ["1-1-1", "1-1-2"]
  totals = collections.Counter(listed.values())
  assert totals == {"train": 2424, "val": 295, "test": 317}
  assert debug["4"] == {
    "mode": "month",
    "years": [1, 2],
    "month_counts": {"train": 12, "val": 7, "test": 5},
  }
  assert debug["1"]["split_years"]["2"] == "test"
  assert debug["5"]["month_counts"] == {"train": 312, "val": 36, "test": 36}
  assert debug["11"]["month_counts"] == {"train": 144, "val": 12, "test": 24}


# What cannot be used: one clear error.


def broken_line(text):
  documents = release_files.clean()
  documents[release_months.QUERIES_FILE][2] = text
  return documents


def broken_query(**members):
  return broken_line(json.dumps({"query": "x", "type": "point"} | members))


def broken_months(content):
  return release_files.clean() | {release_months.MONTHS_FILE: content}


def broken_split(key, split="train"):
  content = {"split_by_sort_key": {key: split}}
  return release_files.clean() | {release_months.SPLITS_FILE: content}


def cut(name):
  documents = release_files.clean()
  text = json.dumps(documents[name], ensure_ascii=False)
  return documents | {name: text[: len(text) // 2]}


def broken_month(**members):
  return release_files.changed(
    lambda months, queries, split_map: months[0].update(members)
  )


def broken_text(**members):
  return broken_month(versions=[{"春秋": [members]}])


BROKEN = [
  (cut(release_months.MONTHS_FILE), r"fixed.json:1: column \d+: not JSON.*cut"),
  (broken_months(""), "fixed.json:1: .*cut short"),
  (broken_months(b"\xff\xfe"), "byte 0 is not UTF-8"),
  (broken_months("[]"), r"the file: \[\] should be an object"),
  (broken_months("{}"), "has no 'time_mapping'"),
  (broken_months('{"time_mapping": {}}'), "none of its 0 months is one of"),
  (broken_months('{"time_mapping": ' + "[" * 100_000), "nested too deeply"),
  (broken_months("9" * 5000), "not JSON: Exceeds the limit"),
  (broken_months('{"time_mapping": "\\ud800"}'), r"half a char.*'\\ud800'"),
  (broken_month(sort_key=None), r"sort_key: null should be \[reign"),
  (broken_month(sort_key=[1, 2]), r"should be \[reign, year, month\]"),
  (broken_month(sort_key=[1, "二", 3]), r"sort_key\[1\]: \"二\" should be"),
  (broken_month(sort_key=[1, "1_0", 3]), r"sort_key\[1\]: \"1_0\" should be"),
  (broken_month(sort_key=[1, "２", 3]), r"sort_key\[1\]: \"２\" should be"),
  (broken_month(sort_key=[1, True, 3]), r"sort_key\[1\]: true should be"),
  (broken_month(versions=[3]), r"\.versions\[0\]: 3 should be an object"),
  (
    broken_text(text="x"),
    r'time_mapping\["滄懷公元年正月"\]\.versions\[0\]\.春秋\[0\]: has no .sid',
  ),
  (broken_text(sid=1), r"春秋\[0\]: has no 'text', a string"),
  (broken_text(sid="a", text="x"), r'\.sid: "a" should be a whole number'),
  (broken_text(sid=1.5, text="x"), r"\.sid: 1.5 should be a whole number"),
  *(
    (
      broken_text(sid=1, text="x", ctd_jax_order=order),
      rf"春秋\[0\]\.ctd_jax_order: {order} should be a {what}",
    )
    for order, what in (
      (-1, "position from 0 to 2147483647"),
      (2**31, "position from"),
      (1.5, "whole number"),
    )
  ),
  (broken_line('{"query": '), "v3.jsonl:3: column .*cut short"),
  (broken_line("[1]"), r":3: \[1\] should be an object"),
  (broken_line('{"type": "point"}'), ":3: has no 'query', a string"),
  (broken_query(), ":3: a point query has no 'sort_key'"),
  (broken_query(sort_key="1-1-1"), r':3: sort_key: "1-1-1" should be \[reign'),
  (
    broken_query(type="w", target_sort_keys=[5]),
    r":3: target_sort_keys\[0\]: 5 should be \[reign",
  ),
  (broken_query(type="w", pos_sids=5), r":3: pos_sids: 5 should be a list"),
  (broken_split("1-1"), r'split_by_sort_key\["1-1"\].* should be \[reign'),
  (
    broken_split("1-1_0-1"),
    r'split_by_sort_key\["1-1_0-1"\]\[1\]: "1_0" should be a whole number',
  ),
  (
    broken_split("1-1-1", "dev"),
    r'v1.json: .*"dev" should be one of train, val, test',
  ),
]


@pytest.mark.parametrize(("documents", "message"), BROKEN)
def test_a_broken_file_is_one_line(tmp_path, documents, message):
  with pytest.raises(SourceError, match=message) as caught:
    read(tmp_path, documents)
  assert "\n" not in str(caught.value)
  assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
  ("metadata", "message"),
  [
    (
      '{"timeline": "mini"}',
      'timeline is "mini", expected "release_files"; the files beside it are',
    ),
    ("{", "not JSON"),
    ('{"timeline": 3}', "timeline: Expected `str"),
  ],
)
def test_an_export_on_another_calendar_is_refused(tmp_path, metadata, message):
  paths = release_files.write(tmp_path, release_files.clean())
  (tmp_path / "metadata.json").write_text(metadata)
  with pytest.raises(SourceError, match=message) as caught:
    release.read_release(paths, TIMELINE)
  assert str(caught.value).startswith(f"{tmp_path / 'metadata.json'}: ")
  assert "\n" not in str(caught.value)


def test_metadata_on_the_same_calendar_or_on_none_are_no_matter(tmp_path):
  paths = release_files.write(tmp_path, release_files.clean())
  for metadata in ('{"timeline": "release_files"}', '{"about": "files"}'):
    (tmp_path / "metadata.json").write_text(metadata)
    assert release_files.counts(release.read_release(paths, TIMELINE)) == ALWAYS


# What is odd: read all the same, and noted with its place.


def month(number=0, **members):
  """Returns a change of a month node; the first is an event month."""
  return lambda months, queries, split_map: months[number].update(members)


def version(number=0, **members):
  return lambda months, queries, split_map: months[number]["versions"][
    0
  ].update(members)


def query(number=0, **members):
  return lambda months, queries, split_map: queries[number].update(members)


def window(**members):
  """Returns a change of the first window, which asks for a year of train."""
  return query(12, **members)


def without(member, number):
  return lambda months, queries, split_map: queries[number].pop(member)


def comment(**members):
  return lambda months, queries, split_map: months[0]["versions"][0][
    "neg_sample"
  ][0].update(members)


def splits(**members):
  return lambda months, queries, split_map: split_map[
    "split_by_sort_key"
  ].update({key.strip("_").replace("_", "-"): n for key, n in members.items()})


def same_sid(months, queries, split_map):
  months[13]["versions"][0]["春秋"][0]["sid"] = 0


def no_split(months, queries, split_map):
  del split_map["split_by_sort_key"]["1-1-2"]


def same_qid(months, queries, split_map):
  queries[1]["qid"] = queries[0]["qid"]


NO_ANSWER = ("an answer has no record", "a query that no record answers")
NOT_A_SCORE = "match_score is not a number from 0 to 1"
NO_SPLIT = "a window whose months share no split"
BAD_QID = "a qid is missing or no single word"
ODD = [
  (month(no_event="no"), ["no_event is not true or false"]),
  (month(versions=[]), ["an answer has no record"]),
  (
    month(versions="none"),
    ["the value should be a list", "an answer has no record"],
  ),
  (month(neg_samples={"a": 1}), ["the value should be a list"]),
  (
    month(neg_sample=[{"parsed_comment": []}]),
    ["entries under a name that no loader reads"],
  ),
  (month(sort_key=[9, 1, 1]), ["the timeline has no such month"]),
  (month(sort_key=[1, 1, 13]), ["the timeline has no such month"]),
  (month(sort_key=[1, 2, 1]), ["a month has several nodes"]),
  (month(2, sort_key=[1, 1, 2]), ["a month has several nodes"]),
  (
    version(春秋="text"),
    ["the value should be a list", "an answer has no record"],
  ),
  (
    version(公羊=[{"sid": 900, "text": "何"}]),
    ["entries under a name that no loader reads"],
  ),
  (
    version(neg_sample=[{"compiler": "杜預", "parsed_comment": None}]),
    ["the value should be a list", NOT_A_SCORE],
  ),
  (same_sid, ["a sid occurs again"]),
  *((comment(match_score=s), [NOT_A_SCORE]) for s in (None, "high", 97)),
  (comment(match_score=float("nan")), [NOT_A_SCORE]),
  *(
    (comment(compiler=c), ["commentary by none of the five known works"])
    for c in ("陸德明", ["杜"])
  ),
  (no_split, ["a month has no split", "a point's month has no split"]),
  (splits(_9_1_1="train"), ["the split map has a month too many"]),
  (splits(_02_5_12="train"), ["a month has two splits"]),
  (without("type", 0), ["a query has no type", NO_SPLIT]),
  (query(type=None, source="point"), ["a query has no type"]),
  (window(type="year"), ["a query's type is not point or window"]),
  (without("qid", 0), [BAD_QID]),
  *((query(qid=qid), [BAD_QID]) for qid in ("point 18", [1], None)),
  (same_qid, ["a qid occurs again"]),
  (query(sort_key=[9, 9, 9]), ["a point's month has no split"]),
  *(
    (window(target_sort_keys=keys), [NO_SPLIT])
    for keys in ([[1, 2, 12], [1, 3, 1]], None, [[9, 9, 9]])
  ),
  (
    window(target_sort_keys=[[1, 1, 1], [1, 1, 12], [9, 1, 1]]),
    [
      "a month asked for has no node",
      "months between those asked for count too",
    ],
  ),
  *((query(pos_sids=sids), [NO_ANSWER[1]]) for sids in ([], None)),
  (query(pos_sids=[99999]), NO_ANSWER),
  (query(pos_sids=["0", 1, 2.0]), ["an answer is not a number"]),
  (query(pos_sids=[0, 1, 2, 2]), ["an answer is listed twice"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "reasons"), ODD)
def test_an_oddity_is_survived_and_noted(tmp_path, change, reasons):
  found = read(tmp_path, release_files.changed(change))
  assert set(reasons) <= set(release_files.counts(found))
  told = json.loads(json.dumps(found.notes.to_json()))
  for finding in told["findings"]:
    kept = min(finding["count"], source_files.MAX_EXAMPLES)
    assert len(finding["examples"]) == kept
    # The file is named, and the line where there are lines.
    name = finding["examples"][0].partition(":")[0]
    assert name in release_months.FILES
  assert all(reason in found.notes.format_table() for reason in reasons)


@pytest.mark.parametrize(
  ("change", "reason"),
  [
    (query(pos_sids=[0, 1, 2, 2]), "an answer is listed twice"),
    (without("qid", 0), BAD_QID),
    (
      comment(compiler="陸德明"),
      "commentary by none of the five known works",
    ),
  ],
)
def test_a_lone_oddity_is_the_only_finding(tmp_path, change, reason):
  found = read(tmp_path, release_files.changed(change))
  assert release_files.counts(found) == ALWAYS | {reason: 1}


def example(found, reason):
  return next(
    finding["examples"][0]
    for finding in found.notes.to_json()["findings"]
    if finding["reason"].startswith(reason)
  )


def test_of_two_splits_of_a_month_the_last_counts(tmp_path):
  found = read(tmp_path, release_files.changed(splits(_02_5_12="train")))
  assert found.split_of[TimeKey(2, 5, 12)] == "train"
  place = f'{release_months.SPLITS_FILE}: split_by_sort_key["02-5-12"]'
  assert example(found, "a month has two splits") == (
    f"{place}: was test, is train"
  )


def test_a_later_record_of_a_sid_replaces_the_earlier(tmp_path, clean):
  found = read(tmp_path, release_files.changed(same_sid))
  (record,) = (r for r in found.records if r.record_id == "s000000")
  assert (record.kind, record.key) == ("no_event", TimeKey(1, 2, 2))
  assert len(found.records) == len(clean.records) - 1
  place = example(found, "a sid occurs again")
  assert 'time_mapping["滄懷公二年二月"].versions[0].春秋[0]' in place
  assert 'time_mapping["滄懷公元年正月"].versions[0].春秋[0]' in place


@pytest.mark.parametrize(
  ("value", "expected"), [(None, 1.0), (float("nan"), 1.0), (97, 1.0), (-1, 0)]
)
def test_match_scores_without_a_number(tmp_path, value, expected):
  found = read(tmp_path, release_files.changed(comment(match_score=value)))
  (record,) = (r for r in found.records if r.record_id == "s000003")
  assert record.match_score == expected


def test_a_point_in_a_month_of_event_and_placeholder_is_no_gap(tmp_path):
  found = read(tmp_path, release_files.changed(month(1, sort_key=[1, 1, 1])))
  assert found.queries["train"][0].paper_family == "point"


def test_a_month_without_node_keeps_the_axis_apart(tmp_path):
  documents = release_files.clean()
  del documents[release_months.MONTHS_FILE]["time_mapping"]["滄懷公元年二月"]
  documents[release_months.QUERIES_FILE][1]["pos_sids"] = [7]
  found = read(tmp_path, documents)
  # The window of the year loses a gold record and keeps its ends; the point
  # on the month takes the month of its gold.
  window = next(q for q in found.queries["train"] if q.family == "window")
  assert window.interval == Interval(TimeKey(1, 1, 1), TimeKey(1, 1, 12))
  assert release_files.counts(found)["no month asked for exists"] == 1
  assert found.queries["train"][1].interval == Interval.single_month(
    TimeKey(1, 1, 3)
  )


def test_a_member_that_repeats_is_noted(tmp_path):
  documents = release_files.clean()
  rows = documents[release_months.QUERIES_FILE]
  text = json.dumps(rows[0], ensure_ascii=False)
  rows[0] = text.replace("{", '{"type": "window", ', 1)
  found = read(tmp_path, documents)
  assert release_files.counts(found) == ALWAYS | {
    "a JSON member occurs twice": 1
  }
  assert found.queries["train"][0].family == "point"
