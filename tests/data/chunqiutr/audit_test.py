"""Our figures beside the paper's: tables, reasons, README and picture."""

import functools
import json
import os
import pathlib
import struct

import pytest

from ctd_jax.utils import files
from ctd_jax_datasets import build
from ctd_jax_datasets.chunqiutr import audit_readme, paper_figures
from ctd_jax_datasets.common import base_builder, summary
from tests.tools import processes

ROOT = pathlib.Path(__file__).resolve().parents[3]
README = ROOT / "data" / "chunqiutr" / "README.md"
GOLDEN = ROOT / "tests" / "golden" / "chunqiutr_rebuilt.json"
PAPER = paper_figures.read_figures(paper_figures.PAPER_FIGURES)


@pytest.fixture(scope="module")
def golden():
  return json.loads(GOLDEN.read_text("utf-8"))


def test_paper_figures_agree_with_one_another():
  splits, units = PAPER["splits"], PAPER["units"]
  parts = [splits[name] for name in ("train", "validation", "test")]
  for column in ("months", "records", "queries", "event", "neg_comment"):
    assert splits["total"][column] == sum(row[column] for row in parts)
  for row in splits.values():
    assert row["records"] == (
      row["event"] + row["no_event"] + row["neg_comment"]
    )
  for row in parts[1:]:
    assert row["queries"] == sum(
      row[f"{kind}_{family}"]
      for kind in ("event", "empty")
      for family in ("points", "windows")
    )
  for total, sources in (
    (summary.BASE_TEXTS, "chunqiu zuozhuan gongyang guliang"),
    (summary.COMMENTARY, "du_yu kong_yingda gu_donggao wei_liaoweng lv_zuqian"),
  ):
    assert units[total]["units"] == sum(
      units[name]["units"] for name in sources.split()
    )


def test_every_paper_figure_has_a_figure_of_ours(golden):
  ours = summary.compute_figures(golden)
  for (table, row, column), _ in paper_figures._flatten_figures(PAPER):
    assert column in ours[table][row], (table, row, column)


@pytest.mark.slow
@pytest.mark.skipif(
  "CTD_JAX_SOURCES" not in os.environ,
  reason="CTD_JAX_SOURCES names no folder of source texts",
)
def test_golden_figures_are_those_of_the_editions(golden, tmp_path):
  builder = build.build_dataset("chunqiutr/rebuilt", tmp_path, processes=2)
  path = builder.data_path / build.STATISTICS_FILE
  assert json.loads(path.read_text("utf-8")) == golden


def test_every_difference_has_a_reason_and_every_reason_a_difference(golden):
  found = paper_figures.find_differences(summary.compute_figures(golden), PAPER)
  for difference in found:
    assert difference.reason, difference
  used = {difference.reason for difference in found}
  assert used == {
    row["reason"]
    for row in files.read_tsv_rows(paper_figures.DIFFERENCE_REASONS)
  }


OURS = {
  "units": {
    "chunqiu": {"units": 106, "average": 9.5},
    "zuozhuan": {"units": 1600},
  }
}
THEIRS = {"units": {"chunqiu": {"units": 100, "average": 10.0}}}


def test_cells_show_ours_theirs_and_the_difference():
  ((name, _, lines),) = summary.iterate_tables(OURS, THEIRS)
  assert name == "units"
  assert lines == [
    {"": "chunqiu", "units": "106 / 100 +6.0%", "average": "9.5 / 10.0 -5.0%"},
    {"": "zuozhuan", "units": "1,600", "average": "–"},
  ]


def test_a_difference_of_the_tolerance_needs_no_reason(tmp_path):
  reasons = tmp_path / "reasons.tsv"
  reasons.write_text(
    "table\trow\tcolumn\treason\n"
    "units\t*\taverage\tNot this.\n"
    "units\tchun*\tunits\tThis.\n"
    "units\t*\t*\tToo late.\n",
    encoding="utf-8",
  )
  (found,) = paper_figures.find_differences(OURS, THEIRS, reasons)
  assert (found.column, found.value, found.paper_value) == ("units", 106, 100)
  assert found.reason == "This."


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("units\tchunqiu\tunits\tmany\n", "line 3: 'many' is not a number"),
    ("units\tchunqiu\tunits\t1\n", "line 3: the figure is given above"),
    ("units\tchunqiu\n", "line 3: should have the columns"),
    ("units\tchunqiu\tunits\t1\t2\n", "line 3: should have the columns"),
  ],
)
def test_a_figure_that_cannot_be_read_is_named(tmp_path, line, message):
  path = tmp_path / "paper.tsv"
  path.write_text(
    "table\trow\tcolumn\tvalue\nunits\tchunqiu\tunits\t3\n" + line,
    encoding="utf-8",
  )
  with pytest.raises(ValueError, match=message):
    paper_figures.read_figures(path)


def test_only_what_the_paper_describes_is_set_beside_it():
  for name, synthetic, expected in (
    ("chunqiutr/mini/3.0.0", True, {}),
    ("zztj/demo/1.0.0", False, {}),
    ("chunqiutr/release/3.0.0", False, PAPER),
  ):
    named = {"name": name, "synthetic": synthetic}
    assert paper_figures.read_paper_figures(named) == expected
  assert summary.gap_share(PAPER) == pytest.approx(0.4951, abs=1e-4)
  assert summary.gap_share({}) is None


def test_readme_tables_are_those_of_the_build(golden):
  text = README.read_text("utf-8")
  assert audit_readme.fill_readme(text, golden, str(README)) == text
  assert "<!-- audit:differences -->" in text


@pytest.mark.slow
def test_a_stale_readme_is_told_and_renewed(tmp_path):
  path = tmp_path / "README.md"
  path.write_text("a\n<!-- audit:events -->\n<!-- end -->\nb\n", "utf-8")
  module = "ctd_jax_datasets.chunqiutr.audit_readme"
  call = functools.partial(
    processes.run_python,
    *("-m", module, f"--readme={path}", f"--statistics={GOLDEN}"),
  )

  stale = call("--check")
  assert stale.returncode == 1
  assert stale.stderr.startswith(f"error: {path} differs")
  assert call().returncode == 0
  text = path.read_text("utf-8")
  assert text.startswith("a\n<!-- audit:events -->\n| ")
  assert text.endswith("<!-- end -->\nb\n")
  assert call("--check").returncode == 0


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("\n<!-- audit:events -->\n", "README.md: .* has no <!-- end -->"),
    ("\n<!-- audit:x -->\n<!-- end -->\n", "README.md:2: audit:x is not one"),
  ],
)
def test_a_marker_that_means_nothing_is_named(golden, text, message):
  with pytest.raises(ValueError, match=message):
    audit_readme.fill_readme(text, golden, "README.md")


@pytest.mark.slow
def test_picture_of_coverage(golden, tmp_path):
  rows, path = golden["reigns"], tmp_path / "coverage.png"
  base_builder.plot_coverage(rows, "title", path, paper_gap=0.495)
  first = path.read_bytes()
  width, height = struct.unpack(">II", first[16:24])
  assert first.startswith(b"\x89PNG")
  assert width > height > 500
  base_builder.plot_coverage(rows, "title", path, paper_gap=0.495)
  assert path.read_bytes() == first
  other = [row | {"empty": 0, "with_event": row["months"]} for row in rows]
  base_builder.plot_coverage(other, "title", path, paper_gap=0.495)
  assert path.read_bytes() != first
  assert list(tmp_path.iterdir()) == [path]
