"""Tests of the load that is put on the pages: readers open what there is."""

import argparse

from ctd_jax.index.asking import Index
from tests.benchmarks import page_load


def test_what_readers_open_is_answered(client, index_folder, monkeypatch):
  monkeypatch.setattr(page_load, "_NUM_QUESTIONS", 120)
  monkeypatch.setattr(page_load, "_NUM_ROWS", 5)
  addresses = page_load.draw_addresses(Index.open(index_folder), seed=1)
  # The index dates no passages.
  assert addresses.keys() == page_load.SHARES.keys() - {"passage"}
  for kind, paths in addresses.items():
    assert len({*paths}) > 1 or kind == "corpus"
    for path in paths[:4]:
      # A page behind the last leads to the last.
      page = client.get(path, follow_redirects=True)
      assert page.status_code == 200, path


def test_locust_table_is_read(tmp_path):
  head = "Type,Name,Request Count,Failure Count,Requests/s,50%,95%,100%"
  lines = [head, "GET,month,4,1,0.5,20,30,40", ",Aggregated,9,1,1.5,21,31,41"]
  (tmp_path / "load_stats.csv").write_text("\n".join(lines))
  times = page_load.read_times(tmp_path / "load")
  assert times["month"]["errors"] == 1
  assert times["all"]["p95_ms"] == 31


def test_every_limit_is_checked():
  kept = {"errors": 0, "p95_ms": 400}
  kept |= {"mebibytes_before": 100, "mebibytes_after": 104}
  assert page_load.list_failures(kept) == []
  broken = {"errors": 1, "p95_ms": 401, "mebibytes_after": 106}
  for name, value in broken.items():
    assert len(page_load.list_failures({**kept, name: value})) == 1, name
  kept["slowest_ms"] = 2_000
  assert page_load.list_failures(kept, is_hostile=True) == []
  for name, value in {"errors": 1, "slowest_ms": 2_001}.items():
    failures = page_load.list_failures({**kept, name: value}, is_hostile=True)
    assert len(failures) == 1, name


def test_rows_of_the_load_name_the_size_of_the_index(index_folder):
  flags = argparse.Namespace(index=index_folder, name="mini", seconds=1.0)
  rows = page_load.make_rows(flags, {"month": {"requests": 4.0}})
  assert [(row.family, row.metric) for row in rows] == [("month", "requests")]
  size = Index.open(index_folder).num_records
  assert rows[0].system == f"index-{size}"
