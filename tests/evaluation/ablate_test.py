"""The grid: which runs, which comparisons, which tables."""

import json
import sys

import numpy as np
import pytest

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import comparison_rows, protocol, results, summary
from ctd_jax.systems import grid_tables
from ctd_jax.training import grid
from ctd_jax.training.run_folder import EVALUATION_FOLDER
from ctd_jax.utils import command_line
from tests import synthetic

BENCHMARK = synthetic.benchmark()


def write_cell(cell: grid.GridCell, right: float, split: str = "test") -> None:
  """Writes what a finished run leaves; `right` of the queries are answered."""
  folder = cell.folder / EVALUATION_FOLDER
  rng = np.random.default_rng(cell.seed)
  kinds = BENCHMARK.kinds
  for gallery in {
    protocol.get_mode(name).gallery for name in summary.REPORT_MODES
  }:
    inside = np.flatnonzero(protocol.gallery_mask(kinds, gallery))
    rankings = {}
    for query in BENCHMARK.queries[split]:
      order = [BENCHMARK.records[i].record_id for i in rng.permutation(inside)]
      answers = set(query.positives)
      order.sort(key=lambda name, good=answers: name not in good)
      if rng.random() > right:
        order = order[::-1]
      rankings[query.query_id] = tuple(
        (name, float(len(order) - place)) for place, name in enumerate(order)
      )
    runs.write_run(
      runs.Run(f"{cell.method}-x", "T0", "ctd", split, gallery, rankings),
      folder,
    )
  origin = {
    f"{cell.method}-x": {
      "command": "c", "commit": "abc", "seconds": 1.5, "seeds": [cell.seed],
    }
  }  # fmt: skip
  (folder / summary.ORIGIN_FILE).write_text(json.dumps(origin))
  (folder / "per_query.tsv").write_text("")


@pytest.mark.slow
def test_tables_average_the_seeds_and_pair_the_methods(tmp_path):
  cells = grid.make_grid(["ft", "multi", "multi-release"], [1, 2], tmp_path)
  assert [(c.method, c.seed) for c in cells[:4]] == [
    ("ft", 1), ("multi", 1), ("multi-release", 1), ("ft", 2),
  ]  # fmt: skip
  for cell in cells:
    assert not cell.is_finished
    write_cell(cell, right=0.0 if cell.method == "ft" else 1.0)
    assert cell.is_finished
  text = grid_tables.summarise_grid(cells, BENCHMARK, "test", tmp_path)
  rows = results.read_result_rows(tmp_path / "results.json")
  found = {
    row.system: row
    for row in results.select_rows(
      rows, mode=protocol.OFFICIAL_MODE, family="all", metric="hit@1"
    )
  }
  assert found["ft"].value == 0
  assert found["multi"].value == 1
  assert found["multi"].seeds == (1, 2)
  assert found["multi"].seconds == 3.0
  assert "  ft             0.0000  0.0000\n" in text
  assert "multi - ft" in text
  assert "multi-release - multi" in text
  assert (tmp_path / "results.txt").read_text() == text
  pairs = [line for line in text.splitlines() if "better" in line]
  assert len(pairs) == 2 * 2  # modes
  rows = comparison_rows.read_comparison_rows(tmp_path / "comparisons.tsv")
  assert [(row.mode, row.system, row.other_system) for row in rows] == [
    (mode, *pair)
    for mode in (protocol.OFFICIAL_MODE, protocol.EVENT_ONLY_MODE)
    for pair in (("multi", "ft"), ("multi-release", "multi"))
  ]
  assert rows[0].better == len(BENCHMARK.queries["test"])


def test_rivals_are_what_a_method_builds_on():
  methods = ["ft", "bias", "ctx", "ctd", "ft-release", "ctd-release"]
  methods += ["ctd-no_starts"]
  assert grid_tables.find_rivals("ctd", methods) == ["ft", "bias", "ctx"]
  assert grid_tables.find_rivals("ctd-release", methods) == [
    "ctd",
    "ft-release",
  ]
  assert grid_tables.find_rivals("ctd-no_starts", methods) == ["ctd"]
  assert grid_tables.find_rivals("ft", methods) == []


def test_runs_are_those_of_the_config_with_its_options(tmp_path):
  argv = ["ablation.py", "--config", "configs/small.py", "--jobs=2"]
  argv += ["--config.num_epochs=2", "--config.seed", "7", "--workdir=w"]
  path, overrides = command_line.split_config_arguments(argv)
  assert path == "configs/small.py"
  assert overrides == ["--config.num_epochs=2", "--config.seed", "7"]
  (cell,) = grid.make_grid(["ctd-release"], [3], tmp_path)
  command = cell.train_command(path, overrides)
  assert "--config=configs/small.py:ctd-release" in command
  # The seed of the grid comes last, so it counts.
  assert command.index("--config.seed=3") > command.index("--config.seed")
  assert command[-1] == f"--workdir={tmp_path}/ctd-release/seed-3"


def test_a_failed_run_is_named_and_the_others_go_on(tmp_path, monkeypatch):
  def command(cell, config, overrides, splits):
    del config, overrides, splits
    done = cell.folder / EVALUATION_FOLDER
    program = (
      "import pathlib, sys\n"
      f"if {cell.method == 'ft'}: sys.exit('error: no luck')\n"
      f"p = pathlib.Path({str(done)!r}); p.mkdir()\n"
      "(p / 'per_query.tsv').touch()"
    )
    return [sys.executable, "-c", program]

  monkeypatch.setattr(grid.GridCell, "train_command", command)
  cells = grid.make_grid(["ft", "multi"], [1], tmp_path)
  with pytest.raises(ValueError, match=r"1 of 2 runs failed.*\n.*no luck"):
    grid.train_cells(cells, "c", [], jobs=1)
  assert [cell.is_finished for cell in cells] == [False, True]
  # Only what is missing is run again.
  with pytest.raises(ValueError, match="1 of 1 runs failed"):
    grid.train_cells(cells, "c", [], jobs=2)
