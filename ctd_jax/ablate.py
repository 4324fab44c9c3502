r"""Trains a grid of methods, config values and seeds, and prints its tables.

  python -m ctd_jax.ablate --config=configs/small.py --workdir=runs/ablation \
    --methods=ft,multi,ctd,ctd-release,ctd-no_codebooks --seeds=42,1,2

Sweep any config field with --grid; two --grid flags make every combination:

  python -m ctd_jax.ablate --config=configs/small.py:ft --workdir=runs/rates \
    --grid=optimizer.learning_rate=1e-4,3e-4 --grid=batch_size=32,64

A sweep compares all combinations on the validation queries. Only the best one
of each method is evaluated on the test queries, unless you set --split=test.

Each cell of the grid is a `ctd_jax.train` run in its own process and folder,
WORKDIR/METHOD/FIELD=VALUE/seed-SEED. An interrupted run resumes; a finished
one is not repeated. Config overrides such as --config.num_epochs=2 apply to
every run. On a cluster, --list numbers the cells, --cell=NUMBER trains one, and
--collect makes the tables (see launch/slurm.sbatch).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from ctd_jax.utils import command_line

if TYPE_CHECKING:
  from ctd_jax.experiments.grid import Grid

_METHODS = ("ft", "multi", "bias", "ctx", "ctd")
_SEEDS = ("42", "1", "2")


def main() -> None:
  """Trains the grid in --workdir, or a cell of it, and prints its tables."""
  # Imported here so that --help and flag errors do not wait for JAX.
  from ctd_jax.experiments import grid as grids
  from ctd_jax.training import run_folder
  from ctd_jax_datasets import load

  config, options = command_line.CONFIG.value, flags.FLAGS
  grids.check_task(config)
  workdir = run_folder.resolve_folder(command_line.WORKDIR.value)
  path, _, argument = command_line.config_path().partition(":")
  overrides = command_line.list_config_overrides(sys.argv)
  values_by_field = grids.parse_grid(options.grid)
  is_sweep = bool(values_by_field)
  methods = options.methods or ([argument] if is_sweep else _METHODS)
  seeds = options.seeds or ([str(config.seed)] if is_sweep else _SEEDS)
  values = grids.read_values(
    values_by_field, grids.join_method(path, methods[0]), overrides
  )
  cells = grids.make_cells(methods, _parse_seeds(seeds), workdir, values)
  grid = grids.Grid(cells, path, overrides, workdir, options.jobs)
  grid.check()
  splits = ("validation",) if is_sweep and options.split != "test" else ()
  if options.list:
    print(*(f"{i}\t{cell.folder}" for i, cell in enumerate(cells)), sep="\n")
    return
  if options.cell is not None:
    _become_cell(grid, options.cell, splits)
    return
  benchmark = load.build_benchmark(
    config.dataset, config.data_dir, config.sources
  )
  failure = None
  try:
    if options.collect:
      grid.check_finished()
    else:
      grid.train(splits)
  except ValueError as error:
    # A learning rate that diverges is a result: compare the others anyway.
    if not is_sweep:
      raise
    failure = error
  if is_sweep:
    grids.run_sweep(grid, benchmark, config.eval.mode, options.split)
    if failure:
      raise failure
    return
  print(
    grids.summarise_grid(cells, benchmark, options.split or "test", workdir)
  )
  print(
    f"tables       {workdir / 'results.txt'}, results.json, comparisons.tsv"
  )


def _parse_seeds(texts: Sequence[str]) -> list[int]:
  try:
    return [int(text) for text in texts]
  except ValueError:
    raise ValueError(
      f"--seeds={','.join(texts)}: expected whole numbers"
    ) from None


def _become_cell(grid: Grid, number: int, splits: Sequence[str]) -> None:
  """Replaces this process by the run of a cell, unless that is finished."""
  # exec: signals and exit status are then those of the run itself.
  if not 0 <= number < len(grid.cells):
    raise ValueError(
      f"--cell={number}: the grid has cells 0 to {len(grid.cells) - 1}; --list "
      "prints them"
    )
  cell = grid.cells[number]
  if cell.is_finished:
    print(f"{cell.folder} is finished")
    return
  command = grid.make_command("ctd_jax.train", cell, splits)
  sys.stdout.flush()
  os.execv(command[0], command)


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
  """Defines the flags of this command besides --config and --workdir."""
  flags.DEFINE_list(
    "methods",
    None,
    "Methods to train, optionally with a variant, as in ctd-no_codebooks. "
    f"Default: {','.join(_METHODS)}; with --grid, the method of --config. "
    "Example: --methods=ft,ctd,ctd-release,ctd-no_codebooks",
    flag_values=values,
  )
  flags.DEFINE_list(
    "seeds",
    None,
    f"Seeds for every method. Default: {','.join(_SEEDS)}; with --grid, the "
    "seed of the config. Example: --seeds=42,1,2",
    flag_values=values,
  )
  flags.DEFINE_multi_string(
    "grid",
    [],
    "Config field and its values; repeat the flag to train every combination. "
    "Example: --grid=optimizer.learning_rate=1e-4,3e-4 --grid=batch_size=32,64",
    flag_values=values,
  )
  flags.DEFINE_enum(
    "split",
    None,
    ("validation", "test"),
    "Queries to evaluate. Default: test; with --grid, validation for all "
    "combinations and test for the best. With --grid, test evaluates all "
    "combinations on the test queries and validation none. "
    "Example: --split=validation",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "jobs",
    1,
    "Number of parallel runs, which share the CPU cores. Example: --jobs=2",
    lower_bound=1,
    flag_values=values,
  )
  flags.DEFINE_bool(
    "list",
    False,
    "Print the numbered cells and exit. Example: --list",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "cell",
    None,
    "Train only the cell with this number, in this process. "
    "Example: --cell=$SLURM_ARRAY_TASK_ID",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "collect",
    False,
    "Train nothing; evaluate the finished cells and make their tables. "
    "Example: --collect",
    flag_values=values,
  )


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  define_flags()
  command_line.run_main(main)
