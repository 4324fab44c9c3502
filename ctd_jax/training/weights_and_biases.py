"""Weights & Biases: the page of a run there, if its config names a project."""

from __future__ import annotations

import pathlib
import re
import secrets
from typing import Any

import ml_collections

from ctd_jax.training import distributed
from ctd_jax.training.run_folder import WANDB_FILE, Folder
from ctd_jax.utils import files


def start_run(config: ml_collections.ConfigDict, workdir: Folder) -> Any:
  """Returns the run of W&B that a workdir belongs to, with its whole config.

  All parts of a run that was resumed are one run there; its number is kept in
  the workdir. Settings of W&B's own, e.g. WANDB_MODE=offline, count.

  Args:
    config: of the run; `wandb_project` None = no run of W&B.
    workdir: of the run.

  Returns:
    A `wandb.Run`; None without a project, and in all processes but the first.

  Raises:
    ValueError: naming the field, if W&B refuses, e.g. without a key.
  """
  if not config.wandb_project or not distributed.is_coordinator():
    return None
  import wandb  # an optional dependency, slow to import

  # A bucket is no place for the files that W&B keeps while a run goes on.
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
