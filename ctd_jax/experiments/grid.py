"""Grid of methods, values of fields and seeds: trained, chosen, compared.

A cell is a run of its own. The run files of a system are averaged over its
seeds, query by query. The tables show intervals from resampled years; below
them, each method is compared with its rivals, and each variant with the method
itself, paired over queries and over whole years, with Holm's correction over
all pairs of a mode.

In a sweep over values the systems of a method are compared on the validation
queries, in the mode that selects checkpoints. Only the best system of each
method answers the test queries: looking at all of them would be choosing by the
test.
"""

import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import ml_collections
from absl import logging

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.evaluation import (
  protocol,
  result_tables,
  results,
  significance,
  summary,
)
from ctd_jax.experiments import evaluation_run, training_run
from ctd_jax.systems import registry
from ctd_jax.training import config as training_config
from ctd_jax.training import losses
from ctd_jax.training.run_folder import EVALUATION_FOLDER
from ctd_jax.utils import command_line, files, output

SWEEP_FILE = "sweep.tsv"  # a line for every run
MEASURE = "hit@1"  # chooses, as it selects checkpoints
# Method -> the methods that it is compared with: those to which it adds one
# component, and CTD, where it is another way to make time count.
RIVALS: Mapping[str, tuple[str, ...]] = {
  "ft": ("zs",),
  "tempdate": ("ft",),
  "tempdate_smooth": ("ft", "tempdate"),
  "multi": ("ft",),
  "bias": ("multi",),
  "ctx": ("multi",),
  "ctd": ("ft", "bias", "ctx"),
  "posterior": ("multi", "ctd"),
  "ctd_posterior": ("ctd", "posterior"),
  "temps": ("multi", "ctd"),
  "date_prefix": ("multi", "ctd"),
  "time_tokens": ("multi", "date_prefix", "ctd"),
}
# What all cells must share to be compared, and what would be right.
_SHARED_FIELDS = {
  "seed": "give --seeds",
  "dataset": "give --config.dataset to each sweep of its own",
  "eval.mode": "give --config.eval.mode; it chooses among all cells",
  "eval.splits": "give --split",
  "eval.baselines": "systems without training need no sweep",
}
# Commas between values, not those inside of brackets: 1,(2,3) has two values.
_VALUE = re.compile(r"(?:\([^()]*\)|[^,()])+")
# What cannot stand in the name of a system or of a folder.
_FORBIDDEN_IN_NAMES = re.compile(r"[\s:/\\]+")

# System -> mode -> a table of all queries for each seed.
SeedTables = Mapping[str, Mapping[str, Sequence[protocol.PerQueryScores]]]


@dataclasses.dataclass(frozen=True)
class GridCell:
  """One run of the grid."""

  method: str  # method and variant, as after the colon of --config; "" = none
  seed: int  # of the run
  folder: pathlib.Path  # its workdir
  # Pairs of a field and its value, as in an override.
  values: tuple[tuple[str, str], ...] = ()

  @property
  def system(self) -> str:
    """Name in tables, the same for all seeds."""
    return ",".join(filter(None, [self.method, _name_values(self.values)]))

  @property
  def is_finished(self) -> bool:
    """Whether the run files were written and evaluated."""
    return (self.folder / EVALUATION_FOLDER / "per_query.tsv").exists()

  def list_overrides(self) -> list[str]:
    """Returns the arguments that make a config that of the cell."""
    values = [f"--config.{field}={value}" for field, value in self.values]
    return [*values, f"--config.seed={self.seed}"]


def _name_values(values: Sequence[tuple[str, str]]) -> str:
  """Returns e.g. "optimizer.learning_rate=0.0001,batch_size=32"."""
  return ",".join(
    f"{field}={_FORBIDDEN_IN_NAMES.sub('-', value.replace(', ', ','))}"
    for field, value in values
  )


def join_method(config: str, method: str) -> str:
  """Returns the value of --config: the path of a config with a method."""
  return f"{config}:{method}" if method else config


def make_cells(
  methods: Sequence[str],
  seeds: Sequence[int],
  workdir: pathlib.Path,
  values_by_field: Mapping[str, Sequence[str]] | None = None,
) -> list[GridCell]:
  """Returns the cells, all of the first seed first.

  Args:
    methods: methods, as after the colon of --config; "" = none.
    seeds: seeds of every method with all values.
    workdir: holds the folders of the cells.
    values_by_field: values of each field; every combination is a cell.

  Raises:
    ValueError: if two cells have one folder.
  """
  values_by_field = values_by_field or {}
  cells: dict[pathlib.Path, GridCell] = {}
  for seed, method, values in itertools.product(
    seeds, methods, itertools.product(*values_by_field.values())
  ):
    pairs = tuple(zip(values_by_field, values, strict=True))
    parts = filter(None, [method, _name_values(pairs), f"seed-{seed}"])
    folder = workdir.joinpath(*parts)
    if folder in cells:
      raise ValueError(f"two runs of the grid would be in {folder}")
    cells[folder] = GridCell(method, seed, folder, pairs)
  return list(cells.values())


