"""Paired tests as rows: written, read, shown in pages."""

import pytest

from ctd_jax.evaluation import result_tables, results, significance
from ctd_jax.evaluation.significance import SystemComparison


def make_rows(mode="neg1_ne1_dq0"):
  tests = [
    SystemComparison(
      "a",
      rival,
      significance.PairedTest(0.125, 0.01, 40, 7, 2),
      significance.PairedTest(0.125, 0.04, 12, 5, 2),
      (0.05, 0.2),
      0.08,
    )
    for rival in ("b", "c")
  ]
  return results.make_comparison_rows(
    tests, "systems", "chunqiutr/mini:3.0.0", "test", mode, commit="abc"
  )


def test_rows_are_read_as_written_and_a_bad_cell_is_named(tmp_path):
  path = tmp_path / "comparisons.tsv"
  results.write_comparison_rows(path, make_rows())
  assert results.read_comparison_rows(path) == make_rows()
  path.write_text(path.read_text().replace("\t7\t", "\tmany\t", 1))
  with pytest.raises(ValueError, match=r"comparisons\.tsv:2: .*better"):
    results.read_comparison_rows(path)


def test_a_page_shows_the_tests_that_its_marker_selects():
  text = (
    "<!-- table:comparisons dataset=chunqiutr/mini other_system=c -->\n"
    "<!-- end -->\n"
  )
  filled = result_tables.fill_tables(text, [], "page.md", make_rows())
  assert (
    "**chunqiutr/mini:3.0.0, test, hit@1; events, commentary and empty months; "
    "all questions**" in filled
  )
  assert (
    "| a | c | +0.1250 [+0.050, +0.200] | 7 | 2 | 0.0100 | 0.0400 | 0.0800 |"
    in filled
  )
  assert "| a | b |" not in filled


def test_a_marker_without_a_comparison_is_an_error():
  # A group without any row may be one that is not measured yet.
  text = (
    "\n<!-- table:comparisons group=systems other_system=z -->\n<!-- end -->\n"
  )
  with pytest.raises(ValueError, match=r"page\.md:2: no comparison has"):
    result_tables.fill_tables(text, [], "page.md", make_rows())
