"""Where arrays live: the mesh and the two shardings of data-parallel training.

Arrays are global: a batch is one array split over the `data` axis, parameters
are replicated, and `jax.jit` inserts the collectives. In-batch negatives are
then a plain `queries @ records.T` over the global batch, with gradient to
every row. Called by `train`, `evaluate` and the tests.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

DATA = "data"


def make_mesh(num_devices: int | None = None) -> Mesh:
  """Returns a one-dimensional mesh over the first `num_devices` devices.

  Args:
    num_devices: how many devices to use; None = all.

  Raises:
    ValueError: if there are fewer devices than asked for.
  """
  devices = jax.devices()
  count = num_devices or len(devices)
  if count > len(devices):
    raise ValueError(f"asked for {count} devices, {len(devices)} are visible")
  # Auto: an explicit axis refuses nn.Embed on a sharded batch.
  return jax.make_mesh(
    (count,), (DATA,), axis_types=(AxisType.Auto,), devices=devices[:count]
  )


def replicated(mesh: Mesh) -> NamedSharding:
  """Returns the sharding of parameters and optimizer state."""
  return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Returns the sharding of an array whose first axis is the batch."""
  return NamedSharding(mesh, PartitionSpec(DATA))


def global_batch(batch: Any, mesh: Mesh) -> Any:
  """Returns the global arrays made of this process's rows.

  Args:
    batch: tree of host arrays; the first axis is this process's share of the
      batch.
    mesh: where to put them.

  Raises:
    ValueError: if the batch does not divide over the devices of the mesh.
  """
  sharding = batch_sharding(mesh)
  local_devices = mesh.local_mesh.size

  def place(array: np.ndarray) -> jax.Array:
    if len(array) % local_devices:
      raise ValueError(
        f"a batch of {len(array)} does not divide over {local_devices} devices"
      )
    return jax.make_array_from_process_local_data(sharding, array)

  return jax.tree.map(place, batch)
