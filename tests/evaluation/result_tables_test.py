"""Tables and README: made from rows, never mixing tracks."""

import pathlib
import re
import subprocess
import sys

import pytest

from ctd_jax.evaluation import protocol, result_tables
from ctd_jax.evaluation.results import (
  ResultRow,
  read_result_folder,
  write_result_rows,
)

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = pathlib.Path(__file__).parents[1] / "results"


def row(system="s", metric="hit@1", value=0.5, **fields):
  about = {
    "dataset": "chunqiutr/mini",
    "track": "T0",
    "score_mode": "ctd",
    "split": "test",
    "mode": "neg1_ne1_dq0",
    "family": "all",
    **fields,
  }
  return ResultRow(system=system, metric=metric, value=value, **about)


def fill(marker, rows):
  """Returns a page of one table."""
  page = f"<!-- table:{marker} -->\n<!-- end -->\n"
  return result_tables.fill_tables(page, rows, "README.md")


def test_aligned_table():
  rows = [
    row("bm25", value=0.25, score_mode="lexical"),
    row("規則", value=1 / 3, low=0.3, high=0.4),
    row("規則", "mrr@10", 0.5),
  ]
  text = result_tables.format_table(rows, ["hit@1", "mrr@10"], intervals=True)
  rule = "-" * 46
  assert text.splitlines() == [
    "chunqiutr/mini, test; events, commentary and empty months; all questions; "
    "track T0 (text only)",
    rule,
    "system  score    hit@1                  mrr@10",
    rule,
    "bm25    lexical  0.2500",
    "規則    ctd      0.3333 [0.300, 0.400]  0.5000",
    rule,
  ]


@pytest.mark.parametrize(
  ("metric", "text"), [("sections", "3383"), ("sure", "3383.0000")]
)
def test_counts_are_whole_numbers(metric, text):
  book = {"dataset": "books", "mode": "printed", "family": "annals"}
  figure = row("weishu", metric, 3383.0, track="T0+order", **book)
  assert result_tables.format_figure(figure, interval=False) == text


def test_tracks_stand_in_blocks_of_their_own():
  tracks = {"a": "T1", "b": "T0", "c": "T1", "d": "T0+order"}
  rows = [row(system, track=track) for system, track in tracks.items()]
  text = result_tables.format_table(rows)
  titles = re.findall(r"track (\S+) \(", text)
  assert titles == ["T0", "T0+order", "T1"]
  last = text[text.index("track T1") :]
  assert re.findall(r"^(\w)  ", last, re.MULTILINE) == ["a", "c"]


def test_two_values_for_one_cell_are_refused():
  with pytest.raises(ValueError, match="two results for .* hit@1"):
    result_tables.format_table([row(value=0.1), row(value=0.2)])


def test_markdown_names_the_source_of_published_rows():
  text = result_tables.format_table(
    [row("a", source="Table 1"), row("b")], ["hit@1"], markdown=True
  )
  assert (
    "| system | score | hit@1 | source |\n| :-- | :-- | --: | :-- |" in text
  )
  assert "| a | ctd | 0.5000 | Table 1 |" in text
  assert "| b | ctd | 0.5000 | measured here |" in text


def test_families_as_columns():
  about = {
    "dataset": "ctm/qa",
    "track": "closed_book",
    "score_mode": "rules",
    "mode": "direct",
    "metric": "accuracy",
  }
  rows = [
    row("a", family="EDD", value=0.25, **about),
    row("a", family="PJ", value=0.5, **about),
    row("b", family="PJ", value=1.0, **about),
  ]
  text = fill("ctm family=PJ,EDD", rows)
  assert "**ctm/qa, test, direct, accuracy; track closed_book (" in text
  assert "| system | score | PJ | EDD |" in text
  assert "| a | rules | 0.5000 | 0.2500 |" in text
  assert "| b | rules | 1.0000 |  |" in text
  with pytest.raises(ValueError, match="two results for .* EDD"):
    result_tables.format_table([*rows, rows[0]], ["EDD"], columns="family")


def test_tables_and_lines_stand_as_listed():
  rows = [
    row(system, mode=mode)
    for mode in ("neg1_ne0_dq1", "neg1_ne1_dq0")
    for system in ("a", "b")
  ]
  text = fill("mini system=b,a", rows)
  order = re.findall(r"all questions;|on events;|(?<=\n\| )[ab](?= )", text)
  assert order == ["all questions;", "b", "a", "on events;", "b", "a"]


def test_a_file_tells_the_protocols_of_a_system_apart(tmp_path):
  for name, value in (("short", 0.25), ("long", 0.75)):
    write_result_rows(tmp_path / f"{name}.json", [row("a", value=value)])
  rows = read_result_folder(tmp_path)
  text = fill("mini file=short", rows)
  assert "0.2500" in text
  assert "0.7500" not in text
  with pytest.raises(ValueError, match="two results for .* hit@1"):
    fill("mini", rows)
  # A table may stand on a page before its rows are measured.
  for keys in ("mini file=new", "comparisons group=new"):
    assert "Not measured yet" in fill(keys, rows)
  with pytest.raises(ValueError, match="no result has"):
    fill("mini file=short system=z", rows)


