"""Measures all rows of the results pages again, and writes them down.

  python -m tests.benchmarks.all_results --workdir=runs/results \\
    --sources=FOLDER
  python -m tests.benchmarks.all_results --workdir=runs/results --collect

The first runs the commands of `result_steps.toml`: it builds the data sets,
trains and evaluates. `--steps=dating,ctd-small` runs these alone with what
they need. A step that ended is not run again unless its command changed; one
that was interrupted resumes where its command does. Rows name the commit they
were measured on: run it in a clone that nobody edits.

The second writes `tests/results/*.json` and the tables of the pages. Rows that
no page shows are left out. A result file is written when all its steps are
done, so that no page mixes versions.

Questions of the test split are asked here and nowhere else; settings are chosen
on validation before.
"""

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence

from ctd_jax.evaluation import result_tables, results
from ctd_jax.utils import files

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT_FOLDER = ROOT / "tests" / "results"
PLAN_FILE = pathlib.Path(__file__).with_name("result_steps.toml")
# In the workdir, to the folders of source texts, of texts from outside, and of
# the two editions of all of 通鑑.
LINKS = ("sources", "outside", "complete", "books")


@dataclasses.dataclass(frozen=True)
class Step:
  """One command and the rows it makes; the plan explains its fields."""

  name: str
  command: str
  target: str = ""
  systems: tuple[str, ...] = ()
  needs: tuple[str, ...] = ()
  rows: str = "evaluation/results.json"
  comparisons: str = ""


def read_plan() -> list[Step]:
  """Returns all steps; each comes after the steps it needs."""
  plan = tomllib.loads(files.read_text(PLAN_FILE))
  return [Step(name, **fields) for name, fields in plan.items()]


class ResultRun:
  """Steps in one workdir: what they are called there, what is done.

  Attributes:
    workdir: of all steps, below the working directory.
    steps: name -> step, in the order of the plan.
  """

  def __init__(self, workdir: pathlib.Path, steps: Sequence[Step]):
    self.workdir = workdir
    self.steps = {step.name: step for step in steps}

  def fill_command(self, step: Step) -> str:
    """Returns the command of a step with its folders."""
    folders = {
      "workdir": self.workdir / step.name,
      "runs": self.workdir,
      "data": self.workdir / "data",
      "e5": self.workdir / "e5" / "folder",
      **{name: self.workdir / name for name in LINKS},
    }
    command = step.command.strip()
    for name, folder in folders.items():
      command = command.replace(f"{{{name}}}", str(folder))
    return command

  def is_done(self, step: Step) -> bool:
    """Returns whether a step has ended with its present command."""
    path = self._state_path(step)
    return path.exists() and files.read_text(path) == self.fill_command(step)

  def run_step(self, step: Step) -> bool:
    """Runs a step, its output to its log; returns whether it succeeded."""
    command = self.fill_command(step)
    (self.workdir / step.name).mkdir(parents=True, exist_ok=True)
    self.log_path(step).parent.mkdir(exist_ok=True)
    # `python` of the commands is the one that runs this.
    folder = pathlib.Path(sys.executable).parent
    with self.log_path(step).open("a", encoding="utf-8") as log:
      print(f"$ {command}", file=log, flush=True)
      status = subprocess.run(
        ["bash", "-c", command],
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
        stdout=log,
        stderr=log,
        check=False,
      ).returncode
    if not status:
      files.write_text(self._state_path(step), command)
    return not status

  def read_rows(self, step: Step) -> list[results.ResultRow]:
    """Returns the rows of the systems of a finished step, of test alone.

    Rows of what a command costs are of no split.

    Raises:
      FileNotFoundError: if the step wrote no file of rows.
      ValueError: if a system has no row in it.
    """
    paths = sorted((self.workdir / step.name).glob(step.rows))
    if not paths:
      raise FileNotFoundError(
        f"step {step.name}: no {step.rows} in {self.workdir / step.name}; "
        f"remove {self._state_path(step)} and run it again"
      )
    # Commands are named from the root of the checkout that they ran in.
    root = f"{pathlib.Path.cwd()}/"
    rows = [
      dataclasses.replace(row, command=row.command.replace(root, ""))
      for path in paths
      for row in results.read_result_rows(path)
      if row.system in step.systems and row.split in ("test", "all")
    ]
    missing = set(step.systems) - {row.system for row in rows}
    if missing:
      raise ValueError(
        f"step {step.name}: {paths[0]} has no test row of {min(missing)}"
      )
    return rows

  def log_path(self, step: Step) -> pathlib.Path:
    """Returns where the output of a step goes."""
    return self.workdir / "logs" / f"{step.name}.txt"

  def _state_path(self, step: Step) -> pathlib.Path:
    return self.workdir / "done" / f"{step.name}.txt"


def select_steps(steps: Sequence[Step], names: Sequence[str]) -> list[Step]:
  """Returns the named steps and what they need; all steps if none is named.

  Raises:
    ValueError: naming a step that does not exist.
  """
  by_name = {step.name: step for step in steps}
  unknown = sorted(set(names) - by_name.keys())
  if unknown:
    raise ValueError(
      f"--steps: no step {unknown[0]!r}; there are {', '.join(by_name)}"
    )
  pending, selected = list(names or by_name), set()
  while pending:
    name = pending.pop()
    if name not in selected:
      selected.add(name)
      pending += by_name[name].needs
  return [step for step in steps if step.name in selected]


