"""Names of the axes of devices, and the platform of these.

The mesh itself is made by `training.partitioning`.
"""

import jax

DATA, FSDP, TENSOR = "data", "fsdp", "tensor"


def find_platform() -> str:
  """Returns the platform of the mesh that is in use, else that of JAX."""
  # A plan is traced for devices that this machine does not have.
  device = jax.sharding.get_abstract_mesh().abstract_device
  return device.platform if device else jax.default_backend()
