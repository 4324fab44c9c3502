"""Grids and sweeps: which runs, which are chosen and compared, which tables."""

import csv
import json
import pathlib
import re
import sys

import numpy as np
import pytest
from absl import flags
from ml_collections import config_flags

from ctd_jax import ablate
from ctd_jax.benchmark import runs
from ctd_jax.evaluation import protocol, results, summary
from ctd_jax.experiments import grid
from ctd_jax.training.run_folder import EVALUATION_FOLDER
from ctd_jax.utils import command_line
from ctd_jax_datasets import load
from tests import synthetic

BENCHMARK = synthetic.benchmark()
CONFIG = str(pathlib.Path(__file__).parents[2] / "configs" / "tiny.py")
RATE = "optimizer.learning_rate"
LOW, HIGH = f"{RATE}=0.0003", f"{RATE}=0.001"


def make_grid(cells, config="c.py", overrides=(), jobs=1) -> grid.Grid:
  return grid.Grid(cells, config, overrides, pathlib.Path(), jobs)


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
  cells = grid.make_cells(["ft", "multi", "multi-release"], [1, 2], tmp_path)
  assert [(c.method, c.seed) for c in cells[:4]] == [
    ("ft", 1), ("multi", 1), ("multi-release", 1), ("ft", 2),
  ]  # fmt: skip
  for cell in cells:
    assert not cell.is_finished
    write_cell(cell, right=0.0 if cell.method == "ft" else 1.0)
    assert cell.is_finished
  text = grid.summarise_grid(cells, BENCHMARK, "test", tmp_path)
  rows = results.read_result_rows(tmp_path / "results.json")
  rows = results.select_rows(
    rows, mode=protocol.OFFICIAL_MODE, family="all", metric="hit@1"
  )
  assert {row.system: (row.value, row.seeds, row.seconds) for row in rows} == {
    "ft": (0, (1, 2), 3.0),
    "multi": (1, (1, 2), 3.0),
    "multi-release": (1, (1, 2), 3.0),
  }
  assert "  ft             0.0000  0.0000\n" in text
  assert (tmp_path / "results.txt").read_text() == text
  assert text.count("better") == 2 * 2  # modes
  rows = results.read_comparison_rows(tmp_path / "comparisons.tsv")
  assert [(row.mode, row.system, row.other_system) for row in rows] == [
    (mode, *pair)
    for mode in (protocol.OFFICIAL_MODE, protocol.EVENT_ONLY_MODE)
    for pair in (("multi", "ft"), ("multi-release", "multi"))
  ]
  assert rows[0].better == len(BENCHMARK.queries["test"])


METHODS = [
  "ft",
  "bias",
  "ctx",
  "ctd",
  "ft-release",
  "ctd-release",
  "ctd-no_starts",
]
VALUES = ["ft,a=1", "ft,a=2", "multi,a=1", "multi-release,a=1", "a=1e-05"]


@pytest.mark.parametrize(
  ("method", "methods", "rivals"),
  [
    ("ctd", METHODS, ["ft", "bias", "ctx"]),
    ("ctd-release", METHODS, ["ctd", "ft-release"]),
    ("ctd-no_starts", METHODS, ["ctd"]),
    ("ft", METHODS, []),
    ("multi,a=1", VALUES, ["ft,a=1"]),
    ("multi-release,a=1", VALUES, ["multi,a=1"]),
    ("a=1e-05", VALUES, []),
  ],
)
def test_rivals_are_what_a_method_builds_on(method, methods, rivals):
  assert grid.find_rivals(method, methods) == rivals


def test_options_of_the_config_are_told_from_those_of_the_command():
  argv = ["ablation.py", "--config", "configs/small.py", "--jobs=2"]
  overrides = ["--config.num_epochs=2", "--config.seed", "7"]
  found = command_line.list_config_overrides([*argv, *overrides, "--workdir=w"])
  assert found == overrides


def test_a_failed_run_is_named_and_the_others_go_on(tmp_path, monkeypatch):
  def command(self, module, cell, splits):
    del self, module, splits
    done = cell.folder / EVALUATION_FOLDER
    program = (
      "import pathlib, sys\n"
      f"if {cell.method == 'ft'}: sys.exit('error: no luck')\n"
      f"p = pathlib.Path({str(done)!r}); p.mkdir()\n"
      "(p / 'per_query.tsv').touch()"
    )
    return [sys.executable, "-c", program]

  monkeypatch.setattr(grid.Grid, "make_command", command)
  cells = grid.make_cells(["ft", "multi"], [1], tmp_path)
  with pytest.raises(ValueError, match=r"1 of 2 runs failed.*\n.*no luck"):
    make_grid(cells).train()
  assert [cell.is_finished for cell in cells] == [False, True]
  # Only what is missing is run again.
  with pytest.raises(ValueError, match="1 of 1 runs failed"):
    make_grid(cells, jobs=2).train()