def run_steps(run: ResultRun) -> list[Step]:
  """Runs what is not done; returns the steps that failed or were not run.

  What needs a failed step is not run.
  """
  undone: dict[str, Step] = {}
  for name, step in run.steps.items():
    if run.is_done(step):
      continue
    start = time.monotonic()
    if not undone.keys().isdisjoint(step.needs):
      undone[name] = step
    elif run.run_step(step):
      print(f"{name}: {time.monotonic() - start:,.0f} s", flush=True)
    else:
      undone[name] = step
      print(f"{name}: failed, see {run.log_path(step)}", flush=True)
  return [*undone.values()]


def collect_rows(run: ResultRun, folder: pathlib.Path) -> dict[str, list[str]]:
  """Writes the rows of finished steps; returns file stem -> unfinished steps.

  A file is written once all its steps are done.

  Args:
    run: whose rows are read; it holds the whole plan.
    folder: of the result files.
  """
  steps_by_target: dict[str, list[Step]] = {}
  for step in run.steps.values():
    if step.target:
      steps_by_target.setdefault(step.target, []).append(step)
  lacking = {}
  for target, steps in steps_by_target.items():
    if undone := [step.name for step in steps if not run.is_done(step)]:
      lacking[target] = undone
      continue
    rows = [row for step in steps for row in run.read_rows(step)]
    results.write_result_rows(folder / f"{target}.json", rows)
  return lacking


def drop_hidden_rows(
  pages: Sequence[pathlib.Path], folder: pathlib.Path
) -> None:
  """Removes the rows that no page shows; published rows all stay."""
  texts = [files.read_text(path) for path in pages]
  rows = results.read_result_folder(folder)
  shown = set(result_tables.select_shown_rows(texts, rows))
  for path in sorted(folder.glob("*.json")):
    if not path.name.startswith("published_"):
      rows = results.read_result_rows(path)
      results.write_result_rows(
        path,
        [
          row
          for row in rows
          if results.FiledRow(**vars(row), file=path.stem) in shown
        ],
      )


def collect_comparisons(run: ResultRun, path: pathlib.Path) -> None:
  """Writes the paired tests of finished steps; other groups stay.

  Args:
    run: whose tests are read; it holds the whole plan.
    path: TSV file of all tests.
  """
  rows = []
  for step in run.steps.values():
    if step.comparisons and run.is_done(step):
      rows += results.read_comparison_rows(
        run.workdir / step.name / step.comparisons
      )
  groups = {row.group for row in rows}
  if path.exists():
    old_rows = results.read_comparison_rows(path)
    rows = [row for row in old_rows if row.group not in groups] + rows
  if rows:
    results.write_comparison_rows(path, rows)


def _link_folders(workdir: pathlib.Path, folders: Mapping[str, str]) -> None:
  """Links the folders of texts into the workdir, as the commands name them."""
  workdir.mkdir(parents=True, exist_ok=True)
  for name, folder in folders.items():
    target = pathlib.Path(folder).expanduser().resolve()
    if not target.is_dir():
      sys.exit(f"error: --{name}={folder}: no such folder")
    link = workdir / name
    link.unlink(missing_ok=True)
    link.symlink_to(target, target_is_directory=True)


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--workdir", required=True, help="folder of all steps")
  parser.add_argument("--sources", help="folder of source texts")
  parser.add_argument(
    "--outside", help="folder of texts and calendars from outside"
  )
  parser.add_argument(
    "--complete",
    help="folder of kanripo/KR2b0007 and NiuTrans/Classical-Modern",
  )
  parser.add_argument("--books", help="folder of published books")
  parser.add_argument("--steps", default="", help="e.g. dating,ctd-small")
  parser.add_argument(
    "--collect", action="store_true", help="write the rows, run nothing"
  )
  return parser.parse_args()


def main() -> None:
  """Runs the steps, or writes down what they measured."""
  flags = read_flags()
  workdir = pathlib.Path(flags.workdir)
  if workdir.is_absolute() or pathlib.Path.cwd() != ROOT:
    # Rows and logs name commands that hold in every checkout.
    sys.exit("error: --workdir: a relative path, at the root of the checkout")
  given = {name: getattr(flags, name) for name in LINKS if getattr(flags, name)}
  lacking = [
    f"{{{name}}}"
    for name in ("complete", "books")
    if name not in given and not (workdir / name).exists()
  ]
  plan = [
    step
    for step in read_plan()
    if not any(name in step.command for name in lacking)
  ]
  if flags.collect:
    _collect(ResultRun(workdir, plan))
    return
  try:
    steps = select_steps(plan, [*filter(None, flags.steps.split(","))])
  except ValueError as error:
    sys.exit(f"error: {error}")
  run = ResultRun(workdir, steps)
  for name in ("sources", "outside"):
    if name not in given and any(f"{{{name}}}" in s.command for s in steps):
      sys.exit(f"error: --{name}: name the folder")
  if files.code_commit().endswith("-dirty"):
    sys.exit("error: rows name a commit; commit or use a clean clone")
  _link_folders(workdir, given)
  if undone := run_steps(run):
    sys.exit(
      "error: failed, or needs what failed: "
      + ", ".join(step.name for step in undone)
    )


def _collect(run: ResultRun) -> None:
  """Writes the rows and the pages."""
  lacking = collect_rows(run, RESULT_FOLDER)
  pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
  drop_hidden_rows(pages, RESULT_FOLDER)
  collect_comparisons(run, RESULT_FOLDER / results.COMPARISON_FILE)
  for path in result_tables.renew_tables(pages):
    print(f"{path.relative_to(ROOT)}: tables updated")
  for target, undone in lacking.items():
    print(f"{target}.json: not measured again: {', '.join(undone)}")


if __name__ == "__main__":
  main()
