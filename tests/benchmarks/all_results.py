"""Measures all rows of the results pages again, and writes them down.

  python -m tests.benchmarks.all_results --workdir=runs/results \\
    --sources=FOLDER --jobs=2
  python -m tests.benchmarks.all_results --workdir=runs/results --collect

The first runs the commands of `tests.benchmarks.result_steps`: it builds the
data sets, trains and evaluates. `--list` shows the steps, what is done and how
long the rest took the last time; `--steps=dating,ctd-small` runs these alone
with what they need. A step that ended is not run again unless its command
changed; one that was interrupted resumes where its command does. Rows name the
commit they were measured on: run it in a clone that nobody edits.

The second writes `tests/results/*.json`, durations.tsv and the tables of the
pages. Rows that no page shows are left out. A result file is written when all
its steps are done, so that no page mixes versions; `--partial` replaces the
rows of the systems that are done.

Questions of the test split are asked here and nowhere else; settings are chosen
on validation before.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from ctd_jax.evaluation import result_tables, results
from ctd_jax.utils import files, output
from tests.benchmarks import cost_rows, result_steps
from tests.benchmarks.result_steps import Step

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT_FOLDER = ROOT / "tests" / "results"
DURATION_FILE = "durations.tsv"
# In the workdir, to the folders of source texts, of texts from outside, and of
# the two editions of all of 通鑑.
SOURCE_LINK, OUTSIDE_LINK, COMPLETE_LINK = "sources", "outside", "complete"
DURATION_FIELDS = ("step", "seconds", "processor_seconds", "cores", "commit")


@dataclasses.dataclass(frozen=True)
class Duration:
  """What a step cost.

  Attributes:
    command: that ran, with its folders.
    seconds: wall time.
    processor_seconds: of the command and its children, user and system.
    cores: that it was given.
    commit: of the code.
  """

  command: str
  seconds: float
  processor_seconds: float
  cores: int
  commit: str


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
      "sources": self.workdir / SOURCE_LINK,
      "outside": self.workdir / OUTSIDE_LINK,
      "complete": self.workdir / COMPLETE_LINK,
      "e5": self.workdir / "e5" / "folder",
    }
    command = step.command
    for name, folder in folders.items():
      command = command.replace(f"{{{name}}}", str(folder))
    return command

  def read_duration(self, step: Step) -> Duration | None:
    """Returns what a finished step cost; None if it has to be run."""
    path = self._state_path(step)
    if not path.exists():
      return None
    duration = Duration(**json.loads(path.read_text(encoding="utf-8")))
    is_current = duration.command == self.fill_command(step)
    return duration if is_current else None

  def run_step(self, step: Step, cores: Sequence[int]) -> bool:
    """Runs a step on some cores; returns whether it succeeded.

    Its output is added to logs/STEP.txt of the workdir.
    """
    command = self.fill_command(step)
    (self.workdir / "logs").mkdir(parents=True, exist_ok=True)
    (self.workdir / step.name).mkdir(exist_ok=True)
    num_threads = str(len(cores))
    environment = os.environ | {
      "OMP_NUM_THREADS": num_threads,
      "OPENBLAS_NUM_THREADS": num_threads,
      # `python` of the commands is the one that runs this.
      "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    start_time = time.time()
    with self.log_path(step).open("a", encoding="utf-8") as log:
      print(f"$ {command}", file=log, flush=True)
      process = subprocess.Popen(
        ["bash", "-c", command],
        env=environment,
        stdout=log,
        stderr=log,
      )
      os.sched_setaffinity(process.pid, cores)
      # Its processor time and that of all processes that it waited for.
      _, status, usage = os.wait4(process.pid, 0)
      process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
      return False
    duration = Duration(
      command,
      round(time.time() - start_time, 1),
      round(usage.ru_utime + usage.ru_stime, 1),
      len(cores),
      files.code_commit(),
    )
    self._state_path(step).parent.mkdir(exist_ok=True)
    files.write_text(
      self._state_path(step), json.dumps(dataclasses.asdict(duration)) + "\n"
    )
    return True

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
    depth = len(self.workdir.parts)
    root = f"{self.workdir.resolve().parents[depth - 1]}/"
    rows = [
      dataclasses.replace(row, command=row.command.replace(root, ""))
      for path in paths
      for row in results.read_result_rows(path)
      if row.system in step.systems and row.split in ("test", cost_rows.ALL)
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
    return self.workdir / "done" / f"{step.name}.json"


def select_steps(steps: Sequence[Step], names: Sequence[str]) -> list[Step]:
  """Returns the named steps and what they need, in the order of the plan.

  Args:
    steps: of the plan.
    names: of steps; all if empty.

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