@dataclasses.dataclass(frozen=True)
class Grid:
  """A grid and how its runs are started."""

  cells: Sequence[GridCell]  # the runs
  config: str  # path of the config, without a method
  overrides: Sequence[str]  # --config.FIELD=VALUE arguments of every run
  workdir: pathlib.Path  # holds the folders of the cells; gets the tables
  jobs: int = 1  # runs at a time, each on its share of the CPU cores

  def make_command(
    self, module: str, cell: GridCell, splits: Sequence[str] = ()
  ) -> list[str]:
    """Returns the command that trains or evaluates a cell.

    Args:
      module: "ctd_jax.train" or "ctd_jax.evaluate".
      cell: cell of the grid.
      splits: splits to evaluate; () = those of the config.
    """
    return [
      *(sys.executable, "-m", module),
      f"--config={join_method(self.config, cell.method)}",
      "--config.eval.baselines=()",
      # The last of two values counts: that of the grid.
      *(*self.overrides, *cell.list_overrides()),
      *([f"--config.eval.splits={tuple(splits)}"] if splits else []),
      f"--workdir={cell.folder}",
    ]

  def check(self) -> None:
    """Raises ValueError if a cell cannot be trained, before any is.

    Raises:
      ValueError: if a cell is wrong; the message names it, the field and what
        is expected.
    """
    for cell in self.cells:
      config = join_method(self.config, cell.method)
      try:
        cell_config = command_line.read_config(
          config, [*self.overrides, *cell.list_overrides()]
        )
        training_config.validate(cell_config)
        evaluation_run.validate_evaluation(cell_config)
        losses.try_loss(cell_config.loss)
      except ValueError as error:
        raise ValueError(f"{cell.system or config}: {error}") from None

  def check_finished(self) -> None:
    """Raises ValueError if a cell is not finished, naming it."""
    pending = [cell for cell in self.cells if not cell.is_finished]
    if pending:
      raise ValueError(
        f"{len(pending)} of {len(self.cells)} runs are not finished: "
        + ", ".join(str(cell.folder) for cell in pending)
      )

  def train(self, splits: Sequence[str] = ()) -> None:
    """Runs the unfinished cells; their output goes to log.txt in their folders.

    Args:
      splits: splits to evaluate; () = those of the config.

    Raises:
      ValueError: if runs failed, after all others have ended; the message names
        them.
    """
    pending = [cell for cell in self.cells if not cell.is_finished]
    self._run("ctd_jax.train", pending, splits)

  def evaluate(self, cells: Sequence[GridCell], split: str) -> None:
    """Evaluates cells on a split, but those that were, like `train`."""
    pending = [
      cell
      for cell in cells
      if not any(
        (cell.folder / EVALUATION_FOLDER).glob(f"run.*.{split}.*.trec")
      )
    ]
    self._run("ctd_jax.evaluate", pending, [split])

  def _run(
    self, module: str, cells: Sequence[GridCell], splits: Sequence[str]
  ) -> None:
    commands = [self.make_command(module, cell, splits) for cell in cells]
    run_commands(cells, commands, self.jobs)


def run_commands(
  cells: Sequence[GridCell], commands: Sequence[Sequence[str]], jobs: int
) -> None:
  """Runs the command of each cell, `jobs` at a time on shares of the cores.

  Raises:
    ValueError: if runs failed, after all others have ended; the message names
      them.
  """
  cores = sorted(os.sched_getaffinity(0))
  # With more jobs than cores some shares are empty: they get all cores.
  core_shares = [cores[job::jobs] or cores for job in range(jobs)]
  bar = output.Progress(total=len(cells), unit="run", desc="grid")

  def run_command(cell: GridCell, command: Sequence[str]) -> int:
    core_share = core_shares.pop()
    cell.folder.mkdir(parents=True, exist_ok=True)
    with (cell.folder / "log.txt").open("a") as log:
      process = subprocess.Popen(command, stdout=log, stderr=log)
      # Otherwise each run starts as many threads as the machine has cores.
      os.sched_setaffinity(process.pid, core_share)
      code = process.wait()
    core_shares.append(core_share)
    bar.update()
    logging.info("%s: exit %d", cell.folder, code)
    return code

  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    codes = list(pool.map(run_command, cells, commands))
  bar.close()
  logs = [
    cell.folder / "log.txt"
    for cell, code in zip(cells, codes, strict=True)
    if code
  ]
  if logs:
    lines = "\n".join(f"  {log}: {_last_line(log)}" for log in logs)
    raise ValueError(
      f"{len(logs)} of {len(cells)} runs failed; the others are kept:\n{lines}"
    )


