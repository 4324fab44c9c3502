"""Sweep over values of fields: checked, trained, chosen by validation.

The cells of a method that differ in their values are compared on the validation
queries, in the mode that selects checkpoints. The test queries are asked of the
best cell of each method alone: who looks at all of them has chosen by the test.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
import re
from collections.abc import Mapping, Sequence

import ml_collections

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.evaluation import summary
from ctd_jax.systems import (
  evaluation_run,
  grid_tables,
  registry,
  training_run,
)
from ctd_jax.training import config as training_config
from ctd_jax.training import grid
from ctd_jax.training.grid import GridCell
from ctd_jax.utils import command_line, files
from ctd_jax.utils import tables as table_layout

SWEEP_FILE = "sweep.tsv"  # a line for every run
MEASURE = "hit@1"  # chooses, as it selects checkpoints
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


@dataclasses.dataclass(frozen=True)
class SweepScore:
  """Validation of a system of the sweep.

  Attributes:
    cells: its runs, one for each seed.
    values: mode -> `MEASURE` of each run, in the order of the cells.
    mode: that chooses.
  """

  cells: tuple[GridCell, ...]
  values: Mapping[str, Sequence[float]]
  mode: str

  @property
  def choice(self) -> float:
    """The mean over the seeds by which the best is chosen."""
    return self.mean(self.mode)

  def mean(self, mode: str) -> float:
    """Returns the mean over the seeds."""
    return sum(self.values[mode]) / len(self.values[mode])


def run_sweep(
  cells: Sequence[GridCell],
  path: str,
  overrides: Sequence[str],
  benchmark: Benchmark,
  *,
  mode: str,
  jobs: int,
  workdir: pathlib.Path,
  split: str | None = None,
) -> None:
  """Compares trained cells; asks the test queries of the best; prints tables.

  Written into the workdir: `SWEEP_FILE`, and of the test what
  `grid_tables.summarise_grid` writes.

  Args:
    cells: of the grid. A system with a run that is not finished is left out.
    path: of the config, without a method.
    overrides: --config.FIELD=VALUE arguments of every run.
    benchmark: what they were run on.
    mode: of the protocol, that chooses.
    jobs: evaluations at a time.
    workdir: of the sweep.
    split: "test" = ask the test queries of all, "validation" = of none.

  Raises:
    ValueError: if no system is finished, or an evaluation failed.
  """
  left_out = {cell.system for cell in cells if not cell.is_finished}
  finished = [cell for cell in cells if cell.system not in left_out]
  if not finished:
    raise ValueError(f"{workdir}: no run of the sweep is finished")
  grid.evaluate_cells(finished, path, overrides, jobs, "validation")
  scores = score_systems(finished, benchmark, mode)
  write_sweep(scores, workdir)
  unfinished = [cell for cell in cells if cell.system in left_out]
  print(format_sweep(scores, unfinished, benchmark))
  tested = [cell for score in choose_best(scores) for cell in score.cells]
  if split is not None:
    tested = finished if split == "test" else []
  if tested:
    grid.evaluate_cells(tested, path, overrides, jobs, "test")
    print(grid_tables.summarise_grid(tested, benchmark, "test", workdir))
    print(f"tables       {workdir / 'results.txt'}, results.json")
  print(f"all runs     {workdir / SWEEP_FILE}")


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
  """Returns field -> values as they were typed.

  Args:
    texts: values of --grid, FIELD=VALUE,VALUE each.

  Raises:
    ValueError: naming the flag, if there is no value or a field comes twice.
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
      raise ValueError(f"--grid={text}: {field} is there already")
    values_by_field[field] = values
  return values_by_field


