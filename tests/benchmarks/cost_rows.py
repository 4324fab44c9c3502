"""Result rows of what a command costs: time, memory, load of the machine.

They are of no split and no query: `split` and `family` are "all" but where a
family is a kind of question or page, or the geometry of an encoder. The track
says how many cores there were, or which accelerator.
"""

import os
import pathlib
import shlex
import sys
from collections.abc import Mapping

from ctd_jax.evaluation import results
from ctd_jax.utils import files

ALL = "all"


def count_bytes(folder: pathlib.Path) -> int:
  """Returns the size of all files below a folder."""
  return sum(
    path.stat().st_size for path in folder.rglob("*") if path.is_file()
  )


def make_cost_rows(
  module: str,
  dataset: str,
  system: str,
  mode: str,
  figures: Mapping[str, float],
  family: str = ALL,
  seconds: float | None = None,
  track: str | None = None,
) -> list[results.ResultRow]:
  """Returns the rows of some figures.

  Args:
    module: that measures, whose flags are those of this process.
    dataset: name and version.
    system: what was measured.
    mode: index, ask, pages or accelerator.
    figures: metric -> value.
    family: kind of question or page, or geometry.
    seconds: that the measurement took.
    track: kind of the device; None = how many cores there are.
  """
  num_cores = len(os.sched_getaffinity(0))
  return [
    results.ResultRow(
      f"cost/{dataset}",
      system,
      track or ("1 core" if num_cores == 1 else f"{num_cores} cores"),
      "cost",
      ALL,
      mode,
      family,
      metric,
      float(value),
      command=shlex.join(["python", "-m", module, *sys.argv[1:]]),
      commit=files.code_commit(),
      seconds=None if seconds is None else round(seconds, 1),
    )
    for metric, value in figures.items()
  ]


def write_rows(
  path: pathlib.Path | None, rows: list[results.ResultRow]
) -> None:
  """Writes rows if a file was asked for."""
  if path is not None:
    results.write_result_rows(path, rows)


def name_system(num_records: int) -> str:
  """Returns the name of an index by its size; no key may have a comma."""
  return f"index-{num_records}"


def read_load() -> float:
  """Returns how many processes want a core, mean of a minute."""
  return os.getloadavg()[0]
