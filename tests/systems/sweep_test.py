"""Sweeps: values, cells, choice by validation, queries of the test asked."""

import csv
import pathlib
import sys

import pytest
from absl import flags
from ml_collections import config_flags

from ctd_jax import ablate
from ctd_jax.systems import grid_tables, sweep
from ctd_jax.training import grid
from ctd_jax.utils import command_line
from ctd_jax_datasets import load
from tests.evaluation.ablate_test import BENCHMARK, write_cell

CONFIG = str(pathlib.Path(__file__).parents[2] / "configs" / "tiny.py")
MODE = "neg1_ne1_dq0"
RATE = "optimizer.learning_rate"
LOW, HIGH = f"{RATE}=0.0003", f"{RATE}=0.001"


def test_flags_become_fields_with_values():
  assert sweep.parse_grid(
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
    sweep.parse_grid(texts)


def test_values_have_the_types_of_the_config():
  assert sweep.read_values(
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
    sweep.read_values({field: values}, CONFIG, [])


def test_every_combination_is_a_cell_named_by_its_values(tmp_path):
  values = {RATE: ["0.001", "0.0003"], "model.encoder.source": ["/a b/c:d"]}
  cells = grid.make_grid(["ft", ""], [1, 2], tmp_path, values)
  assert len(cells) == 2 * 2 * 2
  name = "optimizer.learning_rate=0.001,model.encoder.source=-a-b-c-d"
  assert cells[0].folder == tmp_path / "ft" / name / "seed-1"
  assert cells[0].system == f"ft,{name}"
  assert cells[2].folder == tmp_path / name / "seed-1"
  assert cells[2].system == name
  command = cells[0].train_command("c.py", ["--config.batch_size=4"], ["test"])
  assert command[3] == "--config=c.py:ft"
  assert command[5:] == [
    "--config.batch_size=4",
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
    grid.make_grid(["ft"], [1], tmp_path, {"name": ["a b", "a:b"]})


def test_a_cell_that_cannot_be_trained_is_refused_before_any(tmp_path):
  cells = grid.make_grid(["ft"], [1], tmp_path, {"batch_size": ["8", "0"]})
  with pytest.raises(ValueError, match="ft,batch_size=0: config.batch_size=0"):
    sweep.check_cells(cells, CONFIG, [])
  cells = grid.make_grid(["ft", "nope"], [1], tmp_path)
  with pytest.raises(ValueError, match="nope: unknown method"):
    sweep.check_cells(cells, CONFIG, [])


def test_rivals_share_the_values():
  methods = ["ft,a=1", "ft,a=2", "multi,a=1", "multi-release,a=1", "a=1e-05"]
  assert grid_tables.find_rivals("multi,a=1", methods) == ["ft,a=1"]
  assert grid_tables.find_rivals("multi-release,a=1", methods) == ["multi,a=1"]
  assert grid_tables.find_rivals("a=1e-05", methods) == []


class Runs:
  """Stands in for the processes of cells; answers a share of the queries."""

  def __init__(self, monkeypatch, fails: str = "nothing"):
    self.commands: list[list[str]] = []
    self._fails = fails
    monkeypatch.setattr(grid, "_run_commands", self)

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
  values = parse_flags(argv)
  monkeypatch.setattr(flags, "FLAGS", values)
  for name in ("CONFIG", "WORKDIR"):
    monkeypatch.setattr(command_line, name, values[name.lower()])
  ablate.main()


def parse_flags(argv: list[str]) -> flags.FlagValues:
  """Returns the flags of the command, apart from those of this process."""
  values = flags.FlagValues()
  config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=argv)
  flags.DEFINE_string("workdir", None, "", flag_values=values)
  ablate.define_flags(values)
  values(argv)
  return values


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
  best, other = (
    next(line for line in text.splitlines() if line.startswith(f"ft      {v}"))
    for v in ("0.0003", "0.001")
  )
  assert best.endswith("best")
  assert "best" not in other
  assert float(best.split()[2]) > float(other.split()[2])
  assert (tmp_path / "results.json").exists()
  with (tmp_path / sweep.SWEEP_FILE).open() as file:
    rows = list(csv.DictReader(file, delimiter="\t"))
  assert [(r["optimizer.learning_rate"], r["seed"]) for r in rows] == [
    ("0.0003", "1"), ("0.0003", "2"), ("0.001", "1"), ("0.001", "2"),
  ]  # fmt: skip
  # The same again trains and evaluates nothing.
  run_ablate(monkeypatch, tmp_path, "--seeds=1,2", "--collect")
  assert len(processes.commands) == 6


@pytest.mark.parametrize(
  ("split", "tested"), [("test", [LOW, HIGH]), ("validation", [])]
)
def test_who_asks_gets_the_test_of_all_or_of_none(
  monkeypatch, tmp_path, split, tested
):
  Runs(monkeypatch)
  run_ablate(monkeypatch, tmp_path)
  if split == "validation":
    run_ablate(monkeypatch, tmp_path / "new", f"--split={split}")
    assert count_runs(tmp_path / "new", "test") == tested
  else:
    run_ablate(monkeypatch, tmp_path, f"--split={split}")
    assert count_runs(tmp_path, "test") == tested


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
  (cell,) = grid.make_grid(["ft"], [42], tmp_path, {RATE: ["0.0003"]})
  (cell.folder / "evaluation").mkdir(parents=True)
  write_cell(cell, 1.0, "validation")
  run_ablate(monkeypatch, tmp_path, "--cell=1")
  assert len(calls) == 1  # it is finished
  with pytest.raises(ValueError, match="--cell=2: the grid has cells 0 to 1"):
    run_ablate(monkeypatch, tmp_path, "--cell=2")