def read_values(
  values_by_field: Mapping[str, Sequence[str]],
  config: str,
  overrides: Sequence[str],
) -> dict[str, list[str]]:
  """Returns field -> values as the config has them: 1e-4 becomes 0.0001.

  Args:
    values_by_field: see `parse_grid`.
    config: value of --config.
    overrides: --config.FIELD=VALUE arguments of every run.

  Raises:
    ValueError: naming field or value, if there is no such field, it cannot be
      swept, or a value is not of its type or there twice.
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


def check_cells(
  cells: Sequence[GridCell], path: str, overrides: Sequence[str]
) -> None:
  """Refuses a cell that could not be trained, before any is.

  Args:
    cells: of the grid.
    path: of the config, without a method.
    overrides: --config.FIELD=VALUE arguments of every run.

  Raises:
    ValueError: naming the cell, the field and what is expected.
  """
  for cell in cells:
    config = grid.join_method(path, cell.method)
    try:
      cell_config = command_line.read_config(
        config, [*overrides, *cell.list_overrides()]
      )
      training_config.validate(cell_config)
      evaluation_run.validate_evaluation(cell_config)
    except ValueError as error:
      raise ValueError(f"{cell.system or config}: {error}") from None


def score_systems(
  cells: Sequence[GridCell], benchmark: Benchmark, mode: str
) -> list[SweepScore]:
  """Returns the validation of every system, best first.

  Of equal ones that of the earlier cells is first.

  Args:
    cells: finished ones, all seeds of a system.
    benchmark: what they were run on.
    mode: that chooses.
  """
  modes = tuple(dict.fromkeys((mode, *summary.REPORT_MODES)))
  tables = grid_tables.read_runs(cells, benchmark, "validation", modes)
  scores = [
    SweepScore(
      tuple(cell for cell in cells if cell.system == system),
      {
        name: [table.mean_of_family(MEASURE) for table in tables_of_mode]
        for name, tables_of_mode in by_mode.items()
      },
      mode,
    )
    for system, by_mode in tables.items()
  ]
  return sorted(scores, key=lambda score: -score.choice)


def choose_best(scores: Sequence[SweepScore]) -> list[SweepScore]:
  """Returns the best system of each method.

  Args:
    scores: best first.
  """
  best: dict[str, SweepScore] = {}
  for score in scores:
    best.setdefault(score.cells[0].method, score)
  return list(best.values())


def format_sweep(
  scores: Sequence[SweepScore],
  unfinished: Sequence[GridCell],
  benchmark: Benchmark,
) -> str:
  """Returns the table of all systems, the best of each method marked.

  Args:
    scores: best first.
    unfinished: cells that are left out with all seeds of their systems.
    benchmark: what they were run on.
  """
  best = choose_best(scores)
  modes = list(scores[0].values)
  fields = [field for field, _ in scores[0].cells[0].values]
  has_methods = any(score.cells[0].method for score in scores)
  header = [*(["method"] if has_methods else []), *fields]
  header += [f"{MEASURE}, {mode}" for mode in modes] + ["runs", ""]
  body = []
  for score in scores:
    cell = score.cells[0]
    body.append(
      [
        *([cell.method] if has_methods else []),
        *(value for _, value in cell.values),
        *(f"{score.mean(mode):.4f}" for mode in modes),
        str(len(score.cells)),
        "best" if score in best else "",
      ]
    )
  systems = dict.fromkeys((cell.method, cell.values) for cell in unfinished)
  for method, values in systems:
    body.append(
      [
        *([method] if has_methods else []),
        *(value for _, value in values),
        *("–" for _ in modes),
        "0",
        "not finished",
      ]
    )
  num_queries = len(benchmark.queries["validation"])
  title = (
    f"{benchmark.name}, {num_queries:,} validation queries; means over seeds; "
    f"the first {MEASURE} chooses"
  )
  return table_layout.format_table(title, header, body)


def write_sweep(scores: Sequence[SweepScore], folder: pathlib.Path) -> None:
  """Writes `SWEEP_FILE`: method, values, seed and validation of every run.

  Args:
    scores: best first.
    folder: of the sweep.
  """
  modes = list(scores[0].values)
  fields = [field for field, _ in scores[0].cells[0].values]
  buffer = io.StringIO()
  writer = csv.writer(buffer, delimiter="\t", lineterminator="\n")
  measures = [f"{MEASURE}.{mode}" for mode in modes]
  writer.writerow(["method", *fields, "seed", *measures, "folder"])
  for score in scores:
    for i, cell in enumerate(score.cells):
      figures = [f"{score.values[mode][i]:.6g}" for mode in modes]
      values = [value for _, value in cell.values]
      writer.writerow([cell.method, *values, cell.seed, *figures, cell.folder])
  files.write_text(folder / SWEEP_FILE, buffer.getvalue())
