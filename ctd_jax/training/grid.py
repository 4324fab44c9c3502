"""Grid of methods, values of fields and seeds; a cell is a run of its own."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

from absl import logging

from ctd_jax.training.run_folder import EVALUATION_FOLDER
from ctd_jax.utils import progress

# What cannot stand in the name of a system or of a folder.
_FORBIDDEN_IN_NAMES = re.compile(r"[\s:/\\]+")


@dataclasses.dataclass(frozen=True)
class GridCell:
  """One run of the grid.

  Attributes:
    method: method and variant, as after the colon of --config; "" = none.
    seed: of the run.
    folder: its workdir.
    values: pairs of a field and its value, as in an override.
  """

  method: str
  seed: int
  folder: pathlib.Path
  values: tuple[tuple[str, str], ...] = ()

  @property
  def system(self) -> str:
    """Name in tables, the same for all seeds."""
    return ",".join(filter(None, [self.method, _name_values(self.values)]))

  @property
  def is_finished(self) -> bool:
    """Whether the run files were written and evaluated."""
    return (self.folder / EVALUATION_FOLDER / "per_query.tsv").exists()

  def has_runs(self, split: str) -> bool:
    """Whether there are run files of a split."""
    folder = self.folder / EVALUATION_FOLDER
    return any(folder.glob(f"run.*.{split}.*.trec"))

  def train_command(
    self, config: str, overrides: Sequence[str], splits: Sequence[str] = ()
  ) -> list[str]:
    """Returns the command that trains the cell.

    Args:
      config: path of the config, without a method.
      overrides: --config.FIELD=VALUE arguments of every run.
      splits: that are evaluated; () = those of the config.
    """
    return self._command("ctd_jax.train", config, overrides, splits)

  def evaluate_command(
    self, config: str, overrides: Sequence[str], splits: Sequence[str]
  ) -> list[str]:
    """Returns the command that evaluates the trained cell on splits."""
    return self._command("ctd_jax.evaluate", config, overrides, splits)

  def list_overrides(self) -> list[str]:
    """Returns the arguments that make a config that of the cell."""
    values = [f"--config.{field}={value}" for field, value in self.values]
    return [*values, f"--config.seed={self.seed}"]

  def _command(
    self,
    module: str,
    config: str,
    overrides: Sequence[str],
    splits: Sequence[str],
  ) -> list[str]:
    return [
      *(sys.executable, "-m", module),
      f"--config={join_method(config, self.method)}",
      "--config.eval.baselines=()",
      # The last of two values counts: that of the grid.
      *(*overrides, *self.list_overrides()),
      *([f"--config.eval.splits={tuple(splits)}"] if splits else []),
      f"--workdir={self.folder}",
    ]


def join_method(config: str, method: str) -> str:
  """Returns the value of --config: the path of a config with a method."""
  return f"{config}:{method}" if method else config


def _name_values(values: Sequence[tuple[str, str]]) -> str:
  """Returns e.g. "optimizer.learning_rate=0.0001,batch_size=32"."""
  return ",".join(
    f"{field}={_FORBIDDEN_IN_NAMES.sub('-', value)}" for field, value in values
  )


def make_grid(
  methods: Sequence[str],
  seeds: Sequence[int],
  workdir: pathlib.Path,
  values_by_field: Mapping[str, Sequence[str]] | None = None,
) -> list[GridCell]:
  """Returns the cells, all of the first seed first.

  Args:
    methods: as after the colon of --config; "" = none.
    seeds: of every method with all values.
    workdir: holds the folders of the cells.
    values_by_field: values of each field; every combination is a cell.

  Raises:
    ValueError: if two cells have one folder.
  """
  values_by_field = values_by_field or {}
  combinations = [
    tuple(zip(values_by_field, values, strict=True))
    for values in itertools.product(*values_by_field.values())
  ]
  cells = []
  for seed in seeds:
    for method in methods:
      for values in combinations:
        parts = filter(None, [method, _name_values(values), f"seed-{seed}"])
        folder = workdir.joinpath(*parts)
        cells.append(GridCell(method, seed, folder, values))
  folders = set()
  for cell in cells:
    if cell.folder in folders:
      raise ValueError(f"two runs of the grid would be in {cell.folder}")
    folders.add(cell.folder)
  return cells


def check_finished(cells: Sequence[GridCell]) -> None:
  """Raises ValueError if a cell is not finished, naming it."""
  pending = [cell for cell in cells if not cell.is_finished]
  if pending:
    raise ValueError(
      f"{len(pending)} of {len(cells)} runs are not finished: "
      + ", ".join(str(cell.folder) for cell in pending)
    )


def train_cells(
  cells: Sequence[GridCell],
  config: str,
  overrides: Sequence[str],
  jobs: int,
  splits: Sequence[str] = (),
) -> None:
  """Runs the unfinished cells, `jobs` at a time on shares of the CPU cores.

  The output of a run goes to `log.txt` in its folder.

  Args:
    cells: of the grid.
    config: path of the config, without a method.
    overrides: --config.FIELD=VALUE arguments of every run.
    jobs: runs at a time.
    splits: that are evaluated; () = those of the config.

  Raises:
    ValueError: naming the runs that failed, after all others have ended.
  """
  pending = [cell for cell in cells if not cell.is_finished]
  commands = [cell.train_command(config, overrides, splits) for cell in pending]
  _run_commands(pending, commands, jobs)


def evaluate_cells(
  cells: Sequence[GridCell],
  config: str,
  overrides: Sequence[str],
  jobs: int,
  split: str,
) -> None:
  """Evaluates those cells on a split that were not, like `train_cells`.

  Args:
    cells: trained ones.
    config: path of the config, without a method.
    overrides: --config.FIELD=VALUE arguments of every run.
    jobs: runs at a time.
    split: whose queries are asked.

  Raises:
    ValueError: naming the runs that failed, after all others have ended.
  """
  pending = [cell for cell in cells if not cell.has_runs(split)]
  commands = [
    cell.evaluate_command(config, overrides, [split]) for cell in pending
  ]
  _run_commands(pending, commands, jobs)


def _run_commands(
  cells: Sequence[GridCell], commands: Sequence[Sequence[str]], jobs: int
) -> None:
  """Runs the command of each cell, `jobs` at a time."""
  cores = sorted(os.sched_getaffinity(0))
  # With more jobs than cores some shares are empty: they get all cores.
  core_shares = [cores[job::jobs] or cores for job in range(jobs)]
  bar = progress.Progress(total=len(cells), unit="run", desc="grid")

  def run_command(cell: GridCell, command: Sequence[str]) -> int:
    core_share = core_shares.pop()
    cell.folder.mkdir(parents=True, exist_ok=True)
    with (cell.folder / "log.txt").open("a") as log:
      process = subprocess.Popen(command, stdout=log, stderr=log)
      # Otherwise each run starts as many threads as the machine has cores.
      os.sched_setaffinity(process.pid, core_share)
      code = process.wait()
    core_shares.append(core_share)
    bar.update()
    logging.info("%s: exit %d", cell.folder, code)
    return code

  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    codes = list(pool.map(run_command, cells, commands))
  bar.close()
  failed = [cell for cell, code in zip(cells, codes, strict=True) if code]
  if failed:
    lines = [
      f"  {cell.folder / 'log.txt'}: {_last_line(cell.folder / 'log.txt')}"
      for cell in failed
    ]
    raise ValueError(
      f"{len(failed)} of {len(cells)} runs failed; the others are kept:\n"
      + "\n".join(lines)
    )


def _last_line(path: pathlib.Path) -> str:
  """Returns the last error of a log, or else its last line."""
  lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
  errors = [line for line in lines if line.startswith("error: ")]
  return (errors or lines or ["nothing printed"])[-1]
