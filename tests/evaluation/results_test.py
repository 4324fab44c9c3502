"""Result files: round trip, refusals, and the published figures themselves."""

import dataclasses
import json
import pathlib

import pytest

from ctd_jax.evaluation import protocol, results
from ctd_jax.evaluation.results import ResultRow

RESULTS = pathlib.Path(__file__).parents[1] / "results"


def row(**fields):
  about = {
    "dataset": "chunqiutr/mini:1.0.0",
    "system": "規則",
    "track": "T0",
    "score_mode": "ctd",
    "split": "test",
    "mode": "neg1_ne1_dq0",
    "family": "all",
    "metric": "hit@1",
    "value": 0.5,
    "seeds": (1, 2),
    **fields,
  }
  return ResultRow(**about)


def test_round_trip(tmp_path):
  path = tmp_path / "new" / "rows.json"
  rows = [row(), row(metric="mrr@10", low=0.25, high=0.75, seconds=1.5)]
  results.write_result_rows(path, rows)
  assert results.read_result_rows(path) == rows
  assert len(path.read_text(encoding="utf-8").splitlines()) == 4
  results.write_result_rows(path, [])
  assert results.read_result_rows(path) == []


def test_benchmarks_without_retrieval_have_words_of_their_own():
  fields = {"dataset": "ctm/qa", "track": "closed_book", "mode": "direct"}
  fields |= {"family": "TIC", "metric": "accuracy"}
  assert row(**fields).family == "TIC"
  with pytest.raises(ValueError, match="family of a result .*'point'"):
    row(**{**fields, "family": "point"})
  with pytest.raises(ValueError, match="metric of a result .*'hit@1'"):
    row(**{**fields, "metric": "hit@1"})


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"mode": "official"}, "row 2: mode is one of"),
    ({"metric": "R@1"}, "row 2: unknown measure 'R@1'"),
    ({"track": "T2"}, "row 2: track of a result"),
    ({"family": "other"}, "row 2: family of a result"),
    ({"extra": 1}, "row 2: .*extra"),
  ],
)
def test_bad_row_names_file_and_row(tmp_path, change, message):
  path = tmp_path / "bad.json"
  fields = dataclasses.asdict(row())
  path.write_text(json.dumps([fields, {**fields, **change}]))
  with pytest.raises(ValueError, match=f"bad.json: {message}"):
    results.read_result_rows(path)


@pytest.mark.parametrize("text", ["[", "{}"])
def test_bad_file_is_named(tmp_path, text):
  path = tmp_path / "bad.json"
  path.write_text(text)
  with pytest.raises(ValueError, match=r"bad\.json"):
    results.read_result_rows(path)


def test_folder_without_results_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=str(tmp_path)):
    results.read_result_folder(tmp_path)


def test_select():
  first = row()
  rows = [first, row(split="validation"), row(dataset="chunqiutr/rebuilt:1")]
  assert results.select_rows(rows, dataset="chunqiutr/mini") == rows[:2]
  assert results.select_rows(rows, split="test,validation") == rows
  chosen = results.select_rows(rows, dataset=first.dataset, split="test")
  assert chosen == [first]