def _last_line(path: pathlib.Path) -> str:
  """Returns the last error of a log, or else its last line."""
  lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
  errors = [line for line in lines if line.startswith("error: ")]
  return (errors or lines or ["nothing printed"])[-1]


def read_runs(
  cells: Sequence[GridCell],
  benchmark: Benchmark,
  split: str,
  modes: Sequence[str] = summary.REPORT_MODES,
) -> dict[str, dict[str, list[protocol.PerQueryScores]]]:
  """Returns system -> mode -> values of every query, a table for each seed.

  The tables name the method, not the config: sizes may have been changed.

  Args:
    cells: finished runs.
    benchmark: benchmark that they were run on.
    split: split of the queries.
    modes: modes of the protocol.
  """
  kinds = {record.record_id: record.kind for record in benchmark.records}
  seed_tables: dict[str, dict[str, list[protocol.PerQueryScores]]] = {}
  for cell in cells:
    for name in modes:
      mode = protocol.get_mode(name)
      (path,) = (cell.folder / EVALUATION_FOLDER).glob(
        f"run.*.{split}.{mode.gallery}.trec"
      )
      table = protocol.evaluate_run(
        runs.read_run(path), benchmark.queries[split], kinds, mode
      )
      seed_tables.setdefault(cell.system, {}).setdefault(name, []).append(
        dataclasses.replace(table, system=cell.system)
      )
  return seed_tables


def summarise_grid(
  cells: Sequence[GridCell],
  benchmark: Benchmark,
  split: str,
  folder: pathlib.Path,
) -> str:
  """Returns the tables; writes results.txt, results.json, comparisons.tsv.

  Args:
    cells: finished runs.
    benchmark: benchmark that they were run on.
    split: split of the queries.
    folder: folder for the files; its name is the group of the comparisons.
  """
  seed_tables = read_runs(cells, benchmark, split)
  mean_tables = {
    system: {
      mode: protocol.average_seeds(tables) for mode, tables in modes.items()
    }
    for system, modes in seed_tables.items()
  }
  years = significance.find_query_years(benchmark, split)
  rows = []
  for system, by_mode in mean_tables.items():
    system_cells = [cell for cell in cells if cell.system == system]
    origins = [
      next(iter(summary.read_run_origin(c.folder / EVALUATION_FOLDER).values()))
      for c in system_cells
    ]
    row_fields = {
      "seeds": tuple(cell.seed for cell in system_cells),
      "command": files.command_line(),
      "commit": origins[0]["commit"],
      "seconds": round(sum(origin["seconds"] for origin in origins), 1),
    }
    for table in by_mode.values():
      rows += results.make_result_rows(
        table, benchmark.name, years, **row_fields
      )
  results.write_result_rows(folder / "results.json", rows)
  tests_by_mode = _compare_systems(mean_tables, years)
  test_rows = []
  for mode, tests in tests_by_mode.items():
    test_rows += results.make_comparison_rows(
      tests,
      folder.name,
      benchmark.name,
      split,
      mode,
      commit=files.code_commit(),
    )
  results.write_comparison_rows(folder / results.COMPARISON_FILE, test_rows)
  overall_rows = results.select_rows(rows, family="all")
  text = "\n".join(
    [
      result_tables.format_table(overall_rows, intervals=True),
      _format_seeds(seed_tables),
      "\n".join(_format_tests(*item) for item in tests_by_mode.items()),
    ]
  )
  files.write_text(folder / "results.txt", text)
  return text


def find_rivals(system: str, systems: Sequence[str]) -> list[str]:
  """Returns the systems of the grid that one is compared with.

  A variant is compared with the method itself, and like the method with its
  `RIVALS`, in the same variant.
  """
  # Behind a comma are the values that a grid varies.
  method, comma, values = system.partition(",")
  name, _, variant = method.partition("-")
  rivals = [name] if variant else []
  for base in RIVALS.get(name, ()):
    rivals.append(f"{base}-{variant}" if variant else base)
  rivals = [f"{rival}{comma}{values}" for rival in rivals]
  return [rival for rival in rivals if rival in systems]


