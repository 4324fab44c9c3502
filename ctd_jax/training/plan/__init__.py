"""Plan of a run on devices that are not there: memory, FLOPs, traffic, time."""