def test_modes_as_columns():
  rows = [
    row("a", mode="neg1_ne1_dq0", value=0.5),
    row("a", mode="neg0_ne0_dq1", value=0.25),
    row("b", mode="neg1_ne1_dq0", value=1.0),
  ]
  text = fill("modes", rows)
  assert ", test, hit@1; track T0 (" in text
  modes = " | ".join(mode.title for mode in protocol.MODES.values())
  assert f"| system | score | {modes} |" in text
  at = {"neg1_ne1_dq0": "0.5000", "neg0_ne0_dq1": "0.2500"}
  cells = " | ".join(at.get(mode, "") for mode in protocol.MODES)
  assert f"| a | ctd | {cells} |" in text


MARKED = """# Title

<!-- table:official dataset=chunqiutr/mini metrics=hit@1 -->
stale
<!-- end -->

<!-- table:event_only -->
<!-- end -->
"""


def test_fill_tables_replaces_what_stands_between_markers():
  rows = [
    row("a", value=0.1234),
    row("b", dataset="chunqiutr/rebuilt"),
    row("c", mode="neg1_ne0_dq1"),
  ]
  text = result_tables.fill_tables(MARKED, rows, "README.md")
  assert "stale" not in text
  official, event_only = text.split("<!-- end -->")[:2]
  assert "| a | ctd | 0.1234 |" in official
  assert "| b |" not in text
  assert "| c |" in event_only
  assert result_tables.fill_tables(text, rows, "README.md") == text


def test_views_of_a_data_set():
  rows = [row("a"), row("b", mode="neg1_ne0_dq1"), row("c", dataset="x")]
  text = fill("mini", rows)
  assert text.count("track T0") == 2
  assert re.findall(r"^\| (\w) \|", text, re.M) == ["a", "b"]


def test_view_of_the_papers_families():
  families = ["event_point", "gap", "window"]
  rows = [row("a", family=name) for name in ("all", "point", *families)]
  text = fill("families", rows)
  assert re.findall(r"test, (\w+) queries; events", text) == families


@pytest.mark.parametrize(
  ("marker", "message"),
  [
    ("<!-- table:best -->\n<!-- end -->", "R.md:1: table 'best' is not one of"),
    ("\n<!-- table:official x=1 -->\n<!-- end -->", "R.md:2: 'x=1' is not key"),
    ("<!-- table:official -->\n", "R.md: a <!-- table:.* no <!-- end -->"),
    (
      "<!-- table:official split=train -->\n<!-- end -->",
      "R.md:1: no result has",
    ),
  ],
)
def test_bad_markers_name_file_and_line(marker, message):
  with pytest.raises(ValueError, match=message):
    result_tables.fill_tables(marker, [row()], "R.md")


@pytest.fixture
def pages(tmp_path):
  """Two Markdown files with a stale table each, and their results."""
  write_result_rows(
    tmp_path / "tests" / "results" / "a.json", [row(), row(mode="neg1_ne0_dq1")]
  )
  paths = [tmp_path / "README.md", tmp_path / "docs" / "results" / "page.md"]
  for path in paths:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MARKED, encoding="utf-8")
  return paths


@pytest.mark.slow
def test_command_line_renews_and_checks(pages):
  readme = f"--readme={','.join(map(str, pages))}"
  command = [sys.executable, "-m", "ctd_jax.evaluation.result_tables", readme]
  stale = subprocess.run(
    [*command, "--check"], capture_output=True, text=True, check=False
  )
  assert stale.returncode == 1
  assert f"tables of {pages[0]},{pages[1]} differ" in stale.stderr
  assert pages[0].read_text(encoding="utf-8") == MARKED
  subprocess.run(command, check=True)
  for path in pages:
    assert "| s | ctd | 0.5000 |" in path.read_text(encoding="utf-8")
  assert result_tables.renew_tables(pages, check=True) == []


def test_no_file_is_written_if_one_cannot_be(pages):
  pages[1].write_text("<!-- table:best -->\n<!-- end -->", encoding="utf-8")
  with pytest.raises(ValueError, match=r"page\.md:1: table 'best'"):
    result_tables.renew_tables(pages)
  assert pages[0].read_text(encoding="utf-8") == MARKED


def test_a_file_without_results_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"page\.md: no folder tests/res"):
    result_tables.find_result_folder(tmp_path / "page.md")


def test_tables_of_the_readme_agree_with_the_results():
  readme = ROOT / "README.md"
  text = readme.read_text(encoding="utf-8")
  assert (
    result_tables.fill_tables(text, read_result_folder(RESULTS), readme.name)
    == text
  )