def _compare_systems(
  mean_tables: Mapping[str, Mapping[str, protocol.PerQueryScores]],
  years: Mapping[str, tuple[int, int]],
) -> dict[str, list[significance.SystemComparison]]:
  """Returns mode -> paired tests of each system against its rivals."""
  pairs = [
    (mean_tables[system], mean_tables[rival])
    for system in mean_tables
    for rival in find_rivals(system, list(mean_tables))
  ]
  return {
    mode: significance.compare_system_pairs(
      [(a[mode], b[mode]) for a, b in pairs], years
    )
    for mode in (summary.REPORT_MODES if pairs else ())
  }


def _format_seeds(seed_tables: SeedTables) -> str:
  """Returns hit@1 of every run, a line for each system and mode."""
  width = max(map(len, seed_tables))
  lines = []
  for mode in summary.REPORT_MODES:
    lines.append(f"{MEASURE}; {protocol.mode_title(mode)}; run by run\n")
    for system, by_mode in seed_tables.items():
      values = [f"{t.mean_of_family(MEASURE):.4f}" for t in by_mode[mode]]
      lines.append(f"  {system:<{width}}  {'  '.join(values)}\n")
  return "".join(lines)


def _format_tests(
  mode: str, tests: Sequence[significance.SystemComparison]
) -> str:
  """Returns the paired tests of a mode, a line each."""
  labels = [f"{test.system} - {test.other_system}" for test in tests]
  width = max(map(len, labels))
  title = protocol.mode_title(mode)
  lines = [f"{MEASURE}; {title}; paired randomisation over queries\n"]
  for label, test in zip(labels, tests, strict=True):
    lines.append(f"  {label:<{width}}  {test}\n")
  return "".join(lines)


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
  """Returns the values of each field as they were typed.

  Args:
    texts: values of --grid, each FIELD=VALUE,VALUE.

  Raises:
    ValueError: if there is no value or a field comes twice; the message names
      the flag.
  """
  values_by_field: dict[str, list[str]] = {}
  for text in texts:
    field, _, values = text.partition("=")
    field = field.strip().removeprefix("config.")
    values = [value.strip() for value in _VALUE.findall(values)]
    if not field or not values or not all(values):
      raise ValueError(
        f"--grid={text}: expected FIELD=VALUE,VALUE, e.g. "
        "--grid=optimizer.learning_rate=1e-4,3e-4"
      )
    if field in values_by_field:
      raise ValueError(f"--grid={text}: {field} is given twice")
    values_by_field[field] = values
  return values_by_field


def read_values(
  values_by_field: Mapping[str, Sequence[str]],
  config: str,
  overrides: Sequence[str],
) -> dict[str, list[str]]:
  """Returns the values of each field as in the config: 1e-4 becomes 0.0001.

  Args:
    values_by_field: see `parse_grid`.
    config: value of --config.
    overrides: --config.FIELD=VALUE arguments of every run.

  Raises:
    ValueError: if there is no such field, it cannot be swept, or a value is not
      of its type or there twice; the message names field or value.
  """
  base = command_line.read_config(config, overrides)
  names = training_config.field_names(base)
  read: dict[str, list[str]] = {}
  for field, texts in values_by_field.items():
    if field in _SHARED_FIELDS:
      raise ValueError(f"--grid={field}=...: {_SHARED_FIELDS[field]}")
    if field not in names:
      hint = registry.explain_field(base, field)
      raise ValueError(
        f"--grid={field}=...: the config has no such field"
        + hint.replace("--config.", "--grid=")
      )
    read[field] = []
    for text in texts:
      override = f"--config.{field}={text}"
      try:
        swept = command_line.read_config(config, [*overrides, override])
      except ValueError as error:
        raise ValueError(f"--grid={field}={text}: {error}") from None
      value = str(training_config.get_field(swept, field))
      if value in read[field]:
        raise ValueError(f"--grid={field}={','.join(texts)}: {value} twice")
      read[field].append(value)
  return read


