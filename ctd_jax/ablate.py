"""Trains a grid of methods and seeds, and says which step earns what.

  python -m ctd_jax.ablate --config=configs/small.py --workdir=runs/ablation \
    --methods=ft,multi,ctd,ctd-release,ctd-no_codebooks --seeds=42,1,2

Every cell of the grid is a run of `ctd_jax.train` with its own process and
folder, WORKDIR/METHOD/seed-SEED, and resumes like any other; a finished one is
not repeated. Options of the config, e.g. --config.num_epochs=2, hold for every
run. Methods and their variants: `configs.common.apply_method`.

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

from ctd_jax import evaluate
from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.evaluation import protocol, result_tables, results, summary
from ctd_jax.training.experiment import EVALUATION_FOLDER
from ctd_jax.utils import command_line, files
from ctd_jax_configs import common
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
class Cell:
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
  def finished(self) -> bool:
    """Whether its run files were written and evaluated."""
    return (self.folder / EVALUATION_FOLDER / "per_query.tsv").exists()

  def command(self, config: str, overrides: Sequence[str]) -> list[str]:
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


def grid(
  methods: Sequence[str], seeds: Sequence[int], workdir: pathlib.Path
) -> list[Cell]:
  """Returns the cells, all methods of the first seed first."""
  return [
    Cell(method, seed, workdir / method / f"seed-{seed}")
    for seed in seeds
    for method in methods
  ]


def train(
  cells: Sequence[Cell], config: str, overrides: Sequence[str], jobs: int
) -> None:
  """Runs what is not finished, `jobs` at a time on shares of the CPU cores.

  What a run prints goes to `log.txt` in its folder.

  Raises:
    ValueError: naming the runs that failed, after all others have ended.
  """
  cores = sorted(os.sched_getaffinity(0))
  shares = [cores[job::jobs] or cores for job in range(jobs)]
  left = [cell for cell in cells if not cell.finished]
  bar = tqdm.tqdm(total=len(left), unit="run", desc="grid", disable=None)

  def run(cell: Cell) -> int:
    share = shares.pop()
    cell.folder.mkdir(parents=True, exist_ok=True)
    with (cell.folder / "log.txt").open("a") as log:
      process = subprocess.Popen(
        cell.command(config, overrides), stdout=log, stderr=log
      )
      os.sched_setaffinity(process.pid, share)
      code = process.wait()
    shares.append(share)
    bar.update()
    logging.info("%s, seed %d: exit %d", cell.method, cell.seed, code)
    return code

  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    codes = list(pool.map(run, left))
  bar.close()
  failed = [cell for cell, code in zip(left, codes, strict=True) if code]
  if failed:
    lines = [
      f"  {cell.folder / 'log.txt'}: {_last_line(cell.folder / 'log.txt')}"
      for cell in failed
    ]
    raise ValueError(
      f"{len(failed)} of {len(left)} runs failed; the others are kept:\n"
      + "\n".join(lines)
    )


def _last_line(path: pathlib.Path) -> str:
  lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
  return lines[-1] if lines else "nothing printed"


def read(
  cells: Sequence[Cell], benchmark: Benchmark, split: str
) -> dict[str, dict[str, list[protocol.PerQuery]]]:
  """Returns method -> mode -> values of every query, a table for each seed.

  The tables name the method, not the config: sizes may have been changed.

  Args:
    cells: finished runs.
    benchmark: what they were run on.
    split: whose queries.
  """
  kinds = {record.record_id: record.kind for record in benchmark.records}
  found: dict[str, dict[str, list[protocol.PerQuery]]] = {}
  for cell in cells:
    for name in summary.SHOWN_MODES:
      mode = protocol.mode(name)
      folder = cell.folder / EVALUATION_FOLDER
      (path,) = folder.glob(f"run.*.{split}.{mode.gallery}.trec")
      table = protocol.evaluate_run(
        runs.read_run(path), benchmark.queries[split], kinds, mode
      )
      by_mode = found.setdefault(cell.method, {})
      by_mode.setdefault(name, []).append(
        dataclasses.replace(table, system=cell.method)
      )
  return found


def rivals(method: str, methods: Sequence[str]) -> list[str]:
  """Returns with which others of the grid a method is compared.

  A variant is compared with the method itself, and like the method with what
  it builds on, in the same variant.
  """
  name, _, variant = method.partition("-")
  others = [name] if variant else []
  for base in BUILDS_ON.get(name, ()):
    others.append(f"{base}-{variant}" if variant else base)
  return [other for other in others if other in methods]


def by_seed(
  found: Mapping[str, Mapping[str, Sequence[protocol.PerQuery]]],
) -> str:
  """Returns hit@1 of every run, a line for each method and mode."""
  width = max(map(len, found))
  parts = []
  for mode in summary.SHOWN_MODES:
    parts.append(f"hit@1, {mode}, run by run\n")
    for method, tables in found.items():
      values = "  ".join(f"{t.mean('hit@1'):.4f}" for t in tables[mode])
      parts.append(f"  {method:<{width}}  {values}\n")
  return "".join(parts)


def comparisons(
  found: Mapping[str, Mapping[str, protocol.PerQuery]],
  years: Mapping[str, tuple[int, int]],
) -> str:
  """Returns paired tests of hit@1 for each method against its rivals."""
  pairs = [
    (method, other) for method in found for other in rivals(method, list(found))
  ]
  parts = []
  for mode in summary.SHOWN_MODES if pairs else ():
    compared = summary.compare_pairs(
      [(found[a][mode], found[b][mode]) for a, b in pairs], years
    )
    labels = [f"{each.system} - {each.other}" for each in compared]
    width = max(map(len, labels))
    lines = [
      f"  {label:<{width}}  {each}\n"
      for label, each in zip(labels, compared, strict=True)
    ]
    parts.append(
      f"hit@1, {mode}, paired randomisation over queries\n{''.join(lines)}"
    )
  return "\n".join(parts)


def summarise(
  cells: Sequence[Cell], benchmark: Benchmark, split: str, folder: pathlib.Path
) -> str:
  """Returns the tables as text; writes results.txt and results.json.

  Args:
    cells: finished runs.
    benchmark: what they were run on.
    split: whose queries.
    folder: for the two files.
  """
  of_runs = read(cells, benchmark, split)
  found = {
    method: {mode: protocol.average(tables) for mode, tables in modes.items()}
    for method, modes in of_runs.items()
  }
  years = summary.years_of(benchmark, split)
  rows = []
  for method, by_mode in found.items():
    own = [cell for cell in cells if cell.method == method]
    origin = [
      next(iter(summary.read_origin(c.folder / EVALUATION_FOLDER).values()))
      for c in own
    ]
    about = {
      "seeds": tuple(cell.seed for cell in own),
      "command": evaluate.command(),
      "commit": origin[0]["commit"],
      "seconds": round(sum(each["seconds"] for each in origin), 1),
    }
    for table in by_mode.values():
      rows += results.result_rows(table, benchmark.name, years, **about)
  results.write_rows(folder / "results.json", rows)
  tables = result_tables.format_table(
    results.select(rows, family="all"), intervals=True
  )
  text = f"{tables}\n{by_seed(of_runs)}\n{comparisons(found, years)}"
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
  path, overrides = command_line.config_arguments(sys.argv)
  for method in flags.FLAGS.methods:
    common.apply_method(common.base(), method)  # refuses what there is not
  cells = grid(flags.FLAGS.methods, seeds, workdir)
  train(cells, path, overrides, flags.FLAGS.jobs)
  benchmark = load.build_benchmark(
    config.dataset, config.data_dir, config.sources
  )
  print(summarise(cells, benchmark, flags.FLAGS.split, workdir))
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
  command_line.run(main)