def test_flags_become_fields_with_values():
  assert grid.parse_grid(
    ["optimizer.learning_rate=1e-4, 3e-4", "config.eval.baselines=(),('a','b')"]
  ) == {
    "optimizer.learning_rate": ["1e-4", "3e-4"],
    "eval.baselines": ["()", "('a','b')"],
  }


@pytest.mark.parametrize(
  "texts", [["batch_size"], ["batch_size="], ["=1"], ["a=1", "a=2"]]
)
def test_a_flag_without_field_or_value_is_refused(texts):
  with pytest.raises(ValueError, match="--grid="):
    grid.parse_grid(texts)


def test_values_have_the_types_of_the_config():
  assert grid.read_values(
    {
      "optimizer.learning_rate": ["1e-4", "3"],
      "batch_size": ["016"],
      "loss.multi_positive": ["false", "1"],
      "score_mode": ["ctd"],
    },
    f"{CONFIG}:ctd",
    ["--config.num_epochs=2"],
  ) == {
    "optimizer.learning_rate": ["0.0001", "3.0"],
    "batch_size": ["16"],
    "loss.multi_positive": ["False", "True"],
    "score_mode": ["ctd"],
  }


@pytest.mark.parametrize(
  ("field", "values", "message"),
  [
    ("optimizer.learning_rat", ["1"], "did you mean --grid=optimizer.learning"),
    ("batch_size", ["1e2"], "--grid=batch_size=1e2: .*invalid literal"),
    ("batch_size", ["8", "08"], "8 twice"),
    ("seed", ["1"], "give --seeds"),
    ("eval.mode", ["x"], "give --config.eval.mode"),
  ],
)
def test_what_cannot_be_swept_is_named(field, values, message):
  with pytest.raises(ValueError, match=message):
    grid.read_values({field: values}, CONFIG, [])


def test_every_combination_is_a_cell_named_by_its_values(tmp_path):
  values = {RATE: ["0.001", "0.0003"], "model.encoder.source": ["/a b/c:d"]}
  cells = grid.make_cells(["ft", ""], [1, 2], tmp_path, values)
  assert len(cells) == 2 * 2 * 2
  name = "optimizer.learning_rate=0.001,model.encoder.source=-a-b-c-d"
  assert cells[0].folder == tmp_path / "ft" / name / "seed-1"
  assert cells[0].system == f"ft,{name}"
  assert cells[2].folder == tmp_path / name / "seed-1"
  assert cells[2].system == name
  overrides = ["--config.batch_size=4", "--config.seed=7"]
  command = make_grid(cells, overrides=overrides).make_command(
    "ctd_jax.train", cells[0], ["test"]
  )
  assert command[3] == "--config=c.py:ft"
  # The seed of the grid comes last, so it counts.
  assert command[5:] == [
    *overrides,
    "--config.optimizer.learning_rate=0.001",
    "--config.model.encoder.source=/a b/c:d",
    "--config.seed=1",
    "--config.eval.splits=('test',)",
    f"--workdir={cells[0].folder}",
  ]
  # The command means what the grid says.
  config = command_line.read_config(CONFIG, cells[2].list_overrides()[:1])
  assert config.optimizer.learning_rate == 1e-3
  with pytest.raises(ValueError, match="two runs"):
    grid.make_cells(["ft"], [1], tmp_path, {"name": ["a b", "a:b"]})


def test_a_cell_that_cannot_be_trained_is_refused_before_any(tmp_path):
  cells = grid.make_cells(["ft"], [1], tmp_path, {"batch_size": ["8", "0"]})
  with pytest.raises(ValueError, match="ft,batch_size=0: config.batch_size=0"):
    make_grid(cells, CONFIG).check()
  cells = grid.make_cells(["ft", "nope"], [1], tmp_path)
  with pytest.raises(ValueError, match="nope: unknown method"):
    make_grid(cells, CONFIG).check()


class Runs:
  """Stands in for the processes of cells; answers a share of the queries."""

  def __init__(self, monkeypatch, fails: str = "nothing"):
    self.commands: list[list[str]] = []
    self._fails = fails
    monkeypatch.setattr(grid, "run_commands", self)

  def __call__(self, cells, commands, jobs):
    assert jobs == 1
    self.commands += commands
    for cell, command in zip(cells, commands, strict=True):
      if self._fails in str(cell.folder):
        continue
      (splits,) = (c for c in command if c.startswith("--config.eval.splits="))
      cell.folder.mkdir(parents=True, exist_ok=True)
      for split in ("validation", "test"):
        if split in splits:
          # The rate is read from its override, as a run would.
          rate = dict(cell.values)["optimizer.learning_rate"]
          write_cell(cell, 0.9 if rate == "0.0003" else 0.2, split)
    if any(self._fails in str(cell.folder) for cell in cells):
      raise ValueError("1 of 2 runs failed")


