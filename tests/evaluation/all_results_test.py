"""Tests of the plan of all measured rows, and of what runs and collects it."""

import json
import pathlib
import re

import pytest

from ctd_jax.evaluation import results
from tests.benchmarks import all_results
from tests.benchmarks.all_results import Step

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = {
  "track": "T0",
  "score_mode": "lexical",
  "split": "test",
  "mode": "neg1_ne1_dq0",
  "family": "all",
  "metric": "hit@1",
}


def run_step(step: Step) -> list[results.ResultRow]:
  run = all_results.ResultRun(pathlib.Path("runs"), [step])
  all_results.run_steps(run)
  return run.read_rows(step)


def make_step(
  name: str, value: float = 0.5, split: str = "test", command: str = ""
) -> Step:
  """Returns a step whose command writes one row."""
  fields = {"dataset": "chunqiutr/mini:3.0.0", "system": name, "value": value}
  row = json.dumps([{**ROW, **fields, "command": command, "split": split}])
  write = f"echo '{row}' > {{workdir}}/rows.json"
  return Step(name, write, "rows", (name,), rows="rows.json")


@pytest.fixture
def workdir(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  return pathlib.Path("runs")


def test_steps_run_after_what_they_need_and_once(workdir):
  log = "echo {workdir} >> order.txt"
  steps = [Step("first", log), Step("second", log, needs=("first",))]
  run = all_results.ResultRun(workdir, steps)
  assert all_results.run_steps(run) == []
  assert all_results.run_steps(run) == []
  order = pathlib.Path("order.txt").read_text().split()
  assert order == ["runs/first", "runs/second"]


def test_a_step_with_another_command_runs_again(workdir):
  for number in (1, 2):
    step = Step("step", f"echo {number} >> ran.txt")
    run = all_results.ResultRun(workdir, [step])
    assert not run.is_done(step)
    assert all_results.run_steps(run) == []
  assert pathlib.Path("ran.txt").read_text().split() == ["1", "2"]


def test_what_needs_a_failed_step_is_not_run(workdir, capsys):
  steps = [
    Step("broken", "echo reason; false"),
    Step("after", "touch after.txt", needs=("broken",)),
    Step("other", "touch other.txt"),
  ]
  run = all_results.ResultRun(workdir, steps)
  undone = all_results.run_steps(run)
  assert [step.name for step in undone] == ["broken", "after"]
  assert not pathlib.Path("after.txt").exists()
  assert pathlib.Path("other.txt").exists()
  assert "broken: failed, see runs/logs/broken.txt" in capsys.readouterr().out
  assert "reason" in run.log_path(steps[0]).read_text()


def test_a_file_waits_for_all_its_steps(workdir, tmp_path):
  folder = tmp_path / "results"
  old_rows = [
    results.ResultRow(
      **ROW, dataset="chunqiutr/mini:2.0.0", system=system, value=0.25
    )
    for system in ("one", "two")
  ]
  folder.mkdir()
  results.write_result_rows(folder / "rows.json", old_rows)
  steps = [make_step("one"), make_step("two")]
  run = all_results.ResultRun(workdir, steps)

  def values():
    rows = results.read_result_rows(folder / "rows.json")
    return [(row.system, row.value) for row in rows]

  all_results.run_steps(all_results.ResultRun(workdir, steps[:1]))
  lacking = all_results.collect_rows(run, folder)
  assert lacking == {"rows": ["two"]}
  assert values() == [("one", 0.25), ("two", 0.25)]
  all_results.run_steps(run)
  assert all_results.collect_rows(run, folder) == {}
  assert values() == [("one", 0.5), ("two", 0.5)]


@pytest.mark.usefixtures("workdir")
def test_a_system_without_a_test_row_is_an_error():
  with pytest.raises(ValueError, match="step one: .* has no test row of one"):
    run_step(make_step("one", split="validation"))


@pytest.mark.usefixtures("workdir")
def test_what_a_command_costs_is_of_no_split():
  (row,) = run_step(make_step("one", split="all"))
  assert row.split == "all"


@pytest.mark.usefixtures("workdir")
def test_commands_are_named_from_where_they_ran():
  command = f"{pathlib.Path.cwd()}/a.py --workdir=runs"
  (row,) = run_step(make_step("one", command=command))
  assert row.command == "a.py --workdir=runs"


def test_named_steps_bring_what_they_need():
  steps = all_results.read_plan()
  selected = all_results.select_steps(steps, ["zztj-ctd-e5-small"])
  assert [step.name for step in selected] == [
    "data",
    "e5",
    "ctd-e5-small",
    "zztj-ctd-e5-small",
  ]
  with pytest.raises(ValueError, match="no step 'nothing'; there are data, "):
    all_results.select_steps(steps, ["nothing"])


def test_plan_measures_every_system_of_the_pages():
  pages = [ROOT / "README.md", *(ROOT / "docs" / "results").glob("*.md")]
  shown = {
    system
    for page in pages
    for marker in re.findall(r"<!-- table:\S+ .*? -->", page.read_text())
    if 'source=""' in marker
    for systems in re.findall(r"system=(\S+)", marker)
    for system in systems.split(",")
  }
  assert len(shown) > 30
  planned = {name for step in all_results.read_plan() for name in step.systems}
  assert shown <= planned


def test_rows_that_no_page_shows_are_dropped(tmp_path):
  rows = [
    results.ResultRow(**{**ROW, "dataset": "d", "system": name, "value": 0.5})
    for name in ("shown", "hidden")
  ]
  for name in ("rows", "published_table1"):
    results.write_result_rows(tmp_path / f"{name}.json", rows)
  page = tmp_path / "page.md"
  page.write_text(
    "<!-- table:official dataset=d system=shown -->\n<!-- end -->\n"
  )
  all_results.drop_hidden_rows([page], tmp_path)
  assert results.read_result_rows(tmp_path / "rows.json") == rows[:1]
  assert results.read_result_rows(tmp_path / "published_table1.json") == rows
