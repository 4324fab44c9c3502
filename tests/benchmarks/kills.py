"""Recovery of a short run that is killed at random moments.

The same command goes on after every SIGKILL. A moment is drawn from the time
that an uninterrupted run takes for its steps and its evaluation; a run that
ends before is compared with the first one, to the byte, and the next one
begins, until there were enough kills. The status is 1 if a file differs, a
checkpoint was lost or damaged, or a run did not go on from the newest one.

  python tests/benchmarks/kills.py --folder=DIR [--kills=20]
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

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
_starts = itertools.count(1)
COMPARED = ("metrics.jsonl", "evaluation/*.trec", "evaluation/per_query.tsv")


class Run:
  """A run in a folder of its own, in the process that is at work on it."""

  def __init__(self, folder: pathlib.Path, data: pathlib.Path):
    """Starts it, or goes on with what the folder holds."""
    self.folder = folder
    self.metrics = folder / "metrics.jsonl"
    before = self._opened()
    self.log = folder.with_name(f"{folder.name}.{next(_starts)}.log")
    with self.log.open("w") as file:
      self.process = subprocess.Popen(
        [
          *(sys.executable, "-m", "ctd_jax.train", *SHORT),
          *(f"--workdir={folder}", f"--config.data_dir={data}"),
        ],
        stderr=file,
        stdout=file,
      )
    # The file is written anew when the loop begins.
    while self._opened() == before and self.process.poll() is None:
      time.sleep(0.01)
    self.began = time.monotonic()

  def _opened(self) -> int:
    return self.metrics.stat().st_ino if self.metrics.exists() else 0

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


def kill(run: Run, after: float) -> bool:
  """Kills a run so many seconds into its work; returns whether it was alive."""
  try:
    run.process.wait(timeout=max(0.0, run.began + after - time.monotonic()))
  except subprocess.TimeoutExpired:
    run.process.kill()
    run.process.wait()
    return True
  return False


def whole(folder: pathlib.Path, data: pathlib.Path) -> tuple[Run, float]:
  """Returns a run that nobody killed and the seconds it took."""
  run = Run(folder, data)
  if run.process.wait():
    sys.exit(run.log.read_text())
  return run, time.monotonic() - run.began


def main() -> None:
  """Reads the flags, kills, compares and tells."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument(
    "--folder", type=pathlib.Path, required=True, help="new; runs go there"
  )
  parser.add_argument("--kills", type=int, default=20, help="how many")
  parser.add_argument("--seed", type=int, default=0, help="of the moments")
  flags = parser.parse_args()
  moments = random.Random(flags.seed)
  if flags.folder.exists():
    parser.error(f"--folder={flags.folder} exists; name a new one")
  flags.folder.mkdir(parents=True)
  data = flags.folder / "data"
  expected, seconds = whole(flags.folder / "whole", data)
  print(f"uninterrupted: {seconds:.1f} s from the first step", flush=True)
  folder, wrong, kills, newest, runs = flags.folder / "killed", [], 0, 0, 0
  while kills < flags.kills or folder.exists():
    run = Run(folder, data)
    # After the last kill the run may end.
    after = moments.uniform(0, seconds) if kills < flags.kills else 1e9
    killed = kill(run, after)
    complaints = run.complaints(newest)
    if killed:
      kills += 1
      lines = run.metrics.read_text().count("\n") if run._opened() else 0
      saving = any(folder.glob("checkpoints/*tmp*"))
      print(
        f"kill {kills:2d} {after:6.1f} s after the first step: {lines:3d} "
        f"lines of metrics, newest checkpoint {run.newest:3d}"
        f"{', in the middle of a save' * saving}",
        flush=True,
      )
      if run.newest < newest:
        complaints.append(f"checkpoint {newest} is lost")
      newest = run.newest
    else:
      runs += 1
      if not newest:  # as long as it takes on the machine as it is now
        seconds = time.monotonic() - run.began
      same = run.results() == expected.results()
      print(
        f"run {runs} ended: {'the same' if same else 'DIFFERS'}", flush=True
      )
      if run.process.returncode or not same:
        complaints.append(f"run {runs} differs, see {run.log}")
        shutil.copytree(folder, flags.folder / f"wrong{runs}")
      shutil.rmtree(folder)
      newest = 0
    for complaint in complaints:
      print(complaint, flush=True)
    wrong += complaints
  verdict = "; ".join(wrong) or "all well"
  print(f"{kills} kills, {runs} runs compared; {verdict}")
  sys.exit(bool(wrong))


if __name__ == "__main__":
  main()
