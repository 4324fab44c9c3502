"""Names of the axes of devices, see `training.partitioning`."""

DATA, FSDP, TENSOR = "data", "fsdp", "tensor"