def run_ablate(monkeypatch, tmp_path, *arguments: str) -> None:
  """Runs the command as a shell would, on the synthetic benchmark."""
  monkeypatch.setattr(load, "build_benchmark", lambda *args: BENCHMARK)
  argv = ["ablate", f"--config={CONFIG}:ft", f"--workdir={tmp_path}"]
  argv += ["--grid=optimizer.learning_rate=1e-3,3e-4", *arguments]
  monkeypatch.setattr(sys, "argv", argv)
  values = flags.FlagValues()  # apart from those of this process
  config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=argv)
  flags.DEFINE_string("workdir", None, "", flag_values=values)
  ablate.define_flags(values)
  values(argv)
  monkeypatch.setattr(flags, "FLAGS", values)
  for name in ("CONFIG", "WORKDIR"):
    monkeypatch.setattr(command_line, name, values[name.lower()])
  ablate.main()


def count_runs(folder: pathlib.Path, split: str) -> list[str]:
  paths = folder.rglob(f"run.*.{split}.*.trec")
  return sorted({path.parents[2].name for path in paths})


def test_validation_chooses_and_the_test_is_asked_of_the_best(
  monkeypatch, tmp_path, capsys
):
  processes = Runs(monkeypatch)
  run_ablate(monkeypatch, tmp_path, "--seeds=1,2")
  assert count_runs(tmp_path, "validation") == [LOW, HIGH]
  assert count_runs(tmp_path, "test") == [LOW]
  assert len(processes.commands) == 4 + 2
  assert processes.commands[-1][2] == "ctd_jax.evaluate"
  text = capsys.readouterr().out
  (low,) = re.findall(r"^ft +0\.0003 +(\S+).*best$", text, re.M)
  ((high, rest),) = re.findall(r"^ft +0\.001 +(\S+)(.*)$", text, re.M)
  assert "best" not in rest
  assert float(low) > float(high)
  assert (tmp_path / "results.json").exists()
  with (tmp_path / grid.SWEEP_FILE).open() as file:
    rows = list(csv.DictReader(file, delimiter="\t"))
  assert [(r["optimizer.learning_rate"], r["seed"]) for r in rows] == [
    ("0.0003", "1"), ("0.0003", "2"), ("0.001", "1"), ("0.001", "2"),
  ]  # fmt: skip
  # The same again trains and evaluates nothing.
  run_ablate(monkeypatch, tmp_path, "--seeds=1,2", "--collect")
  assert len(processes.commands) == 6


def test_who_asks_gets_the_test_of_none_or_of_all(monkeypatch, tmp_path):
  Runs(monkeypatch)
  run_ablate(monkeypatch, tmp_path, "--split=validation")
  assert count_runs(tmp_path, "test") == []
  run_ablate(monkeypatch, tmp_path, "--split=test")
  assert count_runs(tmp_path, "test") == [LOW, HIGH]


def test_a_run_that_failed_is_left_out_and_still_an_error(
  monkeypatch, tmp_path, capsys
):
  Runs(monkeypatch, fails="=0.0003")
  with pytest.raises(ValueError, match="1 of 2 runs failed"):
    run_ablate(monkeypatch, tmp_path)
  text = capsys.readouterr().out
  assert "not finished" in text
  assert count_runs(tmp_path, "test") == [HIGH]
  with pytest.raises(ValueError, match="1 of 2 runs are not finished"):
    run_ablate(monkeypatch, tmp_path, "--collect")


def test_a_cell_is_trained_in_the_process_that_is_there(
  monkeypatch, tmp_path, capsys
):
  calls = []
  monkeypatch.setattr(ablate.os, "execv", lambda path, argv: calls.append(argv))
  run_ablate(monkeypatch, tmp_path, "--list")
  numbers = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
  assert [number for number, _ in numbers] == ["0", "1"]
  run_ablate(monkeypatch, tmp_path, "--cell=1")
  (command,) = calls
  assert command[-1] == f"--workdir={numbers[1][1]}"
  assert command[-2] == "--config.eval.splits=('validation',)"
  (cell,) = grid.make_cells(["ft"], [42], tmp_path, {RATE: ["0.0003"]})
  (cell.folder / "evaluation").mkdir(parents=True)
  write_cell(cell, 1.0, "validation")
  run_ablate(monkeypatch, tmp_path, "--cell=1")
  assert len(calls) == 1  # it is finished
  with pytest.raises(ValueError, match="--cell=2: the grid has cells 0 to 1"):
    run_ablate(monkeypatch, tmp_path, "--cell=2")
