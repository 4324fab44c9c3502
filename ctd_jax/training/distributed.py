"""Processes of one run: joining them, and work that one does for all.

The same program runs in every process, each with devices of its own, and every
array is global; see `partitioning`. The functions here let processes find each
other, hand global arrays to the host, and agree that process 0 writes files, on
a file system that all of them see. With one process nothing is started.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.experimental import multihost_utils
from orbax.checkpoint import multihost

from ctd_jax.training.process_flags import (
  COORDINATOR,
  DISTRIBUTED,
  NUM_PROCESSES,
  PROCESS_ID,
)

# A data set may be built, or a run evaluated, while the others wait.
_BARRIER_TIMEOUT_MS = 12 * 3600 * 1000  # 12 hours
# Every barrier needs a name of its own; all processes count alike.
_barrier_numbers = itertools.count()


def initialize_processes() -> None:
  """Joins the processes of the run, if there are several.

  To be called before anything asks JAX for its devices.

  Raises:
    ValueError: naming the flag that is missing, or what JAX could not read.
  """
  flag_values = {
    flag.name: flag.value for flag in (COORDINATOR, NUM_PROCESSES, PROCESS_ID)
  }
  if any(value is not None for value in flag_values.values()):
    for name, value in flag_values.items():
      if value is None:
        others = [f"--{other}" for other in flag_values if other != name]
        raise ValueError(
          f"--{name} is missing: it belongs to {', '.join(others)}"
        )
    jax.distributed.initialize(
      *flag_values.values(), cluster_detection_method="deactivate"
    )
  elif DISTRIBUTED.value or (
    DISTRIBUTED.value is None and _count_slurm_tasks() > 1
  ):
    jax.distributed.initialize()
  if not is_coordinator():
    logging.set_verbosity(logging.WARNING)


def _count_slurm_tasks() -> int:
  """Returns the tasks that srun started this program in; 1 without srun."""
  return int(os.environ.get("SLURM_STEP_NUM_TASKS", 1))


def is_coordinator() -> bool:
  """Returns whether this process, the first, writes files and logs."""
  return jax.process_index() == 0


def wait_for_all(label: str) -> None:
  """Returns when every process has come to `label`."""
  # Not a collective of the devices: those give up after seconds.
  wait = multihost.get_barrier_sync_fn()
  wait(key=f"{label} {next(_barrier_numbers)}", timeout_ms=_BARRIER_TIMEOUT_MS)


@contextlib.contextmanager
def coordinator_first(label: str) -> Iterator[None]:
  """Has process 0 do something before the others do it.

  An error of process 0 sets them free as well: they meet it themselves.
  """
  if not is_coordinator():
    wait_for_all(label)
  try:
    yield
  finally:
    if is_coordinator():
      wait_for_all(label)


def fetch_to_host(tree: Any) -> Any:
  """Returns global arrays as host arrays, whole in every process."""
  if jax.process_count() == 1:
    return jax.device_get(tree)
  return multihost_utils.process_allgather(tree, tiled=True)


def to_process_local(tree: Any) -> Any:
  """Returns global arrays as arrays that this process can use by itself."""
  return (
    tree if jax.process_count() == 1 else jax.device_put(fetch_to_host(tree))
  )


def process_slice(num_rows: int) -> np.ndarray:
  """Returns the rows that this process works on, as many as every other.

  Together they are all rows in order; after them the last is repeated.
  """
  count = -(-num_rows // jax.process_count())
  start = jax.process_index() * count
  return np.minimum(np.arange(start, start + count), num_rows - 1)


def all_gather(tree: Any, num_rows: int) -> Any:
  """Returns the arrays of all processes joined in the order of the rows.

  Args:
    tree: of host arrays; the first axis is this process's share.
    num_rows: of all shares without the repeated last row.
  """
  if jax.process_count() == 1:
    return tree
  full_tree = multihost_utils.process_allgather(tree, tiled=True)
  return jax.tree.map(lambda x: x[:num_rows], full_tree)


def is_true_in_all_processes(value: bool) -> bool:
  """Returns whether something is true in every process."""
  if jax.process_count() == 1:
    return value
  return bool(multihost_utils.process_allgather(np.array(value)).all())
