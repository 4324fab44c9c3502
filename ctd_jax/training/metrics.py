"""Metrics of a run: JSON lines, TensorBoard events, Weights & Biases.

A line of metrics.jsonl holds nothing but the step and values that the seed
determines, so that the file of a resumed run equals that of an uninterrupted
one.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorboardX

from ctd_jax.training import distributed
from ctd_jax.training.run_folder import (
  METRICS_FILE,
  TENSORBOARD_FOLDER,
  Folder,
)
from ctd_jax.utils import files


class DivergedError(ValueError):
  """The loss is no longer a number."""


def check_finite(step: int, metrics: Mapping[str, Any]) -> None:
  """Refuses to go on with a loss or gradient that is no number.

  Args:
    step: of the metrics.
    metrics: scalars by name.

  Raises:
    DivergedError: naming the step and the metrics.
  """
  # One value that is no number makes all parameters so at the next update.
  non_finite = [k for k, value in metrics.items() if not np.isfinite(value)]
  if non_finite:
    raise DivergedError(
      f"step {step}: {', '.join(non_finite)} is not finite. The last "
      "checkpoint is untouched; lower config.optimizer.learning_rate or set "
      "config.optimizer.clip_norm"
    )


class MetricWriter:
  """Writer of the metrics of one run; of several processes the first writes."""

  def __init__(
    self,
    workdir: Folder,
    resume_step: int,
    wandb_project: str | None = None,
    run_name: str | None = None,
  ):
    """Opens the files; lines beyond `resume_step` are taken back.

    Args:
      workdir: of the run.
      resume_step: the last step whose lines stay.
      wandb_project: of Weights & Biases; None = not written there.
      run_name: shown there.

    Raises:
      ValueError: naming a line that is not one of metrics.
    """
    self._is_active = distributed.is_coordinator()
    if not self._is_active:
      return
    self._path = workdir / METRICS_FILE
    self._lines = _read_lines(self._path, resume_step)
    # Steps after the checkpoint are run, and logged, again.
    files.write_text(self._path, "".join(self._lines))
    self._events = tensorboardX.SummaryWriter(
      str(workdir / TENSORBOARD_FOLDER), purge_step=resume_step + 1
    )
    self._wandb_run = None
    if wandb_project:
      import wandb  # an optional dependency, slow to import

      # One run of W&B for all parts of a run of ours.
      self._wandb_run = wandb.init(
        project=wandb_project, name=run_name, id=run_name, resume="allow"
      )

  def write(self, step: int, metrics: Mapping[str, Any]) -> None:
    """Appends scalars of a step."""
    if not self._is_active:
      return
    values = {name: float(value) for name, value in metrics.items()}
    line = json.dumps({"step": step, **values}, sort_keys=True) + "\n"
    self._lines.append(line)
    if isinstance(self._path, pathlib.Path):
      with self._path.open("a") as file:
        file.write(line)
    for name, value in values.items():
      self._events.add_scalar(name, value, step)
    if self._wandb_run:
      self._wandb_run.log(values, step=step)

  def flush(self) -> None:
    """Writes what is not yet in the file: objects of a bucket do not grow."""
    if self._is_active and not isinstance(self._path, pathlib.Path):
      files.write_text(self._path, "".join(self._lines))

  def close(self) -> None:
    """Flushes and closes."""
    if not self._is_active:
      return
    self.flush()
    self._events.close()
    if self._wandb_run:
      self._wandb_run.finish()


def _read_lines(path: Folder, resume_step: int) -> list[str]:
  """Returns the lines of an earlier part up to a step, with their ends."""
  lines = path.read_text().splitlines() if path.exists() else []
  valid_lines = []
  for number, line in enumerate(lines, start=1):
    try:
      if json.loads(line)["step"] <= resume_step:
        valid_lines.append(line + "\n")
    except (json.JSONDecodeError, KeyError, TypeError):
      # The last line may have been cut off with the run.
      if number < len(lines):
        raise ValueError(
          f"{path}:{number}: not a line of metrics; remove it to resume"
        ) from None
  return valid_lines
