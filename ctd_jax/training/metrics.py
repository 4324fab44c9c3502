"""Metrics of a run: JSON lines, TensorBoard events, Weights & Biases.

A line of metrics.jsonl holds nothing but the step and values that the seed
determines, so that the file of a resumed run equals that of an uninterrupted
one. The speed of the steps is in speed.jsonl.
"""

from __future__ import annotations

import json
import pathlib
import re
import secrets
from collections.abc import Mapping
from typing import Any

import ml_collections
import numpy as np
import tensorboardX

from ctd_jax.training import devices
from ctd_jax.training.run_folder import (
  METRICS_FILE,
  TENSORBOARD_FOLDER,
  WANDB_FILE,
  Folder,
)
from ctd_jax.utils import files

SPEED_FILE = "speed.jsonl"

# Name -> (steps, values at these steps).
Curves = dict[str, tuple[list[int], list[float]]]


class DivergedError(ValueError):
  """The loss is no longer a number."""


def check_finite(step: int, metrics: Mapping[str, Any]) -> None:
  """Raises DivergedError if a loss or gradient is not finite."""
  # One value that is not a number spreads to all parameters at the next update.
  non_finite = [k for k, value in metrics.items() if not np.isfinite(value)]
  if non_finite:
    raise DivergedError(
      f"step {step}: {', '.join(non_finite)} is not finite. The last "
      "checkpoint is untouched; lower config.optimizer.learning_rate or set "
      "config.optimizer.clip_norm; at step 1, check a loss of your own"
    )


class MetricWriter:
  """Writer of the metrics of one run; of several processes the first writes."""

  def __init__(self, workdir: Folder, resume_step: int, wandb_run: Any = None):
    """Opens the files; lines beyond `resume_step` are taken back."""
    self._is_active = devices.is_coordinator()
    if not self._is_active:
      return
    # Steps after the checkpoint are run, and logged, again.
    self._metric_lines = _LineFile(workdir / METRICS_FILE, resume_step)
    self._speed_lines = _LineFile(workdir / SPEED_FILE, resume_step)
    self._events = tensorboardX.SummaryWriter(
      str(workdir / TENSORBOARD_FOLDER), purge_step=resume_step + 1
    )
    self._wandb_run = wandb_run

  def write(
    self, step: int, scalars: Mapping[str, Any], is_speed: bool = False
  ) -> None:
    """Appends scalars of a step that the seed determines, or its speed."""
    if not self._is_active:
      return
    lines = self._speed_lines if is_speed else self._metric_lines
    values = {name: float(value) for name, value in scalars.items()}
    lines.append({"step": step, **values})
    for name, value in values.items():
      self._events.add_scalar(name, value, step)
    if self._wandb_run is not None:
      self._wandb_run.log(values, step=step)

  def flush(self) -> None:
    """Writes what is not yet in the files: objects of a bucket do not grow."""
    if self._is_active:
      self._metric_lines.flush()
      self._speed_lines.flush()

  def close(self) -> None:
    """Flushes and closes."""
    if not self._is_active:
      return
    self.flush()
    self._events.close()
    if self._wandb_run is not None:
      self._wandb_run.finish()


def read_curves(workdir: Folder) -> Curves:
  """Returns every metric of a run, its speed among them."""
  curves: Curves = {}
  for name in (METRICS_FILE, SPEED_FILE):
    for line in _read_lines(workdir / name, None):
      fields = json.loads(line)
      step = fields.pop("step")
      for key, value in fields.items():
        steps, values = curves.setdefault(key, ([], []))
        steps.append(step)
        values.append(value)
  return curves


class _LineFile:
  """File of JSON lines that grows; in a bucket it is written at `flush`."""

  def __init__(self, path: Folder, resume_step: int):
    """Takes back the lines beyond `resume_step`."""
    self._path = path
    self._lines = _read_lines(path, resume_step)
    files.write_text(path, "".join(self._lines))

  def append(self, fields: Mapping[str, float]) -> None:
    """Appends a line."""
    line = json.dumps(fields, sort_keys=True) + "\n"
    self._lines.append(line)
    if isinstance(self._path, pathlib.Path):
      with self._path.open("a") as file:
        file.write(line)

  def flush(self) -> None:
    """Writes the object of a bucket."""
    if not isinstance(self._path, pathlib.Path):
      files.write_text(self._path, "".join(self._lines))


def _read_lines(path: Folder, last_step: int | None) -> list[str]:
  """Returns the lines up to a step, all if it is None, with their ends."""
  lines = path.read_text().splitlines() if path.exists() else []
  valid_lines = []
  for number, line in enumerate(lines, start=1):
    try:
      step = json.loads(line)["step"]
      if last_step is None or step <= last_step:
        valid_lines.append(line + "\n")
    except (json.JSONDecodeError, KeyError, TypeError):
      # The last line may have been cut off with the run.
      if number < len(lines):
        raise ValueError(
          f"{path}:{number}: not a line of metrics; remove it to resume"
        ) from None
  return valid_lines


# Weights & Biases: the page of a run there, if its config names a project.


def start_run(config: ml_collections.ConfigDict, workdir: Folder) -> Any:
  """Returns the run of W&B that a workdir belongs to, with its whole config.

  All parts of a resumed run are one run there; the workdir keeps its id. W&B's
  own settings, e.g. WANDB_MODE=offline, apply.
  """
  if not config.wandb_project or not devices.is_coordinator():
    return None
  import wandb  # an optional dependency, slow to import

  # A bucket is no place for the files that W&B keeps while a run continues.
  folder = workdir if isinstance(workdir, pathlib.Path) else None
  try:
    return wandb.init(
      project=config.wandb_project,
      name=config.name,
      id=_read_run_id(config.name, workdir),
      resume="allow",
      config=config.to_dict(),
      dir=folder,
    )
  except wandb.Error as error:
    raise ValueError(
      f"config.wandb_project={config.wandb_project!r}: {error} "
      "(wandb login, or WANDB_MODE=offline)"
    ) from error


def _read_run_id(name: str, workdir: Folder) -> str:
  """Returns the number that W&B knows a run by; a new run gets one."""
  path = workdir / WANDB_FILE
  if path.exists():
    return path.read_text().strip()
  # Of other characters some are not allowed.
  run_id = f"{re.sub(r'[^A-Za-z0-9_-]', '-', name)}-{secrets.token_hex(4)}"
  files.write_text(path, run_id + "\n")
  return run_id
