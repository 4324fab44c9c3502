"""Loss curves of a commit and of this tree, step by step.

  python -m tests.benchmarks.loss_curves --before=COMMIT --folder=DIR
  python -m tests.benchmarks.loss_curves --before=COMMIT --folder=DIR \\
    --config.batch_size=256 --config.encode_chunks=4

Where only speed or memory was changed the same command trains the same, to
rounding, which grows from step to step. Both trees train `configs/tiny.py`,
unless another --config is given, for --steps steps; the status is 1 if a loss
differs by more than --tolerance of itself. Flags that it does not know are
those of `ctd_jax.train`. The data sets are built by this tree.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
EARLY_STEPS = 10  # in which rounding has not grown yet
FLAGS = (
  "--config=configs/tiny.py",
  "--config.log_every=1",
  "--config.eval_every=1000000",
  "--config.eval.splits=()",
  "--config.eval.baselines=()",
)


def check_out(commit: str, folder: pathlib.Path) -> None:
  """Writes the files of a commit into a new folder."""
  folder.mkdir(parents=True)
  archive = subprocess.run(
    ["git", "-C", ROOT, "archive", commit], check=True, stdout=subprocess.PIPE
  )
  subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def read_losses(path: pathlib.Path) -> list[float]:
  """Returns the losses of all steps that a run has logged."""
  # What stands behind the last line break is not complete.
  lines = path.read_text().split("\n")[:-1] if path.exists() else []
  return [row["loss"] for row in map(json.loads, lines) if "loss" in row]


def train(
  tree: pathlib.Path, workdir: pathlib.Path, steps: int, flags: Sequence[str]
) -> list[float]:
  """Returns the losses of the first steps of a run.

  Args:
    tree: whose code trains.
    workdir: new.
    steps: after which the run is killed.
    flags: of the run.
  """
  log_path = workdir.with_suffix(".log")
  with log_path.open("w") as log:
    process = subprocess.Popen(
      [
        *(sys.executable, "-m", "ctd_jax.train", *FLAGS, *flags),
        f"--workdir={workdir.absolute()}",
      ],
      cwd=tree,
      env={**os.environ, "PYTHONPATH": str(tree.absolute())},
      stdout=log,
      stderr=log,
    )
    losses = []
    while len(losses) < steps and process.poll() is None:
      time.sleep(0.2)
      losses = read_losses(workdir / "metrics.jsonl")
    process.kill()
    process.wait()
  losses = read_losses(workdir / "metrics.jsonl")
  if len(losses) < steps:
    sys.exit(f"{len(losses)} steps instead of {steps}, see {log_path}")
  return losses[:steps]


def main() -> None:
  """Reads the flags, trains, compares and tells."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--before", required=True, help="commit to compare with")
  parser.add_argument(
    "--folder", type=pathlib.Path, required=True, help="new; runs go there"
  )
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--tolerance", type=float, default=1e-3, help="relative")
  flags, run_flags = parser.parse_known_args()
  if flags.folder.exists():
    parser.error(f"--folder={flags.folder} exists; name a new one")
  former = flags.folder / "tree"
  check_out(flags.before, former)
  before, after = (
    np.array(train(tree, flags.folder / name, flags.steps, run_flags))
    for name, tree in (("before", former), ("after", ROOT))
  )
  differences = np.abs(after - before) / np.abs(before)
  print(f"{flags.steps} steps, loss {before[0]:.4f} to {before[-1]:.4f}")
  print(
    f"{np.count_nonzero(before == after)} losses are the same; they differ by "
    f"{differences[:EARLY_STEPS].max():.1e} at most in {EARLY_STEPS} steps, "
    f"by {differences.max():.1e} (step {differences.argmax() + 1}) in all"
  )
  sys.exit(bool(differences.max() > flags.tolerance))


if __name__ == "__main__":
  main()
