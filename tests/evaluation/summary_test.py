"""Tables are computed from whatever run files lie in the folder."""

import csv
import re

import pytest

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import results, summary
from tests import synthetic

BENCHMARK = synthetic.benchmark()
QUERIES = BENCHMARK.queries["test"]


def write(folder, system, track="T0", right=True):
  """A run that puts the answer first, or last."""
  rankings = {}
  for query in QUERIES:
    rest = [
      name for name in BENCHMARK.record_ids if name not in query.positives
    ]
    ids = [*query.positives, *rest] if right else [*rest, *query.positives]
    rankings[query.query_id] = [(name, -float(i)) for i, name in enumerate(ids)]
  run = runs.Run(system, track, "made", "test", "neg1_ne1", rankings)
  return runs.write_run(run, folder)


def summarise(folder):
  return summary.write_summary(
    summary.summarize_runs([folder], BENCHMARK, "ours")
  )


@pytest.mark.slow
def test_a_system_of_somebody_else_joins_the_tables(tmp_path):
  write(tmp_path, "ours")
  write(tmp_path, "friend", right=False)
  printed = summarise(tmp_path)
  assert "friend" in printed
  text = (tmp_path / "results.txt").read_text()
  assert text.startswith(printed)
  assert "ours - friend: +1.0000 over 6 queries (6 better, 0 worse)" in text
  assert "whole years swapped: p = 1.0000" in text
  rows = results.read_result_rows(tmp_path / "results.json")
  (row,) = results.select_rows(
    rows, system="friend", mode="neg1_ne1_dq0", family="all", metric="hit@1"
  )
  assert (row.value, row.command) == (0.0, "")


def test_the_file_holds_every_mode_of_the_gallery(tmp_path):
  write(tmp_path, "ours")
  printed = summarise(tmp_path)
  written = (tmp_path / "results.txt").read_text()
  gallery = "events, commentary and empty months"
  for questions in ("all questions", "questions on events"):
    assert f"test, point queries; {gallery}; {questions}; track" in written
  assert "questions on events" not in printed


def test_families_of_the_paper_stand_in_the_file_alone(tmp_path):
  write(tmp_path, "ours")
  printed = summarise(tmp_path)
  rows = results.read_result_rows(tmp_path / "results.json")
  families = {
    mode: {row.family for row in rows if row.mode == mode}
    for mode in ("neg1_ne1_dq0", "neg1_ne1_dq1")
  }
  # No gap is left to ask where placeholders alone answer nothing.
  on_events = {"all", "point", "event_point", "macro", "only_events"}
  assert families == {
    "neg1_ne1_dq0": on_events | {"gap"},
    "neg1_ne1_dq1": on_events,
  }
  written = (tmp_path / "results.txt").read_text()
  assert written.count("test, gap queries; events,") == 1
  assert "gap queries" not in printed
  assert "point queries" not in printed
  # hit@1 by what answers stands among the main tables.
  assert "test, hit@1; events, commentary and empty months; all" in written
  assert re.search(r"score +event_point +gap +macro", written)


def test_one_table_is_printed_with_the_kinds_of_hits(tmp_path):
  write(tmp_path, "ours")
  write(tmp_path, "friend", right=False)
  title, _, header, _, friend, ours, *_ = summarise(tmp_path).splitlines()
  assert "6 test queries; track T0 (text only)" in title
  columns = ["system", "hit@1", "an event", "a placeholder"]
  columns += ["hit@1, only events answer", "mrr@10", "hit@1, events alone"]
  assert re.split(" {2,}", header) == columns
  assert friend.startswith("friend  0.0000 [0.000, 0.000]")
  cells = re.split(" {2,}", ours)
  assert cells[:2] == ["ours", "1.0000 [1.000, 1.000]"]
  # Every hit is of one kind or the other.
  assert float(cells[2]) + float(cells[3]) == pytest.approx(1.0, abs=1e-4)


def test_tracks_are_neither_compared_nor_drawn_together(tmp_path):
  write(tmp_path, "ours")
  write(tmp_path, "oracle", track="T1")
  table, _, note = summarise(tmp_path).rpartition("Read more")
  assert "oracle" not in table
  assert note == (
    ", so not in these tables: oracle (T1: time keys of the records given)\n"
  )
  assert "ours - oracle" not in (tmp_path / "results.txt").read_text()
  assert (tmp_path / "hit_by_reign.test.neg1_ne1_dq0.png").exists()


def test_the_first_folder_wins(tmp_path):
  write(tmp_path / "a", "ours", right=False)
  write(tmp_path / "b", "ours")
  tables = summary.score_runs([tmp_path / "a", tmp_path / "b"], BENCHMARK)
  assert {table.mean_of_family("hit@1") for table in tables} == {0.0}


def test_two_variants_of_one_system_are_refused(tmp_path):
  folders = [tmp_path / "a", tmp_path / "b"]
  for folder in folders:
    write(folder, "sparse")
  assert len(summary.find_run_paths(folders, ["sparse"])) == 1
  write(tmp_path / "b", "sparse", right=False)
  with pytest.raises(ValueError, match=r"a/run\.sparse.*b/run\.sparse.*differ"):
    summary.find_run_paths(folders, ["sparse"])


def test_a_run_of_an_unknown_split_is_named(tmp_path):
  path = write(tmp_path, "ours")
  path.rename(tmp_path / "run.ours.dev.neg1_ne1.trec")
  with pytest.raises(ValueError, match="run.ours.dev.neg1_ne1.trec"):
    summary.score_runs([tmp_path], BENCHMARK)


def test_per_query_values_are_kept(tmp_path):
  write(tmp_path, "ours")
  summarise(tmp_path)
  with (tmp_path / "per_query.tsv").open() as file:
    rows = list(csv.DictReader(file, delimiter="\t"))
  assert [*rows[0]][:4] == ["system", "split", "mode", "family"]
  assert {
    (row["query_id"], row["paper_family"], row["months"])
    for row in rows
    if row["mode"] == "neg1_ne1_dq0"
  } == {(query.query_id, query.paper_family, "1") for query in QUERIES}
