"""The six modes: galleries, queries kept, families, refusals."""

import numpy as np
import pytest

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Query
from ctd_jax.chronology.reigns import Interval, TimeKey
from ctd_jax.evaluation import protocol

KINDS = {
  "e1": "event",
  "e2": "event",
  "n1": "no_event",
  "n2": "no_event",
  "c1": "neg_comment",
}
MONTH = Interval.single_month(TimeKey(1, 1, 1))


def query(query_id, family, positives, paper_family=""):
  return Query(
    query_id, "text", family, "BASE_CONTENT", MONTH, positives, paper_family
  )


QUERIES = [
  query("point-event", "point", ("e1", "e2"), "point"),
  query("point-empty", "point", ("n1",), "gap"),
  query("window-mixed", "window", ("e1", "n1", "e1"), "window"),
  query("window-empty", "window", ("n1", "n2"), "window"),
]


def run_over(gallery, rankings=None):
  """Returns a run with the rankings, or all records in order for each query."""
  if rankings is None:
    ranking = [
      (record_id, 1.0 / rank)
      for rank, record_id in enumerate(KINDS, start=1)
      if KINDS[record_id] in protocol.GALLERY_KINDS[gallery]
    ]
    rankings = {q.query_id: ranking for q in QUERIES}
  return runs.Run("made", "T0", "lexical", "test", gallery, rankings)


def evaluate(mode=protocol.OFFICIAL_MODE, rankings=None, queries=QUERIES):
  mode = protocol.get_mode(mode)
  run = run_over(mode.gallery, rankings)
  return protocol.evaluate_run(run, queries, KINDS, mode)


def test_the_six_published_modes():
  assert list(protocol.MODES) == [
    "neg0_ne0_dq1",
    "neg0_ne1_dq0",
    "neg0_ne1_dq1",
    "neg1_ne0_dq1",
    "neg1_ne1_dq0",
    "neg1_ne1_dq1",
  ]
  assert protocol.get_mode(protocol.OFFICIAL_MODE) == protocol.EvaluationMode(
    "neg1_ne1_dq0", "neg1_ne1", False
  )
  assert protocol.get_mode(protocol.EVENT_ONLY_MODE).gallery == "neg1_ne0"


def test_gallery_masks():
  masks = protocol.gallery_masks(list(KINDS.values()))
  assert {
    gallery: np.flatnonzero(mask).tolist() for gallery, mask in masks.items()
  } == {
    "neg0_ne0": [0, 1],
    "neg0_ne1": [0, 1, 2, 3],
    "neg1_ne0": [0, 1, 4],
    "neg1_ne1": [0, 1, 2, 3, 4],
  }


EVENTS = {"point-event": ("e1", "e2"), "window-mixed": ("e1",)}
EVENTS_AND_EMPTY = {"point-event": ("e1", "e2"), "window-mixed": ("e1", "n1")}
EVERYTHING = {
  **EVENTS_AND_EMPTY,
  "point-empty": ("n1",),
  "window-empty": ("n1", "n2"),
}


@pytest.mark.parametrize(
  ("mode", "expected"),
  [
    ("neg0_ne0_dq1", EVENTS),
    ("neg1_ne0_dq1", EVENTS),
    ("neg0_ne1_dq1", EVENTS_AND_EMPTY),
    ("neg1_ne1_dq1", EVENTS_AND_EMPTY),
    ("neg0_ne1_dq0", EVERYTHING),
    ("neg1_ne1_dq0", EVERYTHING),
  ],
)
def test_qrels_of_every_mode(mode, expected):
  mode = protocol.get_mode(mode)
  assert protocol.build_qrels(QUERIES, KINDS, mode) == expected


def test_families_recombine_to_all():
  table = evaluate()
  point = table.values_of_family("mrr@10", "point")
  window = table.values_of_family("mrr@10", "window")
  assert list(point) == ["point-event", "point-empty"]
  assert {**point, **window} == table.values_of_family("mrr@10")
  both = [*point.values(), *window.values()]
  assert table.mean_of_family("mrr@10") == pytest.approx(np.mean(both))
  # e1 comes first: right for the event point and the mixed window.
  assert table.values["hit@1"] == {
    "point-event": 1.0,
    "point-empty": 0.0,
    "window-mixed": 1.0,
    "window-empty": 0.0,
  }
  assert table.mean_of_family("hit@1", "point") == 0.5
  # The paper's text divides the points.
  assert [*table.values_of_family("hit@1", "only_events")] == ["point-event"]
  event_point = table.values_of_family("mrr@10", "event_point")
  gap = table.values_of_family("mrr@10", "gap")
  assert (list(event_point), list(gap)) == (["point-event"], ["point-empty"])
  with pytest.raises(ValueError, match="macro, only_events; got 'other'"):
    table.values_of_family("mrr@10", "other")


