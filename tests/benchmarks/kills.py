"""Recovery of a short run that is killed at random moments of its steps.

The same command goes on after every SIGKILL. Moments are drawn from equal parts
of the steps behind the first checkpoint; a run that is killed five times may
end. Once more a process that reads ahead for it is killed, whereupon the run
has to end with an error, and goes on as well. It is compared with one that
nobody killed, metrics and rankings to the byte, parameters and what the
optimizer knows to the bit, and the next one begins, until there were enough
kills. The status is 1 if anything differs, a checkpoint was lost or damaged, a
run did not go on from the newest one, or one of its processes outlived it.

  python tests/benchmarks/kills.py --folder=DIR [--kills=20]
  python tests/benchmarks/kills.py --folder=DIR --config.input.workers=0

Two processes read ahead, and an update has the gradients of three steps, so
that most checkpoints lie between two updates. Flags that it does not know are
those of the run, e.g. of the config.
"""

from __future__ import annotations

import argparse
import collections
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
from typing import NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

SHORT = (
  "--config=configs/tiny.py",
  "--config.num_epochs=4",
  "--config.eval_every=8",
  "--config.log_every=1",
  "--config.accumulate_steps=3",
  "--config.input.workers=2",
  "--config.model.encoder.num_layers=1",
  "--config.model.encoder.hidden_size=32",
  "--config.eval.baselines=()",
  "--config.eval.splits=('test',)",
)
KILLS_A_RUN = 5
ERROR_SECONDS = 60  # in which a run notices that a process of it is dead
READ_AHEAD = 40  # steps that it may still make, at most
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
    """Returns the files and arrays that have to be the same."""
    results = {
      str(path.relative_to(self.folder)): path.read_bytes()
      for pattern in COMPARED
      for path in sorted(self.folder.glob(pattern))
    }
    for item in ("params", "optimizer"):
      folder = self.folder.absolute() / f"checkpoints/{self.newest}/{item}"
      with ocp.StandardCheckpointer() as reader:
        tree = reader.restore(folder)
      for path, array in jax.tree.leaves_with_path(tree):
        name = item + jax.tree_util.keystr(path)
        results[name] = np.asarray(array).tobytes()
    return results

  def find_readers(self) -> list[int]:
    """Returns the processes that read ahead."""
    # Children of any of its threads.
    tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
    children = " ".join(x.read_text() for x in tasks.glob("*/children"))
    return [
      int(child)
      for child in children.split()
      if b"spawn_main" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
    ]

  def complaints(self, newest: int, reader_killed: bool = False) -> list[str]:
    """Returns what is wrong with how it went on from step `newest`."""
    text = self.log.read_text()
    found = re.search(r"resuming .* at step (\d+)", text)
    wrong = []
    if newest and (found is None or int(found[1]) != newest):
      wrong.append(f"did not go on from {newest}")
    if "cannot be read" in text or ("Traceback" in text) > reader_killed:
      wrong.append(f"see {self.log}")
    if reader_killed and self.process.returncode <= 0:
      wrong.append("a run without its reader did not end with an error")
    return wrong

  def compare(self, other: Run) -> tuple[int, list[str]]:
    """Returns how many results are another run's, and the names of others."""
    results, others = self.results(), other.results()
    names = sorted(results.keys() | others.keys())
    differing = [
      name for name in names if results.get(name) != others.get(name)
    ]
    return len(names) - len(differing), differing

  def kill(self, kill: Kill) -> bool:
    """Kills it, and waits until it is dead; returns whether it was alive.

    Args:
      kill: its moment; the fraction is of the time that a step takes.
    """
    moment = kill.moment
    started = time.monotonic()
    while self.step < moment or not self.newest:
      if self.process.poll() is not None:
        return False
      if self.step < moment - 1:
        started = time.monotonic()
      time.sleep(0.001)
    time.sleep(moment % 1 * (time.monotonic() - started))
    # It alone: others have to see to themselves.
    pid = self.find_readers()[0] if kill.of_reader else self.process.pid
    os.kill(pid, signal.SIGKILL)
    try:
      self.process.wait(ERROR_SECONDS)
    except subprocess.TimeoutExpired:
      self.process.kill()
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


class Kill(NamedTuple):
  """A kill of a run.

  Attributes:
    moment: in steps.
    of_reader: whether a process that reads for it is killed, not itself.
  """

  moment: float
  of_reader: bool = False


def draw_kills(
  first: int, last: int, count: int, has_readers: bool, rng: random.Random
) -> list[list[Kill]]:
  """Returns the kills of each run, in order.

  Args:
    first: step of the first checkpoint.
    last: step of the run.
    count: of the kills in all; those of readers come on top, one a run.
    has_readers: whether there are any.
    rng: advanced.
  """
  length = (last - first) / count
  moments = [first + (k + rng.random()) * length for k in range(count)]
  runs = -(-count // KILLS_A_RUN)
  # Every run is killed early and late.
  kills = [
    [Kill(moment) for moment in moments[run::runs]] for run in range(runs)
  ]
  if has_readers:
    part = (last - READ_AHEAD - first) / runs
    for number, run in enumerate(kills):
      run.append(Kill(first + (number + rng.random()) * part, of_reader=True))
  return [sorted(run) for run in kills]


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
  first, has_readers = expected.newest, bool(expected.find_readers())
  if expected.process.wait():
    sys.exit(expected.log.read_text())
  last = expected.step
  print(f"uninterrupted: {last} steps, first checkpoint {first}", flush=True)
  rng = random.Random(flags.seed)
  rounds = draw_kills(first, last, flags.kills, has_readers, rng)
  wrong, killed = [], collections.Counter()
  for number, kills in enumerate(rounds, start=1):
    folder, newest = flags.folder / f"killed{number}", 0
    for kill in (*kills, Kill(math.inf)):
      run = Run(folder, run_flags)
      is_killed = run.kill(kill)
      complaints = run.complaints(newest, kill.of_reader)
      if is_killed:
        killed[kill.of_reader] += 1
        saving = any(folder.glob("checkpoints/*tmp*"))
        print(
          f"kill {killed.total():2d}, of run {number}"
          f"{', a reader,' * kill.of_reader} behind step {run.step:3d} "
          f"({kill.moment:5.1f}), newest checkpoint {run.newest:3d}"
          f"{', in the middle of a save' * saving}",
          flush=True,
        )
        if run.newest < newest:
          complaints.append(f"checkpoint {newest} is lost")
        newest = run.newest
      elif kill.moment < math.inf:
        complaints.append(f"run {number} ended before {kill.moment:.1f}")
      if run.has_survivors():
        complaints.append(f"a process outlived {run.log}")
      for complaint in complaints:
        print(complaint, flush=True)
      wrong += complaints
    same, differing = run.compare(expected)
    print(
      f"run {number} ended: {same} files and arrays are the same, "
      f"{len(differing)} differ {', '.join(differing)}",
      flush=True,
    )
    if run.process.returncode or differing:
      wrong.append(f"run {number} differs, see {run.log}")
  verdict = "; ".join(wrong) or "all well"
  print(
    f"{killed[False]} kills, {killed[True]} of a reader, {len(rounds)} runs "
    f"compared; {verdict}"
  )
  sys.exit(bool(wrong))


if __name__ == "__main__":
  main()