def test_rows_of_a_per_query_table():
  queries = [f"q{i}" for i in range(40)]
  table = protocol.PerQueryScores(
    "s",
    "T0",
    "ctd",
    "test",
    protocol.OFFICIAL_MODE,
    {"hit@1": {query: float(i < 10) for i, query in enumerate(queries)}},
    dict.fromkeys(queries, ("all", "point", "event_point")),
  )
  rows = results.make_result_rows(
    table, "chunqiutr/mini", seeds=(7,), commit="abc"
  )
  # There is neither a window nor a gap: they have no row, rather than a 0.
  families = ["all", "point", "event_point", "macro"]
  assert [r.family for r in rows] == families
  assert {(r.value, r.seeds, r.commit) for r in rows} == {(0.25, (7,), "abc")}
  assert all(r.low < 0.25 < r.high for r in rows)
  groups = {query: i // 10 for i, query in enumerate(queries)}
  clustered = results.make_result_rows(table, "chunqiutr/mini", groups)
  assert clustered[0].high - clustered[0].low > rows[0].high - rows[0].low


# Queries of the official test split: all, with events, answered by
# placeholders only.
SIZES = {"point": (961, 507, 454), "window": (692, 639, 53)}
# Hits at 1, 5 and 10, counted from the published decimals:
# (system, gallery) -> points with events, empty points, windows with events,
# empty windows.
HITS = {
  ("Qwen-CTD", "neg1_ne1"): (
    (18, 56, 109),
    (454, 454, 454),
    (461, 510, 530),
    (46, 52, 52),
  ),
  ("Qwen-CTD", "neg0_ne1"): (
    (19, 56, 110),
    (454, 454, 454),
    (462, 512, 532),
    (46, 52, 52),
  ),
  ("Qwen-CTD", "neg1_ne0"): ((35, 83, 120), None, (33, 71, 109), None),
  ("Qwen-CTD", "neg0_ne0"): ((36, 86, 121), None, (39, 82, 113), None),
  ("BM25", "neg1_ne1"): (
    (0, 0, 0),
    (381, 418, 432),
    (261, 408, 457),
    (13, 35, 40),
  ),
  ("BM25", "neg0_ne0"): ((4, 20, 35), None, (7, 22, 42), None),
  ("BM25", "neg1_ne0"): ((0, 3, 9), None, (0, 3, 5), None),
}


def expected_hits(system, mode):
  """Returns (family, cutoff) -> share of queries hit, from the counts."""
  point, point_empty, window, window_empty = HITS[system, mode.gallery]
  shares = {}
  for rank, cutoff in enumerate((1, 5, 10)):
    total_hits = total_size = 0
    for family, events, empty in (
      ("point", point, point_empty),
      ("window", window, window_empty),
    ):
      everything, with_events, _ = SIZES[family]
      hits = events[rank] + (0 if mode.drop_no_event else empty[rank])
      size = with_events if mode.drop_no_event else everything
      shares[family, cutoff] = hits / size
      total_hits, total_size = total_hits + hits, total_size + size
    shares["all", cutoff] = total_hits / total_size
  return shares


def test_published_hit_counts_reproduce_the_published_decimals():
  rows = results.read_result_rows(RESULTS / "published_table14.json")
  rows += results.read_result_rows(RESULTS / "published_table15.json")
  checked = 0
  for published in rows:
    mode = protocol.get_mode(published.mode)
    name, cutoff = published.metric.split("@")
    about = published.split, name, (published.system, mode.gallery) in HITS
    if about == ("test", "hit", True):
      shares = expected_hits(published.system, mode)
      share = shares[published.family, int(cutoff)]
      assert f"{share:.4f}" == f"{published.value:.4f}", published
      checked += 1
  # Six modes of CTD and four of BM25, three families, three cutoffs.
  assert checked == 90


def test_every_published_hit_is_a_whole_number_of_queries():
  # Split and family -> all queries, those on events.
  sizes = {
    ("test", "all"): (1653, 1146),
    ("test", "point"): (961, 507),
    ("test", "window"): (692, 639),
    ("validation", "all"): (1520, 1008),
    ("validation", "point"): (875, 427),
    ("validation", "window"): (645, 581),
  }
  for published in results.read_result_folder(RESULTS):
    if not published.source or not published.metric.startswith("hit"):
      continue
    dropped = protocol.get_mode(published.mode).drop_no_event
    size = sizes[published.split, published.family][dropped]
    hits = round(published.value * size)
    assert f"{hits / size:.4f}" == f"{published.value:.4f}", published


def test_table_1_repeats_the_official_rows_of_tables_14_and_15():
  rows = results.read_result_folder(RESULTS)
  first = {(r.system, r.metric): r.value for r in rows if r.source == "Table 1"}
  assert len(first) == 25 * 5
  official = results.select_rows(
    rows,
    source="Table 14,Table 15",
    split="test",
    mode=protocol.OFFICIAL_MODE,
    family="all",
  )
  assert len(official) == 10
  for r in official:
    assert first[r.system, r.metric] == r.value


def test_only_the_system_that_reads_time_keys_is_on_track_t1():
  rows = results.read_result_rows(RESULTS / "published_table1.json")
  assert {r.system for r in rows if r.track == "T1"} == {"BM25+TimeKDE"}