def check_task(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if a config is not of retrieval."""
  task = config.get("task", training_run.RETRIEVAL)
  if task != training_run.RETRIEVAL:
    raise ValueError(
      f"config.task={task!r}: runs of {training_run.RETRIEVAL} alone are "
      "compared"
    )


class SweepScore(NamedTuple):
  """Validation of a system of the sweep."""

  cells: tuple[GridCell, ...]  # its runs, one for each seed
  # Mode -> `MEASURE` of each run, in the order of the cells. The first mode
  # chooses.
  values: Mapping[str, Sequence[float]]

  def list_means(self) -> list[float]:
    """Returns the mean over the seeds in each mode."""
    return [sum(values) / len(values) for values in self.values.values()]


def run_sweep(
  grid: Grid, benchmark: Benchmark, mode: str, split: str | None
) -> None:
  """Compares trained cells; asks the test queries of the best; prints tables.

  Written into the workdir: `SWEEP_FILE`, and of the test what `summarise_grid`
  writes. A system with a run that is not finished is left out.

  Args:
    grid: the runs.
    benchmark: benchmark that they were run on.
    mode: mode of the protocol that chooses.
    split: "test" = ask the test queries of all, "validation" = of none, None =
      of the best.

  Raises:
    ValueError: if no system is finished, or an evaluation failed.
  """
  left_out = {cell.system for cell in grid.cells if not cell.is_finished}
  finished = [cell for cell in grid.cells if cell.system not in left_out]
  if not finished:
    raise ValueError(f"{grid.workdir}: no run of the sweep is finished")
  grid.evaluate(finished, "validation")
  scores = _score_systems(finished, benchmark, mode)
  best: dict[str, SweepScore] = {}
  for score in scores:  # best first
    best.setdefault(score.cells[0].method, score)
  files.write_text(grid.workdir / SWEEP_FILE, _format_sweep_file(scores))
  unfinished = [cell for cell in grid.cells if cell.system in left_out]
  num_queries = len(benchmark.queries["validation"])
  title = (
    f"{benchmark.name}, {num_queries:,} validation queries; means over seeds; "
    f"the first {MEASURE} chooses"
  )
  print(_format_sweep(title, scores, list(best.values()), unfinished))
  tested = [cell for score in best.values() for cell in score.cells]
  if split is not None:
    tested = finished if split == "test" else []
  if tested:
    grid.evaluate(tested, "test")
    print(summarise_grid(tested, benchmark, "test", grid.workdir))
    print(f"tables       {grid.workdir / 'results.txt'}, results.json")
  print(f"all runs     {grid.workdir / SWEEP_FILE}")


def _score_systems(
  cells: Sequence[GridCell], benchmark: Benchmark, mode: str
) -> list[SweepScore]:
  """Returns the validation of every system, best first."""
  # Of equal ones that of the earlier cells is first.
  modes = tuple(dict.fromkeys((mode, *summary.REPORT_MODES)))
  seed_tables = read_runs(cells, benchmark, "validation", modes)
  scores = [
    SweepScore(
      tuple(cell for cell in cells if cell.system == system),
      {
        name: [table.mean_of_family(MEASURE) for table in by_mode[name]]
        for name in modes
      },
    )
    for system, by_mode in seed_tables.items()
  ]
  return sorted(scores, key=lambda score: -score.list_means()[0])


def _format_sweep(
  title: str,
  scores: Sequence[SweepScore],
  best: Sequence[SweepScore],
  unfinished: Sequence[GridCell],
) -> str:
  """Returns the table of all systems, the best of each method marked."""
  modes = list(scores[0].values)
  header = ["method", *(field for field, _ in scores[0].cells[0].values)]
  header += [f"{MEASURE}; {protocol.mode_title(mode)}" for mode in modes]
  header += ["runs", ""]
  lines = []
  for score in scores:
    figures = [f"{mean:.4f}" for mean in score.list_means()]
    note = "best" if score in best else ""
    lines.append((score.cells[0], figures, len(score.cells), note))
  for cell in {cell.system: cell for cell in unfinished}.values():
    lines.append((cell, ["–"] * len(modes), 0, "not finished"))
  rows = [
    [cell.method, *(value for _, value in cell.values), *figures, number, note]
    for cell, figures, number, note in lines
  ]
  if not any(score.cells[0].method for score in scores):
    header, rows = header[1:], [row[1:] for row in rows]
  return output.format_table(title, header, rows)


def _format_sweep_file(scores: Sequence[SweepScore]) -> str:
  """Returns method, values, seed and validation of every run as TSV."""
  modes = list(scores[0].values)
  fields = [field for field, _ in scores[0].cells[0].values]
  measures = [f"{MEASURE}.{mode}" for mode in modes]
  rows = []
  for score in scores:
    for i, cell in enumerate(score.cells):
      figures = [f"{score.values[mode][i]:.6g}" for mode in modes]
      rows.append(
        [
          cell.method,
          *(value for _, value in cell.values),
          cell.seed,
          *figures,
          cell.folder,
        ]
      )
  return output.format_delimited(
    ["method", *fields, "seed", *measures, "folder"], rows
  )
