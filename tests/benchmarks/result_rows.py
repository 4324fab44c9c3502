"""Result rows of benchmarks: what measured them, and what a command costs."""

import argparse
import itertools
import math
import os
import pathlib
import shlex
import sys
from collections.abc import Iterable, Mapping

from ctd_jax.evaluation import results
from ctd_jax.utils import files

ALL = "all"


def describe_run(module: str, seconds: float) -> dict:
  """Returns the fields of rows that say how they were measured.

  Args:
    module: of this package, whose flags are those of this process.
    seconds: that the measurement took.
  """
  arguments = ["python", "-m", f"tests.benchmarks.{module}", *sys.argv[1:]]
  return {
    "command": shlex.join(arguments),
    "commit": files.code_commit(),
    "seconds": round(seconds, 1),
  }


def make_cost_rows(
  about: Mapping[str, object],
  dataset: str,
  system: str,
  mode: str,
  figures: Mapping[str, float],
  family: str = ALL,
  track: str | None = None,
) -> list[results.ResultRow]:
  """Returns rows of what a command costs: time, memory, load of the machine.

  They are of no split.

  Args:
    about: from `describe_run`.
    dataset: name and version.
    system: what was measured.
    mode: index, ask, pages or accelerator.
    figures: metric -> value.
    family: kind of question or page, or geometry of an encoder.
    track: kind of the device; None = how many cores there are.
  """
  num_cores = len(os.sched_getaffinity(0))
  track = track or ("1 core" if num_cores == 1 else f"{num_cores} cores")
  names = f"cost/{dataset}", system, track, "cost", ALL, mode, family
  return [
    results.ResultRow(*names, metric, float(value), **about)
    for metric, value in figures.items()
  ]


def make_test_rows(
  about: Mapping[str, object],
  dataset: str,
  system: str,
  mode: str,
  figures: Mapping[str, float],
  family: str = ALL,
  track: str = "T0",
) -> list[results.ResultRow]:
  """Returns rows of how right a system is on texts that chose nothing.

  Args:
    about: from `describe_run`.
    dataset: one of `results.VOCABULARIES`, and so are mode and family.
    system: what was measured.
    mode: how.
    figures: metric -> value; what cannot be known is NaN and has no row.
    family: kind of text.
    track: what the system may read.
  """
  names = dataset, system, track, "posterior", "test", mode, family
  return [
    results.ResultRow(*names, metric, float(value), **about)
    for metric, value in figures.items()
    if not math.isnan(value)
  ]


def print_rows(rows: Iterable[results.ResultRow]) -> None:
  """Prints a line for every system, mode and family."""
  for names, group in itertools.groupby(
    rows, lambda row: (row.system, row.mode, row.family)
  ):
    cells = (f"{row.metric} {row.value:.4g}" for row in group)
    print(" ".join(names), "; ".join(cells), flush=True)


def write_rows(
  path: pathlib.Path | None, rows: list[results.ResultRow]
) -> None:
  """Writes rows if a file was named."""
  if path is not None:
    results.write_result_rows(path, rows)


def name_system(num_records: int) -> str:
  """Returns the name of an index by its size; no key may have a comma."""
  return f"index-{num_records}"


def read_load() -> float:
  """Returns how many processes want a core, mean of a minute."""
  return os.getloadavg()[0]


def _make_parser(description: str) -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description=description.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt", help="data set")
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  return parser


def make_parser(description: str) -> argparse.ArgumentParser:
  """Returns a parser of the flags of benchmarks on a built data set."""
  parser = _make_parser(description)
  parser.add_argument("--data_dir", help="folder of the data set")
  parser.add_argument("--split", default="validation")
  return parser


def make_index_parser(description: str) -> argparse.ArgumentParser:
  """Returns a parser of the flags of benchmarks on an index."""
  parser = _make_parser(description)
  parser.add_argument("--index", required=True)
  return parser
