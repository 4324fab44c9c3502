"""Table of faults in checkpoints and data sets, and what is done about them.

Each file is flipped in one bit, cut short, zeroed and deleted. "noticed" counts
the tries that are refused or warned of by name, "harmless" those with the
content that was saved, "silent" those with another content, "unnamed" errors
that do not name the folder; the last two must be 0.

  python -m tests.benchmarks.saved_faults --flips=10
"""

import argparse
import collections
import logging
import pathlib
import random
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import logging as absl_logging

from ctd_jax.utils import output
from ctd_jax_datasets import build, load
from tests.training import checkpoints_test

FAULTS = ("flipped", "cut short", "zeroed", "deleted")


def damage(path: pathlib.Path, fault: str, rng: random.Random) -> None:
  """Damages a file in place."""
  content = bytearray(path.read_bytes())
  if fault == "deleted":
    path.unlink()
    return
  if fault == "flipped":
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
  elif fault == "zeroed":
    content = bytes(len(content))
  else:
    content = content[: len(content) // 2]
  path.write_bytes(content)


def read_checkpoint(folder: pathlib.Path) -> Any:
  """Returns all that the newest step holds."""
  checkpoints = checkpoints_test.Checkpoints(
    folder / "run", "validation/hit@1", checkpoints_test.MODEL, 2
  )
  iterator = checkpoints_test.numbers()
  state = checkpoints.restore(3, checkpoints_test.abstract(), iterator)
  leaves = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(state)]
  return leaves, checkpoints.best_step, next(iterator)


def read_dataset(folder: pathlib.Path) -> Any:
  """Returns the content of the data set."""
  return load.load_benchmark("chunqiutr/mini", folder)


def try_faults(
  folder: pathlib.Path,
  read: Callable[[pathlib.Path], Any],
  pattern: str,
  flips: int,
) -> dict[str, collections.Counter]:
  """Returns fault -> result -> number of tries."""
  warnings = []
  handler = logging.Handler(logging.WARNING)
  handler.emit = lambda record: warnings.append(record.getMessage())
  absl_logging.get_absl_logger().handlers[:] = [handler]
  absl_logging.get_absl_logger().propagate = False
  saved, rng = read(folder), random.Random(0)
  results = {fault: collections.Counter() for fault in FAULTS}
  for path in sorted(folder.glob(pattern)):
    if not path.is_file():
      continue
    for fault in [FAULTS[0]] * (flips - 1) + [*FAULTS]:
      with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / "copy"
        shutil.copytree(folder, copy)
        damage(copy / path.relative_to(folder), fault, rng)
        warnings.clear()
        try:
          result = "harmless" if read(copy) == saved else "silent"
          if any(str(copy) in warning for warning in warnings):
            result = "noticed"
        except (ValueError, FileNotFoundError) as error:
          result = "noticed" if str(copy) in str(error) else "unnamed"
        except Exception:
          result = "unnamed"
      if result in ("silent", "unnamed"):
        print(f"{result}: {path.relative_to(folder)} {fault}")
      results[fault][result] += 1
  return results


def main() -> None:
  """Prints a row a fault."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--flips", type=int, default=5, help="bits of each file")
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    checkpoints_test.fill(folder / "steps/run", [0.1, 0.2, 0.3], 2).close()
    build.build_dataset("chunqiutr/mini", folder / "data")
    tries = {
      "checkpoint": (folder / "steps", read_checkpoint, "run/3/*/**/*"),
      "data set": (folder / "data", read_dataset, "*/*/*/*"),
    }
    columns = ["noticed", "harmless", "silent", "unnamed"]
    rows = [
      [what, fault, *(counts[column] for column in columns)]
      for what, arguments_of in tries.items()
      for fault, counts in try_faults(*arguments_of, arguments.flips).items()
    ]
  print(output.format_table("", ["saved", "fault", *columns], rows))


if __name__ == "__main__":
  main()
