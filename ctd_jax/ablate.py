"""Trains a grid of methods and seeds and prints its tables.

  python -m ctd_jax.ablate --config=configs/small.py --workdir=runs/ablation \\
    --methods=ft,multi,ctd,ctd-release,ctd-no_codebooks --seeds=42,1,2

Every cell of the grid is a run of `ctd_jax.train` with its own process and
folder, WORKDIR/METHOD/seed-SEED, and resumes like any other; a finished one is
not repeated. Options of the config, e.g. --config.num_epochs=2, hold for every
run. Methods and their variants: `training.config.apply_method`; the tables:
`systems.grid_tables`.
"""

from __future__ import annotations

import sys

from absl import flags

from ctd_jax.training import config as training_config
from ctd_jax.utils import command_line


def main() -> None:
  """Trains the grid in --workdir and prints its tables."""
  # Here, so that --help and errors of the command line do not wait for JAX.
  from ctd_jax.systems import grid_tables
  from ctd_jax.training import grid, run_folder
  from ctd_jax_datasets import load

  config = command_line.CONFIG.value
  workdir = run_folder.resolve_folder(command_line.WORKDIR.value)
  try:
    seeds = [int(seed) for seed in flags.FLAGS.seeds]
  except ValueError:
    raise ValueError(
      f"--seeds={','.join(flags.FLAGS.seeds)}: expected whole numbers"
    ) from None
  if flags.FLAGS.jobs < 1:
    raise ValueError(f"--jobs={flags.FLAGS.jobs}: expected at least 1")
  path, overrides = command_line.split_config_arguments(sys.argv)
  for method in flags.FLAGS.methods:
    # Refuses an unknown method before anything is trained.
    training_config.apply_method(training_config.base_config(), method)
  cells = grid.make_grid(flags.FLAGS.methods, seeds, workdir)
  grid.train_cells(cells, path, overrides, flags.FLAGS.jobs)
  benchmark = load.build_benchmark(
    config.dataset, config.data_dir, config.sources
  )
  print(
    grid_tables.summarise_grid(cells, benchmark, flags.FLAGS.split, workdir)
  )
  print(
    f"tables       {workdir / 'results.txt'}, results.json, comparisons.tsv"
  )


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.DEFINE_list(
    "methods",
    ["ft", "multi", "bias", "ctx", "ctd"],
    "Methods to train, each with a variant or without. "
    "Example: --methods=ft,ctd,ctd-release,ctd-no_codebooks",
  )
  flags.DEFINE_list(
    "seeds", ["42", "1", "2"], "Seeds of every method. Example: --seeds=42,1,2"
  )
  flags.DEFINE_enum(
    "split",
    "test",
    ("validation", "test"),
    "Whose queries the tables are about.",
  )
  flags.DEFINE_integer(
    "jobs", 1, "Runs at a time, each on its share of the CPU cores."
  )
  command_line.run_main(main)