def run_steps(run: ResultRun, jobs: int) -> list[Step]:
  """Runs what is not done, `jobs` at a time; returns the steps that failed.

  A step waits for those that it needs; what needs a failed one is not run.
  """
  cores = sorted(os.sched_getaffinity(0))
  core_shares = [cores[job::jobs] or cores for job in range(jobs)]
  waiting = [step for step in run.steps.values() if not run.read_duration(step)]
  running: dict[concurrent.futures.Future, tuple[Step, list[int]]] = {}
  failed: list[Step] = []
  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    while True:
      for step in [*waiting] if core_shares else ():
        unmet = [name for name in step.needs if name in run.steps]
        if core_shares and all(
          run.read_duration(run.steps[name]) for name in unmet
        ):
          waiting.remove(step)
          share = core_shares.pop()
          print(f"{_clock()}  {step.name}: started", flush=True)
          running[pool.submit(run.run_step, step, share)] = step, share
      if not running:
        break
      ended, _ = concurrent.futures.wait(
        running, return_when=concurrent.futures.FIRST_COMPLETED
      )
      for future in ended:
        step, share = running.pop(future)
        core_shares.append(share)
        if future.result():
          seconds = run.read_duration(step).seconds
          print(f"{_clock()}  {step.name}: {seconds:,.0f} s", flush=True)
        else:
          failed.append(step)
          print(f"{_clock()}  {step.name}: failed, see {run.log_path(step)}")
  return failed + waiting


def collect_rows(
  run: ResultRun, folder: pathlib.Path, partial: bool
) -> dict[str, list[str]]:
  """Writes the rows of finished steps; returns file stem -> steps that lack.

  A file is written from its steps alone once all are done. With `partial` the
  rows of the systems that are done replace theirs, on whatever version of the
  data set, and the others stay.

  Args:
    run: whose rows are read; it holds the whole plan.
    folder: of the result files.
    partial: see above.
  """
  steps_by_target: dict[str, list[Step]] = {}
  for step in run.steps.values():
    if step.target:
      steps_by_target.setdefault(step.target, []).append(step)
  lacking = {}
  for target, steps in steps_by_target.items():
    undone = [step.name for step in steps if not run.read_duration(step)]
    if undone:
      lacking[target] = undone
    if len(undone) == len(steps) or (undone and not partial):
      continue
    rows = [
      row
      for step in steps
      if step.name not in undone
      for row in run.read_rows(step)
    ]
    path = folder / f"{target}.json"
    if undone and path.exists():
      rows = _merge_rows(results.read_result_rows(path), rows)
    results.write_result_rows(path, rows)
  return lacking


def drop_hidden_rows(
  pages: Sequence[pathlib.Path], folder: pathlib.Path
) -> None:
  """Leaves the rows that a page shows; published ones all stay."""
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
    if step.comparisons and run.read_duration(step):
      rows += results.read_comparison_rows(
        run.workdir / step.name / step.comparisons
      )
  groups = {row.group for row in rows}
  if path.exists():
    old_rows = results.read_comparison_rows(path)
    rows = [row for row in old_rows if row.group not in groups] + rows
  if rows:
    results.write_comparison_rows(path, rows)


def _merge_rows(
  old_rows: Sequence[results.ResultRow], rows: Sequence[results.ResultRow]
) -> list[results.ResultRow]:
  """Returns `rows`, and the old rows of other systems."""

  def identify(row: results.ResultRow) -> tuple[str, str, str]:
    return row.dataset.partition(":")[0], row.system, row.track

  replaced = {identify(row) for row in rows}
  return [row for row in old_rows if identify(row) not in replaced] + list(rows)


def write_durations(run: ResultRun, path: pathlib.Path) -> None:
  """Adds what finished steps cost to the table of durations."""
  durations = read_durations(path) if path.exists() else {}
  for name, step in run.steps.items():
    duration = run.read_duration(step)
    if duration:
      durations[name] = (
        f"{duration.seconds:.0f}",
        f"{duration.processor_seconds:.0f}",
        str(duration.cores),
        duration.commit,
      )
  if not durations:
    return
  lines = [(name, *cells) for name, cells in durations.items()]
  files.write_text(path, output.format_delimited(DURATION_FIELDS, lines))


def read_durations(path: pathlib.Path) -> dict[str, tuple[str, ...]]:
  """Returns step -> its other `DURATION_FIELDS`, of an earlier run."""
  lines = files.read_text(path).splitlines()[1:]
  return {
    name: tuple(cells) for name, *cells in (line.split("\t") for line in lines)
  }


