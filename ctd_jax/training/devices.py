"""Devices and processes of one run: sharding of arrays, and shared work.

The same program runs in every process, each with devices of its own, and every
array is global. The functions here lay arrays out over the devices, let
processes find each other, hand global arrays to the host, and agree that
process 0 writes files, on a file system that all of them see. With one process
nothing is started.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import signal
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from orbax.checkpoint import multihost

from ctd_jax.models.encoders.layers import DATA, FSDP, TENSOR
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

  Call this before anything asks JAX for its devices.

  Raises:
    ValueError: if a flag is missing or JAX cannot read it; the message names
      it.
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
    DISTRIBUTED.value is None
    # Set where srun started the program, in this many tasks.
    and int(os.environ.get("SLURM_STEP_NUM_TASKS", 1)) > 1
  ):
    jax.distributed.initialize()
  if not is_coordinator():
    logging.set_verbosity(logging.WARNING)


def is_coordinator() -> bool:
  """Returns whether this process, the first, writes files and logs."""
  return jax.process_index() == 0


def wait_for_all(label: str) -> None:
  """Waits until every process has reached `label`."""
  # Not a collective of the devices: those give up after seconds.
  wait = multihost.get_barrier_sync_fn()
  wait(key=f"{label} {next(_barrier_numbers)}", timeout_ms=_BARRIER_TIMEOUT_MS)


@contextlib.contextmanager
def coordinator_first(label: str) -> Iterator[None]:
  """Has process 0 do something before the others do it.

  If process 0 fails, the others go on and meet the error themselves.
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
  """Returns this process's share of the rows; all shares have the same size.

  Together, the processes have all rows in order, then repeat the last one.
  """
  count = -(-num_rows // jax.process_count())
  start = jax.process_index() * count
  return np.minimum(np.arange(start, start + count), num_rows - 1)


def all_gather(tree: Any, num_rows: int) -> Any:
  """Returns the arrays of all processes joined in the order of the rows."""
  if jax.process_count() == 1:
    return tree
  full_tree = multihost_utils.process_allgather(tree, tiled=True)
  return jax.tree.map(lambda x: x[:num_rows], full_tree)


def is_true_in_all_processes(value: bool) -> bool:
  """Returns whether something is true in every process."""
  if jax.process_count() == 1:
    return value
  return bool(multihost_utils.process_allgather(np.array(value)).all())


# Partitioning of arrays: the mesh, and the axes that split each array.
#
# Arrays are global: a batch is one array split over devices, and `jax.jit`
# inserts the collectives. In-batch negatives are then a plain `queries @
# records.T` over the global batch, with gradient to every row.
#
# The mesh has three axes. `data` splits the batch alone; `fsdp` splits the
# batch and, with it, parameters and optimizer state, which are gathered layer
# by layer where they are used; `tensor` splits the matrices of a layer, whose
# halves work on the same texts.


# Path of a parameter -> axes of its last two dimensions; the first rule that
# matches counts. Parameters that no rule names are small and are replicated.
# Products with the first group leave a split width, those with the second join
# it, so that `tensor` costs one sum per half of a layer.
SHARDING_RULES = (
  (r"\w*embed\w*/embedding$", (TENSOR, FSDP)),
  (r"/(query|key|value|intermediate|gate|up)/kernel$", (FSDP, TENSOR)),
  (r"/(out|output|down)/kernel$", (TENSOR, FSDP)),
  # Adapters: A, [in, r], and B, [r, out], are split as the kernel beside them.
  (r"/(query|key|value|intermediate|gate|up)_lora/a$", (FSDP, None)),
  (r"/(query|key|value|intermediate|gate|up)_lora/b$", (None, TENSOR)),
  (r"/(out|output|down)_lora/a$", (TENSOR, None)),
  (r"/(out|output|down)_lora/b$", (None, FSDP)),
)


def make_mesh(
  num_devices: int | None = None,
  fsdp: int = 1,
  tensor: int = 1,
  devices: Sequence[jax.Device] | None = None,
) -> Mesh:
  """Returns the mesh over the first `num_devices` devices.

  Args:
    num_devices: number of devices to use; None = all.
    fsdp: devices that share parameters and split the batch.
    tensor: devices that share matrices and work on the same texts; what is
      left, num_devices / (fsdp * tensor), is the axis `data`.
    devices: devices to choose from; None = those that JAX sees.
  """
  devices = jax.devices() if devices is None else devices
  count = num_devices or len(devices)
  if count > len(devices):
    raise ValueError(f"asked for {count} devices, {len(devices)} are visible")
  if fsdp < 1 or tensor < 1 or count % (fsdp * tensor):
    raise ValueError(
      f"config.mesh: fsdp={fsdp} times tensor={tensor} must divide the "
      f"{count} devices"
    )
  # Auto axes: with explicit ones nn.Embed refuses a sharded batch.
  return jax.make_mesh(
    (count // (fsdp * tensor), fsdp, tensor),
    (DATA, FSDP, TENSOR),
    axis_types=(AxisType.Auto,) * 3,
    devices=devices[:count],
  )


def replicated_sharding(mesh: Mesh) -> NamedSharding:
  """Returns the sharding of what lives on every device."""
  return NamedSharding(mesh, PartitionSpec())


def use_mesh(mesh: Mesh) -> contextlib.AbstractContextManager[None]:
  """Returns the context in which an encoder knows the devices it runs on.

  A kernel is not partitioned by the compiler, and not every device has it.
  """
  return jax.sharding.use_abstract_mesh(mesh.abstract_mesh)


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Returns the sharding of an array whose first axis is the batch."""
  return NamedSharding(mesh, PartitionSpec((DATA, FSDP)))


def count_batch_shards(mesh: Mesh) -> int:
  """Returns the number of shards that a batch is split into."""
  return mesh.shape[DATA] * mesh.shape[FSDP]


def state_shardings(state: Any, mesh: Mesh) -> Any:
  """Returns the sharding of every array of a train state.

  The rules are `SHARDING_RULES`.

  A moment of the optimizer lives where its parameter does, since its path ends
  in the parameter's. A dimension that an axis does not divide is not split.
  """

  def leaf_sharding(path: tuple[Any, ...], leaf: Any) -> NamedSharding:
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    for pattern, axes in SHARDING_RULES:
      if leaf.ndim > 1 and re.search(pattern, name):
        # Rules are about the last two dimensions: one in front counts the
        # layers of a scan.
        split_axes = [
          axis if axis and size % mesh.shape[axis] == 0 else None
          for axis, size in zip(axes, leaf.shape[-2:], strict=True)
        ]
        leading_axes = [None] * (leaf.ndim - 2)
        return NamedSharding(mesh, PartitionSpec(*leading_axes, *split_axes))
    return replicated_sharding(mesh)

  return jax.tree_util.tree_map_with_path(leaf_sharding, state)


def make_global_batch(batch: Any, mesh: Mesh) -> Any:
  """Returns the global arrays made of this process's rows."""
  sharding = batch_sharding(mesh)
  shards = count_batch_shards(mesh.local_mesh)
  if mesh.local_mesh.shape[TENSOR] < mesh.shape[TENSOR]:
    raise ValueError(
      f"config.mesh.tensor={mesh.shape[TENSOR]}: a process has "
      f"{mesh.local_mesh.size} devices, and others read other texts"
    )

  for array in jax.tree.leaves(batch):
    if len(array) % shards:
      raise ValueError(
        f"a batch of {len(array)} does not divide over {shards} devices"
      )
  return jax.tree.map(
    functools.partial(jax.make_array_from_process_local_data, sharding), batch
  )


# Preemption of a run: a signal saves between two steps and ends the run.
#
# A machine that is about to be taken away sends SIGTERM, a person at a
# terminal SIGINT. In the training loop either is only noted, and the loop
# ends after the current step with a checkpoint. Outside the loop, and at the
# second signal, the run ends at once. The launch scripts restart a run that
# left with `EXIT_SAVED`.


# EX_TEMPFAIL of sysexits.h; as `stopped` in launch/environment.sh.
EXIT_SAVED = 75
# As a shell reports SIGINT. Launch scripts do not restart what a person ended.
EXIT_INTERRUPTED = 128 + signal.SIGINT

_EXIT_STATUS = {signal.SIGTERM: EXIT_SAVED, signal.SIGINT: EXIT_INTERRUPTED}


class Preempted(SystemExit):
  """The run got a signal; the code is the status it leaves with."""


class PreemptionWatch:
  """Handler of SIGTERM and SIGINT while it is entered.

  Several processes have to stop at the same step, whichever of them got the
  signal. There JAX notes SIGTERM and agrees on the step, only the loop reacts,
  and SIGINT is not handled.
  """

  def __init__(self):
    """Prepares to watch; the processes of the run must have been joined."""
    self._defers_signals = False
    self._is_single_process = jax.process_count() == 1
    self._status: int | None = None

  def __enter__(self) -> PreemptionWatch:
    if self._is_single_process:
      self._previous_handlers = {
        s: signal.signal(s, self._handle_signal) for s in _EXIT_STATUS
      }
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
  ) -> None:
    if self._is_single_process:
      for number, handler in self._previous_handlers.items():
        signal.signal(number, handler)

  def _handle_signal(self, number: int, frame: FrameType | None) -> None:
    # The second signal, or no loop that would save: leave from here.
    if self._status is not None or not self._defers_signals:
      raise Preempted(_EXIT_STATUS[number])
    self._status = _EXIT_STATUS[number]
    logging.warning(
      "%s: stopping after this step; once more to stop at once",
      signal.Signals(number).name,
    )

  @contextlib.contextmanager
  def defer_signals(self) -> Iterator[None]:
    """Has signals only noted, for a loop that saves and stops by itself."""
    self._defers_signals = True
    try:
      yield
    finally:
      self._defers_signals = False

  def stop_requested(self, step: int) -> bool:
    """Returns whether to stop after `step`; call it at every step."""
    if (
      not self._is_single_process
      and multihost_utils.reached_preemption_sync_point(step)
    ):
      self._status = EXIT_SAVED
    return self._status is not None

  def exit_if_requested(self) -> None:
    """Ends the run if it got a signal; its state has been saved."""
    if self._status is not None:
      logging.warning(
        "stopped with a checkpoint; the same command resumes from it "
        "(exit status %d)",
        self._status,
      )
      raise Preempted(self._status)
