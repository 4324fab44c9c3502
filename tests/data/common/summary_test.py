"""What is counted in a built data set: content hash, groups, coverage."""

import collections

import numpy as np
import pytest

from ctd_jax.chronology import reigns
from ctd_jax_datasets.common import base_builder, summary

FEATURES = base_builder.make_record_features()
ROW = {"id": "r00000", "text": "泠侯卒", "start": [1, 1, 1], "match_score": 1.0}


@pytest.mark.parametrize(
  "other",
  [
    {"train": [ROW, ROW | {"text": "泠侯薨"}]},
    {"train": [ROW | {"id": "r00001"}, ROW]},
    {"train": [ROW]},
    {"test": [ROW, ROW | {"id": "r00001"}]},
    {"train": [ROW, ROW | {"id": "r00001", "match_score": 0.5}]},
  ],
)
def test_any_change_changes_the_hash(other):
  splits = {"train": [ROW, ROW | {"id": "r00001"}]}
  once, again, changed = (
    summary.content_hash(FEATURES, some) for some in (splits, splits, other)
  )
  assert len(once) == 64
  assert changed != once == again


def test_order_of_members_and_splits_does_not_matter():
  turned = dict(reversed(ROW.items()))
  first, second = (
    summary.content_hash(FEATURES, splits)
    for splits in ({"a": [ROW], "b": []}, {"b": [], "a": [turned]})
  )
  assert first == second


@pytest.fixture(scope="module")
def mini(mini_builder):
  return mini_builder, summary.summarise_dataset(mini_builder)


@pytest.mark.slow
def test_coverage_adds_up_to_the_timeline(mini):
  _, counted = mini
  *rulers, total = counted["reigns"]
  timeline = reigns.load_timeline("mini")
  assert [row["months"] for row in rulers] == [
    12 * reign.years for reign in timeline.reigns
  ]
  for name in ("months", "with_event", "empty"):
    assert total[name] == sum(row[name] for row in rulers)
  assert total["with_event"] == counted["splits"][-1]["with_event"]
  assert total["gap_share"] == round(total["empty"] / total["months"], 3)


@pytest.mark.slow
def test_scores_are_those_of_the_comments(mini):
  builder, counted = mini
  found = collections.defaultdict(list)
  for example in builder.as_data_source("records"):
    if example["kind"] == b"neg_comment":
      found[example["source"].decode()].append(float(example["match_score"]))
  assert {row["source"]: row["pieces"] for row in counted["scores"]} == {
    source: len(scores) for source, scores in found.items()
  }
  for row in counted["scores"]:
    scores = found[row["source"]]
    assert row["median"] == round(np.median(scores), 3)
    assert row["lowest"] <= row["average"] <= 1


def test_events_of_a_month_are_its_versions():
  rows = [
    {"version": version, "source": source, "start": start, "kind": kind}
    for version, source, start, kind in (
      ("v00000", "chunqiu", [1, 1, 1], "event"),
      ("v00000", "zuozhuan", [1, 1, 1], "event"),
      ("v00001", "chunqiu", [1, 1, 1], "event"),
      ("v00002", "chunqiu", [1, 1, 2], "event"),
      ("v00001", "du_yu", [1, 1, 1], "neg_comment"),
      ("", "du_yu", [1, 1, 1], "neg_comment"),
    )
  ]
  counts = {"events": 3, "of_several_works": 1, "with_commentary": 1}
  assert summary._count_events(rows) == counts | {"months_with_several": 1}


def test_columns_of_han_characters_stay_in_line():
  rows = [{"ruler": "隱公", "n": 1}, {"ruler": "total", "n": 20}]
  lines = ["t", "ruler   n", "隱公    1", "total  20"]
  assert summary.format_table("t", rows).splitlines() == lines