def format_steps(
  run: ResultRun, durations: Mapping[str, tuple[str, ...]]
) -> str:
  """Returns the plan as a table, with an estimate of what is left.

  Args:
    run: whose steps are listed.
    durations: of an earlier run, from `read_durations`.
  """
  lines, seconds_left, num_unknown = [], 0.0, 0
  for name, step in run.steps.items():
    duration = run.read_duration(step)
    earlier = durations.get(name)
    if duration:
      state, cost = "done", f"{duration.seconds:,.0f}"
    elif earlier:
      state, cost = "to do", f"{float(earlier[0]):,.0f}"
      seconds_left += float(earlier[0])
    else:
      state, cost = "to do", "?"
      num_unknown += 1
    lines.append((name, state, cost, step.target, " ".join(step.needs)))
  table = output.format_table(
    f"steps in {run.workdir}",
    ("step", "state", "seconds", "rows in", "needs"),
    lines,
  )
  left = f"left: {seconds_left / 3600:.1f} hours, one step at a time"
  if num_unknown:
    left += f", and {num_unknown} steps that were never timed"
  return f"{table}\n{left}"


def _link_folder(workdir: pathlib.Path, name: str, folder: str) -> None:
  """Makes texts a folder of the workdir, as the commands name it."""
  target = pathlib.Path(folder).expanduser().resolve()
  if not target.is_dir():
    sys.exit(f"error: --{name}={folder}: no such folder")
  link = workdir / name
  workdir.mkdir(parents=True, exist_ok=True)
  link.unlink(missing_ok=True)
  link.symlink_to(target, target_is_directory=True)


def _clock() -> str:
  return time.strftime("%H:%M:%S")


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--workdir", required=True, help="folder of all steps")
  parser.add_argument("--sources", default="", help="folder of source texts")
  parser.add_argument(
    "--outside", default="", help="folder of texts and calendars from outside"
  )
  parser.add_argument(
    "--complete",
    default="",
    help="folder of kanripo/KR2b0007 and NiuTrans/Classical-Modern",
  )
  parser.add_argument("--steps", default="", help="e.g. dating,ctd-small")
  parser.add_argument("--jobs", type=int, default=1, help="steps at a time")
  parser.add_argument("--list", action="store_true", help="show, run nothing")
  parser.add_argument(
    "--collect", action="store_true", help="write the rows, run nothing"
  )
  parser.add_argument("--partial", action="store_true", help="see above")
  return parser.parse_args()


def main() -> None:
  """Runs the steps, or writes down what they measured."""
  flags = read_flags()
  workdir = pathlib.Path(flags.workdir)
  has_complete = bool(flags.complete) or (workdir / COMPLETE_LINK).exists()
  plan = [
    step
    for step in result_steps.make_steps()
    if has_complete or "{complete}" not in step.command
  ]
  if workdir.is_absolute() or pathlib.Path.cwd() != ROOT:
    # Rows and logs name commands that hold in every checkout.
    sys.exit("error: --workdir: a relative path, at the root of the checkout")
  whole_run = ResultRun(workdir, plan)
  names = [name for name in flags.steps.split(",") if name]
  try:
    run = ResultRun(workdir, select_steps(plan, names))
  except ValueError as error:
    sys.exit(f"error: {error}")
  duration_path = RESULT_FOLDER / DURATION_FILE
  durations = read_durations(duration_path) if duration_path.exists() else {}
  if flags.list:
    print(format_steps(run, durations))
    return
  if flags.collect:
    _collect(whole_run, flags.partial)
    return
  if flags.jobs < 1:
    sys.exit(f"error: --jobs={flags.jobs}: expected 1 or more")
  if not flags.sources:
    sys.exit("error: --sources: name the folder of the source texts")
  if files.code_commit().endswith("-dirty"):
    sys.exit("error: rows name a commit; commit or use a clean clone")
  _link_folder(workdir, SOURCE_LINK, flags.sources)
  if any("{outside}" in step.command for step in run.steps.values()):
    if not flags.outside:
      sys.exit("error: --outside: name the folder of texts from outside")
    _link_folder(workdir, OUTSIDE_LINK, flags.outside)
  if flags.complete:
    _link_folder(workdir, COMPLETE_LINK, flags.complete)
  undone = run_steps(run, flags.jobs)
  if undone:
    sys.exit(
      "error: failed, or needs what failed: "
      + ", ".join(step.name for step in undone)
    )


def _collect(run: ResultRun, partial: bool) -> None:
  """Writes the rows, the durations and the pages."""
  lacking = collect_rows(run, RESULT_FOLDER, partial)
  pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
  drop_hidden_rows(pages, RESULT_FOLDER)
  collect_comparisons(run, RESULT_FOLDER / results.COMPARISON_FILE)
  write_durations(run, RESULT_FOLDER / DURATION_FILE)
  for path in result_tables.renew_tables(pages):
    print(f"{path.relative_to(ROOT)}: tables made anew")
  for target, undone in lacking.items():
    print(f"{target}.json: not measured again: {', '.join(undone)}")


if __name__ == "__main__":
  main()
