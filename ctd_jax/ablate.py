"""Trains a grid of methods and seeds, and says which step earns what.

  python -m ctd_jax.ablate --config=configs/small.py --workdir=runs/ablation \
    --methods=ft,multi,ctd,ctd-release,ctd-no_codebooks --seeds=42,1,2

Every cell of the grid is a run of `ctd_jax.train` with its own process and
folder, WORKDIR/METHOD/seed-SEED, and resumes like any other; a finished one is
not repeated. Options of the config, e.g. --config.num_epochs=2, hold for every
run. Methods and their variants: `configs.training_config.apply_method`.

The run files of a method are averaged over its seeds, query by query. The
tables show intervals from resampled years; below them, each method is compared
with the one it builds on, and each variant with the method itself, paired over
queries and over whole years, with Holm's correction over all pairs of a mode.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

import tqdm
from absl import flags, logging

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.evaluation import (
  comparison,
  protocol,
  result_tables,
  results,
  summary,
)
from ctd_jax.training import config as training_config
from ctd_jax.training.run_folder import EVALUATION_FOLDER
from ctd_jax.utils import command_line, files, provenance
from ctd_jax_datasets import load

# Method -> the one that it adds a single thing to.
BUILDS_ON: Mapping[str, tuple[str, ...]] = {
  "ft": ("zs",),
  "tempdate": ("ft",),
  "tempdate_smooth": ("ft", "tempdate"),
  "multi": ("ft",),
  "bias": ("multi",),
  "ctx": ("multi",),
  "ctd": ("ft", "bias", "ctx"),
  "posterior": ("multi",),
  "ctd_posterior": ("ctd", "posterior"),
}


@dataclasses.dataclass(frozen=True)
class GridCell:
  """One run of the grid.

  Attributes:
    method: and variant, what follows the colon of --config.
    seed: of the run.
    folder: its workdir.
  """

  method: str
  seed: int
  folder: pathlib.Path

  @property
  def is_finished(self) -> bool:
    """Whether its run files were written and evaluated."""
    return (self.folder / EVALUATION_FOLDER / "per_query.tsv").exists()

  def train_command(self, config: str, overrides: Sequence[str]) -> list[str]:
    """Returns the arguments that train it.

    Args:
      config: path of the config, without a method.
      overrides: --config.FIELD=VALUE arguments of every run.
    """
    return [
      *(sys.executable, "-m", "ctd_jax.train"),
      *(f"--config={config}:{self.method}", "--config.eval.baselines=()"),
      *(*overrides, f"--config.seed={self.seed}"),
      f"--workdir={self.folder}",
    ]


def make_grid(
  methods: Sequence[str], seeds: Sequence[int], workdir: pathlib.Path
) -> list[GridCell]:
  """Returns the cells, all methods of the first seed first."""
  return [
    GridCell(method, seed, workdir / method / f"seed-{seed}")
    for seed in seeds
    for method in methods
  ]


def train_cells(
  cells: Sequence[GridCell], config: str, overrides: Sequence[str], jobs: int
) -> None:
  """Runs what is not finished, `jobs` at a time on shares of the CPU cores.

  What a run prints goes to `log.txt` in its folder.

  Raises:
    ValueError: naming the runs that failed, after all others have ended.
  """
  cores = sorted(os.sched_getaffinity(0))
  core_shares = [cores[job::jobs] or cores for job in range(jobs)]
  pending = [cell for cell in cells if not cell.is_finished]
  bar = tqdm.tqdm(total=len(pending), unit="run", desc="grid", disable=None)

  def run_cell(cell: GridCell) -> int:
    core_share = core_shares.pop()
    cell.folder.mkdir(parents=True, exist_ok=True)
    with (cell.folder / "log.txt").open("a") as log:
      process = subprocess.Popen(
        cell.train_command(config, overrides), stdout=log, stderr=log
      )
      os.sched_setaffinity(process.pid, core_share)
      code = process.wait()
    core_shares.append(core_share)
    bar.update()
    logging.info("%s, seed %d: exit %d", cell.method, cell.seed, code)
    return code

  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    codes = list(pool.map(run_cell, pending))
  bar.close()
  failed = [cell for cell, code in zip(pending, codes, strict=True) if code]
  if failed:
    lines = [
      f"  {cell.folder / 'log.txt'}: {_last_line(cell.folder / 'log.txt')}"
      for cell in failed
    ]
    raise ValueError(
      f"{len(failed)} of {len(pending)} runs failed; the others are kept:\n"
      + "\n".join(lines)
    )


def _last_line(path: pathlib.Path) -> str:
  lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
  return lines[-1] if lines else "nothing printed"


def read_runs(
  cells: Sequence[GridCell], benchmark: Benchmark, split: str
) -> dict[str, dict[str, list[protocol.PerQueryScores]]]:
  """Returns method -> mode -> values of every query, a table for each seed.

  The tables name the method, not the config: sizes may have been changed.

  Args:
    cells: finished runs.
    benchmark: what they were run on.
    split: whose queries.
  """
  kinds = {record.record_id: record.kind for record in benchmark.records}
  tables_by_method: dict[str, dict[str, list[protocol.PerQueryScores]]] = {}
  for cell in cells:
    for name in summary.REPORT_MODES:
      mode = protocol.get_mode(name)
      folder = cell.folder / EVALUATION_FOLDER
      (path,) = folder.glob(f"run.*.{split}.{mode.gallery}.trec")
      table = protocol.evaluate_run(
        runs.read_run(path), benchmark.queries[split], kinds, mode
      )
      by_mode = tables_by_method.setdefault(cell.method, {})
      by_mode.setdefault(name, []).append(
        dataclasses.replace(table, system=cell.method)
      )
  return tables_by_method


def find_rivals(method: str, methods: Sequence[str]) -> list[str]:
  """Returns with which others of the grid a method is compared.

  A variant is compared with the method itself, and like the method with what
  it builds on, in the same variant.
  """
  name, _, variant = method.partition("-")
  rivals = [name] if variant else []
  for base in BUILDS_ON.get(name, ()):
    rivals.append(f"{base}-{variant}" if variant else base)
  return [rival for rival in rivals if rival in methods]


def format_seed_tables(
  tables_by_method: Mapping[
    str, Mapping[str, Sequence[protocol.PerQueryScores]]
  ],
) -> str:
  """Returns hit@1 of every run, a line for each method and mode."""
  width = max(map(len, tables_by_method))
  blocks = []
  for mode in summary.REPORT_MODES:
    blocks.append(f"hit@1, {mode}, run by run\n")
    for method, tables in tables_by_method.items():
      values = "  ".join(
        f"{t.mean_of_family('hit@1'):.4f}" for t in tables[mode]
      )
      blocks.append(f"  {method:<{width}}  {values}\n")
  return "".join(blocks)


def format_comparisons(
  tables_by_method: Mapping[str, Mapping[str, protocol.PerQueryScores]],
  years: Mapping[str, tuple[int, int]],
) -> str:
  """Returns paired tests of hit@1 for each method against its rivals."""
  pairs = [
    (method, rival)
    for method in tables_by_method
    for rival in find_rivals(method, list(tables_by_method))
  ]
  blocks = []
  for mode in summary.REPORT_MODES if pairs else ():
    paired_tests = comparison.compare_system_pairs(
      [
        (tables_by_method[a][mode], tables_by_method[b][mode]) for a, b in pairs
      ],
      years,
    )
    labels = [
      f"{paired_test.system} - {paired_test.other_system}"
      for paired_test in paired_tests
    ]
    width = max(map(len, labels))
    lines = [
      f"  {label:<{width}}  {paired_test}\n"
      for label, paired_test in zip(labels, paired_tests, strict=True)
    ]
    blocks.append(
      f"hit@1, {mode}, paired randomisation over queries\n{''.join(lines)}"
    )
  return "\n".join(blocks)


def summarise_grid(
  cells: Sequence[GridCell],
  benchmark: Benchmark,
  split: str,
  folder: pathlib.Path,
) -> str:
  """Returns the tables as text; writes results.txt and results.json.

  Args:
    cells: finished runs.
    benchmark: what they were run on.
    split: whose queries.
    folder: for the two files.
  """
  run_tables = read_runs(cells, benchmark, split)
  mean_tables = {
    method: {
      mode: protocol.average_seeds(tables) for mode, tables in modes.items()
    }
    for method, modes in run_tables.items()
  }
  years = comparison.find_query_years(benchmark, split)
  rows = []
  for method, by_mode in mean_tables.items():
    method_cells = [cell for cell in cells if cell.method == method]
    origins = [
      next(iter(summary.read_run_origin(c.folder / EVALUATION_FOLDER).values()))
      for c in method_cells
    ]
    row_fields = {
      "seeds": tuple(cell.seed for cell in method_cells),
      "command": provenance.command_line(),
      "commit": origins[0]["commit"],
      "seconds": round(sum(origin["seconds"] for origin in origins), 1),
    }
    for table in by_mode.values():
      rows += results.make_result_rows(
        table, benchmark.name, years, **row_fields
      )
  results.write_result_rows(folder / "results.json", rows)
  tables = result_tables.format_table(
    results.select_rows(rows, family="all"), intervals=True
  )
  comparisons = format_comparisons(mean_tables, years)
  text = f"{tables}\n{format_seed_tables(run_tables)}\n{comparisons}"
  files.write_text(folder / "results.txt", text)
  return text


def main() -> None:
  """Trains the grid in --workdir and prints its tables."""
  config = command_line.CONFIG.value
  workdir = pathlib.Path(command_line.WORKDIR.value).expanduser().absolute()
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
    training_config.apply_method(
      training_config.base_config(), method
    )  # refuses what there is not
  cells = make_grid(flags.FLAGS.methods, seeds, workdir)
  train_cells(cells, path, overrides, flags.FLAGS.jobs)
  benchmark = load.build_benchmark(
    config.dataset, config.data_dir, config.sources
  )
  print(summarise_grid(cells, benchmark, flags.FLAGS.split, workdir))
  print(f"tables       {workdir / 'results.txt'}, results.json")


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.DEFINE_list(
    "methods",
    ["ft", "multi", "bias", "ctx", "ctd"],
    "What is trained: methods, each with a variant or without. "
    "Example: --methods=ft,ctd,ctd-release,ctd-no_codebooks",
  )
  flags.DEFINE_list(
    "seeds", ["42", "1", "2"], "Seeds of every method. Example: --seeds=42,1,2"
  )
  flags.DEFINE_string("split", "test", "Whose queries the tables are about.")
  flags.DEFINE_integer(
    "jobs", 1, "Runs at a time, each on its share of the CPU cores."
  )
  command_line.run_main(main)
