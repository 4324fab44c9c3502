"""Experiments: a run trained and evaluated, and grids of runs compared."""
