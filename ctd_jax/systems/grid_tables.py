"""Tables of a grid of methods and seeds.

The run files of a method are averaged over its seeds, query by query. The
tables show intervals from resampled years; below them, each method is compared
with its rivals, and each variant with the method itself, paired over queries
and over whole years, with Holm's correction over all pairs of a mode.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.evaluation import (
  comparison,
  comparison_rows,
  protocol,
  result_tables,
  results,
  summary,
)
from ctd_jax.training.grid import GridCell
from ctd_jax.training.run_folder import EVALUATION_FOLDER
from ctd_jax.utils import files, provenance

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


def read_runs(
  cells: Sequence[GridCell],
  benchmark: Benchmark,
  split: str,
  modes: Sequence[str] = summary.REPORT_MODES,
) -> dict[str, dict[str, list[protocol.PerQueryScores]]]:
  """Returns method -> mode -> values of every query, a table for each seed.

  The tables name the method, not the config: sizes may have been changed.

  Args:
    cells: finished runs.
    benchmark: what they were run on.
    split: whose queries.
    modes: of the protocol.
  """
  kinds = {record.record_id: record.kind for record in benchmark.records}
  tables_by_method: dict[str, dict[str, list[protocol.PerQueryScores]]] = {}
  for cell in cells:
    for name in modes:
      mode = protocol.get_mode(name)
      folder = cell.folder / EVALUATION_FOLDER
      (path,) = folder.glob(f"run.*.{split}.{mode.gallery}.trec")
      table = protocol.evaluate_run(
        runs.read_run(path), benchmark.queries[split], kinds, mode
      )
      by_mode = tables_by_method.setdefault(cell.system, {})
      by_mode.setdefault(name, []).append(
        dataclasses.replace(table, system=cell.system)
      )
  return tables_by_method


def find_rivals(method: str, methods: Sequence[str]) -> list[str]:
  """Returns the methods of the grid that a method is compared with.

  A variant is compared with the method itself, and like the method with its
  `RIVALS`, in the same variant.
  """
  # Behind a comma are the values that a grid varies.
  method, comma, values = method.partition(",")
  name, _, variant = method.partition("-")
  rivals = [name] if variant else []
  for base in RIVALS.get(name, ()):
    rivals.append(f"{base}-{variant}" if variant else base)
  rivals = [f"{rival}{comma}{values}" for rival in rivals]
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


def compare_methods(
  tables_by_method: Mapping[str, Mapping[str, protocol.PerQueryScores]],
  years: Mapping[str, tuple[int, int]],
) -> dict[str, list[comparison.SystemComparison]]:
  """Returns mode -> paired tests of each method against its rivals."""
  pairs = [
    (method, rival)
    for method in tables_by_method
    for rival in find_rivals(method, list(tables_by_method))
  ]
  return {
    mode: comparison.compare_system_pairs(
      [
        (tables_by_method[a][mode], tables_by_method[b][mode]) for a, b in pairs
      ],
      years,
    )
    for mode in (summary.REPORT_MODES if pairs else ())
  }


def format_comparisons(
  tests_by_mode: Mapping[str, Sequence[comparison.SystemComparison]],
) -> str:
  """Returns the paired tests of `compare_methods` as text."""
  blocks = []
  for mode, paired_tests in tests_by_mode.items():
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
  """Returns the tables; writes results.txt, results.json, comparisons.tsv.

  Args:
    cells: finished runs.
    benchmark: what they were run on.
    split: whose queries.
    folder: for the files; its name is the group of the comparisons.
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
    method_cells = [cell for cell in cells if cell.system == method]
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
  tests_by_mode = compare_methods(mean_tables, years)
  comparison_rows.write_comparison_rows(
    folder / comparison_rows.COMPARISON_FILE,
    [
      row
      for mode, paired_tests in tests_by_mode.items()
      for row in comparison_rows.make_comparison_rows(
        paired_tests,
        folder.name,
        benchmark.name,
        split,
        mode,
        commit=provenance.code_commit(),
      )
    ],
  )
  comparisons = format_comparisons(tests_by_mode)
  text = f"{tables}\n{format_seed_tables(run_tables)}\n{comparisons}"
  files.write_text(folder / "results.txt", text)
  return text
