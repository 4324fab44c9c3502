"""Recovery of a short run that is killed at random moments of its steps.

The same command goes on after every SIGKILL. Moments are drawn from equal parts
of the steps behind the first checkpoint; a run that is killed five times may
end. It is compared with one that nobody killed, to the byte, and the next one
begins, until there were enough kills. The status is 1 if a file differs, a
checkpoint was lost or damaged, a run did not go on from the newest one, or one
of its processes that read ahead outlived it.

  python tests/benchmarks/kills.py --folder=DIR [--kills=20]
  python tests/benchmarks/kills.py --folder=DIR --config.input.workers=2

Flags that it does not know are those of the run, e.g. of the config.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

SHORT = (
  "--config=configs/tiny.py",
  "--config.num_epochs=4",
  "--config.eval_every=8",
  "--config.log_every=1",
  "--config.model.encoder.num_layers=1",
  "--config.model.encoder.hidden_size=32",
  "--config.eval.baselines=()",
  "--config.eval.splits=('test',)",
)
KILLS_A_RUN = 5
_starts = itertools.count(1)
COMPARED = ("metrics.jsonl", "evaluation/*.trec", "evaluation/per_query.tsv")


class Run:
  """A run in a folder of its own, in the process that is at work on it."""

  def __init__(self, folder: pathlib.Path, flags: Sequence[str]):
    """Starts it, or goes on with what the folder holds."""
    self.folder = folder
    self.metrics = folder / "metrics.jsonl"
    before = self._opened()
    self.log = folder.with_name(f"{folder.name}.{next(_starts)}.log")
    with self.log.open("w") as file:
      self.process = subprocess.Popen(
        [
          *(sys.executable, "-m", "ctd_jax.train", *SHORT),
          *(f"--workdir={folder}", *flags),
        ],
        stderr=file,
        stdout=file,
        start_new_session=True,  # of which all processes of the run are
      )
    # The file is written anew when the loop begins.
    while self._opened() == before and self.process.poll() is None:
      time.sleep(0.01)

  def _opened(self) -> int:
    return self.metrics.stat().st_ino if self.metrics.exists() else 0

  @property
  def step(self) -> int:
    """The last step that is in the metrics, 0 before the first."""
    lines = self.metrics.read_text().split("\n") if self._opened() else []
    # What stands behind the last line break is not complete.
    return json.loads(lines[-2])["step"] if len(lines) > 1 else 0

  @property
  def checkpoints(self) -> set[int]:
    """The complete ones."""
    names = [path.name for path in self.folder.glob("checkpoints/*")]
    return {int(name) for name in names if name.isdigit()}

  @property
  def newest(self) -> int:
    """Step of the newest checkpoint, 0 before the first."""
    return max(self.checkpoints, default=0)

  def results(self) -> dict[str, bytes]:
    """Returns the files that have to be the same."""
    return {
      str(path.relative_to(self.folder)): path.read_bytes()
      for pattern in COMPARED
      for path in sorted(self.folder.glob(pattern))
    }

  def complaints(self, newest: int) -> list[str]:
    """Returns what is wrong with how it went on from step `newest`."""
    text = self.log.read_text()
    found = re.search(r"resuming .* at step (\d+)", text)
    wrong = []
    if newest and (found is None or int(found[1]) != newest):
      wrong.append(f"did not go on from {newest}")
    if "cannot be read" in text or "Traceback" in text:
      wrong.append(f"see {self.log}")
    return wrong

  def kill(self, moment: float) -> bool:
    """Kills it at a moment of its steps; returns whether it was alive.

    Args:
      moment: in steps; the fraction is of the time that a step takes.
    """
    started = time.monotonic()
    while self.step < moment or not self.newest:
      if self.process.poll() is not None:
        return False
      if self.step < moment - 1:
        started = time.monotonic()
      time.sleep(0.001)
    time.sleep(moment % 1 * (time.monotonic() - started))
    self.process.kill()  # it alone: others have to see to themselves
    self.process.wait()
    return True

  def has_survivors(self) -> bool:
    """Returns whether a process of a run that is dead lives on."""
    deadline = time.monotonic() + 10  # they are told by the system
    while time.monotonic() < deadline:
      try:
        os.killpg(self.process.pid, 0)
      except ProcessLookupError:
        return False
      time.sleep(0.1)
    os.killpg(self.process.pid, signal.SIGKILL)
    return True


def draw_moments(
  first: int, last: int, kills: int, rng: random.Random
) -> list[list[float]]:
  """Returns the moments of the kills of each run, in steps.

  Args:
    first: step of the first checkpoint.
    last: step of the run.
    kills: how many in all.
    rng: advanced.
  """
  length = (last - first) / kills
  moments = [first + (k + rng.random()) * length for k in range(kills)]
  runs = -(-kills // KILLS_A_RUN)
  # Every run is killed early and late.
  return [moments[run::runs] for run in range(runs)]


def main() -> None:
  """Reads the flags, kills, compares and tells."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument(
    "--folder", type=pathlib.Path, required=True, help="new; runs go there"
  )
  parser.add_argument("--kills", type=int, default=20, help="how many")
  parser.add_argument("--seed", type=int, default=0, help="of the moments")
  flags, run_flags = parser.parse_known_args()
  if flags.folder.exists():
    parser.error(f"--folder={flags.folder} exists; name a new one")
  flags.folder.mkdir(parents=True)
  run_flags = [f"--config.data_dir={flags.folder / 'data'}", *run_flags]
  expected = Run(flags.folder / "whole", run_flags)
  while not expected.newest and expected.process.poll() is None:
    time.sleep(0.001)
  first = expected.newest
  if expected.process.wait():
    sys.exit(expected.log.read_text())
  last = expected.step
  print(f"uninterrupted: {last} steps, first checkpoint {first}", flush=True)
  rng = random.Random(flags.seed)
  rounds = draw_moments(first, last, flags.kills, rng)
  wrong, kills = [], 0
  for number, moments in enumerate(rounds, start=1):
    folder, newest = flags.folder / f"killed{number}", 0
    for moment in (*moments, math.inf):
      run = Run(folder, run_flags)
      killed = run.kill(moment)
      complaints = run.complaints(newest)
      if killed:
        kills += 1
        saving = any(folder.glob("checkpoints/*tmp*"))
        print(
          f"kill {kills:2d} of run {number} behind step {run.step:3d} "
          f"({moment:5.1f}), newest checkpoint {run.newest:3d}"
          f"{', in the middle of a save' * saving}",
          flush=True,
        )
        if run.newest < newest:
          complaints.append(f"checkpoint {newest} is lost")
        newest = run.newest
      elif moment < math.inf:
        complaints.append(f"run {number} ended before {moment:.1f}")
      if run.has_survivors():
        complaints.append(f"a process outlived {run.log}")
      for complaint in complaints:
        print(complaint, flush=True)
      wrong += complaints
    same = run.results() == expected.results()
    print(
      f"run {number} ended: {'the same' if same else 'DIFFERS'}", flush=True
    )
    if run.process.returncode or not same:
      wrong.append(f"run {number} differs, see {run.log}")
  verdict = "; ".join(wrong) or "all well"
  print(f"{kills} kills, {len(rounds)} runs compared; {verdict}")
  sys.exit(bool(wrong))


if __name__ == "__main__":
  main()
