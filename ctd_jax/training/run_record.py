"""Record of a run: command, commit, seeds and the seconds it took."""

from __future__ import annotations

import json
import time

from ctd_jax.training import distributed, run_folder
from ctd_jax.training.run_folder import Folder
from ctd_jax.utils import files, provenance


class RunRecord:
  """Provenance and cost of a run, in a file of its workdir.

  A resumed run keeps the command and commit of its first part, and the seconds
  of all parts add up.
  """

  def __init__(self, workdir: Folder, seed: int):
    """Starts the clock; reads the record of an earlier part, if any."""
    self._path = workdir / run_folder.TRAINING_FILE
    self._start_time = time.time()
    self._fields = {
      "command": provenance.command_line(),
      "commit": provenance.code_commit(),
      "seconds": 0.0,  # wall time of the training, without evaluation
      "seeds": [seed],
    }
    # A resumed run: what it was begun with stays.
    if self._path.exists():
      self._fields |= json.loads(self._path.read_text())
    self._previous_seconds = self._fields["seconds"]

  @property
  def seconds(self) -> float:
    """Wall time of all parts of the run."""
    return self._previous_seconds + time.time() - self._start_time

  def write(self) -> None:
    """Writes the record as of now."""
    self._fields["seconds"] = round(self.seconds, 1)
    text = json.dumps(self._fields, indent=2)
    if distributed.is_coordinator():
      files.write_text(self._path, text + "\n")