@pytest.mark.parametrize("name", protocol.MODES)
def test_a_gap_is_asked_only_where_placeholders_answer(name):
  table = evaluate(name)
  expected = [] if protocol.get_mode(name).drop_no_event else ["point-empty"]
  assert list(table.values_of_family("hit@1", "gap")) == expected
  assert list(table.values_of_family("hit@1", "event_point")) == ["point-event"]


def test_queries_without_the_papers_view_count_in_the_releases():
  families = protocol.families_of(query("q", "point", ("e1", "c1")), KINDS)
  assert families == ("all", "point", "only_events")


@pytest.mark.parametrize(
  ("family", "paper_family", "message"),
  [
    ("point", "window", "query q: .* a point is point or gap; got 'window'"),
    ("window", "gap", "query q: .* a window is window; got 'gap'"),
  ],
)
def test_views_that_contradict_each_other_are_refused(
  family, paper_family, message
):
  with pytest.raises(ValueError, match=message):
    protocol.families_of(query("q", family, (), paper_family), {})


@pytest.mark.parametrize(
  ("mode", "expected"),
  [
    # Of the cells 1, 0, 1 and 0; without questions about nothing, of two.
    ("neg1_ne1_dq0", 1 / 2),
    ("neg1_ne1_dq1", 1.0),
  ],
)
def test_macro_is_the_mean_of_the_cells(mode, expected):
  many = [query(f"w{i}", "window", ("e2",), "window") for i in range(6)]
  rankings = {
    **run_over("neg1_ne1").rankings,
    **{query.query_id: [("e2", 1.0)] for query in many},
  }
  table = evaluate(mode, rankings, [*QUERIES, *many])
  assert table.mean_of_family("hit@1", "macro") == pytest.approx(expected)
  assert table.mean_of_family("hit@1", "event_window") == 1.0
  assert len(table.values_of_family("hit@1", "event_window")) == 7


def test_first_records_by_kind_sum_to_hit_at_one():
  rankings = {
    "point-event": [("c1", 3.0), ("e1", 2.0)],
    "point-empty": [("n1", 1.0)],
    "window-mixed": [("e1", 1.0)],
    "window-empty": [("e1", 1.0), ("n2", 0.5)],
  }
  table = evaluate(rankings=rankings)
  assert table.values["event_hit@1"] == {
    "point-event": 0.0,
    "point-empty": 0.0,
    "window-mixed": 1.0,
    "window-empty": 0.0,
  }
  assert table.mean_of_family("placeholder_hit@1") == 1 / 4
  for query_id, hit in table.values["hit@1"].items():
    parts = [table.values[m][query_id] for m in protocol.FIRST_KIND_BY_MEASURE]
    assert sum(parts) == hit


def test_ideal_gain_shrinks_with_the_gallery():
  # Only e1 is left of the window's positives, and it is found first.
  gains = evaluate("neg0_ne0_dq1").values["ndcg@10"]
  assert gains["window-mixed"] == pytest.approx(1)


def test_query_missing_from_the_run_counts_zero():
  table = evaluate(rankings={"point-event": [("e1", 1.0)]})
  assert table.mean_of_family("hit@1") == 0.25


def test_run_of_another_gallery_is_refused():
  mode = protocol.get_mode(protocol.EVENT_ONLY_MODE)
  with pytest.raises(ValueError, match="searched neg1_ne1; .* needs neg1_ne0"):
    protocol.evaluate_run(run_over("neg1_ne1"), QUERIES, KINDS, mode)


@pytest.mark.parametrize(
  ("rankings", "message"),
  [
    ({"point-event": [("n1", 1.0)]}, "point-event: n1 is not"),
    ({"point-event": [("r99", 1.0)]}, "point-event: r99 is not"),
    ({"q1": [("e1", 1.0)]}, "answers none of the 2 queries"),
  ],
)
def test_rankings_of_other_records_or_queries_are_refused(rankings, message):
  with pytest.raises(ValueError, match=message):
    evaluate(protocol.EVENT_ONLY_MODE, rankings)


def test_unknown_names_are_refused():
  with pytest.raises(ValueError, match="mode is one of neg0_ne0_dq1"):
    protocol.get_mode("neg0_ne0_dq0")
  with pytest.raises(ValueError, match="gallery is one of"):
    protocol.gallery_mask(["event"], "full")
  with pytest.raises(ValueError, match="point-x: positive r77"):
    evaluate(queries=[query("point-x", "point", ("r77",))])
  with pytest.raises(ValueError, match="two queries have the id point-event"):
    evaluate(queries=[QUERIES[0], QUERIES[0]])
