"""Trains a grid of methods, values of fields and seeds; prints its tables.

  python -m ctd_jax.ablate --config=configs/small.py --workdir=runs/ablation \\
    --methods=ft,multi,ctd,ctd-release,ctd-no_codebooks --seeds=42,1,2

Any field of the config can be swept; two --grid make every combination:

  python -m ctd_jax.ablate --config=configs/small.py:ft --workdir=runs/rates \\
    --grid=optimizer.learning_rate=1e-4,3e-4 --grid=batch_size=32,64

A sweep lists every combination with its validation, which chooses the best; the
test queries are asked of the best of each method alone, unless --split=test.

Every cell of the grid is a run of `ctd_jax.train` with its own process and
folder, WORKDIR/METHOD/FIELD=VALUE/seed-SEED, and resumes like any other; a
finished one is not repeated. Options of the config, e.g. --config.num_epochs=2,
hold for every run. On a cluster, --list numbers the cells, --cell=NUMBER trains
one in this process, and --collect makes the tables (launch/slurm.sbatch).
Methods and their variants: `training.config.apply_method`; the tables:
`experiments.grid`.
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
  # Here, so that --help and errors of the command line do not wait for JAX.
  from ctd_jax.experiments import grid as grids
  from ctd_jax.training import run_folder
  from ctd_jax_datasets import load

  config, options = command_line.CONFIG.value, flags.FLAGS
  grids.check_task(config)
  workdir = run_folder.resolve_folder(command_line.WORKDIR.value)
  path, _, argument = command_line.config_path().partition(":")
  _, overrides = command_line.split_config_arguments(sys.argv)
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
    # A rate too high is a result: the others are still compared.
    if not is_sweep:
      raise
    failure = error
  if is_sweep:
    grids.run_sweep(grid, benchmark, config.eval.mode, options.split)
    if failure:
      raise failure
    return
  split = options.split or "test"
  print(grids.summarise_grid(cells, benchmark, split, workdir))
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
  """Replaces this process by the run of a cell, unless that is finished.

  So signals, status and several processes are those of a run.

  Raises:
    ValueError: if there is no such cell.
  """
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
    "Methods to train, each with a variant or without; by default "
    f"{','.join(_METHODS)}, and with --grid that of --config. "
    "Example: --methods=ft,ctd,ctd-release,ctd-no_codebooks",
    flag_values=values,
  )
  flags.DEFINE_list(
    "seeds",
    None,
    f"Seeds of every method; by default {','.join(_SEEDS)}, and with --grid "
    "that of the config. Example: --seeds=42,1,2",
    flag_values=values,
  )
  flags.DEFINE_multi_string(
    "grid",
    [],
    "Field of the config and the values that it takes; more than one: every "
    "combination. Example: --grid=optimizer.learning_rate=1e-4,3e-4 "
    "--grid=batch_size=32,64",
    flag_values=values,
  )
  flags.DEFINE_enum(
    "split",
    None,
    ("validation", "test"),
    "Whose queries the tables are about, by default test. With --grid by "
    "default the validation queries of all combinations and the test queries "
    "of the best; test = of all, validation = of none.",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "jobs",
    1,
    "Runs at a time, each on its share of the CPU cores.",
    lower_bound=1,
    flag_values=values,
  )
  flags.DEFINE_bool(
    "list",
    False,
    "Print the cells with their numbers.",
    flag_values=values,
  )
  flags.DEFINE_integer(
    "cell",
    None,
    "Train this cell alone, in this process. "
    "Example: --cell=$SLURM_ARRAY_TASK_ID",
    flag_values=values,
  )
  flags.DEFINE_bool(
    "collect",
    False,
    "Train nothing; make the tables of the finished cells, and evaluate those "
    "that lack it.",
    flag_values=values,
  )


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  define_flags()
  command_line.run_main(main)
