"""Partitioning of arrays: the mesh, and the axes that split each array.

Arrays are global: a batch is one array split over devices, and `jax.jit`
inserts the collectives. In-batch negatives are then a plain
`queries @ records.T` over the global batch, with gradient to every row.

The mesh has three axes. `data` splits the batch alone; `fsdp` splits the batch
and, with it, parameters and optimizer state, which are gathered layer by layer
where they are used; `tensor` splits the matrices of a layer, whose halves work
on the same texts.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ctd_jax.models.mesh_axes import DATA, FSDP, TENSOR

# Path of a parameter -> axes of its last two dimensions; the first rule that
# matches counts. What no rule names is small and lives everywhere. Products
# with the first group leave a split width, those with the second join it, so
# that `tensor` costs one sum a layer half.
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
    devices: to choose from; None = those that JAX sees.

  Raises:
    ValueError: if there are fewer devices than asked for, or they do not
      divide into the axes.
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

  Args:
    state: tree of arrays or of their shapes.
    mesh: devices that hold them.
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
  """Returns the global arrays made of this process's rows.

  Args:
    batch: tree of host arrays; the first axis is this process's share of the
      batch.
    mesh: devices that hold them.

  Raises:
    ValueError: if the batch does not divide over the devices of the mesh, or
      devices of several processes share its texts.
  """
  sharding = batch_sharding(mesh)
  shards = count_batch_shards(mesh.local_mesh)
  if mesh.local_mesh.shape[TENSOR] < mesh.shape[TENSOR]:
    raise ValueError(
      f"config.mesh.tensor={mesh.shape[TENSOR]}: a process has "
      f"{mesh.local_mesh.size} devices, and others read other texts"
    )

  def make_global_array(array: np.ndarray) -> jax.Array:
    if len(array) % shards:
      raise ValueError(
        f"a batch of {len(array)} does not divide over {shards} devices"
      )
    return jax.make_array_from_process_local_data(sharding, array)

  return jax.tree.map(make_global_array, batch)
