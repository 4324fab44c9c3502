"""Grid of methods and seeds; every cell is a training run of its own."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from absl import logging

from ctd_jax.training.run_folder import EVALUATION_FOLDER
from ctd_jax.utils import progress


@dataclasses.dataclass(frozen=True)
class GridCell:
  """One run of the grid.

  Attributes:
    method: method and variant, as after the colon of --config.
    seed: of the run.
    folder: its workdir.
  """

  method: str
  seed: int
  folder: pathlib.Path

  @property
  def is_finished(self) -> bool:
    """Whether the run files were written and evaluated."""
    return (self.folder / EVALUATION_FOLDER / "per_query.tsv").exists()

  def train_command(self, config: str, overrides: Sequence[str]) -> list[str]:
    """Returns the command that trains the cell.

    Args:
      config: path of the config, without a method.
      overrides: --config.FIELD=VALUE arguments of every run.
    """
    return [
      *(sys.executable, "-m", "ctd_jax.train"),
      *(f"--config={config}:{self.method}", "--config.eval.baselines=()"),
      # The last of two values counts: the seed of the grid.
      *(*overrides, f"--config.seed={self.seed}"),
      f"--workdir={self.folder}",
    ]


def make_grid(
  methods: Sequence[str], seeds: Sequence[int], workdir: pathlib.Path
) -> list[GridCell]:
  """Returns the cells, all methods of the first seed first."""
  return [
    GridCell(method, seed, workdir / method / f"seed-{seed}")
    for seed in seeds
    for method in methods
  ]


def train_cells(
  cells: Sequence[GridCell], config: str, overrides: Sequence[str], jobs: int
) -> None:
  """Runs the unfinished cells, `jobs` at a time on shares of the CPU cores.

  The output of a run goes to `log.txt` in its folder.

  Args:
    cells: of the grid.
    config: path of the config, without a method.
    overrides: --config.FIELD=VALUE arguments of every run.
    jobs: runs at a time.

  Raises:
    ValueError: naming the runs that failed, after all others have ended.
  """
  cores = sorted(os.sched_getaffinity(0))
  # With more jobs than cores some shares are empty: they get all cores.
  core_shares = [cores[job::jobs] or cores for job in range(jobs)]
  pending = [cell for cell in cells if not cell.is_finished]
  bar = progress.Progress(total=len(pending), unit="run", desc="grid")

  def run_cell(cell: GridCell) -> int:
    core_share = core_shares.pop()
    cell.folder.mkdir(parents=True, exist_ok=True)
    with (cell.folder / "log.txt").open("a") as log:
      process = subprocess.Popen(
        cell.train_command(config, overrides), stdout=log, stderr=log
      )
      # Otherwise each run starts as many threads as the machine has cores.
      os.sched_setaffinity(process.pid, core_share)
      code = process.wait()
    core_shares.append(core_share)
    bar.update()
    logging.info("%s, seed %d: exit %d", cell.method, cell.seed, code)
    return code

  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    codes = list(pool.map(run_cell, pending))
  bar.close()
  failed = [cell for cell, code in zip(pending, codes, strict=True) if code]
  if failed:
    lines = [
      f"  {cell.folder / 'log.txt'}: {_last_line(cell.folder / 'log.txt')}"
      for cell in failed
    ]
    raise ValueError(
      f"{len(failed)} of {len(pending)} runs failed; the others are kept:\n"
      + "\n".join(lines)
    )


def _last_line(path: pathlib.Path) -> str:
  lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
  return lines[-1] if lines else "nothing printed"
